//! Tests of change notifications: subscriptions, and the stream that replaces them.

use std::time::Duration;

use gladhand_core::operations::{FailureKind, Operation};
use gladhand_dialects::testing::client_setup;
use gladhand_dialects::{ClientSetup, Event, Lane, Loss};

use crate::client::{EVERYTHING, Hand, opened_with, result};
use crate::*;

fn listening(exchanges: bool) -> Hand {
    opened_with(ClientSetup { listen: true, exchanges, ..client_setup(STATELESS) }, EVERYTHING)
}

fn watch(uri: &'static str) -> Operation<'static> {
    Operation::Watch(uri.into())
}

fn tagged(id: u64, method: &str, params: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{params}{comma}"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
    )
}

fn acknowledged(id: u64, filter: &str) -> String {
    tagged(id, "subscriptions/acknowledged", &format!(r#""notifications":{{{filter}}}"#))
}

const LISTS: &str = r#""toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true"#;

#[test]
fn subscriptions_of_the_handshake_are_counted() {
    let mut hand = opened_with(client_setup("2025-11-25"), EVERYTHING);
    let unwatch = |hand: &mut Hand| hand.step(|client, ambient, heard| client.unwatch("a:b", ambient, heard));
    hand.calls(1, watch("a:b"));
    hand.calls(2, watch("a:b"));
    hand.hears(&result("2", "{}"));
    hand.hears(&result("3", "{}"));
    assert!(hand.take_outcome(1).is_ok() && hand.take_outcome(2).is_ok());
    hand.take_sent();
    unwatch(&mut hand);
    assert_eq!(hand.sent, NOTHING, "another subscriber is left");
    unwatch(&mut hand);
    let sent = hand.only_sent();
    assert_eq!((&sent["method"], &sent["params"]["uri"]), (&"resources/unsubscribe".into(), &"a:b".into()));
    unwatch(&mut hand);
    assert_eq!(hand.sent, NOTHING);
}

#[test]
fn a_stream_requests_the_declared_changes() {
    let mut hand = listening(false);
    let sent = hand.only_sent();
    assert_eq!(sent["method"], "subscriptions/listen");
    let expected =
        serde_json::json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    assert_eq!(sent["params"]["notifications"], expected);
    hand.hears(&acknowledged(2, LISTS));
    hand.hears(&tagged(2, "tools/list_changed", ""));
    hand.hears(&tagged(9, "prompts/list_changed", ""));
    assert_eq!(hand.take_notices(), ["ToolsChanged"], "only requested changes may be reported");
    assert_eq!(opened_with(ClientSetup { listen: true, ..client_setup(STATELESS) }, r#"{"tools":{}}"#).sent, NOTHING);
    assert_eq!(
        opened_with(client_setup(STATELESS), EVERYTHING).sent,
        NOTHING,
        "no stream may be opened without a request"
    );
}

#[test]
fn a_second_stream_replaces_the_first_to_add_a_resource() {
    for exchanges in [false, true] {
        let mut hand = listening(exchanges);
        hand.hears(&acknowledged(2, LISTS));
        hand.take_sent();
        hand.calls(1, watch("a:b"));
        hand.calls(2, watch("c:d"));
        let sent = hand.only_sent();
        assert_eq!(sent["params"]["notifications"]["resourceSubscriptions"], serde_json::json!(["a:b"]));
        assert!(hand.is_open(1));
        hand.hears(&tagged(2, "tools/list_changed", ""));
        hand.hears(&acknowledged(3, &format!(r#"{LISTS},"resourceSubscriptions":["a:b"]"#)));
        assert!(hand.take_outcome(1).is_ok() && hand.is_open(2));
        let sent = hand.take_sent();
        let next = sent.last().unwrap();
        assert_eq!(next["params"]["notifications"]["resourceSubscriptions"], serde_json::json!(["a:b", "c:d"]));
        let let_go = hand.events.iter().any(|event| matches!(event, Event::LetGo(Lane(2))));
        let cancelled = sent[0]["params"]["requestId"] == 2;
        assert_eq!(
            (let_go, cancelled),
            (exchanges, !exchanges),
            "the first stream must be ended in the way of its transport"
        );
        hand.hears(&acknowledged(4, &format!(r#"{LISTS},"resourceSubscriptions":["a:b"]"#)));
        assert_eq!(
            hand.take_outcome(2).unwrap_err().kind,
            FailureKind::UnknownResource,
            "the resource was not confirmed"
        );
        hand.hears(&tagged(4, "resources/updated", r#""uri":"a:b/part""#));
        assert_eq!(hand.take_notices(), ["ToolsChanged", r#"ResourceUpdated(Update { uri: "a:b/part", denied: [] })"#]);
        hand.take_sent();
        hand.step(|client, ambient, heard| client.unwatch("a:b", ambient, heard));
        assert!(hand.only_sent()["params"]["notifications"].get("resourceSubscriptions").is_none());
    }
}

#[test]
fn a_stream_that_ends_is_reopened_and_the_gap_is_reported() {
    let mut hand = listening(true);
    hand.hears(&acknowledged(2, LISTS));
    hand.take_sent();
    hand.hears_on(2, &result("2", r#"{"resultType":"complete"}"#));
    assert_eq!(hand.wakes(), Duration::from_millis(250));
    assert_eq!(hand.only_sent()["method"], "subscriptions/listen");
    hand.loses(3, Loss::Broken);
    assert_eq!(hand.wakes(), Duration::from_millis(500), "the pause must grow");
    hand.hears(&acknowledged(4, LISTS));
    assert_eq!(hand.take_notices(), ["ToolsChanged", "PromptsChanged", "ResourcesChanged"]);
    let mut hand = listening(false);
    hand.hears(&acknowledged(2, LISTS));
    hand.hears(&cancel("2"));
    assert!(hand.has_deadline(), "a cancellation must also end a stream");
}

#[test]
fn a_refused_stream_is_not_requested_again() {
    let refusal = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}"#;
    let mut hand = listening(false);
    hand.hears(refusal);
    assert!(!hand.has_deadline());
    let mut hand = listening(true);
    hand.loses(2, Loss::Status(405));
    assert!(!hand.has_deadline());
    let mut hand = opened_with(client_setup(STATELESS), EVERYTHING);
    hand.calls(1, watch("a:b"));
    hand.hears(refusal);
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamError);
    hand.calls(2, watch("a:b"));
    hand.cancels(2);
    assert_eq!(hand.take_outcome(2).unwrap_err().kind, FailureKind::Cancelled);
}

/// The resources of a listen request. It must also ask for changes of lists.
fn uris(listen: &Value) -> Vec<&str> {
    let filter = &listen["params"]["notifications"];
    assert_eq!(filter["toolsListChanged"], true, "{listen}");
    let uris = filter["resourceSubscriptions"].as_array();
    uris.into_iter().flatten().filter_map(|uri| uri.as_str()).collect()
}

fn refusal(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"busy"}}}}"#)
}

#[test]
fn an_excess_resource_fails_and_list_changes_are_still_reported() {
    let mut hand = listening(true);
    hand.hears(&acknowledged(2, LISTS));
    hand.calls(1, watch("a:b"));
    hand.hears(&acknowledged(3, &format!(r#"{LISTS},"resourceSubscriptions":["a:b"]"#)));
    assert!(hand.take_outcome(1).is_ok());
    hand.take_sent();
    hand.calls(2, watch("c:d"));
    hand.calls(3, watch("e:f"));
    assert_eq!(uris(&hand.only_sent()), ["a:b", "c:d"]);
    hand.hears(&refusal(4));
    assert_eq!(hand.take_outcome(2).unwrap_err().kind, FailureKind::UpstreamError);
    assert_eq!(uris(&hand.only_sent()), ["a:b", "e:f"], "the next stream must not contain the refused resource");
    hand.loses(5, Loss::Status(400));
    assert_eq!(hand.take_outcome(3).unwrap_err().kind, FailureKind::UpstreamError);
    assert_eq!(hand.sent, NOTHING, "the current stream covers all remaining resources");
    hand.hears(&tagged(3, "tools/list_changed", ""));
    assert_eq!(hand.take_notices(), ["ToolsChanged"]);
    hand.step(|client, ambient, heard| client.unwatch("a:b", ambient, heard));
    assert!(uris(&hand.only_sent()).is_empty());
}

#[test]
fn a_reopened_stream_requests_fewer_resources_until_granted() {
    let mut hand = listening(true);
    hand.hears(&acknowledged(2, LISTS));
    let all = ["a:", "b:", "c:", "d:"];
    for (at, uri) in (0..).zip(all) {
        hand.calls(at, watch(uri));
        hand.hears(&acknowledged(3 + at, &format!(r#"{LISTS},"resourceSubscriptions":["a:","b:","c:","d:"]"#)));
    }
    hand.take_sent();
    hand.loses(6, Loss::Broken);
    hand.wakes();
    for (id, asked) in [(7, &all[..]), (8, &all[..2]), (9, &all[..1]), (10, &[])] {
        assert_eq!(uris(&hand.only_sent()), asked);
        if !asked.is_empty() {
            hand.hears(&refusal(id));
        }
    }
    hand.hears(&acknowledged(10, LISTS));
    hand.take_notices();
    hand.hears(&tagged(10, "tools/list_changed", ""));
    assert_eq!(hand.take_notices(), ["ToolsChanged"]);
    hand.step(|client, ambient, heard| client.unwatch("d:", ambient, heard));
    assert_eq!(uris(&hand.only_sent()), all[..3], "all resources must be requested again");
}

#[test]
fn an_unconfirmed_resource_is_unknown_or_unsupported() {
    for (filter, kind) in [
        (r#""resourceSubscriptions":["c:d"]"#, FailureKind::UnknownResource),
        ("", FailureKind::Unsupported),
        (LISTS, FailureKind::Unsupported),
    ] {
        let mut hand = opened_with(client_setup(STATELESS), EVERYTHING);
        hand.calls(1, watch("a:b"));
        let id = hand.only_sent()["id"].as_u64().unwrap();
        hand.hears(&acknowledged(id, filter));
        assert_eq!(hand.take_outcome(1).unwrap_err().kind, kind, "{filter}");
    }
}
