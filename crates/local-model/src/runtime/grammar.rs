//! Restricts the output of the model to a JSON Schema.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use serde_json::json;
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use super::vocabulary::Bpe;
use crate::engine::{Grammar, GrammarMaker, Vocabulary};

/// The vocabulary in the form that llguidance requires.
struct Words {
    bpe: Arc<Bpe>,
    trie: TokTrie,
}

struct Matched(Matcher);

/// Creates the grammar compiler for a vocabulary.
pub(super) fn maker(bpe: &Arc<Bpe>) -> Result<GrammarMaker, String> {
    // A marker byte that occurs in no text identifies control tokens, so that a grammar never accepts their
    // spelling as text.
    let control = |spelled: &str| [&[TokTrie::SPECIAL_TOKEN_MARKER], spelled.as_bytes()].concat();
    let word = |(spelled, bytes): (&str, &[u8])| if bytes.is_empty() { control(spelled) } else { bytes.to_vec() };
    let words: Vec<Vec<u8>> = bpe.all().map(word).collect();
    let size = u32::try_from(words.len()).map_err(|_| "its vocabulary is too large".to_owned())?;
    let trie = TokTrie::from(&TokRxInfo::new(size, bpe.end()), &words);
    let words: TokEnv = Arc::new(Words { bpe: Arc::clone(bpe), trie });
    let mut factory = ParserFactory::new_simple(&words).map_err(|why| why.to_string())?;
    factory.quiet();
    Ok(Box::new(move |mut schema| {
        // Fixes the whitespace to the usual one. With flexible whitespace, a small model can generate whitespace
        // for ever.
        schema["x-guidance"] = json!({"whitespace_flexible": false, "key_separator": ": ", "item_separator": ", "});
        let parser = factory.create_parser(TopLevelGrammar::from_json_schema(schema));
        let parser = parser.map_err(|why| format!("the tool's schema makes no grammar: {why}"))?;
        Ok(Box::new(Matched(Matcher::new(Ok(parser)))))
    }))
}

impl TokenizerEnv for Words {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| self.bpe.tokens(text))
    }
}

impl Grammar for Matched {
    fn next(&mut self, logits: &[f32]) -> Result<Option<u32>, String> {
        if self.0.is_stopped() {
            return Ok(None);
        }
        let allowed = self.0.compute_mask().map_err(|why| why.to_string())?;
        let likely = |token: &u32| logits.get(*token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let best = allowed.iter().max_by(|one, other| likely(one).total_cmp(&likely(other)));
        let Some(token) = best else { return Ok(None) };
        self.0.consume_token(token).map_err(|why| why.to_string())?;
        let is_over = self.0.is_stopped() && self.0.tok_env().is_ok_and(|words| words.eos_token() == token);
        Ok((!is_over).then_some(token))
    }
}
