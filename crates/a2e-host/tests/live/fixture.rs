//! A hub with one capability, and sessions that send requests and collect events.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand_core::operations::{
    Call, CallId, CapabilityCall, CapabilityEvent, FailureKind, Notice, Operation, Outcome, Party, Reply,
};
use gladhand_core::wire::{Id, json};
use gladhand_hub::{Asking, Caller, Hub, Provider, SessionId, Settling, Visit};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Test timeout, far longer than any step takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A hub with one capability.
#[derive(Debug)]
pub(crate) struct Fixture {
    hub: Hub,
    agreement: Arc<Agreement>,
}

impl Fixture {
    pub(crate) fn with(provider: impl Provider + 'static) -> Self {
        let rules = Rules {
            dialect: "test",
            versions: VersionRule::Common,
            minimum: Minimum::Nothing,
            defines: |_, _, _| Defined::Yes,
        };
        let offer = Offer::new(Peer::default(), ["1"]);
        let agreement = Arc::new(agree(&rules, &offer, &offer).expect("one version on both sides"));
        Self { hub: Hub::new(vec![Box::new(provider)]).expect("unique provider names"), agreement }
    }

    /// A session that keeps up with all events.
    pub(crate) fn session(&self) -> Session {
        self.session_that_reads(usize::MAX)
    }

    /// A session that counts as behind after more unread events than `window`.
    pub(crate) fn session_that_reads(&self, window: usize) -> Session {
        let visit = self.hub.visit();
        let ear = Ear { session: visit.id(), heard: watch::Sender::new(Heard::default()), window };
        Session {
            hub: self.hub.clone(),
            agreement: Arc::clone(&self.agreement),
            ear: Arc::new(ear),
            visit: Mutex::new(Some(visit)),
            calls: AtomicU64::new(1),
            party: None,
        }
    }

    /// A session of a client that is this party.
    pub(crate) fn session_of(&self, party: u64) -> Session {
        Session { party: Some(Party(party)), ..self.session() }
    }

    /// Closes the hub.
    pub(crate) async fn closed(&self) {
        tokio::time::timeout(PATIENCE, self.hub.closed()).await.expect("the hub closes in time");
    }
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    hub: Hub,
    agreement: Arc<Agreement>,
    ear: Arc<Ear>,
    visit: Mutex<Option<Visit>>,
    calls: AtomicU64,
    party: Option<Party>,
}

/// The events of a session.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) events: Vec<Value>,
    read: usize,
}

impl Session {
    /// Sends a request and waits: the members of the response, or the code and the text of the error.
    pub(crate) async fn ask(&self, kind: &'static str, message: Value) -> Result<Value, (String, String)> {
        let answer = self.begin(kind, message);
        tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time")
    }

    /// Sends a request and returns the future of its answer. The request is served before this returns.
    pub(crate) fn begin(
        &self,
        kind: &'static str,
        message: Value,
    ) -> impl Future<Output = Result<Value, (String, String)>> + Send + use<> {
        let outcome = self.outcome(kind, message);
        async move { told(outcome.await) }
    }

    /// The same with the whole outcome.
    pub(crate) fn outcome(&self, kind: &'static str, message: Value) -> impl Future<Output = Outcome> + Send + use<> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let capability = kind.split_once('/').expect("a kind with a slash").0;
        let call = CapabilityCall {
            kind,
            capability: ["proc", "env", "skill"]
                .into_iter()
                .find(|one| *one == capability)
                .expect("a known capability"),
            request: Some(Id::of(&json::to_raw(&format!("r{number}")))),
            message: Cow::Owned(json::to_raw(&message)),
        };
        let caller: Arc<dyn Caller> = Arc::clone(&self.ear) as _;
        let mut call = Call::new(CallId(number), Operation::Capability(call));
        call.terms.party = self.party;
        let answer = self.hub.answer(call, &self.agreement, &caller);
        answer.outcome()
    }

    /// Waits for an event that matches, and returns it.
    pub(crate) async fn heard(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        self.until(|heard| heard.events.iter().any(&is_it)).await;
        self.events().into_iter().find(is_it).expect("the event that was awaited")
    }

    /// Waits until the condition holds for the events.
    pub(crate) async fn until(&self, holds: impl Fn(&Heard) -> bool) {
        let mut changes = self.ear.heard.subscribe();
        let waiting = changes.wait_for(|heard| holds(heard));
        drop(
            tokio::time::timeout(PATIENCE, waiting)
                .await
                .expect("the condition holds in time")
                .expect("we hold the sender"),
        );
    }

    /// All events so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.ear.heard.borrow().events.clone()
    }

    /// Marks all events as read, so that the session is not behind.
    pub(crate) fn catch_up(&self) {
        self.ear.heard.send_modify(|heard| heard.read = heard.events.len());
    }

    /// Ends the session.
    pub(crate) fn leave(&self) {
        drop(self.visit.lock().expect("the lock is not poisoned").take());
    }
}

fn told(outcome: Outcome) -> Result<Value, (String, String)> {
    match outcome {
        Ok(Reply::Capability(members)) => Ok(serde_json::from_str(members.get()).expect("a valid JSON reply")),
        Ok(other) => panic!("expected the reply of a capability, got {other:?}"),
        Err(failure) => match failure.kind {
            FailureKind::Capability(code) => Err((code.to_owned(), failure.message)),
            other => Err((other.word().to_owned(), failure.message)),
        },
    }
}

#[derive(Debug)]
struct Ear {
    session: SessionId,
    heard: watch::Sender<Heard>,
    window: usize,
}

impl Caller for Ear {
    fn tell(&self, _: Notice) {}

    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}

    fn push(&self, event: CapabilityEvent) {
        let mut whole: Value = serde_json::from_str(event.fields.get()).expect("fields are JSON");
        whole["type"] = event.kind.into();
        whole["req_id"] =
            event.request.map_or(json!(null), |id| serde_json::from_str(id.as_json()).expect("an id is JSON"));
        self.heard.send_modify(|heard| heard.events.push(whole));
    }

    fn keeping_up(&self) -> Option<Settling> {
        let window = self.window;
        let is_behind = move |heard: &Heard| heard.events.len() - heard.read > window;
        if !is_behind(&self.heard.borrow()) {
            return None;
        }
        let mut changes = self.heard.subscribe();
        Some(Box::pin(async move {
            let _ = changes.wait_for(|heard| !is_behind(heard)).await;
        }))
    }

    fn session(&self) -> SessionId {
        self.session
    }
}

/// Waits until a process is gone. A zombie counts as gone.
pub(crate) async fn gone(pid: u64) {
    let is_gone = || match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => true,
    };
    let waiting = async {
        while !is_gone() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("process {pid} is still running"));
}
