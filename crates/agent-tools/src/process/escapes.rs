//! Removes terminal escape sequences from text that arrives in pieces.

/// A sequence that does not end within this many characters is treated as text.
const MAX_SEQUENCE: usize = 4096;

/// Removes escape sequences from a stream.
#[derive(Debug, Default)]
pub(crate) struct Stripper {
    state: State,
    /// The length of the current sequence so far.
    length: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// `ESC [`: parameters, then one final character.
    Control,
    /// `ESC ]` and similar: a string until BEL or `ESC \`.
    StringBody,
    /// ESC inside such a string.
    StringEscape,
    /// `ESC (` and similar: one more character.
    OneMoreCharacter,
}

impl Stripper {
    /// The text of a piece, without sequences.
    pub(crate) fn strip(&mut self, piece: &str) -> String {
        piece.chars().filter(|c| self.is_text(*c)).collect()
    }

    fn is_text(&mut self, c: char) -> bool {
        if self.length >= MAX_SEQUENCE {
            self.state = State::Text;
        }
        self.length = if self.state == State::Text { 0 } else { self.length + 1 };
        self.state = match (self.state, c) {
            (State::StringBody, '\u{1b}') => State::StringEscape,
            (State::StringBody, '\u{7}' | '\u{9c}') | (State::StringEscape, '\\') => State::Text,
            (State::StringBody, _) => State::StringBody,
            (_, '\u{1b}') => State::Escape,
            (State::Text, '\u{9b}') => State::Control,
            (State::Text, _) => return true,
            (State::Escape | State::StringEscape, '[') => State::Control,
            (State::Escape | State::StringEscape, ']' | 'P' | 'X' | '^' | '_') => State::StringBody,
            (State::Escape | State::StringEscape, ' '..='/') => State::OneMoreCharacter,
            (State::Control, '\u{20}'..='\u{3f}') => State::Control,
            (State::Escape | State::StringEscape | State::Control | State::OneMoreCharacter, _) => State::Text,
        };
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_removed_even_when_split_into_pieces() {
        let stream = "a\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}b\u{1b}]8;;x\u{1b}\\c\u{1b}(Bd\u{1b}7e\r\n";
        let mut whole = Stripper::default();
        assert_eq!(whole.strip(stream), "ared bcde\r\n");
        let mut pieces = Stripper::default();
        let text: String = stream.chars().map(|c| pieces.strip(&c.to_string())).collect();
        assert_eq!(text, "ared bcde\r\n");
    }

    #[test]
    fn an_endless_sequence_becomes_text_again() {
        let mut stripper = Stripper::default();
        let text = stripper.strip(&format!("\u{1b}]{}", "x".repeat(MAX_SEQUENCE + 100)));
        assert!(!text.is_empty());
    }
}
