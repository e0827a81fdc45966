//! `cargo xtask accuracy`: how well frameworks are recognised in the trees of `crates/repository/accuracy`.
//!
//! The measurement is a test, so that every test run enforces its bars. This command shows its table.

use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::shell;

/// Prints precision and recall for each framework and for all, and fails under the bars.
pub(crate) fn run() -> Result<ExitCode> {
    let arguments = [
        "test",
        "--quiet",
        "--package",
        "gladhand-repository",
        "--test",
        "accuracy",
        "--",
        "--nocapture",
        "--exact",
        "the_bars_are_met",
    ];
    let status = shell::cargo(&arguments).stdin(Stdio::null()).status().context("could not start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
