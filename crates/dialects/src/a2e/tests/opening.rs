//! Tests of handshakes at a host, of the gate, and of malformed lines.

use crate::side::Server as _;
use std::time::Duration;

use serde_json::json;

use super::*;

const NO_PLUGIN: &str = "no plugin loaded";

fn refusal(reason: &str) -> Value {
    json!({"type": "handshake/resp", "req_id": "h", "session_id": "", "accepted_caps": [], "max_parallel": 4,
           "ok": false, "reason": reason})
}

#[test]
fn a_grant_lists_each_known_name_once_in_the_order_of_the_request() {
    let mut server = holding(with_token());
    let line = r#"{"a2e":"1.0","type":"handshake/req","id":"h","agent_id":"my-agent","auth_token":"dev-secret",
        "agent_caps":["memory","tools","bogus","test","memory"]}"#
        .replace('\n', "");
    let answer = say(&mut server, &line);
    let agreement = server.opened[0].clone();
    let expected = json!({"type": "handshake/resp", "req_id": "h", "session_id": agreement.session, "accepted_caps": [
            {"capability": "memory", "enabled": false, "metadata": {"reason": NO_PLUGIN}},
            {"capability": "tools", "enabled": true,
             "metadata": {"name": "gladhand", "type": "tools", "priority": 0, "exclusive": true}},
            {"capability": "test", "enabled": false, "metadata": {"reason": NO_PLUGIN}}],
        "max_parallel": 4, "ok": true, "reason": ""});
    assert_eq!(answer, [expected]);
    assert_eq!((agreement.client.name.as_str(), agreement.version.as_str()), ("my-agent", "1.0"));
    assert_eq!((agreement.max_parallel, agreement.asked_version.clone()), (Some(4), None));
}

#[test]
fn the_envelope_comes_first_and_in_order() {
    let mut server = holding(server_setup());
    let lines = server.bytes(br#"{"type":"ping","id":"p"}"#);
    let expected = r#"{"type":"pong","id":"00000000000000000000000000000001","version":"1.0","a2e":"1.0","ts":1767225600.0,"req_id":"p","uptime_seconds":0.0}"#;
    assert_eq!(lines, [expected]);
}

#[test]
fn every_refusal_has_its_reason_and_revokes_grants() {
    let no_tools = {
        let mut setup = with_token();
        setup.menu.tools = false;
        setup
    };
    let broken = ServerSetup { max_parallel: 0, ..with_token() };
    let caps = r#""agent_caps":["tools"]"#;
    let token = r#""auth_token":"dev-secret""#;
    let cases = [
        (with_token(), format!(r#""a2e":"2.0","version":"1.0",{caps},{token}"#), "version_mismatch"),
        (with_token(), format!(r#""version":"9.9",{caps}"#), "version_mismatch"),
        (with_token(), format!(r#""a2e":"0.9",{caps},{token}"#), "version_mismatch"),
        (with_token(), format!(r#""a2e":"",{caps},{token}"#), "version_mismatch"),
        (with_token(), format!(r#""a2e":"10",{caps},{token}"#), "version_mismatch"),
        (with_token(), format!(r#"{caps},"auth_token":"not-the-token""#), "auth_failed"),
        (with_token(), caps.to_owned(), "auth_failed"),
        (with_token(), r#""agent_caps":[]"#.to_owned(), "auth_failed"),
        (with_token(), token.to_owned(), "no_caps"),
        (with_token(), format!(r#""agent_caps":["nonsense","Tools"],{token}"#), "no_caps"),
        (with_token(), format!(r#""agent_caps":["memory"],{token}"#), "no_caps"),
        (no_tools, format!("{caps},{token}"), "no_caps"),
    ];
    for (setup, fields, reason) in cases {
        let may_open = setup.menu.tools;
        let mut server = holding(setup);
        if may_open {
            let good = format!(r#"{{"type":"handshake/req","id":"h",{caps},{token}}}"#);
            assert_eq!(say(&mut server, &good)[0]["ok"], json!(true));
        }
        let answer = say(&mut server, &format!(r#"{{"type":"handshake/req","id":"h",{fields}}}"#));
        assert_eq!(answer, [refusal(reason)], "{fields}");
        let refused = if reason == "no_caps" { "no_capabilities" } else { reason };
        assert_eq!(server.refused, [refused], "{fields}");
        let after = say(&mut server, r#"{"type":"tool/list/req","id":"l"}"#);
        assert_eq!(error_of(&after[0]), ("l".into(), "unauthorized".into(), String::new()), "{fields}");
    }
    // A host that can never run a call cannot evaluate a handshake, not even its version.
    let answer = say(&mut holding(broken), r#"{"type":"handshake/req","id":"h","a2e":"2.0"}"#);
    assert_eq!((&answer[0]["reason"], &answer[0]["max_parallel"]), (&json!("server_error"), &json!(0)));
}

#[test]
fn every_version_with_major_one_agrees_on_1_0() {
    for asked in ["1", "1.0", "1.7", "1.x"] {
        let mut server = holding(server_setup());
        let line = format!(r#"{{"type":"handshake/req","version":"{asked}","agent_caps":["tools"],"id":"h"}}"#);
        assert_eq!(say(&mut server, &line)[0]["ok"], json!(true), "{asked}");
        assert_eq!(server.opened[0].version, "1.0");
        say(&mut server, r#"{"type":"tool/list/req","id":"l"}"#);
        assert_eq!(server.delivered.len(), 1, "the gate must be open for version {asked}");
    }
}

#[test]
fn after_five_refusals_the_channel_is_closed() {
    let mut server = holding(with_token());
    for attempt in 1..=5 {
        assert_eq!(server.closed, None, "the channel must stay open before attempt {attempt}");
        assert_eq!(say(&mut server, HELLO), [refusal("auth_failed")]);
    }
    assert_eq!(server.closed, Some(Duration::ZERO));
    assert!(say(&mut server, HELLO).is_empty());
}

#[test]
fn a_second_handshake_gets_a_new_session_and_the_old_id_stays_good() {
    let mut server = open(server_setup());
    let first = server.opened[0].session.clone().unwrap();
    say(&mut server, HELLO);
    let second = server.opened[1].session.clone().unwrap();
    assert_ne!(first, second);
    for (session, delivered) in [(first, 1), (second, 2), ("other".to_owned(), 2), (String::new(), 3)] {
        let line = format!(
            r#"{{"type":"tool/call/req","id":"c","session_id":"{session}","tool_name":"echo","arguments":{{}}}}"#
        );
        let answer = say(&mut server, &line);
        assert_eq!(server.delivered.len(), delivered, "{session}");
        if session == "other" {
            assert_eq!(error_of(&answer[0]), ("c".into(), "unauthorized".into(), String::new()));
        }
    }
}

#[test]
fn a_handshake_with_bad_fields_is_no_refusal() {
    let cases = [
        (r#""agent_caps":"tools""#, "agent_caps: expected a list, got a string"),
        (r#""agent_id":7"#, "agent_id: expected a string, got a number"),
        (
            r#""agent_caps":[1,"tools",2]"#,
            "agent_caps.0: expected a string, got a number\nagent_caps.2: expected a string, got a number",
        ),
        (r#""ts":"now""#, "ts: expected a number, got a string"),
        (r#""auth_token":null"#, "auth_token: expected a string, got null"),
        (r#""a2e":1"#, "a2e: expected a string, got a number"),
        (r#""version":[]"#, "version: expected a string, got a list"),
    ];
    let mut server = open(server_setup());
    for (field, message) in cases {
        let answer = say(&mut server, &format!(r#"{{"type":"handshake/req","id":"b",{field}}}"#));
        assert_eq!(error_of(&answer[0]), ("b".into(), "parse_error".into(), "schema".into()), "{field}");
        assert_eq!(answer[0]["message"].as_str().unwrap(), message);
    }
    assert!(server.refused.is_empty());
    say(&mut server, r#"{"type":"tool/list/req","id":"l"}"#);
    assert_eq!(server.delivered.len(), 1, "the grant must not be revoked");
}

#[test]
fn ten_thousand_invented_capabilities_are_neither_granted_nor_kept() {
    let names: Vec<_> = (0..10_000).map(|n| format!("\"a{n}.b\"")).collect();
    let line = format!(r#"{{"type":"handshake/req","id":"h","agent_caps":[{},"tools"]}}"#, names.join(","));
    let mut server = holding(server_setup());
    assert_eq!(say(&mut server, &line)[0]["accepted_caps"].as_array().unwrap().len(), 1);
    assert!(server.opened[0].terms.len() < 50);
}

#[test]
fn before_the_handshake_only_core_messages_are_served() {
    let mut server = holding(server_setup());
    assert_eq!(say(&mut server, r#"{"type":"ping","id":"p"}"#)[0]["type"], json!("pong"));
    let agent_types = super::super::registry::TYPES;
    for message in agent_types.iter().filter(|message| !["handshake/req", "ping", "shutdown"].contains(&message.name)) {
        let answer = say(&mut server, &format!(r#"{{"type":"{}","id":"x"}}"#, message.name));
        assert_eq!(error_of(&answer[0]), ("x".into(), "unauthorized".into(), String::new()), "{}", message.name);
        assert_eq!(answer[0]["message"], json!("handshake required"));
    }
}

#[test]
fn after_the_handshake_every_type_of_the_registry_has_its_answer() {
    let mut server = open(server_setup());
    let quiet = ["handshake/req", "ping", "shutdown", "tool/list/req", "tool/call/req"];
    for message in super::super::registry::TYPES.iter().filter(|message| !quiet.contains(&message.name)) {
        let answer = say(&mut server, &format!(r#"{{"type":"{}","id":"x"}}"#, message.name));
        // Both sides may send this request.
        let is_ours = message.from == gladhand_core::negotiation::Side::Server && message.name != "mcp/root/list/req";
        let (code, kind) = if is_ours { ("invalid_message", "direction") } else { ("capability_missing", "") };
        assert_eq!(error_of(&answer[0]), ("x".into(), code.into(), kind.into()), "{}", message.name);
        let capability = if is_ours { "" } else { message.capability };
        assert_eq!(answer[0]["capability_name"], json!(capability), "{}", message.name);
    }
}

#[test]
fn malformed_lines_get_the_answers_of_the_table() {
    let cases = [
        ("{not json", "", "json"),
        (r#"{"type":"tool/list/req","id":"trunc""#, "", "json"),
        (r#"{"type":"ping","id":"a"}{"type":"ping","id":"b"}"#, "", "json"),
        (r#"{"type":"ping","id":"n","ts":NaN}"#, "", "json"),
        ("\u{feff}{\"type\":\"ping\",\"id\":\"bom\"}", "", "json"),
        ("\0", "", "json"),
        ("[]", "", "schema"),
        (r#"[{"type":"ping","id":"in-array"}]"#, "", "schema"),
        ("42", "", "schema"),
        ("null", "", "schema"),
        (r#""ping""#, "", "schema"),
        ("true", "", "schema"),
        ("{}", "", "unknown_type"),
        (r#"{"id":"notype"}"#, "notype", "unknown_type"),
        (r#"{"type":"no/such/type","id":"u1"}"#, "u1", "unknown_type"),
        (r#"{"type":"PING","id":"case"}"#, "case", "unknown_type"),
        (r#"{"type":"nope","id":7}"#, "", "schema"),
        (r#"{"type":["ping"],"id":"x1"}"#, "x1", "schema"),
        (r#"{"type":{"a":1},"id":"x2"}"#, "x2", "schema"),
        (r#"{"type":null,"id":"x3"}"#, "x3", "schema"),
        (r#"{"type":"ping","id":7}"#, "", "schema"),
        (r#"{"type":"ping","id":null}"#, "", "schema"),
        (r#"{"type":"ping","id":"v","version":1}"#, "v", "schema"),
        (r#"{"type":"shutdown","id":"sd","timeout":"soon"}"#, "sd", "schema"),
        (r#"{"type":"shutdown","id":"sd","timeout":1.5}"#, "sd", "schema"),
        (r#"{"type":"tool/call/req","id":"v1","tool_name":"Read"}"#, "v1", "schema"),
        (r#"{"type":"tool/call/req","id":"v2","tool_name":7,"arguments":[]}"#, "v2", "schema"),
        (r#"{"type":"tool/call/req","id":"v3","arguments":{},"streaming":1}"#, "v3", "schema"),
        (r#"{"type":"tool/call/req","id":"v4","arguments":{},"timeout":null}"#, "v4", "schema"),
        (r#"{"type":"tool/list/req","id":"v5","filter_tags":[null]}"#, "v5", "schema"),
        (r#"{"type":"tool/list/req","id":"v6","include_deferred":"yes"}"#, "v6", "schema"),
    ];
    let mut server = open(server_setup());
    for (line, id, kind) in cases {
        let answer = say(&mut server, line);
        assert_eq!(answer.len(), 1, "{line}");
        assert_eq!(error_of(&answer[0]), (id.into(), "parse_error".into(), kind.into()), "{line}");
    }
    for bytes in [&b"\"\xff\""[..], "[".repeat(200).as_bytes()] {
        let answer = bodies(&server.bytes(bytes));
        assert_eq!(error_of(&answer[0]), (String::new(), "parse_error".into(), "json".into()));
    }
    for blank in ["", "   ", "\t\r"] {
        assert!(say(&mut server, blank).is_empty());
    }
    assert_eq!(say(&mut server, r#"{"type":"ping","id":"ok-after"}"#)[0]["type"], json!("pong"));
    assert!(server.delivered.is_empty());
    for (line, message) in [("{}", "Unknown type None"), (r#"{"type":"a/b"}"#, "Unknown type a/b")] {
        assert_eq!(say(&mut server, line)[0]["message"], json!(message));
    }
}

#[test]
fn ids_are_echoed_as_they_were_written() {
    let mut server = holding(server_setup());
    let cases =
        [("\"\"", "\"\""), (r#""\ud83d""#, r#""\ud83d""#), ("\"é\"", r#""\u00e9""#), (r#""a\/b""#, r#""a\/b""#)];
    for (sent, echoed) in cases {
        let lines = server.bytes(format!(r#"{{"type":"ping","id":{sent}}}"#).as_bytes());
        assert!(lines[0].contains(&format!(r#""req_id":{echoed},"#)), "{}", lines[0]);
    }
    assert_eq!(say(&mut server, r#"{"type":"ping"}"#)[0]["req_id"], json!(""));
    assert_eq!(say(&mut server, r#"{"type":"ping","id":"a","id":"b"}"#)[0]["req_id"], json!("b"));
}

#[test]
fn a_pong_contains_the_uptime() {
    let mut server = holding(server_setup());
    server.advance(Duration::from_millis(1500));
    assert_eq!(say(&mut server, r#"{"type":"ping","id":"p"}"#)[0]["uptime_seconds"], json!(1.5));
}

fn pass(token: &str, client: Option<&str>, capabilities: Option<&[&str]>) -> Pass {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Pass {
        token: Secret::new(token),
        client: client.map(str::to_owned),
        capabilities: capabilities.map(names),
        principal: None,
    }
}

const PRESENTED: &str =
    r#"{"type":"handshake/req","id":"h","agent_id":"ann","agent_caps":["tools"],"auth_token":"k1"}"#;

#[test]
fn a_session_ends_when_its_pass_is_removed() {
    let call = r#"{"type":"tool/call/req","id":"c","tool_name":"echo","arguments":{"message":"x"}}"#;
    let team = Pass { principal: Some("named:team".into()), ..pass("k1", None, None) };
    let cases: [(&[Pass], bool); 8] = [
        (&[pass("k1", None, None)], true),
        (&[pass("k2", None, None), pass("k1", Some("ann"), Some(&["tools"]))], true),
        (&[], true),
        (&[pass("k2", None, None)], false),
        (&[pass("k1", Some("bob"), None)], false),
        (&[pass("k1", None, Some(&["memory"]))], false),
        (&[pass("k1", None, Some(&[]))], false),
        (&[team], false),
    ];
    for (passes, stays) in cases {
        let mut server = holding(ServerSetup { passes: vec![pass("k1", None, None)], ..server_setup() });
        assert_eq!(say(&mut server, PRESENTED)[0]["ok"], json!(true));
        assert!(say(&mut server, call).is_empty(), "it runs");
        let said = bodies(&server.set_passes(passes));
        assert_eq!((said.is_empty(), server.cancelled.is_empty(), server.closed.is_none()), (stays, stays, stays));
        assert_eq!(said.iter().filter(|answer| answer["req_id"] == "c").count(), usize::from(!stays), "{said:?}");
        let ping = say(&mut server, r#"{"type":"ping","id":"p"}"#);
        assert_eq!(ping.is_empty(), !stays, "{passes:?}");
        assert_eq!(server.door.in_flight().len(), usize::from(stays));
    }
}

#[test]
fn a_handshake_is_checked_against_the_current_passes() {
    let mut server = holding(ServerSetup { passes: vec![pass("k1", None, None)], ..server_setup() });
    assert!(server.set_passes(&[pass("k2", None, None)]).is_empty());
    assert_eq!(say(&mut server, PRESENTED)[0]["reason"], json!("auth_failed"));
    assert_eq!(say(&mut server, &PRESENTED.replace("k1", "k2"))[0]["ok"], json!(true));
}

#[test]
fn the_length_of_handshake_fields_is_bounded() {
    let hello = |field: &str, bytes: usize| {
        let mut hello: Value = serde_json::from_str(HELLO).unwrap();
        hello[field] = json!(format!("1.{}", "9".repeat(bytes)));
        hello.to_string()
    };
    for (field, longest) in [("version", 128), ("agent_id", 1024), ("auth_token", 8192)] {
        let mut server = holding(server_setup());
        let answer = say(&mut server, &hello(field, longest));
        assert_eq!(error_of(&answer[0]), ("h".into(), "parse_error".into(), "schema".into()), "{field}");
        assert_eq!(answer[0]["message"], json!(format!("{field}: longer than {longest} bytes")));
        assert_eq!(say(&mut server, &hello(field, longest - 2))[0]["ok"], json!(true), "{field}");
    }
}

#[test]
fn an_error_quotes_only_a_short_part_of_the_request() {
    let setup = ServerSetup {
        menu: crate::side::Menu { capabilities: vec!["memory"], ..server_setup().menu },
        ..server_setup()
    };
    let mut server = holding(setup);
    say(&mut server, &HELLO.replace("tools", "memory"));
    let name = "\u{1f600}".repeat(100_000);
    let wrong: Vec<_> = (0..100).map(|at| format!(r#""{at}{name}":1"#)).collect();
    for line in [
        format!(r#"{{"type":"memory/init/req","id":"m","scope":{{{}}}}}"#, wrong.join(",")),
        format!(r#"{{"type":"{name}","id":"m"}}"#),
    ] {
        let lines = server.bytes(line.as_bytes());
        assert!(lines[0].len() < 64 * 1024, "{}", lines[0].len());
        assert_eq!(error_of(&body(&lines[0])).1, "parse_error");
    }
}
