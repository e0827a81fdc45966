//! `learning`: feedback and experiences, the statistics, and refinements with rollback.

use gladhand_a2e_host::learning::{Learning, LearningSettings};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::fixture::{Agent, Fixture};

fn fixture(folder: &TempDir, settings: LearningSettings) -> Fixture {
    Fixture::open(folder.path(), |storage, clock| Box::new(Learning::new(storage, settings).by(clock)))
}

/// LearningSettings with which two experiences are enough.
fn quick() -> LearningSettings {
    LearningSettings { min_experiences: 2, ..LearningSettings::default() }
}

fn feedback(component: &str, score: f64) -> Value {
    let turn = json!({ "prompt": "p", "response": "r", "model": component });
    json!({ "rated_turn": turn, "polarity": if score < 0.0 { "negative" } else { "positive" }, "score": score })
}

fn experience(component: &str, reward: f64) -> Value {
    json!({ "action": { "component_name": component, "input": {} }, "reward": reward })
}

fn tell(agent: &Agent, experiences: &[Value]) {
    let told = agent.get("learn/experience/req", json!({ "experiences": experiences }));
    assert_eq!(told, json!({ "stored": experiences.len() }));
}

fn statistics(agent: &Agent, component: &str) -> Value {
    agent.get("learn/stats/req", json!({ "component_name": component }))["components"].clone()
}

fn statuses(agent: &Agent) -> Vec<Value> {
    let history = agent.get("learn/refinement/history/req", json!({}));
    let entries = history["entries"].as_array().expect("a list");
    entries.iter().map(|entry| json!([entry["refinement_id"], entry["status"]])).collect()
}

/// The state that refinements have produced, which no message shows.
fn state(folder: &TempDir) -> Value {
    let kept = rusqlite::Connection::open(folder.path().join("gladhand.db")).expect("a database");
    let state: String = kept.query_row("SELECT state FROM learning_state", [], |row| row.get(0)).expect("one row");
    serde_json::from_str(&state).expect("valid JSON")
}

fn proposal(id: &str, edits: Value) -> Value {
    json!({ "proposal": { "refinement_id": id, "confidence": 0.9, "edits": edits } })
}

fn set(path: &str, value: Value) -> Value {
    json!({ "target": "router", "op": "replace", "path": path, "new_value": value })
}

/// The recording `learning`, in which most requests to the reference fail. Gladhand implements what they were meant to
/// do.
#[test]
fn the_recorded_session_follows_the_recommendations() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, quick());
    let agent = fixture.agent("probe");
    let first = json!({ "feedback_id": "b_1", "correlation_id": "turn-1", "session_id": "s",
        "rated_turn": { "prompt": "p", "response": "r", "model": "m1", "environment": null, "version": "skill-v1" },
        "polarity": "positive", "score": 0.8, "dimension": "correctness", "confidence": 1.0, "comment": "", "correction": "",
        "correction_span": null, "source": "human", "annotator_id": "", "ts": 500.0 });
    let heard = agent.get("learn/feedback/req", json!({ "feedbacks": [first] }));
    assert_eq!(heard, json!({ "recorded": 1, "new_score": 0.8 }));
    let heard = agent.get(
        "learn/feedback/req",
        json!({ "feedbacks": [
        { "rated_turn": null, "polarity": "negative", "score": -1.0 },
        { "rated_turn": null, "polarity": "corrective", "score": 0.0, "correction": "do X", "correction_span": [0, 3] },
    ] }),
    );
    assert_eq!(heard, json!({ "recorded": 2, "new_score": -0.5 }));
    tell(&agent, &[experience("shell", 0.1), json!({ "reward": 1.0 })]);

    let adapted = agent.get("learn/adapt/req", json!({ "component_name": "", "strategy": "ppo" }));
    let known = |name: &str, calls: [u32; 3], score: f64, last: f64| {
        json!({ "component_name": name, "calls_total": calls[0], "calls_success": calls[1], "calls_failed": calls[2],
            "avg_duration_ms": 0.0, "avg_score": score, "last_called": last, "p95_duration_ms": 0.0 })
    };
    let (shell, skill) = (known("shell", [1, 1, 0], 0.1, 1000.0), known("skill-v1", [1, 1, 0], 0.8, 500.0));
    let unknown = known("unknown", [2, 0, 1], -0.5, 1000.0);
    assert_eq!(adapted, json!({ "updated": [shell, skill, unknown], "message": "Adapted 1 skills using ppo" }));
    assert_eq!(state(&folder), json!({ "router": { "weights": { "unknown": -1.0 } } }));
    let adapted = agent.get("learn/adapt/req", json!({ "component_name": "zzz", "strategy": "ucb1" }));
    assert_eq!(adapted, json!({ "updated": [], "message": "Adapted 0 skills using ucb1" }));
    assert_eq!(statistics(&agent, ""), json!([shell, skill, unknown]));
    assert_eq!(statistics(&agent, "shell"), json!([shell]));
    assert_eq!(statistics(&agent, "nobody"), json!([]));

    let vague = json!({ "proposal": { "target": "router_weight" } });
    let reviewed = agent.get("learn/refinement/review/req", vague.clone());
    assert_eq!((&reviewed["approved"], &reviewed["risk_level"]), (&json!(false), &json!("high")));
    let applied = agent.get("learn/refinement/apply/req", vague);
    assert_eq!((&applied["applied_edits"], &applied["rollback_available"]), (&json!(0), &json!(false)));
    assert_eq!(applied["error"], "the proposal has no edits");
    let rolled_back = agent.get("learn/refinement/rollback/req", json!({ "refinement_id": "r1" }));
    assert_eq!(rolled_back, json!({ "refinement_id": "r1", "rolled_back": false, "error": "unknown refinement: r1" }));
}

/// The recording `learning_validation`.
#[test]
fn invalid_records_are_parse_errors() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, quick()).agent("a");
    let turn = json!({ "prompt": "p", "response": "r", "model": "m" });
    let bad = [
        json!({ "rated_turn": null, "polarity": "corrective" }),
        json!({ "rated_turn": null, "polarity": "corrective", "correction": "" }),
        json!({ "polarity": "positive" }),
        json!({ "rated_turn": null }),
        json!({ "rated_turn": null, "polarity": "glad" }),
        json!({ "rated_turn": null, "polarity": "positive", "dimension": "depth" }),
        json!({ "rated_turn": null, "polarity": "positive", "source": "rumour" }),
        json!({ "rated_turn": { "prompt": "p", "model": "m" }, "polarity": "positive" }),
        json!("good"),
    ];
    for bad in bad {
        let fine = json!({ "rated_turn": turn, "polarity": "neutral", "dimension": "plan_quality", "source": "self" });
        let (code, message) = agent.ask("learn/feedback/req", json!({ "feedbacks": [fine, bad] })).unwrap_err();
        assert_eq!(code, "parse_error");
        assert!(message.starts_with("feedbacks.1: "), "{message}");
    }
    assert_eq!(statistics(&agent, ""), json!([]), "no record counts");
    assert_eq!(agent.refused("learn/feedback/req", json!({})), "parse_error");
    assert_eq!(agent.refused("learn/adapt/req", json!({ "strategy": "magic" })), "parse_error");
    assert_eq!(agent.refused("learn/adapt/resp", json!({})), "invalid_message");
    let beyond = json!({ "feedbacks": [{ "rated_turn": null, "polarity": "positive", "score": 7.5 }] });
    assert_eq!(agent.get("learn/feedback/req", beyond), json!({ "recorded": 1, "new_score": 7.5 }));
    assert_eq!(
        agent.get("learn/feedback/req", json!({ "feedbacks": [] })),
        json!({ "recorded": 0, "new_score": null })
    );
    for strategy in ["ppo", "ucb1", "epsilon_greedy", "softmax", "custom"] {
        let adapted = agent.get("learn/adapt/req", json!({ "strategy": strategy }));
        assert_eq!(adapted["message"], format!("Adapted 0 skills using {strategy}"));
    }
}

#[test]
fn statistics_match_the_records() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, LearningSettings { durations: 100, ..quick() });
    let agent = fixture.agent("a");
    let timed = |number: u32, reward: f64| json!({ "action": { "component_name": "t", "duration_ms": number }, "reward": reward, "ts": number });
    // The first twenty are slow enough to change the 95th percentile, but they are too old to count for it.
    let slow: Vec<_> = (0..20).map(|_| timed(10_000, -1.0)).collect();
    let usual: Vec<_> = (1..=100).map(|number| timed(number, 1.0)).collect();
    tell(&agent, &slow);
    tell(&agent, &usual);
    let known = &statistics(&agent, "t")[0];
    assert_eq!(
        (&known["calls_total"], &known["calls_success"], &known["calls_failed"]),
        (&json!(120), &json!(100), &json!(20))
    );
    assert_eq!(known["p95_duration_ms"], 95.0);
    let mean = (10_000.0 * 20.0 + 5050.0) / 120.0;
    assert!((known["avg_duration_ms"].as_f64().unwrap() - mean).abs() < 1e-6, "{known}");
    assert!((known["avg_score"].as_f64().unwrap() - 80.0 / 120.0).abs() < 1e-9, "{known}");
    assert_eq!(known["last_called"], 10_000.0);

    tell(
        &agent,
        &[json!({ "action": { "component_name": "x", "components": ["y"], "tools": ["z", "x"] }, "reward": -2 })],
    );
    for name in ["x", "y", "z"] {
        let known = &statistics(&agent, name)[0];
        assert_eq!(
            (&known["calls_total"], &known["calls_failed"], &known["avg_score"]),
            (&json!(1), &json!(1), &json!(-2.0))
        );
    }
    tell(&agent, &[experience("huge", 1e308), experience("huge", 1e308), experience("huge", 1e308)]);
    assert!(statistics(&agent, "huge")[0]["avg_score"].is_number());
    let both = agent.get(
        "learn/feedback/req",
        json!({ "feedbacks": [feedback("p", 1.0), feedback("q", 0.5), feedback("q", 0.0)] }),
    );
    assert_eq!(both["new_score"], 0.5);
}

#[test]
fn records_are_shared_by_all_agents_and_survive_a_restart() {
    let folder = tempdir().unwrap();
    let first = fixture(&folder, quick());
    tell(&first.agent("ada"), &[experience("c", 0.2)]);
    tell(&first.agent("bob"), &[experience("c", 0.4)]);
    drop(first);
    let eve = fixture(&folder, quick()).agent("eve");
    assert_eq!(statistics(&eve, "c")[0]["calls_total"], 2);
    assert_eq!(eve.get("learn/adapt/req", json!({}))["message"], "Adapted 1 skills using ppo");
}

#[test]
fn too_few_experiences_change_nothing() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, LearningSettings { min_experiences: 3, ..LearningSettings::default() }).agent("a");
    tell(&agent, &[experience("c", 0.1), experience("c", 0.1)]);
    agent.get("learn/feedback/req", json!({ "feedbacks": [feedback("c", 0.1), feedback("c", 0.1)] }));
    let adapted = agent.get("learn/adapt/req", json!({}));
    assert_eq!(
        (&adapted["message"], &adapted["updated"][0]["calls_total"]),
        (&json!("Adapted 0 skills using ppo"), &json!(4))
    );
    assert_eq!(state(&folder), json!({}));
    tell(&agent, &[json!({})]);
    assert_eq!(agent.get("learn/adapt/req", json!({}))["message"], "Adapted 1 skills using ppo");
    assert_eq!(
        agent.get("learn/adapt/req", json!({}))["message"],
        "Adapted 0 skills using ppo",
        "the weight is set already"
    );
}

#[test]
fn the_host_adapts_after_every_n_experiences() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, LearningSettings { adapt_every: 4, ..quick() }).agent("a");
    tell(&agent, &[experience("c", 0.25), experience("c", 0.25), experience("c", 0.25)]);
    assert_eq!(state(&folder), json!({}));
    tell(&agent, &[experience("c", 0.25), experience("d", 0.25)]);
    assert_eq!(state(&folder), json!({ "router": { "weights": { "c": 0.5 } } }));
}

#[test]
fn a_plan_proposes_edits_for_components_with_poor_scores() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, LearningSettings { proposals: 2, ..quick() }).agent("a");
    let plan = |message: Value| agent.get("learn/refinement/plan/req", message);
    let none = plan(json!({}));
    assert_eq!((&none["status"], &none["proposals"]), (&json!("empty"), &json!([])));
    for (component, reward) in [("good", 0.5), ("poor", 0.25), ("poorer", 0.125), ("poorest", 0.0)] {
        tell(&agent, &[experience(component, reward), experience(component, reward)]);
    }
    tell(&agent, &[experience("seldom", -1.0)]);
    let all = plan(json!({}));
    assert_eq!(all["status"], "ready");
    let components: Vec<_> =
        all["proposals"].as_array().unwrap().iter().map(|proposal| &proposal["component_name"]).collect();
    assert_eq!(components, ["poorest", "poorer"], "the worst first, up to the limit");
    let one = plan(json!({ "component_name": "poor", "scope": "team" }));
    assert!(one["plan_id"].as_str().is_some_and(|id| !id.is_empty()));
    let proposal = &one["proposals"][0];
    assert_eq!(
        (&proposal["scope"], &proposal["confidence"], &proposal["status"]),
        (&json!("team"), &json!(0.5), &json!("proposed"))
    );
    let edit = &proposal["edits"][0];
    assert_eq!(
        (&edit["target"], &edit["op"], &edit["path"]),
        (&json!("router_weight"), &json!("replace"), &json!("router.weights.poor"))
    );
    assert_eq!((&edit["old_value"], &edit["new_value"]), (&json!(null), &json!(0.5)));
    assert_eq!(plan(json!({ "component_name": "good" }))["status"], "empty");
    assert_eq!(state(&folder), json!({}), "a plan changes nothing");

    let reviewed = agent.get("learn/refinement/review/req", json!({ "proposal": proposal }));
    assert_eq!(reviewed, json!({ "approved": true, "confidence_adjusted": 0.5, "reasons": [], "risk_level": "low" }));
    let applied = agent.get("learn/refinement/apply/req", json!({ "proposal": proposal }));
    assert_eq!(
        applied,
        json!({ "refinement_id": proposal["refinement_id"], "applied_edits": 1, "failed_edits": 0,
        "rollback_available": true, "error": "" })
    );
    assert_eq!(state(&folder), json!({ "router": { "weights": { "poor": 0.5 } } }));
    assert_eq!(plan(json!({ "component_name": "poor" }))["status"], "empty", "the weight is set already");
    let again = agent.get("learn/refinement/review/req", json!({ "proposal": proposal }));
    assert_eq!((&again["risk_level"], &again["confidence_adjusted"]), (&json!("medium"), &json!(0.4)));
    assert_eq!(again["approved"], true);
}

#[test]
fn valid_edits_are_applied_and_the_others_are_counted() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, quick()).agent("a");
    let edits = json!([set("a.b", json!(1)), set("__a", json!(1)), { "target": "moon" }, 7]);
    let applied = agent.get("learn/refinement/apply/req", proposal("r", edits));
    assert_eq!(
        (&applied["applied_edits"], &applied["failed_edits"], &applied["rollback_available"]),
        (&json!(1), &json!(3), &json!(true))
    );
    assert_eq!(applied["error"], "forbidden path: __a");
    let refused = agent.get("learn/refinement/apply/req", proposal("q", json!([set("sys.path", json!(1))])));
    assert_eq!((&refused["failed_edits"], &refused["rollback_available"]), (&json!(1), &json!(false)));
    let twice = agent.get("learn/refinement/apply/req", proposal("r", json!([set("a.b", json!(2))])));
    assert_eq!((&twice["applied_edits"], &twice["error"]), (&json!(0), &json!("refinement r is applied already")));
    assert_eq!(statuses(&agent), [json!(["r", "applied"])]);
    assert_eq!(state(&folder), json!({ "a": { "b": 1 } }));
    let nameless = json!({ "proposal": { "edits": [set("c", json!(1))] } });
    let id = agent.get("learn/refinement/apply/req", nameless)["refinement_id"].clone();
    assert_eq!(id.as_str().unwrap().len(), 32);
}

#[test]
fn a_rollback_also_undoes_all_later_refinements() {
    let folder = tempdir().unwrap();
    let first = fixture(&folder, quick());
    let agent = first.agent("a");
    for (id, value) in [("one", 1), ("two", 2), ("three", 3)] {
        agent.get("learn/refinement/apply/req", proposal(id, json!([set("x", json!(value)), set(id, json!(true))])));
    }
    drop((agent, first));
    let agent = fixture(&folder, quick()).agent("b");
    let back = |id: &str| agent.get("learn/refinement/rollback/req", json!({ "refinement_id": id }));
    assert_eq!(back("two"), json!({ "refinement_id": "two", "rolled_back": true, "error": "" }));
    assert_eq!(state(&folder), json!({ "x": 1, "one": true }));
    assert_eq!(
        statuses(&agent),
        [json!(["one", "applied"]), json!(["two", "rolled_back"]), json!(["three", "rolled_back"])]
    );
    for id in ["two", "three"] {
        assert_eq!(
            (&back(id)["rolled_back"], back(id)["error"].as_str().unwrap().contains("already")),
            (&json!(false), true)
        );
    }
    let again = agent.get("learn/refinement/apply/req", proposal("two", json!([set("x", json!(2))])));
    assert_eq!(again["applied_edits"], 1);
    assert_eq!(back("one")["rolled_back"], true);
    assert_eq!(state(&folder), json!({}));
    let entry = &agent.get("learn/refinement/history/req", json!({}))["entries"][0];
    assert_eq!(
        (&entry["applied_at"], &entry["applied_edits"], &entry["failed_edits"]),
        (&json!(1000.0), &json!(2), &json!(0))
    );
    assert_eq!(entry["proposal"]["edits"][0], set("x", json!(1)));
}

#[test]
fn records_components_and_refinements_are_limited() {
    let folder = tempdir().unwrap();
    let settings = LearningSettings {
        components: 2,
        records: 3,
        record_bytes: 500,
        refinements: 2,
        state_bytes: 100,
        min_experiences: 2,
        ..LearningSettings::default()
    };
    let agent = fixture(&folder, settings).agent("a");
    tell(&agent, &[experience("a", 1.0), experience("b", 1.0), experience("b", 1.0), experience("b", 1.0)]);
    let kept = rusqlite::Connection::open(folder.path().join("gladhand.db")).unwrap();
    let count =
        |table: &str| kept.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count("learning_records"), 3);
    let refused = |experience: Value| agent.refused("learn/experience/req", json!({ "experiences": [experience] }));
    assert_eq!(refused(experience("c", 1.0)), "runtime_error", "one component too many");
    assert_eq!(refused(experience(&"n".repeat(300), 1.0)), "runtime_error", "a name too long");
    assert_eq!(refused(json!({ "state": { "s": "x".repeat(600) } })), "runtime_error", "too large");
    assert_eq!(statistics(&agent, "").as_array().unwrap().len(), 2);

    let many: Vec<_> = (0..65).map(|tool| tool.to_string()).collect();
    assert_eq!(refused(json!({ "action": { "tools": many } })), "runtime_error", "too many components at once");
    let request = json!({ "experiences": vec![json!({}); 501] });
    assert_eq!(agent.refused("learn/experience/req", request), "runtime_error", "too many at once");
    let large = proposal("r", json!([set("x", json!("x".repeat(600)))]));
    assert_eq!(agent.refused("learn/refinement/review/req", large), "runtime_error");

    let apply = |id: &str, edits: Value| agent.get("learn/refinement/apply/req", proposal(id, edits));
    for id in ["1", "2", "3"] {
        assert_eq!(apply(id, json!([set("x", json!(id))]))["applied_edits"], 1);
    }
    assert_eq!(statuses(&agent), [json!(["2", "applied"]), json!(["3", "applied"])]);
    for (edit, why) in [(set("y", json!("x".repeat(200))), "too large"), (set("y", json!("x".repeat(600))), "bytes")] {
        let refused = apply("4", json!([edit]));
        assert_eq!(
            (&refused["applied_edits"], refused["error"].as_str().unwrap().contains(why)),
            (&json!(0), true),
            "{why}"
        );
    }
    assert_eq!(apply(&"i".repeat(200), json!([set("y", json!(1))]))["applied_edits"], 0);
    assert_eq!(state(&folder), json!({ "x": "3" }));
}

#[test]
fn an_edit_that_nests_too_deeply_is_refused() {
    let folder = tempdir().unwrap();
    let agent = fixture(&folder, quick()).agent("a");
    let deep = (0..90).fold(json!(1), |inner, _| json!([inner]));
    let path = format!("{}a", "a.".repeat(30));
    let refused = agent.get("learn/refinement/apply/req", proposal("r", json!([set(&path, deep)])));
    assert_eq!((&refused["applied_edits"], &refused["failed_edits"]), (&json!(0), &json!(1)));
    assert_eq!(state(&folder), json!({}));
}

#[test]
fn with_many_components_fewer_durations_of_each_are_kept() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, LearningSettings::default());
    let agent = fixture.agent("probe");
    let timed = |names: Vec<String>| json!({ "action": { "components": names, "duration_ms": 1 }, "reward": 1 });
    let many: Vec<_> = (0..7).map(|part| timed((0..64).map(|name| format!("{part}.{name}")).collect())).collect();
    tell(&agent, &many);
    tell(&agent, &vec![timed(vec!["0.0".to_owned()]); 300]);
    let rows = rusqlite::Connection::open(folder.path().join("gladhand.db")).unwrap();
    let count = "SELECT count(*) FROM learning_durations WHERE component = '0.0'";
    let count: u32 = rows.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(count, 100_000 / 448);
    assert_eq!(statistics(&agent, "0.0")[0]["calls_total"], 301);
}
