//! Signing in with a browser at a certified OpenID provider, from the first event to a token that was renewed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use gladhand_models::scripted::{Script, ScriptedProvider};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::installed::{peers, run, scripts};
use crate::support::{Process, gladhand};

/// The provider, in a process that ends with this value.
struct Issuer {
    child: Child,
    address: String,
}

impl Issuer {
    fn start() -> Self {
        let mut command = Command::new(peers().join("bin/node"));
        let package = peers().join("oidc/node_modules/oidc-provider/lib/index.js");
        command.arg(scripts().join("logins/issuer.mjs")).arg(package).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the provider starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        stdout.read_line(&mut line).expect("it says where it is");
        let said: Value = serde_json::from_str(&line).expect("a line of JSON");
        Self { child, address: said["issuer"].as_str().expect("an address").to_owned() }
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of ours that knows the provider, and a service with models that takes its tokens.
struct Scene {
    process: Process,
    models: ScriptedProvider,
    _rest: (Issuer, TempDir, Runtime),
}

impl Scene {
    fn new() -> Self {
        let issuer = Issuer::start();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let said = json!([
            {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": "welcome"},
            {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
        ]);
        let script = json!({"routes": [
            {"path": "/codex/models", "otherwise": {"json": {"models": [{"slug": "gpt-5-codex", "display_name": "GPT-5 Codex", "priority": 1}]}}},
            {"path": "/codex/responses", "otherwise": {"sse": said}},
        ]});
        let script = Script::parse(&script.to_string()).expect("a script");
        let models = runtime.block_on(ScriptedProvider::start(script)).expect("a free port");
        let home = tempfile::tempdir().expect("a folder");
        let mut command = gladhand();
        command.args(["serve", "--dialect", "loaf"]).current_dir(home.path());
        command.env("GLADHAND_DATA_DIR", home.path()).env("GLADHAND_OPENAI_CLIENT_ID", "gladhand-test");
        command.env("GLADHAND_OPENAI_ISSUER", &issuer.address);
        command.env("GLADHAND_OPENAI_BASE", format!("{}/codex", models.origin()));
        command.env("GLADHAND_OPENAI_BACKEND_BASE", format!("{}/backend", models.origin()));
        command.env("GLADHAND_OLLAMA_BASE", "").env("GLADHAND_LLAMACPP_BASE", "").env_remove("OPENAI_API_KEY");
        Self { process: Process::start(command), models, _rest: (issuer, home, runtime) }
    }

    /// All messages until the answer to a request, without the answers to others.
    fn ask(&mut self, id: u64, method: &str, params: Value) -> Vec<Value> {
        self.process.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        self.until(|message| message["id"] == id)
    }

    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            heard.push(self.process.value());
            if is_it(&heard[heard.len() - 1]) {
                return heard;
            }
        }
    }

    /// Begins to sign in, and lets a person do something about it in a browser.
    fn sign_in(&mut self, manner: &str) -> (Value, Vec<Value>) {
        let request =
            json!({"jsonrpc": "2.0", "id": 1, "method": "auth.connect.openai", "params": {"mode": "browser"}});
        self.process.send(&request.to_string());
        let heard = self.until(|message| message["params"]["type"] == "auth.flow.url");
        let address = heard[heard.len() - 1]["params"]["payload"]["url"].as_str().expect("an address").to_owned();
        let browser = [peers().join("bin/node").into(), scripts().join("logins/browser.mjs").into()];
        let page = run(&[&browser[..], &[address.into(), manner.into()]].concat()).json;
        (page, self.until(|message| message["id"] == 1))
    }

    /// The tokens that models received, one after the other.
    fn tokens(&self) -> Vec<String> {
        let asked = self.models.requests_of("/codex/responses");
        asked.iter().map(|asked| asked.headers["authorization"].clone()).collect()
    }
}

fn kinds(heard: &[Value]) -> Vec<&str> {
    heard.iter().filter_map(|message| message["params"]["type"].as_str()).collect()
}

#[test]
fn a_login_is_stored_and_renewed_when_it_expires() {
    let mut scene = Scene::new();
    let (page, heard) = scene.sign_in("agrees");
    assert_eq!((&page["path"], &page["status"]), (&json!("/success"), &json!(200)), "{page}");
    assert_eq!(kinds(&heard), ["auth.flow.completed", "state.changed"], "{heard:?}");
    let answer = &heard[heard.len() - 1]["result"];
    assert_eq!(*answer, json!({"provider": "openai", "login_method": "browser", "account_id": "account-of-ada"}));

    let session = scene.ask(2, "session.create", json!({}));
    let session = session[session.len() - 1]["result"]["session_id"].clone();
    for (id, text) in [(3, "one"), (4, "two"), (5, "three")] {
        scene.ask(id, "session.send", json!({"session_id": session, "text": text}));
        scene.until(|message| message["params"]["payload"]["pending"] == false);
    }
    let tokens = scene.tokens();
    let unlike: std::collections::BTreeSet<_> = tokens.iter().collect();
    assert_eq!((tokens.len(), unlike.len()), (3, 3), "each was renewed, with what the renewal before it gave");
    assert!(tokens.iter().all(|token| token.starts_with("Bearer ey")), "{tokens:?}");
    assert_eq!(scene.models.requests_of("/codex/responses")[0].headers["chatgpt-account-id"], "account-of-ada");
    assert_eq!(scene.process.finish().0, 0);
}

#[test]
fn a_redirect_with_another_state_fails_the_login() {
    let mut scene = Scene::new();
    let (page, heard) = scene.sign_in("is-fooled");
    assert_eq!((&page["status"], &page["text"]), (&json!(400), &json!("State mismatch.")), "{page}");
    assert_eq!(kinds(&heard), ["auth.flow.failed"], "{heard:?}");
    let error = &heard[heard.len() - 1]["error"];
    assert_eq!(error["message"], "OAuth login failed: state mismatch.", "{error}");
}

#[test]
fn a_declined_login_fails_and_can_be_repeated() {
    let mut scene = Scene::new();
    let (page, heard) = scene.sign_in("declines");
    assert_eq!((&page["path"], &page["status"]), (&json!("/auth/callback"), &json!(400)), "{page}");
    assert_eq!(kinds(&heard), ["auth.flow.failed"], "{heard:?}");
    let message = heard[heard.len() - 1]["error"]["message"].as_str().expect("an error").to_owned();
    assert_eq!(message, "OAuth login failed: End-User aborted interaction");
    let (page, heard) = scene.sign_in("agrees");
    assert_eq!((&page["path"], kinds(&heard)), (&json!("/success"), vec!["auth.flow.completed", "state.changed"]));
}

#[test]
fn an_unfinished_login_does_not_delay_the_exit() {
    let mut scene = Scene::new();
    scene.process.send(r#"{"jsonrpc":"2.0","id":1,"method":"auth.connect.openai","params":{"mode":"browser"}}"#);
    scene.until(|message| message["params"]["type"] == "auth.flow.url");
    let (code, rest, errors) = scene.process.finish();
    assert_eq!(code, 0, "{rest:?} {errors}");
}
