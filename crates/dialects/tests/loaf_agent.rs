//! Tests of loaf with an agent: the call of each method, the form of events and answers, the end of the session.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

use std::time::Duration;

use gladhand_core::operations::{
    AgentCall, AgentEvent, CallId, Failure, FailureKind, ImageInput, ModelChoice, Notice, Operation, Reply,
};
use gladhand_core::wire::json;
use gladhand_dialects::loaf::DIALECT;
use gladhand_dialects::loaf::methods::{METHODS, Params, Run};
use gladhand_dialects::testing::{TestServer, server_setup};
use gladhand_dialects::{Menu, ServerSetup, Stop};

fn server() -> TestServer {
    let setup = server_setup();
    let menu = Menu { agent: true, ..setup.menu.clone() };
    TestServer::pinned(&DIALECT, ServerSetup { menu, ..setup }).holding()
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#)
}

/// The agent call of a request.
fn asked(server: &mut TestServer, line: &str) -> (CallId, AgentCall<'static>) {
    assert_eq!(server.line(line), Vec::<String>::new(), "{line}");
    let delivered = server.delivered.pop_front().unwrap();
    let Operation::Agent(call) = delivered.call.operation else { panic!("{line}") };
    (delivered.call.id, call)
}

fn event(kind: &'static str) -> Notice {
    Notice::Agent(AgentEvent { kind, payload: json::raw(r#"{"a":1}"#.to_owned()) })
}

#[test]
fn the_handshake_lists_all_methods() {
    let line = server().line(&request("rpc.handshake", "{}")).join("");
    let names: Vec<_> = METHODS.iter().map(|method| method.name).collect();
    assert!(line.contains(&serde_json::to_string(&names).unwrap()), "{line}");
    assert!(
        line.contains(r#""command_execute":true,"multi_session":true,"image_inputs":["path","data_url"]"#),
        "{line}"
    );
}

#[test]
fn every_method_of_the_agent_reaches_it() {
    let params = r#"{"session_id":"s","text":"t","api_key":"k","raw_command":"/help","model_id":"m","provider":"openai","thinking_level":"LOW","super_debug":true,"call_id":"c","allow":true}"#;
    for method in METHODS.iter().filter(|method| matches!(method.run, Run::Agent | Run::AgentOr(_))) {
        let mut server = server();
        let (id, _) = asked(&mut server, &request(method.name, params));
        let said = server.resolve(id, Ok(Reply::Agent(json::raw(r#"{"x":1.0}"#.to_owned()))));
        assert_eq!(said, [r#"{"jsonrpc":"2.0","id":7,"result":{"x":1.0}}"#], "{}", method.name);
        assert_eq!(server.closed.is_some(), method.name == "system.shutdown", "{}", method.name);
        // A method that reads its parameters accepts only an object.
        if method.params != Params::Ignored {
            let refused = server.line(&request(method.name, "[]")).join("");
            assert!(refused.contains("expected object") || server.closed.is_some(), "{}: {refused}", method.name);
        }
    }
}

#[test]
fn parameters_are_trimmed_and_read() {
    let mut server = server();
    for (method, params, expected) in [
        (
            "session.create",
            r#"{"title":" a ","cwd":"/x"}"#,
            AgentCall::Create { title: Some("a".into()), folder: Some("/x".into()) },
        ),
        (
            "session.send",
            r#"{"session_id":"s","images":[{"path":" p "},{},7,{"dataUrl":"data:x","mimeType":"image/png"}]}"#,
            AgentCall::Send {
                session: "s".into(),
                text: "".into(),
                enqueue: false,
                images: vec![
                    ImageInput { path: "p".into(), ..ImageInput::default() },
                    ImageInput {
                        path: "".into(),
                        mime_type: Some("image/png".into()),
                        data_url: Some("data:x".into()),
                    },
                ],
            },
        ),
        (
            "session.send",
            r#"{"session_id":"s","text":" t ","enqueue":true,"images":"none"}"#,
            AgentCall::Send { session: "s".into(), text: "t".into(), enqueue: true, images: Vec::new() },
        ),
        ("history.list", r#"{"limit":2.5,"cursor":null}"#, AgentCall::HistoryList { limit: Some(2.5), cursor: None }),
        (
            "model.select",
            r#"{"model_id":"m","provider":"local","thinking_level":"OFF","session_id":" "}"#,
            AgentCall::SelectModel(Box::new(ModelChoice {
                model: "m".into(),
                provider: "local".into(),
                thinking: "OFF".into(),
                routing: None,
                session: None,
                compress: false,
                only_session: false,
            })),
        ),
    ] {
        assert_eq!(asked(&mut server, &request(method, params)).1, expected, "{method} {params}");
    }
}

#[test]
fn errors_have_the_messages_of_the_reference() {
    let mut server = server();
    for (method, params, message) in [
        ("model.list", r#"{"provider":"x"}"#, "provider must be one of: openai, openrouter, antigravity"),
        (
            "model.select",
            r#"{"model_id":"m","provider":"x","thinking_level":"LOW"}"#,
            "provider must be openai, openrouter, or antigravity",
        ),
        ("history.list", r#"{"limit":"x"}"#, "invalid params for history.list: `limit` must be a finite number"),
        ("history.list", r#"{"cursor":1e400}"#, "invalid params for history.list: `cursor` must be a finite number"),
        (
            "session.steer",
            r#"{"session_id":"s"}"#,
            "invalid params for session.steer: `text` must be a non-empty string",
        ),
    ] {
        let line = server.line(&request(method, params)).join("");
        assert!(line.contains(&format!(r#""code":-32602,"message":"{message}""#)), "{line}");
    }
    for (failure, code, reason) in [
        (Failure::unknown_session("s"), -32603, "unknown_session"),
        (Failure::new(FailureKind::Internal, "session is busy"), -32603, "internal_error"),
        (Failure::new(FailureKind::Busy, "full"), -32000, "overloaded"),
    ] {
        let (id, _) = asked(&mut server, &request("session.get", r#"{"session_id":"s"}"#));
        let line = server.resolve(id, Err(failure.clone())).join("");
        let expected = format!(r#""error":{{"code":{code},"message":"{failure}","data":{{"reason":"{reason}"}}}}"#);
        assert!(line.contains(&expected), "{line}");
    }
}

#[test]
fn events_are_written_until_the_end() {
    let mut server = server();
    let (id, _) = asked(&mut server, &request("state.get", "null"));
    let [line] = &server.notify(event("session.status"))[..] else { panic!() };
    assert!(line.starts_with(r#"{"jsonrpc":"2.0","method":"event","params":{"type":"session.status","timestamp":"#));
    assert!(line.ends_with(r#","payload":{"a":1}}}"#), "{line}");
    server.resolve(id, Ok(Reply::Agent(json::raw("{}".to_owned()))));
    // Events of turns that a shutdown stopped are still sent. Lines are ignored.
    let (id, call) = asked(&mut server, &request("system.shutdown", "null"));
    assert_eq!(call, AgentCall::Shutdown { reason: None });
    server.resolve(id, Ok(Reply::Agent(json::raw(r#"{"accepted":true}"#.to_owned()))));
    assert_eq!(server.closed, Some(Duration::from_secs(5)));
    assert_eq!(server.line(&request("system.ping", "null")), Vec::<String>::new());
    assert_eq!(server.notify(event("session.interrupted")).len(), 1);
}

#[test]
fn a_successful_quit_command_ends_the_session() {
    for (command, outcome, ends) in [
        ("/QUIT now", Ok(Reply::Agent(json::raw("{}".to_owned()))), true),
        ("/exit", Err(Failure::unknown_session("s")), false),
        ("/help", Ok(Reply::Agent(json::raw("{}".to_owned()))), false),
    ] {
        let mut server = server();
        let params = format!(r#"{{"session_id":"s","raw_command":"{command}"}}"#);
        let (id, _) = asked(&mut server, &request("command.execute", &params));
        server.resolve(id, outcome);
        assert_eq!(server.closed.is_some(), ends, "{command}");
    }
}

#[test]
fn the_agent_gets_the_reason_for_a_stop() {
    for (stop, reason, last_event) in [
        (Stop::Interrupted, "sigint", 1),
        (Stop::Terminated, "sigterm", 1),
        (Stop::HungUp, "sigterm", 1),
        (Stop::InputClosed, "stdin_closed", 0),
    ] {
        let mut server = server();
        asked(&mut server, &request("state.get", "null"));
        assert_eq!(server.stop(stop), Vec::<String>::new());
        let delivered = server.delivered.pop_front().unwrap();
        let Operation::Agent(call) = delivered.call.operation else { panic!() };
        assert_eq!(call, AgentCall::Shutdown { reason: Some(reason.into()) });
        assert_eq!(server.notify(event("state.changed")).len(), last_event, "{reason}");
        assert_eq!(server.resolve(delivered.call.id, Ok(Reply::Done)), Vec::<String>::new());
        assert_eq!(server.notify(event("session.interrupted")), Vec::<String>::new(), "{reason}");
    }
}

#[test]
fn a_client_declares_approvals_in_the_handshake() {
    let mut server = server();
    assert_eq!(server.line(&request("rpc.handshake", r#"{"approvals":true}"#)).len(), 1);
    let delivered = server.delivered.pop_front().unwrap();
    assert!(matches!(delivered.call.operation, Operation::Agent(AgentCall::CanApprove)));
    assert_eq!(server.resolve(delivered.call.id, Ok(Reply::Done)), Vec::<String>::new());
}
