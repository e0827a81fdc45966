//! Tests of 2026-07-28 over HTTP: headers compared with bodies, and the status of each response.

use gladhand_core::operations::Tool;
use gladhand_core::wire::FrameKind;
use gladhand_core::wire::json;
use gladhand_dialects::mcp::Message;
use gladhand_dialects::mcp::http::{Mirrors, check_headers, status};

use crate::*;

fn tools() -> Vec<Tool> {
    let schema = r#"{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "count":{"type":"integer","x-mcp-header":"Count"},
        "dry":{"type":"boolean","x-mcp-header":"Dry"},
        "query":{"type":"string"}}}"#;
    let broken = r#"{"type":"object","properties":{"a":{"type":"array","x-mcp-header":"A"}}}"#;
    let tool = |name: &str, schema: &str| Tool::new(name, "", json::raw(schema.to_owned()));
    vec![tool("mirrored", schema), tool("broken", broken)]
}

/// The error code of the rejection, if there is one. Its status must be 400.
fn checked(headers: &[(&str, &str)], body: &str) -> Result<(), i64> {
    let header =
        |name: &str| headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
    let message = Message::of(body.as_bytes()).unwrap();
    check_headers(&header, &message, &Mirrors::new(&tools()), false).map_err(|rejection| {
        assert_eq!(rejection.status, 400);
        let answer = value(&rejection.body);
        assert_eq!(answer["id"], value(body)["id"], "{answer}");
        answer["error"]["code"].as_i64().unwrap()
    })
}

const VERSION: (&str, &str) = ("mcp-protocol-version", STATELESS);
const MISMATCH: Result<(), i64> = Err(-32020);

#[test]
fn version_and_method_headers_must_match_the_body() {
    let body = stateless("7", "tools/list", "", "");
    assert_eq!(checked(&[VERSION, ("MCP-METHOD", " tools/list\t")], &body), Ok(()));
    for headers in [
        &[][..],
        &[VERSION],
        &[("Mcp-Method", "tools/list")],
        &[VERSION, ("Mcp-Method", "TOOLS/LIST")],
        &[VERSION, ("Mcp-Method", "prompts/list")],
        &[("Mcp-Protocol-Version", "2025-11-25"), ("Mcp-Method", "tools/list")],
    ] {
        assert_eq!(checked(headers, &body), MISMATCH, "{headers:?}");
    }
}

#[test]
fn metadata_errors_precede_header_errors() {
    let headers = [VERSION];
    let with = |params: &str| request("7", "server/discover", params);
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    let version = |version: &str| format!(r#""io.modelcontextprotocol/protocolVersion":"{version}""#);
    for params in [
        "{}".to_owned(),
        r#"{"_meta":null}"#.to_owned(),
        r#"{"_meta":[]}"#.to_owned(),
        format!(r#"{{"_meta":{{{capabilities}}}}}"#),
        format!(r#"{{"_meta":{{{}}}}}"#, version(STATELESS)),
        format!(r#"{{"_meta":{{{},{capabilities},"io.modelcontextprotocol/logLevel":"loud"}}}}"#, version(STATELESS)),
    ] {
        assert_eq!(checked(&headers, &with(&params)), Err(-32602), "{params}");
    }
    let unknown = with(&format!(r#"{{"_meta":{{{},{capabilities}}}}}"#, version("v999")));
    assert_eq!(checked(&headers, &unknown), MISMATCH);
    assert_eq!(checked(&[("MCP-Protocol-Version", "v999")], &unknown), Err(-32022));
}

#[test]
fn the_name_header_is_required() {
    for (method, params, name) in [
        ("tools/call", r#""name":"échο""#, "=?base64?w6ljaM6/?="),
        ("prompts/get", r#""name":"p""#, "p"),
        ("resources/read", r#""uri":"a://b c""#, "a://b c"),
        ("tasks/get", r#""taskId":"t""#, "t"),
        ("tasks/cancel", r#""taskId":"t""#, "t"),
    ] {
        let body = stateless("7", method, params, "");
        let with = |name| checked(&[VERSION, ("Mcp-Method", method), ("Mcp-Name", name)], &body);
        assert_eq!(with(name), Ok(()), "{method}");
        assert_eq!(with("other"), MISMATCH);
        assert_eq!(with("=?base64?dA?="), MISMATCH, "the padding is missing");
        assert_eq!(checked(&[VERSION, ("Mcp-Method", method)], &body), MISMATCH);
    }
    let nameless = stateless("7", "tools/call", "", "");
    assert_eq!(
        checked(&[VERSION, ("Mcp-Method", "tools/call")], &nameless),
        Ok(()),
        "the server side must answer this"
    );
}

#[test]
fn annotated_arguments_are_compared_by_their_kind() {
    let call = |tool: &str, arguments: &str, params: &[(&'static str, &'static str)]| {
        let body = stateless("7", "tools/call", &format!(r#""name":"{tool}","arguments":{arguments}"#), "");
        let headers = [&[VERSION, ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)], params].concat();
        checked(&headers, &body)
    };
    let (region, count, dry) = ("Mcp-Param-Region", "mcp-param-count", "MCP-PARAM-DRY");
    let all = r#"{"region":"Hello","count":42,"dry":false,"query":"x"}"#;
    for params in [
        [(region, "Hello"), (count, "42"), (dry, "false")],
        [(region, "=?base64?SGVsbG8=?="), (count, "42.0"), (dry, " false ")],
    ] {
        assert_eq!(call("mirrored", all, &params), Ok(()), "{params:?}");
    }
    for params in [
        &[(region, "hello"), (count, "42"), (dry, "false")][..],
        &[(region, "Hello"), (count, "43"), (dry, "false")],
        &[(region, "Hello"), (count, "42"), (dry, "False")],
        &[(region, "=?base64?SGVsbG8?="), (count, "42"), (dry, "false")],
        &[(region, "Hello"), (count, "42")],
        &[(region, "Hello"), (dry, "false")],
        &[(count, "42"), (dry, "false")],
    ] {
        assert_eq!(call("mirrored", all, params), MISMATCH, "{params:?}");
    }
    assert_eq!(call("mirrored", r#"{"region":null}"#, &[]), Ok(()));
    assert_eq!(call("mirrored", r#"{"region":null}"#, &[(region, "x")]), MISMATCH);
    let literal = r#"{"region":"=?base64?SGVsbG8="}"#;
    assert_eq!(
        call("mirrored", literal, &[(region, "=?base64?SGVsbG8=")]),
        Ok(()),
        "an incomplete base64 wrapper is plain text"
    );
    assert_eq!(call("broken", r#"{"a":[]}"#, &[]), Ok(()));
    assert_eq!(call("unknown", r#"{"region":"x"}"#, &[]), Ok(()));
}

#[test]
fn other_messages_than_requests_pass_to_the_server_side() {
    let is_stateless = |body: &str| Message::of(body.as_bytes()).unwrap().is_stateless();
    for body in ["{", "[]", "{}", r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#, r#"{"id":1}"#] {
        let message = Message::of(body.as_bytes()).unwrap();
        assert_eq!(check_headers(&|_| None, &message, &Mirrors::default(), false), Ok(()), "{body}");
        assert!(!is_stateless(body));
    }
    assert!(is_stateless(&stateless("1", "tools/list", "", "")));
    let meta = r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}"#;
    assert!(is_stateless(&request("1", "tools/list", meta)), "an incomplete opening is stateless too");
    for params in [r#"{"_meta":{"progressToken":1}}"#, "{}", "[]", "null"] {
        assert!(!is_stateless(&request("1", "tools/list", params)), "{params}");
    }
}

#[test]
fn each_response_has_its_http_status() {
    let answers = [
        (stateless("1", "tools/call", ECHO, ""), 200),
        (stateless("1", "tools/call", r#""name":"none""#, ""), 200),
        (stateless("1", "no/such", "", ""), 404),
        (stateless("1", "ping", "", ""), 404),
        (stateless("1", "tasks/get", r#""taskId":"t""#, ""), 400),
        (stateless("1", "tools/list", "", "").replace("2026-07-28", "v999"), 400),
        ("[]".to_owned(), 400),
        ("{".to_owned(), 400),
    ];
    for (line, expected) in answers {
        let mut server = server();
        let answer = server.line(&line);
        assert_eq!(status(server.kinds[0]), expected, "{answer:?}");
    }
    assert_eq!(status(FrameKind::Error { code: -32020, names_request: true }), 400);
}
