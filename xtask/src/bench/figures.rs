//! The measurements of each server, and how rounds are combined into one figure.

use std::time::Duration;

use super::load::Run;
use super::scenario::{Scenario, Way};

/// Everything measured of one server.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) name: &'static str,
    pub(crate) size: u64,
    pub(crate) stdio: Costs,
    pub(crate) http: Costs,
    /// The memory of idle HTTP sessions, if it was measured.
    pub(crate) sessions: Option<Sessions>,
    /// Seconds that listing the tools of many upstreams takes, if that was measured.
    pub(crate) listing: Option<f64>,
    pub(crate) cells: Vec<(Scenario, Cell)>,
    /// Failures outside the scenarios: the attempted step, and the reason.
    pub(crate) misfortunes: Vec<(String, String)>,
}

/// The basic costs of running the server, over stdio or over HTTP.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    pub(crate) starts: Vec<f64>,
    pub(crate) idle: Vec<f64>,
    pub(crate) peak: u64,
}

/// The memory of many idle sessions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sessions {
    /// Bytes that became resident for each of them.
    pub(crate) each: f64,
    /// Bytes resident with all of them open.
    pub(crate) resident: f64,
}

/// All rounds of one scenario.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub(crate) runs: Vec<Run>,
    pub(crate) cpu: Duration,
    pub(crate) failure: Option<String>,
    /// Whether the server lacks this transport, so that there is nothing to measure.
    pub(crate) is_void: bool,
}

/// The figures of all servers, in the order of the columns.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Figures>,
    /// A note for the reader about the state of the machine during the measurement.
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

impl Costs {
    /// Seconds from before the start to the first answer.
    pub(crate) fn start(&self) -> Option<f64> {
        median(self.starts.clone())
    }

    /// The same for the quickest start, which is the least disturbed by other load on the machine.
    pub(crate) fn quickest_start(&self) -> Option<f64> {
        self.starts.iter().copied().reduce(f64::min)
    }

    /// Bytes resident after the opening.
    pub(crate) fn idle(&self) -> Option<f64> {
        median(self.idle.clone())
    }

    /// The largest number of bytes resident in any run.
    pub(crate) fn peak(&self) -> Option<f64> {
        (self.peak > 0).then_some(self.peak as f64)
    }
}

impl Figures {
    pub(crate) fn new(name: &'static str, size: u64, scenarios: &[Scenario]) -> Self {
        let cells = scenarios.iter().map(|scenario| (*scenario, Cell::default())).collect();
        let (stdio, http) = (Costs::default(), Costs::default());
        Self { name, size, stdio, http, sessions: None, listing: None, cells, misfortunes: Vec::new() }
    }

    pub(crate) fn costs(&mut self, way: Way) -> &mut Costs {
        match way {
            Way::Stdio(_) => &mut self.stdio,
            Way::Http => &mut self.http,
        }
    }

    /// Notes a failure outside the scenarios, once.
    pub(crate) fn suffer(&mut self, what: &str, why: &anyhow::Error) {
        if self.misfortunes.iter().all(|(known, _)| known != what) {
            self.misfortunes.push((what.to_owned(), format!("{why:#}")));
        }
    }

    /// Calls per second.
    pub(crate) fn rate(&self, scenario: Scenario) -> Option<f64> {
        self.from(scenario, |cell| median(cell.runs.iter().map(Run::rate).collect()))
    }

    /// Seconds from a call to its reply, where calls go one by one.
    pub(crate) fn latency(&self, scenario: Scenario) -> Option<f64> {
        self.from(scenario, |cell| {
            let medians: Option<Vec<f64>> = cell.runs.iter().map(|run| Some(run.median?.as_secs_f64())).collect();
            medians.and_then(median)
        })
    }

    /// Seconds of processor time that the server spends on a call.
    pub(crate) fn cpu(&self, scenario: Scenario) -> Option<f64> {
        self.from(scenario, |cell| {
            let calls: f64 = cell.runs.iter().map(|run| f64::from(run.calls)).sum();
            Some(cell.cpu.as_secs_f64() / calls)
        })
    }

    /// The failures, each with the reason.
    pub(crate) fn failures(&self) -> Vec<(String, &str)> {
        let of_cells =
            self.cells.iter().filter_map(|(scenario, cell)| Some((scenario.to_string(), cell.failure.as_deref()?)));
        let others = self.misfortunes.iter().map(|(what, why)| (what.clone(), why.as_str()));
        others.chain(of_cells).collect()
    }

    /// A figure of a scenario whose rounds all succeeded.
    fn from(&self, scenario: Scenario, figure: impl Fn(&Cell) -> Option<f64>) -> Option<f64> {
        let (_, cell) = self.cells.iter().find(|(known, _)| *known == scenario)?;
        match cell {
            Cell { is_void: true, .. } => Some(f64::NAN),
            Cell { failure: Some(_), .. } => None,
            Cell { runs, .. } if runs.is_empty() => None,
            _ => figure(cell),
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
