//! Tests of listing and calling tools, and of failures.

use std::sync::Arc;

use gladhand_core::operations::{
    Content, Failure, FailureKind, Operation, Outcome, Reply, TaskSupport, Tool, ToolResult,
};
use gladhand_core::wire::json;
use gladhand_dialects::Server as _;
use gladhand_dialects::ServerSetup;
use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::testing::{TestServer, server_setup};
use serde_json::json;

use crate::*;

/// The answer of a server of this version to `method`, if the call ends with this outcome.
fn answer(version: &str, method: &str, params: &str, outcome: Outcome) -> Value {
    let (mut server, line) = match version {
        STATELESS => (server().holding(), stateless("1", method, params, "")),
        _ => (open(version).holding(), request("1", method, &format!("{{{params}}}"))),
    };
    assert_eq!(server.line(&line), NOTHING);
    let call = server.delivered[0].call.id;
    only(server.resolve(call, outcome))
}

fn many_tools(count: usize) -> Arc<[Tool]> {
    let schema = || json::raw(r#"{"type":"object"}"#.to_owned());
    (0..count).map(|at| Tool { deferred: at % 2 == 0, ..Tool::new(format!("t{at}"), "", schema()) }).collect()
}

#[test]
fn a_list_is_paged_with_opaque_cursors_that_are_checked() {
    for version in DIALECT.versions {
        let setup = ServerSetup { page_size: 3, ..server_setup() };
        let fresh = TestServer::pinned(&DIALECT, setup);
        let mut server = if *version == STATELESS { fresh } else { opened(fresh, version) }.holding();
        let mut list = |cursor: &str| -> Value {
            let lines = match *version {
                STATELESS => server.line(&stateless("1", "tools/list", cursor, "")),
                _ => server.line(&request("1", "tools/list", &format!("{{{cursor}}}"))),
            };
            if !lines.is_empty() {
                return only(lines);
            }
            let call = server.delivered.pop_front().unwrap().call;
            assert!(matches!(call.operation, Operation::ListTools));
            only(server.resolve(call.id, Ok(Reply::Tools(many_tools(7)))))
        };
        let (mut names, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let result = list(&cursor)["result"].clone();
            names.extend(
                result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()),
            );
            pages += 1;
            assert_eq!(result["resultType"].is_null(), *version != STATELESS);
            assert_eq!(result["ttlMs"].is_u64() && result["cacheScope"] == "private", *version == STATELESS);
            let Some(next) = result["nextCursor"].as_str() else { break };
            cursor = format!(r#""cursor":"{next}""#);
        }
        assert_eq!((pages, names), (3, (0..7).map(|at| format!("t{at}")).collect()), "{version}");
        for bad in
            [r#""cursor":"x""#, r#""cursor":7"#, r#""cursor":"from-7""#, r#""cursor":"from-0""#, r#""cursor":{}"#]
        {
            assert_eq!(list(bad)["error"]["code"], -32602, "{version} {bad}");
        }
        assert_eq!(list(r#""cursor":null"#)["result"]["tools"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn a_definition_has_the_members_of_its_revision() {
    let tool = Tool {
        title: Some("T".to_owned()),
        output_schema: Some(json::raw(r#"{"type":"object"}"#.to_owned())),
        tags: vec!["tag".to_owned()],
        extra: vec![
            ("annotations".to_owned(), json::raw(r#"{"readOnlyHint":true}"#.to_owned())),
            ("x-vendor".to_owned(), json::raw("1.0".to_owned())),
            ("name".to_owned(), json::raw("\"forged\"".to_owned())),
        ],
        ..Tool::new("t", "d", json::raw(r#"{"type":"object"}"#.to_owned()))
    };
    let array = Tool { output_schema: Some(json::raw(r#"{"type":"array"}"#.to_owned())), ..tool.clone() };
    for version in DIALECT.versions {
        let listed = |tool: &Tool| {
            let answer = answer(version, "tools/list", "", Ok(Reply::Tools(Arc::from([tool.clone()]))));
            answer["result"]["tools"][0].clone()
        };
        let mut expected = json!({
            "name": "t", "description": "d", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}, "x-vendor": 1.0,
        });
        let is_old = matches!(*version, "2024-11-05" | "2025-03-26");
        if !is_old {
            expected["title"] = "T".into();
            expected["outputSchema"] = json!({"type": "object"});
        }
        assert_eq!(listed(&tool), expected, "{version}");
        let schema = listed(&array)["outputSchema"].clone();
        assert_eq!(schema, if *version == STATELESS { json!({"type": "array"}) } else { Value::Null }, "{version}");
    }
}

#[test]
fn a_result_has_the_members_of_its_revision() {
    let result = |structured: &str| ToolResult {
        content: vec![
            Content::text("a"),
            Content::Block(json::raw(r#"{"type":"image","data":"","mimeType":"x"}"#.to_owned())),
        ],
        structured: Some(json::raw(structured.to_owned())),
        failed: false,
        extra: vec![
            (
                "_meta".to_owned(),
                json::raw(r#"{"k":1,"io.modelcontextprotocol/serverInfo":{"name":"other"}}"#.to_owned()),
            ),
            ("resultType".to_owned(), json::raw("\"forged\"".to_owned())),
            ("y".to_owned(), json::raw("2".to_owned())),
        ],
        ..ToolResult::default()
    };
    for version in DIALECT.versions {
        let shown =
            |structured| answer(version, "tools/call", ECHO, Ok(Reply::Tool(result(structured))))["result"].clone();
        let mut expected = json!({
            "content": [{"type": "text", "text": "a"}, {"type": "image", "data": "", "mimeType": "x"}],
            "_meta": {"k": 1}, "y": 2,
        });
        if *version == STATELESS {
            expected["resultType"] = "complete".into();
            expected["_meta"]["io.modelcontextprotocol/serverInfo"] =
                json!({"name": "gladhand", "version": "0.0.0-test"});
        }
        let (mut object, mut list) = (expected.clone(), expected);
        if !matches!(*version, "2024-11-05" | "2025-03-26") {
            object["structuredContent"] = json!({"z": 1});
        }
        if *version == STATELESS {
            list["structuredContent"] = json!([1]);
        }
        assert_eq!(shown(r#"{"z":1}"#), object, "{version}");
        assert_eq!(shown("[1]"), list, "{version}");
    }
}

#[test]
fn each_failure_has_its_own_answer() {
    use FailureKind::*;
    let kinds = [
        (UnknownTool, Err((-32602, Value::Null))),
        (InvalidArguments, Ok(())),
        (ToolFailed, Ok(())),
        (Denied, Ok(())),
        (Busy, Err((-32603, json!({"reason": "busy"})))),
        (Cancelled, Err((-32603, json!({"reason": "cancelled"})))),
        (TimedOut, Err((-32603, json!({"reason": "timed_out"})))),
        (Stopping, Err((-32603, json!({"reason": "stopping"})))),
        (UpstreamLost, Err((-32603, json!({"reason": "upstream_lost"})))),
        (UpstreamError, Err((-32603, json!({"reason": "upstream_error"})))),
        (Internal, Err((-32603, json!({"reason": "internal"})))),
    ];
    for version in DIALECT.versions {
        for (kind, expected) in &kinds {
            let answer = answer(version, "tools/call", ECHO, Err(Failure::new(*kind, "why")));
            match expected {
                Ok(()) => {
                    assert_eq!(answer["result"]["isError"], true, "{kind:?}");
                    assert_eq!(answer["result"]["content"], json!([{"type": "text", "text": "why"}]));
                }
                Err((code, data)) => {
                    assert_eq!(
                        (&answer["error"]["code"], &answer["error"]["data"]),
                        (&(*code).into(), data),
                        "{kind:?}"
                    );
                    assert_eq!(answer["error"]["message"], "why");
                }
            }
        }
        let denied = answer(version, "tools/list", "", Err(Failure::new(Denied, "why")));
        assert_eq!(denied["error"]["data"], json!({"reason": "denied"}), "a list must not use `isError`");
        let passed = |data: &str| {
            let failure = Failure { data: Some(json::raw(data.to_owned())), ..Failure::new(UpstreamError, "why") };
            answer(version, "tools/call", ECHO, Err(failure))["error"].clone()
        };
        let error = r#"{"code":-32050,"message":"theirs","data":{"x":[1.0]}}"#;
        assert_eq!(passed(error), value(error), "{version}");
        let odd =
            json!({"code": -32603, "message": "why", "data": {"reason": "upstream_error", "detail": {"code": "x"}}});
        assert_eq!(passed(r#"{"code":"x"}"#), odd);
    }
}

#[test]
fn arguments_may_be_absent_or_null_and_nothing_else_but_an_object() {
    let mut server = open("2025-11-25").holding();
    for params in [r#"{"name":"echo"}"#, r#"{"name":"echo","arguments":null}"#, r#"{"name":"echo","arguments":{}}"#] {
        assert_eq!(server.line(&request("1", "tools/call", params)), NOTHING);
        let Operation::CallTool(tool) = server.delivered.pop_front().unwrap().call.operation else { panic!() };
        assert_eq!(tool.arguments.get(), "{}");
    }
    for (params, word) in [
        (r#"{"name":"echo","arguments":[]}"#, "`arguments`"),
        (r#"{"name":"echo","arguments":"x"}"#, "`arguments`"),
        (r#"{"arguments":{}}"#, "`name`"),
        (r#"{"name":7}"#, "`name`"),
        (r#"{"name":null}"#, "`name`"),
        ("null", "`name`"),
        ("[]", "`params`"),
        (r#"{"name":"echo","_meta":7}"#, "`_meta`"),
    ] {
        let answer = only(server.line(&request("1", "tools/call", params)));
        assert_eq!(answer["error"]["code"], -32602, "{params}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(word), "{params}: {answer}");
    }
}

#[test]
fn arguments_are_passed_unchanged() {
    let arguments = r#"{ "n":1.0,"big":123456789012345678901234567890 , "s":"\ud83d","s":"\u0041"}"#;
    for line in [
        request("1", "tools/call", &format!(r#"{{"name":"echo","arguments":{arguments}}}"#)),
        stateless("1", "tools/call", &format!(r#""name":"ec\u0068o","arguments":{arguments}"#), ""),
    ] {
        let mut server = open("2025-06-18").holding();
        assert_eq!(server.line(&line), NOTHING);
        let Operation::CallTool(tool) = server.delivered.pop_front().unwrap().call.operation else { panic!() };
        assert_eq!((tool.name.as_ref(), tool.arguments.get()), ("echo", arguments));
    }
}

#[test]
fn calls_beyond_the_limit_are_answered_busy() {
    let setup = || ServerSetup { max_in_flight: 2, ..server_setup() };
    for line in [echo("9"), stateless("9", "tools/list", "", "")] {
        let mut server = opened(TestServer::pinned(&DIALECT, setup()), "2025-11-25").holding();
        server.line(&echo("1"));
        server.line(&echo("2"));
        let answer = only(server.line(&line));
        assert_eq!(
            (&answer["id"], &answer["error"]["code"], &answer["error"]["data"]),
            (&9.into(), &(-32603).into(), &json!({"reason": "busy"}))
        );
        assert_eq!(server.delivered.len(), 2);
        assert_eq!(server.line(PING), [PONG]);
        server.resolve_next();
        assert_eq!(server.line(&line), NOTHING, "a new call must be accepted");
    }
}

#[test]
fn ids_are_echoed_exactly() {
    for id in [
        "0",
        "-1",
        "1.0",
        "1e3",
        "1.5",
        "9007199254740993",
        "123456789012345678901234567890",
        "\"\"",
        "\"a\\u0062\"",
        "\"\\ud83d\"",
    ] {
        for line in [echo(id), stateless(id, "tools/call", ECHO, "")] {
            let lines = open("2025-11-25").line(&line);
            assert!(lines[0].starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)), "{lines:?}");
        }
    }
}

#[test]
fn calls_in_flight_are_still_answered_after_a_stop() {
    use gladhand_dialects::Stop;
    let mut server = open("2025-11-25").holding();
    server.line(&echo("1"));
    assert_eq!(server.stop(Stop::InputClosed), NOTHING);
    assert_eq!(server.door.in_flight().len(), 1);
    assert_eq!(server.closed, None, "the driver decides how long to wait");
    assert_eq!(only(server.resolve_next())["id"], 1);
}

#[test]
fn task_support_is_listed_only_in_revisions_with_tasks() {
    let schema =
        || json::raw(r#"{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#.to_owned());
    let supports = [
        (TaskSupport::Forbidden, None),
        (TaskSupport::Optional, Some("optional")),
        (TaskSupport::Required, Some("required")),
    ];
    for version in DIALECT.versions {
        for (support, word) in supports {
            let tool =
                Tool::new("t", "", schema()).as_task(support).with("execution", &json!({"taskSupport": "forged"}));
            let answer = answer(version, "tools/list", "", Ok(Reply::Tools(Arc::from([tool]))));
            let listed = &answer["result"]["tools"][0];
            let expected =
                word.filter(|_| *version == "2025-11-25").map_or(Value::Null, |word| json!({"taskSupport": word}));
            assert_eq!(listed["execution"], expected, "{version}");
            assert_eq!(listed["inputSchema"], value(schema().get()), "the schema must be unchanged");
        }
    }
}

#[test]
fn newer_content_is_converted_for_older_revisions() {
    let audio = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav", "annotations": {"priority": 1}});
    let link = json!({"type": "resource_link", "uri": "test://a", "name": "a", "annotations": {"priority": 1}});
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png", "uri": "x"});
    let blocks = [&audio, &link, &image].map(|block| Content::Block(json::to_raw(block)));
    let blob = json!({
        "type": "resource", "annotations": {"priority": 1},
        "resource": {"uri": "about:audio", "mimeType": "audio/wav", "blob": "AA=="},
    });
    let text = json!({"type": "text", "text": "test://a", "annotations": {"priority": 1}});
    for version in DIALECT.versions {
        let result = ToolResult { content: blocks.to_vec(), ..ToolResult::default() };
        let content = answer(version, "tools/call", ECHO, Ok(Reply::Tool(result)))["result"]["content"].clone();
        let expected = match *version {
            "2024-11-05" => json!([blob, text, image]),
            "2025-03-26" => json!([audio, text, image]),
            _ => json!([audio, link, image]),
        };
        assert_eq!(content, expected, "{version}");
    }
}
