//! Skills that are programs.
//!
//! A skill with `run` in its settings runs that command in the folder of the skill. The program reads its arguments as
//! one line of JSON, and writes lines of JSON:
//!
//! ```text
//! {"progress": {"pct": 40, "message": "halfway"}}
//! {"artifact": {"name": "a.png", "mime": "image/png", "chunk": "<base64>", "final": true}}
//! {"log": {"level": "info", "message": "…"}}
//! {"result": …, "summary": "…"}
//! {"error": "why it could not be done"}
//! ```
//!
//! The first three become events; long artifacts are sent in chunks. The last `result` is the result of the skill. Any
//! other line, and each line of stderr, is a log line. The skill has failed if it writes an `error` or exits with a
//! code other than 0.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use gladhand_core::wire::json::is_deeper_than;
use gladhand_core::wire::{Line, Lines, RawValue};
use gladhand_process::starting::{Held, Signal, Starter};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::definition::Skill;
use super::events::SkillEvents;
use super::{SkillError, SkillResult, SkillSettings};
use crate::starting::ending::output_drained;
use crate::starting::{ProcessSpec, Started};

/// How many bytes one read takes at most.
const CHUNK: usize = 16 * 1024;

/// Maximum nesting depth of a line. Readers of deeper JSON would refuse it.
const MAX_DEPTH: usize = 127;

/// Runs the command of a skill. Dropping the future kills the program.
pub(super) async fn run(
    command: &[String],
    skill: &Skill,
    arguments: &Map<String, Value>,
    settings: &SkillSettings,
    starter: &dyn Starter,
    events: &SkillEvents,
) -> Result<SkillResult, SkillError> {
    let spec = ProcessSpec {
        command: beginning_with(program_of_skill(&command[0], &skill.folder), &command[1..]),
        folder: Some(skill.folder.clone()),
        environment: settings.environment.clone(),
    };
    let started = spec.start(starter).await;
    let Started { mut stdin, stdout, stderr, held, .. } =
        started.map_err(|error| SkillError::Failed(format!("could not start the program: {error}")))?;
    let output = OutputReader { settings, events, bytes_read: AtomicU64::new(0), ended: CancellationToken::new() };
    let write_arguments = async {
        // The program need not read its arguments.
        let _ = stdin.write_all(format!("{}\n", json!(arguments)).as_bytes()).await;
        drop(stdin);
        Ok(())
    };
    let mut result = SkillResult::default();
    let mut failed = None;
    let (_, (), (), code) = tokio::try_join!(
        write_arguments,
        output.read_stdout(stdout, &mut result, &mut failed),
        output.read_stderr(stderr),
        output.end(&*held),
    )?;
    match (failed, code) {
        (Some(why), _) => Err(SkillError::Reported(why)),
        (None, Some(0)) => Ok(result),
        (None, Some(code)) => Err(SkillError::Failed(format!("the program exited with code {code}"))),
        (None, None) => Err(SkillError::Failed("the program was killed".to_owned())),
    }
}

/// A program with a path is relative to the folder of the skill.
fn program_of_skill(program: &str, folder: &Path) -> String {
    if program.contains('/') { folder.join(program).to_string_lossy().into_owned() } else { program.to_owned() }
}

fn beginning_with(first: String, rest: &[String]) -> Vec<String> {
    std::iter::once(first).chain(rest.iter().cloned()).collect()
}

/// Reads the output of a running skill.
#[derive(Debug)]
struct OutputReader<'l> {
    settings: &'l SkillSettings,
    events: &'l SkillEvents,
    /// How many bytes it has written.
    bytes_read: AtomicU64,
    ended: CancellationToken,
}

/// A line that a skill writes. No member becomes a tree of JSON values, so the length of a line limits its memory.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputLine {
    progress: Option<Progress>,
    artifact: Option<Artifact>,
    log: Option<Log>,
    result: Option<Box<RawValue>>,
    summary: Option<Box<RawValue>>,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Progress {
    pct: f64,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Deserialize)]
struct Artifact {
    name: String,
    #[serde(default = "any_bytes")]
    mime: String,
    chunk: String,
    #[serde(default, rename = "final")]
    is_final: bool,
}

fn any_bytes() -> String {
    "application/octet-stream".to_owned()
}

#[derive(Debug, Deserialize)]
struct Log {
    #[serde(default = "info")]
    level: String,
    message: String,
}

fn info() -> String {
    "info".to_owned()
}

impl OutputReader<'_> {
    async fn end(&self, held: &dyn Held) -> Result<Option<i32>, SkillError> {
        let status = held.ended().await;
        // Its descendants end with it.
        held.signal(Signal::Kill);
        self.ended.cancel();
        Ok(status.ok().and_then(|status| status.code()))
    }

    async fn read_stdout(
        &self,
        stdout: impl AsyncRead + Unpin,
        result: &mut SkillResult,
        failed: &mut Option<String>,
    ) -> Result<(), SkillError> {
        let mut lines = self.lines(stdout);
        while let Some(line) = lines.next().await? {
            let is_object = line.trim_start().starts_with('{') && !is_deeper_than(line.as_bytes(), MAX_DEPTH);
            match is_object.then(|| serde_json::from_str::<OutputLine>(&line)) {
                Some(Ok(output)) => self.take(output, result, failed).await?,
                _ => self.log("info", &line).await,
            }
        }
        Ok(())
    }

    async fn take(
        &self,
        line: OutputLine,
        result: &mut SkillResult,
        failed: &mut Option<String>,
    ) -> Result<(), SkillError> {
        if let Some(Progress { pct, message }) = line.progress {
            let pct = pct.clamp(0.0, 100.0).round() as u8;
            self.events.stream("progress", json!({"pct": pct, "message": message})).await;
        }
        if let Some(artifact) = line.artifact {
            self.send_artifact(&artifact).await?;
        }
        if let Some(Log { level, message }) = line.log {
            self.log(&level, &message).await;
        }
        if let Some(data) = line.result {
            *result = SkillResult { data, summary: line.summary, truncated: false };
        }
        if line.error.is_some() {
            *failed = line.error;
        }
        Ok(())
    }

    /// Sends an artifact in chunks, each of which can be decoded by itself.
    async fn send_artifact(&self, artifact: &Artifact) -> Result<(), SkillError> {
        let Artifact { name, mime, chunk, is_final } = artifact;
        if !is_base64(chunk) {
            return Err(SkillError::Failed(format!("the artifact {name:?} is not base64")));
        }
        let max_bytes = (self.settings.max_chunk_chars / 4).max(1) * 4;
        let mut rest = chunk.as_str();
        loop {
            let (now, later) = rest.split_at(rest.len().min(max_bytes));
            let data = json!({"name": name, "mime": mime, "chunk": now, "final": *is_final && later.is_empty()});
            self.events.stream("artifact", data).await;
            if later.is_empty() {
                return Ok(());
            }
            rest = later;
        }
    }

    async fn read_stderr(&self, stderr: impl AsyncRead + Unpin) -> Result<(), SkillError> {
        let mut lines = self.lines(stderr);
        while let Some(line) = lines.next().await? {
            self.log("warning", &line).await;
        }
        Ok(())
    }

    async fn log(&self, level: &str, message: &str) {
        if !message.trim().is_empty() {
            self.events.stream("log", json!({"level": level, "message": message})).await;
        }
    }

    fn lines<R>(&self, source: R) -> LineReader<'_, R> {
        let lines = Lines::with_limit(self.settings.max_line_bytes);
        LineReader { source, lines, output: self, has_ended: false }
    }
}

/// Reads a stream line by line.
#[derive(Debug)]
struct LineReader<'r, R> {
    source: R,
    lines: Lines,
    output: &'r OutputReader<'r>,
    has_ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<'_, R> {
    /// The next line, or `None` at the end.
    async fn next(&mut self) -> Result<Option<String>, SkillError> {
        loop {
            let line = if self.has_ended { self.lines.last_line() } else { self.lines.next_line() };
            match line {
                Some(Line::Bytes(line)) => return Ok(Some(String::from_utf8_lossy(line).into_owned())),
                Some(Line::TooLong { limit }) => {
                    return Err(SkillError::Failed(format!("it wrote a line of more than {limit} bytes")));
                }
                None if self.has_ended => return Ok(None),
                None => self.fill().await?,
            }
        }
    }

    async fn fill(&mut self) -> Result<(), SkillError> {
        let OutputReader { settings, bytes_read, ended, .. } = self.output;
        let read = tokio::select! {
            biased;
            read = self.source.read_buf(self.lines.spare(CHUNK)) => read.unwrap_or(0),
            () = output_drained(ended) => 0,
        };
        self.has_ended = read == 0;
        let (read, max_bytes) = (read as u64, settings.max_output_bytes);
        if bytes_read.fetch_add(read, Ordering::Relaxed) + read > max_bytes {
            return Err(SkillError::Failed(format!("it wrote more than {max_bytes} bytes")));
        }
        Ok(())
    }
}

/// Whether a text is standard base64 with padding.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::is_base64;

    #[test]
    fn base64_is_recognised() {
        assert!(["", "aGk=", "aA==", "aGkh", "+/+/"].into_iter().all(is_base64));
        assert!(!["a", "aGk", "a===", "====", "aG k", "aG=k", "_-_-"].into_iter().any(is_base64));
    }
}
