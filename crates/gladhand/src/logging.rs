//! Logs: to stderr only, never in the way.
//!
//! A host may start us and never read our stderr, and a full pipe must not stop a session; so lines
//! go through a bounded queue to a thread of their own, and are counted and dropped when the queue
//! is full. Payloads are never logged, at any level, and each line is redacted: a peer may repeat a secret of ours.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use gladhand_redaction::redact;
use gladhand_wire::invisible::{Layout, escape};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// How much to log, from `-v`, `-q` and `GLADHAND_LOG`.
#[derive(Debug, Clone)]
pub struct LogChoice {
    /// `-v` given this many times, less `-q` given that many times.
    pub verbosity: i8,
    /// `GLADHAND_LOG`: `debug`, or `gladhand::edges=trace,warn`. It wins over the flags.
    pub filter: Option<String>,
    /// How lines look.
    pub format: LogFormat,
}

/// `GLADHAND_LOG` could not be read.
#[derive(Debug, thiserror::Error)]
#[error("GLADHAND_LOG is not a log filter: {0}")]
pub struct BadFilter(String);

/// Lines that may wait for stderr.
const QUEUE: usize = 1024;

/// How long the end of the process waits for the last log lines.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Starts logging. Keep the guard: dropping it writes what is left, if stderr takes it.
pub fn start(choice: &LogChoice) -> Result<LogGuard, BadFilter> {
    let targets = match choice.filter.as_deref().map(str::trim).filter(|filter| !filter.is_empty()) {
        Some(filter) => filter.parse::<Targets>().map_err(|error| BadFilter(error.to_string()))?,
        None => Targets::new().with_default(match choice.verbosity {
            ..=-2 => LevelFilter::OFF,
            -1 => LevelFilter::ERROR,
            0 => LevelFilter::WARN,
            1 => LevelFilter::INFO,
            2 => LevelFilter::DEBUG,
            3.. => LevelFilter::TRACE,
        }),
    };
    let writer = Lossy::new();
    let guard = LogGuard(writer.clone());
    let registry = tracing_subscriber::registry().with(targets);
    match choice.format {
        LogFormat::Json => registry.with(tracing_subscriber::fmt::layer().json().with_writer(writer)).init(),
        LogFormat::Human => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .without_time()
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

/// Flushes the log when it is dropped, within bounds.
#[derive(Debug)]
pub struct LogGuard(Lossy);

impl Drop for LogGuard {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        if self.0.send(Message::Flush(done)) {
            // Timed out or gone: stderr is not being read, and that is its reader's choice.
            let _: Result<(), RecvTimeoutError> = written.recv_timeout(LAST_WORDS);
        }
    }
}

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// A writer that never blocks: lines that do not fit are dropped and counted.
#[derive(Clone)]
struct Lossy {
    /// The thread is started by the first line, so that a silent process has none.
    queue: Arc<std::sync::OnceLock<SyncSender<Message>>>,
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lossy").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

impl Lossy {
    fn new() -> Self {
        Self { queue: Arc::default(), dropped: Arc::default() }
    }

    fn send(&self, message: Message) -> bool {
        let starts = matches!(message, Message::Line(_));
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

    fn start_thread(&self) -> SyncSender<Message> {
        let (sender, receiver) = sync_channel(QUEUE);
        let dropped = Arc::clone(&self.dropped);
        // If no thread can be had, the receiver is gone and lines are dropped.
        let _ = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            while let Ok(message) = receiver.recv() {
                match message {
                    Message::Line(line) => write_patiently(&line),
                    Message::Flush(done) => {
                        let _ = done.try_send(());
                    }
                }
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    write_patiently(
                        format!("gladhand: {lost} log lines dropped, stderr is read too slowly\n").as_bytes(),
                    );
                }
            }
        });
        sender
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

/// One line without secrets, whatever a peer put into it: line breaks, control and invisible characters are escaped, so that it can
/// neither forge a second line nor reach the terminal. Our own colours pass.
fn harmless(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    // Before it is cut: half a secret would not be found.
    let whole = redact(&text);
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
            self.lossy.send(Message::Line(harmless(&self.line)));
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
}
