//! `cargo xtask test`: the whole suite, with the real peers. A peer that cannot be installed fails the run.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{peers, shell};

pub(crate) fn run(arguments: &[&str]) -> Result<ExitCode> {
    let peers = peers::install()?;
    let mut command = shell::cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.args(arguments).env("GLADHAND_PEERS", &peers);
    eprintln!(
        "+ GLADHAND_PEERS={} cargo test --workspace --all-features --no-fail-fast {}",
        peers.display(),
        arguments.join(" ")
    );
    let status = command.status().context("could not start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
