//! Tests of resources: lists, contents, and subscriptions in a session.

use gladhand_core::operations::{Failure, Notice, Update};
use gladhand_core::wire::json;
use gladhand_dialects::Stop;
use serde_json::json;

use crate::*;

fn raw(value: &Value) -> Box<json::RawValue> {
    json::to_raw(value)
}

/// The result of a request whose call ends with this reply.
fn result(version: &str, method: &str, params: &str, reply: Reply) -> Value {
    let mut server = whole(version);
    assert_eq!(server.line(&line(version, "1", method, params)), NOTHING);
    let call = server.delivered[0].call.id;
    only(server.resolve(call, Ok(reply)))["result"].clone()
}

/// A result without the members that exactly the results of 2026-07-28 must have.
fn bare(version: &str, mut result: Value, is_cacheable: bool) -> Value {
    let members = result.as_object_mut().unwrap();
    let is_stateless = version == STATELESS;
    assert_eq!(members.remove("resultType"), is_stateless.then(|| "complete".into()));
    let hints = (members.remove("ttlMs"), members.remove("cacheScope"));
    let expected = is_stateless && is_cacheable;
    assert_eq!(hints, (expected.then(|| 0.into()), expected.then(|| "private".into())));
    if is_stateless {
        members.remove("_meta");
    }
    result
}

#[test]
fn lists_contain_the_members_of_their_revision() {
    let resource = Resource {
        title: Some("T".to_owned()),
        extra: vec![("size".to_owned(), raw(&json!(7))), ("uri".to_owned(), raw(&json!("forged")))],
        ..Resource::new("test://a", "a", "d").of_type("text/plain")
    };
    let template = Template {
        title: Some("T".to_owned()),
        description: None,
        extra: vec![("annotations".to_owned(), raw(&json!({"priority": 1})))],
        ..Template::new("test://{x}", "t", "d").of_type("text/plain")
    };
    for version in DIALECT.versions {
        let mut expected =
            json!({"uri": "test://a", "name": "a", "description": "d", "mimeType": "text/plain", "size": 7});
        let mut template_expected =
            json!({"uriTemplate": "test://{x}", "name": "t", "mimeType": "text/plain", "annotations": {"priority": 1}});
        if !matches!(*version, "2024-11-05" | "2025-03-26") {
            expected["title"] = "T".into();
            template_expected["title"] = "T".into();
        }
        let listed = result(version, "resources/list", "", Reply::Resources(Arc::from([resource.clone()])));
        assert_eq!(bare(version, listed, true), json!({"resources": [expected]}), "{version}");
        let listed = result(version, "resources/templates/list", "", Reply::Templates(Arc::from([template.clone()])));
        assert_eq!(bare(version, listed, true), json!({"resourceTemplates": [template_expected]}), "{version}");
    }
}

#[test]
fn every_list_is_paged_in_a_fixed_order() {
    let names: Vec<_> = (0..5).map(|at| format!("test://{at}")).collect();
    let resources: Arc<[_]> = names.iter().map(|name| Resource::new(name, name, "")).collect();
    let templates: Arc<[_]> = names.iter().map(|name| Template::new(name, name, "")).collect();
    let prompts: Arc<[_]> = names.iter().map(|name| Prompt::new(name, "")).collect();
    for (method, key, reply) in [
        ("resources/list", "resources", Reply::Resources(resources)),
        ("resources/templates/list", "resourceTemplates", Reply::Templates(templates)),
        ("prompts/list", "prompts", Reply::Prompts(prompts)),
    ] {
        for version in DIALECT.versions {
            let setup = ServerSetup { menu: whole_menu(), page_size: 2, ..server_setup() };
            let fresh = TestServer::pinned(&DIALECT, setup);
            let mut server = if *version == STATELESS { fresh } else { opened(fresh, version) }.holding();
            let mut page = |cursor: &str| {
                let lines = server.line(&line(version, "1", method, cursor));
                match server.delivered.pop_front() {
                    Some(delivered) => only(server.resolve(delivered.call.id, Ok(reply.clone()))),
                    None => only(lines),
                }
            };
            let (mut cursor, mut seen) = (String::new(), Vec::new());
            loop {
                let result = page(&cursor)["result"].clone();
                seen.extend(
                    result[key].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()),
                );
                let Some(next) = result["nextCursor"].as_str() else { break };
                cursor = format!(r#""cursor":"{next}""#);
            }
            assert_eq!(seen, names, "{version} {method}");
            for bad in [r#""cursor":"from-9""#, r#""cursor":"x""#] {
                assert_eq!(page(bad)["error"]["code"], -32602, "{version} {method}");
            }
        }
    }
}

#[test]
fn resource_contents_are_forwarded_unchanged() {
    let contents = Contents {
        parts: vec![
            raw(&json!({"uri": "test://a", "mimeType": "text/plain", "text": "t"})),
            raw(&json!({"uri": "test://a", "blob": "AA==", "x": 1})),
        ],
        extra: vec![
            ("_meta".to_owned(), raw(&json!({"k": 1}))),
            ("ttlMs".to_owned(), raw(&json!(99))),
            ("y".to_owned(), raw(&json!(2))),
        ],
        ..Contents::default()
    };
    for version in DIALECT.versions {
        let read = result(version, "resources/read", r#""uri":"test://a""#, Reply::Contents(contents.clone()));
        assert_eq!(read["_meta"]["k"], 1);
        let mut read = bare(version, read, true);
        read.as_object_mut().unwrap().remove("_meta");
        let parts = json!([
            {"uri": "test://a", "mimeType": "text/plain", "text": "t"},
            {"uri": "test://a", "blob": "AA==", "x": 1},
        ]);
        assert_eq!(read, json!({"contents": parts, "y": 2}), "{version}");
    }
}

#[test]
fn an_unknown_resource_has_the_error_code_of_its_era() {
    for version in DIALECT.versions {
        let code = if *version == STATELESS { -32602 } else { -32002 };
        let answer = asked(&mut whole(version), version, "resources/read", r#""uri":"none://x""#);
        assert_eq!(answer["error"]["code"], code, "{version}");
        assert_eq!(answer["error"]["data"], json!({"uri": "none://x"}));
        for bad in ["", r#""uri":7"#, r#""uri":null"#] {
            let answer = asked(&mut whole(version), version, "resources/read", bad);
            assert_eq!(answer["error"]["code"], -32602, "{version} {bad}");
            assert!(answer["error"]["data"].is_null());
        }
    }
}

const UPDATED: &str = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":""#;

fn updated(server: &mut TestServer, uri: &str) -> Vec<String> {
    server.notify(Notice::ResourceUpdated(Update::of(uri)))
}

#[test]
fn a_session_gets_updates_until_it_unsubscribes() {
    for version in HANDSHAKE {
        let mut server = whole(version);
        assert_eq!(updated(&mut server, "test://a"), NOTHING, "there is no subscription yet");
        for _ in 0..2 {
            let answer = asked(&mut server, version, "resources/subscribe", r#""uri":"test://a""#);
            assert_eq!(answer["result"], json!({}));
        }
        assert_eq!(updated(&mut server, "test://a"), [format!(r#"{UPDATED}test://a"}}}}"#)]);
        assert_eq!(
            updated(&mut server, "test://a/b"),
            [format!(r#"{UPDATED}test://a/b"}}}}"#)],
            "a change of a part must be reported"
        );
        assert_eq!(updated(&mut server, "test://ab"), NOTHING, "a URI with a common prefix is another resource");
        assert_eq!(server.unwatched, NOTHING);
        for _ in 0..2 {
            let answer = asked(&mut server, version, "resources/unsubscribe", r#""uri":"test://a""#);
            assert_eq!(answer["result"], json!({}));
            assert_eq!(server.unwatched, ["test://a"], "each subscription must be cancelled once");
        }
        assert_eq!(updated(&mut server, "test://a"), NOTHING);
    }
}

#[test]
fn an_unwatchable_resource_is_refused() {
    let mut server = whole("2025-11-25");
    let answer = asked(&mut server, "2025-11-25", "resources/subscribe", r#""uri":"none://x""#);
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&(-32002).into(), &json!({"uri": "none://x"})));
    assert_eq!(updated(&mut server, "none://x"), NOTHING);
    let long = format!(r#""uri":"test://{}""#, "x".repeat(5000));
    for bad in ["", r#""uri":[]"#, &long] {
        assert_eq!(asked(&mut server, "2025-11-25", "resources/subscribe", bad)["error"]["code"], -32602);
    }
    server.stop(Stop::InputClosed);
    assert_eq!(server.unwatched, NOTHING);
}

#[test]
fn subscriptions_of_a_session_are_bounded_and_end_with_it() {
    let mut server = whole("2025-11-25");
    let mut subscribe =
        |at: usize| asked(&mut server, "2025-11-25", "resources/subscribe", &format!(r#""uri":"test://{at}""#));
    for at in 0..1024 {
        assert_eq!(subscribe(at)["result"], json!({}));
    }
    assert_eq!(subscribe(1024)["error"]["data"]["reason"], "busy");
    assert_eq!(subscribe(7)["result"], json!({}), "a second subscription must succeed");
    server.stop(Stop::InputClosed);
    assert_eq!(server.unwatched.len(), 1024);
}

#[test]
fn subscriptions_to_long_uris_count_as_several() {
    let mut server = whole("2025-11-25");
    let mut subscribe = |at: usize| {
        let uri = format!("test://{at}/{}", "u".repeat(4000));
        asked(&mut server, "2025-11-25", "resources/subscribe", &format!(r#""uri":"{uri}""#))
    };
    let granted = (0..1024).take_while(|at| subscribe(*at)["result"] == json!({})).count();
    assert_eq!(granted, 64, "the URIs may use 256 KiB");
    assert_eq!(subscribe(64)["error"]["data"]["reason"], "busy");
}

#[test]
fn changes_before_initialized_are_reported_once() {
    let fresh = || TestServer::pinned(&DIALECT, ServerSetup { menu: whole_menu(), ..server_setup() }).holding();
    let mut server = fresh();
    server.line(&initialize("2025-11-25"));
    asked(&mut server, "2025-11-25", "resources/subscribe", r#""uri":"test://a""#);
    for _ in 0..2 {
        for notice in
            [Notice::ResourcesChanged, Notice::PromptsChanged, Notice::ResourceUpdated(Update::of("test://a/b"))]
        {
            assert_eq!(server.notify(notice), NOTHING);
        }
    }
    let methods: Vec<_> = server.line(INITIALIZED).iter().map(|line| value(line)["method"].clone()).collect();
    let expected = [
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    ];
    assert_eq!(methods, expected);
    let mut server = fresh();
    server.line(&initialize("2025-11-25"));
    asked(&mut server, "2025-11-25", "resources/subscribe", r#""uri":"test://a""#);
    server.line(&initialize("2025-06-18"));
    assert_eq!(server.unwatched, ["test://a"]);
    server.line(INITIALIZED);
    assert_eq!(updated(&mut server, "test://a"), NOTHING);
}

#[test]
fn a_started_watch_cannot_be_cancelled() {
    let mut server = whole("2025-11-25");
    server.line(&request("1", "resources/subscribe", r#"{"uri":"test://a"}"#));
    assert_eq!(server.line(&cancel("1")), NOTHING);
    assert!(server.cancelled.is_empty());
    let call = server.delivered.pop_front().unwrap().call.id;
    assert_eq!(only(server.resolve(call, Ok(Reply::Watching(WatchId(1)))))["result"], json!({}));
    server.line(&request("2", "resources/subscribe", r#"{"uri":"test://b"}"#));
    let call = server.delivered.pop_front().unwrap().call.id;
    server.resolve(call, Err(Failure::unknown_resource("test://b")));
    server.stop(Stop::InputClosed);
    assert_eq!(server.unwatched, ["test://a"]);
}
