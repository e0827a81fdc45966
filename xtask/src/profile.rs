//! Counts how often ordinary sessions run each part of the program, so that the compiler optimises the frequent parts and
//! moves the others away from them.
//!
//! A build that counts runs through short sessions of every dialect. `dist` passes the counts to the compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::dist::Build;
use crate::shell::{self, Compiler};
use crate::training::Training;

/// How often each request is made.
const TIMES: u32 = 2_000;
const HINT: &str = "llvm-profdata must be as new as the LLVM of the compiler: `rustup component add llvm-tools` installs \
                    it, and the variable LLVM_PROFDATA names another one";

/// Writes the counts to a file. Returns false if the tool for that is missing or too old.
pub(crate) fn record(build: &Build<'_>, counts: &Path) -> Result<bool> {
    // Checked before the long build.
    let Some(merge) = merger(build.compiler) else {
        eprintln!("dist: there is no suitable llvm-profdata\nhint: {HINT}");
        return Ok(false);
    };
    let folder = shell::target().join("profile");
    shell::empty(&folder)?;
    let mut counting = build.clone();
    counting.everywhere.push(format!("-Cprofile-generate={}", folder.display()));
    let program = counting.run()?;
    let start = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&folder).env("LLVM_PROFILE_FILE", folder.join("%p.profraw"));
        command.env("XDG_CONFIG_HOME", &folder).env("XDG_DATA_HOME", &folder);
        command
    };
    Training { start: &start, times: TIMES }.run(&program.to_string_lossy(), || Ok(()))?;
    let mut command = Command::new(merge);
    command.args(["merge", "--sparse", "--output"]).arg(counts);
    for counted in std::fs::read_dir(&folder)? {
        let path = counted?.path();
        if path.extension().is_some_and(|extension| extension == "profraw") {
            command.arg(path);
        }
    }
    shell::run(&mut command, HINT)?;
    Ok(true)
}

/// The program that merges counts, if it can read those of this compiler.
fn merger(compiler: &Compiler) -> Option<PathBuf> {
    let named = std::env::var_os("LLVM_PROFDATA").map(PathBuf::from);
    let own = Path::new(&compiler.folder).join(format!("lib/rustlib/{}/bin/llvm-profdata", compiler.host));
    let candidates = named.into_iter().chain([own, PathBuf::from("llvm-profdata")]);
    candidates.into_iter().find(|program| {
        let about = shell::output_of(&program.to_string_lossy(), &["--version"]);
        about.and_then(|about| llvm_version(&about)).is_some_and(|version| version >= compiler.llvm)
    })
}

/// The first part of the version in a text such as `LLVM version 21.1.8`.
pub(crate) fn llvm_version(about: &str) -> Option<u32> {
    let version = about.split("LLVM version").nth(1)?.trim_start_matches([':', ' ']);
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_llvm_is_read_from_both_programs() {
        assert_eq!(llvm_version("Debian LLVM version 14.0.6\n  Optimized build."), Some(14));
        assert_eq!(llvm_version("release: 1.95.0\nLLVM version: 22.1.2"), Some(22));
        assert_eq!(llvm_version("LLVM"), None);
    }
}
