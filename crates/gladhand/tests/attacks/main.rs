//! Known attacks on this kind of software, each tried with real processes against the built program.
//!
//! `docs/security.md` lists the attacks and names the test that tries each one. A test here must fail if its defence is
//! removed. Run them with `cargo xtask test -- --test attacks`.
#![cfg(unix)]

#[path = "../http/client.rs"]
#[allow(dead_code, reason = "the tests of the HTTP edge use more of it")]
mod client;
#[path = "../support/mod.rs"]
mod support;

mod a2e_agent;
mod a2e_over_http;
mod approval;
mod environment;
mod exhaustion;
mod files;
mod invisible;
mod known;
mod leash;
mod memory;
mod names;
mod oauth;
mod pins;
mod policy_reach;
mod project_files;
mod reload;
mod restarts;
mod revocation;
mod secrets;
mod serving;
mod state;
