//! The lists of an upstream, as last received.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Capability, Peer, Side};
use gladhand_core::operations::{Failure, FailureKind, Operation, Prompt, Reply, Resource, Template, Terms, Tool};
use gladhand_core::wire::RawValue;
use gladhand_dialects::{TASKS_EXTENSION, is_passed_on};
use gladhand_hub::{Declared, Features, List, Listed};
use serde::{Deserialize, Serialize};

use super::Spec;
use crate::upstream::{Upstream, UpstreamEvents};

/// Everything that an upstream lists, and its other features. Can be kept between runs.
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
    pub(super) completions: bool,
    pub(super) resource_updates: bool,
    /// Whether calls become tasks when it says so.
    pub(super) tasks: bool,
    /// Tells these lists from others of this upstream. Not kept between runs.
    #[serde(skip)]
    pub(super) number: u64,
    /// The lists of which it does not declare that it tells when they change. Not kept between runs.
    #[serde(skip)]
    pub(super) quiet: Vec<List>,
    /// Capabilities that are between it and its clients alone, with settings.
    declares: Vec<(String, Option<Box<RawValue>>)>,
    pub(super) server: Peer,
    pub(super) instructions: Option<String>,
    /// The lists that could not be had when they were last asked for, and why. Not kept between runs.
    #[serde(skip)]
    trouble: Vec<(List, Failure)>,
}

/// The client for whom lists are asked for: what was agreed with it, and who hears what the upstream says meanwhile.
pub(super) type Client = (Arc<Agreement>, Arc<dyn UpstreamEvents>);

/// How long one list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

impl Lists {
    /// Asks for everything.
    pub(super) async fn fetch(upstream: &Upstream, spec: &Spec, client: Option<Client>) -> Result<Self, Failure> {
        Self::agreed(&upstream.agreement()).refreshed(&List::ALL, upstream, spec, client).await
    }

    /// Asks for some of the lists again. One that cannot be had stays as it was, and why is kept.
    pub(super) async fn refreshed(
        &self,
        stale: &[List],
        upstream: &Upstream,
        spec: &Spec,
        client: Option<Client>,
    ) -> Result<Self, Failure> {
        static NEWEST: AtomicU64 = AtomicU64::new(0);
        let number = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
        let mut lists = Self { number, ..self.clone() };
        lists.trouble.retain(|(list, _)| !stale.contains(list));
        let (mut failed, mut last) = (0, None);
        for list in stale {
            let refreshed = tokio::time::timeout(LIST_TIMEOUT, lists.refresh(*list, upstream, client.as_ref())).await;
            let silent = || Failure::new(FailureKind::TimedOut, "the upstream does not say what it has");
            if let Err(failure) = refreshed.unwrap_or_else(|_| Err(silent())) {
                let failure = unlisted(*list, failure, spec);
                match failure.kind {
                    // That the session ended is logged where it is noticed.
                    FailureKind::UpstreamLost => tracing::debug!(list = ?list, %failure, "a list was not received"),
                    _ => tracing::warn!(list = ?list, %failure, "a list was not received; the earlier one stays"),
                }
                (failed, last) = (failed + 1, Some(failure.clone()));
                // A server that has no such method has no such list.
                if failure.kind != FailureKind::UpstreamError || !failure.is_lasting {
                    lists.trouble.push((*list, failure));
                }
            }
        }
        // One that is out of order does not make the others useless, and one that is too long stays so.
        match last {
            Some(failure) if failed == stale.len() && !is_too_long(&failure) => Err(failure),
            _ => Ok(lists),
        }
    }

    /// The same with entries from before in each list that did not arrive because the session ended or took too long.
    /// Otherwise a server that dies while it is listed would lose its tools, and no call would start it again.
    pub(super) fn completed_by(mut self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        let is_passing = |kind| matches!(kind, FailureKind::UpstreamLost | FailureKind::TimedOut);
        let missing: Vec<_> =
            self.trouble.iter().filter(|(_, failure)| is_passing(failure.kind)).map(|(list, _)| *list).collect();
        for list in missing {
            match list {
                List::Tools => self.tools.clone_from(&before.tools),
                List::Resources => {
                    self.resources.clone_from(&before.resources);
                    self.templates.clone_from(&before.templates);
                }
                List::Prompts => self.prompts.clone_from(&before.prompts),
            }
        }
        self
    }

    /// How many entries all lists have together.
    pub(super) fn entries(&self) -> usize {
        self.tools.len() + self.resources.len() + self.templates.len() + self.prompts.len()
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
            completions: has("completions"),
            resource_updates: has("resources.subscribe"),
            tasks: agreement.per_request && has(TASKS_EXTENSION),
            quiet: List::ALL.into_iter().filter(|list| has(named(*list)) && !has(changes_of(*list))).collect(),
            declares: agreement
                .agreed(Side::Server)
                .filter(|term| is_passed_on(&term.capability))
                .map(|term| (term.capability.0.to_string(), term.settings.clone()))
                .collect(),
            server: agreement.server.clone(),
            instructions: agreement.instructions.clone(),
            ..Self::default()
        }
    }

    /// Asks for one list again. A list that was not agreed is empty.
    async fn refresh(&mut self, list: List, upstream: &Upstream, client: Option<&Client>) -> Result<(), Failure> {
        let ask = |operation: Operation<'static>| async {
            match client {
                None => upstream.call(operation).await,
                Some((agreement, events)) => {
                    let call = || (operation, Terms::default());
                    let outcome = upstream.call_on_behalf(call, None, Arc::clone(agreement), Arc::clone(events)).await;
                    outcome.unwrap_or_else(|| Err(Failure::new(FailureKind::UpstreamLost, "the session is over")))
                }
            }
        };
        match list {
            List::Tools => {
                if let Reply::Tools(tools) = ask(Operation::ListTools).await? {
                    self.tools = tools.to_vec();
                }
            }
            List::Resources => {
                if let Reply::Resources(resources) = ask(Operation::ListResources).await? {
                    self.resources = resources.to_vec();
                }
                match ask(Operation::ListTemplates).await {
                    Ok(Reply::Templates(templates)) => self.templates = templates.to_vec(),
                    Err(failure) if is_too_long(&failure) => return Err(failure),
                    // Some servers have resources, but no method for templates.
                    _ => {}
                }
            }
            List::Prompts => {
                if let Reply::Prompts(prompts) = ask(Operation::ListPrompts).await? {
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

    /// Capabilities that are between it and its clients alone.
    pub(super) fn declares(&self) -> Declared {
        let named =
            |(name, settings): &(String, Option<Box<RawValue>>)| (Capability::from_wire(name), settings.clone());
        self.declares.iter().map(named).collect()
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

    /// The features of the upstream beyond answering calls. Any list that it has may change: the upstream may come back
    /// as another. It may write log lines even if it does not declare them: servers of widespread SDKs never do.
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
            silent: false,
        }
    }

    /// The features to assume for an upstream whose lists are not known.
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

/// Whether a list is too long, which it stays when it is asked for again.
fn is_too_long(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::TooLong | FailureKind::TooMany)
}

/// The capability of a list.
fn named(list: List) -> &'static str {
    match list {
        List::Tools => "tools",
        List::Resources => "resources",
        List::Prompts => "prompts",
    }
}

/// The capability of an upstream that tells when a list has changed.
fn changes_of(list: List) -> &'static str {
    match list {
        List::Tools => "tools.listChanged",
        List::Resources => "resources.listChanged",
        List::Prompts => "prompts.listChanged",
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
    fn a_list_that_failed_is_replaced_by_the_previous_one() {
        let listing = |names: &[&str], trouble: &[FailureKind]| Lists {
            tools: names.iter().map(|name| Tool::plain(*name, "")).collect(),
            trouble: trouble.iter().map(|kind| (List::Tools, Failure::new(*kind, "no"))).collect(),
            ..Lists::default()
        };
        let names = |lists: Lists| lists.tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
        let before = listing(&["a", "b"], &[]);
        for (received, expected) in [
            (listing(&["c"], &[]), vec!["c"]),
            (listing(&[], &[]), vec![]),
            (listing(&[], &[FailureKind::UpstreamLost]), vec!["a", "b"]),
            (listing(&[], &[FailureKind::TimedOut]), vec!["a", "b"]),
            (listing(&[], &[FailureKind::UpstreamError]), vec![]),
        ] {
            assert_eq!(names(received.completed_by(Some(&before))), expected);
        }
    }

    #[test]
    fn only_annotations_of_a_tool_make_it_repeatable() {
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
