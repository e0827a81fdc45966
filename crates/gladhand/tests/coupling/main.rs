//! The coupling without peers: scripted servers, each strictly of one era, behind the built `gladhand bridge`.
//!
//! The scripted server (`examples/scripted`) writes down what it is sent and objects to what its era does not have, so
//! each test holds both sides of the bridge to the wire.
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

#[path = "../http/client.rs"]
#[allow(dead_code, reason = "the tests of the HTTP edge use more of it")]
mod client;

mod bridge;
mod clients;
mod eras;
mod lifetimes;
mod notices;
mod quirks;
mod sharing;
