//! The results that are worse in one session than in another.

use serde_json::{Map, Value, json};

/// The revision without a handshake. The results of its clients differ in form.
const STATELESS: &str = "2026-07-28";

/// The trials that work directly, and not in the same way through us.
pub(super) fn worse(trials: &[Value], direct: &Map<String, Value>, through: &Map<String, Value>) -> Vec<String> {
    let nothing = Value::Null;
    let names = trials.iter().map(|trial| trial["name"].as_str().expect("a trial has a name"));
    let is_other_era = is_other_era(direct, through);
    let is_open = is_open(direct);
    let compared = trials.iter().zip(names).filter_map(|(trial, name)| {
        let [before, after] = [direct, through].map(|seen| seen.get(name).unwrap_or(&nothing));
        let could_not_ask = trial.get("asks").is_some() && before["result"]["isError"] == true;
        let is_done = works(before) || is_open && trial["fails"] == true;
        if !is_done || could_not_ask || is_other_era && !exists_in_both_eras(trial) {
            return None;
        }
        let [before, after] = [before, after].map(|seen| shown(trial, seen, is_other_era));
        let is_kept = match trial["do"].as_str() {
            // A client that could fall back to the handshake need not.
            Some("open") => before == after || after == STATELESS,
            // More may be declared, and more may be told, than directly.
            Some("capabilities" | "change") => is_in(&before, &after),
            _ => before == after,
        };
        (!is_kept).then(|| format!("{name}:\n    direct:  {before}\n    through: {after}"))
    });
    compared.collect()
}

fn is_open(seen: &Map<String, Value>) -> bool {
    seen.get("open").is_some_and(works)
}

/// Whether the client speaks one era directly and the other through us.
pub(super) fn is_other_era(direct: &Map<String, Value>, through: &Map<String, Value>) -> bool {
    is_open(direct) && is_stateless(direct) != is_stateless(through)
}

fn is_stateless(seen: &Map<String, Value>) -> bool {
    seen.get("open").is_some_and(|revision| revision == STATELESS)
}

/// Whether a trial does something that has a place in either era: the level of log lines is set in one only.
pub(super) fn exists_in_both_eras(trial: &Value) -> bool {
    trial.get("level").is_none()
}

/// Whether something was seen, and it is not that the trial failed.
pub(super) fn works(seen: &Value) -> bool {
    match seen {
        Value::Null => false,
        Value::Array(seen) => !seen.is_empty(),
        Value::Object(seen) => !(seen.is_empty() || seen.len() == 1 && seen.contains_key("error")),
        _ => true,
    }
}

/// The result of a client, without values that differ from session to session and without explicit defaults.
fn shown(trial: &Value, seen: &Value, is_other_era: bool) -> Value {
    if trial["is_random"] == true {
        return json!(works(seen));
    }
    let mut seen = seen.clone();
    if let Some(asked) = seen.get_mut("asked").and_then(Value::as_array_mut) {
        asked.retain(|question| question["kind"] == trial["asks"]);
    }
    if let Some(reports) = seen.get_mut("reports").and_then(Value::as_array_mut) {
        // Some clients lose a report that comes together with the reply.
        reports.retain(|report| report["progress"].as_f64() < report["total"].as_f64());
    }
    settle(&mut seen, is_other_era);
    seen
}

/// Takes defaults and volatile members out of a value.
fn settle(value: &mut Value, is_other_era: bool) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| settle(element, is_other_era)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| settle(member, is_other_era));
            members.retain(|name, member| !(is_default(name, member) || is_other_era && is_of_one_era(name)));
        }
        Value::String(text) => {
            // A server that is asked who its client is answers with JSON. In the stateless era there is no word of changed
            // roots, which clients declare all the same.
            if let Ok(mut inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(text) {
                if let Some(roots) = inner.pointer_mut("/capabilities/roots") {
                    *roots = json!({});
                }
                settle(&mut inner, is_other_era);
                *value = inner;
            } else if let Some((before, _)) = text.split_once("created at ") {
                *text = before.to_owned();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a member says no more than its absence, or is another in each session.
fn is_default(name: &str, member: &Value) -> bool {
    match name {
        "isError" | "required" | "listChanged" | "subscribe" => member == false,
        "description" => member == "",
        "taskSupport" => member == "forbidden",
        "resultType" => member == "complete",
        "experimental" | "execution" | "_meta" => member.as_object().is_some_and(Map::is_empty),
        // Who answered, on each answer of the stateless era; and the id of a task.
        "io.modelcontextprotocol/serverInfo" | "taskId" => true,
        _ => false,
    }
}

/// Whether a member exists in one of the eras only: the other has no ids of pages, and tasks are an extension there.
fn is_of_one_era(name: &str) -> bool {
    matches!(name, "elicitationId" | "execution" | "tasks" | "protocolVersion")
}

/// Whether everything in one value is in another: members, and what is true.
fn is_in(less: &Value, more: &Value) -> bool {
    match (less, more) {
        (Value::Object(less), Value::Object(more)) => {
            less.iter().all(|(name, value)| more.get(name).is_some_and(|other| is_in(value, other)))
        }
        (Value::Bool(false), Value::Bool(_)) => true,
        _ => less == more,
    }
}

#[test]
fn lost_and_changed_results_are_worse_and_defaults_are_not() {
    let trials = [
        json!({"name": "open", "do": "open"}),
        json!({"name": "call", "do": "call", "asks": "elicit"}),
        json!({"name": "capabilities", "do": "capabilities"}),
        json!({"name": "log", "do": "log", "level": "error"}),
    ];
    let seen = |open: &str, call: Value, capabilities: Value, log: Value| {
        let Value::Object(seen) = json!({"open": open, "call": call, "capabilities": capabilities, "log": log}) else {
            panic!("an object")
        };
        seen
    };
    let worse_names = |direct: &Map<String, Value>, through: &Map<String, Value>| {
        let worse = worse(&trials, direct, through);
        worse.iter().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let call = |text: &str| json!({"result": {"content": text, "isError": false}, "asked": [{"kind": "roots"}]});
    let direct = seen("2025-11-25", call("a"), json!({"tools": {"listChanged": false}}), json!(["line"]));
    let same = json!({"result": {"content": "a"}, "asked": []});
    let more = json!({"tools": {"listChanged": true}, "logging": {}});
    assert_eq!(worse_names(&direct, &seen("2025-11-25", same.clone(), more.clone(), json!(["line"]))), [""; 0]);
    assert_eq!(worse_names(&direct, &seen(STATELESS, same.clone(), more, json!({"error": "no level"}))), [""; 0]);
    let lost = seen("2025-06-18", call("b"), json!({}), json!([]));
    assert_eq!(worse_names(&direct, &lost), ["open", "call", "capabilities", "log"]);
    assert_eq!(worse_names(&seen("2025-11-25", json!({"error": "x"}), json!({}), json!([])), &direct), [""; 0]);
}
