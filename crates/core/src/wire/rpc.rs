//! The JSON-RPC envelope: read once, borrowed, classified; written by hand.
//!
//! Reading is strict about JSON and about nothing else: what a dialect makes of a missing
//! `jsonrpc` or of an id that is `null` is its own affair.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::wire::id::Id;
use crate::wire::json::{self, RawValue};
use crate::wire::members::Key;
use crate::wire::pick::{Names, Picked};

/// Codes that JSON-RPC itself defines.
pub mod code {
    /// The line is no JSON.
    pub const PARSE_ERROR: i32 = -32700;
    /// JSON, but no request.
    pub const INVALID_REQUEST: i32 = -32600;
    /// No such method, or its gate is closed.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The method exists, its parameters are wrong.
    pub const INVALID_PARAMS: i32 = -32602;
    /// Our own failure.
    pub const INTERNAL_ERROR: i32 = -32603;
}

/// The members of a JSON-RPC object that mean something; the rest is ignored here.
///
/// `P` is what is made of `params` while the line is read: nothing (raw) or some members of it.
#[derive(Debug, Clone)]
pub struct Envelope<'a, P = &'a RawValue> {
    /// `jsonrpc`, whatever it is.
    pub jsonrpc: Option<&'a RawValue>,
    /// `id`, `null` included.
    pub id: Option<&'a RawValue>,
    /// `method`, whatever it is.
    pub method: Option<&'a RawValue>,
    /// `params`, `null` included.
    pub params: Option<P>,
    /// `result`, `null` included.
    pub result: Option<&'a RawValue>,
    /// `error`, `null` included.
    pub error: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// Reads an object's envelope and leaves `params` raw.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        read(text, Object(PhantomData))
    }
}

impl<'a, const N: usize> Envelope<'a, Picked<'a, N>> {
    /// Reads an object's envelope and picks members of `params` in the same pass.
    pub fn picking(text: &'a str, names: [&str; N]) -> Result<Self, serde_json::Error> {
        read(text, Object(Names(&names)))
    }
}

impl<'a, P> Envelope<'a, P> {
    /// Whether `jsonrpc` is exactly `"2.0"`.
    pub fn is_version_two(&self) -> bool {
        self.jsonrpc.is_some_and(|raw| raw.get() == r#""2.0""#)
    }

    /// The method's name, if it is a string.
    pub fn method_name(&self) -> Option<Cow<'a, str>> {
        self.method.and_then(json::string)
    }
}

fn read<'a, S: DeserializeSeed<'a> + Copy>(
    text: &'a str,
    object: Object<S>,
) -> Result<Envelope<'a, S::Value>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let envelope = deserializer.deserialize_map(object)?;
    deserializer.end()?;
    Ok(envelope)
}

/// Reads an envelope, and `params` by a seed of the caller's choosing.
struct Object<S>(S);

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for Object<S> {
    type Value = Envelope<'de, S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope { jsonrpc: None, id: None, method: None, params: None, result: None, error: None };
        while let Some(Key(key)) = map.next_key()? {
            let member = match key.as_ref() {
                "jsonrpc" => &mut envelope.jsonrpc,
                "id" => &mut envelope.id,
                "method" => &mut envelope.method,
                "result" => &mut envelope.result,
                "error" => &mut envelope.error,
                "params" => {
                    envelope.params = Some(map.next_value_seed(self.0)?);
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *member = Some(map.next_value()?);
        }
        Ok(envelope)
    }
}

/// Appends the beginning of a success up to where the result goes; close it with [`finish`].
pub fn begin_result(out: &mut Vec<u8>, id: &Id) {
    // Room for most answers, in place of growing step by step.
    out.reserve(256);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(br#","result":"#);
}

/// Appends a success line.
pub fn result<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, id: &Id, result: &T) {
    begin_result(out, id);
    json::write(out, result);
    finish(out);
}

/// Appends an error line; `id` is `null` when there is none to echo.
pub fn error(out: &mut Vec<u8>, id: Option<&Id>, error: &Error<'_>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.map_or("null", Id::as_json).as_bytes());
    out.extend_from_slice(br#","error":"#);
    json::write(out, error);
    finish(out);
}

/// Appends a request line of ours.
pub fn request<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, id: &Id, method: &str, params: Option<&T>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_json().as_bytes());
    out.push(b',');
    method_and_params(out, method, params);
}

/// Appends a notification line.
pub fn notification<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, method: &str, params: Option<&T>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    method_and_params(out, method, params);
}

fn method_and_params<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, method: &str, params: Option<&T>) {
    out.extend_from_slice(br#""method":"#);
    json::write(out, method);
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        json::write(out, params);
    }
    finish(out);
}

/// Closes an object and its line.
pub fn finish(out: &mut Vec<u8>) {
    out.extend_from_slice(b"}\n");
}

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has a result.
    Result,
    /// It has an error.
    Error,
}

/// What a line that was written here says to a request; `None` if it answers none.
///
/// Looks only at how the line begins: `jsonrpc`, `id` and what follows are always written in this order.
pub fn verdict(line: &[u8]) -> Option<Verdict> {
    let id = line.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let rest = match id.strip_prefix(b"\"") {
        Some(text) => &text[end_of_string(text)?..],
        None => &id[memchr::memchr(b',', id)?..],
    };
    if rest.starts_with(br#","result":"#) {
        Some(Verdict::Result)
    } else {
        rest.starts_with(br#","error":"#).then_some(Verdict::Error)
    }
}

/// Where a string ends whose first quote was taken off already.
fn end_of_string(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Error<'a> {
    /// For programs.
    pub code: i32,
    /// For people.
    pub message: Cow<'a, str>,
    /// Details, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl<'a> Error<'a> {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<Cow<'a, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with data.
    pub fn with<T: serde::Serialize + ?Sized>(self, data: &T) -> Self {
        Self { data: Some(json::to_raw(data)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_echoed_as_written() {
        for id in ["1", "1.0", "-0", "1e3", "123456789012345678901234567890", "\"a\\u0062\"", "\"\"", "null"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#);
            let envelope = Envelope::parse(&line).unwrap();
            let mut out = Vec::new();
            result(&mut out, &Id::of(envelope.id.unwrap()), &serde_json::json!({}));
            assert_eq!(
                String::from_utf8(out).unwrap(),
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n")
            );
        }
    }

    #[test]
    fn answers_are_told_from_everything_else() {
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}"#, Some(Verdict::Result)),
            (r#"{"jsonrpc":"2.0","id":"a\"\\","result":{}}"#, Some(Verdict::Result)),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#, Some(Verdict::Error)),
            (r#"{"jsonrpc":"2.0","id":",\"result\":","error":{}}"#, Some(Verdict::Error)),
            (r#"{"jsonrpc":"2.0","id":"7","method":"ping","params":{"result":1}}"#, None),
            (r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"id":1,"result":1}}"#, None),
            (r#"{"jsonrpc":"2.0","id":"7\"#, None),
            (r#"{"jsonrpc":"2.0","id":"#, None),
            ("", None),
        ] {
            assert_eq!(verdict(line.as_bytes()), expected, "{line}");
        }
        let (mut line, id) = (Vec::new(), Id::number(7));
        result(&mut line, &id, &1);
        assert_eq!(verdict(&line), Some(Verdict::Result));
        line.clear();
        error(&mut line, None, &Error::new(1, "no"));
        assert_eq!(verdict(&line), Some(Verdict::Error));
        line.clear();
        request::<()>(&mut line, &id, "ping", None);
        assert_eq!(verdict(&line), None);
    }

    #[test]
    fn the_last_of_two_equal_members_wins() {
        let envelope = Envelope::parse(r#"{"id":1,"id":2,"method":"a","method":"b","x":[1,{"id":3}]}"#).unwrap();
        assert_eq!(envelope.id.map(RawValue::get), Some("2"));
        assert_eq!(envelope.method_name().as_deref(), Some("b"));
        assert!(!envelope.is_version_two());
    }
}
