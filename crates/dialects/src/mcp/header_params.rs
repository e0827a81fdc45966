//! Arguments that are mirrored into HTTP headers (2026-07-28): which ones, and how their values are encoded.
//!
//! A tool declares them in its schema (`x-mcp-header`). Both sides read these annotations by the same rules: the server
//! to compare, the client to write. A value that is not valid in a header is encoded in base64.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gladhand_core::operations::Tool;
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{Members, pick, values};

/// The prefix of every header of a mirrored argument.
pub const PREFIX: &str = "Mcp-Param-";

const ANNOTATION: &str = "x-mcp-header";
const BEGIN: &str = "=?base64?";
const END: &str = "?=";

/// Maximum depth of a schema. Real schemas are not nested that deep.
const MAX_DEPTH: usize = 64;

/// Maximum number of arguments of a tool that are mirrored. Each is a header, and a request has few of them.
const MAX_PARAMS: usize = 100;

/// Maximum number of bytes that are parsed of one schema with annotations. A nested part counts with each level.
const MAX_PARSED_BYTES: usize = 1024 * 1024;

/// Lists whose schemas with annotations have up to this many bytes are read in less than about a millisecond.
const QUICK_BYTES: usize = 64 * 1024;

/// An argument that is mirrored in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParam {
    /// The full name of the header: `Mcp-Param-Region`.
    pub header: String,
    /// The path of member names to the argument.
    pub path: Vec<String>,
}

/// An annotation that violates the rules. The tool cannot be called over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadAnnotation {
    /// The name is empty, not a string, or not valid as a header name.
    #[error("`x-mcp-header` must be a valid header name")]
    Name,
    /// Two annotations name the same header.
    #[error("two arguments name the same header in `x-mcp-header`")]
    Repeated,
    /// Only strings, integers and booleans can be mirrored.
    #[error("`x-mcp-header` is only allowed on a string, an integer or a boolean")]
    Type,
    /// The annotation is not reached through `properties` alone, so it identifies no single argument.
    #[error("`x-mcp-header` is only allowed on a single argument")]
    Place,
    /// More than 100 arguments are annotated, or the schema is too large to be searched for annotations.
    #[error("there are too many `x-mcp-header`, or they are in too large a schema")]
    TooMany,
}

impl HeaderParam {
    /// The argument in the arguments of a call. `None` if it is absent or `null`.
    pub fn argument<'a>(&self, arguments: &'a RawValue) -> Option<&'a RawValue> {
        let follow = |value: &'a RawValue, name: &String| pick(value, [name]).and_then(|[member]| member);
        self.path.iter().try_fold(arguments, follow).filter(|value| Kind::of(value) != Kind::Null)
    }

    /// The value of the header for these arguments. `None` if there is no header to send.
    pub fn value(&self, arguments: &RawValue) -> Option<String> {
        let argument = self.argument(arguments)?;
        match Kind::of(argument) {
            Kind::String => json::string(argument).map(|text| encode_header_value(&text).into_owned()),
            Kind::Number | Kind::Bool => Some(argument.get().to_owned()),
            Kind::Object | Kind::Array | Kind::Null => None,
        }
    }
}

/// The mirrored arguments of each tool. Built once per list of tools, because parsing schemas is slow.
#[derive(Debug, Clone, Default)]
pub struct Mirrors {
    by_tool: HashMap<String, Vec<HeaderParam>>,
}

impl Mirrors {
    /// Reads the schemas of these tools.
    pub fn new(tools: &[Tool]) -> Self {
        // Invalid annotations are ignored: a client that follows the rules does not offer such a tool.
        let params = |tool: &Tool| header_params(&tool.input_schema).ok().filter(|params| !params.is_empty());
        let by_tool = tools.iter().filter_map(|tool| Some((tool.name.clone(), params(tool)?)));
        Self { by_tool: by_tool.collect() }
    }

    /// Whether [`Self::new`] takes so little time for these tools that a thread that serves requests may call it.
    pub fn is_quick(tools: &[Tool]) -> bool {
        let schemas = tools.iter().map(|tool| tool.input_schema.get()).filter(|schema| schema.contains(ANNOTATION));
        schemas.map(str::len).sum::<usize>() <= QUICK_BYTES
    }

    /// The mirrored arguments of a tool.
    pub fn of(&self, tool: &str) -> &[HeaderParam] {
        self.by_tool.get(tool).map_or(&[], Vec::as_slice)
    }
}

/// The arguments that a tool's schema marks for mirroring.
pub fn header_params(schema: &RawValue) -> Result<Vec<HeaderParam>, BadAnnotation> {
    let mut collector = Collector { left: MAX_PARSED_BYTES, ..Collector::default() };
    collector.collect(schema, true, 0)?;
    Ok(collector.params)
}

/// Collects the annotations of one schema.
#[derive(Default)]
struct Collector {
    params: Vec<HeaderParam>,
    /// The names so far, in lowercase.
    names: HashSet<String>,
    /// The path to the current schema.
    path: Vec<String>,
    /// How many more bytes may be parsed.
    left: usize,
}

impl Collector {
    /// Collects the annotations of a schema and its subschemas. `is_single`: the schema describes a single argument.
    fn collect(&mut self, schema: &RawValue, is_single: bool, depth: usize) -> Result<(), BadAnnotation> {
        // Few schemas have annotations, and a text search is cheap.
        if !schema.get().contains(ANNOTATION) {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            return Err(BadAnnotation::Place);
        }
        let members = self.members(schema)?;
        if let Some(name) = members.raw(ANNOTATION) {
            // The root stands for all arguments together.
            if !is_single || self.path.is_empty() {
                return Err(BadAnnotation::Place);
            }
            let name = json::string(name).filter(|name| is_token(name)).ok_or(BadAnnotation::Name)?;
            if !matches!(members.str("type").as_deref(), Some("string" | "integer" | "boolean")) {
                return Err(BadAnnotation::Type);
            }
            if !self.names.insert(name.to_ascii_lowercase()) {
                return Err(BadAnnotation::Repeated);
            }
            if self.params.len() == MAX_PARAMS {
                return Err(BadAnnotation::TooMany);
            }
            self.params.push(HeaderParam { header: format!("{PREFIX}{name}"), path: self.path.clone() });
        }
        for (keyword, value) in members.iter() {
            match keyword {
                "properties" => {
                    for (name, property) in self.members(value)?.iter() {
                        self.path.push(name.to_owned());
                        self.collect(property, is_single, depth + 1)?;
                        self.path.pop();
                    }
                }
                // These contain data and no schemas. An annotation in them has no meaning.
                "const" | "default" | "enum" | "examples" => {}
                _ => self.elsewhere(value, depth + 1)?,
            }
        }
        Ok(())
    }

    /// Looks for annotations in subschemas outside of `properties`.
    fn elsewhere(&mut self, value: &RawValue, depth: usize) -> Result<(), BadAnnotation> {
        match Kind::of(value) {
            Kind::Object => self.collect(value, false, depth),
            Kind::Array if value.get().contains(ANNOTATION) => {
                self.parses(value)?;
                let items = values::items(value.get()).unwrap_or_default();
                items.into_iter().try_for_each(|item| self.collect(item, false, depth))
            }
            _ => Ok(()),
        }
    }

    fn members<'a>(&mut self, raw: &'a RawValue) -> Result<Members<'a>, BadAnnotation> {
        self.parses(raw)?;
        Ok(Members::of(raw).unwrap_or_default())
    }

    /// Counts a text that is parsed.
    fn parses(&mut self, raw: &RawValue) -> Result<(), BadAnnotation> {
        self.left = self.left.checked_sub(raw.get().len()).ok_or(BadAnnotation::TooMany)?;
        Ok(())
    }
}

/// Whether a text is valid in a header name.
fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

/// Encodes a text as the value of a header.
pub fn encode_header_value(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let is_trimmed = !text.starts_with(' ') && !text.ends_with(' ');
    if is_plain && is_trimmed && encoded_part(text).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{BEGIN}{}{END}", STANDARD.encode(text)))
}

/// Decodes the value of a header. `None` if its base64 or UTF-8 is invalid.
pub fn decode_header_value(value: &str) -> Option<Cow<'_, str>> {
    let value = value.trim_matches([' ', '\t']);
    match encoded_part(value) {
        None => Some(Cow::Borrowed(value)),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
    }
}

fn encoded_part(value: &str) -> Option<&str> {
    value.strip_prefix(BEGIN)?.strip_suffix(END)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(schema: &str) -> Result<Vec<(String, String)>, BadAnnotation> {
        let params = header_params(&json::raw(schema.to_owned()))?;
        Ok(params.into_iter().map(|param| (param.header, param.path.join("/"))).collect())
    }

    #[test]
    fn annotations_are_found_along_properties() {
        let schema = r#"{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "x-mcp-header":{"type":"string"},
            "where":{"type":"object","properties":{"zone":{"type":"integer","x-mcp-header":"Zone"}},
                "default":{"x-mcp-header":""}}}}"#;
        let expected = [("Mcp-Param-Region", "region"), ("Mcp-Param-Zone", "where/zone")];
        assert_eq!(params(schema).unwrap(), expected.map(|(header, path)| (header.to_owned(), path.to_owned())));
        assert_eq!(params(r#"{"type":"object"}"#).unwrap(), []);
    }

    #[test]
    fn invalid_annotations_are_detected() {
        let property = |name: &str, of_type: &str| format!(r#"{{"type":"{of_type}","x-mcp-header":{name}}}"#);
        let one = |property: &str| format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
        for name in [r#""""#, r#""My Region""#, r#""a:b""#, r#""Région""#, r#""a\tb""#, "7", "null"] {
            assert_eq!(params(&one(&property(name, "string"))), Err(BadAnnotation::Name), "{name}");
        }
        for of_type in ["object", "array", "null", "number"] {
            assert_eq!(params(&one(&property(r#""A""#, of_type))), Err(BadAnnotation::Type), "{of_type}");
        }
        let (one_case, other_case) = (property(r#""My""#, "string"), property(r#""mY""#, "boolean"));
        let both = format!(r#"{{"properties":{{"a":{one_case},"b":{other_case}}}}}"#);
        assert_eq!(params(&both), Err(BadAnnotation::Repeated));
        let good = property(r#""A""#, "string");
        for elsewhere in [
            good.clone(),
            one(&format!(r#"{{"type":"array","items":{good}}}"#)),
            format!(r#"{{"anyOf":[{}]}}"#, one(&good)),
            format!(r#"{{"$defs":{{"a":{good}}}}}"#),
            format!(r#"{{"additionalProperties":{good}}}"#),
        ] {
            assert_eq!(params(&elsewhere), Err(BadAnnotation::Place), "{elsewhere}");
        }
        let deep = (0..200).fold(good, |inner, _| one(&inner));
        assert!(params(&deep).is_err());
    }

    #[test]
    fn annotations_are_limited_in_number_and_in_bytes() {
        let wide = |count: usize| {
            let one = |number| format!(r#""a{number}":{{"type":"string","x-mcp-header":"A{number}"}}"#);
            format!(r#"{{"properties":{{{}}}}}"#, (0..count).map(one).collect::<Vec<_>>().join(","))
        };
        assert_eq!(params(&wide(100)).unwrap().len(), 100);
        assert_eq!(params(&wide(101)), Err(BadAnnotation::TooMany));
        // Each level is parsed again: 50 levels around 100 KB.
        let padded = format!(r#"{{"type":"string","x-mcp-header":"A","title":"{}"}}"#, "x".repeat(100_000));
        let deep = |levels| (0..levels).fold(padded.clone(), |inner, _| format!(r#"{{"properties":{{"a":{inner}}}}}"#));
        assert_eq!(params(&deep(2)).unwrap().len(), 1);
        assert_eq!(params(&deep(50)), Err(BadAnnotation::TooMany));
        let tools = |schema: String| [Tool::new("t", "", json::raw(schema))];
        assert!(Mirrors::is_quick(&tools(wide(100))) && !Mirrors::is_quick(&tools(deep(1))));
        assert!(Mirrors::is_quick(&tools(format!(r#"{{"title":"{}"}}"#, "x".repeat(100_000)))), "it is not parsed");
    }

    #[test]
    fn header_values_decode_again_and_stay_plain_if_possible() {
        for plain in ["us-west1", "", "us west 1", "=?base64?", "?=", "=?base64?SGVsbG8=", "a=b"] {
            assert_eq!(encode_header_value(plain), plain);
        }
        assert_eq!(encode_header_value("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
        for text in ["é", " a", "a ", "\ta", "a\r\nb", "\u{7f}", "=?base64?SGVsbG8=?=", "us west 1", ""] {
            let value = encode_header_value(text);
            assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{value}");
            assert_eq!(decode_header_value(&format!(" {value}\t")).as_deref(), Some(text));
        }
        for bad in ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?/w==?="] {
            assert_eq!(decode_header_value(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_header_has_the_value_of_its_argument() {
        let param = HeaderParam { header: "Mcp-Param-A".to_owned(), path: vec!["a".to_owned(), "b".to_owned()] };
        for (arguments, value) in [
            (r#"{"a":{"b":"x y"}}"#, Some("x y")),
            (r#"{"a":{"b":42}}"#, Some("42")),
            (r#"{"a":{"b":false}}"#, Some("false")),
            (r#"{"a":{"b":null}}"#, None),
            (r#"{"a":{"b":[]}}"#, None),
            (r#"{"a":7}"#, None),
            ("{}", None),
        ] {
            assert_eq!(param.value(&json::raw(arguments.to_owned())).as_deref(), value, "{arguments}");
        }
    }
}
