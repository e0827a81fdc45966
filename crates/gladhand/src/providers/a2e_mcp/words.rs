//! The features and states of MCP servers, in the terms of A2E (a2e §17.1).

use gladhand_core::operations::{Contents, Failure, FailureKind, Prompt, Resource};
use gladhand_core::wire::{Members, RawValue, values};
use serde::Serialize;
use serde_json::{Value, json};

/// A server and how it stands.
#[derive(Debug, Default, Serialize)]
pub(super) struct ServerInfo {
    pub(super) server_id: String,
    pub(super) name: String,
    pub(super) transport: String,
    pub(super) status: &'static str,
    pub(super) mcp_version: String,
    pub(super) server_name: String,
    pub(super) server_version: String,
    pub(super) tools_count: usize,
    pub(super) resources_count: usize,
    pub(super) prompts_count: usize,
    pub(super) last_ping_ms: f64,
    pub(super) error: String,
    pub(super) connected_at: f64,
}

/// A resource of a server.
pub(super) fn resources(server: &str, resource: &Resource) -> Value {
    let annotations = resource.extra.iter().find(|(name, _)| name == "annotations");
    let annotations = annotations.and_then(|(_, value)| parsed(value)).filter(Value::is_object);
    json!({
        "uri": resource.uri, "name": resource.name, "description": resource.description.as_deref().unwrap_or_default(),
        "mime_type": resource.mime_type.as_deref().unwrap_or_default(), "server_id": server,
        "annotations": annotations.unwrap_or_else(|| json!({})),
    })
}

/// A prompt of a server.
pub(super) fn prompts(server: &str, prompt: &Prompt) -> Value {
    let arguments = prompt.arguments.iter().map(|argument| {
        let description = argument.description.as_deref().unwrap_or_default();
        json!({"name": argument.name, "description": description, "required": argument.required})
    });
    json!({
        "name": prompt.name, "description": prompt.description.as_deref().unwrap_or_default(), "server_id": server,
        "arguments": arguments.collect::<Vec<_>>(),
    })
}

/// The contents of a resource.
pub(super) fn contents(contents: &Contents, uri: &str) -> Vec<Value> {
    let parts = contents.parts.iter().filter_map(|part| Members::of(part));
    let parts = parts.map(|part| {
        let text = |name: &str| part.str(name).map(std::borrow::Cow::into_owned);
        let blob = text("blob");
        json!({
            "uri": text("uri").unwrap_or_else(|| uri.to_owned()),
            "mime_type": text("mimeType").unwrap_or_else(|| "text/plain".to_owned()),
            "type": if blob.is_some() { "blob" } else { "text" },
            "text": text("text").unwrap_or_default(), "blob": blob.unwrap_or_default(),
        })
    });
    parts.collect()
}

/// A document, if it is neither nested too deeply nor too large to be read.
pub(super) fn parsed(raw: &RawValue) -> Option<Value> {
    values::read(raw.get()).ok()
}

/// A failure with an error code of A2E.
pub(super) fn failed(code: &'static str, message: impl Into<String>) -> Failure {
    Failure::of_capability(code, message)
}

/// No server goes by this id.
pub(super) fn unknown_server(id: &str) -> Failure {
    failed("mcp_server_not_found", format!("unknown server: {id}"))
}

/// Translates a server's failure into an error of A2E.
pub(super) fn worded(failure: Failure) -> Failure {
    let code = match failure.kind {
        FailureKind::Capability(_) => return failure,
        FailureKind::UnknownTool => "mcp_tool_not_found",
        FailureKind::UnknownResource => "mcp_resource_not_found",
        FailureKind::UnknownPrompt => "mcp_prompt_not_found",
        FailureKind::Unsupported | FailureKind::MissingCapability => "mcp_capability_missing",
        FailureKind::UpstreamLost | FailureKind::Busy | FailureKind::Stopping => "mcp_server_unavailable",
        FailureKind::Unanswered => "mcp_sampling_refused",
        FailureKind::UpstreamError
        | FailureKind::TooLong
        | FailureKind::TooMany
        | FailureKind::InvalidArguments
        | FailureKind::OnlyAsTask => "mcp_protocol_error",
        _ => "mcp_transport_error",
    };
    Failure { kind: FailureKind::Capability(code), ..failure }
}

/// Eight hexadecimal digits.
pub(super) fn hex_id() -> String {
    gladhand_system::random_hex::<4>()
}
