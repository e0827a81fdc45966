//! `cargo xtask bench`: the same echo tool on the floor, on `gladhand serve` and on other SDKs, measured side by side.
//!
//! The floor (`peers/floor`) only finds the id and the message; it bounds what pipes, sockets, scheduler and load
//! generator allow. We are measured as we are shipped (`cargo xtask dist`); servers on Rust libraries are built with our
//! release profile. Servers take turns in every round, each run
//! starts a fresh process, and each figure is the median of the rounds. Every reply is checked: see `reply.rs`.
//! `stdio.rs`, `mcp.rs` and `gateway.rs` say what is compared with what, and which bars are promised.
//! `loaf/` and `repo/` have no rival that could be started: they stand beside figures stated of a reference server.

mod a2e;
mod figures;
mod gateway;
mod http;
mod listing;
mod load;
mod loaf;
mod mcp;
mod measure;
mod metrics;
mod numbered;
mod process;
mod reply;
mod repo;
mod report;
mod request;
mod scenario;
mod stated;
mod stdio;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::{dist, shell};

/// How much is measured and how it is shown.
#[derive(Debug)]
pub(crate) struct Options {
    subject: Subject,
    is_quick: bool,
    json: bool,
    strict: bool,
}

/// The subject of a comparison.
#[derive(Debug, Clone, Copy)]
enum Subject {
    /// Stdio in depth, against rmcp.
    Stdio,
    /// MCP in breadth, stdio and HTTP, against all SDKs.
    Mcp,
    /// The same upstream behind `gladhand bridge` and behind other gateways.
    Gateway,
    /// Agent sessions: start, pings, streams.
    Loaf,
    /// A2E over pipes and HTTP, beside a plain host in Python.
    A2e,
    /// The repository tools: a large tree and a large documentation.
    Repo,
    /// `serve` with metrics and without.
    Metrics,
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
        let (subject, words) = match words {
            ["mcp", rest @ ..] => (Subject::Mcp, rest),
            ["gateway", rest @ ..] => (Subject::Gateway, rest),
            ["loaf", rest @ ..] => (Subject::Loaf, rest),
            ["a2e", rest @ ..] => (Subject::A2e, rest),
            ["repo", rest @ ..] => (Subject::Repo, rest),
            ["metrics", rest @ ..] => (Subject::Metrics, rest),
            ["stdio", rest @ ..] => (Subject::Stdio, rest),
            rest => (Subject::Stdio, rest),
        };
        let mut options = Self { subject, is_quick: false, json: false, strict: false };
        for word in words {
            match *word {
                "--quick" => options.is_quick = true,
                "--json" => options.json = true,
                "--strict" => options.strict = true,
                unknown => return Err(unknown),
            }
        }
        Ok(options)
    }
}

pub(crate) fn run(options: Options) -> Result<ExitCode> {
    let report = match options.subject {
        Subject::Stdio => stdio::run(options.is_quick)?,
        Subject::Mcp => mcp::run(options.is_quick)?,
        Subject::Gateway => gateway::run(options.is_quick)?,
        Subject::Loaf => loaf::run(options.is_quick)?,
        Subject::A2e => a2e::run(options.is_quick)?,
        Subject::Repo => repo::run(options.is_quick)?,
        Subject::Metrics => metrics::run(options.is_quick)?,
    };
    println!("{}", if options.json { report.to_json().to_string() } else { report.to_text() });
    for failure in &report.failures {
        eprintln!("error: {failure}");
    }
    let is_bad = !report.failures.is_empty() || options.strict && report.has_misses();
    Ok(if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Builds our own binary as it is shipped and says where it is.
fn our_program() -> Result<PathBuf> {
    dist::build()
}

/// Builds the same tool on our library, as a user of the library would, and returns its path.
fn our_example() -> Result<PathBuf> {
    let hint = "the example must build before it can be measured";
    shell::run(&mut shell::cargo(&["build", "--release", "--package", "gladhand", "--example", "echo"]), hint)?;
    Ok(shell::target().join("release/examples/echo"))
}

/// An empty folder to run servers in: what an earlier bench left there would have to be read at every start.
fn scratch() -> Result<PathBuf> {
    let scratch = shell::target().join("bench");
    shell::empty(&scratch)?;
    Ok(scratch)
}
