//! A recording of the loaf server, and what the services said meanwhile.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::rules;
use crate::replay::{Difference, recordings_of, text_of};

/// One thing that happens, and the line of the file it stands in.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) what: What,
    /// As it was recorded, for the order of members.
    pub(super) text: String,
}

/// One step of a recording.
#[derive(Debug)]
pub(super) enum What {
    /// The server starts, in folders with these files.
    Start(BTreeMap<String, String>),
    Send(String),
    Expect(Value),
    /// A service continues with the part that it held back.
    Release(String),
    /// The browser of the person who signs in goes there.
    Browse(String),
    /// The page that the browser receives: status, text, and the redirect target.
    Shown(u16, String, Option<String>),
    /// A file has this content.
    File(String, String),
    CloseInput,
    Signal(Signal),
    Exit(i32),
}

#[derive(Deserialize)]
struct Line<'a> {
    dir: &'a str,
    #[serde(borrow)]
    msg: Option<&'a RawValue>,
    raw: Option<String>,
    event: Option<&'a str>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    gate: Option<String>,
    query: Option<String>,
    status: Option<u16>,
    body: Option<String>,
    location: Option<String>,
    path: Option<String>,
    content: Option<String>,
    name: Option<String>,
    code: Option<i32>,
}

/// The steps of a recording, with our differences from it. Says which of them it used.
pub(super) fn steps_of(file: &str, table: &[Difference]) -> (Vec<Step>, Vec<usize>) {
    let text = rules::rewritten(file, text_of(&recordings_of("loaf").join(format!("{file}.ndjson"))));
    let (mut steps, mut used) = (Vec::new(), Vec::new());
    for (at, text) in text.lines().enumerate() {
        let line = at + 1;
        let recorded: Line<'_> = serde_json::from_str(text).unwrap_or_else(|error| panic!("{file}:{line}: {error}"));
        let difference = table.iter().position(|entry| entry.file == file && entry.line == line);
        used.extend(difference);
        let Some(mut what) = what_of(recorded) else { continue };
        if let What::Expect(answer) = &mut what {
            rules::recorded(answer);
        }
        let instead = match difference.map(|at| &table[at]) {
            None => vec![what],
            Some(difference) => match (what, &difference.instead) {
                (What::Expect(answer), _) => difference.applied_to(answer).into_iter().map(What::Expect).collect(),
                (What::File(path, content), None) => {
                    // A file is told apart by its lines.
                    let line = |line: &str| serde_json::from_str::<Value>(line).expect("a line of JSON");
                    let lines = difference.applied_to(content.lines().map(line).collect());
                    let lines = lines.iter().filter_map(Value::as_array).flatten();
                    let content: String = lines.map(|line| format!("{line}\n")).collect();
                    vec![What::File(path, content)]
                }
                (what @ What::Send(_), Some(answers)) => {
                    std::iter::once(what).chain(answers.iter().cloned().map(What::Expect)).collect()
                }
                (_, Some(answers)) => answers.iter().cloned().map(What::Expect).collect(),
                (what, None) => vec![what],
            },
        };
        steps.extend(instead.into_iter().map(|what| Step { line, what, text: text.to_owned() }));
    }
    (steps, used)
}

fn what_of(line: Line<'_>) -> Option<What> {
    let said = line.msg.map(|said| said.get().to_owned());
    Some(match (line.dir, line.event) {
        ("c2s", _) => What::Send(line.raw.unwrap_or_else(|| said.unwrap_or_default() + "\n")),
        ("s2c", _) => What::Expect(serde_json::from_str(&said?).expect("an answer")),
        (_, Some("start")) => What::Start(line.files),
        (_, Some("provider_released")) => What::Release(line.gate?),
        (_, Some("http_to_callback")) => What::Browse(line.query?),
        (_, Some("http_from_callback")) => What::Shown(line.status?, line.body?, line.location),
        (_, Some("file")) => What::File(line.path?, line.content?),
        (_, Some("stdin_close")) => What::CloseInput,
        (_, Some("signal")) if line.name.as_deref() == Some("SIGINT") => What::Signal(Signal::INT),
        (_, Some("signal")) => What::Signal(Signal::TERM),
        (_, Some("exit")) => What::Exit(line.code?),
        // §19.1 row 1, and §19.2, pending login delays exit: where the reference lives on, ours has ended.
        (_, Some("alive_check" | "killed_by_recorder")) => What::Exit(0),
        _ => return None,
    })
}

/// The answers of the services, one line each.
pub(super) fn services_of(file: &str) -> String {
    let text = std::fs::read_to_string(recordings_of("loaf").join(format!("provider/{file}.ndjson")));
    rules::rewritten(file, text.unwrap_or_default())
}
