//! A model provider that says what a script tells it to, over real HTTP on this machine's own address.
//!
//! For tests of everything that talks to models. A [`Script`] has replies for paths; each request takes the next one of
//! its path, and every request is kept for the test to look at. Replies can be JSON, text or events; they can wait at a
//! gate until the test opens it, pause, stall for ever, and break off.

mod script;
mod server;

pub use script::{Reply, Route, Script};
pub use server::{Asked, ScriptedProvider};
