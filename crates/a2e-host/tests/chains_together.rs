//! Chains with real processes and skills instead of stand-ins.

mod mesh;

use std::sync::Arc;
use std::time::Duration;

use gladhand_a2e_host::chains::{ChainSettings, Chains};
use gladhand_a2e_host::proc::{Proc, ProcSettings};
use gladhand_a2e_host::skill::{SkillSettings, Skills};
use gladhand_hub::Hub;
use gladhand_process::starting::Family;
use mesh::{Agent, ask, call, granted};
use serde_json::{Value, json};

const ALL: [&str; 4] = ["chains", "tools", "skill", "proc"];

fn hub(skills: &std::path::Path) -> Hub {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let processes = ProcSettings { allowed: words(&["/bin/echo", "/bin/sh", "/bin/sleep"]), ..Default::default() };
    let skills = SkillSettings { folders: vec![skills.to_owned()], ..Default::default() };
    Hub::new(vec![
        Box::new(Proc::new(processes, Arc::new(Family))),
        Box::new(Skills::new(skills, Arc::new(Family), None)),
        Box::new(Chains::new(ChainSettings::default())),
    ])
    .expect("unique provider names")
}

fn node(kind: &str, name: &str, input: Value) -> Value {
    json!({"entry_node": "a", "nodes": [{"node_id": "a", "kind": kind, "name": name, "input": input}]})
}

#[tokio::test]
async fn a_process_runs_to_its_end_and_its_output_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, agent) = (hub(folder.path()), Agent::of(1));
    let run = |input| ask_chain(&hub, &agent, node("proc", "", input));
    let answer = run(json!({"cmd": "/bin/echo hi"})).await;
    assert_eq!(
        (&answer["success"], &answer["final_output"]["status"]),
        (&json!(true), &json!("completed")),
        "{answer}"
    );
    let events = agent.events();
    let kinds: Vec<_> = events.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["chain/event", "proc/read/event", "proc/read/event", "chain/event"]);
    assert_eq!(events[1].1["data"], json!({"text": "hi\n"}));
    assert_eq!(events[2].1["data"], json!({"code": 0}));
    let failed = run(json!({"cmd": ["/bin/sh", "-c", "exit 3"]})).await;
    assert_eq!((&failed["success"], &failed["final_output"]["status"]), (&json!(true), &json!("failed")), "{failed}");
    let refused = run(json!({"cmd": "/bin/false"})).await;
    assert_eq!(refused["error"], json!({"code": "chain_node_error", "message": "Command not allowed"}));
}

#[tokio::test]
async fn a_process_is_ended_with_its_chain() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, agent) = (hub(folder.path()), Agent::of(1));
    let mut message = node("proc", "", json!({"cmd": "/bin/sleep 600"}));
    message["timeout"] = json!(1);
    assert_eq!(ask_chain(&hub, &agent, message).await["error"]["code"], "timeout");
    let ended = async {
        loop {
            let status = call("proc", "proc/status/req", &json!({"proc_id": ""}));
            let all = ask(&hub, &granted(&ALL), &agent, status).await.unwrap();
            if all["procs"].as_array().unwrap().iter().all(|process| process["state"] != "running") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the process ends with its chain");
}

#[tokio::test]
async fn a_skill_is_called_and_an_unknown_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sum")).unwrap();
    let text = "---\nname: summarise\ndescription: x\n---\nShorten this: {args}";
    std::fs::write(folder.path().join("sum/skill.md"), text).unwrap();
    let (hub, agent) = (hub(folder.path()), Agent::of(1));
    let answer = ask_chain(&hub, &agent, node("skill", "summarise", json!({"args": "q"}))).await;
    assert!(
        answer["final_output"]["prompt"].as_str().is_some_and(|prompt| prompt.contains("Shorten this: q")),
        "{answer}"
    );
    let unknown = ask_chain(&hub, &agent, node("skill", "nobody", json!({}))).await;
    assert_eq!(unknown["error"]["code"], "chain_node_error", "{unknown}");
    assert!(unknown["error"]["message"].as_str().is_some_and(|why| why.contains("nobody")), "{unknown}");
}

async fn ask_chain(hub: &Hub, agent: &Arc<Agent>, message: Value) -> Value {
    ask(hub, &granted(&ALL), agent, call("chains", "chain/req", &message)).await.expect("an answer")
}
