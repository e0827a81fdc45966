//! A collector of OpenTelemetry: takes requests, and reads spans from them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::support::PATIENCE;

/// A request to the collector.
#[derive(Debug, Clone)]
pub(crate) struct Exported {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// A collector on a port of its own. It ends with the test process.
pub(crate) struct Collector {
    pub(crate) url: String,
    received: Arc<(Mutex<Vec<Exported>>, Condvar)>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Arc::<(Mutex<Vec<Exported>>, Condvar)>::default();
        let collected = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let collected = Arc::clone(&collected);
                std::thread::spawn(move || serve(stream, &collected));
            }
        });
        Self { url, received }
    }

    /// Waits until what was received satisfies a condition, and returns the result of it.
    pub(crate) fn wait_for<T>(&self, condition: impl Fn(&[Exported]) -> Option<T>) -> T {
        let (received, changed) = &*self.received;
        let begun = Instant::now();
        let mut exported = received.lock().expect("no panic");
        loop {
            if let Some(result) = condition(&exported) {
                return result;
            }
            let left = PATIENCE.checked_sub(begun.elapsed()).unwrap_or_else(|| panic!("in vain: {exported:?}"));
            exported = changed.wait_timeout(exported, left).expect("no panic").0;
        }
    }

    /// Waits until a trace has this many spans.
    pub(crate) fn spans_of(&self, trace: &str, count: usize) -> Vec<ReadSpan> {
        self.wait_for(|exported| {
            let requests = exported.iter().filter(|one| one.path == "/v1/traces");
            let spans: Vec<_> = requests.flat_map(|one| spans(&one.body)).filter(|span| span.trace == trace).collect();
            (spans.len() >= count).then_some(spans)
        })
    }
}

fn serve(stream: TcpStream, received: &(Mutex<Vec<Exported>>, Condvar)) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok())?;
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        received.0.lock().ok()?.push(Exported { path, headers, body });
        received.1.notify_all();
        (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()?;
    }
}

/// A span as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadSpan {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    /// 2: an error.
    pub(crate) status: u64,
    pub(crate) attributes: BTreeMap<String, String>,
}

/// A field of a message in Protocol Buffers.
enum Field<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

/// The fields of a message.
fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, rest) = message.split_first().expect("a whole number");
            *message = rest;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return number;
            }
        }
    }
    let mut all = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut message)),
            1 => {
                let (number, rest) = message.split_first_chunk().expect("eight bytes");
                message = rest;
                Field::Number(u64::from_le_bytes(*number))
            }
            2 => {
                let length = varint(&mut message) as usize;
                let (bytes, rest) = message.split_at(length);
                message = rest;
                Field::Bytes(bytes)
            }
            other => panic!("wire type {other}"),
        };
        all.push((tag >> 3, field));
    }
    all
}

/// The fields of a message with one number that have bytes.
fn parts(message: &[u8], number: u64) -> Vec<&[u8]> {
    let fields = fields(message).into_iter().filter(|(field, _)| *field == number);
    fields.filter_map(|(_, field)| if let Field::Bytes(bytes) = field { Some(bytes) } else { None }).collect()
}

fn number(message: &[u8], number: u64) -> u64 {
    let found = fields(message).into_iter().find(|(field, _)| *field == number);
    if let Some((_, Field::Number(number))) = found { number } else { 0 }
}

/// The spans of an export request.
pub(crate) fn spans(request: &[u8]) -> Vec<ReadSpan> {
    let text =
        |message: &[u8], field| parts(message, field).first().map(|text| String::from_utf8_lossy(text).into_owned());
    let hex = |message: &[u8], field: u64| -> String {
        parts(message, field).concat().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let attribute = |attribute: &[u8]| {
        let value = parts(attribute, 2).concat();
        let value = text(&value, 1).unwrap_or_else(|| number(&value, 3).to_string());
        (text(attribute, 1).unwrap_or_default(), value)
    };
    let scopes = parts(request, 1).into_iter().flat_map(|resource| parts(resource, 2));
    scopes
        .flat_map(|scope| parts(scope, 2))
        .map(|span| ReadSpan {
            trace: hex(span, 1),
            id: hex(span, 2),
            parent: hex(span, 4),
            name: text(span, 5).unwrap_or_default(),
            kind: number(span, 6),
            status: parts(span, 15).first().map_or(0, |status| number(status, 3)),
            attributes: parts(span, 9).into_iter().map(attribute).collect(),
        })
        .collect()
}
