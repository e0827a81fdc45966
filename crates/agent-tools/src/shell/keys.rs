//! The byte sequences of keys.

/// All supported keys.
const KEYS: [(&str, &str); 16] = [
    ("enter", "\r"),
    ("tab", "\t"),
    ("esc", "\u{1b}"),
    ("up", "\u{1b}[A"),
    ("down", "\u{1b}[B"),
    ("left", "\u{1b}[D"),
    ("right", "\u{1b}[C"),
    ("home", "\u{1b}[H"),
    ("end", "\u{1b}[F"),
    ("pgup", "\u{1b}[5~"),
    ("pgdown", "\u{1b}[6~"),
    ("backspace", "\u{7f}"),
    ("delete", "\u{1b}[3~"),
    ("ctrl+c", "\u{3}"),
    ("ctrl+d", "\u{4}"),
    ("ctrl+z", "\u{1a}"),
];

/// The bytes that a key sends. On a pipe, Enter is a newline.
pub(super) fn sent(key: &str, has_terminal: bool) -> Option<&'static str> {
    match key.to_ascii_lowercase().as_str() {
        "enter" if !has_terminal => Some("\n"),
        key => KEYS.iter().find(|(name, _)| *name == key).map(|(_, sent)| *sent),
    }
}
