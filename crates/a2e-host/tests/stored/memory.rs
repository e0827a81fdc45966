//! `memory`: entries are stored, found and deleted, by the agents that may see them.

use gladhand_a2e_host::memory::{Memory, MemorySettings};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::fixture::{Agent, Fixture};

pub(crate) fn fixture(folder: &TempDir, settings: MemorySettings) -> Fixture {
    Fixture::open(folder.path(), |storage, clock| Box::new(Memory::new(storage, settings).by(clock)))
}

/// An agent and one of its memories.
pub(crate) struct Mind {
    pub(crate) agent: Agent,
    pub(crate) id: String,
}

impl Mind {
    pub(crate) fn new(agent: Agent) -> Self {
        Self::in_space(agent, json!({}))
    }

    pub(crate) fn in_space(agent: Agent, space: Value) -> Self {
        let opened = agent.get("memory/init/req", space);
        let id = opened["memory_id"].as_str().expect("a memory has an id").to_owned();
        Self { agent, id }
    }

    fn with_id(&self, mut message: Value) -> Value {
        message["memory_id"] = json!(self.id);
        message
    }

    #[track_caller]
    pub(crate) fn store(&self, entries: Value) -> Value {
        self.agent.get("memory/store/req", self.with_id(json!({ "entries": entries })))
    }

    pub(crate) fn refusal(&self, entries: Value) -> (String, String) {
        let refused = self.agent.ask("memory/store/req", self.with_id(json!({ "entries": entries })));
        refused.expect_err("expected a refusal")
    }

    #[track_caller]
    pub(crate) fn retrieve(&self, wanted: Value) -> Value {
        self.agent.get("memory/retrieve/req", self.with_id(wanted))
    }

    /// The contents of the entries found, without their scores.
    #[track_caller]
    pub(crate) fn contents(&self, wanted: Value) -> Value {
        let found = self.retrieve(wanted);
        let entries = found["entries"].as_array().expect("entries are a list");
        entries.iter().map(|entry| entry["content"].clone()).collect()
    }

    #[track_caller]
    pub(crate) fn forget(&self, unwanted: Value) -> Value {
        self.agent.get("memory/forget/req", self.with_id(unwanted))["deleted"].clone()
    }
}

fn entry(tier: &str, key: &str, content: impl Into<Value>) -> Value {
    json!({ "tier": tier, "key": { "k": key }, "content": content.into() })
}

#[test]
fn a_memory_id_is_a_uuid_and_another_one_each_time() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, MemorySettings::default()).agent("a");
    let opened =
        agent.get("memory/init/req", json!({ "namespace": "proj", "scope": { "a": "b" }, "metadata": { "k": 1 } }));
    assert_eq!((&opened["namespace"], &opened["success"]), (&json!("proj"), &json!(true)));
    let id = opened["memory_id"].as_str().unwrap();
    let lengths: Vec<_> = id.split('-').map(str::len).collect();
    assert_eq!((lengths, &id[14..15]), (vec![8, 4, 4, 4, 12], "4"), "{id}");
    assert!("89ab".contains(&id[19..20]), "{id}");
    let again = agent.get("memory/init/req", json!({}));
    assert_eq!(again["namespace"], "default");
    assert_ne!(again["memory_id"], opened["memory_id"]);
}

/// The recording `memory_basic`, with these differences from the reference: the stored keys are returned as written,
/// text and scores are used, all matches are counted, and an unknown id has its own error code.
#[test]
fn the_recorded_session_follows_the_recommendations() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let agent = fixture.agent("probe");
    assert_eq!(agent.refused("memory/store/req", json!({ "memory_id": "nope", "entries": [] })), "memory_not_found");
    let mind = Mind::in_space(agent, json!({ "namespace": "proj", "scope": { "agent": "a1" } }));
    let stored = mind.store(json!([
        { "key": { "u": "foo", "i": "1" }, "content": { "text": "prefers python" }, "tags": ["preference"], "tier": "semantic" },
        { "key": { "u": "bar" }, "content": "opened file", "tags": ["trace"], "tier": "episodic", "ttl": 60, "score": 0.4, "source": "turn-1" },
        { "key": { "u": "bar" }, "content": { "f": "/x" }, "tier": "working" },
    ]));
    assert_eq!(stored, json!({ "stored": [{ "u": "foo", "i": "1" }, { "u": "bar" }, { "u": "bar" }], "errors": [] }));
    let preference = json!({ "key": { "u": "foo", "i": "1" }, "content": { "text": "prefers python" }, "tier": "semantic",
        "tags": ["preference"], "source": "", "score": 1.0, "ttl": 0, "created_at": 1000.0, "updated_at": 1000.0 });
    let trace = json!({ "key": { "u": "bar" }, "content": "opened file", "tier": "episodic", "tags": ["trace"],
        "source": "turn-1", "score": 1.0, "ttl": 60, "created_at": 1000.0, "updated_at": 1000.0 });
    assert_eq!(mind.retrieve(json!({ "tags": ["preference"] })), json!({ "entries": [preference], "total": 1 }));
    let found = mind.retrieve(json!({ "keys": [{ "u": "bar" }] }));
    assert_eq!((&found["entries"][0]["tier"], &found["entries"][1]), (&json!("working"), &trace));
    assert_eq!(mind.contents(json!({ "query": "python" })), json!([{ "text": "prefers python" }]));
    let found = mind.retrieve(json!({ "limit": 2 }));
    assert_eq!((found["entries"].as_array().unwrap().len(), &found["total"]), (2, &json!(3)));
    let found = mind.retrieve(json!({ "tier": "working" }));
    assert_eq!((&found["entries"][0]["score"], &found["total"]), (&json!(0.25), &json!(1)));
    assert_eq!(mind.retrieve(json!({ "min_score": 0.9 })), json!({ "entries": [], "total": 0 }));
    assert_eq!(mind.forget(json!({ "tags": ["trace"], "tier": "episodic" })), 1);
    assert_eq!(mind.contents(json!({})), json!([{ "f": "/x" }, { "text": "prefers python" }]));
    assert_eq!(mind.refusal(json!([{ "content": 1 }])).0, "runtime_error");
}

#[test]
fn working_memory_ends_with_the_session_and_the_rest_stays() {
    let folder = tempdir().unwrap();
    let first = fixture(&folder, MemorySettings::default());
    let ada = Mind::new(first.agent("ada"));
    ada.store(json!([
        entry("working", "w", 1),
        entry("episodic", "e", 2),
        entry("semantic", "s", 3),
        entry("dream", "d", 4)
    ]));
    assert_eq!(ada.contents(json!({})), json!([1, 2, 4, 3]));
    assert_eq!(ada.contents(json!({ "tier": "dream" })), json!([4]));
    assert_eq!(ada.contents(json!({ "tier": "episodic" })), json!([2]));

    let beside = Mind::new(first.agent("ada"));
    assert_eq!(beside.contents(json!({})), json!([2, 4, 3]), "another session of the same agent");
    let bob = Mind::new(first.agent("bob"));
    assert_eq!(bob.contents(json!({})), json!([3]), "another agent");
    drop((ada, beside, bob, first));

    let second = fixture(&folder, MemorySettings::default());
    assert_eq!(Mind::new(second.agent("ada")).contents(json!({})), json!([2, 4, 3]), "after a restart");
}

#[test]
fn hosts_that_share_a_folder_share_persistent_memory() {
    let folder = tempdir().unwrap();
    let (here, there) = (fixture(&folder, MemorySettings::default()), fixture(&folder, MemorySettings::default()));
    let (ada, bob) = (Mind::new(here.agent("ada")), Mind::new(there.agent("bob")));
    ada.store(json!([entry("semantic", "s", "known here"), entry("working", "w", "mine")]));
    assert_eq!(bob.contents(json!({ "query": "known" })), json!(["known here"]));
    assert_eq!(bob.forget(json!({ "keys": [{ "k": "s" }], "tier": "semantic" })), 1);
    assert_eq!(ada.contents(json!({})), json!(["mine"]));
}

#[test]
fn a_memory_id_is_good_for_its_session_and_its_agent_only() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let ada = Mind::new(fixture.agent("ada"));
    let stolen = Mind { agent: fixture.agent("ada"), id: ada.id.clone() };
    for kind in ["memory/store/req", "memory/retrieve/req", "memory/forget/req"] {
        assert_eq!(stolen.agent.refused(kind, json!({ "memory_id": ada.id })), "memory_not_found");
    }
    let renamed = ada.agent.renamed("bob");
    assert_eq!(renamed.refused("memory/retrieve/req", json!({ "memory_id": ada.id })), "memory_not_found");
}

#[test]
fn namespaces_and_scopes_are_separate() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let spaces = [
        json!({}),
        json!({ "namespace": "n" }),
        json!({ "namespace": "n", "scope": { "a": "1" } }),
        json!({ "namespace": "n", "scope": { "a": "1", "b": "2" } }),
    ];
    let id = |agent: &Agent, space: &Value| agent.get("memory/init/req", space.clone())["memory_id"].clone();
    let agent = fixture.agent("ada");
    for (number, space) in spaces.iter().enumerate() {
        let entries =
            json!([entry("working", "k", number), entry("episodic", "k", number), entry("semantic", "k", number)]);
        agent.get("memory/store/req", json!({ "memory_id": id(&agent, space), "entries": entries }));
    }
    for (number, space) in spaces.iter().enumerate() {
        let found = agent.get("memory/retrieve/req", json!({ "memory_id": id(&agent, space) }));
        let contents: Vec<_> =
            found["entries"].as_array().unwrap().iter().map(|entry| entry["content"].clone()).collect();
        assert_eq!(contents, [json!(number), json!(number), json!(number)], "{space}");
    }
    let forgotten = json!({ "memory_id": id(&agent, &spaces[1]), "keys": [{ "k": "k" }], "tier": "" });
    assert_eq!(agent.get("memory/forget/req", forgotten)["deleted"], 3);
    let rest = agent.get("memory/retrieve/req", json!({ "memory_id": id(&agent, &spaces[2]) }));
    assert_eq!(rest["total"], 3);
    let same = json!({ "namespace": "n", "scope": { "b": "2", "a": "1" } });
    assert_eq!(agent.get("memory/retrieve/req", json!({ "memory_id": id(&agent, &same) }))["total"], 3);
}

#[test]
fn storing_again_replaces_the_entry_and_keeps_its_creation_time() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    for tier in ["working", "episodic", "semantic"] {
        mind.store(json!([{ "tier": tier, "key": { "a": 1, "b": [2] }, "content": "old", "tags": ["x"] }]));
    }
    fixture.pass(5);
    for tier in ["working", "episodic", "semantic"] {
        mind.store(json!([{ "tier": tier, "key": { "b": [2], "a": 1 }, "content": "new" }]));
        let found = mind.retrieve(json!({ "tier": tier }));
        let shown = &found["entries"][0];
        assert_eq!((&found["total"], &shown["content"], &shown["tags"]), (&json!(1), &json!("new"), &json!([])));
        assert_eq!((&shown["created_at"], &shown["updated_at"]), (&json!(1000.0), &json!(1005.0)));
        assert_eq!(mind.contents(json!({ "query": "old", "tier": tier })), json!([]), "{tier}");
    }
}

#[test]
fn a_bad_entry_fails_the_whole_request_and_is_named() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    let bad = [
        (json!({ "content": 1, "tier": "working" }), "key"),
        (json!({ "key": {}, "tier": "working" }), "content"),
        (json!({ "key": {}, "content": 1 }), "tier"),
        (json!({ "key": "k", "content": 1, "tier": "working" }), "key"),
        (json!({ "key": {}, "content": 1, "tier": 5 }), "string"),
        (json!({ "key": {}, "content": 1, "tier": "working", "tags": [1] }), "string"),
        (json!({ "key": {}, "content": 1, "tier": "working", "ttl": 1.5 }), "ttl"),
        (json!({ "key": {}, "content": 1, "tier": "working", "ttl": -1 }), "ttl"),
        (json!({ "key": {}, "content": 1, "tier": "working", "score": "high" }), "f64"),
        (json!({ "key": {}, "content": 1, "tier": "working", "created_at": "now" }), "f64"),
        (json!("entry"), "string"),
    ];
    for (bad, named) in bad {
        let (code, message) = mind.refusal(json!([entry("working", "a", 1), entry("semantic", "b", 2), bad]));
        assert_eq!(code, "runtime_error");
        assert!(message.starts_with("entries.2: ") && message.contains(named), "{message}");
    }
    assert_eq!(mind.retrieve(json!({}))["total"], 0);
    mind.store(json!([{ "key": {}, "content": null, "tier": "", "ttl": 60.0 }]));
    assert_eq!(mind.contents(json!({ "keys": [{}] })), json!([null]));
}

#[test]
fn entries_expire() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    for tier in ["working", "episodic", "semantic"] {
        mind.store(json!([
            { "tier": tier, "key": { "k": 1 }, "content": "short", "ttl": 10, "tags": ["t"] },
            { "tier": tier, "key": { "k": 2 }, "content": "long", "ttl": 20 },
            { "tier": tier, "key": { "k": 3 }, "content": "for ever" },
        ]));
    }
    fixture.pass(9);
    assert_eq!(mind.retrieve(json!({}))["total"], 9);
    fixture.pass(1);
    assert_eq!(mind.retrieve(json!({}))["total"], 6);
    assert_eq!(mind.retrieve(json!({ "query": "short" }))["total"], 0);
    assert_eq!(mind.forget(json!({ "tags": ["t"], "tier": "" })), 0, "expired entries cannot be deleted");
    fixture.pass(10);
    assert_eq!(mind.contents(json!({})), json!(["for ever", "for ever", "for ever"]));
}

#[test]
fn an_entry_must_pass_all_filters() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    mind.store(json!([
        { "tier": "episodic", "key": { "k": 1 }, "content": "one", "tags": ["x", "y"] },
        { "tier": "episodic", "key": { "k": 2 }, "content": "two", "tags": ["y"] },
        { "tier": "working", "key": { "k": 1 }, "content": "three", "tags": ["x"] },
    ]));
    let scored = |wanted: Value| {
        let found = mind.retrieve(wanted);
        let entries = found["entries"].as_array().unwrap().clone();
        entries.into_iter().map(|entry| (entry["content"].clone(), entry["score"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(
        scored(json!({ "tags": ["x", "y"] })),
        [(json!("one"), json!(1.0)), (json!("three"), json!(0.5)), (json!("two"), json!(0.5))]
    );
    assert_eq!(
        scored(json!({ "tags": ["x"], "tier": "episodic", "keys": [{ "k": 1 }] })),
        [(json!("one"), json!(2.25))]
    );
    assert_eq!(scored(json!({ "tags": ["x", "y"], "min_score": 0.75 })), [(json!("one"), json!(1.0))]);
    assert_eq!(scored(json!({ "keys": [{ "k": 2 }, { "k": 9 }] })), [(json!("two"), json!(1.0))]);
    assert_eq!(scored(json!({ "keys": [{ "k": 2 }], "tags": ["x"] })), []);
}

#[test]
fn a_limit_cuts_the_entries_but_not_the_total() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    let entries: Vec<_> = (0..12).map(|number| entry("episodic", &number.to_string(), number)).collect();
    mind.store(json!(entries));
    for (limit, shown) in
        [(json!(0), 0), (json!(3), 3), (json!(5.0), 5), (json!(100), 12), (json!(-2), 10), (json!(-99), 0)]
    {
        let found = mind.retrieve(json!({ "limit": limit }));
        assert_eq!((found["entries"].as_array().unwrap().len(), &found["total"]), (shown, &json!(12)), "{limit}");
    }
    assert_eq!(mind.retrieve(json!({}))["entries"].as_array().unwrap().len(), 10);
}

#[test]
fn text_is_found_in_any_case_and_the_best_match_comes_first() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    mind.store(json!([
        { "tier": "episodic", "key": { "topic": "weather" }, "content": "It rains in Bergen, as on most days" },
        { "tier": "semantic", "key": { "topic": "travel" }, "content": { "note": "Bergen by train: Bergen line, from Oslo" } },
        { "tier": "working", "key": { "topic": "food" }, "content": ["soup"], "tags": ["Bergen"] },
        { "tier": "episodic", "key": { "topic": "日本" }, "content": "東京 is large" },
    ]));
    let topics = |query: &str| {
        let found = mind.retrieve(json!({ "query": query }));
        found["entries"].as_array().unwrap().iter().map(|entry| entry["key"]["topic"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(topics("BERGEN"), ["travel", "food", "weather"]);
    assert_eq!(topics("bergen train"), ["travel", "food", "weather"]);
    assert_eq!(topics("trai"), ["travel"], "the beginning of a word");
    assert_eq!(topics("soup"), ["food"]);
    assert_eq!(topics("京"), ["日本"]);
    assert_eq!(topics("nothing \"of\" the* kind NEAR AND ("), [] as [&str; 0]);
    assert_eq!(topics("';--"), [] as [&str; 0]);
    let found = mind.retrieve(json!({ "query": "bergen", "tier": "semantic" }));
    let score = found["entries"][0]["score"].as_f64().unwrap();
    assert!((0.25..1.25).contains(&score), "{score}");
}

#[test]
fn scores_reveal_nothing_about_the_memory_of_others() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let ada = Mind::new(fixture.agent("ada"));
    ada.store(json!([
        entry("episodic", "1", "red fish"),
        entry("episodic", "2", "blue fish"),
        entry("episodic", "3", "red")
    ]));
    let before = ada.retrieve(json!({ "query": "red blue" }));
    let bob = Mind::new(fixture.agent("bob"));
    let many: Vec<_> = (0..50).map(|number| entry("episodic", &number.to_string(), "red red red")).collect();
    bob.store(json!(many));
    assert_eq!(ada.retrieve(json!({ "query": "red blue" })), before);
}

#[test]
fn forgetting_takes_a_key_or_a_tag_and_a_tier() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    for tier in ["working", "episodic", "semantic", "dream"] {
        mind.store(json!([
            { "tier": tier, "key": { "a": 1, "b": 2 }, "content": "keyed" },
            { "tier": tier, "key": { "a": 3 }, "content": "tagged", "tags": ["t"] },
            { "tier": tier, "key": { "a": 4 }, "content": "neither" },
        ]));
    }
    assert_eq!(mind.forget(json!({})), 0);
    assert_eq!(mind.forget(json!({ "tier": "" })), 0);
    assert_eq!(mind.forget(json!({ "keys": [{ "b": 2, "a": 1 }] })), 1, "episodic by default");
    assert_eq!(mind.forget(json!({ "keys": [{ "b": 2, "a": 1 }], "tags": ["t"], "tier": "semantic" })), 2);
    assert_eq!(mind.forget(json!({ "tags": ["t"], "tier": "dream" })), 1);
    assert_eq!(mind.forget(json!({ "tags": ["t", "u"], "keys": [{ "a": 1, "b": 2 }], "tier": "" })), 4);
    assert_eq!(mind.retrieve(json!({}))["total"], 4);
    assert_eq!(mind.contents(json!({ "query": "tagged" })), json!([]));
}

#[test]
fn a_message_that_is_not_a_request_is_refused() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, MemorySettings::default()).agent("ada");
    assert_eq!(agent.refused("memory/store/resp", json!({})), "invalid_message");
}

#[test]
fn entries_are_returned_as_they_were_written() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let mind = Mind::new(fixture.agent("ada"));
    let ask =
        |kind, rest: &str| mind.agent.ask_in_text(kind, format!(r#"{{"memory_id":"{}",{rest}}}"#, mind.id)).unwrap();
    let (key, content) = (r#"{"z":1,"a":123456789012345678901234567890}"#, r#"{"y":[1.0,1e3],"x":"\u00e9"}"#);
    for tier in ["working", "episodic", "semantic"] {
        let entry = format!(r#""entries":[{{"key":{key},"content":{content},"tier":"{tier}"}}]"#);
        assert_eq!(ask("memory/store/req", &entry), format!(r#"{{"stored":[{key}],"errors":[]}}"#));
        let found = ask("memory/retrieve/req", &format!(r#""tier":"{tier}""#));
        let begin = format!(r#"{{"entries":[{{"key":{key},"content":{content},"tier":"{tier}","tags":[],"source":"","#);
        assert!(found.starts_with(&begin), "{found}");
    }
}

#[test]
fn memory_needs_a_session() {
    let folder = tempdir().unwrap();
    let passer_by = fixture(&folder, MemorySettings::default()).passer_by();
    assert_eq!(passer_by.refused("memory/init/req", json!({})), "runtime_error");
}
