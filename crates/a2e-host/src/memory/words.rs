//! The words of a text, for finding entries again.
//!
//! A word is a run of letters and digits in lower case. Where writing has no blanks between words, each character is one.

use gladhand_core::wire::RawValue;
use serde_json::Value;

/// Characters of a word that count; what is longer is no word of a language anyway.
const LONGEST: usize = 64;
/// Words of an entry that can be found: the first ones.
const MOST_OF_ENTRY: usize = 1_000;
/// Words of a question that count.
const MOST_OF_QUESTION: usize = 32;
/// From how many characters on a word of a question finds longer words that begin with it.
const STEM: usize = 3;

/// Tells each word of an entry: those of its tags, its key and its content, names of members included.
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

/// Whether a character is one of a writing that has no blanks: Chinese and Japanese.
fn is_word_of_its_own(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        && character.is_alphanumeric()
}

/// A word that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sought {
    word: String,
    /// Whether longer words that begin with it will do.
    is_stem: bool,
}

impl Sought {
    /// The words of a question, each once.
    pub(super) fn in_question(question: &str) -> Vec<Self> {
        let mut sought: Vec<Self> = Vec::new();
        each_word_of_text(question, &mut |word| {
            if sought.len() < MOST_OF_QUESTION && sought.iter().all(|known| known.word != word) {
                sought.push(Self { word: word.to_owned(), is_stem: word.chars().count() >= STEM });
            }
        });
        sought
    }

    /// Whether a word is what is asked for.
    pub(super) fn is(&self, word: &str) -> bool {
        if self.is_stem { word.starts_with(&self.word) } else { word == self.word }
    }

    /// The first and the last word, by their bytes, that are what is asked for.
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
    fn words_are_of_names_values_and_tags_in_lower_case() {
        let content = r#"{"fav_colour":["Ol\u00e9-GREEN",7,true,null,"a\nb"]}"#;
        assert_eq!(words(content, &["To Do"]), ["to", "do", "fav", "colour", "olé", "green", "7", "true", "a", "b"]);
    }

    #[test]
    fn characters_that_stand_alone_are_words() {
        assert_eq!(words(r#""go 東京へ3""#, &[]), ["go", "東", "京", "へ", "3"]);
    }

    #[test]
    fn no_word_is_without_end() {
        assert_eq!(words(&format!("{:?}", "x".repeat(9_999)), &[]), ["x".repeat(LONGEST)]);
    }

    #[test]
    fn there_is_an_end_to_the_words_of_an_entry() {
        assert_eq!(words(&format!("{:?}", "x ".repeat(MOST_OF_ENTRY * 2)), &["tag"]).len(), MOST_OF_ENTRY);
    }

    #[test]
    fn a_short_word_is_meant_as_it_is_and_a_long_one_may_go_on() {
        let sought = Sought::in_question("Py pyth py");
        assert_eq!(sought.len(), 2);
        assert!(sought[0].is("py") && !sought[0].is("python"));
        assert!(sought[1].is("python") && !sought[1].is("py"));
    }
}
