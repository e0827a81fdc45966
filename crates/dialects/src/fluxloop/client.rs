//! Our side towards a Fluxloop server.
//!
//! It starts in page form. A shipped server is recognised because it does not know the page's handshake, and the client
//! then switches to the shipped form. Answers are matched by id, independent of their order.

use std::collections::BTreeMap;
use std::sync::Arc;

use gladhand_core::negotiation::{Agreement, Refusal};
use gladhand_core::operations::{Call, CallId, Failure, FailureKind, Operation, Outcome, Reply, Tool, ToolCall};
use gladhand_core::wire::FrameKind;
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::text::MAX_DEPTH;
use gladhand_core::wire::{Fault, Members, RawValue, Skim, json};

use super::answers;
use super::envelope::{Form, HANDSHAKE, RESERVED, push_member};
use super::numbers;
use super::opening;
use crate::MAX_TOOLS;
use crate::ambient::Ambient;
use crate::side::{Client, ClientSetup, Event, Heard};

/// Maximum number of pending requests.
const MAX_PENDING: usize = 4_096;

/// The client side. One step, then drain.
#[derive(Debug)]
pub(super) struct FluxloopClient {
    setup: ClientSetup,
    form: Form,
    is_open: bool,
    pending: BTreeMap<u64, Pending>,
    next_id: u64,
}

/// The kind of a pending request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    /// The handshake of the opening.
    Opening,
    /// A handshake that was sent for its list of tools.
    List(CallId),
    /// A tool call.
    Call(CallId),
}

impl FluxloopClient {
    /// A client before its opening.
    pub(super) fn new(setup: ClientSetup) -> Self {
        Self { setup, form: Form::Page, is_open: false, pending: BTreeMap::new(), next_id: 0 }
    }

    fn handshake(&mut self, request_kind: Pending, heard: &mut Heard) {
        let id = self.add_pending(request_kind);
        let word = match self.form {
            Form::Page => "type",
            Form::Shipped => "tool",
        };
        heard.wire.begin(FrameKind::Request);
        heard.wire.push(b'{');
        push_member(&mut heard.wire, word, HANDSHAKE);
        push_member(&mut heard.wire, "id", &id);
        heard.wire.push(b'}');
        heard.wire.end();
    }

    fn request(&mut self, call: CallId, tool: &ToolCall<'_>, heard: &mut Heard) -> Result<(), Failure> {
        let parameters = self.sendable(&tool.arguments)?;
        let id = self.add_pending(Pending::Call(call));
        let wire = &mut heard.wire;
        let begin = wire.len();
        wire.begin(FrameKind::Request);
        wire.push(b'{');
        match self.form {
            Form::Page => {
                push_member(wire, "type", "request");
                push_member(wire, "id", &id);
                push_member(wire, "tool", tool.name.as_ref());
                push_member(wire, "params", tool.arguments.as_ref());
            }
            Form::Shipped => {
                push_member(wire, "id", &id);
                push_member(wire, "tool", tool.name.as_ref());
                for (name, value) in parameters.iter() {
                    push_member(wire, name, value);
                }
            }
        }
        json::flatten(&mut wire[begin..]);
        wire.push(b'}');
        wire.end();
        Ok(())
    }

    /// Checks that the arguments can be sent. A server answers an unreadable line without an id, and such an answer
    /// matches no request.
    fn sendable<'a>(&self, arguments: &'a RawValue) -> Result<Members<'a>, Failure> {
        let refused = |problem| Err(Failure::new(FailureKind::InvalidArguments, problem));
        let text = arguments.get();
        if numbers::holds_out_of_range(text) {
            return refused("a number in the arguments is out of range");
        }
        if json::lone_surrogate(text.as_bytes()).is_some() {
            return refused("the arguments hold half a surrogate pair");
        }
        if json::is_deeper_than(text.as_bytes(), MAX_DEPTH - 1) {
            return refused("the arguments nest too deeply");
        }
        let Some(members) = Members::of(arguments) else { return refused("the arguments are not an object") };
        if self.form == Form::Shipped && members.iter().any(|(name, _)| RESERVED.contains(&name)) {
            return refused("this server cannot be sent an argument named `id` or `tool`");
        }
        Ok(members)
    }

    fn add_pending(&mut self, request_kind: Pending) -> String {
        self.next_id += 1;
        self.pending.insert(self.next_id, request_kind);
        self.next_id.to_string()
    }

    fn begin(&mut self, call: CallId, operation: &Operation<'_>, heard: &mut Heard) -> Result<(), Failure> {
        if !self.is_open {
            return Err(Failure::new(FailureKind::Internal, "no session is open"));
        }
        if self.pending.len() >= MAX_PENDING {
            return Err(Failure::new(FailureKind::Busy, "too many requests without an answer"));
        }
        match operation {
            Operation::ListTools => self.handshake(Pending::List(call), heard),
            Operation::CallTool(tool) => self.request(call, tool, heard)?,
            _ => return Err(Failure::new(FailureKind::Internal, "this dialect has only tools")),
        }
        Ok(())
    }

    /// Removes and returns the request that an answer belongs to.
    fn take_pending(&mut self, id: Option<&RawValue>) -> Option<Pending> {
        match id.filter(|id| Kind::of(id) != Kind::Null) {
            Some(id) => self.pending.remove(&json::string(id)?.parse().ok()?),
            // The server could not read a line of ours. If only one request is pending, it was that one.
            None if self.pending.len() == 1 => self.pending.pop_first().map(|(_, request_kind)| request_kind),
            None => None,
        }
    }

    fn opened(&mut self, answer: Answer<'_>, heard: &mut Heard) {
        let event = match answer {
            Answer::Result(result) => match opening::read_answer(&self.setup, result) {
                Ok(agreement) => {
                    self.is_open = true;
                    Event::Opened(Arc::new(agreement))
                }
                Err(refusal) => Event::Refused(refusal),
            },
            Answer::Error(error) => {
                let error = Members::of(error).unwrap_or_default();
                let code = error.str("code").unwrap_or_default();
                if code == "unknown_tool" && self.form == Form::Page {
                    self.form = Form::Shipped;
                    return self.handshake(Pending::Opening, heard);
                }
                let message = error.raw("message").map(answers::words).unwrap_or_default();
                Event::Refused(Refusal::PeerRefused { code: code.into_owned(), message })
            }
        };
        heard.events.push(event);
    }
}

/// An answer without its envelope.
#[derive(Clone, Copy)]
enum Answer<'a> {
    Result(&'a RawValue),
    Error(&'a RawValue),
}

impl<'a> Answer<'a> {
    fn read(members: &Members<'a>, form: Form) -> Option<Self> {
        match members.str("type")?.as_ref() {
            "error" => members.raw("error").map(Answer::Error),
            "response" => {
                let result = members.raw("result")?;
                match form {
                    Form::Page => Some(Answer::Result(result)),
                    Form::Shipped => Members::of(result)?.raw("data").map(Answer::Result),
                }
            }
            _ => None,
        }
    }
}

impl Client for FluxloopClient {
    fn open(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        self.handshake(Pending::Opening, heard);
    }

    fn handle_line(&mut self, text: &str, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let Ok(members) = Members::parse(text) else {
            heard.events.push(Event::Dropped("a line that is not a JSON object"));
            return;
        };
        let is_answer = matches!(members.str("type").as_deref(), Some("response" | "error"));
        let pending = if is_answer { self.take_pending(members.raw("id")) } else { None };
        let Some(pending) = pending else {
            heard.events.push(Event::Dropped("a response without a pending request"));
            return;
        };
        let outcome = match (pending, Answer::read(&members, self.form)) {
            (Pending::Opening, Some(answer)) => return self.opened(answer, heard),
            (Pending::Opening, None) => {
                let problem = "the answer to the handshake has neither result nor error".to_owned();
                heard.events.push(Event::Refused(Refusal::PeerMisbehaved { problem }));
                return;
            }
            (Pending::List(_), Some(Answer::Result(result))) => read_tools(result),
            (Pending::Call(_), Some(Answer::Result(result))) => Ok(Reply::Tool(answers::read_result(result))),
            (Pending::List(_), Some(Answer::Error(error))) => answers::read_error(error).and_then(no_list),
            (Pending::Call(_), Some(Answer::Error(error))) => answers::read_error(error),
            (_, None) => Err(upstream_error("the answer has neither result nor error")),
        };
        if let Pending::List(call) | Pending::Call(call) = pending {
            heard.events.push(Event::Answered(call, outcome));
        }
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, skim: &Skim, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let id = skim.answered().and_then(|id| id.trim_matches('"').parse::<u64>().ok());
        heard.events.push(match id.and_then(|id| self.pending.remove(&id)) {
            Some(Pending::List(call) | Pending::Call(call)) => Event::Answered(call, Err(Failure::unreadable(fault))),
            Some(Pending::Opening) => {
                Event::Refused(Refusal::PeerMisbehaved { problem: Failure::unreadable(fault).message })
            }
            None => Event::Dropped("a line that cannot be read"),
        });
    }

    fn call(
        &mut self,
        call: Call<'_>,
        _behalf: Option<&Arc<Agreement>>,
        _ambient: &mut Ambient<'_>,
        heard: &mut Heard,
    ) {
        let (operation, call) = (call.operation, call.id);
        if let Some(outcome) = operation.outcome_with_only_tools() {
            heard.events.push(Event::Answered(call, outcome));
        } else if let Err(failure) = self.begin(call, &operation, heard) {
            heard.events.push(Event::Answered(call, Err(failure)));
        }
    }

    fn cancel(&mut self, call: CallId, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        // Fluxloop has no cancellation: the server continues, and its answer is dropped.
        let is_it =
            |request_kind: &Pending| matches!(request_kind, Pending::List(id) | Pending::Call(id) if *id == call);
        if let Some(request) =
            self.pending.iter().find(|(_, request_kind)| is_it(request_kind)).map(|(request, _)| *request)
        {
            self.pending.remove(&request);
            let failure = Failure::new(FailureKind::Cancelled, "cancelled by the caller");
            heard.events.push(Event::Answered(call, Err(failure)));
        }
    }

    fn handle_disconnect(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        self.is_open = false;
        for request_kind in std::mem::take(&mut self.pending).into_values() {
            heard.events.push(match request_kind {
                Pending::Opening => Event::Refused(Refusal::PeerGone),
                Pending::List(call) | Pending::Call(call) => {
                    let failure = Failure::new(FailureKind::UpstreamLost, "the server disconnected");
                    Event::Answered(call, Err(failure))
                }
            });
        }
    }
}

/// Fluxloop's list contains only the names of tools.
fn read_tools(result: &RawValue) -> Outcome {
    let names = opening::read_names(result).map_err(upstream_error)?;
    if names.len() > MAX_TOOLS {
        return Err(Failure::list_too_long("capabilities", MAX_TOOLS));
    }
    let schema = || json::raw(r#"{"type":"object"}"#.to_owned());
    Ok(Reply::Tools(names.into_iter().map(|name| Tool::new(name, "", schema())).collect()))
}

/// A tool's failure in answer to a handshake is not a list.
fn no_list(_failed: Reply) -> Outcome {
    Err(upstream_error("the server failed to list its tools"))
}

fn upstream_error(problem: &str) -> Failure {
    Failure::new(FailureKind::UpstreamError, problem)
}
