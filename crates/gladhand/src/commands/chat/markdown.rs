//! Markdown as it streams in: headings, lists, quotes, fenced blocks, code, bold and italics become styles.
//!
//! Text is shown as soon as it is known what it is; only what may still become a marker, or stands between two markers,
//! is held back, within a bound. Wherever the pieces of a text end, the same comes out. Unsupported elements (tables,
//! links) are shown as they were written. Without styles, all text is: then only line breaks are added.

use anstyle::{AnsiColor, Style};

use super::ink::Ink;
use super::inline;

/// No more than this is held back of a line.
pub(super) const HOLD: usize = 600;

const DIM: Style = Style::new().dimmed();
const HEADING: Style = Style::new().bold().underline();
const QUOTE: Style = Style::new().italic();
pub(super) const CODE: Style = AnsiColor::Cyan.on_default();

/// A text that is being shown.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// The part of the current line that is not shown yet.
    held: String,
    line: LineState,
    /// The fenced block that we are in.
    fence: Option<Fence>,
    /// Whether there are no styles, so that what marks them must be seen.
    is_bare: bool,
    ink: Ink,
}

/// The state of the current line.
#[derive(Debug, Clone, Copy, Default)]
enum LineState {
    /// Nothing yet.
    #[default]
    Beginning,
    /// Text in this style, after this character.
    Text(Style, Option<char>),
    /// A line of a fenced block.
    Code,
}

/// The opening marker of a fenced block; the closing one is at least as long.
#[derive(Debug, Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

impl Markdown {
    /// For a terminal that has no styles.
    pub(super) fn bare() -> Self {
        Self { is_bare: true, ..Self::default() }
    }

    /// From here on lines are so wide; none: nothing is broken.
    pub(super) fn fit(&mut self, width: Option<usize>) {
        self.ink.fit(width);
    }

    /// Other output has moved the cursor to the beginning of a line.
    pub(super) fn moved(&mut self) {
        self.ink.moved();
    }

    /// Takes the next piece; what can be shown now.
    pub(super) fn feed(&mut self, piece: &str) -> String {
        for part in piece.split_inclusive('\n') {
            let line = part.strip_suffix('\n');
            self.held.push_str(line.unwrap_or(part));
            self.show(line.is_some());
            if line.is_some() {
                self.ink.put("\n", Style::new());
                self.line = LineState::Beginning;
            }
        }
        self.ink.take()
    }

    /// The text has ended; the rest of it.
    pub(super) fn finish(&mut self) -> String {
        self.show(true);
        let ink = std::mem::take(&mut self.ink);
        *self = Self { is_bare: self.is_bare, ink, ..Self::default() };
        self.ink.finish()
    }

    /// Shows of the current line what is known.
    fn show(&mut self, is_end: bool) {
        if let (LineState::Beginning, Some(fence)) = (self.line, self.fence) {
            return self.show_fenced(fence, is_end);
        }
        if let LineState::Beginning = self.line {
            match Head::of(&self.held, is_end) {
                None => return,
                Some(head) => self.begin(head),
            }
        }
        match self.line {
            LineState::Beginning => {}
            LineState::Code => self.put_whole(CODE),
            LineState::Text(..) if self.is_bare => {
                self.ink.put(&self.held, Style::new());
                self.held.clear();
            }
            LineState::Text(style, before) => {
                let (shown, before) = inline::show(&self.held, style, before, is_end, &mut self.ink);
                self.held.drain(..shown);
                self.line = LineState::Text(style, before);
            }
        }
    }

    /// Shows the beginning of a line inside a fenced block, which may be the end of that.
    fn show_fenced(&mut self, fence: Fence, is_end: bool) {
        let marks = self.held.trim_start().trim_end();
        let is_fence = marks.chars().all(|c| c == fence.mark);
        if is_end && is_fence && marks.len() >= fence.length {
            self.fence = None;
            self.put_whole(DIM);
        } else if is_end || !is_fence || self.held.len() > HOLD {
            self.line = LineState::Code;
            self.put_whole(CODE);
        }
    }

    fn begin(&mut self, head: Head) {
        let Head { length, kind } = head;
        // Lines that go on begin below the text of the first.
        let blanks = |count: usize| " ".repeat(count);
        let indent = self.held.len() - self.held.trim_start_matches(' ').len();
        let marker: String = self.held.drain(..length).collect();
        self.line = LineState::Text(Style::new(), None);
        match kind {
            Kind::Fence(fence) => {
                self.ink.put_whole(&marker, if self.is_bare { Style::new() } else { DIM });
                self.fence = Some(fence);
            }
            Kind::Text => self.ink.hang(&blanks(indent), Style::new()),
            Kind::Quote if self.is_bare => {
                self.ink.put(&marker, Style::new());
                self.ink.hang(&marker, Style::new());
            }
            Kind::Heading if self.is_bare => self.ink.put(&marker, Style::new()),
            Kind::Heading => self.line = LineState::Text(HEADING, None),
            Kind::Bullet if !self.is_bare => {
                self.ink.put(&format!("{}• ", blanks(indent)), Style::new());
                self.ink.hang(&blanks(indent + 2), Style::new());
            }
            Kind::Number | Kind::Bullet => {
                self.ink.put(&marker, Style::new());
                self.ink.hang(&blanks(length), Style::new());
            }
            Kind::Quote => {
                let bar = format!("{}│ ", blanks(indent));
                self.ink.put(&bar, DIM);
                self.ink.hang(&bar, DIM);
                self.line = LineState::Text(QUOTE, None);
            }
        }
    }

    fn put_whole(&mut self, style: Style) {
        self.ink.put_whole(&self.held, if self.is_bare { Style::new() } else { style });
        self.held.clear();
    }
}

/// The block marker at the beginning of a line.
#[derive(Debug)]
struct Head {
    /// How many bytes belong to it.
    length: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text,
    Heading,
    Bullet,
    Number,
    Quote,
    Fence(Fence),
}

impl Head {
    /// The block marker of this line, if it is complete.
    fn of(line: &str, is_end: bool) -> Option<Self> {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let rest = &line[indent..];
        let text = Self { length: 0, kind: Kind::Text };
        let head = |length: usize, kind| Some(Self { length: indent + length, kind });
        let Some(mark) = rest.chars().next() else { return (is_end || indent > HOLD).then_some(text) };
        let run = rest.len() - rest.trim_start_matches(mark).len();
        let is_cut = |length: usize| length == rest.len() && !is_end && length < HOLD;
        match mark {
            '#' if is_cut(run) => None,
            '#' if run <= 6 && rest[run..].starts_with(' ') => head(run + 1, Kind::Heading),
            '-' | '*' | '+' if is_cut(1) => None,
            '-' | '*' | '+' if rest[1..].starts_with(' ') => head(2, Kind::Bullet),
            '>' if is_cut(1) => None,
            '>' => head(1 + usize::from(rest[1..].starts_with(' ')), Kind::Quote),
            '`' | '~' if is_cut(run) => None,
            // Three marks and more of them later are code in a line.
            '`' | '~' if run >= 3 && rest.len() < HOLD && !(mark == '`' && rest[run..].contains('`')) => {
                is_end.then(|| head(rest.len(), Kind::Fence(Fence { mark, length: run })))?
            }
            '0'..='9' => {
                let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                if is_cut(digits) || is_cut(digits + 1) {
                    return None;
                }
                let is_number = rest[digits..].starts_with(". ") || rest[digits..].starts_with(") ");
                if is_number { head(digits + 2, Kind::Number) } else { Some(text) }
            }
            _ => Some(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With names in place of styles.
    fn readable(text: &str) -> String {
        let mut text = text.to_owned();
        for (style, name) in [
            // Those that others begin with come last.
            (HEADING.italic(), "heading italic"),
            (HEADING, "heading"),
            (Style::new().bold().italic(), "both"),
            (Style::new().bold(), "bold"),
            (QUOTE, "italic"),
            (CODE, "code"),
            (DIM, "dim"),
        ] {
            text = text.replace(&style.render().to_string(), &format!("<{name}>"));
        }
        text.replace(&Style::new().bold().render_reset().to_string(), "<>")
    }

    fn shown(text: &str) -> String {
        let mut markdown = Markdown::default();
        let mut shown = markdown.feed(text);
        shown.push_str(&markdown.finish());
        readable(&shown)
    }

    const DOCUMENT: &str = "# The *title*\n\nSome **bold text**, _italics_, ***both*** and `co*d*e`.\n\n\
        - one\n  * two **b**\n+ three\n1. first\n12) twelfth\n> said *so*\n\
        ```rust\nlet a = *b; // **no**\n``\n\n```\nafter\n~~~\n```\n~~~\n\
        2 * 3 * 4, a_b_c, 2*3*4, \\*not\\*, **open, `open\n#hash -dash 5.5 ** ** ****x****\n\
        ```inline``` and grüezi **mitenand** 👋*👋*\n> \n-\n";

    #[test]
    fn known_markdown_is_styled() {
        for (text, expected) in [
            ("# The *title*\nx", "<heading>The <><heading italic>title<>\nx"),
            ("a **b c** d", "a <bold>b c<> d"),
            ("***x*** `a*b*`", "<both>x<> <code>a*b*<>"),
            ("- a\n  * b", "• a\n  • b"),
            ("> said", "<dim>│ <><italic>said<>"),
            ("```rust\na **b**\n```\nc", "<dim>```rust<>\n<code>a **b**<>\n<dim>```<>\nc"),
            ("**a `*` b**", "<bold>a <><code>*<><bold> b<>"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn unknown_markdown_is_shown_unchanged() {
        for text in [
            "2 * 3 * 4, a_b_c, 2*3*4",
            "**open and `open",
            "#hash -dash 5.5 ** ** ****x****",
            "| a | b |\n|---|---|",
            "[link](https://example.org/a_b_c)",
            "---",
            "",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown("\\*not\\* \\a"), "*not* \\a");
    }

    #[test]
    fn the_borders_of_pieces_do_not_matter() {
        let long = format!("{DOCUMENT}**{} end** and `{}`\n{DOCUMENT}", "x ".repeat(HOLD), "y".repeat(HOLD));
        for text in [DOCUMENT, &long] {
            let whole = shown(text);
            let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            for size in [1, 2, 3, 5, 7, 64] {
                let mut markdown = Markdown::default();
                let mut pieces = String::new();
                for (at, start) in borders.iter().enumerate().step_by(size) {
                    let end = borders.get(at + size).copied().unwrap_or(text.len());
                    pieces.push_str(&markdown.feed(&text[*start..end]));
                }
                pieces.push_str(&markdown.finish());
                assert_eq!(readable(&pieces), whole, "in pieces of {size}");
            }
        }
        for border in DOCUMENT.char_indices().map(|(at, _)| at) {
            let mut markdown = Markdown::default();
            let pieces = [markdown.feed(&DOCUMENT[..border]), markdown.feed(&DOCUMENT[border..]), markdown.finish()];
            assert_eq!(readable(&pieces.concat()), shown(DOCUMENT), "with a border at {border}");
        }
    }

    #[test]
    fn lines_are_broken_between_words_except_those_of_code() {
        let text = "# A heading of some length\n- an item that is *not* short\n> said at some length\n\
            ```\nlet code = is_left(as_it_is);\n```\n  indented text goes on so\n";
        let laid = |mut markdown: Markdown| {
            markdown.fit(Some(20));
            let mut shown = markdown.feed(text);
            shown.push_str(&markdown.finish());
            readable(&shown)
        };
        let styled = "<heading>A heading of some\nlength<>\n• an item that is\n  <italic>not<> short\n\
            <dim>│ <><italic>said at some\n<><dim>│ <><italic>length<>\n\
            <dim>```<>\n<code>let code = is_left(as_it_is);<>\n<dim>```<>\n  indented text goes\n  on so\n";
        assert_eq!(laid(Markdown::default()), styled);
        let bare = "# A heading of some\nlength\n- an item that is\n  *not* short\n> said at some\n> length\n\
            ```\nlet code = is_left(as_it_is);\n```\n  indented text goes\n  on so\n";
        assert_eq!(laid(Markdown::bare()), bare);
    }

    #[test]
    fn text_is_shown_as_soon_as_it_is_known() {
        let mut markdown = Markdown::default();
        assert_eq!(markdown.feed("Hello the"), "Hello the");
        assert_eq!(markdown.feed("re *you"), "re ");
        assert_eq!(readable(&markdown.feed("* and")), "<italic>you<> and");
        assert_eq!(markdown.feed("*"), "");
        assert_eq!(markdown.finish(), "*");
    }
}
