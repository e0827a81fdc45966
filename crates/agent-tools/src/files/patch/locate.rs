//! Finds where the chunks of a patch belong in a file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::parse::Chunk;

/// A chunk that was not found in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Context(String),
    Lines(String),
    /// The search was stopped.
    Stopped,
}

impl Missing {
    /// The error message.
    pub(super) fn of(&self, path: &Path) -> String {
        match self {
            Self::Context(line) => format!("Failed to find context '{line}' in {}", path.display()),
            Self::Stopped => "the patch was stopped".to_owned(),
            Self::Lines(lines) => format!("Failed to find expected lines in {}:\n{lines}", path.display()),
        }
    }
}

/// The text of a file with its chunks replaced. It ends with a newline. Uniform line ends are kept.
pub(super) fn replace(text: &str, chunks: &[Chunk], stop: &CancellationToken) -> Result<String, Missing> {
    let newlines = text.matches('\n').count();
    let ending = if newlines > 0 && text.matches("\r\n").count() == newlines { "\r\n" } else { "\n" };
    let mut lines: Vec<&str> = text.split(ending).collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    let mut file = Lines::new(&lines, stop);
    let mut result: Vec<&str> = Vec::new();
    let mut done = 0;
    for chunk in chunks {
        let (at, old, new) = locate(&mut file, done, chunk)?;
        result.extend(&lines[done..at]);
        result.extend(new.iter().map(String::as_str));
        done = at + old.len();
    }
    result.extend(&lines[done..]);
    Ok(result.iter().flat_map(|line| [*line, ending]).collect())
}

/// Finds the position of a chunk at or after a line. Returns the position, the old lines and the new lines.
fn locate<'a>(
    file: &mut Lines<'_>,
    from: usize,
    chunk: &'a Chunk,
) -> Result<(usize, &'a [String], &'a [String]), Missing> {
    let mut from = from;
    if let Some(context) = &chunk.context {
        let found = file.find(std::slice::from_ref(context), from, false)?;
        from = found.ok_or_else(|| Missing::Context(context.clone()))? + 1;
    }
    let (old, new) = (chunk.old.as_slice(), chunk.new.as_slice());
    if old.is_empty() {
        // No lines to search: insert after the context, or else at the end.
        let at = if chunk.context.is_some() && !chunk.is_at_end { from } else { file.lines.len() };
        return Ok((at, old, new));
    }
    if let Some(at) = file.find(old, from, chunk.is_at_end)? {
        return Ok((at, old, new));
    }
    // An empty last line may stand for the newline at the end of the file.
    if let [shorter @ .., last] = old
        && last.is_empty()
        && let Some(at) = file.find(shorter, from, chunk.is_at_end)?
    {
        let new = new.strip_suffix(&[String::new()]).unwrap_or(new);
        return Ok((at, shorter, new));
    }
    Err(Missing::Lines(old.join("\n")))
}

/// The rules by which lines are compared, each more lenient than the one before.
const RULES: [fn(&str) -> Cow<'_, str>; 4] = [
    |line| Cow::Borrowed(line),
    |line| Cow::Borrowed(line.trim_end()),
    |line| Cow::Borrowed(line.trim()),
    |line| Cow::Owned(line.trim().chars().map(plain).collect()),
];

/// How many lines are compared between two looks at the stop token.
const STRIDE: usize = 1 << 14;

/// The lines of a file, and for each rule that was needed a number for each line: lines that are equal by the rule have the
/// same number. So a search compares numbers only.
struct Lines<'a> {
    lines: &'a [&'a str],
    stop: &'a CancellationToken,
    numbered: [Option<Numbered<'a>>; RULES.len()],
}

#[derive(Default)]
struct Numbered<'a> {
    known: HashMap<Cow<'a, str>, usize>,
    lines: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(lines: &'a [&'a str], stop: &'a CancellationToken) -> Self {
        Self { lines, stop, numbered: Default::default() }
    }

    fn check(&self, at: usize) -> Result<(), Missing> {
        if at.is_multiple_of(STRIDE) && self.stop.is_cancelled() { Err(Missing::Stopped) } else { Ok(()) }
    }

    /// The first position at or after `from` where these lines match, with increasingly lenient rules.
    fn find(&mut self, wanted: &[String], from: usize, is_at_end: bool) -> Result<Option<usize>, Missing> {
        let Some(last) = self.lines.len().checked_sub(wanted.len()) else { return Ok(None) };
        let from = if is_at_end { last.max(from) } else { from };
        if from > last {
            return Ok(None);
        }
        for (rule, normalized) in RULES.iter().enumerate() {
            self.check(0)?;
            self.number(rule)?;
            let Some(numbered) = &self.numbered[rule] else { continue };
            // A line that is nowhere in the file matches nothing.
            let number = |line: &String| numbered.known.get(&normalized(line)).copied();
            let Some(wanted) = wanted.iter().map(number).collect::<Option<Vec<_>>>() else { continue };
            if let Some(at) = self.search(&numbered.lines[from..], &wanted)? {
                return Ok(Some(from + at));
            }
        }
        Ok(None)
    }

    fn number(&mut self, rule: usize) -> Result<(), Missing> {
        if self.numbered[rule].is_some() {
            return Ok(());
        }
        let mut numbered = Numbered::default();
        for (at, line) in self.lines.iter().enumerate() {
            self.check(at)?;
            let next = numbered.known.len();
            numbered.lines.push(*numbered.known.entry(RULES[rule](line)).or_insert(next));
        }
        self.numbered[rule] = Some(numbered);
        Ok(())
    }

    /// The first position of `wanted` in `numbers`, by the algorithm of Knuth, Morris and Pratt: in linear time.
    fn search(&self, numbers: &[usize], wanted: &[usize]) -> Result<Option<usize>, Missing> {
        if wanted.is_empty() {
            return Ok(Some(0));
        }
        let borders = borders(wanted);
        let mut matched = 0;
        for (at, number) in numbers.iter().enumerate() {
            self.check(at)?;
            while matched > 0 && wanted[matched] != *number {
                matched = borders[matched - 1];
            }
            matched += usize::from(wanted[matched] == *number);
            if matched == wanted.len() {
                return Ok(Some(at + 1 - matched));
            }
        }
        Ok(None)
    }
}

/// For each beginning of `wanted`, the length of its longest proper beginning that is also its end.
fn borders(wanted: &[usize]) -> Vec<usize> {
    let mut borders = vec![0; wanted.len()];
    let mut length = 0;
    for at in 1..wanted.len() {
        while length > 0 && wanted[at] != wanted[length] {
            length = borders[length - 1];
        }
        length += usize::from(wanted[at] == wanted[length]);
        borders[at] = length;
    }
    borders
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

    fn replace(text: &str, chunks: &[Chunk]) -> Result<String, Missing> {
        super::replace(text, chunks, &CancellationToken::new())
    }

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

    /// With one comparison for each pair of lines, this would take hours.
    #[test]
    fn a_search_among_equal_lines_takes_linear_time() {
        let text = "a\n".repeat(200_000);
        let mut old = vec!["a"; 100_000];
        old.push("b");
        let text = format!("b\n{text}");
        assert!(replace(&text, &[chunk(None, &old, &[])]).is_err());
        let trimmed: Vec<_> = old[..100_000].iter().map(|line| format!(" {line}")).collect();
        let trimmed: Vec<_> = trimmed.iter().map(String::as_str).collect();
        let rest = "b\n".to_owned() + &"a\n".repeat(100_000);
        assert_eq!(replace(&text, &[chunk(None, &trimmed, &[])]).unwrap(), rest);
    }

    #[test]
    fn a_search_finds_the_same_lines_as_a_comparison_at_every_position() {
        let texts = ["a b a b a c", "a a b a a a b a a c", "x", "", "a b c"];
        for text in texts {
            let lines: Vec<&str> = text.split(' ').collect();
            let stop = CancellationToken::new();
            let mut file = Lines::new(&lines, &stop);
            for length in 1..=lines.len() + 1 {
                for wanted in [lines.clone(), vec!["a", "b", "a", "c"], vec!["a", "a", "c"], vec!["a", "a", "a"]] {
                    let wanted: Vec<String> = wanted.iter().take(length).map(|line| (*line).to_owned()).collect();
                    for from in 0..=lines.len() {
                        let slow = (from..lines.len()).find(|at| {
                            lines[*at..].starts_with(&wanted.iter().map(String::as_str).collect::<Vec<_>>())
                        });
                        assert_eq!(file.find(&wanted, from, false).unwrap(), slow, "{text}: {wanted:?} from {from}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_search_can_be_stopped() {
        let stop = CancellationToken::new();
        stop.cancel();
        assert_eq!(super::replace("a\n", &[chunk(None, &["a"], &["b"])], &stop), Err(Missing::Stopped));
    }
}
