//! `cargo xtask accuracy`: how well frameworks are recognised in the trees of `crates/repository/accuracy`.
//!
//! The measure is a test, so that it is also held to its bars by every run of the tests; here its table is shown.

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
