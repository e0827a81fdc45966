//! The script of a scripted provider, as JSON.
//!
//! ```json
//! {"routes": [{"method": "POST", "path": "/v1/chat/completions",
//!   "replies": [
//!     {"status": 429, "headers": {"retry-after-ms": "10"}, "json": {"error": {"message": "slow down"}}},
//!     {"gate": "g1", "sse": [{"choices": []}, {"_pause": 20}, {"_raw": ": hello\n\n"}, "[DONE]"]},
//!     {"sse": [{"type": "response.created"}, {"_cut": true}]},
//!     {"stall": true}],
//!   "otherwise": {"status": 500, "text": "used up"}}]}
//! ```
//!
//! An event with a `type` is sent under that event name; a string is sent unchanged. `_gate`, `_pause` (milliseconds;
//! also `_sleep`), `_raw`, `_stall` and `_cut` (also `_drop`) are steps between events. `expect` contains members that
//! the request body must have; otherwise the reply is an error with status 500.

use std::collections::BTreeMap;
use std::time::Duration;

use gladhand_core::wire::{Members, RawValue};
use serde::Deserialize;
use serde_json::Value;

/// The replies of a provider.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Script {
    /// The replies by path.
    pub routes: Vec<Route>,
}

/// The replies of one path.
#[derive(Debug, Clone, Deserialize)]
pub struct Route {
    /// The method; if absent, any.
    #[serde(default)]
    pub method: Option<String>,
    /// The path, without a query.
    pub path: String,
    /// The replies, in order.
    #[serde(default)]
    pub replies: Vec<Reply>,
    /// The reply after `replies` is used up.
    #[serde(default)]
    pub otherwise: Option<Reply>,
}

/// One reply.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// The status; default 200.
    pub status: Option<u16>,
    /// Additional headers.
    pub headers: BTreeMap<String, String>,
    /// The gate that must be open before the reply starts.
    pub gate: Option<String>,
    /// Whether the reply never starts.
    pub stall: bool,
    /// Whether the connection breaks instead of a reply.
    pub cut: bool,
    /// Members that the request body must have.
    pub expect: Option<Value>,
    json: Option<Box<RawValue>>,
    text: Option<String>,
    sse: Option<Vec<Box<RawValue>>>,
}

/// The body of a reply.
#[derive(Debug)]
pub(super) enum Content {
    Whole { kind: &'static str, text: String },
    Steps(Vec<Step>),
}

/// One step of a reply that is sent in steps.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Send(String),
    Gate(String),
    Pause(Duration),
    Stall,
    Cut,
}

impl Script {
    /// Parses a script.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Builds a script from a recording of requests and responses: one JSON object per line with `method`, `path`
    /// and `response`. Lists and profiles do not change between requests, so the last response of each is repeated.
    /// Every other response is used once.
    pub fn of_recording(lines: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Recorded {
            method: String,
            path: String,
            response: Reply,
        }
        let mut script = Self::default();
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            let Recorded { method, path, response } = serde_json::from_str(line)?;
            let path = path.split('?').next().unwrap_or_default();
            let is_list = method == "GET" || (path.contains("v1internal:") && !path.ends_with(":generateContent"));
            let at =
                script.routes.iter().position(|route| route.path == path && route.method.as_ref() == Some(&method));
            let at = at.unwrap_or_else(|| {
                let (method, path) = (Some(method), path.to_owned());
                script.routes.push(Route { method, path, replies: Vec::new(), otherwise: None });
                script.routes.len() - 1
            });
            let route = &mut script.routes[at];
            if is_list {
                route.otherwise = Some(response.clone());
            }
            route.replies.push(response);
        }
        Ok(script)
    }
}

impl Reply {
    /// A reply with a JSON document.
    pub fn json(document: &Value) -> Self {
        Self { json: Some(raw(document)), ..Self::default() }
    }

    /// A reply with plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// A reply with events and the steps between them.
    pub fn events(events: &[Value]) -> Self {
        Self { sse: Some(events.iter().map(raw).collect()), ..Self::default() }
    }

    /// A reply that never starts.
    pub fn stalled() -> Self {
        Self { stall: true, ..Self::default() }
    }

    /// A connection that breaks instead of a reply.
    pub fn broken() -> Self {
        Self { cut: true, ..Self::default() }
    }

    /// Sets the status.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds a header.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Makes the reply wait for a gate.
    pub fn behind(mut self, gate: &str) -> Self {
        self.gate = Some(gate.to_owned());
        self
    }

    /// The content of the reply. `origin` is the address of the provider, for replies that refer back to it.
    pub(super) fn content(&self, origin: &str) -> Content {
        let here = |text: &str| text.replace("<PROVIDER>", origin);
        match (&self.sse, &self.json) {
            (Some(steps), _) => Content::Steps(steps.iter().map(|step| Step::of(step, here)).collect()),
            (None, Some(json)) => Content::Whole { kind: "application/json", text: here(json.get()) },
            (None, None) => Content::Whole { kind: "text/plain", text: here(self.text.as_deref().unwrap_or_default()) },
        }
    }
}

impl Step {
    fn of(raw: &RawValue, here: impl Fn(&str) -> String) -> Self {
        if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
            return Self::Send(format!("data: {}\n\n", here(&text)));
        }
        let members = Members::of(raw).unwrap_or_default();
        let millis =
            members.raw("_pause").or_else(|| members.raw("_sleep")).and_then(|millis| millis.get().parse().ok());
        if let Some(gate) = members.str("_gate") {
            Self::Gate(gate.into_owned())
        } else if let Some(millis) = millis {
            Self::Pause(Duration::from_millis(millis))
        } else if let Some(text) = members.str("_raw") {
            Self::Send(here(&text))
        } else if members.has("_stall") {
            Self::Stall
        } else if members.has("_cut") || members.has("_drop") {
            Self::Cut
        } else {
            let name = members.str("type").map(|name| format!("event: {name}\n")).unwrap_or_default();
            // The data must be one line, even if the script spreads it over several.
            let data = here(raw.get()).replace(['\r', '\n'], " ");
            Self::Send(format!("{name}data: {data}\n\n"))
        }
    }
}

/// Whether a document contains everything in `wanted`: all members, and all array items in the same order.
pub(super) fn has(document: &Value, wanted: &Value) -> bool {
    match (document, wanted) {
        (Value::Object(members), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| members.get(name).is_some_and(|member| has(member, wanted)))
        }
        (Value::Array(entries), Value::Array(wanted)) => {
            entries.len() == wanted.len() && entries.iter().zip(wanted).all(|(entry, wanted)| has(entry, wanted))
        }
        _ => document == wanted,
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a JSON value can be serialized")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_becomes_a_script() {
        let script = Script::of_recording(
            r#"
            {"route":"x","method":"GET","path":"/m?v=1","headers":{},"body":null,"response":{"json":{"n":1}}}
            {"route":"y","method":"POST","path":"/c","body":{},"response":{"status":401,"text":"no","headers":{"a":"b"}}}
            {"route":"x","method":"GET","path":"/m","body":null,"response":{"json":{"n":2}}}
            {"route":"y","method":"POST","path":"/c","body":{},"response":{"gate":"g","sse":[{"type":"t"},{"_gate":"h"}]}}"#,
        )
        .unwrap();
        let [lists, calls] = &script.routes[..] else { panic!("{script:?}") };
        assert_eq!((lists.path.as_str(), lists.replies.len(), lists.otherwise.is_some()), ("/m", 2, true));
        assert_eq!((calls.path.as_str(), calls.replies.len(), calls.otherwise.is_some()), ("/c", 2, false));
        assert_eq!((calls.replies[0].status, calls.replies[0].headers["a"].as_str()), (Some(401), "b"));
        assert_eq!(calls.replies[1].gate.as_deref(), Some("g"));
    }

    #[test]
    fn steps_are_read() {
        let step = |text: &str| Step::of(serde_json::from_str(text).unwrap(), |text| text.replace("<P>", "here"));
        let send = |text: &str| Step::Send(text.to_owned());
        assert_eq!(step(r#"{"type":"t","a":"<P>"}"#), send("event: t\ndata: {\"type\":\"t\",\"a\":\"here\"}\n\n"));
        assert_eq!(step("{\"a\":\n1}"), send("data: {\"a\": 1}\n\n"));
        assert_eq!(step(r#""[DONE]""#), send("data: [DONE]\n\n"));
        assert_eq!(step(r#"{"_raw":"x\n"}"#), send("x\n"));
        assert_eq!(step(r#"{"_gate":"g"}"#), Step::Gate("g".to_owned()));
        assert_eq!(step(r#"{"_sleep":5}"#), Step::Pause(Duration::from_millis(5)));
        assert_eq!(step(r#"{"_drop":true}"#), Step::Cut);
        assert_eq!(step(r#"{"_stall":true}"#), Step::Stall);
    }

    #[test]
    fn an_expected_document_is_part_of_the_actual_one() {
        let is_there = |document: &str, wanted: &str| {
            has(&serde_json::from_str(document).unwrap(), &serde_json::from_str(wanted).unwrap())
        };
        assert!(is_there(r#"{"a":[{"b":1,"c":2}],"d":3}"#, r#"{"a":[{"b":1}]}"#));
        assert!(!is_there(r#"{"a":[{"b":1},{}]}"#, r#"{"a":[{"b":1}]}"#));
        assert!(!is_there("{}", r#"{"a":null}"#));
    }
}
