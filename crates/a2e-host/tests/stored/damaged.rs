//! A database that cannot be used: working memory still works, and clients do not learn the paths of our files.

use gladhand_a2e_host::learning::{Learning, LearningSettings};
use gladhand_a2e_host::memory::{Memory, MemorySettings};
use gladhand_a2e_host::planning::{Planning, PlanningSettings};
use gladhand_a2e_host::storage::Storage;
use gladhand_core::operations::Failure;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::fixture::{Agent, Fixture};
use super::memory::Mind;

/// A data folder with a file that is not a database in place of the database.
fn damaged() -> TempDir {
    let folder = tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("gladhand.db"), "dear diary, ".repeat(500)).expect("a writable folder");
    folder
}

#[track_caller]
fn failure(agent: &Agent, kind: &'static str, message: Value) -> Failure {
    agent.outcome(kind, message.to_string()).expect_err("the database is unusable")
}

fn entry(tier: &str) -> Value {
    json!([{ "key": { "k": 1 }, "content": "tea", "tier": tier }])
}

#[test]
fn working_memory_works_without_a_database() {
    let folder = damaged();
    let storage = Storage::in_folder(folder.path().to_owned());
    let fixture =
        Fixture::with(storage, |storage, clock| Box::new(Memory::new(storage, MemorySettings::default()).by(clock)));
    let mind = Mind::new(fixture.agent("ann"));
    mind.store(entry("working"));
    assert_eq!(mind.contents(json!({ "tier": "working" })), json!(["tea"]));
    assert_eq!(mind.refusal(entry("episodic")), ("runtime_error".to_owned(), "the database is damaged".to_owned()));
    // A query over all tiers fails, because leaving out the database tiers silently would be wrong.
    failure(&mind.agent, "memory/retrieve/req", json!({ "memory_id": mind.id }));
    assert_eq!(mind.forget(json!({ "tier": "working", "keys": [{ "k": 1 }] })), json!(1));
    assert_eq!(mind.contents(json!({ "tier": "working" })), json!([]));
}

#[test]
fn database_errors_reveal_no_paths_and_are_not_retryable() {
    let folder = damaged();
    let storage = || Storage::in_folder(folder.path().to_owned());
    let told = [
        {
            let fixture =
                Fixture::with(storage(), |storage, _| Box::new(Memory::new(storage, MemorySettings::default())));
            let mind = Mind::new(fixture.agent("ann"));
            failure(&mind.agent, "memory/store/req", json!({ "memory_id": mind.id, "entries": entry("semantic") }))
        },
        {
            let make = |storage, _| Box::new(Planning::new(storage, PlanningSettings::default())) as _;
            failure(&Fixture::with(storage(), make).agent("ann"), "planning/plan/create", json!({}))
        },
        {
            let make = |storage, _| Box::new(Learning::new(storage, LearningSettings::default())) as _;
            failure(&Fixture::with(storage(), make).agent("ann"), "learn/stats/req", json!({}))
        },
    ];
    for failure in told {
        assert_eq!((failure.message.as_str(), failure.is_retryable()), ("the database is damaged", false));
    }
}

#[test]
fn a_repaired_database_is_used_from_the_next_request_on() {
    let folder = damaged();
    let storage = Storage::in_folder(folder.path().to_owned());
    let fixture =
        Fixture::with(storage, |storage, clock| Box::new(Memory::new(storage, MemorySettings::default()).by(clock)));
    let mind = Mind::new(fixture.agent("ann"));
    mind.refusal(entry("episodic"));
    std::fs::remove_file(folder.path().join("gladhand.db")).unwrap();
    mind.store(entry("episodic"));
    assert_eq!(mind.contents(json!({})), json!(["tea"]));
}

#[test]
fn refusals_are_not_retryable() {
    let folder = tempdir().unwrap();
    let fixture = Fixture::open(folder.path(), |storage, clock| {
        Box::new(Memory::new(storage, MemorySettings::default()).by(clock))
    });
    let mind = Mind::new(fixture.agent("ann"));
    for entries in [json!([{ "content": 1 }]), json!(vec![json!({}); 300])] {
        let refused = failure(&mind.agent, "memory/store/req", json!({ "memory_id": mind.id, "entries": entries }));
        assert!(!refused.is_retryable(), "{refused}");
    }
}
