//! The parrot dialect: `{"parrot":NAME}` opens, `{"say":TEXT}` is answered by `{"heard":TEXT}`.
//!
//! It has one message, no ids (answers come in order) and one error, `{"squawk":WHY}`; enough to
//! need a claim, an agreement, a gate and both sides.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use gladhand_core::negotiation::{
    Agreement, Capability, Defined, Gate, Kind, Minimum, Need, Offer, Peer, Refusal, Rule, Rules, Side, VersionRule,
    agree,
};
use gladhand_core::operations::{
    Call, CallId, Content, Failure, FailureKind, Feature, Notice, Operation, Outcome, Reply, ToolCall, ToolResult,
};
use gladhand_core::wire::{Fault, FrameKind, FrameSummary, Frames, Members, RawValue, Skim, TextPolicy, json};
use gladhand_dialects::{
    Ambient, Claim, Client, ClientSetup, Dialect, Event, FirstLine, Heard, Output, Server, ServerSetup, Stop,
    side::Action,
};

/// The dialect, as the registry knows it.
pub(crate) static DIALECT: Dialect = Dialect {
    name: "parrot",
    versions: &["1"],
    text: TextPolicy::UNDECIDED,
    has_tokens: false,
    has_http: false,
    has_agent: false,
    carried: &[],
    claim,
    recognizes_reply: |line| line.members.as_ref().is_some_and(|members| members.has("squawk")),
    describe,
    offer: |_| Offer::default(),
    carriers: |feature| if feature == Feature::Tools { TABLE.to_vec() } else { Vec::new() },
    rules: || TABLE,
    refusal_line: |_, why, _, wire| squawk(wire, why),
    server: |setup| Box::new(ParrotServer::new(setup)),
    client: |setup| Box::new(ParrotClient { setup, waiting: VecDeque::new() }),
};

const TOOLS: &str = "tools";
const RULES: Rules = Rules {
    dialect: "parrot",
    versions: VersionRule::Common,
    minimum: Minimum::OneCapability,
    defines: |_, side, name| if side == Side::Server && name == TOOLS { Defined::Yes } else { Defined::Unknown },
};
static TABLE: &[Rule] = &[Rule {
    name: "say",
    from: Side::Client,
    kind: Kind::Call,
    needs: Some(Need { owner: Side::Server, capability: TOOLS }),
    since: "1",
    until: "",
}];

fn claim(first: &FirstLine<'_>) -> Claim {
    let opens = first.members.as_ref().is_some_and(|members| members.has("parrot"));
    if opens { Claim::Certain } else { Claim::No }
}

fn describe(text: &str) -> Option<FrameSummary<'_>> {
    let members = Members::parse(text).ok()?;
    let kinds = [
        ("parrot", FrameKind::Request),
        ("say", FrameKind::Request),
        ("heard", FrameKind::Result),
        ("squawk", FrameKind::Error { code: 0, names_request: false }),
    ];
    let (word, kind) = kinds.into_iter().find(|(word, _)| members.has(word))?;
    Some(FrameSummary { kind, name: Some(word.into()), id: None })
}

/// Writes a line. `kind` says what it is, so that the transport need not read it.
fn say(wire: &mut Frames, kind: FrameKind, word: &str, value: &RawValue) {
    wire.line(kind, format!("{{\"{word}\":{}}}", value.get()).as_bytes());
}

fn squawk(wire: &mut Frames, why: &str) {
    say(wire, FrameKind::Error { code: 0, names_request: false }, "squawk", &json::to_raw(why));
}

/// Our side towards a parrot.
#[derive(Debug)]
struct ParrotServer {
    setup: ServerSetup,
    open: Option<(Arc<Agreement>, Gate)>,
    /// Calls in order, with the answer once it is there.
    calls: VecDeque<(CallId, Option<Frames>)>,
    next: u64,
}

impl ParrotServer {
    fn new(setup: ServerSetup) -> Self {
        Self { setup, open: None, calls: VecDeque::new(), next: 0 }
    }

    fn open(&mut self, name: &str, out: &mut Output<'_>) {
        let client = Offer::new(Peer::new(name, ""), ["1"]);
        let mut server = Offer::new(self.setup.identity.clone(), ["1"]);
        if self.setup.menu.tools {
            server = server.providing(Capability::named(TOOLS));
        }
        match agree(&RULES, &client, &server) {
            Ok(agreement) => {
                let agreement = Arc::new(agreement);
                self.open = Some((Arc::clone(&agreement), Gate::new(TABLE, &agreement)));
                say(&mut out.wire, FrameKind::Result, "perched", &json::to_raw(&self.setup.identity.name));
                out.actions.push(Action::Opened(agreement));
            }
            Err(refusal) => {
                squawk(&mut out.wire, &refusal.to_string());
                out.actions.push(Action::Refused(refusal));
            }
        }
    }

    fn flush(&mut self, out: &mut Output<'_>) {
        while let Some((_, Some(answer))) = self.calls.front() {
            out.wire.append(answer);
            self.calls.pop_front();
        }
    }
}

impl Server for ParrotServer {
    fn handle_line<'a>(&mut self, text: &'a str, _: &mut Ambient<'_>, out: &mut Output<'a>) {
        let Ok(members) = Members::parse(text) else { return squawk(&mut out.wire, "not an object") };
        if let Some(name) = members.str("parrot") {
            return self.open(&name, out);
        }
        let Some((agreement, gate)) = &self.open else { return squawk(&mut out.wire, "say your name first") };
        let (Some(message), Ok(_)) = (members.raw("say"), gate.admit(Side::Client, "say")) else {
            return squawk(&mut out.wire, "a parrot only says");
        };
        self.next += 1;
        let id = CallId(self.next);
        self.calls.push_back((id, None));
        let arguments = Cow::Owned(json::raw(format!("{{\"message\":{}}}", message.get())));
        let operation = Operation::CallTool(ToolCall { name: "echo".into(), arguments });
        let call = Call::new(id, operation);
        out.actions.push(Action::Deliver(call, Arc::clone(agreement)));
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, _: &mut Ambient<'_>, out: &mut Output<'_>) {
        squawk(&mut out.wire, &fault.to_string());
    }

    fn handle_outcome(&mut self, call: CallId, outcome: Outcome, _: &mut Ambient<'_>, out: &mut Output<'_>) {
        let mut answer = Frames::default();
        match outcome {
            Ok(Reply::Tool(ToolResult { content, .. })) => match &content[..] {
                [Content::Text(text)] => say(&mut answer, FrameKind::Result, "heard", text),
                _ => squawk(&mut answer, "more than a parrot can say"),
            },
            Ok(_) => squawk(&mut answer, "nobody asked"),
            Err(failure) => squawk(&mut answer, &failure.message),
        }
        if let Some(entry) = self.calls.iter_mut().find(|(id, _)| *id == call) {
            entry.1 = Some(answer);
        }
        self.flush(out);
    }

    fn notify(&mut self, _: Notice, _: &mut Ambient<'_>, _: &mut Output<'_>) {}

    fn stop(&mut self, _: Stop, _: &mut Ambient<'_>, _: &mut Output<'_>) {}

    fn in_flight(&self) -> Vec<CallId> {
        self.calls.iter().filter(|(_, answer)| answer.is_none()).map(|(id, _)| *id).collect()
    }

    fn held_bytes(&self) -> usize {
        self.calls.iter().filter_map(|(_, answer)| answer.as_ref()).map(|answer| answer.len()).sum()
    }
}

/// Our side towards a parrot server.
#[derive(Debug)]
struct ParrotClient {
    setup: ClientSetup,
    waiting: VecDeque<CallId>,
}

impl Client for ParrotClient {
    fn open(&mut self, _: &mut Ambient<'_>, heard: &mut Heard) {
        say(&mut heard.wire, FrameKind::Request, "parrot", &json::to_raw(&self.setup.identity.name));
    }

    fn handle_line(&mut self, text: &str, _: &mut Ambient<'_>, heard: &mut Heard) {
        let Ok(members) = Members::parse(text) else { return heard.events.push(Event::Dropped("no object")) };
        if let Some(name) = members.str("perched") {
            let client = Offer::new(self.setup.identity.clone(), ["1"]);
            let server = Offer::new(Peer::new(name, ""), ["1"]).providing(Capability::named(TOOLS));
            heard.events.push(match agree(&RULES, &client, &server) {
                Ok(agreement) => Event::Opened(Arc::new(agreement)),
                Err(refusal) => Event::Refused(refusal),
            });
        } else if let Some(call) = self.waiting.pop_front() {
            heard.events.push(Event::Answered(
                call,
                match members.raw("heard") {
                    Some(text) => Ok(Reply::Tool(ToolResult {
                        content: vec![Content::Text(text.to_owned())],
                        ..ToolResult::default()
                    })),
                    None => Err(Failure::new(FailureKind::ToolFailed, members.str("squawk").unwrap_or_default())),
                },
            ));
        } else {
            let message = members.str("squawk").unwrap_or_default().into_owned();
            heard.events.push(Event::Refused(Refusal::PeerRefused { code: "squawk".to_owned(), message }));
        }
    }

    fn handle_unreadable_line(&mut self, _: &Fault, _: &Skim, _: &mut Ambient<'_>, heard: &mut Heard) {
        heard.events.push(Event::Dropped("garbled"));
    }

    fn call(&mut self, call: Call<'_>, _: Option<&Arc<Agreement>>, _: &mut Ambient<'_>, heard: &mut Heard) {
        let message = match &call.operation {
            Operation::CallTool(tool) if tool.name == "echo" => {
                Members::of(&tool.arguments).and_then(|m| m.raw("message"))
            }
            _ => None,
        };
        match message {
            Some(message) => {
                self.waiting.push_back(call.id);
                say(&mut heard.wire, FrameKind::Request, "say", message);
            }
            None => {
                let failure = Failure::new(FailureKind::UnknownTool, "a parrot only echoes");
                heard.events.push(Event::Answered(call.id, Err(failure)));
            }
        }
    }

    fn cancel(&mut self, _: CallId, _: &mut Ambient<'_>, _: &mut Heard) {}

    fn handle_disconnect(&mut self, _: &mut Ambient<'_>, heard: &mut Heard) {
        for call in self.waiting.drain(..) {
            heard
                .events
                .push(Event::Answered(call, Err(Failure::new(FailureKind::UpstreamLost, "the parrot flew away"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use gladhand_dialects::testing::{Pair, client_setup, server_setup};

    use super::*;

    #[test]
    fn two_parrots_understand_each_other() {
        let mut pair = Pair::new(&DIALECT, server_setup(), client_setup("1"));
        assert!(pair.open().unwrap().allows(Side::Server, TOOLS));
        let Ok(Reply::Tool(result)) = pair.call_tool("echo", r#"{"message":"hello"}"#) else { panic!("no result") };
        assert_eq!(result.joined_text(), "hello");
        assert_eq!(
            pair.transcript,
            [
                "-> {\"parrot\":\"tester\"}",
                "<- {\"perched\":\"gladhand\"}",
                "-> {\"say\":\"hello\"}",
                "<- {\"heard\":\"hello\"}"
            ]
        );
    }
}
