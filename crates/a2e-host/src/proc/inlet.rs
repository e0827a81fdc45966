//! What a process is given to read. Whoever writes never waits: what the process has not read yet is kept, up to a limit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The way into a process.
#[derive(Debug)]
pub(super) struct Inlet {
    waiting: Mutex<Waiting>,
    changed: Notify,
    most: usize,
}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    /// How many bytes are on their way already.
    on_the_way: usize,
    way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// To be closed when all that waits has been read.
    Ending,
    Closed,
}

impl Inlet {
    /// A way in on which at most so many bytes wait, or that is closed from the beginning.
    pub(super) fn of_at_most(most: usize, is_open: bool) -> Self {
        let way = if is_open { Way::Open } else { Way::Closed };
        let waiting = Waiting { bytes: Vec::new(), on_the_way: 0, way };
        Self { waiting: Mutex::new(waiting), changed: Notify::new(), most }
    }

    /// Puts something in, and perhaps the end after it; or says why not.
    pub(super) fn put(&self, data: &str, is_last: bool) -> Result<(), String> {
        let mut waiting = self.waiting();
        if waiting.way != Way::Open {
            return Err("stdin is closed".to_owned());
        }
        let already = waiting.bytes.len() + waiting.on_the_way;
        if already + data.len() > self.most {
            let most = self.most;
            return Err(format!("stdin is full: {already} bytes wait to be read, and at most {most} may"));
        }
        waiting.bytes.extend_from_slice(data.as_bytes());
        if is_last {
            waiting.way = Way::Ending;
        }
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Carries what is put in to the process, until the end is put in or the process has ended.
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
                // It may have closed its end without having ended.
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
