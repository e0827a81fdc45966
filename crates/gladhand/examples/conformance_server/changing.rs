//! Providers that change while they are served: a tool and a prompt that come and go, and a resource that is updated,
//! each on request.

use std::sync::atomic::{AtomicBool, Ordering};

use gladhand::hub::{Answer, Context, Features, PromptProvider, Provider};
use gladhand::operations::{Failure, Prompt, PromptResult, Tool, ToolCall, ToolResult};

/// Has one tool more, or one prompt more, after every second change.
#[derive(Debug, Default)]
pub(crate) struct Changing {
    more_tools: AtomicBool,
    more_prompts: AtomicBool,
}

impl Provider for Changing {
    fn tools(&self) -> Vec<Tool> {
        let mut tools = vec![
            Tool::plain("test_trigger_tool_change", "Changes the list of tools."),
            Tool::plain("test_trigger_prompt_change", "Changes the list of prompts."),
            Tool::plain("test_trigger_resource_update", "Renews the resource that can be watched."),
        ];
        if self.more_tools.load(Ordering::Relaxed) {
            tools.push(Tool::plain("test_passing_tool", "Is gone after the next change."));
        }
        tools
    }

    fn features(&self) -> Features {
        Features { tool_changes: true, prompt_changes: true, ..Features::default() }
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        match call.name.as_ref() {
            "test_trigger_tool_change" => {
                self.more_tools.fetch_not(Ordering::Relaxed);
                context.notifier.tools_changed();
                ToolResult::text("The list of tools has changed.").into()
            }
            "test_trigger_prompt_change" => {
                self.more_prompts.fetch_not(Ordering::Relaxed);
                context.notifier.prompts_changed();
                ToolResult::text("The list of prompts has changed.").into()
            }
            "test_trigger_resource_update" => {
                context.notifier.resource_updated("test://watched-resource");
                ToolResult::text("The resource was renewed.").into()
            }
            "test_passing_tool" => ToolResult::text("Still here.").into(),
            _ => Answer::Now(Err(Failure::unknown_tool(&call.name))),
        }
    }

    fn as_prompts(&self) -> Option<&dyn PromptProvider> {
        Some(self)
    }
}

impl PromptProvider for Changing {
    fn prompts(&self) -> Vec<Prompt> {
        let passing = || Prompt::new("test_passing_prompt", "Is gone after the next change.");
        self.more_prompts.load(Ordering::Relaxed).then(passing).into_iter().collect()
    }

    fn prompt(&self, _: ToolCall<'_>, _: &Context<'_>) -> Answer {
        PromptResult::text("Still here.").into()
    }
}
