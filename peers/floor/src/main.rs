//! The floor of the bench: finds the id, the method and the message of a line, and answers from a template.
//!
//! It reads each byte once, keeps no session, refuses nothing and checks nothing, so no real server can be
//! expected to be faster. The echoed text leaves in the spelling in which it came. Lines come on stdin, or with
//! `http PORT` as the bodies of POSTs: see `http.rs`. With `tools COUNT` it lists so many tools, for gateways to list.

mod http;

use std::io::{self, BufRead, BufReader, BufWriter, Write};

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [mode, port] if mode == "http" => http::serve(port.parse().map_err(io::Error::other)?),
        [mode, count] if mode == "tools" => serve_stdio(&tools(count.parse().map_err(io::Error::other)?)),
        _ => serve_stdio(&tools(1)),
    }
}

/// The list of so many tools: the first is `echo`, the others only make it longer.
fn tools(count: usize) -> String {
    let tool = |index: usize| {
        let name = if index == 0 { "echo".to_owned() } else { format!("tool_{index}") };
        let schema = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;
        format!(r#"{{"name":"{name}","description":"Says the message again","inputSchema":{schema}}}"#)
    };
    (0..count).map(tool).collect::<Vec<_>>().join(",")
}

fn serve_stdio(tools: &str) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        if answer(&Wanted::find(&line), tools, &mut output)? {
            output.write_all(b"\n")?;
        }
        line.clear();
        // Many answers in one write while more lines are already here.
        if !input.buffer().contains(&b'\n') {
            output.flush()?;
        }
    }
    output.flush()
}

/// The raw JSON of what an answer needs; `None` where the line has no such member.
#[derive(Default)]
struct Wanted<'a> {
    id: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    version: Option<&'a [u8]>,
    message: Option<&'a [u8]>,
    is_modern: bool,
}

impl<'a> Wanted<'a> {
    /// Walks the line string by string, so that text which merely looks like a member is never taken for one.
    fn find(line: &'a [u8]) -> Self {
        let mut wanted = Self::default();
        let (mut at, mut depth) = (0, 0);
        while let Some(&byte) = line.get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                b'"' => {
                    let end = end_of_string(line, at);
                    if line.get(end) == Some(&b':') {
                        let value = end + 1;
                        let slot = match (depth, &line[at + 1..end - 1]) {
                            (1, b"id") => Some(&mut wanted.id),
                            (1, b"method") => Some(&mut wanted.method),
                            (2, b"protocolVersion") => Some(&mut wanted.version),
                            (3, b"message") => Some(&mut wanted.message),
                            (3, b"io.modelcontextprotocol/protocolVersion") => {
                                wanted.is_modern = true;
                                None
                            }
                            _ => None,
                        };
                        if let Some(slot) = slot {
                            at = end_of_scalar(line, value);
                            *slot = Some(&line[value..at]);
                            continue;
                        }
                    }
                    at = end;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        wanted
    }
}

/// The index after the string that opens at `start`, eight bytes at a time.
fn end_of_string(line: &[u8], start: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let has = |word: u64, byte: u8| {
        let zeroed = word ^ (ONES * u64::from(byte));
        zeroed.wrapping_sub(ONES) & !zeroed & (ONES << 7)
    };
    let mut at = start + 1;
    while at < line.len() {
        if let Some(eight) = line.get(at..at + 8).and_then(|eight| eight.try_into().ok()) {
            let word = u64::from_le_bytes(eight);
            let hits = has(word, b'"') | has(word, b'\\');
            if hits == 0 {
                at += 8;
                continue;
            }
            at += hits.trailing_zeros() as usize / 8;
        }
        match line[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    line.len()
}

fn end_of_scalar(line: &[u8], start: usize) -> usize {
    match line.get(start) {
        Some(b'"') => end_of_string(line, start),
        _ => line[start..].iter().position(|byte| b",}] \r\n".contains(byte)).map_or(line.len(), |n| start + n),
    }
}

/// Writes the answer, if there is one to write.
fn answer(wanted: &Wanted, tools: &str, output: &mut impl Write) -> io::Result<bool> {
    let (Some(id), Some(method)) = (wanted.id, wanted.method) else { return Ok(false) };
    output.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":")?;
    output.write_all(id)?;
    output.write_all(b",\"result\":{")?;
    if wanted.is_modern {
        output.write_all(b"\"resultType\":\"complete\",")?;
    }
    match method {
        b"\"initialize\"" => {
            output.write_all(b"\"protocolVersion\":")?;
            output.write_all(wanted.version.unwrap_or(b"\"2025-11-25\""))?;
            output.write_all(b",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"floor\",\"version\":\"1\"}")?;
        }
        b"\"server/discover\"" => output.write_all(
            b"\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}},\"ttlMs\":0,\"cacheScope\":\"public\"",
        )?,
        b"\"tools/list\"" => {
            output.write_all(b"\"ttlMs\":0,\"cacheScope\":\"public\",\"tools\":[")?;
            output.write_all(tools.as_bytes())?;
            output.write_all(b"]")?;
        }
        _ => {
            output.write_all(b"\"content\":[{\"type\":\"text\",\"text\":")?;
            output.write_all(wanted.message.unwrap_or(b"\"\""))?;
            output.write_all(b"}]")?;
        }
    }
    output.write_all(b"}}")?;
    Ok(true)
}
