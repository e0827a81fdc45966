//! Checks replies cheaply enough to keep up with the floor, and still completely.
//!
//! Each reply must carry an id that is awaited, once, and exactly the text of that call. The usual spelling is
//! compared byte by byte; anything else, and every thousandth reply anyway, is parsed as JSON and then compared.

use anyhow::{Context, Result, bail, ensure};
use memchr::memmem::Finder;
use serde_json::Value;

use super::request::{FIRST_ID, Request, digits};

const USUAL_START: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
const PARSED_ANYWAY: u32 = 1000;

/// Knows which replies are awaited.
#[derive(Debug)]
pub(crate) struct Checker {
    spellings: [String; 2],
    text: String,
    find_text: Finder<'static>,
    find_failure: Finder<'static>,
    /// One bit for each id that was answered.
    answered: Vec<u64>,
    next: u32,
    pub(crate) count: u32,
}

impl Checker {
    pub(crate) fn new(request: &Request) -> Self {
        Self {
            spellings: request.spellings(),
            text: request.text(),
            find_text: Finder::new(b"\"text\":\""),
            find_failure: Finder::new(b"rror\":"),
            answered: Vec::new(),
            next: FIRST_ID,
            count: 0,
        }
    }

    /// The next id to send.
    pub(crate) fn expect_one_more(&mut self) -> u32 {
        let id = self.next;
        if (id - FIRST_ID).is_multiple_of(64) {
            self.answered.push(0);
        }
        self.next += 1;
        id
    }

    /// How many calls were sent and not answered.
    pub(crate) fn awaited(&self) -> u32 {
        self.next - FIRST_ID - self.count
    }

    /// Accepts one reply, without its newline.
    pub(crate) fn check(&mut self, line: &[u8]) -> Result<()> {
        let id = match self.usual(line) {
            Some(id) if !self.count.is_multiple_of(PARSED_ANYWAY) => id,
            _ => self.parsed(line).with_context(|| excerpt(line))?,
        };
        ensure!((FIRST_ID..self.next).contains(&id), "a reply has id {id}, which no request had: {}", excerpt(line));
        let (word, bit) = ((id - FIRST_ID) as usize / 64, 1 << (id % 64));
        ensure!(self.answered[word] & bit == 0, "id {id} was answered twice");
        self.answered[word] |= bit;
        self.count += 1;
        Ok(())
    }

    /// The id of a reply in a spelling that needs no parser.
    fn usual(&self, line: &[u8]) -> Option<u32> {
        let rest = line.strip_prefix(USUAL_START)?;
        let (spelled, rest) = rest.split_at_checked(8)?;
        let id =
            spelled.iter().try_fold(0, |id, byte| byte.is_ascii_digit().then(|| id * 10 + u32::from(byte - b'0')))?;
        let rest = rest.strip_prefix(b",")?;
        let start = self.find_text.find(rest)?;
        let text = &rest[start + 8..];
        let after = self.spellings.iter().find_map(|spelling| text.strip_prefix(spelling.as_bytes()))?;
        let end = after.strip_prefix(&digits(id))?.strip_prefix(b"\"")?;
        let fails = |part| self.find_failure.find(part).is_some_and(|at| !part[at..].starts_with(b"rror\":false"));
        (!fails(&rest[..start]) && !fails(end) && end.ends_with(b"}")).then_some(id)
    }

    fn parsed(&self, line: &[u8]) -> Result<u32> {
        let reply: Value = serde_json::from_slice(line).context("a reply is no JSON")?;
        let id = reply["id"].as_u64().and_then(|id| u32::try_from(id).ok()).context("a reply without a known id")?;
        let Some(text) = reply.pointer("/result/content/0/text").and_then(Value::as_str) else {
            bail!("a reply without text");
        };
        ensure!(reply.pointer("/result/isError") != Some(&Value::Bool(true)), "a failed call");
        let digits = text.strip_prefix(self.text.as_str()).context("a reply with another text")?;
        ensure!(digits == id.to_string(), "id {id} came with the text of call {digits}");
        Ok(id)
    }
}

fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::request::{Era, Payload};

    fn checker() -> Checker {
        let mut checker = Checker::new(&Request::new(Era::Handshake, Payload::Small));
        checker.expect_one_more();
        checker.expect_one_more();
        // Past the reply that is parsed anyway, so that the cheap path is taken.
        checker.check(&reply(10_000_000, 10_000_000, "")).unwrap();
        checker
    }

    fn reply(id: u32, text: u32, rest: &str) -> Vec<u8> {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"hello from the bench {text}\"}}]{rest}}}}}"
        )
        .into_bytes()
    }

    #[test]
    fn a_right_reply_is_accepted_once() {
        let mut checker = checker();
        checker.check(&reply(10_000_001, 10_000_001, ",\"isError\":false")).unwrap();
        assert_eq!((checker.count, checker.awaited()), (2, 0));
        assert!(checker.check(&reply(10_000_001, 10_000_001, "")).is_err());
    }

    #[test]
    fn wrong_replies_are_noticed() {
        let wrong = [
            reply(10_000_001, 10_000_000, ""),
            reply(10_000_002, 10_000_002, ""),
            reply(10_000_001, 10_000_001, ",\"isError\":true"),
            b"{\"jsonrpc\":\"2.0\",\"id\":10000001,\"error\":{\"code\":-32603,\"message\":\"x\"}}".to_vec(),
            b"{\"jsonrpc\":\"2.0\",\"id\":10000001,\"result\":{}}".to_vec(),
            b"hello".to_vec(),
        ];
        for line in wrong {
            assert!(checker().check(&line).is_err(), "{}", String::from_utf8_lossy(&line));
        }
    }

    #[test]
    fn another_spelling_of_the_same_reply_is_accepted() {
        let line = br#"{"id":10000001,"jsonrpc":"2.0","result":{"content":[{"text":"hello\u0020from the bench 10000001","type":"text"}]}}"#;
        checker().check(line).unwrap();
    }
}
