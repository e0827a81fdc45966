//! How long one gateway takes to list the tools of many upstreams.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::process::{Server, Streams};
use super::request::Era;

const UPSTREAMS: usize = 20;
const TOOLS_OF_EACH: usize = 50;
/// How long upstreams may take until all of them are listed.
const PATIENCE: Duration = Duration::from_secs(10);
const ROUNDS: usize = 21;

/// The median time of a whole listing by `gladhand serve` in front of many upstreams.
pub(crate) fn of_many(ours: &Server, upstream: &Path) -> Result<Duration> {
    let tables = (0..UPSTREAMS).map(|index| {
        let command = json!([upstream, "tools", TOOLS_OF_EACH.to_string()]);
        format!("[upstreams.u{index}]\ncommand = {command}\n")
    });
    let config = ours.scratch.join("many.toml");
    std::fs::write(&config, tables.collect::<String>())
        .with_context(|| format!("could not write {}", config.display()))?;
    let stdio = Some(vec!["serve".into(), "--config".into(), config.into()]);
    let mut running = Server { stdio, ..ours.clone() }.start(Streams::Pipes)?;
    running.open(Era::Handshake)?;
    let mut output = BufReader::with_capacity(1 << 20, running.output);
    let mut id = 0;
    let mut list = || -> Result<(usize, Duration)> {
        let (start, mut count, mut params) = (Instant::now(), 0, json!({}));
        loop {
            id += 1;
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params });
            running.input.write_all(format!("{request}\n").as_bytes())?;
            let page = answer(&mut output, id)?;
            count += page["tools"].as_array().map_or(0, Vec::len);
            match page.get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return Ok((count, start.elapsed())),
            }
        }
    };
    let begun = Instant::now();
    while list()?.0 < UPSTREAMS * TOOLS_OF_EACH {
        ensure!(begun.elapsed() < PATIENCE, "not all upstreams were listed after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut times = (0..ROUNDS).map(|_| Ok(list()?.1)).collect::<Result<Vec<_>>>()?;
    times.sort();
    Ok(times[ROUNDS / 2])
}

/// The result of this request; notices that come before it are passed over.
fn answer(output: &mut impl BufRead, id: u64) -> Result<Value> {
    let mut line = String::new();
    loop {
        line.clear();
        ensure!(output.read_line(&mut line)? > 0, "it ended, or was silent too long, before the list was answered");
        let mut message: Value = serde_json::from_str(&line).context("an answer is no JSON")?;
        if message["id"] == id {
            return message.get_mut("result").map(Value::take).with_context(|| format!("no list: {line}"));
        }
    }
}
