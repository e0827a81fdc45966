//! The context of a distributed trace, as W3C Trace Context writes it in `traceparent`.
//!
//! MCP carries it in `_meta` of requests, beside `tracestate` and `baggage`. These two pass unchanged; a hop that has a
//! span of its own replaces the span of `traceparent`. Nothing here draws random numbers: ids come in.

use std::fmt;

use crate::wire::{Members, RawValue, json};

/// The member of `_meta`.
const TRACEPARENT: &str = "traceparent";

/// The members of `_meta` that belong to a trace.
const MEMBERS: [&str; 3] = [TRACEPARENT, "tracestate", "baggage"];

/// The part of `_meta` that belongs to a trace, for dialects that have no other metadata. `None` if there is none.
pub fn propagated(meta: &RawValue) -> Option<Box<RawValue>> {
    let meta = Members::of(meta)?;
    let members = MEMBERS.iter().filter_map(|name| Some(format!("\"{name}\":{}", meta.raw(name)?.get())));
    let members: Vec<_> = members.collect();
    (!members.is_empty()).then(|| json::raw(format!("{{{}}}", members.join(","))))
}

/// A span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The span.
    pub span: [u8; 8],
    /// Whether the caller records the trace.
    pub is_sampled: bool,
}

/// A span and its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceSpan {
    /// The span itself.
    pub context: TraceContext,
    /// The span that caused it. `None`: the trace begins here.
    pub parent: Option<[u8; 8]>,
}

impl TraceContext {
    /// Parses `traceparent`. `None` if it is malformed, or if an id is zero.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = bytes(version)?;
        // Later versions may have more parts; the first one has none.
        if version == 0xff || version == 0 && parts.next().is_some() {
            return None;
        }
        let ([flags], trace, span) = (bytes(flags)?, bytes(trace)?, bytes(span)?);
        let is_valid = trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self { trace, span, is_sampled: flags & 1 == 1 })
    }

    /// The context in the `_meta` of a request.
    pub fn of_meta(meta: &RawValue) -> Option<Self> {
        Self::parse(&Members::of(meta)?.str(TRACEPARENT)?)
    }

    /// `_meta` with this context instead of an earlier one. All other members stay as they are.
    pub fn in_meta(&self, meta: Option<&RawValue>) -> Box<RawValue> {
        let mut text = format!(r#"{{"{TRACEPARENT}":"{self}""#);
        for (name, value) in meta.and_then(Members::of).unwrap_or_default().iter() {
            if name != TRACEPARENT {
                text.push(',');
                text.push_str(json::to_raw(&name).get());
                text.push(':');
                text.push_str(value.get());
            }
        }
        text.push('}');
        json::raw(text)
    }
}

impl TraceSpan {
    /// A new span below the one in the `_meta` of a request, or at the beginning of a new trace. `ids`: a new trace id
    /// and a new span id.
    pub fn below(meta: Option<&RawValue>, ids: ([u8; 16], [u8; 8])) -> Self {
        let (trace, span) = ids;
        match meta.and_then(TraceContext::of_meta) {
            Some(parent) => Self { context: TraceContext { span, ..parent }, parent: Some(parent.span) },
            None => Self { context: TraceContext { trace, span, is_sampled: true }, parent: None },
        }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{}-{}-{flags:02x}", crate::hex::encode(&self.trace), crate::hex::encode(&self.span))
    }
}

/// The bytes of lowercase hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let digit = |digit: u8| if digit <= b'9' { digit - b'0' } else { digit - b'a' + 10 };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0]) << 4 | digit(pair[1]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_and_written_unchanged() {
        let context = TraceContext::parse(TEXT).unwrap();
        assert_eq!((context.to_string().as_str(), context.is_sampled), (TEXT, true));
        let unsampled = TEXT.replace("-01", "-00");
        assert_eq!(TraceContext::parse(&unsampled).map(|context| context.to_string()), Some(unsampled));
        let later = format!("{}-more", TEXT.replacen("00-", "cc-", 1));
        assert_eq!(TraceContext::parse(&later), Some(context), "a later version may have more parts");
    }

    #[test]
    fn a_malformed_traceparent_begins_no_trace() {
        for text in [
            "",
            "00",
            "00-1-1-1",
            &TEXT.to_uppercase(),
            &TEXT.replacen("00-", "ff-", 1),
            &format!("{TEXT}-more"),
            &TEXT.replace("b7ad6b7169203331", "0000000000000000"),
            &TEXT.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            "00-0af7651916cd43dd8448eb211c80319ä-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_members_of_a_trace_are_propagated() {
        let meta = json::raw(format!(r#"{{"a":1,"baggage":"k=v","traceparent":"{TEXT}","progressToken":2}}"#));
        let expected = format!(r#"{{"traceparent":"{TEXT}","baggage":"k=v"}}"#);
        assert_eq!(propagated(&meta).map(|meta| meta.get().to_owned()), Some(expected));
        assert!(propagated(&json::raw(r#"{"a":1}"#.to_owned())).is_none());
        assert!(propagated(&json::raw("[]".to_owned())).is_none());
    }

    #[test]
    fn a_span_replaces_only_the_traceparent_of_the_meta_and_keeps_the_trace() {
        let meta = json::raw(format!(r#"{{"a":1.0,"traceparent":"{TEXT}","tracestate":"x=y","baggage":"k=v"}}"#));
        let span = TraceSpan::below(Some(&meta), ([9; 16], [1; 8]));
        assert_eq!(span.parent, TraceContext::parse(TEXT).map(|parent| parent.span));
        let below = TEXT.replace("b7ad6b7169203331", "0101010101010101");
        let expected = format!(r#"{{"traceparent":"{below}","a":1.0,"tracestate":"x=y","baggage":"k=v"}}"#);
        assert_eq!(span.context.in_meta(Some(&meta)).get(), expected);
        let root = TraceSpan::below(None, ([9; 16], [1; 8]));
        assert_eq!((root.parent, root.context.is_sampled), (None, true));
        assert_eq!(root.context.in_meta(None).get(), format!(r#"{{"traceparent":"{}"}}"#, root.context));
    }
}
