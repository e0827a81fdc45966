//! What this crate asks of whatever runs a model.
//!
//! The seam between deciding and calculating: the tests put a scripted engine here, the feature `runtime` a real one.

use crate::template::Template;

/// A model, loaded and ready.
pub struct Engine {
    /// How text becomes tokens.
    pub vocabulary: Box<dyn Vocabulary>,
    /// The model before it has read anything.
    pub mind: Box<dyn Mind>,
    /// How a conversation becomes text.
    pub template: Template,
    /// How many tokens it can take in and say together.
    pub context: usize,
    /// Makes the grammar of everything that a JSON Schema allows.
    pub grammar: GrammarMaker,
}

/// Makes the grammar of everything that a JSON Schema allows, or says why it cannot.
pub type GrammarMaker = Box<dyn Fn(serde_json::Value) -> Result<Box<dyn Grammar>, String> + Send>;

/// A model together with everything that it has read so far.
pub trait Mind: Send {
    /// Reads on, and says how likely each token of the vocabulary comes next (unscaled).
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>, String>;

    /// How many tokens it has read.
    fn length(&self) -> usize;

    /// The same mind once more; the two go different ways from here. Cheap.
    fn fork(&self) -> Box<dyn Mind>;
}

/// The tokens of a model.
pub trait Vocabulary: Send {
    /// The tokens of a text, in which the spellings of control tokens count as these.
    fn tokens(&self, text: &str) -> Vec<u32>;

    /// What a token says; nothing for control tokens.
    fn bytes(&self, token: u32) -> &[u8];

    /// Whether the model has finished when it says this.
    fn ends(&self, token: u32) -> bool;

    /// How the control tokens are spelled, which nobody may smuggle into a conversation.
    fn controls(&self) -> &[String];
}

/// What may be said next, where only some texts are allowed.
pub trait Grammar {
    /// Takes the likeliest of the allowed tokens; nothing when the text is complete.
    fn next(&mut self, logits: &[f32]) -> Result<Option<u32>, String>;
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Engine").field("context", &self.context).finish_non_exhaustive()
    }
}
