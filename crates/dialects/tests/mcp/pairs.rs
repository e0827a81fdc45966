//! Tests of our client against our server, in every revision.

use gladhand_core::negotiation::{Capability, Side, Verdict, Why};
use gladhand_core::operations::{Content, FailureKind, Reply};
use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::testing::{Pair, client_setup, server_setup};
use gladhand_dialects::{ClientSetup, Menu, ServerSetup};

use crate::*;

fn menus() -> impl Iterator<Item = Menu> {
    (0..8).map(|bits| Menu {
        tools: bits & 1 != 0,
        tool_changes: bits & 2 != 0,
        logging: bits & 4 != 0,
        ..Menu::default()
    })
}

#[test]
fn both_sides_agree_on_the_same_in_every_revision_and_with_every_menu() {
    for version in DIALECT.versions {
        for menu in menus() {
            let setup = ServerSetup { menu: menu.clone(), ..server_setup() };
            let mut pair = Pair::new(&DIALECT, setup, client_setup(version));
            let agreement = pair.open().unwrap_or_else(|refusal| panic!("{version}: {refusal}"));
            let servers = pair.server.opened.last().unwrap();
            // Settings may contain the parts. The parts themselves are separate terms.
            let summary = |agreement: &gladhand_core::negotiation::Agreement| {
                let terms: Vec<_> =
                    agreement.terms.iter().map(|term| (term.owner, term.capability.clone(), term.verdict)).collect();
                (
                    agreement.version.clone(),
                    agreement.asked_version.clone(),
                    agreement.client.clone(),
                    agreement.server.clone(),
                    terms,
                )
            };
            assert_eq!(summary(&agreement), summary(servers), "{version} {menu:?}");
            assert_eq!(agreement.version, *version);
            let names: Vec<_> = agreement.agreed(Side::Server).map(|term| term.capability.0.to_string()).collect();
            let mut expected = Vec::new();
            expected.extend(menu.logging.then_some("logging"));
            expected.extend(menu.tools.then_some("tools"));
            expected.extend((menu.tools && menu.tool_changes).then_some("tools.listChanged"));
            assert_eq!(names, expected, "{version}");
        }
    }
}

#[test]
fn tools_are_listed_called_and_fail_alike_in_every_revision() {
    for version in DIALECT.versions {
        let mut pair = Pair::new(&DIALECT, ServerSetup { page_size: 1, ..server_setup() }, client_setup(version));
        pair.open().unwrap();
        let names: Vec<_> = pair.list_tools().iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(names, ["echo", "fail"], "{version}");
        let Ok(Reply::Tool(result)) = pair.call_tool("echo", r#"{"message":"h\ud83di"}"#) else { panic!("{version}") };
        let [Content::Text(text)] = &result.content[..] else { panic!("{version}: {result:?}") };
        assert_eq!(text.get(), r#""h\ud83di""#);
        assert!(!result.failed);
        let Ok(Reply::Tool(result)) = pair.call_tool("fail", r#"{"message":"no"}"#) else { panic!("{version}") };
        assert!(result.failed && result.joined_text() == "no");
        let Ok(Reply::Tool(result)) = pair.call_tool("echo", "{}") else { panic!("{version}") };
        assert!(result.failed && result.joined_text() == "message: required");
        let failure = pair.call_tool("nope", "{}").unwrap_err();
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::UnknownTool, "unknown tool: nope"));
    }
}

#[test]
fn a_client_sends_no_tool_requests_to_a_server_without_tools() {
    for version in DIALECT.versions {
        let menu = Menu { tools: false, tool_changes: false, logging: true, ..Menu::default() };
        let mut pair = Pair::new(&DIALECT, ServerSetup { menu, ..server_setup() }, client_setup(version));
        pair.open().unwrap();
        let sent = pair.transcript.len();
        assert_eq!(pair.list_tools().len(), 0);
        assert_eq!(pair.call_tool("echo", "{}").unwrap_err().kind, FailureKind::UnknownTool);
        assert_eq!(pair.transcript.len(), sent, "{version}: a request was sent through a closed gate");
    }
}

#[test]
fn client_capabilities_are_in_force_only_if_the_revision_has_them() {
    let provides = ["roots", "roots.listChanged", "elicitation", "elicitation.url", "sampling", "made-up"];
    let setup = |version: &str| ClientSetup {
        provides: provides.iter().map(|name| (Capability::from_wire(*name), None)).collect(),
        ..client_setup(version)
    };
    let refused = |version: &str| -> Vec<(String, Why)> {
        let mut pair = Pair::new(&DIALECT, server_setup(), setup(version));
        let agreement = pair.open().unwrap();
        let terms = agreement.terms.iter().filter(|term| term.owner == Side::Client);
        let refused = terms.filter_map(|term| match term.verdict {
            Verdict::Agreed => None,
            Verdict::Refused(why) => Some((term.capability.0.to_string(), why)),
        });
        let refused: Vec<_> = refused.collect();
        let servers = pair.server.opened.last().unwrap();
        for name in provides {
            assert_eq!(agreement.allows(Side::Client, name), servers.allows(Side::Client, name), "{version} {name}");
            assert!(agreement.term(Side::Client, name).is_some() && servers.term(Side::Client, name).is_some());
        }
        refused
    };
    let unknown = ("made-up".to_owned(), Why::Unknown);
    let not_yet = |name: &str| (name.to_owned(), Why::NotInThisVersion);
    let elicitation = [not_yet("elicitation"), not_yet("elicitation.url"), unknown.clone()];
    assert_eq!(refused("2024-11-05"), elicitation);
    assert_eq!(refused("2025-03-26"), elicitation);
    assert_eq!(refused("2025-06-18"), [not_yet("elicitation.url"), unknown.clone()]);
    assert_eq!(refused("2025-11-25"), std::slice::from_ref(&unknown));
    assert_eq!(refused("2026-07-28"), [unknown, not_yet("roots.listChanged")]);
}

#[test]
fn progress_arrives_and_a_cancelled_call_is_answered_once() {
    use gladhand_core::operations::{Notice, Progress};
    for version in DIALECT.versions {
        let mut pair = Pair::new(&DIALECT, server_setup(), client_setup(version));
        pair.server.answers_itself = false;
        pair.open().unwrap();
        let id = pair.begin(gladhand_dialects::testing::bare_call("echo"), true);
        let delivered = pair.server.delivered[0].call.id;
        let report = Progress { progress: 0.5, total: Some(1.0), message: Some("half".to_owned()) };
        let lines = pair.server.notify(Notice::Progress(delivered, report.clone()));
        pair.hear(&lines);
        let heard: Vec<_> = std::mem::take(&mut pair.events);
        let message = (*version != "2024-11-05").then(|| "half".to_owned());
        assert_eq!(format!("{heard:?}"), format!("[Notice(Progress({id:?}, {:?}))]", Progress { message, ..report }));
        pair.step(|client, ambient, heard| client.cancel(id, ambient, heard));
        assert_eq!(pair.server.cancelled, [delivered]);
        let outcomes = pair.take_answers(id);
        assert_eq!(outcomes.len(), 1, "{version}");
        assert_eq!(outcomes[0].as_ref().unwrap_err().kind, FailureKind::Cancelled);
        assert_eq!(
            pair.server.resolve(delivered, Err(gladhand_dialects::testing::a_failure(FailureKind::Internal))),
            NOTHING
        );
    }
}
