//! The load generator: one thread that writes calls and reads replies, one at a time or many in flight.
//!
//! With many in flight it answers each batch of replies with as many new calls in one write. It only ever
//! blocks in a read when all calls are written; while some are not, it waits for either side, since a server
//! whose own stdout is full stops reading.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::process::Running;
use super::reply::Checker;
use super::request::{END_OF_IDS, FIRST_ID, Request};

/// What a run found out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) calls: u32,
    pub(crate) elapsed: Duration,
    /// Median time from a call to its reply; only known where calls go one by one.
    pub(crate) median: Option<Duration>,
}

impl Run {
    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.calls) / self.elapsed.as_secs_f64()
    }
}

/// How long each of many calls took that came one after the other.
#[derive(Debug)]
pub(crate) struct Times {
    start: Instant,
    last: Instant,
    laps: Vec<Duration>,
}

impl Times {
    pub(crate) fn start() -> Self {
        let start = Instant::now();
        Self { start, last: start, laps: Vec::with_capacity(1 << 20) }
    }

    /// A call was answered, and the next one begins.
    pub(crate) fn lap(&mut self) {
        let now = Instant::now();
        self.laps.push(now - self.last);
        self.last = now;
    }

    /// From the start to the last answer.
    pub(crate) fn elapsed(&self) -> Duration {
        self.last - self.start
    }

    pub(crate) fn run(mut self, calls: u32) -> Run {
        let elapsed = self.elapsed();
        let middle = self.laps.len() / 2;
        let median = (!self.laps.is_empty()).then(|| *self.laps.select_nth_unstable(middle).1);
        Run { calls, elapsed, median }
    }
}

/// One call after the other for as long as `limit`.
pub(crate) fn one_by_one(server: &mut Running, mut request: Request, limit: Duration) -> Result<Run> {
    let mut checker = Checker::new(&request);
    let mut replies = Replies::new();
    let mut times = Times::start();
    while times.elapsed() < limit && checker.count < END_OF_IDS - FIRST_ID {
        let id = checker.expect_one_more();
        server.input.write_all(request.number(id))?;
        while checker.awaited() > 0 {
            replies.read(server, &mut checker)?;
        }
        times.lap();
    }
    Ok(times.run(checker.count))
}

/// As many calls as `width` in flight at any time, for as long as `limit`, and then until all are answered.
pub(crate) fn in_flight(server: &mut Running, mut request: Request, width: u32, limit: Duration) -> Result<Run> {
    let flags = fcntl_getfl(&server.input)?;
    fcntl_setfl(&server.input, flags | OFlags::NONBLOCK)?;
    let mut checker = Checker::new(&request);
    let mut replies = Replies::new();
    let mut calls = Vec::new();
    let start = Instant::now();
    loop {
        if start.elapsed() < limit && checker.count < END_OF_IDS - FIRST_ID - width {
            while checker.awaited() < width {
                let id = checker.expect_one_more();
                calls.extend_from_slice(request.number(id));
            }
        }
        if checker.awaited() == 0 {
            break;
        }
        if !calls.is_empty() {
            match server.input.write(&calls) {
                Ok(count) => drop(calls.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        if calls.is_empty() || wait_for_either(server)? {
            replies.read(server, &mut checker)?;
        }
    }
    Ok(Run { calls: checker.count, elapsed: start.elapsed(), median: None })
}

/// Waits until something can be read or written; whether it can be read.
fn wait_for_either(server: &Running) -> Result<bool> {
    let mut both = [PollFd::new(&server.output, PollFlags::IN), PollFd::new(&server.input, PollFlags::OUT)];
    poll(&mut both, None)?;
    Ok(!both[0].revents().is_empty())
}

/// Bytes read so far and not yet taken as whole lines.
struct Replies {
    buffer: Vec<u8>,
    filled: usize,
}

impl Replies {
    fn new() -> Self {
        Self { buffer: vec![0; 1 << 19], filled: 0 }
    }

    /// One read, and a check of each whole line.
    fn read(&mut self, server: &mut Running, checker: &mut Checker) -> Result<()> {
        let count = server.output.read(&mut self.buffer[self.filled..])?;
        if count == 0 {
            bail!("it ended, or was silent too long, with {} calls unanswered", checker.awaited());
        }
        let known = self.filled;
        self.filled += count;
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', &self.buffer[known..self.filled]) {
            let end = known + newline;
            checker.check(&self.buffer[start..end])?;
            start = end + 1;
        }
        if start == 0 && self.filled == self.buffer.len() {
            bail!("a reply of more than {} bytes", self.filled);
        }
        self.buffer.copy_within(start..self.filled, 0);
        self.filled -= start;
        Ok(())
    }
}
