//! Limits on the memory of a turn.
//!
//! A model decides how many tools it calls and with which arguments, and a tool decides how long its result is. A
//! turn keeps all of this and sends it again with each request. So each result has a limit, and the whole turn has
//! one too. User input is not counted: the queue and steering have their own limits.

use gladhand_agent_tools::RunResult;
use gladhand_core::wire::{RawValue, json};
use gladhand_models::{HistoryItem, WantedCall};

use super::turn::Turn;

/// The maximum size of one result in bytes. The rest is cut.
const RESULT_BYTES: usize = 256 * 1024;
/// The maximum total size of replies, calls and results in a turn, in MiB.
const TURN_MIB: usize = 16;
/// The maximum number of requests in a turn.
const TURN_REQUESTS: u32 = 500;

/// The limit at which a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TurnBound {
    #[error("the turn ended at its limit of {TURN_REQUESTS} requests to the model")]
    Requests,
    #[error("the turn ended at its limit of {TURN_MIB} MiB of replies, calls and tool results")]
    Bytes,
}

impl Turn {
    /// Keeps an item for the next request.
    pub(super) fn remember(&mut self, item: HistoryItem) {
        self.kept_bytes += weight(&item);
        self.items.push(item);
    }

    /// The limit that the turn has reached, if any.
    pub(super) fn reached(&self) -> Option<TurnBound> {
        if self.kept_bytes > TURN_MIB * 1024 * 1024 {
            return Some(TurnBound::Bytes);
        }
        (self.calls.is_empty() && self.round.number >= TURN_REQUESTS).then_some(TurnBound::Requests)
    }
}

/// The bytes of an item that come from a model or a tool.
fn weight(item: &HistoryItem) -> usize {
    match item {
        HistoryItem::User { .. } => 0,
        HistoryItem::Assistant { text, calls } => text.len() + calls.iter().map(weight_of_call).sum::<usize>(),
        HistoryItem::Result { call_id, name, output, error } => {
            call_id.len() + name.len() + output.get().len() + error.as_ref().map_or(0, String::len)
        }
    }
}

fn weight_of_call(call: &WantedCall) -> usize {
    let seal = call.seal.as_ref().map_or(0, |seal| seal.get().len());
    call.call_id.len() + call.name.len() + call.input.get().len() + seal
}

/// Limits the length of a result. A longer one becomes text: its beginning, and a note that it was cut.
pub(super) fn bounded(ran: RunResult) -> RunResult {
    let RunResult { ok, output, error } = ran;
    let output = if output.get().len() > RESULT_BYTES { cut_json(&output) } else { output };
    let error = error.map(|error| if error.len() > RESULT_BYTES { cut(&error) } else { error });
    RunResult { ok, output, error }
}

/// The beginning of JSON as text. If the JSON is a string, that string is cut.
fn cut_json(output: &RawValue) -> Box<RawValue> {
    let text: Option<String> = serde_json::from_str(output.get()).ok();
    json::to_raw(&cut(text.as_deref().unwrap_or_else(|| output.get())))
}

fn cut(text: &str) -> String {
    let beginning = &text[..text.floor_char_boundary(RESULT_BYTES)];
    format!("{beginning}\n[cut: the first {RESULT_BYTES} of {} bytes are shown; ask for less at once]", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(output: Box<RawValue>, error: Option<String>) -> RunResult {
        RunResult { ok: true, output, error }
    }

    #[test]
    fn a_long_result_is_cut_with_a_note_and_a_short_one_stays() {
        let short = json::to_raw(&["é"]);
        assert_eq!(bounded(ran(short.clone(), None)).output.get(), short.get());
        let long = "é".repeat(RESULT_BYTES);
        let note = format!("\n[cut: the first 262144 of {} bytes are shown; ask for less at once]", long.len());
        let cut = bounded(ran(json::to_raw(&long), Some(long.clone())));
        let expected = format!("{}{note}", &long[..RESULT_BYTES]);
        assert_eq!(serde_json::from_str::<String>(cut.output.get()).unwrap(), expected, "a string stays a string");
        assert_eq!(cut.error, Some(expected));
        let object = bounded(ran(json::to_raw(&serde_json::json!({"content": long})), None));
        let text: String = serde_json::from_str(object.output.get()).unwrap();
        assert!(text.starts_with("{\"content\":\"é") && text.contains("[cut: "), "an object becomes text");
    }
}
