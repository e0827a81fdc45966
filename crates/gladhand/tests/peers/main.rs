//! Real peers: the official SDK clients open the built binary, and the binary opens real servers.
//!
//! Both sides of ours are tested against each other elsewhere; here neither can lean on the other's mistakes.
//! `cargo xtask test` installs the peers and says where in `GLADHAND_PEERS`. Without it these tests fail: a
//! peer that is not there was not talked to.

mod a2e_mcp;
mod checked;
mod clients;
mod console;
mod coupling;
mod direct;
mod installed;
mod logins;
mod matrix;
mod quirks;
mod servers;
#[path = "../a2e_mcp/stage.rs"]
mod stage;
#[path = "../support/mod.rs"]
mod support;
mod telemetry;
mod upstreams;
