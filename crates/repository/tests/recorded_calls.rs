//! Replays calls that were recorded with fluxloop-mcp 0.1.3 over the sample repositories: every field that it answered with
//! is in our answer too, with the same type. Where we differ on purpose, the table says which of its defects that avoids.

mod common;

use std::path::Path;

use gladhand_repository::{RepositoryError, tool};
use serde_json::Value;

/// Calls whose answer differs on purpose: file, id, and why.
const DIFFERS: [(&str, &str, &str); 33] = [
    ("05", "bad-manifest", "one odd package.json fails the whole scan"),
    ("05", "null", "null is the same as nothing"),
    ("05", "int", "a parameter of the wrong type is named"),
    ("05", "list", "a parameter of the wrong type is named"),
    ("05", "nul", "a path that cannot be is named"),
    ("05", "tilde-user", "a folder that is not there is told like any other"),
    ("07", "11", "a parameter of the wrong type is named"),
    ("07", "12", "a parameter of the wrong type is named"),
    ("07", "13", "a parameter of the wrong type is named"),
    ("07", "14", "null is the same as nothing"),
    ("07", "15", "a parameter of the wrong type is named"),
    ("07", "16", "a parameter of the wrong type is named"),
    ("07", "17", "a parameter of the wrong type is named"),
    ("08", "django", "Django has a recipe"),
    ("08", "flask", "Flask has a recipe"),
    ("08", "langchain", "LangChain has a recipe"),
    ("08", "int", "a parameter of the wrong type is named"),
    ("08", "prof-5", "a parameter of the wrong type is named"),
    ("08", "prof-6", "a parameter of the wrong type is named"),
    ("09", "p-django-app-django", "Django has a recipe"),
    ("09", "int-root", "a parameter of the wrong type is named"),
    ("10", "path-int", "a wrong type within a plan is an issue"),
    ("10", "payload-list", "a wrong type within a plan is an issue"),
    ("10", "pattern-int", "a wrong type within a plan is an issue"),
    ("11", "nextjs-app", "Next.js gets a plan for Next.js, not one for Express with an import"),
    ("11", "langgraph-agent", "an agent gets a plan for agents, not one for FastAPI with an import"),
    ("11", "django-app", "Django gets a plan for Django, not one for FastAPI with an import"),
    ("11", "messy", "a tree without a framework gets no plan"),
    ("12", "no-question", "a workflow needs no question"),
    ("12", "blank-question", "a workflow needs no question"),
    ("12", "int-question", "a parameter of the wrong type is named"),
    ("12", "targets-string", "a text is not a list of its letters"),
    ("12", "bad-manifest", "one odd package.json fails the whole scan"),
];

#[test]
fn recorded_calls_get_the_same_fields() {
    let samples = samples();
    let root = samples.path().canonicalize().unwrap();
    let mut calls = 0;
    let mut failures = Vec::new();
    for (file, id, name, arguments, recorded) in exchanges(&root) {
        let Some(tool) = tool(&name) else { continue };
        calls += 1;
        let ours = common::within(&root.join("express-app"), |setting| tool.call(arguments, setting));
        let differs = DIFFERS.iter().find(|(in_file, with_id, _)| file.starts_with(in_file) && *with_id == id);
        let wrong = match (&ours, recorded.pointer("/result/data"), recorded.get("error")) {
            (Ok(answer), Some(data), _) => {
                let answer: Value = serde_json::from_str(answer.get()).unwrap();
                missing("data", data, &answer)
            }
            (Err(error), None, Some(recorded)) => same_error(error, recorded),
            (ours, ..) => Some(format!("{ours:?} instead of {recorded}")),
        };
        match (wrong, differs) {
            (Some(wrong), None) => failures.push(format!("{file} {id}: {wrong}")),
            (None, Some((.., why))) => failures.push(format!("{file} {id} does not differ any more: {why}")),
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(calls > 100, "only {calls} calls were replayed");
}

fn samples() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("the fixture is sound");
    for entry in std::fs::read_dir(common::folder("tests/samples")).expect("the fixture is sound").flatten() {
        let name = entry.path().file_stem().expect("the fixture is sound").to_string_lossy().into_owned();
        common::write_tree(
            &std::fs::read_to_string(entry.path()).expect("the fixture is sound"),
            &folder.path().join(name),
        );
    }
    folder
}

type Exchange = (String, String, String, Value, Value);

/// Every call with its recorded answer.
fn exchanges(root: &Path) -> Vec<Exchange> {
    let mut found = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(common::folder("tests/recorded"))
        .expect("the fixture is sound")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort_unstable();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "ndjson")) {
        let text =
            std::fs::read_to_string(file).expect("the fixture is sound").replace("<SAMPLES>", &root.to_string_lossy());
        let messages: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get("msg").cloned()).collect();
        for pair in messages.chunks_exact(2) {
            let mut call = pair[0].as_object().expect("the fixture is sound").clone();
            let id = call
                .remove("id")
                .map_or_else(String::new, |id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
            let name = call.remove("tool").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
            let file = file.file_name().expect("the fixture is sound").to_string_lossy().into_owned();
            found.push((file, id, name, Value::Object(call), pair[1].clone()));
        }
    }
    found
}

/// The first field of the recorded answer that ours lacks or has with another type.
fn missing(path: &str, recorded: &Value, ours: &Value) -> Option<String> {
    match (recorded, ours) {
        (Value::Object(recorded), Value::Object(ours)) => {
            recorded.iter().find_map(|(key, value)| match ours.get(key) {
                None => Some(format!("{path}.{key} is missing")),
                Some(ours) => missing(&format!("{path}.{key}"), value, ours),
            })
        }
        (Value::Array(recorded), Value::Array(ours)) => missing(&format!("{path}[]"), recorded.first()?, ours.first()?),
        (Value::Null, _) | (_, Value::Null) => None,
        (recorded, ours) if std::mem::discriminant(recorded) == std::mem::discriminant(ours) => None,
        _ => Some(format!("{path} has another type")),
    }
}

fn same_error(ours: &RepositoryError, recorded: &Value) -> Option<String> {
    let same = recorded["code"] == ours.code() && recorded["message"] == ours.to_string();
    (!same).then(|| format!("{} {ours} instead of {recorded}", ours.code()))
}
