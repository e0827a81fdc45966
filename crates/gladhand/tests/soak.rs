//! Many clients in front of servers that break all the time: every call is answered exactly once, nothing is left
//! behind, and nothing grows.
//!
//! Some seconds of it run with the other tests; `cargo xtask soak` runs it for as long as one likes, with more of
//! everything.
#![cfg(target_os = "linux")]

#[path = "support/bridge.rs"]
mod bridge;
#[allow(dead_code, reason = "it is written for other tests, too")]
#[path = "http/client.rs"]
mod client;
mod support;

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use bridge::{Bridge, answer, command, signal, until, upstreams};
use client::{open_session, stateless_call};
use support::{MCP_INITIALIZED, Process, mcp_call, mcp_initialize};

/// How long it runs with the other tests.
const SECONDS: u64 = 12;
/// Between two looks at what the bridges weigh.
const MARK: Duration = Duration::from_secs(4);
/// Between two deaths: servers that die more often are not started again at once.
const PEACE: Duration = Duration::from_millis(1500);
/// How much heavier a bridge may get between the first mark and the last: allocators keep what they were given.
const SLACK: u64 = 8 * 1024 * 1024;
/// How many more files it may have open.
const MORE_FILES: usize = 16;

/// How large all of it is.
struct Size {
    bridges: usize,
    clients_of_each: usize,
    on_stdio: usize,
    lasts: Duration,
}

/// What became of all calls.
#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    /// How many failed for which reason.
    failed: Mutex<BTreeMap<String, u64>>,
}

#[test]
fn every_call_is_answered_once_and_nothing_is_left_or_grows() {
    let asked = std::env::var("GLADHAND_SOAK_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let size = match asked {
        None => Size { bridges: 3, clients_of_each: 8, on_stdio: 2, lasts: Duration::from_secs(SECONDS) },
        Some(seconds) => Size { bridges: 10, clients_of_each: 19, on_stdio: 10, lasts: Duration::from_secs(seconds) },
    };
    let word = format!("soak-{}", std::process::id());
    let bridges: Vec<Bridge> = (0..size.bridges).map(|_| Bridge::to(&[&word])).collect();
    let (tally, end) = (Tally::default(), Instant::now() + size.lasts);
    let marks = std::thread::scope(|scope| {
        let (tally, word) = (&tally, &word);
        for (seed, bridge) in (0..size.clients_of_each).flat_map(|_| &bridges).enumerate() {
            let chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (seed as u64 + 1));
            match seed % 2 {
                0 => scope.spawn(move || in_a_session(bridge, chance, end, tally)),
                _ => scope.spawn(move || without_a_session(bridge, chance, end, tally)),
            };
        }
        for seed in 0..size.on_stdio {
            scope.spawn(move || on_stdio(word, Chance(0x2545_f491_4f6c_dd1d ^ (seed as u64 + 1)), end, tally));
        }
        scope.spawn(move || kill_now_and_then(word, Chance(0xdead_beef_cafe), end));
        marks(&bridges, end)
    });
    let (answered, failed) = (tally.answered.into_inner(), tally.failed.into_inner().expect("nobody panicked"));
    println!("{answered} calls were answered; failed: {failed:?}");
    let known = |reason: &String| ["upstream_lost", "upstream_error"].contains(&reason.as_str());
    assert!(failed.keys().all(known), "calls failed for reasons of our own: {failed:?}");
    assert!(answered > 500, "only {answered} calls were answered; failed: {failed:?}");
    for (bridge, marks) in bridges.iter().zip(&marks) {
        let ((first_bytes, first_files), (bytes, files)) = (marks[0], marks[marks.len() - 1]);
        println!("bridge {}: {marks:?} (bytes, files)", bridge.id());
        assert!(bytes <= first_bytes + SLACK, "it grew: {marks:?}");
        assert!(files <= first_files + MORE_FILES, "files stay open: {marks:?}");
    }
    for bridge in bridges {
        assert!(bridge.stop());
    }
    until("no server is left", || upstreams(&word).is_empty().then_some(()));
}

/// What each bridge weighs and how many files it has open, at every mark.
fn marks(bridges: &[Bridge], end: Instant) -> Vec<Vec<(u64, usize)>> {
    let mut marks = vec![Vec::new(); bridges.len()];
    loop {
        std::thread::sleep(MARK.min(end.saturating_duration_since(Instant::now())));
        if Instant::now() >= end {
            return marks;
        }
        for (bridge, marks) in bridges.iter().zip(&mut marks) {
            let status = std::fs::read_to_string(format!("/proc/{}/status", bridge.id())).expect("it runs");
            let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
            let kibibytes: u64 = resident.and_then(|number| number.parse().ok()).expect("a number");
            let files = std::fs::read_dir(format!("/proc/{}/fd", bridge.id())).expect("it runs").count();
            marks.push((kibibytes * 1024, files));
        }
    }
}

/// Kills servers, one at a time.
fn kill_now_and_then(word: &str, mut chance: Chance, end: Instant) {
    while Instant::now() < end {
        std::thread::sleep(PEACE);
        let running = upstreams(word);
        if !running.is_empty() {
            signal(running[chance.below(running.len() as u64) as usize], Signal::KILL);
        }
    }
}

/// Something to call, and what to give it.
fn errand(chance: &mut Chance, text: &str) -> (&'static str, Value) {
    match chance.below(10_000) {
        0 => ("die", json!({"text": text})),
        1 => ("vanish", json!({"text": text})),
        2..200 => ("stall", json!({"text": text, "ms": chance.below(100)})),
        200..400 => ("flood", json!({"text": text, "lines": chance.below(2000)})),
        400..1000 => ("garbage", json!({"text": text})),
        1000..1600 => ("twice", json!({"text": text})),
        _ => ("echo", json!({"text": text})),
    }
}

/// A client that opens a session and calls in it.
fn in_a_session(bridge: &Bridge, mut chance: Chance, end: Instant, tally: &Tally) {
    let mut connection = bridge.connect();
    let session = open_session(&mut connection, "2025-11-25");
    for id in 1.. {
        if Instant::now() >= end {
            return;
        }
        let text = format!("{session} {id}");
        let (tool, arguments) = errand(&mut chance, &text);
        let response = connection.post(&[("Mcp-Session-Id", &session)], &mcp_call(id, tool, &arguments.to_string()));
        tally.count(&answer(&response), id, &text);
    }
}

/// A client whose requests say everything themselves.
fn without_a_session(bridge: &Bridge, mut chance: Chance, end: Instant, tally: &Tally) {
    let (mut connection, name) = (bridge.connect(), chance.below(u64::MAX));
    for id in 1.. {
        if Instant::now() >= end {
            return;
        }
        let text = format!("{name} {id}");
        let (tool, arguments) = errand(&mut chance, &text);
        let (headers, body) = stateless_call(id, tool, &arguments.to_string());
        tally.count(&answer(&connection.post(&headers, &body)), id, &text);
    }
}

/// A client that starts a bridge of its own and has several calls in flight.
fn on_stdio(word: &str, mut chance: Chance, end: Instant, tally: &Tally) {
    let mut process = Process::start(command(&[word], &[]));
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    let (mut next, mut in_flight) = (1, HashSet::new());
    while Instant::now() < end || !in_flight.is_empty() {
        while Instant::now() < end && in_flight.len() < 4 {
            let (tool, arguments) = errand(&mut chance, &next.to_string());
            process.send(&mcp_call(next, tool, &arguments.to_string()));
            in_flight.insert(next);
            next += 1;
        }
        let message = process.value();
        // Lists may be said to have changed when a server is there again.
        let Some(id) = message["id"].as_u64() else { continue };
        assert!(in_flight.remove(&id), "an answer to nobody: {message}");
        tally.count(&message, id, &id.to_string());
    }
    let (status, rest, _) = process.finish();
    assert_eq!(status, 0);
    assert!(rest.iter().all(|line| !line.contains(r#""id":"#)), "answers to nobody: {rest:?}");
}

impl Tally {
    /// Takes an answer: what the call was to say, or a failure that belongs to it.
    fn count(&self, answer: &Value, id: u64, text: &str) {
        assert_eq!(answer["id"], id, "{answer}");
        if let Some(reason) = answer["error"]["data"]["reason"].as_str() {
            *self.failed.lock().expect("nobody panicked").entry(reason.to_owned()).or_default() += 1;
            // Who is told to come back later does not come back at once.
            std::thread::sleep(Duration::from_millis(10));
            return;
        }
        assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
        self.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Chance that is the same each time (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
