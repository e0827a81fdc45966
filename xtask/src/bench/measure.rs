//! Which figures are taken, in which order.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Effort;
use super::figures::{Figures, Sessions, Table};
use super::http::Callers;
use super::load::{self, Echo, Run};
use super::process::{Listening, Process, Running, Server, Streams};
use super::request::{Era, Payload, Request};
use super::scenario::{Cores, Pace, Scenario, Way};

const IDLE_STARTS: usize = 3;
/// Of a start that takes no longer than this much is noise, so it is taken so many times as often.
const SHORT: Duration = Duration::from_millis(50);
const OFTENER: usize = 10;
/// Sessions that are opened before idle sessions are weighed, so that what only the first ones need does not count.
const FIRST_SESSIONS: u32 = 50;
/// A run that is over after its first call.
const ONE_CALL: Duration = Duration::from_nanos(1);
/// Long enough for a runtime to finish the work that it starts after the opening.
pub(crate) const SETTLE: Duration = Duration::from_millis(100);

/// Up to what a start is timed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum First {
    /// The answer to the opening.
    Opening,
    /// The answer to a call: what only forwards may have answered the opening by itself.
    Call,
}

/// Measures every server; servers take turns, so that a busy minute of the machine hits them alike.
pub(crate) fn all(servers: &[Server], scenarios: &[Scenario], first: First, effort: Effort) -> Result<Table> {
    let machine = busy_machine();
    let mut table = Vec::new();
    for server in servers {
        table.push(Figures::new(server.name, server.size()?, scenarios));
    }
    let over_http = scenarios.iter().any(|scenario| scenario.way == Way::Http);
    costs(servers, &mut table, effort.starts, first, Way::Stdio(Streams::Pipes));
    if over_http {
        costs(servers, &mut table, effort.starts, first, Way::Http);
        weigh_sessions(servers, &mut table);
    }
    let seconds = effort.run.as_secs_f64() * (servers.len() * scenarios.len()) as f64;
    for round in 1..=effort.rounds {
        eprintln!("bench: round {round} of {}, about {seconds:.0} s", effort.rounds);
        for (index, scenario) in scenarios.iter().enumerate() {
            for (server, figures) in servers.iter().zip(&mut table) {
                let cell = &mut figures.cells[index].1;
                if !server.serves(scenario.way) {
                    cell.is_void = true;
                    continue;
                }
                match run(server, *scenario, effort.run) {
                    Ok((run, cpu, peak)) => {
                        cell.runs.push(run);
                        cell.cpu += cpu;
                        let costs = figures.costs(scenario.way);
                        costs.peak = costs.peak.max(peak);
                    }
                    Err(why) => cell.failure = Some(format!("{why:#}")),
                }
            }
        }
    }
    Ok(Table { columns: table, machine })
}

/// How long servers take to start and what they weigh when they have.
fn costs(servers: &[Server], table: &mut [Figures], starts: usize, first: First, way: Way) {
    let name = if way == Way::Http { "starting over HTTP" } else { "starting" };
    eprintln!("bench: {name}: {starts} starts of each server, {} of those that are short", starts * OFTENER);
    let able = |(server, _): &(&Server, &mut Figures)| server.serves(way);
    for (_, figures) in servers.iter().zip(&mut *table).filter(|(server, _)| !server.serves(way)) {
        let costs = figures.costs(way);
        (costs.starts, costs.idle) = (vec![f64::NAN], vec![f64::NAN]);
    }
    for turn in 0..starts * OFTENER {
        for (server, figures) in servers.iter().zip(&mut *table).filter(able) {
            let is_short = figures.costs(way).start().is_some_and(|start| start < SHORT.as_secs_f64());
            if turn >= starts && !is_short {
                continue;
            }
            match start(server, first, way) {
                Ok((_, took)) => figures.costs(way).starts.push(took.as_secs_f64()),
                Err(why) => figures.suffer(name, &why),
            }
        }
    }
    for (server, figures) in servers.iter().zip(table).filter(able) {
        for _ in 0..IDLE_STARTS {
            let idle = start(server, first, way).and_then(|(started, _)| {
                std::thread::sleep(SETTLE);
                started.process().usage()
            });
            match idle {
                Ok(usage) => figures.costs(way).idle.push(usage.resident as f64),
                Err(why) => figures.suffer(name, &why),
            }
        }
    }
}

/// How much heavier a server gets with each idle session.
fn weigh_sessions(servers: &[Server], table: &mut [Figures]) {
    eprintln!("bench: idle sessions over HTTP");
    for (server, figures) in servers.iter().zip(table).filter(|(server, _)| server.sessions > 0) {
        match weigh(server) {
            Ok(sessions) => figures.sessions = Some(sessions),
            Err(why) => figures.suffer("keeping idle sessions", &why),
        }
    }
}

fn weigh(server: &Server) -> Result<Sessions> {
    let mut listening = server.listen()?;
    let before = listening.open_many(FIRST_SESSIONS)?;
    let count = server.sessions - FIRST_SESSIONS;
    let after = listening.open_many(count)?;
    let each = after.resident.saturating_sub(before.resident) as f64 / f64::from(count);
    Ok(Sessions { each, resident: after.resident as f64 })
}

/// Starts a server and opens it; how long it took until the first answer that counts.
fn start(server: &Server, first: First, way: Way) -> Result<(Started, Duration)> {
    let start = Instant::now();
    let mut started = Started::new(server, way)?;
    let (era, payload) = (Era::Handshake, Payload::Small);
    let answered = match (&mut started, first) {
        (Started::Stdio(running), First::Opening) => running.open(era)?,
        (Started::Http(listening), First::Opening) => listening.open(era)?,
        (Started::Stdio(running), First::Call) => {
            running.open(era)?;
            load::one_by_one(running, Echo::new(Request::new(era, payload)), ONE_CALL)?;
            Instant::now()
        }
        (Started::Http(listening), First::Call) => {
            listening.callers(era, payload, 1)?.one_by_one(ONE_CALL)?;
            Instant::now()
        }
    };
    Ok((started, answered - start))
}

fn run(server: &Server, scenario: Scenario, limit: Duration) -> Result<(Run, Duration, u64)> {
    // The server inherits where this thread may run.
    let placed = match scenario.cores {
        Cores::One | Cores::Apart => Some(Placed::on_the_last_core()?),
        Cores::Free => None,
    };
    let mut started = Started::new(server, scenario.way)?;
    if let (Cores::Apart, Some(placed)) = (scenario.cores, &placed) {
        placed.move_away()?;
    }
    let Scenario { era, payload, pace, .. } = scenario;
    let mut callers = match &mut started {
        Started::Stdio(running) => running.open(era).map(|_| Callers::none())?,
        Started::Http(listening) => listening.callers(era, payload, pace.width())?,
    };
    let request = Request::new(era, payload);
    let mut go = |started: &mut Started, limit| match (started, pace) {
        (Started::Stdio(running), Pace::OneByOne) => load::one_by_one(running, Echo::new(request.clone()), limit),
        (Started::Stdio(running), Pace::InFlight(width)) => {
            load::in_flight(running, Echo::new(request.clone()), width, limit)
        }
        (Started::Http(_), Pace::OneByOne) => callers.one_by_one(limit),
        (Started::Http(_), Pace::InFlight(_)) => callers.in_flight(limit),
    };
    // A warm-up on the same sessions: caches, buffers and the scheduler settle; its ids come again afterwards.
    go(&mut started, limit / 10)?;
    let before = started.process().usage()?;
    let run = go(&mut started, limit)?;
    let after = started.process().usage()?;
    Ok((run, after.cpu - before.cpu, after.peak))
}

/// A server that runs, with its streams or its address.
enum Started {
    Stdio(Running),
    Http(Listening),
}

impl Started {
    fn new(server: &Server, way: Way) -> Result<Self> {
        match way {
            Way::Stdio(streams) => server.start(streams).map(Self::Stdio),
            Way::Http => server.listen().map(Self::Http),
        }
    }

    fn process(&self) -> &Process {
        match self {
            Self::Stdio(running) => &running.process,
            Self::Http(listening) => &listening.process,
        }
    }
}

/// This thread confined to one core, until dropped.
#[derive(Debug)]
pub(crate) struct Placed {
    before: CpuSet,
}

impl Placed {
    /// The last one: the first is where interrupts tend to land.
    pub(crate) fn on_the_last_core() -> Result<Self> {
        let before = sched_getaffinity(None)?;
        let core = (0..CpuSet::MAX_CPU).rev().find(|core| before.is_set(*core)).context("no core may be used")?;
        confine(core)?;
        Ok(Self { before })
    }

    /// To the first core: another one, where there are several.
    pub(crate) fn move_away(&self) -> Result<()> {
        confine((0..CpuSet::MAX_CPU).find(|core| self.before.is_set(*core)).context("no core may be used")?)
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn confine(core: usize) -> Result<()> {
    let mut one = CpuSet::new();
    one.set(core);
    Ok(sched_setaffinity(None, &one)?)
}

/// A remark if others were using the machine before the bench began: figures then say less.
pub(crate) fn busy_machine() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let cores = std::thread::available_parallelism().ok()?.get();
    (load > cores as f64 / 4.0).then(|| format!("the machine was busy: load {load} on {cores} cores before the bench"))
}
