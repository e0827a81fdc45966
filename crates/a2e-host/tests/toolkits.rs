//! Toolkits: their tools before and after configuration, every refusal, and the scope of a configuration.

mod mesh;

use std::sync::Arc;

use gladhand_a2e_host::toolkits::{Toolkit, ToolkitSettings, ToolkitSettingsError, Toolkits};
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Failure, Tool, ToolResult};
use gladhand_hub::{Hub, Kit};
use mesh::{Agent, ask, call, call_tool, granted, refused, tools};
use serde_json::{Value, json};

fn filesystem() -> Toolkit {
    Toolkit {
        name: "filesystem".to_owned(),
        alias: "fs".to_owned(),
        description: "File tools".to_owned(),
        category: "io".to_owned(),
        tags: vec!["fs".to_owned(), "Local".to_owned()],
        schema: json!({"type": "object", "properties": {"root_dir": {"type": "string"}}, "required": ["root_dir"]}),
        tools: vec!["read_file".to_owned(), "write_file".to_owned()],
        ..Toolkit::default()
    }
}

fn web() -> Toolkit {
    let tools = vec!["fetch".to_owned(), "read_file".to_owned(), "nowhere".to_owned()];
    Toolkit { name: "web".to_owned(), category: "net".to_owned(), tools, ..Toolkit::default() }
}

struct Stage {
    hub: Hub,
    agreement: Arc<Agreement>,
    agent: Arc<Agent>,
}

impl Stage {
    fn new(settings: ToolkitSettings) -> Self {
        let mut kit = Kit::new();
        for name in ["read_file", "write_file", "fetch", "plain"] {
            let tool = Tool::plain(name, "").with("toolkit", &json!("somebody else's"));
            kit = kit.tool(tool, |call, _| Ok(ToolResult::structured(call.arguments.into_owned())));
        }
        let toolkits = Toolkits::new(settings).expect("valid toolkits");
        let hub = Hub::new(vec![Box::new(kit), Box::new(toolkits)]).expect("unique provider names");
        Self { hub, agreement: granted(&["toolkits", "tools"]), agent: Agent::of(1) }
    }

    fn other(&self, session: u64) -> Self {
        Self { hub: self.hub.clone(), agreement: Arc::clone(&self.agreement), agent: Agent::of(session) }
    }

    async fn ask(&self, kind: &'static str, message: Value) -> Result<Value, Failure> {
        ask(&self.hub, &self.agreement, &self.agent, call("toolkits", kind, &message)).await
    }

    async fn configure(&self, toolkit: &str, config: Value) -> Result<Value, Failure> {
        self.ask("toolkit/configure/req", json!({"toolkit_name": toolkit, "config": config})).await
    }

    /// The names of the listed tools, each with its toolkit.
    async fn seen(&self) -> Vec<String> {
        let tools = tools(&self.hub, &self.agreement, &self.agent).await;
        let toolkit = |tool: &Tool| {
            let mut found = tool.extra.iter().filter(|(name, _)| name == "toolkit");
            found.next().map(|(_, value)| value.get().trim_matches('"').to_owned()).unwrap_or_default()
        };
        tools.iter().map(|tool| format!("{} of {}", tool.name, toolkit(tool))).collect()
    }

    async fn listed(&self, filter: Value) -> Vec<String> {
        let listed = self.ask("toolkit/list/req", filter).await.expect("an answer");
        let listed = listed["toolkits"].as_array().expect("a list");
        listed.iter().filter_map(|kit| kit["name"].as_str().map(Into::into)).collect()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<String, Failure> {
        call_tool(&self.hub, &self.agreement, &self.agent, tool, &arguments).await.map(|result| result.joined_text())
    }
}

fn stage() -> Stage {
    Stage::new(ToolkitSettings { toolkits: vec![filesystem(), web()], ..ToolkitSettings::default() })
}

#[tokio::test]
async fn toolkits_are_listed_and_configured_as_recorded() {
    let stage = Stage::new(ToolkitSettings { toolkits: vec![filesystem()], ..ToolkitSettings::default() });
    let listed = |is_configured: bool| {
        json!({"toolkits": [{
            "name": "filesystem", "alias": "fs", "description": "File tools", "category": "io", "tags": ["fs", "Local"],
            "icon_svg": null, "schema": {
                "type": "object", "properties": {"root_dir": {"type": "string"}}, "required": ["root_dir"],
            },
            "tools": ["read_file", "write_file"], "configured": is_configured, "version": "1.0.0",
        }]})
    };
    assert_eq!(stage.ask("toolkit/list/req", json!({})).await.unwrap(), listed(false));
    let unknown = |name: &str| ("runtime_error", format!("unknown toolkit: {name}"));
    assert_eq!(refused(stage.configure("", json!({})).await), unknown(""));
    let configured = stage.configure("filesystem", json!({"root_dir": "/data"})).await.unwrap();
    assert_eq!(configured, json!({"toolkit_name": "filesystem", "status": "ok", "message": null}));
    assert_eq!(stage.ask("toolkit/list/req", json!({})).await.unwrap(), listed(true));
    assert_eq!(refused(stage.configure("zzz", json!({})).await), unknown("zzz"));
}

#[tokio::test]
async fn bundled_tools_are_visible_only_to_the_session_that_configured_them() {
    let stage = stage();
    let plain = ["plain of somebody else's"];
    assert_eq!(stage.seen().await, plain);
    assert_eq!(stage.call("read_file", json!({})).await.unwrap_err().message, "unknown tool: read_file");
    stage.configure("fs", json!({"root_dir": "/"})).await.unwrap();
    assert_eq!(stage.seen().await, ["read_file of filesystem", "write_file of filesystem", plain[0]]);
    assert_eq!(stage.call("read_file", json!({"a": 1})).await.unwrap(), r#"{"a":1}"#);
    assert_eq!(stage.other(2).seen().await, plain);
    assert!(stage.other(2).call("read_file", json!({})).await.is_err());
    assert!(!stage.hub.tools().iter().any(|tool| tool.name == "read_file"));
}

#[tokio::test]
async fn missing_tools_are_named() {
    let stage = stage();
    let configured = stage.configure("web", json!({})).await.unwrap();
    let expected = json!({"toolkit_name": "web", "status": "partial", "message": "these tools do not exist: nowhere"});
    assert_eq!(configured, expected);
    assert_eq!(stage.seen().await, ["read_file of web", "fetch of web", "plain of somebody else's"]);
}

#[tokio::test]
async fn configured_arguments_are_added_unless_the_client_gives_them() {
    let stage = stage();
    let arguments = json!({"read_file": {"root": "/data", "limit": 5}});
    stage.configure("fs", json!({"root_dir": "/", "arguments": arguments})).await.unwrap();
    let read: Value = serde_json::from_str(&stage.call("read_file", json!({"limit": 7})).await.unwrap()).unwrap();
    assert_eq!(read, json!({"root": "/data", "limit": 7}));
    assert_eq!(stage.call("write_file", json!({})).await.unwrap(), "{}");
    assert_eq!(stage.call("plain", json!({})).await.unwrap(), "{}");
    stage.configure("fs", json!({"root_dir": "/"})).await.unwrap();
    assert_eq!(stage.call("read_file", json!({})).await.unwrap(), "{}");
}

#[tokio::test]
async fn an_invalid_configuration_is_refused_with_its_path_and_without_its_values() {
    let stage = stage();
    let cases = [
        (json!({}), r#"config: "root_dir" is a required property"#),
        (json!({"root_dir": 4711}), r#"config.root_dir: value is not of type "string""#),
        (json!({"root_dir": "", "arguments": 1}), "config.arguments: must be an object"),
        (json!({"root_dir": "", "arguments": {"read_file": 1}}), "config.arguments.read_file: must be an object"),
        (json!({"root_dir": "", "arguments": {"fetch": {}}}), "config.arguments.fetch: the toolkit has no such tool"),
    ];
    for (config, problem) in cases {
        assert_eq!(refused(stage.configure("filesystem", config).await), ("runtime_error", problem.to_owned()));
    }
    assert_eq!(stage.seen().await, ["plain of somebody else's"]);
    let long = json!({"root_dir": "x".repeat(70_000)});
    assert_eq!(refused(stage.configure("fs", long).await).1, "config: larger than 65536 bytes");
    assert_eq!(refused(stage.ask("toolkit/forget/req", json!({})).await).0, "runtime_error");
    let nobody = stage.other(0).configure("web", json!({})).await;
    assert_eq!(refused(nobody).1, "a toolkit can only be configured within a session");
}

#[tokio::test]
async fn toolkits_are_found_by_kind_and_tags() {
    let stage = stage();
    assert_eq!(stage.listed(json!({})).await, ["filesystem", "web"]);
    assert_eq!(stage.listed(json!({"filter_kind": "NET"})).await, ["web"]);
    assert_eq!(stage.listed(json!({"filter_tags": ["FS", "local"]})).await, ["filesystem"]);
    assert_eq!(stage.listed(json!({"filter_tags": ["fs"], "filter_kind": "net"})).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_configuration_ends_with_its_session() {
    let stage = stage();
    let visit = stage.hub.visit();
    let guest = stage.other(visit.id().0);
    guest.configure("fs", json!({"root_dir": "/"})).await.unwrap();
    assert_eq!(guest.seen().await.len(), 3);
    drop(visit);
    assert_eq!(guest.seen().await.len(), 1);
    assert_eq!(guest.ask("toolkit/list/req", json!({})).await.unwrap()["toolkits"][0]["configured"], false);
}

#[test]
fn invalid_toolkits_are_refused() {
    let new = |toolkits| Toolkits::new(ToolkitSettings { toolkits, ..ToolkitSettings::default() }).unwrap_err();
    assert_eq!(new(vec![web(), web()]), ToolkitSettingsError::Twice("web".to_owned()));
    let wrong = |schema| new(vec![Toolkit { schema, ..web() }]).to_string();
    assert!(wrong(json!({"type": "nothing"})).starts_with("the schema of the toolkit `web` cannot be used: "));
    assert!(wrong(json!({"$ref": "http://localhost/schema"})).contains("cannot be used"));
}
