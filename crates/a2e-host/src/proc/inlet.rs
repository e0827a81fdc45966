//! The stdin of a process. Writing never blocks: input that the process has not read yet is queued, up to a limit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The input queue of a process.
#[derive(Debug)]
pub(super) struct Inlet {
    waiting: Mutex<Waiting>,
    changed: Notify,
    most: usize,
}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    /// How many bytes are being written to the pipe.
    on_the_way: usize,
    way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// Close after the queued bytes are written.
    Ending,
    Closed,
}

impl Inlet {
    /// Creates a queue of at most `most` bytes, or one that is closed from the start.
    pub(super) fn of_at_most(most: usize, is_open: bool) -> Self {
        let way = if is_open { Way::Open } else { Way::Closed };
        let waiting = Waiting { bytes: Vec::new(), on_the_way: 0, way };
        Self { waiting: Mutex::new(waiting), changed: Notify::new(), most }
    }

    /// Queues data, and the end of input after it if `is_last`. Fails if the queue is full or closed.
    pub(super) fn put(&self, data: &str, is_last: bool) -> Result<(), String> {
        let mut waiting = self.waiting();
        if waiting.way != Way::Open {
            return Err("stdin is closed".to_owned());
        }
        let already = waiting.bytes.len() + waiting.on_the_way;
        if already + data.len() > self.most {
            let most = self.most;
            return Err(format!("stdin is full: {already} bytes are queued, the limit is {most}"));
        }
        waiting.bytes.extend_from_slice(data.as_bytes());
        if is_last {
            waiting.way = Way::Ending;
        }
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Writes the queue to the process until the end of input or the end of the process.
    pub(super) async fn carry(&self, stdin: Option<ChildStdin>, ended: &CancellationToken) {
        if let Some(mut stdin) = stdin {
            ended.run_until_cancelled(self.carry_all(&mut stdin)).await;
        }
        let mut waiting = self.waiting();
        *waiting = Waiting { bytes: Vec::new(), on_the_way: 0, way: Way::Closed };
    }

    async fn carry_all(&self, stdin: &mut ChildStdin) {
        loop {
            let (bytes, way) = {
                let mut waiting = self.waiting();
                waiting.on_the_way = waiting.bytes.len();
                (std::mem::take(&mut waiting.bytes), waiting.way)
            };
            if !bytes.is_empty() {
                // A running process may have closed its stdin.
                if stdin.write_all(&bytes).await.is_err() {
                    return;
                }
            } else if way == Way::Open {
                self.changed.notified().await;
            } else {
                return;
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
