//! The file changes while a session is open.

use std::process::Stdio;

use serde_json::json;

use super::{Setting, answer, call, echoed, ours, tools, tools_become, wait_until};
use crate::support::{MCP_INITIALIZED, Process, example, mcp_call, mcp_initialize};

#[test]
fn a_running_call_survives_adding_and_removing_other_upstreams() {
    let setting = Setting::new(&(ours("a") + &ours("b")));
    let mut process = setting.session();
    assert!(tools(&mut process).contains(&"b__echo".to_owned()));
    let before = call(&mut process, "a__agreement", &json!({}));
    // Longer than the change takes to be noticed.
    process.send(&mcp_call(100, "a__wait", r#"{"ms":4000}"#));
    setting.write_trusted(&(ours("c") + &ours("a")));
    let all = tools_become(&mut process, |tools| tools.iter().any(|tool| tool == "c__echo"));
    assert!(!all.contains(&"b__echo".to_owned()) && all.contains(&"a__echo".to_owned()), "{all:?}");
    let answer = call(&mut process, "c__echo", &json!({ "message": "new" }));
    assert_eq!(answer["result"]["content"], echoed("new"), "{answer}");
    let gone = call(&mut process, "b__echo", &json!({ "message": "old" }));
    assert!(gone["error"].is_object(), "{gone}");
    // The session with the unchanged one is still the same.
    assert_eq!(call(&mut process, "a__agreement", &json!({}))["result"], before["result"]);
    let waited = loop {
        let message = process.value();
        if message["id"] == 100 {
            break message;
        }
    };
    assert!(waited["result"]["content"][0]["text"].as_str().unwrap_or_default().contains("waited"), "{waited}");
}

#[test]
fn a_broken_file_is_logged_and_leaves_the_previous_configuration_in_force() {
    let setting = Setting::new(&ours("a"));
    let log = setting.path().join("errors.log");
    let errors = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut process = setting.session_logging_to(&log);
    assert!(tools(&mut process).contains(&"a__echo".to_owned()));
    let wrong = "[upstreams.b]\ncommand = \"${NO_SUCH_VARIABLE}\"\nenv = { X = 5 }\n";
    setting.write_trusted(&format!("{}\n{wrong}", ours("c")));
    let complaint = "upstreams.b.command: the variable NO_SUCH_VARIABLE is not set";
    let other = "upstreams.b.env.X: expected a string";
    wait_until("the file is complained of", || errors().contains(complaint) && errors().contains(other));
    let answer = call(&mut process, "a__echo", &json!({ "message": "still" }));
    assert_eq!(answer["result"]["content"], echoed("still"), "{answer}");
    assert!(!tools(&mut process).contains(&"c__echo".to_owned()));
    setting.write_trusted(&format!("{}\n[http]\nsessions = 5\n", ours("d")));
    tools_become(&mut process, |tools| tools.iter().any(|tool| tool == "d__echo"));
    assert_eq!(errors().matches(complaint).count(), 1, "once, however often it is looked at:\n{}", errors());
    assert!(errors().contains("[http] is different now"), "{}", errors());
}

#[test]
fn an_upstream_whose_variable_is_not_set_does_not_stop_the_others() {
    let missing =
        "[upstreams.b]\ncommand = \"${NO_SUCH_VARIABLE}\"\n[upstreams.c]\ncommand = ['x', '${NEITHER_THIS}']\n";
    let setting = Setting::new(&format!("{}\n{missing}", ours("a")));
    let log = setting.path().join("errors.log");
    let mut process = setting.session_logging_to(&log);
    assert!(tools(&mut process).contains(&"a__echo".to_owned()));
    let errors = std::fs::read_to_string(&log).unwrap_or_default();
    for line in [
        "upstream b is not available: the variable NO_SUCH_VARIABLE is not set",
        "upstream c is not available: the variable NEITHER_THIS is not set",
    ] {
        assert_eq!(errors.matches(line).count(), 1, "it is said once: {errors}");
    }
    let answer = call(&mut process, "b__x", &json!({}));
    assert!(answer.to_string().contains("upstream b is not available: the variable NO_SUCH_VARIABLE"), "{answer}");
    let output = setting.run(&["doctor"]);
    let findings = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["NO_SUCH_VARIABLE", "NEITHER_THIS"] {
        assert!(findings.contains(&format!("the variable {name} is not set")), "{findings}");
    }
    let output = setting.run(&["tools"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    for name in ["NO_SUCH_VARIABLE", "NEITHER_THIS"] {
        assert!(told.contains(&format!("the variable {name} is not set")), "{told}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("a__echo"));
    let output = setting.run(&["ps", "--json"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["NO_SUCH_VARIABLE", "NEITHER_THIS"] {
        assert!(shown.contains(&format!("the variable {name} is not set")), "{shown}");
    }
}

#[test]
fn a_session_without_upstreams_is_notified_of_the_first_one() {
    let setting = Setting::new("");
    let mut process = setting.session();
    assert_eq!(tools(&mut process), ["echo", "agreement", "wait"]);
    setting.write(&ours("a"));
    let heard = process.value();
    assert_eq!(heard["method"], "notifications/tools/list_changed", "{heard}");
    tools_become(&mut process, |tools| tools.iter().any(|tool| tool == "a__echo"));
    let list = answer(&mut process, r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#);
    assert!(list["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 6), "{list}");
}

#[test]
fn subscriptions_are_renewed_at_a_replaced_upstream() {
    let scripted = example("scripted").get_program().to_str().expect("text").to_owned();
    let setting = Setting::new("");
    let upstream = |notes: &str| {
        let notes = setting.path().join(notes);
        format!("[upstreams.a]\ncommand = [{scripted:?}, {notes:?}, \"handshake\"]\n")
    };
    setting.write(&upstream("first"));
    let is_watched = |notes: &str| {
        let received = std::fs::read_to_string(setting.path().join(notes)).unwrap_or_default();
        received.contains("resources/subscribe") && received.contains("test://watched")
    };
    let mut process = setting.session();
    let watch = r#"{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"test://watched"}}"#;
    let watched = answer(&mut process, watch);
    assert!(watched["result"].is_object(), "{watched}");
    wait_until("the server is told", || is_watched("first"));
    setting.write_trusted(&upstream("second"));
    wait_until("the other server is told, though nobody calls it", || is_watched("second"));
    process.send(&mcp_call(10, "a__touch", "{}"));
    wait_until("the session hears of it", || process.value()["method"] == "notifications/resources/updated");
}

/// A rule about our own `echo`.
fn rule(effect: &str, when: &str) -> String {
    format!("[[policy.rules]]\ntools = [\"echo\"]\neffect = \"{effect}\"\n{when}\n")
}

#[test]
fn a_changed_policy_holds_from_the_next_call_on() {
    let setting = Setting::new("");
    let log = setting.path().join("errors.log");
    let errors = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut process = setting.session_logging_to(&log);
    let says = |process: &mut Process| {
        let answer = call(process, "echo", &json!({ "message": "hi" }));
        answer["result"]["content"][0]["text"].as_str().map_or_else(|| answer.to_string(), ToOwned::to_owned)
    };
    assert_eq!(says(&mut process), "hi");
    // A tool that is always denied is no longer listed, and the client is notified.
    setting.write(&rule("deny", ""));
    let heard = process.value();
    assert_eq!(heard["method"], "notifications/tools/list_changed", "{heard}");
    assert_eq!(tools(&mut process), ["agreement", "wait"]);
    assert_eq!(says(&mut process), "policy forbids echo (rule `#1`)");
    setting.write(&rule("maybe", ""));
    wait_until("it is complained of", || errors().contains("the old configuration stays in force"));
    assert!(errors().contains("maybe"), "{}", errors());
    assert_eq!(says(&mut process), "policy forbids echo (rule `#1`)");
    setting.write(&rule("deny", "when = 'message == \"ho\"'"));
    tools_become(&mut process, |tools| tools.len() == 3);
    assert_eq!(says(&mut process), "hi");
    setting.write("[[policy.limits]]\nname = \"slowly\"\ncalls = 1\nper_s = 3600\n[http]\nsessions = 5\n");
    wait_until("it is limited", || says(&mut process).contains("(limit `slowly`)"));
    let profile = "[profiles.p]\nwho = [\"test\"]\nrename = { echo = \"parrot\" }\n[http]\nsessions = 5\n";
    setting.write(profile);
    tools_become(&mut process, |tools| tools.iter().any(|tool| tool == "parrot"));
    // Pins begin to be kept, unless what is there cannot be read.
    let pins = setting.path().join("data/pins.json");
    std::fs::create_dir_all(pins.parent().expect("a folder")).expect("it can be made");
    std::fs::write(&pins, "{").expect("it can be written");
    setting.write(&format!("[policy]\npin = \"stop\"\n{profile}"));
    wait_until("it is complained of", || errors().contains("the policy cannot be applied"));
    assert!(tools(&mut process).contains(&"parrot".to_owned()), "the old one is in force");
    std::fs::remove_file(&pins).expect("it is there");
    setting.write(&format!("[policy]\npin = \"stop\"\n\n{profile}"));
    wait_until("what there is is pinned", || pins.exists());
    setting.write("");
    tools_become(&mut process, |tools| tools.iter().any(|tool| tool == "echo"));
    assert_eq!(says(&mut process), "hi");
    assert_eq!(errors().matches("[http] is different now").count(), 1, "{}", errors());
}

#[test]
fn an_upstream_added_later_is_opened_with_the_capabilities_of_the_client() {
    let setting = Setting::new("");
    // It writes down each start, and asks before it echoes.
    let (starts, own) = (setting.path().join("starts"), setting.path().join("own.toml"));
    std::fs::write(&own, rule("ask", "")).expect("it can be written");
    let script = format!("echo started >> {}; exec \"$0\" serve --config {}", starts.display(), own.display());
    let upstream = json!(["sh", "-c", script, env!("CARGO_BIN_EXE_gladhand")]);
    let mut process = Process::start(setting.gladhand(&["serve"]));
    process.ask(&mcp_initialize("2025-11-25").replace(r#""capabilities":{}"#, r#""capabilities":{"elicitation":{}}"#));
    process.send(MCP_INITIALIZED);
    setting.write(&format!("[upstreams.careful]\ncommand = {upstream}\nspeak = \"mcp@2025-11-25\"\n"));
    tools_become(&mut process, |tools| tools.iter().any(|tool| tool == "careful__echo"));
    process.send(&mcp_call(9, "careful__echo", r#"{"message":"hi"}"#));
    let question = loop {
        let message = process.value();
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    let yes =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"answer": "yes"}}});
    process.send(&yes.to_string());
    let answer = loop {
        let message = process.value();
        if message["id"] == 9 {
            break message;
        }
    };
    assert_eq!(answer["result"]["content"], echoed("hi"), "{answer}");
    let starts = std::fs::read_to_string(&starts).unwrap_or_default();
    assert_eq!(starts.lines().count(), 1, "it was opened as that client at once");
}

#[test]
fn a_changed_token_is_logged_as_pending_trust() {
    let token = |value: &str| format!("[[authorization.tokens]]\nname = \"ann\"\ntoken = \"{value}\"\n");
    let setting = Setting::new(&(ours("a") + &token("old-token")));
    let log = setting.path().join("errors.log");
    let errors = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut command = setting.gladhand(&["serve", "--http", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let mut server = command.spawn().unwrap();
    wait_until("it listens", || errors().contains("http://"));
    setting.write(&(ours("a") + &token("new-token")));
    let told =
        "the token of `ann` changed: the old one is refused now; the new one is accepted after `gladhand config trust";
    wait_until("the change is told", || errors().contains(told));
    wait_until("the result is told", || {
        errors().contains("contains none of the previous tokens: no client is accepted until")
    });
    // The rules of access follow after that message. The next change shows that they have followed.
    setting.write_trusted(&(ours("a") + &token("new-token") + "[http]\nsessions = 5\n"));
    wait_until("the next change is read", || errors().contains("[http] is different now"));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(!errors().contains("no token and no issuer"), "{}", errors());
}

#[test]
fn ps_and_doctor_show_a_change_that_waits_and_the_command_that_applies_it() {
    let setting = Setting::new(&ours("a"));
    let mut process = setting.session();
    assert!(tools(&mut process).contains(&"a__echo".to_owned()));
    let missing = "[upstreams.b]\ncommand = ['x', '${NO_SUCH_VARIABLE}']\n";
    let status = |process: &Process| {
        let (_, all) = setting.json(&["ps", "--json"]);
        all.as_array().and_then(|all| all.iter().find(|one| one["pid"] == process.id()).cloned()).unwrap_or_default()
    };
    wait_until("it is seen", || status(&process)["pid"].is_number());
    assert_eq!(status(&process)["waiting"], json!(null));
    setting.write(&(ours("a") + &ours("c") + missing));
    wait_until("the change waits", || status(&process)["waiting"].is_object());
    let command = format!("gladhand config trust {}", setting.file().display());
    assert_eq!(status(&process)["waiting"], json!({ "file": setting.file(), "command": command }));
    let words = |arguments: &[&str]| {
        let told = String::from_utf8_lossy(&setting.run(arguments).stdout).into_owned();
        told.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let told = words(&["ps"]);
    assert!(told.contains("waits: `gladhand config trust ") && told.contains("or a restart applies it"), "{told}");
    let (_, report) = setting.json(&["doctor", "--json", "--offline"]);
    let about = format!("process {}", process.id());
    let finding = report["findings"].as_array().and_then(|all| all.iter().find(|one| one["about"] == about));
    let finding = finding.unwrap_or_else(|| panic!("{report:#}"));
    let advice = finding["advice"].as_str().unwrap_or_default();
    assert!(finding["state"] == "doubtful" && advice.contains(&command), "{finding:#}");

    setting.write_trusted(&(ours("a") + missing));
    wait_until("no change waits", || status(&process)["waiting"].is_null());
    tools_become(&mut process, |tools| tools.contains(&"a__echo".to_owned()));
    wait_until("the upstream is known", || {
        status(&process)["hub"]["upstreams"].to_string().contains("NO_SUCH_VARIABLE")
    });
    let (_, report) = setting.json(&["doctor", "--json", "--offline"]);
    let about = format!("upstream b of process {}", process.id());
    let finding = report["findings"].as_array().and_then(|all| all.iter().find(|one| one["about"] == about));
    let advice = finding.unwrap_or_else(|| panic!("{report:#}"))["advice"].as_str().unwrap_or_default().to_owned();
    assert!(advice.contains("restart the process") && !advice.contains("next call"), "{advice}");
}
