//! Parses the text of a patch.

/// The change of one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) path: String,
    pub(super) change: Change,
}

/// How a file changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is created with these lines.
    Add(Vec<String>),
    /// It is deleted.
    Delete,
    /// Parts of it are replaced, and it may be renamed.
    Update { moves_to: Option<String>, chunks: Vec<Chunk> },
}

/// A part of a file that is replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// A line that precedes it somewhere.
    pub(super) context: Option<String>,
    pub(super) old: Vec<String>,
    pub(super) new: Vec<String>,
    /// Whether the old lines are the last of the file.
    pub(super) is_at_end: bool,
}

/// Parses a patch, or says why it is invalid.
pub(super) fn parse(patch: &str) -> Result<Vec<Section>, String> {
    let lines: Vec<&str> = patch.trim().lines().collect();
    let lines = unwrapped(&lines);
    if lines.first().map(|line| line.trim()) != Some("*** Begin Patch") {
        return Err("The first line of the patch must be '*** Begin Patch'".to_owned());
    }
    if lines.last().map(|line| line.trim()) != Some("*** End Patch") || lines.len() < 2 {
        return Err("The last line of the patch must be '*** End Patch'".to_owned());
    }
    let mut reader = Reader { lines: &lines[1..lines.len() - 1], at: 0 };
    let mut sections = Vec::new();
    while let Some(line) = reader.next() {
        if !line.trim().is_empty() {
            sections.push(reader.section(line.trim())?);
        }
    }
    Ok(sections)
}

/// Removes the here-document that a patch may be wrapped in.
fn unwrapped<'a, 'b>(lines: &'b [&'a str]) -> &'b [&'a str] {
    match lines {
        [first, inner @ .., last]
            if matches!(first.trim(), "<<EOF" | "<<'EOF'" | "<<\"EOF\"") && last.trim_end().ends_with("EOF") =>
        {
            inner
        }
        _ => lines,
    }
}

/// The lines between the first and the last.
struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    /// An error about the last line read, with its number in the patch.
    fn complaint<T>(&self, why: impl std::fmt::Display) -> Result<T, String> {
        Err(format!("line {}: {why}", self.at + 1))
    }

    fn section(&mut self, header: &str) -> Result<Section, String> {
        let section = |path: &str, change| Ok(Section { path: path.trim().to_owned(), change });
        if let Some(path) = header.strip_prefix("*** Add File: ") {
            let mut lines = Vec::new();
            while let Some(line) = self.peek().and_then(|line| line.strip_prefix('+')) {
                lines.push(line.to_owned());
                self.at += 1;
            }
            section(path, Change::Add(lines))
        } else if let Some(path) = header.strip_prefix("*** Delete File: ") {
            section(path, Change::Delete)
        } else if let Some(path) = header.strip_prefix("*** Update File: ") {
            let moves_to = self.peek().and_then(|line| line.trim().strip_prefix("*** Move to: "));
            let moves_to = moves_to.map(|target| target.trim().to_owned());
            self.at += usize::from(moves_to.is_some());
            let mut chunks = Vec::new();
            while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
                if line.trim().is_empty() && !chunks.is_empty() {
                    self.at += 1;
                } else {
                    chunks.push(self.chunk(chunks.is_empty())?);
                }
            }
            if chunks.is_empty() && moves_to.is_none() {
                return self.complaint(format_args!("the update of '{}' changes nothing", path.trim()));
            }
            section(path, Change::Update { moves_to, chunks })
        } else {
            self.complaint(format_args!(
                "'{header}' does not begin a section: '*** Add File: ', '*** Delete File: ' or '*** Update File: ' does"
            ))
        }
    }

    /// Parses one chunk. The first of a section may omit its marker.
    fn chunk(&mut self, is_first: bool) -> Result<Chunk, String> {
        let mut chunk = Chunk::default();
        match self.peek().map(str::trim_end) {
            Some("@@") => self.at += 1,
            Some(marker) if marker.starts_with("@@ ") => {
                chunk.context = Some(marker[3..].to_owned());
                self.at += 1;
            }
            Some(line) if !is_first => {
                self.at += 1;
                return self.complaint(format_args!("'{line}' where a chunk should begin with '@@'"));
            }
            _ => {}
        }
        let begun = self.at;
        while let Some(line) = self.peek() {
            if line.trim_end() == "*** End of File" && self.at > begun {
                chunk.is_at_end = true;
                self.at += 1;
                break;
            }
            let kind = line.chars().next();
            match kind {
                // Editors may remove the space of an empty context line.
                None => {
                    chunk.old.push(String::new());
                    chunk.new.push(String::new());
                }
                Some(' ') => {
                    chunk.old.push(line[1..].to_owned());
                    chunk.new.push(line[1..].to_owned());
                }
                Some('-') => chunk.old.push(line[1..].to_owned()),
                Some('+') => chunk.new.push(line[1..].to_owned()),
                Some(_) if self.at > begun => break,
                Some(_) => {
                    self.at += 1;
                    return self.complaint(format_args!("'{line}' begins with neither a blank nor '-' nor '+'"));
                }
            }
            self.at += 1;
        }
        if self.at == begun { self.complaint("a chunk has no lines") } else { Ok(chunk) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(inner: &str) -> String {
        format!("*** Begin Patch\n{inner}\n*** End Patch")
    }

    #[test]
    fn all_kinds_of_sections_are_read() {
        let patch = wrap(
            "*** Add File: a.txt\n+one\n+\n*** Delete File: b.txt\n*** Update File: c.txt\n*** Move to: d.txt\n\
             @@ fn f()\n x\n-y\n+z\n@@\n+end\n*** End of File",
        );
        let chunks = vec![
            Chunk {
                context: Some("fn f()".into()),
                old: vec!["x".into(), "y".into()],
                new: vec!["x".into(), "z".into()],
                is_at_end: false,
            },
            Chunk { new: vec!["end".into()], is_at_end: true, ..Chunk::default() },
        ];
        let expected = [
            Section { path: "a.txt".into(), change: Change::Add(vec!["one".into(), String::new()]) },
            Section { path: "b.txt".into(), change: Change::Delete },
            Section { path: "c.txt".into(), change: Change::Update { moves_to: Some("d.txt".into()), chunks } },
        ];
        assert_eq!(parse(&patch).unwrap(), expected);
        assert_eq!(parse(&format!("<<'EOF'\n{patch}\nEOF\n")).unwrap(), expected);
    }

    #[test]
    fn invalid_patches_are_refused_with_their_line() {
        assert_eq!(parse("nonsense").unwrap_err(), "The first line of the patch must be '*** Begin Patch'");
        assert_eq!(parse("*** Begin Patch\nx").unwrap_err(), "The last line of the patch must be '*** End Patch'");
        assert_eq!(parse("*** Begin Patch").unwrap_err(), "The last line of the patch must be '*** End Patch'");
        for (inner, complaint) in [
            ("hello", "line 2: 'hello' does not begin a section"),
            ("*** Update File: a", "line 2: the update of 'a' changes nothing"),
            ("*** Update File: a\n@@", "line 3: a chunk has no lines"),
            ("*** Update File: a\n@@\n?", "line 4: '?' begins with neither"),
            ("*** Update File: a\n@@\n+x\nfoo", "line 5: 'foo' where a chunk should begin"),
        ] {
            let error = parse(&wrap(inner)).unwrap_err();
            assert!(error.starts_with(complaint), "{inner:?}: {error}");
        }
        assert_eq!(parse(&wrap("")), Ok(Vec::new()));
    }
}
