//! Logs: to stderr only, without ever blocking a session.
//!
//! A host may start this process and never read its stderr, and a full pipe must not stop a session. Lines therefore go
//! through a bounded queue to a separate thread, and are counted and dropped when the queue is full. Payloads are never
//! logged, at any level, and each line is redacted: a peer may repeat a secret of ours.
//!
//! With `--log-format json` every line on stderr is a JSON object: log lines, and what commands say there ([`say`]),
//! errors of the command line included. [`choose`] therefore runs before the command line is parsed.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::invisible::{Layout, escape, escape_json};
use gladhand_redaction::redact_cut;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::utc;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Human,
    /// One JSON object per line.
    Json,
}

/// How much to log, from `-v`, `-q` and `GLADHAND_LOG`.
#[derive(Debug, Clone)]
pub struct LogChoice {
    /// `-v` given this many times, less `-q` given that many times.
    pub verbosity: i8,
    /// `GLADHAND_LOG`: `debug`, or `gladhand::edges=trace,warn`. It wins over the flags.
    pub filter: Option<String>,
    /// Whether the output is one answer. Warnings about names that two upstreams share are then shown with `-v` only.
    pub is_one_answer: bool,
    /// How lines look.
    pub format: LogFormat,
}

/// The part that logs refused claims on names.
const CLAIMS: &str = "gladhand_hub::claims";

/// `GLADHAND_LOG` could not be read.
#[derive(Debug, thiserror::Error)]
#[error("GLADHAND_LOG is not a log filter: {0}")]
pub struct BadFilter(String);

/// Lines that may wait for stderr.
const QUEUE: usize = 1024;

/// How long the end of the process waits for the last log lines.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How lines on stderr look in this process.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Finds the format in the arguments of a command line that is not parsed yet, and keeps it for the whole process.
pub fn choose(words: impl Iterator<Item = OsString>) {
    // Words behind `--` are for another program.
    let mut words = words.take_while(|word| word != "--").peekable();
    let mut is_json = false;
    while let Some(word) = words.next() {
        is_json |= word == "--log-format=json"
            || (word == "--log-format" && words.peek().is_some_and(|format| format == "json"));
    }
    // The first choice holds.
    let _ = FORMAT.set(if is_json { LogFormat::Json } else { LogFormat::Human });
}

/// Whether everything on stderr is JSON.
pub fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}

/// Writes something to stderr that is not subject to the log level: as JSON if that was chosen, else the human text as it
/// stands. `fields` are members beside the message.
pub fn say(level: Level, message: &str, fields: &[(&str, &str)], human: &str) {
    let text = if is_json() { json_line(level, message, fields) } else { human.as_bytes().to_vec() };
    let mut held = HELD.lock().unpoisoned();
    if !held.keep(&text) {
        // A reader that has closed stderr misses the line and nothing else. In one write: no other line comes between.
        let _ = anstream::stderr().write_all(&text);
    }
}

/// Lines that wait until the user has answered a question.
static HELD: Mutex<Held> = Mutex::new(Held { questions: 0, lines: Vec::new(), lost: 0 });

struct Held {
    /// How many questions are open.
    questions: usize,
    lines: Vec<Vec<u8>>,
    /// Lines that did not fit.
    lost: u64,
}

impl Held {
    /// Keeps a line for later if a question is open; whether it did.
    fn keep(&mut self, line: &[u8]) -> bool {
        if self.questions > 0 {
            match self.lines.len() {
                ..QUEUE => self.lines.push(line.to_vec()),
                _ => self.lost += 1,
            }
        }
        self.questions > 0
    }

    /// Writes the lines that were kept.
    fn release(&mut self) {
        for line in self.lines.drain(..) {
            let _ = anstream::stderr().write_all(&line);
        }
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            let format = FORMAT.get().copied().unwrap_or(LogFormat::Human);
            write_patiently(&lost_lines(lost, "they came while a question was open", format));
        }
    }
}

/// An open question at the terminal: nothing else is written to stderr until it is dropped.
#[derive(Debug)]
pub struct OpenQuestion(());

impl OpenQuestion {
    /// Holds back all lines for stderr.
    pub fn new() -> Self {
        HELD.lock().unpoisoned().questions += 1;
        Self(())
    }
}

impl Default for OpenQuestion {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut held = HELD.lock().unpoisoned();
        held.questions = held.questions.saturating_sub(1);
        if held.questions == 0 {
            held.release();
        }
    }
}

/// A line in the form that `tracing` writes.
fn json_line(level: Level, message: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut all = serde_json::Map::from_iter([("message".to_owned(), Value::from(message.trim_end()))]);
    all.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))));
    let line = json!({"timestamp": utc::now(), "level": level.as_str(), "fields": all, "target": "gladhand"});
    harmless_json(line.to_string().as_bytes())
}

/// Starts logging. Keep the guard: dropping it writes what is left, if stderr takes it.
pub fn start(choice: &LogChoice) -> Result<LogGuard, BadFilter> {
    let targets = match choice.filter.as_deref().map(str::trim).filter(|filter| !filter.is_empty()) {
        Some(filter) => filter.parse::<Targets>().map_err(|error| BadFilter(error.to_string()))?,
        None if choice.is_one_answer && choice.verbosity == 0 => {
            Targets::new().with_default(LevelFilter::WARN).with_target(CLAIMS, LevelFilter::ERROR)
        }
        None => Targets::new().with_default(match choice.verbosity {
            ..=-2 => LevelFilter::OFF,
            -1 => LevelFilter::ERROR,
            0 => LevelFilter::WARN,
            1 => LevelFilter::INFO,
            2 => LevelFilter::DEBUG,
            3.. => LevelFilter::TRACE,
        }),
    };
    let writer = Lossy::new(choice.format);
    let guard = LogGuard(writer.clone());
    let registry = tracing_subscriber::registry().with(targets);
    match choice.format {
        LogFormat::Json => {
            registry.with(tracing_subscriber::fmt::layer().json().with_timer(Timer).with_writer(writer)).init();
        }
        LogFormat::Human => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .with_timer(Timer)
                    .with_target(false)
                    .with_ansi(
                        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty()),
                    )
                    .with_writer(writer),
            )
            .init(),
    }
    Ok(guard)
}

/// The time on every line.
struct Timer;

impl FormatTime for Timer {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        line.write_str(&utc::now())
    }
}

/// Flushes the log when it is dropped, within bounds.
#[derive(Debug)]
pub struct LogGuard(Lossy);

impl Drop for LogGuard {
    fn drop(&mut self) {
        // A question may still be open when the process ends. The lock is taken only if stderr is not read.
        if let Ok(mut held) = HELD.try_lock() {
            held.questions = 0;
            held.release();
        }
        let (done, written) = sync_channel(1);
        if self.0.send(LogMessage::Flush(done)) {
            // Timed out or gone: stderr is not being read, and that is its reader's choice.
            let _: Result<(), RecvTimeoutError> = written.recv_timeout(LAST_WORDS);
        }
    }
}

enum LogMessage {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// A writer that never blocks: lines that do not fit are dropped and counted.
#[derive(Clone)]
struct Lossy {
    /// The thread is started by the first line, so that a silent process has none.
    queue: Arc<OnceLock<SyncSender<LogMessage>>>,
    format: LogFormat,
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lossy").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

impl Lossy {
    fn new(format: LogFormat) -> Self {
        Self { queue: Arc::default(), format, dropped: Arc::default() }
    }

    fn send(&self, message: LogMessage) -> bool {
        let starts = matches!(message, LogMessage::Line(_));
        let queue = if starts { Some(self.queue.get_or_init(|| self.start_thread())) } else { self.queue.get() };
        match queue.map(|queue| queue.try_send(message)) {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_))) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                false
            }
            Some(Err(TrySendError::Disconnected(_))) | None => false,
        }
    }

    fn start_thread(&self) -> SyncSender<LogMessage> {
        let (sender, receiver) = sync_channel(QUEUE);
        let (dropped, format) = (Arc::clone(&self.dropped), self.format);
        // If no thread can be had, the receiver is gone and lines are dropped.
        let _ = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            while let Ok(message) = receiver.recv() {
                match message {
                    LogMessage::Line(line) => {
                        let mut held = HELD.lock().unpoisoned();
                        if !held.keep(&line) {
                            write_patiently(&line);
                        }
                    }
                    LogMessage::Flush(done) => {
                        let _ = done.try_send(());
                    }
                }
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    write_patiently(&lost_lines(lost, "stderr is read too slowly", format));
                }
            }
        });
        sender
    }
}

/// Says that lines were dropped, as a log line.
fn lost_lines(lost: u64, why: &str, format: LogFormat) -> Vec<u8> {
    let message = format!("{lost} log lines dropped, {why}");
    match format {
        LogFormat::Json => json_line(Level::WARN, &message, &[]),
        LogFormat::Human => format!("{}  WARN {message}\n", utc::now()).into_bytes(),
    }
}

/// Writes to stderr, which may be non-blocking if it shares its open file with our stdout.
fn write_patiently(mut bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    while !bytes.is_empty() {
        match stderr.write(bytes) {
            Ok(0) => return,
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(5)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// The longest log line; what a peer says of itself may be longer.
const LONGEST_LINE: usize = 4096;

/// One log line without secrets. Line breaks, control and invisible characters from a peer are escaped, so that they
/// can neither forge a second line nor reach the terminal. Our own colours pass.
fn harmless(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    // Before it is cut: half a secret would not be found.
    let whole = redact_cut(&text);
    let mut text = whole.trim_end_matches('\n');
    if text.len() > LONGEST_LINE {
        text = &text[..text.floor_char_boundary(LONGEST_LINE)];
    }
    let mut kept = String::with_capacity(text.len() + 8);
    for (at, piece) in text.split('\u{1b}').enumerate() {
        let colour = (at > 0).then(|| colour(piece)).flatten().unwrap_or_default();
        match (at, colour) {
            (0, _) => {}
            (_, "") => kept.push_str("\\u{1b}"),
            (_, colour) => kept.extend(["\u{1b}", colour]),
        }
        kept.push_str(&escape(&piece[colour.len()..], Layout::Line));
    }
    if text.len() < whole.trim_end_matches('\n').len() {
        kept.push('…');
    }
    kept.push('\n');
    kept.into_bytes()
}

/// The same for a line that is a JSON object, which stays one: long strings are cut, not the line.
fn harmless_json(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let whole = redact_cut(text.trim_end_matches('\n'));
    let is_whole = whole.len() <= LONGEST_LINE && serde_json::from_str::<IgnoredAny>(&whole).is_ok();
    let mut kept = if is_whole { escape_json(&whole).into_owned() } else { shortened(&text) };
    kept.push('\n');
    kept.into_bytes()
}

/// A JSON object with its strings redacted one by one and cut.
fn shortened(line: &str) -> String {
    const LONGEST_FIELD: usize = 1024;
    fn shorten(value: &mut Value, room: usize) {
        match value {
            Value::String(text) => {
                let redacted = redact_cut(text);
                let cut = &redacted[..redacted.floor_char_boundary(room)];
                let more = if cut.len() < redacted.len() { "…" } else { "" };
                *text = format!("{cut}{more}");
            }
            Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, room)),
            Value::Object(members) => members.values_mut().for_each(|member| shorten(member, room)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    // Every line was written as JSON before.
    let mut value = serde_json::from_str(line).unwrap_or_else(|_| json!({}));
    for room in [LONGEST_FIELD, LONGEST_FIELD / 16] {
        shorten(&mut value, room);
        let text = value.to_string();
        let text = escape_json(&text);
        if text.len() <= LONGEST_LINE {
            return text.into_owned();
        }
    }
    // Many fields, or many escapes: only what every line has stays.
    let message = value["fields"]["message"].take();
    let (timestamp, level, target) = (value["timestamp"].take(), value["level"].take(), value["target"].take());
    let line = json!({"timestamp": timestamp, "level": level, "fields": {"message": message}, "target": target});
    escape_json(&line.to_string()).into_owned()
}

/// The rest of a sequence that changes the colour, if that is what follows an escape character.
fn colour(text: &str) -> Option<&str> {
    let codes = text.strip_prefix('[')?;
    let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    codes[end..].starts_with('m').then(|| &text[..end + 2])
}

/// Collects one event and sends it as one line.
struct LineWriter<'l> {
    lossy: &'l Lossy,
    line: Vec<u8>,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LineWriter<'_> {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            let line = match self.lossy.format {
                LogFormat::Human => harmless(&self.line),
                LogFormat::Json => harmless_json(&self.line),
            };
            self.lossy.send(LogMessage::Line(line));
        }
    }
}

impl<'l> MakeWriter<'l> for Lossy {
    type Writer = LineWriter<'l>;

    fn make_writer(&'l self) -> Self::Writer {
        LineWriter { lossy: self, line: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_can_neither_forge_lines_nor_reach_the_terminal() {
        let line = "\u{1b}[33m WARN\u{1b}[0m name=a\nERROR b\u{1b}]0;x\u{7}\u{1b}[2J\u{9b}1m\n";
        let shown = "\u{1b}[33m WARN\u{1b}[0m name=a\\nERROR b\\u{1b}]0;x\\u{7}\\u{1b}[2J\\u{9b}1m\n";
        assert_eq!(String::from_utf8(harmless(line.as_bytes())).unwrap(), shown);
        assert!(harmless(&vec![b'x'; 1 << 20]).len() < LONGEST_LINE + 8);
    }

    #[test]
    fn a_json_log_line_stays_valid_with_any_text_of_a_peer() {
        let long = |length: usize| "ü\u{202e}\u{1b}\"\n".repeat(length);
        for (message, fields) in [("x\u{202e}y".to_owned(), 1), (long(10_000), 1), (long(100), 200)] {
            let fields: serde_json::Map<_, _> = (0..fields)
                .map(|number| (format!("field{number}"), Value::from(long(20))))
                .chain([("message".to_owned(), Value::from(message.as_str()))])
                .collect();
            let line = json!({"timestamp": "now", "level": "INFO", "fields": fields, "target": "t"}).to_string();
            let kept = String::from_utf8(harmless_json(line.as_bytes())).unwrap();
            let read: Value = serde_json::from_str(&kept).expect("JSON");
            assert!(kept.len() <= LONGEST_LINE + 1 && kept.ends_with('\n'), "{} bytes", kept.len());
            assert!(!kept.contains(['\u{202e}', '\u{1b}']) && kept.matches('\n').count() == 1, "{kept:?}");
            let said = read["fields"]["message"].as_str().expect("a message");
            assert!(message.starts_with(said.trim_end_matches('…')) && !said.is_empty(), "{said:?}");
        }
    }

    #[test]
    fn a_message_of_a_command_has_the_form_of_a_log_line() {
        let line: Value = serde_json::from_slice(&json_line(Level::ERROR, "no\n", &[("hint", "yes")])).unwrap();
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["fields"], json!({"message": "no", "hint": "yes"}));
        assert!(line["timestamp"].is_string() && line["target"].is_string(), "{line}");
    }
}
