//! What callers get, and how it gets to them.

use std::future::Future;

use gladhand_core::operations::{Failure, FailureKind, Reply};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::Answer;
use serde::Serialize;

use super::Core;
use crate::desk::Changed;
use crate::payloads::event;

/// What a call of the agent comes to.
pub(super) type Answered = Result<Box<RawValue>, Failure>;

/// It is known already.
pub(super) fn now(answered: Answered) -> Answer {
    Answer::Now(answered.map(Reply::Agent))
}

/// It takes a while.
pub(super) fn later(work: impl Future<Output = Answered> + Send + 'static) -> Answer {
    Answer::Later(Box::pin(async { work.await.map(Reply::Agent) }))
}

/// Reads files, beside everything else.
pub(super) fn reading(work: impl FnOnce() -> Answered + Send + 'static) -> Answer {
    later(async move { tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(refused("reading failed"))) })
}

/// An answer made of these members.
pub(super) fn told(answer: &impl Serialize) -> Answered {
    Ok(json::to_raw(answer))
}

/// Something that cannot be done, in words that clients see.
pub(super) fn refused(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Internal, message)
}

/// The answers whose only other member is one value.
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

/// A session, briefly.
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

/// How many ids of sessions are told with every change. Whoever has thousands would be told all of them thousands of times;
/// `state.get` has them all.
const TOLD: usize = 64;

/// What everybody may know.
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
    /// What everybody may know.
    pub(super) fn snapshot(&self) -> Box<RawValue> {
        self.snapshot_with(usize::MAX)
    }

    /// The same, with at most so many ids of sessions: the newest.
    fn snapshot_with(&self, most: usize) -> Box<RawValue> {
        let standing = self.desk.snapshot();
        let house = self.house();
        let is_there = |id: &&String| house.sessions.get(*id).is_some_and(|room| !room.is_leaving);
        let count = house.order.iter().filter(is_there).count();
        let newest = house.order.iter().filter(is_there).skip(count.saturating_sub(most));
        let ids: Vec<String> = newest.cloned().collect();
        json::to_raw(&Snapshot {
            auth: standing.auth,
            onboarding: standing.onboarding,
            model: standing.model,
            sessions: SessionIds { count, ids },
            skills: SkillFolders { count: house.skills.skills.len(), directories: house.skills.directories.clone() },
        })
    }

    /// Tells everybody that the state has changed.
    pub(super) fn tell_state(&self, reason: &str, session_id: Option<&str>) {
        let changed = StateChanged { reason, session_id, snapshot: self.snapshot_with(TOLD) };
        self.followers.tell(&event("state.changed", &changed));
    }

    /// Tells everybody what has changed; what the caller gets.
    pub(super) fn changed(&self, changed: Changed) -> Box<RawValue> {
        self.tell_state(changed.reason, None);
        changed.result
    }
}
