//! `profile`: records how often ordinary sessions run each part of the program, for profile-guided optimization.
//!
//! An instrumented build of the shipped program runs short sessions of every dialect. The counts go into
//! `crates/gladhand`, where `dist` finds them. Repeat it when a hot path was rewritten or the compiler changes: `dist`
//! ignores counts of another compiler. Run `order` afterwards, because other functions remain after inlining.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::dist;
use crate::shell::{self, Compiler};
use crate::training::Training;

/// How often each request is sent.
const TIMES: u32 = 2_000;
const HINT: &str = "llvm-profdata of the compiler's own version is needed: `rustup component add llvm-tools` brings it, \
                    or say in LLVM_PROFDATA where it is";

/// Counts, and writes down the counts.
pub(crate) fn run() -> Result<ExitCode> {
    let compiler = Compiler::installed()?;
    // Before the build, which takes its time.
    let merge = merger(&compiler)?;
    let folder = shell::target().join("profile");
    shell::empty(&folder)?;
    let program = dist::build(&compiler, &[format!("-Cprofile-generate={}", folder.display())], &[])?;
    let start = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&folder).env("LLVM_PROFILE_FILE", folder.join("%p.profraw"));
        command.env("XDG_CONFIG_HOME", &folder).env("XDG_DATA_HOME", &folder);
        command
    };
    Training { start: &start, times: TIMES }.run(&program.to_string_lossy(), || Ok(()))?;
    let profile = dist::profile(&compiler);
    let mut command = Command::new(merge);
    command.args(["merge", "--sparse", "--output"]).arg(&profile);
    for counted in std::fs::read_dir(&folder)? {
        let path = counted?.path();
        if path.extension().is_some_and(|extension| extension == "profraw") {
            command.arg(path);
        }
    }
    shell::run(&mut command, HINT)?;
    // Cargo does not see that the counts are others: nothing that was built with those before may stay.
    shell::empty(&shell::target().join(&compiler.host).join("dist"))?;
    println!("{} has the counts; now `cargo xtask order`", profile.display());
    Ok(ExitCode::SUCCESS)
}

/// The program that puts counts together.
fn merger(compiler: &Compiler) -> Result<PathBuf> {
    let named = std::env::var_os("LLVM_PROFDATA").map(PathBuf::from);
    let own = Path::new(&compiler.folder).join(format!("lib/rustlib/{}/bin/llvm-profdata", compiler.host));
    let candidates = named.into_iter().chain([own, PathBuf::from("llvm-profdata")]);
    let runs = |program: &PathBuf| shell::output_of(&program.to_string_lossy(), &["--version"]).is_some();
    match candidates.into_iter().find(runs) {
        Some(program) => Ok(program),
        None => bail!("there is no llvm-profdata\nhint: {HINT}"),
    }
}
