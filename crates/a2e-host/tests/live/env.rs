//! Requests to environments, their refusals, and environments that misbehave.

use std::sync::Arc;
use std::time::Duration;

use gladhand_a2e_host::env::{Env, EnvSettings, Program, Textfiles};
use gladhand_process::starting::{Family, Starter};
use serde_json::{Value, json};

use crate::fixture::{Fixture, Session, gone};

/// A program that obeys its actions, including wrong ones.
const PROGRAM: &str = r#"
count=0
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  say() { echo "{\"id\":$id,$1}"; }
  case $line in
    *'"reset"'*'"deny"'*) say '"error":"not today","code":"reset_denied"' ;;
    *'"reset"'*'"die"'*) exit 3 ;;
    *'"reset"'*) say "\"obs\":{\"state\":{\"count\":0,\"pid\":$$}}" ;;
    *'"die"'*) exit 3 ;;
    *'"stall"'*) trap '' TERM; sleep 1000 & wait; wait ;;
    *'"garbage"'*) echo 'this is no JSON' ;;
    *'"endless"'*) head -c 3000000 /dev/zero | tr '\0' x; sleep 1000 ;;
    *'"flood"'*) while :; do echo '{"push":{"delta":{"noise":1}}}'; done ;;
    *'"large"'*) say "\"obs\":{\"state\":{\"text\":\"$(head -c 5000 /dev/zero | tr '\0' x)\"}}" ;;
    *'"twice"'*) echo '{"id":0,"obs":{}}'; count=$((count + 1)); say "\"obs\":{\"state\":{\"count\":$count}}" ;;
    *'"push"'*)
      echo '{"push":{"event_type":"status","reason":"door","delta":{"door":"open"},"reward":0.5}}'
      say '"obs":{"state":{"door":"open"},"reward":1,"info":{"n":1},"metadata":{"m":2}}' ;;
    *'"later"'*) say '"obs":{"state":{}}'; sleep 0.1; echo '{"push":{"delta":{"rang":true},"terminal":true}}' ;;
    *'"bye"'*) say '"obs":{"state":{},"done":true}'; exit 0 ;;
    *'"odd"'*) say '"error":"what is that","code":"unknown_action"' ;;
    *'"render":"screenshot"'*) say '"render":"aGVsbG8="' ;;
    *'"render"'*) say '"render":null' ;;
    *'"plan"'*) say '"plan":[{"type":"twice"}]' ;;
    *'"close"'*) exit 0 ;;
  esac
done
"#;

fn program() -> Program {
    let command = ["bash", "-c", PROGRAM].map(str::to_owned).to_vec();
    let grace = Duration::from_millis(200);
    Program { grace, actions: json!({"enum": [1]}), ..Program::new("program", command) }
}

fn settings() -> EnvSettings {
    EnvSettings { programs: vec![program()], ..EnvSettings::default() }
}

fn fixture(settings: EnvSettings) -> Fixture {
    let starter: Arc<dyn Starter> = Arc::new(Family);
    Fixture::with(Env::new(settings, &starter))
}

async fn reset(session: &Session, message: Value) -> Value {
    session.ask("env/reset/req", message).await.expect("the episode starts")["obs"].clone()
}

async fn step(session: &Session, id: &Value, action: Value) -> Result<Value, (String, String)> {
    let stepped = session.ask("env/step/req", json!({"episode_id": id, "action": action})).await;
    stepped.map(|answer| answer["obs"].clone())
}

/// Starts an episode of the program. Returns the episode id and the process id.
async fn played(session: &Session) -> (Value, u64) {
    let seen = reset(session, json!({"env_name": "program"})).await;
    (seen["episode_id"].clone(), seen["state"]["pid"].as_u64().expect("the state has the process id"))
}

fn no_episode() -> (String, String) {
    ("runtime_error".to_owned(), "No active episode. Call reset().".to_owned())
}

fn over() -> (String, String) {
    ("runtime_error".to_owned(), "Episode already completed. Call reset().".to_owned())
}

#[tokio::test]
async fn the_counter_counts_to_five() {
    let session = fixture(settings()).session();
    let first = reset(&session, json!({"env_name": "counter_env", "seed": 7, "options": {"a": 1}})).await;
    let id = &first["episode_id"];
    assert_eq!(id.as_str().unwrap().split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    let expected = json!({
        "episode_id": id, "step_num": 0, "state": {"count": 0, "step_num": 0}, "done": false, "truncated": false,
        "reward": 0.0, "created_at": first["created_at"], "metadata": {},
    });
    assert_eq!(first, expected);
    let plan = session.ask("env/plan/req", json!({"episode_id": id})).await.unwrap();
    assert_eq!(plan["suggested_actions"].as_array().unwrap().len(), 5);
    let idle = step(&session, id, json!({"type": "noop"})).await.unwrap();
    assert_eq!(
        (&idle["state"], &idle["step_num"], &idle["info"]),
        (&json!({"count": 0, "step_num": 1}), &json!(1), &json!({}))
    );
    let mut last = Value::Null;
    for _ in 0..5 {
        assert_ne!(last["done"], true);
        last = step(&session, id, json!({"type": "inc"})).await.unwrap();
    }
    assert_eq!((&last["done"], &last["reward"], &last["state"]["count"]), (&json!(true), &json!(1.0), &json!(5)));
    let seen = session.ask("env/observe/req", json!({"episode_id": id})).await.unwrap()["obs"].clone();
    assert_eq!((&seen["step_num"], &seen["reward"], &seen["done"]), (&json!(6), &json!(0.0), &json!(true)));
    assert_eq!(seen["created_at"], first["created_at"]);
    assert_eq!(step(&session, id, json!({"type": "inc"})).await.unwrap_err(), over());
    let closed = session.ask("env/close/req", json!({"episode_id": id})).await.unwrap();
    assert_eq!(closed, json!({"closed": true}));
}

#[tokio::test]
async fn episodes_of_other_sessions_and_unknown_ids_are_refused() {
    let fixture = fixture(settings());
    let (session, other) = (fixture.session(), fixture.session());
    let theirs = reset(&other, json!({"env_name": "counter"})).await["episode_id"].clone();
    for id in [json!("none"), json!(""), theirs] {
        let of = json!({"episode_id": id});
        assert_eq!(step(&session, &id, json!({})).await.unwrap_err(), no_episode());
        assert_eq!(session.ask("env/observe/req", of.clone()).await.unwrap_err(), no_episode());
        assert_eq!(session.ask("env/render/req", of.clone()).await.unwrap_err(), no_episode());
        assert_eq!(session.ask("env/close/req", of.clone()).await.unwrap_err(), no_episode());
        assert_eq!(session.ask("env/plan/req", of).await.unwrap_err(), no_episode());
        let batch = json!({"episode_ids": [id], "actions": [{}]});
        assert_eq!(session.ask("env/batch_step/req", batch).await.unwrap_err(), no_episode());
    }
    let records = session.ask("env/exp/list/req", json!({"episode_id": "none"})).await;
    assert_eq!(records.unwrap_err(), no_episode());
    for kind in ["env/reset/req", "env/space/req"] {
        let (code, message) = session.ask(kind, json!({"env_name": "nowhere"})).await.unwrap_err();
        assert_eq!((code.as_str(), message.as_str()), ("reset_denied", "unknown environment: \"nowhere\""));
    }
    assert_eq!(session.ask("env/plan/req", json!({})).await.unwrap_err(), no_episode());
    let (code, _) = session.ask("env/plan/req", json!({"state": {"count": 1}})).await.unwrap_err();
    assert_eq!(code, "runtime_error");
    assert_eq!(session.ask("env/step/resp", json!({})).await.unwrap_err().0, "invalid_message");
}

#[tokio::test]
async fn a_gridworld_is_walked_as_planned() {
    let session = fixture(settings()).session();
    let asked = json!({"env_name": "gridworld", "seed": 11.0, "options": {"size": 8, "max_steps": 100}});
    let (seen, again) = (reset(&session, asked.clone()).await, reset(&session, asked).await);
    assert_eq!(seen["state"], again["state"]);
    assert_ne!(seen["episode_id"], again["episode_id"]);
    let id = &seen["episode_id"];
    let plan = session.ask("env/plan/req", json!({"episode_id": id})).await.unwrap();
    let plans = plan["suggested_actions"].as_array().unwrap();
    let by_state = session.ask("env/plan/req", json!({"state": seen["state"]})).await.unwrap();
    assert_eq!(by_state, plan);
    let text = session.ask("env/render/req", json!({"episode_id": id, "mode": "text"})).await.unwrap();
    let text = text["render"].as_str().unwrap();
    assert_eq!((text.lines().count(), text.matches('A').count(), text.matches('G').count()), (8, 1, 1));
    let json = session.ask("env/render/req", json!({"episode_id": id, "mode": "json"})).await.unwrap();
    assert_eq!(json["render"], seen["state"]);
    for mode in [json!("screenshot"), json!("rgb_array"), Value::Null] {
        let refused = session.ask("env/render/req", json!({"episode_id": id, "mode": mode})).await.unwrap_err();
        assert_eq!(refused.0, "runtime_error");
        assert!(refused.1.contains("cannot be rendered as"), "{refused:?}");
    }
    let mut last = Value::Null;
    for action in plans {
        last = step(&session, id, action.clone()).await.unwrap();
    }
    assert_eq!((&last["done"], &last["reward"], &last["truncated"]), (&json!(true), &json!(1.0), &json!(false)));
    assert_eq!(last["step_num"], plans.len());
}

#[tokio::test]
async fn a_gridworld_refuses_unknown_actions_and_ends_after_its_steps() {
    let session = fixture(settings()).session();
    for options in [json!({"size": 1}), json!({"size": 1000}), json!({"size": "5"}), json!({"max_steps": 0.5})] {
        let (code, _) =
            session.ask("env/reset/req", json!({"env_name": "gridworld", "options": options})).await.unwrap_err();
        assert_eq!(code, "reset_denied");
    }
    let seen = reset(&session, json!({"env_name": "gridworld", "seed": 1, "options": {"max_steps": 2}})).await;
    let id = &seen["episode_id"];
    for action in [
        json!({}),
        json!({"type": "fly"}),
        json!({"action_type": "move"}),
        json!({"action_type": "move", "payload": {"direction": 1}}),
    ] {
        assert_eq!(step(&session, id, action).await.unwrap_err().0, "unknown_action");
    }
    // Two steps away from the goal cannot reach it.
    let away = if seen["state"]["goal"][0].as_u64() > seen["state"]["agent"][0].as_u64() { "left" } else { "right" };
    step(&session, id, json!({"type": away})).await.unwrap();
    let last = step(&session, id, json!({"type": away})).await.unwrap();
    assert_eq!((&last["done"], &last["truncated"]), (&json!(true), &json!(true)), "{last}");
    assert_eq!(step(&session, id, json!({"type": away})).await.unwrap_err(), over());
    let hostile = json!({"size": 3, "agent": [9, 9], "goal": [0, 0], "walls": []});
    assert_eq!(
        session.ask("env/plan/req", json!({"episode_id": id, "state": hostile})).await.unwrap_err().0,
        "runtime_error"
    );
}

#[tokio::test]
async fn notes_are_found_read_written_and_renamed() {
    let within = tempfile::tempdir().unwrap();
    let starter: Arc<dyn Starter> = Arc::new(Family);
    let env = Env::new(settings(), &starter).with(Arc::new(Textfiles { within: within.path().to_owned() }));
    let session = Fixture::with(env).session();
    let folders = || std::fs::read_dir(within.path()).unwrap().count();
    for task in ["collect", "rename"] {
        let seen = reset(&session, json!({"env_name": "textfiles", "seed": 3, "options": {"task": task}})).await;
        let id = &seen["episode_id"];
        assert_eq!((&seen["state"]["task"], folders()), (&json!(task), 1));
        let note = &seen["state"]["files"][0];
        let read = step(&session, id, json!({"action_type": "read", "payload": {"path": note}})).await.unwrap();
        assert!(read["state"]["last"]["result"].as_str().unwrap().starts_with("There is a "), "{read}");
        let wrong =
            step(&session, id, json!({"action_type": "read", "payload": {"path": "../../etc/passwd"}})).await.unwrap();
        assert_eq!((&wrong["state"]["last"]["ok"], &wrong["reward"]), (&json!(false), &json!(-0.05)));
        assert_eq!(step(&session, id, json!({"action_type": "dance"})).await.unwrap_err().0, "unknown_action");
        let plan = session.ask("env/plan/req", json!({"episode_id": id})).await.unwrap();
        let mut last = Value::Null;
        for action in plan["suggested_actions"].as_array().unwrap() {
            last = step(&session, id, action.clone()).await.unwrap();
        }
        assert_eq!((&last["done"], &last["reward"]), (&json!(true), &json!(1.0)), "{last}");
        let text = session.ask("env/render/req", json!({"episode_id": id, "mode": "text"})).await.unwrap();
        assert!(text["render"].as_str().unwrap().contains(".txt"));
        session.ask("env/close/req", json!({"episode_id": id})).await.unwrap();
        assert_eq!(folders(), 0);
    }
    reset(&session, json!({"env_name": "textfiles"})).await;
    assert_eq!(folders(), 1);
    session.leave();
    assert_eq!(folders(), 0);
}

#[tokio::test]
async fn spaces_are_schemas() {
    let session = fixture(settings()).session();
    for name in ["gridworld", "textfiles", "counter", "counter_env"] {
        let space = session.ask("env/space/req", json!({"env_name": name})).await.unwrap();
        let seen = reset(&session, json!({"env_name": name})).await;
        assert!(jsonschema::validator_for(&space["state_schema"]).unwrap().is_valid(&seen["state"]), "{name}");
        assert!(jsonschema::meta::is_valid(&space["action_space"]), "{name}");
    }
    let plan = session.ask("env/space/req", json!({"env_name": "program"})).await.unwrap();
    assert_eq!(plan, json!({"action_space": {"enum": [1]}, "state_schema": {"type": "object"}}));
}

#[tokio::test]
async fn several_episodes_are_stepped_at_once_and_recorded() {
    let session = fixture(EnvSettings { max_records: 3, max_batch_steps: 5, ..settings() }).session();
    let one = reset(&session, json!({"env_name": "counter"})).await["episode_id"].clone();
    let other = reset(&session, json!({"env_name": "counter"})).await["episode_id"].clone();
    let inc = json!({"type": "inc"});
    let batch = json!({"episode_ids": [one, other, one], "actions": [inc, {"type": "noop"}, inc]});
    let stepped = session.ask("env/batch_step/req", batch).await.unwrap();
    let results = stepped["results"].as_array().unwrap();
    let counts: Vec<_> = results.iter().map(|result| &result["obs"]["state"]["count"]).collect();
    assert_eq!(counts, [1, 0, 2]);
    assert_eq!((&results[0]["type"], &results[0]["req_id"]), (&json!("env/step/resp"), &json!("r3")));
    // A step after the end reports an error; the other steps are made.
    let batch = json!({"episode_ids": [one, one, one, one, other], "actions": [inc, inc, inc, inc, inc]});
    let stepped = session.ask("env/batch_step/req", batch).await.unwrap();
    let late = &stepped["results"][3]["obs"];
    assert_eq!((&late["done"], &late["metadata"]["error"]["code"]), (&json!(true), &json!("runtime_error")));
    assert_eq!(stepped["results"][4]["obs"]["state"]["count"], 1);
    for (episodes, actions, why) in [
        (json!([other]), json!([]), "1 episodes and 0 actions"),
        (json!([other, other, other, other, other, other]), json!([{}, {}, {}, {}, {}, {}]), "at most 5 steps at once"),
        (json!([one]), json!([{}]), "Episode already completed. Call reset()."),
    ] {
        let batch = json!({"episode_ids": episodes, "actions": actions});
        let refused = session.ask("env/batch_step/req", batch).await.unwrap_err();
        assert_eq!(refused, ("runtime_error".to_owned(), why.to_owned()));
    }
    let records = async |message| session.ask("env/exp/list/req", message).await.unwrap()["episodes"].clone();
    let of_one = records(json!({"episode_id": one})).await;
    let steps: Vec<_> = of_one.as_array().unwrap().iter().map(|record| &record["step_num"]).collect();
    assert_eq!(steps, [3, 4, 5]);
    let newest = &of_one[2];
    assert_eq!((&newest["action"], &newest["reward"], &newest["done"]), (&inc, &json!(1.0), &json!(true)));
    assert_eq!((&newest["state"]["count"], &newest["next_state"]["count"]), (&json!(4), &json!(5)));
    assert_eq!((&newest["episode_id"], &newest["env_name"]), (&one, &json!("counter")));
    assert_eq!(records(json!({})).await.as_array().unwrap().len(), 5);
    let two = records(json!({"limit": 2.0})).await;
    assert!(two.as_array().unwrap().iter().all(|record| record["episode_id"] == other), "{two}");
    assert_eq!(records(json!({"limit": 0})).await, json!([]));
    assert_eq!(records(json!({"limit": -1})).await, json!([]));
}

#[tokio::test]
async fn episodes_states_and_records_are_limited() {
    let fixture = fixture(EnvSettings {
        max_episodes: 2,
        max_total_episodes: 3,
        max_state_bytes: 1000,
        max_record_bytes: 500,
        ..settings()
    });
    let session = fixture.session();
    let first = reset(&session, json!({"env_name": "counter"})).await["episode_id"].clone();
    reset(&session, json!({"env_name": "counter"})).await;
    let (code, why) = session.ask("env/reset/req", json!({"env_name": "counter"})).await.unwrap_err();
    assert_eq!((code.as_str(), why.as_str()), ("reset_denied", "the limit of 2 episodes is reached; close one first"));
    for _ in 0..5 {
        step(&session, &first, json!({"type": "inc"})).await.unwrap();
    }
    let records = session.ask("env/exp/list/req", json!({"episode_id": first})).await.unwrap();
    assert!(records["episodes"].as_array().unwrap().len() < 5);
    // An episode that is over makes room.
    reset(&session, json!({"env_name": "counter"})).await;
    assert_eq!(step(&session, &first, json!({})).await.unwrap_err(), no_episode());
    let other = fixture.session();
    let (id, _) = played(&other).await;
    assert_eq!(other.ask("env/reset/req", json!({"env_name": "counter"})).await.unwrap_err().0, "reset_denied");
    let large = step(&other, &id, json!({"text": "x".repeat(2000)})).await.unwrap_err();
    assert!(large.1.starts_with("an action of "), "{large:?}");
    let large = step(&other, &id, json!({"type": "large"})).await.unwrap_err();
    assert!(large.1.starts_with("the environment's state of "), "{large:?}");
}

#[tokio::test]
async fn a_program_is_an_environment() {
    let fixture = fixture(settings());
    let session = fixture.session();
    let seen = reset(&session, json!({"env_name": "program", "seed": 5, "options": {}})).await;
    let (id, pid) = (&seen["episode_id"], seen["state"]["pid"].as_u64().unwrap());
    let stepped = step(&session, id, json!({"type": "twice"})).await.unwrap();
    assert_eq!((&stepped["state"]["count"], &stepped["step_num"]), (&json!(1), &json!(1)));
    let odd = step(&session, id, json!({"type": "odd"})).await.unwrap_err();
    assert_eq!(odd, ("unknown_action".to_owned(), "what is that".to_owned()));
    let pushed = step(&session, id, json!({"type": "push"})).await.unwrap();
    assert_eq!(
        (&pushed["reward"], &pushed["info"], &pushed["metadata"]),
        (&json!(1.0), &json!({"n": 1}), &json!({"m": 2}))
    );
    let expected = json!({
        "type": "env/state/push", "req_id": null, "episode_id": id, "step_id": 1, "action_id": null,
        "event_type": "status", "reason": "door", "delta": {"door": "open"}, "reward": 0.5, "reward_info": {},
        "terminal": false,
    });
    assert_eq!(session.events(), [expected]);
    let picture = session.ask("env/render/req", json!({"episode_id": id})).await.unwrap();
    assert_eq!(picture, json!({"render": "aGVsbG8="}));
    let refused = session.ask("env/render/req", json!({"episode_id": id, "mode": "text"})).await.unwrap_err();
    assert_eq!(refused.0, "runtime_error");
    let plan = session.ask("env/plan/req", json!({"episode_id": id, "state": {"a": 1}})).await.unwrap();
    assert_eq!(plan, json!({"suggested_actions": [{"type": "twice"}]}));
    session.ask("env/close/req", json!({"episode_id": id})).await.unwrap();
    gone(pid).await;
}

#[tokio::test]
async fn changes_without_a_request_are_pushed_and_observed() {
    let session = fixture(settings()).session();
    let (id, pid) = played(&session).await;
    step(&session, &id, json!({"type": "later"})).await.unwrap();
    let push = session.heard(|event| event["delta"]["rang"] == true).await;
    assert_eq!((&push["step_id"], &push["terminal"]), (&json!(1), &json!(true)));
    let seen = session.ask("env/observe/req", json!({"episode_id": id})).await.unwrap();
    assert_eq!((&seen["obs"]["state"], &seen["obs"]["done"]), (&json!({"rang": true}), &json!(true)));
    assert_eq!(step(&session, &id, json!({})).await.unwrap_err(), over());
    session.leave();
    gone(pid).await;
}

#[tokio::test]
async fn a_program_that_fails_ends_only_its_episode() {
    let session = fixture(settings()).session();
    for action in ["die", "garbage", "endless"] {
        let (id, pid) = played(&session).await;
        let broken = step(&session, &id, json!({"type": action})).await.unwrap_err();
        assert_eq!((broken.0.as_str(), broken.1.starts_with("the environment is broken")), ("runtime_error", true));
        let push = session.heard(|event| event["episode_id"] == id).await;
        assert_eq!((&push["event_type"], &push["terminal"]), (&json!("error"), &json!(true)), "{action}");
        assert_eq!(step(&session, &id, json!({})).await.unwrap_err(), over());
        gone(pid).await;
    }
    for (option, code) in [("deny", "reset_denied"), ("die", "runtime_error")] {
        let asked = json!({"env_name": "program", "options": {option: 1}});
        assert_eq!(session.ask("env/reset/req", asked).await.unwrap_err().0, code);
    }
    assert_eq!(session.events().len(), 3);
    let missing = Program::new("missing", vec!["/no/such/program".to_owned()]);
    let session = fixture(EnvSettings { programs: vec![missing], ..EnvSettings::default() }).session();
    assert_eq!(session.ask("env/reset/req", json!({"env_name": "missing"})).await.unwrap_err().0, "reset_denied");
}

#[tokio::test]
async fn a_program_that_exits_after_its_last_observation_has_not_failed() {
    let session = fixture(settings()).session();
    let (id, pid) = played(&session).await;
    assert_eq!(step(&session, &id, json!({"type": "bye"})).await.unwrap()["done"], true);
    gone(pid).await;
    assert_eq!(step(&session, &id, json!({})).await.unwrap_err(), over());
    assert_eq!(session.events(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_program_that_stalls_times_out() {
    let timeout = Duration::from_millis(300);
    let session =
        fixture(EnvSettings { programs: vec![Program { timeout, ..program() }], ..EnvSettings::default() }).session();
    let (id, pid) = played(&session).await;
    assert_eq!(step(&session, &id, json!({"type": "stall"})).await.unwrap_err().0, "timeout");
    gone(pid).await;
    assert_eq!(step(&session, &id, json!({})).await.unwrap_err(), over());
}

#[tokio::test]
async fn a_stalled_step_ends_with_its_episode_or_its_session() {
    let fixture = fixture(settings());
    let session = fixture.session();
    let (id, pid) = played(&session).await;
    let stalled = session.begin("env/step/req", json!({"episode_id": id, "action": {"type": "stall"}}));
    let stalled = tokio::spawn(stalled);
    // Observing does not wait for the step.
    session.ask("env/observe/req", json!({"episode_id": id})).await.unwrap();
    session.ask("env/close/req", json!({"episode_id": id})).await.unwrap();
    assert_eq!(stalled.await.unwrap().unwrap_err(), no_episode());
    gone(pid).await;
    let (id, pid) = played(&session).await;
    let stalled = session.begin("env/step/req", json!({"episode_id": id, "action": {"type": "stall"}}));
    let stalled = tokio::spawn(stalled);
    session.leave();
    assert_eq!(stalled.await.unwrap().unwrap_err(), no_episode());
    gone(pid).await;
}

#[tokio::test]
async fn a_cancelled_step_does_not_disturb_the_next_one() {
    let session = fixture(settings()).session();
    let (id, _) = played(&session).await;
    let given_up = session.begin("env/step/req", json!({"episode_id": id, "action": {"type": "twice"}}));
    let _ = tokio::time::timeout(Duration::ZERO, given_up).await;
    let pushed = step(&session, &id, json!({"type": "push"})).await.unwrap();
    assert_eq!(pushed["state"], json!({"door": "open"}));
}

#[tokio::test]
async fn a_program_that_floods_is_slowed_to_the_client() {
    let window = 20;
    let fixture = fixture(settings());
    let session = fixture.session_that_reads(window);
    let (id, pid) = played(&session).await;
    let flooded = tokio::spawn(session.begin("env/step/req", json!({"episode_id": id, "action": {"type": "flood"}})));
    session.until(|heard| heard.events.len() > window).await;
    session.ask("env/observe/req", json!({"episode_id": id})).await.unwrap();
    assert!(session.events().len() <= window + 1);
    session.catch_up();
    session.until(|heard| heard.events.len() > 2 * window).await;
    assert!(session.events().len() <= 2 * window + 2);
    fixture.closed().await;
    assert_eq!(flooded.await.unwrap().unwrap_err(), no_episode());
    gone(pid).await;
    assert_eq!(session.ask("env/reset/req", json!({"env_name": "counter"})).await.unwrap_err().1, "stopping");
}
