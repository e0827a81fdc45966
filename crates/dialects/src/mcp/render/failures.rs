//! Renders failures of calls as errors of this dialect.

use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::wire::Frames;
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::rpc::{self, code};
use gladhand_core::wire::{Id, Members};
use serde_json::json;

use super::super::errors;
use super::super::incoming_requests::RequestKind;
use super::super::revision::Revision;
use crate::side::TASKS_EXTENSION;

/// Maximum length in bytes of a URI that an error repeats in its data.
const MAX_REPEATED_BYTES: usize = 1024;

/// Whether the model could react to the failure. It is then rendered as a result for the model.
pub(super) fn is_for_the_model(kind: FailureKind, revision: Revision) -> bool {
    match kind {
        FailureKind::InvalidArguments | FailureKind::ToolFailed | FailureKind::Denied | FailureKind::Unanswered => true,
        // The capabilities of a session are fixed. Only the model can find another way.
        FailureKind::MissingCapability => revision.has_initialize(),
        _ => false,
    }
}

/// Renders a failure as an error.
pub(super) fn failed(wire: &mut Frames, id: &Id, request_kind: &RequestKind, failure: &Failure, revision: Revision) {
    let message = || failure.message.clone();
    let error = match failure.kind {
        FailureKind::UnknownTool
        | FailureKind::UnknownPrompt
        | FailureKind::UnknownSession
        | FailureKind::InvalidArguments => rpc::Error::new(code::INVALID_PARAMS, message()),
        FailureKind::UnknownResource => {
            let code =
                if revision.has_resource_not_found() { errors::RESOURCE_NOT_FOUND } else { code::INVALID_PARAMS };
            let error = rpc::Error::new(code, message());
            match request_kind.uri().filter(|uri| uri.len() <= MAX_REPEATED_BYTES) {
                Some(uri) => error.with(&json!({"uri": uri})),
                None => error,
            }
        }
        FailureKind::MissingCapability if revision.is_stateless() => {
            let capability = failure.data.as_deref().and_then(json::string);
            errors::missing_capability(&capability.unwrap_or_default(), message())
        }
        FailureKind::OnlyAsTask if revision.is_stateless() => errors::missing_capability(TASKS_EXTENSION, message()),
        FailureKind::MissingCapability
        | FailureKind::Unsupported
        | FailureKind::OnlyAsTask
        | FailureKind::NotAsTask => rpc::Error::new(code::METHOD_NOT_FOUND, message()),
        FailureKind::UpstreamError => {
            let is_known =
                |code| code != i64::from(errors::URL_ELICITATION_REQUIRED) || revision.has_url_elicitation_required();
            if let Some(error) = failure.data.as_deref().filter(|data| error_code(data).is_some_and(is_known)) {
                return rpc::raw_error(wire, id, error);
            }
            errors::internal(failure.kind.word(), message(), failure.data.as_deref())
        }
        kind => errors::internal(kind.word(), message(), None),
    };
    rpc::error(wire, Some(id), &error);
}

/// The code of a JSON-RPC error object, which is forwarded unchanged. `None` for any other data.
fn error_code(data: &RawValue) -> Option<i64> {
    let error = Members::of(data)?;
    error.raw("message").filter(|message| Kind::of(message) == Kind::String)?;
    error.raw("code")?.get().parse().ok()
}
