//! Cuts documents into sections. Each format finds its headings and its text; the [`Cutter`] makes sections of them.
//!
//! The lines of a section stay unchanged, because users see them later. Cutting never fails: any content is some text under
//! some headings.

mod chunks;
mod html;
mod markdown;
mod plain;
mod rst;

use std::path::Path;

pub(crate) use markdown::Fence;

/// Sections longer than this are cut at the next end of a paragraph.
const LONG: usize = 800;

/// Sections longer than this are cut before a paragraph that begins in bold.
const LONG_BEFORE_LEAD: usize = 300;

/// Sections longer than this are cut at the next blank line inside of code.
const LONG_CODE: usize = 300;

/// Sections longer than this are cut at the next line, regardless of its content.
const TOO_LONG: usize = 6000;

/// The longest heading that is kept.
const LONGEST_HEADING: usize = 200;

/// The file that makes a folder a Fluxloop index.
pub(crate) const INDEX_FILE: &str = "chunks.jsonl";

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Markdown,
    Mdx,
    Rst,
    Html,
    Plain,
    /// A Fluxloop index: documents in pieces, one JSON object a line.
    Chunks,
}

impl Format {
    /// The format that a file's name promises, or nothing when it is no documentation.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        if path.file_name().is_some_and(|name| name == INDEX_FILE) {
            return Some(Self::Chunks);
        }
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
    /// Whether this is the first piece of the section.
    pub(crate) begins: bool,
    /// The line of the heading, or of the first text when the piece has none of its own. The first line is 1.
    pub(crate) line: usize,
    /// The text, without the heading.
    pub(crate) body: String,
    /// The bold words at the beginning of the piece, which serve as a heading.
    pub(crate) lead: String,
    /// The document that it comes from, if that is not the file itself.
    pub(crate) source: Option<String>,
}

/// Cuts `text` into sections. `name` is the title of a document that has none of its own.
pub(crate) fn cut(format: Format, name: &str, text: &str) -> Vec<Section> {
    let mut cutter = Cutter::new(name);
    match format {
        Format::Markdown | Format::Mdx => markdown::read(text, format, &mut cutter),
        Format::Rst => rst::read(text, &mut cutter),
        Format::Html => html::read(text, &mut cutter),
        Format::Plain => plain::read(text, &mut cutter),
        Format::Chunks => return chunks::read(text),
    }
    cutter.finish()
}

/// Whether a long piece may be cut at a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// Ordinary text.
    Text,
    /// A line of a block that must not be cut, such as code.
    Block,
}

/// Takes headings and lines in order and makes sections of them.
#[derive(Debug)]
struct Cutter {
    name: String,
    /// The title of the document outside of its headings.
    title: Option<String>,
    /// The headings above the next line, with their levels, from the outermost.
    trail: Vec<(usize, String)>,
    begins: bool,
    line: Option<usize>,
    body: String,
    lead: String,
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
            lead: String::new(),
            after_blank: false,
            sections: Vec::new(),
        }
    }

    /// The title that the document gives itself.
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
    fn text(&mut self, text: &str, line: usize, kind: LineKind) {
        let blank = text.trim().is_empty();
        if !blank {
            let at_paragraph = self.after_blank && kind == LineKind::Text && !text.starts_with([' ', '\t']);
            let lead =
                if kind == LineKind::Text && (at_paragraph || self.body.is_empty()) { lead_of(text) } else { "" };
            let longest = if lead.is_empty() { LONG } else { LONG_BEFORE_LEAD };
            if self.body.len() > longest && at_paragraph || self.body.len() > TOO_LONG {
                self.close(Ends::ByLength);
            }
            if self.body.is_empty() {
                lead.clone_into(&mut self.lead);
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

    /// Ends a piece that has grown too long, regardless of the next line.
    fn cut_if_long(&mut self) -> bool {
        let is_long = self.body.len() > LONG;
        if is_long {
            self.close(Ends::ByLength);
        }
        is_long
    }

    /// Ends a piece that has grown long inside of code, with the line that closes the code.
    fn cut_code_if_long(&mut self, closing: &str) -> bool {
        let is_long = self.body.len() > LONG_CODE;
        if is_long {
            self.body.push_str(closing);
            self.close(Ends::ByLength);
        }
        is_long
    }

    fn finish(mut self) -> Vec<Section> {
        self.close(Ends::ByLength);
        self.sections
    }

    /// Makes a section of the collected text. A heading that is followed only by further headings is no section, unless
    /// it ends the document: its words are in the trail of the sections below it.
    fn close(&mut self, ends: Ends) {
        let body = self.body.trim_end();
        let line = self.line.take().unwrap_or(1);
        if !body.is_empty() || ends == Ends::ByLength && !self.trail.is_empty() && self.sections.is_empty() {
            let mut trail: Vec<&str> = self.title.iter().map(String::as_str).collect();
            trail.extend(self.trail.iter().map(|(_, heading)| heading.as_str()));
            let heading = trail.pop().unwrap_or(&self.name).to_owned();
            let above = trail.join(" ");
            let lead = if self.lead.is_empty() { lead_of(body).to_owned() } else { std::mem::take(&mut self.lead) };
            self.sections.push(Section {
                heading,
                above,
                begins: self.begins,
                line,
                body: body.to_owned(),
                lead,
                source: None,
            });
        }
        self.begins = ends == Ends::ByHeading;
        self.body.clear();
        self.lead.clear();
    }
}

/// The bold words that a paragraph begins with, or the name of the table that code begins with, or nothing.
pub(crate) fn lead_of(paragraph: &str) -> &str {
    if Fence::opened_by(paragraph.lines().next().unwrap_or_default()).is_some() {
        return table_of(paragraph.lines().nth(1).unwrap_or_default());
    }
    let rest = paragraph.trim_start().strip_prefix("**");
    rest.and_then(|rest| rest.split_once("**")).map_or("", |(lead, _)| lead)
}

/// The name of the table that a line of a configuration begins, or nothing: `[name]` or `[[name]]`.
fn table_of(line: &str) -> &str {
    let name = line.strip_prefix('[').map(|rest| rest.trim_start_matches('['));
    let name = name.and_then(|rest| rest.split_once(']')).map_or("", |(name, _)| name);
    if name.contains(|c: char| !c.is_alphanumeric() && !"._-".contains(c)) { "" } else { name }
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
    fn long_sections_are_cut_at_the_end_of_a_paragraph() {
        let paragraph = "word ".repeat(150);
        let sections =
            cut(Format::Markdown, "name", &format!("# Long\n\n{paragraph}\n\n{paragraph}\n\nlast\n\nafter\n"));
        let starts: Vec<_> = sections.iter().map(|section| (section.line, &section.body[..4])).collect();
        assert_eq!(starts, [(1, "word"), (7, "last")]);
        assert!(sections.iter().all(|section| section.heading == "Long"));
    }

    #[test]
    fn long_code_is_cut_at_blank_lines_into_several_fences() {
        let table = |name: &str| format!("[{name}]  # about it\n{}", "key = 1  # what it means\n".repeat(14));
        let text = format!("# Keys\n\n```toml\n{}\n{}\n[short]\n```\n\nafter\n", table("first"), table("[second]"));
        let sections = cut(Format::Markdown, "name", &text);
        let shown = |section: &Section| {
            let lines: Vec<&str> = section.body.lines().collect();
            format!("{} {}: {} {}", section.line, section.lead, lines[0], lines[lines.len() - 1])
        };
        assert_eq!(
            sections.iter().map(shown).collect::<Vec<_>>(),
            ["1 first: ```toml ```", "20 second: ```toml ```", "36 short: ```toml after"]
        );
        let code = "let a = 1;\n".repeat(60);
        assert_eq!(cut(Format::Markdown, "name", &format!("```\n{code}```\n")).len(), 1);
    }

    #[test]
    fn a_paragraph_that_begins_in_bold_begins_a_piece() {
        let filler = "word ".repeat(80);
        let text = format!("# A\n\n{filler}\n\n**Calls that are silent.** They end.\n\n**Short.** It stays.\n");
        let sections = cut(Format::Markdown, "name", &text);
        let leads: Vec<_> = sections.iter().map(|section| (section.line, section.lead.as_str())).collect();
        assert_eq!(leads, [(1, ""), (5, "Calls that are silent.")]);
    }

    #[test]
    fn each_part_of_a_long_table_repeats_its_head() {
        let row = format!("| {} | b |\n", "word ".repeat(20));
        let sections =
            cut(Format::Markdown, "name", &format!("# T\n\n| left | right |\n|---|---|\n{}", row.repeat(20)));
        assert_eq!(sections.len(), 3);
        assert!(sections.iter().all(|section| section.body.starts_with("| left | right |\n|---|---|\n| word")));
        let rows: usize = sections.iter().map(|section| section.body.lines().count() - 2).sum();
        assert_eq!(rows, 20);
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
