//! A hub with one capability and its own folder, and agents that send requests to it.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gladhand_a2e_host::clock::Clock;
use gladhand_a2e_host::storage::Storage;
use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand_core::operations::{Call, CallId, CapabilityCall, Failure, FailureKind, Notice, Operation, Party, Reply};
use gladhand_core::wire::json;
use gladhand_hub::{Asking, Caller, Hub, Provider, SessionId, Visit};
use gladhand_store::Database;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// A hub with one capability.
pub(crate) struct Fixture {
    hub: Hub,
    runtime: Arc<Runtime>,
    time: Arc<AtomicU64>,
}

impl Fixture {
    /// Opens the database in a folder, and the provider that uses it. The clock shows 1000 seconds.
    pub(crate) fn open(folder: &Path, make: impl FnOnce(Storage, Clock) -> Box<dyn Provider>) -> Self {
        Self::with(Storage::new(Database::open(folder).expect("the folder is writable")), make)
    }

    /// The same with any database, also with one that cannot be opened.
    pub(crate) fn with(storage: Storage, make: impl FnOnce(Storage, Clock) -> Box<dyn Provider>) -> Self {
        let time = Arc::new(AtomicU64::new(1000));
        let shown = Arc::clone(&time);
        let clock = Clock::showing(move || shown.load(Ordering::Relaxed) as f64);
        let hub = Hub::new(vec![make(storage, clock)]).expect("unique provider names");
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        Self { hub, runtime: Arc::new(runtime), time }
    }

    /// An agent in its own session, on standard streams.
    pub(crate) fn agent(&self, name: &str) -> Agent {
        self.agent_of(name, Proof::Local)
    }

    /// An agent in its own session, with this proof of identity.
    pub(crate) fn agent_of(&self, name: &str, proof: Proof) -> Agent {
        let visit = self.hub.visit();
        let caller: Arc<dyn Caller> = Arc::new(Session(visit.id()));
        let (hub, runtime) = (self.hub.clone(), Arc::clone(&self.runtime));
        Agent { hub, runtime, agreement: agreement(name, proof), proof, caller, _visit: visit }
    }

    /// An agent without a session.
    pub(crate) fn passer_by(&self) -> Agent {
        Agent { caller: Arc::new(Session(SessionId::NONE)), ..self.agent("") }
    }

    /// Runs concurrent requests.
    pub(crate) fn run<T>(&self, requests: impl Future<Output = T>) -> T {
        self.runtime.block_on(requests)
    }

    /// Closes the hub.
    pub(crate) fn close(&self) {
        self.runtime.block_on(self.hub.closed());
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, seconds: u64) {
        self.time.fetch_add(seconds, Ordering::Relaxed);
    }
}

/// The proof of identity of an agent, and its transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nothing, on standard streams.
    Local,
    /// Nothing, over a network.
    Anonymous,
    /// A token in its handshake, on standard streams.
    Pass(&'static str),
    /// A token in its requests, over a network.
    Principal(&'static str),
    /// Both.
    Both(&'static str, &'static str),
}

/// An agent in its own session.
pub(crate) struct Agent {
    hub: Hub,
    runtime: Arc<Runtime>,
    proof: Proof,
    agreement: Arc<Agreement>,
    caller: Arc<dyn Caller>,
    _visit: Visit,
}

impl Agent {
    /// The answer to a request, or the code and the text of the error.
    pub(crate) fn ask(&self, kind: &'static str, message: Value) -> Result<Value, (String, String)> {
        let answer = self.ask_in_text(kind, message.to_string())?;
        Ok(serde_json::from_str(&answer).expect("a valid JSON answer"))
    }

    /// The same as text, so that a test can compare every character.
    pub(crate) fn ask_in_text(&self, kind: &'static str, message: String) -> Result<String, (String, String)> {
        self.outcome(kind, message).map_err(|failure| match failure.kind {
            FailureKind::Capability(code) => (code.to_owned(), failure.message),
            kind => (kind.word().to_owned(), failure.message),
        })
    }

    /// The answer as text, or the whole failure.
    pub(crate) fn outcome(&self, kind: &'static str, message: String) -> Result<String, Failure> {
        self.runtime.block_on(self.begin(kind, message))
    }

    /// The future answer to a request, as text.
    pub(crate) fn begin(
        &self,
        kind: &'static str,
        message: String,
    ) -> impl Future<Output = Result<String, Failure>> + Send + use<> {
        let capability = match kind.split_once('/') {
            Some(("memory", _)) => "memory",
            Some(("learn", _)) => "learning",
            _ => "planning",
        };
        let message = Cow::Owned(json::raw(message));
        let call = CapabilityCall { kind, capability, request: None, message };
        let mut call = Call::new(CallId(1), Operation::Capability(call));
        call.terms.party = match self.proof {
            Proof::Local | Proof::Pass(_) => None,
            Proof::Anonymous => Some(Party(7)),
            Proof::Principal(name) | Proof::Both(name, _) => {
                Some(Party(1000 + name.bytes().map(u64::from).sum::<u64>()))
            }
        };
        call.terms.principal = match self.proof {
            Proof::Principal(name) | Proof::Both(name, _) => Some(name.into()),
            Proof::Local | Proof::Anonymous | Proof::Pass(_) => None,
        };
        let answer = self.hub.answer(call, &self.agreement, &self.caller);
        async move {
            match answer.outcome().await {
                Ok(Reply::Capability(raw)) => Ok(raw.get().to_owned()),
                Ok(other) => panic!("{kind} was answered with {other:?}"),
                Err(failure) => Err(failure),
            }
        }
    }

    /// The answer to a request that must succeed.
    #[track_caller]
    pub(crate) fn get(&self, kind: &'static str, message: Value) -> Value {
        self.ask(kind, message).unwrap_or_else(|error| panic!("{kind}: {error:?}"))
    }

    /// The code of the error that answers a request.
    #[track_caller]
    pub(crate) fn refused(&self, kind: &'static str, message: Value) -> String {
        self.ask(kind, message).expect_err("expected a refusal").0
    }

    /// The same session after another handshake, under another name.
    pub(crate) fn renamed(mut self, name: &str) -> Self {
        self.agreement = agreement(name, self.proof);
        self
    }
}

fn agreement(name: &str, proof: Proof) -> Arc<Agreement> {
    let rules = Rules {
        dialect: "test",
        versions: VersionRule::Common,
        minimum: Minimum::Nothing,
        defines: |_, _, _| Defined::Yes,
    };
    let (client, server) = (Offer::new(Peer::new(name, ""), ["1"]), Offer::new(Peer::default(), ["1"]));
    let pass = match proof {
        Proof::Pass(name) | Proof::Both(_, name) => Some(name.into()),
        Proof::Local | Proof::Anonymous | Proof::Principal(_) => None,
    };
    Arc::new(Agreement { pass, ..agree(&rules, &client, &server).expect("one version on both sides") })
}

#[derive(Debug)]
struct Session(SessionId);

impl Caller for Session {
    fn tell(&self, _: Notice) {}

    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}

    fn session(&self) -> SessionId {
        self.0
    }
}
