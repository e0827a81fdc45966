//! Which messages of sessions are shown.

use clap::Args;
use gladhand_core::pattern::matches;

use crate::commands::shared::recordings::{Exchange, Line, Session};

/// The filters of the command line. A message must pass all of them.
#[derive(Debug, Args)]
pub struct MessageFilter {
    /// Show only this session.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Show only messages of this method or type; `*` matches any characters.
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Show only calls of this tool; `*` matches any characters.
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Show only errors, failed calls, and the requests that they answer.
    #[arg(long)]
    pub errors: bool,
}

impl MessageFilter {
    /// A filter that every message passes.
    pub(in crate::commands) fn none() -> Self {
        Self { session: None, method: None, tool: None, errors: false }
    }

    /// Whether some messages of a session may be left out.
    pub(in crate::commands) fn is_partial(&self) -> bool {
        self.method.is_some() || self.tool.is_some() || self.errors
    }

    /// Whether a session is shown.
    pub(in crate::commands) fn has_session(&self, session: &Session) -> bool {
        self.session.as_ref().is_none_or(|id| *id == session.id)
    }

    /// The places of the messages that are shown: those that pass, and the requests that they answer.
    pub(in crate::commands) fn shown(&self, session: &Session) -> Vec<usize> {
        let mut shown = vec![false; session.lines.len()];
        for (at, line) in session.lines.iter().enumerate() {
            if self.passes(session, line) {
                shown[at] = true;
                if let Some(request) = line.answers {
                    shown[request] = true;
                }
            }
        }
        shown.iter().enumerate().filter_map(|(at, shown)| shown.then_some(at)).collect()
    }

    /// The HTTP exchanges that are shown: with a filter for errors only those with an error status, with a filter for
    /// messages none.
    pub(in crate::commands) fn shown_exchanges<'s>(&self, session: &'s Session) -> Vec<&'s Exchange> {
        session.exchanges.iter().filter(|exchange| self.passes_exchange(exchange)).collect()
    }

    pub(in crate::commands) fn passes_exchange(&self, exchange: &Exchange) -> bool {
        self.method.is_none() && self.tool.is_none() && (!self.errors || exchange.is_error())
    }

    /// Whether a message passes. An answer counts as a message of its request's method and tool.
    pub(in crate::commands) fn passes(&self, session: &Session, line: &Line) -> bool {
        let asked = line.answers.and_then(|at| session.lines.get(at)).unwrap_or(line);
        let fits = |pattern: &Option<String>, name: Option<&str>| {
            pattern.as_ref().is_none_or(|pattern| name.is_some_and(|name| matches(pattern, name)))
        };
        let is_method = fits(&self.method, line.name.as_deref()) || fits(&self.method, session.method(line));
        is_method && fits(&self.tool, asked.tool.as_deref()) && (!self.errors || line.is_error)
    }
}
