//! `dist`: the shipped program, one file that needs nothing of the system but its kernel.
//!
//! It starts in six tenths of the time, because it loads no libraries, and because a program at a fixed address needs no
//! relocation. In return, the address of the code is the same in every run; the addresses of heap, stack and mappings are
//! still random. An ordinary `cargo build --release` has a random code address too, and needs the system's C library.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::shell::{self, Compiler};

const HINT: &str = "the static C library is needed: install libc6-dev or glibc-static";
/// The separator of flags in the variable that cargo reads them from.
const SEPARATOR: &str = "\u{1f}";

/// Builds it, and says where it is.
pub(crate) fn run() -> Result<ExitCode> {
    let program = build_as_profiled(&[])?;
    let bytes = std::fs::metadata(&program)?.len();
    println!("{}", program.display());
    eprintln!("dist: {:.1} MiB, and all that is needed", bytes as f64 / f64::from(1 << 20));
    Ok(ExitCode::SUCCESS)
}

/// Where the counts of [`profile`](crate::profile) are: in names and form they are this compiler's.
pub(crate) fn profile(compiler: &Compiler) -> PathBuf {
    shell::root().join(format!("crates/gladhand/profile-{}.profdata", compiler.release))
}

/// Builds it as the counts suggest, if there are any, and with further flags for the program itself.
pub(crate) fn build_as_profiled(flags: &[&str]) -> Result<PathBuf> {
    let compiler = Compiler::installed()?;
    let profile = profile(&compiler);
    if profile.is_file() {
        return build(&compiler, &[format!("-Cprofile-use={}", profile.display())], flags);
    }
    eprintln!("dist: nothing was counted with Rust {}, so this is a little slower than it could be", compiler.release);
    build(&compiler, &[], flags)
}

/// Builds it with further flags, for everything in it and for the program itself.
pub(crate) fn build(compiler: &Compiler, everywhere: &[String], flags: &[&str]) -> Result<PathBuf> {
    let mut command = shell::cargo(&["rustc", "--profile", "dist", "--package", "gladhand", "--bin", "gladhand"]);
    // Named, so that flags for everything are not those of what only runs while building.
    command.args(["--target", &compiler.host, "--"]);
    if cfg!(target_os = "linux") {
        command.args(["-C", "target-feature=+crt-static", "-C", "relocation-model=static"]);
    }
    if !everywhere.is_empty() {
        command.env("CARGO_ENCODED_RUSTFLAGS", everywhere.join(SEPARATOR));
    }
    shell::run(command.args(flags), HINT)?;
    let program = Path::new("dist").join(format!("gladhand{}", std::env::consts::EXE_SUFFIX));
    let (made, shipped) = (shell::target().join(&compiler.host).join(&program), shell::target().join(&program));
    let new = shipped.with_extension("new");
    let put = std::fs::create_dir_all(shell::target().join("dist")).and_then(|()| {
        if new.exists() {
            std::fs::remove_file(&new)?;
        }
        // A hard link rather than a copy: the page cache holds a copy in larger pieces, of which a start maps more than
        // it needs.
        std::fs::hard_link(&made, &new).or_else(|_| std::fs::copy(&made, &new).map(drop))?;
        // A running process keeps the old file.
        std::fs::rename(&new, &shipped)?;
        // If both names are the same file, the rename keeps both.
        if new.exists() { std::fs::remove_file(&new) } else { Ok(()) }
    });
    put.with_context(|| format!("could not put {} at {}", made.display(), shipped.display()))?;
    Ok(shipped)
}
