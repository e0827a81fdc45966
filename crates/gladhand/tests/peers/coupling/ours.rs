//! Our own client, pinned to one tongue, before the bridge.

use std::sync::Arc;
use std::time::Duration;

use gladhand::negotiation::Capability;
use gladhand::operations::{Outcome, Reply};
use gladhand::upstream::{Options, Speak, Target, Upstream, UpstreamEvents};
use rustix::process::{Pid, Signal, kill_process};

use super::bridge::Bridge;
use super::servers::Server;
use super::verdict::{Tongue, Verdict};
use super::{Cell, Pair, Seen};
use crate::matrix::servers::{Ears, Heard, Step, Trial, soon};

/// How long a call runs at most before it is cancelled or its server is killed, if it reports no progress.
const UNDER_WAY: Duration = Duration::from_millis(700);

pub(super) fn session(pair: &Pair<'_>, bridge: &Bridge) -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(meet(pair, bridge))
}

/// How a client of ours opens as one of a tongue.
pub(super) fn options(tongue: Tongue) -> Options {
    let speak = if tongue.is_mcp() { format!("mcp@{}", tongue.name()) } else { tongue.name().to_owned() };
    let names = ["sampling", "elicitation", "elicitation.form"];
    let provides = names.map(|name| (Capability::named(name), None)).to_vec();
    Options { speak: Speak::parse(&speak).expect("a tongue"), provides, listen: true, ..Options::default() }
}

async fn meet(pair: &Pair<'_>, bridge: &Bridge) -> Seen {
    let steps = &pair.server.steps;
    let (host, mut heard) = Ears::new();
    let target = Target::parse(&bridge.words()).expect("a target");
    let opened =
        soon(Upstream::open(&target, options(pair.client.tongue), Arc::clone(&host) as Arc<dyn UpstreamEvents>)).await;
    let upstream = match opened.and_then(|opened| opened.map_err(|error| error.to_string())) {
        Ok(upstream) => upstream,
        Err(why) => return [(Cell::Open, Err(why))].into(),
    };
    let mut seen = Seen::new();
    let version = upstream.agreement().version.clone();
    let is_expected = !pair.client.tongue.is_mcp() || version == pair.client.tongue.name();
    seen.insert(Cell::Open, if is_expected { Ok(()) } else { Err(format!("{version} is spoken")) });
    let trial = Trial { upstream, host, folder: "" };
    let mut note = |cell, result: Result<Result<(), String>, String>| {
        seen.insert(cell, result.and_then(|result| result));
    };
    note(Cell::List, soon(trial.list(steps.call.tool)).await);
    note(Cell::Call, soon(trial.call(&steps.call)).await);
    note(Cell::Error, soon(fails(&trial, &steps.error, &steps.call)).await);
    if let Some(step) = &steps.progress {
        note(Cell::Progress, soon(trial.progress(step, &mut heard)).await);
    }
    for (cell, step) in [(Cell::Elicit, &steps.elicit), (Cell::Sample, &steps.sample)] {
        if let Some(step) = step {
            note(cell, soon(trial.call(step)).await);
        }
    }
    if let Some(step) = steps.change.as_ref().filter(|_| !matches!(pair.verdict(Cell::Change), Verdict::Absent(_))) {
        note(Cell::Change, soon(changes(&trial, step, &mut heard)).await);
    }
    if !matches!(pair.verdict(Cell::Cancel), Verdict::Absent(_)) {
        note(Cell::Cancel, soon(is_given_up(&trial, &steps.cancel, &mut heard)).await);
    }
    note(Cell::Dies, soon(dies(&trial, pair.server, bridge, &mut heard)).await);
    trial.upstream.close().await;
    seen
}

fn has_failed(outcome: &Outcome) -> bool {
    outcome.is_err() || matches!(outcome, Ok(Reply::Tool(result)) if result.failed)
}

/// A call that fails does so, and the next does not.
async fn fails(trial: &Trial<'_>, error: &Step, call: &Step) -> Result<(), String> {
    let outcome = trial.make(trial.tool(error)).await;
    if !has_failed(&outcome) {
        return Err(format!("{outcome:?}"));
    }
    trial.call(call).await
}

/// A tool is added, a notification arrives, and the tool is listed.
async fn changes(trial: &Trial<'_>, change: &Step, heard: &mut Heard) -> Result<(), String> {
    if trial.list("grown").await.is_ok() {
        return Err("it is there already".to_owned());
    }
    while heard.changes.try_recv().is_ok() {}
    trial.call(change).await?;
    heard.changes.recv().await;
    trial.list("grown").await
}

/// A call is given up when it is under way; the server must have noticed, or at least go on.
async fn is_given_up(trial: &Trial<'_>, cancel: &(Step, Step), heard: &mut Heard) -> Result<(), String> {
    while heard.progress.try_recv().is_ok() {}
    tokio::select! {
        outcome = trial.make(trial.tool(&cancel.0)) => return Err(format!("it was not given up: {outcome:?}")),
        () = is_under_way(heard) => {}
    }
    let mut last = trial.call(&cancel.1).await;
    for _ in 0..20 {
        if last.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        last = trial.call(&cancel.1).await;
    }
    last
}

/// The server is killed in the middle of a call, which fails unless it may be repeated, and the next does not.
async fn dies(trial: &Trial<'_>, server: &Server, bridge: &Bridge, heard: &mut Heard) -> Result<(), String> {
    while heard.progress.try_recv().is_ok() {}
    let killing = async {
        is_under_way(heard).await;
        let ids = std::fs::read_to_string(bridge.server()).unwrap_or_default();
        // Of those that were asked what they speak, some are gone.
        for id in ids.lines().filter_map(|id| id.parse().ok()).filter_map(Pid::from_raw) {
            let _ = kill_process(id, Signal::KILL);
        }
    };
    let (outcome, ()) = tokio::join!(trial.make(trial.tool(&server.steps.linger)), killing);
    if has_failed(&outcome) == server.repeats {
        return Err(format!("{outcome:?}"));
    }
    trial.call(&server.steps.call).await
}

async fn is_under_way(heard: &mut Heard) {
    let _ = tokio::time::timeout(UNDER_WAY, heard.progress.recv()).await;
}
