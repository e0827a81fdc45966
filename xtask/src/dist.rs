//! `dist`: the program as it is shipped, one file that needs nothing of the system but its kernel.
//!
//! It starts in six tenths of the time: there are no libraries to look for, and as it stands at a fixed address nothing in
//! it has to be adjusted before it runs. What is given up is that the address of the
//! code differs from run to run; those of heap, stack and mappings still do. An ordinary `cargo build --release` keeps
//! that, and needs the system's C library.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::shell;

const HINT: &str = "the C library has to be there in its static form too: libc6-dev or glibc-static have it";

/// Builds it, and says where it is.
pub(crate) fn run() -> Result<ExitCode> {
    let program = build(&[])?;
    let bytes = std::fs::metadata(&program)?.len();
    println!("{}", program.display());
    eprintln!("dist: {:.1} MiB, and all that is needed", bytes as f64 / f64::from(1 << 20));
    Ok(ExitCode::SUCCESS)
}

/// Builds it with further flags for the compiler.
pub(crate) fn build(flags: &[&str]) -> Result<PathBuf> {
    let mut command = shell::cargo(&["rustc", "--profile", "dist", "--package", "gladhand", "--bin", "gladhand", "--"]);
    if cfg!(target_os = "linux") {
        command.args(["-C", "target-feature=+crt-static", "-C", "relocation-model=static"]);
    }
    shell::run(command.args(flags), HINT)?;
    Ok(shell::target().join("dist/gladhand"))
}
