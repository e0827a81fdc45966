//! State on disk: nothing readable is left behind after exit.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::a2e_agent::{Agent, Prepared, ask, remembered};
use crate::support::PATIENCE;

const SECRET: &str = "a-secret-that-was-remembered";

/// Whether everything that is kept is in the database itself.
fn is_checkpointed(data: &Path) {
    let log = data.join("gladhand.db-wal");
    assert_eq!(log.metadata().map_or(0, |data| data.len()), 0, "the write-ahead log still has something");
    let kept = std::fs::read(data.join("gladhand.db")).expect("there is a database");
    assert!(kept.windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes()), "the database has everything");
}

/// A host on standard streams that has remembered something.
fn remembering(prepared: &Prepared) -> crate::support::Process {
    let mut process = prepared.on_streams();
    ask(&mut process, json!({"type": "handshake/req", "agent_id": "ann", "agent_caps": ["memory"]}));
    remembered(|request| ask(&mut process, request), Some(("episodic", SECRET)));
    assert!(
        prepared.path().join("data/gladhand.db-wal").metadata().expect("there is a log").len() > 0,
        "it is in the log at first"
    );
    process
}

#[test]
fn the_database_is_checkpointed_when_the_input_ends() {
    let prepared = Prepared::new("");
    assert_eq!(remembering(&prepared).finish().0, 0);
    is_checkpointed(&prepared.path().join("data"));
}

#[test]
fn the_database_is_checkpointed_when_a_signal_comes() {
    for signal in [Signal::TERM, Signal::INT] {
        let prepared = Prepared::new("");
        let mut process = remembering(&prepared);
        process.signal(signal);
        process.wait();
        is_checkpointed(&prepared.path().join("data"));
    }
}

#[test]
fn the_database_is_checkpointed_when_a_server_over_http_ends() {
    let prepared = Prepared::new("");
    let host = prepared.listen(&[]);
    let mut agent = Agent::open(&host);
    agent.shake_hands("ann", &["memory"], "");
    remembered(|request| agent.ask(request), Some(("episodic", SECRET)));
    host.finish();
    is_checkpointed(&prepared.path().join("data"));
}

#[test]
fn what_a_killed_process_left_is_removed_at_the_next_start() {
    let prepared = Prepared::new("");
    let temporary = prepared.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let (left, held) = (temporary.join("gladhand-state-left"), temporary.join("gladhand-state-held"));
    for file in [&left, &held] {
        std::fs::write(file, "/home/ann\0API_KEY=hush\0").unwrap();
    }
    // Its owner still runs: we are.
    let owner = std::fs::File::open(&held).unwrap();
    owner.lock().unwrap();
    let mut command = prepared.command(&["--dialect", "a2e"]);
    command.env("TMPDIR", &temporary);
    let mut process = crate::support::Process::start(command);
    assert_eq!(ask(&mut process, json!({"type": "ping"}))["type"], "pong");
    let begun = Instant::now();
    while left.exists() {
        assert!(begun.elapsed() < PATIENCE, "it stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(process.finish().0, 0);
    assert!(held.exists(), "it belongs to a process that runs");
}
