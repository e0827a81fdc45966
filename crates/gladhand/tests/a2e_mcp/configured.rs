//! The servers of the configuration, through the hub.

use std::sync::Arc;

use gladhand::Pattern;
use gladhand::hub::policy::{Effect, Governor, Policy, Rule, Subjects};
use gladhand::hub::{
    Answer, Context, Features, List, Mount, Naming, PromptProvider, Provider, ResourceProvider, ServerProvider,
    UpstreamStatus,
};
use gladhand::operations::{Contents, Failure, Prompt, PromptResult, Resource, ToolCall};
use gladhand::providers::a2e_mcp::RegistrationLimits;
use serde_json::json;

use crate::stage::Stage;

/// Stands for an upstream.
#[derive(Debug)]
struct Library {
    state: &'static str,
    tells: bool,
}

impl Provider for Library {
    fn features(&self) -> Features {
        Features { resource_updates: self.tells, ..Features::default() }
    }

    fn as_resources(&self) -> Option<&dyn ResourceProvider> {
        Some(self)
    }

    fn as_prompts(&self) -> Option<&dyn PromptProvider> {
        Some(self)
    }

    fn as_server(&self) -> Option<&dyn ServerProvider> {
        Some(self)
    }
}

impl ResourceProvider for Library {
    fn resources(&self) -> Vec<Resource> {
        vec![Resource::new("lib://book", "book", "")]
    }

    fn read(&self, uri: &str, context: &Context<'_>) -> Answer {
        context.notifier.resource_updated(uri);
        Contents::text(uri, "text/plain", "once upon a time").into()
    }
}

impl PromptProvider for Library {
    fn prompts(&self) -> Vec<Prompt> {
        vec![Prompt::new("summary", "Sums up")]
    }

    fn prompt(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        context.notifier.resource_updated("lib://book");
        PromptResult::text(&call.name).into()
    }
}

impl ServerProvider for Library {
    fn status(&self) -> Option<UpstreamStatus> {
        let detail = match self.state {
            "open" => Some("big library 2.0 as mcp 2025-11-25".to_owned()),
            "failed" => Some("nobody is there".to_owned()),
            _ => None,
        };
        let (name, target) = ("library".to_owned(), "https://library".to_owned());
        Some(UpstreamStatus {
            name,
            target,
            state: self.state.to_owned(),
            detail,
            tools: 3,
            ..UpstreamStatus::default()
        })
    }

    fn trouble(&self, _: List) -> Option<Failure> {
        None
    }
}

fn stage(state: &'static str, tells: bool) -> Stage {
    let library = Mount { provider: Arc::new(Library { state, tells }), naming: Naming::prefixed("lib") };
    Stage::new(RegistrationLimits::default(), vec![library])
}

#[tokio::test]
async fn configured_servers_are_listed_with_their_status() {
    let list = |state| async move { stage(state, true).ask("mcp/server/list/req", json!({})).await.unwrap() };
    let open = json!({
        "server_id": "library", "name": "library", "transport": "sse", "status": "ready", "mcp_version": "2025-11-25",
        "server_name": "big library", "server_version": "2.0", "tools_count": 3, "resources_count": 1,
        "prompts_count": 1, "last_ping_ms": 0.0, "error": "", "connected_at": 0.0,
    });
    assert_eq!(list("open").await, json!({"servers": [open]}));
    assert_eq!(list("idle").await["servers"][0]["status"], "ready");
    let failed = list("failed").await;
    assert_eq!(
        (&failed["servers"][0]["status"], &failed["servers"][0]["error"]),
        (&json!("error"), &json!("nobody is there"))
    );
}

#[tokio::test]
async fn resources_and_prompts_of_configured_servers_have_the_names_of_the_hub() {
    let stage = stage("open", true);
    let listed = stage.ask("mcp/resource/list/req", json!({"server_id": "library"})).await.unwrap();
    assert_eq!(
        (&listed["resources"][0]["uri"], &listed["resources"][0]["server_id"]),
        (&json!("lib://book"), &json!("library"))
    );
    let read = stage.ask("mcp/resource/read/req", json!({"uri": "lib://book"})).await.unwrap();
    assert_eq!((&read["contents"][0]["text"], &read["server_id"]), (&json!("once upon a time"), &json!("library")));
    let listed = stage.ask("mcp/prompt/list/req", json!({})).await.unwrap();
    let name = listed["prompts"][0]["name"].as_str().unwrap();
    assert!(name.starts_with("lib") && name.ends_with("summary"), "{name}");
    let filled = stage.ask("mcp/prompt/get/req", json!({"name": name, "server_id": "library"})).await.unwrap();
    assert_eq!(
        (&filled["messages"][0]["content"]["text"], &filled["server_id"]),
        (&json!("summary"), &json!("library"))
    );
    let unknown = stage.refused("mcp/resource/read/req", json!({"uri": "lib://nothing"})).await;
    assert_eq!(unknown.0, "mcp_resource_not_found");
    assert_eq!(stage.refused("mcp/prompt/get/req", json!({"name": "nothing"})).await.0, "mcp_prompt_not_found");
}

#[tokio::test]
async fn resources_of_configured_servers_that_report_changes_can_be_subscribed() {
    let stage = stage("open", true);
    let visit = stage.hub.visit();
    let guest = stage.other(visit.id().0);
    for _ in 0..2 {
        let subscribed = guest.ask("mcp/resource/subscribe/req", json!({"uri": "lib://book"})).await.unwrap();
        assert_eq!(subscribed, json!({"ok": true, "error": ""}));
    }
    guest.ask("mcp/resource/read/req", json!({"uri": "lib://book"})).await.unwrap();
    let push = guest.pushed("notifications/resources/updated").await;
    assert_eq!((&push["server_id"], &push["params"]), (&json!("library"), &json!({"uri": "lib://book"})));
    assert_eq!(guest.agent.pushed.lock().unwrap().len(), 1);
    drop(visit);
}

#[tokio::test]
async fn configured_servers_without_change_reports_refuse_subscriptions_and_unregistration() {
    let stage = stage("open", false);
    let refused = stage.ask("mcp/resource/subscribe/req", json!({"uri": "lib://book"})).await.unwrap();
    assert_eq!(refused["ok"], false);
    assert!(refused["error"].as_str().unwrap().contains("does not report changes"), "{refused}");
    let kept = stage.ask("mcp/server/unregister/req", json!({"server_id": "library"})).await.unwrap();
    assert_eq!(kept["ok"], false);
}

/// A policy that denies something.
fn denying(about: Subjects) -> Policy {
    Policy { rules: vec![Rule { about, ..Rule::new("no", Effect::Deny) }], ..Policy::default() }
}

fn patterns(text: &str) -> Vec<Pattern> {
    vec![Pattern(text.to_owned())]
}

#[tokio::test]
async fn a_resource_denied_after_its_subscription_causes_no_push_of_a_configured_server() {
    let (stage, governor) = (stage("open", true), Arc::new(Governor::default()));
    let _ = stage.hub.clone().governed(Arc::clone(&governor));
    let visit = stage.hub.visit();
    let guest = stage.other(visit.id().0);
    guest.ask("mcp/resource/subscribe/req", json!({"uri": "lib://book"})).await.unwrap();
    let name = "lib__summary";
    for about in [
        Subjects { resources: patterns("lib://*"), ..Subjects::default() },
        Subjects { resources: patterns("*"), upstreams: patterns("lib"), ..Subjects::default() },
    ] {
        governor.replace(denying(about));
        guest.ask("mcp/prompt/get/req", json!({"name": name})).await.unwrap();
    }
    governor.replace(Policy::default());
    guest.ask("mcp/prompt/get/req", json!({"name": name})).await.unwrap();
    guest.pushed("notifications/resources/updated").await;
    assert_eq!(guest.agent.pushed.lock().unwrap().len(), 1, "the last change alone was told");
    drop(visit);
}

#[tokio::test]
async fn a_configured_server_that_policy_denies_completely_is_unknown() {
    let (stage, governor) = (stage("open", true), Arc::new(Governor::default()));
    let _ = stage.hub.clone().governed(Arc::clone(&governor));
    let everything = Subjects { upstreams: patterns("lib"), ..Subjects::default() };
    let all_lists = Subjects { resources: patterns("lib:*"), prompts: patterns("lib__*"), ..Subjects::default() };
    let resources = Subjects { resources: patterns("lib:*"), ..Subjects::default() };
    for (about, is_there) in [(everything, false), (all_lists, false), (resources, true)] {
        governor.replace(denying(about));
        stage.hub.look_again();
        let listed = stage.ask("mcp/server/list/req", json!({})).await.unwrap();
        assert_eq!(listed["servers"].as_array().unwrap().len(), usize::from(is_there), "{listed}");
        let named = stage.ask("mcp/resource/list/req", json!({"server_id": "library"})).await;
        assert_eq!(named.is_ok(), is_there, "its name is unknown");
    }
}
