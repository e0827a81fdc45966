//! `cargo xtask test`: the whole suite, with the real peers. A peer that cannot be installed fails the run.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{peers, shell};

/// Features to test beyond the defaults. The keychain is excluded, because test machines have none.
const FEATURES: &str = "gladhand/peers,gladhand-dialects/testing";

pub(crate) fn run(arguments: &[&str]) -> Result<ExitCode> {
    let peers = peers::install()?;
    let words = ["test", "--workspace", "--features", FEATURES, "--no-fail-fast"];
    let mut command = shell::cargo(&words);
    // Node comes with the peers, for those tests that run scripts.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::env::split_paths(&path).chain([peers.join("bin")]))?;
    command.args(arguments).env("GLADHAND_PEERS", &peers).env("PATH", path);
    eprintln!("+ GLADHAND_PEERS={} cargo {} {}", peers.display(), words.join(" "), arguments.join(" "));
    let status = command.status().context("could not start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
