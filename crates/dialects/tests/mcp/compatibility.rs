//! Tests of the switch for hosts that request lists regardless of the agreement, and of other options of the menu.

use gladhand_core::wire::json;
use gladhand_dialects::CacheHints;
use gladhand_dialects::mcp::methods::TABLE;
use serde_json::json;

use crate::*;

const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

#[test]
fn the_switch_returns_empty_lists_and_opens_nothing_else() {
    for version in DIALECT.versions {
        let menu = Menu { empty_lists: true, ..Menu::default() };
        for (method, key) in LISTS {
            let mut server = with_menu(menu.clone(), version);
            let result = asked(&mut server, version, method, "")["result"].clone();
            assert_eq!(result[key], json!([]), "{version} {method}");
            assert_eq!(result["resultType"] == "complete", *version == STATELESS);
            assert_eq!(result["ttlMs"] == 0, *version == STATELESS);
            assert_eq!(server.opened[0].compatibility, ["empty_lists"], "the agreement must show the switch");
            let mut strict = with_menu(Menu::default(), version);
            assert_eq!(asked(&mut strict, version, method, "")["error"]["code"], -32601);
            assert!(strict.opened[0].compatibility.is_empty());
        }
        for rule in TABLE.iter().filter(|rule| rule.needs.is_some() && LISTS.iter().all(|(list, _)| *list != rule.name))
        {
            let answer = asked(&mut with_menu(menu.clone(), version), version, rule.name, "");
            let code = answer["error"]["code"].as_i64();
            assert!(matches!(code, Some(-32601 | -32021)), "{version} {}: {answer}", rule.name);
        }
    }
}

#[test]
fn the_switch_does_not_affect_provided_lists() {
    for version in DIALECT.versions {
        let mut server = with_menu(Menu { empty_lists: true, ..whole_menu() }, version);
        for (method, key) in LISTS {
            assert_ne!(asked(&mut server, version, method, "")["result"][key], json!([]), "{version} {method}");
        }
    }
    let mut server = with_menu(Menu { empty_lists: true, ..Menu::default() }, "2025-03-26");
    let batch = format!("[{},{PING}]", line("2025-03-26", "1", "prompts/list", ""));
    assert_eq!(only(server.line(&batch))[0]["result"], json!({"prompts": []}));
}

#[test]
fn a_server_describes_itself_by_its_setup() {
    let setup = ServerSetup {
        about: vec![("title".to_owned(), json::to_raw("Glad")), ("name".to_owned(), json::to_raw("forged"))],
        menu: Menu {
            instructions: Some("Be \"kind\".".to_owned()),
            cache: CacheHints { ttl_ms: 5000, public: true },
            ..whole_menu()
        },
        ..server_setup()
    };
    let info = json!({"name": "gladhand", "version": "0.0.0-test", "title": "Glad"});
    let fresh = || TestServer::pinned(&DIALECT, setup.clone()).holding();
    for version in HANDSHAKE {
        let result = only(fresh().line(&initialize(version)))["result"].clone();
        assert_eq!((&result["serverInfo"], &result["instructions"]), (&info, &"Be \"kind\".".into()));
        assert_eq!(result["capabilities"]["completions"].is_null(), version == "2024-11-05");
    }
    let result = asked(&mut fresh(), STATELESS, "server/discover", "")["result"].clone();
    assert_eq!(result["instructions"], "Be \"kind\".");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"], info);
    let cacheable = ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"];
    for (method, params) in
        cacheable.map(|method| (method, "")).into_iter().chain([("resources/read", r#""uri":"test://a""#)])
    {
        let result = asked(&mut fresh(), STATELESS, method, params)["result"].clone();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&5000.into(), &"public".into()), "{method}");
    }
    for (method, params) in [("tools/call", ECHO), ("prompts/get", r#""name":"p""#)] {
        assert!(asked(&mut fresh(), STATELESS, method, params)["result"]["ttlMs"].is_null(), "{method}");
    }
}

#[test]
fn the_baseline_completes_without_a_declared_capability() {
    let params = r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}"#;
    for version in DIALECT.versions {
        let answer = asked(&mut whole(version), version, "completion/complete", params);
        assert_eq!(answer["result"]["completion"], json!({"values": ["one"]}), "{version}");
        let mut without = with_menu(Menu { completions: false, ..whole_menu() }, version);
        assert_eq!(asked(&mut without, version, "completion/complete", params)["error"]["code"], -32601, "{version}");
    }
}
