//! Arguments of a tool as people type them: `key=value`, read by the tool's own schema.
//!
//! `key=value` is read as the type that the schema says, `key:=JSON` as it stands, `key=@FILE` from a file. A key
//! that comes several times makes a list where the schema wants one.

use std::io::Read;

use anyhow::{Context, Result, anyhow, bail};
use gladhand_core::Order as _;
use gladhand_core::wire::{Members, RawValue};
use serde_json::{Map, Value};

use crate::config::spelling::nearest;
use crate::terminal::text::plain;

/// The largest file that an argument is read from.
const LARGEST_FILE: u64 = 16 * 1024 * 1024;

/// The properties of an object schema, as far as a command line needs them.
#[derive(Debug)]
pub(in crate::commands) struct Properties {
    all: Vec<Property>,
    /// Whether the schema welcomes what it does not name.
    open: bool,
}

/// One property of an object schema.
#[derive(Debug)]
pub(in crate::commands) struct Property {
    pub(in crate::commands) name: String,
    pub(super) schema: Value,
    pub(in crate::commands) required: bool,
}

impl Property {
    /// The types it may have, in the schema's order; empty if it does not say.
    pub(super) fn types(&self) -> Vec<&str> {
        let alternatives = self.alternatives();
        let known: Option<Vec<_>> = alternatives.iter().map(|schema| types(schema)).collect();
        let mut types = Vec::new();
        for kind in known.into_iter().flatten().flatten() {
            if !types.contains(&kind) {
                types.push(kind);
            }
        }
        types
    }

    /// The values that can be typed, where the schema names them or there are only two.
    pub(in crate::commands) fn typed_values(&self) -> Vec<String> {
        let choices = self.choices();
        if choices.is_empty() && self.types().contains(&"boolean") {
            return vec!["true".to_owned(), "false".to_owned()];
        }
        let typed = |choice: &&Value| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned);
        choices.iter().map(typed).collect()
    }

    /// The schema of the entries of a list, where it may be one.
    pub(super) fn items(&self) -> Option<&Value> {
        self.alternatives().into_iter().find_map(|schema| schema.get("items"))
    }

    /// The schemas of which one must hold: many write what may be left out as a choice between it and `null`.
    fn alternatives(&self) -> Vec<&Value> {
        let choice = ["anyOf", "oneOf"].iter().find_map(|key| self.schema.get(key)?.as_array());
        choice.map_or_else(|| vec![&self.schema], |choice| choice.iter().collect())
    }

    /// The values it may have, where it names them.
    pub(super) fn choices(&self) -> Vec<&Value> {
        match self.schema.get("enum") {
            Some(Value::Array(choices)) => choices.iter().collect(),
            _ => self.schema.get("const").into_iter().collect(),
        }
    }
}

/// The types that a schema names; `None` if it names none.
fn types(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(one) => Some(vec![one]),
        Value::Array(several) => Some(several.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

/// A type as a person says it: `a number`, `an object`.
fn with_article(kind: &str) -> String {
    match kind {
        "null" => kind.to_owned(),
        "array" => "a list".to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" => "a whole number".to_owned(),
        "object" => "an object".to_owned(),
        other => format!("a {other}"),
    }
}

impl Properties {
    /// Reads an input schema: the required ones first, otherwise in its order.
    pub(in crate::commands) fn of(schema: &str) -> Self {
        let schema = Members::parse(schema).unwrap_or_default();
        let required: Vec<String> =
            schema.raw("required").and_then(|names| serde_json::from_str(names.get()).ok()).unwrap_or_default();
        let named = schema.object("properties");
        let property = |(name, schema): (&str, &RawValue)| Property {
            name: name.to_owned(),
            schema: serde_json::from_str(schema.get()).unwrap_or_default(),
            required: required.iter().any(|required| required == name),
        };
        let mut all: Vec<_> = named.iter().flat_map(Members::iter).map(property).collect();
        all.order_by_key(|property| !property.required);
        let welcomes_more = schema.raw("additionalProperties").is_some_and(|more| more.get() != "false");
        Self { open: welcomes_more || named.is_none(), all }
    }

    /// All of them.
    pub(in crate::commands) fn iter(&self) -> impl Iterator<Item = &Property> {
        self.all.iter()
    }

    /// Reads what was typed, on top of the JSON that `--args` gave.
    pub(super) fn read(&self, given: Option<&str>, words: &[String]) -> Result<Map<String, Value>> {
        let mut arguments = match given {
            None => Map::new(),
            Some(text) => {
                match serde_json::from_str(text).map_err(|error| anyhow!("--args is not valid JSON: {error}"))? {
                    Value::Object(arguments) => arguments,
                    _ => bail!("--args must be a JSON object, such as {{\"name\": 1}}"),
                }
            }
        };
        let mut typed: Vec<&str> = Vec::new();
        for word in words {
            let (key, value, is_json) = split(word)?;
            let value = self.value(key, &value, is_json)?;
            let again = typed.contains(&key);
            typed.push(key);
            match (arguments.get_mut(key), value) {
                (Some(Value::Array(list)), Value::Array(more)) if again => list.extend(more),
                (Some(_), _) if again => bail!("`{}` is given twice, and it is no list", plain(key)),
                (_, value) => {
                    arguments.insert(key.to_owned(), value);
                }
            }
        }
        // Arguments given as JSON are not checked for missing members: the server checks them anyway.
        if given.is_none() {
            self.missing(&arguments)?;
        }
        Ok(arguments)
    }

    fn missing(&self, arguments: &Map<String, Value>) -> Result<()> {
        let missing = self.all.iter().filter(|property| property.required && !arguments.contains_key(&property.name));
        let names: Vec<_> = missing.map(|property| format!("`{}`", plain(&property.name))).collect();
        match names.len() {
            0 => Ok(()),
            1 => bail!("{} is missing", names[0]),
            _ => bail!("{} are missing", names.join(", ")),
        }
    }

    fn value(&self, key: &str, text: &str, is_json: bool) -> Result<Value> {
        let property = self.all.iter().find(|property| property.name == key);
        let key = plain(key);
        if property.is_none() && !self.open {
            let known: Vec<_> = self.all.iter().map(|property| property.name.as_str()).collect();
            let nearest = nearest(&key, known.iter().copied()).map(plain);
            match (nearest, known.as_slice()) {
                (Some(nearest), _) => bail!("the tool has no argument `{key}`: did you mean `{nearest}`?"),
                (None, []) => bail!("the tool has no argument `{key}`: it takes none"),
                (None, known) => bail!("the tool has no argument `{key}`: it takes {}", plain(&known.join(", "))),
            }
        }
        let json = || serde_json::from_str::<Value>(text);
        if is_json {
            return json().map_err(|error| anyhow!("`{key}` is not valid JSON: {error}"));
        }
        let types = property.map_or_else(Vec::new, Property::types);
        let wanted = |kind: &str| types.contains(&kind);
        // The most particular type that the text can be; a text is a text last.
        let value = match json().ok() {
            Some(value @ Value::Number(_)) if wanted("number") => Some(value),
            Some(value @ Value::Number(_)) if wanted("integer") && (value.is_i64() || value.is_u64()) => Some(value),
            Some(value @ Value::Bool(_)) if wanted("boolean") => Some(value),
            Some(value @ Value::Array(_)) if wanted("array") => Some(value),
            Some(value @ Value::Object(_)) if wanted("object") => Some(value),
            Some(Value::Null) if wanted("null") => Some(Value::Null),
            Some(value) if types.is_empty() => Some(value),
            _ => None,
        };
        if let Some(value) = value {
            return Ok(value);
        }
        if wanted("string") || types.is_empty() {
            return Ok(Value::String(text.to_owned()));
        }
        if wanted("array") {
            return Ok(Value::Array(vec![self.item(property, text)]));
        }
        let types: Vec<_> = types.into_iter().map(with_article).collect();
        bail!("`{key}` must be {}, not {text:?}", plain(&types.join(" or ")))
    }

    /// One entry of a list, by the type that the schema gives its items.
    fn item(&self, property: Option<&Property>, text: &str) -> Value {
        let kind = property.and_then(|property| property.items()?.get("type")?.as_str());
        match kind {
            None | Some("string") => Value::String(text.to_owned()),
            Some(_) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
        }
    }
}

/// `key=value`, `key:=JSON` or `key=@FILE`: the key, the text, and whether that is JSON as it stands.
fn split(word: &str) -> Result<(&str, String, bool)> {
    let (key, value) = word.split_once('=').with_context(|| format!("{word:?} is neither `key=value` nor a URL"))?;
    let (key, is_json) = key.strip_suffix(':').map_or((key, false), |key| (key, true));
    if key.is_empty() {
        bail!("{word:?} names no argument before the `=`");
    }
    let value = match value.strip_prefix('@') {
        Some(path) if !is_json => read_file(path)?,
        _ => value.to_owned(),
    };
    Ok((key, value, is_json))
}

/// The JSON that `--args` names: itself, in a file, or on standard input.
pub(super) fn given(text: &str) -> Result<String> {
    match text.strip_prefix('@') {
        Some(path) => read_file(path).context("--args"),
        None if text == "-" => read(std::io::stdin().lock(), "standard input"),
        None => Ok(text.to_owned()),
    }
}

fn read_file(path: &str) -> Result<String> {
    read(fs_err::File::open(path)?, path)
}

fn read(source: impl Read, name: &str) -> Result<String> {
    let mut text = String::new();
    source.take(LARGEST_FILE + 1).read_to_string(&mut text).with_context(|| format!("{name} cannot be read"))?;
    if text.len() as u64 > LARGEST_FILE {
        bail!("{name} is larger than {LARGEST_FILE} bytes");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "text":{"type":"string"},"count":{"type":"integer"},"ratio":{"type":"number"},"loud":{"type":"boolean"},
        "tags":{"type":"array","items":{"type":"string"}},"sizes":{"type":"array","items":{"type":"integer"}},
        "where":{"type":"object"},"either":{"type":["string","null"]},"any":{},
        "maybe":{"anyOf":[{"type":"string"},{"type":"null"}]},"few":{"anyOf":[{"type":"integer"},{"type":"null"}]},
        "list":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]},
        "loose":{"anyOf":[{"type":"string"},{}]}},"required":["text"]}"#;

    fn read(words: &[&str]) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Properties::of(SCHEMA).read(None, &words).map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_read_by_the_schema() {
        let words = ["text=7", "count=7", "ratio=0.5", "loud=true", "where={\"a\":1}", "either=null", "any=[1]"];
        let expected =
            serde_json::json!({"text":"7","count":7,"ratio":0.5,"loud":true,"where":{"a":1},"either":null,"any":[1]});
        assert_eq!(read(&words), Ok(expected));
        assert_eq!(
            read(&["text=a=b", "either=x", "any=word"]),
            Ok(serde_json::json!({"text":"a=b","either":"x","any":"word"}))
        );
        assert_eq!(read(&["text:=\"x\""]), Ok(serde_json::json!({"text":"x"})));
    }

    #[test]
    fn optional_parameters_are_read_by_the_type_of_their_value() {
        let words = ["text=", "maybe=2", "few=2", "list=1", "list=2", "loose=2"];
        let expected = serde_json::json!({"text":"","maybe":"2","few":2,"list":["1","2"],"loose":2});
        assert_eq!(read(&words), Ok(expected));
        assert_eq!(read(&["text=", "maybe=null"]), Ok(serde_json::json!({"text":"","maybe":null})));
        assert_eq!(read(&["text=", "few=x"]), Err("`few` must be a whole number or null, not \"x\"".to_owned()));
    }

    #[test]
    fn a_key_that_comes_again_makes_a_list() {
        let expected = serde_json::json!({"text":"","tags":["a","1"],"sizes":[1,2]});
        assert_eq!(read(&["text=", "tags=a", "tags=1", "sizes=1", "sizes=2"]), Ok(expected));
        assert_eq!(read(&["text=a", "tags=[\"a\",\"b\"]"]), Ok(serde_json::json!({"text":"a","tags":["a","b"]})));
        assert_eq!(read(&["text=a", "text=b"]), Err("`text` is given twice, and it is no list".to_owned()));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(read(&["count=1"]), Err("`text` is missing".to_owned()));
        assert_eq!(read(&["text=a", "count=x"]), Err("`count` must be a whole number, not \"x\"".to_owned()));
        assert_eq!(read(&["text=a", "loud=1"]), Err("`loud` must be true or false, not \"1\"".to_owned()));
        let unknown = read(&["text=a", "txt=b"]).unwrap_err();
        assert_eq!(unknown, "the tool has no argument `txt`: did you mean `text`?");
        let unknown = read(&["text=a", "elsewhere=b"]).unwrap_err();
        assert!(unknown.starts_with("the tool has no argument `elsewhere`: it takes text, count, "), "{unknown}");
        assert_eq!(read(&["=b"]), Err("\"=b\" names no argument before the `=`".to_owned()));
        assert_eq!(read(&["b"]), Err("\"b\" is neither `key=value` nor a URL".to_owned()));
        assert!(read(&["text:={"]).unwrap_err().starts_with("`text` is not valid JSON"));
    }

    #[test]
    fn names_of_a_server_stay_on_the_line_of_the_message() {
        let schema = r#"{"type":"object","properties":{"text\nerror: x":{"type":"string"},"kind":{"type":"odd\nhint: x"}},
            "required":["text\nerror: x"]}"#;
        for words in [&[][..], &["texx\nerror: x=1"], &["elsewhere=1"], &["kind=x"]] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let told = Properties::of(schema).read(None, &words).unwrap_err().to_string();
            assert_eq!(told.lines().count(), 1, "{told}");
        }
    }

    #[test]
    fn arguments_come_from_a_file_or_from_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("arguments.json");
        std::fs::write(&file, r#"{"text":"from a file"}"#).unwrap();
        assert_eq!(given(&format!("@{}", file.display())).unwrap(), r#"{"text":"from a file"}"#);
        assert_eq!(given("{}").unwrap(), "{}");
        let missing = format!("{:#}", given("@/no/such/file").unwrap_err());
        assert!(missing.starts_with("--args: ") && missing.contains("/no/such/file"), "{missing}");
    }

    #[test]
    fn a_json_argument_is_used_unchanged_and_named_arguments_override_members() {
        let properties = Properties::of(SCHEMA);
        let read = |given, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            properties.read(Some(given), &words).map(Value::Object).map_err(|error| error.to_string())
        };
        assert_eq!(read(r#"{"else":1}"#, &["count=2"]), Ok(serde_json::json!({"else":1,"count":2})));
        assert_eq!(read(r#"{"count":1}"#, &["count=2"]), Ok(serde_json::json!({"count":2})));
        assert!(read("[]", &[]).unwrap_err().contains("must be a JSON object"));
    }
}
