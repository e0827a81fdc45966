//! The type registry: every message of A2E 1.0, with its capability, direction and role (a2e §8).
//!
//! This one table is used by `claim`, by the gate (as [`RULES`]), by the tests and by the docs. It also contains types
//! that we do not serve, to distinguish a missing capability from an unknown type.

use gladhand_core::negotiation::{Kind, Need, Rule, Side};
use gladhand_core::operations::Feature;
use gladhand_core::wire::{FrameKind, FrameSummary, Members};

/// One message type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageType {
    /// The value of `type`, case-sensitive.
    pub name: &'static str,
    /// The capability that it belongs to. Empty for the core, which is always allowed.
    pub capability: &'static str,
    /// The side that sends it.
    pub from: Side,
    /// The role of the message in an exchange.
    pub role: Role,
}

/// The role of a message in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Expects exactly one final message.
    Request,
    /// A final message.
    Response,
    /// Sent before the final message, or without any request.
    Event,
    /// Expects no answer.
    Notice,
}

impl MessageType {
    /// The type of its response.
    pub fn response(&self) -> Option<&'static Self> {
        let stem = self.name.strip_suffix("/req").unwrap_or(self.name);
        TYPES.iter().find(|other| other.role == Role::Response && other.name.strip_suffix("/resp") == Some(stem))
    }

    /// Whether the request may be needed to unblock a running request, so that it must not be queued (a2e §6.6).
    pub fn is_urgent(&self) -> bool {
        ["proc/write/req", "proc/kill/req", "multi_agent/terminate"].contains(&self.name)
    }
}

const AGENT: Side = Side::Client;
const HOST: Side = Side::Server;

const fn row(name: &'static str, capability: &'static str, from: Side, role: Role) -> MessageType {
    MessageType { name, capability, from, role }
}

/// All message types: the core, the eleven capabilities, and the legacy `SUBAGENT_*` family.
#[rustfmt::skip]
pub static TYPES: &[MessageType] = &ROWS;

#[rustfmt::skip]
const ROWS: [MessageType; 136] = [
    row("handshake/req", "", AGENT, Role::Request),
    row("handshake/resp", "", HOST, Role::Response),
    row("ping", "", AGENT, Role::Request),
    row("pong", "", HOST, Role::Response),
    row("shutdown", "", AGENT, Role::Notice),
    row("error", "", HOST, Role::Response),
    row("invoke/event", "", HOST, Role::Event),
    row("tool/list/req", "tools", AGENT, Role::Request),
    row("tool/list/resp", "tools", HOST, Role::Response),
    row("tool/call/req", "tools", AGENT, Role::Request),
    row("tool/call/resp", "tools", HOST, Role::Response),
    row("tool/event", "tools", HOST, Role::Event),
    row("toolkit/list/req", "toolkits", AGENT, Role::Request),
    row("toolkit/list/resp", "toolkits", HOST, Role::Response),
    row("toolkit/configure/req", "toolkits", AGENT, Role::Request),
    row("toolkit/configure/resp", "toolkits", HOST, Role::Response),
    row("skill/discover/req", "skill", AGENT, Role::Request),
    row("skill/discover/resp", "skill", HOST, Role::Response),
    row("skill/call/req", "skill", AGENT, Role::Request),
    row("skill/call/resp", "skill", HOST, Role::Response),
    row("skill/event", "skill", HOST, Role::Event),
    row("env/reset/req", "env", AGENT, Role::Request),
    row("env/reset/resp", "env", HOST, Role::Response),
    row("env/step/req", "env", AGENT, Role::Request),
    row("env/step/resp", "env", HOST, Role::Response),
    row("env/observe/req", "env", AGENT, Role::Request),
    row("env/observe/resp", "env", HOST, Role::Response),
    row("env/close/req", "env", AGENT, Role::Request),
    row("env/close/resp", "env", HOST, Role::Response),
    row("env/space/req", "env", AGENT, Role::Request),
    row("env/space/resp", "env", HOST, Role::Response),
    row("env/render/req", "env", AGENT, Role::Request),
    row("env/render/resp", "env", HOST, Role::Response),
    row("env/plan/req", "env", AGENT, Role::Request),
    row("env/plan/resp", "env", HOST, Role::Response),
    row("env/batch_step/req", "env", AGENT, Role::Request),
    row("env/batch_step/resp", "env", HOST, Role::Response),
    row("env/exp/list/req", "env", AGENT, Role::Request),
    row("env/exp/list/resp", "env", HOST, Role::Response),
    row("env/state/push", "env", HOST, Role::Event),
    row("proc/spawn/req", "proc", AGENT, Role::Request),
    row("proc/spawn/resp", "proc", HOST, Role::Response),
    row("proc/write/req", "proc", AGENT, Role::Request),
    row("proc/write/resp", "proc", HOST, Role::Response),
    row("proc/kill/req", "proc", AGENT, Role::Request),
    row("proc/kill/resp", "proc", HOST, Role::Response),
    row("proc/status/req", "proc", AGENT, Role::Request),
    row("proc/status/resp", "proc", HOST, Role::Response),
    row("proc/read/event", "proc", HOST, Role::Event),
    row("memory/init/req", "memory", AGENT, Role::Request),
    row("memory/init/resp", "memory", HOST, Role::Response),
    row("memory/store/req", "memory", AGENT, Role::Request),
    row("memory/store/resp", "memory", HOST, Role::Response),
    row("memory/retrieve/req", "memory", AGENT, Role::Request),
    row("memory/retrieve/resp", "memory", HOST, Role::Response),
    row("memory/forget/req", "memory", AGENT, Role::Request),
    row("memory/forget/resp", "memory", HOST, Role::Response),
    row("learn/feedback/req", "learning", AGENT, Role::Request),
    row("learn/feedback/resp", "learning", HOST, Role::Response),
    row("learn/experience/req", "learning", AGENT, Role::Request),
    row("learn/experience/resp", "learning", HOST, Role::Response),
    row("learn/adapt/req", "learning", AGENT, Role::Request),
    row("learn/adapt/resp", "learning", HOST, Role::Response),
    row("learn/stats/req", "learning", AGENT, Role::Request),
    row("learn/stats/resp", "learning", HOST, Role::Response),
    row("learn/refinement/plan/req", "learning", AGENT, Role::Request),
    row("learn/refinement/plan/resp", "learning", HOST, Role::Response),
    row("learn/refinement/review/req", "learning", AGENT, Role::Request),
    row("learn/refinement/review/resp", "learning", HOST, Role::Response),
    row("learn/refinement/apply/req", "learning", AGENT, Role::Request),
    row("learn/refinement/apply/resp", "learning", HOST, Role::Response),
    row("learn/refinement/rollback/req", "learning", AGENT, Role::Request),
    row("learn/refinement/rollback/resp", "learning", HOST, Role::Response),
    row("learn/refinement/history/req", "learning", AGENT, Role::Request),
    row("learn/refinement/history/resp", "learning", HOST, Role::Response),
    row("chain/req", "chains", AGENT, Role::Request),
    row("chain/resp", "chains", HOST, Role::Response),
    row("chain/event", "chains", HOST, Role::Event),
    row("mcp/server/list/req", "mcp", AGENT, Role::Request),
    row("mcp/server/list/resp", "mcp", HOST, Role::Response),
    row("mcp/server/register/req", "mcp", AGENT, Role::Request),
    row("mcp/server/register/resp", "mcp", HOST, Role::Response),
    row("mcp/server/unregister/req", "mcp", AGENT, Role::Request),
    row("mcp/server/unregister/resp", "mcp", HOST, Role::Response),
    row("mcp/resource/list/req", "mcp", AGENT, Role::Request),
    row("mcp/resource/list/resp", "mcp", HOST, Role::Response),
    row("mcp/resource/read/req", "mcp", AGENT, Role::Request),
    row("mcp/resource/read/resp", "mcp", HOST, Role::Response),
    row("mcp/resource/subscribe/req", "mcp", AGENT, Role::Request),
    row("mcp/resource/subscribe/resp", "mcp", HOST, Role::Response),
    row("mcp/prompt/list/req", "mcp", AGENT, Role::Request),
    row("mcp/prompt/list/resp", "mcp", HOST, Role::Response),
    row("mcp/prompt/get/req", "mcp", AGENT, Role::Request),
    row("mcp/prompt/get/resp", "mcp", HOST, Role::Response),
    row("mcp/server/push", "mcp", HOST, Role::Event),
    row("mcp/sample/req", "mcp", HOST, Role::Request),
    row("mcp/sample/resp", "mcp", AGENT, Role::Response),
    row("mcp/root/list/req", "mcp", HOST, Role::Request),
    row("mcp/root/list/resp", "mcp", AGENT, Role::Response),
    row("planning/plan/create", "planning", AGENT, Role::Request),
    row("planning/plan/create/resp", "planning", HOST, Role::Response),
    row("planning/plan/list", "planning", AGENT, Role::Request),
    row("planning/plan/list/resp", "planning", HOST, Role::Response),
    row("planning/plan/board", "planning", AGENT, Role::Request),
    row("planning/plan/board/resp", "planning", HOST, Role::Response),
    row("planning/task/add", "planning", AGENT, Role::Request),
    row("planning/task/add/resp", "planning", HOST, Role::Response),
    row("planning/task/update", "planning", AGENT, Role::Request),
    row("planning/task/update/resp", "planning", HOST, Role::Response),
    row("planning/task/list", "planning", AGENT, Role::Request),
    row("planning/task/list/resp", "planning", HOST, Role::Response),
    row("multi_agent/spawn", "multi_agent", AGENT, Role::Request),
    row("multi_agent/spawn/resp", "multi_agent", HOST, Role::Response),
    row("multi_agent/delegate", "multi_agent", AGENT, Role::Request),
    row("multi_agent/delegate/resp", "multi_agent", HOST, Role::Response),
    row("multi_agent/await", "multi_agent", AGENT, Role::Request),
    row("multi_agent/await/resp", "multi_agent", HOST, Role::Response),
    row("multi_agent/list", "multi_agent", AGENT, Role::Request),
    row("multi_agent/list/resp", "multi_agent", HOST, Role::Response),
    row("multi_agent/terminate", "multi_agent", AGENT, Role::Request),
    row("multi_agent/terminate/resp", "multi_agent", HOST, Role::Response),
    row("SUBAGENT_SPAWN_REQ", "multi_agent", AGENT, Role::Request),
    row("SUBAGENT_DELEGATE_REQ", "multi_agent", AGENT, Role::Request),
    row("SUBAGENT_AWAIT_REQ", "multi_agent", AGENT, Role::Request),
    row("SUBAGENT_MESSAGE_REQ", "multi_agent", AGENT, Role::Request),
    row("SUBAGENT_LIST_REQ", "multi_agent", AGENT, Role::Request),
    row("SUBAGENT_CANCEL_REQ", "multi_agent", AGENT, Role::Request),
    row("SUBAGENT_TERMINATE_REQ", "multi_agent", AGENT, Role::Request),
    row("SUBAGENT_MERGE_REQ", "multi_agent", AGENT, Role::Request),
    row("SUBAGENT_SPAWN_RESP", "multi_agent", HOST, Role::Response),
    row("SUBAGENT_DELEGATE_RESP", "multi_agent", HOST, Role::Response),
    row("SUBAGENT_AWAIT_RESP", "multi_agent", HOST, Role::Response),
    row("SUBAGENT_MESSAGE_RESP", "multi_agent", HOST, Role::Response),
    row("SUBAGENT_LIST_RESP", "multi_agent", HOST, Role::Response),
    row("SUBAGENT_MERGE_RESP", "multi_agent", HOST, Role::Response),
    row("SUBAGENT_EVENT", "multi_agent", HOST, Role::Event),
];

/// The registry as the gate reads it.
pub static RULES: &[Rule] = &GATE_ROWS;

const GATE_ROWS: [Rule; ROWS.len()] = {
    let mut rules = [rule(&ROWS[0]); ROWS.len()];
    let mut at = 0;
    while at < ROWS.len() {
        rules[at] = rule(&ROWS[at]);
        at += 1;
    }
    rules
};

const fn rule(message: &MessageType) -> Rule {
    let needs = match message.capability.is_empty() {
        true => None,
        false => Some(Need { owner: HOST, capability: message.capability }),
    };
    let kind = match message.role {
        Role::Request => Kind::Call,
        Role::Response | Role::Event | Role::Notice => Kind::Notice,
    };
    // There is only one version, and it has all messages.
    Rule { name: message.name, from: message.from, kind, needs, since: "", until: "" }
}

/// The rows that carry a feature.
pub(super) fn carriers(feature: Feature) -> Vec<Rule> {
    let name = match feature {
        Feature::Tools => "tool/call/req",
        Feature::Progress => "tool/event",
        _ => return Vec::new(),
    };
    RULES.iter().filter(|rule| rule.name == name).copied().collect()
}

/// The row of a type.
pub fn find(name: &str) -> Option<&'static MessageType> {
    TYPES.iter().find(|message| message.name == name)
}

/// Describes a received line. `None` if it is no message of A2E.
pub(super) fn describe(text: &str) -> Option<FrameSummary<'_>> {
    let members = Members::parse(text).ok()?;
    let name = members.str("type")?;
    let message = find(&name)?;
    let (kind, id) = match message.role {
        Role::Request => (FrameKind::Request, "id"),
        Role::Response if message.name == "error" => {
            (FrameKind::Error { code: 0, names_request: members.some("req_id").is_some() }, "req_id")
        }
        Role::Response => (FrameKind::Result, "req_id"),
        Role::Event | Role::Notice => (FrameKind::Notice, "req_id"),
    };
    Some(FrameSummary { kind, name: Some(name), id: members.some(id) })
}

#[cfg(test)]
mod tests {
    use super::super::capabilities;
    use super::*;

    #[test]
    fn the_registry_holds_every_type_once_and_as_many_as_the_reference() {
        let mut names: Vec<_> = TYPES.iter().map(|message| message.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TYPES.len());
        let counted = |capability: &str| {
            let rows = TYPES.iter().filter(|message| message.capability == capability);
            rows.filter(|message| !message.name.starts_with("SUBAGENT_")).count()
        };
        let counts: Vec<_> =
            std::iter::once("").chain(capabilities::NAMES.iter().copied()).map(|name| (name, counted(name))).collect();
        let expected = vec![
            ("", 7),
            ("skill", 5),
            ("tools", 5),
            ("toolkits", 4),
            ("env", 19),
            ("proc", 9),
            ("memory", 8),
            ("learning", 18),
            ("chains", 3),
            ("mcp", 21),
            ("multi_agent", 10),
            ("planning", 12),
            ("test", 0),
        ];
        assert_eq!(counts, expected);
        assert_eq!(TYPES.len(), 121 + 15);
    }

    #[test]
    fn messages_are_described_by_their_type_and_their_request() {
        let of = |text: &'static str| {
            let summary = describe(text)?;
            Some((summary.kind, summary.name?.into_owned(), summary.id.map(|id| id.get())))
        };
        let text = r#"{"type":"ping","id":"7","req_id":"1"}"#;
        assert_eq!(of(text), Some((FrameKind::Request, "ping".to_owned(), Some(r#""7""#))));
        let text = r#"{"type":"error","id":"8","req_id":"7","code":"x"}"#;
        let error = FrameKind::Error { code: 0, names_request: true };
        assert_eq!(of(text), Some((error, "error".to_owned(), Some(r#""7""#))));
        assert_eq!(of(r#"{"type":"tool/event","id":"9"}"#), Some((FrameKind::Notice, "tool/event".to_owned(), None)));
        assert_eq!((of(r#"{"type":"unknown"}"#), of("[]")), (None, None));
    }

    #[test]
    fn every_request_of_the_agent_needs_its_capability_from_the_host() {
        for (message, rule) in TYPES.iter().zip(RULES) {
            let needs = rule.needs.map_or("", |need| need.capability);
            assert_eq!((message.name, message.from, message.capability), (rule.name, rule.from, needs));
            assert!(needs.is_empty() || capabilities::is_known(needs), "{needs}");
        }
    }
}
