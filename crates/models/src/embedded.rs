//! The model that is embedded in the program. Its client is created by the program, not here.

use crate::provider::{ProviderInfo, Requirement, never};
use crate::web::failed;

/// The model that is embedded in this program.
pub(crate) static PROVIDER: ProviderInfo = ProviderInfo {
    id: "local",
    name: "the local model",
    requires: Requirement::EmbeddedModel,
    key: None,
    login: None,
    default_base: None,
    base_variable: None,
    model_variable: None,
    is_of_loaf: false,
    has_routing: false,
    is_probable: never,
    missing: "this provider is not configured",
    connect: |connection| connection.embedded.ok_or_else(|| failed(PROVIDER.missing)),
};
