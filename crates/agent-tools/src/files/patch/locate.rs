//! Finds where the chunks of a patch belong in a file.

use std::path::Path;

use super::parse::Chunk;

/// A chunk that was not found in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Context(String),
    Lines(String),
}

impl Missing {
    /// The error message.
    pub(super) fn of(&self, path: &Path) -> String {
        match self {
            Self::Context(line) => format!("Failed to find context '{line}' in {}", path.display()),
            Self::Lines(lines) => format!("Failed to find expected lines in {}:\n{lines}", path.display()),
        }
    }
}

/// The text of a file with its chunks replaced. It ends with a newline. Uniform line ends are kept.
pub(super) fn replace(text: &str, chunks: &[Chunk]) -> Result<String, Missing> {
    let newlines = text.matches('\n').count();
    let ending = if newlines > 0 && text.matches("\r\n").count() == newlines { "\r\n" } else { "\n" };
    let mut lines: Vec<&str> = text.split(ending).collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    let mut result: Vec<&str> = Vec::new();
    let mut done = 0;
    for chunk in chunks {
        let (at, old, new) = locate(&lines, done, chunk)?;
        result.extend(&lines[done..at]);
        result.extend(new.iter().map(String::as_str));
        done = at + old.len();
    }
    result.extend(&lines[done..]);
    Ok(result.iter().flat_map(|line| [*line, ending]).collect())
}

/// Finds the position of a chunk at or after a line. Returns the position, the old lines and the new lines.
fn locate<'a>(lines: &[&str], from: usize, chunk: &'a Chunk) -> Result<(usize, &'a [String], &'a [String]), Missing> {
    let mut from = from;
    if let Some(context) = &chunk.context {
        let found = find(lines, std::slice::from_ref(context), from, false);
        from = found.ok_or_else(|| Missing::Context(context.clone()))? + 1;
    }
    let (old, new) = (chunk.old.as_slice(), chunk.new.as_slice());
    if old.is_empty() {
        // No lines to search: insert after the context, or else at the end.
        let at = if chunk.context.is_some() && !chunk.is_at_end { from } else { lines.len() };
        return Ok((at, old, new));
    }
    if let Some(at) = find(lines, old, from, chunk.is_at_end) {
        return Ok((at, old, new));
    }
    // An empty last line may stand for the newline at the end of the file.
    if let [shorter @ .., last] = old
        && last.is_empty()
        && let Some(at) = find(lines, shorter, from, chunk.is_at_end)
    {
        let new = new.strip_suffix(&[String::new()]).unwrap_or(new);
        return Ok((at, shorter, new));
    }
    Err(Missing::Lines(old.join("\n")))
}

/// The first position at or after `from` where these lines match, with increasingly lenient rules.
fn find(lines: &[&str], wanted: &[String], from: usize, is_at_end: bool) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    let from = if is_at_end { last.max(from) } else { from };
    let rules: [fn(&str) -> String; 4] = [
        |line| line.to_owned(),
        |line| line.trim_end().to_owned(),
        |line| line.trim().to_owned(),
        |line| line.trim().chars().map(plain).collect(),
    ];
    rules.iter().find_map(|rule| {
        let wanted: Vec<_> = wanted.iter().map(|line| rule(line)).collect();
        (from..=last).find(|at| wanted.iter().zip(&lines[*at..]).all(|(wanted, line)| *wanted == rule(line)))
    })
}

/// The ASCII form of a typographic character.
fn plain(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(context: Option<&str>, old: &[&str], new: &[&str]) -> Chunk {
        let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Chunk { context: context.map(str::to_owned), old: own(old), new: own(new), is_at_end: false }
    }

    #[test]
    fn lines_are_found_by_increasingly_lenient_rules() {
        for text in ["a\nb\n", "a  \nb\n", "  a\nb\n", "\u{a0}a\nb"] {
            assert_eq!(replace(text, &[chunk(None, &["a"], &["x"])]).unwrap(), "x\nb\n", "{text:?}");
        }
        let typographic = "say \u{201c}no\u{201d} \u{2013} now\n";
        assert_eq!(replace(typographic, &[chunk(None, &["say \"no\" - now"], &["y"])]).unwrap(), "y\n");
        assert_eq!(replace("  a\na\n", &[chunk(None, &["a"], &["x"])]).unwrap(), "  a\nx\n", "the exact match first");
    }

    #[test]
    fn chunks_follow_each_other_and_their_contexts() {
        let text = "f\nx\ng\nx\nx\n";
        let chunks = [chunk(Some("g"), &["x"], &["1"]), chunk(None, &["x"], &["2"])];
        assert_eq!(replace(text, &chunks).unwrap(), "f\nx\ng\n1\n2\n");
        assert_eq!(replace(text, &[chunk(Some("h"), &["x"], &[])]), Err(Missing::Context("h".into())));
        assert_eq!(replace(text, &[chunk(None, &["y", "z"], &[])]), Err(Missing::Lines("y\nz".into())));
        assert_eq!(
            replace(text, &[chunk(None, &["g"], &[]), chunk(None, &["f"], &[])]),
            Err(Missing::Lines("f".into()))
        );
    }

    #[test]
    fn additions_go_after_their_context_or_to_the_end() {
        assert_eq!(replace("a\nb\n", &[chunk(Some("a"), &[], &["x"])]).unwrap(), "a\nx\nb\n");
        assert_eq!(replace("a\nb", &[chunk(None, &[], &["x"])]).unwrap(), "a\nb\nx\n");
        assert_eq!(replace("", &[chunk(None, &[], &["x"])]).unwrap(), "x\n");
    }

    #[test]
    fn the_end_of_the_file_and_line_ends_are_kept() {
        let last = Chunk { is_at_end: true, ..chunk(None, &["x"], &["y"]) };
        assert_eq!(replace("x\nx\n", &[last]).unwrap(), "x\ny\n");
        assert_eq!(replace("a\r\nb\r\n", &[chunk(None, &["a"], &["x"])]).unwrap(), "x\r\nb\r\n");
        assert_eq!(replace("a\n", &[chunk(None, &["a", ""], &["b", ""])]).unwrap(), "b\n");
    }
}
