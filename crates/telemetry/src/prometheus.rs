//! The text format of Prometheus, version 0.0.4.
//!
//! Dots in names become underscores. Names end with their unit, and those of counters with `_total`.

use std::fmt::Write as _;

use crate::histogram::BOUNDS;
use crate::snapshot::{Labels, MetricSnapshot, Points};

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes metrics as text.
pub fn render(metrics: &[MetricSnapshot]) -> String {
    let mut text = String::new();
    for metric in metrics.iter().filter(|metric| !metric.points.is_empty()) {
        let name = name(metric);
        let kind = match metric.points {
            Points::Sum(_) => "counter",
            Points::Gauge(_) => "gauge",
            Points::Histogram(_) => "histogram",
        };
        // Writing to a string does not fail.
        let _ = write!(text, "# HELP {name} {}\n# TYPE {name} {kind}\n", metric.help);
        match &metric.points {
            Points::Sum(points) => {
                points.iter().for_each(|(labels, value)| line(&mut text, &name, labels, None, value))
            }
            Points::Gauge(points) => {
                points.iter().for_each(|(labels, value)| line(&mut text, &name, labels, None, value));
            }
            Points::Histogram(points) => {
                for (labels, histogram) in points {
                    let mut count = 0;
                    let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
                    for (bound, bucket) in bounds.zip(histogram.buckets) {
                        count += bucket;
                        line(&mut text, &format!("{name}_bucket"), labels, Some(&bound), &count);
                    }
                    line(&mut text, &format!("{name}_sum"), labels, None, &histogram.sum_s);
                    line(&mut text, &format!("{name}_count"), labels, None, &count);
                }
            }
        }
    }
    text
}

/// The name of a metric with its unit.
fn name(metric: &MetricSnapshot) -> String {
    let mut name = metric.name.replace('.', "_");
    name.push_str(match metric.unit {
        "s" => "_seconds",
        "By" => "_bytes",
        _ => "",
    });
    if matches!(metric.points, Points::Sum(_)) {
        name.push_str("_total");
    }
    name
}

fn line(text: &mut String, name: &str, labels: &Labels, bound: Option<&str>, value: &dyn std::fmt::Display) {
    text.push_str(name);
    let labels = labels.iter().map(|(name, value)| (name.replace('.', "_"), escaped(value)));
    let labels = labels.chain(bound.map(|bound| ("le".to_owned(), bound.to_owned())));
    let mut separator = '{';
    for (label, value) in labels {
        let _ = write!(text, "{separator}{label}=\"{value}\"");
        separator = ',';
    }
    if separator == ',' {
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

/// A label value in quotes: peers choose some of them. Control characters could steer a terminal that shows the text.
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::series::{Gauge, Histogram, MetricCounter, MetricDescription, SeriesFamily};

    const PLAIN: MetricDescription = MetricDescription {
        name: "gladhand.calls",
        unit: "{call}",
        help: "Calls.",
        labels: &["gen_ai.tool.name"],
        chosen: &[],
        group: None,
    };

    #[test]
    fn counters_and_gauges_are_one_line_for_each_series() {
        let counter = SeriesFamily::<MetricCounter>::new(PLAIN);
        counter.with(&["a\"b\\c\nd\u{1b}"], |counter| counter.add(2));
        counter.with(&[""], |counter| counter.add(1));
        let gauge = SeriesFamily::<Gauge>::new(MetricDescription { name: "gladhand.open", ..PLAIN });
        gauge.with(&["x"], |gauge| gauge.add(-3));
        let empty = SeriesFamily::<Gauge>::new(MetricDescription { name: "gladhand.none", ..PLAIN });
        assert_eq!(
            render(&[counter.snapshot(), gauge.snapshot(), empty.snapshot()]),
            "# HELP gladhand_calls_total Calls.\n# TYPE gladhand_calls_total counter\n\
             gladhand_calls_total 1\ngladhand_calls_total{gen_ai_tool_name=\"a\\\"b\\\\c\\nd\u{fffd}\"} 2\n\
             # HELP gladhand_open Calls.\n# TYPE gladhand_open gauge\ngladhand_open{gen_ai_tool_name=\"x\"} -3\n"
        );
    }

    #[test]
    fn the_buckets_of_a_histogram_are_cumulative_and_end_with_infinity() {
        let histogram = SeriesFamily::<Histogram>::new(MetricDescription {
            name: "mcp.server.operation.duration",
            unit: "s",
            ..PLAIN
        });
        for millis in [3, 40, 400_000] {
            histogram.with(&["t"], |histogram| histogram.record(Duration::from_millis(millis)));
        }
        let text = render(&[histogram.snapshot()]);
        let value = |start: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(start));
            line.unwrap_or_else(|| panic!("{start}: {text}")).to_owned()
        };
        let bucket = |bound: &str| {
            value(&format!("mcp_server_operation_duration_seconds_bucket{{gen_ai_tool_name=\"t\",le=\"{bound}\"}} "))
        };
        let bounds = ["0.0025", "0.005", "0.02", "0.05", "300", "+Inf"];
        assert_eq!(bounds.map(bucket), ["0", "1", "1", "2", "2", "3"]);
        assert_eq!(value("mcp_server_operation_duration_seconds_sum{gen_ai_tool_name=\"t\"} "), "400.043");
        assert_eq!(value("mcp_server_operation_duration_seconds_count{gen_ai_tool_name=\"t\"} "), "3");
    }
}
