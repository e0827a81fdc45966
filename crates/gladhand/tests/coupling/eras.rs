//! The eight cells: a client and a server of either era, a plain call and one with a question in its middle.

use serde_json::json;

use crate::bridge::{Client, Era, Script};

fn in_every_pair(check: fn(Client, Era, Era)) {
    for client in Era::BOTH {
        for server in Era::BOTH {
            check(Client::open(client, server), client, server);
        }
    }
}

#[test]
fn a_plain_call_returns_its_result_in_every_pair() {
    in_every_pair(|mut client, _, _| {
        assert!(client.tools().contains(&"echo".to_owned()));
        assert_eq!(client.text("echo"), "grüezi");
        let failed = client.call("fail", json!({}));
        assert_eq!(
            (&failed["result"]["isError"], &failed["result"]["content"][0]["text"]),
            (&json!(true), &json!("alas"))
        );
        let unknown = client.call("nothing", json!({}));
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        client.close();
    });
}

#[test]
fn a_question_in_the_middle_of_a_call_is_asked_and_answered_in_every_pair() {
    in_every_pair(|mut client, _, _| {
        assert_eq!(client.text("ask"), "Hello, ada!");
        assert_eq!(client.text("think"), "Bern");
        assert_eq!(client.text("roots"), "file:///home/ada");
        assert_eq!(client.asked, ["elicitation/create", "sampling/createMessage", "roots/list"]);
        client.close();
    });
}

#[test]
fn a_client_without_the_capability_gets_no_question_in_any_pair() {
    for era in Era::BOTH {
        for server in Era::BOTH {
            let mut client = Client::with(era, Script::of(server, &[]), json!({}), &[]);
            let refused = client.call("ask", json!({}));
            // A server without a handshake says so by an error, which only clients without one know.
            match (era, server) {
                (Era::Stateless, Era::Stateless) => assert_eq!(refused["error"]["code"], -32021, "{refused}"),
                _ => assert_eq!(refused["result"]["isError"], true, "{refused}"),
            }
            assert_eq!(client.text("echo"), "grüezi");
            assert_eq!(client.asked, [""; 0]);
            client.close();
        }
    }
}

#[test]
fn metadata_of_calls_and_results_is_forwarded_in_every_pair() {
    in_every_pair(|mut client, _, _| {
        client.meta = json!({"example.org/trace": {"id": "7"}});
        let answer = client.call("meta", json!({}));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let said: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(said["example.org/trace"], json!({"id": "7"}), "{answer}");
        assert_eq!(answer["result"]["_meta"]["example.org/from"], "the server", "{answer}");
        client.close();
    });
}

#[test]
fn the_bridge_forwards_name_and_instructions_of_the_server() {
    for server in Era::BOTH {
        let name = format!("scripted-{}", server.name());
        let mut client = Client::open(Era::Stateless, server);
        let discovered = client.request("server/discover", json!({}));
        let result = &discovered["result"];
        let info = result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].as_str();
        assert_eq!((info, &result["instructions"]), (Some(name.as_str()), &json!("Ask twice.")), "{discovered}");
        client.close();

        let script = Script::of(server, &[]);
        let mut process = crate::support::Process::start(script.bridge(&[]));
        let opened = process.ask(&crate::support::mcp_initialize("2025-06-18"));
        let result = &opened["result"];
        let version = &result["protocolVersion"];
        assert_eq!((&result["serverInfo"]["name"], version), (&json!(name), &json!("2025-06-18")), "{opened}");
        assert_eq!(result["instructions"], "Ask twice.");
    }
}

#[test]
fn resources_prompts_and_completions_go_through_in_every_pair() {
    in_every_pair(|mut client, _, _| {
        let read = client.request("resources/read", json!({"uri": "test://watched"}));
        assert_eq!(read["result"]["contents"][0]["text"], "still water", "{read}");
        let prompt = client.request("prompts/get", json!({"name": "greeting"}));
        assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Greet.", "{prompt}");
        let reference = json!({"type": "ref/prompt", "name": "greeting"});
        let argument = json!({"name": "city", "value": "B"});
        let completed = client.request("completion/complete", json!({"ref": reference, "argument": argument}));
        assert_eq!(completed["result"]["completion"]["values"], json!(["Bern"]), "{completed}");
        client.close();
    });
}
