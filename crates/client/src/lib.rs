//! Sessions with upstream servers.
//!
//! - [`upstream`] is one session with any server: it detects era and dialect, and drives the client side of the dialect.
//! - [`http_client`] is the transport over HTTP; processes are in `gladhand-process`.
//! - [`upstream_provider`] is an upstream as a provider of the hub: its connections, lists, questions and restarts.
//!
//! This crate knows neither the configuration file nor the downstream side.

pub mod http_client;
pub mod upstream;
pub mod upstream_provider;
