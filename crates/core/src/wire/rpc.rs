//! The JSON-RPC envelope: parsed once, with borrowed members, and written without a serializer.
//!
//! Parsing checks only that the text is a JSON object. Each dialect decides how to treat a missing `jsonrpc` or an id
//! that is `null`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::wire::frames::{FrameKind, FrameSummary, Frames};
use crate::wire::id::Id;
use crate::wire::json::{self, RawValue};
use crate::wire::members::Key;
use crate::wire::pick::{Names, Picked, pick};
use crate::wire::values;

/// The error codes that JSON-RPC defines.
pub mod code {
    /// The line is not JSON.
    pub const PARSE_ERROR: i32 = -32700;
    /// The line is JSON, but not a request.
    pub const INVALID_REQUEST: i32 = -32600;
    /// The method does not exist, or the gate rejects it.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The method exists, but its parameters are wrong.
    pub const INVALID_PARAMS: i32 = -32602;
    /// An internal error.
    pub const INTERNAL_ERROR: i32 = -32603;
}

/// The members of a JSON-RPC object that have a meaning. Other members are ignored here.
///
/// `P` is the type of `params`: the raw value, or some of its members, picked during parsing.
#[derive(Debug, Clone)]
pub struct Envelope<'a, P = &'a RawValue> {
    /// `jsonrpc`, of any kind.
    pub jsonrpc: Option<&'a RawValue>,
    /// `id`, `null` included.
    pub id: Option<&'a RawValue>,
    /// `method`, of any kind.
    pub method: Option<&'a RawValue>,
    /// `params`, `null` included.
    pub params: Option<P>,
    /// `result`, `null` included.
    pub result: Option<&'a RawValue>,
    /// `error`, `null` included.
    pub error: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// Parses the envelope of an object and leaves `params` raw.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut envelope = Self::default();
        envelope.read(text, &RawParams)?;
        Ok(envelope)
    }
}

impl<'a, const N: usize> Envelope<'a, Picked<'a, N>> {
    /// Parses the envelope of an object and picks members of `params` in the same pass.
    pub fn picking(text: &'a str, names: [&str; N]) -> Result<Self, serde_json::Error> {
        let mut envelope = Self::default();
        envelope.pick(text, names)?;
        Ok(envelope)
    }

    /// The same for an envelope that is empty so far, for callers that avoid copies of a value of this size.
    pub fn pick(&mut self, text: &'a str, names: [&str; N]) -> Result<(), serde_json::Error> {
        self.read(text, &names)
    }
}

impl<P> Default for Envelope<'_, P> {
    fn default() -> Self {
        Self { jsonrpc: None, id: None, method: None, params: None, result: None, error: None }
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

    fn read<R: ReadParams<'a, Params = P>>(&mut self, text: &'a str, params: &R) -> Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.deserialize_map(Object { envelope: self, params })?;
        deserializer.end()
    }
}

/// Reads `params` into its member of the envelope, so that it is not copied from function to function.
trait ReadParams<'de> {
    type Params;

    fn read<A: MapAccess<'de>>(&self, map: &mut A, params: &mut Option<Self::Params>) -> Result<(), A::Error>;
}

struct RawParams;

impl<'de> ReadParams<'de> for RawParams {
    type Params = &'de RawValue;

    fn read<A: MapAccess<'de>>(&self, map: &mut A, params: &mut Option<&'de RawValue>) -> Result<(), A::Error> {
        *params = Some(map.next_value()?);
        Ok(())
    }
}

/// Picks the members with these names.
impl<'de, const N: usize> ReadParams<'de> for [&str; N] {
    type Params = Picked<'de, N>;

    fn read<A: MapAccess<'de>>(&self, map: &mut A, params: &mut Option<Picked<'de, N>>) -> Result<(), A::Error> {
        map.next_value_seed(Names { names: self, picked: params.insert(Picked::NOTHING) })
    }
}

/// Deserializes an envelope into a variable.
struct Object<'e, 'de, R: ReadParams<'de>> {
    envelope: &'e mut Envelope<'de, R::Params>,
    params: &'e R,
}

impl<'de, R: ReadParams<'de>> Visitor<'de> for Object<'_, 'de, R> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { envelope, params } = self;
        while let Some(Key(key)) = map.next_key()? {
            let member = match key.as_ref() {
                "jsonrpc" => &mut envelope.jsonrpc,
                "id" => &mut envelope.id,
                "method" => &mut envelope.method,
                "result" => &mut envelope.result,
                "error" => &mut envelope.error,
                "params" => {
                    params.read(&mut map, &mut envelope.params)?;
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *member = Some(map.next_value()?);
        }
        Ok(())
    }
}

/// Appends the start of a success response, up to the result. Close it with [`finish`].
pub fn begin_result(out: &mut Frames, id: &Id) {
    out.begin(FrameKind::Result);
    // Enough for most responses, to avoid repeated growth.
    out.reserve(256);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
}

/// Appends a success response.
pub fn result<T: serde::Serialize + ?Sized>(out: &mut Frames, id: &Id, result: &T) {
    begin_result(out, id);
    json::write(out, result);
    finish(out);
}

/// Appends an error response. `id` is written as `null` if there is none.
pub fn error(out: &mut Frames, id: Option<&Id>, error: &Error<'_>) {
    out.begin(FrameKind::Error { code: error.code, names_request: id.is_some() });
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.map_or(&b"null"[..], Id::as_bytes));
    out.extend_from_slice(br#","error":"#);
    json::write(out, error);
    finish(out);
}

/// Appends an error response whose error object is already JSON.
pub fn raw_error(out: &mut Frames, id: &Id, error: &RawValue) {
    let code = pick(error, ["code"]).and_then(|[code]| code?.get().parse().ok()).unwrap_or_default();
    out.begin(FrameKind::Error { code, names_request: true });
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","error":"#);
    out.extend_from_slice(error.get().as_bytes());
    finish(out);
}

/// Appends a request.
pub fn request<T: serde::Serialize + ?Sized>(out: &mut Frames, id: &Id, method: &str, params: Option<&T>) {
    out.begin(FrameKind::Request);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.push(b',');
    method_and_params(out, method, params);
}

/// Describes a received line. `None` if it is no message of JSON-RPC.
pub fn describe(text: &str) -> Option<FrameSummary<'_>> {
    if text.trim_start().starts_with('[') {
        let is_batch = values::items(text).is_ok();
        return is_batch.then_some(FrameSummary { kind: FrameKind::Batch, name: None, id: None });
    }
    let envelope = Envelope::parse(text).ok()?;
    let id = envelope.id;
    let kind = match (envelope.method, envelope.error) {
        (Some(_), _) if id.is_some() => FrameKind::Request,
        (Some(_), _) => FrameKind::Notice,
        (None, Some(error)) => {
            let code = pick(error, ["code"]).and_then(|[code]| code?.get().parse().ok()).unwrap_or_default();
            FrameKind::Error { code, names_request: id.is_some_and(|id| id.get() != "null") }
        }
        (None, None) => envelope.result.map(|_| FrameKind::Result)?,
    };
    Some(FrameSummary { kind, name: envelope.method.and_then(json::string), id })
}

/// Appends a notification.
pub fn notification<T: serde::Serialize + ?Sized>(out: &mut Frames, method: &str, params: Option<&T>) {
    out.begin(FrameKind::Notice);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    method_and_params(out, method, params);
}

fn method_and_params<T: serde::Serialize + ?Sized>(out: &mut Frames, method: &str, params: Option<&T>) {
    out.extend_from_slice(br#""method":"#);
    json::write(out, method);
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        json::write(out, params);
    }
    finish(out);
}

/// Closes an object and its line.
pub fn finish(out: &mut Frames) {
    out.push(b'}');
    out.end();
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Error<'a> {
    /// The error code, for programs.
    pub code: i32,
    /// The description, for people.
    pub message: Cow<'a, str>,
    /// Further details, if there are any.
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
    fn lines_are_described_by_kind_method_and_id() {
        let of = |text: &'static str| {
            let summary = describe(text)?;
            Some((summary.kind, summary.name.map(Cow::into_owned), summary.id.map(RawValue::get)))
        };
        let method = |name: &str| Some(name.to_owned());
        let request = of(r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#);
        assert_eq!(request, Some((FrameKind::Request, method("ping"), Some("1.0"))));
        assert_eq!(of(r#"{"jsonrpc":"2.0","method":"a"}"#), Some((FrameKind::Notice, method("a"), None)));
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":"x","result":{}}"#), Some((FrameKind::Result, None, Some("\"x\""))));
        let error = FrameKind::Error { code: -32700, names_request: false };
        let line = of(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#);
        assert_eq!(line, Some((error, None, Some("null"))));
        assert_eq!(of(r#"[{"jsonrpc":"2.0"}]"#), Some((FrameKind::Batch, None, None)));
        assert_eq!((of("{}"), of("1"), of("{")), (None, None, None));
    }

    #[test]
    fn ids_are_echoed_as_written() {
        for id in ["1", "1.0", "-0", "1e3", "123456789012345678901234567890", "\"a\\u0062\"", "\"\"", "null"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#);
            let envelope = Envelope::parse(&line).unwrap();
            let mut out = Frames::default();
            result(&mut out, &Id::of(envelope.id.unwrap()), &serde_json::json!({}));
            assert_eq!(
                String::from_utf8(out.into_bytes()).unwrap(),
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n")
            );
        }
    }

    #[test]
    fn each_frame_has_its_kind() {
        let (mut out, id) = (Frames::default(), Id::number(7));
        result(&mut out, &id, &1);
        error(&mut out, None, &Error::new(1, "no"));
        raw_error(&mut out, &id, &json::raw(r#"{"message":"no","code":-3}"#.to_owned()));
        request::<()>(&mut out, &id, "ping", None);
        notification::<()>(&mut out, "gone", None);
        let kinds: Vec<_> = out.frames().iter().map(|frame| frame.kind).collect();
        let error = |code, names_request| FrameKind::Error { code, names_request };
        assert_eq!(kinds, [FrameKind::Result, error(1, false), error(-3, true), FrameKind::Request, FrameKind::Notice]);
    }

    #[test]
    fn the_last_of_two_equal_members_wins() {
        let envelope = Envelope::parse(r#"{"id":1,"id":2,"method":"a","method":"b","x":[1,{"id":3}]}"#).unwrap();
        assert_eq!(envelope.id.map(RawValue::get), Some("2"));
        assert_eq!(envelope.method_name().as_deref(), Some("b"));
        assert!(!envelope.is_version_two());
    }
}
