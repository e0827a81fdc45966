//! Documents cut into sections. Each format finds its headings and its text; the [`Cutter`] makes sections of them.
//!
//! The text of a section stays as it was written, line by line, because it is shown to people later. Nothing in here fails:
//! whatever is in a file, it is some text under some headings.

mod html;
mod markdown;
mod plain;
mod rst;

use std::path::Path;

pub(crate) use markdown::Fence;

/// Sections longer than this are cut at the next end of a paragraph.
const LONG: usize = 1200;

/// Sections longer than this are cut at the next line, whatever is there.
const TOO_LONG: usize = 6000;

/// The longest heading that is kept.
const LONGEST_HEADING: usize = 200;

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Markdown,
    Mdx,
    Rst,
    Html,
    Plain,
}

impl Format {
    /// The format that a file's name promises, or nothing when it is no documentation.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "md" | "markdown" => Self::Markdown,
            "mdx" => Self::Mdx,
            "rst" | "rest" => Self::Rst,
            "html" | "htm" | "xhtml" => Self::Html,
            "txt" | "text" => Self::Plain,
            _ => return None,
        })
    }
}

/// A piece of a document under one heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// The nearest heading, or the title of the document, or the name of the file.
    pub(crate) heading: String,
    /// The title and the headings above that one, from the outermost, with blanks between them.
    pub(crate) above: String,
    /// The section begins with this piece, and does not only go on with it.
    pub(crate) begins: bool,
    /// The line of the heading, or of the first text when the piece has none of its own. The first line is 1.
    pub(crate) line: usize,
    /// The text, without the heading.
    pub(crate) body: String,
}

/// Cuts `text` into sections. `name` is what the document is called when it does not say so itself.
pub(crate) fn cut(format: Format, name: &str, text: &str) -> Vec<Section> {
    let mut cutter = Cutter::new(name);
    match format {
        Format::Markdown | Format::Mdx => markdown::read(text, format, &mut cutter),
        Format::Rst => rst::read(text, &mut cutter),
        Format::Html => html::read(text, &mut cutter),
        Format::Plain => plain::read(text, &mut cutter),
    }
    cutter.finish()
}

/// Whether a line may be the end of a piece that has grown long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Ordinary text.
    Text,
    /// Inside of something that belongs together, such as a block of code.
    Block,
}

/// Takes headings and lines in order and makes sections of them.
#[derive(Debug)]
struct Cutter {
    name: String,
    /// What the document calls itself outside of its headings.
    title: Option<String>,
    /// The headings that hold for what comes, with their levels, from the outermost.
    trail: Vec<(usize, String)>,
    begins: bool,
    line: Option<usize>,
    body: String,
    after_blank: bool,
    sections: Vec<Section>,
}

impl Cutter {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: None,
            trail: Vec::new(),
            begins: true,
            line: None,
            body: String::new(),
            after_blank: false,
            sections: Vec::new(),
        }
    }

    /// The document says what it is called.
    fn title(&mut self, title: &str) {
        let title = shorten(title.trim());
        if !title.is_empty() {
            self.title.get_or_insert(title);
        }
    }

    /// A heading begins; level 1 is the outermost.
    fn heading(&mut self, level: usize, text: &str, line: usize) {
        let text = shorten(text.trim());
        if text.is_empty() {
            return;
        }
        self.close(Ends::ByHeading);
        self.trail.retain(|(above, _)| *above < level);
        self.trail.push((level, text));
        self.line = Some(line);
    }

    /// A line of text, without its newline.
    fn text(&mut self, text: &str, line: usize, place: Place) {
        let blank = text.trim().is_empty();
        if !blank {
            let at_paragraph = self.after_blank && place == Place::Text && !text.starts_with([' ', '\t']);
            if self.body.len() > LONG && at_paragraph || self.body.len() > TOO_LONG {
                self.close(Ends::ByLength);
            }
            self.line.get_or_insert(line);
        }
        self.after_blank = blank;
        if blank && self.body.is_empty() {
            return;
        }
        let mut rest = text.trim_end();
        while let Some((at, _)) = rest.char_indices().nth(TOO_LONG) {
            self.body.push_str(&rest[..at]);
            self.close(Ends::ByLength);
            self.line = Some(line);
            rest = &rest[at..];
        }
        self.body.push_str(rest);
        self.body.push('\n');
    }

    fn finish(mut self) -> Vec<Section> {
        self.close(Ends::ByLength);
        self.sections
    }

    /// Makes a section of what there is. A heading with nothing below it but further headings is no section of its own,
    /// unless it ends the document: its words are in the trail of those.
    fn close(&mut self, ends: Ends) {
        let body = self.body.trim_end();
        let line = self.line.take().unwrap_or(1);
        if !body.is_empty() || ends == Ends::ByLength && !self.trail.is_empty() && self.sections.is_empty() {
            let mut trail: Vec<&str> = self.title.iter().map(String::as_str).collect();
            trail.extend(self.trail.iter().map(|(_, heading)| heading.as_str()));
            let heading = trail.pop().unwrap_or(&self.name).to_owned();
            let above = trail.join(" ");
            self.sections.push(Section { heading, above, begins: self.begins, line, body: body.to_owned() });
        }
        self.begins = ends == Ends::ByHeading;
        self.body.clear();
    }
}

/// Why a section is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    ByHeading,
    ByLength,
}

/// A heading in one line that is not too long.
fn shorten(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST_HEADING).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sections of a document, each as `line above > heading: first words of the body`.
    pub(super) fn outline(format: Format, text: &str) -> Vec<String> {
        let sections = cut(format, "name", text);
        let shown = |section: &Section| {
            let Section { heading, above, line, body, .. } = section;
            format!("{line} {above} > {heading}: {}", body.split_whitespace().take(4).collect::<Vec<_>>().join(" "))
        };
        sections.iter().map(shown).collect()
    }

    #[test]
    fn names_promise_formats() {
        let of = |name: &str| Format::of(Path::new(name));
        assert_eq!(of("a/GUIDE.MD"), Some(Format::Markdown));
        assert_eq!(of("a.mdx"), Some(Format::Mdx));
        assert_eq!(of("index.htm"), Some(Format::Html));
        assert_eq!(of("main.rs"), None);
        assert_eq!(of("Makefile"), None);
    }

    #[test]
    fn long_sections_are_cut_at_the_end_of_a_paragraph_and_never_inside_code() {
        let paragraph = "word ".repeat(150);
        let code = format!("```\n{}```\n", "let a = 1;\n\n".repeat(130));
        let sections =
            cut(Format::Markdown, "name", &format!("# Long\n\n{paragraph}\n\n{paragraph}\n\n{code}\nafter\n"));
        let starts: Vec<_> = sections.iter().map(|section| (section.line, &section.body[..5])).collect();
        assert_eq!(starts, [(1, "word "), (7, "```\nl"), (270, "after")]);
        assert!(sections.iter().all(|section| section.heading == "Long"));
    }

    #[test]
    fn a_line_without_end_is_cut_anyway() {
        let sections = cut(Format::Plain, "name", &"ü".repeat(20_000));
        assert_eq!(sections.len(), 4);
        assert_eq!(sections.iter().map(|section| section.body.chars().count()).sum::<usize>(), 20_000);
    }

    #[test]
    fn a_document_of_nothing_but_a_heading_is_found_by_it() {
        assert_eq!(outline(Format::Markdown, "# Only this\n"), ["1  > Only this: "]);
        assert!(cut(Format::Markdown, "name", " \n\n").is_empty());
    }
}
