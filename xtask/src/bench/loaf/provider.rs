//! A model provider on loopback with the API of OpenRouter: a catalogue of one model, and answers in chunks.
//!
//! The text of each chunk is its send time and its number, so that the reader can calculate the latency and detect a
//! missing chunk.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// The only model that there is.
pub(super) const MODEL: &str = "bench/stream-1";
const CATALOGUE: &str =
    r#"{"data":[{"id":"bench/stream-1","name":"Stream","context_length":100000000,"supported_parameters":["tools"]}]}"#;

/// How a prompt is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Script {
    /// How many prompts must have come before any is answered.
    pub(super) together: usize,
    /// How many chunks an answer has.
    pub(super) chunks: u32,
    /// The time from one chunk to the next; nothing: as fast as they are taken.
    pub(super) every: Duration,
}

/// A provider that has an address and does not answer yet.
#[derive(Debug)]
pub(super) struct Provider {
    listener: TcpListener,
    /// Since when the moments in chunks are counted.
    pub(super) epoch: Instant,
}

/// The content of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// When it was sent, after the provider's epoch.
    pub(super) sent: Duration,
    /// How many chunks of the same answer came before it.
    pub(super) number: u32,
}

impl Provider {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, epoch: Instant::now() })
    }

    pub(super) fn base(&self) -> Result<String> {
        Ok(format!("http://{}", self.listener.local_addr()?))
    }

    /// Asks and reads as directly as one can: seconds from the write of each chunk to its read, without a server between.
    pub(super) fn read_directly(self, script: Script) -> Result<Vec<f64>> {
        let epoch = self.epoch;
        let mut stream = TcpStream::connect(self.listener.local_addr()?)?;
        self.answer(script);
        stream.write_all(b"POST /chat/completions HTTP/1.1\r\n\r\n")?;
        let (mut laps, mut line) = (Vec::new(), String::new());
        let mut input = BufReader::new(stream);
        while input.read_line(&mut line)? > 0 {
            let read = epoch.elapsed();
            if let Some((_, text)) = line.split_once("\"content\":\"") {
                let stamp: Stamp = text.split(' ').next().unwrap_or_default().parse()?;
                laps.push(read.saturating_sub(stamp.sent).as_secs_f64());
            }
            line.clear();
        }
        ensure!(laps.len() == script.chunks as usize, "{} of {} chunks were read", laps.len(), script.chunks);
        Ok(laps)
    }

    /// Answers from now on, on threads that run where this one may run and end with the bench.
    pub(super) fn answer(self, script: Script) {
        let Self { listener, epoch } = self;
        let together = Arc::new(Barrier::new(script.together));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let together = together.clone();
                // A server that hangs up in the middle is noticed by its client.
                std::thread::spawn(move || serve(&stream, script, &together, epoch));
            }
        });
    }
}

impl Stamp {
    fn text(&self) -> String {
        format!("{}.{} ", self.sent.as_nanos(), self.number)
    }
}

impl FromStr for Stamp {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (sent, number) =
            text.split_once('.').with_context(|| format!("a chunk that the provider did not send: {text}"))?;
        Ok(Self { sent: Duration::from_nanos(sent.parse()?), number: number.parse()? })
    }
}

/// Answers the requests of one connection.
fn serve(stream: &TcpStream, script: Script, together: &Barrier, epoch: Instant) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream);
    loop {
        let path = request(&mut input)?;
        if path.ends_with("/chat/completions") {
            together.wait();
            return stream_chunks(stream, script, epoch);
        }
        let (status, body) = if path.ends_with("/models") { ("200 OK", CATALOGUE) } else { ("404 Not Found", "{}") };
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        (&*stream).write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
    }
}

/// Reads one request and returns its path.
fn request(input: &mut impl BufRead) -> Result<String> {
    let (mut path, mut length, mut line) = (String::new(), 0, String::new());
    loop {
        line.clear();
        ensure!(input.read_line(&mut line)? > 0, "the connection ended");
        let said = line.trim_end();
        if said.is_empty() {
            break;
        }
        if path.is_empty() {
            path = said.split(' ').nth(1).context("no path")?.to_owned();
        } else if let Some((name, value)) = said.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    std::io::copy(&mut input.take(length), &mut std::io::sink())?;
    Ok(path)
}

/// An answer, each chunk in a write of its own; the end of the connection is its end.
fn stream_chunks(mut stream: &TcpStream, script: Script, epoch: Instant) -> Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
    let begin = Instant::now();
    for number in 0..script.chunks {
        let due = begin + script.every * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let text = Stamp { sent: epoch.elapsed(), number }.text();
        let event = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        stream.write_all(event.as_bytes())?;
    }
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    Ok(stream.write_all(end.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { sent: Duration::from_micros(1234), number: 5 };
        assert_eq!(stamp.text().trim().parse::<Stamp>().unwrap(), stamp);
        assert!("hello".parse::<Stamp>().is_err());
    }

    #[test]
    fn an_answer_has_the_number_of_chunks_of_its_script() {
        let script = Script { together: 1, chunks: 7, every: Duration::ZERO };
        assert_eq!(Provider::new().unwrap().read_directly(script).unwrap().len(), 7);
    }

    #[test]
    fn a_request_is_read_to_the_end_of_its_body() {
        let mut input = &b"POST /a/models HTTP/1.1\r\nContent-Length: 3\r\n\r\n{1}GET /b HTTP/1.1\r\n\r\n"[..];
        assert_eq!(request(&mut input).unwrap(), "/a/models");
        assert_eq!(request(&mut input).unwrap(), "/b");
        assert!(request(&mut input).is_err());
    }
}
