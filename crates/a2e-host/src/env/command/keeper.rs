//! The task that keeps a program: carries questions to it and answers back, tells its pushes, and sees to its end.

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

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// How many questions and answers may be on their way. There is one of each unless somebody gave up.
const ON_THE_WAY: usize = 4;

/// How much is kept of what a program complains: the end of it.
const LAST_WORDS: usize = 2 * 1024;

/// How long to wait for the last words of a program that broke.
const A_MOMENT: Duration = Duration::from_millis(200);

pub(super) const ENDED: &str = "its program has ended; what it complained is in the log";
const TOO_LONG: &str = "a line of its was too long";

/// The line to a program. When it is dropped, the program is ended.
#[derive(Debug)]
pub(super) struct Line {
    questions: mpsc::Sender<Value>,
    answers: mpsc::Receiver<Object>,
    asked: u64,
    hung_up: CancellationToken,
    _guard: DropGuard,
}

impl Line {
    /// Asks, and waits for the answer; none if the program has ended. May be given up at any time.
    pub(super) async fn ask(&mut self, mut asking: Value) -> Option<Object> {
        self.asked += 1;
        asking["id"] = self.asked.into();
        self.questions.send(asking).await.ok()?;
        loop {
            let answer = self.answers.recv().await?;
            // Answers to what was given up come too late.
            if answer.get("id").and_then(Value::as_u64) == Some(self.asked) {
                return Some(answer);
            }
        }
    }

    /// Tells the program that it is over. It has its grace from then on.
    pub(super) fn close(&mut self) {
        // Whoever does not read that hears of it when its input ends.
        let _ = self.questions.try_send(json!({"close": true}));
        self.hang_up();
    }

    /// Wants nothing more of the program.
    pub(super) fn hang_up(&self) {
        self.hung_up.cancel();
    }
}

/// A line to a program, and the task that keeps it.
pub(super) fn keep(started: Started, program: &Program, pushes: Pushes) -> (Line, impl Future<Output = ()> + use<>) {
    let (questions, asked) = mpsc::channel(ON_THE_WAY);
    let (answered, answers) = mpsc::channel(ON_THE_WAY);
    let hung_up = CancellationToken::new();
    let guard = hung_up.clone().drop_guard();
    let line = Line { questions, answers, asked: 0, hung_up: hung_up.clone(), _guard: guard };
    let Program { name, longest_line, grace, .. } = program;
    let keeper = Keeper { name: name.clone(), hung_up, pushes, longest_line: *longest_line, grace: *grace };
    (line, keeper.keep(started, asked, answered))
}

#[derive(Debug)]
struct Keeper {
    name: String,
    hung_up: CancellationToken,
    pushes: Pushes,
    longest_line: usize,
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
        // Who waits for an answer need not wait for the end.
        drop(answered);
        if let Some(why) = why {
            self.pushes.broke(&format!("the environment is broken: {why}"));
            let complained = complaints.last_words().await;
            tracing::warn!(environment = self.name, why, complained, "an environment broke");
        }
        self.see_off(asked, stdin, &mut *held).await;
    }

    /// Lets the program read that it is over, and ends it when it does not leave.
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

    /// Hears what the program says, until it says no more, or something that it must not. That is returned, unless the
    /// episode is over by then.
    async fn hear(
        &self,
        mut stdout: ChildStdout,
        answered: &mpsc::Sender<Object>,
        left: &CancellationToken,
    ) -> Option<&'static str> {
        let mut lines = Lines::with_limit(self.longest_line);
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
                    return Some("a line of its was no JSON object");
                };
                if let Some(push) = said.remove("push") {
                    let push = Some(push).filter(Value::is_object).and_then(|push| serde_json::from_value(push).ok());
                    let Some(push) = push else { return Some("a push of its was none") };
                    self.pushes.push(push);
                    self.pushes.keeping_up().await;
                    continue;
                }
                is_over |= ["done", "truncated"].iter().any(|end| said.get("obs").is_some_and(|obs| obs[*end] == true));
                if answered.send(said).await.is_err() {
                    return None;
                }
            }
            // A line without end is told of only when it has one.
            if unended > self.longest_line {
                return Some(TOO_LONG);
            }
        }
    }
}

/// Carries questions to the program until there are no more or it does not read them.
async fn carry(asked: &mut mpsc::Receiver<Value>, stdin: &mut ChildStdin) {
    while let Some(asking) = asked.recv().await {
        let line = format!("{asking}\n");
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Carries questions for as long as the program runs.
async fn carry_on(asked: &mut mpsc::Receiver<Value>, stdin: &mut ChildStdin) {
    carry(asked, stdin).await;
    // It may have closed its input and still answer what it has read.
    std::future::pending().await
}

/// Says when the program has left. What it said before is heard first.
async fn watch(held: &mut dyn Held, left: &CancellationToken) {
    let _ = held.wait().await;
    left.cancel();
    std::future::pending().await
}

/// What a program writes to its error output: for whoever runs us, and not for the agent.
struct Complaints {
    stderr: ChildStderr,
    /// The end of it.
    kept: Vec<u8>,
}

impl Complaints {
    /// Hears them until there are no more.
    async fn hear(&mut self) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(count @ 1..) = self.stderr.read(&mut chunk).await {
            self.kept.extend_from_slice(&chunk[..count]);
            let too_many = self.kept.len().saturating_sub(LAST_WORDS);
            self.kept.drain(..too_many);
        }
    }

    /// Hears them for as long as the program runs.
    async fn hear_on(&mut self) {
        self.hear().await;
        std::future::pending().await
    }

    /// The last of them. Somebody else may hold the output open, and is not waited for.
    async fn last_words(mut self) -> String {
        let _ = tokio::time::timeout(A_MOMENT, self.hear()).await;
        String::from_utf8_lossy(self.kept.trim_ascii()).into_owned()
    }
}
