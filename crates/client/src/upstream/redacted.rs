//! The words of an upstream without our secrets, which it may repeat in them.
//!
//! Redacted are refusals, failures, log lines, progress reports and instructions; all but instructions are also cut to
//! 64 KiB. The content of a reply is data, and passes unchanged; a reply that succeeds is not looked at.

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_core::negotiation::{Agreement, Refusal};
use gladhand_core::operations::{Failure, Log, Notice, Progress};
use gladhand_redaction::{redact, redact_cut, redact_raw_cut};

use super::open_error::{OpenError, Outage};
use super::process_end::ProcessEnd;

/// Why there is no session.
pub(super) fn open_error(error: OpenError) -> OpenError {
    match error {
        OpenError::NotStarted { program, source } => OpenError::NotStarted { program: text(program), source },
        OpenError::Unreachable(Outage::NotSent(why)) => {
            OpenError::Unreachable(Outage::NotSent(text(why.into()).into()))
        }
        OpenError::Unreachable(outage) => OpenError::Unreachable(outage),
        OpenError::Unauthorized { why } => OpenError::Unauthorized { why: text(why.into()).into() },
        OpenError::Forbidden { why } => OpenError::Forbidden { why: text(why.into()).into() },
        OpenError::Refused { refusal: why, process } => OpenError::Refused {
            refusal: refusal(why),
            process: process
                .map(|end| ProcessEnd { stderr_tail: end.stderr_tail.into_iter().map(text).collect(), ..end }),
        },
        OpenError::NotOverHttp(dialect) => OpenError::NotOverHttp(dialect),
    }
}

/// A refusal, before its text is cut: half a secret would not be found.
pub fn refusal(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::PeerRefused { code, message } => Refusal::PeerRefused { code: text(code), message: text(message) },
        Refusal::PeerMisbehaved { problem } => Refusal::PeerMisbehaved { problem: text(problem) },
        Refusal::VersionMismatch { asked, spoken } => {
            Refusal::VersionMismatch { asked, spoken: spoken.into_iter().map(text).collect() }
        }
        other => other,
    }
}

/// Why a call has no reply.
pub(super) fn failure(failure: Failure) -> Failure {
    let Failure { message, data, .. } = failure;
    let data = data.map(|data| redact_raw_cut(&data).unwrap_or(data));
    Failure { message: text(message), data, ..failure }
}

/// A log line or a progress report.
pub(super) fn notice(notice: Notice) -> Notice {
    match notice {
        Notice::Log(call, log) => {
            let data = redact_raw_cut(&log.data).unwrap_or(log.data);
            Notice::Log(call, Log { data, logger: log.logger.map(text), ..log })
        }
        Notice::Progress(call, progress) => {
            let message = progress.message.map(text);
            Notice::Progress(call, Progress { message, ..progress })
        }
        other => other,
    }
}

/// An agreement, with instructions for clients.
pub(super) fn agreement(mut agreement: Arc<Agreement>) -> Arc<Agreement> {
    if let Some(Cow::Owned(instructions)) = agreement.instructions.as_deref().map(redact) {
        Arc::make_mut(&mut agreement).instructions = Some(instructions);
    }
    agreement
}

fn text(text: String) -> String {
    match redact_cut(&text) {
        Cow::Owned(redacted) => redacted,
        Cow::Borrowed(_) => text,
    }
}
