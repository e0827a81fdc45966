//! What the bench prints: one table of figures with ratios, then the bars and whether they are met.

use std::fmt::Write;

use serde_json::{Value, json};

use super::measure::{Cores, Figures, Pace, Scenario, Table, scenarios};
use super::process::Streams;
use super::request::{Era, Payload};

const LEGEND: &str = "
\"us ÷ rmcp\" takes the better of the two rmcp columns. More calls/s are better; less of all else.
Generator and server share one core and take turns; with \"free cores\" the scheduler places them, and the time
that a sleeping core takes to wake counts too.
";

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// The figures as rows.
#[derive(Debug)]
pub(crate) struct Report {
    columns: Vec<&'static str>,
    rows: Vec<Row>,
    bars: Vec<Bar>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Row {
    name: String,
    unit: &'static str,
    values: Vec<Option<f64>>,
    over_rmcp: Option<f64>,
    over_floor: Option<f64>,
}

/// A figure that we promise.
#[derive(Debug)]
struct Bar {
    name: &'static str,
    value: Option<f64>,
    bound: Bound,
    unit: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Which of two figures is the better one.
#[derive(Debug, Clone, Copy)]
enum Better {
    More,
    Less,
}

impl Report {
    pub(crate) fn new(table: &Table) -> Self {
        let mut rows = vec![
            Row::new(table, "start to first answer".to_owned(), "ms", Better::Less, |f| Some(f.start() * 1e3)),
            Row::new(table, "  the quickest".to_owned(), "ms", Better::Less, |f| Some(f.quickest_start() * 1e3)),
            Row::new(table, "resident when idle".to_owned(), "MiB", Better::Less, |f| Some(f.idle() / MEBIBYTE)),
            Row::new(table, "resident at most".to_owned(), "MiB", Better::Less, |f| Some(f.peak() / MEBIBYTE)),
            Row::new(table, "binary".to_owned(), "MiB", Better::Less, |f| Some(f.size as f64 / MEBIBYTE)),
        ];
        for scenario in scenarios() {
            rows.push(Row::new(table, scenario.to_string(), "calls/s", Better::More, |f| f.rate(scenario)));
            if scenario.pace == Pace::OneByOne {
                rows.push(Row::new(table, "  p50".to_owned(), "µs", Better::Less, |f| {
                    Some(f.latency(scenario)? * 1e6)
                }));
            }
            rows.push(Row::new(table, "  CPU per call".to_owned(), "µs", Better::Less, |f| {
                Some(f.cpu(scenario)? * 1e6)
            }));
        }
        let notes = table.columns.iter().flat_map(|figures| {
            figures.failures().into_iter().map(|(what, why)| format!("{} failed at {what}: {why}", figures.name))
        });
        let notes = notes.chain(table.machine.clone()).collect();
        Self { columns: table.columns.iter().map(|f| f.name).collect(), bars: bars(table), rows, notes }
    }

    pub(crate) fn has_misses(&self) -> bool {
        self.bars.iter().any(|bar| !bar.is_met())
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let _ = write!(text, "{:54}{:>8}", "", "unit");
        for column in &self.columns {
            let _ = write!(text, "{column:>14}");
        }
        let _ = writeln!(text, "{:>14}{:>14}", "us ÷ rmcp", "us ÷ floor");
        for row in &self.rows {
            let _ = write!(text, "{:54}{:>8}", row.name, row.unit);
            for value in &row.values {
                let _ = write!(text, "{:>14}", value.map_or_else(|| "failed".to_owned(), figure));
            }
            let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}×"));
            let _ = writeln!(text, "{:>14}{:>14}", ratio(row.over_rmcp), ratio(row.over_floor));
        }
        text.push_str(LEGEND);
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
            let _ = writeln!(text, "  {verdict}  {:42}{value:>12}   ({bound})", bar.name);
        }
        text.truncate(text.trim_end().len());
        text
    }

    pub(crate) fn to_json(&self) -> Value {
        let rows = self.rows.iter().scan(String::new(), |scenario, row| {
            // An indented row belongs to the scenario above it.
            if let Some(part) = row.name.strip_prefix("  ") {
                return Some(row.to_json(&self.columns, format!("{scenario}: {part}")));
            }
            scenario.clone_from(&row.name);
            Some(row.to_json(&self.columns, row.name.clone()))
        });
        let rows: Vec<Value> = rows.collect();
        json!({ "rows": rows, "bars": self.bars.iter().map(Bar::to_json).collect::<Vec<_>>(), "notes": self.notes })
    }
}

impl Row {
    fn new(
        table: &Table,
        name: String,
        unit: &'static str,
        better: Better,
        of: impl Fn(&Figures) -> Option<f64>,
    ) -> Self {
        let ours = of(table.ours());
        let over = |theirs: Option<f64>| Some(ours? / theirs?).filter(|ratio| ratio.is_finite());
        let (over_rmcp, over_floor) = (over(best_of_rmcp(table, better, &of)), over(of(table.of("floor"))));
        Self { name, unit, values: table.columns.iter().map(&of).collect(), over_rmcp, over_floor }
    }

    fn to_json(&self, columns: &[&str], name: String) -> Value {
        let values: serde_json::Map<String, Value> =
            columns.iter().zip(&self.values).map(|(column, value)| ((*column).to_owned(), json!(value))).collect();
        json!({
            "name": name, "unit": self.unit, "values": values,
            "over_rmcp": self.over_rmcp, "over_floor": self.over_floor,
        })
    }
}

impl Bar {
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

fn bars(table: &Table) -> Vec<Bar> {
    let ours = table.ours();
    let over_rmcp = |pace, cores| {
        let (streams, payload, era) = (Streams::Pipes, Payload::Small, Era::Handshake);
        let rate = |figures: &Figures| figures.rate(Scenario { streams, payload, era, pace, cores });
        Some(rate(ours)? / best_of_rmcp(table, Better::More, &rate)?)
    };
    let in_flight = |cores| over_rmcp(Pace::InFlight, cores);
    let one_by_one = |cores| over_rmcp(Pace::OneByOne, cores);
    let bar = |name, value, bound, unit| Bar { name, value, bound, unit };
    let mebibytes = |bytes: f64| Some(bytes / MEBIBYTE);
    vec![
        bar("64 in flight over rmcp, one core", in_flight(Cores::One), Bound::AtLeast(5.0), "×"),
        bar("64 in flight over rmcp, free cores", in_flight(Cores::Free), Bound::AtLeast(5.0), "×"),
        bar("one by one over rmcp, one core", one_by_one(Cores::One), Bound::AtLeast(1.5), "×"),
        bar("one by one over rmcp, free cores", one_by_one(Cores::Free), Bound::AtLeast(1.5), "×"),
        bar("start to first answer", Some(ours.start() * 1e3), Bound::AtMost(3.0), "ms"),
        bar("resident when idle", mebibytes(ours.idle()), Bound::AtMost(8.0), "MiB"),
        bar("resident at most, in any run", mebibytes(ours.peak()), Bound::AtMost(8.0), "MiB"),
        bar("release binary", mebibytes(ours.size as f64), Bound::AtMost(8.0), "MiB"),
    ]
}

/// The better figure of rmcp's two configurations.
fn best_of_rmcp(table: &Table, better: Better, of: &impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
    let theirs = table.columns.iter().filter(|figures| figures.name.starts_with("rmcp")).filter_map(of);
    match better {
        Better::More => theirs.reduce(f64::max),
        Better::Less => theirs.reduce(f64::min),
    }
}

/// Large numbers with separated thousands, small ones with enough digits to compare.
fn figure(value: f64) -> String {
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
        let shown = [0.034, 12.0, 999.5, 1000.0, 1_035_221.4].map(figure);
        assert_eq!(shown, ["0.03", "12.00", "999.50", "1,000", "1,035,221"]);
    }
}
