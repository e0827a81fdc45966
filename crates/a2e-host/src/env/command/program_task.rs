//! The task that drives a program: sends requests, delivers responses and pushes, and ends the program.

use std::time::Duration;

use gladhand_core::wire::{Lines, lines, values};
use gladhand_process::starting::Held;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Program;
use crate::env::environment::Object;
use crate::env::pushes::Pushes;
use crate::starting::Started;
use crate::starting::ending::{end, output_drained};

/// How many bytes one read takes at most.
const CHUNK: usize = 16 * 1024;

/// Capacity of the request queue and of the response queue. Each holds at most one entry, unless a caller stopped
/// waiting.
const QUEUE_CAPACITY: usize = 4;

/// How many bytes of stderr are kept: the last ones.
const MAX_STDERR_BYTES: usize = 2 * 1024;

/// How long to wait for the last stderr output of a program that failed.
const STDERR_WAIT: Duration = Duration::from_millis(200);

pub(super) const ENDED: &str = "its program has ended; see the log for its stderr output";
const TOO_LONG: &str = "it wrote a line that is too long";

/// The connection to a program. Dropping it ends the program.
#[derive(Debug)]
pub(super) struct ProgramConnection {
    requests: mpsc::Sender<Value>,
    responses: mpsc::Receiver<Object>,
    /// The id of the last request.
    last_id: u64,
    stopped: CancellationToken,
    _guard: DropGuard,
}

impl ProgramConnection {
    /// Sends a request and waits for the response; `None` if the program has ended. May be cancelled at any time.
    pub(super) async fn ask(&mut self, mut request: Value) -> Option<Object> {
        self.last_id += 1;
        request["id"] = self.last_id.into();
        self.requests.send(request).await.ok()?;
        loop {
            let answer = self.responses.recv().await?;
            // Skip late responses to requests that were cancelled.
            if answer.get("id").and_then(Value::as_u64) == Some(self.last_id) {
                return Some(answer);
            }
        }
    }

    /// Tells the program that the episode is closed. Its grace period begins now.
    pub(super) fn close(&mut self) {
        // If the queue is full, the end of its input tells the program.
        let _ = self.requests.try_send(json!({"close": true}));
        self.stop();
    }

    /// Stops using the program.
    pub(super) fn stop(&self) {
        self.stopped.cancel();
    }
}

/// Creates a connection to a program, and the task that drives it.
pub(super) fn connect(
    started: Started,
    program: &Program,
    pushes: Pushes,
) -> (ProgramConnection, impl Future<Output = ()> + use<>) {
    let (request_sender, requests) = mpsc::channel(QUEUE_CAPACITY);
    let (response_sender, responses) = mpsc::channel(QUEUE_CAPACITY);
    let stopped = CancellationToken::new();
    let guard = stopped.clone().drop_guard();
    let connection =
        ProgramConnection { requests: request_sender, responses, last_id: 0, stopped: stopped.clone(), _guard: guard };
    let Program { name, max_line_bytes, grace, .. } = program;
    let program_task =
        ProgramTask { name: name.clone(), stopped, pushes, max_line_bytes: *max_line_bytes, grace: *grace };
    (connection, program_task.run(started, requests, response_sender))
}

#[derive(Debug)]
struct ProgramTask {
    name: String,
    stopped: CancellationToken,
    pushes: Pushes,
    max_line_bytes: usize,
    grace: Duration,
}

impl ProgramTask {
    async fn run(self, started: Started, mut requests: mpsc::Receiver<Value>, responses: mpsc::Sender<Object>) {
        let Started { mut stdin, stdout, stderr, held, .. } = started;
        let exited = CancellationToken::new();
        let mut stderr_tail = StderrTail { stderr, kept: Vec::new() };
        let why = tokio::select! {
            () = self.stopped.cancelled() => None,
            why = self.read_stdout(stdout, &responses, &exited) => why,
            () = write_forever(&mut requests, &mut stdin) => None,
            () = stderr_tail.read_forever() => None,
            () = watch(&*held, &exited) => None,
        };
        // A caller that waits for a response need not wait for the program to exit.
        drop(responses);
        if let Some(why) = why {
            self.pushes.fail(&format!("the environment is broken: {why}"));
            let stderr_output = stderr_tail.last_output().await;
            tracing::warn!(environment = self.name, why, stderr_output, "an environment failed");
        }
        self.finish(requests, stdin, &*held).await;
    }

    /// Lets the program read the close message, and ends it if it does not exit within the grace period.
    async fn finish(&self, mut requests: mpsc::Receiver<Value>, mut stdin: ChildStdin, held: &dyn Held) {
        requests.close();
        let leaving = async {
            write_requests(&mut requests, &mut stdin).await;
            drop(stdin);
            let _ = held.ended().await;
        };
        let _ = tokio::time::timeout(self.grace, leaving).await;
        end(held, self.grace).await;
    }

    /// Reads the output of the program until it ends or breaks the protocol. Returns the reason for the failure, or
    /// `None` if the episode was over by then.
    async fn read_stdout(
        &self,
        mut stdout: ChildStdout,
        responses: &mpsc::Sender<Object>,
        exited: &CancellationToken,
    ) -> Option<&'static str> {
        let mut lines = Lines::with_limit(self.max_line_bytes);
        let (mut episode_is_over, mut unended) = (false, 0);
        loop {
            let read = tokio::select! {
                biased;
                read = stdout.read_buf(lines.spare(CHUNK)) => read,
                () = output_drained(exited) => Ok(0),
            };
            match read {
                Ok(count @ 1..) => unended += count,
                _ => return Some(ENDED).filter(|_| !episode_is_over),
            }
            while let Some(line) = lines.next_line() {
                let lines::Line::Bytes(line) = line else { return Some(TOO_LONG) };
                unended = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                let Ok(mut message) = values::read_bytes::<Object>(line) else {
                    return Some("it wrote a line that is not a JSON object");
                };
                if let Some(push) = message.remove("push") {
                    let push = Some(push).filter(Value::is_object).and_then(|push| serde_json::from_value(push).ok());
                    let Some(push) = push else { return Some("it wrote an invalid push") };
                    self.pushes.push(push);
                    self.pushes.keeping_up().await;
                    continue;
                }
                episode_is_over |=
                    ["done", "truncated"].iter().any(|end| message.get("obs").is_some_and(|obs| obs[*end] == true));
                if responses.send(message).await.is_err() {
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
async fn write_requests(requests: &mut mpsc::Receiver<Value>, stdin: &mut ChildStdin) {
    while let Some(request) = requests.recv().await {
        let line = format!("{request}\n");
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Writes requests for as long as the program runs.
async fn write_forever(requests: &mut mpsc::Receiver<Value>, stdin: &mut ChildStdin) {
    write_requests(requests, stdin).await;
    // The program may have closed its input and still answer earlier requests.
    std::future::pending().await
}

/// Signals that the program has exited. Output that it wrote before is still read.
async fn watch(held: &dyn Held, exited: &CancellationToken) {
    let _ = held.ended().await;
    exited.cancel();
    std::future::pending().await
}

/// The stderr output of a program: for the operator's log, not for the agent.
struct StderrTail {
    stderr: ChildStderr,
    /// The last bytes of it.
    kept: Vec<u8>,
}

impl StderrTail {
    /// Reads until the output ends.
    async fn read(&mut self) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(count @ 1..) = self.stderr.read(&mut chunk).await {
            self.kept.extend_from_slice(&chunk[..count]);
            let too_many = self.kept.len().saturating_sub(MAX_STDERR_BYTES);
            self.kept.drain(..too_many);
        }
    }

    /// Reads for as long as the program runs.
    async fn read_forever(&mut self) {
        self.read().await;
        std::future::pending().await
    }

    /// Returns the last bytes. Another process may hold the pipe open, so the wait is bounded.
    async fn last_output(mut self) -> String {
        let _ = tokio::time::timeout(STDERR_WAIT, self.read()).await;
        String::from_utf8_lossy(self.kept.trim_ascii()).into_owned()
    }
}
