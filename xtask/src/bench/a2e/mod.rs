//! `cargo xtask bench a2e`: our host beside a plain host in Python (`peers/a2e/host.py`) that answers the same echo over
//! the same transports, and beside what was seen of the reference.

mod channel;

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use self::channel::{Channel, connect, resident, session};
use super::process::{PORT, Server};
use super::report::{Bar, Better, Bound, MEBIBYTE, Report, Rivals, Row};
use super::{measure, our_program, scratch};

const LEGEND: &str = "
The baseline is a host of our own in Python, with threads and the standard library only. The reference SDK is stated, not
measured: 1,800 calls/s one by one and 2,400 at 4 over pipes, 720 at 4 over HTTP, 57 MB. Bars are twenty times those.
Each answer is checked against its request.
";

const RIVALS: Rivals = Rivals { title: "us ÷ baseline", key: "over_baseline", are: |name| name == BASELINE };
const BASELINE: &str = "python host";
const MANY: usize = 1000;

/// A figure of one server; `None` where it could not be had.
type Figure = Option<f64>;

pub(crate) fn run(is_quick: bool) -> Result<Report> {
    let machine = measure::busy_machine();
    let limit = Duration::from_millis(if is_quick { 400 } else { 2000 });
    let (program, scratch) = (our_program()?, scratch()?.join("a2e"));
    std::fs::create_dir_all(&scratch)?;
    let servers = [ours(&program, &scratch), baseline(&scratch)];
    let mut failures = Vec::new();
    let mut rows = Vec::new();
    let mut measure = |name: &str, unit: &'static str, better: Better, one: &dyn Fn(&Server) -> Result<f64>| {
        eprintln!("bench: {name}");
        let values: Vec<Figure> = servers
            .iter()
            .map(|server| {
                one(server).map_err(|why| failures.push(format!("{} failed at {name}: {why:#}", server.name))).ok()
            })
            .collect();
        rows.push(Row { name: name.to_owned(), unit, better, values: values.clone() });
        values[0]
    };
    let more = Better::More;
    measure("pipes, handshakes", "per s", more, &|server| rate(Channel::pipes(server)?, Kind::Handshake, 1, limit));
    let one = measure("pipes, calls one by one", "calls/s", more, &|server| {
        rate(Channel::pipes(server)?, Kind::Call, 1, limit)
    });
    let four =
        measure("pipes, 4 in flight", "calls/s", more, &|server| rate(Channel::pipes(server)?, Kind::Call, 4, limit));
    let over_http = |server: &Server, kind: Kind, in_flight: usize| {
        let listening = server.listen()?;
        rate(Channel::http(listening.address, in_flight)?, kind, in_flight, limit)
    };
    measure("HTTP, handshakes", "per s", more, &|server| over_http(server, Kind::Handshake, 1));
    measure("HTTP, calls one by one", "calls/s", more, &|server| over_http(server, Kind::Call, 1));
    let http = measure("HTTP, 4 in flight", "calls/s", more, &|server| over_http(server, Kind::Call, 4));
    let sessions =
        measure("resident with 1,000 sessions", "MiB", Better::Less, &|server| Ok(many(server)?.0 / MEBIBYTE));
    let bars = vec![
        Bar::new("pipes, one by one", one, Bound::AtLeast(20.0 * 1800.0), "calls/s"),
        Bar::new("pipes, 4 in flight", four, Bound::AtLeast(20.0 * 2400.0), "calls/s"),
        Bar::new("HTTP, 4 in flight", http, Bound::AtLeast(20.0 * 720.0), "calls/s"),
        Bar::new("1,000 sessions", sessions, Bound::AtMost(64.0), "MiB"),
    ];
    let mut report = Report::of_rows(vec!["gladhand", BASELINE], RIVALS, LEGEND, rows, failures, machine);
    report.bars = bars;
    Ok(report)
}

/// The request that is repeated.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Handshake,
    Call,
}

fn request(kind: Kind, number: u64) -> String {
    let message = match kind {
        Kind::Handshake => json!({"a2e": "1.0", "type": "handshake/req", "id": number.to_string(), "ts": 1.5,
            "agent_id": "bench", "agent_caps": ["tools"], "auth_token": ""}),
        Kind::Call => json!({"a2e": "1.0", "type": "tool/call/req", "id": number.to_string(), "ts": 1.5,
            "tool_name": "echo", "arguments": {"message": format!("m{number}")}}),
    };
    format!("{message}\n")
}

/// Requests per second, so many in flight.
fn rate(mut channel: Channel, kind: Kind, in_flight: usize, limit: Duration) -> Result<f64> {
    let mut line = String::new();
    channel.send(&request(Kind::Handshake, 0))?;
    channel.receive(&mut line)?;
    ensure!(serde_json::from_str::<Value>(&line)?["ok"] == json!(true), "the handshake was refused: {line}");
    let mut sent = 0;
    let mut awaited = HashSet::new();
    let mut begun = Instant::now();
    // The first tenth of the time warms up.
    let (mut is_warm, mut counted) = (false, 0_u64);
    while !awaited.is_empty() || begun.elapsed() < limit {
        while awaited.len() < in_flight && begun.elapsed() < limit {
            sent += 1;
            awaited.insert(sent);
            channel.send(&request(kind, sent))?;
        }
        channel.receive(&mut line)?;
        ensure!(awaited.remove(&check(kind, &line)?), "an answer to nothing that was asked: {line}");
        counted += 1;
        if !is_warm && begun.elapsed() > limit / 10 {
            (is_warm, counted, begun) = (true, 0, Instant::now());
        }
    }
    Ok(counted as f64 / begun.elapsed().as_secs_f64())
}

/// Which request an answer is to; it must say what that one said.
fn check(kind: Kind, line: &str) -> Result<u64> {
    let message: Value = serde_json::from_str(line)?;
    let number: u64 = message["req_id"].as_str().unwrap_or_default().parse().unwrap_or(0);
    match kind {
        Kind::Handshake => ensure!(message["ok"] == json!(true), "refused: {line}"),
        Kind::Call => {
            ensure!(message["data"]["data"]["value"] == json!(format!("m{number}")), "another answer: {line}")
        }
    }
    Ok(number)
}

/// Bytes resident with many open sessions.
fn many(server: &Server) -> Result<(f64, f64)> {
    let listening = server.listen()?;
    let mut connection = connect(listening.address)?;
    let before = resident(&listening.process)?;
    for _ in 0..MANY {
        session(&mut connection)?;
    }
    Ok((resident(&listening.process)?, before))
}

fn ours(program: &Path, scratch: &Path) -> Server {
    Server {
        name: "gladhand",
        program: program.to_owned(),
        stdio: Some(["serve", "--dialect", "a2e"].map(Into::into).to_vec()),
        http: Some(["serve", "--http", &format!("127.0.0.1:{PORT}")].map(Into::into).to_vec()),
        sessions: 0,
        scratch: scratch.to_owned(),
        variables: Vec::new(),
    }
}

fn baseline(scratch: &Path) -> Server {
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../peers/a2e/host.py");
    Server {
        name: BASELINE,
        program: "python3".into(),
        stdio: Some([host, "stdio"].map(Into::into).to_vec()),
        http: Some([host, "http", PORT].map(Into::into).to_vec()),
        sessions: 0,
        scratch: scratch.to_owned(),
        variables: Vec::new(),
    }
}
