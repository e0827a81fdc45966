//! Reads a recording line by line, also one that is damaged, hostile or still being written.

use std::io::{self, BufRead};

use crate::entry::{Entry, Header, NotARecording};

/// The longest line that is read, in bytes: the longest message, and the members around it.
pub const MAX_LINE: usize = 17 * 1024 * 1024;

/// The reader of one file. Lines are numbered from 1, the header included.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    header: Header,
    /// The bytes of the current line so far, at most [`MAX_LINE`] plus one.
    line: Vec<u8>,
    is_too_long: bool,
    /// The number of the last complete line.
    number: u64,
}

/// A line after the header: its number, and the entry or the reason why it is none.
pub type NumberedEntry = (u64, Result<Entry, NotARecording>);

/// A file that cannot be read as a recording.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read at all.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The first line is no header of this format.
    #[error(transparent)]
    NotARecording(#[from] NotARecording),
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// If the source cannot be read, or its first line is no header of this format.
    pub fn open(source: R) -> Result<Self, OpenError> {
        let header = Header { format: 0, version: String::new(), started_ms: 0, command: Vec::new(), part: 1 };
        let mut reader = Self { source, header, line: Vec::new(), is_too_long: false, number: 0 };
        // A header without a line break is complete if it can be parsed.
        reader.fill()?;
        if reader.is_too_long {
            return Err(NotARecording::NoHeader.into());
        }
        reader.header = Header::parse(&reader.text())?;
        reader.next();
        Ok(reader)
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The source, for more bytes of a recording that grows.
    pub fn source_mut(&mut self) -> &mut R {
        &mut self.source
    }

    /// The next complete line that is not blank. `None`: the source has no other complete line now. If the source is a
    /// file that grows, a later call continues.
    ///
    /// # Errors
    ///
    /// If the source cannot be read.
    pub fn next_entry(&mut self) -> io::Result<Option<NumberedEntry>> {
        while self.fill()? {
            let entry = self.parsed();
            self.next();
            if let Some(entry) = entry {
                return Ok(Some((self.number, entry)));
            }
        }
        Ok(None)
    }

    /// The last line of a file that does not grow, if the file does not end with a line break: an entry, or the error of
    /// a line that was cut off.
    pub fn last_entry(&mut self) -> Option<NumberedEntry> {
        let entry = self.parsed()?;
        self.next();
        Some((self.number, entry.map_err(|_| NotARecording::CutOff)))
    }

    /// Appends bytes to the current line. Returns whether the line is complete.
    fn fill(&mut self) -> io::Result<bool> {
        loop {
            let available = match self.source.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            if available.is_empty() {
                return Ok(false);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let bytes = &available[..end.unwrap_or(available.len())];
            self.is_too_long |= self.line.len() + bytes.len() > MAX_LINE;
            if !self.is_too_long {
                self.line.extend_from_slice(bytes);
            }
            let consumed = bytes.len() + usize::from(end.is_some());
            self.source.consume(consumed);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.line).trim().trim_start_matches('\u{feff}').to_owned()
    }

    fn parsed(&self) -> Option<Result<Entry, NotARecording>> {
        if self.is_too_long {
            return Some(Err(NotARecording::TooLong));
        }
        let text = self.text();
        (!text.is_empty()).then(|| Entry::parse(&text))
    }

    fn next(&mut self) {
        // One long line does not keep its memory for the rest of the file.
        self.line.clear();
        self.line.shrink_to(256 * 1024);
        self.is_too_long = false;
        self.number += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const HEADER: &str = "{\"gladhand_recording\":1,\"version\":\"0.1.0\",\"started_ms\":5}\n";
    const ENTRY: &str = "{\"ms\":1,\"session\":\"client-1\",\"from\":\"client\",\"message\":{\"id\":1}}";

    fn all(text: &str) -> Vec<(u64, Result<String, String>)> {
        let mut reader = Reader::open(text.as_bytes()).unwrap();
        let mut all = Vec::new();
        while let Some((line, entry)) = reader.next_entry().unwrap() {
            all.push((line, entry.map(|entry| entry.to_line()).map_err(|error| error.to_string())));
        }
        all.extend(
            reader
                .last_entry()
                .map(|(line, entry)| (line, entry.map(|entry| entry.to_line()).map_err(|error| error.to_string()))),
        );
        all
    }

    #[test]
    fn entries_have_the_numbers_of_their_lines() {
        let read = all(&format!("{HEADER}\r\n{ENTRY}\r\n\n{ENTRY}\n"));
        assert_eq!(read.iter().map(|(line, entry)| (*line, entry.is_ok())).collect::<Vec<_>>(), [(3, true), (5, true)]);
    }

    #[test]
    fn a_cut_last_line_is_reported_and_a_complete_one_is_read() {
        let read = all(&format!("{HEADER}{ENTRY}\n{}", &ENTRY[..30]));
        assert_eq!(read[0].0, 2);
        assert_eq!(read[1], (3, Err("the last line is cut off".to_owned())));
        assert!(all(&format!("{HEADER}{ENTRY}"))[0].1.is_ok());
        assert!(all(HEADER).is_empty());
        assert!(all(HEADER.trim_end()).is_empty());
    }

    #[test]
    fn a_bad_line_is_reported_and_the_next_one_is_read() {
        let deep = format!("{{\"ms\":1,\"from\":\"client\",\"message\":{}1{}}}", "[".repeat(9999), "]".repeat(9999));
        let bad = [
            "null".to_owned(),
            "{\"ms\":1}".to_owned(),
            "{\"ms\":1e999,\"event\":\"closed\"}".to_owned(),
            "{\"ms\":1,\"ms\":2,\"event\":\"closed\"}".to_owned(),
            "\u{1b}[2J<script>".to_owned(),
            "{\"ms\":1,\"event\":\"dropped\",\"frames\":-1}".to_owned(),
            format!("{{\"ms\":1,\"x\":{}", "[".repeat(100_000)),
        ];
        for line in bad {
            let read = all(&format!("{HEADER}{line}\n{ENTRY}\n"));
            assert_eq!(read.len(), 2, "{line}");
            assert!(read[0].1.is_err() && read[1].1.is_ok(), "{line}");
        }
        let read = all(&format!("{HEADER}{deep}\n{{\"ms\":-1e300,\"event\":\"closed\",\"new\":[1]}}\n"));
        assert!(read[0].1.is_ok() && read[1].1.is_ok(), "{read:?}");
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_with_bounded_memory() {
        let long = io::repeat(b'x').take(3 * MAX_LINE as u64);
        let text = HEADER.as_bytes().chain(io::BufReader::new(long)).chain(&b"\n"[..]);
        let rest = format!("{ENTRY}\n");
        let mut reader = Reader::open(io::BufReader::new(text.chain(rest.as_bytes()))).unwrap();
        assert!(matches!(reader.next_entry().unwrap(), Some((2, Err(NotARecording::TooLong)))));
        assert!(reader.line.capacity() <= MAX_LINE);
        assert!(matches!(reader.next_entry().unwrap(), Some((3, Ok(_)))));
    }

    #[test]
    fn a_file_that_grows_is_read_on() {
        let mut reader = Reader::open(io::Cursor::new(HEADER.as_bytes().to_vec())).unwrap();
        assert!(reader.next_entry().unwrap().is_none());
        reader.source.get_mut().extend_from_slice(&ENTRY.as_bytes()[..20]);
        assert!(reader.next_entry().unwrap().is_none());
        reader.source.get_mut().extend_from_slice(&ENTRY.as_bytes()[20..]);
        assert!(reader.next_entry().unwrap().is_none());
        reader.source.get_mut().push(b'\n');
        assert!(matches!(reader.next_entry().unwrap(), Some((2, Ok(_)))));
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "\n", "{}", "{\"gladhand_recording\":1}\n", "\u{0}\u{1}\u{2}", "{\"gladhand_recording\":9}\n"]
        {
            assert!(matches!(Reader::open(text.as_bytes()), Err(OpenError::NotARecording(_))), "{text}");
        }
    }
}
