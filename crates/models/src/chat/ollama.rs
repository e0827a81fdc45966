//! An Ollama server on this machine.

use super::compatible;
use crate::provider::{ProviderInfo, Requirement, never};

/// An Ollama server on this machine.
pub(crate) static PROVIDER: ProviderInfo = ProviderInfo {
    id: "ollama",
    name: "Ollama",
    requires: Requirement::LocalServer,
    key: None,
    login: None,
    default_base: Some("http://127.0.0.1:11434/v1"),
    base_variable: Some("GLADHAND_OLLAMA_BASE"),
    model_variable: None,
    is_of_loaf: false,
    has_routing: false,
    is_probable: never,
    missing: "this provider is not configured",
    connect: |connection| compatible::connect(&PROVIDER, connection),
};
