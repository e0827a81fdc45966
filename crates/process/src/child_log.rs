//! Copies the stderr of a child process to our log: line by line, under its name, with a limit on the rate.

use std::time::Instant;

use gladhand_redaction::redact;

/// How many lines may come at once.
const BURST: f64 = 200.0;

/// How many lines a second are taken in the long run.
const RATE: f64 = 50.0;

/// The longest line that is logged whole.
const LONGEST: usize = 2000;

/// How much more of a line is kept until it is redacted, so that a secret at its cut is whole.
const SPARE: usize = 4096;

/// The log of one child.
#[derive(Debug)]
pub struct ChildLog {
    name: String,
    /// A line whose end has not come yet.
    beginning: String,
    allowed: f64,
    last: Instant,
    left_out: u64,
}

impl ChildLog {
    /// For a child of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), beginning: String::new(), allowed: BURST, last: Instant::now(), left_out: 0 }
    }

    /// The child wrote something.
    pub fn write(&mut self, text: &str) {
        for (line, left_out) in self.lines(text, Instant::now()) {
            if left_out > 0 {
                tracing::warn!(upstream = self.name, lines = left_out, "stderr was left out: too much of it");
            }
            tracing::info!(upstream = self.name, "stderr: {line}");
        }
    }

    /// The lines that are to be logged, each with how many before it are not.
    fn lines(&mut self, text: &str, now: Instant) -> Vec<(String, u64)> {
        self.allowed = (self.allowed + now.duration_since(self.last).as_secs_f64() * RATE).min(BURST);
        self.last = now;
        let mut taken = Vec::new();
        for piece in text.split_inclusive('\n') {
            let room = (LONGEST + SPARE).saturating_sub(self.beginning.len());
            self.beginning.extend(piece.trim_end_matches('\n').chars().take(room));
            if !piece.ends_with('\n') {
                continue;
            }
            let line = std::mem::take(&mut self.beginning);
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            if self.allowed < 1.0 {
                self.left_out += 1;
                continue;
            }
            self.allowed -= 1.0;
            let line = redact(line).chars().take(LONGEST).collect();
            taken.push((line, std::mem::take(&mut self.left_out)));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn pieces_become_lines() {
        let (mut log, now) = (ChildLog::new("c"), Instant::now());
        assert_eq!(log.lines("hal", now), []);
        assert_eq!(log.lines("lo\r\n\nwor", now), [("hallo".to_owned(), 0)]);
        assert_eq!(log.lines("ld\n", now), [("world".to_owned(), 0)]);
        let endless = "x".repeat(10 * LONGEST);
        assert_eq!(log.lines(&endless, now), []);
        assert_eq!(log.lines(&(endless + "\n"), now)[0].0.len(), LONGEST);
    }

    #[test]
    fn a_flood_is_left_out_and_counted() {
        let (mut log, now) = (ChildLog::new("c"), Instant::now());
        assert_eq!(log.lines(&"x\n".repeat(1000), now).len(), 200);
        let later = now + Duration::from_secs(1);
        let lines = log.lines(&"y\n".repeat(100), later);
        assert_eq!((lines.len(), lines[0].1, lines[1].1), (50, 800, 0));
    }
}
