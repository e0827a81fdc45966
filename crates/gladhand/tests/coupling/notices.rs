//! Notifications and requests outside of answers: log lines, progress, cancellation, changes, and root lists that are
//! requested outside a call.

use serde_json::{Value, json};

use crate::bridge::{Client, Era, Script, everything, until};

fn pairs() -> impl Iterator<Item = (Era, Era)> {
    Era::BOTH.into_iter().flat_map(|client| Era::BOTH.map(|server| (client, server)))
}

#[test]
fn log_lines_come_from_the_level_on_that_the_client_wants() {
    for (era, server) in pairs() {
        let mut client = Client::open(era, server);
        match era {
            Era::Handshake => {
                let set = client.request("logging/setLevel", json!({"level": "info"}));
                assert!(set.get("result").is_some(), "{set}");
            }
            Era::Stateless => client.meta = json!({"io.modelcontextprotocol/logLevel": "info"}),
        }
        assert_eq!(client.text("log"), "logged");
        let levels: Vec<&Value> = client.heard.iter().map(|heard| &heard["params"]["level"]).collect();
        assert_eq!(levels, ["info", "error"], "{era:?} {server:?}: {:?}", client.heard);
        client.close();
    }
}

#[test]
fn a_stateless_client_without_a_log_level_gets_no_log_lines() {
    for server in Era::BOTH {
        let mut client = Client::open(Era::Stateless, server);
        assert_eq!(client.text("log"), "logged");
        assert_eq!(client.heard, Vec::<Value>::new());
        client.close();
    }
}

#[test]
fn progress_comes_under_the_clients_own_token() {
    for (era, server) in pairs() {
        let mut client = Client::open(era, server);
        client.meta = json!({"progressToken": "mine"});
        assert_eq!(client.text("count"), "counted");
        let reports: Vec<_> = client.heard.iter().map(|heard| heard["params"].clone()).collect();
        let expected = [1, 2, 3].map(|step| json!({"progressToken": "mine", "progress": step, "total": 3}));
        assert_eq!(reports, expected, "{era:?} {server:?}");
        client.heard.clear();
        client.meta = json!({});
        assert_eq!(client.text("count"), "counted");
        assert_eq!(client.heard, Vec::<Value>::new(), "who wants no progress hears of none");
        client.close();
    }
}

#[test]
fn progress_between_two_rounds_of_a_call_comes_with_the_second() {
    let mut client = Client::open(Era::Stateless, Era::Handshake);
    client.meta = json!({"progressToken": "first"});
    let mut call = json!({"name": "ask", "arguments": {}});
    let id = client.send("tools/call", call.clone());
    let asked = client.answer_to(id);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    // The server continues the call, although its question is open.
    client.meta = json!({});
    assert_eq!(client.text("report"), "reported");
    assert_eq!(client.heard, Vec::<Value>::new(), "no request of the call is open");
    let key = asked["result"]["inputRequests"].as_object().and_then(|all| all.keys().next()).expect("a question");
    call["inputResponses"] = json!({key: {"action": "accept", "content": {"name": "ada"}}});
    call["requestState"] = asked["result"]["requestState"].clone();
    client.meta = json!({"progressToken": "second"});
    let id = client.send("tools/call", call);
    assert_eq!(client.answer_to(id)["result"]["content"][0]["text"], "Hello, ada!");
    let reports: Vec<_> = client.heard.drain(..).map(|mut heard| heard["params"].take()).collect();
    assert_eq!(reports, [2, 3].map(|step| json!({"progressToken": "second", "progress": step, "total": 4})));
    client.close();
}

#[test]
fn a_cancelled_call_is_cancelled_at_the_server_and_answered_no_more() {
    for (era, server) in pairs() {
        let mut client = Client::open(era, server);
        client.meta = json!({"progressToken": 5});
        let id = client.send("tools/call", json!({"name": "linger", "arguments": {}}));
        client.hear_of("notifications/progress");
        client.notify("notifications/cancelled", json!({"requestId": id}));
        until("the server knows of it", || client.text("lingered") == "1");
        assert_eq!(client.heard, Vec::<Value>::new(), "{era:?} {server:?}");
        client.close();
    }
}

#[test]
fn a_list_that_changes_is_announced_and_is_new_when_it_is_asked_for() {
    for (era, server) in pairs() {
        let mut client = Client::open(era, server);
        if era == Era::Stateless {
            client.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
            client.hear_of("notifications/subscriptions/acknowledged");
        }
        assert!(!client.tools().contains(&"grown".to_owned()));
        assert_eq!(client.text("grow"), "grown");
        client.hear_of("notifications/tools/list_changed");
        assert!(client.tools().contains(&"grown".to_owned()), "{era:?} {server:?}");
        assert_eq!(client.text("grown"), "here");
        assert_eq!(client.script.objections(), Vec::<String>::new());
    }
}

#[test]
fn undeclared_log_lines_and_list_changes_are_forwarded() {
    let script = Script::of(Era::Handshake, &["declares-little"]);
    let mut client = Client::with(Era::Handshake, script, everything(), &[]);
    assert_eq!(client.text("log"), "logged");
    let levels: Vec<&Value> = client.heard.iter().map(|heard| &heard["params"]["level"]).collect();
    assert_eq!(levels, ["debug", "info", "error"], "{:?}", client.heard);
    assert_eq!(client.text("grow"), "grown");
    client.hear_of("notifications/tools/list_changed");
    assert!(client.tools().contains(&"grown".to_owned()));
    client.close();
}

#[test]
fn a_list_that_changes_without_a_word_is_new_when_it_is_asked_for() {
    for (era, server) in pairs() {
        let script = Script::of(server, &["changes-quietly"]);
        let mut client = Client::with(era, script, everything(), &[]);
        assert!(!client.tools().contains(&"grown".to_owned()));
        assert_eq!(client.text("grow"), "grown");
        assert_eq!(client.text("grown"), "here", "{era:?} {server:?}: a tool that was never listed is called");
        assert!(client.tools().contains(&"grown".to_owned()), "{era:?} {server:?}");
        client.close();
    }
}

#[test]
fn a_watched_resource_is_watched_at_the_server() {
    for (era, server) in pairs() {
        let mut client = Client::open(era, server);
        match era {
            Era::Handshake => {
                let watched = client.request("resources/subscribe", json!({"uri": "test://watched"}));
                assert!(watched.get("result").is_some(), "{watched}");
            }
            Era::Stateless => {
                let wanted = json!({"notifications": {"resourceSubscriptions": ["test://watched"]}});
                client.send("subscriptions/listen", wanted);
                client.hear_of("notifications/subscriptions/acknowledged");
            }
        }
        // The bridge may still be about to tell the server of it.
        let method = if server == Era::Handshake { "resources/subscribe" } else { "subscriptions/listen" };
        let script = &client.script;
        until("the server is told", || {
            script.requests(method).iter().any(|request| request.to_string().contains("test://watched"))
        });
        assert_eq!(client.text("touch"), "touched");
        let told = client.hear_of("notifications/resources/updated");
        assert_eq!(told["params"]["uri"], "test://watched", "{era:?} {server:?}");
        assert_eq!(client.script.objections(), Vec::<String>::new());
    }
}

#[test]
fn folders_that_are_asked_for_outside_a_call_are_the_sessions() {
    let script = Script::of(Era::Handshake, &["speaks-first"]);
    let mut client = Client::with(Era::Handshake, script, everything(), &[]);
    assert_eq!(client.text("echo"), "grüezi");
    while client.asked.is_empty() {
        client.text("echo");
    }
    assert_eq!(client.asked, ["roots/list"]);
    let script = &client.script;
    let answered = |message: &Value| message["id"] == 0 && message["result"]["roots"][0]["uri"] == "file:///home/ada";
    until("the server has its answer", || script.received().iter().any(answered));
    client.notify("notifications/roots/list_changed", json!({}));
    until("the server knows of the change", || !client.script.requests("notifications/roots/list_changed").is_empty());
    client.close();
}
