//! Tests of the gate: every row of the method table, every revision, with and without the capability.

use gladhand_core::negotiation::{
    Capability, Closed, Gate, Kind, Minimum, Offer, Peer, Rules, Side, VersionRule, agree,
};
use gladhand_dialects::Unagreed;
use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::mcp::capabilities::defines;
use gladhand_dialects::mcp::methods::TABLE;

use crate::*;

const RULES: Rules = Rules { dialect: "mcp", versions: VersionRule::Common, minimum: Minimum::Nothing, defines };

/// A gate where `owner` provides a capability and its parents.
fn gate(version: &str, owner: Side, capability: Option<&str>) -> Gate {
    let mut offers = [Offer::new(Peer::default(), [version]), Offer::new(Peer::default(), [version])];
    let mut name = capability.map(Capability::from_wire);
    while let Some(capability) = name {
        name = capability.parent().map(Capability::from_wire);
        let at = usize::from(owner == Side::Server);
        offers[at].provides.insert(capability, None);
    }
    Gate::new(TABLE, &agree(&RULES, &offers[0], &offers[1]).unwrap())
}

#[test]
fn a_row_is_open_exactly_if_its_revision_has_it_and_its_owner_declared_it() {
    let mut open_rows = 0;
    for version in DIALECT.versions {
        for rule in TABLE {
            let owner = rule.needs.map_or(Side::Server, |need| need.owner);
            let capability = rule.needs.map(|need| need.capability);
            let with = gate(version, owner, capability).admit(rule.from, rule.name);
            let without = gate(version, owner, None).admit(rule.from, rule.name);
            // Some names have several rows. Any of them may open the method.
            let rows =
                || TABLE.iter().filter(|row| row.name == rule.name && row.from == rule.from && row.is_in(version));
            let is_free = rows().any(|row| row.needs.is_none());
            let opens = rows().any(|row| row.needs == rule.needs);
            assert_eq!(with.is_ok(), is_free || opens, "{version} {} with {capability:?}", rule.name);
            assert_eq!(without.is_ok(), is_free, "{version} {} without", rule.name);
            if rows().next().is_none() {
                assert_eq!(without.unwrap_err(), Closed::NotInThisVersion);
            }
            open_rows += usize::from(with.is_ok());
        }
    }
    assert!(open_rows > 100, "the table has too few open rows");
}

#[test]
fn the_table_has_the_rows_of_the_inventory() {
    let in_revision =
        |version: &str, from| -> usize { TABLE.iter().filter(|row| row.from == from && row.is_in(version)).count() };
    let counts: Vec<_> = DIALECT
        .versions
        .iter()
        .map(|version| (*version, in_revision(version, Side::Client), in_revision(version, Side::Server)))
        .collect();
    let expected = [
        ("2025-11-25", 22, 17),
        ("2025-06-18", 17, 11),
        ("2025-03-26", 17, 10),
        ("2024-11-05", 17, 10),
        ("2026-07-28", 14, 9),
    ];
    assert_eq!(counts, expected);
}

/// The expected answer of a server with this menu: success, or an error code.
fn expected(method: &str, version: &str, menu: &Menu) -> Result<(), i64> {
    let rows = TABLE.iter().filter(|row| row.from == Side::Client && row.name == method && row.is_in(version));
    let mut answer = Err(-32601);
    for row in rows {
        let is_agreed = match row.needs.map(|need| need.capability) {
            // The baseline has no capability for completion. A server without it does not have the method.
            None => method != "completion/complete" || menu.completions,
            Some("tools") => menu.tools,
            Some("resources") => menu.resources,
            Some("resources.subscribe") => menu.resources && menu.resource_updates,
            Some("prompts") => menu.prompts,
            Some("completions") => menu.completions,
            Some("logging") => menu.logging,
            Some(extension) if extension.starts_with("extensions.") => {
                answer = Err(-32021);
                false
            }
            Some(_) => false,
        };
        if row.kind == Kind::Call && is_agreed {
            answer = Ok(());
        }
    }
    answer
}

/// An empty menu, a full menu, each entry alone, and everything except each entry.
fn menus() -> Vec<Menu> {
    let switches: [fn(&mut Menu) -> &mut bool; 9] = [
        |menu| &mut menu.tools,
        |menu| &mut menu.tool_changes,
        |menu| &mut menu.resources,
        |menu| &mut menu.resource_changes,
        |menu| &mut menu.resource_updates,
        |menu| &mut menu.prompts,
        |menu| &mut menu.prompt_changes,
        |menu| &mut menu.completions,
        |menu| &mut menu.logging,
    ];
    let mut menus = vec![Menu::default(), whole_menu()];
    for switch in switches {
        for mut menu in [Menu::default(), whole_menu()] {
            *switch(&mut menu) ^= true;
            menus.push(menu);
        }
    }
    menus
}

#[test]
fn a_server_answers_every_row_by_the_agreement() {
    let params = |method: &str| match method {
        "tools/call" => ECHO,
        "logging/setLevel" => r#""level":"info""#,
        "subscriptions/listen" => r#""notifications":{"toolsListChanged":true}"#,
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => r#""uri":"test://a""#,
        "prompts/get" => r#""name":"p""#,
        "completion/complete" => r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}"#,
        _ => r#""x":1"#,
    };
    for menu in menus() {
        for rule in TABLE {
            let method = rule.name;
            for version in DIALECT.versions {
                let mut server = with_menu(menu.clone(), version);
                let answer = only(ask(&mut server, &line(version, "7", method, params(method))));
                let expected = match method {
                    "initialize" if *version != STATELESS => Err(-32600),
                    _ => expected(method, version, &menu),
                };
                let got = answer["error"]["code"].as_i64().map_or(Ok(()), Err);
                assert_eq!(got, expected, "{version} {method} {menu:?}: {answer}");
            }
        }
    }
}

#[test]
fn a_notification_is_never_answered_whether_its_gate_is_open_or_not() {
    let mut names: Vec<_> = TABLE.iter().filter(|rule| rule.kind == Kind::Notice).map(|rule| rule.name).collect();
    names.extend(["notifications/made-up", "tools/list", "initialize", "nonsense"]);
    for version in HANDSHAKE {
        for name in &names {
            let mut server = open(version);
            let line = format!(r#"{{"jsonrpc":"2.0","method":"{name}","params":{{}}}}"#);
            assert_eq!(server.line(&line), NOTHING, "{version} {name}");
            assert_eq!(server.dropped.len(), 1, "{version} {name}");
            assert_eq!(server.line(PING), [PONG]);
        }
    }
}

#[test]
fn a_missing_client_capability_is_named() {
    let answer = only(server().line(&stateless("1", "tasks/get", r#""taskId":"t""#, "")));
    assert_eq!(answer["error"]["code"], -32021);
    let required = serde_json::json!({"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    assert_eq!(answer["error"]["data"], required);
    // The client declares it, but this server does not have it, so the method does not exist.
    let declared = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#;
    assert_eq!(error(server().line(declared)).1, -32601);
    for removed in ["tasks/result", "tasks/list"] {
        assert_eq!(error(server().line(&stateless("1", removed, "", ""))).1, -32601);
    }
}

#[test]
fn an_unagreed_request_passes_if_the_setting_allows_it() {
    for version in DIALECT.versions {
        let refusing = ServerSetup { menu: Menu::default(), ..server_setup() };
        let observing = ServerSetup { unagreed: Unagreed::Passes, ..refusing.clone() };
        for (setup, is_answered) in [(refusing, false), (observing, true)] {
            let server = TestServer::pinned(&DIALECT, setup);
            let mut server = if *version == STATELESS { server } else { opened(server, version) };
            let answer = only(ask(&mut server, &line(version, "7", "tools/list", r#""x":1"#)));
            assert_eq!(answer["result"]["tools"].is_array(), is_answered, "{version}: {answer}");
            assert_eq!(server.dropped, ["a request that was not agreed"], "{version}");
            // An unknown method stays unknown.
            let unknown = only(ask(&mut server, &line(version, "8", "no/such", r#""x":1"#)));
            assert_eq!(unknown["error"]["code"], -32601, "{version}");
        }
    }
}
