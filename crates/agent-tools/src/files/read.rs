//! `read_file`: returns lines of a file, by number or by the block that they belong to.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::path::PathBuf;

use gladhand_core::javascript;
use tokio_util::sync::CancellationToken;

use crate::input::Input;
use crate::outcome::{Outcome, Problem, blocking, done};
use crate::tool_set::Job;

/// Maximum length of a shown line, in UTF-16 units.
const LINE: usize = 500;

/// How many bytes of a line are read: enough for 500 units.
const LINE_BYTES: u64 = 4 * LINE as u64;

/// How many bytes of a file are read, in search of the requested lines.
const MAX_BYTES: u64 = 1 << 30;

/// How many bytes are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Maximum number of shown lines.
const MAX_LINES: usize = 20_000;

/// Maximum number of lines of a file that is read by blocks.
const MAX_BLOCK_FILE_LINES: usize = 500_000;

/// The width of a tab, and of one level of indentation, in columns.
const LEVEL: usize = 4;

/// The file that the input names.
pub(super) fn path(input: &Input) -> PathBuf {
    input.text("file_path").unwrap_or_default().into()
}

/// Runs the tool.
pub(crate) async fn run(job: &Job<'_>) -> Outcome {
    let path = path(&job.input);
    if !path.is_absolute() {
        return Err(Problem::plain("file_path must be an absolute path"));
    }
    let offset = positive(job.input.whole("offset"), 1, "offset must be a line number, counted from 1")?;
    let limit = positive(job.input.whole("limit"), 2000, "limit must be greater than zero")?.min(MAX_LINES);
    let (bounds, stop) = (job.bounds.clone(), job.stop.clone());
    if job.input.word("mode").unwrap_or("slice") != "indentation" {
        return blocking(move || slice(bounds.open(&path)?, offset, limit, &stop)).await;
    }
    let options = job.input.inner("indentation");
    let max_lines = positive(options.whole("max_lines"), limit, "max_lines must be greater than zero")?;
    let block = Block {
        anchor: positive(options.whole("anchor_line"), offset, "anchor_line must be a line number, counted from 1")?,
        levels: options.within("max_levels", 0, 0, usize::MAX / LEVEL),
        siblings: options.flag("include_siblings", false),
        header: options.flag("include_header", true),
        max_lines: limit.min(max_lines),
    };
    blocking(move || block.read(bounds.open(&path)?, &stop)).await
}

fn positive(number: Option<i64>, default: usize, message: &str) -> Result<usize, Problem> {
    match number {
        None => Ok(default),
        Some(number) => usize::try_from(number).ok().filter(|n| *n > 0).ok_or_else(|| Problem::plain(message)),
    }
}

/// A file that is read until the call must stop. A sparse file can be much larger than the disk.
struct Stoppable<'s> {
    file: Take<File>,
    stop: &'s CancellationToken,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("the read was stopped"));
        }
        if self.file.limit() == 0 {
            return Err(io::Error::other(format!("the lines are beyond its first {} MiB", MAX_BYTES >> 20)));
        }
        self.file.read(buffer)
    }
}

/// The lines of a file, each cut to the maximum length.
struct Lines<'s>(BufReader<Stoppable<'s>>);

impl<'s> Lines<'s> {
    fn of(file: File, stop: &'s CancellationToken) -> Self {
        Self(BufReader::with_capacity(BUFFER_BYTES, Stoppable { file: file.take(MAX_BYTES), stop }))
    }

    /// The next line without its line end, if there is one.
    fn next(&mut self) -> Result<Option<String>, Problem> {
        let failed = |error: io::Error| Problem::plain(format!("failed to read file: {error}"));
        let mut line = Vec::new();
        self.0.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line).map_err(failed)?;
        match line.pop() {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(other) => {
                line.push(other);
                self.0.skip_until(b'\n').map_err(failed)?;
            }
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(javascript::prefix(&String::from_utf8_lossy(&line), LINE).to_owned()))
    }
}

fn numbered(number: usize, line: &str) -> String {
    format!("L{number}: {line}")
}

fn slice(file: File, offset: usize, limit: usize, stop: &CancellationToken) -> Outcome {
    let mut lines = Lines::of(file, stop);
    let mut shown = Vec::new();
    let mut number = 0;
    while shown.len() < limit
        && let Some(line) = lines.next()?
    {
        number += 1;
        if number >= offset {
            shown.push(numbered(number, &line));
        }
    }
    if number < offset {
        return Err(Problem::plain("offset exceeds file length"));
    }
    Ok(done(&shown.join("\n")))
}

/// The requested block.
#[derive(Debug)]
struct Block {
    anchor: usize,
    levels: usize,
    siblings: bool,
    header: bool,
    max_lines: usize,
}

/// One direction in which a block grows.
struct Growth {
    /// The next line to check, if any is left.
    next: Option<usize>,
    /// Whether a line with the minimum indentation was already taken.
    has_border: bool,
}

impl Block {
    fn read(&self, file: File, stop: &CancellationToken) -> Outcome {
        let mut file = Lines::of(file, stop);
        let mut lines = Vec::new();
        while let Some(line) = file.next()? {
            if lines.len() >= MAX_BLOCK_FILE_LINES {
                return Err(Problem::plain(format!(
                    "files of more than {MAX_BLOCK_FILE_LINES} lines can only be read by slices"
                )));
            }
            lines.push(line);
        }
        if self.anchor > lines.len() {
            return Err(Problem::plain("anchor_line exceeds file length"));
        }
        let shown: Vec<_> = self.lines(&lines).map(|at| numbered(at + 1, &lines[at])).collect();
        Ok(done(&shown.join("\n")))
    }

    /// The lines of the block. It grows from the anchor, alternately up and down, while lines are indented enough.
    fn lines(&self, lines: &[String]) -> impl Iterator<Item = usize> + use<> {
        let indents = indents(lines);
        let anchor = self.anchor - 1;
        let least = if self.levels == 0 { 0 } else { indents[anchor].saturating_sub(self.levels * LEVEL) };
        let mut block = VecDeque::from([anchor]);
        let mut up = Growth { next: anchor.checked_sub(1), has_border: false };
        let mut down = Growth { next: Some(anchor + 1), has_border: false };
        while block.len() < self.max_lines && (up.next.is_some() || down.next.is_some()) {
            if let Some(at) = up.next.take() {
                let is_header = self.header && is_comment(&lines[at]);
                if self.takes(&mut up, indents[at], least, is_header) {
                    block.push_front(at);
                    up.next = at.checked_sub(1);
                }
            }
            if block.len() < self.max_lines
                && let Some(at) = down.next.take().filter(|at| *at < lines.len())
                && self.takes(&mut down, indents[at], least, false)
            {
                block.push_back(at);
                down.next = Some(at + 1);
            }
        }
        let is_blank = |at: Option<&usize>| at.is_some_and(|at| lines[*at].trim().is_empty());
        while is_blank(block.front()) {
            block.pop_front();
        }
        while is_blank(block.back()) {
            block.pop_back();
        }
        block.into_iter()
    }

    /// Whether a line still belongs to the block. Of the lines with the minimum indentation only the first does, unless
    /// siblings are requested or the line is part of a header.
    fn takes(&self, growth: &mut Growth, indent: usize, least: usize, is_header: bool) -> bool {
        if indent != least || self.siblings {
            return indent >= least;
        }
        let is_first = !growth.has_border;
        growth.has_border = true;
        is_first || is_header
    }
}

/// The indentation of each line. A blank line has that of the line before it.
fn indents(lines: &[String]) -> Vec<usize> {
    let mut last = 0;
    let indent = |line: &String| {
        if !line.trim().is_empty() {
            let blanks = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
            last = blanks.map(|c| if c == '\t' { LEVEL } else { 1 }).sum();
        }
        last
    };
    lines.iter().map(indent).collect()
}

fn is_comment(line: &str) -> bool {
    ["#", "//", "--"].iter().any(|start| line.trim_start().starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "mod a {\n    // note\n    fn f() {\n        one();\n\n        two();\n    }\n\n    fn g() {}\n}\n";

    fn lines(block: &Block) -> Vec<usize> {
        let lines: Vec<_> = TEXT.lines().map(str::to_owned).collect();
        block.lines(&lines).map(|at| at + 1).collect()
    }

    #[test]
    fn blocks_grow_by_indentation() {
        let block = Block { anchor: 4, levels: 1, siblings: false, header: true, max_lines: 100 };
        assert_eq!(lines(&block), [2, 3, 4, 5, 6, 7]);
        assert_eq!(lines(&Block { header: false, ..block }), [3, 4, 5, 6, 7]);
        let block = Block { anchor: 4, levels: 1, siblings: true, header: true, max_lines: 100 };
        assert_eq!(lines(&block), [2, 3, 4, 5, 6, 7, 8, 9]);
        let block = Block { anchor: 4, levels: 0, siblings: true, header: true, max_lines: 100 };
        assert_eq!(lines(&block), (1..=10).collect::<Vec<_>>());
        assert_eq!(lines(&Block { max_lines: 3, ..block }), [3, 4], "blank lines at the ends are removed");
    }

    #[test]
    fn a_sparse_file_without_end_is_read_up_to_a_limit_and_until_the_call_is_stopped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        let open = || file.reopen().unwrap();
        assert!(slice(open(), 2, 1, &stop).unwrap_err().into_message().contains("was stopped"));
        let block = Block { anchor: 2, levels: 0, siblings: false, header: true, max_lines: 1 };
        assert!(block.read(open(), &stop).unwrap_err().into_message().contains("was stopped"));
        let error = slice(open(), 2, 1, &CancellationToken::new()).unwrap_err();
        assert!(error.into_message().contains("beyond its first 1024 MiB"));
    }
}
