//! The HTTP headers of our requests, and the data of a list of tools that they need.

use gladhand_core::operations::{Reply, TaskSupport, Tool};
use gladhand_core::wire::json::{self, RawValue};
use gladhand_core::wire::rpc::Envelope;

use super::McpClient;
use crate::mcp::http::{
    HeaderParam, METHOD_HEADER, NAME_HEADER, VERSION_HEADER, encode_header_value, header_params, named_by,
};
use crate::mcp::revision::Revision;
use crate::side::{Lane, Posting, PostingEffect};

/// The special requirements for calling a tool.
#[derive(Debug, Default)]
pub(super) struct ToolRequirements {
    /// The arguments that are mirrored in headers.
    params: Vec<HeaderParam>,
    /// Whether the tool only runs as a task.
    pub(super) only_as_task: bool,
}

impl McpClient {
    /// Stores the requirements of listed tools. Removes tools that cannot be called on this transport.
    pub(super) fn store_requirements(&mut self, reply: Reply) -> Reply {
        let Reply::Tools(tools) = reply else { return reply };
        let mirrors = self.exchanges && self.spoken().is_stateless();
        self.requirements.clear();
        let mut is_complete = true;
        for tool in tools.iter() {
            match requirements(tool, mirrors) {
                Some(requirements) if requirements.only_as_task || !requirements.params.is_empty() => {
                    self.requirements.insert(tool.name.clone(), requirements);
                }
                Some(_) => {}
                None => is_complete = false,
            }
        }
        if is_complete {
            return Reply::Tools(tools);
        }
        Reply::Tools(tools.iter().filter(|tool| requirements(tool, mirrors).is_some()).cloned().collect())
    }

    /// How to post a line of ours.
    pub(super) fn posting_of(&self, line: &str) -> Posting {
        posting(line, self.spoken(), self.in_force().is_some(), |tool, arguments, headers| {
            let params = self.requirements.get(tool).map_or(&[][..], |requirements| &requirements.params);
            headers.extend(params.iter().filter_map(|param| Some((param.header.clone(), param.value(arguments)?))));
        })
    }
}

/// How to post a line of a client in a revision. `mirror` adds the headers for the arguments of a tool.
pub(in crate::mcp) fn posting(
    line: &str,
    revision: Revision,
    is_open: bool,
    mirror: impl Fn(&str, &RawValue, &mut Vec<(String, String)>),
) -> Posting {
    let mut headers = Vec::new();
    if revision.is_stateless() || (is_open && revision.has_version_header()) {
        headers.push((VERSION_HEADER.to_owned(), revision.as_str().to_owned()));
    }
    let (mut exchange, mut effect) = (None, PostingEffect::None);
    if let Ok(envelope) = Envelope::picking(line, ["name", "uri", "taskId", "arguments"])
        && let Some(method) = envelope.method_name()
    {
        exchange = envelope.id.and_then(|id| id.get().parse().ok()).map(Lane);
        effect = match method.as_ref() {
            "initialize" => PostingEffect::Opens,
            "notifications/initialized" => PostingEffect::HasOpened,
            "notifications/roots/list_changed" => PostingEffect::RootsChanged,
            "notifications/cancelled" => PostingEffect::Cancels,
            _ => PostingEffect::None,
        };
        if revision.is_stateless() {
            let params = envelope.params.map_or([None; 4], |params| params.members);
            mirror_params(&method, params, &mut headers, mirror);
        }
    }
    Posting { headers, exchange, effect }
}

/// The headers that mirror the method of a request and some of its parameters, in the stateless era.
fn mirror_params(
    method: &str,
    params: [Option<&RawValue>; 4],
    headers: &mut Vec<(String, String)>,
    mirror: impl Fn(&str, &RawValue, &mut Vec<(String, String)>),
) {
    headers.push((METHOD_HEADER.to_owned(), method.to_owned()));
    let [name, uri, task, arguments] = params;
    let named = match named_by(method) {
        Some("name") => name,
        Some("uri") => uri,
        Some(_) => task,
        None => None,
    };
    let Some(named) = named.and_then(json::string) else { return };
    headers.push((NAME_HEADER.to_owned(), encode_header_value(&named).into_owned()));
    if let (Some(arguments), "tools/call") = (arguments, method) {
        mirror(&named, arguments, headers);
    }
}

/// The requirements of a tool. `None` if it violates the rules for headers, where they apply.
fn requirements(tool: &Tool, mirrors: bool) -> Option<ToolRequirements> {
    let params = if mirrors { header_params(&tool.input_schema).ok()? } else { Vec::new() };
    Some(ToolRequirements { params, only_as_task: tool.tasks == TaskSupport::Required })
}
