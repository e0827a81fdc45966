//! What can be told from a message without serving it: which kind it is, and whose.

use std::borrow::Cow;

use gladhand_wire::RawValue;
use gladhand_wire::rpc::Envelope;

/// A posted message, as far as the transport must know it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// Wants an answer.
    Request(Cow<'a, str>),
    /// A notification or a response: wants none.
    Silent,
    /// Several at once. Whether one of them wants an answer.
    Batch(bool),
    /// Nothing that can be understood, which is an answer's worth too.
    Unreadable,
}

impl<'a> Message<'a> {
    pub(super) fn of(body: &'a [u8]) -> Self {
        let Ok(text) = std::str::from_utf8(body) else { return Self::Unreadable };
        if text.trim_start().starts_with('[') {
            let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(text) else { return Self::Unreadable };
            let asks = parts.is_empty() || parts.iter().any(|part| Message::one(part.get()).wants_answer());
            return Self::Batch(asks);
        }
        Self::one(text)
    }

    fn one(text: &'a str) -> Self {
        let Ok(envelope) = Envelope::parse(text) else { return Self::Unreadable };
        match (envelope.method_name(), envelope.id) {
            (Some(method), Some(_)) => Self::Request(method),
            (Some(_), None) => Self::Silent,
            (None, _) if envelope.result.is_some() || envelope.error.is_some() => Self::Silent,
            (None, _) => Self::Unreadable,
        }
    }

    /// Whether something is to be said to it.
    pub(super) fn wants_answer(&self) -> bool {
        !matches!(self, Self::Silent | Self::Batch(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        let request = Message::Request("ping".into());
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, request),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, Message::Silent),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Message::Silent),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#, Message::Silent),
            (r#"[{"id":1,"result":{}}]"#, Message::Batch(false)),
            (r#" [{"id":1,"result":{}},{"id":1,"method":"ping"}]"#, Message::Batch(true)),
            ("[]", Message::Batch(true)),
            ("[1", Message::Unreadable),
            ("{}", Message::Unreadable),
            ("", Message::Unreadable),
            ("7", Message::Unreadable),
        ] {
            assert_eq!(Message::of(body.as_bytes()), expected, "{body}");
        }
        assert_eq!(Message::of(b"{\"method\":\"\xff\"}"), Message::Unreadable);
    }
}
