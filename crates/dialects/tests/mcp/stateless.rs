//! Tests of 2026-07-28, where every request carries its own opening.

use gladhand_core::operations::Notice;
use gladhand_dialects::Stop;
use serde_json::json;

use crate::notices::log;
use crate::*;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

fn with_meta(method: &str, meta: &str) -> String {
    request("1", method, &format!(r#"{{{ECHO},"_meta":{meta}}}"#))
}

#[test]
fn discovery_lists_versions_and_capabilities() {
    let answer = only(server().line(&stateless("1", "server/discover", "", "")));
    let expected = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}, "logging": {}},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "gladhand", "version": "0.0.0-test"}},
        },
    });
    assert_eq!(answer, expected);
}

#[test]
fn missing_metadata_is_refused_by_name() {
    for (meta, key) in [
        (format!(r#"{{"{VERSION_KEY}":"2026-07-28"}}"#), CAPABILITIES_KEY),
        (format!(r#"{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":null}}"#), CAPABILITIES_KEY),
        (format!(r#"{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":[]}}"#), CAPABILITIES_KEY),
        (format!(r#"{{"{CAPABILITIES_KEY}":{{}}}}"#), VERSION_KEY),
        (format!(r#"{{"{VERSION_KEY}":20260728,"{CAPABILITIES_KEY}":{{}}}}"#), VERSION_KEY),
        (r#"{"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}"#.to_owned(), VERSION_KEY),
        (
            format!(
                r#"{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{{}},"io.modelcontextprotocol/clientInfo":7}}"#
            ),
            "io.modelcontextprotocol/clientInfo",
        ),
        (
            format!(
                r#"{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{{}},"io.modelcontextprotocol/logLevel":"loud"}}"#
            ),
            "io.modelcontextprotocol/logLevel",
        ),
    ] {
        for mut server in [server(), open("2025-11-25")] {
            let answer = only(server.line(&with_meta("tools/call", &meta)));
            assert_eq!(answer["error"]["code"], -32602, "{meta}");
            assert!(answer["error"]["message"].as_str().unwrap().contains(key), "{meta}: {answer}");
        }
    }
    let bare = only(server().line(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#));
    assert_eq!(bare["error"]["code"], -32602);
    assert!(bare["error"]["message"].as_str().unwrap().contains(VERSION_KEY), "{bare}");
}

#[test]
fn an_unsupported_version_gets_the_supported_list() {
    for version in ["2099-01-01", "2025-11-25", "2024-11-05", ""] {
        for method in ["tools/call", "server/discover", "initialize"] {
            let meta = format!(r#"{{"{VERSION_KEY}":"{version}","{CAPABILITIES_KEY}":{{}}}}"#);
            let mut server = server();
            let answer = only(server.line(&with_meta(method, &meta)));
            assert_eq!(answer["error"]["code"], -32022, "{method}");
            assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"], "requested": version}));
            assert_eq!(server.refused, ["version_mismatch"]);
            let mut server = open("2025-11-25");
            assert_eq!(error(server.line(&with_meta(method, &meta))).1, -32022);
            assert!(server.refused.is_empty(), "an open session must not be refused");
        }
    }
}

#[test]
fn removed_methods_do_not_exist() {
    for method in
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "notifications/initialized", "roots/list"]
    {
        for mut server in [server(), open("2025-11-25")] {
            assert_eq!(error(server.line(&stateless("1", method, "", ""))), (1.into(), -32601), "{method}");
            assert_eq!(server.line(PING), [PONG], "without metadata, a request belongs to the handshake era");
        }
    }
}

#[test]
fn every_request_is_evaluated_independently() {
    let mut server = server();
    let line = |info: &str, capabilities: &str, token: &str| {
        with_meta(
            "tools/call",
            &format!(
                r#"{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{capabilities},"io.modelcontextprotocol/clientInfo":{{"name":"{info}","version":"1"}}{token}}}"#
            ),
        )
    };
    let steps = [
        (line("a", "{}", ""), 1),
        (line("a", "{}", ""), 1),
        (line("a", "{}", r#","progressToken":1"#), 1),
        (line("a", "{}", r#","progressToken":2"#), 1),
        (line("a", r#"{"roots":{}}"#, ""), 2),
        (line("a", r#"{"roots":{}}"#, ""), 2),
        (line("b", r#"{"roots":{}}"#, ""), 3),
        (stateless("1", "tools/call", ECHO, ""), 4),
    ];
    for (line, agreements) in steps {
        let result = only(server.line(&line))["result"].clone();
        assert_eq!((&result["resultType"], &result["content"][0]["text"]), (&"complete".into(), &"hi".into()));
        assert_eq!(server.opened.len(), agreements, "{line}");
    }
    let roots: Vec<_> = server
        .opened
        .iter()
        .map(|agreement| agreement.allows(gladhand_core::negotiation::Side::Client, "roots"))
        .collect();
    assert_eq!(roots, [false, true, true, false], "an earlier request must have no influence");
    assert_eq!(server.opened[2].client.name, "b");
}

#[test]
fn log_messages_are_sent_only_on_request() {
    let mut server = server().holding();
    server.line(&stateless("1", "tools/call", ECHO, r#""io.modelcontextprotocol/logLevel":"error""#));
    server.line(&stateless("2", "tools/call", ECHO, ""));
    server.line(&stateless("3", "tools/call", ECHO, r#""io.modelcontextprotocol/logLevel":"debug""#));
    let calls: Vec<_> = server.delivered.iter().map(|delivered| delivered.call.id).collect();
    let mut hears = |call, level| !server.notify(Notice::Log(call, log(level))).is_empty();
    assert!(hears(Some(calls[0]), "error") && !hears(Some(calls[0]), "warning"));
    assert!(!hears(Some(calls[1]), "emergency"));
    assert!(hears(Some(calls[2]), "debug"));
    assert!(!hears(None, "emergency"), "without a call there is no recipient");
}

#[test]
fn a_listener_is_acknowledged_first_and_gets_only_requested_changes() {
    let mut server = server();
    let listen =
        |id: &str, filter: &str| stateless(id, "subscriptions/listen", &format!(r#""notifications":{filter}"#), "");
    let acknowledged = |id: &str, honoured: &str| {
        vec![format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{honoured}}}}}"#
        )]
    };
    let all = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x://y"]}"#;
    assert_eq!(server.line(&listen("1", all)), acknowledged("1", r#"{"toolsListChanged":true}"#));
    assert_eq!(server.line(&listen("\"two\"", r#"{"promptsListChanged":true}"#)), acknowledged("\"two\"", "{}"));
    assert_eq!(
        server.line(&listen("3.0", r#"{"toolsListChanged":true}"#)),
        acknowledged("3.0", r#"{"toolsListChanged":true}"#)
    );
    let changed = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        )
    };
    assert_eq!(server.notify(Notice::ToolsChanged), [changed("1"), changed("3.0")]);
    assert_eq!(server.line(&cancel("1")), NOTHING, "a cancelled listener gets nothing more");
    assert_eq!(server.notify(Notice::ToolsChanged), [changed("3.0")]);
    for bad in [r#""notifications":[]"#, r#""notifications":null"#, ""] {
        assert_eq!(error(server.line(&stateless("4", "subscriptions/listen", bad, ""))).1, -32602, "{bad}");
    }
    let last = server.stop(Stop::InputClosed);
    let result = json!({
        "jsonrpc": "2.0", "id": "two",
        "result": {
            "resultType": "complete",
            "_meta": {
                "io.modelcontextprotocol/subscriptionId": "two",
                "io.modelcontextprotocol/serverInfo": {"name": "gladhand", "version": "0.0.0-test"},
            },
        },
    });
    assert_eq!(value(&last[0]), result);
    assert_eq!(
        (value(&last[1])["method"].clone(), value(&last[1])["params"]["requestId"].clone()),
        ("notifications/cancelled".into(), "two".into())
    );
    assert_eq!(last.len(), 4, "{last:?}");
}

#[test]
fn subscriptions_are_bounded() {
    let mut server = server();
    for id in 0..64 {
        let line = stateless(&id.to_string(), "subscriptions/listen", r#""notifications":{}"#, "");
        assert_eq!(only(server.line(&line))["method"], "notifications/subscriptions/acknowledged");
    }
    let line = stateless("64", "subscriptions/listen", r#""notifications":{}"#, "");
    assert_eq!(only(server.line(&line))["error"]["data"]["reason"], "busy");
    server.line(&cancel("5"));
    assert_eq!(only(server.line(&line))["method"], "notifications/subscriptions/acknowledged");
}

#[test]
fn both_eras_can_be_mixed_in_any_order() {
    let mut server = server();
    assert_eq!(only(server.line(&stateless("1", "server/discover", "", "")))["result"]["resultType"], "complete");
    assert_eq!(error(server.line(&echo("2"))).1, -32602, "a request without metadata belongs to the handshake era");
    assert_eq!(only(server.line(&initialize("2025-06-18")))["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(only(server.line(&stateless("3", "tools/call", ECHO, "")))["result"]["resultType"], "complete");
    server.line(INITIALIZED);
    assert_eq!(only(server.line(&echo("4")))["result"], json!({"content": [{"type": "text", "text": "hi"}]}));
    assert_eq!(error(server.line(r#"{"jsonrpc":"2.0","id":5,"method":"server/discover"}"#)).1, -32601);
    assert_eq!(
        only(server.line(&stateless("6", "server/discover", "", "")))["result"]["supportedVersions"],
        json!(["2026-07-28"])
    );
}

#[test]
fn openings_of_several_clients_are_cached() {
    let mut server = server();
    for round in 0..3 {
        for client in 0..16 {
            let info = format!(r#","io.modelcontextprotocol/clientInfo":{{"name":"{client}","version":"1"}}"#);
            let line = stateless("1", "tools/list", "", "");
            let line = line.replace(r#"clientCapabilities":{}"#, &format!(r#"clientCapabilities":{{}}{info}"#));
            assert!(only(server.line(&line))["result"].is_object(), "{line}");
        }
        assert_eq!(server.opened.len(), 16, "round {round}");
    }
}

#[test]
fn an_opening_that_is_too_large_is_refused_or_not_remembered() {
    let meta = |capabilities: &str, about: usize| {
        let info = format!(r#"{{"name":"t","version":"1","title":"{}"}}"#, "x".repeat(about));
        with_meta(
            "tools/call",
            &format!(
                r#"{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{capabilities},"io.modelcontextprotocol/clientInfo":{info}}}"#
            ),
        )
    };
    let mut server = server();
    let large = format!(r#"{{"experimental":{{"a":{{"b":"{}"}}}}}}"#, "x".repeat(100_000));
    let refused = only(server.line(&meta(&large, 1)));
    assert_eq!(refused["error"]["code"], -32602);
    assert!(refused["error"]["message"].as_str().unwrap().contains(CAPABILITIES_KEY), "{refused}");
    let mut opened = |about| {
        assert!(only(server.line(&meta("{}", about)))["result"].is_object());
        server.opened.len()
    };
    assert_eq!([opened(1), opened(1)], [1, 1], "a small one is remembered");
    assert_eq!([opened(1_000_000), opened(1_000_000)], [2, 3], "a large one is not");
    assert_eq!(opened(1), 3, "and costs the others nothing");
}
