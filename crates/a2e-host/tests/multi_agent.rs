//! Subagents: the recorded exchange, every refusal, and how they end.

mod mesh;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_a2e_host::multi_agent::{MultiAgent, MultiAgentSettings};
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{AgentCall, AgentEvent, Call, Failure, FailureKind, Party, Reply};
use gladhand_core::wire::json;
use gladhand_hub::{Agent, Answer, Caller, Context, Hub, SessionId, Settling};
use mesh::{Agent as Session, ask, call, granted_to, raw_call, refused};
use serde_json::{Value, json};

/// An agent whose behaviour is selected by a word in its instruction.
#[derive(Debug, Default)]
struct Actor {
    /// All calls that it received.
    asked: Mutex<Vec<String>>,
    sessions: Mutex<Vec<String>>,
    followers: Mutex<Vec<Arc<dyn Caller>>>,
}

impl Actor {
    fn tell(&self, kind: &'static str, payload: Value) {
        let followers = self.followers.lock().expect("the lock is not poisoned");
        for follower in followers.iter() {
            follower.event(AgentEvent { kind, payload: json::to_raw(&payload) });
        }
    }

    fn act(&self, session: &str, text: &str) -> Result<Value, Failure> {
        let number = self.asked.lock().expect("the lock is not poisoned").len();
        let turn = format!("turn{number}");
        let of = |more: Value| {
            let mut payload = json!({"session_id": session, "turn_id": turn});
            payload.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            payload
        };
        // Events of other sessions and of earlier turns must be ignored.
        self.tell("session.stream.chunk", json!({"session_id": "other", "chunk": {"answerText": "not this"}}));
        self.tell("session.error", json!({"session_id": session, "turn_id": "turn-1", "message": "not this"}));
        let tool = || of(json!({"data": {"call": {"name": "look"}}}));
        if text.contains("refuse") {
            return Err(Failure::new(FailureKind::Internal, "no model is chosen"));
        } else if text.contains("break") {
            self.tell("session.error", of(json!({"message": "the model failed"})));
        } else if text.contains("toil") {
            (0..10).for_each(|_| self.tell("session.tool.call.started", tool()));
        } else if !text.contains("hang") {
            self.tell("session.tool.call.started", tool());
            self.tell("session.stream.chunk", of(json!({"chunk": {"answerText": "It is "}})));
            self.tell("session.stream.chunk", of(json!({"chunk": {"answerText": "done.\nReally."}})));
            self.tell("session.completed", of(json!({})));
        }
        Ok(json!({"session_id": session, "turn_id": turn}))
    }
}

impl Agent for Actor {
    fn ask(&self, call: AgentCall<'_>, context: &Context<'_>) -> Answer {
        let mut followers = self.followers.lock().expect("the lock is not poisoned");
        if !followers.iter().any(|follower| follower.session() == context.caller.session()) {
            followers.push(Arc::clone(context.caller));
        }
        drop(followers);
        self.asked.lock().expect("the lock is not poisoned").push(format!("{call:?}"));
        let mut sessions = self.sessions.lock().expect("the lock is not poisoned");
        let said = match call {
            AgentCall::Create { .. } => {
                let id = format!("session{}", sessions.len());
                sessions.push(id.clone());
                Ok(json!({"session_id": id}))
            }
            AgentCall::Send { session, text, .. } => {
                drop(sessions);
                self.act(&session, &text)
            }
            AgentCall::Delete(session) => {
                sessions.retain(|id| *id != session);
                // Deleting a running session takes a while.
                return Answer::later(async { Ok::<_, Failure>(Reply::Agent(json::raw("{}".to_owned()))) });
            }
            AgentCall::Models { .. } => {
                Ok(json!({"models": [{"id": "small", "provider": "local"}], "selected_thinking": "OFF"}))
            }
            _ => Ok(json!({})),
        };
        Answer::Now(said.map(|said| Reply::Agent(json::to_raw(&said))))
    }

    fn left(&self, session: SessionId) {
        self.followers.lock().expect("the lock is not poisoned").retain(|follower| follower.session() != session);
    }

    fn closing(&self) -> Settling {
        Box::pin(async {})
    }
}

struct Stage {
    actor: Arc<Actor>,
    hub: Hub,
    agreement: Arc<Agreement>,
    session: Arc<Session>,
}

impl Stage {
    fn new(settings: MultiAgentSettings) -> Self {
        let actor = Arc::new(Actor::default());
        let multi_agent = MultiAgent::new(Arc::clone(&actor) as _, settings);
        let hub = Hub::new(vec![Box::new(multi_agent)]).expect("unique provider names");
        Self { actor, hub, agreement: granted_to("probe", &["multi_agent"]), session: Session::of(1) }
    }

    async fn ask(&self, kind: &'static str, message: Value) -> Result<Value, Failure> {
        ask(&self.hub, &self.agreement, &self.session, call("multi_agent", kind, &message)).await
    }

    async fn spawn(&self) -> String {
        let spawned = self.ask("multi_agent/spawn", json!({"name": "worker"})).await.expect("a subagent");
        spawned["subagent_id"].as_str().expect("an id").to_owned()
    }

    async fn delegate(&self, id: &str, instruction: &str) -> Value {
        let message = json!({"subagent_id": id, "task_name": "t1", "instruction": instruction});
        self.ask("multi_agent/delegate", message).await.expect("an answer")
    }

    async fn awaited(&self, id: &str) -> Value {
        self.ask("multi_agent/await", json!({"subagent_id": id})).await.expect("an answer")
    }
}

fn stage() -> Stage {
    Stage::new(MultiAgentSettings::default())
}

#[tokio::test]
async fn the_recorded_subagent_session_is_reproduced() {
    let stage = stage();
    let message =
        json!({"name": "researcher", "role": "research", "model": "default", "max_steps": 20, "metadata": {"a": 1}});
    let spawned = stage.ask("multi_agent/spawn", message).await.unwrap();
    let id = spawned["subagent_id"].as_str().unwrap().to_owned();
    assert_eq!(spawned, json!({"subagent_id": id, "status": "READY"}));
    assert!(id.strip_prefix("sub_").is_some_and(|hex| hex.len() == 8), "{id}");
    let listed = |status: &str| {
        json!({"subagents": [{
            "subagent_id": id, "name": "researcher", "status": status, "parent_agent_id": "probe",
            "root_agent_id": "probe", "depth": 0, "config": {
                "name": "researcher", "role": "research", "model": "default", "system_prompt": null, "capabilities": [],
                "memory_scope": "isolated", "tool_scope": "restricted", "max_steps": 20, "timeout_seconds": 600,
                "metadata": {"a": 1},
            },
        }]})
    };
    assert_eq!(stage.ask("multi_agent/list", json!({})).await.unwrap(), listed("READY"));
    let idle = json!({"subagent_id": id, "status": "READY", "result": null, "error": null});
    assert_eq!(stage.awaited(&id).await, idle);
    let delegate = json!({"subagent_id": id, "task_name": "t1", "instruction": "do it", "success_criteria": ["c1"]});
    let accepted = stage.ask("multi_agent/delegate", delegate).await.unwrap();
    assert_eq!(accepted, json!({"accepted": true, "status": "RUNNING"}));
    assert_eq!(stage.ask("multi_agent/list", json!({})).await.unwrap(), listed("RUNNING"));
    let result =
        json!({"summary": "It is done.", "text": "It is done.\nReally.", "task_name": "t1", "tools": ["look"]});
    let completed = json!({"subagent_id": id, "status": "COMPLETED", "result": result, "error": null});
    assert_eq!(stage.awaited(&id).await, completed);
    assert_eq!(stage.awaited(&id).await, completed);
    let ended = stage.ask("multi_agent/terminate", json!({"subagent_id": id})).await.unwrap();
    assert_eq!(ended, json!({"success": true, "subagent_id": id}));
    assert_eq!(stage.ask("multi_agent/list", json!({})).await.unwrap(), listed("TERMINATED"));
    assert_eq!(stage.awaited(&id).await["status"], "TERMINATED");
    assert!(stage.actor.sessions.lock().unwrap().is_empty());
    let asked = stage.actor.asked.lock().unwrap().clone();
    assert!(asked[0].contains(r#"Create { title: Some("researcher")"#), "{}", asked[0]);
    let text =
        r#"You are the subagent \"researcher\". Your role: research.\n\nTask: t1\n\ndo it\n\nIt is done when:\n- c1"#;
    assert!(asked[1].contains(text), "{}", asked[1]);
}

#[tokio::test]
async fn unknown_ids_are_refused() {
    let stage = stage();
    for kind in ["multi_agent/await", "multi_agent/delegate", "multi_agent/terminate"] {
        let message = json!({"subagent_id": "nope", "task_name": "t", "instruction": "i"});
        let refusal = ("runtime_error", "unknown subagent: nope".to_owned());
        assert_eq!(refused(stage.ask(kind, message).await), refusal);
    }
    assert_eq!(refused(stage.ask("multi_agent/merge", json!({})).await).0, "runtime_error");
}

#[tokio::test]
async fn a_failed_task_has_a_reason_and_another_may_follow() {
    let stage = stage();
    let id = stage.spawn().await;
    for (instruction, why) in [("refuse", "no model is chosen"), ("break", "the model failed")] {
        stage.delegate(&id, instruction).await;
        let failed = json!({"subagent_id": id, "status": "FAILED", "result": null, "error": why});
        assert_eq!(stage.awaited(&id).await, failed);
    }
    stage.delegate(&id, "do it").await;
    assert_eq!(stage.awaited(&id).await["status"], "COMPLETED");
}

#[tokio::test]
async fn a_subagent_runs_one_task_at_a_time_and_none_after_its_end() {
    let stage = stage();
    let id = stage.spawn().await;
    stage.delegate(&id, "hang").await;
    assert_eq!(stage.delegate(&id, "do it").await, json!({"accepted": false, "status": "RUNNING"}));
    let waiting = async { stage.awaited(&id).await };
    let ending = async { stage.ask("multi_agent/terminate", json!({"subagent_id": id})).await.unwrap() };
    let (ended, _) = tokio::join!(waiting, ending);
    assert_eq!(ended["status"], "TERMINATED");
    assert_eq!(stage.delegate(&id, "do it").await, json!({"accepted": false, "status": "TERMINATED"}));
    let again = stage.ask("multi_agent/terminate", json!({"subagent_id": id})).await.unwrap();
    assert_eq!(again["success"], true);
    assert!(stage.actor.asked.lock().unwrap().iter().any(|asked| asked.starts_with("Interrupt")));
}

#[tokio::test]
async fn the_steps_and_duration_of_a_task_are_limited() {
    let stage = Stage::new(MultiAgentSettings {
        max_duration: Duration::from_millis(20),
        steps: 8,
        ..MultiAgentSettings::default()
    });
    let spawned = stage.ask("multi_agent/spawn", json!({"name": "w", "max_steps": 5.0})).await.unwrap();
    let id = spawned["subagent_id"].as_str().unwrap();
    stage.delegate(id, "toil").await;
    assert_eq!(stage.awaited(id).await["error"], "the task took more than 5 steps");
    stage.delegate(id, "hang").await;
    assert_eq!(stage.awaited(id).await["status"], "FAILED");
    let spawned = stage.ask("multi_agent/spawn", json!({"name": "w", "max_steps": 1000})).await.unwrap();
    stage.delegate(spawned["subagent_id"].as_str().unwrap(), "toil").await;
    assert_eq!(
        stage.awaited(spawned["subagent_id"].as_str().unwrap()).await["error"],
        "the task took more than 8 steps"
    );
}

#[tokio::test]
async fn the_number_of_subagents_is_limited() {
    let stage = Stage::new(MultiAgentSettings {
        max_per_session: 2,
        max_total: 3,
        remembered: 1,
        description: 200,
        ..MultiAgentSettings::default()
    });
    let (one, _) = (stage.spawn().await, stage.spawn().await);
    let spawn = || stage.ask("multi_agent/spawn", json!({"name": "w"}));
    assert_eq!(
        refused(spawn().await),
        ("runtime_error", "the limit of 2 subagents per session is reached: terminate one".to_owned())
    );
    stage.ask("multi_agent/terminate", json!({"subagent_id": one})).await.unwrap();
    for _ in 0..5 {
        let id = stage.spawn().await;
        stage.ask("multi_agent/terminate", json!({"subagent_id": id})).await.unwrap();
    }
    stage.spawn().await;
    let listed = stage.ask("multi_agent/list", json!({})).await.unwrap();
    let listed = listed["subagents"].as_array().unwrap();
    let statuses: Vec<_> = listed.iter().filter_map(|subagent| subagent["status"].as_str()).collect();
    assert_eq!(statuses, ["READY", "TERMINATED", "READY"]);
    assert_eq!(stage.actor.followers.lock().unwrap().len(), 2, "terminated subagents do not receive events");
    let other = Stage { session: Session::of(2), ..stage };
    other.spawn().await;
    assert_eq!(
        refused(other.ask("multi_agent/spawn", json!({"name": "w"})).await).1,
        "the limit of 3 subagents is reached"
    );
    let long = json!({"name": "w".repeat(300)});
    assert_eq!(
        refused(other.ask("multi_agent/spawn", long).await).1,
        "the description of a subagent must not exceed 200 bytes"
    );
}

#[tokio::test]
async fn a_model_is_chosen_by_its_name() {
    let stage = stage();
    stage.ask("multi_agent/spawn", json!({"name": "w", "model": "small"})).await.unwrap();
    let asked = stage.actor.asked.lock().unwrap().last().cloned().unwrap();
    assert!(asked.contains(r#"model: "small", provider: "local", thinking: "OFF""#), "{asked}");
    let unknown = stage.ask("multi_agent/spawn", json!({"name": "w", "model": "huge"})).await;
    assert_eq!(refused(unknown), ("runtime_error", "unknown model: huge".to_owned()));
    assert_eq!(stage.actor.sessions.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn subagents_are_seen_by_their_session_and_by_the_same_agent_of_the_same_principal() {
    let stage = stage();
    let list = |session: u64, principal: Option<&str>| {
        let mut call: Call<'static> = call("multi_agent", "multi_agent/list", &json!({}));
        call.terms.principal = principal.map(Into::into);
        let (hub, agreement, session) = (stage.hub.clone(), stage.agreement.clone(), Session::of(session));
        async move { ask(&hub, &agreement, &session, call).await.unwrap()["subagents"].as_array().unwrap().len() }
    };
    stage.spawn().await;
    let mut named = call("multi_agent", "multi_agent/spawn", &json!({"name": "w"}));
    named.terms.principal = Some("alice".into());
    ask(&stage.hub, &stage.agreement, &stage.session, named).await.unwrap();
    let seen = [list(1, None).await, list(2, None).await, list(2, Some("alice")).await, list(2, Some("bob")).await];
    assert_eq!(seen, [2, 0, 1, 0]);
    let mut other = (*stage.agreement).clone();
    other.client.name.push('2');
    let mut call: Call<'static> = call("multi_agent", "multi_agent/list", &json!({}));
    call.terms.principal = Some("alice".into());
    let seen = ask(&stage.hub, &Arc::new(other), &Session::of(2), call).await.unwrap();
    assert_eq!(seen["subagents"], json!([]), "another agent of the principal");
}

#[tokio::test]
async fn subagents_end_with_their_session() {
    let stage = stage();
    let visit = stage.hub.visit();
    let stage = Stage { session: Session::of(visit.id().0), ..stage };
    let id = stage.spawn().await;
    stage.spawn().await;
    stage.delegate(&id, "hang").await;
    let other = Stage { session: Session::of(99), hub: stage.hub.clone(), actor: stage.actor.clone(), ..stage };
    let kept = other.spawn().await;
    drop(visit);
    assert_eq!(stage.actor.sessions.lock().unwrap().len(), 1);
    assert_eq!(other.awaited(&kept).await["status"], "READY");
    other.hub.closed().await;
    assert!(other.actor.sessions.lock().unwrap().is_empty());
    assert!(other.actor.followers.lock().unwrap().is_empty());
}

/// A request of a party in a session of its own.
async fn ask_as(
    stage: &Stage,
    (party, session): (u64, u64),
    kind: &'static str,
    message: Value,
) -> Result<Value, Failure> {
    let mut call: Call<'static> = call("multi_agent", kind, &message);
    call.terms.party = Some(Party(party));
    ask(&stage.hub, &stage.agreement, &Session::of(session), call).await
}

fn described(bytes: usize) -> Value {
    json!({"name": "w", "metadata": {"text": "x".repeat(bytes)}})
}

#[tokio::test]
async fn descriptions_of_subagents_have_a_bound_that_parties_share() {
    let stage = Stage::new(MultiAgentSettings { described_total: 80_000, ..MultiAgentSettings::default() });
    let mut listed = 0;
    for session in 0..40 {
        let spawned = ask_as(&stage, (1, session), "multi_agent/spawn", described(8000)).await.unwrap();
        let id = json!({"subagent_id": spawned["subagent_id"]});
        ask_as(&stage, (1, session), "multi_agent/terminate", id).await.unwrap();
    }
    for session in 0..40 {
        let list = ask_as(&stage, (1, session), "multi_agent/list", json!({})).await.unwrap();
        listed += list["subagents"].as_array().unwrap().len();
    }
    assert!((1..=8).contains(&listed), "the oldest terminated subagents are forgotten: {listed}");
    let fill = async |party: u64| {
        let mut live = 0;
        while live < 100 {
            match ask_as(&stage, (party, 1000 + 100 * party + live), "multi_agent/spawn", described(8000)).await {
                Ok(_) => live += 1,
                Err(failure) => {
                    let why = "the descriptions of subagents take too much memory: terminate one";
                    assert_eq!(refused(Err(failure)), ("runtime_error", why.to_owned()));
                    break;
                }
            }
        }
        live
    };
    assert_eq!((fill(1).await, fill(2).await), (7, 3), "live ones stay, and another party gets its share");
}

#[tokio::test]
async fn the_number_of_subagents_is_shared_by_parties() {
    let stage = Stage::new(MultiAgentSettings { max_total: 4, ..MultiAgentSettings::default() });
    let fill = async |party: u64| {
        let mut live = 0;
        while live < 100 && ask_as(&stage, (party, 100 * party + live), "multi_agent/spawn", described(1)).await.is_ok()
        {
            live += 1;
        }
        live
    };
    assert_eq!((fill(1).await, fill(2).await, fill(1).await), (4, 2, 0));
}

#[tokio::test]
async fn a_list_has_a_bound_and_contains_live_subagents_first() {
    let stage = Stage::new(MultiAgentSettings { listed: 20_000, ..MultiAgentSettings::default() });
    let mut ids = Vec::new();
    for number in 0..5 {
        let spawned = stage.ask("multi_agent/spawn", described(4000)).await.unwrap();
        ids.push(spawned["subagent_id"].clone());
        if number > 0 {
            stage.ask("multi_agent/terminate", json!({"subagent_id": ids[number]})).await.unwrap();
        }
    }
    let listed = stage.ask("multi_agent/list", json!({})).await.unwrap();
    let listed: Vec<_> =
        listed["subagents"].as_array().unwrap().iter().map(|entry| entry["subagent_id"].clone()).collect();
    assert_eq!(listed, [&ids[0], &ids[3], &ids[4]].map(Clone::clone), "the live one, and the newest terminated ones");
}

#[tokio::test]
async fn metadata_is_kept_as_text_and_a_task_has_a_bound() {
    let stage = Stage::new(MultiAgentSettings { task: 200, ..MultiAgentSettings::default() });
    let metadata = r#"{"z":1,"a":123456789012345678901234567890}"#;
    let message = json::raw(format!(r#"{{"name":"w","metadata":{metadata}}}"#));
    let spawned =
        ask(&stage.hub, &stage.agreement, &stage.session, raw_call("multi_agent", "multi_agent/spawn", message));
    let id = spawned.await.unwrap()["subagent_id"].clone();
    let caller: Arc<dyn Caller> = Arc::clone(&stage.session) as _;
    let listed = stage.hub.answer(call("multi_agent", "multi_agent/list", &json!({})), &stage.agreement, &caller);
    let Ok(Reply::Capability(listed)) = listed.outcome().await else { panic!("a list is answered") };
    assert!(listed.get().contains(metadata), "{listed}");
    let wrong = stage.ask("multi_agent/spawn", json!({"name": "w", "metadata": [1]})).await;
    assert_eq!(refused(wrong), ("runtime_error", "metadata must be an object".to_owned()));
    let task = json!({"subagent_id": id, "task_name": "t", "instruction": "x".repeat(200)});
    let refusal = ("runtime_error", "a task must not exceed 200 bytes".to_owned());
    assert_eq!(refused(stage.ask("multi_agent/delegate", task).await), refusal);
}
