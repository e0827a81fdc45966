//! Questions and notices of an upstream, and whose they are.
//!
//! What an upstream says or asks in the middle of a call goes to the caller of that call. Where the dialect does not
//! say in which call's middle, it goes by the way of the newest call that is under way; a way to an upstream is only
//! shared by callers for whom that cannot be wrong.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::future::BoxFuture;
use gladhand_hub::{Asking, Bell, Caller};
use gladhand_operations::{Answered, CallId, Failure, FailureKind, Notice, Question};
use tokio::sync::{oneshot, watch};

use super::lists::{List, Stale};
use crate::upstream::Host;

/// The one session that a way belongs to, once it is open. It is not kept by this: who asks it must not keep it from
/// ending.
pub(super) type Session = watch::Receiver<Option<Weak<dyn Caller>>>;

/// The host of one call: its notices and questions go to its caller.
#[derive(Debug)]
pub(super) struct CallHost {
    pub(super) call: CallId,
    pub(super) caller: Arc<dyn Caller>,
}

impl Host for CallHost {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        ask(&self.caller, Some(self.call), question)
    }

    fn notice(&self, notice: Notice) {
        // Our own name for a call is not the upstream session's.
        match notice {
            Notice::Progress(_, progress) => self.caller.tell(Notice::Progress(self.call, progress)),
            Notice::Log(_, log) => self.caller.tell(Notice::Log(Some(self.call), log)),
            other => self.caller.tell(other),
        }
    }
}

/// The host of a way to an upstream: hears what belongs to no call.
#[derive(Debug)]
pub(super) struct WayHost {
    /// Calls under way, the newest last.
    under_way: Mutex<Vec<(CallId, Arc<dyn Caller>)>>,
    /// The one session that this way belongs to, once it is open; without one, nobody but callers can be asked.
    session: Option<Session>,
    bell: Option<Bell>,
    /// Where word goes that a list has changed.
    stale: Arc<Stale>,
}

impl WayHost {
    pub(super) fn new(session: Option<Session>, bell: Option<Bell>, stale: Arc<Stale>) -> Self {
        Self { under_way: Mutex::default(), session, bell, stale }
    }

    /// A call is under way until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, call: CallId, caller: &Arc<dyn Caller>) -> UnderWay {
        self.lock().push((call, Arc::clone(caller)));
        UnderWay { host: Arc::clone(self), call, session: caller.session() }
    }

    /// How many calls are under way.
    pub(super) fn calls(&self) -> usize {
        self.lock().len()
    }

    fn newest(&self) -> Option<(CallId, Arc<dyn Caller>)> {
        self.lock().last().cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(CallId, Arc<dyn Caller>)>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for WayHost {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        if let Some((call, caller)) = self.newest() {
            return ask(&caller, Some(call), question);
        }
        let Some(mut session) = self.session.clone() else {
            return Box::pin(std::future::ready(Err(Failure::missing_capability(question.kind.capability()))));
        };
        Box::pin(async move {
            let caller = session.wait_for(Option::is_some).await.ok().and_then(|caller| caller.clone());
            match caller.and_then(|caller| caller.upgrade()) {
                Some(caller) => ask(&caller, None, question).await,
                None => Err(unanswered()),
            }
        })
    }

    fn notice(&self, notice: Notice) {
        match notice {
            Notice::ToolsChanged => self.stale.mark(&[List::Tools]),
            Notice::ResourcesChanged => self.stale.mark(&[List::Resources]),
            Notice::PromptsChanged => self.stale.mark(&[List::Prompts]),
            Notice::ResourceUpdated(uri) => self.ring(|bell| bell.resource_updated(uri)),
            Notice::ElicitationComplete(id) => self.ring(|bell| bell.elicitation_complete(id)),
            Notice::Log(_, log) => match self.newest() {
                Some((call, caller)) if self.session.is_some() => caller.tell(Notice::Log(Some(call), log)),
                _ => self.ring(|bell| bell.log(log)),
            },
            // They belong to calls.
            Notice::Progress(..) | Notice::ComeBackLater(..) | Notice::GoesOnAsTask(_) => {}
        }
    }
}

impl WayHost {
    fn ring(&self, ring: impl FnOnce(&Bell)) {
        if let Some(bell) = &self.bell {
            ring(bell);
        }
    }
}

/// A call that is under way, as long as this is kept.
#[derive(Debug)]
pub(super) struct UnderWay {
    host: Arc<WayHost>,
    call: CallId,
    session: gladhand_hub::SessionId,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let is_it = |(call, caller): &(CallId, Arc<dyn Caller>)| *call == self.call && caller.session() == self.session;
        let mut under_way = self.host.lock();
        if let Some(at) = under_way.iter().position(is_it) {
            under_way.remove(at);
        }
    }
}

fn ask(caller: &Arc<dyn Caller>, call: Option<CallId>, question: Question) -> BoxFuture<'static, Answered> {
    let (answer, awaited) = oneshot::channel();
    caller.ask(call, vec![Asking { question, answer }]);
    Box::pin(async move { awaited.await.unwrap_or_else(|_| Err(unanswered())) })
}

fn unanswered() -> Failure {
    Failure::new(FailureKind::Unanswered, "the caller went away before it answered")
}
