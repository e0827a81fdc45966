//! The method table: every method of the dialect, its parameters, and the capability that it requires.
//!
//! The server side, the list in the handshake, the claim on a first line and the tests all use this table (`loaf` §5).

use std::sync::LazyLock;

use gladhand_core::negotiation::{Kind, Need, Rule, Side};
use gladhand_core::operations::Feature;

use super::params::{Check, Field};

pub use super::params::Params;

/// One row.
#[derive(Debug)]
pub struct Method {
    /// The name, compared exactly.
    pub name: &'static str,
    /// The accepted parameters.
    pub params: Params,
    /// The behaviour.
    pub run: Run,
    /// The required capability. Without it, the method is not listed and is answered like an unknown one.
    pub needs: Option<&'static str>,
}

/// The behaviour of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// `rpc.handshake`
    Handshake,
    /// `system.ping`
    Ping,
    /// `tools.call`
    CallTool,
    /// The agent answers.
    Agent,
    /// The agent answers, or this side if there is no agent.
    AgentOr(Plain),
}

/// Methods that are also answered without an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    /// `system.shutdown`
    Shutdown,
    /// `state.get`
    State,
    /// `debug.set`
    Debug,
    /// `tools.list`
    ListTools,
    /// `session.create`
    CreateSession,
    /// `session.get`
    ReadSession,
}

const SESSION: Field = field("session_id", Check::RequiredString);

/// All methods, sorted by name: the reference's 29, and our additions `session.approve`, `session.delete`,
/// `session.list` and `tools.call`.
pub static METHODS: &[Method] = &[
    agent("auth.connect.antigravity", Params::Ignored),
    agent(
        "auth.connect.openai",
        Params::Optional(&[field("mode", Check::OptionalString), field("originator", Check::OptionalString)]),
    ),
    agent("auth.set.exa_key", Params::Required(&[field("api_key", Check::RequiredString)])),
    agent("auth.set.openrouter_key", Params::Required(&[field("api_key", Check::RequiredString)])),
    agent("auth.status", Params::Ignored),
    agent("command.execute", Params::Required(&[SESSION, field("raw_command", Check::RequiredString)])),
    callable(
        "debug.set",
        Run::AgentOr(Plain::Debug),
        Params::Required(&[field("super_debug", Check::RequiredBoolean)]),
    ),
    agent("history.clear_session", Params::Required(&[SESSION])),
    agent(
        "history.get",
        Params::Optional(&[
            field("id", Check::OptionalString),
            field("last", Check::OptionalBoolean),
            field("rollout_path", Check::OptionalString),
        ]),
    ),
    agent(
        "history.list",
        Params::Optional(&[field("limit", Check::OptionalNumber), field("cursor", Check::OptionalNumber)]),
    ),
    agent("limits.get", Params::Ignored),
    agent("model.list", Params::Optional(&[field("provider", Check::OptionalString)])),
    agent("model.openrouter.providers", Params::Required(&[field("model_id", Check::RequiredString)])),
    agent(
        "model.select",
        Params::Required(&[
            field("model_id", Check::RequiredString),
            field("provider", Check::RequiredString),
            field("thinking_level", Check::RequiredString),
            field("openrouter_provider", Check::OptionalString),
            field("session_id", Check::OptionalString),
            field("compress_immediately", Check::OptionalBoolean),
            field("only_session", Check::Anything),
        ]),
    ),
    agent("onboarding.complete", Params::Ignored),
    agent("onboarding.status", Params::Ignored),
    callable(
        "rpc.handshake",
        Run::Handshake,
        Params::Optional(&[
            field("protocol_version", Check::OptionalString),
            field("strict", Check::OptionalBoolean),
            field("approvals", Check::Anything),
        ]),
    ),
    agent(
        "session.approve",
        Params::Required(&[
            SESSION,
            field("call_id", Check::RequiredString),
            field("allow", Check::RequiredBoolean),
            field("always", Check::OptionalBoolean),
        ]),
    ),
    callable(
        "session.create",
        Run::AgentOr(Plain::CreateSession),
        Params::Optional(&[field("title", Check::OptionalString), field("cwd", Check::Anything)]),
    ),
    agent("session.delete", Params::Required(&[SESSION])),
    callable("session.get", Run::AgentOr(Plain::ReadSession), Params::Required(&[SESSION])),
    agent("session.interrupt", Params::Required(&[SESSION])),
    agent("session.list", Params::Ignored),
    agent("session.queue.clear", Params::Required(&[SESSION])),
    agent("session.queue.list", Params::Required(&[SESSION])),
    agent(
        "session.send",
        Params::Required(&[
            SESSION,
            field("text", Check::OptionalString),
            field("enqueue", Check::OptionalBoolean),
            field("images", Check::Anything),
        ]),
    ),
    agent("session.steer", Params::Required(&[SESSION, field("text", Check::RequiredString)])),
    agent("skills.list", Params::Ignored),
    callable("state.get", Run::AgentOr(Plain::State), Params::Ignored),
    callable("system.ping", Run::Ping, Params::Ignored),
    callable(
        "system.shutdown",
        Run::AgentOr(Plain::Shutdown),
        Params::Optional(&[field("reason", Check::OptionalString)]),
    ),
    needing(
        "tools.call",
        "tools.call",
        Run::CallTool,
        Params::Required(&[field("name", Check::RequiredString), field("arguments", Check::OptionalObject)]),
    ),
    needing("tools.list", "tools", Run::AgentOr(Plain::ListTools), Params::Ignored),
];

/// The methods as the gate reads them. There is only one version, and it has all methods.
pub(super) fn rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| METHODS.iter().map(rule).collect());
    &RULES
}

fn rule(method: &Method) -> Rule {
    let needs = method.needs.map(|capability| Need { owner: Side::Server, capability });
    Rule { name: method.name, from: Side::Client, kind: Kind::Call, needs, since: "", until: "" }
}

/// The rows that carry a feature. Progress is sent as an event, which is not a method.
pub(super) fn carriers(feature: Feature) -> Vec<Rule> {
    let row = |name, from, kind, needs: Option<&'static str>| {
        let needs = needs.map(|capability| Need { owner: Side::Server, capability });
        Rule { name, from, kind, needs, since: "", until: "" }
    };
    match feature {
        Feature::Tools => {
            let needs = find("tools.call").and_then(|method| method.needs);
            vec![row("tools.call", Side::Client, Kind::Call, needs)]
        }
        Feature::Progress => vec![row("event", Side::Server, Kind::Notice, None)],
        _ => Vec::new(),
    }
}

/// The row of a method.
pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.binary_search_by(|method| method.name.cmp(name)).ok().map(|at| &METHODS[at])
}

const fn agent(name: &'static str, params: Params) -> Method {
    Method { name, params, run: Run::Agent, needs: Some("agent") }
}

const fn callable(name: &'static str, run: Run, params: Params) -> Method {
    Method { name, params, run, needs: None }
}

const fn needing(name: &'static str, capability: &'static str, run: Run, params: Params) -> Method {
    Method { name, params, run, needs: Some(capability) }
}

const fn field(name: &'static str, check: Check) -> Field {
    Field { name, check }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_finds_every_row() {
        assert!(METHODS.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(METHODS.len(), 33);
        for method in METHODS {
            assert_eq!(find(method.name).map(|found| found.name), Some(method.name));
        }
        for name in ["", "System.Ping", " system.ping", "zzz", "event"] {
            assert!(find(name).is_none(), "{name}");
        }
    }
}
