//! The toolbox: three small tools to try a session with.
//!
//! `echo` proves that a call goes through, `agreement` shows what the session is allowed to do and
//! why, `wait` is slow on purpose, so that progress, cancellation and limits can be seen.

use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Side, Term, Verdict};
use gladhand_core::operations::{Content, Failure, Level, Log, Outcome, Progress, Reply, Tool, ToolCall, ToolResult};
use gladhand_core::wire::json::{Kind, RawValue};
use gladhand_core::wire::{json, pick};
use gladhand_hub::{Answer, Context, Provider, Reporter};
use serde::Serialize;

const ECHO_SCHEMA: &str = r#"{"type":"object","properties":{"message":{"type":"string","description":"The text to return"}},"required":["message"]}"#;
const AGREEMENT_SCHEMA: &str = r#"{"type":"object","properties":{}}"#;
const WAIT_SCHEMA: &str = r#"{"type":"object","properties":{"ms":{"type":"integer","description":"How long to wait, in milliseconds","minimum":0,"maximum":600000,"default":1000},"steps":{"type":"integer","description":"How many times to report progress on the way","minimum":1,"maximum":1000,"default":1}}}"#;

const LONGEST_WAIT_MS: u64 = 600_000;
const MOST_STEPS: u64 = 1000;

/// The built-in tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct Toolbox;

impl Provider for Toolbox {
    fn name(&self) -> &str {
        "toolbox"
    }

    fn tools(&self) -> Vec<Tool> {
        let tool = |name: &str, description: &str, schema: &str| {
            Tool::new(name, description, json::raw(schema.to_owned())).vouched_read_only()
        };
        vec![
            tool("echo", "Returns its message.", ECHO_SCHEMA),
            tool(
                "agreement",
                "Shows this session's agreement: who the peer is, which dialect and version are spoken, what was agreed, what was refused and why.",
                AGREEMENT_SCHEMA,
            ),
            tool("wait", "Waits, reporting progress on the way. Can be cancelled.", WAIT_SCHEMA),
        ]
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        match call.name.as_ref() {
            "echo" => Answer::Now(echo(&call.arguments)),
            "agreement" => Answer::Now(Ok(Reply::Tool(agreement(context.agreement)))),
            "wait" => match Wait::of(&call.arguments) {
                Ok(wait) => Answer::later(wait.run(context.reporter())),
                Err(failure) => Answer::Now(Err(failure)),
            },
            other => Answer::Now(Err(Failure::unknown_tool(other))),
        }
    }
}

fn no_object() -> Failure {
    Failure::invalid_argument("arguments", "expected an object")
}

/// Passes the message on as written, without unescaping and escaping it again.
fn echo(arguments: &RawValue) -> Outcome {
    let [message] = pick(arguments, ["message"]).ok_or_else(no_object)?;
    let message = message.ok_or_else(|| Failure::missing_argument("message", "string"))?;
    match Kind::of(message) {
        Kind::String => {
            Ok(Reply::Tool(ToolResult { content: vec![Content::Text(message.to_owned())], ..ToolResult::default() }))
        }
        other => Err(Failure::invalid_argument("message", format_args!("expected a string, got {}", other.name()))),
    }
}

fn agreement(agreement: &Agreement) -> ToolResult {
    #[derive(Serialize)]
    struct Shown<'a> {
        dialect: &'a str,
        version: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        asked_version: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_parallel: Option<u32>,
        peer: &'a gladhand_core::negotiation::Peer,
        server: &'a gladhand_core::negotiation::Peer,
        agreed: Vec<Agreed<'a>>,
        refused: Vec<Refused<'a>>,
    }
    #[derive(Serialize)]
    struct Agreed<'a> {
        capability: &'a str,
        provided_by: Side,
    }
    #[derive(Serialize)]
    struct Refused<'a> {
        capability: &'a str,
        provided_by: Side,
        why: String,
    }
    let refused = |term: &'_ Term| match term.verdict {
        Verdict::Agreed => None,
        Verdict::Refused(why) => Some(why.to_string()),
    };
    let agreed = agreement.terms.iter().filter(|term| term.verdict == Verdict::Agreed);
    ToolResult::structured(json::to_raw(&Shown {
        dialect: agreement.dialect,
        version: &agreement.version,
        asked_version: agreement.asked_version.as_deref(),
        session: agreement.session.as_deref(),
        max_parallel: agreement.max_parallel,
        peer: &agreement.client,
        server: &agreement.server,
        agreed: agreed.map(|term| Agreed { capability: &term.capability.0, provided_by: term.owner }).collect(),
        refused: agreement
            .terms
            .iter()
            .filter_map(|term| {
                refused(term).map(|why| Refused { capability: &term.capability.0, provided_by: term.owner, why })
            })
            .collect(),
    }))
}

/// The arguments of `wait`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    ms: u64,
    steps: u64,
}

impl Wait {
    fn of(arguments: &RawValue) -> Result<Self, Failure> {
        let [ms, steps] = pick(arguments, ["ms", "steps"]).ok_or_else(no_object)?;
        let number = |name, given: Option<&RawValue>, default, least, most| match given {
            None => Ok(default),
            Some(raw) if Kind::of(raw) == Kind::Null => Ok(default),
            Some(raw) => whole_number(raw).filter(|number| (least..=most).contains(number)).ok_or_else(|| {
                Failure::invalid_argument(name, format_args!("expected an integer from {least} to {most}"))
            }),
        };
        Ok(Self { ms: number("ms", ms, 1000, 0, LONGEST_WAIT_MS)?, steps: number("steps", steps, 1, 1, MOST_STEPS)? })
    }

    fn in_words(self) -> String {
        let steps = if self.steps == 1 { "step" } else { "steps" };
        format!("{} ms in {} {steps}", self.ms, self.steps)
    }

    async fn run(self, reporter: Reporter) -> Outcome {
        let begun = tokio::time::Instant::now();
        let waiting = json::to_raw(&format!("waiting {}", self.in_words()));
        reporter.log(Log::new(Level::Info, Some("wait".to_owned()), waiting));
        for step in 1..=self.steps {
            // From the beginning each time, so that rounding does not add up.
            let due = Duration::from_micros(self.ms * 1000 * step / self.steps);
            tokio::time::sleep_until(begun + due).await;
            reporter.progress(Progress {
                progress: step as f64,
                total: Some(self.steps as f64),
                message: Some(format!("waited {} of {} ms", due.as_millis(), self.ms)),
            });
        }
        Ok(Reply::Tool(ToolResult::text(&format!("waited {}", self.in_words()))))
    }
}

/// An integer, also one that was written `5.0`.
fn whole_number(raw: &RawValue) -> Option<u64> {
    let number: serde_json::Number = serde_json::from_str(raw.get()).ok()?;
    let whole = |float: f64| (float.fract() == 0.0 && (0.0..=1e15).contains(&float)).then_some(float as u64);
    number.as_u64().or_else(|| number.as_f64().and_then(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        json::raw(text.to_owned())
    }

    #[test]
    fn echo_returns_the_message_as_it_was_written() {
        for message in [r#""hi""#, r#""\u00e9 \ud83d\n""#, r#""""#] {
            let Ok(Reply::Tool(result)) = echo(&raw(&format!(r#"{{"x":1,"message":{message}}}"#))) else {
                panic!("no result for {message}");
            };
            assert!(matches!(&result.content[..], [Content::Text(text)] if text.get() == message));
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let problem = |outcome: Outcome| outcome.unwrap_err().message;
        assert_eq!(problem(echo(&raw("{}"))), "message: required");
        assert_eq!(problem(echo(&raw(r#"{"message":7}"#))), "message: expected a string, got number");
        let wait = |text: &str| Wait::of(&raw(text)).map_err(|failure| failure.message);
        assert_eq!(wait("{}"), Ok(Wait { ms: 1000, steps: 1 }));
        assert_eq!(wait(r#"{"ms":5.0,"steps":null}"#), Ok(Wait { ms: 5, steps: 1 }));
        for text in [r#"{"ms":-1}"#, r#"{"ms":1e300}"#, r#"{"ms":"5"}"#, r#"{"ms":600001}"#, r#"{"ms":0.5}"#] {
            assert_eq!(wait(text), Err("ms: expected an integer from 0 to 600000".to_owned()), "{text}");
        }
        assert_eq!(wait(r#"{"steps":0}"#), Err("steps: expected an integer from 1 to 1000".to_owned()));
    }
}
