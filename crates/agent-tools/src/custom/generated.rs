//! The files of tools that the model created.
//!
//! Such a file holds its tool as JSON, the code as a string. It is read without running anything, and it is imported only
//! in a call of the tool. The runtime parses the code as the body of one function, which the code cannot leave.

use std::io::Read as _;
use std::path::Path;

use gladhand_core::wire::RawValue;
use gladhand_store::files::replace_private;
use serde::{Deserialize, Serialize};

use super::Described;

/// The first line of each file that the model wrote.
const MARK: &str = "// Made by create_persistent_tool.";

/// The text between the mark and the JSON.
const HEAD: &str = "\nconst tool = ";

/// The text after the JSON. Modules are strict, so the function is strict too.
const TAIL: &str = r#";
const AsyncFunction = (async () => {}).constructor;
export default { ...tool, run: new AsyncFunction("input", "context", '"use strict";\n' + tool.body) };
"#;

/// A tool that the model created.
#[derive(Debug, Deserialize)]
pub(super) struct Generated {
    pub(super) name: String,
    pub(super) description: String,
    /// The schema of the input, a JSON object.
    #[serde(default)]
    pub(super) args: Option<Box<RawValue>>,
    /// The body of the function.
    pub(super) body: String,
}

impl Generated {
    /// Reads the tool of a file. `None` if a person wrote the file. A file of an earlier version, which had the code as
    /// plain text, is replaced.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, String> {
        const CHANGED: &str = "it was changed after create_persistent_tool made it: create the tool again, or remove the \
                               first line of the file to run the file as your own";
        if !is_marked(path).map_err(|error| error.to_string())? {
            return Ok(None);
        }
        let text = gladhand_store::read_state(path).map_err(|error| error.to_string())?;
        let text = String::from_utf8(text).map_err(|error| error.to_string())?;
        if let Some(tool) = Self::parse(&text) {
            return Ok(Some(tool));
        }
        let tool = Self::parse_earlier(&text).ok_or(CHANGED)?;
        tool.write(path).map_err(|error| error.to_string())?;
        Ok(Some(tool))
    }

    /// Writes the file of the tool.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        replace_private(path, self.text()?.as_bytes())
    }

    /// The description, as for a file that a person wrote.
    pub(super) fn described(&self) -> Described {
        Described {
            name: self.name.clone(),
            description: self.description.trim().to_owned(),
            schema: self.args.as_deref().and_then(known_schema),
        }
    }

    fn text(&self) -> serde_json::Result<String> {
        let (name, description) = (serde_json::to_string(&self.name)?, serde_json::to_string(&self.description)?);
        let args = self.args.as_ref().map(|args| format!("  \"args\": {},\n", compact(args.get()))).unwrap_or_default();
        let body = serde_json::to_string(&self.body)?;
        Ok(format!(
            "{MARK}{HEAD}{{\n  \"name\": {name},\n  \"description\": {description},\n{args}  \"body\": {body}\n}}{TAIL}"
        ))
    }

    /// Everything between the fixed parts must be JSON, so the file contains no other code.
    fn parse(text: &str) -> Option<Self> {
        let json = text.strip_prefix(MARK)?.strip_prefix(HEAD)?.strip_suffix(TAIL)?;
        serde_json::from_str(json).ok()
    }

    /// Reads the form of earlier versions: an object literal with the code in a method.
    fn parse_earlier(text: &str) -> Option<Self> {
        let text = text.strip_prefix(MARK)?.strip_prefix("\nexport default {\n  name: ")?;
        let (name, text) = text.split_once(",\n  description: ")?;
        let (description, mut text) = text.split_once(",\n")?;
        let mut args = None;
        if let Some(rest) = text.strip_prefix("  args: ") {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Box<RawValue>>();
            args = Some(values.next()?.ok()?);
            text = rest[values.byte_offset()..].strip_prefix(",\n")?;
        }
        let code = text.strip_prefix("  async run(input, context) {\n")?.strip_suffix("\n  },\n};\n")?;
        let lines: Vec<_> = code.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
        Some(Self {
            name: serde_json::from_str(name).ok()?,
            description: serde_json::from_str(description).ok()?,
            args,
            body: lines.join("\n"),
        })
    }
}

/// Whether a file has the mark of a tool that the model wrote.
fn is_marked(path: &Path) -> std::io::Result<bool> {
    let mut beginning = Vec::new();
    gladhand_store::open_regular(path)?.take(MARK.len() as u64).read_to_end(&mut beginning)?;
    Ok(beginning == MARK.as_bytes())
}

/// The members of a schema that the list of tools shows, as in `driver.mjs`.
fn known_schema(given: &RawValue) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Given {
        properties: Box<RawValue>,
        required: Option<Box<RawValue>>,
        additional_properties: Option<Box<RawValue>>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Known {
        r#type: &'static str,
        properties: Box<RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        required: Option<Vec<String>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        additional_properties: Option<Box<RawValue>>,
    }
    let is_object = |value: &RawValue| value.get().starts_with('{');
    let given: Given = serde_json::from_str(&compact(given.get())).ok()?;
    let known = Known {
        r#type: "object",
        properties: Some(given.properties).filter(|properties| is_object(properties))?,
        required: given.required.and_then(|names| serde_json::from_str(names.get()).ok()),
        additional_properties: given
            .additional_properties
            .filter(|rule| is_object(rule) || matches!(rule.get(), "true" | "false")),
    };
    serde_json::value::to_raw_value(&known).ok()
}

/// A JSON text without white space between its tokens. Members keep their order.
fn compact(json: &str) -> String {
    let (mut in_string, mut is_escaped) = (false, false);
    let stays = |c: &char| {
        if in_string {
            in_string = is_escaped || *c != '"';
            is_escaped = *c == '\\' && !is_escaped;
            return true;
        }
        in_string = *c == '"';
        !c.is_ascii_whitespace()
    };
    json.chars().filter(stays).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_tool_is_read_as_it_was_written() {
        let (name, description) = ("a:b".to_owned(), "x\n\"};".to_owned());
        let body = "return `\n  }};\\` // \u{2028}".to_owned();
        let args = Some(raw(r#"{"b": {"c": [ "x: {", "\" }" ]},  "a":1}"#));
        let tool = Generated { name, description, args, body };
        let text = tool.text().unwrap();
        let again = Generated::parse(&text).unwrap();
        assert_eq!((&again.name, &again.description, &again.body), (&tool.name, &tool.description, &tool.body));
        assert_eq!(again.args.unwrap().get(), r#"{"b":{"c":["x: {","\" }"]},"a":1}"#);
        for changed in
            [text.replace(r#""name": "a:b""#, r#""name": x()"#), format!("{text}x()"), format!("{MARK}\nx()")]
        {
            assert!(Generated::parse(&changed).is_none() && Generated::parse_earlier(&changed).is_none(), "{changed}");
        }
    }

    #[test]
    fn files_of_earlier_versions_are_read() {
        let text = "// Made by create_persistent_tool.\nexport default {\n  name: \"adder\",\n  description: \"a,\\n\",\n  \
                    args: {\n    \"properties\": {\n      \"a\": {}\n    }\n  },\n  async run(input, context) {\n    if (1) {\n      \
                    return 1;\n\n    }\n  },\n};\n";
        let tool = Generated::parse_earlier(text).unwrap();
        assert_eq!((tool.name.as_str(), tool.description.as_str()), ("adder", "a,\n"));
        assert_eq!(tool.body, "if (1) {\n  return 1;\n\n}");
        assert_eq!(tool.described().schema.unwrap().get(), r#"{"type":"object","properties":{"a":{}}}"#);
        let plain = text.replace("  args: {\n    \"properties\": {\n      \"a\": {}\n    }\n  },\n", "");
        assert!(Generated::parse_earlier(&plain).unwrap().args.is_none());
    }

    #[test]
    fn a_schema_shows_the_known_members_that_are_valid() {
        let known = |json: &str| known_schema(&raw(json)).map(|schema| schema.get().to_owned());
        let whole = r#"{"type":"object","properties":{"b":{},"a":{}},"required":["a"],"additionalProperties":false}"#;
        assert_eq!(known(whole).as_deref(), Some(whole));
        let odd = r#"{"x": 1, "properties": {}, "required": [1], "additionalProperties": 3}"#;
        assert_eq!(known(odd).as_deref(), Some(r#"{"type":"object","properties":{}}"#));
        assert_eq!(known(r#"{"properties":[]}"#), None);
    }
}
