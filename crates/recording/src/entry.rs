//! The lines of a recording.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the format that is written, in the member `gladhand_recording` of the first line. Version 1 has no HTTP
/// exchanges, and is read too.
pub const FORMAT: u32 = 2;

/// The first line of a recording, and of each part of one that was rotated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    #[serde(rename = "gladhand_recording")]
    pub format: u32,
    /// The version of the program that wrote the file.
    pub version: String,
    /// When the recording began, in milliseconds since 1970. Times of entries count from here, in all parts.
    pub started_ms: u64,
    /// The recorded command or URL, without secrets. Empty for a server with many upstreams.
    #[serde(default)]
    pub command: Vec<String>,
    /// The number of this part, from 1.
    #[serde(default = "first_part")]
    pub part: u32,
}

fn first_part() -> u32 {
    1
}

/// The side of a session that sent something, by its role in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// What a peer is called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerName {
    /// The name that it gives itself.
    #[serde(default)]
    pub name: String,
    /// The version that it gives itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// A client: the principal as which it was authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// A server: the name of the upstream in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
}

/// An HTTP request of the client, and the status of its response. Bodies are entries of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpExchange {
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The status of the response.
    pub status: u16,
    /// The recorded headers of the request, with lower-case names.
    pub request: Headers,
    /// The recorded headers of the response.
    pub response: Headers,
}

/// Headers by name. Values of the same name are joined with a comma.
pub type Headers = BTreeMap<String, String>;

/// How a session ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionEnd {
    /// For example the exit status of the server.
    pub reason: Option<String>,
}

/// A line of a recording after the first.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Milliseconds since the start of the recording.
    pub ms: f64,
    /// The session: `client-N` with a client, `server-N` with an upstream. `None` for what concerns the whole recording.
    pub session: Option<String>,
    /// What happened.
    pub kind: EntryKind,
}

/// What an entry tells.
#[derive(Debug, Clone)]
pub enum EntryKind {
    /// A message in JSON, as it was sent except for masked secrets.
    Message {
        /// Its sender.
        from: Sender,
        /// The dialect, once it is known.
        dialect: Option<String>,
        /// `request`, `response`, `error` or `notification`, if the dialect could tell.
        kind: Option<String>,
        /// Its text.
        message: Box<RawValue>,
    },
    /// A line that is not JSON.
    Text {
        /// Its sender.
        from: Sender,
        /// Whether a server wrote it to its standard error output.
        is_stderr: bool,
        /// The line. Bytes that are not UTF-8 are replaced.
        text: String,
    },
    /// The opening of the session succeeded.
    Opened {
        /// The dialect.
        dialect: String,
        /// The version of the dialect in force.
        version: String,
        /// The other side of the session, as the recording process sees it.
        peer: PeerName,
    },
    /// An HTTP request was answered.
    Http(HttpExchange),
    /// The session ended.
    Closed(SessionEnd),
    /// So many entries were not recorded, because the file could not be written fast enough.
    Dropped(u64),
}

/// A line that cannot be read as a part of a recording.
#[derive(Debug, thiserror::Error)]
pub enum NotARecording {
    /// The first line is no header.
    #[error("the file is not a recording of gladhand: its first line has no `gladhand_recording`")]
    NoHeader,
    /// The header names another version of the format.
    #[error("the recording has format {0}, and this version of gladhand reads formats 1 to {FORMAT}")]
    OtherFormat(u64),
    /// A later line is no entry.
    #[error("{0}")]
    Entry(serde_json::Error),
    /// A later line is JSON, and tells nothing that this version knows.
    #[error("the entry has no `message`, no `text` and no known `event`")]
    UnknownEntry,
    /// A later line is longer than [`MAX_LINE`](crate::MAX_LINE).
    #[error("the line is longer than {} MiB", crate::MAX_LINE / 1024 / 1024)]
    TooLong,
    /// The last line has no line break, and is no entry.
    #[error("the last line is cut off")]
    CutOff,
}

impl Header {
    /// Reads the first line.
    ///
    /// # Errors
    ///
    /// If the line is no header, or one of another format.
    pub fn parse(line: &str) -> Result<Self, NotARecording> {
        #[derive(Deserialize)]
        struct Format {
            gladhand_recording: u64,
        }
        let format: Format = serde_json::from_str(line).map_err(|_| NotARecording::NoHeader)?;
        if !(1..=u64::from(FORMAT)).contains(&format.gladhand_recording) {
            return Err(NotARecording::OtherFormat(format.gladhand_recording));
        }
        serde_json::from_str(line).map_err(|_| NotARecording::NoHeader)
    }

    /// The line of the header, without a line break.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("it has names and numbers only")
    }
}

/// The line that a program gets instead of a recording, if it cannot follow a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The reason.
    pub refused: String,
}

impl Refused {
    /// Reads the line. `None` if it is another one.
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// The line, without a line break.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("it has one string")
    }
}

/// The members of an entry as they are written.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Written {
    ms: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Sender>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dialect: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peer: Option<PeerName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frames: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<Headers>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<Headers>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    // Last, so that the members before it line up in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Box<RawValue>>,
}

/// The value of `stream` for a line of the standard error output.
const STDERR: &str = "stderr";

impl Entry {
    /// Reads a line after the first.
    ///
    /// # Errors
    ///
    /// If the line is no entry of this format, for example because it was cut off.
    pub fn parse(line: &str) -> Result<Self, NotARecording> {
        let written: Written = serde_json::from_str(line).map_err(NotARecording::Entry)?;
        let Written { ms, session, from, dialect, version, kind, peer, reason, frames, .. } = written;
        let (stream, event) = (written.stream, written.event);
        let kind = match (event.as_deref(), from, written.message, written.text) {
            (None, Some(from), Some(message), _) => EntryKind::Message { from, dialect, kind, message },
            (None, Some(from), None, Some(text)) => {
                EntryKind::Text { from, is_stderr: stream.as_deref() == Some(STDERR), text }
            }
            (Some("opened"), ..) => EntryKind::Opened {
                dialect: dialect.unwrap_or_default(),
                version: version.unwrap_or_default(),
                peer: peer.unwrap_or_default(),
            },
            (Some("http"), ..) => EntryKind::Http(HttpExchange {
                method: written.method.unwrap_or_default(),
                path: written.path.unwrap_or_default(),
                status: written.status.unwrap_or_default(),
                request: written.request.unwrap_or_default(),
                response: written.response.unwrap_or_default(),
            }),
            (Some("closed"), ..) => EntryKind::Closed(SessionEnd { reason }),
            (Some("dropped"), ..) => EntryKind::Dropped(frames.unwrap_or_default()),
            _ => return Err(NotARecording::UnknownEntry),
        };
        Ok(Self { ms, session, kind })
    }

    /// The line of the entry, without a line break.
    pub fn to_line(&self) -> String {
        self.clone().into_line()
    }

    /// The same without a copy of its message.
    pub fn into_line(self) -> String {
        let mut written = Written { ms: self.ms, session: self.session, ..Written::default() };
        match self.kind {
            EntryKind::Message { from, dialect, kind, message } => {
                (written.from, written.dialect, written.kind) = (Some(from), dialect, kind);
                written.message = Some(message);
            }
            EntryKind::Text { from, is_stderr, text } => {
                (written.from, written.text) = (Some(from), Some(text));
                written.stream = is_stderr.then(|| STDERR.to_owned());
            }
            EntryKind::Opened { dialect, version, peer } => {
                written.event = Some("opened".to_owned());
                (written.dialect, written.version, written.peer) = (Some(dialect), Some(version), Some(peer));
            }
            EntryKind::Http(HttpExchange { method, path, status, request, response }) => {
                written.event = Some("http".to_owned());
                (written.method, written.path, written.status) = (Some(method), Some(path), Some(status));
                (written.request, written.response) = (Some(request), Some(response));
            }
            EntryKind::Closed(end) => {
                written.event = Some("closed".to_owned());
                written.reason = end.reason;
            }
            EntryKind::Dropped(frames) => {
                written.event = Some("dropped".to_owned());
                written.frames = Some(frames);
            }
        }
        serde_json::to_string(&written).expect("its keys are text and its numbers are finite")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let message = RawValue::from_string(r#"{"id": 1.0,"method":"a"}"#.to_owned()).unwrap();
        let kinds = [
            EntryKind::Message {
                from: Sender::Client,
                dialect: Some("mcp".to_owned()),
                kind: Some("request".to_owned()),
                message,
            },
            EntryKind::Text { from: Sender::Server, is_stderr: true, text: "a\u{1b}\"b".to_owned() },
            EntryKind::Opened {
                dialect: "mcp".to_owned(),
                version: "2025-11-25".to_owned(),
                peer: PeerName { name: "x".to_owned(), ..PeerName::default() },
            },
            EntryKind::Http(HttpExchange {
                method: "POST".to_owned(),
                path: "/mcp".to_owned(),
                status: 202,
                request: Headers::from([("accept".to_owned(), "*/*".to_owned())]),
                response: Headers::new(),
            }),
            EntryKind::Closed(SessionEnd { reason: Some("exit status: 3".to_owned()) }),
            EntryKind::Dropped(7),
        ];
        for kind in kinds {
            let line = Entry { ms: 1.25, session: Some("client-1".to_owned()), kind }.to_line();
            assert_eq!(Entry::parse(&line).unwrap().to_line(), line);
            assert!(!line.contains('\n') && !line.contains("null"), "{line}");
        }
    }

    #[test]
    fn a_message_keeps_its_spelling() {
        let line = r#"{"ms":0.5,"session":"client-1","from":"client","message":{"id": 1.0,  "x":1e400}}"#;
        let EntryKind::Message { message, .. } = Entry::parse(line).unwrap().kind else { panic!("no message") };
        assert_eq!(message.get(), r#"{"id": 1.0,  "x":1e400}"#);
    }

    #[test]
    fn other_files_and_formats_are_refused() {
        let error = |line: &str| Header::parse(line).unwrap_err().to_string();
        assert!(error(r#"{"jsonrpc":"2.0"}"#).contains("not a recording"));
        assert!(error("").contains("not a recording"));
        for other in [0, 3] {
            let header = format!(r#"{{"gladhand_recording":{other}}}"#);
            assert!(error(&header).contains(&format!("format {other}")));
        }
        assert!(Header::parse(r#"{"gladhand_recording":1,"version":"0.1.0","started_ms":5}"#).is_ok());
        for line in [r#"{"ms":1}"#, r#"{"ms":1,"event":"later"}"#, r#"{"ms":1,"from":"client","mess"#] {
            assert!(Entry::parse(line).is_err(), "{line}");
        }
        let header = Header { format: FORMAT, version: "0.1.0".to_owned(), started_ms: 5, command: vec![], part: 2 };
        assert_eq!(Header::parse(&header.to_line()).unwrap(), header);
    }
}
