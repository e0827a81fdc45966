//! Markdown and MDX, read line by line: front matter, fences, both kinds of headings, comments, and the HTML headings that
//! many a README begins with.

use super::{Cutter, Format, LineKind};

pub(super) fn read(text: &str, format: Format, cutter: &mut Cutter) {
    let lines: Vec<&str> = text.lines().collect();
    let mut at = front_matter(&lines, cutter);
    let mut fence: Option<(Fence, &str)> = None;
    let mut comment = false;
    let mut table: Vec<&str> = Vec::new();
    while let Some(line) = lines.get(at) {
        let number = at + 1;
        at += 1;
        if let Some((open, opening)) = &fence {
            // Long code continues in another fence.
            let goes_on = lines.get(at).is_some_and(|next| !next.trim().is_empty() && !open.is_closed_by(next));
            if line.trim().is_empty() && goes_on && cutter.cut_code_if_long(&open.closing()) {
                cutter.text(opening, at + 1, LineKind::Block);
                continue;
            }
            cutter.text(line, number, LineKind::Block);
            if open.is_closed_by(line) {
                fence = None;
            }
            continue;
        }
        if comment || line.trim_start().starts_with("<!--") {
            comment = !line.contains("-->");
            continue;
        }
        if let Some(open) = Fence::opened_by(line) {
            cutter.text(line, number, LineKind::Text);
            fence = Some((open, line));
        } else if format == Format::Mdx && (line.starts_with("import ") || line.starts_with("export ")) {
            continue;
        } else if let Some((level, heading)) = hashes(line).or_else(|| tagged(line)) {
            cutter.heading(level, &plain(heading), number);
        } else if let Some(level) = lines.get(at).and_then(|next| underline(line, next)) {
            cutter.heading(level, &plain(line), number);
            at += 1;
        } else {
            if line.trim_start().starts_with('|') {
                // A long table continues under the same header.
                if table.len() >= HEAD_OF_TABLE && cutter.cut_if_long() {
                    table[..HEAD_OF_TABLE].iter().for_each(|head| cutter.text(head, number, LineKind::Text));
                }
                table.push(line);
            } else {
                table.clear();
            }
            cutter.text(line, number, LineKind::Text);
        }
    }
}

/// A table begins with the names of its columns and a line below them.
const HEAD_OF_TABLE: usize = 2;

/// Reads the title from the front matter between two `---` at the top, and returns the first line of the text.
fn front_matter(lines: &[&str], cutter: &mut Cutter) -> usize {
    if lines.first().is_none_or(|line| line.trim_end() != "---") {
        return 0;
    }
    let Some(end) = lines.iter().skip(1).position(|line| matches!(line.trim_end(), "---" | "...")) else {
        return 0;
    };
    for line in &lines[1..=end] {
        if let Some(title) = line.strip_prefix("title:") {
            cutter.title(title.trim().trim_matches(['"', '\'']));
        }
    }
    end + 2
}

/// A block of code that was opened and not closed yet.
#[derive(Debug)]
pub(crate) struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// The fence that a line opens.
    pub(crate) fn opened_by(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line.chars().take_while(|c| *c == mark).count();
        // Three backticks and more on the rest of the line are code in a sentence.
        let inline = mark == '`' && line[length..].contains('`');
        (length >= 3 && !inline).then_some(Self { mark, length })
    }

    /// Whether a line ends this block.
    pub(crate) fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.chars().count() >= self.length && line.chars().all(|c| c == self.mark)
    }

    /// The line that ends this block.
    pub(crate) fn closing(&self) -> String {
        String::from(self.mark).repeat(self.length)
    }
}

/// `## Heading ##`
fn hashes(line: &str) -> Option<(usize, &str)> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let line = line.trim();
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = &line[level..];
    if indent > 3 || !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let rest = rest.trim();
    let bare = rest.trim_end_matches('#');
    Some((level, if bare.is_empty() || bare.ends_with(' ') { bare.trim_end() } else { rest }))
}

/// `<h1 align="center">Heading</h1>`
fn tagged(line: &str) -> Option<(usize, &str)> {
    let line = line.trim();
    let rest = line.strip_prefix("<h").or_else(|| line.strip_prefix("<H"))?;
    let level = rest.chars().next()?.to_digit(10).filter(|level| (1..=6).contains(level))?;
    let inside = &rest[rest.find('>')? + 1..];
    let end = inside.to_ascii_lowercase().find("</h")?;
    Some((level as usize, &inside[..end]))
}

/// A line of text above a line of `=` or `-`.
fn underline(line: &str, next: &str) -> Option<usize> {
    let text = line.trim();
    let under = next.trim_end();
    let is_text = !text.is_empty() && !line.starts_with("    ") && !text.starts_with(['|', '>', '-', '*', '+', '`']);
    if !is_text || under.len() < 2 {
        return None;
    }
    if under.bytes().all(|byte| byte == b'=') {
        Some(1)
    } else {
        (under.len() >= 3 && under.bytes().all(|byte| byte == b'-')).then_some(2)
    }
}

/// A heading without its markup: emphasis, code marks, tags, the targets of links, and an anchor at its end.
fn plain(heading: &str) -> String {
    let heading = match heading.rfind("{#") {
        Some(anchor) if heading.ends_with('}') => &heading[..anchor],
        _ => heading,
    };
    let mut text = String::with_capacity(heading.len());
    let mut rest = heading;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '`' | '*' | '[' => after,
            ']' if after.starts_with('(') => after.find(')').map_or("", |end| &after[end + 1..]),
            ']' => after,
            '<' if after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') => match after.find('>') {
                Some(end) => &after[end + 1..],
                None => after,
            },
            _ => {
                text.push(c);
                after
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::outline;
    use super::*;

    #[test]
    fn headings_of_all_kinds_are_found_outside_of_code() {
        let text = "---\ntitle: \"The guide\"\nother: x\n---\nintro\n\n# One `two` [three](http://x) {#one}\nbody\n\n```sh\n# no heading\n```\n\nUnder\n-----\nmore\n<!-- hidden\n# no -->\n### Deep ###\ndeep\n";
        assert_eq!(
            outline(Format::Markdown, text),
            [
                "5  > The guide: intro",
                "7 The guide > One two three: body ```sh # no",
                "14 The guide One two three > Under: more",
                "19 The guide One two three Under > Deep: deep"
            ]
        );
    }

    #[test]
    fn tags_make_headings_and_tables_do_not() {
        let text = "<h1 align=\"center\"><b>Widget</b></h1>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n#hashtag\n";
        assert_eq!(outline(Format::Markdown, text), ["1  > Widget: | a | b"]);
    }

    #[test]
    fn imports_of_mdx_are_no_content() {
        let text = "import Tabs from '@theme/Tabs';\n\n# Start\n\nexport const a = 1;\n<Tabs>run it</Tabs>\n";
        assert_eq!(outline(Format::Mdx, text), ["3  > Start: <Tabs>run it</Tabs>"]);
    }

    #[test]
    fn unclosed_fences_and_comments_end_with_the_document() {
        assert_eq!(
            outline(Format::Markdown, "---\ntitle: x\n# A\n````\n```\n# b\n"),
            ["1  > name: --- title: x", "3  > A: ```` ``` # b"]
        );
        assert_eq!(outline(Format::Markdown, "text\n<!-- a\n# A\n"), ["1  > name: text"]);
    }
}
