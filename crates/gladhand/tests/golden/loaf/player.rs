//! Plays a recording to a server and compares what comes back.
//!
//! Answers are found by their id, and events by what they are about: those of one session come in the recorded order,
//! and so do those about the state and about a login. The order of all other lines is open (§2.5), with one exception.
//! Events that a request causes while nothing else runs come before its answer, and the turn that it starts comes
//! afterwards.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use gladhand_models::scripted::{Script, ScriptedProvider};
use serde_json::Value;
use tokio::runtime::Handle;

use super::order::{order_of_members, other_order};
use super::recording::{Step, What};
use super::rules::{self, conversation};
use super::same::{Names, same, without_digits};
use super::stage::Stage;
use crate::support::{PATIENCE, Process};

/// How many lines ahead one is looked for that came instead of the next.
const AHEAD: usize = 8;

/// One play of a recording.
pub(super) struct Player<'p> {
    pub(super) file: &'p str,
    pub(super) stage: Stage,
    pub(super) provider: ScriptedProvider,
    /// Replies with names in them that are not known yet.
    pub(super) held_back: String,
    /// The path that is asked, and is holding its first answer back.
    pub(super) held_path: Option<String>,
    pub(super) services: Handle,
    pub(super) problems: Vec<String>,
    process: Option<Process>,
    names: Names,
    lanes: BTreeMap<String, VecDeque<(usize, Value)>>,
    heard: BTreeSet<usize>,
    /// The recorded answers as they were written.
    written: BTreeMap<usize, String>,
    /// Lines that have to be heard before a line.
    before: BTreeMap<usize, Vec<usize>>,
    url: String,
    shown: Option<(u16, String, Option<String>)>,
    patience: Duration,
}

impl<'p> Player<'p> {
    pub(super) fn new(file: &'p str, stage: Stage, services: Handle, recorded: &str) -> Self {
        let recorded = stage.ours(recorded);
        // From the first reply on that names what only this run can name.
        let names_background =
            |line: &str| line.split_once("\"response\":").is_some_and(|(_, reply)| reply.contains("bg-"));
        let at = recorded.split_inclusive('\n').take_while(|line| !names_background(line)).map(str::len).sum();
        let script = Script::of_recording(&recorded[..at]).expect("a recording of services");
        let held_path =
            script.routes.iter().find(|route| route.replies.first().is_some_and(|reply| reply.gate.is_some()));
        let held_path = held_path.map(|route| route.path.clone());
        let provider = services.block_on(ScriptedProvider::start(script)).expect("a port is free");
        Self {
            file,
            stage,
            provider,
            held_back: recorded[at..].to_owned(),
            held_path,
            services,
            problems: Vec::new(),
            process: None,
            names: Names::default(),
            lanes: BTreeMap::new(),
            heard: BTreeSet::new(),
            written: BTreeMap::new(),
            before: BTreeMap::new(),
            url: String::new(),
            shown: None,
            patience: PATIENCE / 2,
        }
    }

    /// Plays it all, and returns what was not as recorded. `services` is what was recorded of them.
    pub(super) fn play(mut self, steps: Vec<Step>, services: &str) -> Vec<String> {
        self.before = causes_of(&steps);
        for step in &steps {
            if let What::Expect(message) = &step.what {
                let lane = lane_of(message, str::to_owned);
                self.lanes.entry(lane).or_default().push_back((step.line, message.clone()));
                self.written.insert(step.line, step.text.clone());
            }
        }
        let mut has_sent = false;
        for Step { line, what, .. } in steps {
            if !matches!(what, What::Expect(_))
                && has_sent
                && let Some(path) = self.held_path.take()
            {
                self.wait_until_asked(&path);
            }
            match what {
                What::Start(files) => {
                    let command = self.stage.set(&files, self.provider.origin());
                    self.process = Some(Process::start(command));
                }
                What::Send(text) => {
                    has_sent |= text.contains("session.send");
                    self.send(&text);
                }
                What::Expect(message) => self.hear_up_to(line, &message),
                What::Release(gate) => self.provider.release(&gate),
                What::Browse(query) => self.browse(&query),
                What::Shown(status, text, location) => self.compare_page(line, (status, text, location)),
                What::File(path, content) => self.compare_file(line, &path, &content),
                What::CloseInput => self.process().close(),
                What::Signal(signal) => self.process().signal(signal),
                What::Exit(code) => self.expect_end(line, code),
            }
        }
        self.compare_conversations(services);
        self.problems
    }

    /// Whether the models were asked as often as recorded, and told the same.
    fn compare_conversations(&mut self, services: &str) {
        let mut asked: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for recorded in services.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if let Some(said) = conversation(&recorded["body"]) {
                let path = recorded["path"].as_str().unwrap_or_default();
                asked.entry(path.to_owned()).or_default().push(said);
            }
        }
        for (path, recorded) in asked {
            let got: Vec<_> =
                self.provider.requests_of(&path).iter().filter_map(|asked| conversation(&asked.body)).collect();
            if got.len() != recorded.len() {
                self.problem(0, format_args!("{path} was asked {} times, recorded {}", got.len(), recorded.len()));
            }
            let pairs = recorded.iter().zip(&got).enumerate().filter(|(at, _)| rules::is_compared(self.file, at + 1));
            for (at, (expected, got)) in pairs {
                let got = self.stage.recorded(&got.to_string(), self.provider.origin());
                let got = serde_json::from_str(&got).expect("JSON stays JSON");
                let mut names = self.names.clone();
                if let Err(why) = same(expected, &got, "", &mut names) {
                    self.problem(0, format_args!("{path}, request {}: {why}", at + 1));
                }
            }
        }
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("a recording begins with a start")
    }

    fn problem(&mut self, line: usize, what: impl std::fmt::Display) {
        self.problems.push(format!("{}:{line}: {what}", self.file));
    }

    fn wait_until_asked(&mut self, path: &str) {
        let asked = self.provider.wait_for_requests(path, 1);
        if self.services.block_on(async { tokio::time::timeout(PATIENCE, asked).await }).is_err() {
            self.problem(0, format_args!("{path} was never asked"));
        }
    }

    fn send(&mut self, text: &str) {
        if !self.held_back.is_empty() && self.names.know_all_of(&self.held_back) {
            let recorded = self.names.put_into(&std::mem::take(&mut self.held_back));
            for route in Script::of_recording(&recorded).expect("a recording of services").routes {
                route.replies.into_iter().for_each(|reply| self.provider.push(&route.path, reply));
            }
        }
        let text = self.stage.ours(&self.names.put_into(text));
        // One that said goodbye may be gone; whether it should be shows in what was answered.
        self.process().try_send_bytes(text.as_bytes());
    }

    fn hear_up_to(&mut self, line: usize, expected: &Value) {
        while !self.heard.contains(&line) {
            let patience = self.patience;
            match self.process().line_within(patience) {
                Some(text) => self.hear(&text),
                None => {
                    // One that is late once is not waited for as long again.
                    self.patience = Duration::from_millis(500);
                    self.problem(line, format_args!("nothing came; recorded {expected}"));
                    self.skip(line);
                }
            }
        }
    }

    fn skip(&mut self, line: usize) {
        self.heard.insert(line);
        self.lanes.values_mut().for_each(|lane| lane.retain(|(at, _)| *at != line));
    }

    fn hear(&mut self, text: &str) {
        if let Ok(got) = serde_json::from_str::<Value>(text)
            && let Some(url) = got.pointer("/params/payload/url").and_then(Value::as_str)
        {
            url.clone_into(&mut self.url);
        }
        let text = self.stage.recorded(text, self.provider.origin());
        let Ok(mut got) = serde_json::from_str::<Value>(&text) else {
            return self.problem(0, format_args!("not JSON: {text}"));
        };
        rules::heard(&mut got);
        let lane = lane_of(&got, |session| self.names.recorded(session).to_owned());
        let lane = self.lanes.entry(lane).or_default();
        // If the next expected line is of another kind, the search continues further on, so that one missing line is
        // one problem.
        let at = lane.iter().take(AHEAD).position(|(_, expected)| kind_of(expected) == kind_of(&got));
        let Some(at) = at else {
            let line = lane.front().map_or(0, |(line, _)| *line);
            return self.problem(line, format_args!("nobody expected {got}"));
        };
        let absent: Vec<_> = lane.drain(..at).collect();
        let (line, expected) = lane.pop_front().expect("it was found");
        for (line, expected) in absent {
            self.heard.insert(line);
            self.problem(line, format_args!("did not come: {expected}"));
        }
        let early = self.before.get(&line).into_iter().flatten().find(|before| !self.heard.contains(before)).copied();
        if let Some(before) = early {
            self.problem(line, format_args!("came before what line {before} has: {got}"));
        }
        self.heard.insert(line);
        let mut names = self.names.clone();
        if let Err(why) = same(&expected, &got, "", &mut names) {
            self.problem(line, format_args!("{}{why}", kind_of(&got)));
        }
        self.names = names;
        let written = self.written.get(&line).and_then(|written| order_of_members(written, "/msg"));
        if let Some(why) = written.and_then(|written| other_order(&written, &order_of_members(&text, "")?)) {
            self.problem(line, why);
        }
    }

    /// Does what the browser of a person does that signs in.
    fn browse(&mut self, query: &str) {
        let of = |url: &url::Url, name: &str| {
            url.query_pairs().find(|(member, _)| member == name).map(|(_, value)| value.into_owned())
        };
        let there = url::Url::parse(&self.url).ok();
        let back = there.as_ref().and_then(|url| url::Url::parse(&of(url, "redirect_uri")?).ok());
        if let (Some(there), Some(back)) = (there, back) {
            let state = of(&there, "state").unwrap_or_default();
            let query = query.replace("<state>", &state).replace("STATE", &state);
            let path = if query.starts_with('/') { query } else { format!("{}{query}", back.path()) };
            self.shown = get(back.port().unwrap_or(80), &path);
        }
    }

    fn compare_page(&mut self, line: usize, expected: (u16, String, Option<String>)) {
        let shown = self.shown.take();
        // The port may be another one.
        let shape =
            |page: &(u16, String, Option<String>)| (page.0, page.1.clone(), page.2.as_deref().map(without_digits));
        if shown.as_ref().map(shape) != Some(shape(&expected)) {
            self.problem(line, format_args!("the browser is shown\n    recorded {expected:?}\n    got      {shown:?}"));
        }
    }

    fn compare_file(&mut self, line: usize, path: &str, content: &str) {
        let path = std::path::PathBuf::from(self.stage.ours(&self.names.put_into(path)));
        let Ok(got) = std::fs::read_to_string(&path) else {
            return self.problem(line, format_args!("there is no file {}", path.display()));
        };
        let got = self.stage.recorded(&got, self.provider.origin());
        // A document is one value, a journal is one in each line; anything else is text.
        let values = |text: &str| -> Vec<Value> {
            let values: Result<Vec<_>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
            values.unwrap_or_else(|_| vec![Value::from(text)])
        };
        let (expected, got) = (Value::from(values(content)), Value::from(values(&got)));
        let mut names = self.names.clone();
        if let Err(why) = same(&expected, &got, "", &mut names) {
            self.problem(line, format_args!("{}{why}", path.display()));
        }
    }

    fn expect_end(&mut self, line: usize, code: i32) {
        let status = self.process().wait();
        if status.code() != Some(code) {
            self.problem(line, format_args!("ended with {status}"));
        }
        for text in self.process().rest() {
            self.hear(&text);
        }
        let left: Vec<_> = self.lanes.values().flatten().filter(|(at, _)| *at < line).cloned().collect();
        for (at, expected) in left {
            self.problem(at, format_args!("did not come: {expected}"));
            self.skip(at);
        }
    }
}

/// The subject of a line: lines about the same subject are in order.
fn lane_of(message: &Value, session: impl Fn(&str) -> String) -> String {
    if let Some(id) = message.get("id") {
        return format!("answer {id}");
    }
    let about = message["params"]["type"].as_str().unwrap_or_default();
    match message["params"]["payload"]["session_id"].as_str() {
        Some(id) if about != "state.changed" => session(id),
        _ => about.split('.').next().unwrap_or_default().to_owned(),
    }
}

/// Of which kind a line is.
fn kind_of(message: &Value) -> String {
    message["params"]["type"].as_str().unwrap_or_default().to_owned()
}

/// Which lines have to be heard before which, by what a request causes.
fn causes_of(steps: &[Step]) -> BTreeMap<usize, Vec<usize>> {
    let mut before: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut busy = BTreeSet::new();
    for (at, step) in steps.iter().enumerate() {
        match &step.what {
            What::Expect(message) if kind_of(message) == "session.status" => {
                let payload = &message["params"]["payload"];
                let session = payload["session_id"].to_string();
                if payload["pending"] == true {
                    busy.insert(session)
                } else {
                    busy.remove(&session)
                };
            }
            What::Send(text) if busy.is_empty() => {
                let caused = steps[at + 1..].iter().map_while(|step| match &step.what {
                    What::Expect(message) => Some((step.line, message)),
                    _ => None,
                });
                let caused: Vec<_> = caused.collect();
                let is_alone = serde_json::from_str::<Value>(text).is_ok()
                    && caused.iter().filter(|(_, message)| message.get("id").is_some()).count() == 1;
                let answer = caused.iter().position(|(_, message)| message.get("id").is_some());
                let (true, Some(answer)) = (is_alone, answer) else { continue };
                let line = caused[answer].0;
                before.entry(line).or_default().extend(caused[..answer].iter().map(|(line, _)| *line));
                caused[answer + 1..].iter().for_each(|(later, _)| before.entry(*later).or_default().push(line));
            }
            _ => {}
        }
    }
    before
}

/// Gets a page of a server on this machine: its status, its text, and where it sends the browser on to.
fn get(port: u16, path: &str) -> Option<(u16, String, Option<String>)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let location = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().starts_with("location: ").then(|| line[10..].to_owned()));
    Some((status, body.to_owned(), location))
}
