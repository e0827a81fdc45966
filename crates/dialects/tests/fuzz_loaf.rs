//! Fuzz tests of loaf: no input causes a panic, and every request gets exactly one reply.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

mod mutation;

use gladhand_core::operations::{Call, CallId, FailureKind};
use gladhand_core::wire::{Line, Lines, Members, RawValue, Skim, json};
use gladhand_dialects::Server as _;
use gladhand_dialects::loaf::DIALECT;
use gladhand_dialects::testing::{self, TestServer, a_failure, bare_call, client_setup, server_setup};
use gladhand_dialects::{Ambient, Event, Heard};
use mutation::{Damage, Dice};
use proptest::prelude::*;

const GOOD: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake","params":{"client_name":"a","protocol_version":"1.0.0","strict":true}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"tools.call","params":{"name":"echo","arguments":{"message":"é\ud83d"}}}"#,
    r#"{"jsonrpc":"2.0","id":2.0,"method":"tools.list"}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"session.create","params":{"title":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"session.get","params":{"session_id":"00000000-0000-4000-8000-000000000001"}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"state.get"}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"debug.set","params":{"super_debug":true}}"#,
    r#"{"jsonrpc":"2.0","method":"system.ping"}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"tools.call","params":{"name":"nope"}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"tools.call","params":{"name":"fail","arguments":{"message":"m"}}}"#,
    r#"[{"jsonrpc":"2.0","id":8,"method":"system.ping"}]"#,
    r#"{"jsonrpc":"2.0","id":9,"method":"system.ping"}"#,
    r#"{"jsonrpc":"2.0","id":10,"method":"system.shutdown","params":{"reason":"r"}}"#,
];

/// The number of replies that a line must get, computed without the code under test. `None`: unknown.
fn replies_due(line: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_matches(|c: char| c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}'));
    if text.is_empty() {
        return Some(0);
    }
    if json::lone_surrogate(text.as_bytes()).is_some() {
        // serde_json cannot represent such text, so this function cannot parse the line.
        return None;
    }
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return Some(1) };
    let blank = |text: &str| text.trim_matches(|c: char| c == '\u{feff}' || c.is_whitespace()).is_empty();
    let is_notification = value.is_object()
        && value["jsonrpc"] == "2.0"
        && value["method"].as_str().is_some_and(|method| !blank(method))
        && value.get("id").is_none();
    Some(usize::from(!is_notification))
}

fn id_of(line: &str) -> Option<String> {
    let members = Members::parse(line).ok()?;
    members.raw("id").map(|raw| raw.get().to_owned())
}

/// Runs a session, resolves the delivered calls in random order, and counts the replies.
fn check_server(bytes: &[u8], seed: u64) {
    let mut setup = server_setup();
    setup.max_in_flight = 8;
    let mut server = TestServer::pinned(&DIALECT, setup).holding();
    let mut dice = Dice::new(seed);
    let mut waiting: Vec<(CallId, Option<String>)> = Vec::new();
    let mut lines = Lines::with_limit(4096);
    lines.end_lines_at(DIALECT.text.terminator);
    lines.push(bytes);
    let mut frames = Vec::new();
    while let Some(line) = lines.next_line() {
        if let Line::Bytes(line) = line {
            frames.push(line.to_vec());
        }
    }
    for line in frames {
        let is_over = server.closed.is_some();
        let replies: Vec<_> = server.bytes(&line).into_iter().filter(|line| id_of(line).is_some()).collect();
        let delivered: Vec<_> = server.delivered.drain(..).collect();
        let due = if is_over { Some(0) } else { replies_due(&line) };
        let shown = String::from_utf8_lossy(&line);
        assert!(due.is_none_or(|due| due == replies.len() + delivered.len()), "{shown}: {replies:?} {delivered:?}");
        assert!(replies.len() + delivered.len() <= 1, "{shown}");
        let sent = id_of(String::from_utf8_lossy(&line).trim());
        if let ([reply], Some(sent)) = (&replies[..], &sent) {
            let echoed = id_of(reply).unwrap();
            assert!(echoed == *sent || echoed == "null", "{shown} was answered by {reply}");
        }
        waiting.extend(delivered.into_iter().map(|delivered| (delivered.call.id, sent.clone())));
        while !waiting.is_empty() && dice.below(3) == 0 {
            resolve_one(&mut server, &mut waiting, &mut dice);
        }
    }
    while !waiting.is_empty() {
        resolve_one(&mut server, &mut waiting, &mut dice);
    }
    assert!(server.door.in_flight().is_empty());
}

fn resolve_one(server: &mut TestServer, waiting: &mut Vec<(CallId, Option<String>)>, dice: &mut Dice) {
    let (call, sent) = waiting.swap_remove(dice.below(waiting.len()));
    let kinds = [FailureKind::ToolFailed, FailureKind::Busy, FailureKind::Internal, FailureKind::UnknownTool];
    let replies = server.resolve(call, Err(a_failure(kinds[dice.below(kinds.len())])));
    assert_eq!(replies.iter().map(|reply| id_of(reply)).collect::<Vec<_>>(), [sent]);
}

/// Feeds lines to a client. Each of its calls must end exactly once, for any input.
fn check_client(bytes: &[u8]) {
    const ANSWERS: &[&str] = &[
        r#"{"jsonrpc":"2.0","id":2,"result":{"ok":true,"output":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"m","data":{"reason":"unknown_tool"}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"result":{"tools":[{"name":"a","description":"b","input_schema":{}}]}}"#,
        r#"{"jsonrpc":"2.0","method":"event","params":{"type":"tool.progress","payload":{"request_id":2,"progress":1}}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
    ];
    let hello =
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocol_version":"1.0.0","methods":["tools.list","tools.call"]}}"#;
    let mut client = (DIALECT.client)(client_setup("1.0.0"));
    let (mut heard, mut entropy) = (Heard::default(), testing::Counting::default());
    let mut ambient = Ambient::new(testing::moment(std::time::Duration::ZERO), &mut entropy);
    client.open(&mut ambient, &mut heard);
    client.handle_line(hello, &mut ambient, &mut heard);
    client.call(Call::new(CallId(1), bare_call("a")).reporting(), None, &mut ambient, &mut heard);
    client.call(Call::new(CallId(2), bare_call("b")).reporting(), None, &mut ambient, &mut heard);
    client.call(Call::new(CallId(3), gladhand_core::operations::Operation::ListTools), None, &mut ambient, &mut heard);
    for line in [mutation::session_from(ANSWERS, bytes), bytes.to_vec()].concat().split(|byte| *byte == b'\n') {
        match DIALECT.text.read(Line::Bytes(line)) {
            Ok(Some(text)) => client.handle_line(&text, &mut ambient, &mut heard),
            Ok(None) => {}
            Err(fault) => client.handle_unreadable_line(&fault, &Skim::of(line), &mut ambient, &mut heard),
        }
    }
    client.handle_disconnect(&mut ambient, &mut heard);
    testing::lines_of(&heard.wire);
    let mut ended: Vec<_> = heard
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Answered(CallId(call), _) => Some(*call),
            _ => None,
        })
        .collect();
    ended.sort_unstable();
    assert_eq!(ended, [1, 2, 3]);
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
    fn damaged_sessions_get_one_reply_for_each_request(
        picks in prop::collection::vec((any::<u8>(), prop::collection::vec(damage(), 0..3)), 0..24),
        seed in any::<u64>(),
    ) {
        check_server(&mutation::session(GOOD, &picks), seed);
    }

    #[test]
    fn any_chunking_of_a_session_gives_the_same_answers(
        picks in prop::collection::vec((any::<u8>(), prop::collection::vec(damage(), 0..2)), 0..8),
        cuts in prop::collection::vec(1..40usize, 1..20),
    ) {
        let bytes = mutation::session(GOOD, &picks);
        prop_assert_eq!(answers_in_chunks(&bytes, &[bytes.len().max(1)]), answers_in_chunks(&bytes, &cuts));
    }
}

fn answers_in_chunks(mut bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let mut server = TestServer::pinned(&DIALECT, server_setup());
    let mut lines = Lines::default();
    lines.end_lines_at(DIALECT.text.terminator);
    let mut answers = Vec::new();
    for cut in cuts.iter().cycle() {
        let (chunk, rest) = bytes.split_at((*cut).min(bytes.len()));
        lines.push(chunk);
        while let Some(line) = lines.next_line() {
            answers.extend(server.frame(line));
        }
        bytes = rest;
        if bytes.is_empty() {
            return answers;
        }
    }
    answers
}

#[test]
fn the_reply_count_is_known_for_valid_lines() {
    for (line, due) in GOOD.iter().zip([1, 9, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1]) {
        assert_eq!(replies_due(line.as_bytes()), if due == 9 { None } else { Some(due) }, "{line}");
    }
    let raw: &RawValue = serde_json::from_str(GOOD[0]).unwrap();
    assert_eq!(id_of(raw.get()).as_deref(), Some("1"));
}
