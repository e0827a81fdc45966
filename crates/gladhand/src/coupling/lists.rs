//! What an upstream has, as it was last heard.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use gladhand_accord::{Agreement, Peer, Side};
use gladhand_hub::{Features, List, Listed};
use gladhand_operations::{Failure, FailureKind, Operation, Prompt, Reply, Resource, Template, Tool};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::Spec;
use super::way::{TASKS, Way};
use crate::upstream::Upstream;

/// Everything that an upstream lists, and what it does beside that. Can be kept between runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Lists {
    pub(super) tools: Vec<Tool>,
    pub(super) resources: Vec<Resource>,
    pub(super) templates: Vec<Template>,
    pub(super) prompts: Vec<Prompt>,
    /// The capabilities that it serves whole, in their own words.
    pub(super) capabilities: Vec<String>,
    pub(super) has_tools: bool,
    pub(super) has_resources: bool,
    pub(super) has_prompts: bool,
    pub(super) logs: bool,
    pub(super) completions: bool,
    pub(super) resource_updates: bool,
    /// Whether calls become tasks when it says so.
    pub(super) tasks: bool,
    pub(super) server: Peer,
    pub(super) instructions: Option<String>,
    /// The lists that could not be had when they were last asked for, and why. Not kept between runs.
    #[serde(skip)]
    trouble: Vec<(List, Failure)>,
}

/// How long one list may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lists that are not what they were, until somebody asks for them again. However often a list changes meanwhile, it is
/// asked for once, on each way on which it changed.
#[derive(Debug, Default)]
pub(super) struct Stale {
    lists: Mutex<VecDeque<(Weak<Way>, Vec<List>)>>,
    told: Notify,
}

impl Stale {
    /// These have changed, at the other end of this way.
    pub(super) fn mark(&self, lists: &[List], way: Weak<Way>) {
        let mut stale = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        // What was at the end of a way that is gone is nobody's any more.
        stale.retain(|(way, _)| way.strong_count() > 0);
        let at = stale.iter().position(|(marked, _)| marked.ptr_eq(&way)).unwrap_or_else(|| {
            stale.push_back((way, Vec::new()));
            stale.len() - 1
        });
        let marked = &mut stale[at].1;
        marked.extend(lists.iter().filter(|list| !marked.contains(list)).copied().collect::<Vec<_>>());
        self.told.notify_one();
    }

    /// Waits until some have changed, and says where.
    pub(super) async fn take(&self) -> (Vec<List>, Weak<Way>) {
        loop {
            let stale = self.lists.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if let Some((way, lists)) = stale {
                return (lists, way);
            }
            self.told.notified().await;
        }
    }
}

impl Lists {
    /// Asks for everything.
    pub(super) async fn fetch(upstream: &Upstream, spec: &Spec) -> Result<Self, Failure> {
        Self::agreed(&upstream.agreement()).refreshed(&List::ALL, upstream, spec).await
    }

    /// Asks for some of the lists again. One that cannot be had stays as it was, and why is kept.
    pub(super) async fn refreshed(&self, stale: &[List], upstream: &Upstream, spec: &Spec) -> Result<Self, Failure> {
        let mut lists = self.clone();
        lists.trouble.retain(|(list, _)| !stale.contains(list));
        let (mut failed, mut last) = (0, None);
        for list in stale {
            let refreshed = tokio::time::timeout(PATIENCE, lists.refresh(*list, upstream)).await;
            let silent = || Failure::new(FailureKind::TimedOut, "the upstream does not say what it has");
            if let Err(failure) = refreshed.unwrap_or_else(|_| Err(silent())) {
                let failure = unlisted(*list, failure, spec);
                tracing::warn!(list = ?list, %failure, "a list of an upstream could not be had; it stays as it was");
                (failed, last) = (failed + 1, Some(failure.clone()));
                // A server that has no such method has no such list.
                if failure.kind != FailureKind::UpstreamError || !failure.is_lasting {
                    lists.trouble.push((*list, failure));
                }
            }
        }
        // One that is out of order does not make the others useless, and one that is too long stays so.
        match last {
            Some(failure) if failed == stale.len() && failure.kind != FailureKind::TooLong => Err(failure),
            _ => Ok(lists),
        }
    }

    /// Why a list could not be had when it was last asked for.
    pub(super) fn trouble(&self, list: List) -> Option<&Failure> {
        self.trouble.iter().find(|(of, _)| *of == list).map(|(_, failure)| failure)
    }

    /// Why lists could not be had when they were last asked for.
    pub(super) fn troubles(&self) -> Vec<String> {
        self.trouble.iter().map(|(_, failure)| failure.message.clone()).collect()
    }

    /// Whether every list could be had when it was last asked for.
    pub(super) fn is_complete(&self) -> bool {
        self.trouble.is_empty()
    }

    fn agreed(agreement: &Agreement) -> Self {
        let has = |capability| agreement.allows(Side::Server, capability);
        Self {
            capabilities: gladhand_dialects::carried(agreement).map(str::to_owned).collect(),
            has_tools: has("tools"),
            has_resources: has("resources"),
            has_prompts: has("prompts"),
            // Where nobody declares it, nobody knows.
            logs: has("logging") || agreement.terms.is_empty(),
            completions: has("completions"),
            resource_updates: has("resources.subscribe"),
            tasks: agreement.per_request && has(TASKS),
            server: agreement.server.clone(),
            instructions: agreement.instructions.clone(),
            ..Self::default()
        }
    }

    /// Asks for one list again. What was not agreed is an empty list.
    async fn refresh(&mut self, list: List, upstream: &Upstream) -> Result<(), Failure> {
        match list {
            List::Tools => {
                if let Reply::Tools(tools) = upstream.call(Operation::ListTools).await? {
                    self.tools = tools.to_vec();
                }
            }
            List::Resources => {
                if let Reply::Resources(resources) = upstream.call(Operation::ListResources).await? {
                    self.resources = resources.to_vec();
                }
                match upstream.call(Operation::ListTemplates).await {
                    Ok(Reply::Templates(templates)) => self.templates = templates.to_vec(),
                    Err(failure) if failure.kind == FailureKind::TooLong => return Err(failure),
                    // Some servers have resources and no word for templates.
                    _ => {}
                }
            }
            List::Prompts => {
                if let Reply::Prompts(prompts) = upstream.call(Operation::ListPrompts).await? {
                    self.prompts = prompts.to_vec();
                }
            }
        }
        Ok(())
    }

    /// Whether one of the lists is not what it was.
    fn differs(&self, list: List, before: &Self) -> bool {
        fn text<T: Serialize>(list: &T) -> Option<String> {
            serde_json::to_string(list).ok()
        }
        match list {
            List::Tools => text(&self.tools) != text(&before.tools),
            List::Resources => {
                text(&(&self.resources, &self.templates)) != text(&(&before.resources, &before.templates))
            }
            List::Prompts => text(&self.prompts) != text(&before.prompts),
        }
    }

    /// Which of the lists are not what they were.
    pub(super) fn different(&self, before: Option<&Self>) -> Vec<List> {
        List::ALL.into_iter().filter(|list| before.is_none_or(|before| self.differs(*list, before))).collect()
    }

    /// As the hub takes it.
    pub(super) fn listed(&self) -> Listed {
        Listed {
            tools: self.tools.clone(),
            resources: self.resources.clone(),
            templates: self.templates.clone(),
            prompts: self.prompts.clone(),
        }
    }

    /// What it does beyond answering calls. Any list that it has may change: the upstream may come back as another.
    pub(super) fn features(&self) -> Features {
        Features {
            questions: true,
            completions: self.completions,
            unlisted_resources: self.has_resources,
            resource_updates: self.resource_updates,
            tool_changes: self.has_tools,
            tasks: self.tasks,
            resource_changes: self.has_resources,
            prompt_changes: self.has_prompts,
            silent: !self.logs,
        }
    }

    /// What somebody of whom nothing is known might do.
    pub(super) fn unknown() -> Features {
        Features {
            questions: true,
            completions: true,
            unlisted_resources: true,
            resource_updates: true,
            tasks: false,
            tool_changes: true,
            resource_changes: true,
            prompt_changes: true,
            silent: false,
        }
    }

    /// Whether a tool says of itself that calling it twice does no more than calling it once.
    pub(super) fn is_repeatable(&self, tool: &str) -> bool {
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Hints {
            read_only_hint: bool,
            idempotent_hint: bool,
        }
        let tool = self.tools.iter().find(|known| known.name == tool);
        let annotations = tool.and_then(|tool| tool.extra.iter().find(|(name, _)| name == "annotations"));
        let hints = annotations.and_then(|(_, raw)| serde_json::from_str::<Hints>(raw.get()).ok());
        hints.is_some_and(|hints| hints.read_only_hint || hints.idempotent_hint)
    }
}

/// Says of a list that could not be had which one it is, and what to do about one that is too long.
fn unlisted(list: List, failure: Failure, spec: &Spec) -> Failure {
    let what = match list {
        List::Tools => "tools/list",
        List::Resources => "resources/list",
        List::Prompts => "prompts/list",
    };
    let (name, limit) = (&spec.name, spec.options.line_bytes);
    let message = match failure.kind {
        FailureKind::TooLong => {
            format!(
                "{what} of upstream {name} exceeds the line limit of {limit} bytes; raise limits.line_bytes to take it"
            )
        }
        _ => format!("{what} of upstream {name} failed: {failure}"),
    };
    Failure { message, data: None, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_a_tool_says_of_itself_makes_it_repeatable() {
        let tool = |name: &str, annotations| Tool::plain(name, "").with("annotations", &annotations);
        let tools = vec![
            tool("reads", json!({"readOnlyHint": true})),
            tool("sets", json!({"idempotentHint": true, "destructiveHint": true})),
            tool("adds", json!({"idempotentHint": false})),
            tool("odd", json!(7)),
            Tool::plain("silent", ""),
        ];
        let lists = Lists { tools, ..Lists::default() };
        let repeatable = ["reads", "sets", "adds", "odd", "silent", "unknown"].map(|name| lists.is_repeatable(name));
        assert_eq!(repeatable, [true, true, false, false, false, false]);
    }

    #[test]
    fn lists_can_be_kept_and_read_again() {
        let lists = Lists {
            tools: vec![Tool::plain("t", "does").with("annotations", &json!({"a": [1, 2]}))],
            resources: vec![Resource::new("x:1", "one", "")],
            prompts: vec![Prompt::new("p", "").argument("a", "")],
            instructions: Some("so".to_owned()),
            ..Lists::default()
        };
        let text = serde_json::to_string(&lists).unwrap();
        let again: Lists = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{again:?}"), format!("{lists:?}"));
    }
}
