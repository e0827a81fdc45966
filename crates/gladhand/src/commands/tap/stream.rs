//! The recording that a running process writes to its socket.

use std::collections::VecDeque;

use anyhow::anyhow;
use gladhand_recording::{Entry, Header, NotARecording, Reader, Refused};
use gladhand_server::control::{self, ProcessStatus};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use super::not_followed;
use crate::commands::CommandError;
use crate::terminal::text::plain;

/// How many bytes are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// The longest header. Commands in it may be long.
const MAX_HEADER_BYTES: usize = 4 * 1024 * 1024;

/// A process whose messages are read.
pub(super) struct Followed {
    stream: UnixStream,
    chunk: Vec<u8>,
    reader: Reader<VecDeque<u8>>,
}

/// What comes next.
pub(super) enum Next {
    /// An entry, with its number.
    Entry(u64, Result<Entry, NotARecording>),
    /// The process ended.
    End,
}

impl Followed {
    /// Connects to a process, and reads the header.
    pub(super) async fn open(process: &ProcessStatus) -> Result<Self, CommandError> {
        let failed = |error: std::io::Error| not_followed(process, &error.to_string());
        let mut stream = control::follow(process.pid).await.map_err(|error| {
            let version =
                format!("it runs gladhand {}, this is {}", plain(&process.version), env!("CARGO_PKG_VERSION"));
            failed(error).hint(format!("{version}; a process can be followed if its version has `gladhand tap`"))
        })?;
        let (mut received, mut chunk) = (VecDeque::new(), vec![0; CHUNK_BYTES]);
        while !received.contains(&b'\n') {
            let length = stream.read(&mut chunk).await.map_err(failed)?;
            if length == 0 || received.len() > MAX_HEADER_BYTES {
                return Err(not_followed(process, "it ended the connection"));
            }
            received.extend(&chunk[..length]);
        }
        let line: Vec<_> = received.iter().copied().take_while(|byte| *byte != b'\n').collect();
        if let Some(Refused { refused }) = Refused::parse(&String::from_utf8_lossy(&line)) {
            return Err(not_followed(process, &plain(&refused)));
        }
        let reader = Reader::open(received).map_err(|error| CommandError::from(anyhow!(error)))?;
        Ok(Self { stream, chunk, reader })
    }

    /// The header of the recording.
    pub(super) fn header(&self) -> &Header {
        self.reader.header()
    }

    /// Waits for the next entry.
    pub(super) async fn next(&mut self) -> Result<Next, CommandError> {
        loop {
            if let Some((number, entry)) = self.reader.next_entry()? {
                return Ok(Next::Entry(number, entry));
            }
            match self.stream.read(&mut self.chunk).await {
                // A process that is killed may reset the connection.
                Ok(0) | Err(_) => return Ok(Next::End),
                Ok(length) => self.reader.source_mut().extend(&self.chunk[..length]),
            }
        }
    }
}
