//! Finds the id of the request that an unreadable message answers.
//!
//! A line can be too long to keep, nested too deep to parse, or invalid JSON, and still be the response to a pending
//! request. This scanner finds the relevant top-level members. It accepts the bytes in any chunks and uses constant
//! memory.

/// Maximum number of bytes kept of a name or an id. Longer values are not recognised.
const MAX_KEPT: usize = 64;

/// Scans a message for the request that it answers.
#[derive(Debug, Clone, Default)]
pub struct Skim {
    depth: usize,
    string: InString,
    part: MemberPart,
    /// The current member name, without its quotes.
    name: Vec<u8>,
    /// The values of `id`, `req_id` and `type`, as written.
    id: Vec<u8>,
    request: Vec<u8>,
    kind: Vec<u8>,
    has_method: bool,
    has_outcome: bool,
}

/// Whether the next byte is part of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum InString {
    #[default]
    No,
    Yes,
    AfterBackslash,
}

/// The part of the top-level object that is being scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum MemberPart {
    #[default]
    Name,
    Value,
}

impl Skim {
    /// Scans a whole message.
    pub fn of(text: &[u8]) -> Self {
        let mut skim = Self::default();
        skim.feed(text);
        skim
    }

    /// Scans the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.next(*byte));
    }

    /// Whether the message is a response: it has a result or an error, and no method.
    pub fn is_answer(&self) -> bool {
        self.has_outcome && !self.has_method
    }

    /// The id of the answered request, as written. `None` if the message is not a response, or has no id.
    pub fn answered(&self) -> Option<&str> {
        let id = std::str::from_utf8(&self.id).ok().map(str::trim).filter(|id| !id.is_empty() && *id != "null");
        id.filter(|_| self.is_answer() && self.id.len() < MAX_KEPT)
    }

    /// The values of `req_id` and `type`, without their quotes, for dialects whose messages have these members.
    pub fn belongs_to(&self) -> Option<(&str, &str)> {
        fn text(value: &[u8]) -> Option<&str> {
            let text = std::str::from_utf8(value).ok().filter(|_| value.len() < MAX_KEPT)?;
            text.trim().strip_prefix('"')?.strip_suffix('"')
        }
        Some((text(&self.request)?, text(&self.kind)?))
    }

    fn next(&mut self, byte: u8) {
        let was = self.string;
        self.string = match (was, byte) {
            (InString::No, b'"') | (InString::AfterBackslash, _) => InString::Yes,
            (InString::Yes, b'\\') => InString::AfterBackslash,
            (InString::Yes, b'"') => InString::No,
            _ => was,
        };
        if was == InString::No && self.string == InString::No {
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b':' if self.depth == 1 => return self.begin_value(),
                b',' if self.depth == 1 => {
                    self.part = MemberPart::Name;
                    return self.name.clear();
                }
                _ => {}
            }
        }
        if self.depth == 1 {
            self.keep(byte, was == InString::No || self.string == InString::No);
        }
    }

    fn begin_value(&mut self) {
        self.part = MemberPart::Value;
        match self.name.as_slice() {
            b"method" => self.has_method = true,
            b"result" | b"error" => self.has_outcome = true,
            // The last of two equal members wins.
            b"id" => self.id.clear(),
            b"req_id" => self.request.clear(),
            b"type" => self.kind.clear(),
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8, is_outside: bool) {
        let kept = match self.part {
            MemberPart::Name if is_outside => return,
            MemberPart::Name => &mut self.name,
            MemberPart::Value => match self.name.as_slice() {
                b"id" => &mut self.id,
                b"req_id" => &mut self.request,
                b"type" => &mut self.kind,
                _ => return,
            },
        };
        if kept.len() < MAX_KEPT {
            kept.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str) -> Option<String> {
        let whole = Skim::of(text.as_bytes());
        let mut in_pieces = Skim::default();
        text.as_bytes().chunks(3).for_each(|piece| in_pieces.feed(piece));
        assert_eq!(whole.answered(), in_pieces.answered(), "{text}");
        whole.answered().map(str::to_owned)
    }

    #[test]
    fn the_id_of_an_answer_is_found_wherever_it_stands() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for text in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{deep}}}"#),
            format!(r#"{{"result":{{"id":1,"method":"x","y":{deep}}},"jsonrpc":"2.0","id": 7 }}"#),
            r#"{"id":3,"error":{"code":1},"id":7"#.to_owned(),
            r#"{"a\"id":1,"x":"\"id\":2,{","id":7,"result":NaN}"#.to_owned(),
        ] {
            assert_eq!(answered(&text).as_deref(), Some("7"), "{text}");
        }
        assert_eq!(answered(r#"{"id":"a,b","result":{}}"#).as_deref(), Some(r#""a,b""#));
    }

    #[test]
    fn the_request_that_a_message_belongs_to_is_found() {
        let text = r#"{"type":"tool/list/resp","data":[{"req_id":"no","type":"no"}],"id":"m", "req_id" : "r-1" }"#;
        assert_eq!(Skim::of(text.as_bytes()).belongs_to(), Some(("r-1", "tool/list/resp")));
        for text in [r#"{"type":"x"}"#, r#"{"req_id":7,"type":"x"}"#, r#"{"req_id":"","type":null}"#, ""] {
            assert_eq!(Skim::of(text.as_bytes()).belongs_to(), None, "{text}");
        }
    }

    #[test]
    fn other_messages_than_responses_have_no_answered_id() {
        let long = format!(r#"{{"id":"{}","result":1}}"#, "x".repeat(100));
        for text in [
            r#"{"id":7,"method":"ping","result":1}"#,
            r#"{"id":7}"#,
            r#"{"id":null,"error":{}}"#,
            r#"[{"id":7,"result":1}]"#,
            r#"{"x":{"id":7},"result":1}"#,
            "nonsense",
            "}}}{\"",
            "",
            &long,
        ] {
            assert_eq!(answered(text), None, "{text}");
        }
    }
}
