//! Replays recorded sessions of the loaf server against our server side.
//!
//! Both sides are normalised: times, session ids (`session:0` …), the text after `parse error: `, token estimates and
//! the folders of skills. The README of the recordings lists these as varying, or they depend on a model that is not
//! available here. For each intended difference, `expected` gives the reason.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

mod recorded;

use std::time::Duration;

use gladhand_core::negotiation::Side;
use gladhand_core::operations::{Call, CallId, Operation, Reply, Tool};
use gladhand_core::wire::{Line, Lines, RawValue, json};
use gladhand_dialects::loaf::DIALECT;
use gladhand_dialects::loaf::methods::{self, METHODS, Run};
use gladhand_dialects::testing::{TestServer, server_setup};
use gladhand_dialects::{Ambient, Event, Heard, Stop, testing};
use recorded::{Entry, Tree};

#[test]
fn recorded_sessions_get_the_recorded_answers() {
    let mut files = recorded::files("loaf");
    // The others need an agent and its tools. They are replayed against the built program.
    let plain = ["0", "10", "11", "12", "13", "25", "27", "3"];
    files.retain(|file| plain.iter().any(|start| file.starts_with(start)));
    assert_eq!(files.len(), 22);
    for file in files {
        check(&file);
    }
}

fn check(file: &str) {
    let entries = recorded::load("loaf", file, "");
    let mut replay = Replay::new(&entries);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut is_method_empty = false;
    for entry in &entries {
        match entry {
            Entry::ToServer(bytes) => {
                is_method_empty = bytes == b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}\n";
                ours.extend(replay.write(bytes));
            }
            // A request with an empty method is answered with its id, so that its client does not wait forever.
            Entry::FromServer(line) if is_method_empty => theirs.push(line.replacen(r#""id":null"#, r#""id":1"#, 1)),
            Entry::FromServer(line) => {
                replay.note_recorded_session(line);
                theirs.push(line.clone());
            }
            Entry::Control(control) => ours.extend(replay.control(control)),
        }
    }
    let ours = normalised(ours.iter().map(|line| Tree::parse(line)));
    let theirs = normalised(theirs.iter().filter_map(|line| expected(file, &replay, Tree::parse(line))));
    // With several requests in one write, the reference runs all of them before it answers any (§2.5). We answer in
    // order. Events keep their order, and answers are compared by id.
    let pipelined = file.starts_with("10_") || file.starts_with("32_");
    if pipelined {
        assert_eq!(by_id(ours), by_id(theirs), "{file}");
    } else {
        assert_eq!(ours, theirs, "{file}");
    }
}

/// Our answer where the reference answered `line`. `None` if we send none.
fn expected(file: &str, replay: &Replay, mut line: Tree) -> Option<Tree> {
    // Ids are returned as they were sent, not in JavaScript's format.
    if file.starts_with("07_") && line.at(&["id"]) == Some(&Tree::Other("1000".into())) {
        set(&mut line, "id", Tree::Other("1e3".into()));
    }
    let Some(id) = line.at(&["id"]).cloned() else {
        // `onboarding.complete` is not available without an agent, so its event is missing too.
        let reason = line.text_at(&["params", "payload", "reason"]);
        return (reason != Some("onboarding_complete")).then_some(line);
    };
    let method = replay.requests.iter().rev().find(|(asked, _)| *asked == id).map(|(_, method)| method.as_str());
    let method = method.unwrap_or_default();
    // §2.2: lines after a successful shutdown are discarded. The recorded ones were in the same write.
    if file.starts_with("32_") && matches!(id, Tree::Other(ref id) if id == "12" || id == "13") {
        return None;
    }
    if line.at(&["result", "server_name"]).is_some() {
        // §20 item 3: the same members, plus our own identity. The list contains only methods that are available here.
        set(&mut line, "result", handshake_result());
    } else if methods::find(method).is_some_and(|row| row.run == Run::Agent) {
        let error = format!(
            r#"{{"jsonrpc":"2.0","id":0,"error":{{"code":-32601,"message":"method not found: {method}","data":{{"reason":"method_not_found","method":"{method}"}}}}}}"#
        );
        line = Tree::parse(&error);
        set(&mut line, "id", id);
    } else if line.text_at(&["error", "message"]).is_some_and(|message| message.starts_with("unknown session: ")) {
        // §20 item 5.
        line.map_members(&mut |name, value| {
            if name == "reason" {
                *value = Tree::Text("unknown_session".into());
            }
        });
    }
    Some(line)
}

fn handshake_result() -> Tree {
    let callable = METHODS.iter().filter(|row| row.run != Run::Agent).map(|row| row.name);
    let result = format!(
        r#"{{"protocol_version":"1.0.0","server_name":"loaf","capabilities":{{"events":true,"command_execute":false,"multi_session":true,"image_inputs":[]}},"methods":{},"implementation":{{"name":"gladhand","version":"0.0.0-test"}}}}"#,
        serde_json::to_string(&callable.collect::<Vec<_>>()).unwrap()
    );
    Tree::parse(&result)
}

fn set(line: &mut Tree, member: &str, value: Tree) {
    if let Tree::Object(members) = line {
        for (name, old) in members {
            if name == member {
                *old = value.clone();
            }
        }
    }
}

fn normalised(lines: impl Iterator<Item = Tree>) -> Vec<Tree> {
    let mut sessions: Vec<String> = Vec::new();
    lines
        .map(|mut line| {
            line.map_members(&mut |name, value| match (name, &mut *value) {
                ("timestamp" | "time" | "createdAt" | "updatedAt", Tree::Text(time)) => {
                    assert!(time.len() == 24 && time.ends_with('Z'), "not a timestamp: {time}");
                    *time = "t".to_owned();
                }
                ("contextTokenEstimate" | "pinned_tokens", _) => *value = Tree::Other("0".into()),
                ("directories", _) => *value = Tree::Array(Vec::new()),
                ("message", Tree::Text(text)) if text.starts_with("parse error: ") => *text = "parse error: …".into(),
                (_, Tree::Text(text)) if text.len() == 36 && text.split('-').count() == 5 => {
                    let at = sessions.iter().position(|known| known == text).unwrap_or_else(|| {
                        sessions.push(text.clone());
                        sessions.len() - 1
                    });
                    *text = format!("session:{at}");
                }
                _ => {}
            });
            line
        })
        .collect()
}

fn by_id(lines: Vec<Tree>) -> (Vec<Tree>, Vec<Tree>) {
    let (mut answers, events): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.at(&["id"]).is_some());
    answers.sort_by_key(|line| format!("{:?}", line.at(&["id"])));
    (answers, events)
}

/// Our server side with the line splitter of a transport, and a hub with the recorded tools.
struct Replay {
    server: TestServer,
    lines: Lines,
    /// The ids and methods of the sent requests.
    requests: Vec<(Tree, String)>,
    tools: Vec<Tool>,
    our_sessions: Vec<String>,
    recorded_sessions: Vec<String>,
}

impl Replay {
    fn new(entries: &[Entry]) -> Self {
        let mut lines = Lines::default();
        lines.end_lines_at(DIALECT.text.terminator);
        Self {
            server: TestServer::pinned(&DIALECT, server_setup()).holding(),
            lines,
            requests: Vec::new(),
            tools: recorded_tools(entries),
            our_sessions: Vec::new(),
            recorded_sessions: Vec::new(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut text = String::from_utf8(bytes.to_vec()).unwrap();
        for (theirs, ours) in self.recorded_sessions.iter().zip(&self.our_sessions) {
            text = text.replace(theirs, ours);
        }
        self.lines.push(text.as_bytes());
        let mut taken = Vec::new();
        while let Some(Line::Bytes(line)) = self.lines.next_line() {
            taken.push(line.to_vec());
        }
        taken.into_iter().flat_map(|line| self.feed(&line)).collect()
    }

    fn feed(&mut self, line: &[u8]) -> Vec<String> {
        if let Ok(request) = serde_json::from_slice::<&RawValue>(line) {
            let request = Tree::parse(request.get());
            if let (Some(id), Some(method)) = (request.at(&["id"]), request.text_at(&["method"])) {
                self.requests.push((id.clone(), method.to_owned()));
            }
        }
        let mut answers = self.server.bytes(line);
        while let Some(delivered) = self.server.delivered.pop_front() {
            let outcome = match &delivered.call.operation {
                Operation::ListTools => Ok(Reply::Tools(self.tools.clone().into())),
                _ => testing::answer(&delivered.call, &delivered.agreement),
            };
            answers.extend(self.server.resolve(delivered.call.id, outcome));
        }
        for answer in &answers {
            if let Some(id) = Tree::parse(answer).text_at(&["params", "payload", "session_id"]) {
                self.our_sessions.push(id.to_owned());
            }
        }
        answers
    }

    fn note_recorded_session(&mut self, line: &str) {
        if let Some(id) = Tree::parse(line).text_at(&["params", "payload", "session_id"]) {
            self.recorded_sessions.push(id.to_owned());
        }
    }

    fn control(&mut self, control: &serde_json::Value) -> Vec<String> {
        match (control["event"].as_str(), control["name"].as_str()) {
            (Some("stdin_close"), _) => {
                let last = match self.lines.last_line() {
                    Some(Line::Bytes(line)) => line.to_vec(),
                    _ => Vec::new(),
                };
                let mut answers = self.feed(&last);
                answers.extend(self.server.stop(Stop::InputClosed));
                answers
            }
            (Some("signal"), Some("SIGINT")) => self.server.stop(Stop::Interrupted),
            (Some("signal"), Some("SIGTERM")) => self.server.stop(Stop::Terminated),
            _ => Vec::new(),
        }
    }
}

/// The tools of the recorded list in reverse order, to test our sorting.
fn recorded_tools(entries: &[Entry]) -> Vec<Tool> {
    let mut tools = Vec::new();
    for entry in entries {
        let Entry::FromServer(line) = entry else { continue };
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        if value["result"]["tools"].is_null() {
            continue;
        }
        // The schemas must be returned byte for byte, so they are taken from the text.
        let text: &RawValue = serde_json::from_str(line).unwrap();
        let result = gladhand_core::wire::Members::of(text).unwrap().object("result").unwrap();
        let list: Vec<&RawValue> = serde_json::from_str(result.raw("tools").unwrap().get()).unwrap();
        for entry in list.into_iter().rev() {
            let entry = gladhand_core::wire::Members::of(entry).unwrap();
            let schema = json::raw(entry.raw("input_schema").unwrap().get().to_owned());
            tools.push(Tool::new(entry.str("name").unwrap(), entry.str("description").unwrap(), schema));
        }
    }
    tools
}

#[test]
fn our_client_opens_the_recorded_server_without_callable_tools() {
    let handshake =
        recorded::load("loaf", "01_handshake_flexible.ndjson", "").into_iter().find_map(|entry| match entry {
            Entry::FromServer(line) => Some(line),
            _ => None,
        });
    let mut client = (DIALECT.client)(testing::client_setup("1.0.0"));
    let (mut heard, mut entropy) = (Heard::default(), testing::Counting::default());
    let mut ambient = Ambient::new(testing::moment(Duration::ZERO), &mut entropy);
    client.open(&mut ambient, &mut heard);
    client.handle_line(&handshake.unwrap(), &mut ambient, &mut heard);
    client.call(Call::new(CallId(1), Operation::ListTools), None, &mut ambient, &mut heard);
    client.call(Call::new(CallId(2), testing::bare_call("bash")), None, &mut ambient, &mut heard);
    let [Event::Opened(agreement), Event::Answered(_, Ok(Reply::Tools(tools))), Event::Answered(_, Err(failure))] =
        &heard.events[..]
    else {
        panic!("{:?}", heard.events)
    };
    let agreed: Vec<_> = agreement.agreed(Side::Server).map(|term| term.capability.to_string()).collect();
    assert_eq!(agreed, ["agent", "command_execute", "events", "handshake", "image_inputs", "multi_session", "tools"]);
    assert_eq!((tools.len(), agreement.server.name.as_str()), (0, "loaf"));
    assert_eq!(failure.message, "the server does not offer tools.call");
}
