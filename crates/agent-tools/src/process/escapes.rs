//! Terminal escape sequences, taken out of text as it comes in pieces.

/// A sequence that does not end within this many characters was none.
const LONGEST: usize = 4096;

/// Takes escape sequences out of a stream.
#[derive(Debug, Default)]
pub(crate) struct Stripper {
    state: State,
    /// How many characters the sequence has so far.
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
    /// `ESC ]` and its like: a text until BEL or `ESC \`.
    Telling,
    /// ESC inside such a text.
    TellingEscape,
    /// `ESC (` and its like: one more character.
    OneMore,
}

impl Stripper {
    /// The text of a piece, without sequences.
    pub(crate) fn strip(&mut self, piece: &str) -> String {
        piece.chars().filter(|c| self.is_text(*c)).collect()
    }

    fn is_text(&mut self, c: char) -> bool {
        if self.length >= LONGEST {
            self.state = State::Text;
        }
        self.length = if self.state == State::Text { 0 } else { self.length + 1 };
        self.state = match (self.state, c) {
            (State::Telling, '\u{1b}') => State::TellingEscape,
            (State::Telling, '\u{7}' | '\u{9c}') | (State::TellingEscape, '\\') => State::Text,
            (State::Telling, _) => State::Telling,
            (_, '\u{1b}') => State::Escape,
            (State::Text, '\u{9b}') => State::Control,
            (State::Text, _) => return true,
            (State::Escape | State::TellingEscape, '[') => State::Control,
            (State::Escape | State::TellingEscape, ']' | 'P' | 'X' | '^' | '_') => State::Telling,
            (State::Escape | State::TellingEscape, ' '..='/') => State::OneMore,
            (State::Control, '\u{20}'..='\u{3f}') => State::Control,
            (State::Escape | State::TellingEscape | State::Control | State::OneMore, _) => State::Text,
        };
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_go_also_when_they_come_in_pieces() {
        let stream = "a\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}b\u{1b}]8;;x\u{1b}\\c\u{1b}(Bd\u{1b}7e\r\n";
        let mut whole = Stripper::default();
        assert_eq!(whole.strip(stream), "ared bcde\r\n");
        let mut pieces = Stripper::default();
        let text: String = stream.chars().map(|c| pieces.strip(&c.to_string())).collect();
        assert_eq!(text, "ared bcde\r\n");
    }

    #[test]
    fn what_never_ends_is_given_up() {
        let mut stripper = Stripper::default();
        let text = stripper.strip(&format!("\u{1b}]{}", "x".repeat(LONGEST + 100)));
        assert!(!text.is_empty());
    }
}
