//! Clients that never stop calling: with a session, without one, and by a bridge of their own.

use std::collections::HashMap;
use std::io;

use crate::bridge::answer;
use crate::client::{ACCEPT, Connection, Response, STATELESS, stateless, stateless_call};
use crate::gate::Gate;
use crate::house::{House, UPSTREAMS};
use crate::support::{MCP_INITIALIZED, Process, gladhand, mcp_call, mcp_initialize};
use crate::tally::{Chance, Errand, Tally};

/// One in this many clients can answer questions.
pub(crate) const ASKABLE: u64 = 32;

/// The environment of all clients.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'s> {
    pub(crate) house: &'s House,
    pub(crate) gate: &'s Gate,
    pub(crate) tally: &'s Tally,
}

/// A client over HTTP.
pub(crate) struct Caller<'s> {
    around: Surroundings<'s>,
    chance: Chance,
    /// Whether it comes by the socket in the file system.
    is_near: bool,
    /// The one server that it calls, where it can be asked something: each such session has a way of its own there.
    only: Option<usize>,
    connection: Connection,
    /// The age of the house when the connection was opened.
    since: u64,
    calls: u64,
}

/// Between two calls there is now and then something else.
enum Whim {
    Call,
    List,
    /// Calls, and goes away before the answer.
    HangUp,
    /// Starts a new session.
    Leave,
}

impl<'s> Caller<'s> {
    pub(crate) fn new(around: Surroundings<'s>, seed: u64) -> Self {
        let is_near = seed % 10 < 2;
        let only = seed.is_multiple_of(ASKABLE).then_some(seed as usize % UPSTREAMS);
        let (connection, since) = around.house.connect(is_near);
        let chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (seed + 1));
        Self { around, chance, is_near, only, connection, since, calls: 0 }
    }

    fn whim(&mut self) -> Whim {
        match self.chance.below(1000) {
            0..3 => Whim::HangUp,
            3..6 => Whim::Leave,
            6..16 => Whim::List,
            _ => Whim::Call,
        }
    }

    /// The response; `None` if the house was killed meanwhile. Then the connection is opened again.
    fn exchange(&mut self, method: &str, headers: &[(&str, &str)], body: &str) -> Option<Response> {
        let sent = self.send(method, headers, body);
        let response = sent.ok().and_then(|()| self.connection.try_response());
        if response.is_none() {
            assert_ne!(self.around.house.age(), self.since, "a connection was cut by a house that lives");
            self.around.tally.note("cut");
            self.reconnect();
        }
        response
    }

    /// Sends something, and goes away before the answer.
    fn hang_up_on(&mut self, headers: &[(&str, &str)], body: &str) {
        // The response is not awaited, so the request may fail.
        let _ = self.send("POST", headers, body);
        self.reconnect();
    }

    fn send(&mut self, method: &str, headers: &[(&str, &str)], body: &str) -> io::Result<()> {
        let mut all = vec![("Content-Type", "application/json"), ("Accept", ACCEPT)];
        all.extend_from_slice(headers);
        self.connection.try_send(method, "/mcp", &all, body)
    }

    fn reconnect(&mut self) {
        (self.connection, self.since) = self.around.house.connect(self.is_near);
    }

    fn errand(&mut self, name: &str) -> (u64, Errand) {
        self.calls += 1;
        (self.calls, Errand::new(&mut self.chance, self.only, format!("{name} {}", self.calls)))
    }

    /// A client that opens sessions and calls in them.
    pub(crate) fn in_sessions(mut self) {
        let mut session: Option<Session> = None;
        while self.around.gate.goes_on() {
            let Some(Session { id, .. }) = &session else {
                session = self.open();
                continue;
            };
            let id = id.clone();
            let headers = [("Mcp-Session-Id", id.as_str())];
            match self.whim() {
                Whim::Leave => {
                    self.exchange("DELETE", &headers, "");
                    session = None;
                }
                Whim::List => {
                    let list = r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#;
                    self.list(&headers, list);
                }
                Whim::HangUp => {
                    let (number, errand) = self.errand(&id);
                    self.hang_up_on(&headers, &mcp_call(number, &errand.tool, &errand.arguments.to_string()));
                }
                Whim::Call => {
                    let (number, errand) = self.errand(&id);
                    let body = mcp_call(number, &errand.tool, &errand.arguments.to_string());
                    let Some(response) = self.exchange("POST", &headers, &body) else { continue };
                    if response.status == 404 {
                        let opened_before = session.take().is_some_and(|session| session.since < self.since);
                        assert!(opened_before, "a session was forgotten by a house that lives: {response:?}");
                        self.around.tally.note("session forgotten");
                        continue;
                    }
                    self.around.tally.count(&answer(&response), number, &errand);
                }
            }
        }
    }

    /// Opens a session, unless the house is killed meanwhile.
    fn open(&mut self) -> Option<Session> {
        let mut opening = mcp_initialize("2025-11-25");
        if self.only.is_some() {
            opening = opening.replace(r#""capabilities":{}"#, r#""capabilities":{"elicitation":{}}"#);
        }
        let opened = self.exchange("POST", &[], &opening)?;
        let id = opened.header("mcp-session-id").unwrap_or_else(|| panic!("no session: {opened:?}")).to_owned();
        let since = self.since;
        let initialized = self.exchange("POST", &[("Mcp-Session-Id", &id)], MCP_INITIALIZED)?;
        assert_eq!(initialized.status, 202, "{initialized:?}");
        // Some listen, and never take what they hear.
        let stream = (self.chance.below(4) == 0).then(|| {
            let mut stream = self.around.house.connect(self.is_near).0;
            let _ = stream.try_send("GET", "/mcp", &[("Accept", "text/event-stream"), ("Mcp-Session-Id", &id)], "");
            stream
        });
        Some(Session { id, since, _stream: stream })
    }

    /// A client whose requests say everything themselves.
    pub(crate) fn without_sessions(mut self) {
        let name = self.chance.below(u64::MAX).to_string();
        while self.around.gate.goes_on() {
            match self.whim() {
                Whim::Leave => self.reconnect(),
                Whim::List => {
                    let headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/list")];
                    self.list(&headers, &stateless(1, "tools/list", ""));
                }
                Whim::HangUp => {
                    let (number, errand) = self.errand(&name);
                    let (headers, body) = stateless_call(number, &errand.tool, &errand.arguments.to_string());
                    self.hang_up_on(&headers, &body);
                }
                Whim::Call => {
                    let (number, errand) = self.errand(&name);
                    let (headers, body) = stateless_call(number, &errand.tool, &errand.arguments.to_string());
                    let Some(response) = self.exchange("POST", &headers, &body) else { continue };
                    self.around.tally.count(&answer(&response), number, &errand);
                }
            }
        }
    }

    /// Lists tools; if its session is gone, the client learns that at the next call.
    fn list(&mut self, headers: &[(&str, &str)], body: &str) {
        let Some(response) = self.exchange("POST", headers, body) else { return };
        if response.status != 404 {
            let answer = answer(&response);
            assert!(answer["result"]["tools"].is_array() || answer["error"].is_object(), "{answer}");
        }
    }
}

/// An open session.
struct Session {
    id: String,
    /// The age of the house when it was opened.
    since: u64,
    _stream: Option<Connection>,
}

/// A client that comes by a bridge of its own, with several calls in flight.
pub(crate) fn by_a_bridge(around: Surroundings<'_>, mut chance: Chance) {
    let mut command = gladhand();
    command.args(["bridge", &format!("http://{}/mcp", around.house.address)]);
    let mut process = Process::start(command);
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    let mut number = 0;
    while around.gate.goes_on() {
        let mut in_flight = HashMap::new();
        for _ in 0..4 {
            number += 1;
            let errand = Errand::new(&mut chance, None, number.to_string());
            process.send(&mcp_call(number, &errand.tool, &errand.arguments.to_string()));
            in_flight.insert(number, errand);
        }
        while !in_flight.is_empty() {
            let message = process.value();
            // Lists are said to have changed now and then.
            let Some(id) = message["id"].as_u64() else { continue };
            let errand = in_flight.remove(&id).unwrap_or_else(|| panic!("an answer to nobody: {message}"));
            around.tally.count(&message, id, &errand);
        }
    }
    let (status, rest, _) = process.finish();
    assert_eq!(status, 0);
    assert!(rest.iter().all(|line| !line.contains(r#""id":"#)), "answers to nobody: {rest:?}");
}
