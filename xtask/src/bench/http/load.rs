//! The load generator over HTTP: one thread, one call at a time on each connection.
//!
//! Connections are blocking. A request is far smaller than the buffer of its socket, which is empty when the
//! request before it was answered, so a write never waits; a read follows an event that promised something.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::epoll;

use super::connection::Connection;
use super::response::Response;
use crate::bench::load::{Run, Times};
use crate::bench::reply::Checker;
use crate::bench::request::{END_OF_IDS, FIRST_ID, Request};

/// A connection, and the call that it makes again and again.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) connection: Connection,
    pub(crate) request: Request,
}

impl Caller {
    fn call(&mut self, checker: &mut Checker) -> Result<()> {
        let id = checker.expect_one_more();
        self.connection.send(self.request.number(id))
    }
}

/// One call after the other for as long as `limit`.
pub(crate) fn one_by_one(caller: &mut Caller, limit: Duration) -> Result<Run> {
    let mut checker = Checker::new(&caller.request);
    let mut times = Times::start();
    while times.elapsed() < limit && checker.count < END_OF_IDS - FIRST_ID {
        caller.call(&mut checker)?;
        caller.connection.receive(|response| check(&mut checker, response))?;
        times.lap();
    }
    Ok(times.run(checker.count))
}

/// A call in flight on each connection, for as long as `limit`, and then until all are answered.
pub(crate) fn in_flight(callers: &mut [Caller], limit: Duration) -> Result<Run> {
    let events_of = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, caller) in callers.iter().enumerate() {
        let name = epoll::EventData::new_u64(index as u64);
        epoll::add(&events_of, &caller.connection.stream, name, epoll::EventFlags::IN)?;
    }
    let first = callers.first().context("nobody calls")?;
    let mut checker = Checker::new(&first.request);
    let mut events = Vec::with_capacity(callers.len());
    let start = Instant::now();
    for caller in &mut *callers {
        caller.call(&mut checker)?;
    }
    while checker.awaited() > 0 {
        epoll::wait(&events_of, rustix::buffer::spare_capacity(&mut events), None)?;
        let is_over = start.elapsed() >= limit || checker.count >= END_OF_IDS - FIRST_ID - callers.len() as u32;
        for event in events.drain(..) {
            let caller = &mut callers[event.data.u64() as usize];
            let answered = caller.connection.read(|response| check(&mut checker, response))?;
            if answered.is_some() && !is_over {
                caller.call(&mut checker)?;
            }
        }
    }
    Ok(Run { calls: checker.count, elapsed: start.elapsed(), median: None })
}

/// A response to a call holds its reply and nothing else.
fn check(checker: &mut Checker, response: &Response) -> Result<()> {
    let mut messages = response.messages();
    let reply = messages.next().context("a response without a reply")?;
    checker.check(reply)?;
    anyhow::ensure!(messages.next().is_none(), "more than a reply: {}", response.excerpt());
    Ok(())
}
