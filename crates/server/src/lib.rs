//! Serves a hub to any peer, in the dialect that the peer opens: the embedding API.
//!
//! ```no_run
//! use gladhand_server::Service;
//! use gladhand_hub::Kit;
//!
//! let hub = Kit::new().into_hub().expect("tool names are unique");
//! let ended = Service::new(hub).serve_stdio();
//! ```
//!
//! [`Service::serve_http`] serves the same hub to any number of peers over HTTP, and [`Service::bind_http`] does so
//! inside a runtime of the embedder.
//!
//! - [`service`] is a hub with the terms on which it is served.
//! - [`downstream`] is the loop of a session on standard input and output ([`stdio`]); [`http`] has all others.
//! - `driver` drives every session, on any transport. [`tap`] shows every frame of every session to listeners.
//! - [`access`] decides which clients are admitted, and ends sessions whose client lost access.
//! - [`control`] reports the status of this process to `gladhand ps`.
//!
//! This crate knows neither the configuration file nor upstreams. It turns bytes into lines and actions into bytes;
//! the meaning of a message is decided in the dialects.

pub mod access;
mod busy_poll;
#[cfg(unix)]
pub mod control;
pub mod downstream;
mod driver;
pub mod event_queue;
pub mod http;
mod memory;
pub mod refusal_line;

pub mod service;

pub mod signals;
pub mod stdio;

pub use gladhand_core::{Pattern, Secret, negotiation, operations, wire};
pub use gladhand_dialects as dialects;
pub use gladhand_hub as hub;
pub use gladhand_session::tap;

pub use service::Service;
