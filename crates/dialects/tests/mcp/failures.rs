//! Tests how each kind of failure is rendered, by revision and by request.

use gladhand_core::operations::{Failure, FailureKind};
use serde_json::json;

use crate::*;

/// The methods whose calls may fail, with valid parameters.
const METHODS: [(&str, &str); 6] = [
    ("tools/call", ECHO),
    ("tools/list", ""),
    ("resources/read", r#""uri":"test://a""#),
    ("prompts/get", r#""name":"p""#),
    ("completion/complete", r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}"#),
    ("prompts/list", ""),
];

fn fails(version: &str, method: &str, params: &str, failure: Failure) -> Value {
    let mut server = whole(version);
    assert_eq!(server.line(&line(version, "1", method, params)), NOTHING);
    let call = server.delivered[0].call.id;
    only(server.resolve(call, Err(failure)))
}

#[test]
fn each_kind_has_its_code() {
    for version in DIALECT.versions {
        let is_stateless = *version == STATELESS;
        for (method, params) in METHODS {
            let code = |kind| {
                let answer = fails(version, method, params, Failure::new(kind, "because"));
                match answer["error"]["code"].as_i64() {
                    Some(code) => code,
                    None => {
                        assert_eq!(answer["result"]["isError"], true, "{answer}");
                        assert_eq!(answer["result"]["content"][0]["text"], "because");
                        0
                    }
                }
            };
            let is_tool = method == "tools/call";
            let for_the_model = |other| if is_tool { 0 } else { other };
            let expected = [
                (FailureKind::UnknownTool, -32602),
                (FailureKind::UnknownPrompt, -32602),
                (FailureKind::UnknownResource, if is_stateless { -32602 } else { -32002 }),
                (FailureKind::InvalidArguments, for_the_model(-32602)),
                (FailureKind::MissingCapability, if is_stateless { -32021 } else { for_the_model(-32601) }),
                (FailureKind::Unsupported, -32601),
                (FailureKind::OnlyAsTask, if is_stateless { -32021 } else { -32601 }),
                (FailureKind::NotAsTask, -32601),
                (FailureKind::Unanswered, for_the_model(-32603)),
                (FailureKind::ToolFailed, for_the_model(-32603)),
                (FailureKind::Denied, for_the_model(-32603)),
                (FailureKind::Busy, -32603),
                (FailureKind::Cancelled, -32603),
                (FailureKind::TimedOut, -32603),
                (FailureKind::Stopping, -32603),
                (FailureKind::UpstreamLost, -32603),
                (FailureKind::UpstreamError, -32603),
                (FailureKind::Internal, -32603),
            ];
            for (kind, expected) in expected {
                assert_eq!(code(kind), expected, "{version} {method} {kind:?}");
            }
        }
    }
}

#[test]
fn a_missing_client_capability_is_in_the_error() {
    let answer = fails(STATELESS, "tools/call", ECHO, Failure::missing_capability("sampling"));
    assert_eq!(answer["error"]["data"], json!({"requiredCapabilities": {"sampling": {}}}));
    let answer = fails(STATELESS, "prompts/get", r#""name":"p""#, Failure::missing_capability("elicitation.url"));
    assert_eq!(answer["error"]["data"], json!({"requiredCapabilities": {"elicitation": {"url": {}}}}));
    let answer = fails(STATELESS, "tools/call", ECHO, Failure::new(FailureKind::OnlyAsTask, "only as a task"));
    let required = json!({"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    assert_eq!(answer["error"]["data"], required);
    let answer = fails("2025-11-25", "tools/call", ECHO, Failure::missing_capability("sampling"));
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("\"sampling\""), "{answer}");
}

#[test]
fn a_required_visit_is_forwarded_if_the_revision_has_it() {
    let wish = json!({"code": -32042, "message": "sign in", "data": {"elicitations": [{"url": "https://a.test"}]}});
    for version in DIALECT.versions {
        let failure = Failure::new(FailureKind::UpstreamError, "sign in (visit first: https://a.test)");
        let failure = Failure { data: Some(gladhand_core::wire::json::to_raw(&wish)), ..failure };
        let error = fails(version, "tools/call", ECHO, failure)["error"].clone();
        if *version == "2025-11-25" {
            assert_eq!(error, wish);
        } else {
            assert_eq!((&error["code"], &error["data"]["detail"]), (&json!(-32603), &wish), "{version}");
            assert!(error["message"].as_str().unwrap().contains("https://a.test"), "{version}");
        }
    }
}

#[test]
fn an_answer_of_another_kind_is_an_internal_error() {
    for (method, params) in METHODS {
        let mut server = whole("2025-11-25");
        server.line(&line("2025-11-25", "1", method, params));
        let call = server.delivered[0].call.id;
        assert_eq!(error(server.resolve(call, Ok(Reply::Done))).1, -32603, "{method}");
    }
}
