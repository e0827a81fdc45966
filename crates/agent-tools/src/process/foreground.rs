//! Foreground commands, whose end a tool waits for.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gladhand_core::sync::Unpoisoned as _;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

use super::ending::{Guard, end};
use super::output::{Decoder, Head};
use super::{Exit, Plan, pipes};
use crate::tool_set::Job;

/// How long output is read after the process has ended. Its descendants may hold the pipe open for ever.
pub(super) const OUTPUT_GRACE: Duration = Duration::from_millis(250);

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) exit: Exit,
    pub(crate) timed_out: bool,
    pub(crate) aborted: bool,
    pub(crate) duration_ms: u64,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) truncated_stdout: bool,
    pub(crate) truncated_stderr: bool,
}

impl Finished {
    /// Why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        let word = match (self.timed_out, self.aborted) {
            (true, _) => "timed out",
            (_, true) => "aborted",
            _ if self.exit.code == Some(0) => return None,
            _ => "failed",
        };
        let code = self.exit.code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
        Some(format!("process {word} ({code})"))
    }

    /// `ok` or `error`.
    pub(crate) fn status(&self) -> &'static str {
        if self.failure().is_none() { "ok" } else { "error" }
    }
}

/// Runs a command to its end. It is ended by force after its timeout or when the call is cancelled. Processes that it
/// left running stay with the session, and their output is discarded.
pub(crate) async fn run(job: &Job<'_>, plan: &Plan) -> io::Result<Finished> {
    let begun = Instant::now();
    let (stdout, stderr, channels) = pipes::open_without_input()?;
    let held = job.tools.settings.starter.start(plan.program(), channels).await?;
    // The caller may cancel at any moment; the guard then kills the command.
    let guard = Guard(Some(Arc::clone(&held)));
    job.session_state.hold(Arc::clone(&held));
    let stdout = read_stream(stdout);
    let stderr = read_stream(stderr);

    let (mut timed_out, mut aborted) = (false, false);
    let exit = tokio::select! {
        status = held.ended() => Exit::from(status?),
        () = job.stop.cancelled() => {
            aborted = true;
            end(&*held).await
        }
        () = tokio::time::sleep(job.input.limit()) => {
            timed_out = true;
            end(&*held).await
        }
    };
    guard.release();

    let (stdout, stderr) = tokio::join!(stdout.settle(), stderr.settle());
    Ok(Finished {
        exit,
        timed_out,
        aborted,
        duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        truncated_stdout: stdout.1,
        stdout: stdout.0,
        truncated_stderr: stderr.1,
        stderr: stderr.0,
    })
}

/// A stream that is being read.
struct StreamReader {
    head: Arc<Mutex<Head>>,
    reader: JoinHandle<()>,
}

/// Reads a stream until it ends, and keeps its beginning.
fn read_stream(stream: impl AsyncRead + Unpin + Send + 'static) -> StreamReader {
    let head = Arc::new(Mutex::new(Head::default()));
    let kept = Arc::clone(&head);
    let reader = tokio::spawn(async move {
        read_all(stream, |piece| kept.lock().unpoisoned().push(piece)).await;
    });
    StreamReader { head, reader }
}

impl StreamReader {
    /// Waits a moment for more output, and returns the text. The reader goes on, so that no descendant dies of a closed
    /// pipe.
    async fn settle(self) -> (String, bool) {
        let _ = tokio::time::timeout(OUTPUT_GRACE, self.reader).await;
        self.head.lock().unpoisoned().take()
    }
}

/// Passes the text of a stream to `take` until it ends.
pub(super) async fn read_all(mut stream: impl AsyncRead + Unpin, mut take: impl FnMut(&str)) {
    let mut decoder = Decoder::default();
    let mut chunk = vec![0; 16 * 1024];
    // A terminal whose other side is closed returns an error, which also ends the stream.
    while let Ok(length @ 1..) = stream.read(&mut chunk).await {
        decoder.decode(&chunk[..length], &mut take);
    }
}
