//! Running other programs where the person can see them, and where the project's folders are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::profile::llvm_version;

/// The root of the project.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's own output folder, wherever the person put it.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |named| root().join(named))
}

/// A cargo command in the project's root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// The known facts about the compiler.
pub(crate) struct Compiler {
    pub(crate) release: String,
    pub(crate) host: String,
    /// The first part of the version of its LLVM.
    pub(crate) llvm: u32,
    /// Where it is installed.
    pub(crate) folder: String,
}

impl Compiler {
    pub(crate) fn installed() -> Result<Self> {
        let told = |arguments: &[&str]| output_of("rustc", arguments).context("`rustc` does not run");
        let about = told(&["-vV"])?;
        let said = |what: &str| about.lines().find_map(|line| line.strip_prefix(what)).map(str::to_owned);
        let (release, host) = said("release: ").zip(said("host: ")).context("`rustc -vV` says less than it should")?;
        let llvm = llvm_version(&about).context("`rustc -vV` does not state the version of LLVM")?;
        Ok(Self { release, host, llvm, folder: told(&["--print", "sysroot"])? })
    }
}

/// Makes a folder, and makes it empty.
pub(crate) fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("could not empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))
}

/// Says what is about to run, runs it with its output visible on stderr, and fails with `hint` if it fails.
pub(crate) fn run(command: &mut Command, hint: &str) -> Result<()> {
    let line = spelled(command);
    eprintln!("+ {line}");
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("could not start `{line}`\nhint: {hint}"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})\nhint: {hint}");
    }
    Ok(())
}

/// The trimmed stdout of a command that succeeds, or nothing.
pub(crate) fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn spelled(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
