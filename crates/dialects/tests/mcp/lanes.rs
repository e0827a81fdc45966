//! Tests of lanes: each answer uses the lane of its request.

use gladhand_core::operations::{Notice, Progress};
use gladhand_dialects::Server as _;
use gladhand_dialects::{Lane, Stop};

use crate::notices::log;
use crate::*;

/// Feeds a line on a lane, and checks that all answers use the same lane.
fn by(server: &mut TestServer, lane: u64, line: &str) -> Vec<String> {
    server.lane = Lane(lane);
    let lines = server.line(line);
    assert_eq!(server.lanes, vec![Lane(lane); lines.len()], "{lines:?}");
    lines
}

#[test]
fn every_answer_uses_the_lane_of_its_request() {
    let mut server = server();
    by(&mut server, 1, &initialize("2025-11-25"));
    by(&mut server, 2, INITIALIZED);
    for (lane, line) in [
        (3, PING),
        (4, "no json"),
        (5, "[]"),
        (6, r#"{"jsonrpc":"2.0","id":1,"method":7}"#),
        (7, r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#),
        (8, &stateless("1", "server/discover", "", "")),
        (9, &stateless("1", "no/such", "", "")),
        (10, &stateless("1", "subscriptions/listen", r#""notifications":{}"#, "")),
    ] {
        assert_eq!(by(&mut server, lane, line).len(), 1, "{line}");
    }
    by(&mut server, 11, &echo("1"));
}

#[test]
fn notices_of_a_call_use_its_lane_and_others_the_main_lane() {
    for version in ["2025-11-25", STATELESS] {
        let mut server = if version == STATELESS { server() } else { open(version) }.holding();
        for (lane, id) in [(5, "1"), (6, "2")] {
            let meta = r#""progressToken":1,"io.modelcontextprotocol/logLevel":"debug""#;
            let line = match version {
                STATELESS => stateless(id, "tools/call", ECHO, meta),
                _ => request(id, "tools/call", &format!(r#"{{{ECHO},"_meta":{{"progressToken":1}}}}"#)),
            };
            by(&mut server, lane, &line);
        }
        server.lane = Lane::MAIN;
        let calls: Vec<_> = server.delivered.iter().map(|delivered| delivered.call.id).collect();
        let progress = Progress { progress: 1.0, total: None, message: None };
        server.notify(Notice::Progress(calls[1], progress));
        assert_eq!(server.lanes, [Lane(6)]);
        server.notify(Notice::Log(Some(calls[0]), log("error")));
        assert_eq!(server.lanes, [Lane(5)]);
        server.notify(Notice::Log(None, log("error")));
        server.notify(Notice::ToolsChanged);
        let main = if version == STATELESS { vec![] } else { vec![Lane::MAIN] };
        assert_eq!(server.lanes, main);
        server.resolve_next();
        assert_eq!(server.lanes, [Lane(5)]);
        server.resolve_next();
        assert_eq!(server.lanes, [Lane(6)]);
    }
}

#[test]
fn a_batch_is_answered_on_its_own_lane() {
    let mut server = open("2025-03-26").holding();
    let batch = format!("[{},{PING}]", echo("1"));
    assert_eq!(by(&mut server, 5, &batch), NOTHING);
    let other = format!("[{},{PING}]", echo("2"));
    assert_eq!(by(&mut server, 6, &other), NOTHING);
    server.lane = Lane::MAIN;
    server.resolve_next();
    assert_eq!(server.lanes, [Lane(5)]);
    server.lane = Lane(7);
    assert_eq!(server.line(&cancel("2")).len(), 1);
    assert_eq!(server.lanes, [Lane(6)]);
}

#[test]
fn closing_an_exchange_cancels_stateless_calls() {
    let mut server = open("2025-11-25").holding();
    by(&mut server, 5, &echo("1"));
    by(&mut server, 6, &stateless("2", "tools/call", ECHO, ""));
    by(&mut server, 7, &stateless("3", "tools/call", ECHO, ""));
    let calls: Vec<_> = server.delivered.iter().map(|delivered| delivered.call.id).collect();
    for lane in [5, 6, 6] {
        assert_eq!(server.handle_lane_closed(Lane(lane)), NOTHING);
    }
    assert_eq!(server.cancelled, [calls[1]]);
    server.resolve_next();
    assert_eq!(server.lanes, [Lane(5)], "the answer of a session must be kept");
    server.resolve_next();
    assert_eq!(server.lanes, [Lane(7)]);
}

#[test]
fn data_of_a_disconnected_caller_is_freed() {
    let mut server = server().holding();
    let large = format!(r#""name":"echo","arguments":{{"message":"{}"}}"#, "x".repeat(100_000));
    for lane in [5, 6] {
        by(&mut server, lane, &stateless("1", "tools/call", &large, ""));
    }
    assert!(
        server.door.held_bytes() > 200_000,
        "arguments must be counted until the call ends: {}",
        server.door.held_bytes()
    );
    server.handle_lane_closed(Lane(5));
    assert!((100_000..200_000).contains(&server.door.held_bytes()), "{}", server.door.held_bytes());
    server.handle_lane_closed(Lane(6));
    assert_eq!((server.cancelled.len(), server.door.held_bytes(), server.door.in_flight().len()), (2, 0, 0));
}

#[test]
fn a_stateless_call_cannot_be_cancelled_from_another_lane() {
    let mut server = open("2025-11-25").holding();
    by(&mut server, 5, &echo("1"));
    by(&mut server, 6, &stateless("2", "tools/call", ECHO, ""));
    by(&mut server, 7, &stateless("3", "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#, ""));
    let session = server.delivered[0].call.id;
    for id in ["1", "2", "3"] {
        assert_eq!(by(&mut server, 9, &cancel(id)), NOTHING);
    }
    assert_eq!(server.cancelled, [session], "only a call of the session may be cancelled");
    server.notify(Notice::ToolsChanged);
    assert_eq!(server.lanes, [Lane::MAIN, Lane(7)]);
    by(&mut server, 6, &cancel("2"));
    assert_eq!(server.cancelled.len(), 2);
}

#[test]
fn a_listener_is_served_on_its_own_lane_until_it_closes() {
    let mut server = server();
    let listen = |id: &str| stateless(id, "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#, "");
    for lane in [0, 5, 6] {
        by(&mut server, lane, &listen(&lane.to_string()));
    }
    server.notify(Notice::ToolsChanged);
    assert_eq!(server.lanes, [Lane::MAIN, Lane(5), Lane(6)]);
    assert_eq!(server.handle_lane_closed(Lane(5)), NOTHING);
    let last = server.stop(Stop::Terminated);
    assert_eq!(server.lanes, [Lane::MAIN, Lane::MAIN, Lane(6)], "a separate exchange must end with the result only");
    assert_eq!(value(&last[1])["method"], "notifications/cancelled");
    assert_eq!(value(&last[2])["id"], 6);
}
