//! Shows the messages of this process to `gladhand tap`, while it runs.
//!
//! A follower reads a recording from the socket: a header, then entries as they happen. Secrets are masked before they are
//! written. Each follower has a thread and a bounded queue. If it reads too slowly, entries are dropped and counted, and no
//! session waits for it.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_recording::{Entry, Recorder, Refused};
use gladhand_session::tap::{Tap, TapListener};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::tap_queue::{QueueBounds, QueuedEntries, Taken, TapQueue, tap_queue};
use super::{BadMask, Masks, header, milliseconds};

/// What may wait for one follower. A message of the largest size fits.
const BOUNDS: QueueBounds = QueueBounds { entries: 2048, bytes: 32 * 1024 * 1024 };

/// Maximum number of programs that follow at the same time.
const MAX_FOLLOWERS: usize = 4;

/// How long the end of the process waits for the last entries of all followers.
const LAST_ENTRIES: Duration = Duration::from_millis(500);

/// How often a thread looks whether its follower is gone, if nothing passes.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The queue of each follower, with its number.
type Queues = Vec<(u64, Arc<TapQueue>)>;

/// The programs that follow the messages at a tap.
pub(crate) struct TapFollowers {
    tap: Arc<Tap>,
    /// The command or URL of the server, for the header.
    command: Vec<String>,
    /// Patterns of the user, which were checked.
    mask: Vec<String>,
    queues: Arc<Mutex<Queues>>,
    connected: AtomicU64,
}

impl fmt::Debug for TapFollowers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapFollowers").finish_non_exhaustive()
    }
}

impl TapFollowers {
    /// Shows what passes the tap to programs that will connect, with these masks in addition to those for secrets.
    pub(crate) fn of(tap: &Arc<Tap>, command: Vec<String>, mask: &[String]) -> Result<Arc<Self>, BadMask> {
        Masks::of(mask)?;
        let (queues, connected) = (Arc::default(), AtomicU64::new(0));
        Ok(Arc::new(Self { tap: Arc::clone(tap), command, mask: mask.to_vec(), queues, connected }))
    }

    /// Waits a moment until all followers have the last entries, before the process ends.
    pub(crate) fn finish(&self) {
        let queues = std::mem::take(&mut *self.queues.lock().unpoisoned());
        let deadline = Instant::now() + LAST_ENTRIES;
        queues.iter().for_each(|(_, queue)| queue.flush_until(deadline));
    }

    fn begin(&self, mut stream: UnixStream) -> io::Result<()> {
        let number = self.connected.fetch_add(1, Ordering::Relaxed);
        let (queue, entries) = tap_queue(BOUNDS);
        {
            let mut queues = self.queues.lock().unpoisoned();
            if queues.len() >= MAX_FOLLOWERS {
                let why = format!("{MAX_FOLLOWERS} programs follow this process already");
                return writeln!(stream, "{}", Refused { refused: why }.to_line());
            }
            queues.push((number, Arc::clone(&queue)));
        }
        let left = Left { number, queues: Arc::clone(&self.queues) };
        let (tap, command, mask) = (Arc::clone(&self.tap), self.command.clone(), self.mask.clone());
        let follow = move || {
            let _left = left;
            let masks = Masks::of(&mask).unwrap_or_default();
            if let Err(error) = follow(&tap, queue, &entries, &stream, &command, masks) {
                tracing::debug!(%error, "a program follows the messages no longer");
            }
        };
        std::thread::Builder::new().name("follower".to_owned()).spawn(follow).map(drop)
    }
}

impl gladhand_server::control::Followers for TapFollowers {
    fn connected(&self, stream: UnixStream) {
        if let Err(error) = self.begin(stream) {
            tracing::debug!(%error, "a program cannot follow the messages");
        }
    }
}

/// The end of a follower makes its place free.
struct Left {
    number: u64,
    queues: Arc<Mutex<Queues>>,
}

impl Drop for Left {
    fn drop(&mut self) {
        self.queues.lock().unpoisoned().retain(|(number, _)| *number != self.number);
    }
}

/// Writes what passes the tap to a follower until it is gone.
fn follow(
    tap: &Arc<Tap>,
    queue: Arc<TapQueue>,
    entries: &QueuedEntries,
    stream: &UnixStream,
    command: &[String],
    mut masks: Masks,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let (header, started) = header(command, &masks);
    // A follower that has the header misses nothing from then on.
    let _attached = tap.attach(queue as Arc<dyn TapListener>);
    let part = stream.try_clone()?;
    // There is one part, because it has no maximum size.
    let begin_part = Box::new(move |_| part.try_clone());
    let mask = Box::new(move |entry: &mut Entry| masks.apply(entry));
    let mut recorder = Recorder::begin(header, u64::MAX, begin_part, mask)?;
    while let Some(taken) = entries.next(CHECK_INTERVAL) {
        recorder.count_dropped(entries.take_dropped());
        match taken {
            Taken::Entry { at, session, kind: Some(kind) } => {
                recorder.record(Entry { ms: milliseconds(started, at), session: Some(session), kind })?;
            }
            Taken::Flush(_done) => recorder.finish(milliseconds(started, Instant::now()))?,
            Taken::Nothing if is_gone(stream) => return Ok(()),
            Taken::Entry { .. } | Taken::Nothing => {}
        }
    }
    Ok(())
}

/// Whether the follower closed its end. It never writes.
fn is_gone(stream: &UnixStream) -> bool {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut channels = [PollFd::new(stream, PollFlags::IN)];
    poll(&mut channels, Some(&AT_ONCE)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use gladhand_core::wire::{Lane, Line};
    use gladhand_dialects::mcp;
    use gladhand_recording::{EntryKind, Reader};
    use gladhand_server::control::Followers as _;
    use gladhand_session::tap::{SessionTap, TappedSession};

    use super::*;

    const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"password":"hunter2"}}"#;

    struct Followed {
        tap: Arc<Tap>,
        followers: Arc<TapFollowers>,
    }

    impl Followed {
        fn new() -> Self {
            let tap = Arc::<Tap>::default();
            let followers = TapFollowers::of(&tap, vec!["my-server".to_owned()], &[]).unwrap();
            Self { tap, followers }
        }

        /// A follower, which is attached soon.
        fn connect(&self) -> UnixStream {
            let (ours, theirs) = UnixStream::pair().unwrap();
            theirs.set_nonblocking(true).unwrap();
            self.followers.connected(theirs);
            ours
        }

        fn session(&self) -> SessionTap {
            SessionTap::new(Arc::clone(&self.tap), TappedSession::next_upstream())
        }

        fn until(&self, is_on: bool) {
            while self.tap.is_on() != is_on {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_follower_reads_a_recording_without_secrets() {
        let followed = Followed::new();
        let mut reader = Reader::open(BufReader::new(followed.connect())).unwrap();
        assert_eq!(reader.header().command, ["my-server"]);
        followed.until(true);
        followed.session().received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(PING));
        let (_, entry) = reader.next_entry().unwrap().unwrap();
        let EntryKind::Message { message, .. } = entry.unwrap().kind else { panic!("no message") };
        assert!(message.get().contains("ping") && !message.get().contains("hunter2"), "{message}");
        let (_, end) = reader.next_entry().unwrap().unwrap();
        assert!(matches!(end.unwrap().kind, EntryKind::Closed(_)));
        drop(reader);
        followed.until(false);
    }

    #[test]
    fn a_slow_follower_loses_entries_and_gets_their_number() {
        let followed = Followed::new();
        let stream = followed.connect();
        followed.until(true);
        let session = followed.session();
        let big = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"text":"{}"}}}}"#, "x".repeat(4000));
        let sent = 3 * BOUNDS.entries as u64;
        for _ in 0..sent {
            session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(big.as_bytes()));
        }
        let mut reader = Reader::open(BufReader::new(stream)).unwrap();
        let (mut received, mut dropped) = (0, 0);
        while received + dropped < sent {
            // The number of lost entries is written before the next entry.
            let is_told = dropped > 0 || received < BOUNDS.entries as u64;
            if !is_told {
                session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(PING));
            }
            match reader.next_entry().unwrap().unwrap().1.unwrap().kind {
                EntryKind::Message { .. } => received += 1,
                EntryKind::Dropped(entries) => dropped += entries,
                other => panic!("{other:?}"),
            }
        }
        assert!(dropped > 0 && received > 0, "{received} received, {dropped} dropped");
    }

    #[test]
    fn a_fifth_follower_is_refused_until_another_one_leaves() {
        let followed = Followed::new();
        let mut streams: Vec<_> = (0..MAX_FOLLOWERS).map(|_| followed.connect()).collect();
        let first_line = |stream: UnixStream| {
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            line
        };
        let refused = first_line(followed.connect());
        assert!(Refused::parse(&refused).is_some_and(|refused| refused.refused.contains("4 programs")), "{refused}");
        streams.pop();
        while followed.followers.queues.lock().unwrap().len() == MAX_FOLLOWERS {
            std::thread::yield_now();
        }
        assert!(first_line(followed.connect()).contains("gladhand_recording"));
    }

    #[test]
    fn the_end_of_the_process_writes_the_last_entries() {
        let followed = Followed::new();
        let stream = followed.connect();
        followed.until(true);
        let session = followed.session();
        (0..100).for_each(|_| session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(PING)));
        followed.followers.finish();
        let mut reader = Reader::open(BufReader::new(stream)).unwrap();
        for _ in 0..100 {
            assert!(reader.next_entry().unwrap().is_some());
        }
    }

    #[test]
    fn a_follower_that_reads_nothing_delays_the_end_by_a_bounded_time() {
        let followed = Followed::new();
        let _stream = followed.connect();
        followed.until(true);
        let session = followed.session();
        let big = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"text":"{}"}}}}"#, "x".repeat(1 << 20));
        (0..4).for_each(|_| session.received(Some(&mcp::DIALECT), Lane::MAIN, Line::Bytes(big.as_bytes())));
        let begun = Instant::now();
        followed.followers.finish();
        assert!(begun.elapsed() < LAST_ENTRIES + Duration::from_secs(5));
    }
}
