//! `cargo xtask bench`: the same echo tool on the floor, on `gladhand serve` and on other SDKs, measured side by side.
//!
//! The floor (`peers/floor`) only finds the id and the message; it bounds what pipes, sockets, scheduler and load
//! generator allow. Rust servers are built with our own release profile. Servers take turns in every round, each run
//! starts a fresh process, and each figure is the median of the rounds. Every reply is checked: see `reply.rs`.
//! `stdio.rs`, `mcp.rs` and `gateway.rs` say what is compared with what, and which bars are promised.

mod figures;
mod gateway;
mod http;
mod listing;
mod load;
mod mcp;
mod measure;
mod process;
mod reply;
mod report;
mod request;
mod scenario;
mod stdio;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::shell;

/// How much is measured and how it is shown.
#[derive(Debug)]
pub(crate) struct Options {
    subject: Subject,
    is_quick: bool,
    json: bool,
    strict: bool,
}

/// What is compared.
#[derive(Debug, Clone, Copy)]
enum Subject {
    /// Stdio in depth, against rmcp.
    Stdio,
    /// MCP in breadth, stdio and HTTP, against all SDKs.
    Mcp,
    /// The same upstream behind `gladhand bridge` and behind other gateways.
    Gateway,
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
    let (figures, report) = match options.subject {
        Subject::Stdio => stdio::run(options.is_quick)?,
        Subject::Mcp => mcp::run(options.is_quick)?,
        Subject::Gateway => gateway::run(options.is_quick)?,
    };
    println!("{}", if options.json { report.to_json().to_string() } else { report.to_text() });
    let failed = figures.ours().failures();
    for (what, why) in &failed {
        eprintln!("error: gladhand failed at {what}: {why}");
    }
    let is_bad = !failed.is_empty() || options.strict && report.has_misses();
    Ok(if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Builds our own binary in release mode and says where it is.
fn our_program() -> Result<PathBuf> {
    let hint = "the binary must build before it can be measured";
    shell::run(&mut shell::cargo(&["build", "--release", "--package", "gladhand", "--bin", "gladhand"]), hint)?;
    Ok(shell::target().join("release/gladhand"))
}

/// An empty folder to run servers in.
fn scratch() -> Result<PathBuf> {
    let scratch = shell::target().join("bench");
    std::fs::create_dir_all(&scratch).with_context(|| format!("could not make {}", scratch.display()))?;
    Ok(scratch)
}
