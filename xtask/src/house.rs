//! `cargo xtask house`: measures prose, crate count, file lengths and program size, and fails above a limit.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{prose, shell};

/// The crates that a program builds which embeds `gladhand-server`, itself included.
const MAX_CRATES: usize = 70;
/// The size of `target/release/gladhand` in bytes.
const MAX_RELEASE: u64 = 22 << 20;
/// The size of `target/dist/gladhand` in bytes.
const MAX_DIST: u64 = 18 << 20;
/// The score of all prose.
const MAX_PROSE: f64 = 20.0;

/// Crates that the embedding API must not build.
const BANNED: [&str; 6] = ["aws-lc", "clap", "jsonschema", "reqwest", "rusqlite", "tree-sitter"];

/// How many of the largest files are listed.
const LARGEST: usize = 10;

/// Whether to measure a build, and whether limits count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Measure a clean build, too.
    builds: bool,
    /// Exit with 1 if a limit is exceeded.
    is_strict: bool,
}

impl Options {
    /// Reads the words after `house`, or returns the word that is not understood.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words {
            match *word {
                "--build" => options.builds = true,
                "--strict" => options.is_strict = true,
                unknown => return Err(unknown.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Measures, and prints the figures.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let score = prose::tree_score()?;
    println!("prose: {score:.1} of at most {MAX_PROSE}");
    let mut is_within = score <= MAX_PROSE;

    let crates = embedding_crates()?;
    println!("crates of the embedding API: {} of at most {MAX_CRATES}", crates.len());
    is_within &= crates.len() <= MAX_CRATES;
    for name in banned(&crates) {
        println!("the embedding API must not build {name}");
        is_within = false;
    }

    println!("largest files:");
    for (lines, path) in largest_files()? {
        println!("{lines:>6} {path}");
    }

    for (profile, max) in [("release", MAX_RELEASE), ("dist", MAX_DIST)] {
        let program = format!("gladhand{}", std::env::consts::EXE_SUFFIX);
        match std::fs::metadata(shell::target().join(profile).join(program)) {
            Ok(found) => {
                println!("{profile}: {:.1} MiB of at most {}", mebibytes(found.len()), mebibytes(max));
                is_within &= found.len() <= max;
            }
            Err(_) => println!("{profile}: not built"),
        }
    }

    if options.builds {
        println!("clean release build: {:.0} s of CPU time", clean_build()?);
    }
    Ok(if is_within || !options.is_strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The crates that `gladhand-server` builds with, each with its version.
fn embedding_crates() -> Result<Vec<String>> {
    let mut command = shell::cargo(&["tree", "--edges", "normal", "--package", "gladhand-server", "--prefix", "none"]);
    let output = command.output().context("could not run `cargo tree`")?;
    anyhow::ensure!(output.status.success(), "`cargo tree` failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(distinct(&String::from_utf8_lossy(&output.stdout)))
}

/// The lines of a tree without indentation, each once.
fn distinct(tree: &str) -> Vec<String> {
    let mut crates: Vec<_> = tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect();
    crates.retain(|line| !line.is_empty());
    crates.sort_unstable();
    crates.dedup();
    crates
}

/// Those of the crates that must not be built.
fn banned(crates: &[String]) -> impl Iterator<Item = &str> {
    crates.iter().map(String::as_str).filter(|one| BANNED.iter().any(|banned| one.starts_with(banned)))
}

/// The largest tracked Rust files with their numbers of lines.
fn largest_files() -> Result<Vec<(usize, String)>> {
    let root = shell::root();
    let listed = shell::output_of("git", &["-C", &root.to_string_lossy(), "ls-files", "*.rs"]);
    let listed = listed.context("`git ls-files` failed: is this a clone?")?;
    let mut files = Vec::new();
    for path in listed.lines() {
        let text = std::fs::read(root.join(path)).with_context(|| format!("could not read {path}"))?;
        files.push((text.iter().filter(|byte| **byte == b'\n').count(), path.to_owned()));
    }
    files.sort_unstable_by(|one, other| other.cmp(one));
    files.truncate(LARGEST);
    Ok(files)
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The CPU seconds of a release build that begins with an empty folder.
fn clean_build() -> Result<f64> {
    let folder = shell::target().join("house");
    shell::empty(&folder)?;
    // The build takes minutes, and the figures above should be seen before.
    std::io::stdout().flush()?;
    let before = cpu_seconds_of_children()?;
    let mut command = shell::cargo(&["build", "--quiet", "--release", "--package", "gladhand", "--bin", "gladhand"]);
    shell::run(command.env("CARGO_TARGET_DIR", &folder), "")?;
    let spent = cpu_seconds_of_children()? - before;
    std::fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    Ok(spent)
}

/// The CPU seconds of all processes that this one has started and that have ended, and of the processes that those started.
fn cpu_seconds_of_children() -> Result<f64> {
    let path = Path::new("/proc/self/stat");
    let text = std::fs::read_to_string(path).context("could not read /proc/self/stat: --build needs Linux")?;
    let ticks = children_ticks(&text).context("could not understand /proc/self/stat")?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// `cutime` and `cstime` together: see `proc_pid_stat(5)`.
fn children_ticks(stat: &str) -> Option<u64> {
    // The name of the program is in parentheses and may contain blanks.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(13);
    let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        assert_eq!(Options::read(&[]), Ok(Options::default()));
        assert_eq!(Options::read(&["--strict", "--build"]), Ok(Options { builds: true, is_strict: true }));
        assert_eq!(Options::read(&["--loud"]), Err("--loud".to_owned()));
    }

    #[test]
    fn a_crate_counts_once_and_banned_ones_are_found() {
        let crates = distinct("a v1\nreqwest v0.13.5\nb v2\n\na v1 (*)\nb v1\n");
        assert_eq!(crates, ["a v1", "b v1", "b v2", "reqwest v0.13.5"]);
        assert_eq!(banned(&crates).collect::<Vec<_>>(), ["reqwest v0.13.5"]);
    }

    #[test]
    fn the_embedding_api_stays_small() {
        let crates = embedding_crates().expect("cargo can be run");
        assert!(crates.len() <= MAX_CRATES, "{crates:#?}");
        assert_eq!(banned(&crates).count(), 0, "{crates:#?}");
    }

    #[test]
    fn the_time_of_children_is_read_behind_any_program_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 0 100 200 0 0 11 12 30 4 20 0 1 0 5 6 7";
        assert_eq!(children_ticks(stat), Some(34));
        assert_eq!(children_ticks("7 (a) S"), None);
    }
}
