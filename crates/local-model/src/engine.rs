//! The interface to the code that runs a model.
//!
//! It separates decisions from computation. Tests use a scripted engine; the feature `runtime` provides a real one.

use crate::template::Template;

/// A loaded model.
pub struct Engine {
    /// Converts text to tokens.
    pub vocabulary: Box<dyn Vocabulary>,
    /// The model before it has read any token.
    pub model: Box<dyn Model>,
    /// Converts a conversation to text.
    pub template: Template,
    /// The context size in tokens, for input and output together.
    pub context: usize,
    /// Compiles a JSON Schema into a grammar.
    pub grammar: GrammarMaker,
}

/// Compiles a JSON Schema into a grammar, or returns an error message.
pub type GrammarMaker = Box<dyn Fn(serde_json::Value) -> Result<Box<dyn Grammar>, String> + Send>;

/// A model with the tokens that it has read so far.
pub trait Model: Send {
    /// Reads more tokens, and returns a logit for each token of the vocabulary: how likely it comes next.
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>, String>;

    /// How many tokens have been read.
    fn length(&self) -> usize;

    /// A cheap copy that continues independently.
    fn fork(&self) -> Box<dyn Model>;
}

/// The tokens of a model.
pub trait Vocabulary: Send {
    /// Converts text to tokens. A spelled-out control token becomes that control token.
    fn tokens(&self, text: &str) -> Vec<u32>;

    /// The bytes of a token; empty for control tokens.
    fn bytes(&self, token: u32) -> &[u8];

    /// Whether this token ends the output of the model.
    fn ends(&self, token: u32) -> bool;

    /// The spellings of the control tokens. Text in a conversation must not contain them.
    fn controls(&self) -> &[String];
}

/// Restricts the output of the model to permitted texts.
pub trait Grammar {
    /// Selects the likeliest permitted token. Returns `None` when the text is complete.
    fn next(&mut self, logits: &[f32]) -> Result<Option<u32>, String>;
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Engine").field("context", &self.context).finish_non_exhaustive()
    }
}
