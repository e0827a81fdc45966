//! Pinned definitions: a tool that was looked at and approved must stay what it was.
//!
//! What a model is told about a tool decides what it does with it, so a server that changes a description or a schema
//! behind everybody's back changes the tool (a "rug pull"). Every definition is pinned when it is first seen.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use gladhand_operations::Tool;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is done about a definition that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// Nothing is pinned.
    #[default]
    Off,
    /// It is logged and counted.
    Warn,
    /// The tool can neither be seen nor called until somebody approves it.
    Stop,
}

/// A definition as it is pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Who has the tool.
    pub upstream: String,
    /// What they call it.
    pub own: String,
    /// What it is shown as.
    pub shown: String,
    /// Everything that a model is told of it, the same for the same definition however it is written.
    pub text: String,
}

/// How a definition compares to what was pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is what it was, or is seen for the first time and pinned now.
    Pinned,
    /// It is not what it was.
    Changed {
        /// When it was pinned, for people.
        since: String,
    },
}

/// Keeps what was pinned. The binary implements it with a file and a hash.
pub trait Pinboard: fmt::Debug + Send + Sync {
    /// Compares definitions with what was pinned, and pins those that are new; the answers are in the same order.
    fn look(&self, seen: &[Definition]) -> Vec<Standing>;
}

impl Definition {
    /// The definition of a tool.
    pub(crate) fn of(upstream: &str, own: &str, tool: &Tool) -> Self {
        let raw = |raw: &gladhand_wire::RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
        let annotations = tool.extra.iter().find(|(name, _)| name == "annotations");
        let whole = Value::Array(vec![
            tool.title.clone().into(),
            tool.description.clone().into(),
            raw(&tool.input_schema),
            tool.output_schema.as_deref().map_or(Value::Null, raw),
            annotations.map_or(Value::Null, |(_, annotations)| raw(annotations)),
        ]);
        let mut text = String::new();
        write_sorted(&mut text, &whole);
        Self { upstream: upstream.to_owned(), own: own.to_owned(), shown: tool.name.clone(), text }
    }
}

/// Writes JSON with its members in the order of their names, so that their order does not count.
fn write_sorted(out: &mut String, value: &Value) {
    match value {
        Value::Object(members) => {
            out.push('{');
            for (name, value) in members.iter().collect::<BTreeMap<_, _>>() {
                let _ = write!(out, "{}:", Value::from(name.as_str()));
                write_sorted(out, value);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_sorted(out, item);
                out.push(',');
            }
            out.push(']');
        }
        value => {
            let _ = write!(out, "{value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_wire::json;
    use serde_json::json;

    #[test]
    fn a_definition_is_what_a_model_is_told_however_it_is_written() {
        let tool = |schema: &str| Tool::new("t", "d", json::raw(schema.to_owned()));
        let text = |tool: &Tool| Definition::of("u", "t", tool).text;
        let plain = text(&tool(r#"{"type":"object","properties":{"a":{},"b":{}}}"#));
        assert_eq!(plain, text(&tool(r#"{ "properties": {"b":{}, "a":{}}, "type": "object" }"#)));
        let same = tool(r#"{"type":"object","properties":{"a":{},"b":{}}}"#);
        for changed in [
            Tool { description: "d.".to_owned(), ..same.clone() },
            Tool { title: Some("d".to_owned()), ..same.clone() },
            same.clone().taking(&json!({"type": "object"})),
            same.clone().returning(&json!({"type": "object"})),
            same.clone().with("annotations", &json!({"readOnlyHint": true})),
        ] {
            assert_ne!(plain, text(&changed), "{changed:?}");
        }
        assert_eq!(plain, text(&Tool { name: "shown".to_owned(), ..same }), "the name that it is shown under is ours");
    }
}
