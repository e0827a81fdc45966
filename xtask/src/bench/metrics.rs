//! `cargo xtask bench metrics`: what `serve --metrics` costs.
//!
//! Two servers of the same program run at the same time, one with metrics and one without. They take turns in short rounds,
//! so that other load on the machine meets both. The figures are medians of the rounds.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::http::Callers;
use super::process::{Listening, PORT, Server};
use super::report::Report;
use super::request::{Era, Payload};
use super::scratch;
use super::stated::{Figure, Findings, median};
use crate::shell;

const LEGEND: &str = "
Both servers are built with the release profile. 64 connections have one call in flight each, on free cores.
The cost is that of a call of the toolbox, which does almost nothing: of any other call it is a smaller part.
";

const WIDTH: u32 = 64;

/// The largest part of the throughput that metrics may cost, in percent.
const BAR: f64 = 3.0;

/// One server under load.
struct Side {
    server: Listening,
    callers: Callers,
}

/// What one round of one server shows.
#[derive(Debug, Clone, Copy)]
struct Round {
    rate: f64,
    cpu_per_call: f64,
}

pub(crate) fn run(is_quick: bool) -> Result<Report> {
    let hint = "the program must build before it can be measured";
    shell::run(&mut shell::cargo(&["build", "--release", "--package", "gladhand", "--bin", "gladhand"]), hint)?;
    let (program, scratch) = (shell::target().join("release/gladhand"), scratch()?.join("metrics"));
    std::fs::create_dir_all(&scratch)?;
    let rounds = if is_quick { 8 } else { 30 };
    let mut findings = Findings::new();
    for (era, [off, on]) in [
        (Era::Handshake, ["2025-11-25, metrics off", "2025-11-25, metrics on"]),
        (Era::Stateless, ["2026-07-28, metrics off", "2026-07-28, metrics on"]),
    ] {
        let measured = findings.measure(era.version(), || measure(&program, &scratch, era, rounds));
        let of = |figure: fn(&[Round; 2]) -> f64| measured.as_ref().map(|rounds| median(rounds.iter().map(figure)));
        findings.add([
            Figure::more(off, "calls/s", of(|[off, _]| off.rate)),
            Figure::more(on, "calls/s", of(|[_, on]| on.rate)),
            Figure::less("  throughput that metrics cost", "%", of(|[off, on]| (1.0 - on.rate / off.rate) * 100.0))
                .bar(BAR),
            Figure::less("  CPU per call, off", "µs", of(|[off, _]| off.cpu_per_call * 1e6)),
            Figure::less("  CPU per call, on", "µs", of(|[_, on]| on.cpu_per_call * 1e6)),
        ]);
    }
    Ok(findings.report(LEGEND))
}

/// The rounds of both servers: without metrics and with them.
fn measure(program: &Path, scratch: &Path, era: Era, rounds: usize) -> Result<Vec<[Round; 2]>> {
    let mut sides = [start(program, scratch, era, &[])?, start(program, scratch, era, &["--metrics"])?];
    // The first calls find cold caches.
    sides.iter_mut().try_for_each(|side| round(side).map(drop))?;
    let mut all = Vec::new();
    for number in 0..rounds {
        let [off, on] = &mut sides;
        // Each is first in every other round.
        all.push(match number % 2 {
            0 => [round(off)?, round(on)?],
            _ => {
                let on = round(on)?;
                [round(off)?, on]
            }
        });
    }
    Ok(all)
}

fn start(program: &Path, scratch: &Path, era: Era, options: &[&str]) -> Result<Side> {
    let address = format!("127.0.0.1:{PORT}");
    let http = ["serve", "--http", &address].into_iter().chain(options.iter().copied()).map(Into::into).collect();
    let server = Server {
        name: "gladhand",
        program: program.to_owned(),
        stdio: None,
        http: Some(http),
        sessions: WIDTH,
        scratch: scratch.to_owned(),
        variables: Vec::new(),
    };
    let mut server = server.listen()?;
    server.open(era)?;
    let callers = server.callers(era, Payload::Small, WIDTH)?;
    Ok(Side { server, callers })
}

fn round(side: &mut Side) -> Result<Round> {
    let before = side.server.process.usage()?.cpu;
    let run = side.callers.in_flight(Duration::from_millis(200))?;
    let cpu = side.server.process.usage()?.cpu.saturating_sub(before);
    Ok(Round { rate: run.rate(), cpu_per_call: cpu.as_secs_f64() / f64::from(run.calls) })
}
