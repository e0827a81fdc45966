//! Fuzz tests of Fluxloop: no input causes a panic, and every line gets exactly one answer, in order.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

mod mutation;

use gladhand_core::operations::{Call, CallId, FailureKind, Operation};
use gladhand_core::wire::{Line, Lines, Members, Skim, json};
use gladhand_dialects::Server as _;
use gladhand_dialects::fluxloop::DIALECT;
use gladhand_dialects::testing::{self, TestServer, a_failure, bare_call, client_setup, server_setup};
use gladhand_dialects::{Ambient, Event, Heard};
use mutation::{Damage, Dice};
use proptest::prelude::*;

const GOOD: &[&str] = &[
    r#"{"type":"handshake","id":"1"}"#,
    r#"{"type":"request","id":"2","tool":"echo","params":{"message":"é"}}"#,
    r#"{"type":"request","id":"3","tool":"nope","params":null}"#,
    r#"{"type":"request","id":"4","tool":"handshake"}"#,
    r#"{"id":5,"tool":"echo","message":"m"}"#,
    r#"{"id":6.0,"tool":"nope"}"#,
    r#"{"id":[7],"tool":"handshake"}"#,
    r#"{"tool":"fail","message":"m"}"#,
    r#"{"type":"response","id":"8","result":{}}"#,
    r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#,
    r#"{"id":1e400,"tool":"handshake"}"#,
    r#"[]"#,
    r#"{"id":"\ud83d","tool":"handshake"}"#,
];

/// The id that the answer to a line must have. The outer `None` stands for a blank line.
fn id_due(line: &[u8]) -> Option<Option<String>> {
    let unreadable = Some(None);
    let Ok(text) = std::str::from_utf8(line) else { return unreadable };
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    if text.is_empty() {
        return None;
    }
    // serde_json itself rejects numbers out of range, unpaired surrogates and invalid JSON.
    if serde_json::from_str::<serde_json::Value>(text).is_err() {
        return unreadable;
    }
    Some(Members::parse(text).ok().and_then(|members| members.some("id").map(|raw| one_line(raw.get()))))
}

fn id_of(answer: &str) -> Option<String> {
    Members::parse(answer).unwrap().raw("id").map(|raw| raw.get().to_owned())
}

fn one_line(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    json::flatten(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

fn check_server(bytes: &[u8], seed: u64) {
    let mut setup = server_setup();
    setup.max_in_flight = 6;
    let mut server = TestServer::pinned(&DIALECT, setup).holding();
    let mut dice = Dice::new(seed);
    let (mut due, mut answers) = (Vec::new(), Vec::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        due.extend(id_due(line));
        answers.extend(server.bytes(line));
        while !server.delivered.is_empty() && dice.below(3) == 0 {
            answers.extend(resolve_one(&mut server, &mut dice));
        }
    }
    while !server.delivered.is_empty() {
        answers.extend(resolve_one(&mut server, &mut dice));
    }
    assert!(server.door.in_flight().is_empty());
    for answer in &answers {
        assert!(matches!(Members::parse(answer).unwrap().str("type").as_deref(), Some("response" | "error")));
    }
    let ids: Vec<_> = answers.iter().map(|answer| id_of(answer)).collect();
    assert_eq!(ids, due, "{}", String::from_utf8_lossy(bytes));
}

fn resolve_one(server: &mut TestServer, dice: &mut Dice) -> Vec<String> {
    let delivered = server.delivered.remove(dice.below(server.delivered.len())).unwrap();
    let kinds = [FailureKind::ToolFailed, FailureKind::Busy, FailureKind::UnknownTool, FailureKind::Stopping];
    let outcome = match dice.below(2) {
        0 => testing::answer(&delivered.call, &delivered.agreement),
        _ => Err(a_failure(kinds[dice.below(kinds.len())])),
    };
    server.resolve(delivered.call.id, outcome)
}

/// Feeds lines to a client. Each of its calls must end exactly once, for any input.
fn check_client(bytes: &[u8]) {
    const ANSWERS: &[&str] = &[
        r#"{"type":"response","id":"2","result":{"text":"x"}}"#,
        r#"{"type":"error","id":"3","error":{"code":"tool_not_found","message":"m","details":{}}}"#,
        r#"{"type":"response","id":"4","result":{"capabilities":{"tools":["a"]}}}"#,
        r#"{"type":"error","error":{"code":"invalid_payload","message":"m"}}"#,
        r#"{"type":"response","id":"2","result":{"tool":"a","data":{}}}"#,
    ];
    let mut client = (DIALECT.client)(client_setup("0.1.0"));
    let (mut heard, mut entropy) = (Heard::default(), testing::Counting::default());
    let mut ambient = Ambient::new(testing::moment(std::time::Duration::ZERO), &mut entropy);
    client.open(&mut ambient, &mut heard);
    client.handle_line(r#"{"type":"response","id":"1","result":{"capabilities":[]}}"#, &mut ambient, &mut heard);
    client.call(Call::new(CallId(1), bare_call("a")).reporting(), None, &mut ambient, &mut heard);
    client.call(Call::new(CallId(2), bare_call("b")).reporting(), None, &mut ambient, &mut heard);
    client.call(Call::new(CallId(3), Operation::ListTools), None, &mut ambient, &mut heard);
    for line in [mutation::session_from(ANSWERS, bytes), bytes.to_vec()].concat().split(|byte| *byte == b'\n') {
        match DIALECT.text.read(Line::Bytes(line)) {
            Ok(Some(text)) => client.handle_line(&text, &mut ambient, &mut heard),
            Ok(None) => {}
            Err(fault) => client.handle_unreadable_line(&fault, &Skim::of(line), &mut ambient, &mut heard),
        }
    }
    client.handle_disconnect(&mut ambient, &mut heard);
    testing::lines_of(&heard.wire);
    let ends = heard.events.iter().filter_map(|event| match event {
        Event::Answered(CallId(call), _) => Some(*call),
        _ => None,
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_unstable();
    assert_eq!(ends, [1, 2, 3]);
}

#[test]
fn arbitrary_bytes() {
    bolero::check!().with_iterations(1_500).for_each(|bytes: &[u8]| {
        let seed = bytes.first().copied().unwrap_or_default().into();
        check_server(bytes, seed);
        check_server(&mutation::session_from(GOOD, bytes), seed);
        check_client(bytes);
    });
}

fn damage() -> impl Strategy<Value = Damage> {
    any::<[u8; 3]>().prop_map(Damage::from_bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_sessions_get_one_answer_for_each_line_in_order(
        picks in prop::collection::vec((any::<u8>(), prop::collection::vec(damage(), 0..3)), 0..24),
        seed in any::<u64>(),
    ) {
        check_server(&mutation::session(GOOD, &picks), seed);
    }
}

#[test]
fn overlong_lines_are_answered_and_the_next_one_is_intact() {
    let mut lines = Lines::with_limit(64);
    lines.push(format!("{}\n{}\n", "x".repeat(100), GOOD[0]).as_bytes());
    let mut server = TestServer::pinned(&DIALECT, server_setup());
    let mut ids = Vec::new();
    while let Some(line) = lines.next_line() {
        ids.extend(server.frame(line).iter().map(|answer| id_of(answer)));
    }
    assert_eq!(ids, [None, Some(r#""1""#.to_owned())]);
}
