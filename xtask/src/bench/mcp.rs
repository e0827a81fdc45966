//! `cargo xtask bench mcp`: MCP in breadth, stdio and Streamable HTTP in both eras, against the SDKs.
//!
//! Gladhand is measured twice: as `gladhand serve`, which does more than an echo server, and as an echo server on our
//! library (`examples/echo.rs`), like the servers of the SDKs.
//!
//! Each SDK runs in its fastest sensible configuration, with plain JSON answers if the SDK supports them. The TypeScript SDK
//! runs on `node:http`, the Python SDK on uvicorn. rmcp runs with `stdio_pipes()` and axum, on one thread and on one thread
//! for each core, because neither is always faster.
//! TCP_NODELAY is set on both ends of every connection.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::figures::{Figures, Table};
use super::measure::{self, First};
use super::process::{PORT, Server, Streams};
use super::report::{Bar, Better, Bound, MEBIBYTE, Report, Rivals, Row, rows_of};
use super::request::{Era, Payload};
use super::scenario::{Cores, Pace, Scenario, Way};
use super::{Effort, our_example, our_program, scratch};
use crate::{peers, shell};

const LEGEND: &str = "
\"gladhand\" is `gladhand serve` as it is shipped, \"library\" the same tool on our library, built as the others are on theirs.
\"us ÷ best\" is the former over the best of all but the floor and ourselves. More calls/s are better; less of all else.
Over HTTP each call in flight has a kept-alive connection of its own, and in 2025-11-25 a session of its own.
Generator and server share one core and take turns; \"apart\" each has a core of its own, and the floor is then
mostly what the generator can do; with \"free cores\" the scheduler places them.
Idle sessions are 10,000 for us and 1,000 for the others, opened and confirmed, with no connection left.
";

const OTHERS: Rivals =
    Rivals { title: "us ÷ best", key: "over_best", are: |name| !matches!(name, "floor" | "gladhand" | "library") };
const RMCP: Rivals = Rivals { are: |name| name.starts_with("rmcp"), ..OTHERS };
const ERAS: [Era; 2] = [Era::Handshake, Era::Stateless];
/// Calls in flight where many are.
const MANY: Pace = Pace::InFlight(64);
const OUR_SESSIONS: u32 = 10_000;
const THEIR_SESSIONS: u32 = 1_000;

pub(crate) fn run(is_quick: bool) -> Result<Report> {
    let full = Effort { starts: 11, rounds: 5, run: Duration::from_millis(500) };
    let quick = Effort { starts: 3, rounds: 1, run: Duration::from_millis(300) };
    let table = measure::all(&servers()?, &scenarios(), First::Opening, if is_quick { quick } else { full })?;
    Ok(report(&table))
}

/// Builds and installs everything. The order is the order of the columns.
fn servers() -> Result<Vec<Server>> {
    let (ours, library, peers, scratch) = (our_program()?, our_example()?, peers::sdks()?, scratch()?);
    let scripts = shell::root().join("peers/servers");
    let javascript = peers.join("npm/servers");
    copy_scripts(&scripts, &javascript)?;
    let server = |name, program, script: Option<&Path>, stdio: &[&str], http: &[&str], sessions| {
        let arguments = |words: &[&str]| {
            let script = script.map(|script| script.as_os_str().to_owned());
            Some(script.into_iter().chain(words.iter().map(Into::into)).collect())
        };
        let (stdio, http, scratch) = (arguments(stdio), arguments(http), scratch.clone());
        Server { name, program, stdio, http, sessions, scratch, variables: Vec::new() }
    };
    let rust = peers.join("cargo/release");
    let http = ["http", PORT];
    let (node, python) = (peers.join("bin/node"), peers.join("py2/bin/python"));
    let (ts, py) = (javascript.join("ts-v2.mjs"), scripts.join("py_v2.py"));
    Ok(vec![
        server("floor", rust.join("floor"), None, &[], &http, 0),
        server("gladhand", ours, None, &["serve"], &["serve", "--http", "127.0.0.1:{port}"], OUR_SESSIONS),
        server("library", library, None, &[], &http, OUR_SESSIONS),
        server("rmcp", rust.join("rmcp-echo"), None, &["single-pipes"], &["single-http", PORT], THEIR_SESSIONS),
        server("rmcp threads", rust.join("rmcp-echo"), None, &["pipes"], &http, THEIR_SESSIONS),
        server("typescript", node, Some(&ts), &[], &http, THEIR_SESSIONS),
        server("python", python, Some(&py), &[], &http, THEIR_SESSIONS),
    ])
}

/// Modules are looked for beside the script that imports them, so scripts go where the packages are.
fn copy_scripts(from: &Path, to: &Path) -> Result<()> {
    let copied = std::fs::create_dir_all(to).and_then(|()| {
        for script in ["ts-v2.mjs", "http.mjs"] {
            std::fs::copy(from.join(script), to.join(script))?;
        }
        Ok(())
    });
    copied.with_context(|| format!("could not copy scripts to {}", to.display()))
}

/// All scenarios, in the order of the rows.
fn scenarios() -> Vec<Scenario> {
    let scenario = |way, era, pace, cores| Scenario { way, payload: Payload::Small, era, pace, cores };
    let stdio = |era| [Pace::OneByOne, MANY].map(|pace| scenario(Way::Stdio(Streams::Pipes), era, pace, Cores::One));
    ERAS.into_iter().flat_map(stdio).chain(ERAS.into_iter().flat_map(over_http)).collect()
}

/// One connection, 16 and 64.
fn over_http(era: Era) -> [Scenario; 5] {
    let scenario = |pace, cores| Scenario { way: Way::Http, payload: Payload::Small, era, pace, cores };
    [
        scenario(Pace::OneByOne, Cores::One),
        scenario(Pace::InFlight(16), Cores::Apart),
        scenario(MANY, Cores::Apart),
        scenario(Pace::OneByOne, Cores::Free),
        scenario(MANY, Cores::Free),
    ]
}

fn report(table: &Table) -> Report {
    let less = |name: &str, unit, of: &dyn Fn(&Figures) -> Option<f64>| Row::new(table, name, unit, Better::Less, of);
    // What does not apply is no number: the floor keeps no sessions.
    let session = |f: &Figures, is_ours: bool, of: fn(&super::figures::Sessions) -> f64| match f.name {
        "floor" => Some(f64::NAN),
        name if is_ours && OTHERS.is_one(name) => Some(f64::NAN),
        _ => f.sessions.as_ref().map(of),
    };
    let mut rows = vec![
        less("start to first answer, pipes", "ms", &|f| Some(f.stdio.start()? * 1e3)),
        less("start to first answer, HTTP", "ms", &|f| Some(f.http.start()? * 1e3)),
        less("resident when idle, pipes", "MiB", &|f| Some(f.stdio.idle()? / MEBIBYTE)),
        less("resident when idle, HTTP", "MiB", &|f| Some(f.http.idle()? / MEBIBYTE)),
        less("resident at most, pipes", "MiB", &|f| Some(f.stdio.peak()? / MEBIBYTE)),
        less("resident at most, HTTP", "MiB", &|f| Some(f.http.peak()? / MEBIBYTE)),
        less("resident per idle HTTP session", "KiB", &|f| session(f, false, |sessions| sessions.each / 1024.0)),
        less("resident with 10,000 of them", "MiB", &|f| session(f, true, |sessions| sessions.resident / MEBIBYTE)),
    ];
    rows.extend(scenarios().into_iter().flat_map(|scenario| rows_of(table, scenario)));
    let mut report = Report::new(table, OTHERS, LEGEND, rows);
    report.bars = bars(table, &report);
    report
}

fn bars(table: &Table, report: &Report) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (column, title) in [("gladhand", "rows in which another is ahead"), ("library", "the same of the library")] {
        let behind = report.rows_behind(column).len() as f64;
        bars.push(Bar::new(title, Some(behind), Bound::AtMost(0.0), "rows"));
    }
    for column in ["gladhand", "library"] {
        let ours = table.of(column);
        for scenario in ERAS.into_iter().flat_map(over_http) {
            let rate = |figures: &Figures| figures.rate(scenario);
            let over_rmcp = rate(ours).zip(RMCP.best(table, Better::More, &rate)).map(|(ours, theirs)| ours / theirs);
            bars.push(Bar::new(&format!("{column}: {scenario}, over rmcp"), over_rmcp, Bound::AtLeast(3.0), "×"));
        }
        let resident = ours.sessions.map(|sessions| sessions.resident / MEBIBYTE);
        let title = format!("{column}: resident with 10,000 idle HTTP sessions");
        bars.push(Bar::new(&title, resident, Bound::AtMost(200.0), "MiB"));
    }
    bars
}
