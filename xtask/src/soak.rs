//! `cargo xtask soak`: the soak test, for a chosen duration.

use std::process::ExitCode;

use anyhow::Result;

use crate::shell;

/// The default duration.
const MINUTES: u64 = 10;

/// The duration that the arguments request, or the first unknown argument.
pub(crate) fn minutes<'a>(words: &[&'a str]) -> Result<u64, &'a str> {
    match words {
        [] => Ok(MINUTES),
        ["--minutes", minutes] => minutes.parse().map_err(|_| *minutes),
        [unknown, ..] => Err(unknown),
    }
}

pub(crate) fn run(minutes: u64) -> Result<ExitCode> {
    let hint = "the soak test must build first";
    shell::run(&mut shell::cargo(&["build", "--package", "gladhand", "--example", "unreliable"]), hint)?;
    let mut test = shell::cargo(&["test", "--package", "gladhand", "--test", "soak", "--", "--nocapture"]);
    test.env("GLADHAND_SOAK_SECONDS", (minutes * 60).to_string());
    shell::run(&mut test, "the output above names the failed check")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_read() {
        assert_eq!(minutes(&[]), Ok(MINUTES));
        assert_eq!(minutes(&["--minutes", "3"]), Ok(3));
        assert_eq!(minutes(&["--minutes", "soon"]), Err("soon"));
        assert_eq!(minutes(&["--hours"]), Err("--hours"));
    }
}
