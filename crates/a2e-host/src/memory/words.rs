//! The words of a text, for searching entries.
//!
//! A word is a run of letters and digits, in lower case. In scripts without spaces between words, each character is a
//! word.

use gladhand_core::wire::RawValue;
use serde_json::Value;

/// Maximum number of characters of a word. The rest is ignored.
const LONGEST: usize = 64;
/// Maximum number of indexed words of an entry: the first ones.
const MOST_OF_ENTRY: usize = 1_000;
/// Maximum number of words of a query that count.
const MOST_OF_QUESTION: usize = 32;
/// A query word of at least this many characters also finds longer words that begin with it.
const STEM: usize = 3;

/// Calls `tell` with each word of an entry: of its tags, its key and its content, names of members included.
pub(super) fn each_word(key: &RawValue, content: &RawValue, tags: &[String], tell: &mut dyn FnMut(&str)) {
    let mut left = MOST_OF_ENTRY;
    let mut tell = |word: &str| {
        if left > 0 {
            left -= 1;
            tell(word);
        }
    };
    for tag in tags {
        each_word_of_text(tag, &mut tell);
    }
    for json in [key, content] {
        match serde_json::from_str(json.get()) {
            Ok(value) => each_word_of_value(&value, &mut tell),
            Err(_) => each_word_of_text(json.get(), &mut tell),
        }
    }
}

fn each_word_of_value(value: &Value, tell: &mut dyn FnMut(&str)) {
    match value {
        Value::Null => {}
        Value::String(text) => each_word_of_text(text, tell),
        Value::Bool(_) | Value::Number(_) => each_word_of_text(&value.to_string(), tell),
        Value::Array(elements) => elements.iter().for_each(|element| each_word_of_value(element, tell)),
        Value::Object(members) => {
            for (name, member) in members {
                each_word_of_text(name, tell);
                each_word_of_value(member, tell);
            }
        }
    }
}

fn each_word_of_text(text: &str, tell: &mut dyn FnMut(&str)) {
    let mut word = String::new();
    let mut length = 0;
    for character in text.chars() {
        let alone = is_word_of_its_own(character);
        if (alone || !character.is_alphanumeric()) && length > 0 {
            tell(&word);
            word.clear();
            length = 0;
        }
        if alone {
            tell(character.encode_utf8(&mut [0; 4]));
        } else if character.is_alphanumeric() {
            if length < LONGEST {
                word.extend(character.to_lowercase());
            }
            length += 1;
        }
    }
    if length > 0 {
        tell(&word);
    }
}

/// Whether a character belongs to a script without spaces: Chinese or Japanese.
fn is_word_of_its_own(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        && character.is_alphanumeric()
}

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sought {
    word: String,
    /// Whether longer words that begin with it match too.
    is_stem: bool,
}

impl Sought {
    /// The words of a query, each once.
    pub(super) fn in_question(question: &str) -> Vec<Self> {
        let mut sought: Vec<Self> = Vec::new();
        each_word_of_text(question, &mut |word| {
            if sought.len() < MOST_OF_QUESTION && sought.iter().all(|known| known.word != word) {
                sought.push(Self { word: word.to_owned(), is_stem: word.chars().count() >= STEM });
            }
        });
        sought
    }

    /// Whether a word matches.
    pub(super) fn is(&self, word: &str) -> bool {
        if self.is_stem { word.starts_with(&self.word) } else { word == self.word }
    }

    /// The first and the last matching word, in byte order.
    pub(super) fn range(&self) -> (String, String) {
        let last = if self.is_stem { format!("{}{}", self.word, char::MAX) } else { self.word.clone() };
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
        assert_eq!(words(&format!("{:?}", "x".repeat(9_999)), &[]), ["x".repeat(LONGEST)]);
    }

    #[test]
    fn the_number_of_words_of_an_entry_is_limited() {
        assert_eq!(words(&format!("{:?}", "x ".repeat(MOST_OF_ENTRY * 2)), &["tag"]).len(), MOST_OF_ENTRY);
    }

    #[test]
    fn a_short_word_matches_exactly_and_a_long_one_as_a_prefix() {
        let sought = Sought::in_question("Py pyth py");
        assert_eq!(sought.len(), 2);
        assert!(sought[0].is("py") && !sought[0].is("python"));
        assert!(sought[1].is("python") && !sought[1].is("py"));
    }
}
