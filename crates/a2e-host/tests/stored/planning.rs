//! `planning`: plans, tasks and boards, shared by all agents.

use gladhand_a2e_host::planning::{Planning, PlanningSettings};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::fixture::{Agent, Fixture};

fn fixture(folder: &TempDir, settings: PlanningSettings) -> Fixture {
    Fixture::open(folder.path(), |storage, _| Box::new(Planning::new(storage, settings)))
}

fn plan(agent: &Agent, name: &str, columns: &[&str]) -> String {
    let made = agent.get("planning/plan/create", json!({ "name": name, "columns": columns }));
    made["plan_id"].as_str().expect("a plan has an id").to_owned()
}

fn task(agent: &Agent, plan_id: &str, title: &str, status: &str) -> String {
    let added = agent.get("planning/task/add", json!({ "plan_id": plan_id, "title": title, "status": status }));
    assert_eq!((&added["success"], &added["status"]), (&json!(true), &json!(status)));
    added["task_id"].as_str().expect("a task has an id").to_owned()
}

fn titles(agent: &Agent, wanted: Value) -> Vec<Value> {
    let found = agent.get("planning/task/list", wanted);
    found["tasks"].as_array().expect("a list").iter().map(|task| task["title"].clone()).collect()
}

/// The recording `planning`, with these differences from the reference: an update of an unknown task is answered, and a
/// status alone selects tasks.
#[test]
fn the_recorded_session_follows_the_recommendations() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, PlanningSettings::default());
    let agent = fixture.agent("probe");
    let made = agent.get("planning/plan/create", json!({ "name": "release", "columns": [], "description": "ship" }));
    assert_eq!(made["columns"], json!(["backlog", "todo", "in_progress", "done"]));
    assert_eq!(made["success"], true);
    let release = made["plan_id"].as_str().unwrap();
    assert!(release.len() == 12 && release.bytes().all(|digit| digit.is_ascii_hexdigit()), "{release}");
    let wf = plan(&agent, "wf", &["x", "y"]);
    let added = agent.get(
        "planning/task/add",
        json!({ "plan_id": release, "title": "write", "status": "todo",
        "description": "", "assignee": "bob", "deps": ["d"], "metadata": { "k": 1 } }),
    );
    let write = added["task_id"].as_str().unwrap();
    assert_eq!(added, json!({ "success": true, "task_id": write, "status": "todo" }));
    assert_eq!(write.len(), 12);
    let odd = task(&agent, release, "odd", "weird");
    task(&agent, "noplan", "orphan", "backlog");

    let update = |task_id: &str, status: &str| {
        agent.get("planning/task/update", json!({ "plan_id": release, "task_id": task_id, "status": status }))
    };
    assert_eq!(update(write, "done"), json!({ "success": true, "task_id": write }));
    assert_eq!(update("zzz", "done"), json!({ "success": false, "task_id": "zzz" }));
    assert_eq!(update(write, ""), json!({ "success": true, "task_id": write }));

    let listed = agent.get("planning/task/list", json!({ "plan_id": release }));
    let written =
        json!({ "task_id": write, "title": "write", "status": "done", "assignee": "bob", "plan_id": release });
    let weird = json!({ "task_id": odd, "title": "odd", "status": "weird", "assignee": "", "plan_id": release });
    assert_eq!(listed, json!({ "tasks": [written, weird] }));
    assert_eq!(titles(&agent, json!({ "status": "done" })), ["write"]);
    assert_eq!(titles(&agent, json!({ "plan_id": release, "status": "weird" })), ["odd"]);
    assert_eq!(titles(&agent, json!({})), ["write", "odd", "orphan"]);

    let board = agent.get("planning/plan/board", json!({ "plan_id": release }));
    let expected = json!({ "boards": [{ "plan_id": release, "name": "release",
        "columns": ["backlog", "todo", "in_progress", "done"],
        "tasks": { "backlog": [], "todo": [], "in_progress": [],
            "done": [{ "task_id": write, "title": "write", "status": "done", "assignee": "bob" }],
            "weird": [{ "task_id": odd, "title": "odd", "status": "weird", "assignee": "" }] } }] });
    assert_eq!(board, expected);
    let listed = agent.get("planning/plan/list", json!({}));
    assert_eq!(
        listed,
        json!({ "plans": [
        { "plan_id": release, "name": "release", "columns": ["backlog", "todo", "in_progress", "done"] },
        { "plan_id": wf, "name": "wf", "columns": ["x", "y"] },
    ] })
    );
    assert_eq!(agent.get("planning/plan/board", json!({ "plan_id": "zzz" })), json!({ "boards": [] }));
    assert_eq!(agent.get("planning/plan/board", json!({}))["boards"].as_array().unwrap().len(), 2);
}

#[test]
fn a_board_keeps_the_order_of_columns() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, PlanningSettings::default()).agent("a");
    let id = plan(&agent, "p", &["z", "a", "m"]);
    task(&agent, &id, "t", "b");
    let board = agent.ask_in_text("planning/plan/board", "{}".to_owned()).unwrap();
    assert!(board.contains(r#""tasks":{"z":[],"a":[],"m":[],"b":[{"#), "{board}");
}

#[test]
fn everything_has_a_default() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, PlanningSettings::default()).agent("a");
    let made = agent.get("planning/plan/create", json!({}));
    assert_eq!(agent.get("planning/plan/list", json!({}))["plans"][0]["name"], "default");
    let added = agent.get("planning/task/add", json!({ "plan_id": made["plan_id"], "title": "t" }));
    assert_eq!(added["status"], "backlog");
}

#[test]
fn plans_are_shared_by_all_agents_and_survive_a_restart() {
    let folder = tempdir().unwrap();
    let first = fixture(&folder, PlanningSettings::default());
    let id = plan(&first.agent("ada"), "ours", &["a, b", "a, b", "c"]);
    let of_bob = task(&first.agent("bob"), &id, "t", "c");
    drop(first);
    let second = fixture(&folder, PlanningSettings::default()).agent("eve");
    assert_eq!(titles(&second, json!({ "plan_id": id })), ["t"]);
    let board = second.get("planning/plan/board", json!({ "plan_id": id }));
    assert_eq!(board["boards"][0]["columns"], json!(["a, b", "a, b", "c"]));
    assert_eq!(board["boards"][0]["tasks"]["a, b"], json!([]));
    assert_eq!(board["boards"][0]["tasks"]["c"][0]["task_id"], json!(of_bob));
}

#[test]
fn an_update_changes_only_non_empty_members_of_a_task_in_its_plan() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, PlanningSettings::default()).agent("a");
    let (here, there) = (plan(&agent, "here", &[]), plan(&agent, "there", &[]));
    let id = task(&agent, &here, "t", "todo");
    let elsewhere = json!({ "plan_id": there, "task_id": id, "status": "done" });
    assert_eq!(agent.get("planning/task/update", elsewhere)["success"], false);
    let assigned = json!({ "plan_id": here, "task_id": id, "assignee": "bob", "deps": ["x"] });
    assert_eq!(agent.get("planning/task/update", assigned)["success"], true);
    let found = &agent.get("planning/task/list", json!({ "plan_id": here }))["tasks"][0];
    assert_eq!((&found["status"], &found["assignee"]), (&json!("todo"), &json!("bob")));
    let kept = rusqlite::Connection::open(folder.path().join("gladhand.db")).unwrap();
    let deps: String = kept.query_row("SELECT deps FROM planning_tasks", [], |row| row.get(0)).unwrap();
    assert_eq!(deps, r#"["x"]"#);
}

#[test]
fn requests_over_the_limits_are_refused() {
    let folder = tempdir().unwrap();
    let settings =
        PlanningSettings { plans: 1, tasks: 1, columns: 2, name_bytes: 20, title_bytes: 9, request_bytes: 200 };
    let agent = fixture(&folder, settings).agent("a");
    let long = "x".repeat(21);
    let refused = |kind, message| assert_eq!(agent.refused(kind, message), "runtime_error", "{kind}");
    refused("planning/plan/create", json!({ "columns": ["1", "2", "3"] }));
    refused("planning/plan/create", json!({ "columns": [long] }));
    refused("planning/plan/create", json!({ "name": long }));
    refused("planning/plan/create", json!({ "description": "x".repeat(201) }));
    let id = plan(&agent, "p", &["1"]);
    refused("planning/plan/create", json!({}));
    refused("planning/task/add", json!({ "plan_id": id, "title": "1234567890" }));
    refused("planning/task/add", json!({ "plan_id": id, "title": "t", "status": long }));
    refused("planning/task/add", json!({ "plan_id": id, "title": "t", "assignee": long }));
    let only = task(&agent, &id, "t", "1");
    refused("planning/task/add", json!({ "plan_id": id, "title": "t" }));
    refused("planning/task/update", json!({ "plan_id": id, "task_id": only, "status": long }));
    assert_eq!(titles(&agent, json!({})), ["t"]);
    assert_eq!(agent.refused("planning/plan/create/resp", json!({})), "invalid_message");
}
