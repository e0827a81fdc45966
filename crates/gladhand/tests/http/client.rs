//! A client that writes requests byte by byte and reads answers as they come. Every read has a bound.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{PATIENCE, mcp_initialize};

/// The content types that a client of either era accepts.
pub(crate) const ACCEPT: &str = "application/json, text/event-stream";

/// The one stateless version.
pub(crate) const STATELESS: &str = "2026-07-28";

trait Wire: Read + Write + Send {
    fn finish(&self);
}

impl Wire for TcpStream {
    fn finish(&self) {
        self.shutdown(Shutdown::Write).expect("a connection");
    }
}

impl Wire for UnixStream {
    fn finish(&self) {
        self.shutdown(Shutdown::Write).expect("a connection");
    }
}

/// One connection.
pub(crate) struct Connection {
    wire: Box<dyn Wire>,
    buffer: Vec<u8>,
    /// Decoded bytes of a stream that were not handed out yet.
    decoded: Vec<u8>,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// One server-sent event.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) retry: Option<u64>,
    pub(crate) data: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::reach(address, PATIENCE).expect("it listens")
    }

    pub(crate) fn open_unix(path: &Path) -> Self {
        Self::reach_unix(path, PATIENCE).expect("it listens")
    }

    /// Opens a connection, if a server listens; all reads on it time out after this time.
    pub(crate) fn reach(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        Self::over(TcpStream::connect(address)?, patience)
    }

    /// Opens a connection that comes from another address of this machine.
    #[allow(dead_code, reason = "not every target that includes this file uses it")]
    pub(crate) fn open_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let wire = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&wire, &SocketAddr::from((source, 0))).expect("an address of this machine");
        connect(&wire, &address).expect("it listens");
        Self::over(wire.into(), PATIENCE).expect("a connection")
    }

    fn over(wire: TcpStream, patience: Duration) -> io::Result<Self> {
        wire.set_read_timeout(Some(patience))?;
        wire.set_nodelay(true)?;
        Ok(Self { wire: Box::new(wire), buffer: Vec::new(), decoded: Vec::new() })
    }

    /// The same for a socket in the file system.
    pub(crate) fn reach_unix(path: &Path, patience: Duration) -> io::Result<Self> {
        let wire = UnixStream::connect(path)?;
        wire.set_read_timeout(Some(patience))?;
        Ok(Self { wire: Box::new(wire), buffer: Vec::new(), decoded: Vec::new() })
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.wire.write_all(bytes).expect("it reads");
    }

    /// Says that nothing more is sent; answers are still read.
    pub(crate) fn finish(&mut self) {
        self.wire.finish();
    }

    /// Sends a request. `Host` is a loopback name unless one is given.
    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        self.try_send(method, path, headers, body).expect("it reads");
    }

    /// The same, if it still reads.
    pub(crate) fn try_send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<()> {
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str("Host: localhost\r\n");
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.wire.write_all(request.as_bytes())
    }

    /// Reads the head of a response; its body is empty.
    pub(crate) fn head(&mut self) -> Response {
        self.try_head().expect("the connection ended before an answer came")
    }

    /// The same, unless the connection ends first.
    fn try_head(&mut self) -> Option<Response> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            if !self.fill() {
                return None;
            }
        };
        let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).expect("text");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Response { status: status.expect("a status"), headers, body: String::new() })
    }

    /// Reads a whole response of a known length, or all events of a stream that ends.
    pub(crate) fn response(&mut self) -> Response {
        self.try_response().expect("the connection ended before the answer did")
    }

    /// The same, unless the connection ends first.
    pub(crate) fn try_response(&mut self) -> Option<Response> {
        let mut response = self.try_head()?;
        if response.header("transfer-encoding").is_some() {
            while self.chunk()? {}
            response.body = String::from_utf8(std::mem::take(&mut self.decoded)).expect("text");
            return Some(response);
        }
        let length: usize = response.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.buffer.len() < length {
            if !self.fill() {
                return None;
            }
        }
        response.body = String::from_utf8(self.buffer.drain(..length).collect()).expect("text");
        Some(response)
    }

    /// Sends a request and reads its response.
    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.send(method, path, headers, body);
        self.response()
    }

    /// Posts to `/mcp` with what every client sends, and more.
    pub(crate) fn post(&mut self, headers: &[(&str, &str)], body: &str) -> Response {
        self.send_post(headers, body);
        self.response()
    }

    /// The same without reading the response.
    pub(crate) fn send_post(&mut self, headers: &[(&str, &str)], body: &str) {
        let mut all = vec![("Content-Type", "application/json"), ("Accept", ACCEPT)];
        all.extend_from_slice(headers);
        self.send("POST", "/mcp", &all, body);
    }

    /// The next event of a stream; `None` at its end. Comments are skipped.
    pub(crate) fn event(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = find(&self.decoded, b"\n\n") {
                let text = String::from_utf8(self.decoded.drain(..end + 2).collect()).expect("text");
                let mut event = Event::default();
                let mut is_comment = true;
                for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with(':')) {
                    is_comment = false;
                    let (name, value) = line.split_once(':').expect("a field");
                    let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
                    match name {
                        "id" => event.id = Some(value),
                        "event" => event.name = Some(value),
                        "retry" => event.retry = value.parse().ok(),
                        "data" => event.data = value,
                        other => panic!("an unknown field {other}"),
                    }
                }
                if !is_comment {
                    return Some(event);
                }
            }
            if !self.chunk()? {
                return None;
            }
        }
    }

    /// Whether the connection ends, or answers something.
    pub(crate) fn ends(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill()
    }

    /// Waits for more of a stream, and hands it out as it came.
    pub(crate) fn some_bytes(&mut self) -> Vec<u8> {
        if self.buffer.is_empty() {
            self.fill();
        }
        std::mem::take(&mut self.buffer)
    }

    /// Forgets what came and was not looked at.
    pub(crate) fn discard(&mut self) {
        self.buffer.clear();
    }

    /// Reads one chunk; false for the last, nothing if the connection ends before it.
    fn chunk(&mut self) -> Option<bool> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let size = std::str::from_utf8(&self.buffer[..end]).expect("text");
                let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
                if self.buffer.len() >= end + 2 + size + 2 {
                    self.decoded.extend_from_slice(&self.buffer[end + 2..end + 2 + size]);
                    self.buffer.drain(..end + 2 + size + 2);
                    return Some(size > 0);
                }
            }
            if !self.fill() {
                return None;
            }
        }
    }

    fn fill(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        match self.wire.read(&mut bytes) {
            Ok(0) => false,
            Ok(read) => {
                self.buffer.extend_from_slice(&bytes[..read]);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing came: {error}"),
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Opens a session; returns its id.
pub(crate) fn open_session(connection: &mut Connection, version: &str) -> String {
    open_session_with(connection, version, &[])
}

/// Opens a session with more headers; returns its id.
pub(crate) fn open_session_with(connection: &mut Connection, version: &str, headers: &[(&str, &str)]) -> String {
    let opened = connection.post(headers, &mcp_initialize(version));
    assert_eq!((opened.status, &opened.json()["result"]["protocolVersion"]), (200, &json!(version)), "{opened:?}");
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let headers: Vec<_> = headers.iter().copied().chain([("Mcp-Session-Id", session.as_str())]).collect();
    let initialized = connection.post(&headers, crate::support::MCP_INITIALIZED);
    assert_eq!((initialized.status, initialized.body.as_str()), (202, ""));
    session
}

/// A request that carries its own opening.
pub(crate) fn stateless(id: u64, method: &str, params: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{STATELESS}","io.modelcontextprotocol/clientCapabilities":{{}},"progressToken":{id}}}{comma}{params}}}}}"#
    )
}

/// A `tools/call` that carries its own opening, with the headers that belong to it.
pub(crate) fn stateless_call<'a>(id: u64, tool: &'a str, arguments: &str) -> (Vec<(&'a str, &'a str)>, String) {
    let headers = vec![("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
    (headers, stateless(id, "tools/call", &format!(r#""name":"{tool}","arguments":{arguments}"#)))
}

/// A `tools/call` of a session that wants to hear of progress.
pub(crate) fn call_with_progress(id: u64, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{"progressToken":{id}}}}}}}"#
    )
}
