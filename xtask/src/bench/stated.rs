//! Our figures beside those that were seen of a reference server, elsewhere and once: nothing of it runs here.

use anyhow::Result;

use super::measure;
use super::report::{Bar, Better, Bound, Report, Rivals, Row};

const REFERENCE: &str = "reference (stated)";
const RIVALS: Rivals = Rivals { title: "us ÷ stated", key: "over_stated", are: |name| name == REFERENCE };

/// One figure of ours, and the figure that it is compared with.
#[derive(Debug)]
pub(crate) struct Figure {
    name: &'static str,
    unit: &'static str,
    better: Better,
    ours: Option<f64>,
    reference: f64,
    bar: Option<f64>,
}

/// All figures of a bench, in the order of the rows.
#[derive(Debug)]
pub(crate) struct Findings {
    figures: Vec<Figure>,
    failures: Vec<String>,
    machine: Option<String>,
}

impl Figure {
    /// A figure of which more is better.
    pub(crate) fn more(name: &'static str, unit: &'static str, ours: Option<f64>) -> Self {
        Self { name, unit, better: Better::More, ours, reference: f64::NAN, bar: None }
    }

    /// A figure of which less is better.
    pub(crate) fn less(name: &'static str, unit: &'static str, ours: Option<f64>) -> Self {
        Self { better: Better::Less, ..Self::more(name, unit, ours) }
    }

    /// The published figure of the reference.
    pub(crate) fn stated(self, reference: f64) -> Self {
        Self { reference, ..self }
    }

    /// The bar: a minimum if more is better, otherwise a maximum.
    pub(crate) fn bar(self, bar: f64) -> Self {
        Self { bar: Some(bar), ..self }
    }
}

impl Findings {
    /// None yet. Looks at the machine first, before the bench itself makes it busy.
    pub(crate) fn new() -> Self {
        Self { figures: Vec::new(), failures: Vec::new(), machine: measure::busy_machine() }
    }

    /// Measures something; if that fails it is noted, and the figures that come from it are missing.
    pub(crate) fn measure<T>(&mut self, what: &str, measured: impl FnOnce() -> Result<T>) -> Option<T> {
        eprintln!("bench: {what}");
        measured().map_err(|why| self.failures.push(format!("gladhand failed at {what}: {why:#}"))).ok()
    }

    pub(crate) fn add(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.figures.extend(figures);
    }

    pub(crate) fn report(self, legend: &'static str) -> Report {
        let mut scenario = "";
        let bars = self.figures.iter().filter_map(|figure| {
            // An indented figure belongs to the scenario above it.
            let name = if let Some(part) = figure.name.strip_prefix("  ") {
                format!("{scenario}: {part}")
            } else {
                scenario = figure.name;
                scenario.to_owned()
            };
            let bound = match figure.better {
                Better::More => Bound::AtLeast(figure.bar?),
                Better::Less => Bound::AtMost(figure.bar?),
            };
            Some(Bar::new(&name, figure.ours, bound, figure.unit))
        });
        let bars = bars.collect();
        let rows = self.figures.into_iter().map(|figure| {
            let Figure { name, unit, better, ours, reference, .. } = figure;
            Row { name: name.to_owned(), unit, better, values: vec![ours, Some(reference)] }
        });
        let columns = vec!["gladhand", REFERENCE];
        let mut report = Report::of_rows(columns, RIVALS, legend, rows.collect(), self.failures, self.machine);
        report.bars = bars;
        report
    }
}

/// The median.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this share of all values lies; NaN for an empty list.
pub(crate) fn quantile(values: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share) as usize;
    values.get(place.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let values = || (1..=100).rev().map(f64::from);
        assert_eq!((median(values()), quantile(values(), 0.99), quantile([7.0], 0.99)), (51.0, 100.0, 7.0));
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_failed_measurement_is_a_missed_bar_and_a_failure() {
        let mut findings = Findings { machine: None, ..Findings::new() };
        let missing = findings.measure("trying", || -> Result<f64> { anyhow::bail!("no luck") });
        findings.add([Figure::less("luck", "ms", missing).stated(2.0).bar(1.0)]);
        let report = findings.report("");
        assert!(report.has_misses());
        assert_eq!(report.failures, ["gladhand failed at trying: no luck"]);
    }

    #[test]
    fn a_figure_is_shown_with_its_ratio_and_its_bar() {
        let mut findings = Findings { machine: None, ..Findings::new() };
        findings.add([Figure::more("pings", "pings/s", Some(600.0)).stated(100.0).bar(500.0)]);
        let report = findings.report("");
        assert!(!report.has_misses());
        let row = &report.to_json()["rows"][0];
        assert_eq!((&row["values"]["reference (stated)"], &row["over_stated"]), (&100.0.into(), &6.0.into()));
    }
}
