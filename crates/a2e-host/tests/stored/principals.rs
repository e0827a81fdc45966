//! Principals see nothing of each other, even if their agents have the same name.

use gladhand_a2e_host::learning::{Learning, LearningSettings};
use gladhand_a2e_host::memory::{Memory, MemorySettings};
use gladhand_a2e_host::planning::{Planning, PlanningSettings};
use gladhand_store::Database;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::fixture::{Agent, Fixture, Proof};
use super::memory::Mind;

/// All kinds of proof. No two of them are the same principal.
const PROOFS: [Proof; 7] = [
    Proof::Local,
    Proof::Anonymous,
    Proof::Pass("ann"),
    Proof::Pass("bob"),
    Proof::Principal("ann"),
    Proof::Principal("local"),
    Proof::Both("ann", "ann"),
];

fn entry(tier: &str, content: &str) -> Value {
    json!({ "tier": tier, "key": { "k": 1 }, "content": content, "tags": ["known"] })
}

fn remembering(folder: &TempDir) -> Fixture {
    let settings = MemorySettings::default();
    Fixture::open(folder.path(), |storage, clock| Box::new(Memory::new(storage, settings).by(clock)))
}

fn learning(folder: &TempDir) -> Fixture {
    let settings = LearningSettings { min_experiences: 1, ..LearningSettings::default() };
    Fixture::open(folder.path(), |storage, clock| Box::new(Learning::new(storage, settings).by(clock)))
}

fn planning(folder: &TempDir) -> Fixture {
    let settings = PlanningSettings { plans: 2, tasks: 2, ..PlanningSettings::default() };
    Fixture::open(folder.path(), |storage, _| Box::new(Planning::new(storage, settings)))
}

#[test]
fn agents_of_different_principals_with_one_name_share_no_memory() {
    let folder = tempdir().unwrap();
    let first = remembering(&folder);
    for proof in PROOFS {
        let name = format!("{proof:?}");
        let mind = Mind::new(first.agent_of("ann", proof));
        assert_eq!(mind.contents(json!({})), json!([]), "{name} sees no entries of the others");
        mind.store(json!([entry("episodic", &name), entry("semantic", &name), entry("dream", &name)]));
        assert_eq!(mind.retrieve(json!({ "query": "known" }))["total"], 3, "words of others are not found");
    }
    drop(first);
    let second = remembering(&folder);
    for proof in PROOFS {
        let name = format!("{proof:?}");
        let ann = Mind::new(second.agent_of("ann", proof));
        assert_eq!(ann.contents(json!({})), json!([name, name, name]), "in a new session");
        let bob = Mind::new(second.agent_of("bob", proof));
        assert_eq!(bob.contents(json!({})), json!([name]), "agents of a principal share semantic memory");
        assert_eq!(bob.forget(json!({ "keys": [{ "k": 1 }], "tier": "" })), 1);
    }
    for proof in PROOFS {
        let ann = Mind::new(second.agent_of("ann", proof));
        assert_eq!(ann.forget(json!({ "keys": [{ "k": 1 }], "tier": "" })), 2, "{proof:?}");
    }
}

#[test]
fn another_handshake_in_a_session_opens_nothing_of_the_agent_before() {
    let folder = tempdir().unwrap();
    let fixture = remembering(&folder);
    let ann = Mind::new(fixture.agent("ann"));
    ann.store(json!([entry("working", "w"), entry("episodic", "e")]));
    let bob = Mind::new(ann.agent.renamed("bob"));
    assert_eq!(bob.contents(json!({})), json!([]));
    let ann = Mind::new(bob.agent.renamed("ann"));
    assert_eq!(ann.contents(json!({})), json!(["w", "e"]));
}

/// Reports a bad result of a component.
fn complain(agent: &Agent, component: &str) {
    let action = json!({ "component_name": component, "duration_ms": 5 });
    agent.get("learn/experience/req", json!({ "experiences": [{ "action": action, "reward": -1.0 }] }));
}

fn components(agent: &Agent) -> Vec<(String, i64)> {
    let known = agent.get("learn/stats/req", json!({}));
    let known = known["components"].as_array().expect("a list").iter();
    known
        .map(|one| {
            (one["component_name"].as_str().expect("a name").to_owned(), one["calls_total"].as_i64().expect("a number"))
        })
        .collect()
}

#[test]
fn the_records_of_a_principal_affect_no_other() {
    let folder = tempdir().unwrap();
    let fixture = learning(&folder);
    for (number, proof) in PROOFS.into_iter().enumerate() {
        let ann = fixture.agent_of("ann", proof);
        assert_eq!(components(&ann), [], "{proof:?}");
        for _ in 0..=number {
            complain(&ann, "search");
        }
        let proposal = json!({ "refinement_id": "r", "confidence": 1.0,
            "edits": [{ "target": "router_weight", "op": "replace", "path": "router.weights.x", "new_value": number }] });
        let applied = ann.get("learn/refinement/apply/req", json!({ "proposal": proposal }));
        assert_eq!(applied["rollback_available"], true, "the same id of another principal is another: {applied}");
    }
    for (number, proof) in PROOFS.into_iter().enumerate() {
        let bob = fixture.agent_of("bob", proof);
        assert_eq!(components(&bob), [("search".to_owned(), number as i64 + 1)], "{proof:?}");
        let history = bob.get("learn/refinement/history/req", json!({}));
        let [made] = history["entries"].as_array().unwrap().as_slice() else { panic!("{history}") };
        assert_eq!(made["proposal"]["edits"][0]["new_value"], number);
        assert_eq!(made["status"], "applied", "a rollback of another principal has no effect");
        let back = bob.get("learn/refinement/rollback/req", json!({ "refinement_id": "r" }));
        assert_eq!(back["rolled_back"], true);
    }
}

#[test]
fn plans_are_seen_changed_and_counted_for_one_principal_only() {
    let folder = tempdir().unwrap();
    let fixture = planning(&folder);
    let mut others: Vec<(String, String)> = Vec::new();
    for proof in PROOFS {
        let ann = fixture.agent_of("ann", proof);
        assert_eq!(ann.get("planning/plan/list", json!({}))["plans"], json!([]), "{proof:?}");
        assert_eq!(ann.get("planning/task/list", json!({}))["tasks"], json!([]), "{proof:?}");
        for (plan, task) in &others {
            assert_eq!(ann.get("planning/plan/board", json!({ "plan_id": plan }))["boards"], json!([]));
            let change = json!({ "plan_id": plan, "task_id": task, "status": "done" });
            assert_eq!(ann.get("planning/task/update", change)["success"], false);
        }
        // Each principal has its own limit of two plans and two tasks.
        let plans = ["a", "b"].map(|name| ann.get("planning/plan/create", json!({ "name": name }))["plan_id"].clone());
        let add = |title: &str| ann.get("planning/task/add", json!({ "plan_id": plans[0], "title": title }));
        let tasks = ["x", "y"].map(|title| add(title)["task_id"].clone());
        ann.refused("planning/plan/create", json!({}));
        ann.refused("planning/task/add", json!({ "plan_id": plans[0], "title": "z" }));
        let bob = fixture.agent_of("bob", proof);
        assert_eq!(bob.get("planning/plan/list", json!({}))["plans"].as_array().unwrap().len(), 2);
        let change = json!({ "plan_id": plans[0], "task_id": tasks[0], "status": "done" });
        assert_eq!(bob.get("planning/task/update", change)["success"], true, "agents of a principal share plans");
        others.push((plans[0].as_str().unwrap().to_owned(), tasks[0].as_str().unwrap().to_owned()));
    }
}

/// A database with the first version of its tables, and rows of an agent `ann`.
fn old_database(folder: &TempDir) {
    let rows = Connection::open(Database::file(folder.path())).expect("the tables are there");
    rows.execute_batch(include_str!("../../../store/src/database/schema/1.sql")).expect("the tables are there");
    rows.pragma_update(None, "application_id", 0x676c_6164).expect("the tables are there");
    rows.pragma_update(None, "user_version", 1).expect("the tables are there");
    let space = ring::digest::digest(&ring::digest::SHA256, br#"["default",{}]"#);
    let insert = "INSERT INTO memory (owner, space, tier, identity, tags, words, bytes, ttl, created_at, updated_at, source, \
        key, content) VALUES (?1, ?2, ?3, zeroblob(32), '[]', 1, 9, 0, 1, 1, '', '{\"k\":1}', ?4)";
    rows.execute(insert, rusqlite::params!["agent:ann", space.as_ref(), "episodic", "\"mine\""])
        .expect("the tables are there");
    rows.execute(insert, rusqlite::params!["shared", space.as_ref(), "semantic", "\"ours\""])
        .expect("the tables are there");
    rows.execute_batch(
        "INSERT INTO learning_components VALUES ('search', 40, 0, 40, -40.0, 1, 5.0, 1.0);
         INSERT INTO learning_durations (component, milliseconds) VALUES ('search', 5.0);
         INSERT INTO learning_records (kind, agent, told_at, bytes, body) VALUES ('experience', 'ann', 1.0, 2, '{}');
         UPDATE learning_state SET experiences = 40, policy_version = 3, state = '{\"a\":1}';
         INSERT INTO learning_refinements (refinement_id, applied_at, applied_edits, failed_edits, proposal, snapshot)
             VALUES ('r', 1.0, 1, 0, '{}', '{}');
         INSERT INTO planning_plans (plan_id, name, columns, description, created_at) VALUES ('p', 'old', '[]', '', 1.0);
         INSERT INTO planning_tasks (task_id, plan_id, title, status, description, assignee, deps, metadata, created_at)
             VALUES ('t', 'p', 'old', 'todo', '', '', '[]', '{}', 1.0);",
    )
    .expect("the tables are there");
}

#[test]
fn rows_of_an_older_version_belong_only_to_the_local_user() {
    let folder = tempdir().unwrap();
    old_database(&folder);
    for proof in PROOFS {
        let is_local = proof == Proof::Local;
        let ann = Mind::new(remembering(&folder).agent_of("ann", proof));
        let expected = if is_local { json!(["mine", "ours"]) } else { json!([]) };
        assert_eq!(ann.contents(json!({})), expected, "{proof:?}");
        let ann = learning(&folder).agent_of("ann", proof);
        let expected = if is_local { vec![("search".to_owned(), 40)] } else { Vec::new() };
        assert_eq!(components(&ann), expected, "{proof:?}");
        let history = ann.get("learn/refinement/history/req", json!({}));
        assert_eq!(history["entries"].as_array().unwrap().len(), usize::from(is_local), "{proof:?}");
        let ann = planning(&folder).agent_of("ann", proof);
        let boards = ann.get("planning/plan/board", json!({}));
        assert_eq!(boards["boards"].as_array().unwrap().len(), usize::from(is_local), "{proof:?}");
        let tasks = ann.get("planning/task/list", json!({}));
        assert_eq!(tasks["tasks"].as_array().unwrap().len(), usize::from(is_local), "{proof:?}");
    }
    let ann = learning(&folder).agent("ann");
    complain(&ann, "search");
    assert_eq!(components(&ann), [("search".to_owned(), 41)], "earlier counts are continued");
    let back = ann.get("learn/refinement/rollback/req", json!({ "refinement_id": "r" }));
    assert_eq!(back["rolled_back"], true);
}

#[test]
fn a_clean_exit_leaves_all_data_in_the_database_file() {
    let folder = tempdir().unwrap();
    let fixture = remembering(&folder);
    let ann = Mind::new(fixture.agent("ann"));
    ann.store(json!([entry("episodic", "kept")]));
    let log = folder.path().join("gladhand.db-wal");
    assert!(log.metadata().unwrap().len() > 0, "the entry is in the write-ahead log");
    fixture.close();
    assert!(log.metadata().map_or(0, |data| data.len()) == 0, "the write-ahead log is empty");
    assert_eq!(ann.contents(json!({})), json!(["kept"]), "requests after closing still work");
}
