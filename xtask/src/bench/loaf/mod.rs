//! `cargo xtask bench loaf`: the agent's server, from its start to 200 sessions that stream at once.
//!
//! The model is scripted (`provider.rs`): real HTTP on loopback, each chunk stamped with the moment of its sending.

mod client;
mod provider;
mod streams;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::client::Client;
use self::provider::Script;
use self::streams::Streamed;
use super::load::{self, Run};
use super::measure::{Placed, SETTLE};
use super::numbered::Numbered;
use super::process::Server;
use super::report::{MEBIBYTE, Report};
use super::stated::{Figure, Findings, median};
use super::{our_program, scratch};

const LEGEND: &str = "
The reference is stated, not measured here: 2.0 s, 50,000 to 89,000 pings/s and 134 to 156 MB were seen of it on such a
machine; the better end of each is shown. Nothing was stated of its streams.
Pings are 64 in flight over pipes. Streams come from a scripted provider over HTTP; what is added to a chunk is the time
from the provider's write to the client's read. The server has one core, provider and client share another.
Each chunk and each end of an answer is checked: one that is lost, doubled or in another place fails the bench.
Pings and streams want a client that is optimised itself: `cargo run --release -p xtask -- bench loaf`.
";

const PINGS_IN_FLIGHT: u32 = 64;
/// Somewhat faster than promised, since what is paced arrives no faster than it is sent.
const PACE: Duration = Duration::from_micros(90);
const MANY: usize = 200;
/// For each of many sessions; together they have 10,000 chunks a second.
const PACE_OF_MANY: Duration = Duration::from_millis(20);
/// 134 million bytes.
const STATED_RESIDENT: f64 = 134e6 / MEBIBYTE;

/// How much is done.
struct Effort {
    starts: usize,
    pings: Duration,
    chunks: u32,
    chunks_of_many: u32,
}

pub(crate) fn run(is_quick: bool) -> Result<Report> {
    let full = Effort { starts: 21, pings: Duration::from_secs(2), chunks: 30_000, chunks_of_many: 200 };
    let quick = Effort { starts: 5, pings: Duration::from_millis(300), chunks: 5_000, chunks_of_many: 40 };
    let effort = if is_quick { quick } else { full };
    let (program, scratch) = (our_program()?, scratch()?.join("loaf"));
    let server = || server(&program, &scratch);
    let mut findings = Findings::new();

    let costs = findings.measure("starting", || starts(&server()?, effort.starts));
    findings.add([
        Figure::less("start to handshake", "ms", costs.map(|(start, _)| start * 1e3)).stated(2000.0).bar(15.0),
        Figure::less("resident after the handshake", "MiB", costs.map(|(_, idle)| idle / MEBIBYTE))
            .stated(STATED_RESIDENT)
            .bar(20.0),
    ]);
    let pings = findings.measure("pings", || pings(&server()?, effort.pings));
    findings.add([Figure::more("pings", "pings/s", pings.map(|run| run.rate())).stated(89_000.0).bar(500_000.0)]);

    let paced = Script { together: 1, chunks: effort.chunks, every: PACE };
    let one = findings.measure("one session, paced", || streams::run(&server()?, paced));
    let floor = findings.measure("reading without a server", || streams::floor(paced));
    let of = |streamed: &Option<Streamed>, figure: fn(&Streamed) -> f64| streamed.as_ref().map(figure);
    findings.add([
        Figure::more("one session, paced", "chunks/s", of(&one, |s| s.rate)).bar(10_000.0),
        Figure::less("  added to a chunk, p50", "ms", of(&one, |s| s.median * 1e3)),
        Figure::less("  added to a chunk, p99", "ms", of(&one, |s| s.p99 * 1e3)).bar(1.0),
        Figure::less("  the same without a server, p99", "ms", floor.map(|seconds| seconds * 1e3)),
        Figure::less("  resident after the session", "MiB", of(&one, resident)).stated(STATED_RESIDENT).bar(20.0),
    ]);
    let unpaced = Script { every: Duration::ZERO, ..paced };
    let fast = findings.measure("one session, unpaced", || streams::run(&server()?, unpaced));
    findings.add([Figure::more("one session, as fast as it goes", "chunks/s", of(&fast, |s| s.rate))]);
    let many = Script { together: MANY, chunks: effort.chunks_of_many, every: PACE_OF_MANY };
    let many = findings.measure("200 sessions at once", || streams::run(&server()?, many));
    findings.add([
        Figure::more("200 sessions at once", "chunks/s", of(&many, |s| s.rate)),
        Figure::less("  lost or reordered events", "events", of(&many, |_| 0.0)).bar(0.0),
        Figure::less("  added to a chunk, p99", "ms", of(&many, |s| s.p99 * 1e3)),
        Figure::less("  resident after them", "MiB", of(&many, resident)),
    ]);
    Ok(findings.report(LEGEND))
}

fn resident(streamed: &Streamed) -> f64 {
    streamed.usage.resident as f64 / MEBIBYTE
}

/// Our server in a folder without keys and chats, and with no other model to find.
fn server(program: &Path, scratch: &Path) -> Result<Server> {
    if scratch.exists() {
        std::fs::remove_dir_all(scratch).with_context(|| format!("could not remove {}", scratch.display()))?;
    }
    std::fs::create_dir_all(scratch).with_context(|| format!("could not make {}", scratch.display()))?;
    let home = scratch.to_string_lossy().into_owned();
    // A runtime folder of its own keeps the person's keychain out.
    let folders = ["HOME", "XDG_RUNTIME_DIR"].map(|name| (name, home.clone()));
    let none = ["GLADHAND_OLLAMA_BASE", "GLADHAND_LLAMACPP_BASE"].map(|name| (name, String::new()));
    Ok(Server {
        name: "gladhand",
        program: program.to_owned(),
        stdio: Some(["serve", "--dialect", "loaf"].map(Into::into).to_vec()),
        http: None,
        sessions: 0,
        scratch: scratch.to_owned(),
        variables: folders.into_iter().chain(none).collect(),
    })
}

/// Seconds from before the start to the answered handshake, and bytes resident after it: medians.
fn starts(server: &Server, count: usize) -> Result<(f64, f64)> {
    let (mut took, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let start = Instant::now();
        let client = Client::start(server)?;
        took.push(start.elapsed().as_secs_f64());
        std::thread::sleep(SETTLE);
        idle.push(client.running.process.usage()?.resident as f64);
    }
    Ok((median(took), median(idle)))
}

fn pings(server: &Server, limit: Duration) -> Result<Run> {
    let placed = Placed::on_the_last_core()?;
    let mut client = Client::start(server)?;
    placed.move_away()?;
    let mut go = |limit| {
        let tail = r#","method":"system.ping"}"#.to_owned();
        let calls = Numbered::new(r#"{"jsonrpc":"2.0","id":"#, vec![tail], r#""ok":true"#);
        load::in_flight(&mut client.running, calls, PINGS_IN_FLIGHT, limit)
    };
    go(limit / 10)?;
    go(limit)
}
