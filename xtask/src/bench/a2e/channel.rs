//! One agent of an A2E host: lines out, lines in, over pipes or over HTTP with its stream of events.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::bench::process::{Process, Running, Server, Streams};

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// A way to a host.
#[derive(Debug)]
pub(super) enum Channel {
    Pipes(Pipes),
    Http(Http),
}

/// A host that was started with pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) running: Running,
    output: BufReader<File>,
}

/// A session over HTTP: as many connections as there are messages in flight, and one for what comes.
#[derive(Debug)]
pub(super) struct Http {
    sends: VecDeque<Send>,
    stream: BufReader<TcpStream>,
    session: String,
}

/// A connection for what is sent, and whether its last message is still to be taken note of.
#[derive(Debug)]
struct Send {
    connection: BufReader<TcpStream>,
    is_pending: bool,
}

impl Send {
    /// Waits until the last message was taken note of.
    fn settle(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_pending) {
            let (status, body) = response(&mut self.connection)?;
            ensure!(status == 200, "a message was answered with {status} {body}");
        }
        Ok(())
    }
}

impl Channel {
    pub(super) fn pipes(server: &Server) -> Result<Self> {
        let running = server.start(Streams::Pipes)?;
        let output = BufReader::with_capacity(1 << 16, running.output.try_clone()?);
        Ok(Self::Pipes(Pipes { running, output }))
    }

    /// Opens a session and its stream.
    pub(super) fn http(address: SocketAddr, in_flight: usize) -> Result<Self> {
        let session = session(&mut connect(address)?)?;
        let send = || Ok(Send { connection: connect(address)?, is_pending: false });
        let sends = (0..in_flight).map(|_| send()).collect::<Result<_>>()?;
        let mut stream = connect(address)?;
        let head = format!(
            "GET /stream HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\nx-session-id: {session}\r\n\r\n"
        );
        stream.get_mut().write_all(head.as_bytes())?;
        let (status, _) = head_of(&mut stream)?;
        ensure!(status == 200, "the stream was answered with {status}");
        Ok(Self::Http(Http { sends, stream, session }))
    }

    pub(super) fn send(&mut self, line: &str) -> Result<()> {
        match self {
            Self::Pipes(pipes) => Ok(pipes.running.input.write_all(line.as_bytes())?),
            Self::Http(http) => {
                let mut send = http.sends.pop_front().context("there is no connection")?;
                send.settle()?;
                let address = send.connection.get_ref().peer_addr()?;
                let (session, body) = (&http.session, line.trim_end());
                let request = format!(
                    "POST /send HTTP/1.1\r\nhost: {address}\r\nx-session-id: {session}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                send.connection.get_mut().write_all(request.as_bytes())?;
                send.is_pending = true;
                http.sends.push_back(send);
                Ok(())
            }
        }
    }

    /// The next message.
    pub(super) fn receive(&mut self, line: &mut String) -> Result<()> {
        line.clear();
        match self {
            Self::Pipes(pipes) => {
                let count = pipes.output.read_line(line)?;
                ensure!(count > 0, "it ended, or was silent too long");
            }
            // Our hosts write an event as one piece, so that the lines of the transfer coding are easily told apart.
            Self::Http(http) => loop {
                line.clear();
                let count = http.stream.read_line(line)?;
                ensure!(count > 0, "the stream ended");
                if let Some(data) = line.strip_prefix("data: ") {
                    *line = data.to_owned();
                    break;
                }
            },
        }
        Ok(())
    }
}

/// Opens a session without a stream; only its id is left of it.
pub(super) fn session(connection: &mut BufReader<TcpStream>) -> Result<String> {
    let address = connection.get_ref().peer_addr()?;
    let request = format!("POST /session HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\n\r\n");
    connection.get_mut().write_all(request.as_bytes())?;
    let (status, body) = response(connection)?;
    ensure!(status == 200, "a session was answered with {status} {body}");
    let body: serde_json::Value = serde_json::from_str(&body)?;
    Ok(body["session_id"].as_str().context("there is no session id")?.to_owned())
}

/// A connection to a server that listens, or is about to.
pub(super) fn connect(address: SocketAddr) -> Result<BufReader<TcpStream>> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(BufReader::with_capacity(1 << 16, stream));
            }
            Err(error) if begun.elapsed() > PATIENCE => return Err(error).context("it does not listen"),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The status of a response and how long its body is.
fn head_of(connection: &mut BufReader<TcpStream>) -> Result<(u16, usize)> {
    let (mut status, mut length, mut line) = (0, 0, String::new());
    loop {
        line.clear();
        ensure!(connection.read_line(&mut line)? > 0, "the connection was closed");
        let text = line.trim_end();
        if text.is_empty() {
            return Ok((status, length));
        }
        if let Some(rest) = text.strip_prefix("HTTP/1.1 ") {
            status = rest.get(..3).and_then(|status| status.parse().ok()).context("no status")?;
        } else if let Some((name, value)) = text.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
}

fn response(connection: &mut BufReader<TcpStream>) -> Result<(u16, String)> {
    let (status, length) = head_of(connection)?;
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// The memory of a process once it is idle.
pub(super) fn resident(process: &Process) -> Result<f64> {
    std::thread::sleep(Duration::from_millis(300));
    Ok(process.usage()?.resident as f64)
}
