//! Tests of the parts that join two sessions: calls on behalf of a caller, questions to a session, changing menus.

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, CallId, FailureKind, Level, Question, QuestionId, Terms};
use gladhand_core::wire::json;
use gladhand_dialects::testing::{bare_call, client_setup};
use gladhand_dialects::{ClientSetup, Event, Lane, askable};

use crate::client::{Hand, open_client, opened_with};
use crate::questions::{EVERYTHING, answer, delivered, form, open_with};
use crate::*;

/// The agreement with a downstream that declares these capabilities.
fn agreed_with(capabilities: &str) -> Arc<Agreement> {
    let mut server = open_with("2025-11-25", capabilities);
    delivered(&mut server, &echo("1"));
    Arc::clone(&server.delivered[0].agreement)
}

fn call_for(hand: &mut Hand, id: u64, terms: Terms<'_>, agreement: &Arc<Agreement>) {
    hand.step(|client, ambient, heard| {
        let call = Call { id: CallId(id), operation: bare_call("t"), terms };
        client.call(call, Some(agreement), ambient, heard);
    });
}

const ASKING: &str = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}}"#;

#[test]
fn stateless_requests_declare_the_capabilities_of_their_caller() {
    let mut hand = open_client("2026-07-28");
    let (able, unable) = (agreed_with(r#"{"elicitation":{},"roots":{"listChanged":true}}"#), agreed_with("{}"));
    for (id, agreement, declared) in
        [(1, &able, serde_json::json!({"elicitation": {}, "roots": {}})), (2, &unable, serde_json::json!({}))]
    {
        call_for(&mut hand, id, Terms::default(), agreement);
        let sent = hand.only_sent();
        let meta = &sent["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], declared);
        hand.hears(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{ASKING}}}"#, sent["id"]));
    }
    let asked = hand.events.iter().filter_map(|event| match event {
        Event::Asked(_, call, _) => *call,
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [CallId(1)], "only a caller with the capability may be asked");
    assert_eq!(hand.take_outcome(2).unwrap_err().kind, FailureKind::UpstreamError);
}

#[test]
fn metadata_is_forwarded_without_reserved_members() {
    let meta = r#"{"traceparent":"00-1","progressToken":7,"io.modelcontextprotocol/logLevel":"error","a/b":{"c":1}}"#;
    for version in ["2025-11-25", "2026-07-28"] {
        let mut hand = opened_with(client_setup(version), "{\"tools\":{}}");
        let terms = Terms {
            meta: Some(Cow::Owned(json::raw(meta.to_owned()))),
            log_level: Some(Level::Warning),
            ..Terms::default()
        };
        call_for(&mut hand, 1, terms, &agreed_with("{}"));
        let sent = hand.only_sent();
        let meta = &sent["params"]["_meta"];
        assert_eq!((&meta["traceparent"], &meta["a/b"]["c"]), (&"00-1".into(), &1.into()), "{sent}");
        assert_eq!(meta.get("progressToken"), None);
        let level = (version == "2026-07-28").then(|| "warning".into());
        assert_eq!(meta.get("io.modelcontextprotocol/logLevel"), level.as_ref(), "the caller's own level must be used");
    }
}

#[test]
fn a_session_can_be_asked_outside_of_any_call() {
    let mut server = open_with("2025-11-25", EVERYTHING);
    let asked = only(server.ask_session(vec![(QuestionId(3), Question::roots())]));
    assert_eq!((server.lanes.as_slice(), &asked["method"]), ([Lane::MAIN].as_slice(), &"roots/list".into()));
    server.line(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, asked["id"]));
    assert_eq!(answer(&mut server), (3, Ok(serde_json::json!({"roots": []}))));
    // Neither a session without the capability nor a stateless request can be asked.
    for mut server in [open_with("2025-11-25", "{}"), with_menu(whole_menu(), STATELESS)] {
        assert_eq!(server.ask_session(vec![(QuestionId(1), form())]), NOTHING);
        assert_eq!(answer(&mut server), (1, Err(FailureKind::MissingCapability)));
    }
}

#[test]
fn a_question_before_the_session_is_open_waits_for_it() {
    let mut server = server().holding();
    let line = initialize("2025-11-25").replace(r#""capabilities":{}"#, &format!(r#""capabilities":{EVERYTHING}"#));
    assert_eq!(server.line(&line).len(), 1);
    assert_eq!(server.ask_session(vec![(QuestionId(1), Question::roots())]), NOTHING);
    assert_eq!(only(server.line(INITIALIZED))["method"], "roots/list");
}

#[test]
fn changed_folders_are_reported_if_agreed() {
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    for (capabilities, expected) in [(r#"{"roots":{"listChanged":true}}"#, 1), (r#"{"roots":{}}"#, 0)] {
        let mut server = open_with("2025-11-25", capabilities);
        assert_eq!(server.line(changed), NOTHING);
        assert_eq!(server.roots_changes, expected, "{capabilities}");
        let provides = askable(&agreed_with(capabilities)).collect();
        let mut hand = opened_with(ClientSetup { provides, ..client_setup("2025-11-25") }, "{\"tools\":{}}");
        hand.step(|client, ambient, heard| client.handle_roots_changed(ambient, heard));
        assert_eq!(hand.sent.len(), expected, "{capabilities}");
    }
}

#[test]
fn a_changed_menu_does_not_affect_existing_agreements() {
    let mut server = with_menu(Menu { tools: true, ..Menu::default() }, STATELESS);
    let capabilities = |server: &mut TestServer| {
        let answer = only(server.line(&stateless("1", "server/discover", "", "")));
        answer["result"]["capabilities"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(capabilities(&mut server), ["tools"]);
    server.set_offer(Menu { prompts: true, ..Menu::default() });
    assert_eq!(capabilities(&mut server), ["prompts"]);
    let mut server = with_menu(Menu { tools: true, ..Menu::default() }, "2025-11-25");
    server.set_offer(Menu { prompts: true, ..Menu::default() });
    assert_eq!(error(server.line(&request("1", "prompts/list", "{}"))).1, -32601);
    delivered(&mut server, &echo("2"));
}

#[test]
fn over_http_a_call_waits_until_its_log_level_is_set() {
    let setup = ClientSetup { exchanges: true, ..client_setup("2025-11-25") };
    let mut hand = opened_with(setup, r#"{"tools":{},"logging":{}}"#);
    let agreement = agreed_with("{}");
    let terms = || Terms { log_level: Some(Level::Info), ..Terms::default() };
    call_for(&mut hand, 1, terms(), &agreement);
    let level = hand.only_sent();
    assert_eq!((&level["method"], &level["params"]["level"]), (&"logging/setLevel".into(), &"info".into()));
    // The call is also sent if the server refuses the level.
    let refused = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32602,"message":"no"}}}}"#, level["id"]);
    hand.hears(&refused);
    assert_eq!(hand.only_sent()["method"], "tools/call");
    call_for(&mut hand, 2, terms(), &agreement);
    assert_eq!(hand.only_sent()["method"], "tools/call", "the level must be set only once");
}
