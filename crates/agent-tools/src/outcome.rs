//! The outcome of a tool call, independent of the call.

use std::io;

use gladhand_core::wire::RawValue;
use serde::Serialize;

use crate::contract::RunResult;

/// The outcome of a tool.
pub(crate) type Outcome = Result<RunResult, Problem>;

/// Why a tool has no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The input is invalid. Reported as an object with a status.
    Invalid(String),
    /// A file tool failed. Reported as plain text.
    Plain(String),
    /// The tool failed unexpectedly.
    Broke(String),
}

impl Problem {
    /// An error about the input.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// An error of a file tool.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self::Plain(message.into())
    }

    /// The message.
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Invalid(message) | Self::Plain(message) | Self::Broke(message) => message,
        }
    }

    /// The result that reports the problem.
    pub(crate) fn into_result(self, call_id: &str, tool: &str) -> RunResult {
        match self {
            Self::Invalid(message) => {
                #[derive(Serialize)]
                struct Refused<'a> {
                    status: &'a str,
                    message: &'a str,
                }
                failed(&Refused { status: "invalid_input", message: &message }, &message)
            }
            Self::Plain(message) => failed(&message, &message),
            Self::Broke(message) => failed(&CallStatus { call_id, tool, status: "error" }, message),
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Broke(error.to_string())
    }
}

/// The output of a call that has no result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallStatus<'a> {
    call_id: &'a str,
    tool: &'a str,
    status: &'a str,
}

/// The result for an unknown tool.
pub(crate) fn not_found(call_id: &str, tool: &str) -> RunResult {
    failed(&CallStatus { call_id, tool, status: "not_found" }, format!("unknown tool: {tool}"))
}

/// A success.
pub(crate) fn done(output: &(impl Serialize + ?Sized)) -> RunResult {
    RunResult { ok: true, output: raw(output), error: None }
}

/// A failure.
pub(crate) fn failed(output: &(impl Serialize + ?Sized), error: impl Into<String>) -> RunResult {
    RunResult { ok: false, output: raw(output), error: Some(error.into()) }
}

fn raw(output: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    serde_json::value::to_raw_value(output).expect("outputs are plain data with text keys")
}

/// Runs blocking work, such as reading files, on a blocking thread.
pub(crate) async fn blocking(work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Problem::Broke(error.to_string())),
    }
}
