//! Parses a skill's file: settings between two lines of dashes, then the instructions.

use std::cmp::Ordering;
use std::path::PathBuf;

use gladhand_schemas::Check;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

/// A skill.
#[derive(Debug)]
pub(super) struct Skill {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) tools: Vec<Value>,
    pub(super) max_turns: Option<u64>,
    /// Its own timeout, in seconds.
    pub(super) timeout: Option<u64>,
    pub(super) tags: Vec<String>,
    pub(super) category: Option<String>,
    pub(super) status: Status,
    pub(super) instructions: String,
    /// The command that runs it; `None` if it is a prompt.
    pub(super) run: Option<Vec<String>>,
    /// The folder of its file.
    pub(super) folder: PathBuf,
    /// The schema of its arguments, if it has one.
    arguments: Option<Check>,
    /// Its entry in a list.
    pub(super) listed: Value,
}

/// The publication status of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
pub(super) enum Status {
    Created,
    Blocked,
    #[default]
    Published,
    Archived,
}

/// The settings of a skill's file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Front {
    name: Option<String>,
    #[serde(deserialize_with = "text")]
    version: Option<String>,
    description: String,
    #[serde(deserialize_with = "words")]
    triggers: Vec<String>,
    tools: Vec<Value>,
    toolkits: Vec<Value>,
    status: Status,
    when_to_use: Option<String>,
    argument_hint: Option<String>,
    category: Option<String>,
    #[serde(deserialize_with = "words")]
    tags: Vec<String>,
    icon: Option<String>,
    input_schema: Option<Map<String, Value>>,
    output_schema: Option<Map<String, Value>>,
    arguments: Option<Vec<String>>,
    max_turns: Option<u64>,
    timeout_seconds: Option<u64>,
    metadata: Option<Map<String, Value>>,
    run: Option<Vec<String>>,
}

impl Skill {
    /// Parses the text of a skill's file, or says what is wrong with it.
    pub(super) fn read(text: &str, folder: PathBuf) -> Result<Self, String> {
        let (front, instructions) = parts(text)?;
        let front: Value = serde_saphyr::from_str(front).map_err(|error| first_line(&error.to_string()))?;
        let front = match front {
            Value::Null => json!({}),
            // A setting without a value counts as absent.
            Value::Object(front) => front.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => return Err("its settings are not a mapping".to_owned()),
        };
        let front: Front = serde_json::from_value(front).map_err(|error| error.to_string())?;
        let named_after = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = front.name.or(named_after).filter(|name| !name.is_empty()).ok_or("it has no name")?;
        if front.run.as_ref().is_some_and(Vec::is_empty) {
            return Err("run is empty".to_owned());
        }
        let arguments = front.input_schema.as_ref().map(compiled).transpose()?;
        let version = front.version.unwrap_or_else(|| "1.0.0".to_owned());
        let takes_text = || json!({"type": "object", "properties": {"args": {"type": "string"}}});
        let status = match front.status {
            Status::Created => "Created",
            Status::Blocked => "Blocked",
            Status::Published => "Published",
            Status::Archived => "Archived",
        };
        let listed = json!({
            "name": name,
            "version": version,
            "description": front.description,
            "triggers": front.triggers,
            "tools": front.tools,
            "toolkits": front.toolkits,
            "status": status,
            "input_schema": front.input_schema.map_or_else(takes_text, Value::Object),
            "output_schema": front.output_schema.unwrap_or_default(),
            "instructions": instructions,
            // Clients need not know paths of this machine.
            "file_path": null,
            "llm_config": null,
            "arguments": front.arguments,
            "when_to_use": front.when_to_use.as_ref().unwrap_or(&front.description),
            "argument_hint": front.argument_hint.as_deref().unwrap_or("args: string"),
            "source": "filesystem",
            "category": front.category,
            "tags": front.tags,
            "max_turns": front.max_turns,
            "timeout_seconds": front.timeout_seconds,
            "icon": front.icon,
            "metadata": front.metadata,
        });
        Ok(Self {
            name,
            version,
            tools: front.tools,
            max_turns: front.max_turns,
            timeout: front.timeout_seconds,
            tags: front.tags,
            category: front.category,
            status: front.status,
            instructions: instructions.to_owned(),
            run: front.run,
            folder,
            arguments,
            listed,
        })
    }

    /// Checks the arguments against the schema, and returns the first problem.
    pub(super) fn problems(&self, arguments: &Value) -> Option<String> {
        let checked = self.arguments.as_ref()?.check_value("arguments", arguments);
        checked.err().map(|problem| problem.to_string())
    }

    /// The instructions with the arguments inserted.
    pub(super) fn prompt(&self, arguments: &Map<String, Value>) -> String {
        let filled = match arguments.get("args") {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        self.instructions.replace("{args}", &filled)
    }
}

/// Compares two versions: number by number, then as text.
pub(super) fn newer(one: &str, other: &str) -> Ordering {
    let numbers = |version: &str| -> Vec<u64> { version.split('.').map(|part| part.parse().unwrap_or(0)).collect() };
    numbers(one).cmp(&numbers(other)).then_with(|| one.cmp(other))
}

/// Splits the settings from the instructions. The settings may be absent.
fn parts(text: &str) -> Result<(&str, &str), String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = text.strip_prefix("---").filter(|rest| rest.trim_start_matches([' ', '\r']).starts_with('\n'))
    else {
        return Ok(("", text));
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if at > 0 && line.trim_end() == "---" {
            return Ok((&rest[..at], &rest[at + "---".len()..]));
        }
        at += line.len();
    }
    Err("the closing line of dashes is missing".to_owned())
}

fn compiled(schema: &Map<String, Value>) -> Result<Check, String> {
    let schema = Value::Object(schema.clone()).to_string();
    Check::compile(&schema).map_err(|error| format!("its input_schema: {}", first_line(&error)))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A string that may look like a number.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Some(match Value::deserialize(from)? {
        Value::String(text) => text,
        other => other.to_string(),
    }))
}

/// One word or a list of words.
fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Written::deserialize(from)? {
        Written::One(word) => vec![word],
        Written::Several(words) => words,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Skill, String> {
        Skill::read(text, PathBuf::from("/skills/folder"))
    }

    #[test]
    fn settings_and_instructions_are_separated() {
        let skill = read("---\nname: a\nversion: 1.5\ntags: one\n---\nDo {args}\n---\nand more\n").unwrap();
        assert_eq!((&*skill.name, &*skill.version, &*skill.tags), ("a", "1.5", &["one".to_owned()][..]));
        assert_eq!(skill.instructions, "\nDo {args}\n---\nand more\n");
        let args = |value: Value| [("args".to_owned(), value)].into_iter().collect();
        assert_eq!(skill.prompt(&args(json!("it"))), "\nDo it\n---\nand more\n");
        assert_eq!(skill.prompt(&args(json!([1]))), "\nDo [1]\n---\nand more\n");
        let bare = read("Just do it").unwrap();
        assert_eq!((&*bare.name, &*bare.version, &*bare.instructions), ("folder", "1.0.0", "Just do it"));
        assert_eq!(read("---\n---\nx").unwrap().instructions, "\nx");
        assert_eq!(read("---\ntools:\nicon:\n---\nx").unwrap().tools, Vec::<Value>::new());
    }

    #[test]
    fn invalid_skill_files_are_refused() {
        for text in [
            "---\nname: a\n",
            "---\nname: [1\n---\n",
            "---\nname: {}\n---\n",
            "---\nstatus: Odd\n---\n",
            "---\nrun: []\n---\n",
            "---\nrun: ls\n---\n",
            "---\ninput_schema: {type: 7}\n---\n",
            "---\nname: \"\"\n---\n",
            "---\n- a list\n---\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(newer("0.10.0", "0.9.9"), Ordering::Greater);
        assert_eq!(newer("1", "1.0"), Ordering::Less);
        assert_eq!(newer("1.0.0-b", "1.0.0-a"), Ordering::Greater);
    }

    #[test]
    fn arguments_are_checked_against_the_schema() {
        let skill = read("---\ninput_schema: {type: object, required: [city]}\n---\n").unwrap();
        assert_eq!(skill.problems(&json!({"city": 1})), None);
        assert!(skill.problems(&json!({})).unwrap().contains("city"));
    }
}
