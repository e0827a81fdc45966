//! Tests of prompts, and of the completion of arguments.

use gladhand_core::operations::{CompletionOf, Content, Failure, MemberOrder, PromptArgument};
use gladhand_core::wire::json;
use serde_json::json;

use crate::*;

#[test]
fn a_prompt_is_listed_with_its_arguments() {
    let prompt = Prompt {
        title: Some("T".to_owned()),
        arguments: vec![
            PromptArgument {
                name: "x".to_owned(),
                description: None,
                required: true,
                extra: Vec::new(),
                order: MemberOrder::default(),
            },
            PromptArgument {
                name: "y".to_owned(),
                description: Some("Y".to_owned()),
                required: false,
                extra: vec![("title".to_owned(), json::to_raw("Why"))],
                order: MemberOrder::default(),
            },
        ],
        extra: vec![("icons".to_owned(), json::to_raw(&json!([])))],
        ..Prompt::new("p", "d")
    };
    for version in DIALECT.versions {
        let mut server = whole(version);
        server.line(&line(version, "1", "prompts/list", ""));
        let call = server.delivered[0].call.id;
        let listed = only(server.resolve(call, Ok(Reply::Prompts(Arc::from([prompt.clone(), Prompt::new("q", "")])))));
        let mut expected = json!({
            "name": "p", "description": "d", "icons": [],
            "arguments": [{"name": "x", "required": true}, {"name": "y", "description": "Y", "title": "Why"}],
        });
        if !matches!(*version, "2024-11-05" | "2025-03-26") {
            expected["title"] = "T".into();
        }
        assert_eq!(listed["result"]["prompts"], json!([expected, {"name": "q", "description": ""}]), "{version}");
    }
}

#[test]
fn a_prompt_is_filled_in_and_newer_content_is_converted() {
    let prompt = PromptResult {
        description: Some("d".to_owned()),
        extra: vec![("_meta".to_owned(), json::to_raw(&json!({"k": 1})))],
        ..PromptResult::text("hi")
            .saying("assistant", &Content::audio("audio/wav", "AA=="))
            .saying("user", &Content::link("test://a", "a"))
    };
    let audio = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"});
    let blob = json!({"type": "resource", "resource": {"uri": "about:audio", "mimeType": "audio/wav", "blob": "AA=="}});
    let link = json!({"type": "resource_link", "uri": "test://a", "name": "a"});
    let text = json!({"type": "text", "text": "test://a"});
    for version in DIALECT.versions {
        let mut server = whole(version);
        server.line(&line(version, "1", "prompts/get", r#""name":"p","arguments":{"x":"1"}"#));
        let call = server.delivered[0].call.id;
        let result = only(server.resolve(call, Ok(Reply::Prompt(prompt.clone()))))["result"].clone();
        let (sound, pointer) = match *version {
            "2024-11-05" => (&blob, &text),
            "2025-03-26" => (&audio, &text),
            _ => (&audio, &link),
        };
        let messages = json!([
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "assistant", "content": sound},
            {"role": "user", "content": pointer},
        ]);
        assert_eq!((&result["messages"], &result["description"]), (&messages, &"d".into()), "{version}");
        assert_eq!(result["_meta"]["k"], 1);
        assert_eq!(result["resultType"], if *version == STATELESS { json!("complete") } else { Value::Null });
        assert!(result["ttlMs"].is_null(), "a prompt must have no cache hints");
    }
}

#[test]
fn an_invalid_prompt_request_gets_invalid_params() {
    for version in DIALECT.versions {
        let mut server = whole(version);
        for bad in
            ["", r#""name":7"#, r#""name":"none""#, r#""name":"p","arguments":[]"#, r#""name":"p","arguments":{"x":7}"#]
        {
            let answer = asked(&mut server, version, "prompts/get", bad);
            assert_eq!(answer["error"]["code"], -32602, "{version} {bad}");
        }
        server.line(&line(version, "1", "prompts/get", r#""name":"p""#));
        let call = server.delivered.pop_front().unwrap().call.id;
        let answer = only(server.resolve(call, Err(Failure::invalid_argument("x", "required"))));
        assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), (&(-32602).into(), &"x: required".into()));
    }
}

#[test]
fn completion_passes_the_typed_value_on() {
    for version in DIALECT.versions {
        let mut server = whole(version);
        let context = r#""argument":{"name":"x","value":"o"},"context":{"arguments":{"y":"1"}}"#;
        for reference in [r#"{"type":"ref/prompt","name":"p"}"#, r#"{"type":"ref/resource","uri":"test://{x}"}"#] {
            let line = line(version, "1", "completion/complete", &format!(r#""ref":{reference},{context}"#));
            assert_eq!(server.line(&line), NOTHING);
            let call = server.delivered.pop_front().unwrap().call;
            let Operation::Complete(completion) = call.operation else { panic!("{version}") };
            match completion.of {
                CompletionOf::Prompt(name) => assert_eq!(name, "p"),
                CompletionOf::Template(uri) => assert_eq!(uri, "test://{x}"),
            }
            assert_eq!((&*completion.argument, &*completion.value), ("x", "o"));
            let has_context = !matches!(*version, "2024-11-05" | "2025-03-26");
            assert_eq!(completion.context.as_deref().map(|raw| raw.get()), has_context.then_some(r#"{"y":"1"}"#));
            let answer = Completion {
                values: vec!["one".to_owned()],
                total: Some(3),
                has_more: Some(true),
                ..Completion::default()
            };
            let result = only(server.resolve(call.id, Ok(Reply::Completion(answer))))["result"].clone();
            assert_eq!(result["completion"], json!({"values": ["one"], "total": 3, "hasMore": true}));
        }
        for bad in [
            "",
            r#""ref":{"type":"ref/prompt"},"argument":{"name":"x","value":""}"#,
            r#""ref":{"type":"ref/resource","name":"p"},"argument":{"name":"x","value":""}"#,
            r#""ref":{"type":"ref/other","name":"p"},"argument":{"name":"x","value":""}"#,
            r#""ref":{"type":"ref/prompt","name":"p"}"#,
            r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x"}"#,
            r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":7}"#,
        ] {
            let answer = asked(&mut server, version, "completion/complete", bad);
            assert_eq!(answer["error"]["code"], -32602, "{version} {bad}");
        }
    }
}

#[test]
fn at_most_a_hundred_values_are_returned() {
    let many =
        |count: usize| Completion { values: (0..count).map(|at| at.to_string()).collect(), ..Completion::default() };
    let told = |completion: Completion| {
        let mut server = whole("2025-11-25");
        let params = r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}"#;
        server.line(&line("2025-11-25", "1", "completion/complete", params));
        let call = server.delivered[0].call.id;
        let completion = only(server.resolve(call, Ok(Reply::Completion(completion))))["result"]["completion"].clone();
        let count = completion["values"].as_array().unwrap().len();
        (count, completion["total"].clone(), completion["hasMore"].clone())
    };
    assert_eq!(told(many(100)), (100, Value::Null, Value::Null));
    assert_eq!(told(many(101)), (100, 101.into(), true.into()));
    let counted = Completion { total: Some(500), has_more: Some(false), ..many(200) };
    assert_eq!(told(counted), (100, 500.into(), true.into()));
}
