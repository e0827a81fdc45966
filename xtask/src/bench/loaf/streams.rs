//! Sessions that stream at once: each event is counted, its place is checked, and each chunk is timed.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::client::Client;
use super::provider::{MODEL, Provider, Script, Stamp};
use crate::bench::measure::Placed;
use crate::bench::process::{Server, Usage};
use crate::bench::stated::quantile;

/// The observations of a run.
#[derive(Debug)]
pub(super) struct Streamed {
    /// Events with a chunk per second, from the first to the last.
    pub(super) rate: f64,
    /// Seconds from the provider's write to the client's read, for half of the chunks.
    pub(super) median: f64,
    /// The same for 99 of 100.
    pub(super) p99: f64,
    /// The usage of the server at the end.
    pub(super) usage: Usage,
}

/// The received part of one answer.
#[derive(Debug, Default)]
struct Answer {
    chunks: u32,
    length: u64,
    is_complete: bool,
}

/// As many sessions as the script wants together, one prompt each. The server has a core of its own; provider and client
/// share another.
pub(super) fn run(server: &Server, script: Script) -> Result<Streamed> {
    let provider = Provider::new()?;
    let epoch = provider.epoch;
    let mut server = server.clone();
    server.variables.push(("GLADHAND_OPENROUTER_BASE", provider.base()?));
    let placed = Placed::on_the_last_core()?;
    let mut client = Client::start(&server)?;
    placed.move_away()?;
    provider.answer(script);
    client.choose(MODEL)?;
    let mut answers = HashMap::new();
    for _ in 0..script.together {
        let made = client.ask("session.create", json!({}))?;
        let session = made["session_id"].as_str().context("a session without an id")?;
        answers.insert(session.to_owned(), Answer::default());
    }
    for session in answers.keys() {
        client.send("session.send", json!({ "session_id": session, "text": "Stream." }))?;
    }
    let mut times = Times::new();
    let mut open = answers.len();
    while open > 0 {
        let line = client.line()?;
        let read = epoch.elapsed();
        let message: Value = serde_json::from_str(line).context("a line is no JSON")?;
        ensure!(message.get("error").is_none(), "a prompt was refused: {message}");
        let (kind, payload) = (&message["params"]["type"], &message["params"]["payload"]);
        let Some(answer) = payload["session_id"].as_str().and_then(|session| answers.get_mut(session)) else {
            continue;
        };
        match kind.as_str().unwrap_or_default() {
            "session.stream.chunk" => answer.take(&payload["chunk"], read, &mut times)?,
            "session.completed" => {
                answer.complete(&payload["answer_length"], script.chunks)?;
                open -= 1;
            }
            "session.error" | "session.interrupted" => bail!("a turn did not complete: {message}"),
            _ => {}
        }
    }
    times.seen(client.running.process.usage()?)
}

/// Seconds that 99 of 100 chunks are under way when nothing stands between provider and client, on the core they share.
pub(super) fn floor(script: Script) -> Result<f64> {
    let placed = Placed::on_the_last_core()?;
    placed.move_away()?;
    Ok(quantile(Provider::new()?.read_directly(script)?, 0.99))
}

impl Answer {
    /// A chunk may carry what the provider sent in several, but nothing may be missing, twice or in another place.
    fn take(&mut self, chunk: &Value, read: Duration, times: &mut Times) -> Result<()> {
        ensure!(!self.is_complete, "a chunk after the end of its answer");
        let text = chunk["answerText"].as_str().context("a chunk without text")?;
        self.length += text.len() as u64;
        for word in text.split_whitespace() {
            let stamp: Stamp = word.parse()?;
            ensure!(stamp.number == self.chunks, "chunk {} came where {} was due", stamp.number, self.chunks);
            self.chunks += 1;
            times.laps.push(read.saturating_sub(stamp.sent).as_secs_f64());
        }
        times.events += 1;
        times.last = read;
        times.first = times.first.min(read);
        Ok(())
    }

    fn complete(&mut self, length: &Value, chunks: u32) -> Result<()> {
        ensure!(!self.is_complete, "an answer ended twice");
        ensure!(self.chunks == chunks, "an answer ended after {} of {chunks} chunks", self.chunks);
        // The whole answer may be without the blank at its end.
        let length = length.as_u64().context("an end without a length")?;
        ensure!(self.length.abs_diff(length) <= 1, "{} bytes were streamed of an answer of {length}", self.length);
        self.is_complete = true;
        Ok(())
    }
}

/// How long chunks were under way, and from when to when they came.
#[derive(Debug)]
struct Times {
    laps: Vec<f64>,
    events: u32,
    first: Duration,
    last: Duration,
}

impl Times {
    fn new() -> Self {
        Self { laps: Vec::new(), events: 0, first: Duration::MAX, last: Duration::ZERO }
    }

    fn seen(self, usage: Usage) -> Result<Streamed> {
        let elapsed = self.last.checked_sub(self.first).filter(|elapsed| !elapsed.is_zero());
        let rate = f64::from(self.events) / elapsed.context("all chunks came at once")?.as_secs_f64();
        let (median, p99) = (quantile(self.laps.iter().copied(), 0.5), quantile(self.laps, 0.99));
        Ok(Streamed { rate, median, p99, usage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(answer: &mut Answer, text: &str) -> Result<()> {
        answer.take(&json!({ "answerText": text }), Duration::from_secs(1), &mut Times::new())
    }

    #[test]
    fn chunks_are_taken_in_their_order_and_only_once() {
        let mut answer = Answer::default();
        take(&mut answer, "5.0 ").unwrap();
        take(&mut answer, "6.1 7.2 ").unwrap();
        assert!(take(&mut answer, "8.4 ").is_err());
        assert!(take(&mut answer, "8.2 ").is_err());
    }

    #[test]
    fn an_answer_is_complete_once_and_only_whole() {
        let mut answer = Answer::default();
        take(&mut answer, "5.0 ").unwrap();
        assert!(answer.complete(&json!(4), 2).is_err());
        assert!(answer.complete(&json!(2), 1).is_err());
        answer.complete(&json!(3), 1).unwrap();
        assert!(answer.complete(&json!(3), 1).is_err());
        assert!(take(&mut answer, "6.1 ").is_err());
    }
}
