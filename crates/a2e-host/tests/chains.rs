//! Chains: recorded chains, every refusal, and properties that hold for any graph.

mod mesh;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_a2e_host::chains::{ChainSettings, Chains};
use gladhand_core::operations::{CapabilityCall, Failure, Reply, Tool, ToolResult};
use gladhand_core::wire::json;
use gladhand_hub::{Answer, Caller, CapabilityProvider, Context, Hub, Kit, Provider};
use mesh::{Agent, ask, call, granted, raw_call};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The tools that the recordings were made with.
fn fixture() -> Kit {
    let structured = |data: Value| ToolResult::structured(json::to_raw(&data));
    Kit::new()
        .tool(Tool::plain("echo", ""), move |call, _| {
            let arguments: Value = call.read()?;
            Ok(structured(json!({"text": arguments.get("text")})))
        })
        .tool(Tool::plain("all", ""), |call, _| Ok(ToolResult::structured(call.arguments.into_owned())))
        .tool(Tool::plain("text", ""), |_, _| Ok(ToolResult::text("only text")))
        .tool(Tool::plain("list", ""), |_, _| Ok(ToolResult::structured(json::raw("[1,2]".to_owned()))))
        .tool(Tool::plain("nothing", ""), |_, _| Ok(ToolResult::default()))
        .tool(Tool::plain("fail", ""), |_, _| Err::<ToolResult, _>(Failure::of_capability("tool_error", "tool failed")))
        .tool(Tool::plain("soft_fail", ""), |_, _| Ok(ToolResult::failure("nope")))
        .tool(Tool::plain("odd", ""), |call, _| {
            let arguments: Value = call.read()?;
            let is_odd = arguments["item"].as_i64().is_some_and(|item| item % 2 == 1);
            Ok(if is_odd { ToolResult::text("odd") } else { ToolResult::failure("even") })
        })
        .slow_tool(Tool::plain("sleep", ""), |call, _| async move {
            let arguments: Value = call.read()?;
            tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0))).await;
            Ok::<ToolResult, Failure>(ToolResult::structured(json::to_raw(&json!({"slept_ms": arguments["ms"]}))))
        })
}

/// The process id of the recording.
const P1: &str = "43763df573934e62abac859440ea0ed4";

/// Stands in for the capabilities other than tools that nodes use.
#[derive(Debug, Default)]
struct Others {
    /// The messages that arrived.
    asked: Arc<Mutex<Vec<(&'static str, Value)>>>,
    looks: AtomicUsize,
}

impl Provider for Others {
    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }
}

impl CapabilityProvider for Others {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["skill", "proc"]
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        let message: Value = call.read().expect("a valid JSON message");
        self.asked.lock().expect("the lock is not poisoned").push((call.kind, message.clone()));
        let answer = match call.kind {
            "skill/call/req" if message["name"] == "shorten" => {
                context.caller.push(call.event("skill/event", json::raw(r#"{"kind":"skill.started"}"#.to_owned())));
                json!({"name": "shorten", "data": {"success": true, "data": {"prompt": message["arguments"]}}})
            }
            "skill/call/req" if message["name"] == "refuse" => {
                json!({"data": null, "error": {"code": "skill_error", "message": "refused", "retryable": false}})
            }
            "skill/call/req" if message["name"] == "mute" => json!({"data": {"success": false, "error": null}}),
            "skill/call/req" => {
                context.caller.push(call.event("skill/event", json::raw(r#"{"kind":"skill.failed"}"#.to_owned())));
                json!({"data": {"success": false, "error": "Skill not found", "error_code": "unknown_skill"}})
            }
            "proc/spawn/req" if message["cmd"] == json!([]) => json!({"ok": false, "error": "Empty command"}),
            "proc/spawn/req" if message["cmd"][0] == "endless" => json!({"ok": true, "proc_id": "endless"}),
            "proc/spawn/req" => {
                for data in [r#"{"text":"hi"}"#, r#"{"code":0}"#] {
                    let fields = format!(r#"{{"kind":"status","data":{data},"proc_id":"p1"}}"#);
                    context.caller.push(call.event("proc/read/event", json::raw(fields)));
                }
                json!({"ok": true, "proc_id": P1, "pid": 5})
            }
            "proc/status/req" if message["proc_id"] == "endless" => json!({"status": "running"}),
            "proc/status/req" => {
                // The end event comes before the status changes.
                let is_first = self.looks.fetch_add(1, Ordering::Relaxed) == 0;
                json!({"proc_id": P1, "status": if is_first { "running" } else { "completed" }, "error": ""})
            }
            _ => json!({}),
        };
        Answer::Now(Ok(Reply::Capability(json::to_raw(&answer))))
    }
}

const ALL: [&str; 4] = ["chains", "tools", "skill", "proc"];

fn hub_with(settings: ChainSettings, others: Others) -> Hub {
    Hub::new(vec![Box::new(fixture()), Box::new(others), Box::new(Chains::new(settings))])
        .expect("unique provider names")
}

fn hub() -> Hub {
    hub_with(ChainSettings::default(), Others::default())
}

/// Runs a chain. Returns the answer without the members that vary, and the events as `node phase`.
async fn run(hub: &Hub, grants: &[&str], message: &Value) -> (Value, Vec<String>) {
    let agent = Agent::of(1);
    let mut answer = ask(hub, &granted(grants), &agent, call("chains", "chain/req", message)).await.expect("an answer");
    assert!(answer["duration_ms"].take().is_u64());
    let events = agent.events();
    for (place, (_, event)) in events.iter().filter(|(kind, _)| *kind == "chain/event").enumerate() {
        assert_eq!([&event["kind"], &event["data"]], [&json!("status"), &json!({})]);
        assert_eq!(event["seq"], place);
    }
    let word = |event: &Value, member: &str| event[member].as_str().unwrap_or_default().to_owned();
    let events = events.iter().map(|(kind, event)| match *kind {
        "chain/event" => format!("{} {}", word(event, "node_id"), word(event, "phase")),
        kind => kind.to_owned(),
    });
    (answer, events.collect())
}

#[tokio::test]
async fn recorded_chains_run_as_recorded() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("chains.json")).unwrap();
    let hub = hub();
    for case in &cases {
        let (answer, events) = run(&hub, &ALL, &case["request"]).await;
        let name = &case["name"];
        for member in ["chain_id", "success", "outputs", "final_output", "nodes_run"] {
            assert_eq!(answer[member], case["answer"][member], "{name}: {member} of {answer}");
        }
        assert_eq!(answer["error"]["code"], case["answer"]["error"]["code"], "{name}: {answer}");
        assert_eq!(json!(events), case["events"], "{name}");
    }
    assert_eq!(cases.len(), 22);
}

fn chain(nodes: &Value) -> Value {
    json!({"chain_id": "c", "entry_node": "a", "nodes": nodes})
}

#[tokio::test]
async fn a_chain_without_a_name_gets_one() {
    let nodes = json!([{"node_id": "a", "kind": "tool", "name": "echo"}]);
    let (answer, _) = run(&hub(), &ALL, &json!({"entry_node": "a", "nodes": nodes})).await;
    assert_eq!(answer["chain_id"].as_str().unwrap().len(), 8);
}

#[tokio::test]
async fn the_result_of_a_tool_is_the_output_of_its_node() {
    let hub = hub();
    let cases = [
        ("text", json!({"value": "only text"})),
        ("list", json!({"value": [1, 2]})),
        ("nothing", json!({"value": null})),
        ("echo", json!({"text": null})),
    ];
    for (tool, data) in cases {
        let (answer, _) = run(&hub, &ALL, &chain(&json!([{"node_id": "a", "kind": "tool", "name": tool}]))).await;
        assert_eq!(answer["final_output"], data);
    }
}

#[tokio::test]
async fn the_whole_context_is_the_outputs_over_the_initial_input() {
    let nodes = json!([
        {"node_id": "a", "kind": "tool", "name": "echo", "input": {"text": "new"}, "next_node": "b"},
        {"node_id": "b", "kind": "tool", "name": "all", "input": {"not": "used"}, "input_map": {"all": "$", "n": 3}},
    ]);
    let mut message = chain(&nodes);
    message["initial_input"] = json!({"a": "old", "x": 1});
    let (answer, _) = run(&hub(), &ALL, &message).await;
    assert_eq!(answer["final_output"], json!({"all": {"a": {"text": "new"}, "x": 1}, "n": 3}));
}

#[tokio::test]
async fn a_failing_item_fails_the_chain_and_does_not_stop_it() {
    let nodes = json!([
        {"node_id": "a", "kind": "map", "items_path": "$.n", "map_node": "o", "on_error": "abort", "next_node": "e"},
        {"node_id": "o", "kind": "tool", "name": "odd"},
        {"node_id": "e", "kind": "branch", "condition": "$.a", "true_node": ""},
    ]);
    let mut message = chain(&nodes);
    message["initial_input"] = json!({"n": [1, 2, 3]});
    let (answer, events) = run(&hub(), &ALL, &message).await;
    let odd = json!({"value": "odd"});
    let outputs = json!({"o": odd, "a": [odd, odd]});
    let expected = json!({
        "chain_id": "c", "success": false, "outputs": outputs, "final_output": null, "nodes_run": 2, "error": null,
        "duration_ms": null,
    });
    assert_eq!(answer, expected);
    assert_eq!(events, ["o start", "o done", "o start", "o error", "o start", "o done"]);
}

#[tokio::test]
async fn a_single_value_is_mapped_as_a_list_of_one() {
    let nodes = json!([
        {"node_id": "a", "kind": "map", "map_node": "o"},
        {"node_id": "o", "kind": "tool", "name": "all"},
    ]);
    let mut message = chain(&nodes);
    message["initial_input"] = json!({"n": 1});
    let (answer, _) = run(&hub(), &ALL, &message).await;
    assert_eq!(answer["final_output"], json!([{"item": {"n": 1}}]));
}

#[tokio::test]
async fn a_map_over_a_node_that_cannot_run_fails_each_item() {
    let nodes = json!([{"node_id": "a", "kind": "map", "items_path": "$.n", "map_node": "a"}]);
    let (answer, events) = run(&hub(), &ALL, &chain(&nodes)).await;
    assert_eq!((&answer["success"], &answer["outputs"]), (&json!(false), &json!({"a": []})));
    assert_eq!(events, ["a start", "a error"]);
}

#[tokio::test]
async fn invalid_chains_fail_without_outputs() {
    let hub = hub();
    let cases = [
        (json!([{"node_id": "a", "kind": "branch", "condition": "$.n > x"}]), "chain_error"),
        (json!([{"node_id": "a", "kind": "map", "map_node": "nobody"}]), "chain_error"),
        (json!([{"node_id": "a", "kind": "branch", "true_node": "nobody"}]), "chain_error"),
        (json!([{"node_id": "a", "kind": "tool", "name": "fail", "on_error": "nobody"}]), "chain_error"),
        (json!([{"node_id": "a", "kind": "branch", "true_node": "a"}]), "chain_cycle"),
        (json!([{"node_id": "a"}]), "chain_error"),
        (json!([7]), "chain_error"),
        (json!([]), "bad_entry"),
    ];
    for (nodes, code) in cases {
        let mut message = chain(&nodes);
        message["initial_input"] = json!({"n": 1});
        let (answer, _) = run(&hub, &ALL, &message).await;
        assert_eq!(answer["error"]["code"], code, "{nodes}");
        assert_eq!(
            (&answer["outputs"], &answer["nodes_run"], &answer["success"]),
            (&json!({}), &json!(0), &json!(false))
        );
    }
}

#[tokio::test]
async fn nodes_that_need_an_ungranted_capability_fail() {
    let hub = hub();
    for (kind, capability) in [("tool", "tools"), ("skill", "skill"), ("proc", "proc")] {
        let nodes = json!([{"node_id": "a", "kind": kind, "name": "echo", "input": {"cmd": ["x"]}}]);
        let (answer, events) = run(&hub, &["chains"], &chain(&nodes)).await;
        let error = answer["error"].clone();
        assert_eq!(error["code"], "chain_node_error");
        let expected = format!("capability_missing: {capability} was not granted to this session");
        assert_eq!(error["message"], json!(expected));
        assert_eq!(events, ["a start", "a error"]);
    }
}

#[tokio::test]
async fn skills_are_called_and_their_errors_reported() {
    let hub = hub();
    let node = |name: &str| chain(&json!([{"node_id": "a", "kind": "skill", "name": name, "input": {"args": "q"}}]));
    let (answer, events) = run(&hub, &ALL, &node("shorten")).await;
    assert_eq!(answer["final_output"], json!({"prompt": {"args": "q"}}));
    assert_eq!(events, ["a start", "skill/event", "a done"]);
    for (name, text) in [("refuse", "refused"), ("mute", "skill failed"), ("nobody", "Skill not found")] {
        assert_eq!(run(&hub, &ALL, &node(name)).await.0["error"]["message"], text);
    }
}

#[tokio::test]
async fn a_client_without_streaming_gets_no_events() {
    let mut message = chain(&json!([{"node_id": "a", "kind": "skill", "name": "shorten"}]));
    message["streaming"] = json!(false);
    let (answer, events) = run(&hub(), &ALL, &message).await;
    assert_eq!((&answer["success"], events), (&json!(true), vec![]));
}

#[tokio::test]
async fn a_process_is_waited_for() {
    let others = Others::default();
    let asked = Arc::clone(&others.asked);
    let hub = hub_with(ChainSettings::default(), others);
    let node = |input: Value| chain(&json!([{"node_id": "a", "kind": "proc", "input": input}]));
    let (answer, events) = run(&hub, &ALL, &node(json!({"cmd": "echo  hi"}))).await;
    assert_eq!(answer["final_output"], json!({"proc_id": P1, "status": "completed"}));
    assert_eq!(events, ["a start", "proc/read/event", "proc/read/event", "a done"]);
    let kinds: Vec<_> = asked.lock().unwrap().iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["proc/spawn/req", "proc/status/req", "proc/status/req"]);
    assert_eq!(asked.lock().unwrap()[0].1, json!({"cmd": ["echo", "hi"], "stdin_mode": "null"}));
    let (answer, _) = run(&hub, &ALL, &node(json!({"command": ["a b", "c"], "cmd": "no"}))).await;
    assert_eq!(answer["success"], true);
    assert_eq!(asked.lock().unwrap()[3].1["cmd"], json!(["a b", "c"]));
    let (answer, _) = run(&hub, &ALL, &node(json!({}))).await;
    assert_eq!(answer["error"]["message"], "Empty command");
}

#[tokio::test]
async fn a_node_is_stopped_at_the_operators_limit_despite_a_longer_timeout() {
    let nodes = json!([
        {"node_id": "a", "kind": "tool", "name": "sleep", "input": {"ms": 600_000}, "on_error": "skip", "next_node": "b"},
        {"node_id": "b", "kind": "tool", "name": "echo"},
    ]);
    let mut message = chain(&nodes);
    message["timeout"] = json!(600.0);
    let hub = hub_with(
        ChainSettings { max_duration: Duration::from_millis(20), ..ChainSettings::default() },
        Others::default(),
    );
    let (answer, events) = run(&hub, &ALL, &message).await;
    assert_eq!(answer["error"], json!({"code": "timeout", "message": "chain exceeded timeout"}));
    assert_eq!((&answer["outputs"], &answer["nodes_run"]), (&json!({}), &json!(0)));
    assert_eq!(events, ["a start", "a error"]);
}

#[tokio::test]
async fn a_process_ends_with_the_chain_that_waits_for_it() {
    let others = Others::default();
    let asked = Arc::clone(&others.asked);
    let hub = hub_with(ChainSettings::default(), others);
    let message = chain(&json!([{"node_id": "a", "kind": "proc", "input": {"cmd": "endless"}}]));
    let agent: Arc<dyn Caller> = Agent::of(1);
    let answer = hub.answer(call("chains", "chain/req", &message), &granted(&ALL), &agent);
    // Cancelling the request drops the chain.
    assert!(tokio::time::timeout(Duration::from_millis(50), answer.outcome()).await.is_err());
    let last = asked.lock().unwrap().last().cloned();
    assert_eq!(last, Some(("proc/kill/req", json!({"proc_id": "endless", "signal": "SIGKILL"}))));
}

#[tokio::test]
async fn chains_over_the_limits_are_refused() {
    let small = ChainSettings { nodes: 3, items: 2, bytes: 400, ..ChainSettings::default() };
    let hub = hub_with(small, Others::default());
    let echo = |id: &str| json!({"node_id": id, "kind": "tool", "name": "echo"});
    let (answer, _) = run(&hub, &ALL, &chain(&json!([echo("a"), echo("b"), echo("c"), echo("d")]))).await;
    assert_eq!(answer["error"]["message"], "the chain has 4 nodes, the limit is 3");
    let mapped = json!([{"node_id": "a", "kind": "map", "items_path": "$.n", "map_node": "b"}, echo("b")]);
    let mut message = chain(&mapped);
    message["initial_input"] = json!({"n": [1, 2, 3]});
    let (answer, _) = run(&hub, &ALL, &message).await;
    assert_eq!(answer["error"]["message"], "a: the map has 3 items, the limit is 2");
    let (answer, _) = run(&hub, &ALL, &chain(&json!([{"node_id": "a", "kind": "x".repeat(400)}]))).await;
    assert_eq!(answer["error"]["message"], "the chain is larger than 400 bytes");
}

#[tokio::test]
async fn outputs_that_double_with_each_node_stay_bounded() {
    let node = |at: usize| {
        let (id, next) = (format!("n{at}"), format!("n{}", at + 1));
        let map = json!({"x": "$", "y": "$"});
        json!({"node_id": id, "kind": "tool", "name": "all", "input_map": map, "next_node": next, "on_error": "skip"})
    };
    let mut nodes: Vec<_> = (0..40).map(node).collect();
    nodes.push(json!({"node_id": "n40", "kind": "tool", "name": "echo"}));
    let hub = hub_with(ChainSettings { bytes: 100_000, ..ChainSettings::default() }, Others::default());
    let message = json!({"entry_node": "n0", "nodes": nodes});
    let (answer, _) = run(&hub, &ALL, &message).await;
    assert_eq!((&answer["success"], &answer["nodes_run"]), (&json!(false), &json!(41)));
    assert!(answer["outputs"].to_string().len() < 110_000);
}

fn any_id() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "a", "b", "c", "d", "e", "ghost"])
}

fn any_node() -> impl Strategy<Value = Value> {
    let id = prop::sample::select(vec!["a", "b", "c", "d", "e"]);
    let kind = prop::sample::select(vec!["tool", "skill", "proc", "branch", "map", "other"]);
    let name = prop::sample::select(vec!["echo", "all", "fail", "soft_fail", "odd", "shorten"]);
    let condition = prop::sample::select(vec!["", "$.n > 1", "$.a", "$.b == 3", "$.n > x", "$.x < 2"]);
    let items = prop::sample::select(vec!["", "$.list", "$.n", "$.a", "plain"]);
    let on_error = prop::sample::select(vec!["abort", "", "skip", "a", "c", "ghost"]);
    let paths = prop::sample::select(vec![json!({}), json!({"item": "$.n", "all": "$"}), json!({"item": "$.a.b"})]);
    let edges = (any_id(), any_id(), any_id(), any_id());
    (id, kind, name, condition, items, on_error, paths, edges).prop_map(
        |(id, kind, name, condition, items, on_error, paths, (next, yes, no, map))| {
            json!({
                "node_id": id, "kind": kind, "name": name, "condition": condition, "items_path": items,
                "on_error": on_error, "input_map": paths, "input": {"cmd": "x"}, "next_node": next,
                "true_node": yes, "false_node": no, "map_node": map,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_graph_ends_and_its_events_are_well_formed(nodes in prop::collection::vec(any_node(), 0..7), entry in any_id()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let input = json!({"n": 2, "list": [1, 2, 3]});
        let message = json!({"chain_id": "c", "entry_node": entry, "nodes": nodes, "initial_input": input});
        let hub = hub();
        let (answer, events) = runtime.block_on(run(&hub, &ALL, &message));
        prop_assert_eq!(answer["outputs"].as_object().unwrap().len() as u64, answer["nodes_run"].as_u64().unwrap());
        prop_assert!(answer["success"] == json!(false) || answer["error"].is_null());
        let events: Vec<_> = events.iter().filter_map(|event| event.split_once(' ')).collect();
        // Each start has its end before the next start.
        for pair in events.chunks(2) {
            let [(node, "start"), (same, "done" | "error")] = pair else { return Err(TestCaseError::fail(format!("{events:?}"))) };
            prop_assert_eq!(node, same);
        }
        // Only the node of a map runs more than once.
        let mapped: HashSet<_> = nodes.iter().filter(|node| node["kind"] == "map").filter_map(|node| node["map_node"].as_str()).collect();
        let mut ran = HashSet::new();
        for pair in events.chunks(2) {
            prop_assert!(ran.insert(pair[0].0) || mapped.contains(pair[0].0), "{:?}", events);
        }
    }
}

/// JSON text of at most 4 MiB that takes hundreds of megabytes as a tree.
fn dense() -> String {
    format!("[{}]", vec![r#"{"":0}"#; 500_000].join(","))
}

#[tokio::test]
async fn a_chain_that_would_be_a_large_tree_is_refused() {
    let hub = hub_with(ChainSettings::default(), Others::default());
    let message =
        json::raw(format!(r#"{{"chain_id":"c","nodes":[],"entry_node":"a","initial_input":{{"n":{}}}}}"#, dense()));
    let call = raw_call("chains", "chain/req", message);
    let refused = ask(&hub, &granted(&ALL), &Agent::of(1), call).await.expect_err("it is refused");
    assert_eq!(refused.message, "chain/req: it has more than 200000 JSON values");
}

#[tokio::test]
async fn an_output_that_would_be_a_large_tree_fails_its_node() {
    let tools = Kit::new().tool(Tool::plain("dense", ""), |_, _| Ok(ToolResult::structured(json::raw(dense()))));
    let hub = Hub::new(vec![Box::new(tools), Box::new(Chains::new(ChainSettings::default()))]).expect("unique names");
    let node = json!({"node_id": "a", "kind": "tool", "name": "dense"});
    let (answer, _) = run(&hub, &ALL, &chain(&json!([node]))).await;
    assert_eq!(answer["error"]["message"], "the output cannot be used: it has more than 200000 JSON values");
}
