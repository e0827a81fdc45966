//! The requests of the bench: prepared once, then only the digits of the id change.
//!
//! Ids have eight digits from the first to the last call, and the message of each call ends with the digits of
//! its id, so that a reply with the text of another call is detected.

use serde_json::Value;

/// The first id; all ids have as many digits.
pub(crate) const FIRST_ID: u32 = 10_000_000;
/// One past the last id.
pub(crate) const END_OF_IDS: u32 = 100_000_000;
const DIGITS: usize = 8;

/// The two ways of opening MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25, with `initialize`.
    Handshake,
    /// 2026-07-28, with `_meta` on every request.
    Stateless,
}

/// How much a call carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// One short line.
    Small,
    /// 4 KiB of arguments with escapes, and unknown members in every place where they are allowed.
    Large,
}

/// One `tools/call` of `echo` whose id can be changed in place.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    line: Vec<u8>,
    places: [usize; 2],
    /// The message without its digits, as written between the quotes.
    spelled: String,
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

impl Era {
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Handshake => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }

    pub(crate) fn method_of_opening(self) -> &'static str {
        match self {
            Self::Handshake => "initialize",
            Self::Stateless => "server/discover",
        }
    }

    pub(crate) fn opening(self) -> String {
        match self {
            Self::Handshake => concat!(
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
                r#""capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#,
                "\n"
            )
            .to_owned(),
            Self::Stateless => {
                format!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"server/discover\",\"params\":{{{META}}}}}\n")
            }
        }
    }

    /// Where a successful answer to the opening has something.
    pub(crate) fn proof_of_opening(self) -> &'static str {
        match self {
            Self::Handshake => "/result/protocolVersion",
            Self::Stateless => "/result/supportedVersions",
        }
    }

    pub(crate) fn confirmation(self) -> &'static str {
        match self {
            Self::Handshake => "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
            Self::Stateless => "",
        }
    }
}

impl Payload {
    /// The message up to its digits, as written on the wire.
    fn message(self) -> String {
        match self {
            Self::Small => "hello from the bench ".to_owned(),
            Self::Large => {
                let piece = r#"a \"quoted\" C:\\path\\to, tab\there, caf\u00e9 café, \ud83e\udd1d 🤝, a\/b and then a longer run of plain words without any escape at all, as prose mostly is.\n"#;
                piece.repeat(23)
            }
        }
    }

    fn unknown_members(self) -> [&'static str; 3] {
        match self {
            Self::Small => ["", "", ""],
            Self::Large => [
                r#""traceparent":{"id":"00-4bf9","parts":[1,2.50,-3e2,null,true,{"id":7}]},"#,
                r#""hints":{"message":"not this one","nested":{"arguments":{"message":"nor this"}}},"#,
                concat!(
                    r#""options":{"locale":"fr-CH","limit":12345678901234567890,"ratio":1.0,"tags":["a","b\n","c"],"deep":[[[[{"k":[]}]]]]},"#,
                    r#""remarks":"an argument that the tool does not know, with \"quotes\" and \u2014 dashes; it is to be ignored, whatever it says","#,
                    r#""history":[{"role":"user","text":"one"},{"role":"assistant","text":"two"},{"role":"user","text":"three"}],"#,
                ),
            ],
        }
    }
}

impl Request {
    pub(crate) fn new(era: Era, payload: Payload) -> Self {
        let spelled = payload.message();
        let [on_envelope, in_params, in_arguments] = payload.unknown_members();
        let mut line = format!("{{\"jsonrpc\":\"2.0\",{on_envelope}\"id\":").into_bytes();
        let id = line.len();
        line.extend_from_slice(b"00000000,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",");
        line.extend_from_slice(format!("{in_params}\"arguments\":{{{in_arguments}\"message\":\"{spelled}").as_bytes());
        let tail = line.len();
        line.extend_from_slice(b"00000000\"}");
        if era == Era::Stateless {
            line.extend_from_slice(b",");
            line.extend_from_slice(META.as_bytes());
        }
        line.extend_from_slice(b"}}\n");
        let mut request = Self { line, places: [id, tail], spelled };
        request.number(FIRST_ID);
        request
    }

    /// Gives the request another id, and its message the same digits.
    pub(crate) fn number(&mut self, id: u32) -> &[u8] {
        let digits = digits(id);
        for place in self.places {
            self.line[place..place + DIGITS].copy_from_slice(&digits);
        }
        &self.line
    }

    /// The same request behind a head, which has no digits to change.
    pub(crate) fn after(mut self, head: &str) -> Self {
        self.line.splice(..0, head.bytes());
        self.places = self.places.map(|place| place + head.len());
        self
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    /// The message without its digits in the spellings that servers use: as sent, and as `serde_json` writes it.
    pub(crate) fn spellings(&self) -> [String; 2] {
        [self.spelled.clone(), Value::from(self.text()).to_string().trim_matches('"').to_owned()]
    }

    /// The message without its digits, decoded.
    pub(crate) fn text(&self) -> String {
        serde_json::from_str(&format!("\"{}\"", self.spelled)).unwrap_or_default()
    }
}

/// The eight decimal digits of an id.
pub(crate) fn digits(mut id: u32) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (id % 10) as u8;
        id /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_request_contains_its_id_twice() {
        for era in [Era::Handshake, Era::Stateless] {
            for payload in [Payload::Small, Payload::Large] {
                let mut request = Request::new(era, payload);
                let text = request.text();
                let line: Value = serde_json::from_slice(request.number(12_345_678)).unwrap();
                assert_eq!(line["id"], 12_345_678);
                assert_eq!(line["params"]["arguments"]["message"], format!("{text}12345678"));
                assert_eq!(line["params"].get("_meta").is_some(), era == Era::Stateless);
            }
        }
    }

    #[test]
    fn a_head_moves_the_places_of_the_id() {
        let mut bare = Request::new(Era::Handshake, Payload::Small);
        let mut headed = bare.clone().after("a head\r\n");
        let expected = [b"a head\r\n", bare.number(12_345_678)].concat();
        assert_eq!(headed.number(12_345_678), expected);
    }

    #[test]
    fn large_arguments_are_four_kibibytes() {
        let line = String::from_utf8(Request::new(Era::Handshake, Payload::Large).line).unwrap();
        // As written: the last member of the params, without their two closing braces and the newline.
        let size = line.len() - line.rfind("\"arguments\":").unwrap() - "\"arguments\":".len() - 3;
        assert!((4096..4296).contains(&size), "{size}");
    }
}
