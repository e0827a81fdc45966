//! The file changes while a session is open.

use serde_json::json;

use super::{Setting, answer, call, echoed, ours, tools, tools_become, wait_until};
use crate::support::mcp_call;

#[test]
fn upstreams_come_and_go_while_a_call_of_another_goes_on() {
    let setting = Setting::new(&(ours("a") + &ours("b")));
    let mut process = setting.session();
    assert!(tools(&mut process).contains(&"b__echo".to_owned()));
    let before = call(&mut process, "a__agreement", &json!({}));
    // Longer than the change takes to be noticed.
    process.send(&mcp_call(100, "a__wait", r#"{"ms":4000}"#));
    setting.write(&(ours("c") + &ours("a")));
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
fn a_broken_file_leaves_the_old_one_in_force_and_says_why() {
    let setting = Setting::new(&ours("a"));
    let log = setting.path().join("errors.log");
    let errors = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut process = setting.session_logging_to(&log);
    assert!(tools(&mut process).contains(&"a__echo".to_owned()));
    setting.write(&format!("{}\n[upstreams.b]\ncommand = \"${{NO_SUCH_VARIABLE}}\"\nenv = {{ X = 5 }}\n", ours("c")));
    let complaint = "upstreams.b.command: the variable NO_SUCH_VARIABLE is not set";
    wait_until("the file is complained of", || errors().contains(complaint));
    assert!(errors().contains("upstreams.b.env: expected a string"), "{}", errors());
    let answer = call(&mut process, "a__echo", &json!({ "message": "still" }));
    assert_eq!(answer["result"]["content"], echoed("still"), "{answer}");
    assert!(!tools(&mut process).contains(&"c__echo".to_owned()));
    setting.write(&format!("{}\n[http]\nsessions = 5\n", ours("d")));
    tools_become(&mut process, |tools| tools.iter().any(|tool| tool == "d__echo"));
    assert_eq!(errors().matches(complaint).count(), 1, "once, however often it is looked at:\n{}", errors());
    assert!(errors().contains("[http] is different now"), "{}", errors());
}

#[test]
fn a_session_without_upstreams_hears_of_the_first_one() {
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
