//! A message that is parsed once, for its transport and for the server side.

use std::borrow::Cow;

use gladhand_core::wire::json::{Kind, RawValue};
use gladhand_core::wire::rpc::Envelope;
use gladhand_core::wire::{Fault, Line, Picked, values};

use super::DIALECT;
use super::batch::MAX_BATCH;
use super::meta::Meta;

/// One message, a batch, or an unreadable body.
#[derive(Debug)]
pub struct Message<'a> {
    pub(super) read: Read<'a>,
}

/// The parsed content.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every message is a single one")]
pub(super) enum Read<'a> {
    /// One message.
    One(Call<'a>),
    /// A batch.
    Batch(Result<Vec<&'a RawValue>, serde_json::Error>),
    /// A body that is not valid text.
    Garbled(Fault),
}

/// A single message, parsed as far as the hot path needs.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) text: &'a str,
    /// Why the text cannot be read. What follows is then incomplete.
    pub(super) error: Option<serde_json::Error>,
    /// The envelope, with some members of `params`.
    pub(super) envelope: Envelope<'a, Picked<'a, { Params::NAMES.len() }>>,
    /// The name of the method, if it is a string.
    pub(super) method: Option<Cow<'a, str>>,
}

impl<'a> Call<'a> {
    /// Parses a message.
    pub(super) fn read(text: &'a str) -> Self {
        let mut call = Self { text, error: None, envelope: Envelope::default(), method: None };
        match call.envelope.pick(text, Params::NAMES) {
            Ok(()) => call.method = call.envelope.method_name(),
            Err(error) => call.error = Some(error),
        }
        call
    }

    /// The parameters. `None` if `params` is not an object.
    pub(super) fn params(&self) -> Option<Params<'_, 'a>> {
        Params::of(self.envelope.params.as_ref())
    }
}

impl<'a> Message<'a> {
    /// Parses the body of a request. `None` if it is blank.
    pub fn of(body: &'a [u8]) -> Option<Self> {
        match DIALECT.text.read(Line::Bytes(body)) {
            Ok(None) => None,
            Ok(Some(Cow::Borrowed(text))) => Some(Self::read(text)),
            // This dialect refuses invalid UTF-8 and never repairs it.
            Ok(Some(Cow::Owned(_))) => Some(Self { read: Read::Garbled(Fault::NotUtf8 { at: 0 }) }),
            Err(fault) => Some(Self { read: Read::Garbled(fault) }),
        }
    }

    /// Parses a text without surrounding white space.
    pub(super) fn read(text: &'a str) -> Self {
        let read = if text.starts_with('[') { Read::Batch(values::items(text)) } else { Read::One(Call::read(text)) };
        Self { read }
    }

    /// The method, if it is a request.
    pub fn request(&self) -> Option<&str> {
        self.call().filter(|call| call.envelope.id.is_some()).and_then(|call| call.method.as_deref())
    }

    /// The text of a single message. Empty for a batch or an unreadable body.
    pub fn text(&self) -> &'a str {
        match &self.read {
            Read::One(call) => call.text,
            Read::Batch(_) | Read::Garbled(_) => "",
        }
    }

    /// The number of bytes of its calls, and the maximum number of calls. A batch above the limit runs none.
    pub fn size(&self) -> (usize, usize) {
        match &self.read {
            Read::One(call) => (call.text.len(), 1),
            Read::Batch(Ok(parts)) => {
                (parts.iter().map(|part| part.get().len()).sum(), parts.len().clamp(1, MAX_BATCH))
            }
            Read::Batch(Err(_)) | Read::Garbled(_) => (0, 1),
        }
    }

    /// Whether the message can be parsed. An unreadable message is answered too.
    pub fn is_readable(&self) -> bool {
        match &self.read {
            Read::One(Call { error: None, envelope, method, .. }) => {
                method.is_some() || envelope.result.is_some() || envelope.error.is_some()
            }
            Read::Batch(parts) => parts.is_ok(),
            Read::One(_) | Read::Garbled(_) => false,
        }
    }

    /// Whether the message expects a response.
    pub fn wants_answer(&self) -> bool {
        match &self.read {
            Read::Batch(Ok(parts)) => {
                parts.is_empty() || parts.iter().any(|part| Message::read(part.get()).wants_answer())
            }
            _ => self.request().is_some() || !self.is_readable(),
        }
    }

    /// Whether it carries its own opening, complete or not. A version in the header alone also counts as one: see
    /// [`super::revision::Revision::is_stateless`].
    pub fn is_stateless(&self) -> bool {
        let meta = self.call().and_then(Call::params).and_then(Params::meta);
        meta.and_then(Meta::of).is_some_and(|meta| meta.is_stateless())
    }

    pub(super) fn call(&self) -> Option<&Call<'a>> {
        match &self.read {
            Read::One(call) if call.error.is_none() => Some(call),
            _ => None,
        }
    }
}

/// The parameters that the hot path needs, picked while the envelope is parsed. Absent and `null` are equivalent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Params<'m, 'a>(&'m [Option<&'a RawValue>; Params::NAMES.len()]);

impl<'m, 'a> Params<'m, 'a> {
    pub(super) const NAMES: [&'static str; 9] =
        ["name", "arguments", "_meta", "cursor", "uri", "task", "taskId", "requestState", "inputResponses"];

    /// No parameters.
    pub(super) const NONE: Self = Self(&[None; Params::NAMES.len()]);

    /// The picked parameters. `None` if `params` is not an object.
    fn of(picked: Option<&'m Picked<'a, { Params::NAMES.len() }>>) -> Option<Self> {
        match picked {
            None | Some(Picked { kind: Kind::Null, .. }) => Some(Self::NONE),
            Some(Picked { kind: Kind::Object, members }) => Some(Self(members)),
            Some(_) => None,
        }
    }

    pub(super) fn name(self) -> Option<&'a RawValue> {
        self.member(0)
    }

    pub(super) fn arguments(self) -> Option<&'a RawValue> {
        self.member(1)
    }

    pub(super) fn meta(self) -> Option<&'a RawValue> {
        self.member(2)
    }

    pub(super) fn cursor(self) -> Option<&'a RawValue> {
        self.member(3)
    }

    pub(super) fn uri(self) -> Option<&'a RawValue> {
        self.member(4)
    }

    pub(super) fn task(self) -> Option<&'a RawValue> {
        self.member(5)
    }

    pub(super) fn task_id(self) -> Option<&'a RawValue> {
        self.member(6)
    }

    pub(super) fn request_state(self) -> Option<&'a RawValue> {
        self.member(7)
    }

    pub(super) fn input_responses(self) -> Option<&'a RawValue> {
        self.member(8)
    }

    /// The member with the name at this index of [`Self::NAMES`].
    fn member(self, index: usize) -> Option<&'a RawValue> {
        self.0[index].filter(|raw| Kind::of(raw) != Kind::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_a_batch_counts() {
        let size = |body: &str| Message::of(body.as_bytes()).map(|message| message.size());
        assert_eq!(size(r#"{"id":1}"#), Some((8, 1)));
        assert_eq!(size(r#"[{"id":1}, {"id":2}]"#), Some((16, 2)));
        assert_eq!((size("[]"), size("[1")), (Some((0, 1)), Some((0, 1))));
        assert_eq!(
            size(&format!("[{}1]", "1,".repeat(2000))),
            Some((2001, MAX_BATCH)),
            "a batch above the limit is refused as a whole"
        );
    }

    #[test]
    fn kinds_of_messages_are_distinguished() {
        // The method, whether the message is readable, whether it expects a response.
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, (Some("ping"), true, true)),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, (None, true, false)),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, (None, true, false)),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#, (None, true, false)),
            (r#"[{"id":1,"result":{}}]"#, (None, true, false)),
            (r#" [{"id":1,"result":{}},{"id":1,"method":"ping"}]"#, (None, true, true)),
            ("[]", (None, true, true)),
            ("[1", (None, false, true)),
            ("{}", (None, false, true)),
            ("7", (None, false, true)),
        ] {
            let message = Message::of(body.as_bytes()).unwrap();
            let found = (message.request(), message.is_readable(), message.wants_answer());
            assert_eq!((found.0, found.1, found.2), expected, "{body}");
        }
        let garbled = Message::of(b"{\"method\":\"\xff\"}").unwrap();
        assert!(!garbled.is_readable() && garbled.wants_answer());
        for nothing in [&b""[..], b" \r\n", b"\xef\xbb\xbf\n"] {
            assert!(Message::of(nothing).is_none());
        }
    }
}
