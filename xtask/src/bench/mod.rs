//! `cargo xtask bench`: the same echo tool on the floor, on `gladhand serve` and on rmcp, measured side by side.
//!
//! The floor (`peers/floor`) only finds the id and the message; it bounds what pipes, scheduler and load
//! generator allow. rmcp runs as people write it (`stdio()`) and in its fastest configuration (`stdio_pipes()`
//! on one thread), built with our own release profile. Servers take turns in every round, each run starts a
//! fresh process, and each figure is the median of the rounds. Every reply is checked: see `reply.rs`.

mod load;
mod measure;
mod process;
mod reply;
mod report;
mod request;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{peers, shell};
use process::Server;

/// How much is measured and how it is shown.
#[derive(Debug)]
pub(crate) struct Options {
    effort: Effort,
    json: bool,
    strict: bool,
}

/// How long the measuring takes.
#[derive(Debug, Clone, Copy)]
struct Effort {
    starts: usize,
    rounds: usize,
    run: Duration,
}

impl Options {
    /// The options that these words ask for, or the first word that is none.
    pub(crate) fn read<'a>(words: &[&'a str]) -> Result<Self, &'a str> {
        let full = Effort { starts: 41, rounds: 5, run: Duration::from_millis(500) };
        let quick = Effort { starts: 21, rounds: 1, run: Duration::from_millis(300) };
        let mut options = Self { effort: full, json: false, strict: false };
        for word in words {
            match *word {
                "--quick" => options.effort = quick,
                "--json" => options.json = true,
                "--strict" => options.strict = true,
                unknown => return Err(unknown),
            }
        }
        Ok(options)
    }
}

pub(crate) fn run(options: Options) -> Result<ExitCode> {
    let servers = servers()?;
    let figures = measure::all(&servers, options.effort)?;
    let report = report::Report::new(&figures);
    println!("{}", if options.json { report.to_json().to_string() } else { report.to_text() });
    let failed = figures.ours().failures();
    for (what, why) in &failed {
        eprintln!("error: gladhand failed at {what}: {why}");
    }
    let is_bad = !failed.is_empty() || options.strict && report.has_misses();
    Ok(if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Builds everything in release mode. The order is the order of the columns; `measure` relies on the names.
fn servers() -> Result<Vec<Server>> {
    let hint = "the binary must build before it can be measured";
    shell::run(&mut shell::cargo(&["build", "--release", "--package", "gladhand", "--bin", "gladhand"]), hint)?;
    let peers = peers::rust_programs()?;
    let scratch = shell::target().join("bench");
    std::fs::create_dir_all(&scratch).with_context(|| format!("could not make {}", scratch.display()))?;
    let server = |name, program: std::path::PathBuf, argument: Option<&'static str>| Server {
        name,
        program,
        arguments: argument.into_iter().collect(),
        scratch: scratch.clone(),
    };
    Ok(vec![
        server("floor", peers.join("floor"), None),
        server("gladhand", shell::target().join("release/gladhand"), Some("serve")),
        server("rmcp stdio()", peers.join("rmcp-echo"), None),
        server("rmcp fastest", peers.join("rmcp-echo"), Some("single-pipes")),
    ])
}
