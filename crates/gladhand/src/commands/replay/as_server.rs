//! Serves the recorded server to a live client on stdin and stdout.
//!
//! Each request of the live client is answered with the recorded answer to the same request, and with the server messages
//! that belong to it. A recorded server request waits for the answer of the live client where the recording has one.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use gladhand_core::negotiation::Side;
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_core::wire::rpc::{self, Error};
use gladhand_core::wire::{FrameKind, Frames, Id, Line as WireLine, Lines, Members};
use gladhand_dialects::{Dialect, FirstLine};
use gladhand_recording::{Bindings, compare};
use gladhand_session::clock::Clock;
use serde_json::Value;

use super::{Timing, dialect, pause, progress_token, replaced, with_id};
use crate::commands::shared::drawing::{describe, label};
use crate::commands::shared::recordings::Session;
use crate::commands::{CommandError, note, written};
use crate::exit::Exit;
use crate::terminal::text::plain;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// Among how many of the latest exchanges the one is looked for that a server message is about.
const MOST_OPEN: usize = 1000;

/// The error code of JSON-RPC for a method that the recording does not have.
const METHOD_NOT_FOUND: i32 = -32601;

/// The error code of JSON-RPC for a request that the recording has with other parameters only.
const INTERNAL_ERROR: i32 = -32603;

pub(super) fn run(session: Session, timing: Timing) -> Result<ExitCode, CommandError> {
    let mut server = RecordedServer::new(session, timing);
    let (mut stdin, mut lines, mut chunk) = (std::io::stdin().lock(), Lines::with_limit(MAX_LINE), vec![0; CHUNK]);
    written(server.begin())?;
    loop {
        let length = stdin.read(&mut chunk)?;
        lines.push(&chunk[..length]);
        loop {
            let line = match lines.next_line() {
                Some(line) => line,
                None if length == 0 => match lines.last_line() {
                    Some(line) => line,
                    None => break,
                },
                None => break,
            };
            let handled = match line {
                WireLine::Bytes(bytes) => server.handle(String::from_utf8_lossy(bytes).trim()),
                WireLine::TooLong { limit } => {
                    note(&format!("the client sent a line of more than {limit} bytes, which is skipped"));
                    Ok(())
                }
            };
            match handled {
                // The client closed its end.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(Exit::Success.into()),
                handled => handled?,
            }
        }
        if length == 0 {
            return Ok(Exit::Success.into());
        }
    }
}

/// A request or notification of the recorded client, and what belongs to it.
#[derive(Debug)]
struct Exchange {
    /// The place of the request.
    request: usize,
    /// The places of the server messages, and of the answers to server requests, in order.
    lines: Vec<usize>,
    /// The progress token of the request.
    token: Option<String>,
    is_answered: bool,
    is_used: bool,
}

/// An exchange that is being played.
#[derive(Debug)]
struct Running {
    exchange: usize,
    /// How many of its lines were played.
    played: usize,
    /// The id of the live request.
    id: Option<String>,
    /// The progress token of the live request.
    token: Option<String>,
    /// The id of the server request whose answer is awaited.
    awaited: Option<String>,
    /// The time of the last played line in the recording.
    ms: f64,
}

struct RecordedServer {
    session: Session,
    dialect: &'static Dialect,
    timing: Timing,
    exchanges: Vec<Exchange>,
    /// Server messages before any message of the client.
    prelude: Vec<usize>,
    running: Vec<Running>,
    clock: Clock,
}

impl RecordedServer {
    fn new(session: Session, timing: Timing) -> Self {
        let (exchanges, prelude) = exchanges(&session);
        let dialect = dialect(&session);
        Self { session, dialect, timing, exchanges, prelude, running: Vec::new(), clock: Clock::start() }
    }

    fn begin(&mut self) -> std::io::Result<()> {
        for at in std::mem::take(&mut self.prelude) {
            write_line(&self.session.lines[at].text)?;
        }
        Ok(())
    }

    /// Handles a line of the live client.
    fn handle(&mut self, text: &str) -> std::io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let summary = describe(Some(self.dialect), text);
        let id = summary.as_ref().and_then(|summary| summary.id).map(|id| id.get().to_owned());
        let name = summary.as_ref().and_then(|summary| summary.name.as_deref());
        let label = label(summary.as_ref());
        match summary.as_ref().map(|summary| summary.kind) {
            Some(FrameKind::Request | FrameKind::Batch) => match self.request(name, text) {
                Ok(exchange) => self.play(exchange, id, text),
                Err(unexpected) => {
                    note(&format!("unexpected {label}: {}", unexpected.why));
                    self.refuse(text, id.as_deref(), &unexpected)
                }
            },
            Some(FrameKind::Notice) => match self.notice(name) {
                Some(exchange) => self.play(exchange, id, text),
                // A notification needs no answer.
                None => Ok(()),
            },
            Some(_) => match self.running.iter().position(|running| running.awaited == id && id.is_some()) {
                Some(at) => {
                    self.running[at].awaited = None;
                    self.continued(at)
                }
                None => {
                    note(&format!("unexpected {label}: the recorded server did not ask for it"));
                    Ok(())
                }
            },
            None => {
                note(&format!("a line is no message of {}, and is skipped", self.dialect.name));
                Ok(())
            }
        }
    }

    /// The recorded exchange of a live request: the first one that was not played, else the last one that was.
    fn request(&self, name: Option<&str>, text: &str) -> Result<usize, Unexpected> {
        let live = comparable(text);
        let mut named = self.exchanges.iter().enumerate().filter(|(_, exchange)| {
            let line = &self.session.lines[exchange.request];
            line.kind.is_some_and(|kind| kind != FrameKind::Notice) && line.name.as_deref() == name
        });
        let Some((first, _)) = named.clone().next() else {
            let method = plain(name.unwrap_or("a request without a method"));
            return Err(Unexpected { code: METHOD_NOT_FOUND, why: format!("the recording has no `{method}`") });
        };
        let differences = |exchange: &Exchange| {
            let recorded = comparable(&self.session.lines[exchange.request].text);
            compare(&recorded, &live, &IGNORED, &mut Bindings::default())
        };
        let is_same = |exchange: &Exchange| differences(exchange).is_empty();
        let unused = named.clone().find(|(_, exchange)| !exchange.is_used && is_same(exchange));
        let repeated = || named.clone().rev().find(|(_, exchange)| exchange.is_used && is_same(exchange));
        if let Some((at, _)) = unused.or_else(repeated) {
            return Ok(at);
        }
        // The opening differs with the client: its name, its capabilities.
        let opening = self.exchanges.iter().position(|exchange| {
            self.session.lines[exchange.request].kind.is_some_and(|kind| kind != FrameKind::Notice)
        });
        if opening == Some(first) {
            return Ok(first);
        }
        let difference = named.next().and_then(|(_, exchange)| differences(exchange).into_iter().next());
        let place = difference.map(|difference| {
            let value = |value: Option<Value>| value.map_or_else(|| "(absent)".to_owned(), |value| value.to_string());
            let (recorded, live) = (value(difference.recorded), value(difference.live));
            format!(": {} is {recorded} in the recording, and {live} here", difference.path)
        });
        let (method, place) = (plain(name.unwrap_or_default()), plain(&place.unwrap_or_default()));
        let place: String = place.chars().take(400).collect();
        let why = format!("the recording has no `{method}` with these parameters{place}");
        Err(Unexpected { code: INTERNAL_ERROR, why })
    }

    fn notice(&self, name: Option<&str>) -> Option<usize> {
        self.exchanges.iter().position(|exchange| {
            let line = &self.session.lines[exchange.request];
            line.kind == Some(FrameKind::Notice) && line.name.as_deref() == name && !exchange.is_used
        })
    }

    fn play(&mut self, exchange: usize, id: Option<String>, text: &str) -> std::io::Result<()> {
        self.exchanges[exchange].is_used = true;
        let token = progress_token(text).map(|token| token.get().to_owned());
        let ms = self.session.lines[self.exchanges[exchange].request].ms;
        self.running.push(Running { exchange, played: 0, id, token, awaited: None, ms });
        let line = &self.session.lines[self.exchanges[exchange].request];
        if line.kind == Some(FrameKind::Request) && !self.exchanges[exchange].is_answered {
            note(&format!("{} has no answer in the recording", line.label));
        }
        self.continued(self.running.len() - 1)
    }

    /// Plays an exchange until it ends or waits for the client.
    fn continued(&mut self, at: usize) -> std::io::Result<()> {
        let running = &mut self.running[at];
        let lines = &self.exchanges[running.exchange].lines;
        while let Some(line) = lines.get(running.played).map(|place| &self.session.lines[*place]) {
            running.played += 1;
            if line.from == Side::Client {
                running.awaited.clone_from(&line.id);
                return Ok(());
            }
            std::thread::sleep(pause(self.timing, line.ms - running.ms));
            running.ms = line.ms;
            let text = match (line.kind, &running.id) {
                (Some(FrameKind::Request) | None, _) | (_, None) => line.text.clone(),
                (Some(_), Some(id)) => with_id(self.dialect, &line.text, id),
            };
            let text = match (progress_token(&text), &running.token) {
                (Some(token), Some(live)) => replaced(&text, token, live),
                // The live client did not ask for progress.
                (Some(_), None) => continue,
                (None, _) => text,
            };
            write_line(&text)?;
        }
        self.running.swap_remove(at);
        Ok(())
    }

    /// Answers a request that the recording does not have.
    fn refuse(&mut self, text: &str, id: Option<&str>, unexpected: &Unexpected) -> std::io::Result<()> {
        let mut wire = Frames::default();
        let members = Members::parse(text).ok();
        if members.as_ref().is_none_or(|members| members.has("jsonrpc")) {
            let id = id.and_then(|id| serde_json::from_str::<&gladhand_core::wire::RawValue>(id).ok()).map(Id::of);
            rpc::error(&mut wire, id.as_ref(), &Error::new(unexpected.code, unexpected.why.as_str()));
        } else {
            let line = FirstLine { text, members };
            (self.dialect.refusal_line)(&line, &unexpected.why, &mut self.clock.ambient(), &mut wire);
        }
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&wire).and_then(|()| stdout.flush())
    }
}

/// A live request that the recording does not have.
#[derive(Debug)]
struct Unexpected {
    code: i32,
    why: String,
}

/// Members of a request that do not decide whether it is the same.
const IGNORED: [&str; 5] = ["id", "jsonrpc", "ts", "correlation_id", "session_id"];

/// A request without what differs between two clients: `_meta`, and empty parameters.
fn comparable(text: &str) -> Value {
    let mut value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    if let Some(members) = value.as_object_mut() {
        let is_empty = members.get_mut("params").and_then(Value::as_object_mut).is_some_and(|params| {
            params.remove("_meta");
            params.is_empty()
        });
        if is_empty {
            members.remove("params");
        }
    }
    value
}

/// The exchanges of a session, and the server messages before the first of them.
fn exchanges(session: &Session) -> (Vec<Exchange>, Vec<usize>) {
    let (mut exchanges, mut prelude): (Vec<Exchange>, _) = (Vec::new(), Vec::new());
    // The exchange of each line.
    let mut owners = vec![None; session.lines.len()];
    for (at, line) in session.lines.iter().enumerate() {
        let is_answer = line.kind.is_some_and(FrameKind::is_answer);
        let is_batch = line.kind == Some(FrameKind::Batch);
        let owner = match line.from {
            Side::Client if is_answer && !is_batch => line.answers.and_then(|request| owners[request]),
            Side::Client if line.kind.is_some() => {
                owners[at] = Some(exchanges.len());
                let token = progress_token(&line.text).map(|token| token.get().to_owned());
                exchanges.push(Exchange { request: at, lines: Vec::new(), token, is_answered: false, is_used: false });
                continue;
            }
            // It is no message.
            Side::Client => continue,
            Side::Server if line.is_stderr => continue,
            Side::Server if is_answer && !is_batch => line.answers.and_then(|request| owners[request]),
            Side::Server => about(session, &exchanges, at),
        };
        owners[at] = owner;
        match owner {
            Some(owner) => {
                exchanges[owner].lines.push(at);
                exchanges[owner].is_answered |= is_answer && line.from == Side::Server;
            }
            None if line.from == Side::Server && exchanges.is_empty() => prelude.push(at),
            None => {}
        }
    }
    (exchanges, prelude)
}

/// The exchange that a server message is about: the one that it names, else the last unanswered request, else the last
/// exchange.
fn about(session: &Session, exchanges: &[Exchange], at: usize) -> Option<usize> {
    let line = &session.lines[at];
    let request = |exchange: &Exchange| &session.lines[exchange.request];
    let token = progress_token(&line.text).map(|token| token.get().to_owned());
    let names = |exchange: &Exchange| {
        let is_id = line.kind == Some(FrameKind::Notice) && line.id.is_some() && line.id == request(exchange).id;
        is_id || token.is_some() && exchange.token == token
    };
    let is_open = |exchange: &Exchange| !exchange.is_answered && request(exchange).kind != Some(FrameKind::Notice);
    let last = |test: &dyn Fn(&Exchange) -> bool| {
        let recent = exchanges.iter().enumerate().rev().take(MOST_OPEN);
        recent.filter(|(_, exchange)| test(exchange)).map(|(at, _)| at).next()
    };
    last(&names).or_else(|| last(&is_open)).or_else(|| exchanges.len().checked_sub(1))
}

fn write_line(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    // Line breaks in JSON are blanks.
    let text = text.replace(['\n', '\r'], " ");
    stdout.write_all(text.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}
