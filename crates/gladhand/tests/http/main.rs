//! The HTTP edge on real sockets: the built program, and servers of our own in this process.
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod agents;
mod agents_client;
mod agents_limits;
mod agents_recorded;
mod agents_trust;
mod authorize;
mod client;
mod collector;
mod eras;
mod guard;
mod lifecycle;
mod limits;
mod metrics;
mod pair;
mod policy;
mod questions;
mod readiness;
mod server;
mod side_routes;
mod sockets;
mod statuses;
mod streams;
mod telemetry;
mod trust;
