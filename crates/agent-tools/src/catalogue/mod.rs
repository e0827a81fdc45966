//! The descriptions of the built-in tools, for models and clients. The texts are part of the compatible interface, so
//! they are data files beside this module. The effects of the tools are defined here.

use gladhand_core::wire::RawValue;
use serde::Deserialize;

use crate::contract::{Effect, ToolDescription};

/// The tools that every client expects.
const TOOLS: &str = include_str!("tools.json");

/// Additional tools of Gladhand.
const EXTRAS: &str = include_str!("extras.json");

#[derive(Deserialize)]
struct Entry {
    name: String,
    description: String,
    input_schema: Box<RawValue>,
}

/// The tools that every client expects.
pub(crate) fn built_in() -> Vec<ToolDescription> {
    read(TOOLS)
}

/// Additional tools of Gladhand. A custom tool may take their names.
pub(crate) fn extras() -> Vec<ToolDescription> {
    read(EXTRAS)
}

fn read(json: &str) -> Vec<ToolDescription> {
    let entries: Vec<Entry> = serde_json::from_str(json).expect("valid embedded data, checked by a test");
    let describe = |entry: Entry| ToolDescription {
        effect: effect(&entry.name),
        name: entry.name,
        description: entry.description,
        input_schema: Some(entry.input_schema),
        edition: 0,
        is_made_by_model: false,
    };
    entries.into_iter().map(describe).collect()
}

/// The effect of a built-in tool. An unnamed tool may do anything, and so may a tool that loads code that it has
/// written.
fn effect(name: &str) -> Effect {
    match name {
        "read_file" | "list_dir" | "grep_files" | "glob_files" => Effect::Reads,
        "read_background_bash" | "list_background_bash" | "read_background_js" | "list_background_js" => Effect::Reads,
        "apply_patch" => Effect::Writes,
        "search_web" => Effect::Network,
        _ => Effect::Runs,
    }
}

/// A sort key equal to the Unicode root collation: punctuation, digits, letters. Case only breaks ties, lower case
/// first.
pub(crate) fn order(name: &str) -> (Vec<(u8, char)>, Vec<bool>) {
    let rank = |c: char| match c {
        '_' => 0,
        '-' => 1,
        ':' => 2,
        '.' => 3,
        '0'..='9' => 4,
        _ => 5,
    };
    let letters = name.chars().map(|c| (rank(c), c.to_ascii_lowercase())).collect();
    (letters, name.chars().map(|c| c.is_ascii_uppercase()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twenty_tools_are_sorted() {
        let tools = built_in();
        assert_eq!(tools.len(), 20);
        assert!(tools.is_sorted_by_key(|tool| order(&tool.name)));
        assert_eq!(extras().len(), 2);
    }

    #[test]
    fn names_sort_by_letters_before_case() {
        let mut names = ["Deep", "alpha", "a.b", "a:b", "a-b", "a_b", "a1", "Alpha", "ab"];
        names.sort_by_key(|name| order(name));
        assert_eq!(names, ["a_b", "a-b", "a:b", "a.b", "a1", "ab", "alpha", "Alpha", "Deep"]);
    }
}
