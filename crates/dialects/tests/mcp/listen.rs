//! Tests of `subscriptions/listen` (2026-07-28) with every filter.

use gladhand_core::operations::{Notice, Update};
use gladhand_dialects::Server as _;
use gladhand_dialects::{Lane, Party, Stop};
use serde_json::json;

use crate::*;

const KEY: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(id: &str, filter: &Value) -> String {
    stateless(id, "subscriptions/listen", &format!(r#""notifications":{filter}"#), "")
}

fn acknowledged(id: u64, honoured: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {KEY: id}, "notifications": honoured},
    })
}

/// The method and the subscription of each line.
fn told(lines: Vec<String>) -> Vec<(String, u64)> {
    let told = |line: &String| {
        let line = value(line);
        (line["method"].as_str().unwrap().to_owned(), line["params"]["_meta"][KEY].as_u64().unwrap())
    };
    lines.iter().map(told).collect()
}

#[test]
fn each_requested_and_provided_filter_is_confirmed() {
    let filters = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];
    let notices = [Notice::ToolsChanged, Notice::PromptsChanged, Notice::ResourcesChanged];
    let methods = ["tools", "prompts", "resources"].map(|list| format!("notifications/{list}/list_changed"));
    for bits in 0..8 {
        let is_asked = |at: usize| bits >> at & 1 == 1;
        let filter: Value =
            (0..3).map(|at| (filters[at].to_owned(), is_asked(at).into())).collect::<serde_json::Map<_, _>>().into();
        let honoured: Value = (0..3)
            .filter(|at| is_asked(*at))
            .map(|at| (filters[at].to_owned(), true.into()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let mut server = whole(STATELESS);
        assert_eq!(only(server.line(&listen("5", &filter))), acknowledged(5, &honoured));
        for at in 0..3 {
            let expected = if is_asked(at) { vec![(methods[at].clone(), 5)] } else { vec![] };
            assert_eq!(told(server.notify(notices[at].clone())), expected, "{filter}");
        }
        let mut server = with_menu(Menu { tools: true, resources: true, prompts: true, ..Menu::default() }, STATELESS);
        assert_eq!(
            only(server.line(&listen("5", &filter))),
            acknowledged(5, &json!({})),
            "unchangeable lists must not be confirmed"
        );
    }
}

#[test]
fn the_acknowledgement_lists_the_resources_that_are_watched() {
    let mut server = whole(STATELESS);
    let filter =
        json!({"toolsListChanged": true, "resourceSubscriptions": ["test://b", "none://x", "test://a", "test://a"]});
    assert_eq!(server.line(&listen("5", &filter)), NOTHING, "the acknowledgement must wait for three answers");
    assert_eq!(server.delivered.len(), 3, "each resource must be requested once");
    assert_eq!(server.notify(Notice::ToolsChanged), NOTHING, "the acknowledgement must come first");
    let mut lines = Vec::new();
    while let Some(delivered) = server.delivered.pop_front() {
        assert_eq!(lines, NOTHING);
        let outcome = stock(&delivered.call.operation).unwrap();
        lines = server.resolve(delivered.call.id, outcome);
        server.notify(Notice::ResourceUpdated(Update::of("test://a")));
    }
    let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://a", "test://b"]});
    assert_eq!(value(&lines[0]), acknowledged(5, &honoured));
    let rest = [("notifications/tools/list_changed".to_owned(), 5), ("notifications/resources/updated".to_owned(), 5)];
    assert_eq!(told(lines[1..].to_vec()), rest, "earlier changes must follow the acknowledgement");
    let updated = only(server.notify(Notice::ResourceUpdated(Update::of("test://b/c"))));
    assert_eq!(updated["params"], json!({"_meta": {KEY: 5}, "uri": "test://b/c"}));
    assert_eq!(server.notify(Notice::ResourceUpdated(Update::of("none://x"))), NOTHING);
    server.line(&cancel("5"));
    assert_eq!(server.unwatched, ["test://a", "test://b"]);
    assert_eq!(server.notify(Notice::ResourceUpdated(Update::of("test://a"))), NOTHING);
}

#[test]
fn a_subscription_that_ended_early_cancels_its_watches() {
    for ended_by in ["cancelled", "hung up", "stopped"] {
        let mut server = whole(STATELESS);
        server.lane = Lane(7);
        let filter = json!({"resourceSubscriptions": ["test://a", "none://x"]});
        assert_eq!(server.line(&listen("5", &filter)), NOTHING);
        let lines = match ended_by {
            "cancelled" => server.line(&cancel("5")),
            "hung up" => server.handle_lane_closed(Lane(7)),
            _ => server.stop(Stop::Terminated),
        };
        assert_eq!(lines.len(), usize::from(ended_by == "stopped"));
        assert!(server.cancelled.is_empty());
        while let Some(delivered) = server.delivered.pop_front() {
            let outcome = stock(&delivered.call.operation).unwrap();
            assert_eq!(server.resolve(delivered.call.id, outcome), NOTHING, "{ended_by}");
        }
        assert_eq!(server.unwatched, ["test://a"], "{ended_by}");
        assert!(server.door.in_flight().is_empty());
    }
}

#[test]
fn a_closed_listener_cancels_its_watches() {
    for ends in [
        |server: &mut TestServer| server.handle_lane_closed(Lane(7)),
        |server: &mut TestServer| server.stop(Stop::Terminated),
    ] {
        let mut server = whole(STATELESS);
        server.lane = Lane(7);
        ask(&mut server, &listen("5", &json!({"resourceSubscriptions": ["test://a"]})));
        ends(&mut server);
        assert_eq!(server.unwatched, ["test://a"]);
    }
}

#[test]
fn resources_are_not_watched_without_the_capability() {
    let mut server = with_menu(Menu { resource_updates: false, ..whole_menu() }, STATELESS);
    let answer = only(server.line(&listen("5", &json!({"resourceSubscriptions": ["test://a"]}))));
    assert_eq!(answer, acknowledged(5, &json!({})));
    for bad in [json!({"resourceSubscriptions": "test://a"}), json!({"resourceSubscriptions": [7]})] {
        assert_eq!(error(whole(STATELESS).line(&listen("5", &bad))).1, -32602);
    }
    let long = json!({"resourceSubscriptions": ["x".repeat(5000)]});
    assert_eq!(error(whole(STATELESS).line(&listen("5", &long))).1, -32602);
    let many: Vec<_> = (0..5000).map(|at| format!("test://{at}")).collect();
    let answer = only(whole(STATELESS).line(&listen("5", &json!({"resourceSubscriptions": many}))));
    assert_eq!(answer["error"]["data"]["reason"], "busy");
}

#[test]
fn one_lane_cannot_use_all_subscriptions() {
    let mut server = whole(STATELESS);
    let mut count = 0;
    for lane in 1..=17 {
        server.lane = Lane(lane);
        for at in 0..65 {
            let answer = only(server.line(&listen(&at.to_string(), &json!({}))));
            let is_busy = answer["error"]["data"]["reason"] == "busy";
            assert_eq!(is_busy, at == 64 || lane == 17, "{lane} {at}");
            count += usize::from(!is_busy);
        }
    }
    assert_eq!(count, 1024);
}

#[test]
fn one_peer_of_many_cannot_take_all_the_room() {
    let mut server = whole(STATELESS);
    let mut lane = 0;
    let mut listens = |party, filter: &Value| {
        lane += 1;
        (server.lane, server.party) = (Lane(lane), Some(Party(party)));
        let lines = server.line(&listen("1", filter));
        !lines.first().is_some_and(|line| line.contains(r#""reason":"busy""#))
    };
    let mut shares = [0; 3];
    for (party, share) in shares.iter_mut().enumerate() {
        while listens(party as u64, &json!({})) {
            *share += 1;
        }
    }
    assert_eq!(shares, [512, 256, 128]);
    let many: Vec<_> = (0..2100).map(|at| format!("test://{at}")).collect();
    assert!(!listens(9, &json!({"resourceSubscriptions": many})), "one peer must not watch all resources");
    assert!(listens(9, &json!({"resourceSubscriptions": many[..2000]})));
}
