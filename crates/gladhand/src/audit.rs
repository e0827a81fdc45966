//! The audit file: one JSON line for each call. Its queue and its rotation are in `line_file`.

use std::borrow::Cow;
use std::io;

use gladhand_hub::policy::{Auditor, Record};
use gladhand_redaction::{redact, redact_raw};
use serde::Serialize;

use crate::config::AuditConfig;
use crate::line_file::{LineFile, LineQueue, LineSource};

/// Records calls in the audit file.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    pub(crate) queue: LineQueue<Box<Record>>,
    payloads: bool,
}

impl Audit {
    /// Starts a new file, or continues an existing one; nothing if the configuration names none.
    pub(crate) fn start(config: &AuditConfig) -> io::Result<Option<Self>> {
        let Some(path) = &config.file else { return Ok(None) };
        let file = LineFile::open(path, config.max_bytes, config.keep)?;
        Ok(Some(Self { queue: LineQueue::start(file, "audit")?, payloads: config.payloads }))
    }
}

impl Auditor for Audit {
    fn record(&self, record: Record) {
        self.queue.add(Box::new(record));
    }

    fn wants_payloads(&self) -> bool {
        self.payloads
    }
}

impl LineSource for Box<Record> {
    const WHAT: &'static str = "audit records";

    fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    fn line(self) -> impl Serialize {
        redacted(*self)
    }
}

/// A record without secrets, in the payloads too: the file is a log, and clients do not read their data from it. The
/// name of a tool or prompt that the hub has is written as it is. Otherwise a client that can choose a masked value
/// could hide a call.
fn redacted(mut record: Record) -> Record {
    let is_known = ["tool", "prompt"].contains(&record.operation) && !record.upstream.is_empty();
    for text in [&mut record.tool, &mut record.own_name] {
        if let Cow::Owned(redacted) = redact(text)
            && !is_known
        {
            *text = redacted;
        }
    }
    for payload in record.arguments.iter_mut().chain(record.result.iter_mut().flatten()) {
        if let Some(redacted) = redact_raw(payload) {
            *payload = redacted;
        }
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_tool_that_the_hub_has_is_never_masked() {
        gladhand_redaction::learn("name-that-is-also-a-value", gladhand_redaction::Life::Process);
        let record = |operation, upstream: &str| Record {
            session: None,
            principal: None,
            client: String::new(),
            client_version: String::new(),
            dialect: "mcp",
            dialect_version: String::new(),
            upstream: upstream.to_owned(),
            operation,
            tool: "name-that-is-also-a-value".to_owned(),
            own_name: String::new(),
            outcome: "ok",
            rule: None,
            duration_ms: 0.0,
            bytes_in: 0,
            bytes_out: 0,
            arguments: None,
            result: None,
        };
        for (operation, upstream, shown) in [
            ("tool", "files", "name-that-is-also-a-value"),
            ("prompt", "files", "name-that-is-also-a-value"),
            ("tool", "", "***"),
            ("resource", "files", "***"),
        ] {
            assert_eq!(redacted(record(operation, upstream)).tool, shown, "{operation} {upstream}");
        }
    }
}
