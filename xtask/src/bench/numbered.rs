//! Calls of which only the number differs, for dialects whose answers are right if they name it and show one thing.

use anyhow::{Context, Result, ensure};
use memchr::memmem::Finder;

use super::load::Exchange;
use super::request::{FIRST_ID, digits};

/// Numbered calls and which of them are answered.
#[derive(Debug)]
pub(crate) struct Numbered {
    head: &'static str,
    /// The texts after the number, in turn.
    tails: Vec<String>,
    find_id: Finder<'static>,
    find_proof: Finder<'static>,
    line: Vec<u8>,
    answered: Vec<bool>,
    count: u32,
}

impl Numbered {
    /// Calls that begin with `head`, which ends where the number goes. `proof` is in every answer that is one.
    pub(crate) fn new(head: &'static str, tails: Vec<String>, proof: &'static str) -> Self {
        let (find_id, find_proof) = (Finder::new(b"\"id\":"), Finder::new(proof));
        Self { head, tails, find_id, find_proof, line: Vec::new(), answered: Vec::new(), count: 0 }
    }
}

impl Exchange for Numbered {
    fn call(&mut self) -> &[u8] {
        let index = self.answered.len();
        self.answered.push(false);
        self.line.clear();
        self.line.extend_from_slice(self.head.as_bytes());
        self.line.extend_from_slice(&digits(FIRST_ID + index as u32));
        self.line.extend_from_slice(self.tails[index % self.tails.len()].as_bytes());
        self.line.push(b'\n');
        &self.line
    }

    fn check(&mut self, line: &[u8]) -> Result<()> {
        let excerpt = || String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned();
        let place = self.find_id.find(line).with_context(excerpt)? + "\"id\":".len();
        let number = line[place..].iter().map_while(|byte| byte.is_ascii_digit().then(|| usize::from(byte - b'0')));
        let number = number.take(9).fold(0, |number, digit| number * 10 + digit);
        let answered = number.checked_sub(FIRST_ID as usize).and_then(|index| self.answered.get_mut(index));
        let answered = answered.with_context(|| format!("nobody asked this: {}", excerpt()))?;
        ensure!(!*answered, "{number} was answered twice");
        ensure!(self.find_proof.find(line).is_some(), "not the answer that was expected: {}", excerpt());
        *answered = true;
        self.count += 1;
        Ok(())
    }

    fn awaited(&self) -> u32 {
        self.answered.len() as u32 - self.count
    }

    fn answered(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_answered_once_and_with_its_proof() {
        let mut calls = Numbered::new("{\"id\":", vec![",\"a\"}".to_owned(), ",\"b\"}".to_owned()], "\"ok\":true");
        assert_eq!(calls.call(), b"{\"id\":10000000,\"a\"}\n");
        assert_eq!(calls.call(), b"{\"id\":10000001,\"b\"}\n");
        calls.check(b"{\"id\":10000001,\"ok\":true}").unwrap();
        assert_eq!((calls.answered(), calls.awaited()), (1, 1));
        for wrong in ["{\"id\":10000001,\"ok\":true}", "{\"id\":10000002,\"ok\":true}", "{\"id\":10000000}", "{}"] {
            assert!(calls.check(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
