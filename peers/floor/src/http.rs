//! The floor over HTTP/1.1: one thread that waits for all connections at once, reads whole POSTs and answers each.
//!
//! Of a request it looks at nothing but where the body starts and how long it is.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::event::epoll;

use crate::{Wanted, answer, tools};

/// The event token of the listener. The token of a connection is its index.
const LISTENER: u64 = u64::MAX;
const LENGTH: &[u8] = b"content-length:";

pub(crate) fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Vec::with_capacity(256);
    let mut scratch = Scratch { tools: tools(1), body: Vec::new(), output: Vec::new() };
    loop {
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let name = event.data.u64();
            if name == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let free = connections.iter().position(Option::is_none).unwrap_or(connections.len());
                epoll::add(&poll, &stream, epoll::EventData::new_u64(free as u64), epoll::EventFlags::IN)?;
                let connection = Some(Connection { stream, input: vec![0; 1 << 14], filled: 0 });
                match connections.get_mut(free) {
                    Some(place) => *place = connection,
                    None => connections.push(connection),
                }
                continue;
            }
            let place = &mut connections[name as usize];
            let is_open = place.as_mut().is_some_and(|open| open.step(&mut scratch).unwrap_or(false));
            if !is_open {
                *place = None;
            }
        }
    }
}

/// Buffers that all connections share, one connection at a time.
struct Scratch {
    tools: String,
    body: Vec<u8>,
    output: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    filled: usize,
}

impl Connection {
    /// One read, and an answer to each whole request; whether the connection stays open.
    fn step(&mut self, scratch: &mut Scratch) -> io::Result<bool> {
        if self.filled == self.input.len() {
            self.input.resize(2 * self.filled, 0);
        }
        let count = self.stream.read(&mut self.input[self.filled..])?;
        self.filled += count;
        let mut start = 0;
        scratch.output.clear();
        while let Some((body, end)) = whole(&self.input[start..self.filled]) {
            scratch.body.clear();
            let input = &self.input[start..start + end];
            if answer(&Wanted::find(&input[body..]), &scratch.tools, &mut scratch.body)? {
                let head =
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: floor\r\ncontent-length: ";
                write!(scratch.output, "{head}{}\r\n\r\n", scratch.body.len())?;
                scratch.output.extend_from_slice(&scratch.body);
            } else {
                scratch.output.extend_from_slice(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
            }
            start += end;
        }
        self.stream.write_all(&scratch.output)?;
        self.input.copy_within(start..self.filled, 0);
        self.filled -= start;
        Ok(count > 0)
    }
}

/// Where the body of the first request starts and where it ends, once all of it is here.
fn whole(input: &[u8]) -> Option<(usize, usize)> {
    let (mut at, mut length) = (0, 0);
    loop {
        let end = at + input[at..].iter().position(|byte| *byte == b'\n')?;
        let line = &input[at..end];
        at = end + 1;
        if line == b"\r" {
            break;
        }
        if line.get(..LENGTH.len()).is_some_and(|name| name.eq_ignore_ascii_case(LENGTH)) {
            let digits = line[LENGTH.len()..].iter().filter(|byte| byte.is_ascii_digit());
            length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
        }
    }
    (input.len() >= at + length).then_some((at, at + length))
}
