//! Recorded sessions of real peers, replayed against the built programs.
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod a2e;
mod fluxloop;
mod loaf;
mod mcp;
mod replay;

use std::process::Command;

/// The built `gladhand serve`.
fn serve() -> Command {
    let mut command = support::gladhand();
    command.arg("serve");
    command
}

/// The `fixture` example with one of the toolboxes here.
fn fixture(toolbox: &str) -> Command {
    let mut command = support::example("fixture");
    command.arg(replay::here("toolboxes").join(toolbox));
    command
}
