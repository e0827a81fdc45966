//! The answers to calls of the agent.

use std::future::Future;

use gladhand_core::operations::{Failure, FailureKind, Reply};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::Answer;
use serde::Serialize;

use super::Core;
use crate::account_service::Changed;
use crate::payloads::event;

/// The outcome of a call.
pub(super) type Answered = Result<Box<RawValue>, Failure>;

/// An answer that is already known.
pub(super) fn now(answered: Answered) -> Answer {
    Answer::Now(answered.map(Reply::Agent))
}

/// An answer that takes a while.
pub(super) fn later(work: impl Future<Output = Answered> + Send + 'static) -> Answer {
    Answer::Later(Box::pin(async { work.await.map(Reply::Agent) }))
}

/// Runs blocking file access on another thread.
pub(super) fn reading(work: impl FnOnce() -> Answered + Send + 'static) -> Answer {
    later(async move { tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(refused("reading failed"))) })
}

/// An answer with these members.
pub(super) fn json_answer(answer: &impl Serialize) -> Answered {
    Ok(json::to_raw(answer))
}

/// A failure whose message clients see.
pub(super) fn refused(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Internal, message)
}

/// Defines answers that have the session id and one other member.
macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident { $member:ident: $type:ty })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Serialize)]
        pub(super) struct $name<'a> {
            pub(super) session_id: &'a str,
            pub(super) $member: $type,
        }
    )*};
}

answers! {
    /// `session.create`
    Created { state: Box<RawValue> }
    /// `session.steer`
    Steered { accepted: bool }
    /// `session.interrupt`
    Interrupted { interrupted: bool }
    /// `session.queue.list`
    Queue { queue: &'a std::collections::VecDeque<crate::payloads::QueueItem> }
    /// `session.queue.clear`
    QueueCleared { cleared_count: usize }
    /// `history.clear_session`
    Cleared { cleared: bool }
    /// `session.delete`
    Deleted { deleted: bool }
}

/// `session.send`
#[derive(Debug, Serialize)]
pub(super) struct Accepted<'a> {
    pub(super) session_id: &'a str,
    pub(super) turn_id: &'a str,
    pub(super) accepted: bool,
    pub(super) queued: bool,
}

/// `system.shutdown`
#[derive(Debug, Serialize)]
pub(super) struct ShuttingDown<'a> {
    pub(super) accepted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'a str>,
}

/// `session.approve`
#[derive(Debug, Serialize)]
pub(super) struct Decided<'a> {
    pub(super) session_id: &'a str,
    pub(super) call_id: &'a str,
    pub(super) accepted: bool,
}

/// A summary of a session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Brief {
    pub(super) id: String,
    pub(super) title: Option<String>,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) pending: bool,
    pub(super) status_label: String,
    pub(super) message_count: usize,
    pub(super) folder: String,
}

/// The maximum number of session ids in a change event. With thousands of sessions, each event would repeat all
/// ids; `state.get` returns them all.
const MAX_EVENT_SESSION_IDS: usize = 64;

/// The state that all clients see.
#[derive(Debug, Serialize)]
struct Snapshot {
    auth: Box<RawValue>,
    onboarding: Box<RawValue>,
    model: Box<RawValue>,
    sessions: SessionIds,
    skills: SkillFolders,
}

#[derive(Debug, Serialize)]
struct SessionIds {
    count: usize,
    ids: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SkillFolders {
    count: usize,
    directories: Vec<String>,
}

/// `state.changed`
#[derive(Debug, Serialize)]
struct StateChanged<'a> {
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    snapshot: Box<RawValue>,
}

impl Core {
    /// The state that all clients see.
    pub(super) fn snapshot(&self) -> Box<RawValue> {
        self.snapshot_with(usize::MAX)
    }

    /// The same with a maximum number of session ids: the newest.
    fn snapshot_with(&self, max_ids: usize) -> Box<RawValue> {
        let snapshot = self.accounts.snapshot();
        let shared = self.shared();
        let is_there = |id: &&String| shared.sessions.get(*id).is_some_and(|entry| !entry.is_leaving);
        let count = shared.order.iter().filter(is_there).count();
        let newest = shared.order.iter().filter(is_there).skip(count.saturating_sub(max_ids));
        let ids: Vec<String> = newest.cloned().collect();
        json::to_raw(&Snapshot {
            auth: snapshot.auth,
            onboarding: snapshot.onboarding,
            model: snapshot.model,
            sessions: SessionIds { count, ids },
            skills: SkillFolders { count: shared.skills.skills.len(), directories: shared.skills.directories.clone() },
        })
    }

    /// Announces a change of the state to all clients.
    pub(super) fn announce_state(&self, reason: &str, session_id: Option<&str>) {
        let changed = StateChanged { reason, session_id, snapshot: self.snapshot_with(MAX_EVENT_SESSION_IDS) };
        self.followers.emit(&event("state.changed", &changed));
    }

    /// Announces a change, and returns the result for the caller.
    pub(super) fn changed(&self, changed: Changed) -> Box<RawValue> {
        self.announce_state(changed.reason, None);
        changed.result
    }
}
