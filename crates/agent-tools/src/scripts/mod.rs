//! Scripts: JavaScript with Node or Bun, and Python, if they are installed.

pub(crate) mod background;
pub(crate) mod packages;
mod report;
pub(crate) mod run;

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use gladhand_store::files::make_folder;
use tempfile::TempPath;

use crate::moment;
use crate::outcome::Problem;
use crate::process::{Environment, programs};
use crate::tool_set::Job;

/// A JavaScript runtime.
#[derive(Debug, Clone)]
pub(crate) struct Runtime {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
}

impl Runtime {
    /// The requested runtime, or the first that is installed.
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

    /// The arguments before those of the script. By default Bun reads `bunfig.toml` and `.env` of its working
    /// directory, and `preload` there would run code that was not approved.
    fn words(&self, script: &Path) -> Vec<OsString> {
        let quiet: &[&str] = if self.name == "bun" { &["--config=/dev/null", "--env-file=/dev/null"] } else { &[] };
        quiet.iter().map(OsString::from).chain([script.into()]).collect()
    }
}

/// A JavaScript module format.
#[derive(Debug, Clone, Copy)]
struct Format {
    name: &'static str,
    ending: &'static str,
}

/// The format that the input names.
fn format(job: &Job<'_>) -> Result<Format, Problem> {
    match job.input.word("format").unwrap_or("module") {
        "module" => Ok(Format { name: "module", ending: "mjs" }),
        "commonjs" => Ok(Format { name: "commonjs", ending: "cjs" }),
        _ => Err(Problem::invalid("`format` must be one of: module, commonjs.")),
    }
}

/// The code in the input.
fn code<'a>(job: &'a Job<'_>, tool: &str) -> Result<&'a str, Problem> {
    let code = job.input.text("code").filter(|_| job.input.word("code").is_some());
    code.ok_or_else(|| Problem::invalid(format!("{tool} requires a non-empty `code` string.")))
}

/// Writes a script to a file. The file is removed with the returned value, unless `stays`.
fn write(folder: &Path, ending: &str, code: &str, stays: bool) -> io::Result<TempPath> {
    make_folder(folder)?;
    let path = folder.join(format!("run-{}-{}.{ending}", moment::milliseconds(), gladhand_system::random_hex::<4>()));
    // Scripts may contain private data.
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let mut path = TempPath::try_from_path(path)?;
    io::Write::write_all(&mut file, code.as_bytes())?;
    path.disable_cleanup(stays);
    Ok(path)
}
