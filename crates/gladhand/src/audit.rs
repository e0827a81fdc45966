//! The audit file: one JSON line for each call, written by a thread of its own.
//!
//! A call never waits for the disk: records go through a bounded queue that principals share, and records that do not
//! fit are counted, in the file and in the log. When the file is full it is moved aside and a new one begun.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use fs_err::File;
use gladhand_core::operations::Party;
use gladhand_core::wire::invisible::escape_json;
use gladhand_hub::policy::{Auditor, Record};
use gladhand_hub::{Portion, Portions};
use gladhand_redaction::{redact, redact_raw};
use serde::Serialize;

use crate::config::AuditConfig;
use crate::utc;

/// Maximum number of records that wait for the disk. If it is reached, a principal with less than an equal share still
/// gets more, up to twice the number.
const QUEUE: usize = 4096;

/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Records calls in the audit file.
#[derive(Clone)]
pub(crate) struct Audit {
    queue: SyncSender<AuditMessage>,
    shares: Arc<Portions>,
    hasher: RandomState,
    dropped: Arc<AtomicU64>,
    payloads: bool,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

enum AuditMessage {
    Call(String, Box<Record>, Portion),
    Flush(SyncSender<()>),
}

impl Audit {
    /// Starts a new file, or continues an existing one; nothing if the configuration names none.
    pub(crate) fn start(config: &AuditConfig) -> io::Result<Option<Self>> {
        let Some(path) = &config.file else { return Ok(None) };
        let file = AuditFile::open(path, config.max_bytes, config.keep)?;
        let (audit, messages) = Self::queue(config.payloads);
        let missed = Arc::clone(&audit.dropped);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || write_all(file, &messages, &missed))?;
        Ok(Some(audit))
    }

    fn queue(payloads: bool) -> (Self, Receiver<AuditMessage>) {
        let (queue, messages) = sync_channel(2 * QUEUE);
        let (shares, hasher) = (Portions::of(QUEUE, 1), RandomState::new());
        (Self { queue, shares, hasher, dropped: Arc::default(), payloads }, messages)
    }

    /// Waits until the previous records are written, for a limited time.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(AuditMessage::Flush(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

impl Auditor for Audit {
    fn record(&self, record: Record) {
        // Callers without a principal share one part.
        let mut portion = self.shares.portion(Party(self.hasher.hash_one(&record.principal)));
        let is_in_share = portion.grow(1);
        if !is_in_share || self.queue.try_send(AuditMessage::Call(utc::now(), Box::new(record), portion)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn wants_payloads(&self) -> bool {
        self.payloads
    }
}

#[derive(Serialize)]
struct AuditLine<'a> {
    time: &'a str,
    #[serde(flatten)]
    record: &'a Record,
}

fn write_all(mut file: AuditFile, messages: &Receiver<AuditMessage>, dropped: &AtomicU64) {
    let mut is_failing = false;
    while let Ok(message) = messages.recv() {
        let written = match message {
            AuditMessage::Call(time, record, _portion) => {
                file.write(&AuditLine { time: &time, record: &redacted(*record) })
            }
            AuditMessage::Flush(done) => {
                let missed = missed(&mut file, dropped);
                let _ = done.send(());
                missed
            }
        };
        let written = written.and_then(|()| missed(&mut file, dropped));
        if let Err(error) = &written
            && !is_failing
        {
            tracing::error!(%error, "the audit file cannot be written");
        }
        is_failing = written.is_err();
    }
}

/// A record without secrets, in the payloads too: the file is a log, and clients do not read their data from it. The
/// name of a tool or prompt that the hub has is written as it is. Otherwise a client that can choose a masked value
/// could hide a call.
fn redacted(mut record: Record) -> Record {
    let is_known = ["tool", "prompt"].contains(&record.operation) && !record.upstream.is_empty();
    for text in [&mut record.tool, &mut record.own_name] {
        if let Cow::Owned(redacted) = redact(text)
            && !is_known
        {
            *text = redacted;
        }
    }
    for payload in record.arguments.iter_mut().chain(record.result.iter_mut().flatten()) {
        if let Some(redacted) = redact_raw(payload) {
            *payload = redacted;
        }
    }
    record
}

/// Records how many records were dropped since the last time.
fn missed(file: &mut AuditFile, dropped: &AtomicU64) -> io::Result<()> {
    let count = dropped.swap(0, Ordering::Relaxed);
    if count == 0 {
        return Ok(());
    }
    tracing::warn!(count, "audit records were dropped: the disk is slower than the calls");
    file.write(&serde_json::json!({"time": utc::now(), "dropped": count}))
}

/// The audit file, and the previous ones.
struct AuditFile {
    path: PathBuf,
    file: File,
    length: u64,
    max_bytes: u64,
    keep: u32,
}

impl AuditFile {
    fn open(path: &Path, max_bytes: u64, keep: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            gladhand_store::make_folder(folder)?;
        }
        let file = append_to(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, length, max_bytes, keep })
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        // Peers choose names and payloads, and a terminal may show the file.
        let line = serde_json::to_string(line)?;
        let mut line = escape_json(&line).into_owned();
        line.push('\n');
        if self.length > 0 && self.length + line.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        self.file.write_all(line.as_bytes())?;
        self.length += line.len() as u64;
        Ok(())
    }

    /// Moves the files on, each to the next number, and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.keep).rev() {
            if numbered(number).exists() {
                fs_err::rename(numbered(number), numbered(number + 1))?;
            }
        }
        if self.keep > 0 {
            fs_err::rename(&self.path, numbered(1))?;
        } else {
            fs_err::remove_file(&self.path)?;
        }
        self.file = append_to(&self.path)?;
        self.length = 0;
        Ok(())
    }
}

/// Opens a file to write at its end; one that is made now can be read by its owner only.
fn append_to(path: &Path) -> io::Result<File> {
    gladhand_store::files::no_pipe(path)?;
    let mut options = fs_err::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_could_steer_a_terminal_is_escaped_and_stays_the_same_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut file = AuditFile::open(&path, 1000, 2).unwrap();
        let text = "a\u{202e}b\u{2028}c\u{2029}d\u{e0041}e\u{200b}f\u{9b}g\u{7f}h\u{1b}[31m\u{feff}\n";
        let raw = gladhand_core::wire::json::raw(format!("\"{}\"", "\u{202e}\u{85}"));
        file.write(&serde_json::json!({"tool": text, (text): raw.get()})).unwrap();
        file.write(&raw).unwrap();
        let written = fs_err::read_to_string(&path).unwrap();
        assert!(written.bytes().all(|byte| byte == b'\n' || (b' '..0x7f).contains(&byte)), "{written:?}");
        let lines: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["tool"], &lines[1]), (&text.into(), &"\u{202e}\u{85}".into()));
        assert!(
            written.contains("a\\u202eb\\u2028c\\u2029d\\udb40\\udc41e\\u200bf\\u009bg\\u007fh\\u001b[31m\\ufeff\\n")
        );
    }

    fn record_of(principal: Option<&str>) -> Record {
        Record {
            session: None,
            principal: principal.map(ToOwned::to_owned),
            client: String::new(),
            client_version: String::new(),
            dialect: "mcp",
            dialect_version: String::new(),
            upstream: String::new(),
            operation: "tool",
            tool: String::new(),
            own_name: String::new(),
            outcome: "ok",
            rule: None,
            duration_ms: 0.0,
            bytes_in: 0,
            bytes_out: 0,
            arguments: None,
            result: None,
        }
    }

    #[test]
    fn a_principal_that_fills_the_queue_displaces_no_record_of_another() {
        let (audit, messages) = Audit::queue(false);
        (0..3 * QUEUE).for_each(|_| audit.record(record_of(Some("bob"))));
        (0..QUEUE / 4).for_each(|_| audit.record(record_of(Some("alice"))));
        (0..QUEUE / 4).for_each(|_| audit.record(record_of(None)));
        let mut written = std::collections::HashMap::<_, usize>::new();
        for message in messages.try_iter() {
            let AuditMessage::Call(_, record, _) = message else { panic!("a record") };
            *written.entry(record.principal).or_default() += 1;
        }
        assert_eq!((written[&Some("alice".to_owned())], written[&None]), (QUEUE / 4, QUEUE / 4));
        assert_eq!(audit.dropped.load(Ordering::Relaxed) as usize, 3 * QUEUE - written[&Some("bob".to_owned())]);
    }

    #[test]
    fn the_name_of_a_tool_that_the_hub_has_is_never_masked() {
        gladhand_redaction::learn("name-that-is-also-a-value", gladhand_redaction::Life::Process);
        let record = |operation, upstream: &str| Record {
            upstream: upstream.to_owned(),
            operation,
            tool: "name-that-is-also-a-value".to_owned(),
            ..record_of(None)
        };
        for (operation, upstream, shown) in [
            ("tool", "files", "name-that-is-also-a-value"),
            ("prompt", "files", "name-that-is-also-a-value"),
            ("tool", "", "***"),
            ("resource", "files", "***"),
        ] {
            assert_eq!(redacted(record(operation, upstream)).tool, shown, "{operation} {upstream}");
        }
    }

    #[test]
    fn a_full_audit_file_is_rotated_and_the_oldest_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/audit.jsonl");
        let mut file = AuditFile::open(&path, 10, 2).unwrap();
        for number in 1..=4 {
            file.write(&serde_json::json!({"number": number})).unwrap();
        }
        let read = |name: &str| fs_err::read_to_string(folder.path().join("new").join(name)).unwrap_or_default();
        assert_eq!(read("audit.jsonl"), "{\"number\":4}\n");
        assert_eq!(read("audit.jsonl.1"), "{\"number\":3}\n");
        assert_eq!(read("audit.jsonl.2"), "{\"number\":2}\n");
        assert_eq!(read("audit.jsonl.3"), "");
        drop(file);
        let mut file = AuditFile::open(&path, 1000, 2).unwrap();
        file.write(&serde_json::json!(5)).unwrap();
        assert_eq!(read("audit.jsonl"), "{\"number\":4}\n5\n", "what is there is gone on with");
    }
}
