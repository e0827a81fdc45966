//! Tests of calls that ask questions first and become tasks later.

use gladhand_core::operations::{CallId, Notice, QuestionId};
use gladhand_dialects::Menu;

use crate::questions::{delivered, form};
use crate::*;

const WILLING: &str = r#"{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

fn call(id: &str, declared: &str, more: &str) -> String {
    let line = stateless(id, "tools/call", &format!("{ECHO}{more}"), "");
    line.replace(r#"clientCapabilities":{}"#, &format!(r#"clientCapabilities":{declared}"#))
}

fn with_tasks() -> TestServer {
    let setup = server_setup();
    let menu = Menu { tasks: true, ..setup.menu.clone() };
    TestServer::pinned(&DIALECT, ServerSetup { menu, ..setup }).holding()
}

#[test]
fn a_call_may_ask_first_and_continue_as_a_task() {
    let mut server = with_tasks();
    let id = delivered(&mut server, &call("1", WILLING, ""));
    let asked = only(server.ask(id, vec![(QuestionId(1), form().named("who"))]));
    assert_eq!(asked["result"]["resultType"], "input_required");
    assert!(asked["result"]["taskId"].is_null());
    let state = &asked["result"]["requestState"];
    let answers = r#""inputResponses":{"who":{"action":"accept","content":{}}}"#;
    assert_eq!(server.line(&call("2", WILLING, &format!(r#",{answers},"requestState":{state}"#))), NOTHING);
    let created = only(server.notify(Notice::GoesOnAsTask(id)));
    assert_eq!((&created["id"], &created["result"]["resultType"]), (&2.into(), &"task".into()), "{created}");
    assert!(created["result"]["taskId"].is_string() && created["result"]["requestState"].is_null());
    assert_eq!(server.notify(Notice::GoesOnAsTask(id)), NOTHING, "a task must be created only once");
}

#[test]
fn a_caller_without_task_support_gets_its_answer() {
    let mut server = with_tasks();
    let id = delivered(&mut server, &call("1", "{}", ""));
    assert_eq!(server.notify(Notice::GoesOnAsTask(id)), NOTHING);
    assert_eq!(server.notify(Notice::GoesOnAsTask(CallId(99))), NOTHING);
    assert_eq!(only(server.resolve_next())["result"]["resultType"], "complete");
}
