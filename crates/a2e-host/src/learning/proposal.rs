//! Proposals: their edits, how they are reviewed, and how an edit changes the state. Nothing here is stored.

use serde::Serialize;
use serde_json::{Map, Value, json};

const TARGETS: [&str; 5] = ["prompt", "tool", "router_weight", "verifier", "router"];
const OPERATIONS: [&str; 4] = ["replace", "insert", "delete", "update"];
/// Forbidden beginnings of a path. No edit may look like access to the internals of a program.
const FORBIDDEN: [&str; 4] = ["__", "os.", "sys.", "subprocess"];
/// Maximum number of steps in a path.
const MAX_DEPTH: usize = 32;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edit {
    target: String,
    operation: String,
    path: String,
    new_value: Value,
}

impl Edit {
    /// Parses an edit of a proposal, or says why it is invalid.
    pub(super) fn read(edit: &Value) -> Result<Self, String> {
        let text = |name: &str| edit.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (target, operation, path) = (text("target"), text("op"), text("path"));
        if !TARGETS.contains(&target.as_str()) {
            return Err(format!("unknown target: {target:.64}"));
        }
        if !OPERATIONS.contains(&operation.as_str()) {
            return Err(format!("unknown op: {operation:.64}"));
        }
        if path.split('.').any(str::is_empty) {
            return Err("a path must consist of steps separated by dots".to_owned());
        }
        if path.split('.').count() > MAX_DEPTH {
            return Err(format!("a path must have at most {MAX_DEPTH} steps"));
        }
        if FORBIDDEN.iter().any(|forbidden| path.starts_with(forbidden)) {
            return Err(format!("forbidden path: {path:.64}"));
        }
        let new_value = edit.get("new_value").cloned().unwrap_or_default();
        if new_value.is_null() && operation != "delete" {
            return Err("new_value is missing".to_owned());
        }
        Ok(Self { target, operation, path, new_value })
    }

    /// Applies the change, or says why it cannot be applied.
    pub(super) fn apply(&self, state: &mut Map<String, Value>) -> Result<(), String> {
        let mut steps: Vec<&str> = self.path.split('.').collect();
        let last = steps.pop().unwrap_or_default();
        let mut object = state;
        for step in steps {
            if self.operation == "delete" && !object.contains_key(step) {
                return Err(format!("there is nothing at {:.64}", self.path));
            }
            let inner = object.entry(step).or_insert_with(|| json!({}));
            object = inner.as_object_mut().ok_or_else(|| format!("{step:.64} is not an object"))?;
        }
        match (self.operation.as_str(), object.get_mut(last), &self.new_value) {
            ("delete", None, _) => return Err(format!("there is nothing at {:.64}", self.path)),
            ("delete", Some(_), _) => drop(object.remove(last)),
            ("update", Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
            _ => drop(object.insert(last.to_owned(), self.new_value.clone())),
        }
        Ok(())
    }
}

/// The edits of a proposal, unparsed.
pub(super) fn edits(proposal: &Map<String, Value>) -> &[Value] {
    proposal.get("edits").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The value at a path.
pub(super) fn at<'v>(state: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    let mut steps = path.split('.');
    let first = state.get(steps.next()?);
    steps.fold(first, |value, step| value?.get(step))
}

/// The result of a review.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    pub(super) approved: bool,
    pub(super) confidence_adjusted: f64,
    pub(super) reasons: Vec<String>,
    pub(super) risk_level: &'static str,
}

/// Reviews a proposal against the edits that were made before.
pub(super) fn review(proposal: &Map<String, Value>, made: &[Edit], threshold: f64) -> Verdict {
    let confidence = proposal.get("confidence").and_then(Value::as_f64).unwrap_or(0.0);
    let written = edits(proposal);
    let edits: Vec<Edit> = written.iter().filter_map(|edit| Edit::read(edit).ok()).collect();
    let mut high = Vec::new();
    if confidence < threshold {
        high.push(format!("its confidence of {confidence} is below {threshold}"));
    }
    for (place, edit) in edits.iter().enumerate() {
        let contradicts =
            |other: &&Edit| other.target == edit.target && other.path == edit.path && other.new_value != edit.new_value;
        if edits[..place].iter().any(|other| contradicts(&other)) {
            high.push(format!("two edits contradict each other at {:.64}", edit.path));
        }
    }
    let repeated = edits.iter().filter(|edit| made.contains(edit));
    let mut medium: Vec<_> = repeated.map(|edit| format!("the edit at {:.64} was made before", edit.path)).collect();
    let (risk_level, factor) = match (high.is_empty(), medium.is_empty()) {
        (false, _) => ("high", 0.5),
        (true, false) => ("medium", 0.8),
        (true, true) => ("low", 1.0),
    };
    let mut reasons = high;
    reasons.append(&mut medium);
    if written.is_empty() {
        reasons.push("it has no edits".to_owned());
    }
    let confidence_adjusted = confidence * factor;
    let approved = risk_level != "high" && !written.is_empty() && confidence_adjusted >= threshold;
    if !approved && reasons.is_empty() || risk_level == "medium" && confidence_adjusted < threshold {
        reasons.push(format!("its adjusted confidence of {confidence_adjusted} is below {threshold}"));
    }
    Verdict { approved, confidence_adjusted, reasons, risk_level }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(operation: &str, path: &str, new_value: Value) -> Value {
        json!({ "target": "router", "op": operation, "path": path, "new_value": new_value })
    }

    fn after(state: Value, edit: Value) -> Result<Value, String> {
        let Value::Object(mut state) = state else { panic!("a state is an object") };
        Edit::read(&edit)?.apply(&mut state)?;
        Ok(state.into())
    }

    #[test]
    fn edits_create_missing_objects_and_keep_the_rest() {
        let state = || json!({ "a": { "b": 1, "o": { "x": 1 } }, "c": 2 });
        let set = |operation, path, value| after(state(), edit(operation, path, value));
        assert_eq!(set("replace", "a.b", json!(5)), Ok(json!({ "a": { "b": 5, "o": { "x": 1 } }, "c": 2 })));
        assert_eq!(
            set("insert", "d.e", json!(5)),
            Ok(json!({ "a": { "b": 1, "o": { "x": 1 } }, "c": 2, "d": { "e": 5 } }))
        );
        assert_eq!(
            set("update", "a.o", json!({ "y": 2 })),
            Ok(json!({ "a": { "b": 1, "o": { "x": 1, "y": 2 } }, "c": 2 }))
        );
        assert_eq!(set("replace", "a.o", json!({ "y": 2 })), Ok(json!({ "a": { "b": 1, "o": { "y": 2 } }, "c": 2 })));
        assert_eq!(set("delete", "a.o.x", json!(null)), Ok(json!({ "a": { "b": 1, "o": {} }, "c": 2 })));
    }

    #[test]
    fn a_refused_edit_names_the_reason() {
        let refused = |edit: Value| after(json!({ "a": 1 }), edit).expect_err("the edit must be refused");
        assert!(refused(json!({})).contains("target"));
        assert!(refused(json!({ "target": "router", "op": "bend", "path": "a" })).contains("op"));
        assert!(refused(edit("replace", "", json!(1))).contains("path"));
        assert!(refused(edit("replace", "a..b", json!(1))).contains("path"));
        assert!(refused(edit("replace", &"a.".repeat(40), json!(1))).contains("path"));
        assert!(refused(edit("replace", &format!("{}a", "a.".repeat(40)), json!(1))).contains("at most"));
        for path in ["__class__", "os.path", "sys.argv", "subprocess", "subprocess.run"] {
            assert!(refused(edit("replace", path, json!(1))).contains("forbidden"), "{path}");
        }
        assert!(refused(edit("update", "b", json!(null))).contains("new_value"));
        assert!(refused(edit("insert", "a.b", json!(1))).contains("not an object"));
        assert!(refused(edit("delete", "b", json!(null))).contains("nothing"));
        assert!(refused(edit("delete", "b.c", json!(null))).contains("nothing"));
    }

    fn judged(confidence: f64, edits: &[Value], made: &[Value]) -> (bool, f64, &'static str) {
        let Value::Object(proposal) = json!({ "confidence": confidence, "edits": edits }) else { panic!("an object") };
        let made: Vec<_> = made.iter().map(|edit| Edit::read(edit).expect("the edit is valid")).collect();
        let verdict = review(&proposal, &made, 0.3);
        assert_eq!(verdict.approved && verdict.risk_level == "low", verdict.reasons.is_empty(), "{verdict:?}");
        (verdict.approved, verdict.confidence_adjusted, verdict.risk_level)
    }

    #[test]
    fn a_review_weighs_confidence_contradictions_and_repetitions() {
        let (one, other) = (edit("replace", "a", json!(1)), edit("replace", "a", json!(2)));
        let one = std::slice::from_ref(&one);
        assert_eq!(judged(0.5, one, &[]), (true, 0.5, "low"));
        assert_eq!(judged(0.2, one, &[]), (false, 0.1, "high"));
        assert_eq!(judged(1.0, &[one[0].clone(), other.clone()], &[]), (false, 0.5, "high"));
        assert_eq!(judged(1.0, &[one[0].clone(), one[0].clone()], &[]), (true, 1.0, "low"));
        assert_eq!(judged(0.5, one, one), (true, 0.4, "medium"));
        assert_eq!(judged(0.3, one, one), (false, 0.24, "medium"));
        assert_eq!(judged(0.5, one, &[other]), (true, 0.5, "low"));
        assert_eq!(judged(0.9, &[], &[]), (false, 0.9, "low"));
    }
}
