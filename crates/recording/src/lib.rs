//! Recordings of sessions: the messages between a client and a server, in a file.
//!
//! A recording is a file of JSON lines. The first line is a [`Header`], every other line an [`Entry`]. Each line is
//! written as it happens, so a process that is killed loses at most the last line. `docs/recording.md` describes the
//! members for users.
//!
//! ```text
//! {"gladhand_recording":2,"version":"0.1.0","started_ms":1795031388000,"command":["my-server"],"part":1}
//! {"ms":0.4,"session":"client-1","from":"client","dialect":"mcp","kind":"request","message":{"jsonrpc":"2.0",…}}
//! {"ms":2.1,"session":"client-1","event":"opened","dialect":"mcp","version":"2025-11-25","peer":{"name":"cursor"}}
//! {"ms":2.2,"session":"client-1","event":"http","method":"POST","path":"/mcp","status":200,"request":{…},"response":{…}}
//! {"ms":9.8,"session":"client-1","event":"closed","reason":"exit status: 0"}
//! ```
//!
//! [`Recorder`] writes the lines. This crate opens no file, reads no clock and masks no secret: its callers do, and pass
//! in what the recorder needs.

mod compare;
mod entry;
mod reader;
mod recorder;

pub use compare::{Bindings, Difference, compare, is_masked};
pub use entry::{
    Entry, EntryKind, FORMAT, Header, Headers, HttpExchange, NotARecording, PeerName, Refused, Sender, SessionEnd,
};
pub use reader::{MAX_LINE, NumberedEntry, OpenError, Reader};
pub use recorder::{BeginPart, Mask, Recorder};
