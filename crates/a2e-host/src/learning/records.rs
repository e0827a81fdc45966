//! The record that agents send about components: feedback on a turn, and experiences.

use std::collections::BTreeSet;

use gladhand_core::wire::{RawValue, values};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Scores are clamped to this magnitude, so that their sums stay finite.
const MAX_MAGNITUDE: f64 = 1e9;

/// One record, with the samples that it contains.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) body: Box<RawValue>,
    pub(super) samples: Vec<Sample>,
}

/// The rating of one call of a component.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) component: String,
    pub(super) score: f64,
    /// In milliseconds, if known.
    pub(super) duration: Option<f64>,
    /// The time of the call, if known.
    pub(super) at: Option<f64>,
}

/// Parses a record, or says what is wrong with it.
pub(super) fn read<T: DeserializeOwned + Into<Record>>(written: &RawValue, now: f64) -> Result<Record, String> {
    let parsed: T = values::read(written.get()).map_err(|error| error.to_string())?;
    let mut record: Record = parsed.into();
    record.body = written.to_owned();
    for sample in &mut record.samples {
        sample.score = sample.score.clamp(-MAX_MAGNITUDE, MAX_MAGNITUDE);
        sample.at = sample.at.or(Some(now));
    }
    Ok(record)
}

/// A rating of a turn.
#[derive(Debug, Deserialize)]
#[serde(try_from = "WrittenFeedback")]
pub(super) struct Feedback {
    component: String,
    score: f64,
    at: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct WrittenFeedback {
    /// May be null, but must be present.
    #[serde(deserialize_with = "Option::deserialize")]
    rated_turn: Option<RatedTurn>,
    polarity: Polarity,
    #[serde(default)]
    score: f64,
    #[serde(default, rename = "dimension")]
    _dimension: Dimension,
    #[serde(default)]
    correction: String,
    #[serde(default, rename = "source")]
    _source: Source,
    ts: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct RatedTurn {
    #[serde(rename = "prompt")]
    _prompt: String,
    #[serde(rename = "response")]
    _response: String,
    model: String,
    version: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Polarity {
    Positive,
    Negative,
    Neutral,
    Corrective,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Dimension {
    Correctness,
    #[default]
    Helpfulness,
    Safety,
    Tone,
    PlanQuality,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    #[default]
    Human,
    Env,
    #[serde(rename = "self")]
    Itself,
}

impl TryFrom<WrittenFeedback> for Feedback {
    type Error = &'static str;

    fn try_from(written: WrittenFeedback) -> Result<Self, Self::Error> {
        if written.polarity == Polarity::Corrective && written.correction.is_empty() {
            return Err("corrective feedback needs a correction");
        }
        let names = written.rated_turn.map(|turn| [turn.version.unwrap_or_default(), turn.model]);
        let component = names.into_iter().flatten().find(|name| !name.is_empty());
        let component = component.unwrap_or_else(|| "unknown".to_owned());
        Ok(Self { component, score: written.score, at: written.ts })
    }
}

impl From<Feedback> for Record {
    fn from(feedback: Feedback) -> Self {
        let Feedback { component, score, at } = feedback;
        Self { body: RawValue::NULL.to_owned(), samples: vec![Sample { component, score, duration: None, at }] }
    }
}

/// The outcome of an action.
#[derive(Debug, Deserialize)]
pub(super) struct Experience {
    #[serde(default)]
    action: Map<String, Value>,
    #[serde(default)]
    reward: f64,
    #[serde(default)]
    next_state: Map<String, Value>,
    ts: Option<f64>,
}

impl From<Experience> for Record {
    /// Makes one sample for the component of the action, and one for every other component that the action names. The
    /// duration is `duration_ms` of the action or of the next state.
    fn from(experience: Experience) -> Self {
        let Experience { action, reward, next_state, ts } = experience;
        let lists = ["components", "tools"].into_iter().filter_map(|list| action.get(list)?.as_array()).flatten();
        let names = action.get("component_name").into_iter().chain(lists).filter_map(Value::as_str);
        let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
        let duration = [&action, &next_state].into_iter().find_map(|object| object.get("duration_ms")?.as_f64());
        let duration = duration.filter(|duration| (0.0..=MAX_MAGNITUDE).contains(duration));
        let sample = |name: &str| Sample { component: name.to_owned(), score: reward, duration, at: ts };
        Self { body: RawValue::NULL.to_owned(), samples: names.into_iter().map(sample).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_core::wire::json;

    fn components(experience: &str) -> Vec<String> {
        let record = read::<Experience>(&json::raw(experience.to_owned()), 1.0).expect("a valid experience");
        record.samples.into_iter().map(|sample| sample.component).collect()
    }

    #[test]
    fn an_experience_counts_once_for_each_component_it_names() {
        assert_eq!(
            components(r#"{"action":{"component_name":"a","components":["b","a"],"tools":["c","b",7]}}"#),
            ["a", "b", "c"]
        );
        assert_eq!(components(r#"{"action":{"component_name":"","tools":"x"}}"#), [] as [&str; 0]);
        assert_eq!(components("{}"), [] as [&str; 0]);
    }

    #[test]
    fn durations_are_found_in_the_next_state_and_scores_are_clamped() {
        let written = r#"{"action":{"component_name":"a"},"reward":1e300,"next_state":{"duration_ms":12},"ts":5}"#;
        let record = read::<Experience>(&json::raw(written.to_owned()), 1.0).unwrap();
        let sample = Sample { component: "a".to_owned(), score: MAX_MAGNITUDE, duration: Some(12.0), at: Some(5.0) };
        assert_eq!(record.samples, [sample]);
        assert_eq!(record.body.get(), written);
    }
}
