//! Faults during a turn: the server is killed, a provider breaks off, two servers share one folder.

use gladhand_models::scripted::{Reply, Script, ScriptedProvider};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::stage::Stage;
use crate::support::Process;

const MODELS: &str = "/or/models";
const CHAT: &str = "/or/chat/completions";

/// A client of one server.
pub(super) struct Client {
    pub(super) process: Process,
    next: u64,
}

impl Client {
    pub(super) fn start(stage: &Stage, provider: &ScriptedProvider) -> Self {
        Self { process: Process::start(stage.set(&Default::default(), provider.origin())), next: 0 }
    }

    /// Asks, and returns the result.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.process.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        let answer = self.until(|message| message["id"] == id);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub(super) fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.process.value();
            if is_it(&message) {
                return message;
            }
        }
    }

    /// Waits for an event of a type, and returns its payload.
    fn event(&mut self, kind: &str) -> Value {
        self.until(|message| message["params"]["type"] == kind)["params"]["payload"].clone()
    }

    /// A session with a model.
    pub(super) fn session(&mut self) -> Value {
        self.ask("auth.set.openrouter_key", json!({"api_key": "sk-test"}));
        let model = json!({"model_id": "acme/plain-1", "provider": "openrouter", "thinking_level": "OFF"});
        self.ask("model.select", model);
        self.ask("session.create", json!({}))["session_id"].clone()
    }

    /// Sends a prompt and waits for the end of its turn.
    fn turn(&mut self, session: &Value, text: &str) {
        self.ask("session.send", json!({"session_id": session, "text": text}));
        self.until(|message| message["params"]["payload"]["pending"] == false);
    }
}

pub(super) fn provider(runtime: &Runtime, replies: Vec<Reply>) -> ScriptedProvider {
    let models = json!({"data": [{"id": "acme/plain-1", "name": "Plain", "context_length": 32000, "supported_parameters": ["tools"]}]});
    let script = json!({"routes": [{"path": MODELS, "otherwise": {"json": models}}]});
    let script = Script::parse(&script.to_string()).expect("a script");
    let provider = runtime.block_on(ScriptedProvider::start(script)).expect("a port is free");
    replies.into_iter().for_each(|reply| provider.push(CHAT, reply));
    provider
}

/// A streamed answer with these steps.
pub(super) fn streamed(steps: &[Value]) -> Reply {
    let step = |step: &Value| match step.as_str() {
        Some(text) => json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
        None => step.clone(),
    };
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    Reply::events(&steps.iter().map(step).chain([end, json!("[DONE]")]).collect::<Vec<_>>())
}

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// The texts of the messages in a saved chat.
fn texts(chat: &Value) -> Vec<&str> {
    let messages = chat["messages"].as_array().or_else(|| chat["history"].as_array());
    messages.into_iter().flatten().filter_map(|message| message["text"].as_str()).collect()
}

#[test]
fn a_chat_survives_a_server_killed_during_a_turn() {
    let (runtime, stage) = (runtime(), Stage::new());
    let half = streamed(&[json!("half of "), json!({"_stall": true})]);
    let provider = provider(&runtime, vec![streamed(&[json!("one")]), half, streamed(&[json!("three")])]);
    let mut client = Client::start(&stage, &provider);
    let session = client.session();
    client.turn(&session, "first");
    client.ask("session.send", json!({"session_id": session, "text": "second"}));
    client.event("session.stream.chunk");
    client.process.signal(Signal::KILL);
    client.process.wait();

    let mut client = Client::start(&stage, &provider);
    let chat = client.ask("history.get", json!({"last": true}));
    assert_eq!(texts(&chat)[..2], ["first", "one"], "{chat}");
    let session = client.ask("session.create", json!({}))["session_id"].clone();
    client.ask("command.execute", json!({"session_id": session, "raw_command": "/history last"}));
    client.turn(&session, "third");
    let state = client.ask("session.get", json!({"session_id": session}));
    let told = texts(&json!({"messages": state["history"]})).join("|");
    assert!(told.starts_with("first|one|") && told.ends_with("third|three"), "{told}");
}

#[test]
fn an_interrupted_model_reply_ends_the_turn_and_not_the_session() {
    let (runtime, stage) = (runtime(), Stage::new());
    let broken = || streamed(&[json!("half of "), json!({"_cut": true})]);
    let provider = provider(&runtime, vec![broken(), streamed(&[json!("whole")])]);
    let mut client = Client::start(&stage, &provider);
    let session = client.session();
    client.ask("session.send", json!({"session_id": session, "text": "first"}));
    client.until(|message| message["params"]["payload"]["pending"] == false);
    client.turn(&session, "second");
    let state = client.ask("session.get", json!({"session_id": session}));
    assert_eq!((&state["pending"], &state["statusLabel"]), (&json!(false), &json!("ready")), "{state}");
    assert_eq!(texts(&state).last(), Some(&"whole"), "{state}");
}

#[test]
fn a_full_disk_is_reported_once_and_the_conversation_continues() {
    let (runtime, stage) = (runtime(), Stage::new());
    let provider = provider(&runtime, vec![streamed(&[json!("one")]), streamed(&[json!("two")])]);
    let server = stage.set(&Default::default(), provider.origin());
    // No file may grow; a process without a handler for that is ended by a signal.
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", r#"ulimit -f 0; exec "$0" "$@""#]).arg(server.get_program()).args(server.get_args());
    limited.current_dir(server.get_current_dir().expect("it has a folder"));
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.env("OPENROUTER_API_KEY", "sk-test");
    let mut client = Client { process: Process::start(limited), next: 0 };
    let model = json!({"model_id": "acme/plain-1", "provider": "openrouter", "thinking_level": "OFF"});
    client.ask("model.select", model);
    let session = client.ask("session.create", json!({}))["session_id"].clone();
    client.turn(&session, "first");
    client.turn(&session, "second");
    let state = client.ask("session.get", json!({"session_id": session}));
    assert_eq!(texts(&json!({"messages": state["history"]})), ["first", "one", "second", "two"], "{state}");
    let told = texts(&state).iter().filter(|text| text.contains("history save failed")).count();
    assert_eq!(told, 1, "once is enough: {state}");
}

#[test]
fn two_servers_share_a_folder() {
    let (runtime, stage) = (runtime(), Stage::new());
    let provider = provider(&runtime, (0..8).map(|at| streamed(&[json!(format!("answer {at}"))])).collect());
    let mut clients = [Client::start(&stage, &provider), Client::start(&stage, &provider)];
    let sessions = clients.each_mut().map(Client::session);
    for round in 0..4 {
        for (client, session) in clients.iter_mut().zip(&sessions) {
            client.turn(session, &format!("question {round}"));
        }
    }
    for client in clients {
        let (code, _, errors) = client.process.finish();
        assert_eq!(code, 0, "{errors}");
    }
    let mut third = Client::start(&stage, &provider);
    let chats = third.ask("history.list", json!({}));
    let counts: Vec<_> =
        chats["sessions"].as_array().expect("a list").iter().map(|chat| &chat["messageCount"]).collect();
    assert_eq!(counts, [8, 8], "{chats}");
    let state = third.ask("state.get", json!({}));
    assert_eq!(state["model"]["selectedModel"], "acme/plain-1", "{state}");
}
