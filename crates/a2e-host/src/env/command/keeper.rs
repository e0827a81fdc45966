//! The task that drives a program: sends requests, delivers responses and pushes, and ends the program.

use std::time::Duration;

use gladhand_core::wire::{Lines, lines};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Program;
use crate::env::environment::Object;
use crate::env::pushing::Pushes;
use crate::starting::ending::{end, last_words_are_over};
use crate::starting::{Held, Started};

/// How many bytes one read takes at most.
const CHUNK: usize = 16 * 1024;

/// Capacity of the request queue and of the response queue. Each holds at most one entry, unless a caller stopped
/// waiting.
const ON_THE_WAY: usize = 4;

/// How many bytes of stderr are kept: the last ones.
const LAST_WORDS: usize = 2 * 1024;

/// How long to wait for the last stderr output of a program that failed.
const A_MOMENT: Duration = Duration::from_millis(200);

pub(super) const ENDED: &str = "its program has ended; see the log for its stderr output";
const TOO_LONG: &str = "it wrote a line that is too long";

/// The connection to a program. Dropping it ends the program.
#[derive(Debug)]
pub(super) struct Line {
    questions: mpsc::Sender<Value>,
    answers: mpsc::Receiver<Object>,
    asked: u64,
    hung_up: CancellationToken,
    _guard: DropGuard,
}

impl Line {
    /// Sends a request and waits for the response; `None` if the program has ended. May be cancelled at any time.
    pub(super) async fn ask(&mut self, mut asking: Value) -> Option<Object> {
        self.asked += 1;
        asking["id"] = self.asked.into();
        self.questions.send(asking).await.ok()?;
        loop {
            let answer = self.answers.recv().await?;
            // Skip late responses to requests that were cancelled.
            if answer.get("id").and_then(Value::as_u64) == Some(self.asked) {
                return Some(answer);
            }
        }
    }

    /// Tells the program that the episode is closed. Its grace period begins now.
    pub(super) fn close(&mut self) {
        // If the queue is full, the end of its input tells the program.
        let _ = self.questions.try_send(json!({"close": true}));
        self.hang_up();
    }

    /// Stops using the program.
    pub(super) fn hang_up(&self) {
        self.hung_up.cancel();
    }
}

/// Creates a connection to a program, and the task that drives it.
pub(super) fn keep(started: Started, program: &Program, pushes: Pushes) -> (Line, impl Future<Output = ()> + use<>) {
    let (questions, asked) = mpsc::channel(ON_THE_WAY);
    let (answered, answers) = mpsc::channel(ON_THE_WAY);
    let hung_up = CancellationToken::new();
    let guard = hung_up.clone().drop_guard();
    let line = Line { questions, answers, asked: 0, hung_up: hung_up.clone(), _guard: guard };
    let Program { name, max_line_bytes, grace, .. } = program;
    let keeper = Keeper { name: name.clone(), hung_up, pushes, max_line_bytes: *max_line_bytes, grace: *grace };
    (line, keeper.keep(started, asked, answered))
}

#[derive(Debug)]
struct Keeper {
    name: String,
    hung_up: CancellationToken,
    pushes: Pushes,
    max_line_bytes: usize,
    grace: Duration,
}

impl Keeper {
    async fn keep(self, started: Started, mut asked: mpsc::Receiver<Value>, answered: mpsc::Sender<Object>) {
        let Started { mut stdin, stdout, stderr, mut held, .. } = started;
        let left = CancellationToken::new();
        let mut complaints = Complaints { stderr, kept: Vec::new() };
        let why = tokio::select! {
            () = self.hung_up.cancelled() => None,
            why = self.hear(stdout, &answered, &left) => why,
            () = carry_on(&mut asked, &mut stdin) => None,
            () = complaints.hear_on() => None,
            () = watch(&mut *held, &left) => None,
        };
        // A caller that waits for a response need not wait for the program to exit.
        drop(answered);
        if let Some(why) = why {
            self.pushes.broke(&format!("the environment is broken: {why}"));
            let complained = complaints.last_words().await;
            tracing::warn!(environment = self.name, why, complained, "an environment failed");
        }
        self.see_off(asked, stdin, &mut *held).await;
    }

    /// Lets the program read the close message, and ends it if it does not exit within the grace period.
    async fn see_off(&self, mut asked: mpsc::Receiver<Value>, mut stdin: ChildStdin, held: &mut dyn Held) {
        asked.close();
        let leaving = async {
            carry(&mut asked, &mut stdin).await;
            drop(stdin);
            let _ = held.wait().await;
        };
        let _ = tokio::time::timeout(self.grace, leaving).await;
        end(held, self.grace).await;
    }

    /// Reads the output of the program until it ends or breaks the protocol. Returns the reason for the failure, or
    /// `None` if the episode was over by then.
    async fn hear(
        &self,
        mut stdout: ChildStdout,
        answered: &mpsc::Sender<Object>,
        left: &CancellationToken,
    ) -> Option<&'static str> {
        let mut lines = Lines::with_limit(self.max_line_bytes);
        let (mut is_over, mut unended) = (false, 0);
        loop {
            let read = tokio::select! {
                biased;
                read = stdout.read_buf(lines.spare(CHUNK)) => read,
                () = last_words_are_over(left) => Ok(0),
            };
            match read {
                Ok(count @ 1..) => unended += count,
                _ => return Some(ENDED).filter(|_| !is_over),
            }
            while let Some(line) = lines.next_line() {
                let lines::Line::Bytes(line) = line else { return Some(TOO_LONG) };
                unended = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                let Ok(mut said) = serde_json::from_slice::<Object>(line) else {
                    return Some("it wrote a line that is not a JSON object");
                };
                if let Some(push) = said.remove("push") {
                    let push = Some(push).filter(Value::is_object).and_then(|push| serde_json::from_value(push).ok());
                    let Some(push) = push else { return Some("it wrote an invalid push") };
                    self.pushes.push(push);
                    self.pushes.keeping_up().await;
                    continue;
                }
                is_over |= ["done", "truncated"].iter().any(|end| said.get("obs").is_some_and(|obs| obs[*end] == true));
                if answered.send(said).await.is_err() {
                    return None;
                }
            }
            // `Lines` reports a line that is too long only when its end arrives, so count here.
            if unended > self.max_line_bytes {
                return Some(TOO_LONG);
            }
        }
    }
}

/// Writes requests to the program until the queue ends or the program stops reading.
async fn carry(asked: &mut mpsc::Receiver<Value>, stdin: &mut ChildStdin) {
    while let Some(asking) = asked.recv().await {
        let line = format!("{asking}\n");
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Writes requests for as long as the program runs.
async fn carry_on(asked: &mut mpsc::Receiver<Value>, stdin: &mut ChildStdin) {
    carry(asked, stdin).await;
    // The program may have closed its input and still answer earlier requests.
    std::future::pending().await
}

/// Signals that the program has exited. Output that it wrote before is still read.
async fn watch(held: &mut dyn Held, left: &CancellationToken) {
    let _ = held.wait().await;
    left.cancel();
    std::future::pending().await
}

/// The stderr output of a program: for the operator's log, not for the agent.
struct Complaints {
    stderr: ChildStderr,
    /// The last bytes of it.
    kept: Vec<u8>,
}

impl Complaints {
    /// Reads until the output ends.
    async fn hear(&mut self) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(count @ 1..) = self.stderr.read(&mut chunk).await {
            self.kept.extend_from_slice(&chunk[..count]);
            let too_many = self.kept.len().saturating_sub(LAST_WORDS);
            self.kept.drain(..too_many);
        }
    }

    /// Reads for as long as the program runs.
    async fn hear_on(&mut self) {
        self.hear().await;
        std::future::pending().await
    }

    /// Returns the last bytes. Another process may hold the pipe open, so the wait is bounded.
    async fn last_words(mut self) -> String {
        let _ = tokio::time::timeout(A_MOMENT, self.hear()).await;
        String::from_utf8_lossy(self.kept.trim_ascii()).into_owned()
    }
}
