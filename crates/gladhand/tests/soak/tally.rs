//! The calls, and their results.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::house::UPSTREAMS;

/// The results of all calls.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    answered: AtomicU64,
    /// How many ended otherwise, and how.
    otherwise: Mutex<BTreeMap<String, u64>>,
}

/// Something to call, and what to give it.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    text: String,
}

impl Errand {
    /// To one server, or to any.
    pub(crate) fn new(chance: &mut Chance, to: Option<usize>, text: String) -> Self {
        let (tool, arguments) = match chance.below(20_000) {
            0 => ("die", json!({"text": text})),
            1 => ("vanish", json!({"text": text})),
            2..200 => ("stall", json!({"text": text, "ms": chance.below(100)})),
            200..300 => ("flood", json!({"text": text, "lines": chance.below(1000)})),
            300..600 => ("garbage", json!({"text": text})),
            600..900 => ("twice", json!({"text": text})),
            _ => ("echo", json!({"text": text})),
        };
        let any = chance.below(UPSTREAMS as u64 * 4 + 1) as usize;
        let to = to.unwrap_or(any / 4);
        let server = if to < UPSTREAMS { format!("u{to}") } else { "extra".to_owned() };
        Self { tool: format!("{server}__{tool}"), arguments, text }
    }
}

impl Tally {
    /// Takes an answer: what the call was to say, or a failure that belongs to it.
    pub(crate) fn count(&self, answer: &Value, id: u64, errand: &Errand) {
        assert_eq!(answer["id"], id, "{answer}");
        let Errand { tool, text, .. } = errand;
        let said = answer["result"]["content"][0]["text"].as_str();
        if said == Some(text) {
            self.answered.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let reason = answer["error"]["data"]["reason"].as_str();
        let how = match (reason, answer["error"]["message"].as_str()) {
            (Some(reason @ ("upstream_lost" | "upstream_error")), _) => reason,
            // Calls that the changing policy forbids or limits.
            (Some("busy"), _) if tool.ends_with("__flood") => "limited",
            _ if tool.ends_with("__twice") && said.is_some_and(|said| said.starts_with("policy forbids")) => "denied",
            // It comes and goes; and what is denied is not shown, so that a bridge never hears of it.
            (None, Some(message)) if message == format!("unknown tool: {tool}") && is_fickle(tool) => "unknown tool",
            _ => panic!("{tool} ended for a reason of our own: {answer}"),
        };
        self.note(how);
        // Who is told to come back later does not come back at once.
        std::thread::sleep(Duration::from_millis(10));
    }

    /// A call ended without an answer.
    pub(crate) fn note(&self, how: &str) {
        *self.otherwise.lock().expect("nobody panicked").entry(how.to_owned()).or_default() += 1;
    }

    /// How many calls were answered, and how many ended otherwise in which way.
    pub(crate) fn sum(&self) -> (u64, BTreeMap<String, u64>) {
        (self.answered.load(Ordering::Relaxed), self.otherwise.lock().expect("nobody panicked").clone())
    }
}

/// Whether a tool is there at some times only.
fn is_fickle(tool: &str) -> bool {
    tool.starts_with("extra__") || tool.ends_with("__twice")
}

/// Chance that is the same each time (xorshift).
#[derive(Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
