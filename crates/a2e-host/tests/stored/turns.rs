//! Turns at the database, through the providers: a party with large or many requests does not delay another.

use std::pin::pin;
use std::time::{Duration, Instant};

use gladhand_a2e_host::learning::{Learning, LearningSettings};
use gladhand_a2e_host::memory::MemorySettings;
use gladhand_a2e_host::planning::{Planning, PlanningSettings};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::task::JoinSet;

use super::fixture::{Fixture, Proof};
use super::memory::{Mind, fixture as memory_fixture};

/// Experiences that name 64 components each.
fn experiences(count: usize) -> String {
    let names: Vec<_> = (0..64).map(|name| format!("component {name}")).collect();
    let one = json!({ "action": { "components": names, "duration_ms": 5 }, "reward": 0.1 });
    json!({ "experiences": vec![one; count] }).to_string()
}

#[test]
fn a_large_request_gives_way_to_a_small_one_of_another_party() {
    let folder = tempdir().unwrap();
    let fixture = Fixture::open(folder.path(), |storage, clock| {
        Box::new(Learning::new(storage, LearningSettings::default()).by(clock))
    });
    let (greedy, other) =
        (fixture.agent_of("a", Proof::Principal("ann")), fixture.agent_of("b", Proof::Principal("bob")));
    fixture.run(async {
        let mut large = pin!(greedy.begin("learn/experience/req", experiences(200)));
        // The first part of the request is stored before the rest of it.
        let stored = async {
            loop {
                let seen = greedy.begin("learn/stats/req", "{}".to_owned()).await.unwrap();
                if seen.contains("component 1") {
                    return;
                }
            }
        };
        tokio::select! {
            _ = &mut large => panic!("the whole request was one turn"),
            () = stored => {}
        }
        tokio::select! {
            biased;
            small = other.begin("learn/experience/req", experiences(1)) => assert_eq!(small.unwrap(), r#"{"stored":1}"#),
            _ = &mut large => panic!("the small request waited for the large one"),
        }
        assert_eq!(large.await.unwrap(), r#"{"stored":200}"#);
    });
    let seen = greedy.get("learn/stats/req", json!({ "component_name": "component 63" }));
    assert_eq!(seen["components"][0]["calls_total"], 200);
}

#[test]
fn working_memory_does_not_wait_for_the_database() {
    let folder = tempdir().unwrap();
    let fixture = memory_fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent_of("a", Proof::Principal("ann")));
    let blocker = rusqlite::Connection::open(folder.path().join("gladhand.db")).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = |tier: &str| {
        let entries = json!([{ "tier": tier, "key": { "k": 1 }, "content": tier }]);
        mind.agent.begin("memory/store/req", json!({ "memory_id": mind.id, "entries": entries }).to_string())
    };
    fixture.run(async {
        let mut waiting = pin!(store("episodic"));
        let ask = async {
            store("working").await.unwrap();
            let wanted = json!({ "memory_id": mind.id, "tier": "working" });
            let found = mind.agent.begin("memory/retrieve/req", wanted.to_string()).await.unwrap();
            assert!(found.contains(r#""content":"working""#), "{found}");
            let forgotten = json!({ "memory_id": mind.id, "tier": "working", "keys": [{ "k": 1 }] });
            let forgotten = mind.agent.begin("memory/forget/req", forgotten.to_string()).await.unwrap();
            assert_eq!(forgotten, r#"{"deleted":1}"#);
        };
        tokio::select! {
            biased;
            stored = &mut waiting => panic!("the database is locked, but {stored:?}"),
            () = ask => {}
        }
        blocker.execute_batch("COMMIT").unwrap();
        waiting.await.unwrap();
    });
    assert_eq!(mind.contents(json!({})), json!(["episodic"]));
}

/// Entries with as many words as the index takes.
fn entries(tier: &str, first: usize, count: usize, ttl: u32) -> Value {
    let text = (0..1000).map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
    let entry = |key| json!({ "tier": tier, "key": { "k": key }, "content": text, "ttl": ttl });
    (first..first + count).map(entry).collect()
}

#[test]
fn many_entries_are_stored_replaced_forgotten_and_expired_in_several_turns() {
    let folder = tempdir().unwrap();
    let fixture = memory_fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent_of("a", Proof::Principal("ann")));
    let other = Mind::new(fixture.agent_of("b", Proof::Principal("bob")));
    let message = |mind: &Mind, mut message: Value| {
        message["memory_id"] = json!(mind.id);
        message.to_string()
    };
    // Each large request takes longer than a small one that begins when it has begun.
    let race = |kind: &'static str, large: Value| {
        fixture.run(async {
            let mut large = pin!(mind.agent.begin(kind, message(&mind, large)));
            let small = message(&other, json!({ "entries": [{ "tier": "episodic", "key": {}, "content": 1 }] }));
            let begun = Instant::now();
            tokio::select! {
                biased;
                done = &mut large => panic!("one turn of {:?}: {done:?}", begun.elapsed()),
                // Long enough for the first turn of the large request to begin.
                () = tokio::time::sleep(Duration::from_millis(30)) => {}
            }
            tokio::select! {
                biased;
                small = other.agent.begin("memory/store/req", small) => drop(small.unwrap()),
                done = &mut large => panic!("the small request waited for {kind}: {done:?}"),
            }
            large.await.unwrap()
        })
    };
    for _ in 0..2 {
        race("memory/store/req", json!({ "entries": entries("episodic", 0, 100, 0) }));
    }
    assert_eq!(mind.retrieve(json!({ "query": "w900" }))["total"], 100);
    let keys: Vec<_> = (0..100).map(|key| json!({ "k": key })).collect();
    assert_eq!(race("memory/forget/req", json!({ "keys": keys })), r#"{"deleted":100}"#);
    race("memory/store/req", json!({ "entries": entries("episodic", 0, 100, 5) }));
    fixture.pass(5);
    race("memory/store/req", json!({ "entries": entries("episodic", 200, 50, 0) }));
    assert_eq!(mind.retrieve(json!({ "query": "w900" }))["total"], 50, "expired entries are removed");
}

#[test]
fn many_reads_of_one_party_do_not_delay_another() {
    let folder = tempdir().unwrap();
    let fixture =
        Fixture::open(folder.path(), |storage, _| Box::new(Planning::new(storage, PlanningSettings::default())));
    let (greedy, other) =
        (fixture.agent_of("a", Proof::Principal("ann")), fixture.agent_of("b", Proof::Principal("bob")));
    greedy.get("planning/plan/create", json!({ "name": "p" }));
    let done = fixture.run(async {
        let mut requests = JoinSet::new();
        for number in 0..201 {
            let is_other = number == 200;
            let agent = if is_other { &other } else { &greedy };
            let answer = agent.begin("planning/plan/board", "{}".to_owned());
            requests.spawn(async move { answer.await.map(|_| is_other).unwrap() });
        }
        let mut done = 0;
        while !requests.join_next().await.unwrap().unwrap() {
            done += 1;
        }
        done
    });
    assert!(done < 100, "{done} requests of another party were answered first");
}

#[test]
fn boards_of_many_plans_take_the_time_of_one_look_at_the_tasks() {
    let folder = tempdir().unwrap();
    let settings = PlanningSettings { tasks: u32::MAX, plans: u32::MAX, ..PlanningSettings::default() };
    let fixture = Fixture::open(folder.path(), |storage, _| Box::new(Planning::new(storage, settings)));
    let agent = fixture.agent("probe");
    let rows = rusqlite::Connection::open(folder.path().join("gladhand.db")).unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
        INSERT INTO planning_plans (principal, plan_id, name, columns, description, created_at) \
        SELECT 'local', 'plan' || i, 'p', '[]', '', 0 FROM n; \
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
        INSERT INTO planning_tasks (principal, task_id, plan_id, title, status, description, assignee, deps, metadata, \
        created_at) SELECT 'local', 'task' || i, 'plan' || (i % 1000 + 1), 't', 's', '', '', '[]', '{}', 0 FROM n;";
    rows.execute_batch(fill).unwrap();
    let time = |kind| {
        let measure = |_| {
            let begun = Instant::now();
            agent.ask_in_text(kind, "{}".to_owned()).unwrap();
            begun.elapsed()
        };
        (0..3).map(measure).min().unwrap()
    };
    let (boards, tasks) = (time("planning/plan/board"), time("planning/task/list"));
    assert!(boards < 20 * tasks, "{boards:?} for all boards, {tasks:?} for all tasks");
}
