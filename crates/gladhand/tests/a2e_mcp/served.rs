//! A registered server over HTTP that has everything: resources, prompts, notifications, questions.

use std::sync::Arc;

use gladhand::Pattern;
use gladhand::Service;
use gladhand::dialects::Stop;
use gladhand::hub::policy::{Effect, Governor, Policy, Rule, Subjects};
use gladhand::hub::{Answer, Context, Features, Hub, Kit, Provider};
use gladhand::operations::{
    Content, Contents, Failure, Level, Log, Notice, Progress, Prompt, PromptResult, Question, Resource, Tool, ToolCall,
    ToolResult,
};
use gladhand::providers::a2e_mcp::{RegistrationLimits, Root};
use gladhand::wire::json;
use gladhand_server::http::Http;
use serde_json::{Value, json};
use url::Url;

use crate::stage::Stage;

/// Rings its notifier when it is told to.
#[derive(Debug, Default)]
struct Ringing {
    has_more: std::sync::atomic::AtomicBool,
}

impl Provider for Ringing {
    fn features(&self) -> Features {
        Features { tool_changes: true, resource_updates: true, ..Features::default() }
    }

    fn tools(&self) -> Vec<Tool> {
        let more = self.has_more.load(std::sync::atomic::Ordering::Relaxed).then(|| Tool::plain("more", ""));
        [Tool::plain("grow", ""), Tool::plain("touch", "")].into_iter().chain(more).collect()
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        match &*call.name {
            "grow" => {
                self.has_more.store(true, std::sync::atomic::Ordering::Relaxed);
                context.notifier.tools_changed();
            }
            _ => ["mem://greeting", "mem://blob"].iter().for_each(|uri| context.notifier.resource_updated(uri)),
        }
        ToolResult::text("done").into()
    }
}

fn kit() -> Kit {
    let review = Prompt::new("review", "Reviews code").argument("code", "What to review");
    let greeting = Resource::new("mem://greeting", "greeting", "A greeting").of_type("text/markdown");
    Kit::new()
        .resource(greeting, |uri, _| Ok(Contents::text(uri, "text/markdown", "hello")))
        .resource(Resource::new("mem://blob", "blob", "Bytes"), |uri, _| Ok(Contents::blob(uri, "image/png", "AAAA")))
        .prompt(review, |call, _| {
            let arguments: Value = call.read()?;
            Ok(PromptResult::text(&format!("review {}", arguments["code"])))
        })
        .resource_updates()
        .slow_tool(Tool::plain("sample", ""), |_, reporter| async move {
            let asked =
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}], "maxTokens": 5});
            let said = reporter.ask(Question::sample(&asked)).await?;
            Ok(ToolResult::text(said.get()))
        })
        .slow_tool(Tool::plain("roots", ""), |_, reporter| async move {
            let said = reporter.ask(Question::roots()).await?;
            Ok(ToolResult::text(said.get()))
        })
        .slow_tool(Tool::plain("work", ""), |_, reporter| async move {
            reporter.progress(Progress { progress: 1.0, total: Some(2.0), message: Some("half".to_owned()) });
            reporter.log(Log::new(Level::Error, Some("w".to_owned()), json::to_raw("careful")));
            Ok::<_, Failure>(ToolResult::of([Content::text("seen"), Content::image("image/png", "AAAA")]))
        })
        .tool(Tool::plain("fail", ""), |_, _| Ok(ToolResult::failure("it did not work")))
}

/// The server, as long as this is kept.
struct Served {
    url: String,
    _stop: tokio::sync::oneshot::Sender<Stop>,
}

async fn served() -> Served {
    let hub = Hub::new(vec![Box::new(kit()), Box::<Ringing>::default()]).unwrap();
    let http = Http { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Http::default() };
    let server = Service::new(hub).bind_http(http).await.unwrap();
    let url = server.urls()[0].clone();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    tokio::spawn(server.run(async { stopped.await.unwrap_or(Stop::Terminated) }));
    Served { url, _stop: stop }
}

async fn registered(settings: RegistrationLimits, more: Value) -> (Stage, Served) {
    let served = served().await;
    let stage = Stage::new(RegistrationLimits { urls: vec![Url::parse(&served.url).unwrap()], ..settings }, Vec::new());
    let mut config = json!({"server_id": "web", "transport": "sse", "url": served.url});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = stage.register(config).await;
    assert_eq!(answer["ok"], true, "{answer}");
    (stage, served)
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    let (stage, _served) = registered(RegistrationLimits::default(), json!({})).await;
    let listed = stage.ask("mcp/resource/list/req", json!({"server_id": "web"})).await.unwrap();
    let expected = json!({
        "uri": "mem://greeting", "name": "greeting", "description": "A greeting", "mime_type": "text/markdown",
        "server_id": "web", "annotations": {},
    });
    assert_eq!(listed["resources"][0], expected);
    assert_eq!((listed["resources"].as_array().unwrap().len(), &listed["next_cursor"]), (2, &json!("")));
    let read = stage.ask("mcp/resource/read/req", json!({"uri": "mem://greeting"})).await.unwrap();
    let part =
        json!({"uri": "mem://greeting", "mime_type": "text/markdown", "text": "hello", "blob": "", "type": "text"});
    assert_eq!(read, json!({"contents": [part], "server_id": "web", "error": ""}));
    let blob = stage.ask("mcp/resource/read/req", json!({"uri": "mem://blob", "server_id": "web"})).await.unwrap();
    let part = json!({"uri": "mem://blob", "mime_type": "image/png", "text": "", "blob": "AAAA", "type": "blob"});
    assert_eq!(blob["contents"], json!([part]));
    let unknown = stage.refused("mcp/resource/read/req", json!({"uri": "mem://nothing"})).await;
    assert_eq!(unknown.0, "mcp_resource_not_found", "{unknown:?}");
}

#[tokio::test]
async fn only_allowed_resources_are_listed_and_read() {
    let (stage, _served) = registered(RegistrationLimits::default(), json!({"resource_allow_list": ["blob"]})).await;
    let listed = stage.ask("mcp/resource/list/req", json!({})).await.unwrap();
    assert_eq!(listed["resources"].as_array().unwrap().len(), 1);
    let forbidden = json!({"uri": "mem://greeting", "server_id": "web"});
    for kind in ["mcp/resource/read/req", "mcp/resource/subscribe/req"] {
        assert_eq!(stage.refused(kind, forbidden.clone()).await.0, "mcp_resource_not_found");
    }
}

#[tokio::test]
async fn prompts_are_listed_and_filled_in() {
    let (stage, _served) = registered(RegistrationLimits::default(), json!({})).await;
    let listed = stage.ask("mcp/prompt/list/req", json!({})).await.unwrap();
    let argument = json!({"name": "code", "description": "What to review", "required": true});
    let review = json!({"name": "review", "description": "Reviews code", "server_id": "web", "arguments": [argument]});
    assert_eq!(listed, json!({"prompts": [review], "next_cursor": ""}));
    let filled = stage.ask("mcp/prompt/get/req", json!({"name": "review", "arguments": {"code": "x"}})).await.unwrap();
    let message = json!({"role": "user", "content": {"type": "text", "text": "review \"x\""}});
    assert_eq!(filled, json!({"description": "", "messages": [message], "server_id": "web", "error": ""}));
    for server in ["", "web"] {
        let unknown = stage.refused("mcp/prompt/get/req", json!({"name": "nothing", "server_id": server})).await;
        assert_eq!(unknown.0, "mcp_prompt_not_found", "{unknown:?}");
    }
}

#[tokio::test]
async fn changes_are_pushed_and_lists_asked_for_again() {
    let (stage, _served) = registered(RegistrationLimits::default(), json!({})).await;
    let subscribed = stage.ask("mcp/resource/subscribe/req", json!({"uri": "mem://greeting"})).await.unwrap();
    assert_eq!(subscribed, json!({"ok": true, "error": ""}));
    stage.call("web__touch", &json!({})).await.unwrap();
    let push = stage.pushed("notifications/resources/updated").await;
    let expected = json!({
        "server_id": "web", "method": "notifications/resources/updated", "params": {"uri": "mem://greeting"},
    });
    assert_eq!(push, expected);
    let mut changes = stage.hub.changes();
    assert!(!stage.tools().await.iter().any(|tool| tool.name == "web__more"));
    stage.call("web__grow", &json!({})).await.unwrap();
    stage.pushed("notifications/tools/list_changed").await;
    while !stage.tools().await.iter().any(|tool| tool.name == "web__more") {
        let changed = tokio::time::timeout(crate::stage::PATIENCE, changes.recv()).await.expect("it is told");
        assert!(!matches!(changed, Ok(Notice::Log(..))));
    }
}

#[tokio::test]
async fn a_resource_denied_after_its_subscription_causes_no_push_of_a_registered_server() {
    let (stage, _served) = registered(RegistrationLimits::default(), json!({})).await;
    let governor = Arc::new(Governor::default());
    let _ = stage.hub.clone().governed(Arc::clone(&governor));
    for uri in ["mem://greeting", "mem://blob"] {
        stage.ask("mcp/resource/subscribe/req", json!({"uri": uri})).await.unwrap();
    }
    let about = Subjects { resources: vec![Pattern("mem://greeting".to_owned())], ..Subjects::default() };
    let rules = vec![Rule { about, ..Rule::new("no", Effect::Deny) }];
    governor.replace(Policy { rules, ..Policy::default() });
    stage.call("web__touch", &json!({})).await.unwrap();
    let push = stage.pushed("notifications/resources/updated").await;
    assert_eq!(push["params"], json!({"uri": "mem://blob"}), "the first change is not told");
}

#[tokio::test]
async fn sampling_requests_of_a_registered_server_reach_the_agent() {
    let (stage, _served) = registered(RegistrationLimits::default(), json!({})).await;
    let declined = stage.call("web__sample", &json!({})).await;
    assert!(declined.is_err() || declined.is_ok_and(|result| result.failed));
    let said = json!({"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"});
    *stage.agent.answer.lock().unwrap() = Some(json::to_raw(&said));
    let data = stage.data("web__sample", &json!({})).await;
    let heard: Value = serde_json::from_str(data["text"].as_str().unwrap()).unwrap();
    assert_eq!(heard["content"]["text"], "4");
    let asked = stage.agent.asked.lock().unwrap().last().cloned().unwrap();
    assert_eq!((asked.0.as_deref(), asked.1.as_str()), (Some("web"), "Sample"));
    assert_eq!(asked.2["messages"][0]["content"]["text"], "2+2?");
    *stage.agent.answer.lock().unwrap() = Some(json::to_raw(&json!({"roots": [{"uri": "file:///a"}]})));
    assert!(stage.data("web__roots", &json!({})).await["text"].as_str().unwrap().contains("file:///a"));
    assert_eq!(stage.agent.asked.lock().unwrap().last().unwrap().1, "Roots");
}

#[tokio::test]
async fn configured_roots_are_returned_without_a_request_to_the_agent() {
    let roots = vec![Root { uri: "file:///workspace".to_owned(), name: "ws".to_owned() }];
    let (stage, _served) = registered(RegistrationLimits { roots, ..RegistrationLimits::default() }, json!({})).await;
    assert!(stage.data("web__roots", &json!({})).await["text"].as_str().unwrap().contains("file:///workspace"));
    assert!(stage.agent.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn results_and_progress_of_a_tool_are_forwarded() {
    let (stage, _served) = registered(RegistrationLimits::default(), json!({})).await;
    let data = stage.data("web__work", &json!({})).await;
    assert_eq!(data["text"], "seen");
    assert_eq!(data["images"], json!([{"type": "image", "data": "AAAA", "mimeType": "image/png"}]));
    assert_eq!(data["content"].as_array().unwrap().len(), 2);
    let is_half = |notice: &Notice| matches!(notice, Notice::Progress(_, progress) if progress.total == Some(2.0));
    assert!(stage.agent.told.lock().unwrap().iter().any(is_half));
    let failed = stage.call("web__fail", &json!({})).await.unwrap();
    assert!(failed.failed && failed.joined_text() == "it did not work");
}

#[tokio::test]
async fn a_push_reaches_only_the_session_that_subscribed() {
    let (stage, _served) = registered(RegistrationLimits::default(), json!({})).await;
    let other = stage.other(2);
    stage.ask("mcp/resource/subscribe/req", json!({"uri": "mem://greeting"})).await.unwrap();
    stage.call("web__touch", &json!({})).await.unwrap();
    stage.pushed("notifications/resources/updated").await;
    assert!(other.agent.pushed.lock().unwrap().is_empty());
    assert_eq!(Arc::strong_count(&other.agent), 1);
}
