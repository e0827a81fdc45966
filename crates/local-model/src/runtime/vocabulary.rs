//! The tokens of a GGUF file: byte-level BPE from the vocabulary and merges in the file.

use std::collections::HashMap;
use std::sync::Arc;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use tokenizers::Tokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;

use super::{number, text};
use crate::engine::Vocabulary;

const PRE: &str = "tokenizer.ggml.pre";
/// The token types that stand for text: ordinary tokens, and words that were added unchanged.
const ORDINARY: u32 = 1;
const ADDED: u32 = 4;

/// A byte-level BPE vocabulary.
pub(super) struct Bpe {
    tokenizer: Tokenizer,
    spelled: Vec<String>,
    /// The bytes of each token; empty for control tokens.
    bytes: Vec<Vec<u8>>,
    controls: Vec<String>,
    end: u32,
}

impl Bpe {
    pub(super) fn of(content: &mut Content) -> Result<Self, String> {
        // GGUF files and candle use different names for the same pre-tokenizer.
        if let Some("llama-bpe" | "llama-v3") = text(content, PRE) {
            content.metadata.insert(PRE.to_owned(), Value::String("llama3".to_owned()));
        }
        let mut tokenizer = Tokenizer::from_gguf(content).map_err(|why| why.to_string())?;
        if !matches!(text(content, PRE), Some("llama3" | "qwen2" | "smaug-bpe" | "lfm2")) {
            // For unknown names, candle would put a space before every piece.
            let words = ByteLevel::new(false, false, true);
            tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![Digits::new(true).into(), words.into()])));
        }
        let spelled: Vec<String> = list(content, "tokenizer.ggml.tokens", |value| value.to_string().ok().cloned());
        let kinds: Vec<u32> = list(content, "tokenizer.ggml.token_type", |value| match value {
            Value::I32(kind) => u32::try_from(*kind).ok(),
            other => other.to_u32().ok(),
        });
        let letters = letters();
        let said = |(at, word): (usize, &String)| match kinds.get(at).copied().unwrap_or(ORDINARY) {
            ORDINARY => word.chars().filter_map(|letter| letters.get(&letter)).copied().collect(),
            ADDED => word.clone().into_bytes(),
            _ => Vec::new(),
        };
        let bytes: Vec<Vec<u8>> = spelled.iter().enumerate().map(said).collect();
        let controls = spelled.iter().zip(&bytes).filter(|(word, bytes)| bytes.is_empty() && !word.is_empty());
        let controls = controls.map(|(word, _)| word.clone()).collect();
        let end = number(content, "tokenizer.ggml.eos_token_id").ok_or("it names no end-of-text token")?;
        Ok(Self { tokenizer, spelled, bytes, controls, end })
    }

    /// The spelling of a token, or an empty string if there is none.
    pub(super) fn spelled(&self, token: Option<u32>) -> &str {
        token.and_then(|token| self.spelled.get(token as usize)).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// The spelling and the bytes of each token, in order of token number.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.spelled.iter().zip(&self.bytes).map(|(spelled, bytes)| (spelled.as_str(), bytes.as_slice()))
    }
}

impl Vocabulary for Arc<Bpe> {
    fn tokens(&self, text: &str) -> Vec<u32> {
        // Encoding fails only if the vocabulary lacks letters. Then there is nothing to read.
        self.tokenizer.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
    }

    fn bytes(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize).map(Vec::as_slice).unwrap_or_default()
    }

    fn ends(&self, token: u32) -> bool {
        token == self.end || self.bytes(token).is_empty()
    }

    fn controls(&self) -> &[String] {
        &self.controls
    }
}

fn list<T>(content: &Content, key: &str, read: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    let values = content.metadata.get(key).and_then(|value| value.to_vec().ok());
    values.into_iter().flatten().filter_map(read).collect()
}

/// The byte that each letter stands for. Visible characters stand for themselves; the other bytes use letters from
/// 256 on.
fn letters() -> HashMap<char, u8> {
    let is_seen = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let seen = (0..=u8::MAX).filter(is_seen).map(|byte| (char::from(byte), byte));
    let unseen = ('\u{100}'..).zip((0..=u8::MAX).filter(|byte| !is_seen(byte)));
    seen.chain(unseen).collect()
}
