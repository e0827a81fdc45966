//! A kept-alive connection of the bench to a server, and the opening of sessions over it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::response::Response;
use crate::bench::request::{Era, Payload, Request};

/// A connection and the bytes that came over it and were not taken yet.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

/// The values of the request headers. In the stateless era this is only the era.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    address: SocketAddr,
    era: Era,
    id: Option<String>,
    /// When the answer to the opening was read.
    pub(crate) opened: Option<Instant>,
}

impl Connection {
    pub(crate) fn to(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; 1 << 14], filled: 0 })
    }

    /// Opens a session, and confirms it where the era has a confirmation.
    pub(crate) fn open(&mut self, era: Era) -> Result<Session> {
        let mut session = Session { address: self.stream.peer_addr()?, era, id: None, opened: None };
        let opening = era.opening();
        let head = session.head(era.method_of_opening(), None, opening.len());
        self.send(format!("{head}{opening}").as_bytes())?;
        session.id = self.receive(|response| {
            let message = response.messages().last().context("the opening was answered with nothing")?;
            let answer: Value = serde_json::from_slice(message).context("the opening's answer is no JSON")?;
            ensure!(answer.pointer(era.proof_of_opening()).is_some(), "the opening was refused: {answer}");
            Ok(response.session.map(str::to_owned))
        })?;
        session.opened = Some(Instant::now());
        let confirmation = era.confirmation();
        if !confirmation.is_empty() {
            let head = session.head("notifications/initialized", None, confirmation.len());
            self.send(format!("{head}{confirmation}").as_bytes())?;
            self.receive(|response| {
                ensure!(response.messages().next().is_none(), "a notice was answered: {}", response.excerpt());
                Ok(())
            })?;
        }
        Ok(session)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("the connection broke")
    }

    /// Waits for a whole response and hands it over.
    pub(crate) fn receive<T>(&mut self, mut take: impl FnMut(&Response) -> Result<T>) -> Result<T> {
        loop {
            if let Some(taken) = self.read(&mut take)? {
                return Ok(taken);
            }
        }
    }

    /// One read, and what `take` makes of the response if it is whole by now.
    pub(crate) fn read<T>(&mut self, take: impl FnOnce(&Response) -> Result<T>) -> Result<Option<T>> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.filled, 0);
        }
        match self.stream.read(&mut self.buffer[self.filled..]).context("the connection broke")? {
            0 => bail!("it hung up, or was silent too long, before it answered"),
            count => self.filled += count,
        }
        let Some((response, end)) = Response::read(&self.buffer[..self.filled])? else { return Ok(None) };
        ensure!(end == self.filled, "more came than was asked for");
        ensure!((200..300).contains(&response.status), "status {}: {}", response.status, response.excerpt());
        self.filled = 0;
        take(&response).map(Some)
    }
}

impl Session {
    pub(crate) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// A call of `echo` in this session, as it goes over the connection.
    pub(crate) fn call(&self, payload: Payload) -> Request {
        let body = Request::new(self.era, payload);
        let head = self.head("tools/call", Some("echo"), body.len());
        body.after(&head)
    }

    /// The head of a POST with a body of so many bytes.
    fn head(&self, method: &str, name: Option<&str>, length: usize) -> String {
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {length}\r\n",
            self.address
        );
        let mut header = |name: &str, value: &str| head.extend([name, ": ", value, "\r\n"]);
        // The handshake era has a version only once it was agreed on.
        if self.era == Era::Stateless || self.opened.is_some() {
            header("mcp-protocol-version", self.era.version());
        }
        if let Some(id) = &self.id {
            header("mcp-session-id", id);
        }
        if self.era == Era::Stateless {
            header("mcp-method", method);
            name.into_iter().for_each(|name| header("mcp-name", name));
        }
        head + "\r\n"
    }
}
