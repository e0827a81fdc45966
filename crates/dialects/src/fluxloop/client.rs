//! Our side towards a Fluxloop server.
//!
//! It starts in page form. A shipped server is recognised because it does not know the page's handshake, and the client
//! then switches to the shipped form. Answers are matched by id, independent of their order.

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
use crate::outgoing_requests::{OutgoingRequest, OutgoingRequests};
use crate::side::{Client, ClientSetup, Event, Heard};

/// The client side. One step, then drain.
#[derive(Debug)]
pub(super) struct FluxloopClient {
    setup: ClientSetup,
    form: Form,
    is_open: bool,
    requests: OutgoingRequests,
}

impl FluxloopClient {
    /// A client before its opening.
    pub(super) fn new(setup: ClientSetup) -> Self {
        Self { setup, form: Form::Page, is_open: false, requests: OutgoingRequests::default() }
    }

    fn handshake(&mut self, request: OutgoingRequest, heard: &mut Heard) {
        let id = self.requests.add(request).to_string();
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
        let id = self.requests.add(OutgoingRequest::Call(call)).to_string();
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

    fn begin(&mut self, call: CallId, operation: &Operation<'_>, heard: &mut Heard) -> Result<(), Failure> {
        if !self.is_open {
            return Err(Failure::new(FailureKind::Internal, "no session is open"));
        }
        self.requests.check_room()?;
        match operation {
            Operation::ListTools => self.handshake(OutgoingRequest::List(call), heard),
            Operation::CallTool(tool) => self.request(call, tool, heard)?,
            _ => return Err(Failure::new(FailureKind::Internal, "this dialect has only tools")),
        }
        Ok(())
    }

    /// Removes the request that a response belongs to.
    fn take_request(&mut self, id: Option<&RawValue>) -> Option<OutgoingRequest> {
        match id.filter(|id| Kind::of(id) != Kind::Null) {
            Some(id) => self.requests.take(json::string(id)?.parse().ok()?),
            None => self.requests.take_only(),
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
                    return self.handshake(OutgoingRequest::Opening, heard);
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
        self.handshake(OutgoingRequest::Opening, heard);
    }

    fn handle_line(&mut self, text: &str, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let Ok(members) = Members::parse(text) else {
            heard.events.push(Event::Dropped("a line that is not a JSON object"));
            return;
        };
        let is_answer = matches!(members.str("type").as_deref(), Some("response" | "error"));
        let request = if is_answer { self.take_request(members.raw("id")) } else { None };
        let Some(request) = request else {
            heard.events.push(Event::Dropped("a response without a pending request"));
            return;
        };
        let answer = Answer::read(&members, self.form);
        let (call, outcome) = match (request, answer) {
            (OutgoingRequest::Opening, Some(answer)) => return self.opened(answer, heard),
            (OutgoingRequest::Opening, None) => {
                let problem = "the answer to the handshake has neither result nor error".to_owned();
                heard.events.push(Event::Refused(Refusal::PeerMisbehaved { problem }));
                return;
            }
            // Fluxloop has no closing message.
            (OutgoingRequest::Closing, _) => return,
            (OutgoingRequest::List(call), Some(Answer::Result(result))) => (call, read_tools(result)),
            (OutgoingRequest::Call(call), Some(Answer::Result(result))) => {
                (call, Ok(Reply::Tool(answers::read_result(result))))
            }
            (OutgoingRequest::List(call), Some(Answer::Error(error))) => {
                (call, answers::read_error(error).and_then(no_list))
            }
            (OutgoingRequest::Call(call), Some(Answer::Error(error))) => (call, answers::read_error(error)),
            (OutgoingRequest::List(call) | OutgoingRequest::Call(call), None) => {
                (call, Err(upstream_error("the answer has neither result nor error")))
            }
        };
        heard.events.push(Event::Answered(call, outcome));
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, skim: &Skim, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let id = skim.answered().and_then(|id| id.trim_matches('"').parse::<u64>().ok());
        heard.events.push(self.requests.unreadable(id, fault));
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
        heard.events.extend(self.requests.cancel(call));
    }

    fn handle_disconnect(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        self.is_open = false;
        heard.events.extend(self.requests.disconnect());
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
