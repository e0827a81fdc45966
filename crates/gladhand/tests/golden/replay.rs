//! Replays a recording against a process and compares what comes back, line by line.
//!
//! Three things may differ from a recording. Members that vary from run to run (times, durations,
//! texts for people) are compared by JSON type only; each dialect lists them. Random names (session
//! ids, message ids) are bound when first seen and must then be used consistently; they are put
//! into the lines that the client sends later. Everything else that differs on purpose stands in
//! `differences/<dialect>.ndjson`, one entry per line of a recording, with the section of the spec
//! that says so and exactly what is answered instead. An entry that no longer applies is a failure.

use std::collections::BTreeMap;
use std::process::Command;

use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::support::Process;

/// How recordings of one dialect are read and compared.
pub(crate) struct Rules {
    /// The folder of its recordings, and the name of its file of differences.
    pub(crate) dialect: &'static str,
    /// Members compared by JSON type only: a name means it anywhere, a JSON pointer one place.
    pub(crate) varies: &'static [&'static str],
    /// Texts whose rest depends on the JSON parser.
    pub(crate) parser_texts: &'static [&'static str],
    /// How the names of recordings begin that are played by tests of their own.
    pub(crate) elsewhere: &'static [&'static str],
    /// Whether answers come in the order of the requests.
    pub(crate) in_order: bool,
    /// The `type`s of messages that come when they come: in their order, but before or after any answer.
    pub(crate) apart: &'static [&'static str],
    /// Applies the differences of every recorded answer: additional members, our own name.
    pub(crate) standing: fn(&mut Value),
}

/// One run: a recording and the command that it is played to.
pub(crate) struct Run {
    pub(crate) file: &'static str,
    /// Under which the table of differences knows it: the file, unless it is rewritten.
    pub(crate) name: &'static str,
    pub(crate) command: Command,
    /// The line end of lines that the client sends.
    pub(crate) line_end: &'static str,
    /// Changes the recording before it is played, such as into another form of the dialect.
    pub(crate) rewrite: fn(Vec<Item>) -> Vec<Item>,
    /// Placeholders in the recording, such as that for a folder.
    pub(crate) names: BTreeMap<String, String>,
    /// An action to run after this line has been sent.
    pub(crate) then: Option<(usize, Box<dyn Fn()>)>,
}

impl Run {
    /// A recording as it is.
    pub(crate) fn new(file: &'static str, command: Command) -> Self {
        let (names, rewrite) = (BTreeMap::new(), |items| items);
        Self { file, name: file, command, line_end: "\n", rewrite, names, then: None }
    }
}

/// One thing that happens in a recording, and the line of the file it stands in.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Send(usize, Vec<u8>),
    Expect(usize, Value),
    CloseInput,
    Signal(Signal),
    Exit(i32),
}

/// A line of a recording, as the file has it.
#[derive(Deserialize)]
pub(crate) struct RecordedLine<'a> {
    pub(crate) dir: &'a str,
    #[serde(borrow, default, deserialize_with = "even_null")]
    pub(crate) msg: Option<&'a RawValue>,
    pub(crate) raw: Option<String>,
    pub(crate) raw_hex: Option<String>,
    pub(crate) event: Option<String>,
    name: Option<String>,
    code: Option<i32>,
}

/// A message may be the value `null`, which is not an absent message.
fn even_null<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// An entry of `differences/<dialect>.ndjson`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    pub(crate) file: String,
    /// The recorded answer that differs, or the sent line that is answered although it was not.
    pub(crate) line: usize,
    /// Which section says so.
    pub(crate) spec: String,
    /// Answered with this instead (nothing: not answered), or answered at all.
    #[serde(default)]
    pub(crate) instead: Option<Vec<Value>>,
    /// Only these members differ: JSON pointer and value.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// These members are absent.
    #[serde(default)]
    unset: Vec<String>,
}

impl Difference {
    /// The expected answers in place of a recorded one.
    pub(crate) fn applied_to(&self, mut answer: Value) -> Vec<Value> {
        if let Some(answers) = &self.instead {
            return answers.clone();
        }
        let before = answer.clone();
        for (pointer, value) in &self.set {
            place(&mut answer, pointer, Some(value.clone()));
        }
        for pointer in &self.unset {
            place(&mut answer, pointer, None);
        }
        assert_ne!(answer, before, "{}:{} is in the table and makes no difference", self.file, self.line);
        vec![answer]
    }
}

/// The differences of a dialect.
pub(crate) fn differences(dialect: &str) -> Vec<Difference> {
    let table = text_of(&here(&format!("differences/{dialect}.ndjson")));
    let table = table.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    table.collect()
}

/// Mistakes in a table: unused entries, and entries without a reason.
pub(crate) fn idle_differences(table: &[Difference], is_used: impl Fn(usize) -> bool) -> Vec<String> {
    let unused =
        table.iter().enumerate().filter(|(at, _)| !is_used(*at)).map(|(_, entry)| (entry, "makes no difference"));
    let unreasoned = table.iter().filter(|entry| !entry.spec.contains('§'));
    let unreasoned = unreasoned.map(|entry| (entry, "does not say which section of the spec it is by"));
    unused
        .chain(unreasoned)
        .map(|(entry, what)| format!("{}:{} is in the table and {what}", entry.file, entry.line))
        .collect()
}

/// The path of a file beside this one.
pub(crate) fn here(path: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path)
}

/// The folder of a dialect's recordings.
pub(crate) fn recordings_of(dialect: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts").join(dialect)
}

/// The text of a file.
pub(crate) fn text_of(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Plays recordings; fails with everything that is not as recorded. Every difference must be used.
pub(crate) fn play(rules: &Rules, runs: Vec<Run>) {
    let table = differences(rules.dialect);
    let mut problems = Vec::new();
    let mut used = vec![false; table.len()];
    for file in recordings(rules.dialect) {
        let is_played = runs.iter().any(|run| run.file == file);
        if !is_played && !rules.elsewhere.iter().any(|beginning| file.starts_with(beginning)) {
            problems.push(format!("{file} is recorded and not played"));
        }
    }
    for run in runs {
        let items = (run.rewrite)(recorded(rules, run.file));
        let items = with_differences(run.name, items, rules, &table, &mut used);
        let mut player = Player {
            process: Process::start(run.command),
            rules,
            file: run.name,
            names: run.names,
            sent: String::new(),
            early: Vec::new(),
            then: run.then,
            problems: &mut problems,
        };
        player.play(items, run.line_end);
    }
    problems.extend(idle_differences(&table, |at| used[at]));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// The names of all recordings of a dialect.
pub(crate) fn recordings(dialect: &str) -> Vec<String> {
    let folder = std::fs::read_dir(recordings_of(dialect)).expect("a folder of recordings");
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".ndjson").map(str::to_owned)).collect()
}

/// The items of a recording.
pub(crate) fn recorded(rules: &Rules, file: &str) -> Vec<Item> {
    let text = text_of(&recordings_of(rules.dialect).join(format!("{file}.ndjson")));
    let item = |(at, line): (usize, &str)| {
        let at = at + 1;
        let line: RecordedLine<'_> = serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}:{at}: {error}"));
        let mut bytes = match (line.msg, line.raw, line.raw_hex) {
            (Some(msg), ..) => msg.get().as_bytes().to_vec(),
            (_, Some(raw), _) => raw.into_bytes(),
            (_, _, Some(hex)) => unhex(&hex),
            _ => Vec::new(),
        };
        match (line.dir, line.event.as_deref()) {
            ("c2s", _) => {
                bytes.push(b'\n');
                Some(Item::Send(at, bytes))
            }
            ("s2c", _) if bytes.is_empty() => None, // The reference died here; we do not.
            ("s2c", _) => Some(Item::Expect(at, serde_json::from_slice(&bytes).expect("an answer"))),
            (_, Some("stdin_close" | "stdin-closed")) => Some(Item::CloseInput),
            (_, Some("signal")) => Some(Item::Signal(match line.name.as_deref() {
                Some("SIGINT") => Signal::INT,
                _ => Signal::TERM,
            })),
            (_, Some("exit")) => line.code.map(Item::Exit),
            _ => None,
        }
    };
    text.lines().enumerate().filter_map(item).collect()
}

/// The bytes that hex digits stand for.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().map(|digit| digit.to_digit(16).expect("a hex digit")).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("a byte")).collect()
}

fn with_differences(file: &str, items: Vec<Item>, rules: &Rules, table: &[Difference], used: &mut [bool]) -> Vec<Item> {
    let mut changed = Vec::new();
    for item in items {
        let entry = |line: usize| table.iter().position(|entry| entry.file == file && entry.line == line);
        let line = match &item {
            Item::Send(line, _) | Item::Expect(line, _) => *line,
            _ => 0,
        };
        let entry = entry(line).map(|at| {
            used[at] = true;
            &table[at]
        });
        match (item, entry) {
            (Item::Expect(_, mut answer), entry) => {
                (rules.standing)(&mut answer);
                let answers = entry.map_or_else(|| vec![answer.clone()], |entry| entry.applied_to(answer.clone()));
                changed.extend(answers.into_iter().map(|answer| Item::Expect(line, answer)));
            }
            (item @ Item::Send(..), Some(Difference { instead: Some(answers), .. })) => {
                changed.push(item);
                changed.extend(answers.iter().map(|answer| Item::Expect(line, answer.clone())));
            }
            (item, _) => changed.push(item),
        }
    }
    changed
}

/// Puts a value at a JSON pointer, or takes the member away.
fn place(root: &mut Value, pointer: &str, value: Option<Value>) {
    let (parent, name) = pointer.rsplit_once('/').expect("a JSON pointer");
    let parent = root.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent}"));
    match (parent, value) {
        (Value::Object(members), Some(value)) => drop(members.insert(name.to_owned(), value)),
        (Value::Object(members), None) => drop(members.remove(name).expect("a member to take away")),
        (Value::Array(items), Some(value)) => items[name.parse::<usize>().expect("an index")] = value,
        _ => panic!("nothing at {pointer}"),
    }
}

struct Player<'p> {
    process: Process,
    rules: &'p Rules,
    file: &'static str,
    /// Recorded random names and what they are in this run.
    names: BTreeMap<String, String>,
    /// Everything the recorded client sent: names that it chose are no random names of ours.
    sent: String,
    /// Messages that may arrive at any time and have not been expected yet.
    early: Vec<Value>,
    then: Option<(usize, Box<dyn Fn()>)>,
    problems: &'p mut Vec<String>,
}

impl Player<'_> {
    fn play(&mut self, items: Vec<Item>, line_end: &str) {
        let mut items = items.into_iter().peekable();
        let mut ended = false;
        while let Some(item) = items.next() {
            match item {
                Item::Send(line, bytes) => {
                    // Lines that were sent together are answered together, in any order.
                    let mut lines = 1;
                    self.send(line, bytes, line_end);
                    while let Some(Item::Send(line, bytes)) = items.next_if(|item| matches!(item, Item::Send(..))) {
                        self.send(line, bytes, line_end);
                        lines += 1;
                    }
                    let mut expected = Vec::new();
                    while let Some(Item::Expect(line, value)) = items.next_if(|item| matches!(item, Item::Expect(..))) {
                        expected.push((line, value));
                    }
                    self.compare(expected, lines > 1 && !self.rules.in_order);
                }
                Item::Expect(line, value) => self.compare(vec![(line, value)], false),
                Item::CloseInput => self.process.close(),
                Item::Signal(signal) => self.process.signal(signal),
                Item::Exit(code) => {
                    ended = true;
                    let status = self.process.wait();
                    if status.code() != Some(code) {
                        self.problems.push(format!("{}: ended with {status}, recorded {code}", self.file));
                    }
                }
            }
        }
        if !ended {
            self.process.close();
            let status = self.process.wait();
            if status.code() != Some(0) {
                self.problems.push(format!("{}: ended with {status}", self.file));
            }
        }
        let early = self.early.iter().map(Value::to_string);
        for line in early.chain(self.process.rest()) {
            self.problems.push(format!("{}: nobody expected {line}", self.file));
        }
    }

    fn send(&mut self, line: usize, mut bytes: Vec<u8>, line_end: &str) {
        self.sent.push_str(&String::from_utf8_lossy(&bytes));
        for (recorded, ours) in &self.names {
            if let Ok(text) = std::str::from_utf8(&bytes)
                && text.contains(recorded.as_str())
            {
                bytes = text.replace(recorded, ours).into_bytes();
            }
        }
        if line_end != "\n" && bytes.ends_with(b"\n") {
            bytes.pop();
            bytes.extend_from_slice(line_end.as_bytes());
        }
        // A session that said goodbye may be gone; whether it should be shows in what was answered.
        self.process.try_send_bytes(&bytes);
        if let Some((_, then)) = self.then.take_if(|(at, _)| *at == line) {
            then();
        }
    }

    fn compare(&mut self, mut expected: Vec<(usize, Value)>, in_any_order: bool) {
        for got in std::mem::take(&mut self.early) {
            if self.found(&mut expected, &got, in_any_order).is_err() {
                self.early.push(got);
            }
        }
        while !expected.is_empty() {
            let place = format!("{}:{}", self.file, expected[0].0);
            let Some(text) = self.process.line_within(crate::support::PATIENCE / 4) else {
                self.problems.push(format!("{place}: no answer came; expected {}", expected[0].1));
                return;
            };
            let Ok(got) = serde_json::from_str::<Value>(&text) else {
                self.problems.push(format!("{place}: not JSON: {text}"));
                return;
            };
            match self.found(&mut expected, &got, in_any_order) {
                Ok(()) => {}
                Err(_) if self.is_apart(&got) => self.early.push(got),
                Err(why) => {
                    self.problems.push(format!("{place}: {why}\n  expected {}\n  got      {got}", expected[0].1));
                    expected.remove(0);
                }
            }
        }
    }

    /// Takes what came out of what is expected; or says how it differs from the first that it could have been.
    fn found(&mut self, expected: &mut Vec<(usize, Value)>, got: &Value, in_any_order: bool) -> Result<(), String> {
        let is_apart = self.is_apart(got);
        let could_be = |value: &Value| {
            self.is_apart(value) == is_apart && (!is_apart || value.get("stream_type") == got.get("stream_type"))
        };
        let candidates = (0..expected.len()).filter(|at| could_be(&expected[*at].1));
        let candidates: Vec<_> = candidates.take(if in_any_order && !is_apart { usize::MAX } else { 1 }).collect();
        let mut first = None;
        for at in candidates {
            let mut names = self.names.clone();
            match self.same(&expected[at].1, got, "", &mut names) {
                Ok(()) => {
                    self.names = names;
                    expected.remove(at);
                    return Ok(());
                }
                Err(why) => drop(first.get_or_insert(why)),
            }
        }
        Err(first.unwrap_or_else(|| "nobody expected it".to_owned()))
    }

    fn is_apart(&self, message: &Value) -> bool {
        message["type"].as_str().is_some_and(|kind| self.rules.apart.contains(&kind))
    }

    fn same(
        &self,
        expected: &Value,
        got: &Value,
        path: &str,
        names: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        let differ = |what: &str| Err(format!("{path}: {what}: expected {expected}, got {got}"));
        let member = path.rsplit('/').next().unwrap_or_default();
        if self.rules.varies.iter().any(|varies| *varies == member || *varies == path) {
            return if kind(expected) == kind(got) { Ok(()) } else { differ("another type") };
        }
        match (expected, got) {
            (Value::Object(expected), Value::Object(members)) => {
                let keys = |members: &serde_json::Map<String, Value>| {
                    members.keys().cloned().collect::<std::collections::BTreeSet<_>>()
                };
                if keys(expected) != keys(members) {
                    return differ("other members");
                }
                expected
                    .iter()
                    .try_for_each(|(name, value)| self.same(value, &members[name], &format!("{path}/{name}"), names))
            }
            (Value::Array(expected), Value::Array(items)) if expected.len() == items.len() => {
                let pairs = expected.iter().zip(items).enumerate();
                pairs
                    .into_iter()
                    .try_for_each(|(at, (value, item))| self.same(value, item, &format!("{path}/{at}"), names))
            }
            (Value::String(recorded), Value::String(ours)) if is_random(recorded) && !self.sent.contains(recorded) => {
                match names.insert(recorded.clone(), ours.clone()) {
                    Some(before) if before != *ours => differ("a name that changed"),
                    _ if ours.is_empty() => differ("a name that is empty"),
                    _ => Ok(()),
                }
            }
            (Value::String(recorded), Value::String(ours))
                if self.rules.parser_texts.iter().any(|text| recorded.starts_with(text) && ours.starts_with(text)) =>
            {
                Ok(())
            }
            (Value::String(recorded), Value::String(ours)) => {
                // A name that the server gave and that comes back.
                let recorded = names.get(recorded).unwrap_or(recorded);
                if recorded == ours { Ok(()) } else { differ("another text") }
            }
            _ if expected == got => Ok(()),
            _ => differ("another value"),
        }
    }
}

pub(crate) fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// Whether a text is made up of random digits: a UUID with or without its dashes, or one of the shorter ids of A2E.
fn is_random(text: &str) -> bool {
    let is_hex = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uuid = || text.matches('-').count() == 4 && is_hex(&text.replace('-', ""), 32);
    let is_subagent = || text.strip_prefix("sub_").is_some_and(|digits| is_hex(digits, 8));
    is_hex(text, 32) || is_hex(text, 12) || is_uuid() || is_subagent()
}
