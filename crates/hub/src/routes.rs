//! Names to providers.

use std::collections::HashMap;
use std::sync::Arc;

use gladhand_accord::Agreement;
use gladhand_operations::{Call, Failure, Notice, Operation, Reply, Tool};
use tokio::sync::mpsc::Sender;

use crate::provider::{Answer, Context, Provider};

/// Finds who answers a call.
#[derive(Debug)]
pub struct Hub {
    providers: Vec<Box<dyn Provider>>,
    tools: Arc<[Tool]>,
    /// Tool name to index in `providers`.
    routes: HashMap<String, usize>,
}

/// Why a hub cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubError {
    /// Two providers have a tool of the same name.
    DuplicateTool {
        /// The name.
        name: String,
    },
}

impl std::fmt::Display for HubError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DuplicateTool { name } => write!(f, "two providers have a tool named `{name}`"),
        }
    }
}

impl std::error::Error for HubError {}

impl Hub {
    /// A hub in front of these providers; their tools are shown in this order.
    pub fn new(providers: Vec<Box<dyn Provider>>) -> Result<Self, HubError> {
        let mut tools = Vec::new();
        let mut routes = HashMap::new();
        for (index, provider) in providers.iter().enumerate() {
            for tool in provider.tools() {
                if routes.insert(tool.name.clone(), index).is_some() {
                    return Err(HubError::DuplicateTool { name: tool.name });
                }
                tools.push(tool);
            }
        }
        Ok(Self { providers, tools: tools.into(), routes })
    }

    /// Answers a call, now or later.
    pub fn answer(&self, call: Call<'_>, agreement: &Arc<Agreement>, notices: &Sender<Notice>) -> Answer {
        match call.operation {
            Operation::ListTools => Answer::Now(Ok(Reply::Tools(self.tools.clone()))),
            Operation::CallTool(tool) => match self.routes.get(tool.name.as_ref()) {
                Some(&provider) => self.providers[provider].call(tool, &Context { call: call.id, agreement, notices }),
                None => Answer::Now(Err(Failure::unknown_tool(&tool.name))),
            },
        }
    }

    /// All tools, in a fixed order.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_operations::{ToolCall, ToolResult};
    use gladhand_wire::json;

    #[derive(Debug)]
    struct Named(&'static [&'static str]);

    impl Provider for Named {
        fn tools(&self) -> Vec<Tool> {
            self.0.iter().map(|name| Tool::new(*name, "", json::raw(r#"{"type":"object"}"#.to_owned()))).collect()
        }

        fn call(&self, call: ToolCall<'_>, _: &Context<'_>) -> Answer {
            Answer::Now(Ok(Reply::Tool(ToolResult::text(&format!("{} of {:?}", call.name, self.0)))))
        }
    }

    #[test]
    fn two_tools_of_one_name_are_refused() {
        let error = Hub::new(vec![Box::new(Named(&["a", "b"])), Box::new(Named(&["b"]))]).unwrap_err();
        assert_eq!(error, HubError::DuplicateTool { name: "b".to_owned() });
    }

    #[test]
    fn tools_keep_the_order_of_their_providers() {
        let hub = Hub::new(vec![Box::new(Named(&["z", "b"])), Box::new(Named(&["a"]))]).unwrap();
        assert_eq!(hub.tools().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["z", "b", "a"]);
    }
}
