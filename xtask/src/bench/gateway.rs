//! `cargo xtask bench gateway`: the same upstream without a gateway, behind `gladhand bridge`, and behind other gateways.
//!
//! The upstream is `peers/floor` over stdio. Each gateway runs in its fastest sensible configuration: no event
//! store, no log, and with sessions if it would otherwise start the upstream for every request. The figures of a gateway
//! are those of its own process, without the upstream.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::figures::{Figures, Table};
use super::listing;
use super::measure::{self, First};
use super::process::{PORT, Server, Streams};
use super::report::{Bar, Better, Bound, MEBIBYTE, Report, Rivals, Row, rows_of};
use super::request::{Era, Payload};
use super::scenario::{Cores, Pace, Scenario, Way};
use super::{Effort, our_program, scratch};
use crate::{peers, shell};

const LEGEND: &str = "
The floor is the upstream itself: over pipes without a gateway, over HTTP as a server of its own.
\"us ÷ best\" takes the best of all but the floor. More calls/s are better; less of all else.
CPU and memory are those of the gateway's own process, without its upstream.
Over HTTP each call in flight has a kept-alive connection of its own, and in 2025-11-25 a session of its own.
Generator, gateway and upstream share one core and take turns; \"apart\" the generator has a core of its own; with
\"free cores\" the scheduler places them.
";

const OTHERS: Rivals =
    Rivals { title: "us ÷ best", key: "over_best", are: |name| !matches!(name, "floor" | "gladhand") };
const PIPES: Way = Way::Stdio(Streams::Pipes);
const MANY: Pace = Pace::InFlight(16);

pub(crate) fn run(is_quick: bool) -> Result<Report> {
    let full = Effort { starts: 11, rounds: 5, run: Duration::from_millis(500) };
    let quick = Effort { starts: 3, rounds: 1, run: Duration::from_millis(300) };
    let peers = peers::gateways()?;
    let floor = peers.join("cargo/release/floor");
    let servers = servers(&peers, &floor)?;
    let mut table = measure::all(&servers, &scenarios(), First::Call, if is_quick { quick } else { full })?;
    let ours = servers.iter().zip(&mut table.columns).find(|(server, _)| server.name == "gladhand");
    if let Some((server, figures)) = ours {
        match listing::of_many(server, &floor) {
            Ok(took) => figures.listing = Some(took.as_secs_f64()),
            Err(why) => figures.suffer("listing 1,000 tools of 20 upstreams", &why),
        }
    }
    Ok(report(&table))
}

/// Builds and installs everything. The order is the order of the columns.
fn servers(peers: &Path, floor: &Path) -> Result<Vec<Server>> {
    let (ours, scratch) = (our_program()?, scratch()?);
    let floor_at = floor.to_string_lossy();
    let floor_at = &*floor_at;
    let path = |path: &str| peers.join(path).to_string_lossy().into_owned();
    let server = |name, program, stdio: Option<&[&str]>, http: &[&str]| {
        let arguments = |words: &[&str]| words.iter().map(Into::into).collect();
        let (stdio, http) = (stdio.map(arguments), Some(arguments(http)));
        Server { name, program, stdio, http, sessions: 0, scratch: scratch.clone(), variables: Vec::new() }
    };
    let (node, python) = (peers.join("bin/node"), peers.join("pyservers/bin/python"));
    let mcp_proxy = path("gateways/node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs");
    let supergateway = path("gateways/node_modules/supergateway/dist/index.js");
    let fastmcp = shell::root().join("peers/servers/fastmcp_proxy.py").to_string_lossy().into_owned();
    let our_http = format!("--http=127.0.0.1:{PORT}");
    let mcp_proxy = [&*mcp_proxy, "--host", "127.0.0.1", "--server", "stream", "--no-eventStore", "--port", PORT, "--"];
    let supergateway = [&*supergateway, "--stateful", "--logLevel", "none", "--outputTransport", "streamableHttp"];
    Ok(vec![
        server("floor", floor.to_owned(), Some(&[]), &["http", PORT]),
        server("gladhand", ours, Some(&["bridge", "--", floor_at]), &["bridge", &our_http, "--", floor_at]),
        server("mcp-proxy js", node.clone(), None, &[&mcp_proxy[..], &[floor_at]].concat()),
        server("supergateway", node, None, &[&supergateway[..], &["--port", PORT, "--stdio", floor_at]].concat()),
        server("mcp-proxy py", peers.join("pygateway/bin/mcp-proxy"), None, &["--port", PORT, floor_at]),
        server("fastmcp", python, Some(&[&fastmcp, "stdio", floor_at]), &[&fastmcp, "http", floor_at, PORT]),
    ])
}

/// All scenarios, in the order of the rows.
fn scenarios() -> Vec<Scenario> {
    let over_http = [Era::Handshake, Era::Stateless].into_iter().flat_map(over_http);
    over_http.chain([over_pipes(Pace::OneByOne), over_pipes(MANY)]).collect()
}

fn over_http(era: Era) -> [Scenario; 4] {
    let scenario = |pace, cores| Scenario { way: Way::Http, payload: Payload::Small, era, pace, cores };
    [
        scenario(Pace::OneByOne, Cores::One),
        scenario(MANY, Cores::Apart),
        scenario(Pace::OneByOne, Cores::Free),
        scenario(MANY, Cores::Free),
    ]
}

fn over_pipes(pace: Pace) -> Scenario {
    Scenario { way: PIPES, payload: Payload::Small, era: Era::Handshake, pace, cores: Cores::One }
}

fn report(table: &Table) -> Report {
    let less = |name: &str, unit, of: &dyn Fn(&Figures) -> Option<f64>| Row::new(table, name, unit, Better::Less, of);
    let mut rows = vec![
        less("start to first call, HTTP", "ms", &|f| Some(f.http.start()? * 1e3)),
        less("start to first call, pipes", "ms", &|f| Some(f.stdio.start()? * 1e3)),
        less("resident when idle, HTTP", "MiB", &|f| Some(f.http.idle()? / MEBIBYTE)),
        less("resident when idle, pipes", "MiB", &|f| Some(f.stdio.idle()? / MEBIBYTE)),
        less("pipes one by one, p50 beyond the floor", "µs", &|f| Some(added(table, f)? * 1e6)),
        // Only ours has many upstreams.
        less("1,000 tools of 20 upstreams listed", "ms", &|f| match f.name {
            "gladhand" => Some(f.listing? * 1e3),
            _ => Some(f64::NAN),
        }),
    ];
    rows.extend(scenarios().into_iter().flat_map(|scenario| rows_of(table, scenario)));
    let mut report = Report::new(table, OTHERS, LEGEND, rows);
    report.bars = bars(table, &report);
    report
}

/// The latency that a gateway adds to a call from pipe to pipe.
fn added(table: &Table, figures: &Figures) -> Option<f64> {
    let scenario = over_pipes(Pace::OneByOne);
    Some(figures.latency(scenario)? - table.of("floor").latency(scenario)?)
}

fn bars(table: &Table, report: &Report) -> Vec<Bar> {
    let ours = table.ours();
    let behind = report.rows_behind("gladhand").len() as f64;
    let mut bars = vec![Bar::new("rows in which another is ahead", Some(behind), Bound::AtMost(0.0), "rows")];
    for era in [Era::Handshake, Era::Stateless] {
        let [one_by_one, many, ..] = over_http(era);
        let milliseconds = ours.latency(one_by_one).map(|seconds| seconds * 1e3);
        let cpu = ours.cpu(many).map(|seconds| seconds * 1e6);
        bars.push(Bar::new(&format!("{one_by_one}, p50"), milliseconds, Bound::AtMost(0.12), "ms"));
        bars.push(Bar::new(&many.to_string(), ours.rate(many), Bound::AtLeast(40_000.0), "calls/s"));
        bars.push(Bar::new(&format!("{many}, CPU per call"), cpu, Bound::AtMost(35.0), "µs"));
    }
    let start = ours.http.start().map(|seconds| seconds * 1e3);
    let idle = ours.http.idle().map(|bytes| bytes / MEBIBYTE);
    bars.push(Bar::new("start to first call, HTTP", start, Bound::AtMost(15.0), "ms"));
    bars.push(Bar::new("resident when idle, HTTP", idle, Bound::AtMost(12.0), "MiB"));
    let added = added(table, ours).map(|seconds| seconds * 1e6);
    bars.push(Bar::new("pipes one by one, p50 beyond the floor", added, Bound::AtMost(25.0), "µs"));
    let listing = ours.listing.map(|seconds| seconds * 1e3);
    bars.push(Bar::new("1,000 tools of 20 upstreams listed", listing, Bound::AtMost(5.0), "ms"));
    bars
}
