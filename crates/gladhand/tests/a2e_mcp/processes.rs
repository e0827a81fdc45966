//! Servers that are started, and what becomes of them; what may not be registered.

use std::path::Path;
use std::time::Duration;

use gladhand::operations::{FailureKind, Party};
use gladhand::providers::a2e_mcp::{RegistrationLimits, Root};
use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, words};

const GLADHAND: &str = env!("CARGO_BIN_EXE_gladhand");

fn permissive() -> RegistrationLimits {
    let commands = vec![words(&[GLADHAND]), words(&["sh", "-c"]), words(&["/nonexistent-binary"])];
    RegistrationLimits { commands, ..RegistrationLimits::default() }
}

#[tokio::test]
async fn nothing_is_registered_that_is_not_permitted() {
    let roots = vec![Root { uri: "file:///workspace".to_owned(), name: "ws".to_owned() }];
    let stage = Stage::new(RegistrationLimits { roots, ..RegistrationLimits::default() }, Vec::new());
    assert_eq!(stage.ask("mcp/server/list/req", json!({})).await.unwrap(), json!({"servers": []}));
    let refused = stage.register(json!({"server_id": "demo", "cmd": [GLADHAND, "serve"]})).await;
    let why = format!("config.cmd: {GLADHAND:?} may not be started here");
    assert_eq!(refused, json!({"ok": false, "server": {}, "error": why}));
    let nothing = stage.ask("mcp/server/register/req", json!({})).await.unwrap();
    assert_eq!(nothing, json!({"ok": false, "server": {}, "error": "config.cmd: no command is given"}));
    let unknown = stage.ask("mcp/server/unregister/req", json!({"server_id": "zzz"})).await.unwrap();
    assert_eq!(unknown, json!({"ok": false, "server_id": ""}));
    assert_eq!(stage.refused("mcp/sample/req", json!({})).await.0, "mcp_protocol_error");
    let roots = stage.ask("mcp/root/list/req", json!({})).await.unwrap();
    let expected =
        json!({"server_id": "", "mcp_request_id": "", "roots": [{"uri": "file:///workspace", "name": "ws"}]});
    assert_eq!(roots, expected);
    assert_eq!(
        stage.ask("mcp/resource/list/req", json!({})).await.unwrap(),
        json!({"resources": [], "next_cursor": ""})
    );
    assert_eq!(stage.ask("mcp/prompt/list/req", json!({})).await.unwrap(), json!({"prompts": [], "next_cursor": ""}));
    assert_eq!(stage.refused("mcp/resource/read/req", json!({"uri": "x"})).await.0, "mcp_server_not_found");
    for kind in ["mcp/resource/list/req", "mcp/prompt/list/req", "mcp/resource/read/req", "mcp/prompt/get/req"] {
        let refused = stage.refused(kind, json!({"server_id": "nobody"})).await;
        assert_eq!(refused, ("mcp_server_not_found", "unknown server: nobody".to_owned()), "{kind}");
    }
}

#[tokio::test]
async fn the_tools_of_a_registered_server_are_those_of_its_session() {
    let stage = Stage::new(permissive(), Vec::new());
    let config = json!({"server_id": "demo", "name": "Demo", "cmd": [GLADHAND, "serve"]});
    let mut registered = stage.register(config.clone()).await;
    assert!(registered["server"]["connected_at"].take().as_f64().is_some_and(|at| at > 0.0));
    let tools = registered["server"]["tools_count"].as_u64().unwrap();
    assert!(tools > 0);
    let version = env!("CARGO_PKG_VERSION");
    let server = json!({
        "server_id": "demo", "name": "Demo", "transport": "stdio", "status": "ready", "mcp_version": "2026-07-28",
        "server_name": "gladhand", "server_version": version, "tools_count": tools, "resources_count": 0,
        "prompts_count": 0, "last_ping_ms": 0.0, "error": "", "connected_at": null,
    });
    assert_eq!(registered, json!({"ok": true, "server": server, "error": ""}));
    let seen = stage.tools().await;
    assert_eq!(seen.len() as u64, tools);
    let echo = seen.iter().find(|tool| tool.name == "demo__echo").unwrap();
    assert!(echo.description.starts_with("[MCP:Demo] "), "{}", echo.description);
    assert_eq!(echo.tags, ["mcp", "demo", "Demo"]);
    assert!(echo.extra.iter().any(|(name, value)| name == "streaming" && value.get() == "false"));
    let data = stage.data("demo__echo", &json!({"message": "grüezi"})).await;
    assert_eq!(data["text"], "grüezi");
    assert_eq!(data["content"], json!([{"type": "text", "text": "grüezi"}]));
    assert!(data.get("images").is_none());
    let wrong = stage.call("demo__nothing", &json!({})).await.unwrap_err();
    assert_eq!(wrong.kind, FailureKind::UnknownTool);
    let twice = stage.register(config).await;
    assert_eq!(twice["error"], r#"there is a server "demo" already"#);
    let other = stage.other(2);
    assert!(other.tools().await.is_empty());
    assert_eq!(other.call("demo__echo", &json!({})).await.unwrap_err().kind, FailureKind::UnknownTool);
    assert_eq!(other.ask("mcp/server/list/req", json!({})).await.unwrap(), json!({"servers": []}));
    let listed = |status: &'static str| stage.ask("mcp/server/list/req", json!({"status_filter": status}));
    assert_eq!(listed("ready").await.unwrap()["servers"][0]["server_id"], "demo");
    assert_eq!(listed("error").await.unwrap(), json!({"servers": []}));
    let gone = stage.ask("mcp/server/unregister/req", json!({"server_id": "demo"})).await.unwrap();
    assert_eq!(gone, json!({"ok": true, "server_id": "demo"}));
    assert!(stage.tools().await.is_empty());
    assert!(stage.call("demo__echo", &json!({})).await.is_err());
}

#[tokio::test]
async fn a_server_that_cannot_be_opened_is_not_registered() {
    let stage = Stage::new(permissive(), Vec::new());
    let config = json!({"config": {"server_id": "bad", "cmd": ["/nonexistent-binary"]}});
    let (code, why) = stage.refused("mcp/server/register/req", config).await;
    assert_eq!(code, "mcp_transport_error");
    assert!(why.contains("/nonexistent-binary"), "{why}");
    assert_eq!(stage.ask("mcp/server/list/req", json!({})).await.unwrap(), json!({"servers": []}));
    let few = Stage::new(RegistrationLimits { of_session: 1, ..permissive() }, Vec::new());
    assert_eq!(few.register(json!({"cmd": [GLADHAND, "serve"]})).await["ok"], true);
    assert_eq!(few.register(json!({"cmd": [GLADHAND, "serve"]})).await["error"], "there is no room for another server");
}

#[tokio::test]
async fn only_allowed_tools_of_a_registered_server_are_listed() {
    let stage = Stage::new(permissive(), Vec::new());
    stage.register(json!({"server_id": "d", "cmd": [GLADHAND, "serve"], "tool_allow_list": ["echo"]})).await;
    let names: Vec<_> = stage.tools().await.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["d__echo"]);
    assert!(stage.call("d__wait", &json!({"seconds": 0})).await.is_err());
}

/// A shell that writes down which process it is, and becomes our server.
fn traced(folder: &Path) -> Value {
    json!(["sh", "-c", format!("echo $$ >> {}; exec {GLADHAND} serve", folder.join("pids").display())])
}

fn pids(folder: &Path) -> Vec<String> {
    std::fs::read_to_string(folder.join("pids")).unwrap().lines().map(Into::into).collect()
}

async fn until_gone(pid: &str) {
    let gone = async {
        while Path::new("/proc").join(pid).exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the process ends");
}

#[tokio::test]
async fn servers_end_with_their_session() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(permissive(), Vec::new());
    let visit = stage.hub.visit();
    let guest = stage.other(visit.id().0);
    guest.register(json!({"server_id": "d", "cmd": traced(folder.path())})).await;
    drop(visit);
    for pid in pids(folder.path()) {
        until_gone(&pid).await;
    }
    assert!(guest.tools().await.is_empty());
    assert_eq!(guest.ask("mcp/server/list/req", json!({})).await.unwrap(), json!({"servers": []}));
}

#[tokio::test]
async fn an_ended_server_is_reopened_only_with_auto_reconnect() {
    for (reconnects, folder) in [(true, tempfile::tempdir().unwrap()), (false, tempfile::tempdir().unwrap())] {
        let stage = Stage::new(permissive(), Vec::new());
        let config = json!({"server_id": "d", "cmd": traced(folder.path()), "auto_reconnect": reconnects});
        stage.register(config).await;
        let pids = pids(folder.path());
        let last = pids.last().unwrap();
        let pid = rustix::process::Pid::from_raw(last.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        until_gone(last).await;
        let is_over = async {
            loop {
                let listed = stage.ask("mcp/server/list/req", json!({})).await.unwrap();
                if listed["servers"][0]["status"] == "disconnected" {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, is_over).await.expect("it is noticed");
        let called = stage.call("d__echo", &json!({"message": "again"})).await;
        match called {
            Ok(result) if reconnects => assert!(!result.failed),
            Err(failure) if !reconnects => {
                assert_eq!(failure.kind, FailureKind::Capability("mcp_server_unavailable"));
            }
            other => panic!("{reconnects}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_that_is_unregistered_during_its_opening_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let silent = json!(["sh", "-c", format!("echo $$ >> {}; exec sleep 600", folder.path().join("pids").display())]);
    let mut settings = RegistrationLimits { all: 2, ..permissive() };
    settings.options.opening_timeout = 10 * PATIENCE;
    let stage = Stage::new(settings, Vec::new());
    std::fs::write(folder.path().join("pids"), "").unwrap();
    for round in 0..5 {
        let registering = stage.ask("mcp/server/register/req", json!({"config": {"server_id": "d", "cmd": silent}}));
        let unregistering = async {
            while pids(folder.path()).len() <= round {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stage.ask("mcp/server/unregister/req", json!({"server_id": "d"})).await.unwrap()
        };
        let (registered, unregistered) = tokio::join!(registering, unregistering);
        assert_eq!(unregistered["ok"], true);
        assert!(registered.unwrap_err().message.contains("it is not registered any more"));
        until_gone(pids(folder.path()).last().unwrap()).await;
    }
}

#[tokio::test]
async fn a_server_keeps_its_place_until_its_process_has_ended() {
    let stage = Stage::new(RegistrationLimits { all: 1, ..permissive() }, Vec::new());
    // Leaves neither when its input ends nor for SIGTERM.
    let stubborn = json!(["sh", "-c", format!("trap '' TERM; {GLADHAND} serve; exec sleep 600")]);
    assert_eq!(stage.register(json!({"server_id": "d", "cmd": stubborn})).await["ok"], true);
    let mut ending = std::pin::pin!(stage.ask("mcp/server/unregister/req", json!({"server_id": "d"})));
    tokio::select! {
        ended = &mut ending => panic!("it leaves only when it is killed: {ended:?}"),
        () = tokio::time::sleep(Duration::from_millis(100)) => {}
    }
    let other = json!({"server_id": "e", "cmd": [GLADHAND, "serve"]});
    let refused = json!({"ok": false, "server": {}, "error": "there is no room for another server"});
    assert_eq!(stage.register(other.clone()).await, refused);
    assert_eq!(ending.await.unwrap()["ok"], true);
    assert_eq!(stage.register(other).await["ok"], true);
}

#[tokio::test]
async fn places_for_servers_are_shared_by_parties_and_descriptions_have_a_bound() {
    let stage = Stage::new(RegistrationLimits { all: 2, ..permissive() }, Vec::new());
    let fill = async |party: u64| {
        let mut session = stage.other(party);
        session.party = Some(Party(party));
        let mut count = 0;
        let config = |count| json!({"server_id": format!("s{count}"), "cmd": [GLADHAND, "serve"]});
        while count < 10 && session.register(config(count)).await["ok"] == true {
            count += 1;
        }
        count
    };
    assert_eq!((fill(1).await, fill(2).await), (2, 1), "all places, and then an equal share");
    let long = json!({"server_id": "l", "cmd": [GLADHAND, "serve", "x".repeat(300_000)]});
    let error = stage.register(long).await["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("config: the request has 300") && error.ends_with("the limit is 262144"), "{error}");
}

#[tokio::test]
async fn followed_resources_of_a_server_count_by_their_length() {
    let stage = Stage::new(permissive(), Vec::new());
    assert_eq!(stage.register(json!({"server_id": "d", "cmd": [GLADHAND, "serve"]})).await["ok"], true);
    let long = json!({"server_id": "d", "uri": format!("x:{}", "y".repeat(300_000))});
    let followed = stage.ask("mcp/resource/subscribe/req", long).await.unwrap();
    assert_eq!(followed, json!({"ok": false, "error": "at most 1000 resources of a server are followed"}));
}
