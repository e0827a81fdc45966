//! Our side towards a loaf server.
//!
//! It opens with a flexible handshake, then lists and calls tools if the server's `methods` include that. Of the
//! server's events, only those that belong to our own calls are used.

use std::collections::BTreeSet;
use std::sync::Arc;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, CallId, Failure, FailureKind, Notice, Operation, Outcome, Reply};
use gladhand_core::trace_context::propagated;
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::rpc::{self, Envelope};
use gladhand_core::wire::{Fault, Id, Members, RawValue, Skim, json};
use serde::Serialize;

use super::opening::{self, HandshakeParams};
use super::tools;
use crate::ambient::Ambient;
use crate::outgoing_requests::{OutgoingRequest, OutgoingRequests};
use crate::side::{Client, ClientSetup, Event, Heard};

/// The client side. One step, then drain.
#[derive(Debug)]
pub(super) struct LoafClient {
    setup: ClientSetup,
    state: State,
    requests: OutgoingRequests,
}

#[derive(Debug)]
enum State {
    /// The session is not open: before, during or after.
    Shut,
    /// The session is open, with the methods of the server.
    Open { methods: BTreeSet<String> },
}

impl LoafClient {
    /// A client before its opening.
    pub(super) fn new(setup: ClientSetup) -> Self {
        Self { setup, state: State::Shut, requests: OutgoingRequests::default() }
    }

    fn request<T: Serialize>(&mut self, request: OutgoingRequest, method: &str, params: Option<&T>, heard: &mut Heard) {
        let id = self.requests.add(request);
        let begin = heard.wire.len();
        rpc::request(&mut heard.wire, &Id::number(id), method, params);
        // Arguments can contain line breaks. Only the final one ends the line.
        let end = heard.wire.len() - 1;
        json::flatten(&mut heard.wire[begin..end]);
    }

    /// Whether the server has no `tools.call`, so that only its own agent can use its tools.
    fn has_no_calls(&self) -> bool {
        matches!(&self.state, State::Open { methods } if !methods.contains("tools.call"))
    }

    /// Sends the request of a call, or returns why that is not possible.
    fn begin(
        &mut self,
        call: CallId,
        operation: Operation<'_>,
        trace: Option<&RawValue>,
        heard: &mut Heard,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct CallParams<'a> {
            name: &'a str,
            arguments: &'a RawValue,
            /// The context of a distributed trace.
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            trace: Option<&'a RawValue>,
        }
        let State::Open { methods } = &self.state else {
            return Err(Failure::new(FailureKind::Internal, "no session is open"));
        };
        let method = match operation {
            Operation::ListTools => "tools.list",
            _ => "tools.call",
        };
        if !methods.contains(method) {
            return Err(Failure::new(FailureKind::UpstreamError, format!("the server does not offer {method}")));
        }
        self.requests.check_room()?;
        match operation {
            Operation::ListTools => self.request(OutgoingRequest::List(call), method, None::<&()>, heard),
            Operation::CallTool(tool) => {
                let params = CallParams { name: &tool.name, arguments: &tool.arguments, trace };
                self.request(OutgoingRequest::Call(call), method, Some(&params), heard);
            }
            _ => return Err(Failure::new(FailureKind::Internal, "this dialect has only tools")),
        }
        Ok(())
    }

    fn answered(&mut self, request: OutgoingRequest, envelope: &Envelope<'_>, heard: &mut Heard) {
        let answer = match (envelope.result, envelope.error) {
            (Some(result), None) => Ok(result),
            (_, Some(error)) => Err(error),
            (None, None) => Err(RawValue::NULL),
        };
        let outcome: Option<(CallId, Outcome)> = match (request, answer) {
            (OutgoingRequest::Closing, _) => None,
            (OutgoingRequest::Opening, Ok(result)) => {
                match opening::read_answer(&self.setup, result) {
                    Ok((agreement, methods)) => {
                        self.state = State::Open { methods };
                        heard.events.push(Event::Opened(Arc::new(agreement)));
                    }
                    Err(refusal) => heard.events.push(Event::Refused(refusal)),
                }
                None
            }
            (OutgoingRequest::Opening, Err(error)) => {
                heard.events.push(Event::Refused(opening::read_refusal(&self.setup, error)));
                None
            }
            (OutgoingRequest::List(call), Ok(result)) => Some((call, tools::read_list(result))),
            (OutgoingRequest::Call(call), Ok(result)) => Some((call, tools::read_returned(result))),
            (OutgoingRequest::List(call) | OutgoingRequest::Call(call), Err(error)) => {
                Some((call, Err(tools::read_failure(error))))
            }
        };
        heard.events.extend(outcome.map(|(call, outcome)| Event::Answered(call, outcome)));
    }

    /// Removes the request that a response belongs to.
    fn take_request(&mut self, id: &RawValue) -> Option<OutgoingRequest> {
        match Kind::of(id) {
            Kind::Null => self.requests.take_only(),
            _ => self.requests.take(id.get().parse().ok()?),
        }
    }

    fn receive_event(&self, params: Option<&RawValue>, heard: &mut Heard) {
        let Some(event) = params.and_then(Members::of) else { return };
        let Some(payload) = event.object("payload") else { return };
        let request = payload.raw("request_id").and_then(|raw| raw.get().parse::<u64>().ok());
        let Some(OutgoingRequest::Call(call)) = request.and_then(|id| self.requests.get(id)) else { return };
        let notice = match event.str("type").as_deref() {
            Some("tool.progress") => tools::read_progress(&payload).map(|progress| Notice::Progress(call, progress)),
            Some("tool.log") => tools::read_log(&payload).map(|log| Notice::Log(Some(call), log)),
            _ => None,
        };
        heard.events.extend(notice.map(Event::Notice));
    }
}

impl Client for LoafClient {
    fn open(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let params = json::to_raw(&HandshakeParams::new(&self.setup));
        self.request(OutgoingRequest::Opening, "rpc.handshake", Some(&params), heard);
    }

    fn handle_line(&mut self, text: &str, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let Ok(envelope) = Envelope::parse(text) else {
            heard.events.push(Event::Dropped("a line that is not a JSON object"));
            return;
        };
        match (envelope.method_name().as_deref(), envelope.id) {
            (Some("event"), None) => self.receive_event(envelope.params, heard),
            (None, Some(id)) => match self.take_request(id) {
                Some(request) => self.answered(request, &envelope, heard),
                None => heard.events.push(Event::Dropped("a response without a pending request")),
            },
            _ => heard.events.push(Event::Dropped("neither an answer nor an event")),
        }
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, skim: &Skim, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let id = skim.answered().and_then(|id| id.parse::<u64>().ok());
        heard.events.push(self.requests.unreadable(id, fault));
    }

    fn call(
        &mut self,
        call: Call<'_>,
        _behalf: Option<&Arc<Agreement>>,
        _ambient: &mut Ambient<'_>,
        heard: &mut Heard,
    ) {
        let trace = call.terms.meta.as_deref().and_then(propagated);
        let (operation, call) = (call.operation, call.id);
        if let Some(outcome) = operation.outcome_with_only_tools() {
            heard.events.push(Event::Answered(call, outcome));
        } else if matches!(operation, Operation::ListTools) && self.has_no_calls() {
            // Tools that cannot be called are not listed.
            heard.events.push(Event::Answered(call, Ok(Reply::Tools(Arc::default()))));
        } else if let Err(failure) = self.begin(call, operation, trace.as_deref(), heard) {
            heard.events.push(Event::Answered(call, Err(failure)));
        }
    }

    fn cancel(&mut self, call: CallId, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        // loaf has no cancellation: the server continues, and its answer is dropped.
        heard.events.extend(self.requests.cancel(call));
    }

    fn handle_disconnect(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        self.state = State::Shut;
        heard.events.extend(self.requests.disconnect());
    }

    fn close(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if matches!(self.state, State::Open { .. }) {
            self.state = State::Shut;
            self.request(OutgoingRequest::Closing, "system.shutdown", None::<&()>, heard);
        }
    }
}
