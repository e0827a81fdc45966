//! A small language model inside the process, so that a machine without network or keys still holds a conversation.
//!
//! A round is answered by an OS thread of its own, never by the async runtime: it reads the prompt, then says one token
//! after the other and looks between any two whether anybody still listens. Everything that decides (what fits into the
//! context, when a tool is called and with what) is plain code above the traits of [`Engine`]; what runs the tensors
//! lives in `runtime`, behind the feature of that name, because it takes minutes to compile.
//!
//! The model is small and does little: it proves the loop, answers small talk, and follows plain requests for a tool. It
//! is never given the choice between forty tools, and an argument is only ever a stretch of the user's own words.

mod conversation;
mod engine;
mod place;
mod prefixes;
#[cfg(feature = "runtime")]
mod runtime;
mod speaker;
mod template;
#[cfg(test)]
mod testing;
mod tools;
mod utf8;
mod worker;

pub use engine::{Engine, Grammar, GrammarMaker, Mind, Vocabulary};
pub use place::{FILE_NAME, find};
#[cfg(feature = "runtime")]
pub use runtime::{keep_to_one_thread, open};
pub use template::{Message, Role, Template};
pub use worker::LocalModel;
