//! The HTTP headers of our requests, and the data of a list of tools that they need.

use gladhand_core::operations::{Reply, TaskSupport, Tool};
use gladhand_core::wire::json;
use gladhand_core::wire::rpc::Envelope;

use super::McpClient;
use crate::mcp::http::{
    HeaderParam, METHOD_HEADER, NAME_HEADER, VERSION_HEADER, encode_header_value, header_params, named_by,
};
use crate::mcp::revision::Revision;

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

    pub(super) fn headers_of(&self, line: &str) -> Vec<(String, String)> {
        let revision = self.spoken();
        let mut headers = Vec::new();
        if revision.is_stateless() || (self.in_force().is_some() && revision >= Revision::V2025_06_18) {
            headers.push((VERSION_HEADER.to_owned(), revision.as_str().to_owned()));
        }
        let Ok(envelope) = Envelope::picking(line, ["name", "uri", "taskId", "arguments"]) else { return headers };
        let Some(method) = envelope.method_name().filter(|_| revision.is_stateless()) else { return headers };
        headers.push((METHOD_HEADER.to_owned(), method.clone().into_owned()));
        let [name, uri, task, arguments] = envelope.params.map_or([None; 4], |params| params.members);
        let named = match named_by(&method) {
            Some("name") => name,
            Some("uri") => uri,
            Some(_) => task,
            None => None,
        };
        let Some(named) = named.and_then(json::string) else { return headers };
        headers.push((NAME_HEADER.to_owned(), encode_header_value(&named).into_owned()));
        let requirements = self.requirements.get(named.as_ref()).filter(|_| method == "tools/call");
        if let (Some(requirements), Some(arguments)) = (requirements, arguments) {
            let mirrored = |param: &HeaderParam| Some((param.header.clone(), param.value(arguments)?));
            headers.extend(requirements.params.iter().filter_map(mirrored));
        }
        headers
    }
}

/// The requirements of a tool. `None` if it violates the rules for headers, where they apply.
fn requirements(tool: &Tool, mirrors: bool) -> Option<ToolRequirements> {
    let params = if mirrors { header_params(&tool.input_schema).ok()? } else { Vec::new() };
    Some(ToolRequirements { params, only_as_task: tool.tasks == TaskSupport::Required })
}
