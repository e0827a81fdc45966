//! HTML, read with a browser-grade tokenizer and converted to plain text with fenced code. Everything around the
//! content of a page (navigation, scripts, footers) is left out.

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use super::{Cutter, LineKind};

/// The content of these elements is ignored.
const LEFT_OUT: [&str; 9] = ["script", "style", "nav", "footer", "noscript", "template", "svg", "head", "select"];

/// The content of these elements begins on a new line.
const BLOCKS: [&str; 24] = [
    "p",
    "div",
    "section",
    "article",
    "main",
    "header",
    "aside",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "table",
    "tr",
    "br",
    "hr",
    "blockquote",
    "figure",
    "figcaption",
    "details",
    "summary",
    "body",
    "thead",
];

pub(super) fn read(text: &str, cutter: &mut Cutter) {
    let mut page =
        Page { cutter, text, counted: 0, line: 1, said: String::new(), said_at: 1, inside: Inside::Text, left_out: 0 };
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, span: Span<usize>| -> Option<()> {
        match event {
            CallbackEvent::OpenStartTag { name } => page.opens(&tag(name), span.start),
            CallbackEvent::EndTag { name } => page.closes(&tag(name)),
            CallbackEvent::String { value } => page.says(&String::from_utf8_lossy(value), span.start),
            _ => {}
        }
        None
    });
    emitter.naively_switch_states(true);
    for nothing in Tokenizer::new_with_emitter(text, emitter) {
        let Ok(()) = nothing;
    }
    page.ends_line();
}

fn tag(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

/// The kind of the text that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Text,
    Title,
    Heading(usize),
    Code,
}

#[derive(Debug)]
struct Page<'a> {
    cutter: &'a mut Cutter,
    text: &'a str,
    /// How far lines were counted, and which line is there.
    counted: usize,
    line: usize,
    /// The text since the last complete line, and where it began.
    said: String,
    said_at: usize,
    inside: Inside,
    /// How many elements that are left out are open.
    left_out: usize,
}

impl Page<'_> {
    fn opens(&mut self, tag: &str, at: usize) {
        self.count_to(at);
        if tag == "title" {
            self.inside = Inside::Title;
        } else if LEFT_OUT.contains(&tag) {
            self.left_out += 1;
        } else if let Some(level) = level(tag) {
            self.ends_line();
            self.inside = Inside::Heading(level);
        } else if tag == "pre" {
            self.ends_line();
            self.inside = Inside::Code;
        } else if BLOCKS.contains(&tag) && self.inside == Inside::Text {
            self.ends_line();
            if tag == "li" {
                self.said.push_str("- ");
            }
        } else if matches!(tag, "td" | "th") && !self.said.is_empty() {
            self.said.push_str(" | ");
        }
    }

    fn closes(&mut self, tag: &str) {
        if tag == "title" && self.inside == Inside::Title {
            let title = std::mem::take(&mut self.said);
            self.cutter.title(&title);
            self.inside = Inside::Text;
        } else if LEFT_OUT.contains(&tag) {
            self.left_out = self.left_out.saturating_sub(1);
        } else if level(tag).is_some() || tag == "pre" || BLOCKS.contains(&tag) && self.inside == Inside::Text {
            self.ends_line();
        }
    }

    fn says(&mut self, value: &str, at: usize) {
        self.count_to(at);
        if self.left_out > 0 && self.inside != Inside::Title {
            return;
        }
        if self.said.trim().is_empty() {
            let before = &value[..value.len() - value.trim_start().len()];
            self.said_at = self.line + before.matches('\n').count();
        }
        self.said.push_str(value);
    }

    /// Writes down what was read as what it is.
    fn ends_line(&mut self) {
        let said = std::mem::take(&mut self.said);
        let inside = std::mem::replace(&mut self.inside, Inside::Text);
        let words = || said.split_whitespace().collect::<Vec<_>>().join(" ");
        match inside {
            Inside::Title => self.cutter.title(&said),
            // The mark behind a heading is a link to itself.
            Inside::Heading(level) => {
                self.cutter.heading(level, words().trim_end_matches(['¶', '#', ' ']), self.said_at)
            }
            Inside::Code if !said.trim().is_empty() => {
                self.cutter.text("```", self.said_at, LineKind::Block);
                for line in said.trim_matches('\n').lines() {
                    self.cutter.text(line, self.said_at, LineKind::Block);
                }
                self.cutter.text("```", self.said_at, LineKind::Block);
                self.cutter.text("", self.said_at, LineKind::Text);
            }
            Inside::Text if !matches!(said.trim(), "" | "-") => {
                self.cutter.text(&words(), self.said_at, LineKind::Text);
                self.cutter.text("", self.said_at, LineKind::Text);
            }
            Inside::Code | Inside::Text => {}
        }
    }

    fn count_to(&mut self, at: usize) {
        let bytes = self.text.as_bytes();
        let at = at.min(bytes.len());
        if at > self.counted {
            self.line += memchr::memchr_iter(b'\n', &bytes[self.counted..at]).count();
            self.counted = at;
        }
    }
}

fn level(tag: &str) -> Option<usize> {
    match tag.as_bytes() {
        [b'h', level @ b'1'..=b'6'] => Some(usize::from(level - b'0')),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::outline;
    use crate::sections::{Format, cut};

    #[test]
    fn content_is_kept_and_its_surroundings_are_not() {
        let page = "<!doctype html>\n<html><head><title>Widget docs</title>\n<style>p { color: red }</style></head>\n<body><nav><a>Home</a></nav>\n<h1>Start <a href='#x'>¶</a></h1>\n<p>Run <code>widget&nbsp;serve</code> &amp; wait.\n<h2>Use</h2><ul><li>one<li>two</ul>\n<script>var a = '<h1>no</h1>';</script><footer>bye</footer>";
        assert_eq!(
            outline(Format::Html, page),
            ["5 Widget docs > Start: Run widget serve &", "7 Widget docs Start > Use: - one - two"]
        );
    }

    #[test]
    fn code_keeps_its_lines() {
        let sections = cut(Format::Html, "name", "<p>See:</p><pre><code>if a:\n    b(&lt;c&gt;)\n</code></pre>");
        assert_eq!(sections[0].body, "See:\n\n```\nif a:\n    b(<c>)\n```");
        assert_eq!(sections[0].heading, "name");
    }

    #[test]
    fn broken_pages_are_some_text() {
        assert_eq!(outline(Format::Html, "a <h1>x</h9></nav><td>c<pre>d"), ["1  > name: a", "1  > x | c: ``` d ```"]);
        assert!(cut(Format::Html, "name", "<script>never closed").is_empty());
    }
}
