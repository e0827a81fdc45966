//! The pure base that every other crate shares.
//!
//! - [`wire`] turns bytes into lines, and lines into borrowed members and JSON-RPC envelopes.
//! - [`operations`] is the neutral model of calls, results and notices, in which all dialects meet.
//! - [`negotiation`] turns two offers into an agreement or a refusal, and enforces the agreement.
//! - [`hex`], [`javascript`], [`number_map`], [`pattern`], [`sync`] and [`time`] are small functions that several crates need.
//! - [`striped`] has copies of a counter for several threads.
//! - [`trace_context`] reads and writes the context of a distributed trace.
//! - [`validation`] is the interface of a JSON Schema validator, and [`Order`] sorts with little code.
//!
//! This crate does no I/O, reads no clock, draws no random number, never awaits and never logs.

pub mod hex;
pub mod javascript;
pub mod negotiation;
pub mod number_map;
pub mod operations;
mod order;
pub mod pattern;
mod secret;
pub mod striped;
pub mod sync;
pub mod time;
pub mod trace_context;
mod trait_objects;
pub mod validation;
pub mod wire;

pub use order::Order;
pub use pattern::Pattern;
pub use secret::Secret;
