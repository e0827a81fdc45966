//! Our side towards a Fluxloop client.
//!
//! Every object gets exactly one answer, in request order and in the form of the request. A handshake is a call like
//! any other, because its answer lists the tools. The same applies to the answer for an unknown tool in page form.

use std::sync::Arc;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, CallId, Failure, FailureKind, Notice, Operation, Outcome, Reply, ToolCall};
use gladhand_core::wire::Frames;
use gladhand_core::wire::{Fault, Id, RawValue};
use serde::Serialize;

use super::answers;
use super::envelope::{self, Error, Form, ParsedLine, Request};
use super::opening::{self, HandshakeResult, Opened};
use super::queue::Queue;
use crate::ambient::Ambient;
use crate::side::{Action, Output, Server, ServerSetup, Stop};

/// The server side. One step, then drain.
#[derive(Debug)]
pub(super) struct FluxloopServer {
    setup: ServerSetup,
    session: Session,
    queue: Queue<IncomingRequest>,
    next_call: u64,
}

/// The state of the opening. Fluxloop requires no order of messages (`fluxloop` §7).
#[derive(Debug)]
enum Session {
    /// No request has arrived.
    None,
    /// A handshake is pending.
    HandshakePending(Arc<Agreement>),
    /// The session is open. Records how it was opened.
    Open(Arc<Agreement>, Opened),
}

/// A request whose answer is missing.
#[derive(Debug)]
struct IncomingRequest {
    form: Form,
    id: Option<Id>,
    kind: RequestKind,
}

#[derive(Debug)]
enum RequestKind {
    /// The list of tools, for a handshake.
    Handshake,
    /// The result of a tool.
    Tool { name: Box<str> },
    /// The list of tools, for the error that this tool does not exist.
    Alternatives { name: Box<str> },
}

impl FluxloopServer {
    /// A server before its first request.
    pub(super) fn new(setup: ServerSetup) -> Self {
        Self { setup, session: Session::None, queue: Queue::default(), next_call: 0 }
    }

    fn refuse(&mut self, form: Form, id: Option<&RawValue>, error: &Error, out: &mut Output<'_>) {
        let id = id.map(RawValue::get);
        self.queue.push(&mut out.wire, |wire| envelope::write_error(wire, form, id, error));
    }

    fn deliver<'a>(
        &mut self,
        incoming: IncomingRequest,
        operation: Operation<'a>,
        agreement: Arc<Agreement>,
        out: &mut Output<'a>,
    ) {
        if self.queue.missing_count() >= self.setup.max_in_flight {
            let error = Error::new("busy", "Too many requests in flight");
            let IncomingRequest { form, id, .. } = incoming;
            let id = id.as_ref().map(Id::as_json);
            self.queue.push(&mut out.wire, |wire| envelope::write_error(wire, form, id, &error));
            return;
        }
        let call = self.new_call();
        let bytes = incoming.held_bytes();
        self.queue.reserve(call, incoming, bytes);
        let call = Call::new(call, operation);
        out.actions.push(Action::Deliver(call, agreement));
    }

    fn new_call(&mut self) -> CallId {
        self.next_call += 1;
        CallId(self.next_call)
    }

    /// The agreement for a handshake. The first handshake creates it, even if a request has opened the session before.
    fn handshake_agreement(&mut self) -> Option<Arc<Agreement>> {
        match &self.session {
            Session::HandshakePending(agreement) | Session::Open(agreement, Opened::ByHandshake) => {
                Some(Arc::clone(agreement))
            }
            Session::None => {
                let agreement = Arc::new(opening::agreement(&self.setup, Opened::ByHandshake).ok()?);
                self.session = Session::HandshakePending(Arc::clone(&agreement));
                Some(agreement)
            }
            Session::Open(_, Opened::ByRequest) => {
                opening::agreement(&self.setup, Opened::ByHandshake).ok().map(Arc::new)
            }
        }
    }

    /// The agreement for a request. The first request opens the session if no handshake did.
    fn in_force(&mut self, out: &mut Output<'_>) -> Option<Arc<Agreement>> {
        let (agreement, opened) = match &self.session {
            Session::Open(agreement, _) => return Some(Arc::clone(agreement)),
            // The request follows a pending handshake, so the session counts as open.
            Session::HandshakePending(agreement) => (Arc::clone(agreement), Opened::ByHandshake),
            Session::None => (Arc::new(opening::agreement(&self.setup, Opened::ByRequest).ok()?), Opened::ByRequest),
        };
        self.open(Arc::clone(&agreement), opened, out);
        Some(agreement)
    }

    fn open(&mut self, agreement: Arc<Agreement>, opened: Opened, out: &mut Output<'_>) {
        self.session = Session::Open(Arc::clone(&agreement), opened);
        out.actions.push(Action::Opened(agreement));
    }

    /// Announces the session once, after the answer to a handshake.
    fn handshake_answered(&mut self, out: &mut Output<'_>) {
        match &self.session {
            Session::HandshakePending(agreement) => self.open(Arc::clone(agreement), Opened::ByHandshake, out),
            Session::Open(_, Opened::ByRequest) => {
                if let Ok(agreement) = opening::agreement(&self.setup, Opened::ByHandshake) {
                    self.open(Arc::new(agreement), Opened::ByHandshake, out);
                }
            }
            Session::Open(_, Opened::ByHandshake) | Session::None => {}
        }
    }
}

impl Server for FluxloopServer {
    fn handle_line<'a>(&mut self, text: &'a str, _ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        let ParsedLine { form, id, request } = ParsedLine::read(text);
        let incoming = |kind| IncomingRequest { form, id: id.map(Id::of), kind };
        match request {
            Err(error) => self.refuse(form, id, &error, out),
            Ok(Request::Handshake) => match self.handshake_agreement() {
                Some(agreement) => self.deliver(incoming(RequestKind::Handshake), Operation::ListTools, agreement, out),
                None => self.refuse(form, id, &no_agreement(), out),
            },
            Ok(Request::Call { tool, params }) => match self.in_force(out) {
                Some(agreement) => {
                    let kind = RequestKind::Tool { name: tool.as_ref().into() };
                    let operation = Operation::CallTool(ToolCall { name: tool, arguments: params });
                    self.deliver(incoming(kind), operation, agreement, out);
                }
                None => self.refuse(form, id, &no_agreement(), out),
            },
        }
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        out.actions.push(Action::Dropped("a line that cannot be read"));
        self.refuse(Form::Page, None, &Error::unreadable(fault), out);
    }

    fn handle_outcome(&mut self, call: CallId, outcome: Outcome, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let Some(incoming) = self.queue.waiting(call) else { return };
        match (&outcome, &incoming.kind) {
            (Err(failure), RequestKind::Tool { .. })
                if failure.kind == FailureKind::UnknownTool && incoming.form == Form::Page =>
            {
                // The page requires the names of the other tools in the answer, so list them first.
                if let Session::Open(agreement, _) = &self.session {
                    let agreement = Arc::clone(agreement);
                    let another = self.new_call();
                    self.queue.wait_on(call, another, IncomingRequest::look_for_alternatives);
                    let call = Call::new(another, Operation::ListTools);
                    out.actions.push(Action::Deliver(call, agreement));
                    return;
                }
            }
            (Ok(_), RequestKind::Handshake) => self.handshake_answered(out),
            _ => {}
        }
        let identity = &self.setup.identity;
        self.queue.fill(&mut out.wire, call, |wire, incoming| match &incoming.kind {
            RequestKind::Handshake => incoming.answer_handshake(wire, &outcome, identity),
            RequestKind::Tool { name } => incoming.answer_tool(wire, name, &outcome),
            RequestKind::Alternatives { name } => incoming.answer_unknown(wire, name, &outcome),
        });
    }

    fn notify(&mut self, _notice: Notice, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {
        // Fluxloop has no one-way messages.
    }

    fn stop(&mut self, _stop: Stop, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {
        // Nothing to send: requests that were read are completed and answered.
    }

    fn in_flight(&self) -> Vec<CallId> {
        self.queue.missing().collect()
    }

    fn held_bytes(&self) -> usize {
        self.queue.held_bytes()
    }
}

impl IncomingRequest {
    /// The number of kept bytes that the peer controls.
    fn held_bytes(&self) -> usize {
        let name = match &self.kind {
            RequestKind::Handshake => 0,
            RequestKind::Tool { name } | RequestKind::Alternatives { name } => name.len(),
        };
        name + self.id.as_ref().map_or(0, |id| id.as_bytes().len())
    }

    fn look_for_alternatives(&mut self) {
        if let RequestKind::Tool { name } = &mut self.kind {
            self.kind = RequestKind::Alternatives { name: std::mem::take(name) };
        }
    }

    fn answer_handshake(&self, wire: &mut Frames, outcome: &Outcome, identity: &gladhand_core::negotiation::Peer) {
        match outcome {
            Ok(Reply::Tools(tools)) => {
                let result = HandshakeResult::new(self.form, answers::names(tools, self.form), identity);
                self.write_result(wire, "handshake", &result);
            }
            Ok(_) => self.write_error(wire, &answers::failed(&mismatched_reply())),
            Err(failure) => self.write_error(wire, &answers::failed(failure)),
        }
    }

    fn answer_tool(&self, wire: &mut Frames, name: &str, outcome: &Outcome) {
        match outcome {
            Ok(Reply::Tool(result)) if result.failed => self.write_error(wire, &answers::reported(result)),
            Ok(Reply::Tool(result)) => {
                let data = answers::object(result);
                let is_cited_by_path = self.form == Form::Shipped && name == "faq";
                let cited = is_cited_by_path.then(|| answers::citing_by_path(&data)).flatten();
                self.write_result(wire, name, cited.as_ref().unwrap_or(&data));
            }
            Ok(_) => self.write_error(wire, &answers::failed(&mismatched_reply())),
            Err(failure) if failure.kind == FailureKind::UnknownTool => self.answer_unknown(wire, name, outcome),
            Err(failure) => self.write_error(wire, &answers::failed(failure)),
        }
    }

    fn answer_unknown(&self, wire: &mut Frames, name: &str, outcome: &Outcome) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Alternatives<'a> {
            available_tools: Vec<&'a str>,
        }
        let error = match self.form {
            Form::Page => Error::new("tool_not_found", format!("Unknown tool: {name}")),
            Form::Shipped => Error::new("unknown_tool", format!("Unknown tool '{name}'")),
        };
        match (self.form, outcome) {
            (Form::Page, Ok(Reply::Tools(tools))) => {
                let available_tools = opening::with_handshake(answers::names(tools, self.form));
                self.write_error(wire, &error.with(&Alternatives { available_tools }));
            }
            _ => self.write_error(wire, &error),
        }
    }

    fn write_result<T: Serialize + ?Sized>(&self, wire: &mut Frames, tool: &str, data: &T) {
        #[derive(Serialize)]
        struct Wrapped<'a, T: ?Sized> {
            tool: &'a str,
            data: &'a T,
        }
        let id = self.id.as_ref().map(Id::as_json);
        match self.form {
            Form::Page => envelope::write_response(wire, self.form, id, data),
            Form::Shipped => envelope::write_response(wire, self.form, id, &Wrapped { tool, data }),
        }
    }

    fn write_error(&self, wire: &mut Frames, error: &Error) {
        envelope::write_error(wire, self.form, self.id.as_ref().map(Id::as_json), error);
    }
}

fn no_agreement() -> Error {
    answers::failed(&Failure::new(FailureKind::Internal, "the negotiation failed"))
}

fn mismatched_reply() -> Failure {
    Failure::new(FailureKind::Internal, "the reply does not belong to the request")
}
