//! Requests to skills, their refusals, and skills that misbehave.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gladhand_a2e_host::skill::{SkillSettings, Skills, Thinker, Thought};
use gladhand_core::operations::{Failure, Reply};
use gladhand_process::starting::Family;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::fixture::{Fixture, Session, gone};

const SUMMARISE: &str = "---
name: summarise
version: 0.2.0
description: Shorten a text
triggers: [/sum]
tools: [Read]
category: text
tags: [text, short]
---
Shorten this: {args}
";

/// A skill that runs a script.
fn script(text: &str) -> String {
    format!("---\nrun: [bash, -c, {}]\n---\n", json!(text))
}

fn folder(skills: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in skills {
        std::fs::create_dir(folder.path().join(name)).expect("a new folder");
        std::fs::write(folder.path().join(name).join("skill.md"), text).expect("a new file");
    }
    folder
}

fn settings(folder: &TempDir) -> SkillSettings {
    SkillSettings { folders: vec![folder.path().to_owned()], ..SkillSettings::default() }
}

fn fixture(settings: SkillSettings) -> Fixture {
    Fixture::with(Skills::new(settings, Arc::new(Family), None))
}

async fn call(session: &Session, message: Value) -> Result<Value, (String, String)> {
    session.ask("skill/call/req", message).await
}

fn kinds(session: &Session) -> Vec<String> {
    session.events().iter().map(|event| event["kind"].as_str().expect("a kind is a string").to_owned()).collect()
}

#[tokio::test]
async fn skills_are_listed_and_filtered() {
    let folder = folder(&[("sum", SUMMARISE), ("other", "---\nstatus: Blocked\ncategory: x\n---\n")]);
    let session = fixture(settings(&folder)).session();
    let names = async |message| {
        let listed = session.ask("skill/discover/req", message).await.unwrap()["skills"].clone();
        let names = listed.as_array().unwrap().iter().map(|skill| skill["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(json!({})).await, ["other", "summarise"]);
    assert_eq!(names(json!({"filter_tags": ["short", "zzz"]})).await, ["summarise"]);
    assert_eq!(names(json!({"filter_categories": ["x"]})).await, ["other"]);
    assert_eq!(names(json!({"filter_categories": ["zzz"]})).await, Vec::<String>::new());
    assert_eq!(names(json!({"filter_tags": ["short"], "filter_categories": ["x"]})).await, Vec::<String>::new());
    let listed = session.ask("skill/discover/req", json!({"filter_tags": ["text"]})).await.unwrap();
    let expected = json!({"skills": [{
        "name": "summarise", "version": "0.2.0", "description": "Shorten a text", "triggers": ["/sum"],
        "tools": ["Read"], "toolkits": [], "status": "Published",
        "input_schema": {"type": "object", "properties": {"args": {"type": "string"}}}, "output_schema": {},
        "instructions": "\nShorten this: {args}\n", "file_path": null, "llm_config": null, "arguments": null,
        "when_to_use": "Shorten a text", "argument_hint": "args: string", "source": "filesystem", "category": "text",
        "tags": ["text", "short"], "max_turns": null, "timeout_seconds": null, "icon": null, "metadata": null,
    }]});
    assert_eq!(listed, expected);
    std::fs::write(folder.path().join("other/skill.md"), "---\nname: renamed\n---\n").unwrap();
    assert_eq!(names(json!({})).await, ["renamed", "summarise"]);
    assert_eq!(session.ask("skill/event", json!({})).await.unwrap_err().0, "invalid_message");
}

#[tokio::test]
async fn without_a_thinker_the_completed_prompt_is_returned() {
    let folder = folder(&[("sum", SUMMARISE)]);
    let session = fixture(settings(&folder)).session();
    let answer = call(&session, json!({"name": "summarise", "arguments": {"args": "AI agents"}})).await.unwrap();
    let data = json!({"prompt": "\nShorten this: AI agents\n", "tools": {}});
    let result = &answer["data"];
    let expected = json!({
        "success": true, "data": data, "summary": "Skill executed successfully", "truncated": false, "error": null,
        "error_code": null, "duration_ms": result["duration_ms"], "events": [],
    });
    assert_eq!((result, &answer["name"], &answer["error"]), (&expected, &json!("summarise"), &json!(null)));
    assert!(result["duration_ms"].is_u64() && answer["created_at"].is_f64());
    let expected = ["skill.started", "skill.preparing", "skill.prompt.ready", "llm.skipped", "skill.completed"];
    assert_eq!(kinds(&session), expected);
    for (at, event) in session.events().iter().enumerate() {
        assert_eq!(
            (&event["type"], &event["req_id"], &event["seq"]),
            (&json!("skill/event"), &json!("r1"), &json!(at))
        );
        assert_eq!(event["data"]["skill"], "summarise");
        assert!(event["data"]["ts"].is_f64());
    }
    let events = session.events();
    assert_eq!(
        (&events[0]["data"]["arguments"], &events[0]["data"]["tools"]),
        (&json!({"args": "AI agents"}), &json!(["Read"]))
    );
    assert_eq!(events[2]["data"]["prompt_preview"], "\nShorten this: AI agents\n");
    assert_eq!(events[3]["data"]["reason"], "no_llm_available");
}

#[tokio::test]
async fn a_skill_that_cannot_be_called_returns_the_reason() {
    let folder = folder(&[
        ("blocked", "---\nstatus: Blocked\n---\n"),
        ("strict", "---\ninput_schema: {type: object, required: [city]}\n---\n"),
    ]);
    let session = fixture(settings(&folder)).session();
    for (asked, code, error) in [
        (json!({"name": "nope", "arguments": {}}), "unknown_skill", "Skill not found: nope"),
        (json!({}), "unknown_skill", "Skill not found: "),
        (json!({"name": "blocked"}), "skill_error", "the skill is not published but \"Blocked\""),
        (json!({"name": "strict"}), "schema_violation", "arguments: \"city\" is a required property"),
    ] {
        let answer = call(&session, asked.clone()).await.unwrap();
        let result = &answer["data"];
        assert_eq!((&result["success"], &result["data"]), (&json!(false), &json!(null)));
        assert_eq!((&result["error_code"], &result["error"]), (&json!(code), &json!(error)));
        let event = session.events().pop().unwrap();
        assert_eq!((&event["kind"], &event["seq"]), (&json!("skill.failed"), &json!(0)));
        assert_eq!((&event["data"]["error_code"], &event["data"]["error"]), (&json!(code), &json!(error)));
        assert_eq!(event["data"]["skill"], asked.get("name").cloned().unwrap_or_default().as_str().unwrap_or_default());
    }
    assert!(
        call(&session, json!({"name": "strict", "arguments": {"city": 1}})).await.unwrap()["data"]["success"] == true
    );
}

#[tokio::test]
async fn a_program_skill_reports_progress_artifacts_logs_and_result() {
    let text = r#"
        read -r arguments
        echo '{"progress": {"pct": 140.2, "message": "half"}}'
        echo '{"artifact": {"name": "a.txt", "mime": "text/plain", "chunk": "aGVsbG8gd29ybGQh", "final": true}}'
        echo '{"log": {"level": "debug", "message": "noted"}}'
        echo 'plain words'
        echo 'a complaint' >&2
        echo '{"result": 1}'
        echo "{\"result\": {\"got\": $arguments, \"in\": \"${PWD##*/}\", \"home\": \"${CARGO_HOME-none}\"}, \"summary\": \"well\"}"
    "#;
    let folder = folder(&[("tool", &script(text))]);
    let session = fixture(SkillSettings { max_chunk_chars: 10, ..settings(&folder) }).session();
    let answer = call(&session, json!({"name": "tool", "arguments": {"n": [1, "ä"]}})).await.unwrap();
    let result = &answer["data"];
    assert_eq!(result["data"], json!({"got": {"n": [1, "ä"]}, "in": "tool", "home": "none"}));
    assert_eq!((&result["success"], &result["summary"]), (&json!(true), &json!("well")));
    let events = session.events();
    let of = |kind: &str| -> Vec<Value> {
        let data = events.iter().filter(|event| event["kind"] == kind).map(|event| {
            let mut data = event["data"].as_object().unwrap().clone();
            data.retain(|name, _| name != "skill" && name != "ts");
            Value::Object(data)
        });
        data.collect()
    };
    assert_eq!(of("progress"), [json!({"pct": 100, "message": "half"})]);
    let chunk = |chunk: &str, last: bool| json!({"name": "a.txt", "mime": "text/plain", "chunk": chunk, "final": last});
    assert_eq!(of("artifact"), [chunk("aGVsbG8g", false), chunk("d29ybGQh", true)]);
    let mut logs = of("log");
    logs.sort_by_key(|log| log["level"].to_string());
    let log = |level: &str, message: &str| json!({"level": level, "message": message});
    assert_eq!(logs, [log("debug", "noted"), log("info", "plain words"), log("warning", "a complaint")]);
    assert_eq!(
        (kinds(&session).first().unwrap().as_str(), kinds(&session).last().unwrap().as_str()),
        ("skill.started", "skill.completed")
    );
    assert!(events.iter().enumerate().all(|(at, event)| event["seq"] == at));
    let session = fixture(settings(&folder)).session();
    call(&session, json!({"name": "tool", "streaming": false})).await.unwrap();
    assert_eq!(kinds(&session), ["skill.started", "skill.preparing", "skill.completed"]);
}

#[tokio::test]
async fn a_program_in_the_folder_of_its_skill_is_found() {
    let folder = folder(&[("own", "---\nrun: [./main.sh, word]\n---\n")]);
    let program = folder.path().join("own/main.sh");
    std::fs::write(&program, "#!/bin/sh\necho \"{\\\"result\\\": \\\"$1\\\"}\"\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let session = fixture(settings(&folder)).session();
    let answer = call(&session, json!({"name": "own"})).await.unwrap();
    assert_eq!(answer["data"]["data"], "word");
}

#[tokio::test]
async fn a_failing_skill_sends_one_failure_event() {
    let folder = folder(&[
        ("says", &script(r#"echo '{"error": "no luck"}'; exit 1"#)),
        ("ends", &script("exit 3")),
        ("dies", &script("kill -9 $$")),
        ("odd", &script(r#"echo '{"artifact": {"name": "x", "chunk": "a!b"}}'; sleep 1000"#)),
        ("long", &script("head -c 20000 /dev/zero; echo; sleep 1000")),
        ("floods", &script("yes")),
        ("missing", "---\nrun: [/no/such/program]\n---\n"),
        ("silent", &script("exec >&-; exit 0")),
    ]);
    let limits = SkillSettings { max_line_bytes: 10_000, max_output_bytes: 50_000, ..settings(&folder) };
    let session = fixture(limits).session();
    let said = call(&session, json!({"name": "says"})).await.unwrap();
    assert_eq!((&said["data"]["error_code"], &said["data"]["error"]), (&json!("skill_error"), &json!("no luck")));
    for (name, why) in [
        ("ends", "the program exited with code 3"),
        ("dies", "the program was killed"),
        ("odd", "the artifact \"x\" is not base64"),
        ("long", "it wrote a line of more than 10000 bytes"),
        ("floods", "it wrote more than 50000 bytes"),
        ("missing", "could not start the program: No such file or directory (os error 2)"),
    ] {
        let failure = call(&session, json!({"name": name})).await.unwrap_err();
        assert_eq!(failure, ("skill_error".to_owned(), why.to_owned()));
        let ends: Vec<_> = session.events().into_iter().filter(|event| event["data"]["skill"] == name).collect();
        let failed: Vec<_> = ends.iter().filter(|event| event["kind"] == "skill.failed").collect();
        assert_eq!((failed.len(), &failed[0]["data"]["error"]), (1, &json!(why)));
    }
    let silent = call(&session, json!({"name": "silent"})).await.unwrap();
    assert_eq!((&silent["data"]["success"], &silent["data"]["data"]), (&json!(true), &json!(null)));
}

/// Waits for the process id that a script writes to its log.
async fn told_pid(session: &Session) -> u64 {
    let event = session.heard(|event| event["kind"] == "log").await;
    event["data"]["message"].as_str().and_then(|pid| pid.parse().ok()).expect("the log line has the process id")
}

#[tokio::test]
async fn a_stalled_skill_ends_with_its_timeout_its_call_or_the_host() {
    let stall = script("trap '' TERM; sleep 1000 & echo $!; while :; do sleep 0.1; done");
    let own_time = stall.replacen("---\n", "---\ntimeout_seconds: 1\n", 1);
    let folder = folder(&[("stalls", &stall), ("hurries", &own_time)]);
    let fixture = fixture(settings(&folder));
    for asked in [json!({"name": "stalls", "timeout": 1}), json!({"name": "hurries", "timeout": 1000})] {
        let session = fixture.session();
        let (code, why) = call(&session, asked).await.unwrap_err();
        assert_eq!((code.as_str(), why.as_str()), ("timeout", "the skill took more than 1 seconds"));
        assert_eq!(kinds(&session).last().unwrap(), "skill.failed");
        gone(told_pid(&session).await).await;
    }
    // Dropping the call ends the skill.
    let session = fixture.session();
    let given_up = tokio::spawn(session.begin("skill/call/req", json!({"name": "stalls"})));
    let pid = told_pid(&session).await;
    given_up.abort();
    gone(pid).await;
    // So does the end of the session.
    let session = fixture.session();
    let left = tokio::spawn(session.begin("skill/call/req", json!({"name": "stalls"})));
    let pid = told_pid(&session).await;
    session.leave();
    left.await.unwrap().unwrap_err();
    gone(pid).await;
    let session = fixture.session();
    let stopped = tokio::spawn(session.begin("skill/call/req", json!({"name": "stalls"})));
    let pid = told_pid(&session).await;
    fixture.closed().await;
    assert_eq!(stopped.await.unwrap().unwrap_err().0, "stopping");
    gone(pid).await;
}

#[tokio::test]
async fn the_operators_limit_caps_every_timeout() {
    let folder = folder(&[("stalls", &script("sleep 1000"))]);
    let session = fixture(SkillSettings { max_duration: Duration::from_millis(100), ..settings(&folder) }).session();
    for timeout in [0, -1, 100_000] {
        let (code, _) = call(&session, json!({"name": "stalls", "timeout": timeout})).await.unwrap_err();
        assert_eq!(code, "timeout");
    }
}

#[tokio::test]
async fn a_skill_that_floods_is_slowed_to_the_client() {
    let window = 10;
    let folder = folder(&[("floods", &script("echo $$; yes"))]);
    let fixture = fixture(settings(&folder));
    let session = fixture.session_that_reads(window);
    let flood = tokio::spawn(session.begin("skill/call/req", json!({"name": "floods"})));
    session.until(|heard| heard.events.len() > window).await;
    session.ask("skill/discover/req", json!({})).await.unwrap();
    assert!(session.events().len() <= window + 2);
    flood.abort();
    gone(told_pid(&session).await).await;
}

#[tokio::test]
async fn a_skill_that_does_not_read_its_arguments_does_not_block() {
    let folder = folder(&[("deaf", &script(r#"echo '{"result": true}'"#))]);
    let session = fixture(settings(&folder)).session();
    let arguments = json!({"args": "x".repeat(1_000_000)});
    let answer = call(&session, json!({"name": "deaf", "arguments": arguments})).await.unwrap();
    assert_eq!(answer["data"]["data"], true);
}

#[tokio::test]
async fn programs_over_the_concurrency_limit_wait() {
    let folder = folder(&[
        ("waits", &script("echo begun; while [ ! -e go ]; do sleep 0.01; done")),
        ("quick", &script("echo '{\"result\": 1}'")),
    ]);
    let session = fixture(SkillSettings { max_running: 1, ..settings(&folder) }).session();
    let first = tokio::spawn(session.begin("skill/call/req", json!({"name": "waits"})));
    session.heard(|event| event["data"]["message"] == "begun").await;
    let (code, _) = call(&session, json!({"name": "quick", "timeout": 1})).await.unwrap_err();
    assert_eq!(code, "timeout");
    std::fs::write(folder.path().join("waits/go"), "").unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(call(&session, json!({"name": "quick"})).await.unwrap()["data"]["data"], 1);
}

/// A thinker that streams tokens.
#[derive(Debug)]
struct Loud;

#[async_trait]
impl Thinker for Loud {
    async fn think(&self, thought: Thought, tokens: mpsc::Sender<String>) -> Result<String, Failure> {
        if thought.prompt.contains("hard") {
            return Err(Failure::of_capability("runtime_error", "too hard"));
        }
        for word in ["a ", "b"] {
            tokens.send(word.to_owned()).await.expect("a receiver of tokens");
        }
        Ok(format!("{} {:?}: {}", thought.skill, thought.tools, thought.prompt.trim()))
    }
}

#[tokio::test]
async fn a_thinker_executes_prompts() {
    let folder = folder(&[("sum", SUMMARISE)]);
    let thinking = |max_output_bytes| {
        let settings = SkillSettings { max_output_bytes, ..settings(&folder) };
        Fixture::with(Skills::new(settings, Arc::new(Family), Some(Arc::new(Loud)))).session()
    };
    let session = thinking(1000);
    let answer = call(&session, json!({"name": "summarise", "arguments": {"args": "it"}})).await.unwrap();
    let data = &answer["data"]["data"];
    assert_eq!(data["output"], "summarise [String(\"Read\")]: Shorten this: it");
    let expected = [
        "skill.started",
        "skill.preparing",
        "skill.prompt.ready",
        "llm.started",
        "llm.token",
        "llm.token",
        "llm.completed",
        "skill.completed",
    ];
    assert_eq!(kinds(&session), expected);
    assert_eq!(session.events()[5]["data"]["token"], "b");
    let failure = call(&session, json!({"name": "summarise", "arguments": {"args": "hard"}})).await.unwrap_err();
    assert_eq!(failure, ("skill_error".to_owned(), "too hard".to_owned()));
    let answer = call(&thinking(9), json!({"name": "summarise"})).await.unwrap();
    assert_eq!((&answer["data"]["data"]["output"], &answer["data"]["truncated"]), (&json!("summarise"), &json!(true)));
}

#[tokio::test]
async fn programs_of_one_party_do_not_keep_another_waiting() {
    let folder = folder(&[("slow", &script("read -r x; sleep 100")), ("quick", &script("echo '{\"result\": 1}'"))]);
    let fixture = fixture(SkillSettings { max_running: 2, ..settings(&folder) });
    let greedy = fixture.session_of(1);
    let calls: Vec<_> =
        (0..5).map(|_| tokio::spawn(greedy.begin("skill/call/req", json!({"name": "slow", "timeout": 90})))).collect();
    // All of them wait for a turn, or have one.
    let is_preparing = |event: &&Value| event["kind"] == "skill.preparing";
    greedy.until(|heard| heard.events.iter().filter(is_preparing).count() == 5).await;
    let other = fixture.session_of(2);
    let answer = tokio::time::timeout(Duration::from_secs(30), call(&other, json!({"name": "quick"})));
    assert_eq!(answer.await.expect("a turn for another party").unwrap()["data"]["data"], 1);
    assert!(calls.iter().all(|call| !call.is_finished()));
    greedy.leave();
}

#[tokio::test]
async fn a_result_is_passed_on_as_it_was_written() {
    let result = r#"{"z":[1.00,123456789012345678901234567890],"a":{}}"#;
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let text = format!("echo '{{\"result\": {result}, \"summary\": [1.0]}}'; echo '{{\"result\": {deep}}}'");
    let folder = folder(&[("tool", &script(&text))]);
    let session = fixture(settings(&folder)).session();
    let Ok(Reply::Capability(answer)) = session.outcome("skill/call/req", json!({"name": "tool"})).await else {
        panic!("a result is answered");
    };
    let expected = format!(r#""data":{{"data":{result},"#);
    assert!(answer.get().contains(&expected) && answer.get().contains(r#""summary":[1.0]"#), "{answer}");
    let logs: Vec<_> = session.events().into_iter().filter(|event| event["kind"] == "log").collect();
    assert_eq!(logs.len(), 1, "a line that nests too deeply is a log line");
}
