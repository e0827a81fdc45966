//! `memory`: limits, and working memory while the database fails.

use gladhand_a2e_host::memory::{Bound, MemorySettings};
use serde_json::{Value, json};
use tempfile::tempdir;

use super::fixture::Proof;
use super::memory::{Mind, fixture};

fn entry(tier: &str, key: usize, bytes: usize) -> Value {
    json!({ "tier": tier, "key": { "k": key }, "content": "x".repeat(bytes) })
}

fn keys(mind: &Mind, tier: &str) -> Vec<u64> {
    let found = mind.retrieve(json!({ "tier": tier, "limit": 1000 }));
    found["entries"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["key"]["k"].as_u64().expect("a number"))
        .collect()
}

#[test]
fn an_entry_of_fifty_megabytes_is_refused_and_the_session_continues() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    for (tier, megabytes) in [("working", 2), ("episodic", 50), ("semantic", 2)] {
        let (code, message) = mind.refusal(json!([entry(tier, 1, 3), entry(tier, 2, megabytes * 1024 * 1024)]));
        assert_eq!(code, "memory_full");
        assert!(message.contains("entries.1") && message.contains("1048576"), "{message}");
    }
    assert_eq!(mind.retrieve(json!({}))["total"], 0);
    mind.store(json!([entry("episodic", 1, 1000)]));
    assert_eq!(keys(&mind, ""), [1]);
}

#[test]
fn the_oldest_entries_of_the_same_agent_make_room() {
    let folder = tempdir().unwrap();
    let three = Bound { entries: 3, bytes: 500 };
    let settings = MemorySettings { working: three, episodic: three, ..MemorySettings::default() };
    let fixture = fixture(&folder, settings);
    let (ada, bob) = (Mind::new(fixture.agent("ada")), Mind::new(fixture.agent("bob")));
    for tier in ["working", "episodic"] {
        bob.store(json!([entry(tier, 9, 1)]));
        for key in 1..=4 {
            ada.store(json!([entry(tier, key, 1)]));
        }
        assert_eq!(keys(&ada, tier), [2, 3, 4], "{tier}");
        ada.store(json!([entry(tier, 2, 1)]));
        ada.store(json!([entry(tier, 5, 1)]));
        assert_eq!(keys(&ada, tier), [4, 2, 5], "a rewritten entry counts as new: {tier}");
        ada.store(json!([entry(tier, 6, 480)]));
        assert_eq!(keys(&ada, tier), [6], "{tier}");
        assert_eq!(ada.refusal(json!([entry(tier, 7, 600)])).0, "memory_full");
        assert_eq!(keys(&bob, tier), [9], "{tier}");
    }
    ada.store(json!([entry("dream", 1, 1), entry("dream", 2, 1), entry("dream", 3, 1)]));
    assert_eq!(keys(&ada, "episodic"), [] as [u64; 0], "own tiers share the limit of episodic memory");
}

#[test]
fn shared_entries_are_never_removed_to_make_room() {
    let folder = tempdir().unwrap();
    let settings = MemorySettings { semantic: Bound { entries: 2, bytes: 10_000 }, ..MemorySettings::default() };
    let fixture = fixture(&folder, settings);
    let (ada, bob) = (Mind::new(fixture.agent("ada")), Mind::new(fixture.agent("bob")));
    ada.store(json!([entry("semantic", 1, 1), entry("semantic", 2, 1)]));
    assert_eq!(bob.refusal(json!([entry("episodic", 1, 1), entry("semantic", 3, 1)])).0, "memory_full");
    assert_eq!((keys(&bob, "semantic"), keys(&bob, "episodic")), (vec![1, 2], vec![]));
    bob.store(json!([entry("semantic", 2, 5)]));
    assert_eq!(bob.forget(json!({ "keys": [{ "k": 1 }], "tier": "semantic" })), 1);
    bob.store(json!([entry("semantic", 3, 1)]));
    assert_eq!(keys(&ada, "semantic"), [2, 3]);
}

#[test]
fn the_total_size_is_limited() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings { total_bytes: 2000, ..MemorySettings::default() });
    Mind::new(fixture.agent("ada")).store(json!([entry("episodic", 1, 900)]));
    Mind::new(fixture.agent("bob")).store(json!([entry("episodic", 1, 900)]));
    let eve = Mind::new(fixture.agent("eve"));
    assert_eq!(eve.refusal(json!([entry("episodic", 1, 900)])).0, "memory_full");
    eve.store(json!([entry("episodic", 1, 10), entry("working", 1, 900)]));
}

#[test]
fn agents_that_invent_ids_leave_room_for_others() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings { total_bytes: 8000, ..MemorySettings::default() });
    let agent = |name: &str, proof| Mind::new(fixture.agent_of(name, proof));
    for (proof, most) in [(Proof::Anonymous, 4000), (Proof::Principal("ann"), 2500), (Proof::Pass("ann"), 2000)] {
        let mut ids = 0;
        let refused = loop {
            let mind = agent(&format!("invented {ids}"), proof);
            let message = json!({ "memory_id": mind.id, "entries": [entry("episodic", 1, 400)] });
            match mind.agent.ask("memory/store/req", message) {
                Ok(_) => ids += 1,
                Err(refused) => break refused,
            }
        };
        assert!(ids > 0 && ids * 400 <= most, "{proof:?} has {ids}");
        assert_eq!(refused.0, "memory_full");
    }
    agent("ada", Proof::Local).store(json!([entry("episodic", 1, 400)]));
}

#[test]
fn expired_entries_make_room_first() {
    let folder = tempdir().unwrap();
    let fixture =
        fixture(&folder, MemorySettings { semantic: Bound { entries: 1, bytes: 10_000 }, ..MemorySettings::default() });
    let mind = Mind::new(fixture.agent("ada"));
    mind.store(json!([{ "tier": "semantic", "key": { "k": 1 }, "content": 1, "ttl": 5 }]));
    assert_eq!(mind.refusal(json!([entry("semantic", 2, 1)])).0, "memory_full");
    fixture.pass(5);
    mind.store(json!([entry("semantic", 2, 1)]));
    assert_eq!(keys(&mind, "semantic"), [2]);
}

#[test]
fn the_entries_and_keys_of_a_request_are_limited() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings { request_items: 2, ..MemorySettings::default() });
    let mind = Mind::new(fixture.agent("ada"));
    let entries = |tier| json!([entry(tier, 1, 1), entry(tier, 2, 1), entry(tier, 3, 1)]);
    assert_eq!(mind.refusal(entries("working")).0, "runtime_error");
    assert_eq!(mind.refusal(entries("episodic")).0, "runtime_error");
    for kind in ["memory/retrieve/req", "memory/forget/req"] {
        let keys = json!([{ "k": 1 }, { "k": 2 }, { "k": 3 }]);
        assert_eq!(mind.agent.refused(kind, json!({ "memory_id": mind.id, "keys": keys })), "runtime_error");
    }
    assert_eq!(mind.retrieve(json!({}))["total"], 0);
}

#[test]
fn even_empty_tags_count_towards_the_size() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    let tags = vec![""; 150_000];
    let refused = mind.refusal(json!([{ "tier": "episodic", "key": {}, "content": 1, "tags": tags }]));
    assert_eq!(refused.0, "memory_full");
}

#[test]
fn the_memories_of_a_session_are_limited() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings { memories: 2, ..MemorySettings::default() });
    let agent = fixture.agent("ada");
    agent.get("memory/init/req", json!({}));
    agent.get("memory/init/req", json!({}));
    assert_eq!(agent.refused("memory/init/req", json!({})), "memory_full");
    fixture.agent("ada").get("memory/init/req", json!({}));
}

#[test]
fn a_response_is_limited_and_its_total_counts_the_rest() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings { reply_bytes: 3500, ..MemorySettings::default() });
    let mind = Mind::new(fixture.agent("ada"));
    let entries: Vec<_> = (0..9).map(|key| entry(["working", "episodic", "semantic"][key % 3], key, 1000)).collect();
    mind.store(json!(entries));
    let found = mind.retrieve(json!({ "limit": 100 }));
    assert_eq!((found["entries"].as_array().unwrap().len(), &found["total"]), (3, &json!(9)));
}

#[test]
fn a_failing_database_fails_its_calls_and_working_memory_still_works() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    mind.store(json!([entry("episodic", 1, 1)]));
    let meddler = rusqlite::Connection::open(folder.path().join("gladhand.db")).unwrap();
    meddler.execute_batch("DROP TABLE memory").unwrap();
    let (code, message) = mind.refusal(json!([entry("episodic", 2, 1), entry("working", 1, 1)]));
    assert_eq!((code.as_str(), message.as_str()), ("runtime_error", "the database failed"));
    mind.store(json!([entry("working", 2, 1)]));
    assert_eq!(keys(&mind, "working"), [2]);
}

#[test]
fn memory_ids_and_entries_count_as_the_memory_that_they_take() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings { working_total_bytes: 100_000, ..MemorySettings::default() });
    let agent = |name: &'static str| fixture.agent_of("a", Proof::Principal(name));
    let sessions: Vec<_> = (0..10).map(|_| agent("ann")).collect();
    let ids =
        sessions.iter().map(|session| (0..100).filter(|_| session.ask("memory/init/req", json!({})).is_ok()).count());
    let ids = ids.sum::<usize>();
    assert!((100..400).contains(&ids), "{ids} memory ids in 100,000 bytes");
    drop(sessions);
    let mind = Mind::new(agent("ann"));
    let mut stored = 0;
    let refused = loop {
        let entries: Vec<_> = (stored..stored + 50).map(|key| entry("working", key, 0)).collect();
        match mind.agent.ask("memory/store/req", json!({ "memory_id": mind.id, "entries": entries })) {
            Ok(_) if stored < 1000 => stored += 50,
            other => break other,
        }
    };
    assert_eq!(refused.unwrap_err().0, "memory_full");
    assert!((100..500).contains(&stored), "{stored} small entries in 100,000 bytes");
}
