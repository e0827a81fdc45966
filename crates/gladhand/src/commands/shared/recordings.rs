//! A recording in memory, sorted by session, as `show` and `replay` need it.
//!
//! A recording may have been rotated into parts: FILE and FILE.1, FILE.2 and so on. The headers say which files belong
//! together (the same start) and in which order. Lines that cannot be read are noted and skipped.

use std::collections::HashMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gladhand_core::Order as _;
use gladhand_core::negotiation::Side;
use gladhand_core::wire::{FrameKind, Members, RawValue};
use gladhand_dialects::{Dialect, REGISTRY};
use gladhand_recording::{
    Entry, EntryKind, Header, Headers, HttpExchange, NotARecording, OpenError, PeerName, Reader, Sender,
};

use crate::commands::CommandError;
use crate::commands::shared::drawing::{describe, label};
use crate::terminal::text::{counted, quoted};

/// How many unreadable lines are kept; the rest is counted.
const BAD_LINES: usize = 100;

/// A recording.
#[derive(Debug)]
pub(in crate::commands) struct Recording {
    pub(in crate::commands) header: Header,
    /// How many files were read.
    pub(in crate::commands) parts: usize,
    /// In the order of their first entries.
    pub(in crate::commands) sessions: Vec<Session>,
    /// Entries that the recorder could not write.
    pub(in crate::commands) dropped: u64,
    /// The first unreadable lines.
    pub(in crate::commands) bad: Vec<BadLine>,
    /// The number of all unreadable lines.
    pub(in crate::commands) bad_count: usize,
}

/// A line that cannot be read.
#[derive(Debug)]
pub(in crate::commands) struct BadLine {
    pub(in crate::commands) file: PathBuf,
    pub(in crate::commands) line: u64,
    pub(in crate::commands) why: NotARecording,
}

/// A session of a recording.
#[derive(Debug, Default)]
pub(in crate::commands) struct Session {
    /// Empty for lines that name no session.
    pub(in crate::commands) id: String,
    pub(in crate::commands) dialect: Option<String>,
    pub(in crate::commands) version: Option<String>,
    pub(in crate::commands) peer: Option<PeerName>,
    /// Milliseconds since the start of the recording.
    pub(in crate::commands) first_ms: f64,
    pub(in crate::commands) last_ms: f64,
    pub(in crate::commands) is_closed: bool,
    /// Why it ended.
    pub(in crate::commands) reason: Option<String>,
    pub(in crate::commands) lines: Vec<Line>,
    /// HTTP requests with their statuses.
    pub(in crate::commands) exchanges: Vec<Exchange>,
    /// Requests without an answer so far: sender and id, with the place in `lines`.
    pending: HashMap<(Side, String), usize>,
}

/// A message, or a line that is none.
#[derive(Debug)]
pub(in crate::commands) struct Line {
    /// Milliseconds since the start of the recording.
    pub(in crate::commands) ms: f64,
    pub(in crate::commands) from: Side,
    /// Its number in its file.
    pub(in crate::commands) number: u64,
    /// Whether a server wrote it to its standard error output.
    pub(in crate::commands) is_stderr: bool,
    /// Whether it is JSON.
    pub(in crate::commands) is_json: bool,
    pub(in crate::commands) text: String,
    pub(in crate::commands) kind: Option<FrameKind>,
    pub(in crate::commands) label: String,
    /// The method or type, if it has one of its own.
    pub(in crate::commands) name: Option<String>,
    /// The id of the request that it is or answers.
    pub(in crate::commands) id: Option<String>,
    /// The place in the session of the request that it answers.
    pub(in crate::commands) answers: Option<usize>,
    /// The tool that it calls.
    pub(in crate::commands) tool: Option<String>,
    /// Whether it answers with an error, or with a result that says so.
    pub(in crate::commands) is_error: bool,
}

/// An HTTP exchange of a session.
#[derive(Debug)]
pub(in crate::commands) struct Exchange {
    /// Milliseconds since the start of the recording.
    pub(in crate::commands) ms: f64,
    /// The number of messages before it.
    pub(in crate::commands) after: usize,
    pub(in crate::commands) http: HttpExchange,
}

impl Exchange {
    /// Method, path and status.
    pub(in crate::commands) fn label(&self) -> String {
        format!("HTTP {} for {} {}", self.http.status, self.http.method, self.http.path)
    }

    /// The headers, in words.
    pub(in crate::commands) fn headers(&self) -> String {
        let words = |headers: &Headers| {
            let each: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            if each.is_empty() { "no headers".to_owned() } else { each.join(", ") }
        };
        format!("request {}; response {}", words(&self.http.request), words(&self.http.response))
    }

    /// Whether the server refused the request, or failed.
    pub(in crate::commands) fn is_error(&self) -> bool {
        self.http.status >= 400
    }
}

impl Session {
    /// The dialect, if this program knows it.
    pub(in crate::commands) fn known_dialect(&self) -> Option<&'static Dialect> {
        let name = self.dialect.as_deref()?;
        REGISTRY.iter().copied().find(|dialect| dialect.name == name)
    }

    /// Milliseconds from its first entry to its last.
    pub(in crate::commands) fn duration_ms(&self) -> f64 {
        rounded(self.last_ms - self.first_ms)
    }

    /// The method of a line: its own, or that of the request that it answers.
    pub(in crate::commands) fn method<'s>(&'s self, line: &'s Line) -> Option<&'s str> {
        let asked = line.answers.and_then(|at| self.lines.get(at));
        asked.unwrap_or(line).name.as_deref()
    }

    /// The other side, in words.
    pub(in crate::commands) fn who(&self) -> String {
        let Some(peer) = &self.peer else { return "unknown peer".to_owned() };
        let mut who = match (peer.name.as_str(), peer.version.as_str()) {
            ("", _) => "a peer without a name".to_owned(),
            (name, "") => name.to_owned(),
            (name, version) => format!("{name} {version}"),
        };
        for (what, value) in [("principal", &peer.principal), ("upstream", &peer.upstream)] {
            if let Some(value) = value {
                who.push_str(&format!(", {what} {value}"));
            }
        }
        who
    }

    /// The title: id, dialect and version.
    pub(in crate::commands) fn title(&self) -> String {
        let id = if self.id.is_empty() { "(no session)" } else { &self.id };
        match (&self.dialect, &self.version) {
            (Some(dialect), Some(version)) if !version.is_empty() => format!("{id}  {dialect} {version}"),
            (Some(dialect), _) => format!("{id}  {dialect}"),
            _ => id.to_owned(),
        }
    }

    /// Who, how long, and how it ended.
    pub(in crate::commands) fn facts(&self) -> String {
        let mut facts = format!("{}, {}", self.who(), duration(self.duration_ms()));
        match (&self.reason, self.is_closed) {
            (Some(reason), _) => facts.push_str(&format!(", ended: {reason}")),
            (None, true) => facts.push_str(", ended"),
            (None, false) => facts.push_str(", no end recorded"),
        }
        facts
    }

    /// A session that begins with an entry at this time.
    pub(in crate::commands) fn beginning(id: String, ms: f64) -> Self {
        let ms = rounded(ms);
        Self { id, first_ms: ms, last_ms: ms, ..Self::default() }
    }

    /// Adds an entry. Returns the place of its line, if it is one.
    pub(in crate::commands) fn add(&mut self, number: u64, ms: f64, kind: EntryKind) -> Option<usize> {
        let ms = rounded(ms);
        match kind {
            EntryKind::Message { from, dialect, message, .. } => {
                if dialect.is_some() && self.dialect.is_none() {
                    self.dialect = dialect;
                }
                let line = Line::message(side(from), number, ms, &message, self.known_dialect());
                Some(self.push(line))
            }
            EntryKind::Text { from, is_stderr, text } => {
                Some(self.push(Line::text(side(from), number, ms, is_stderr, text)))
            }
            EntryKind::Opened { dialect, version, peer } => {
                (self.dialect, self.version, self.peer) = (Some(dialect), Some(version), Some(peer));
                self.last_ms = self.last_ms.max(ms);
                None
            }
            EntryKind::Http(http) => {
                self.exchanges.push(Exchange { ms, after: self.lines.len(), http });
                self.last_ms = self.last_ms.max(ms);
                None
            }
            EntryKind::Closed(end) => {
                (self.is_closed, self.reason) = (true, end.reason);
                self.last_ms = self.last_ms.max(ms);
                None
            }
            EntryKind::Dropped(_) => None,
        }
    }

    /// Forgets its messages, so that a long session takes bounded memory.
    pub(in crate::commands) fn forget(&mut self) {
        self.lines.clear();
        self.exchanges.clear();
        self.pending.clear();
    }

    fn push(&mut self, mut line: Line) -> usize {
        self.last_ms = self.last_ms.max(line.ms);
        let at = self.lines.len();
        match (line.kind, &line.id) {
            (Some(FrameKind::Request), Some(id)) => drop(self.pending.insert((line.from, id.clone()), at)),
            (Some(kind), Some(id)) if kind.is_answer() => {
                line.answers = self.pending.remove(&(other(line.from), id.clone()));
                if let Some(name) = line.answers.and_then(|at| self.lines.get(at)?.name.as_deref())
                    && line.name.is_none()
                {
                    line.label = format!("{} of {name}", line.label);
                }
            }
            _ => {}
        }
        self.lines.push(line);
        at
    }
}

impl Line {
    /// A message. `dialect`: that of its session, if it is known.
    pub(in crate::commands) fn message(
        from: Side,
        number: u64,
        ms: f64,
        message: &RawValue,
        dialect: Option<&Dialect>,
    ) -> Self {
        let text = message.get().to_owned();
        let summary = describe(dialect, &text);
        let kind = summary.as_ref().map(|summary| summary.kind);
        let name = summary.as_ref().and_then(|summary| summary.name.as_deref()).map(str::to_owned);
        let id = summary.as_ref().and_then(|summary| summary.id).map(|id| id.get().to_owned());
        let label = label(summary.as_ref());
        let tool = matches!(kind, Some(FrameKind::Request)).then(|| tool(name.as_deref(), &text)).flatten();
        let is_error = matches!(kind, Some(FrameKind::Error { .. }))
            || matches!(kind, Some(FrameKind::Result)) && reports_failure(&text);
        let (is_stderr, is_json, answers) = (false, true, None);
        Self { ms, from, number, is_stderr, is_json, text, kind, label, name, id, answers, tool, is_error }
    }

    /// A line that is no message.
    pub(in crate::commands) fn text(from: Side, number: u64, ms: f64, is_stderr: bool, text: String) -> Self {
        let label = if is_stderr { "stderr" } else { "not a message" }.to_owned();
        let (is_json, kind, name, id, answers) = (false, None, None, None, None);
        let (tool, is_error) = (None, false);
        Self { ms, from, number, is_stderr, is_json, text, kind, label, name, id, answers, tool, is_error }
    }

    /// `request`, `response`, `error`, `notification` or `batch`.
    pub(in crate::commands) fn kind_word(&self) -> Option<&'static str> {
        Some(match self.kind? {
            FrameKind::Request => "request",
            FrameKind::Result => "response",
            FrameKind::Error { .. } => "error",
            FrameKind::Notice => "notification",
            FrameKind::Batch => "batch",
        })
    }
}

/// The tool that a request calls, where the dialects name it.
fn tool(method: Option<&str>, text: &str) -> Option<String> {
    let members = Members::parse(text).ok()?;
    let inner = members.object("params").or_else(|| members.object("payload"));
    let is_call = method.is_some_and(|method| method.contains("call"));
    let named =
        inner.as_ref().filter(|_| is_call).and_then(|params| params.str("name").or_else(|| params.str("tool_name")));
    let named = named.or_else(|| members.str("tool_name")).or_else(|| members.str("tool"));
    named.map(std::borrow::Cow::into_owned)
}

/// Whether a result says that the call failed, as a tool of MCP does.
fn reports_failure(text: &str) -> bool {
    let Ok(members) = Members::parse(text) else { return false };
    let is = |raw: Option<&RawValue>, value: &str| raw.is_some_and(|raw| raw.get() == value);
    is(members.object("result").and_then(|result| result.raw("isError")), "true")
        || is(members.raw("success"), "false")
        || is(members.raw("ok"), "false")
}

/// A recorded side as a side of a negotiation.
pub(in crate::commands) fn side(sender: Sender) -> Side {
    match sender {
        Sender::Client => Side::Client,
        Sender::Server => Side::Server,
    }
}

/// The other side.
pub(in crate::commands) fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

/// Microseconds are enough, and a hostile number stays finite.
pub(in crate::commands) fn rounded(ms: f64) -> f64 {
    let ms = ms.clamp(0.0, 1e15);
    (ms * 1e3).round() / 1e3
}

/// A duration for people.
pub(in crate::commands) fn duration(ms: f64) -> String {
    match ms {
        ..1e4 => format!("{ms:.1} ms"),
        ..6e5 => format!("{:.1} s", ms / 1e3),
        _ => format!("{:.0} min", ms / 6e4),
    }
}

/// The reader of a file.
pub(in crate::commands) type FileReader = Reader<BufReader<std::fs::File>>;

/// Opens one file of a recording.
pub(in crate::commands) fn open(file: &Path) -> Result<FileReader, CommandError> {
    let source = gladhand_store::open_regular(file).map_err(CommandError::usage)?;
    Reader::open(BufReader::new(source)).map_err(|error| match error {
        OpenError::NotARecording(error) => {
            CommandError::usage(anyhow::Error::new(error).context(format!("{}", file.display())))
        }
        OpenError::Io(error) => CommandError::usage(anyhow::Error::new(error).context(format!("{}", file.display()))),
    })
}

/// All parts of the recording that a file belongs to, in order.
pub(in crate::commands) fn parts(file: &Path) -> Result<Vec<(PathBuf, FileReader)>, CommandError> {
    let first = open(file)?;
    let (started, part) = (first.header().started_ms, first.header().part);
    let mut parts = vec![(file.to_owned(), first)];
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // A folder that cannot be listed has no other parts that could be read.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_part = |other: &str| {
            let number = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
            number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if entry.file_name().to_str().is_some_and(is_part)
            && let Ok(reader) = open(&entry.path())
            && reader.header().started_ms == started
            && reader.header().part != part
        {
            parts.push((entry.path(), reader));
        }
    }
    parts.order_by_key(|(_, reader)| reader.header().part);
    Ok(parts)
}

impl Recording {
    /// Reads a recording with all of its parts.
    pub(in crate::commands) fn read(file: &Path) -> Result<Self, CommandError> {
        let parts = parts(file)?;
        let header = parts[0].1.header().clone();
        let mut recording =
            Self { header, parts: parts.len(), sessions: Vec::new(), dropped: 0, bad: Vec::new(), bad_count: 0 };
        let mut places = HashMap::new();
        for (path, mut reader) in parts {
            let reading = || format!("cannot read {}", path.display());
            while let Some((number, entry)) = reader.next_entry().with_context(reading)? {
                recording.note(&path, number, entry, &mut places);
            }
            if let Some((number, entry)) = reader.last_entry() {
                recording.note(&path, number, entry, &mut places);
            }
        }
        Ok(recording)
    }

    fn note(
        &mut self,
        file: &Path,
        number: u64,
        entry: Result<Entry, NotARecording>,
        places: &mut HashMap<String, usize>,
    ) {
        match entry {
            Ok(Entry { kind: EntryKind::Dropped(entries), .. }) => self.dropped = self.dropped.saturating_add(entries),
            Ok(Entry { ms, session, kind }) => {
                let id = session.unwrap_or_default();
                let at = *places.entry(id.clone()).or_insert_with(|| {
                    self.sessions.push(Session::beginning(id, ms));
                    self.sessions.len() - 1
                });
                self.sessions[at].add(number, ms, kind);
            }
            Err(why) => {
                self.bad_count += 1;
                if self.bad.len() < BAD_LINES {
                    self.bad.push(BadLine { file: file.to_owned(), line: number, why });
                }
            }
        }
    }

    /// What the recording lacks, for people.
    pub(in crate::commands) fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<_> = self.bad.iter().map(BadLine::to_string).collect();
        if self.bad_count > self.bad.len() {
            remarks.push(format!("{} could not be read", counted(self.bad_count - self.bad.len(), "more line")));
        }
        if self.dropped > 0 {
            let (entries, were) = match self.dropped {
                1 => ("1 entry".to_owned(), "was"),
                entries => (format!("{entries} entries"), "were"),
            };
            remarks.push(format!("{entries} {were} not recorded: the file could not be written in time"));
        }
        remarks
    }
}

impl std::fmt::Display for BadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, line, why } = self;
        // The reason may repeat text of the file.
        write!(f, "{}:{line}: {}", file.display(), quoted(&why.to_string()))
    }
}
