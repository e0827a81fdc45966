//! State on disk: nothing readable is left behind after exit.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::a2e_agent::{Agent, Prepared, ask, remembered};
use crate::project_files::{Clone, at_terminal};
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
fn temporary_files_of_a_killed_process_are_removed_at_the_next_start() {
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

#[test]
fn own_files_and_folders_are_private_to_their_owner_with_any_umask() {
    let clone = Clone::with("");
    let program = env!("CARGO_BIN_EXE_gladhand");
    let server = format!("[upstreams.a]\ncommand = ['{program}', 'serve', '--config', '/dev/null']\n");
    clone.write("config/gladhand/gladhand.toml", &format!("[policy]\npin = 'stop'\n{server}"));
    clone.write("project/gladhand.toml", "[[policy.limits]]\ncalls = 9\n");
    // The mode of the folder decides for everything in it, so each way to make it is tried.
    for (at, arguments) in ["config trust", "call a__echo message=hi", "tools"].into_iter().enumerate() {
        let plain = clone.gladhand(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask 0; exec \"$0\" {arguments}")]).arg(plain.get_program());
        command.current_dir(clone.path("project"));
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let data = clone.path(&format!("data-{at}"));
        command.env("GLADHAND_DATA_DIR", &data);
        let answers: &[&str] = if at == 0 { &["y"] } else { &[] };
        at_terminal(command, answers);
        let mut folders = vec![data];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
            assert_eq!(mode(&folder), 0o700, "{arguments}: {}", folder.display());
            for entry in std::fs::read_dir(&folder).expect("it is ours") {
                let path = entry.expect("it is ours").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files += 1;
                    assert_eq!(mode(&path), 0o600, "{arguments}: {}", path.display());
                }
            }
        }
        assert!(files > 0, "{arguments} keeps something");
    }
}
