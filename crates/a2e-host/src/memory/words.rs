//! The words of a text, for searching entries.
//!
//! A word is a run of letters and digits, in lower case. In scripts without spaces between words, each character is a
//! word.

use gladhand_core::wire::{RawValue, values};
use serde_json::Value;

/// Maximum number of characters of a word. The rest is ignored.
const MAX_WORD_CHARS: usize = 64;
/// Maximum number of indexed words of an entry: the first ones.
const MAX_ENTRY_WORDS: usize = 1_000;
/// Maximum number of words of a query that count.
const MAX_QUERY_WORDS: usize = 32;
/// A query word of at least this many characters also finds longer words that begin with it.
const MIN_PREFIX: usize = 3;

/// Calls `emit` with each word of an entry: of its tags, its key and its content, names of members included.
pub(super) fn each_word(key: &RawValue, content: &RawValue, tags: &[String], emit: &mut dyn FnMut(&str)) {
    let mut left = MAX_ENTRY_WORDS;
    let mut emit = |word: &str| {
        if left > 0 {
            left -= 1;
            emit(word);
        }
    };
    for tag in tags {
        each_word_of_text(tag, &mut emit);
    }
    for json in [key, content] {
        match values::read(json.get()) {
            Ok(value) => each_word_of_value(&value, &mut emit),
            Err(_) => each_word_of_text(json.get(), &mut emit),
        }
    }
}

fn each_word_of_value(value: &Value, emit: &mut dyn FnMut(&str)) {
    match value {
        Value::Null => {}
        Value::String(text) => each_word_of_text(text, emit),
        Value::Bool(_) | Value::Number(_) => each_word_of_text(&value.to_string(), emit),
        Value::Array(elements) => elements.iter().for_each(|element| each_word_of_value(element, emit)),
        Value::Object(members) => {
            for (name, member) in members {
                each_word_of_text(name, emit);
                each_word_of_value(member, emit);
            }
        }
    }
}

fn each_word_of_text(text: &str, emit: &mut dyn FnMut(&str)) {
    let mut word = String::new();
    let mut length = 0;
    for character in text.chars() {
        let is_single = is_single_character_word(character);
        if (is_single || !character.is_alphanumeric()) && length > 0 {
            emit(&word);
            word.clear();
            length = 0;
        }
        if is_single {
            emit(character.encode_utf8(&mut [0; 4]));
        } else if character.is_alphanumeric() {
            if length < MAX_WORD_CHARS {
                word.extend(character.to_lowercase());
            }
            length += 1;
        }
    }
    if length > 0 {
        emit(&word);
    }
}

/// Whether a character belongs to a script without spaces: Chinese or Japanese.
fn is_single_character_word(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        && character.is_alphanumeric()
}

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryWord {
    word: String,
    /// Whether longer words that begin with it match too.
    is_prefix: bool,
}

impl QueryWord {
    /// The words of a query, each once.
    pub(super) fn of_query(query: &str) -> Vec<Self> {
        let mut query_words: Vec<Self> = Vec::new();
        each_word_of_text(query, &mut |word| {
            if query_words.len() < MAX_QUERY_WORDS && query_words.iter().all(|known| known.word != word) {
                query_words.push(Self { word: word.to_owned(), is_prefix: word.chars().count() >= MIN_PREFIX });
            }
        });
        query_words
    }

    /// Whether a word matches.
    pub(super) fn is(&self, word: &str) -> bool {
        if self.is_prefix { word.starts_with(&self.word) } else { word == self.word }
    }

    /// The first and the last matching word, in byte order.
    pub(super) fn range(&self) -> (String, String) {
        let last = if self.is_prefix { format!("{}{}", self.word, char::MAX) } else { self.word.clone() };
        (self.word.clone(), last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_core::wire::json;

    fn words(content: &str, tags: &[&str]) -> Vec<String> {
        let mut words = Vec::new();
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let (key, content) = (json::raw("{}".to_owned()), json::raw(content.to_owned()));
        each_word(&key, &content, &tags, &mut |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn words_come_from_names_values_and_tags_in_lower_case() {
        let content = r#"{"fav_colour":["Ol\u00e9-GREEN",7,true,null,"a\nb"]}"#;
        assert_eq!(words(content, &["To Do"]), ["to", "do", "fav", "colour", "olé", "green", "7", "true", "a", "b"]);
    }

    #[test]
    fn characters_that_stand_alone_are_words() {
        assert_eq!(words(r#""go 東京へ3""#, &[]), ["go", "東", "京", "へ", "3"]);
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(words(&format!("{:?}", "x".repeat(9_999)), &[]), ["x".repeat(MAX_WORD_CHARS)]);
    }

    #[test]
    fn the_number_of_words_of_an_entry_is_limited() {
        assert_eq!(words(&format!("{:?}", "x ".repeat(MAX_ENTRY_WORDS * 2)), &["tag"]).len(), MAX_ENTRY_WORDS);
    }

    #[test]
    fn a_short_word_matches_exactly_and_a_long_one_as_a_prefix() {
        let query_words = QueryWord::of_query("Py pyth py");
        assert_eq!(query_words.len(), 2);
        assert!(query_words[0].is("py") && !query_words[0].is("python"));
        assert!(query_words[1].is("python") && !query_words[1].is("py"));
    }
}
