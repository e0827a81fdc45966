//! A small language model inside the process, so that a machine without network or keys can still hold a
//! conversation.
//!
//! A dedicated OS thread answers rounds, never the async runtime. It reads the prompt and then generates token by
//! token. Between any two tokens it checks for cancellation. All decisions (what fits into the context, when to
//! call a tool and with which arguments) are plain code on top of the traits of [`Engine`]. The tensor code is in
//! `runtime`, behind the feature of that name, because it takes minutes to compile.
//!
//! The model is small and its abilities are limited: it shows that the agent loop works, answers small talk, and
//! follows plain requests for a tool. It never has to choose between many tools, and a text argument is always a
//! part of the user's request.

mod conversation;
mod decoder;
mod engine;
mod model_file;
mod prefixes;
#[cfg(feature = "runtime")]
mod runtime;
mod template;
#[cfg(test)]
mod testing;
mod tools;
mod utf8;
mod worker;

pub use engine::{Engine, Grammar, GrammarMaker, Model, Vocabulary};
pub use model_file::{FILE_NAME, SOURCE, find};
#[cfg(feature = "runtime")]
pub use runtime::{keep_to_one_thread, open};
pub use template::{ChatMessage, Role, Template};
pub use worker::LocalModel;
