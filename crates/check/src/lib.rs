//! The rules of the dialects as named checks, and a lint of what models see.
//!
//! A [`Rule`] is a row of a table with a pure function. [`judge`] applies all rules for a dialect and a subject to an
//! [`Exchange`]: lines that passed between a client and a server, from a live session or from a recording. A
//! [`Script`] says which lines exercise the rules; sending them is the caller's task.
//!
//! This crate does no I/O, reads no clock and opens no session. It does not use the dialects' own code, so that a mistake
//! there cannot hide itself here.

mod a2e;
mod exchange;
mod fluxloop;
mod json_rpc;
mod lint;
mod loaf;
mod mcp;
mod message;
mod rule;
mod script;
mod scripted_server;
mod tally;

pub use exchange::{Exchange, Line, answered_id, asked_id};
pub use rule::{Level, Rule, Subject};
pub use script::{Script, Step, server_scripts};
pub use scripted_server::{ScriptedServer, ServerScript};
pub use tally::{Failure, Outcome, Verdict};

use message::View;
use tally::Tally;

/// The name under which the lint stands in the table. Its rules apply in every dialect.
pub const LINT: &str = "lint";

/// All rules, in the order of the table.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let tables = [
        mcp::base::RULES,
        mcp::opening::RULES,
        mcp::gate::RULES,
        mcp::lists::RULES,
        mcp::calls::RULES,
        mcp::stateless::RULES,
        mcp::client::RULES,
        a2e::RULES,
        loaf::RULES,
        fluxloop::RULES,
        lint::RULES,
    ];
    tables.into_iter().flatten()
}

/// Judges one side of an exchange.
pub fn judge(exchange: &Exchange, subject: Subject) -> Vec<Outcome> {
    let view = View::new(exchange, subject);
    // The rules of MCP are those of the version that the server chose.
    let chosen = (exchange.dialect == "mcp").then(|| mcp::version_in_force(&view)).flatten();
    let version = chosen.unwrap_or(&exchange.version);
    let applies = |rule: &&'static Rule| {
        rule.subject == subject
            && (rule.dialect == exchange.dialect || rule.dialect == LINT)
            && rule.versions.contains(version)
    };
    let outcome = |rule: &'static Rule| {
        let mut tally = Tally::default();
        (rule.judge)(&view, &mut tally);
        tally.into_outcome(rule)
    };
    rules().filter(applies).map(outcome).collect()
}
