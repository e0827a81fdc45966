//! Opens each upstream as `serve` does, lists its tools, and closes it.
//!
//! Only upstreams of the configuration in force are opened, so nothing of an untrusted project file is started.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gladhand_core::negotiation::{Agreement, Refusal, Side};
use gladhand_core::operations::{FailureKind, Operation, Reply};
use gladhand_dialects::Stop;
use gladhand_hub::Naming;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::Semaphore;

use super::{Configured, Finding, Opened, packages};
use crate::commands::serve::{Memory, Within, reach};
use crate::commands::shared::existence_checks;
use gladhand_client::upstream::open_error::HintFor;
use gladhand_client::upstream::{IgnoreEvents, OpenError, Options, Target, Upstream};
use gladhand_server::signals::Signals;

/// How many upstreams are opened at once. Each may be a process that needs seconds of computing time to start.
const AT_ONCE: usize = 8;

/// How much longer than its own limit an opening may take: the reason that it finds itself is the better one.
const GRACE: Duration = Duration::from_secs(5);

/// Everything that the opening of upstreams needs beside their settings.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) memory: Memory,
    pub(super) within: Within,
    /// How long an upstream may take to open, and then to list its tools.
    pub(super) timeout: Duration,
}

/// Looks at all upstreams, and opens them if that is wanted. A signal ends it.
pub(super) async fn upstreams(
    configured: &[Configured],
    opening: Option<&Opening>,
) -> std::io::Result<Result<Vec<Finding>, Stop>> {
    let mut signals = Signals::listen()?;
    let bar = bar(configured.len(), opening.is_some());
    let looks = configured.iter().map(|one| async {
        let findings = upstream(one, opening).await;
        bar.inc(1);
        findings
    });
    let looked = tokio::select! {
        looked = together(looks) => Ok(looked.into_iter().flatten().collect()),
        stop = signals.next() => Err(stop),
    };
    bar.finish_and_clear();
    Ok(looked)
}

/// Runs futures concurrently, up to a limit. Results come in the order of the futures.
async fn together<F: Future>(things: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let room = Semaphore::new(AT_ONCE);
    let things = things.into_iter().map(|thing| async {
        // The semaphore is never closed.
        let _room = room.acquire().await;
        thing.await
    });
    join_all(things).await
}

/// The progress, on a terminal.
fn bar(upstreams: usize, opens: bool) -> ProgressBar {
    let target = match opens && upstreams > 0 && std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template("opening upstreams {wide_bar} {pos}/{len}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(upstreams as u64), target).with_style(style);
    bar.tick();
    bar
}

/// Everything about one upstream.
pub(super) async fn upstream(one: &Configured, opening: Option<&Opening>) -> Vec<Finding> {
    let Configured { name, config, written } = one;
    let about = format!("upstream {name}");
    if let Some(why) = &config.unavailable {
        let finding = Finding::broken(&about, why.clone(), "set it, or give a default as in ${NAME:-default}");
        // The message about a secret says how to set it, and only a variable can have a default.
        let advice = finding.advice.clone().filter(|_| why.contains("is not set"));
        return vec![Finding { advice, ..finding }];
    }
    let missing = existence_checks::missing(config, written);
    let mut findings: Vec<_> =
        missing.into_iter().map(|one| Finding::broken(&about, one.message, one.advice)).collect();
    if findings.is_empty() {
        // Arguments may hold secrets.
        let place = written.url.as_ref().or_else(|| written.command.first()).cloned().unwrap_or_default();
        let way = opening.and_then(|opening| Some((opening, reach(name, config, &opening.memory, &opening.within)?)));
        findings.push(match way {
            Some((opening, (target, options))) => {
                let naming = config.naming(name);
                opened(&about, &place, &target, options, &naming, opening.timeout).await
            }
            None => Finding::fine(&about, place),
        });
    }
    let words: Vec<_> = written.command.iter().chain(&written.args).cloned().collect();
    findings.extend(packages::unpinned(&about, &words));
    findings
}

/// Opens an upstream, lists its tools and closes it.
async fn opened(
    about: &str,
    place: &str,
    target: &Target,
    options: Options,
    naming: &Naming,
    timeout: Duration,
) -> Finding {
    let timeout = timeout.min(options.opening_timeout);
    let options = Options { opening_timeout: timeout, call_timeout: Some(timeout), ..options };
    let begun = Instant::now();
    let late = || OpenError::refused(Refusal::TimedOut { seconds: timeout.as_secs() });
    let open = tokio::time::timeout(timeout + GRACE, Upstream::open(target, options, Arc::new(IgnoreEvents)));
    let upstream = match open.await.unwrap_or_else(|_| Err(late())) {
        Ok(upstream) => upstream,
        Err(error) => {
            return Finding::broken(about, error.to_string(), error.hint(target, HintFor::Configuration));
        }
    };
    let (agreement, ms) = (upstream.agreement(), begun.elapsed().as_millis());
    let tools = tools(&upstream, &agreement).await;
    // A process that does not end is ended by force when we end.
    let _ = tokio::time::timeout(GRACE, upstream.close()).await;
    let Agreement { dialect, version, .. } = &*agreement;
    match tools {
        Ok(tools) => {
            let shown = tools.iter().filter(|tool| naming.shown(tool).is_some()).count();
            let counted = counted(shown, tools.len());
            let message = format!("{place}: {dialect} {version}, {counted}, opened in {ms} ms");
            let opened = Opened { dialect, version: version.clone(), tools: tools.len(), ms };
            Finding { opened: Some(opened), ..Finding::fine(about, message) }
        }
        Err(why) => {
            let message = format!("it opened in {ms} ms as {dialect} {version}, and did not list its tools: {why}");
            Finding::broken(about, message, "clients get an error instead of its tools; look at its own log")
        }
    }
}

/// How many tools of an upstream are shown. If some are hidden, it also says how many there are.
fn counted(shown: usize, all: usize) -> String {
    let tools = if all == 1 { "tool" } else { "tools" };
    if shown == all { format!("{all} {tools}") } else { format!("{shown} of {all} {tools}") }
}

/// The names of the tools that an upstream has; else why it does not say.
async fn tools(upstream: &Upstream, agreement: &Agreement) -> Result<Vec<String>, String> {
    if !agreement.allows(Side::Server, "tools") {
        return Ok(Vec::new());
    }
    match upstream.call(Operation::ListTools).await {
        Ok(Reply::Tools(tools)) => Ok(tools.iter().map(|tool| tool.name.clone()).collect()),
        Ok(_) => Err("its answer is not what was asked for".to_owned()),
        Err(failure) if failure.kind == FailureKind::Unsupported => Ok(Vec::new()),
        Err(failure) => Err(failure.message),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn no_more_than_eight_upstreams_are_opened_at_once() {
        let (open, most) = (Cell::new(0), Cell::new(0));
        let things = (0..30).map(|number| {
            let (open, most) = (&open, &most);
            async move {
                open.set(open.get() + 1);
                most.set(most.get().max(open.get()));
                for _ in 0..=number % 5 {
                    tokio::task::yield_now().await;
                }
                open.set(open.get() - 1);
                number
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(together(things)), (0..30).collect::<Vec<_>>());
        assert_eq!(most.get(), 8);
    }
}
