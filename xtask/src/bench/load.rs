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

/// The result of a run.
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

/// Numbered calls, and the check of what comes back.
pub(crate) trait Exchange {
    /// The next call, as a line, which is awaited from now on.
    fn call(&mut self) -> &[u8];

    /// Accepts one line of the server, without its newline.
    fn check(&mut self, line: &[u8]) -> Result<()>;

    /// How many calls are not answered.
    fn awaited(&self) -> u32;

    /// How many are.
    fn answered(&self) -> u32;
}

/// Calls of MCP's `echo`.
#[derive(Debug)]
pub(crate) struct Echo {
    request: Request,
    checker: Checker,
}

impl Echo {
    pub(crate) fn new(request: Request) -> Self {
        Self { checker: Checker::new(&request), request }
    }
}

impl Exchange for Echo {
    fn call(&mut self) -> &[u8] {
        self.request.number(self.checker.expect_one_more())
    }

    fn check(&mut self, line: &[u8]) -> Result<()> {
        self.checker.check(line)
    }

    fn awaited(&self) -> u32 {
        self.checker.awaited()
    }

    fn answered(&self) -> u32 {
        self.checker.count
    }
}

/// One call after the other for as long as `limit`.
pub(crate) fn one_by_one(server: &mut Running, mut exchange: impl Exchange, limit: Duration) -> Result<Run> {
    let mut replies = Replies::new();
    let mut times = Times::start();
    while times.elapsed() < limit && exchange.answered() < END_OF_IDS - FIRST_ID {
        server.input.write_all(exchange.call())?;
        while exchange.awaited() > 0 {
            replies.read(server, &mut exchange)?;
        }
        times.lap();
    }
    Ok(times.run(exchange.answered()))
}

/// As many calls as `width` in flight at any time, for as long as `limit`, and then until all are answered.
pub(crate) fn in_flight(server: &mut Running, mut exchange: impl Exchange, width: u32, limit: Duration) -> Result<Run> {
    let flags = fcntl_getfl(&server.input)?;
    fcntl_setfl(&server.input, flags | OFlags::NONBLOCK)?;
    let mut replies = Replies::new();
    let mut calls = Vec::new();
    let start = Instant::now();
    loop {
        if start.elapsed() < limit && exchange.answered() < END_OF_IDS - FIRST_ID - width {
            while exchange.awaited() < width {
                calls.extend_from_slice(exchange.call());
            }
        }
        if exchange.awaited() == 0 {
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
            replies.read(server, &mut exchange)?;
        }
    }
    Ok(Run { calls: exchange.answered(), elapsed: start.elapsed(), median: None })
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
    fn read(&mut self, server: &mut Running, exchange: &mut impl Exchange) -> Result<()> {
        let count = server.output.read(&mut self.buffer[self.filled..])?;
        if count == 0 {
            bail!("it ended, or was silent too long, with {} calls unanswered", exchange.awaited());
        }
        let known = self.filled;
        self.filled += count;
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', &self.buffer[known..self.filled]) {
            let end = known + newline;
            exchange.check(&self.buffer[start..end])?;
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
