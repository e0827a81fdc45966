//! Decides when to call a tool, which one, and with which arguments.
//!
//! A small model on its own calls no tool or any tool. So rules decide the obvious cases: a tool is considered only
//! if the request starts with one of its words or contains its name. If several tools match, the model chooses. It
//! fills in the arguments from the words of the request, restricted to the tool's schema by a grammar.

use gladhand_models::ToolOffer;
use serde_json::{Map, Value, json};

/// The maximum number of tools that the model chooses from.
const MOST_TOOLS: usize = 6;
/// How many words of a request are used for arguments, and the maximum number of words in one argument.
const MOST_WORDS: usize = 40;
const LONGEST_SPAN: usize = 12;
/// The maximum depth to which schemas are narrowed.
const DEEPEST: usize = 4;

/// Words at the start of a request that do not identify the action.
const POLITE: [&str; 14] =
    ["please", "can", "could", "would", "will", "you", "kindly", "now", "then", "and", "just", "use", "ok", "okay"];

/// The tools that match a request, in the order of the offer.
pub(crate) fn shortlist<'a>(request: &str, tools: &'a [ToolOffer]) -> Vec<&'a ToolOffer> {
    let words: Vec<String> = words_of(request).collect();
    let Some(verb) = words.iter().find(|word| !POLITE.contains(&word.as_str())) else { return Vec::new() };
    let is_named = |tool: &ToolOffer| {
        let name: Vec<String> = words_of(&tool.name).collect();
        name.len() > 1 && words.windows(name.len()).any(|window| window == name)
    };
    let is_meant = |tool: &ToolOffer| {
        let first_of_description = words_of(&tool.description).next();
        words_of(&tool.name).chain(first_of_description).any(|own| stem(&own) == stem(verb))
    };
    let named: Vec<&ToolOffer> = tools.iter().filter(|tool| is_named(tool)).collect();
    let mut meant = if named.is_empty() { tools.iter().filter(|tool| is_meant(tool)).collect() } else { named };
    meant.truncate(MOST_TOOLS);
    meant
}

/// The instructions for a model that must call one of these tools.
pub(crate) fn instructions(tools: &[&ToolOffer]) -> String {
    let line = |tool: &&ToolOffer| {
        let description = tool.description.lines().next().unwrap_or_default();
        let sentence = description.split_inclusive(". ").next().unwrap_or_default().trim();
        format!("- {}: {sentence}", tool.name)
    };
    let lines: Vec<String> = tools.iter().map(line).collect();
    format!("You call one tool for each request. The tools:\n{}", lines.join("\n"))
}

/// The tool that gains most likelihood from the request. Each pair is `(with, without)` the request, as logarithms.
pub(crate) fn choose(likelihoods: &[(f32, f32)]) -> Option<usize> {
    let gain = |&(with, without): &(f32, f32)| with - without;
    let gains = likelihoods.iter().map(gain).enumerate();
    gains.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(at, _)| at)
}

/// Narrows a tool's schema to what a small model gets right: only required members. A text is a part of the request
/// unless the schema lists its values, and a number is one that occurs in the request.
pub(crate) fn narrow(schema: &str, request: &str) -> Value {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let own = OwnWords::of(request);
    own.object(&schema, DEEPEST)
}

/// The words and numbers of a request that arguments can use.
struct OwnWords {
    spans: Vec<String>,
    numbers: Vec<Value>,
}

impl OwnWords {
    fn of(request: &str) -> Self {
        let words: Vec<&str> = request.split_whitespace().take(MOST_WORDS).collect();
        let mut spans: Vec<String> = Vec::new();
        for length in 1..=LONGEST_SPAN.min(words.len()) {
            for window in words.windows(length) {
                let span = window.join(" ");
                let bare =
                    span.trim_matches(['"', '\'', '`', '“', '”']).trim_end_matches(['.', ',', '?', '!', ';', ':']);
                let bare = bare.trim_matches(['"', '\'', '`', '“', '”']);
                if !bare.is_empty() && !spans.iter().any(|known| known == bare) {
                    spans.push(bare.to_owned());
                }
            }
        }
        let numbers = spans.iter().filter_map(|span| serde_json::from_str::<serde_json::Number>(span).ok());
        let numbers = numbers.map(Value::Number).collect();
        Self { spans, numbers }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let required: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
        let narrowed = |name: &&str| ((*name).to_owned(), self.value(&schema["properties"][*name], depth));
        let properties: Map<String, Value> = required.iter().map(narrowed).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    fn value(&self, schema: &Value, depth: usize) -> Value {
        if schema.get("enum").is_some() || schema.get("const").is_some() || depth == 0 {
            return schema.clone();
        }
        match schema["type"].as_str() {
            Some("string") if !self.spans.is_empty() => json!({"enum": self.spans}),
            Some("integer" | "number") => self.number(schema),
            Some("object") if schema.get("properties").is_some() => self.object(schema, depth - 1),
            Some("array") => json!({
                "type": "array", "items": self.value(&schema["items"], depth - 1),
                "minItems": schema["minItems"].as_u64().unwrap_or(1), "maxItems": LONGEST_SPAN,
            }),
            _ => schema.clone(),
        }
    }

    fn number(&self, schema: &Value) -> Value {
        let is_whole = schema["type"] == "integer";
        let numbers: Vec<&Value> = self.numbers.iter().filter(|number| !is_whole || number.is_i64()).collect();
        if numbers.is_empty() { schema.clone() } else { json!({"enum": numbers}) }
    }
}

/// The words of a text or name in lower case: `readFile`, `read_file` and `Read file` give the same words.
fn words_of(text: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in text.chars().take(4096) {
        if !letter.is_alphanumeric() || (was_small && letter.is_uppercase()) {
            words.push(String::new());
        }
        was_small = letter.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

/// A word without common English verb endings.
fn stem(word: &str) -> &str {
    let endings = ["ing", "ed", "es", "s", "e"];
    let cut = endings.iter().find_map(|ending| word.strip_suffix(ending)).filter(|rest| rest.len() >= 2);
    cut.unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tool;

    fn offered() -> Vec<ToolOffer> {
        vec![
            tool("read_file", "Reads a file.", "{}"),
            tool("bash", "Run a command in the shell.", "{}"),
            tool("web_search", "Asks the web.", "{}"),
            tool("searchText", "Finds text in files.", "{}"),
        ]
    }

    fn names(request: &str) -> Vec<String> {
        shortlist(request, &offered()).into_iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn a_request_that_begins_with_a_tools_own_word_asks_for_it() {
        assert_eq!(names("Read src/main.rs"), ["read_file"]);
        assert_eq!(names("Could you please run `ls`?"), ["bash"]);
        assert_eq!(names("search for cats"), ["web_search", "searchText"]);
        assert_eq!(names("Find the word cat"), ["searchText"]);
    }

    #[test]
    fn a_tool_that_is_named_is_the_only_one() {
        assert_eq!(names("search with the web search for cats"), ["web_search"]);
        assert_eq!(names("I want read_file to show me x"), ["read_file"]);
    }

    #[test]
    fn small_talk_calls_nothing() {
        for talk in ["What is the capital of France?", "I read a book", "", "please", "hello, how do you run?"] {
            assert_eq!(names(talk), Vec::<String>::new(), "{talk}");
        }
    }

    #[test]
    fn the_tool_that_the_request_makes_likelier_wins() {
        assert_eq!(choose(&[(-1.0, -0.5), (-6.0, -9.0), (-2.0, -2.0)]), Some(1));
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn the_model_reads_one_sentence_of_each_tool() {
        let long = tool("add", "Adds numbers. It has done so for years.\nMore.", "{}");
        assert_eq!(instructions(&[&long]), "You call one tool for each request. The tools:\n- add: Adds numbers.");
    }

    #[test]
    fn arguments_are_the_users_own_words() {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"},
            "how":{"enum":["a","b"]},"loud":{"type":"boolean"}},"required":["path","limit","how"]}"#;
        assert_eq!(
            narrow(schema, "Read \"a.rs\", 3"),
            json!({
                "type": "object",
                "properties": {
                    "path": {"enum": ["Read", "a.rs", "3", "Read \"a.rs", "a.rs\", 3", "Read \"a.rs\", 3"]},
                    "limit": {"enum": [3]},
                    "how": {"enum": ["a", "b"]},
                },
                "required": ["path", "limit", "how"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn a_request_of_any_length_gives_a_schema_that_can_be_used() {
        let schema = r#"{"properties":{"p":{"type":"string"}},"required":["p"]}"#;
        let many = "word1 word2 word3 ".repeat(10_000);
        let spans = narrow(schema, &many)["properties"]["p"]["enum"].as_array().map(Vec::len);
        assert_eq!(spans, Some(36));
        assert_eq!(narrow("nonsense", "x")["properties"], json!({}));
    }
}
