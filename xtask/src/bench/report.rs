//! The output of the bench: one table of figures with ratios, then the bars and whether they are met.

use std::fmt::Write;

use serde_json::{Value, json};

use super::figures::{Figures, Table};
use super::scenario::{Pace, Scenario};

pub(crate) const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// The column whose ratios are shown.
const OURS: &str = "gladhand";

/// The figures as rows.
#[derive(Debug)]
pub(crate) struct Report {
    columns: Vec<&'static str>,
    rivals: Rivals,
    rows: Vec<Row>,
    legend: &'static str,
    pub(crate) bars: Vec<Bar>,
    notes: Vec<String>,
    /// The failures of our own server, each with the reason.
    pub(crate) failures: Vec<String>,
}

/// The servers that we compare with: the best of several columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rivals {
    /// The title of the ratio in the table.
    pub(crate) title: &'static str,
    /// The key of the ratio in JSON.
    pub(crate) key: &'static str,
    /// Whether a column is a rival.
    pub(crate) are: fn(&str) -> bool,
}

/// One figure of every server. `None` means that it could not be measured; a figure that does not apply is NaN.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) values: Vec<Option<f64>>,
}

/// A figure that we promise.
#[derive(Debug)]
pub(crate) struct Bar {
    name: String,
    value: Option<f64>,
    bound: Bound,
    unit: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Which of two figures is the better one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Better {
    More,
    Less,
}

impl Report {
    /// A report without bars.
    pub(crate) fn new(table: &Table, rivals: Rivals, legend: &'static str, rows: Vec<Row>) -> Self {
        let failures = |figures: &Figures| -> Vec<String> {
            let failed = figures.failures().into_iter();
            failed.map(|(what, why)| format!("{} failed at {what}: {why}", figures.name)).collect()
        };
        let notes = table.columns.iter().flat_map(failures).chain(table.machine.clone()).collect();
        let columns = table.columns.iter().map(|f| f.name).collect();
        Self { columns, rivals, rows, legend, bars: Vec::new(), notes, failures: failures(table.ours()) }
    }

    /// A report without bars whose rows were not measured as a table; `failures` are ours.
    pub(crate) fn of_rows(
        columns: Vec<&'static str>,
        rivals: Rivals,
        legend: &'static str,
        rows: Vec<Row>,
        failures: Vec<String>,
        machine: Option<String>,
    ) -> Self {
        let notes = failures.iter().cloned().chain(machine).collect();
        Self { columns, rivals, rows, legend, bars: Vec::new(), notes, failures }
    }

    pub(crate) fn has_misses(&self) -> bool {
        self.bars.iter().any(|bar| !bar.is_met())
    }

    /// The rows in which a rival has a better figure than this column, or this column has none.
    pub(crate) fn rows_behind(&self, column: &str) -> Vec<&Row> {
        let is_behind = |row: &&Row| match (self.over_rivals(row, column), row.better) {
            (Some(ratio), Better::More) => ratio < 1.0,
            (Some(ratio), Better::Less) => ratio > 1.0,
            (None, _) => self.place(column).is_none_or(|ours| row.values[ours].is_none()),
        };
        self.rows.iter().filter(is_behind).collect()
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let _ = write!(text, "{:54}{:>8}", "", "unit");
        let width = |column: &str| (column.len() + 2).max(14);
        for column in &self.columns {
            let _ = write!(text, "{column:>width$}", width = width(column));
        }
        let has_floor = self.place("floor").is_some();
        let _ = writeln!(text, "{:>14}{}", self.rivals.title, if has_floor { "    us ÷ floor" } else { "" });
        for row in &self.rows {
            let _ = write!(text, "{:54}{:>8}", row.name, row.unit);
            for (column, value) in self.columns.iter().zip(&row.values) {
                let value = value.map_or_else(|| "failed".to_owned(), figure);
                let _ = write!(text, "{value:>width$}", width = width(column));
            }
            let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}×"));
            let over_floor = if has_floor { format!("{:>14}", ratio(self.over_floor(row))) } else { String::new() };
            let _ = writeln!(text, "{:>14}{over_floor}", ratio(self.over_rivals(row, OURS)));
        }
        text.push_str(self.legend);
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text.push_str("\nBars\n");
        for bar in &self.bars {
            let verdict = if bar.is_met() { "PASS" } else { "MISS" };
            let value = bar.value.map_or_else(|| "none".to_owned(), |value| format!("{value:.2} {}", bar.unit));
            let bound = match bar.bound {
                Bound::AtLeast(bound) => format!("at least {bound} {}", bar.unit),
                Bound::AtMost(bound) => format!("at most {bound} {}", bar.unit),
            };
            let _ = writeln!(text, "  {verdict}  {:66}{value:>12}   ({bound})", bar.name);
        }
        text.truncate(text.trim_end().len());
        text
    }

    pub(crate) fn to_json(&self) -> Value {
        let rows = self.rows.iter().scan(String::new(), |scenario, row| {
            // An indented row belongs to the scenario above it.
            if let Some(part) = row.name.strip_prefix("  ") {
                return Some(self.row_to_json(row, &format!("{scenario}: {part}")));
            }
            scenario.clone_from(&row.name);
            Some(self.row_to_json(row, &row.name))
        });
        let rows: Vec<Value> = rows.collect();
        json!({ "rows": rows, "bars": self.bars.iter().map(Bar::to_json).collect::<Vec<_>>(), "notes": self.notes })
    }

    fn row_to_json(&self, row: &Row, name: &str) -> Value {
        let values: serde_json::Map<String, Value> =
            self.columns.iter().zip(&row.values).map(|(column, value)| ((*column).to_owned(), json!(value))).collect();
        json!({
            "name": name, "unit": row.unit, "values": values,
            self.rivals.key: self.over_rivals(row, OURS), "over_floor": self.over_floor(row),
        })
    }

    fn over_rivals(&self, row: &Row, ours: &str) -> Option<f64> {
        let named = self.columns.iter().zip(&row.values);
        let rivals = named.filter(|(name, _)| (self.rivals.are)(name)).filter_map(|(_, value)| *value);
        self.over(row, ours, row.better.of(rivals))
    }

    fn over_floor(&self, row: &Row) -> Option<f64> {
        self.over(row, OURS, row.values[self.place("floor")?])
    }

    fn over(&self, row: &Row, ours: &str, theirs: Option<f64>) -> Option<f64> {
        let ours = row.values[self.place(ours)?];
        Some(ours? / theirs?).filter(|ratio| ratio.is_finite())
    }

    fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| *name == column)
    }
}

impl Rivals {
    /// Whether a column is one of them.
    pub(crate) fn is_one(&self, column: &str) -> bool {
        (self.are)(column)
    }

    /// The best figure among them.
    pub(crate) fn best(&self, table: &Table, better: Better, of: &dyn Fn(&Figures) -> Option<f64>) -> Option<f64> {
        better.of(table.columns.iter().filter(|figures| (self.are)(figures.name)).filter_map(of))
    }
}

impl Better {
    fn of(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        match self {
            Self::More => values.reduce(f64::max),
            Self::Less => values.reduce(f64::min),
        }
    }
}

impl Row {
    pub(crate) fn new(
        table: &Table,
        name: &str,
        unit: &'static str,
        better: Better,
        of: &dyn Fn(&Figures) -> Option<f64>,
    ) -> Self {
        Self { name: name.to_owned(), unit, better, values: table.columns.iter().map(of).collect() }
    }
}

/// The rows that every scenario has.
pub(crate) fn rows_of(table: &Table, scenario: Scenario) -> Vec<Row> {
    let row = |name: &str, unit, better, of: &dyn Fn(&Figures) -> Option<f64>| Row::new(table, name, unit, better, of);
    let mut rows = vec![row(&scenario.to_string(), "calls/s", Better::More, &|f| f.rate(scenario))];
    if scenario.pace == Pace::OneByOne {
        rows.push(row("  p50", "µs", Better::Less, &|f| Some(f.latency(scenario)? * 1e6)));
    }
    rows.push(row("  CPU per call", "µs", Better::Less, &|f| Some(f.cpu(scenario)? * 1e6)));
    rows
}

impl Bar {
    pub(crate) fn new(name: &str, value: Option<f64>, bound: Bound, unit: &'static str) -> Self {
        Self { name: name.to_owned(), value, bound, unit }
    }

    fn is_met(&self) -> bool {
        match (self.value, self.bound) {
            (Some(value), Bound::AtLeast(bound)) => value >= bound,
            (Some(value), Bound::AtMost(bound)) => value <= bound,
            (None, _) => false,
        }
    }

    fn to_json(&self) -> Value {
        let (kind, bound) = match self.bound {
            Bound::AtLeast(bound) => ("at_least", bound),
            Bound::AtMost(bound) => ("at_most", bound),
        };
        json!({ "name": self.name, "value": self.value, kind: bound, "unit": self.unit, "met": self.is_met() })
    }
}

/// Large numbers with separated thousands, small ones with enough digits to compare, a dash for no number.
fn figure(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    if value < 1000.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_read_well() {
        let shown = [0.034, 12.0, 999.5, 1000.0, 1_035_221.4, f64::NAN].map(figure);
        assert_eq!(shown, ["0.03", "12.00", "999.50", "1,000", "1,035,221", "-"]);
    }
}
