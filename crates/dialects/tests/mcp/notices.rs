//! Tests of progress, log messages, cancellation and changes of the menu.

use gladhand_core::operations::{CallId, Level, Log, Notice, Progress};
use gladhand_core::wire::json;
use gladhand_dialects::Server as _;
use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::testing::{TestServer, server_setup};
use gladhand_dialects::{Lane, Menu, ServerSetup};

use crate::*;

pub(crate) fn log(level: &str) -> Log {
    Log::new(Level::from_word(level).unwrap(), Some("l".to_owned()), json::raw(r#"{"n":1.0}"#.to_owned()))
}

fn report(progress: f64) -> Progress {
    Progress { progress, total: Some(2.0), message: Some("m".to_owned()) }
}

/// A server with one call in flight that has a progress token, and that call.
fn waiting(version: &str, token: &str) -> (TestServer, CallId) {
    let meta = format!(r#""progressToken":{token}"#);
    let mut server = match version {
        STATELESS => server().holding(),
        _ => open(version).holding(),
    };
    let line = match version {
        STATELESS => stateless("1", "tools/call", ECHO, &meta),
        _ => request("1", "tools/call", &format!(r#"{{{ECHO},"_meta":{{{meta}}}}}"#)),
    };
    assert_eq!(server.line(&line), NOTHING);
    let call = &server.delivered[0].call;
    assert!(call.terms.wants_progress);
    let id = call.id;
    (server, id)
}

#[test]
fn progress_only_grows_and_echoes_its_token_as_written() {
    for version in DIALECT.versions {
        for token in ["1", "1.0", "\"a\\u0062\"", "123456789012345678901234567890"] {
            let (mut server, call) = waiting(version, token);
            let message = if *version == "2024-11-05" { "" } else { r#","message":"m""# };
            let line = |progress: &str| {
                vec![format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress},"total":2{message}}}}}"#
                )]
            };
            assert_eq!(server.notify(Notice::Progress(call, report(0.5))), line("0.5"));
            for stale in [0.5, 0.25, f64::NAN, f64::INFINITY] {
                assert_eq!(server.notify(Notice::Progress(call, report(stale))), NOTHING, "{stale}");
            }
            assert_eq!(server.notify(Notice::Progress(call, report(1.0))), line("1"));
            server.resolve_next();
            assert_eq!(server.notify(Notice::Progress(call, report(2.0))), NOTHING, "a finished call has no progress");
        }
    }
}

#[test]
fn a_call_without_a_progress_token_gets_no_progress() {
    for token in ["null", "true", "{}", "[1]"] {
        let mut server = open("2025-11-25").holding();
        server.line(&request("1", "tools/call", &format!(r#"{{{ECHO},"_meta":{{"progressToken":{token}}}}}"#)));
        let call = &server.delivered[0].call;
        assert!(!call.terms.wants_progress, "{token}");
        let id = call.id;
        assert_eq!(server.notify(Notice::Progress(id, report(1.0))), NOTHING);
    }
}

#[test]
fn a_cancelled_call_is_not_answered_and_the_newest_id_wins() {
    for version in DIALECT.versions {
        let (mut server, first) = waiting(version, "1");
        let again = match *version {
            STATELESS => stateless("1", "tools/call", ECHO, ""),
            _ => echo("1"),
        };
        server.line(&again);
        let second = server.delivered[1].call.id;
        assert_eq!(server.line(&cancel("2")), NOTHING, "unknown ids are ignored");
        assert_eq!(server.line(&cancel("\"1\"")), NOTHING, "a string is another id than a number");
        assert_eq!(server.line(&cancel("1.0")), NOTHING);
        assert_eq!(server.cancelled, [second], "{version}");
        assert_eq!(server.door.in_flight(), [first]);
        assert_eq!(only(server.resolve_next())["id"], 1);
        assert_eq!(server.line(&cancel("1")), NOTHING, "a late cancellation must be ignored");
        assert_eq!(server.cancelled, [second]);
    }
}

#[test]
fn requests_under_one_id_are_each_answered() {
    let mut server = open("2025-11-25").holding();
    for _ in 0..3 {
        server.line(&echo("1"));
    }
    for _ in 0..3 {
        assert_eq!(only(server.resolve_next())["id"], 1);
    }
}

#[test]
fn log_messages_follow_the_level_of_the_session() {
    for version in HANDSHAKE {
        let mut server = open(version);
        let heard = |server: &mut TestServer| -> Vec<&str> {
            Level::ALL
                .map(Level::word)
                .into_iter()
                .filter(|word| !server.notify(Notice::Log(None, log(word))).is_empty())
                .collect()
        };
        assert_eq!(
            heard(&mut server),
            ["warning", "error", "critical", "alert", "emergency"],
            "the default level must be `warning`"
        );
        for (at, level) in Level::ALL.into_iter().enumerate() {
            let answer = server.line(&request("1", "logging/setLevel", &format!(r#"{{"level":"{}"}}"#, level.word())));
            assert_eq!(answer, [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]);
            assert_eq!(heard(&mut server), Level::ALL.map(Level::word)[at..], "{version}");
        }
        let line = server.notify(Notice::Log(None, log("emergency")));
        assert_eq!(
            line,
            [
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","logger":"l","data":{"n":1.0}}}"#
            ]
        );
        for bad in [r#"{"level":"loud"}"#, r#"{"level":1}"#, "{}", "null"] {
            assert_eq!(error(server.line(&request("2", "logging/setLevel", bad))), (2.into(), -32602), "{bad}");
        }
    }
}

#[test]
fn without_logging_and_list_changed_nothing_is_sent() {
    let menu = Menu { tools: true, tool_changes: false, logging: false, ..Menu::default() };
    for version in HANDSHAKE {
        let server = TestServer::pinned(&DIALECT, ServerSetup { menu: menu.clone(), ..server_setup() });
        let mut server = opened(server, version);
        assert_eq!(server.notify(Notice::ToolsChanged), NOTHING);
        assert_eq!(server.notify(Notice::Log(None, log("emergency"))), NOTHING);
        assert_eq!(error(server.line(&request("1", "logging/setLevel", r#"{"level":"info"}"#))).1, -32601);
    }
    let mut server = TestServer::pinned(&DIALECT, ServerSetup { menu, ..server_setup() }).holding();
    server.line(&stateless("1", "tools/call", ECHO, r#""io.modelcontextprotocol/logLevel":"debug""#));
    let call = server.delivered[0].call.id;
    assert_eq!(server.notify(Notice::Log(Some(call), log("emergency"))), NOTHING);
    let acknowledged =
        only(server.line(&stateless("2", "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#, "")));
    assert_eq!(acknowledged["params"]["notifications"], serde_json::json!({}));
    assert_eq!(server.notify(Notice::ToolsChanged), NOTHING);
}

#[test]
fn changes_of_the_menu_are_reported_in_an_open_session() {
    let changes =
        [(Notice::ToolsChanged, "tools"), (Notice::ResourcesChanged, "resources"), (Notice::PromptsChanged, "prompts")];
    for (notice, list) in changes {
        for version in HANDSHAKE {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{list}/list_changed"}}"#);
            assert_eq!(whole(version).notify(notice.clone()), [line]);
            let menu = Menu { tools: true, resources: true, prompts: true, ..Menu::default() };
            assert_eq!(
                with_menu(menu, version).notify(notice.clone()),
                NOTHING,
                "an undeclared change must not be sent"
            );
        }
        assert_eq!(whole(STATELESS).notify(notice), NOTHING, "nobody listens");
    }
}

#[test]
fn the_end_of_a_visit_is_reported_if_agreed() {
    let notice = || Notice::ElicitationComplete("e1".to_owned());
    for version in HANDSHAKE {
        for (capabilities, is_agreed) in
            [("{}", false), (r#"{"elicitation":{}}"#, false), (r#"{"elicitation":{"url":{}}}"#, true)]
        {
            let mut server = server();
            server.line(
                &initialize(version).replace(r#""capabilities":{}"#, &format!(r#""capabilities":{capabilities}"#)),
            );
            assert_eq!(server.notify(notice()), NOTHING, "too early");
            server.line(INITIALIZED);
            let line =
                r#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}"#;
            let told = server.notify(notice());
            assert_eq!(told.is_empty(), !(is_agreed && version == "2025-11-25"), "{version} {capabilities}");
            assert!(told.is_empty() || told == [line]);
        }
    }
    assert_eq!(server().notify(notice()), NOTHING);
}

#[test]
fn an_exchange_is_closed_early_only_if_the_caller_can_return() {
    let pause = std::time::Duration::from_millis(50);
    for version in DIALECT.versions {
        for lane in [Lane::MAIN, Lane(3)] {
            let mut server = whole(version);
            server.lane = lane;
            server.line(&line(version, "1", "tools/call", ECHO));
            let call = server.delivered[0].call.id;
            assert_eq!(server.notify(Notice::ComeBackLater(call, pause)), NOTHING);
            let expected = if *version == "2025-11-25" && lane != Lane::MAIN { vec![(lane, pause)] } else { vec![] };
            assert_eq!(server.let_go, expected, "{version}");
            server.resolve_next();
            server.notify(Notice::ComeBackLater(call, pause));
            assert_eq!(server.let_go, expected, "a finished call must not be let go");
        }
    }
}
