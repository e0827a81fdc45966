//! Forwards notifications and requests of a registered server to its agent.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::BoxFuture;
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{
    Answered, CallId, CapabilityEvent, Failure, FailureKind, Notice, Question, QuestionKind, Terms, is_part_of,
};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json;
use gladhand_hub::policy::Kind;
use gladhand_hub::{Asking, ChangeNotifier, Context, Reporter};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

use super::Listener;
use super::own::registered;
use super::permits::Root;
use gladhand_client::upstream::UpstreamEvents;

/// How many notifications of a server may queue for an agent that does not read. Further ones are dropped.
pub(super) const WAITING: usize = 256;

/// Maximum size of these notifications, in bytes.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// The size of a notification.
pub(super) fn size_of(push: &CapabilityEvent) -> usize {
    push.fields.get().len()
}

/// The host of a registered server.
#[derive(Debug)]
pub(super) struct ServerHost {
    pub(super) id: String,
    pub(super) agent: Listener,
    /// The agreement with the agent, and the terms under which it registered the server.
    pub(super) agreement: Arc<Agreement>,
    pub(super) terms: Terms<'static>,
    pub(super) notifier: ChangeNotifier,
    pub(super) roots: Vec<Root>,
    /// The resources that the agent follows.
    pub(super) watched: Mutex<BTreeSet<String>>,
    pub(super) pushes: mpsc::Sender<CapabilityEvent>,
    /// The bytes of the notifications that wait for the agent.
    pub(super) waiting_bytes: Arc<AtomicUsize>,
    /// Rung when a list is not what it was.
    pub(super) stale: Arc<Notify>,
}

impl UpstreamEvents for ServerHost {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        if question.kind == QuestionKind::Roots && !self.roots.is_empty() {
            let roots = json::to_raw(&json!({"roots": self.roots}));
            return Box::pin(std::future::ready(Ok(roots)));
        }
        let gone = || Failure::new(FailureKind::Unanswered, "the agent went away before it answered");
        let Some(agent) = self.agent.upgrade() else { return Box::pin(std::future::ready(Err(gone()))) };
        let (answer, awaited) = oneshot::channel();
        agent.ask(None, vec![Asking { question: question.named(&self.id), answer }]);
        Box::pin(async move { awaited.await.unwrap_or_else(|_| Err(gone())) })
    }

    fn notice(&self, notice: Notice) {
        if let Notice::ResourceUpdated(update) = &notice
            && !self.may_tell_of(&update.uri)
        {
            tracing::debug!(
                server = self.id,
                "an update is dropped: the agent does not follow the resource, or policy denies it"
            );
            return;
        }
        let Some((method, params)) = in_mcp(&notice) else { return };
        let fields = json::to_raw(&json!({"server_id": self.id, "method": method, "params": params}));
        let push = CapabilityEvent { kind: "mcp/server/push", request: None, fields };
        let size = size_of(&push);
        let waiting = self.waiting_bytes.fetch_add(size, Ordering::Relaxed);
        if waiting + size > MAX_WAITING_BYTES || self.pushes.try_send(push).is_err() {
            self.waiting_bytes.fetch_sub(size, Ordering::Relaxed);
            tracing::debug!(server = self.id, method, "a notification is lost: its agent does not read");
        }
        if matches!(notice, Notice::ToolsChanged | Notice::ResourcesChanged | Notice::PromptsChanged) {
            self.stale.notify_one();
        }
    }
}

impl ServerHost {
    pub(super) fn watched(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.watched.lock().unpoisoned()
    }

    /// Whether the agent follows a resource, and may still read it by the policy that holds now.
    fn may_tell_of(&self, uri: &str) -> bool {
        if !self.watched().iter().any(|watched| is_part_of(uri, watched)) {
            return false;
        }
        let (Some(agent), Some(hub)) = (self.agent.upgrade(), self.notifier.hub()) else { return false };
        let Self { terms, agreement, notifier, .. } = self;
        let context = Context { call: CallId(0), terms, agreement, caller: &agent, notifier };
        let arguments = json::to_raw(&json!({ "uri": uri }));
        hub.governor().is_none_or(|by| by.refuses(&registered(Kind::Resource, uri), &arguments, &context).is_none())
    }
}

/// The host of one tool call. Progress goes to the caller; everything else goes to the host of the server.
#[derive(Debug)]
pub(super) struct CallHost {
    pub(super) server: Arc<ServerHost>,
    pub(super) reporter: Reporter,
}

impl UpstreamEvents for CallHost {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        self.server.ask(question)
    }

    fn notice(&self, notice: Notice) {
        match notice {
            Notice::Progress(_, progress) => self.reporter.progress(progress),
            other => self.server.notice(other),
        }
    }
}

/// A notice as the notification that it was.
fn in_mcp(notice: &Notice) -> Option<(&'static str, Value)> {
    Some(match notice {
        Notice::ToolsChanged => ("notifications/tools/list_changed", json!({})),
        Notice::ResourcesChanged => ("notifications/resources/list_changed", json!({})),
        Notice::PromptsChanged => ("notifications/prompts/list_changed", json!({})),
        Notice::ResourceUpdated(update) => ("notifications/resources/updated", json!({"uri": update.uri})),
        Notice::ElicitationComplete(id) => ("notifications/elicitation/complete", json!({"elicitationId": id})),
        Notice::Log(_, log) => {
            let data = super::words::parsed(&log.data).unwrap_or_default();
            let mut params = json!({"level": log.level.word(), "data": data});
            if let Some(logger) = &log.logger {
                params["logger"] = json!(logger);
            }
            ("notifications/message", params)
        }
        // Notices of a call go to its caller; the others are no notifications.
        Notice::Progress(..)
        | Notice::ComeBackLater(..)
        | Notice::GoesOnAsTask(_)
        | Notice::Agent(_)
        | Notice::Capability(_) => return None,
    })
}
