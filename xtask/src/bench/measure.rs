//! Which figures are taken, in which order, and how rounds become one figure.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Effort;
use super::load::{self, Run};
use super::process::{Running, Server, Streams};
use super::request::{Era, Payload, Request};

/// Calls in flight where many are.
pub(crate) const WIDTH: u32 = 64;
const IDLE_STARTS: usize = 3;
/// Long enough for a runtime to have started whatever it starts after the opening.
const SETTLE: Duration = Duration::from_millis(100);

/// One kind of run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) streams: Streams,
    pub(crate) payload: Payload,
    pub(crate) era: Era,
    pub(crate) pace: Pace,
    pub(crate) cores: Cores,
}

/// Where the load generator and the server run.
///
/// On one core they take turns, and a figure is the work of both and the switch between them. On free cores the
/// scheduler places them; then it is also how long a sleeping core takes to wake, which on a virtual machine can be
/// ten times the work, is the same for every server, and depends on who else uses the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    One,
    Free,
}

/// Whether a call waits for the reply to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    OneByOne,
    InFlight,
}

/// Everything measured of one server.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) name: &'static str,
    pub(crate) size: u64,
    starts: Vec<f64>,
    idle: Vec<f64>,
    peak: u64,
    cells: Vec<(Scenario, Cell)>,
}

#[derive(Debug, Default)]
struct Cell {
    runs: Vec<Run>,
    cpu: Duration,
    failure: Option<String>,
}

/// The figures of all servers, in the order of the columns.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Figures>,
    /// What a reader should know of the machine while this was measured.
    pub(crate) machine: Option<String>,
}

impl Table {
    /// The column called `name`.
    pub(crate) fn of(&self, name: &str) -> &Figures {
        self.columns.iter().find(|figures| figures.name == name).unwrap_or(&self.columns[0])
    }

    pub(crate) fn ours(&self) -> &Figures {
        self.of("gladhand")
    }
}

/// All scenarios, in the order of the rows.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    let cores = Cores::One;
    for streams in [Streams::Pipes, Streams::Sockets] {
        for payload in [Payload::Small, Payload::Large] {
            for pace in [Pace::OneByOne, Pace::InFlight] {
                all.push(Scenario { streams, payload, era: Era::Handshake, pace, cores });
            }
        }
    }
    for payload in [Payload::Small, Payload::Large] {
        all.push(Scenario { streams: Streams::Pipes, payload, era: Era::Stateless, pace: Pace::InFlight, cores });
    }
    for pace in [Pace::OneByOne, Pace::InFlight] {
        let (streams, payload) = (Streams::Pipes, Payload::Small);
        all.push(Scenario { streams, payload, era: Era::Handshake, pace, cores: Cores::Free });
    }
    all
}

/// Measures every server; servers take turns, so that a busy minute of the machine hits them alike.
pub(crate) fn all(servers: &[Server], effort: Effort) -> Result<Table> {
    let machine = busy_machine();
    let mut table = Vec::new();
    for server in servers {
        let size = server.size()?;
        let cells = scenarios().into_iter().map(|scenario| (scenario, Cell::default())).collect();
        table.push(Figures { name: server.name, size, starts: Vec::new(), idle: Vec::new(), peak: 0, cells });
    }
    eprintln!("bench: {} starts of each server", effort.starts);
    for _ in 0..effort.starts {
        for (server, figures) in servers.iter().zip(&mut table) {
            let start = Instant::now();
            let mut running = server.start(Streams::Pipes)?;
            let answered = running.open(Era::Handshake).with_context(|| format!("could not open {}", server.name))?;
            figures.starts.push((answered - start).as_secs_f64());
        }
    }
    for (server, figures) in servers.iter().zip(&mut table) {
        for _ in 0..IDLE_STARTS {
            let mut running = server.start(Streams::Pipes)?;
            running.open(Era::Handshake)?;
            std::thread::sleep(SETTLE);
            figures.idle.push(running.usage()?.resident as f64);
        }
    }
    let seconds = effort.run.as_secs_f64() * (servers.len() * scenarios().len()) as f64;
    for round in 1..=effort.rounds {
        eprintln!("bench: round {round} of {}, about {seconds:.0} s", effort.rounds);
        for index in 0..scenarios().len() {
            for (server, figures) in servers.iter().zip(&mut table) {
                let (scenario, cell) = &mut figures.cells[index];
                match run(server, *scenario, effort.run) {
                    Ok((run, cpu, peak)) => {
                        cell.runs.push(run);
                        cell.cpu += cpu;
                        figures.peak = figures.peak.max(peak);
                    }
                    Err(why) => cell.failure = Some(format!("{why:#}")),
                }
            }
        }
    }
    Ok(Table { columns: table, machine })
}

fn run(server: &Server, scenario: Scenario, limit: Duration) -> Result<(Run, Duration, u64)> {
    // The server inherits where this thread may run.
    let _placed = match scenario.cores {
        Cores::One => Some(Placed::on_one_core()?),
        Cores::Free => None,
    };
    let mut running = server.start(scenario.streams)?;
    running.open(scenario.era)?;
    let request = Request::new(scenario.era, scenario.payload);
    let go = |running: &mut Running, request: Request, limit: Duration| match scenario.pace {
        Pace::OneByOne => load::one_by_one(running, request, limit),
        Pace::InFlight => load::in_flight(running, request, WIDTH, limit),
    };
    // A warm-up on the same session: caches, buffers and the scheduler settle; its ids come again afterwards.
    go(&mut running, request.clone(), limit / 10)?;
    let before = running.usage()?;
    let run = go(&mut running, request, limit)?;
    let after = running.usage()?;
    Ok((run, after.cpu - before.cpu, after.peak))
}

/// This thread confined to one core, until dropped.
struct Placed {
    before: CpuSet,
}

impl Placed {
    fn on_one_core() -> Result<Self> {
        let before = sched_getaffinity(None)?;
        // The last one: the first is where interrupts tend to land.
        let core = (0..CpuSet::MAX_CPU).rev().find(|core| before.is_set(*core)).context("no core may be used")?;
        let mut one = CpuSet::new();
        one.set(core);
        sched_setaffinity(None, &one)?;
        Ok(Self { before })
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

impl Figures {
    /// Seconds from before the start to the first answer.
    pub(crate) fn start(&self) -> f64 {
        median(self.starts.clone())
    }

    /// The same of the quickest start: what the program needs when nobody else wants the machine.
    pub(crate) fn quickest_start(&self) -> f64 {
        self.starts.iter().copied().fold(f64::NAN, f64::min)
    }

    /// Bytes resident after the opening.
    pub(crate) fn idle(&self) -> f64 {
        median(self.idle.clone())
    }

    /// The largest number of bytes resident in any run.
    pub(crate) fn peak(&self) -> f64 {
        self.peak as f64
    }

    /// Calls per second.
    pub(crate) fn rate(&self, scenario: Scenario) -> Option<f64> {
        self.from(scenario, |cell| Some(median(cell.runs.iter().map(Run::rate).collect())))
    }

    /// Seconds from a call to its reply, where calls go one by one.
    pub(crate) fn latency(&self, scenario: Scenario) -> Option<f64> {
        self.from(scenario, |cell| {
            let medians: Option<Vec<f64>> = cell.runs.iter().map(|run| Some(run.median?.as_secs_f64())).collect();
            medians.map(median)
        })
    }

    /// Seconds of processor time that the server spends on a call.
    pub(crate) fn cpu(&self, scenario: Scenario) -> Option<f64> {
        self.from(scenario, |cell| {
            let calls: f64 = cell.runs.iter().map(|run| f64::from(run.calls)).sum();
            Some(cell.cpu.as_secs_f64() / calls)
        })
    }

    /// The scenarios that failed, and why.
    pub(crate) fn failures(&self) -> Vec<(String, &str)> {
        self.cells
            .iter()
            .filter_map(|(scenario, cell)| Some((scenario.to_string(), cell.failure.as_deref()?)))
            .collect()
    }

    /// A figure of a scenario whose rounds all succeeded.
    fn from(&self, scenario: Scenario, figure: impl Fn(&Cell) -> Option<f64>) -> Option<f64> {
        let (_, cell) = self.cells.iter().find(|(known, _)| *known == scenario)?;
        if cell.failure.is_some() || cell.runs.is_empty() { None } else { figure(cell) }
    }
}

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let streams = match self.streams {
            Streams::Pipes => "pipes",
            Streams::Sockets => "sockets",
        };
        let payload = match self.payload {
            Payload::Small => "small",
            Payload::Large => "4 KiB",
        };
        let era = match self.era {
            Era::Handshake => "2025-11-25",
            Era::Stateless => "2026-07-28",
        };
        write!(f, "{streams}, {payload}, {era}, ")?;
        match self.pace {
            Pace::OneByOne => f.write_str("one by one")?,
            Pace::InFlight => write!(f, "{WIDTH} in flight")?,
        }
        match self.cores {
            Cores::One => Ok(()),
            Cores::Free => f.write_str(", free cores"),
        }
    }
}

/// A remark if others were using the machine before the bench began: figures then say less.
fn busy_machine() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let cores = std::thread::available_parallelism().ok()?.get();
    (load > cores as f64 / 4.0).then(|| format!("the machine was busy: load {load} on {cores} cores before the bench"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
