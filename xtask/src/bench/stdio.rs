//! `cargo xtask bench`: stdio in depth, against rmcp.
//!
//! rmcp runs as people write it (`stdio()`) and in its fastest configuration (`stdio_pipes()` on one thread).

use std::time::Duration;

use anyhow::Result;

use super::figures::{Figures, Table};
use super::measure::{self, First};
use super::process::{Server, Streams};
use super::report::{Bar, Better, Bound, MEBIBYTE, Report, Rivals, Row, rows_of};
use super::request::{Era, Payload};
use super::scenario::{Cores, Pace, Scenario, Way};
use super::{Effort, our_program, scratch};
use crate::peers;

const LEGEND: &str = "
\"us ÷ rmcp\" takes the better of the two rmcp columns. More calls/s are better; less of all else.
Generator and server share one core and take turns; with \"free cores\" the scheduler places them, and the time
that a sleeping core takes to wake counts too.
";

const RMCP: Rivals = Rivals { title: "us ÷ rmcp", key: "over_rmcp", are: |name| name.starts_with("rmcp") };
/// Calls in flight where many are.
const MANY: Pace = Pace::InFlight(64);

pub(crate) fn run(is_quick: bool) -> Result<Report> {
    let full = Effort { starts: 41, rounds: 5, run: Duration::from_millis(500) };
    let quick = Effort { starts: 21, rounds: 1, run: Duration::from_millis(300) };
    let table = measure::all(&servers()?, &scenarios(), First::Opening, if is_quick { quick } else { full })?;
    Ok(report(&table))
}

/// Builds everything in release mode. The order is the order of the columns.
fn servers() -> Result<Vec<Server>> {
    let (ours, peers, scratch) = (our_program()?, peers::rust_programs()?, scratch()?);
    let server = |name, program, argument: Option<&str>| Server {
        name,
        program,
        stdio: Some(argument.map(Into::into).into_iter().collect()),
        http: None,
        sessions: 0,
        scratch: scratch.clone(),
        variables: Vec::new(),
    };
    Ok(vec![
        server("floor", peers.join("floor"), None),
        server("gladhand", ours, Some("serve")),
        server("rmcp stdio()", peers.join("rmcp-echo"), None),
        server("rmcp fastest", peers.join("rmcp-echo"), Some("single-pipes")),
    ])
}

/// All scenarios, in the order of the rows.
fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    let cores = Cores::One;
    for streams in [Streams::Pipes, Streams::Sockets] {
        for payload in [Payload::Small, Payload::Large] {
            for pace in [Pace::OneByOne, MANY] {
                all.push(Scenario { way: Way::Stdio(streams), payload, era: Era::Handshake, pace, cores });
            }
        }
    }
    let way = Way::Stdio(Streams::Pipes);
    for payload in [Payload::Small, Payload::Large] {
        all.push(Scenario { way, payload, era: Era::Stateless, pace: MANY, cores });
    }
    for pace in [Pace::OneByOne, MANY] {
        all.push(Scenario { way, payload: Payload::Small, era: Era::Handshake, pace, cores: Cores::Free });
    }
    all
}

fn report(table: &Table) -> Report {
    let less = |name: &str, unit, of: &dyn Fn(&Figures) -> Option<f64>| Row::new(table, name, unit, Better::Less, of);
    let mut rows = vec![
        less("start to first answer", "ms", &|f| Some(f.stdio.start()? * 1e3)),
        less("  the quickest", "ms", &|f| Some(f.stdio.quickest_start()? * 1e3)),
        less("resident when idle", "MiB", &|f| Some(f.stdio.idle()? / MEBIBYTE)),
        less("resident at most", "MiB", &|f| Some(f.stdio.peak()? / MEBIBYTE)),
        less("binary", "MiB", &|f| Some(f.size as f64 / MEBIBYTE)),
    ];
    rows.extend(scenarios().into_iter().flat_map(|scenario| rows_of(table, scenario)));
    let mut report = Report::new(table, RMCP, LEGEND, rows);
    report.bars = bars(table);
    report
}

fn bars(table: &Table) -> Vec<Bar> {
    let ours = table.ours();
    let over_rmcp = |pace, cores| {
        let (way, payload, era) = (Way::Stdio(Streams::Pipes), Payload::Small, Era::Handshake);
        let rate = |figures: &Figures| figures.rate(Scenario { way, payload, era, pace, cores });
        Some(rate(ours)? / RMCP.best(table, Better::More, &rate)?)
    };
    let mebibytes = |bytes: Option<f64>| Some(bytes? / MEBIBYTE);
    let start = ours.stdio.start().map(|seconds| seconds * 1e3);
    vec![
        Bar::new("64 in flight over rmcp, one core", over_rmcp(MANY, Cores::One), Bound::AtLeast(5.0), "×"),
        Bar::new("64 in flight over rmcp, free cores", over_rmcp(MANY, Cores::Free), Bound::AtLeast(5.0), "×"),
        Bar::new("one by one over rmcp, one core", over_rmcp(Pace::OneByOne, Cores::One), Bound::AtLeast(1.5), "×"),
        Bar::new("one by one over rmcp, free cores", over_rmcp(Pace::OneByOne, Cores::Free), Bound::AtLeast(1.5), "×"),
        Bar::new("start to first answer", start, Bound::AtMost(3.0), "ms"),
        Bar::new("resident when idle", mebibytes(ours.stdio.idle()), Bound::AtMost(8.0), "MiB"),
        Bar::new("resident at most, in any run", mebibytes(ours.stdio.peak()), Bound::AtMost(8.0), "MiB"),
        Bar::new("release binary", mebibytes(Some(ours.size as f64)), Bound::AtMost(8.0), "MiB"),
    ]
}
