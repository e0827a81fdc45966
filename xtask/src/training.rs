//! The training sessions for measurements of the program: `order` records the called functions, `profile` how often.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Short sessions on stdin, one for each way in which a peer may open.
const SESSIONS: [&[&str]; 5] = [
    &[
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"order","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#,
    ],
    &[
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"order","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"order","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    ],
    &[
        r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"system.ping"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools.call","params":{"name":"echo","arguments":{"message":"hello"}}}"#,
    ],
    &[
        r#"{"type":"handshake/req","id":"1","agent_id":"order","token":"t","agent_caps":["tools"]}"#,
        r#"{"type":"tool/call/req","id":"2","tool_name":"echo","arguments":{"message":"hello"}}"#,
    ],
    &[r#"{"type":"handshake"}"#],
];

/// The number of concurrent connections.
const CONNECTIONS: usize = 4;

/// How the program is started and how much it gets to do.
pub(crate) struct Training<'a> {
    /// The command that starts it with these arguments.
    pub(crate) start: &'a dyn Fn(&[&str]) -> Command,
    /// How often each request after the opening is sent.
    pub(crate) times: u32,
}

impl Training<'_> {
    /// Runs all sessions, the most common first. Calls `ended` after each.
    pub(crate) fn run(&self, program: &str, mut ended: impl FnMut() -> Result<()>) -> Result<()> {
        self.stdio(&["serve"], SESSIONS[0])?;
        ended()?;
        self.http(&["serve", "--http=127.0.0.1:0"])?;
        ended()?;
        for session in &SESSIONS[1..] {
            self.stdio(&["serve"], session)?;
            ended()?;
        }
        self.stdio(&["bridge", "--", program, "serve"], SESSIONS[0])?;
        ended()?;
        self.http(&["bridge", "--http=127.0.0.1:0", "--", program, "serve"])?;
        ended()
    }

    /// One session over stdio.
    fn stdio(&self, arguments: &[&str], session: &[&str]) -> Result<()> {
        let mut watched = Watched((self.start)(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let mut input = watched.0.stdin.take().context("no stdin")?;
        let mut answers = BufReader::new(watched.0.stdout.take().context("no stdout")?).lines();
        for (index, line) in session.iter().enumerate() {
            let is_answered = line.contains("\"id\"") || line.contains("\"handshake\"");
            for _ in 0..if index > 0 && is_answered { self.times } else { 1 } {
                writeln!(input, "{line}")?;
                if is_answered {
                    answers.next().context("the session ended early")??;
                }
            }
        }
        drop(input);
        watched.end()
    }

    /// Sessions of both eras over HTTP.
    fn http(&self, arguments: &[&str]) -> Result<()> {
        let mut watched = Watched((self.start)(arguments).stderr(Stdio::piped()).spawn()?);
        let mut said = BufReader::new(watched.0.stderr.take().context("no stderr")?).lines();
        let address = loop {
            let line = said.next().context("it does not listen")??;
            if let Some((_, rest)) = line.split_once("listening on http://") {
                break rest.trim_end_matches("/mcp").to_owned();
            }
        };
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut connection = Connection::to(&address)?;
            connection.post("", SESSIONS[0][0])?;
            let opened = connection.receive()?;
            let session = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap_or_default();
            connection.session = format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {}\r\n", session.trim());
            connections.push(connection);
        }
        for line in &SESSIONS[0][1..] {
            for _ in 0..self.times {
                for connection in &mut connections {
                    connection.post(&connection.session.clone(), line)?;
                }
                connections.iter_mut().try_for_each(|connection| connection.receive().map(drop))?;
            }
        }
        let modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
        for _ in 0..self.times {
            connections.iter_mut().try_for_each(|connection| connection.post(modern, SESSIONS[1][1]))?;
            connections.iter_mut().try_for_each(|connection| connection.receive().map(drop))?;
        }
        drop(connections);
        kill_process(Pid::from_child(&watched.0), Signal::TERM)?;
        watched.end()
    }
}

/// The program while it is watched. It does not outlive a session that went wrong.
struct Watched(Child);

impl Watched {
    fn end(mut self) -> Result<()> {
        let status = self.0.wait()?;
        if !status.success() {
            bail!("a session ended badly ({status})");
        }
        Ok(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection that is kept.
struct Connection {
    stream: BufReader<TcpStream>,
    address: String,
    /// The headers of its session.
    session: String,
}

impl Connection {
    fn to(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), address: address.to_owned(), session: String::new() })
    }

    fn post(&mut self, headers: &str, body: &str) -> Result<()> {
        let (address, length) = (&self.address, body.len());
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        Ok(self.stream.get_mut().write_all(request.as_bytes())?)
    }

    /// Takes a response; its head, in small letters.
    fn receive(&mut self) -> Result<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            self.line(&mut head)?;
        }
        head.make_ascii_lowercase();
        if !head.starts_with("http/1.1 20") {
            bail!("refused: {}", head.lines().next().unwrap_or_default());
        }
        if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
            self.skip(length.trim().parse()?)?;
        } else if head.contains("\r\ntransfer-encoding: chunked\r\n") {
            loop {
                let mut size = String::new();
                self.line(&mut size)?;
                let size = usize::from_str_radix(size.trim(), 16)?;
                self.skip(size + 2)?;
                if size == 0 {
                    break;
                }
            }
        }
        Ok(head)
    }

    fn line(&mut self, text: &mut String) -> Result<()> {
        match self.stream.read_line(text)? {
            0 => bail!("it hung up"),
            _ => Ok(()),
        }
    }

    fn skip(&mut self, bytes: usize) -> Result<()> {
        Ok(self.stream.read_exact(&mut vec![0; bytes])?)
    }
}
