//! `cargo xtask bench repo`: the repository tools on a tree of 20,000 files and on documentation of 3,000 sections.
//!
//! Both are generated, the same every time, and kept. The tree is read once before anything is timed.

mod docs;
mod session;
mod tree;
mod words;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::session::Session;
use super::load::{self, Run};
use super::measure::Placed;
use super::numbered::Numbered;
use super::process::{Server, Usage};
use super::report::{MEBIBYTE, Report};
use super::stated::{Figure, Findings, median};
use super::{our_program, scratch};

const LEGEND: &str = "
The reference is stated, not measured here: 194 to 280 ms for 2,159 files and 30 answers a second were seen of it on such a
machine; the better end is shown.
The tree has 20,000 files and is warm. On one core everything of ours runs on it; \"command\" is `gladhand repo analyze
--json` from before its start to its end, \"call\" is `analyze_repository` in a session that is open already.
The first answer comes with the making of the index of 3,000 sections. Later ones are 64 in flight over pipes, with the
server on a core of its own; each must cite a section.
";

const QUESTIONS_IN_FLIGHT: u32 = 64;
/// 2,159 files in 194 ms.
const STATED_FILES: f64 = 2159.0 / 0.194;

pub(crate) fn run(is_quick: bool) -> Result<Report> {
    let (rounds, limit) = if is_quick { (2, Duration::from_millis(300)) } else { (9, Duration::from_secs(2)) };
    let (program, scratch) = (our_program()?, scratch()?.join("repo"));
    fs::create_dir_all(&scratch).with_context(|| format!("could not make {}", scratch.display()))?;
    let (tree, docs) = (tree::make(&scratch)?, docs::make(&scratch)?);
    let server = || server(&program, &scratch, &docs);
    let mut findings = Findings::new();
    let files = |seconds: f64| tree::FILES as f64 / seconds;

    let calls = findings.measure("analysing in a session, one core", || calls(&server()?, &tree, rounds));
    findings.add([
        Figure::more("one core, call", "files/s", calls.map(|(took, _)| files(took)))
            .stated(STATED_FILES)
            .bar(10_000.0),
        Figure::less("  resident at most", "MiB", calls.map(|(_, usage)| usage.peak as f64 / MEBIBYTE)).bar(100.0),
    ]);
    let command = findings.measure("analysing as a command, one core", || {
        let _placed = Placed::on_the_last_core()?;
        commands(&server()?, &tree, rounds)
    });
    findings.add([Figure::more("one core, command", "files/s", command.map(files)).bar(10_000.0)]);
    let command = findings.measure("analysing as a command, free cores", || commands(&server()?, &tree, rounds));
    findings.add([Figure::more("free cores, command", "files/s", command.map(files))]);

    let first = findings.measure("first answers", || {
        let answers = (0..rounds).map(|_| first_answer(&server()?)).collect::<Result<Vec<_>>>()?;
        Ok(median(answers))
    });
    let later = findings.measure("later answers", || later_answers(&server()?, limit));
    findings.add([
        Figure::less("first answer", "ms", first.map(|seconds| seconds * 1e3)).bar(1000.0),
        Figure::more("later answers", "calls/s", later.map(|(run, _)| run.rate())).stated(30.0).bar(2000.0),
        Figure::less("  resident at most", "MiB", later.map(|(_, usage)| usage.peak as f64 / MEBIBYTE)),
    ]);
    Ok(findings.report(LEGEND))
}

/// Our server with that documentation, and without an index of it.
fn server(program: &Path, scratch: &Path, docs: &Path) -> Result<Server> {
    let data = scratch.join("data");
    let config = data.join("bench.toml");
    let made = || {
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        fs::create_dir_all(&data)?;
        // Every JSON string is also a TOML string.
        fs::write(&config, format!("[repository]\ndocs = {}\n", json!(docs)))
    };
    made().with_context(|| format!("could not make {}", data.display()))?;
    let serve = ["serve", "--dialect", "fluxloop", "--config"].map(Into::into);
    Ok(Server {
        name: "gladhand",
        program: program.to_owned(),
        stdio: Some(serve.into_iter().chain([config.into()]).collect()),
        http: None,
        sessions: 0,
        scratch: data,
        variables: Vec::new(),
    })
}

/// Seconds for a call in a session on one core, and what the server had used after all of them.
fn calls(server: &Server, tree: &Path, rounds: usize) -> Result<(f64, Usage)> {
    let _placed = Placed::on_the_last_core()?;
    let mut session = Session::start(server)?;
    let mut call = || {
        let start = Instant::now();
        let profile = session.call("analyze_repository", &json!({ "root": tree }))?;
        let took = start.elapsed().as_secs_f64();
        is_whole(&profile).map(|()| took)
    };
    call()?;
    let took = (0..rounds).map(|_| call()).collect::<Result<Vec<_>>>()?;
    Ok((median(took), session.running.process.usage()?))
}

/// Seconds for a whole command.
fn commands(server: &Server, tree: &Path, rounds: usize) -> Result<f64> {
    let arguments: [OsString; 4] = ["repo".into(), "analyze".into(), "--json".into(), tree.into()];
    let run = || {
        let start = Instant::now();
        let output = server.command(&arguments).output()?;
        let took = start.elapsed().as_secs_f64();
        ensure!(output.status.success(), "it ended with {}", output.status);
        is_whole(&serde_json::from_slice(&output.stdout)?).map(|()| took)
    };
    run()?;
    Ok(median((0..rounds).map(|_| run()).collect::<Result<Vec<_>>>()?))
}

/// A scan that stopped early would be fast for the wrong reason.
fn is_whole(profile: &Value) -> Result<()> {
    let files = profile["stats"]["files"].as_u64().context("a profile without a number of files")?;
    ensure!(files >= tree::SOURCES as u64, "only {files} files were looked at: {}", profile["warnings"]);
    Ok(())
}

/// Seconds to an answer from documentation without an index.
fn first_answer(server: &Server) -> Result<f64> {
    let mut session = Session::start(server)?;
    let question = docs::questions().next().context("no question")?;
    let start = Instant::now();
    let answer = session.call("faq", &json!({ "query": question }))?;
    let took = start.elapsed().as_secs_f64();
    ensure!(answer["citations"][0].is_object(), "no section was cited: {answer}");
    Ok(took)
}

fn later_answers(server: &Server, limit: Duration) -> Result<(Run, Usage)> {
    let placed = Placed::on_the_last_core()?;
    let mut session = Session::start(server)?;
    placed.move_away()?;
    let mut go = |limit| {
        let tail = |question| format!(r#","tool":"faq","params":{}}}"#, json!({ "query": question }));
        let tails = docs::questions().map(tail).collect();
        let calls = Numbered::new(r#"{"type":"request","id":"#, tails, r#""citations":[{"#);
        load::in_flight(&mut session.running, calls, QUESTIONS_IN_FLIGHT, limit)
    };
    go(limit / 10)?;
    let run = go(limit)?;
    Ok((run, session.running.process.usage()?))
}
