//! The stdin of a process. Writing never blocks: input that the process has not read yet is queued, up to a limit.

use std::sync::{Mutex, MutexGuard};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::Portion;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The input queue of a process.
#[derive(Debug)]
pub(super) struct StdinQueue {
    queue: Mutex<Queue>,
    changed: Notify,
    max_bytes: usize,
}

#[derive(Debug)]
struct Queue {
    bytes: Vec<u8>,
    /// How many bytes are being written to the pipe.
    writing: usize,
    state: State,
    /// The share of the queued input of all processes that this queue takes.
    memory: Portion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Close after the queued bytes are written.
    Ending,
    Closed,
}

impl StdinQueue {
    /// Creates a queue of at most `max_bytes` bytes, or one that is closed from the start. The bytes count in `memory`.
    pub(super) fn with_limit(max_bytes: usize, memory: Portion, is_open: bool) -> Self {
        let state = if is_open { State::Open } else { State::Closed };
        let queue = Queue { bytes: Vec::new(), writing: 0, state, memory };
        Self { queue: Mutex::new(queue), changed: Notify::new(), max_bytes }
    }

    /// Queues data, and the end of input after it if `is_last`. Fails if the queue is full or closed.
    pub(super) fn put(&self, data: &str, is_last: bool) -> Result<(), String> {
        let mut queue = self.queue();
        if queue.state != State::Open {
            return Err("stdin is closed".to_owned());
        }
        let queued = queue.bytes.len() + queue.writing;
        if queued + data.len() > self.max_bytes {
            let max_bytes = self.max_bytes;
            return Err(format!("stdin is full: {queued} bytes are queued, the limit is {max_bytes}"));
        }
        if !queue.memory.resize(queued + data.len()) && !data.is_empty() {
            queue.memory.resize(queued);
            return Err("stdin is full: too many bytes are queued for the processes of this client".to_owned());
        }
        queue.bytes.extend_from_slice(data.as_bytes());
        if is_last {
            queue.state = State::Ending;
        }
        drop(queue);
        self.changed.notify_one();
        Ok(())
    }

    /// Writes the queue to the process until the end of input or the end of the process.
    pub(super) async fn write_to(&self, stdin: Option<ChildStdin>, ended: &CancellationToken) {
        if let Some(mut stdin) = stdin {
            ended.run_until_cancelled(self.write_all_queued(&mut stdin)).await;
        }
        let mut queue = self.queue();
        queue.memory.resize(0);
        (queue.bytes, queue.writing, queue.state) = (Vec::new(), 0, State::Closed);
    }

    async fn write_all_queued(&self, stdin: &mut ChildStdin) {
        loop {
            let (bytes, state) = {
                let mut queue = self.queue();
                queue.writing = queue.bytes.len();
                let queued = queue.writing;
                queue.memory.resize(queued);
                (std::mem::take(&mut queue.bytes), queue.state)
            };
            if !bytes.is_empty() {
                // A running process may have closed its stdin.
                if stdin.write_all(&bytes).await.is_err() {
                    return;
                }
            } else if state == State::Open {
                self.changed.notified().await;
            } else {
                return;
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unpoisoned()
    }
}
