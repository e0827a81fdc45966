//! Names to providers.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
                Some(&provider) => {
                    let context = Context { call: call.id, agreement, notices };
                    // A provider that panics fails its call, not the session. It is shared and gets nothing by
                    // `&mut`, so there is no state of ours that it could have left half changed.
                    let answer = AssertUnwindSafe(|| self.providers[provider].call(tool, &context));
                    catch_unwind(answer).unwrap_or_else(|_| Answer::Now(Err(Failure::panicked())))
                }
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
    use gladhand_operations::call::no_arguments;
    use gladhand_operations::{CallId, FailureKind, ToolCall, ToolResult};
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

    #[derive(Debug)]
    struct Clumsy;

    impl Provider for Clumsy {
        fn tools(&self) -> Vec<Tool> {
            Named(&["stumble"]).tools()
        }

        fn call(&self, _: ToolCall<'_>, _: &Context<'_>) -> Answer {
            panic!("over its own feet")
        }
    }

    #[test]
    fn a_provider_that_panics_fails_its_call_and_nothing_else() {
        let hub = Hub::new(vec![Box::new(Clumsy), Box::new(Named(&["a"]))]).unwrap();
        let (notices, _) = tokio::sync::mpsc::channel(1);
        let agreement = Arc::new(agreement());
        let answer = |name: &'static str| {
            let operation = Operation::CallTool(ToolCall { name: name.into(), arguments: no_arguments() });
            let call = Call { id: CallId(1), operation, wants_progress: false, timeout: None };
            match hub.answer(call, &agreement, &notices) {
                Answer::Now(outcome) => outcome.map_err(|failure| failure.kind),
                Answer::Later(_) => panic!("it was to answer at once"),
            }
        };
        assert!(matches!(answer("stumble"), Err(FailureKind::Internal)));
        assert!(matches!(answer("a"), Ok(Reply::Tool(_))));
    }

    fn agreement() -> Agreement {
        use gladhand_accord::{Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
        let rules = Rules {
            dialect: "test",
            versions: VersionRule::Common,
            minimum: Minimum::Nothing,
            defines: |_, _, _| Defined::Yes,
        };
        let offer = Offer::new(Peer::default(), ["1"]);
        agree(&rules, &offer, &offer).expect("one version on both sides")
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
