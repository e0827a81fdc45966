//! One session with our fixture, cell by cell, and one with our toolbox to give up a call.

use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    GetPromptRequestParams, Implementation, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
    ResourceUpdatedNotificationParam, SamplingMessage, ServerNotification, SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions, RequestContext, RunningService,
};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{sleep, timeout};

use crate::Failure;

const PATIENCE: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_millis(1200);
const WATCHED: &str = "test://watched-resource";

#[derive(Deserialize)]
struct Plan {
    mode: String,
    fixture: Target,
    toolbox: Target,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Target {
    Url(String),
    Command(Vec<String>),
}

/// Answers for a person and a model, and tells what it hears.
struct Ears {
    progress: mpsc::UnboundedSender<(f64, Option<f64>)>,
    updates: mpsc::UnboundedSender<String>,
}

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_sampling().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("rmcp", "3"))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("Bern"), "m".to_owned()))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let content = json!({"username": "ada", "email": "ada@example.org"});
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.progress.send((params.progress, params.total));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.updates.send(params.uri);
    }
}

struct Session {
    service: RunningService<RoleClient, Ears>,
    progress: Mutex<mpsc::UnboundedReceiver<(f64, Option<f64>)>>,
    updates: Mutex<mpsc::UnboundedReceiver<String>>,
}

impl Session {
    async fn open(target: &Target, mode: &str) -> Result<Self, Failure> {
        let (progress, hear_progress) = mpsc::unbounded_channel();
        let (updates, hear_updates) = mpsc::unbounded_channel();
        let ears = Ears { progress, updates };
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let lifecycle = match mode {
            "initialize" => ClientLifecycleMode::Initialize,
            "discover" => ClientLifecycleMode::Discover { preferred_versions },
            _ => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
        };
        let service = match target {
            Target::Url(url) => {
                let transport = StreamableHttpClientTransport::from_uri(url.as_str());
                ears.serve_with_lifecycle(transport, lifecycle).await?
            }
            Target::Command(words) => {
                let mut command = tokio::process::Command::new(&words[0]);
                command.args(&words[1..]);
                ears.serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?
            }
        };
        Ok(Self { service, progress: Mutex::new(hear_progress), updates: Mutex::new(hear_updates) })
    }

    fn protocol(&self) -> Result<Value, Failure> {
        Ok(json!(self.service.peer_info().ok_or("no opening")?.protocol_version))
    }

    async fn call(&self, name: &'static str, arguments: Value) -> Result<Value, Failure> {
        text(&self.service.call_tool(params(name, arguments)).await?)
    }

    async fn list(&self) -> Result<Value, Failure> {
        let tools = self.service.list_all_tools().await?;
        Ok(json!(tools.iter().any(|tool| tool.name == "test_simple_text")))
    }

    async fn progress(&self) -> Result<Value, Failure> {
        self.call("test_tool_with_progress", json!({})).await?;
        let mut reports = Vec::new();
        while let Ok((progress, total)) = self.progress.lock().await.try_recv() {
            // The last one may come together with the reply.
            if total.is_some_and(|total| progress < total) {
                reports.push(json!([progress as u64, total.map(|total| total as u64)]));
            }
        }
        Ok(Value::Array(reports))
    }

    async fn watch(&self) -> Result<Value, Failure> {
        let is_stateless = self.protocol()? == json!("2026-07-28");
        if is_stateless {
            let filter = SubscriptionFilter::builder().resource_subscriptions([WATCHED]).build();
            let mut subscription = self.service.listen(filter).await?;
            self.call("test_trigger_resource_update", json!({})).await?;
            return match subscription.next().await? {
                Some(ServerNotification::ResourceUpdatedNotification(updated)) => Ok(json!(updated.params.uri)),
                other => Err(format!("{other:?}").into()),
            };
        }
        self.service.subscribe(SubscribeRequestParams::new(WATCHED)).await?;
        self.call("test_trigger_resource_update", json!({})).await?;
        let updated = self.updates.lock().await.recv().await;
        Ok(json!(updated))
    }

    async fn read(&self) -> Result<Value, Failure> {
        let read = self.service.read_resource(ReadResourceRequestParams::new("test://static-text")).await?;
        Ok(json!(read.contents)[0]["text"].take())
    }

    async fn prompt(&self) -> Result<Value, Failure> {
        let arguments = object(json!({"arg1": "a", "arg2": "b"}));
        let params = GetPromptRequestParams::new("test_prompt_with_arguments").with_arguments(arguments);
        Ok(json!(self.service.get_prompt(params).await?.messages)[0]["content"]["text"].take())
    }

    /// Cancels a long call at its first progress notification, then checks whether the server continues it.
    async fn give_up(&self) -> Result<Value, Failure> {
        let wait = CallToolRequest::new(params("wait", json!({"ms": 60000, "steps": 120})));
        let request = ClientRequest::CallToolRequest(wait);
        let handle = self.service.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        self.progress.lock().await.recv().await;
        handle.cancel(Some("enough".to_owned())).await?;
        sleep(SILENCE).await;
        let mut reports = 1;
        while self.progress.lock().await.try_recv().is_ok() {
            reports += 1;
        }
        let afterwards = self.call("echo", json!({"message": "still here"})).await?;
        Ok(json!({"cancelled": true, "reports": reports, "afterwards": afterwards}))
    }

    async fn close(self) -> Result<Value, Failure> {
        self.service.cancel().await?;
        Ok(json!(true))
    }
}

pub(crate) async fn run(plan: &str) -> Result<(), Failure> {
    let plan: Plan = serde_json::from_str(plan)?;
    let mut seen = Map::new();
    let mut note = |name: &str, cell: Value| seen.insert(name.to_owned(), cell);
    match timeout(PATIENCE, Session::open(&plan.fixture, &plan.mode)).await? {
        Err(error) => drop(note("open", json!({"error": error.to_string()}))),
        Ok(session) => {
            note("open", session.protocol()?);
            note("list", cell(session.list()).await);
            note("call", cell(session.call("test_simple_text", json!({}))).await);
            note("progress", cell(session.progress()).await);
            note("elicit", cell(session.call("test_elicitation", json!({"message": "Who are you?"}))).await);
            note("sample", cell(session.call("test_sampling", json!({"prompt": "Which city?"}))).await);
            note("subscribe", cell(session.watch()).await);
            note("read", cell(session.read()).await);
            note("prompt", cell(session.prompt()).await);
            note("close", cell(session.close()).await);
        }
    }
    let cancel = async {
        let session = Session::open(&plan.toolbox, &plan.mode).await?;
        let seen = session.give_up().await?;
        session.close().await?;
        Ok(seen)
    };
    note("cancel", cell(cancel).await);
    println!("{}", Value::Object(seen));
    Ok(())
}

async fn cell(look: impl Future<Output = Result<Value, Failure>>) -> Value {
    match timeout(PATIENCE, look).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => json!({"error": error.to_string()}),
        Err(_) => json!({"error": "nothing came"}),
    }
}

fn params(name: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(object(arguments))
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn text(result: &CallToolResult) -> Result<Value, Failure> {
    let text = result.content.first().and_then(|content| content.as_text()).ok_or("no text")?;
    Ok(json!(text.text))
}
