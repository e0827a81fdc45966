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
    /// One message with its text, or the parse error.
    One(&'a str, Result<Call<'a>, serde_json::Error>),
    /// A batch.
    Batch(Result<Vec<&'a RawValue>, serde_json::Error>),
    /// A body that is not valid text.
    Garbled(Fault),
}

/// An envelope with the parameters that the hot path needs.
pub(super) type Call<'a> = Envelope<'a, Picked<'a, { Params::NAMES.len() }>>;

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
        let read = if text.starts_with('[') {
            Read::Batch(values::items(text))
        } else {
            Read::One(text, Envelope::picking(text, Params::NAMES))
        };
        Self { read }
    }

    /// The method, if it is a request.
    pub fn request(&self) -> Option<Cow<'a, str>> {
        self.call().filter(|call| call.id.is_some()).and_then(Call::method_name)
    }

    /// The text of a single message. Empty for a batch or an unreadable body.
    pub fn text(&self) -> &'a str {
        match self.read {
            Read::One(text, _) => text,
            Read::Batch(_) | Read::Garbled(_) => "",
        }
    }

    /// The number of bytes of its calls, and the maximum number of calls. A batch above the limit runs none.
    pub fn size(&self) -> (usize, usize) {
        match &self.read {
            Read::One(text, _) => (text.len(), 1),
            Read::Batch(Ok(parts)) => {
                (parts.iter().map(|part| part.get().len()).sum(), parts.len().clamp(1, MAX_BATCH))
            }
            Read::Batch(Err(_)) | Read::Garbled(_) => (0, 1),
        }
    }

    /// Whether the message can be parsed. An unreadable message is answered too.
    pub fn is_readable(&self) -> bool {
        match &self.read {
            Read::One(_, Ok(call)) => call.method_name().is_some() || call.result.is_some() || call.error.is_some(),
            Read::Batch(parts) => parts.is_ok(),
            Read::One(_, Err(_)) | Read::Garbled(_) => false,
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
        let meta = self.call().and_then(|call| call.params).and_then(|params| Params::of(Some(params))?.meta);
        meta.and_then(Meta::of).is_some_and(|meta| meta.is_stateless())
    }

    pub(super) fn call(&self) -> Option<&Call<'a>> {
        match &self.read {
            Read::One(_, Ok(call)) => Some(call),
            _ => None,
        }
    }
}

/// The parameters that the hot path needs, picked while the envelope is parsed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Params<'a> {
    pub(super) name: Option<&'a RawValue>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) meta: Option<&'a RawValue>,
    pub(super) cursor: Option<&'a RawValue>,
    pub(super) uri: Option<&'a RawValue>,
    pub(super) task: Option<&'a RawValue>,
    pub(super) task_id: Option<&'a RawValue>,
    pub(super) request_state: Option<&'a RawValue>,
    pub(super) input_responses: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    pub(super) const NAMES: [&'static str; 9] =
        ["name", "arguments", "_meta", "cursor", "uri", "task", "taskId", "requestState", "inputResponses"];

    /// The picked parameters; absent and `null` are equivalent. `None` if `params` is not an object.
    pub(super) fn of(picked: Option<Picked<'a, { Params::NAMES.len() }>>) -> Option<Self> {
        match picked {
            None | Some(Picked { kind: Kind::Null, .. }) => Some(Self::default()),
            Some(Picked { kind: Kind::Object, members }) => {
                let [name, arguments, meta, cursor, uri, task, task_id, request_state, input_responses] =
                    members.map(|member| member.filter(|raw| Kind::of(raw) != Kind::Null));
                Some(Self { name, arguments, meta, cursor, uri, task, task_id, request_state, input_responses })
            }
            Some(_) => None,
        }
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
            assert_eq!((found.0.as_deref(), found.1, found.2), expected, "{body}");
        }
        let garbled = Message::of(b"{\"method\":\"\xff\"}").unwrap();
        assert!(!garbled.is_readable() && garbled.wants_answer());
        for nothing in [&b""[..], b" \r\n", b"\xef\xbb\xbf\n"] {
            assert!(Message::of(nothing).is_none());
        }
    }
}
