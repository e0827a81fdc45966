//! Finds text that a person does not see but a model reads: control characters, zero-width characters, bidi controls,
//! tag characters, stray variation selectors, private use and unassigned code points.
//!
//! All callers use the same rule: [`escape`] shows such characters, [`strip`] removes them, and [`Found`] names them.
//! The `_json` variants work on raw JSON and also detect characters written as `\u200b`. No function here parses JSON
//! into a tree, so numbers, member order and unknown members stay unchanged.
//!
//! Ordinary text stays unchanged. Characters that a script or an emoji needs are judged by the preceding character: a
//! joiner after an emoji or after a letter of Arabic or an Indic script, one variation selector after a character that
//! takes one, and the three flags that are written with tag characters.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::wire::tokens::{Character, Characters, Strings};

/// Maximum number of code points that [`Found`] names. The others are only counted.
const NAMED: usize = 8;

/// The flags of England, Scotland and Wales: the only emoji that are written with tag characters.
const FLAGS: [&str; 3] = [
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// How line breaks and tabs are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The text is one line: line breaks and tabs are escaped.
    Line,
    /// The text may have several lines: line breaks and tabs are kept. A carriage return is kept only before a line
    /// feed.
    Lines,
}

/// Escapes text piece by piece, as it streams in. Rules that depend on the preceding character also apply across
/// pieces.
#[derive(Debug, Default)]
pub struct Escaper {
    before: Option<char>,
}

impl Escaper {
    /// The next piece, with invisible characters written as `\u{200b}`.
    pub fn escape<'t>(&mut self, text: &'t str, layout: Layout) -> Cow<'t, str> {
        let is_shown =
            |byte: u8| (b' '..0x7f).contains(&byte) || (layout == Layout::Lines && matches!(byte, b'\n' | b'\t'));
        if text.bytes().all(is_shown) {
            self.before = text.chars().next_back().or(self.before);
            return Cow::Borrowed(text);
        }
        let mut shown = String::with_capacity(text.len() + 16);
        let mut scan = Scan::after(self.before, Characters::of_text(text));
        for (character, is_invisible) in scan.by_ref() {
            let rest = &text[character.range.end..];
            match character.value {
                '\n' if layout == Layout::Line => shown.push_str("\\n"),
                '\t' if layout == Layout::Line => shown.push_str("\\t"),
                '\r' if layout == Layout::Line || !rest.starts_with('\n') => shown.push_str("\\r"),
                // Writing to a String cannot fail.
                value if is_invisible => drop(write!(shown, "\\u{{{:x}}}", u32::from(value))),
                _ => shown.push_str(&text[character.range]),
            }
        }
        self.before = scan.before;
        Cow::Owned(shown)
    }
}

/// Text in a form that is safe for a terminal: invisible characters are written as `\u{200b}`.
pub fn escape(text: &str, layout: Layout) -> Cow<'_, str> {
    Escaper::default().escape(text, layout)
}

/// Text for a decision of the user: each form stands for exactly one text. Unlike in [`escape`], every character that is
/// not displayed as itself has the form `\u{d}`, and so have every blank other than a space, a blank at the end of a line,
/// joiners outside of emoji, and combining marks that may be part of a letter of its own. A backslash that would start such
/// a form is escaped too. Letters that look alike stay.
pub fn escape_exactly(text: &str, layout: Layout) -> String {
    let (mut shown, mut before) = (String::with_capacity(text.len()), None);
    for (character, is_invisible) in Scan::after(None, Characters::of_text(text)) {
        let rest = &text[character.range.end..];
        let ends_line = rest.is_empty() || rest.starts_with('\n');
        let is_escaped = match character.value {
            '\n' => layout == Layout::Line,
            '\t' => layout == Layout::Line || ends_line,
            '\r' => true,
            '\\' => rest.starts_with("u{"),
            ' ' => ends_line,
            '\u{200c}' => true,
            '\u{200d}' => !before.is_some_and(|before| is_emoji(before) || before == '\u{fe0f}'),
            value => is_invisible || is_blank(value) || is_composing(value),
        };
        before = Some(character.value);
        match is_escaped {
            // Writing to a String cannot fail.
            true => drop(write!(shown, "\\u{{{:x}}}", u32::from(character.value))),
            false => shown.push_str(&text[character.range]),
        }
    }
    shown
}

/// JSON text in a form that is safe for a terminal: the same JSON, with invisible characters written as `\u200b`.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    replaced(json, invisible_in_json(json), |out, written, value| {
        if written.starts_with('\\') {
            return out.push_str(written);
        }
        for unit in value.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// Text with invisible characters written by the caller's function, for the escapes of another language.
pub fn escape_with(text: &str, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    replaced(text, invisible(text), |out, _, value| write(out, value))
}

/// Text without invisible characters.
pub fn strip(text: &str) -> Cow<'_, str> {
    replaced(text, invisible(text), |_, _, _| {})
}

/// JSON text without invisible characters in its strings and member names.
pub fn strip_json(json: &str) -> Cow<'_, str> {
    replaced(json, invisible_in_json(json), |_, _, _| {})
}

/// The invisible characters of one or more texts, for a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The first few distinct ones, in the order of occurrence.
    named: Vec<char>,
    /// The total number.
    count: usize,
}

impl Found {
    /// Adds the invisible characters of a text.
    pub fn look(&mut self, text: &str) {
        invisible(text).for_each(|character| self.add(character.value));
    }

    /// Adds the invisible characters in the strings of JSON text.
    pub fn look_into_json(&mut self, json: &str) {
        invisible_in_json(json).for_each(|character| self.add(character.value));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, value: char) {
        self.count += 1;
        if self.named.len() < NAMED && !self.named.contains(&value) {
            self.named.push(value);
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.count == 1 { "invisible character" } else { "invisible characters" };
        write!(f, "{} {noun} (", self.count)?;
        for (at, value) in self.named.iter().enumerate() {
            let between = if at > 0 { ", " } else { "" };
            write!(f, "{between}U+{:04X}", u32::from(*value))?;
        }
        let more = if self.named.len() == NAMED { ", …" } else { "" };
        write!(f, "{more})")
    }
}

/// Replaces each given character with the output of `write`. Borrowed if there are none.
fn replaced<'t>(
    text: &'t str,
    characters: impl Iterator<Item = Character>,
    write: impl Fn(&mut String, &str, char),
) -> Cow<'t, str> {
    let (mut out, mut copied) = (String::new(), 0);
    for Character { range, value } in characters {
        out.push_str(&text[copied..range.start]);
        write(&mut out, &text[range.clone()], value);
        copied = range.end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// The invisible characters of a text.
fn invisible(text: &str) -> impl Iterator<Item = Character> {
    let needs_look = text.bytes().any(|byte| !(b' '..0x7f).contains(&byte));
    let scan = needs_look.then(|| Scan::after(None, Characters::of_text(text)));
    scan.into_iter().flatten().filter_map(|(character, is_invisible)| is_invisible.then_some(character))
}

/// The invisible characters in the strings of JSON text.
fn invisible_in_json(json: &str) -> impl Iterator<Item = Character> {
    let strings = needs_look(json.as_bytes()).then(|| Strings::of(json));
    strings.into_iter().flatten().flat_map(move |range| {
        // Most strings are plain ASCII, which is cheaper to detect than to decode.
        let characters = needs_look(&json.as_bytes()[range.clone()]).then(|| Characters::of_json(json, range));
        let scan = characters.map(|characters| Scan::after(None, characters));
        scan.into_iter().flatten().filter_map(|(character, is_invisible)| is_invisible.then_some(character))
    })
}

/// Whether JSON text may contain an invisible character: a non-ASCII byte, or an escape that may stand for one.
fn needs_look(json: &[u8]) -> bool {
    if json.iter().any(|byte| *byte >= 0x7f) {
        return true;
    }
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'\\', &json[at..]) {
        at += offset + 2;
        if matches!(json.get(at - 1), Some(b'u' | b'b' | b'f')) {
            return true;
        }
        if at >= json.len() {
            return false;
        }
    }
    false
}

/// Iterates over characters and decides for each whether it is invisible in its place.
struct Scan<'t> {
    characters: Characters<'t>,
    /// The preceding character, unless that was invisible itself: an invisible character justifies nothing.
    before: Option<char>,
    /// How many characters of a flag are still expected.
    of_flag: usize,
}

impl<'t> Scan<'t> {
    fn after(before: Option<char>, characters: Characters<'t>) -> Self {
        Self { characters, before, of_flag: 0 }
    }
}

impl Iterator for Scan<'_> {
    type Item = (Character, bool);

    fn next(&mut self) -> Option<(Character, bool)> {
        let character = self.characters.next()?;
        let value = character.value;
        if self.of_flag == 0 && value == '\u{1f3f4}' {
            let next: String = self.characters.clone().map(|next| next.value).take(6).collect();
            let is_flag = FLAGS.iter().any(|flag| flag.strip_prefix(value) == Some(&next));
            self.of_flag = if is_flag { 7 } else { 0 };
        }
        let is_invisible = self.of_flag == 0 && is_invisible(self.before, value);
        self.of_flag = self.of_flag.saturating_sub(1);
        self.before = (!is_invisible).then_some(value);
        Some((character, is_invisible))
    }
}

/// Whether a character is invisible, or changes how others are displayed, after the given preceding character.
fn is_invisible(before: Option<char>, value: char) -> bool {
    match value {
        '\t' | '\n' | '\r' | ' '..='~' => false,
        // Common letters, which need no further check.
        '\u{a0}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{400}'..='\u{52f}' => false,
        '\u{3041}'..='\u{3096}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => false,
        // Joiners.
        '\u{200c}' => !before.is_some_and(is_joining_letter),
        '\u{200d}' => {
            !before.is_some_and(|before| is_joining_letter(before) || is_emoji(before) || before == '\u{fe0f}')
        }
        // Variation selectors.
        '\u{fe0e}' | '\u{fe0f}' => !before.is_some_and(|before| is_emoji(before) || is_keycap(before)),
        '\u{fe00}'..='\u{fe0d}' => !before.is_some_and(takes_variations),
        '\u{180b}'..='\u{180f}' => !matches!(before, Some('\u{1820}'..='\u{18aa}')),
        '\u{e0000}'..='\u{effff}' => true,
        // Marks that are drawn as nothing.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{2028}' | '\u{2029}' => true,
        // Signs that belong to numbers and verses. Unicode counts them as format characters, and they are drawn.
        '\u{600}'..='\u{605}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'
        | '\u{891}'
        | '\u{8e2}'
        | '\u{110bd}'
        | '\u{110cd}' => false,
        value if value.is_control() => true,
        value if value.is_whitespace() => false,
        value => is_unprintable(value),
    }
}

/// Whether a character looks like a space: a no-break space, a space of another width, or a Braille cell without dots.
fn is_blank(value: char) -> bool {
    value.is_whitespace() || value == '\u{2800}'
}

/// Whether a character combines with the one before it to what looks like another single character: an accent, a sign of
/// a Japanese sound, a part of a Korean syllable.
fn is_composing(value: char) -> bool {
    matches!(value,
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20f0}'
        | '\u{fe20}'..='\u{fe2f}' | '\u{3099}' | '\u{309a}' | '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}'
        | '\u{d7b0}'..='\u{d7ff}')
}

/// Whether a character is a format character, for private use, or unassigned. The standard library knows this, and
/// shows it in how it escapes a character in debug output. A letter before it keeps combining marks from being escaped.
fn is_unprintable(value: char) -> bool {
    let mut buffer = [b'a', 0, 0, 0, 0];
    let length = 1 + value.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..length]).is_ok_and(|text| text.escape_debug().nth(1) == Some('\\'))
}

/// Letters and marks of scripts that are written with joiners: Arabic and its relatives, the Indic scripts, Myanmar,
/// Khmer and Mongolian.
fn is_joining_letter(value: char) -> bool {
    matches!(value,
        '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17b3}'
        | '\u{17b6}'..='\u{18aa}' | '\u{fb50}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{11000}'..='\u{11fff}')
}

/// Emoji and the symbols that can be shown as emoji.
fn is_emoji(value: char) -> bool {
    matches!(value,
        '©' | '®' | '‼' | '⁉' | '\u{20e3}' | '™' | 'ℹ' | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}'
        | '\u{2460}'..='\u{24ff}' | '\u{25a0}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}'
        | '〰' | '〽' | '㊗' | '㊙' | '\u{1f000}'..='\u{1faff}')
}

fn is_keycap(value: char) -> bool {
    value.is_ascii_digit() || value == '#' || value == '*'
}

/// Characters whose variants are selected by the first variation selectors: mathematical signs, East Asian characters,
/// Myanmar letters.
fn takes_variations(value: char) -> bool {
    matches!(value,
        '\u{1000}'..='\u{109f}' | '\u{2200}'..='\u{22ff}' | '\u{2a00}'..='\u{2aff}' | '\u{2e80}'..='\u{9fff}'
        | '\u{a840}'..='\u{a877}' | '\u{f900}'..='\u{faff}' | '\u{ff01}'..='\u{ff60}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> String {
        let mut found = Found::default();
        found.look(text);
        if found.is_empty() { String::new() } else { found.to_string() }
    }

    #[test]
    fn a_decision_shows_every_blank_other_than_a_space() {
        let text = "./run\u{a0}a\u{2003}b\u{2800}c\u{3000}d e";
        let shown = r"./run\u{a0}a\u{2003}b\u{2800}c\u{3000}d e";
        assert_eq!(escape_exactly(text, Layout::Line), shown);
        assert_eq!(escape(text, Layout::Line), text, "other texts stay as they are written");
    }

    #[test]
    fn a_decision_shows_combining_marks_joiners_and_blanks_at_the_end_of_a_line() {
        for (text, shown) in [
            ("caf\u{e9} cafe\u{301}", "caf\u{e9} cafe\\u{301}"),
            ("\u{301}a \u{3099}", "\\u{301}a \\u{3099}"),
            ("\u{d55c} \u{1112}\u{1161}\u{11ab}", "\u{d55c} \\u{1112}\\u{1161}\\u{11ab}"),
            ("\u{6cc}\u{200c}\u{6cc}", "\u{6cc}\\u{200c}\u{6cc}"),
            ("\u{915}\u{94d}\u{200d}", "\u{915}\u{94d}\\u{200d}"),
            ("\u{1f469}\u{1f3fd}\u{200d}\u{1f680}", "\u{1f469}\u{1f3fd}\u{200d}\u{1f680}"),
            ("a  \nb\t\nc ", "a \\u{20}\nb\\u{9}\nc\\u{20}"),
        ] {
            assert_eq!(escape_exactly(text, Layout::Lines), shown);
        }
    }

    #[test]
    fn texts_that_differ_are_shown_differently_where_a_person_decides() {
        let texts = [
            "a\u{2028}b",
            "a\\u{2028}b",
            "a\\u{5c}u{2028}b",
            "a\\\u{2028}b",
            "a\rb",
            "a\\rb",
            "a\\u{d}b",
            "a\nb",
            "a\\nb",
            "a\r\nb",
            "a\tb",
            "a\\tb",
            "a\\u{9}b",
            "a\\ub",
            "a\\u\u{200b}{2028}b",
            "a\nb ",
            "a\nb\\u{20}",
            "a \nb",
            "\u{e9}",
            "e\u{301}",
        ];
        for layout in [Layout::Line, Layout::Lines] {
            let shown: std::collections::BTreeSet<_> = texts.iter().map(|text| escape_exactly(text, layout)).collect();
            assert_eq!(shown.len(), texts.len(), "{shown:#?}");
        }
        assert_eq!(
            escape_exactly("C:\\users\\new\n", Layout::Lines),
            "C:\\users\\new\n",
            "ordinary text must stay unchanged"
        );
    }

    #[test]
    fn ordinary_text_of_many_scripts_stays_whole() {
        for text in [
            "plain\tand\r\nsimple~",
            "Grüezi, ça va? Ωμέγα Привет 你好 こんにちは 안녕하세요 สวัสดี שלום",
            "می‌خواهم ه‍ ክርስቶስ",
            "क्‍ष र्‍य ශ්‍රී ক্‌ষ",
            "👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 ❤️‍🔥 1️⃣ #️⃣ ☺︎ ©️",
            "🏴󠁧󠁢󠁥󠁮󠁧󠁿 and 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
            "e\u{301} n\u{303} \u{a0}\u{3000} 1\u{202f}000 ∩︀ 一︀",
            "٠٦ \u{600}١٢",
        ] {
            assert_eq!(found(text), "", "{text}");
            assert_eq!(escape(text, Layout::Lines), text);
            assert_eq!(strip(text), text);
            let json = serde_json::to_string(text).unwrap();
            assert_eq!((strip_json(&json), escape_json(&json)), (json.as_str().into(), json.as_str().into()));
        }
    }

    #[test]
    fn every_class_of_invisible_text_is_found() {
        for value in [
            '\0',
            '\u{8}',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{180b}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2064}',
            '\u{2066}',
            '\u{2069}',
            '\u{206f}',
            '\u{3164}',
            '\u{e000}',
            '\u{fdd0}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{fffb}',
            '\u{ffff}',
            '\u{1d173}',
            '\u{1ffff}',
            '\u{50000}',
            '\u{e0000}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e007f}',
            '\u{e0100}',
            '\u{e01ef}',
            '\u{f0000}',
            '\u{10fffd}',
        ] {
            let text = format!("a{value}b");
            let code = u32::from(value);
            assert_eq!(found(&text), format!("1 invisible character (U+{code:04X})"));
            assert_eq!(strip(&text), "ab");
            assert_eq!(escape(&text, Layout::Lines), format!("a\\u{{{code:x}}}b"));
            let mut units = String::new();
            value.encode_utf16(&mut [0; 2]).iter().for_each(|unit| units += &format!("\\u{unit:04x}"));
            let (raw, escaped) = (serde_json::to_string(&text).unwrap(), format!("\"a{units}b\""));
            for json in [&raw, &escaped] {
                assert_eq!(strip_json(json), "\"ab\"", "{json}");
            }
            assert_eq!(
                serde_json::from_str::<String>(&escape_json(&raw)).unwrap(),
                text,
                "the JSON must stay equivalent"
            );
            assert!(escape_json(&raw).is_ascii());
            assert_eq!(escape_json(&escaped), escaped);
        }
    }

    #[test]
    fn a_character_justifies_only_one_joiner_or_selector() {
        assert_eq!(strip("✔\u{fe0f}\u{fe0f}\u{fe0f}"), "✔\u{fe0f}");
        assert_eq!(strip("م\u{200c}\u{200c}\u{200d}م"), "م\u{200c}م");
        assert_eq!(strip("a\u{fe0f}\u{200d}👧"), "a👧", "a stray character must justify no other");
        assert_eq!(strip("\u{1f3f4}\u{e0067}\u{e0062}\u{e0061}\u{e007f}"), "\u{1f3f4}", "this sequence is not a flag");
        assert_eq!(strip(r"ab\u200b"), r"ab\u200b", "text is not JSON");
    }

    #[test]
    fn lines_are_kept_where_there_may_be_several() {
        assert_eq!(escape("a\tb\r\nc\rd\n", Layout::Lines), "a\tb\r\nc\\rd\n");
        assert_eq!(escape("a\tb\r\nc", Layout::Line), "a\\tb\\r\\nc");
        assert_eq!(escape("\u{1b}]0;title\u{7}", Layout::Line), "\\u{1b}]0;title\\u{7}");
    }

    #[test]
    fn a_text_in_pieces_is_escaped_like_the_whole() {
        let text = "a👨‍👩‍👧 می‌خ ❤️ \u{200b}x\u{fe0f}";
        let (mut escaper, mut pieces) = (Escaper::default(), String::new());
        text.chars().for_each(|c| pieces += &escaper.escape(&c.to_string(), Layout::Lines));
        assert_eq!(pieces, escape(text, Layout::Lines));
    }

    #[test]
    fn json_keeps_everything_but_the_characters() {
        let json = "{ \"a\\u200Bb\":[1.0, 1e400,\"\\\"\\\\u200b \u{202e}x\\/\\b\"],\"\\ud83d\":null,\"c\":\"\\ud83d\\ude00\\u200d\"}";
        let stripped = "{ \"ab\":[1.0, 1e400,\"\\\"\\\\u200b x\\/\"],\"\":null,\"c\":\"\\ud83d\\ude00\\u200d\"}";
        assert_eq!(strip_json(json), stripped);
        let mut found = Found::default();
        found.look_into_json(json);
        assert_eq!(found.to_string(), "4 invisible characters (U+200B, U+202E, U+0008, U+FFFF)");
        found.look(&('\u{e0041}'..='\u{e0060}').collect::<String>());
        assert!(found.to_string().starts_with("36 invisible") && found.to_string().ends_with("U+E0044, …)"), "{found}");
        for odd in ["", "\"", "\"\\", "\"\\u12", "\"\\u12\"", "\\", "é\"\\u200", "\"é\\x\""] {
            assert_eq!(strip_json(odd), odd, "invalid JSON must stay unchanged");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<char>().prop_map(String::from),
            prop::sample::select(vec![
                "\u{200b}",
                "\u{200c}",
                "\u{200d}",
                "\u{fe0f}",
                "\u{fe00}",
                "\u{e0067}",
                "\u{e007f}",
                "👧",
                "م",
                "a",
                "\r",
                "\n",
                "\"",
                "\\",
                FLAGS[0],
                "\u{180b}",
                "\u{1820}",
            ])
            .prop_map(str::to_owned),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn stripped_text_has_nothing_left(text in text()) {
            let stripped = strip(&text).into_owned();
            prop_assert_eq!(found(&stripped), "");
            let shown = escape(&text, Layout::Line);
            prop_assert_eq!(found(&shown), "");
            prop_assert!(!shown.contains(['\n', '\r', '\t']));
        }

        #[test]
        fn json_is_judged_like_the_text_that_it_stands_for(text in text()) {
            let raw = serde_json::to_string(&text).unwrap();
            let mut ascii = Vec::new();
            crate::wire::json::write_ascii(&mut ascii, &text);
            for json in [raw, String::from_utf8(ascii).unwrap()] {
                let stripped: String = serde_json::from_str(&strip_json(&json)).unwrap();
                prop_assert_eq!(stripped, strip(&text).into_owned());
                let shown = escape_json(&json);
                prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text.as_str());
                prop_assert_eq!(found(&shown), "");
            }
        }
    }
}
