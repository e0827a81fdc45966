//! The function order of `cargo xtask dist`: functions that ordinary sessions call are placed together by the linker.
//!
//! The shipped program, with its symbols, runs under valgrind through short sessions of every dialect, over stdio, over
//! HTTP and as a bridge. `dist` passes the list of called functions to `crates/gladhand/build.rs`.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::Build;
use crate::shell;
use crate::training::Training;

/// Writes the list to a file. Returns false if a tool for that is missing.
pub(crate) fn record(build: &Build<'_>, list: &Path) -> Result<bool> {
    for tool in ["valgrind", "nm"] {
        if shell::output_of(tool, &["--version"]).is_none() {
            eprintln!("dist: {tool} is not installed");
            return Ok(false);
        }
    }
    let program = Build { keeps_symbols: true, ..build.clone() }.run()?;
    let program = program.to_string_lossy();
    let folder = shell::target().join("order");
    shell::empty(&folder)?;
    let start = |arguments: &[&str]| {
        let mut command = Command::new("valgrind");
        let file = format!("--callgrind-out-file={}/%p.out", folder.display());
        command.args(["--quiet", "--tool=callgrind", "--demangle=no", &file, &*program]).args(arguments);
        // A user configuration must not affect the sessions.
        command.current_dir(&folder).env("XDG_CONFIG_HOME", &folder).env("XDG_DATA_HOME", &folder);
        command
    };
    // The functions of the most common session come first, then the additional ones of each other session.
    let mut names = before_valgrind(&program)?;
    Training { start: &start, times: 1 }.run(&program, || take_names(&folder, &mut names))?;
    std::fs::write(list, names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    eprintln!("dist: {} functions are placed first", names.len());
    Ok(true)
}

/// Adds the called functions that are not known yet, by their linker names.
fn take_names(folder: &Path, names: &mut Vec<String>) -> Result<()> {
    let mut called = BTreeSet::new();
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "out") {
            read_report(&path, &mut called)?;
            std::fs::remove_file(path)?;
        }
    }
    if called.is_empty() {
        bail!("nothing was seen: is this valgrind's callgrind?");
    }
    called.retain(|name| !names.contains(name));
    names.extend(called);
    Ok(())
}

/// Adds the functions of a report that the linker can place by name. A report writes each name once, and then refers to
/// it by number.
fn read_report(report: &Path, names: &mut BTreeSet<String>) -> Result<()> {
    let text = std::fs::read_to_string(report)?;
    let mut known: HashMap<&str, &str> = HashMap::new();
    for line in text.lines() {
        let Some((what, rest)) = line.split_once("=(") else { continue };
        let Some((number, name)) = rest.split_once(')') else { continue };
        if !matches!(what, "fn" | "cfn") {
            continue;
        }
        if !name.is_empty() {
            // valgrind numbers recursive calls after an apostrophe.
            known.insert(number, name.trim().split('\'').next().unwrap_or_default());
        }
        let Some(name) = known.get(number) else { continue };
        // Names that the optimiser generates differ in the next build.
        let is_named = !name.is_empty() && !name.contains(".llvm.") && !name.contains(|c: char| c.is_whitespace());
        if what == "fn" && is_named && !name.starts_with("0x") {
            names.insert((*name).to_owned());
            names.extend(on_newer_processors(name));
        }
    }
    Ok(())
}

/// Functions that run before tracing begins: the entry point, and the functions that select variants for the processor.
fn before_valgrind(program: &str) -> Result<Vec<String>> {
    let symbols = shell::output_of("nm", &["--defined-only", "--format=just-symbols", program]);
    let symbols = symbols.context("nm cannot read the program")?;
    let is_early = |name: &&str| matches!(*name, "_start" | "__libc_start_main_impl") || name.ends_with("_ifunc");
    Ok(symbols.lines().filter(is_early).map(str::to_owned).collect())
}

/// The C library has variants for each kind of processor, and valgrind emulates an old one.
fn on_newer_processors(name: &str) -> Vec<String> {
    let newer = [("_avx2", "_evex"), ("_avx_", "_evex_"), ("_avx_", "_avx512_"), ("_sse2", "_evex")];
    newer.iter().filter(|(old, _)| name.contains(old)).map(|(old, new)| name.replace(old, new)).collect()
}
