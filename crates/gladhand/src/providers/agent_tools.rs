//! The agent as tools, for peers whose dialect has no agent sessions.
//!
//! Four tools: begin a session, say something in it and wait for the answer, interrupt it, read it. While a turn runs,
//! its steps are reported as progress. Cancelling the call interrupts the turn.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gladhand_a2e_host::owner::Owner;
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{
    AgentCall, AgentEvent, CallId, Failure, FailureKind, Notice, Outcome, Progress, Reply, Terms, Tool, ToolCall,
    ToolResult,
};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{Members, RawValue, json};
use gladhand_hub::{
    Agent, Answer, Asking, Caller, ChangeNotifier, Context, Provider, Reporter, SessionId, SessionObserver,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// Sessions of the hub are counted from below; ours, which are none, from above.
static LISTENERS: AtomicU64 = AtomicU64::new(u64::MAX);

/// The four tools in front of an agent.
#[derive(Debug)]
pub struct AgentTools {
    agent: Arc<dyn Agent>,
    /// Whose the sessions are that were begun here.
    owners: Arc<Mutex<HashMap<String, Begun>>>,
}

/// Who began a session.
#[derive(Debug)]
struct Begun {
    by: Owner,
    /// In which session of its own.
    session: SessionId,
    agreement: Arc<Agreement>,
    notifier: ChangeNotifier,
}

impl AgentTools {
    /// In front of this agent.
    pub fn new(agent: Arc<dyn Agent>) -> Self {
        Self { agent, owners: Arc::default() }
    }
}

const CREATE: &str = r#"{"type":"object","properties":{"title":{"type":"string","description":"What the session is about"},"cwd":{"type":"string","description":"The folder that its tools work in"}}}"#;
const SEND: &str = r#"{"type":"object","properties":{"session_id":{"type":"string","description":"From agent_session_create"},"text":{"type":"string","description":"What to say to the agent"}},"required":["session_id","text"]}"#;
const SESSION: &str = r#"{"type":"object","properties":{"session_id":{"type":"string","description":"From agent_session_create"}},"required":["session_id"]}"#;

#[derive(Debug, Deserialize)]
struct Create {
    title: Option<String>,
    cwd: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Session {
    session_id: String,
}

#[derive(Debug, Deserialize)]
struct Send {
    session_id: String,
    text: String,
}

impl Provider for AgentTools {
    fn name(&self) -> &str {
        "agent"
    }

    fn tools(&self) -> Vec<Tool> {
        let tool =
            |name: &str, description: &str, schema: &str| Tool::new(name, description, json::raw(schema.to_owned()));
        vec![
            tool("agent_session_create", "Begins a session with the coding agent. Returns its id.", CREATE),
            tool(
                "agent_send",
                "Says something to the agent and waits for its answer, tools included. Reports each step; cancelling interrupts the agent.",
                SEND,
            ),
            tool("agent_interrupt", "Stops what the agent is doing in a session.", SESSION),
            tool("agent_history", "Returns a session with everything that was said in it.", SESSION),
        ]
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        self.answer(&call, context).unwrap_or_else(|failure| Answer::Now(Err(failure)))
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }
}

impl SessionObserver for AgentTools {
    /// Ends the agent sessions that this session began, with all programs that their tools left running. The chats are
    /// kept.
    fn left(&self, session: SessionId) {
        if session == SessionId::NONE {
            return;
        }
        let mut owners = self.owners.lock().unpoisoned();
        let gone: Vec<_> = owners.extract_if(|_, owner| owner.session == session).collect();
        drop(owners);
        // When everything ends there is nothing left to end by itself.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for (id, Begun { agreement, notifier, .. }) in gone {
            let (listener, _) = Listener::to(&self.agent, &agreement, Terms::default(), &notifier);
            runtime.spawn(async move {
                // The session may have been deleted already.
                let _ = listener.ask(AgentCall::Delete(id.into())).outcome().await;
            });
        }
    }
}

impl AgentTools {
    /// Whether a session is the caller's own. Sessions of other callers are reported as unknown.
    fn check_owner(&self, session: &str, context: &Context<'_>) -> Result<(), Failure> {
        let caller = Owner::of(context);
        let owners = self.owners.lock().unpoisoned();
        match owners.get(session) {
            Some(begun) if begun.by == caller => Ok(()),
            _ => Err(Failure::unknown_session(session)),
        }
    }

    fn answer(&self, call: &ToolCall<'_>, context: &Context<'_>) -> Result<Answer, Failure> {
        let terms = context.terms.on_behalf();
        let (listener, events) = Listener::to(&self.agent, context.agreement, terms, context.notifier);
        let asked = match call.name.as_ref() {
            "agent_session_create" => {
                let Create { title, cwd } = call.read()?;
                let asked = AgentCall::Create { title: title.map(Into::into), folder: cwd.map(Into::into) };
                let owners = Arc::clone(&self.owners);
                let begun = Begun {
                    by: Owner::of(context),
                    session: context.caller.session(),
                    agreement: Arc::clone(context.agreement),
                    notifier: context.notifier.clone(),
                };
                return Ok(Answer::later(async move {
                    let created = said(listener.ask(asked).outcome().await)?;
                    if let Some(id) =
                        Members::of(&created).and_then(|created| created.str("session_id").map(String::from))
                    {
                        owners.lock().unpoisoned().insert(id, begun);
                    }
                    Ok(ToolResult::structured(created))
                }));
            }
            name @ ("agent_interrupt" | "agent_history") => {
                let Session { session_id } = call.read()?;
                self.check_owner(&session_id, context)?;
                match name {
                    "agent_interrupt" => AgentCall::Interrupt(session_id.into()),
                    _ => AgentCall::Get(session_id.into()),
                }
            }
            "agent_send" => {
                let Send { session_id, text } = call.read()?;
                self.check_owner(&session_id, context)?;
                return Ok(Answer::later(listener.converse(session_id, text, events, context.reporter())));
            }
            other => return Err(Failure::unknown_tool(other)),
        };
        Ok(Answer::later(async move { said(listener.ask(asked).outcome().await).map(ToolResult::structured) }))
    }
}

/// The answer of the agent.
fn said(outcome: Outcome) -> Result<Box<RawValue>, Failure> {
    match outcome? {
        Reply::Agent(said) => Ok(said),
        _ => Err(Failure::new(FailureKind::Internal, "the agent answered something else")),
    }
}

/// Sends requests to the agent and receives its events, until this is dropped.
#[derive(Debug)]
struct Listener {
    agent: Arc<dyn Agent>,
    agreement: Arc<Agreement>,
    /// On whose behalf the agent is asked: its tools are called in that name.
    terms: Terms<'static>,
    notifier: ChangeNotifier,
    receiver: Arc<dyn Caller>,
}

/// Receives the events of the agent.
#[derive(Debug)]
struct EventReceiver {
    session: SessionId,
    events: mpsc::UnboundedSender<AgentEvent>,
}

impl Caller for EventReceiver {
    fn tell(&self, _: Notice) {}

    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}

    fn event(&self, event: AgentEvent) {
        // The send fails if the call was cancelled.
        let _ = self.events.send(event);
    }

    fn session(&self) -> SessionId {
        self.session
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.agent.left(self.receiver.session());
    }
}

impl Listener {
    fn to(
        agent: &Arc<dyn Agent>,
        agreement: &Arc<Agreement>,
        terms: Terms<'static>,
        notifier: &ChangeNotifier,
    ) -> (Self, mpsc::UnboundedReceiver<AgentEvent>) {
        let (sender, events) = mpsc::unbounded_channel();
        let session = SessionId(LISTENERS.fetch_sub(1, Ordering::Relaxed));
        let listener = Self {
            agent: Arc::clone(agent),
            agreement: Arc::clone(agreement),
            terms,
            notifier: notifier.clone(),
            receiver: Arc::new(EventReceiver { session, events: sender }),
        };
        (listener, events)
    }

    fn ask(&self, call: AgentCall<'_>) -> Answer {
        let Self { agent, agreement, terms, notifier, receiver } = self;
        agent.ask(call, &Context { call: CallId(0), terms, agreement, caller: receiver, notifier })
    }

    /// Says something and follows the turn to its end.
    async fn converse(
        self,
        session: String,
        text: String,
        mut events: mpsc::UnboundedReceiver<AgentEvent>,
        reporter: Reporter,
    ) -> Result<ToolResult, Failure> {
        let send =
            AgentCall::Send { session: session.as_str().into(), text: text.into(), enqueue: true, images: Vec::new() };
        let sent = said(self.ask(send).outcome().await)?;
        let turn = Members::of(&sent).and_then(|sent| sent.str("turn_id").map(String::from)).unwrap_or_default();
        let mut running = Running { listener: &self, session: &session, ended: false };
        let mut heard = Heard { session_id: &session, turn_id: turn.clone(), ..Heard::default() };
        while let Some(event) = events.recv().await {
            let Some(payload) = Members::of(&event.payload) else { continue };
            if payload.str("session_id").as_deref() != Some(session.as_str()) {
                continue;
            }
            // An event with another turn id belongs to an earlier turn in the queue.
            if payload.str("turn_id").is_some_and(|of| of != turn) {
                continue;
            }
            if heard.hear(event.kind, &payload, &reporter) {
                running.ended = true;
                break;
            }
        }
        drop(running);
        let failed = heard.error.is_some();
        Ok(ToolResult { failed, ..ToolResult::structured(json::to_raw(&heard)) })
    }
}

/// A turn that is being followed. Dropping this before the end interrupts the turn.
struct Running<'a> {
    listener: &'a Listener,
    session: &'a str,
    ended: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.ended {
            drop(self.listener.ask(AgentCall::Interrupt(self.session.into())));
        }
    }
}

/// The events of a turn, collected.
#[derive(Debug, Default, Serialize)]
struct Heard<'a> {
    session_id: &'a str,
    turn_id: String,
    answer: String,
    tools: Vec<String>,
    interrupted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    steps: u32,
}

impl Heard<'_> {
    /// Takes an event in; true at the end of the turn.
    fn hear(&mut self, kind: &str, payload: &Members<'_>, reporter: &Reporter) -> bool {
        match kind {
            "session.stream.chunk" => {
                let chunk = payload.object("chunk").unwrap_or_default();
                self.answer.push_str(&chunk.str("answerText").unwrap_or_default());
            }
            "session.status" => {
                if let Some(label) = payload.str("status_label") {
                    self.report(label.into_owned(), reporter);
                }
            }
            "session.tool.call.started" => {
                let call = payload.object("data").and_then(|data| data.object("call"));
                let name = call.and_then(|call| call.str("name").map(String::from)).unwrap_or_default();
                self.report(format!("runs {name}"), reporter);
                self.tools.push(name);
            }
            "session.completed" => return true,
            "session.interrupted" => {
                self.interrupted = true;
                return true;
            }
            "session.error" => {
                self.error = payload.str("message").map(String::from);
                return true;
            }
            _ => {}
        }
        false
    }

    fn report(&mut self, message: String, reporter: &Reporter) {
        self.steps += 1;
        reporter.progress(Progress { progress: self.steps.into(), total: None, message: Some(message) });
    }
}
