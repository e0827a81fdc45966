//! The tools of a server to try: which of them reports, lingers, asks, and what its answers contain.

use serde_json::{Value, json};

use super::servers::Step;

/// The tool calls of a server for each cell; none where it has no such tool.
pub(crate) struct Habits {
    /// A tool that answers.
    pub(crate) call: Step,
    /// One that reports progress.
    pub(crate) progress: Option<Step>,
    /// One that reports and then takes its time, and one whose answer shows that the first was given up.
    pub(crate) cancel: Option<(Step, Step)>,
    /// One that asks the user.
    pub(crate) elicit: Option<Step>,
    /// One that asks the model.
    pub(crate) sample: Option<Step>,
    /// A resource, and a tool that brings an update of it.
    pub(crate) subscribe: Option<(&'static str, Step)>,
    /// A resource and what is in it.
    pub(crate) read: Option<(&'static str, &'static str)>,
    /// A prompt.
    pub(crate) prompt: Option<Step>,
}

fn step(tool: &'static str, arguments: Value, words: &'static str) -> Step {
    Step { tool, arguments, words }
}

impl Habits {
    /// The servers in `peers/matrix`, which all have the same tools.
    pub(crate) fn ours() -> Self {
        Self {
            call: step("echo", json!({"message": "grüezi \"🤝\" \u{2028}"}), "grüezi \"🤝\" \u{2028}"),
            progress: Some(step("count", json!({}), "counted")),
            cancel: Some((step("linger", json!({}), ""), step("lingered", json!({}), "1"))),
            elicit: Some(step("ask", json!({}), "Hello, ada!")),
            sample: Some(step("think", json!({}), "Bern")),
            subscribe: Some(("test://watched", step("touch", json!({}), "touched"))),
            read: Some(("test://watched", "still water")),
            prompt: Some(step("greeting", json!({"name": "ada"}), "Greet ada.")),
        }
    }

    pub(crate) fn everything() -> Self {
        let long = "trigger-long-running-operation";
        let resource = "demo://resource/dynamic/text/1";
        Self {
            call: step("echo", json!({"message": "grüezi"}), "Echo: grüezi"),
            progress: Some(step(long, json!({"duration": 0.3, "steps": 3}), "completed")),
            // Nothing of it tells whether the operation was given up; the session goes on.
            cancel: Some((
                step(long, json!({"duration": 60, "steps": 240}), ""),
                step("echo", json!({"message": "still here"}), "still here"),
            )),
            elicit: Some(step("trigger-elicitation-request", json!({}), "ada")),
            sample: Some(step("trigger-sampling-request", json!({"prompt": "x", "maxTokens": 5}), "Bern")),
            subscribe: Some((resource, step("toggle-subscriber-updates", json!({}), "Started"))),
            read: Some((resource, "Resource 1")),
            prompt: Some(step("args-prompt", json!({"city": "Bern"}), "Bern")),
        }
    }

    pub(crate) fn filesystem() -> Self {
        Self::of_tools(step("write_file", json!({"path": "FOLDER/a", "content": "x"}), "Successfully wrote"))
    }

    pub(crate) fn memory() -> Self {
        Self::of_tools(step("search_nodes", json!({"query": "nobody"}), "entities"))
    }

    pub(crate) fn git() -> Self {
        Self::of_tools(step("git_status", json!({"repo_path": "FOLDER"}), "No commits yet"))
    }

    fn of_tools(call: Step) -> Self {
        Self {
            call,
            progress: None,
            cancel: None,
            elicit: None,
            sample: None,
            subscribe: None,
            read: None,
            prompt: None,
        }
    }
}
