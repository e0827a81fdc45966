//! Questions and notices of an upstream, and whose they are.
//!
//! What an upstream says or asks in the middle of a call goes to the caller of that call. Where the dialect does not
//! say in which call's middle, it goes by the way of the newest call that is under way; a way to an upstream is only
//! shared by callers for whom that cannot be wrong.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::future::BoxFuture;
use gladhand_hub::policy::Invisible;
use gladhand_hub::{Asking, Bell, Caller, Context, List};
use gladhand_operations::{Answered, CallId, Failure, FailureKind, Log, Notice, Question};
use tokio::sync::{oneshot, watch};

use super::lists::Stale;
use super::way::Way;
use crate::upstream::Host;

/// The one session that a way belongs to, once it is open. It is not kept by this: who asks it must not keep it from
/// ending.
pub(super) type Session = watch::Receiver<Option<Weak<dyn Caller>>>;

/// The host of one call: its notices and questions go to its caller.
#[derive(Debug)]
pub(super) struct CallHost {
    call: CallId,
    pub(super) caller: Arc<dyn Caller>,
    principal: Option<Arc<str>>,
    bell: Bell,
    /// How many questions wait for the caller.
    open: Arc<AtomicUsize>,
}

impl CallHost {
    pub(super) fn of(context: &Context<'_>) -> Arc<Self> {
        Arc::new(Self {
            call: context.call,
            caller: Arc::clone(context.caller),
            principal: context.terms.principal.clone(),
            bell: context.bell.clone(),
            open: Arc::default(),
        })
    }

    /// Whether the call cannot go on before its caller has answered.
    pub(super) fn is_waiting(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }
}

impl Host for CallHost {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        self.ask_together(vec![question]).pop().unwrap_or_else(|| Box::pin(std::future::ready(Err(unanswered()))))
    }

    fn ask_together(&self, questions: Vec<Question>) -> Vec<BoxFuture<'static, Answered>> {
        ask(&self.caller, Some(self.call), questions, self.bell.invisible())
            .into_iter()
            .map(|answer| {
                let open = Open::of(&self.open);
                Box::pin(async move {
                    let _open = open;
                    answer.await
                }) as _
            })
            .collect()
    }

    fn notice(&self, notice: Notice) {
        // Our own name for a call is not the upstream session's.
        match self.bell.invisible().notice(notice) {
            Notice::Progress(_, progress) => self.caller.tell(Notice::Progress(self.call, progress)),
            Notice::Log(_, log) => self.caller.tell(Notice::Log(Some(self.call), log)),
            Notice::GoesOnAsTask(_) => self.caller.tell(Notice::GoesOnAsTask(self.call)),
            other => self.caller.tell(other),
        }
    }
}

/// Whose calls a way has carried.
#[derive(Debug, Default)]
enum Users {
    #[default]
    Nobody,
    One(Option<Arc<str>>),
    Several,
}

impl Users {
    fn add(&mut self, principal: &Option<Arc<str>>) {
        match self {
            Self::Nobody => *self = Self::One(principal.clone()),
            Self::One(first) if first != principal => *self = Self::Several,
            Self::One(_) | Self::Several => {}
        }
    }
}

/// A question that waits for its answer, as long as this is kept.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn of(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The host of a way to an upstream: hears what belongs to no call.
#[derive(Debug)]
pub(super) struct WayHost {
    /// Calls under way, the newest last.
    under_way: Mutex<Vec<Arc<CallHost>>>,
    /// The one session that this way belongs to, once it is open; without one, nobody but callers can be asked.
    session: Option<Session>,
    bell: Option<Bell>,
    /// Who used this way first, and whether anybody else did.
    users: Mutex<Users>,
    /// The way itself.
    way: Weak<Way>,
    /// Where word goes that a list has changed.
    stale: Arc<Stale>,
}

impl WayHost {
    pub(super) fn new(session: Option<Session>, bell: Option<Bell>, stale: Arc<Stale>) -> Self {
        Self { under_way: Mutex::default(), session, bell, users: Mutex::default(), way: Weak::new(), stale }
    }

    /// The same for this way.
    pub(super) fn of(self, way: &Weak<Way>) -> Self {
        Self { way: way.clone(), ..self }
    }

    /// A call is under way until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, call: &Arc<CallHost>) -> UnderWay {
        self.users.lock().unwrap_or_else(PoisonError::into_inner).add(&call.principal);
        self.lock().push(Arc::clone(call));
        UnderWay { host: Arc::clone(self), call: Arc::clone(call) }
    }

    /// How many calls are under way.
    pub(super) fn calls(&self) -> usize {
        self.lock().len()
    }

    fn newest(&self) -> Option<Arc<CallHost>> {
        self.lock().last().cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<CallHost>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for WayHost {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        if let Some(call) = self.newest() {
            return call.ask(question);
        }
        let Some(mut session) = self.session.clone() else {
            return Box::pin(std::future::ready(Err(Failure::missing_capability(question.kind.capability()))));
        };
        let invisible = self.invisible();
        Box::pin(async move {
            let caller = session.wait_for(Option::is_some).await.ok().and_then(|caller| caller.clone());
            match caller.and_then(|caller| caller.upgrade()) {
                Some(caller) => match ask(&caller, None, vec![question], invisible).pop() {
                    Some(answer) => answer.await,
                    None => Err(unanswered()),
                },
                None => Err(unanswered()),
            }
        })
    }

    fn notice(&self, notice: Notice) {
        match self.invisible().notice(notice) {
            Notice::ToolsChanged => self.stale.mark(&[List::Tools], self.way.clone()),
            Notice::ResourcesChanged => self.stale.mark(&[List::Resources], self.way.clone()),
            Notice::PromptsChanged => self.stale.mark(&[List::Prompts], self.way.clone()),
            Notice::ResourceUpdated(uri) => self.ring(|bell| bell.resource_updated(uri)),
            Notice::ElicitationComplete(id) => self.ring(|bell| bell.elicitation_complete(id)),
            Notice::Log(_, log) => self.log(log),
            // They belong to calls, and an upstream's agent is not ours to tell of.
            Notice::Progress(..) | Notice::ComeBackLater(..) | Notice::GoesOnAsTask(_) | Notice::Agent(_) => {}
            // Who asks for such things has a way of its own.
            Notice::Capability(event) => {
                let session = self.session.as_ref().and_then(|session| session.borrow().clone());
                if let Some(caller) = session.as_ref().and_then(Weak::upgrade) {
                    caller.push(event);
                }
            }
        }
    }
}

impl WayHost {
    /// A line that no call is known to have caused. It goes to whoever it may be about, and to nobody if that could be
    /// somebody else's business.
    fn log(&self, log: Log) {
        if let Some(session) = &self.session {
            let caller = session.borrow().as_ref().and_then(Weak::upgrade);
            match (self.newest(), caller) {
                (Some(call), _) => call.notice(Notice::Log(None, log)),
                (None, Some(caller)) => caller.tell(Notice::Log(None, log)),
                (None, None) => {}
            }
            return;
        }
        if matches!(*self.users.lock().unwrap_or_else(PoisonError::into_inner), Users::Several) {
            tracing::debug!("a log line of an upstream is kept back: it does not say whose call it is about");
            return;
        }
        let under_way = self.lock().clone();
        under_way.iter().for_each(|call| call.notice(Notice::Log(None, log.clone())));
    }

    /// The mode for invisible text.
    fn invisible(&self) -> Invisible {
        self.bell.as_ref().map(Bell::invisible).unwrap_or_default()
    }

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
    call: Arc<CallHost>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under_way = self.host.lock();
        if let Some(at) = under_way.iter().position(|call| Arc::ptr_eq(call, &self.call)) {
            under_way.remove(at);
        }
    }
}

/// Asks a caller. The answers come in the order of the questions; one that is refused is answered here.
fn ask(
    caller: &Arc<dyn Caller>,
    call: Option<CallId>,
    questions: Vec<Question>,
    invisible: Invisible,
) -> Vec<BoxFuture<'static, Answered>> {
    let (mut asking, mut answers) = (Vec::with_capacity(questions.len()), Vec::with_capacity(questions.len()));
    for question in questions {
        let (answer, awaited) = oneshot::channel::<Answered>();
        match invisible.question(question) {
            Ok(question) => asking.push(Asking { question, answer }),
            // The receiver is right here.
            Err(failure) => drop(answer.send(Err(failure))),
        }
        answers.push(Box::pin(async move { awaited.await.unwrap_or_else(|_| Err(unanswered())) }) as _);
    }
    if !asking.is_empty() {
        caller.ask(call, asking);
    }
    answers
}

fn unanswered() -> Failure {
    Failure::new(FailureKind::Unanswered, "the caller went away before it answered")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_two_principals_used_is_of_several_for_good() {
        let mut users = Users::default();
        for (principal, are_several) in [(None, false), (None, false), (Some("bob"), true), (None, true)] {
            users.add(&principal.map(Arc::from));
            assert_eq!(matches!(users, Users::Several), are_several, "{principal:?}");
        }
    }
}
