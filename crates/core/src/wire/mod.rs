//! Lines, limits, JSON-RPC envelopes, and raw JSON that is forwarded without parsing.
//!
//! This module turns bytes into lines and lines into borrowed members. It knows no dialect, no method name and no
//! capability. It never reads a clock and never does I/O. Its allocations are proportional to the line at most.

pub mod frames;
pub mod id;
pub mod invisible;
pub mod json;
pub mod lines;
pub mod members;
pub mod outbox;
pub mod pick;
pub mod rpc;
pub mod skim;
pub mod text;
pub mod tokens;
pub mod values;

pub use frames::{Frame, FrameKind, FrameSummary, Frames, Lane};
pub use id::Id;
pub use json::RawValue;
pub use lines::{Line, Lines, Terminator};
pub use members::Members;
pub use outbox::Outbox;
pub use pick::{Picked, pick};
pub use skim::Skim;
pub use text::{Fault, TextPolicy};
