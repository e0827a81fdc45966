//! Tests of our client: lists, reads, prompts and completions. A feature that was not agreed counts as absent.

use gladhand_core::operations::call::no_arguments;
use gladhand_core::operations::{
    Call, CompletionCall, CompletionOf, FailureKind, Level, Operation, Reply, TaskSupport, ToolCall,
};
use gladhand_core::wire::RawValue;
use gladhand_dialects::testing::{bare_call, client_setup};
use gladhand_dialects::{ClientSetup, Event};

use crate::client::{EVERYTHING, open_client, opened_with, result};
use crate::*;

fn prompt(name: &'static str) -> Operation<'static> {
    Operation::GetPrompt(ToolCall { name: name.into(), arguments: no_arguments() })
}

fn completion(of: CompletionOf<'static>) -> Operation<'static> {
    let context = Some(std::borrow::Cow::Owned(gladhand_core::wire::json::raw(r#"{"b":"2"}"#.to_owned())));
    Operation::Complete(CompletionCall { of, argument: "a".into(), value: "x".into(), context })
}

#[test]
fn each_operation_has_its_wire_form() {
    let mut hand = opened_with(client_setup("2025-11-25"), EVERYTHING);
    for (call, operation) in [
        Operation::ListResources,
        Operation::ListTemplates,
        Operation::ListPrompts,
        Operation::ReadResource("a:b".into()),
        Operation::Watch("a:b".into()),
        prompt("p"),
        completion(CompletionOf::Prompt("p".into())),
        completion(CompletionOf::Template("t:{a}".into())),
    ]
    .into_iter()
    .enumerate()
    {
        hand.step(|client, ambient, heard| {
            client.call(Call::new(gladhand_core::operations::CallId(call as u64), operation), None, ambient, heard);
        });
    }
    let sent: Vec<_> = hand.sent.iter().map(|line| line.split_once(r#","method":"#).unwrap().1.to_owned()).collect();
    let expected = [
        r#""resources/list","params":{}}"#,
        r#""resources/templates/list","params":{}}"#,
        r#""prompts/list","params":{}}"#,
        r#""resources/read","params":{"uri":"a:b"}}"#,
        r#""resources/subscribe","params":{"uri":"a:b"}}"#,
        r#""prompts/get","params":{"name":"p","arguments":{}}}"#,
        r#""completion/complete","params":{"ref":{"name":"p","type":"ref/prompt"},"argument":{"name":"a","value":"x"},"context":{"arguments":{"b":"2"}}}}"#,
        r#""completion/complete","params":{"ref":{"type":"ref/resource","uri":"t:{a}"},"argument":{"name":"a","value":"x"},"context":{"arguments":{"b":"2"}}}}"#,
    ];
    assert_eq!(sent, expected);
}

#[test]
fn features_that_were_not_agreed_are_absent() {
    for version in DIALECT.versions {
        let mut hand = opened_with(client_setup(version), "{}");
        hand.calls(1, Operation::ListTools);
        hand.calls(2, Operation::ListResources);
        hand.calls(3, Operation::ListTemplates);
        hand.calls(4, Operation::ListPrompts);
        assert!(matches!(hand.take_outcome(1), Ok(Reply::Tools(list)) if list.is_empty()));
        assert!(matches!(hand.take_outcome(2), Ok(Reply::Resources(list)) if list.is_empty()));
        assert!(matches!(hand.take_outcome(3), Ok(Reply::Templates(list)) if list.is_empty()));
        assert!(matches!(hand.take_outcome(4), Ok(Reply::Prompts(list)) if list.is_empty()));
        hand.calls(5, bare_call("t"));
        hand.calls(6, Operation::ReadResource("a:b".into()));
        hand.calls(7, Operation::Watch("a:b".into()));
        hand.calls(8, prompt("p"));
        let kinds = [5, 6, 7, 8].map(|call| hand.take_outcome(call).unwrap_err().kind);
        let unknown = [FailureKind::UnknownTool, FailureKind::UnknownResource];
        assert_eq!(kinds, [unknown[0], unknown[1], FailureKind::Unsupported, FailureKind::UnknownPrompt]);
        assert_eq!(hand.sent, NOTHING);
        hand.calls(9, completion(CompletionOf::Prompt("p".into())));
        // The oldest revision has no capability for completion, so a client may try.
        assert_eq!(hand.sent.len(), usize::from(*version == "2024-11-05"), "{version}");
    }
    let mut hand = opened_with(client_setup("2025-11-25"), r#"{"resources":{}}"#);
    hand.calls(1, Operation::Watch("a:b".into()));
    let failure = hand.take_outcome(1).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported, "no `subscribe`");
    assert!(failure.message.contains("not supported by this server"), "{failure}");
}

fn extra(members: &[(String, Box<RawValue>)]) -> Vec<(&str, &str)> {
    members.iter().map(|(name, raw)| (name.as_str(), raw.get())).collect()
}

#[test]
fn lists_keep_unknown_members() {
    let mut hand = opened_with(client_setup("2025-11-25"), EVERYTHING);
    hand.calls(1, Operation::ListResources);
    hand.hears(&result("2", r#"{"resources":[{"uri":"a:b","name":"n","size":3.0},{"name":"lost"}],"nextCursor":"c"}"#));
    hand.hears(&result("3", r#"{"resources":[{"uri":"c:d","title":"T","mimeType":"text/plain"}]}"#));
    let Ok(Reply::Resources(resources)) = hand.take_outcome(1) else { panic!() };
    assert_eq!(resources.len(), 2);
    assert_eq!((resources[0].name.as_str(), extra(&resources[0].extra)), ("n", vec![("size", "3.0")]));
    assert_eq!(resources[1].mime_type.as_deref(), Some("text/plain"));
    hand.calls(2, Operation::ListTemplates);
    hand.hears(&result("4", r#"{"resourceTemplates":[{"uriTemplate":"a:{b}","name":"n","icons":[]}]}"#));
    let Ok(Reply::Templates(templates)) = hand.take_outcome(2) else { panic!() };
    assert_eq!((templates[0].uri_template.as_str(), extra(&templates[0].extra)), ("a:{b}", vec![("icons", "[]")]));
    hand.calls(3, Operation::ListPrompts);
    let arguments = r#"[{"name":"a","required":true,"title":"A"},{"name":"b"}]"#;
    hand.hears(&result("5", &format!(r#"{{"prompts":[{{"name":"p","arguments":{arguments},"_meta":{{}}}}]}}"#)));
    let Ok(Reply::Prompts(prompts)) = hand.take_outcome(3) else { panic!() };
    let [first, second] = &prompts[0].arguments[..] else { panic!() };
    assert_eq!((first.required, extra(&first.extra), second.required), (true, vec![("title", "\"A\"")], false));
    assert_eq!(extra(&prompts[0].extra), [("_meta", "{}")]);
    hand.calls(4, Operation::ListTools);
    hand.hears(&result("6", r#"{"tools":[{"name":"t","execution":{"taskSupport":"optional"}}]}"#));
    let Ok(Reply::Tools(tools)) = hand.take_outcome(4) else { panic!() };
    assert_eq!((tools[0].tasks, tools[0].extra.len()), (TaskSupport::Optional, 0));
}

#[test]
fn contents_prompts_and_completions_are_read() {
    let mut hand = opened_with(client_setup(STATELESS), EVERYTHING);
    hand.calls(1, Operation::ReadResource("a:b".into()));
    hand.hears(&result(
        "2",
        r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public","contents":[{"uri":"a:b","text":"x"}],"y":1}"#,
    ));
    let Ok(Reply::Contents(contents)) = hand.take_outcome(1) else { panic!() };
    assert_eq!(contents.parts[0].get(), r#"{"uri":"a:b","text":"x"}"#);
    assert_eq!(extra(&contents.extra), [("y", "1")]);
    hand.calls(2, prompt("p"));
    hand.hears(&result("3", r#"{"description":"d","messages":[{"role":"user"}],"_meta":{}}"#));
    let Ok(Reply::Prompt(prompt)) = hand.take_outcome(2) else { panic!() };
    assert_eq!((prompt.description.as_deref(), prompt.messages[0].get()), (Some("d"), r#"{"role":"user"}"#));
    hand.calls(3, completion(CompletionOf::Prompt("p".into())));
    hand.hears(&result("4", r#"{"completion":{"values":["a","b"],"total":7,"hasMore":true}}"#));
    let Ok(Reply::Completion(completion)) = hand.take_outcome(3) else { panic!() };
    assert_eq!(
        (completion.values, completion.total, completion.has_more),
        (vec!["a".into(), "b".into()], Some(7), Some(true))
    );
}

#[test]
fn unknown_items_and_failures_are_distinguished() {
    let (read, watch) = (Operation::ReadResource("a:b".into()), Operation::Watch("a:b".into()));
    for (operation, error, kind) in [
        (read.clone(), r#"{"code":-32002,"message":"no"}"#, FailureKind::UnknownResource),
        (read.clone(), r#"{"code":-32602,"message":"no","data":{"uri":"a:b"}}"#, FailureKind::UnknownResource),
        (read, r#"{"code":-32602,"message":"no"}"#, FailureKind::UpstreamError),
        (watch, r#"{"code":-32002,"message":"no"}"#, FailureKind::UnknownResource),
        (prompt("p"), r#"{"code":-32602,"message":"Prompt p not found"}"#, FailureKind::UnknownPrompt),
        (
            bare_call("t"),
            r#"{"code":-32021,"message":"m","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}"#,
            FailureKind::MissingCapability,
        ),
    ] {
        let mut hand = opened_with(client_setup("2025-11-25"), EVERYTHING);
        hand.calls(1, operation);
        hand.hears(&format!(r#"{{"jsonrpc":"2.0","id":2,"error":{error}}}"#));
        let failure = hand.take_outcome(1).unwrap_err();
        assert_eq!(failure.kind, kind, "{error}");
        if kind == FailureKind::MissingCapability {
            assert_eq!(failure.data.unwrap().get(), r#""elicitation.url""#);
        }
    }
}

#[test]
fn a_log_level_is_set_in_the_form_of_the_era() {
    let wanting = |version| ClientSetup { log_level: Some(Level::Warning), ..client_setup(version) };
    let mut hand = opened_with(wanting("2025-06-18"), EVERYTHING);
    let sent = hand.only_sent();
    assert_eq!((&sent["method"], &sent["params"]["level"]), (&"logging/setLevel".into(), &"warning".into()));
    assert_eq!(opened_with(wanting("2025-06-18"), "{}").sent, NOTHING);
    let mut hand = opened_with(wanting(STATELESS), EVERYTHING);
    hand.calls(1, Operation::ListTools);
    assert_eq!(hand.only_sent()["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
}

#[test]
fn all_changes_are_reported() {
    let url =
        ["elicitation", "elicitation.url"].map(|name| (gladhand_core::negotiation::Capability::named(name), None));
    let setup = ClientSetup { provides: url.to_vec(), ..client_setup("2025-11-25") };
    let mut hand = opened_with(setup, EVERYTHING);
    for (method, params) in [
        ("tools/list_changed", ""),
        ("prompts/list_changed", ""),
        ("resources/list_changed", ""),
        ("resources/updated", r#""uri":"a:b""#),
        ("elicitation/complete", r#""elicitationId":"e""#),
    ] {
        hand.hears(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{params}}}}}"#));
    }
    let expected = [
        "ToolsChanged",
        "PromptsChanged",
        "ResourcesChanged",
        r#"ResourceUpdated(Update { uri: "a:b", denied: [] })"#,
        r#"ElicitationComplete("e")"#,
    ];
    assert_eq!(hand.take_notices(), expected);
}

#[test]
fn log_lines_belong_to_the_call_of_their_exchange() {
    let line = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"d"}}"#;
    let setup = ClientSetup { exchanges: true, ..client_setup("2025-11-25") };
    let mut hand = opened_with(setup, EVERYTHING);
    hand.calls(7, bare_call("t"));
    hand.calls(8, bare_call("t"));
    hand.hears_on(3, line);
    hand.hears(line);
    let owners: Vec<_> = hand.take_notices().iter().map(|notice| notice[..16].to_owned()).collect();
    assert_eq!(owners, ["Log(Some(CallId(", "Log(None, Log { "]);
    let mut hand = open_client("2025-11-25");
    hand.calls(7, bare_call("t"));
    hand.hears(line);
    assert!(
        hand.take_notices()[0].starts_with("Log(None"),
        "on a shared channel, a log line may belong to an earlier call"
    );
    assert!(!hand.events.iter().any(|event| matches!(event, Event::Dropped(_))));
}

#[test]
fn headers_mirror_the_body_in_the_stateless_era() {
    let setup = |version| ClientSetup { exchanges: true, ..client_setup(version) };
    let schema = r#"{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}"#;
    let bad = schema.replace("Region", "No Header");
    let list = format!(r#"{{"tools":[{{"name":"t","inputSchema":{schema}}},{{"name":"bad","inputSchema":{bad}}}]}}"#);
    let mut hand = opened_with(setup(STATELESS), EVERYTHING);
    hand.calls(1, Operation::ListTools);
    hand.hears_on(2, &result("2", &list));
    let Ok(Reply::Tools(tools)) = hand.take_outcome(1) else { panic!() };
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["t"]);
    hand.take_sent();
    let arguments = std::borrow::Cow::Owned(gladhand_core::wire::json::raw(r#"{"r":"é"}"#.to_owned()));
    hand.calls(2, Operation::CallTool(ToolCall { name: "t".into(), arguments }));
    let headers = hand.headers(&hand.sent[0]);
    let shown: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "t"),
        ("Mcp-Param-Region", "=?base64?w6k=?="),
    ];
    assert_eq!(shown, expected);
    let hand = opened_with(setup("2025-06-18"), EVERYTHING);
    assert_eq!(hand.headers(INITIALIZED), [("MCP-Protocol-Version".to_owned(), "2025-06-18".to_owned())]);
    assert_eq!(opened_with(setup("2025-03-26"), EVERYTHING).headers(INITIALIZED), []);
    let mut hand = opened_with(client_setup(STATELESS), EVERYTHING);
    hand.calls(1, Operation::ListTools);
    hand.hears(&result("2", &list));
    assert!(
        matches!(hand.take_outcome(1), Ok(Reply::Tools(tools)) if tools.len() == 2),
        "without headers, their rules must not apply"
    );
}

#[test]
fn a_call_refused_for_its_headers_is_repeated_after_a_new_list() {
    let mut hand = opened_with(ClientSetup { exchanges: true, ..client_setup(STATELESS) }, EVERYTHING);
    hand.calls(1, bare_call("t"));
    let refusal = |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32020,"message":"header"}}}}"#);
    hand.hears_on(2, &refusal(2));
    assert_eq!(hand.take_sent()[1]["method"], "tools/list");
    hand.hears_on(3, &result("3", r#"{"tools":[]}"#));
    let again = hand.only_sent();
    assert_eq!((&again["method"], &again["id"]), (&"tools/call".into(), &4.into()));
    hand.hears_on(4, &refusal(4));
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamError);
}
