//! Pinned definitions: an approved tool or prompt must not change, and neither must the server's instructions.
//!
//! A model decides by the definition what to do with a tool. A server that silently changes a definition therefore
//! changes the tool (a "rug pull"). Every definition is pinned as a whole when it is first seen.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use gladhand_core::operations::{Prompt, PromptArgument, Tool};
use gladhand_core::wire::{RawValue, values};
use serde::{Deserialize, Serialize};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::parties::{CallTarget, Kind};
use super::unambiguous_json;
use crate::provider::{Listed, Settling};

/// The reaction to a changed definition.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// Nothing is pinned.
    #[default]
    Off,
    /// The change is logged and counted.
    Warn,
    /// A changed definition can neither be seen nor used until a user approves it.
    Stop,
}

/// The kinds of definitions that can be pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pinned {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// The instructions of a server.
    Instructions,
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Instructions => "instructions",
        })
    }
}

/// A definition in the form in which it is pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The kind of definition.
    pub kind: Pinned,
    /// The provider that has it.
    pub upstream: String,
    /// The provider's own name for it. Instructions have no name.
    pub own: String,
    /// The shown name, if it is known.
    pub shown: Option<String>,
    /// The whole definition as canonical JSON: equal definitions have equal text, regardless of formatting.
    pub text: String,
    /// The part of it that versions up to 0.1 pinned, if they pinned it.
    pub narrow: Option<String>,
}

/// The result of comparing a definition with its pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is unchanged, or it is new and pinned now.
    Pinned,
    /// It has changed.
    Changed {
        /// The name under which a user approves it.
        name: String,
        /// When it was pinned, in readable form.
        since: String,
    },
    /// Its pin is being stored, or compared with what another process stored: see [`Pinboard::storing`].
    Pending {
        /// The name under which it is shown.
        name: String,
    },
    /// It is new, and its pin could not be stored. A later definition could not be compared with it.
    Unpinned {
        /// The name under which it is shown.
        name: String,
        /// Why, with the place of the pins.
        why: String,
    },
}

/// Where compared definitions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionSource {
    /// The upstream sent them in a session.
    Session,
    /// The routes of the hub have them. They may be remembered from an earlier session, so a remembered definition that
    /// has its pin does not show that the upstream took a change back.
    Routes,
}

/// Stores the pins. The binary implements it with a file and a hash.
pub trait Pinboard: Send + Sync {
    /// Compares definitions with the pins, and pins new ones. The results are in the same order. An implementation must
    /// not make the caller wait: the hub calls this on the threads that serve its sessions.
    fn look(&self, seen: &[Definition], source: DefinitionSource) -> Vec<Standing>;

    /// If pins are being stored: a future that ends when they are, or when it has given up for now. Calls and lists
    /// wait for it. The implementation makes the hub look again before the future ends.
    fn storing(&self) -> Option<Settling> {
        None
    }
}

gladhand_core::debug_as_name!(Pinboard);

/// Definitions that are stopped because they changed or could not be pinned, each with the reason.
#[derive(Debug, Clone, Default)]
pub struct Stopped {
    tools: ByUpstream,
    prompts: ByUpstream,
    instructions: ByUpstream,
    /// Whether pins were being stored during the comparison, so that a later one may have another result.
    pub(super) awaits_pins: bool,
}

/// By upstream, then by own name.
type ByUpstream = HashMap<String, HashMap<String, String>>;

impl Stopped {
    pub(super) fn add(&mut self, definition: &Definition, why: String) {
        let of_kind = match definition.kind {
            Pinned::Tool => &mut self.tools,
            Pinned::Prompt => &mut self.prompts,
            Pinned::Instructions => &mut self.instructions,
        };
        of_kind.entry(definition.upstream.clone()).or_default().insert(definition.own.clone(), why);
    }

    /// Whether nothing is stopped.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.prompts.is_empty() && self.instructions.is_empty()
    }

    /// The reason why something is stopped, if it is.
    pub(crate) fn why(&self, what: &CallTarget<'_>) -> Option<&str> {
        match what.kind {
            Kind::Tool => self.why_tool(what.upstream, what.own),
            Kind::Prompt => self.why_prompt(what.upstream, what.own),
            Kind::Resource | Kind::Capability => None,
        }
    }

    /// The reason why a tool is stopped, if it is.
    pub fn why_tool(&self, upstream: &str, own: &str) -> Option<&str> {
        self.tools.get(upstream)?.get(own).map(String::as_str)
    }

    /// The reason why a prompt is stopped, if it is.
    pub fn why_prompt(&self, upstream: &str, own: &str) -> Option<&str> {
        self.prompts.get(upstream)?.get(own).map(String::as_str)
    }

    /// Whether the instructions of an upstream are withheld.
    pub fn withholds_instructions(&self, upstream: &str) -> bool {
        self.instructions.contains_key(upstream)
    }
}

impl Definition {
    /// All definitions that an upstream sends, under its own names.
    pub fn all(upstream: &str, listed: &Listed, instructions: Option<&str>) -> Vec<Self> {
        let tools = listed.tools.iter().map(|tool| Self::of_tool(upstream, &tool.name, tool));
        let prompts = listed.prompts.iter().map(|prompt| Self::of_prompt(upstream, &prompt.name, prompt));
        tools.chain(prompts).chain(Self::of_instructions(upstream, instructions)).collect()
    }

    /// The definition of a tool.
    pub(crate) fn of_tool(upstream: &str, own: &str, tool: &Tool) -> Self {
        let formerly = |raw: &RawValue| values::read(raw.get()).unwrap_or(Value::Null);
        let annotations = tool.extra.iter().find(|(name, _)| name == "annotations");
        let narrow = Value::Array(vec![
            tool.title.clone().into(),
            tool.description.clone().into(),
            formerly(&tool.input_schema),
            tool.output_schema.as_deref().map_or(Value::Null, formerly),
            annotations.map_or(Value::Null, |(_, annotations)| formerly(annotations)),
        ]);
        let known = [
            ("name", own.into()),
            ("title", tool.title.clone().into()),
            ("description", tool.description.clone().into()),
            ("inputSchema", read(&tool.input_schema)),
            ("outputSchema", tool.output_schema.as_deref().map_or(Value::Null, read)),
            ("tags", tool.tags.clone().into()),
            ("deferred", tool.deferred.into()),
            ("execution.taskSupport", serde_json::to_value(tool.tasks).unwrap_or_default()),
        ];
        let whole = whole(known, &tool.extra);
        Self { narrow: Some(formerly_sorted(&narrow)), ..Self::new(Pinned::Tool, upstream, own, &whole) }
    }

    /// The definition of a prompt.
    pub(crate) fn of_prompt(upstream: &str, own: &str, prompt: &Prompt) -> Self {
        let argument = |one: &PromptArgument| {
            let known = [
                ("name", one.name.clone().into()),
                ("description", one.description.clone().into()),
                ("required", one.required.into()),
            ];
            whole(known, &one.extra)
        };
        let known = [
            ("name", own.into()),
            ("title", prompt.title.clone().into()),
            ("description", prompt.description.clone().into()),
            ("arguments", prompt.arguments.iter().map(argument).collect()),
        ];
        Self::new(Pinned::Prompt, upstream, own, &whole(known, &prompt.extra))
    }

    /// The instructions of an upstream, if it has any.
    pub(crate) fn of_instructions(upstream: &str, instructions: Option<&str>) -> Option<Self> {
        Some(Self::new(Pinned::Instructions, upstream, "", &Value::from(instructions?)))
    }

    fn new(kind: Pinned, upstream: &str, own: &str, whole: &Value) -> Self {
        let (upstream, own) = (upstream.to_owned(), own.to_owned());
        Self { kind, upstream, own, shown: None, text: sorted(whole), narrow: None }
    }
}

/// A definition made of the members that the neutral model knows and of other members. If a member occurs several
/// times, the repetitions follow in a list. So no definition without repetitions has the same text.
fn whole<const N: usize>(known: [(&str, Value); N], extra: &[(String, Box<RawValue>)]) -> Value {
    let mut members: Map<_, _> = known.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let mut further = Vec::new();
    for (name, value) in extra {
        match members.entry(name) {
            Entry::Vacant(free) => drop(free.insert(read(value))),
            Entry::Occupied(_) => further.push(Value::Array(vec![name.as_str().into(), read(value)])),
        }
    }
    match further.is_empty() {
        true => Value::Object(members),
        false => Value::Array(vec![Value::Object(members), Value::Array(further)]),
    }
}

/// JSON that two parsers could read differently counts as raw text.
fn read(raw: &RawValue) -> Value {
    unambiguous_json::read(raw.get()).unwrap_or_else(|_| raw.get().into())
}

/// JSON with members sorted by name, so that their order does not count.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            let members =
                members.into_iter().map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), sorted(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        value => value.to_string(),
    }
}

/// The form that versions up to 0.1 wrote: with a comma after each member.
fn formerly_sorted(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            let member = |(name, value): (&String, &Value)| {
                format!("{}:{},", Value::from(name.as_str()), formerly_sorted(value))
            };
            format!("{{{}}}", members.into_iter().map(member).collect::<String>())
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| formerly_sorted(item) + ",").collect::<String>())
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_core::wire::json;
    use serde_json::json;

    fn tool(schema: &str) -> Tool {
        Tool::new("t", "d", json::raw(schema.to_owned()))
    }

    #[test]
    fn a_definition_is_everything_regardless_of_formatting() {
        let text = |tool: &Tool| Definition::of_tool("u", "t", tool).text;
        let plain = text(&tool(r#"{"type":"object","properties":{"a":{},"b":{}}}"#));
        assert_eq!(plain, text(&tool(r#"{ "properties": {"b":{}, "a":{}}, "type": "object" }"#)));
        assert!(serde_json::from_str::<Value>(&plain).is_ok(), "{plain}");
        let same = tool(r#"{"type":"object","properties":{"a":{},"b":{}}}"#);
        for changed in [
            Tool { description: "d.".to_owned(), ..same.clone() },
            Tool { title: Some("d".to_owned()), ..same.clone() },
            same.clone().taking(&json!({"type": "object"})),
            same.clone().returning(&json!({"type": "object"})),
            same.clone().with("annotations", &json!({"readOnlyHint": true})),
            same.clone().with("_meta", &json!({"hidden": "text"})),
            same.clone().with("icons", &json!([{"src": "https://elsewhere.example/i.png"}])),
            same.clone().with("execution", &json!({"unknown": 1})),
            same.clone().with("anything", &json!(null)),
            same.clone().as_task(gladhand_core::operations::TaskSupport::Optional),
            Tool { tags: vec!["x".to_owned()], ..same.clone() },
        ] {
            assert_ne!(plain, text(&changed), "{changed:?}");
        }
        assert_eq!(
            plain,
            text(&Tool { name: "shown".to_owned(), ..same }),
            "the shown name is not part of the definition"
        );
    }

    /// This takes hours if each repetition gets its own name, because those names grow with the number of repetitions.
    #[test]
    fn every_repetition_of_a_member_counts() {
        let text = |values: &[&str]| {
            let extra = values.iter().map(|value| ("x".to_owned(), json::raw((*value).to_owned()))).collect();
            Definition::of_tool("u", "t", &Tool { extra, ..tool("{}") }).text
        };
        let many = vec!["1"; 100_000];
        let mut other = many.clone();
        other[99_998] = "2";
        assert_ne!(text(&many), text(&other));
        assert_ne!(text(&many), text(&many[1..]));
        assert_ne!(text(&["1", "2"]), text(&["2", "1"]));
        let known = vec![("tags".to_owned(), json::raw("1".to_owned()))];
        assert_ne!(Definition::of_tool("u", "t", &Tool { extra: known, ..tool("{}") }).text, text(&[]));
    }

    #[test]
    fn an_ordinary_definition_keeps_its_text() {
        let tool = tool(r#"{"type":"object"}"#).with("annotations", &json!({"b": 1, "a": 2}));
        let text = r#"{"annotations":{"a":2,"b":1},"deferred":false,"description":"d","execution.taskSupport":"Forbidden","inputSchema":{"type":"object"},"name":"t","outputSchema":null,"tags":[],"title":null}"#;
        assert_eq!(Definition::of_tool("u", "t", &tool).text, text);
        let prompt = Prompt::new("p", "d").argument("a", "");
        let text = r#"{"arguments":[{"description":"","name":"a","required":true}],"description":"d","name":"p","title":null}"#;
        assert_eq!(Definition::of_prompt("u", "p", &prompt).text, text);
    }

    #[test]
    fn prompts_and_instructions_are_definitions_too() {
        let text = |prompt: &Prompt| Definition::of_prompt("u", "p", prompt).text;
        let (plain, same) = (text(&Prompt::new("p", "d")), Prompt::new("p", "d"));
        let unknown = vec![("_meta".to_owned(), json::raw("{}".to_owned()))];
        for changed in [
            Prompt { title: Some("x".to_owned()), ..same.clone() },
            Prompt { extra: unknown, ..same.clone() },
            same.clone().argument("a", ""),
        ] {
            assert_ne!(plain, text(&changed), "{changed:?}");
        }
        let listed = Listed { tools: vec![tool("{}")], prompts: vec![same], ..Listed::default() };
        let kinds: Vec<_> = Definition::all("u", &listed, Some("so")).iter().map(|one| one.kind).collect();
        assert_eq!(kinds, [Pinned::Tool, Pinned::Prompt, Pinned::Instructions]);
    }

    #[test]
    fn pins_of_older_versions_are_still_known() {
        let tool = tool(r#"{"b":1,"a":2}"#).with("_meta", &json!({"x": 1})).with("annotations", &json!({"c": 1}));
        let narrow = Definition::of_tool("u", "t", &tool).narrow.unwrap();
        assert_eq!(narrow, r#"[null,"d",{"a":2,"b":1,},null,{"c":1,},]"#);
    }
}
