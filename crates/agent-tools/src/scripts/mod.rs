//! Scripts: JavaScript with Node or Bun, and Python, where they are installed.

pub(crate) mod background;
pub(crate) mod packages;
mod report;
pub(crate) mod run;

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::bench::Job;
use crate::moment;
use crate::outcome::Problem;
use crate::process::{Environment, programs};

/// What runs JavaScript.
#[derive(Debug, Clone)]
pub(crate) struct Runtime {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
}

impl Runtime {
    /// The one that is asked for, or the first that is installed.
    pub(crate) fn find(wanted: &str, environment: &Environment) -> Result<Self, Problem> {
        let candidates: &[&'static str] = match wanted {
            "auto" => &["bun", "node"],
            "bun" => &["bun"],
            "node" => &["node"],
            _ => return Err(Problem::invalid("`runtime` must be one of: auto, node, bun.")),
        };
        let found = candidates.iter().find_map(|name| Some(Self { name, program: programs::find(name, environment)? }));
        found.ok_or_else(|| {
            let missing = candidates.join(" or ");
            Problem::invalid(format!("no javascript runtime found: install {missing}, or put it on PATH."))
        })
    }

    /// What a script is started with: the words before its own arguments. Bun would read `bunfig.toml` and `.env` of the folder
    /// that it runs in, and with `preload` run code there that was not approved.
    fn words(&self, script: &Path) -> Vec<OsString> {
        let quiet: &[&str] = if self.name == "bun" { &["--config=/dev/null", "--env-file=/dev/null"] } else { &[] };
        quiet.iter().map(OsString::from).chain([script.into()]).collect()
    }
}

/// How JavaScript is written.
#[derive(Debug, Clone, Copy)]
struct Format {
    name: &'static str,
    ending: &'static str,
}

/// The format that the input asks for.
fn format(job: &Job<'_>) -> Result<Format, Problem> {
    match job.input.word("format").unwrap_or("module") {
        "module" => Ok(Format { name: "module", ending: "mjs" }),
        "commonjs" => Ok(Format { name: "commonjs", ending: "cjs" }),
        _ => Err(Problem::invalid("`format` must be one of: module, commonjs.")),
    }
}

/// The code that the input holds.
fn code<'a>(job: &'a Job<'_>, tool: &str) -> Result<&'a str, Problem> {
    let code = job.input.text("code").filter(|_| job.input.word("code").is_some());
    code.ok_or_else(|| Problem::invalid(format!("{tool} requires a non-empty `code` string.")))
}

/// Writes a script to a file, which goes with the value that is given back unless it is to stay.
fn write(folder: &Path, ending: &str, code: &str, stays: bool) -> io::Result<TempPath> {
    fs_err::create_dir_all(folder)?;
    let path = folder.join(format!("run-{}-{}.{ending}", moment::milliseconds(), moment::random_hex(8)?));
    // Scripts may hold what others should not read.
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let mut path = TempPath::try_from_path(path)?;
    io::Write::write_all(&mut file, code.as_bytes())?;
    path.disable_cleanup(stays);
    Ok(path)
}
