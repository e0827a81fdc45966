//! An observer sees the beginning and the end of every operation that the hub routes.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand_core::operations::call::no_arguments;
use gladhand_core::operations::{Call, CallId, Contents, Notice, Operation, Resource, Tool, ToolCall, ToolResult};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json;
use gladhand_hub::policy::Governor;
use gladhand_hub::{
    Answer, Asking, CallObserver, CallOrigin, Caller, EndedCall, Hub, Kit, Mount, Naming, ObservedCall, SessionId,
};

#[derive(Debug, Default)]
struct Journal(Mutex<Vec<String>>);

impl Journal {
    fn add(&self, line: String) {
        self.0.lock().unpoisoned().push(line);
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unpoisoned())
    }
}

impl CallObserver for Journal {
    fn observes(&self, _: &Operation<'_>, _: CallOrigin) -> bool {
        true
    }

    fn begun(&self, call: &ObservedCall) {
        let principal = call.principal.as_deref().unwrap_or("-");
        let who = format!("{} {principal} {} {}", call.session.0, call.client, call.dialect);
        self.add(format!("{who}: {} {} ({} bytes)", call.kind, call.name, call.bytes_in));
    }

    fn ended(&self, ended: &EndedCall<'_>) {
        let call = ended.call;
        let target = call.target().map(|to| format!("{}/{}", to.upstream, to.own)).unwrap_or_default();
        let is_stand_in = if call.is_stand_in() { " stand-in" } else { "" };
        let outcome = format!("{} ({} bytes)", ended.word(), ended.bytes_out());
        self.add(format!("{:?}{is_stand_in} {} at {target}: {outcome}", call.origin, call.name));
    }
}

#[derive(Debug)]
struct Client;

impl Caller for Client {
    fn tell(&self, _: Notice) {}
    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}
    fn session(&self) -> SessionId {
        SessionId(7)
    }
}

fn answer(hub: &Hub, operation: Operation<'_>) -> Answer {
    let rules = Rules {
        dialect: "test",
        versions: VersionRule::Common,
        minimum: Minimum::Nothing,
        defines: |_, _, _| Defined::Yes,
    };
    let offer = Offer::new(Peer::new("editor", "1"), ["1"]);
    let agreement: Arc<Agreement> = Arc::new(agree(&rules, &offer, &offer).expect("one version on both sides"));
    let caller: Arc<dyn Caller> = Arc::new(Client);
    hub.answer(Call::new(CallId(1), operation), &agreement, &caller)
}

fn tool(name: &'static str) -> Operation<'static> {
    Operation::CallTool(ToolCall { name: name.into(), arguments: no_arguments() })
}

fn stage(governed: bool) -> (Hub, Arc<Journal>) {
    let kit = Kit::new()
        .tool(Tool::plain("now", ""), |_, _| Ok(ToolResult::text("hello")))
        .slow_tool(Tool::plain("never", ""), |_, _| std::future::pending::<Result<ToolResult, _>>())
        .resource(Resource::new("x:1", "one", ""), |uri, _| Ok(Contents::text(uri, "text/plain", "1")));
    let hub = Hub::of(vec![Mount { provider: Arc::new(kit), naming: Naming::prefixed("k") }]);
    let hub = if governed { hub.governed(Arc::new(Governor::default())) } else { hub };
    let journal = Arc::new(Journal::default());
    hub.observe_calls(Arc::clone(&journal) as _);
    (hub, journal)
}

#[tokio::test]
async fn every_operation_begins_and_ends_once() {
    for governed in [false, true] {
        let (hub, journal) = stage(governed);
        let ended = |operation| {
            answer(&hub, operation).outcome_now();
            let [begun, ended] = &journal.lines()[..] else { panic!("it begins and ends once") };
            assert!(begun.starts_with("7 - editor test: "), "{begun}");
            ended.clone()
        };
        assert_eq!(ended(tool("k__now")), "Client k__now at k/now: ok (7 bytes)");
        assert_eq!(ended(tool("other")), "Client other at : unknown_tool (0 bytes)");
        assert_eq!(ended(Operation::ListTools), "Client tools at : ok (0 bytes)");
        let read = Operation::ReadResource(Cow::Borrowed("x:1"));
        assert!(ended(read).starts_with("Client x:1 at k/x:1: ok ("));
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_as_cancelled() {
    let (hub, journal) = stage(true);
    let Answer::Later(work) = answer(&hub, tool("k__never")) else { panic!("it takes time") };
    assert_eq!(journal.lines(), ["7 - editor test: tool k__never (2 bytes)"]);
    drop(work);
    assert_eq!(journal.lines(), ["Client k__never at k/never: cancelled (0 bytes)"]);
}

#[tokio::test]
async fn the_operation_behind_a_substitute_tool_is_observed_too() {
    let (hub, journal) = stage(false);
    let arguments = Cow::Owned(json::raw(r#"{"uri":"x:1"}"#.to_owned()));
    let read = Operation::CallTool(ToolCall { name: "read_resource".into(), arguments });
    assert!(answer(&hub, read).outcome().await.is_ok());
    let lines = journal.lines();
    let starts = [
        "7 - editor test: tool read_resource (13 bytes)",
        "7 - editor test: resource x:1 (0 bytes)",
        "StandIn x:1 at k/x:1: ok (",
        "Client stand-in read_resource at : ok (",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

trait OutcomeNow {
    fn outcome_now(self);
}

impl OutcomeNow for Answer {
    fn outcome_now(self) {
        assert!(matches!(self, Self::Now(_)), "it is answered at once");
    }
}
