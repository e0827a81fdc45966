//! A session with the agent of this process, and what is heard of it.

use std::sync::Arc;

use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand_core::operations::{
    AgentCall, AgentEvent, Call, CallId, Failure, FailureKind, Notice, Operation, Reply, Terms,
};
use gladhand_core::wire::{Members, RawValue};
use gladhand_hub::{Asking, Caller, Hub, SessionId, Settling, Visit};

use gladhand_server::event_queue::EventQueue;

/// A session with the agent.
#[derive(Debug)]
pub(super) struct Talk {
    hub: Hub,
    agreement: Arc<Agreement>,
    receiver: Arc<dyn Caller>,
    heard: Arc<EventQueue>,
    /// The name of the session.
    pub(super) session: String,
    _visit: Visit,
}

/// Receives the events of the agent.
#[derive(Debug)]
struct EventReceiver {
    session: SessionId,
    heard: Arc<EventQueue>,
}

impl Caller for EventReceiver {
    fn tell(&self, _: Notice) {}

    // Tools ask the agent, which has no answers of its own; the questions are dropped and count as not answered.
    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}

    fn event(&self, event: AgentEvent) {
        self.heard.push(Notice::Agent(event));
    }

    fn keeping_up(&self) -> Option<Settling> {
        self.heard.keeping_up()
    }

    fn session(&self) -> SessionId {
        self.session
    }
}

/// The model that answers in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Speaker {
    pub(super) model: String,
    pub(super) provider: String,
}

impl Talk {
    /// Begins a session whose tools work in a folder.
    pub(super) async fn begin(hub: Hub, folder: Option<&str>) -> Result<Self, Failure> {
        let (visit, heard) = (hub.visit(), Arc::new(EventQueue::default()));
        let receiver = Arc::new(EventReceiver { session: visit.id(), heard: Arc::clone(&heard) });
        let agreement = Arc::new(agreement());
        let mut talk = Self { hub, agreement, receiver, heard, session: String::new(), _visit: visit };
        let created = talk.ask(AgentCall::Create { title: None, folder: folder.map(Into::into) }).await?;
        let id = Members::of(&created).and_then(|created| created.str("session_id").map(String::from));
        talk.session = id.ok_or_else(|| Failure::new(FailureKind::Internal, "the agent began no session"))?;
        Ok(talk)
    }

    /// Asks the agent something.
    pub(super) async fn ask(&self, asked: AgentCall<'_>) -> Result<Box<RawValue>, Failure> {
        let call = Call { id: CallId(0), operation: Operation::Agent(asked), terms: Terms::default() };
        match self.hub.answer(call, &self.agreement, &self.receiver).outcome().await? {
            Reply::Agent(said) => Ok(said),
            _ => Err(Failure::new(FailureKind::Internal, "the agent answered something else")),
        }
    }

    /// Runs a slash command; what came of it.
    pub(super) async fn command(&self, line: &str) -> Result<Box<RawValue>, Failure> {
        let said = self.ask(AgentCall::Command { session: self.session.as_str().into(), line: line.into() }).await?;
        let output = Members::of(&said).and_then(|said| said.raw("output").map(ToOwned::to_owned));
        Ok(output.unwrap_or(said))
    }

    /// Stops what runs.
    pub(super) async fn interrupt(&self) {
        if let Err(error) = self.ask(AgentCall::Interrupt(self.session.as_str().into())).await {
            tracing::debug!(%error, "nothing was interrupted");
        }
    }

    /// The model that answers from now on, if there is one.
    pub(super) async fn speaker(&self) -> Option<Speaker> {
        let said = self.command("/model").await.ok()?;
        let chosen = Members::of(&said)?;
        let of = |name: &str| chosen.str(name).map(String::from).filter(|text| !text.is_empty());
        Some(Speaker { model: of("selected_model")?, provider: of("selected_provider")? })
    }

    /// Why there is no model, where one was set up.
    pub(super) async fn trouble(&self) -> Option<String> {
        let said = self.command("/model").await.ok()?;
        Members::of(&said)?.str("trouble").map(String::from)
    }

    /// Ends when something was heard.
    pub(super) async fn heard(&self) {
        self.heard.arrived().await;
    }

    /// The next thing that was heard, of this session or of none.
    pub(super) fn next_event(&self) -> Option<AgentEvent> {
        loop {
            let Notice::Agent(event) = self.heard.pop()? else { continue };
            let of = Members::of(&event.payload).and_then(|payload| payload.str("session_id").map(String::from));
            if of.is_none_or(|session| session == self.session) {
                return Some(event);
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.heard.close();
    }
}

/// There is nothing to negotiate between a person and the agent of the same process.
fn agreement() -> Agreement {
    let rules = Rules {
        dialect: "chat",
        versions: VersionRule::Common,
        minimum: Minimum::Nothing,
        defines: |_, _, _| Defined::Yes,
    };
    let offer = |name: &str| Offer::new(Peer::new(name, env!("CARGO_PKG_VERSION")), ["1"]);
    agree(&rules, &offer("chat"), &offer("gladhand")).expect("both sides have the one version")
}
