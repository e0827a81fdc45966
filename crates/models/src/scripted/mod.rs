//! A model provider for tests that replies from a script, over real HTTP on the loopback address.
//!
//! A [`Script`] contains replies for paths. Each request takes the next reply of its path, and the test can inspect
//! every request. A reply can be JSON, text or events. It can wait at a gate until the test opens it, pause, never
//! end, or break off.

mod script;
mod server;

pub use script::{Reply, Route, Script};
pub use server::{RecordedRequest, ScriptedProvider};
