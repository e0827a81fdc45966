//! Routes the requests and notices of an upstream to the right caller.
//!
//! A message that belongs to a call goes to the caller of that call. If the dialect does not name the call, the message
//! goes to the newest running call. Callers share a connection to an upstream only if this choice cannot be wrong.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use gladhand_core::operations::{Answered, CallId, Failure, FailureKind, Log, Notice, Question, QuestionKind};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::policy::Invisible;
use gladhand_hub::{Asking, Caller, ChangeNotifier, Context, Hearers, List};
use tokio::sync::{oneshot, watch};

use super::client_roots::{self, Allowed};
use super::stale::Stale;
use super::upstream_connection::UpstreamConnection;
use crate::upstream::UpstreamEvents;

/// The one session that a connection belongs to, once it is open. The reference is weak, so that it does not keep the
/// session from ending.
pub(super) type Session = watch::Receiver<Option<Weak<dyn Caller>>>;

/// Passes the notices and requests of one call to its caller.
#[derive(Debug)]
pub(super) struct CallEvents {
    call: CallId,
    pub(super) caller: Arc<dyn Caller>,
    principal: Option<Arc<str>>,
    notifier: ChangeNotifier,
    /// The folders in which the caller's roots may lie.
    roots: Allowed,
    /// How many server requests wait for the caller.
    open: Arc<AtomicUsize>,
    /// Whether the caller answers all requests of a round together.
    in_rounds: bool,
    /// Requests that wait for others of the same round.
    gathered: Mutex<Vec<Asking>>,
    this: Weak<Self>,
}

/// How long a request waits for others of the same round. A server with a handshake sends each one separately.
const ROUND: Duration = Duration::from_millis(20);

impl CallEvents {
    pub(super) fn of(context: &Context<'_>, roots: Allowed) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            call: context.call,
            caller: Arc::clone(context.caller),
            principal: context.terms.principal.clone(),
            notifier: context.notifier.clone(),
            roots,
            open: Arc::default(),
            in_rounds: context.agreement.per_request,
            gathered: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    /// Sends requests to the caller. If the caller answers in rounds, requests that arrive together are combined.
    fn put(&self, asking: Vec<Asking>) {
        if asking.is_empty() {
            return;
        }
        if !self.in_rounds {
            return self.caller.ask(Some(self.call), asking);
        }
        let is_first = {
            let mut gathered = self.gathered.lock().unpoisoned();
            let is_first = gathered.is_empty();
            gathered.extend(asking);
            is_first
        };
        let Some(this) = self.this.upgrade().filter(|_| is_first) else { return };
        tokio::spawn(async move {
            tokio::time::sleep(ROUND).await;
            let gathered = std::mem::take(&mut *this.gathered.lock().unpoisoned());
            this.caller.ask(Some(this.call), gathered);
        });
    }

    /// Whether the call waits for an answer of its caller.
    pub(super) fn is_waiting(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }
}

impl UpstreamEvents for CallEvents {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        self.ask_together(vec![question]).pop().unwrap_or_else(|| Box::pin(std::future::ready(Err(unanswered()))))
    }

    fn ask_together(&self, questions: Vec<Question>) -> Vec<BoxFuture<'static, Answered>> {
        let (asking, answers) = prepared(questions, self.notifier.invisible(), &self.roots);
        self.put(asking);
        answers
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
        // The call id of the downstream session differs from that of the upstream session.
        match self.notifier.invisible().notice(notice) {
            Notice::Progress(_, progress) => self.caller.tell(Notice::Progress(self.call, progress)),
            Notice::Log(_, log) => self.caller.tell(Notice::Log(Some(self.call), log)),
            Notice::GoesOnAsTask(_) => self.caller.tell(Notice::GoesOnAsTask(self.call)),
            other => self.caller.tell(other),
        }
    }
}

/// Whose calls a connection has carried.
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

/// Receives the notices and requests of a connection that belong to no call.
#[derive(Debug)]
pub(super) struct ConnectionEvents {
    /// Running calls, the newest last.
    under_way: Mutex<Vec<Arc<CallEvents>>>,
    /// The one session that this connection belongs to, once it is open. Without one, the upstream can send requests
    /// only to callers.
    session: Option<Session>,
    notifier: Option<ChangeNotifier>,
    /// The first user of this connection, and whether it had other users.
    users: Mutex<Users>,
    /// The connection itself.
    connection: Weak<UpstreamConnection>,
    /// Whether the connection is one of a pool.
    is_pooled: bool,
    /// Where word goes that a list has changed.
    stale: Arc<Stale>,
    /// Where roots of the session may lie.
    roots: Allowed,
    /// Log lines that came before the session was open.
    early: Mutex<Vec<Log>>,
    /// Whether the connection is being closed because its session does not read events.
    is_closing: AtomicBool,
}

/// How many log lines are kept until the session is open that they go to.
const EARLY_LOGS: usize = 64;

impl ConnectionEvents {
    pub(super) fn new(
        session: Option<Session>,
        notifier: Option<ChangeNotifier>,
        stale: Arc<Stale>,
        roots: Allowed,
    ) -> Self {
        let (under_way, users, early) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (connection, is_pooled, is_closing) = (Weak::new(), false, AtomicBool::new(false));
        Self { under_way, session, notifier, users, connection, is_pooled, stale, roots, early, is_closing }
    }

    /// The same for this connection, which may be one of a pool.
    pub(super) fn of(self, connection: &Weak<UpstreamConnection>, is_pooled: bool) -> Self {
        Self { connection: connection.clone(), is_pooled, ..self }
    }

    /// Marks a call as running until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, call: &Arc<CallEvents>) -> UnderWay {
        self.users.lock().unpoisoned().add(&call.principal);
        self.lock().push(Arc::clone(call));
        UnderWay { events: Arc::clone(self), call: Arc::clone(call) }
    }

    /// The number of running calls.
    pub(super) fn calls(&self) -> usize {
        self.lock().len()
    }

    fn newest(&self) -> Option<Arc<CallEvents>> {
        self.lock().last().cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<CallEvents>>> {
        self.under_way.lock().unpoisoned()
    }
}

impl UpstreamEvents for ConnectionEvents {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        if let Some(call) = self.newest() {
            return call.ask(question);
        }
        let Some(mut session) = self.session.clone() else {
            return Box::pin(std::future::ready(Err(Failure::missing_capability(question.kind.capability()))));
        };
        let (invisible, roots) = (self.invisible(), self.roots.clone());
        Box::pin(async move {
            let caller = session.wait_for(Option::is_some).await.ok().and_then(|caller| caller.clone());
            match caller.and_then(|caller| caller.upgrade()) {
                Some(caller) => {
                    let (asking, mut answers) = prepared(vec![question], invisible, &roots);
                    if !asking.is_empty() {
                        caller.ask(None, asking);
                    }
                    match answers.pop() {
                        Some(answer) => answer.await,
                        None => Err(unanswered()),
                    }
                }
                None => Err(unanswered()),
            }
        })
    }

    fn notice(&self, notice: Notice) {
        match self.invisible().notice(notice) {
            Notice::ToolsChanged => self.stale.mark(&[List::Tools], self.connection.clone()),
            Notice::ResourcesChanged => self.stale.mark(&[List::Resources], self.connection.clone()),
            Notice::PromptsChanged => self.stale.mark(&[List::Prompts], self.connection.clone()),
            Notice::ResourceUpdated(update) => self.updated(&update.uri),
            Notice::ElicitationComplete(id) => match &self.session {
                Some(session) => {
                    let caller = session.borrow().as_ref().and_then(Weak::upgrade);
                    caller.iter().for_each(|caller| caller.tell(Notice::ElicitationComplete(id.clone())));
                }
                // A pooled connection is for callers without a session, so no session was asked.
                None if self.is_pooled => {
                    let under_way = self.lock().clone();
                    under_way.iter().for_each(|call| call.notice(Notice::ElicitationComplete(id.clone())));
                }
                None => self.ring(|notifier| notifier.elicitation_complete(id)),
            },
            Notice::Log(_, log) => self.log(log),
            // These belong to calls, and events of an upstream's agent are not forwarded.
            Notice::Progress(..) | Notice::ComeBackLater(..) | Notice::GoesOnAsTask(_) | Notice::Agent(_) => {}
            // A client that uses capabilities has a separate connection.
            Notice::Capability(event) => {
                let session = self.session.as_ref().and_then(|session| session.borrow().clone());
                match session.as_ref().and_then(Weak::upgrade) {
                    Some(caller) if !self.is_closing.load(Ordering::Relaxed) && caller.has_room_for_events() => {
                        caller.push(event);
                    }
                    Some(_) => self.close_connection(),
                    None => {}
                }
            }
        }
    }
}

impl ConnectionEvents {
    /// Closes the connection: its upstream sends events that its session does not read, and no event may be lost. Calls in flight
    /// fail, and the next call opens the connection again.
    fn close_connection(&self) {
        let Some(connection) = self.connection.upgrade().filter(|_| !self.is_closing.swap(true, Ordering::Relaxed))
        else {
            return;
        };
        tracing::warn!(
            upstream = connection.name(),
            "session with the upstream closed: its client does not read its events"
        );
        tokio::spawn(async move {
            connection.close().await;
            connection.events.is_closing.store(false, Ordering::Relaxed);
        });
    }

    /// A resource has changed. On a connection that not all callers share, only its own callers are notified.
    fn updated(&self, uri: &str) {
        let session = self.session.as_ref().and_then(|session| session.borrow().as_ref().and_then(Weak::upgrade));
        let users = self.users.lock().unpoisoned();
        let hearers = match (&session, &*users) {
            (Some(caller), _) => Hearers::Session(caller.session()),
            (None, Users::One(principal)) if self.is_pooled => Hearers::Sessionless(principal.as_deref()),
            _ => Hearers::All,
        };
        self.ring(|notifier| notifier.resource_updated_for(uri, hearers));
    }

    /// A log line without a known call. It goes to the caller that it may concern. If it could concern another caller,
    /// it is dropped.
    fn log(&self, log: Log) {
        if let Some(session) = &self.session {
            let caller = session.borrow().as_ref().and_then(Weak::upgrade);
            match (self.newest(), caller) {
                (Some(call), _) => call.notice(Notice::Log(None, log)),
                (None, Some(caller)) => caller.tell(Notice::Log(None, log)),
                (None, None) => {
                    let mut early = self.early.lock().unpoisoned();
                    if early.len() < EARLY_LOGS {
                        early.push(log);
                    }
                }
            }
            return;
        }
        if matches!(*self.users.lock().unpoisoned(), Users::Several) {
            tracing::debug!("a log line of an upstream is kept back: it does not say whose call it is about");
            return;
        }
        let under_way = self.lock().clone();
        under_way.iter().for_each(|call| call.notice(Notice::Log(None, log.clone())));
    }

    /// The session that this connection belongs to is open: passes on the log lines that the upstream wrote before that.
    pub(super) fn joined(&self, caller: &Arc<dyn Caller>) {
        let early = std::mem::take(&mut *self.early.lock().unpoisoned());
        early.into_iter().for_each(|log| caller.tell(Notice::Log(None, log)));
    }

    /// The mode for invisible text.
    fn invisible(&self) -> Invisible {
        self.notifier.as_ref().map(ChangeNotifier::invisible).unwrap_or_default()
    }

    fn ring(&self, ring: impl FnOnce(&ChangeNotifier)) {
        if let Some(notifier) = &self.notifier {
            ring(notifier);
        }
    }
}

/// A running call, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    events: Arc<ConnectionEvents>,
    call: Arc<CallEvents>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under_way = self.events.lock();
        if let Some(at) = under_way.iter().position(|call| Arc::ptr_eq(call, &self.call)) {
            under_way.remove(at);
        }
    }
}

/// Questions as they are put to a caller, and their answers in the order of the questions. One that is refused is answered here.
fn prepared(
    questions: Vec<Question>,
    invisible: Invisible,
    roots: &Allowed,
) -> (Vec<Asking>, Vec<BoxFuture<'static, Answered>>) {
    let (mut asking, mut answers) = (Vec::with_capacity(questions.len()), Vec::with_capacity(questions.len()));
    for question in questions {
        let (answer, awaited) = oneshot::channel::<Answered>();
        let allowed = roots.clone().filter(|_| question.kind == QuestionKind::Roots);
        match invisible.question(question) {
            Ok(question) => asking.push(Asking { question, answer }),
            // The receiver is right here.
            Err(failure) => drop(answer.send(Err(failure))),
        }
        answers.push(Box::pin(async move {
            let answered = awaited.await.unwrap_or_else(|_| Err(unanswered()));
            match allowed {
                Some(allowed) => client_roots::held(answered, allowed).await,
                None => answered,
            }
        }) as _);
    }
    (asking, answers)
}

fn unanswered() -> Failure {
    Failure::new(FailureKind::Unanswered, "the caller went away before it answered")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_used_by_two_principals_stays_shared() {
        let mut users = Users::default();
        for (principal, are_several) in [(None, false), (None, false), (Some("bob"), true), (None, true)] {
            users.add(&principal.map(Arc::from));
            assert_eq!(matches!(users, Users::Several), are_several, "{principal:?}");
        }
    }
}
