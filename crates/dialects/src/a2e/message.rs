//! Writes messages: the envelope first, then the message's own members in the given order.
//!
//! The output is ASCII and always one line, for any raw JSON in it (a2e §3.3).

use gladhand_core::wire::{FrameKind, Frames, Id, json};
use serde::Serialize;

use super::capabilities::VERSION;
use crate::ambient::Ambient;

/// A message under construction.
#[derive(Debug)]
pub(super) struct MessageWriter {
    plain: Vec<u8>,
    kind: FrameKind,
}

impl MessageWriter {
    /// A message with a new id. Also returns the id, to match the answer.
    pub(super) fn request(name: &str, ambient: &mut Ambient<'_>) -> (Self, String) {
        let id = ambient.hex_id();
        let message = Self { plain: Vec::with_capacity(512), kind: FrameKind::Request }
            .first("type", name)
            .with("id", &id)
            .with("version", VERSION)
            .with("a2e", VERSION)
            .with("ts", &ambient.now.unix_seconds());
        (message, id)
    }

    /// A message that belongs to a request. `None` if the request had no id, or an unreadable one.
    pub(super) fn answer(name: &str, request: Option<&Id>, ambient: &mut Ambient<'_>) -> Self {
        let answer = Self::request(name, ambient).0.raw("req_id", request.map_or(r#""""#, Id::as_json));
        answer.of_kind(FrameKind::Result)
    }

    /// Changes what the message is.
    pub(super) fn of_kind(self, kind: FrameKind) -> Self {
        Self { kind, ..self }
    }

    /// Adds a member.
    pub(super) fn with<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        self.name(name);
        json::write(&mut self.plain, value);
        self
    }

    /// Adds a member whose value is already JSON.
    pub(super) fn raw(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        self.plain.extend_from_slice(value.as_bytes());
        self
    }

    /// Adds a member whose value `write` appends.
    pub(super) fn written(mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        self.name(name);
        write(&mut self.plain);
        self
    }

    /// Adds all members of an object that is already JSON.
    pub(super) fn members_of(mut self, object: &str) -> Self {
        let inside = object.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().trim();
        if !inside.is_empty() {
            self.plain.push(b',');
            self.plain.extend_from_slice(inside.as_bytes());
        }
        self
    }

    /// Appends the finished line.
    pub(super) fn send(mut self, wire: &mut Frames) {
        self.plain.push(b'}');
        // Between tokens, a line break is equivalent to a space; inside strings, it is always escaped. Multi-line JSON
        // therefore fits on one line.
        for byte in &mut self.plain {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        wire.begin(self.kind);
        json::escape_non_ascii(wire, &String::from_utf8_lossy(&self.plain));
        wire.end();
    }

    fn first(mut self, name: &str, value: &str) -> Self {
        self.plain.push(b'{');
        write_name(&mut self.plain, name);
        json::write(&mut self.plain, value);
        self
    }

    fn name(&mut self, name: &str) {
        self.plain.push(b',');
        write_name(&mut self.plain, name);
    }
}

/// An object inside a message, written member by member.
#[derive(Debug)]
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Object<'o> {
    /// Opens an object.
    pub(super) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Adds a member.
    pub(super) fn with<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        json::write(self.member(name), value);
        self
    }

    /// Adds a member whose value is already JSON.
    pub(super) fn raw(mut self, name: &str, value: &str) -> Self {
        self.member(name).extend_from_slice(value.as_bytes());
        self
    }

    /// Adds a member whose value `write` appends.
    pub(super) fn written(mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        write(self.member(name));
        self
    }

    /// Closes the object.
    pub(super) fn close(self) {
        self.out.push(b'}');
    }

    fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        write_name(self.out, name);
        self.out
    }
}

/// Appends a list, each item by `write`.
pub(super) fn write_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    json::write(out, name);
    out.push(b':');
}
