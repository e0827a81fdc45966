//! Gladhand as a library: build a [`Hub`](hub::Hub) from your own providers, and serve it to peers of every dialect. To
//! embed only that, use `gladhand-server`, whose `examples/tool.rs` is a whole server with one tool.
//!
//! ```no_run
//! use gladhand::{Service, hub::Hub, providers::Toolbox};
//!
//! let hub = Hub::new(vec![Box::new(Toolbox)]).expect("tool names are unique");
//! let ended = Service::new(hub).serve_stdio();
//! ```
//!
//! [`Service::serve_http`] serves the same hub to any number of MCP peers over HTTP, and
//! [`Service::bind_http`] does so inside a runtime of your own.
//!
//! The binary is a thin layer over this crate: `cli` and `commands`. Everything public here may
//! still change; `docs/stability.md` says what is promised.

mod access_log;
pub mod agent;
mod audit;
pub mod authorization;
pub mod cli;

mod clients;
pub mod commands;
pub mod exit;
mod from_config;
mod line_file;
pub mod logging;
mod pins;
mod policy_setup;
pub mod providers;
mod recorder;
mod secrets;
mod telemetry;
mod terminal;
mod utc;

pub use gladhand_auth as auth;
pub use gladhand_client::{http_client, upstream, upstream_provider};
pub use gladhand_config as config;
pub use gladhand_core::{Pattern, Secret, negotiation, operations, wire};
pub use gladhand_dialects as dialects;
pub use gladhand_hub as hub;
pub use gladhand_store as store;

pub use gladhand_server::Service;
pub use gladhand_server::service::Limits;
