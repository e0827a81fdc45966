//! The bench's side of Streamable HTTP: connections, sessions and load on a server that listens.

mod connection;
mod load;
mod response;

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::load::Run;
use super::process::{Listening, Usage};
use super::request::{Era, Payload};
use connection::Connection;
use load::Caller;

/// How often a server that does not listen yet is asked again.
const AGAIN: Duration = Duration::from_micros(200);

impl Listening {
    /// Waits until it listens, and opens a session; returns when the first answer was read.
    pub(crate) fn open(&mut self, era: Era) -> Result<Instant> {
        let session = self.connect()?.open(era)?;
        session.opened.context("the opening was not answered")
    }

    /// As many connections as `width`, each with a session of its own and a call to make.
    pub(crate) fn callers(&mut self, era: Era, payload: Payload, width: u32) -> Result<Callers> {
        let mut callers = Vec::new();
        for _ in 0..width {
            let mut connection = self.connect()?;
            let request = connection.open(era)?.call(payload);
            callers.push(Caller { connection, request });
        }
        Ok(Callers(callers))
    }

    /// Opens so many more sessions and leaves them idle, with no connection left open.
    pub(crate) fn open_many(&mut self, count: u32) -> Result<Usage> {
        let mut connection = self.connect()?;
        for _ in 0..count {
            let session = connection.open(Era::Handshake)?;
            ensure!(session.has_id(), "it opened a session without an id");
        }
        drop(connection);
        std::thread::sleep(super::measure::SETTLE);
        self.process.usage()
    }

    fn connect(&mut self) -> Result<Connection> {
        loop {
            match Connection::to(self.address) {
                Ok(connection) => return Ok(connection),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    ensure!(!self.process.has_ended(), "it ended, or took too long, before it listened");
                    std::thread::sleep(AGAIN);
                }
                Err(error) => return Err(error).context("could not connect"),
            }
        }
    }
}

/// Connections that are ready to call.
#[derive(Debug)]
pub(crate) struct Callers(Vec<Caller>);

impl Callers {
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// One call after the other on the first connection.
    pub(crate) fn one_by_one(&mut self, limit: Duration) -> Result<Run> {
        load::one_by_one(self.0.first_mut().context("nobody calls")?, limit)
    }

    /// One call at a time on each connection.
    pub(crate) fn in_flight(&mut self, limit: Duration) -> Result<Run> {
        load::in_flight(&mut self.0, limit)
    }
}
