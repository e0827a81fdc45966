//! Text with styles on its way to a terminal, in lines that break between words.
//!
//! A word is held back until its end is known, because it may have to go to the next line. Wherever the pieces of a text
//! end, the same comes out. Where it is not known how wide the terminal is, everything passes at once and nothing is broken.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::terminal::layout::NARROWEST;

/// How far apart tabs are.
const TAB: usize = 8;
/// Wide signs that do not begin a line.
const CLOSING: &str = "、。，．：；！？」』）】〉》〕］｝ーゝゞ々…";

/// Text on its way to a terminal. Styles change where they differ and nowhere else.
#[derive(Debug, Default)]
pub(super) struct Ink {
    /// How wide a line may be; none: as wide as it is.
    width: Option<usize>,
    /// How much of the line is written.
    column: usize,
    /// The prefix of continuation lines.
    hanging: Piece,
    /// Blanks that are written if a word follows in the same line.
    blanks: Vec<Piece>,
    /// A word whose end is not known.
    word: Vec<Piece>,
    /// Whether the word is longer than a line, and its beginning is written already.
    is_long: bool,
    /// The style of what was written last.
    style: Style,
    /// Text that is ready to be shown.
    text: String,
}

/// Text in one style.
#[derive(Debug, Clone, Default)]
struct Piece {
    text: String,
    style: Style,
}

impl Ink {
    /// From here on lines are so wide. Nothing is broken that is too narrow to get better.
    pub(super) fn fit(&mut self, width: Option<usize>) {
        self.width = width.filter(|width| *width >= NARROWEST);
    }

    /// Appends text in a style.
    pub(super) fn put(&mut self, text: &str, style: Style) {
        if self.width.is_none() && self.word.is_empty() && self.blanks.is_empty() {
            return self.write(text, style);
        }
        for c in text.chars() {
            match c {
                '\n' => self.end_line(),
                ' ' | '\t' => {
                    self.end_word();
                    append(&mut self.blanks, c, style);
                }
                c => {
                    if self.last().is_some_and(|last| may_part(last, c)) {
                        self.end_word();
                    }
                    append(&mut self.word, c, style);
                    self.write_long();
                }
            }
        }
    }

    /// Appends text that is not to be broken, as code is.
    pub(super) fn put_whole(&mut self, text: &str, style: Style) {
        self.end_word();
        self.write_blanks();
        self.write(text, style);
        self.column += text.width();
    }

    /// Lines that go on begin with this, up to the end of the line.
    pub(super) fn hang(&mut self, text: &str, style: Style) {
        // An indent of more than half a line would leave too little text on it.
        let is_much = self.width.is_some_and(|width| text.width() > width / 2);
        self.hanging = if is_much { Piece::default() } else { Piece { text: text.to_owned(), style } };
    }

    /// Other output has moved the cursor to the beginning of a line.
    pub(super) fn moved(&mut self) {
        self.column = 0;
        self.blanks.clear();
    }

    /// Takes the text that is ready to be shown.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// The text has ended; the rest of it.
    pub(super) fn finish(&mut self) -> String {
        self.end_word();
        self.write("", Style::new());
        let (rest, width) = (self.take(), self.width);
        *self = Self { width, ..Self::default() };
        rest
    }

    fn end_line(&mut self) {
        self.end_word();
        self.blanks.clear();
        self.hanging = Piece::default();
        self.write("\n", Style::new());
        self.column = 0;
    }

    /// Writes a word that has ended, in the next line if there is no room in this one.
    fn end_word(&mut self) {
        if !self.word.is_empty() {
            self.make_room();
            self.write_word();
        }
        self.is_long = false;
    }

    /// Writes the available part of a word that is wider than a line, so that it is no longer held back.
    fn write_long(&mut self) {
        let Some(width) = self.width else { return };
        if !self.is_long && width_of(&self.word) > width {
            self.make_room();
            self.is_long = true;
        }
        if self.is_long {
            self.write_word();
        }
    }

    /// Begins another line, unless the word has room in this one, or this one has nothing else.
    fn make_room(&mut self) {
        let Some(width) = self.width.filter(|_| !self.is_long) else { return self.write_blanks() };
        let blanks = self.blanks.iter().fold(self.column, |column, piece| after(column, &piece.text)) - self.column;
        let is_begun = self.column > self.hanging.text.width();
        if is_begun && self.column + blanks + width_of(&self.word) > width {
            self.blanks.clear();
            let Piece { text, style } = self.hanging.clone();
            self.text.push('\n');
            if !text.is_empty() {
                self.write(&text, style);
            }
            self.column = text.width();
        } else {
            self.write_blanks();
        }
    }

    fn write_blanks(&mut self) {
        for Piece { text, style } in std::mem::take(&mut self.blanks) {
            self.column = after(self.column, &text);
            self.write(&text, style);
        }
    }

    fn write_word(&mut self) {
        self.column += width_of(&self.word);
        // The terminal has broken what is wider than itself, and a line that is just full is not left yet.
        if let Some(width) = self.width.filter(|width| self.column > *width) {
            self.column = (self.column - 1) % width + 1;
        }
        for Piece { text, style } in std::mem::take(&mut self.word) {
            self.write(&text, style);
        }
    }

    fn write(&mut self, text: &str, style: Style) {
        if style != self.style {
            self.text.push_str(&self.style.render_reset().to_string());
            self.text.push_str(&style.render().to_string());
            self.style = style;
        }
        self.text.push_str(text);
    }

    fn last(&self) -> Option<char> {
        self.word.last()?.text.chars().next_back()
    }
}

/// Whether a line may be broken between two signs that no blank parts: where one of them is wide, as in scripts that
/// have no blanks.
fn may_part(last: char, next: char) -> bool {
    let is_wide = |c: char| c.width() == Some(2);
    // Signs without a width belong to the one before them, and some of those join it to the next.
    let is_joined = last.width() == Some(0) || next.width() == Some(0);
    (is_wide(last) || is_wide(next)) && !is_joined && !CLOSING.contains(next) && !is_opening(last)
}

/// Wide signs that do not end a line.
fn is_opening(c: char) -> bool {
    "「『（【〈《〔［｛".contains(c)
}

fn append(pieces: &mut Vec<Piece>, c: char, style: Style) {
    match pieces.last_mut().filter(|last| last.style == style) {
        Some(last) => last.text.push(c),
        None => pieces.push(Piece { text: c.to_string(), style }),
    }
}

fn width_of(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.text.width()).sum()
}

/// The column after blanks and tabs.
fn after(column: usize, blanks: &str) -> usize {
    blanks.chars().fold(column, |column, c| if c == '\t' { (column / TAB + 1) * TAB } else { column + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOLD: Style = Style::new().bold();

    fn laid(text: &str, width: usize) -> String {
        let mut ink = Ink::default();
        ink.fit(Some(width));
        ink.put(text, Style::new());
        ink.finish()
    }

    #[test]
    fn lines_break_between_words() {
        let text = "The parrot sat on the highest branch of the tree.\nIt  said nothing.";
        let expected = "The parrot sat on the\nhighest branch of the\ntree.\nIt  said nothing.";
        assert_eq!(laid(text, 21), expected);
        assert_eq!(laid(&"x".repeat(20), 20), "x".repeat(20), "what just fits stays");
        assert_eq!(laid(text, 10), text, "too narrow to get better");
    }

    #[test]
    fn a_word_that_fits_into_no_line_is_left_to_the_terminal() {
        let url = "https://example.org/a/very/long/address";
        assert_eq!(laid(&format!("see {url} there"), 20), format!("see\n{url}\nthere"), "the second row is full");
        assert_eq!(laid(&format!("see {url}x there"), 24), format!("see\n{url}x there"), "it ends in column 16");
        let mut ink = Ink::default();
        ink.fit(Some(20));
        ink.put(url, Style::new());
        assert_eq!(ink.take(), url, "and it is not held back");
    }

    #[test]
    fn wide_signs_count_twice_and_need_no_blanks() {
        assert_eq!(laid("鳥は木の上に座っていた。何も言わない", 20), "鳥は木の上に座ってい\nた。何も言わない");
        assert_eq!(laid("鳥は木の上に座ってた。何も", 20), "鳥は木の上に座って\nた。何も", "no line begins with 。");
        assert_eq!(laid("a family 👨‍👩‍👧 of emojis 👋👋", 20), "a family 👨‍👩‍👧 of\nemojis 👋👋");
    }

    #[test]
    fn lines_that_go_on_begin_below_the_first() {
        let mut ink = Ink::default();
        ink.fit(Some(20));
        ink.put("• ", Style::new());
        ink.hang("  ", Style::new());
        ink.put("one two three four five\nsix seven eight nine ten", Style::new());
        assert_eq!(ink.finish(), "• one two three four\n  five\nsix seven eight nine\nten");
    }

    #[test]
    fn output_after_a_foreign_line_break_starts_at_the_first_column() {
        let mut ink = Ink::default();
        ink.fit(Some(20));
        ink.put("one two three four ", Style::new());
        ink.moved();
        ink.put("five six seven eight nine", Style::new());
        assert_eq!(ink.finish(), "one two three fourfive six seven eight\nnine");
    }

    #[test]
    fn styles_stay_with_their_words_and_code_stays_whole() {
        let mut ink = Ink::default();
        ink.fit(Some(20));
        ink.put("It is a very ", Style::new());
        ink.put("bold", BOLD);
        ink.put("ly put word.\n", Style::new());
        ink.put_whole("let code = that_is_longer(than_a_line);", Style::new());
        ink.put("\nend", Style::new());
        let (on, off) = (BOLD.render(), BOLD.render_reset());
        let expected = format!("It is a very {on}bold{off}ly\nput word.\nlet code = that_is_longer(than_a_line);\nend");
        assert_eq!(ink.finish(), expected);
    }

    #[test]
    fn a_changed_terminal_width_applies_to_later_output() {
        let mut ink = Ink::default();
        ink.fit(Some(40));
        ink.put("one two three four five six seven ", Style::new());
        ink.fit(Some(20));
        ink.put("eight nine ten eleven", Style::new());
        assert_eq!(ink.finish(), "one two three four five six seven\neight nine ten\neleven");
        ink.fit(None);
        ink.put("one two three four five six seven", Style::new());
        assert_eq!(ink.take(), "one two three four five six seven");
    }

    #[test]
    fn the_borders_of_pieces_do_not_matter() {
        let text = "Grüezi mitenand,\tone and all:  鳥は木の上。 A https://example.org/very/long/address 👨‍👩‍👧👋 e\u{301}nd.\n  x\n";
        let whole = laid(text, 22);
        for size in 1..12 {
            let mut ink = Ink::default();
            ink.fit(Some(22));
            let signs: Vec<char> = text.chars().collect();
            let mut pieces = String::new();
            for piece in signs.chunks(size) {
                ink.put(&piece.iter().collect::<String>(), Style::new());
                pieces.push_str(&ink.take());
            }
            pieces.push_str(&ink.finish());
            assert_eq!(pieces, whole, "in pieces of {size}");
        }
    }
}
