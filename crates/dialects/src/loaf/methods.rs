//! The method table: every name of the dialect, what it accepts, and whether it can be called.
//!
//! The server side, the handshake's list, the claim on a first line and the tests all read this
//! one table (`loaf` §5).

use gladhand_accord::{Kind, Need, Rule, Side};
use gladhand_operations::Feature;

use super::params::{Check, Field};

pub use super::params::Params;

/// One row.
#[derive(Debug)]
pub struct Method {
    /// The name, compared exactly.
    pub name: &'static str,
    /// Whether and how it can be called.
    pub status: Status,
}

/// Whether a method can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It can, if the agreement has the capability that it needs.
    Callable {
        /// What it accepts.
        params: Params,
        /// What it does.
        run: Run,
        /// The capability that opens it.
        needs: Option<&'static str>,
    },
    /// The dialect has it, this server does not: answered like an unknown name, and not listed.
    NotYet,
}

/// What the methods that can be called do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// `rpc.handshake`
    Handshake,
    /// `system.ping`
    Ping,
    /// `system.shutdown`
    Shutdown,
    /// `state.get`
    State,
    /// `debug.set`
    Debug,
    /// `tools.list`
    ListTools,
    /// `tools.call`
    CallTool,
    /// `session.create`
    CreateSession,
    /// `session.get`
    ReadSession,
}

/// All methods, sorted by name: the reference's 29 and `tools.call`.
pub static METHODS: &[Method] = &[
    not_yet("auth.connect.antigravity"),
    not_yet("auth.connect.openai"),
    not_yet("auth.set.exa_key"),
    not_yet("auth.set.openrouter_key"),
    not_yet("auth.status"),
    not_yet("command.execute"),
    callable("debug.set", Run::Debug, Params::Required(&[field("super_debug", Check::RequiredBoolean)])),
    not_yet("history.clear_session"),
    not_yet("history.get"),
    not_yet("history.list"),
    not_yet("limits.get"),
    not_yet("model.list"),
    not_yet("model.openrouter.providers"),
    not_yet("model.select"),
    not_yet("onboarding.complete"),
    not_yet("onboarding.status"),
    callable(
        "rpc.handshake",
        Run::Handshake,
        Params::Optional(&[field("protocol_version", Check::OptionalString), field("strict", Check::OptionalBoolean)]),
    ),
    callable("session.create", Run::CreateSession, Params::Optional(&[field("title", Check::OptionalString)])),
    callable("session.get", Run::ReadSession, Params::Required(&[field("session_id", Check::RequiredString)])),
    not_yet("session.interrupt"),
    not_yet("session.queue.clear"),
    not_yet("session.queue.list"),
    not_yet("session.send"),
    not_yet("session.steer"),
    not_yet("skills.list"),
    callable("state.get", Run::State, Params::Ignored),
    callable("system.ping", Run::Ping, Params::Ignored),
    callable("system.shutdown", Run::Shutdown, Params::Optional(&[field("reason", Check::OptionalString)])),
    needing(
        "tools.call",
        "tools.call",
        Run::CallTool,
        Params::Required(&[field("name", Check::RequiredString), field("arguments", Check::OptionalObject)]),
    ),
    needing("tools.list", "tools", Run::ListTools, Params::Ignored),
];

/// The rows that carry a feature. Progress comes as an event, which is no method.
pub(super) fn carriers(feature: Feature) -> Vec<Rule> {
    let row = |name, from, kind, needs: Option<&'static str>| {
        let needs = needs.map(|capability| Need { owner: Side::Server, capability });
        Rule { name, from, kind, needs, since: "", until: "" }
    };
    match feature {
        Feature::Tools => {
            let needs = find("tools.call").and_then(|method| match method.status {
                Status::Callable { needs, .. } => needs,
                Status::NotYet => None,
            });
            vec![row("tools.call", Side::Client, Kind::Call, needs)]
        }
        Feature::Progress => vec![row("event", Side::Server, Kind::Notice, None)],
        _ => Vec::new(),
    }
}

/// The row of a name.
pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.binary_search_by(|method| method.name.cmp(name)).ok().map(|at| &METHODS[at])
}

const fn not_yet(name: &'static str) -> Method {
    Method { name, status: Status::NotYet }
}

const fn callable(name: &'static str, run: Run, params: Params) -> Method {
    Method { name, status: Status::Callable { params, run, needs: None } }
}

const fn needing(name: &'static str, capability: &'static str, run: Run, params: Params) -> Method {
    Method { name, status: Status::Callable { params, run, needs: Some(capability) } }
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
        assert_eq!(METHODS.len(), 30);
        for method in METHODS {
            assert_eq!(find(method.name).map(|found| found.name), Some(method.name));
        }
        for name in ["", "System.Ping", " system.ping", "zzz", "event"] {
            assert!(find(name).is_none(), "{name}");
        }
    }
}
