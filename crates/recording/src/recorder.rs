//! Writes a recording, entry by entry.

use std::fmt;
use std::io::{self, Write};

use serde_json::value::RawValue;

use crate::{Entry, EntryKind, Header, Sender};

/// Removes secrets from an entry before it is written.
pub type Mask = Box<dyn FnMut(&mut Entry) + Send>;

/// Begins the part with this number, and returns where to write it. It is called again if it fails.
pub type BeginPart<W> = Box<dyn FnMut(u32) -> io::Result<W> + Send>;

/// Maximum size of the entries that are collected, in bytes. More are written at once.
const MAX_COLLECTED: usize = 64 * 1024;

/// Writes the entries of a recording, each in one line and at once, or many at once ([`Self::collect`]).
///
/// A part that is full is followed by another one, which begins with a header of its own. If a line cannot be written,
/// the entry is dropped. Once writing works again, an entry [`EntryKind::Dropped`] tells how many are missing.
pub struct Recorder<W> {
    header: Header,
    /// Size of a part, in bytes. A part with one entry may be larger.
    max_bytes: u64,
    begin_part: BeginPart<W>,
    mask: Mask,
    part: W,
    /// The size of the part.
    bytes: u64,
    /// The size of the part when it had its header only. 0: it has no header yet.
    header_bytes: u64,
    /// The lines that are collected, or the rest of a line that was written in part. It precedes the next line, so that no
    /// line is broken.
    unwritten: Vec<u8>,
    is_collecting: bool,
    dropped: u64,
}

impl<W> fmt::Debug for Recorder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("header", &self.header).field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

impl<W: Write> Recorder<W> {
    /// Begins a recording: writes the header of its first part.
    ///
    /// # Errors
    ///
    /// If the part cannot be begun or written.
    pub fn begin(header: Header, max_bytes: u64, mut begin_part: BeginPart<W>, mask: Mask) -> io::Result<Self> {
        let part = begin_part(header.part)?;
        let mut recorder = Self {
            header,
            max_bytes,
            begin_part,
            mask,
            part,
            bytes: 0,
            header_bytes: 0,
            unwritten: Vec::new(),
            is_collecting: false,
            dropped: 0,
        };
        recorder.write_header()?;
        Ok(recorder)
    }

    /// Masks an entry and writes it.
    ///
    /// # Errors
    ///
    /// If it cannot be written now. The recorder can be used further.
    pub fn record(&mut self, mut entry: Entry) -> io::Result<()> {
        (self.mask)(&mut entry);
        let written = self.write_dropped(entry.ms).and_then(|()| self.write_line(entry.into_line()));
        if written.is_err() {
            self.dropped += 1;
        }
        written
    }

    /// Collects entries from now on, up to a size, until [`Self::flush`].
    pub fn collect(&mut self) {
        self.is_collecting = true;
    }

    /// Writes the collected entries.
    ///
    /// # Errors
    ///
    /// If they cannot be written now. They precede the next entry.
    pub fn flush(&mut self) -> io::Result<()> {
        self.is_collecting = false;
        self.finish_line()
    }

    /// Counts entries that did not reach the recorder.
    pub fn count_dropped(&mut self, entries: u64) {
        self.dropped += entries;
    }

    /// Writes what is left: the rest of a line, and how many entries were dropped since the last one.
    ///
    /// # Errors
    ///
    /// If it cannot be written now.
    pub fn finish(&mut self, ms: f64) -> io::Result<()> {
        self.is_collecting = false;
        self.write_dropped(ms)?;
        self.finish_line()
    }

    fn write_dropped(&mut self, ms: f64) -> io::Result<()> {
        if self.dropped > 0 {
            let entry = Entry { ms, session: None, kind: EntryKind::Dropped(self.dropped) };
            self.write_line(entry.into_line())?;
            self.dropped = 0;
        }
        Ok(())
    }

    fn write_line(&mut self, mut line: String) -> io::Result<()> {
        line.push('\n');
        let bytes = self.bytes + self.unwritten.len() as u64;
        if bytes > self.header_bytes && bytes + line.len() as u64 > self.max_bytes {
            self.finish_line()?;
            self.part = (self.begin_part)(self.header.part + 1)?;
            self.header.part += 1;
            (self.bytes, self.header_bytes) = (0, 0);
        }
        if self.header_bytes == 0 {
            self.write_header()?;
        }
        self.write_bytes(line.as_bytes())
    }

    fn write_header(&mut self) -> io::Result<()> {
        let line = self.header.to_line() + "\n";
        self.write_bytes(line.as_bytes())?;
        self.header_bytes = line.len() as u64;
        Ok(())
    }

    /// Writes a line after the rest of the one before. If only a part of it can be written, the rest is kept, and the next
    /// line has the error.
    fn write_bytes(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_collecting && self.unwritten.len() + line.len() <= MAX_COLLECTED {
            self.unwritten.extend_from_slice(line);
            return Ok(());
        }
        self.finish_line()?;
        let (written, result) = self.write_some(line);
        if written == 0 {
            return result;
        }
        self.unwritten = line[written..].to_vec();
        Ok(())
    }

    fn finish_line(&mut self) -> io::Result<()> {
        let mut rest = std::mem::take(&mut self.unwritten);
        let (written, result) = self.write_some(&rest);
        rest.drain(..written);
        self.unwritten = rest;
        result
    }

    /// Writes as many bytes as possible. Returns their number, and the error that prevented more.
    fn write_some(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < bytes.len() {
            match self.part.write(&bytes[written..]) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => {
                    written += more;
                    self.bytes += more as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }
}

impl EntryKind {
    /// The entry for a line: a message if it is JSON, else text. `None` for a blank line.
    pub fn of_line(from: Sender, line: &[u8], dialect: Option<&str>, kind: Option<&str>) -> Option<Self> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        let message: Option<&RawValue> = serde_json::from_slice(line).ok();
        let Some(message) = message else {
            return Some(Self::Text { from, is_stderr: false, text: String::from_utf8_lossy(line).into_owned() });
        };
        let message = match message.get().contains(['\n', '\r']) {
            // Over HTTP a message may have line breaks, between its tokens only.
            true => RawValue::from_string(message.get().replace(['\n', '\r'], " ")).ok()?,
            false => message.to_owned(),
        };
        Some(Self::Message { from, dialect: dialect.map(str::to_owned), kind: kind.map(str::to_owned), message })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{FORMAT, SessionEnd};

    /// The parts that were written. Each write takes as many bytes as there is room.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<Vec<u8>>, usize)>>);

    struct Part(Disk, usize);

    impl Write for Part {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.0.lock().unwrap();
            let length = bytes.len().min(disk.1);
            if length == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.1 -= length;
            disk.0[self.1].extend(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Disk {
        fn recorder(&self, max_bytes: u64, mask: Mask) -> Recorder<Part> {
            let header =
                Header { format: FORMAT, version: "0".to_owned(), started_ms: 1, command: Vec::new(), part: 1 };
            let disk = self.clone();
            let begin: BeginPart<Part> = Box::new(move |part| {
                let mut parts = disk.0.lock().unwrap();
                parts.0.push(Vec::new());
                assert_eq!(parts.0.len(), part as usize);
                Ok(Part(disk.clone(), part as usize - 1))
            });
            Recorder::begin(header, max_bytes, begin, mask).unwrap()
        }

        fn has_room(&self, bytes: usize) {
            self.0.lock().unwrap().1 = bytes;
        }

        fn parts(&self) -> Vec<String> {
            self.0.lock().unwrap().0.iter().map(|part| String::from_utf8(part.clone()).unwrap()).collect()
        }
    }

    fn text(text: &str) -> Entry {
        let kind = EntryKind::Text { from: Sender::Server, is_stderr: false, text: text.to_owned() };
        Entry { ms: 1.5, session: None, kind }
    }

    #[test]
    fn collected_entries_are_written_together_and_within_their_part() {
        let disk = Disk::default();
        disk.has_room(usize::MAX);
        let mut recorder = disk.recorder(200, Box::new(|_| {}));
        recorder.collect();
        recorder.record(text("a")).unwrap();
        assert_eq!(disk.parts()[0].lines().count(), 1, "the header only");
        recorder.record(text("b")).unwrap();
        recorder.flush().unwrap();
        assert_eq!(disk.parts()[0].lines().count(), 3);
        recorder.collect();
        (0..20).for_each(|_| recorder.record(text("c")).unwrap());
        recorder.flush().unwrap();
        let parts = disk.parts();
        assert!(parts.iter().all(|part| part.len() <= 200 && part.ends_with('\n')), "{parts:?}");
        let lines: usize = parts.iter().map(|part| part.lines().count() - 1).sum();
        assert_eq!(lines, 22);
    }

    #[test]
    fn collected_entries_that_cannot_be_written_are_written_later() {
        let disk = Disk::default();
        disk.has_room(usize::MAX);
        let mut recorder = disk.recorder(1 << 20, Box::new(|_| {}));
        disk.has_room(10);
        recorder.collect();
        recorder.record(text("a")).unwrap();
        recorder.record(text("b")).unwrap();
        assert!(recorder.flush().is_err());
        assert!(recorder.record(text("lost")).is_err());
        disk.has_room(usize::MAX);
        recorder.record(text("c")).unwrap();
        let part = disk.parts().remove(0);
        let texts: Vec<_> = part.lines().skip(1).map(|line| Entry::parse(line).unwrap().kind).collect();
        assert!(
            matches!(&texts[..], [
            EntryKind::Text { text: a, .. },
            EntryKind::Text { text: b, .. },
            EntryKind::Dropped(1),
            EntryKind::Text { text: c, .. },
        ] if (a.as_str(), b.as_str(), c.as_str()) == ("a", "b", "c")),
            "{texts:?}"
        );
    }

    #[test]
    fn each_part_has_a_header_and_no_more_bytes_than_allowed() {
        let disk = Disk::default();
        disk.has_room(usize::MAX);
        let mut recorder = disk.recorder(200, Box::new(|_| {}));
        for number in 0..10 {
            recorder.record(text(&format!("line {number}"))).unwrap();
        }
        recorder.record(text(&"x".repeat(1000))).unwrap();
        let parts = disk.parts();
        let (last, others) = parts.split_last().unwrap();
        assert!(others.len() > 2 && others.iter().all(|part| part.len() <= 200), "{parts:?}");
        assert_eq!(last.lines().count(), 2, "an entry that is too large for any part has one of its own");
        for (number, part) in (1..).zip(&parts) {
            assert_eq!(Header::parse(part.lines().next().unwrap()).unwrap().part, number);
            assert!(part.lines().skip(1).all(|line| Entry::parse(line).is_ok()));
        }
    }

    #[test]
    fn recording_resumes_after_the_disk_was_full_and_no_line_is_broken() {
        for (room, max_bytes) in (0..150).flat_map(|room| [(room, 10_000), (room, 150)]) {
            let disk = Disk::default();
            disk.has_room(usize::MAX);
            let mut recorder = disk.recorder(max_bytes, Box::new(|_| {}));
            // The disk is full, and has a little room now and then.
            let record = |number| {
                disk.has_room(if number % 2 == 0 { room } else { 0 });
                recorder.record(text(&format!("lost {number}")))
            };
            let failed = (0..5).map(record).filter(Result::is_err).count();
            assert!(failed > 0, "{room}");
            disk.has_room(usize::MAX);
            recorder.record(text("back")).unwrap();
            let part: String = disk.parts().concat();
            let lines = part.lines().filter(|line| Header::parse(line).is_err());
            let entries: Vec<_> = lines.map(|line| Entry::parse(line).unwrap().kind).collect();
            let dropped: u64 = entries.iter().map(|kind| if let EntryKind::Dropped(n) = kind { *n } else { 0 }).sum();
            let texts = entries.iter().filter(|kind| matches!(kind, EntryKind::Text { .. })).count();
            assert_eq!(texts as u64 + dropped, 6, "room {room}: {part}");
            assert!(part.ends_with("\"back\"}\n"), "{part}");
            for part in disk.parts().iter().filter(|part| !part.is_empty()) {
                assert!(part.lines().next().is_some_and(|line| Header::parse(line).is_ok()), "room {room}: {part}");
            }
        }
    }

    #[test]
    fn entries_are_masked_and_those_that_never_came_are_counted() {
        let disk = Disk::default();
        disk.has_room(usize::MAX);
        let mut recorder = disk.recorder(
            10_000,
            Box::new(|entry| entry.kind = EntryKind::Closed(SessionEnd { reason: Some("masked".to_owned()) })),
        );
        recorder.count_dropped(3);
        recorder.record(text("secret")).unwrap();
        recorder.count_dropped(1);
        recorder.finish(2.0).unwrap();
        let part = disk.parts().remove(0);
        let lines: Vec<_> = part.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                r#"{"ms":1.5,"event":"dropped","frames":3}"#,
                r#"{"ms":1.5,"event":"closed","reason":"masked"}"#,
                r#"{"ms":2.0,"event":"dropped","frames":1}"#,
            ]
        );
    }

    #[test]
    fn a_line_is_a_message_if_it_is_json() {
        let line = |line: &[u8]| {
            let kind = EntryKind::of_line(Sender::Client, line, None, Some("request"))?;
            Some(Entry { ms: 0.0, session: None, kind }.to_line())
        };
        assert_eq!(line(b" \r"), None);
        assert_eq!(
            line(b"{\"id\": 1.0,\r\n \"a\":\"b\\n\"}\r").unwrap(),
            r#"{"ms":0.0,"from":"client","kind":"request","message":{"id": 1.0,   "a":"b\n"}}"#
        );
        assert_eq!(line(b"{\xff").unwrap(), "{\"ms\":0.0,\"from\":\"client\",\"text\":\"{\u{fffd}\"}");
    }
}
