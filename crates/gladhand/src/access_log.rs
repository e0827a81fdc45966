//! The access log: one JSON line for each operation of a client, also for lists and for operations that are refused.
//!
//! Arguments, results and URI queries never reach it. Calls that the audit file records have the same members here; the
//! audit file has more of them, such as the rule that decided.

use std::io;

use gladhand_core::operations::Operation;
use gladhand_hub::{CallObserver, CallOrigin, EndedCall, SessionId, without_query};
use gladhand_redaction::redact;
use serde::Serialize;

use crate::config::AccessLogConfig;
use crate::line_file::{LineFile, LineQueue, LineSource};

/// Writes one line for each operation that a client asks for.
#[derive(Debug, Clone)]
pub(crate) struct AccessLog {
    pub(crate) queue: LineQueue<AccessLine>,
}

impl AccessLog {
    /// Starts a new file, or continues an existing one; nothing if the configuration names none.
    pub(crate) fn start(config: &AccessLogConfig) -> io::Result<Option<Self>> {
        let Some(path) = &config.file else { return Ok(None) };
        let file = LineFile::open(path, config.max_bytes, config.keep)?;
        Ok(Some(Self { queue: LineQueue::start(file, "access-log")? }))
    }
}

impl CallObserver for AccessLog {
    fn observes(&self, _: &Operation<'_>, origin: CallOrigin) -> bool {
        origin == CallOrigin::Client
    }

    fn ended(&self, ended: &EndedCall<'_>) {
        let call = ended.call;
        let has_session = call.session != SessionId::NONE && !call.session.is_kind();
        self.queue.add(AccessLine {
            session: has_session.then_some(call.session.0),
            principal: call.principal.clone(),
            client: call.client.clone(),
            dialect: call.dialect,
            dialect_version: call.dialect_version.clone(),
            upstream: call.target().map(|target| target.upstream.clone()),
            operation: call.kind,
            tool: call.name.clone(),
            outcome: ended.word(),
            duration_ms: ended.duration_ms(),
            bytes_in: call.bytes_in,
            bytes_out: ended.bytes_out(),
        });
    }
}

/// A line, without its time.
#[derive(Debug, Serialize)]
pub(crate) struct AccessLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    client: String,
    dialect: &'static str,
    dialect_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
    operation: &'static str,
    tool: String,
    outcome: &'static str,
    duration_ms: f64,
    bytes_in: usize,
    bytes_out: usize,
}

impl LineSource for AccessLine {
    const WHAT: &'static str = "lines of the access log";

    fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    fn line(mut self) -> impl Serialize {
        // As in the audit file: a masked name of a known tool could hide its calls.
        let is_known = ["tool", "prompt"].contains(&self.operation) && self.upstream.is_some();
        if !is_known {
            self.tool = redact(without_query(self.operation, &self.tool)).into_owned();
        }
        for text in self.principal.iter_mut().chain([&mut self.client, &mut self.dialect_version]) {
            *text = redact(text).into_owned();
        }
        self
    }
}
