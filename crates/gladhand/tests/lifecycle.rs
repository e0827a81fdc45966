//! How a served session lives and ends: end of input, signals, vanished readers, slow readers.
#![cfg(unix)]

mod support;

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use support::{MCP_INITIALIZED, Process, gladhand, mcp_call, mcp_initialize, mcp_session};

#[test]
fn the_end_of_input_lets_running_calls_finish() {
    let mut process = mcp_session(&[]);
    process.send(&mcp_call(1, "wait", r#"{"ms":300}"#));
    let (status, rest, _) = process.finish();
    let answer: Value = serde_json::from_str(&rest[0]).unwrap();
    assert_eq!((status, rest.len(), &answer["id"]), (0, 1, &json!(1)));
    assert_eq!(answer["result"]["content"][0]["text"], "waited 300 ms in 1 step");
}

#[test]
fn a_last_line_without_newline_is_answered() {
    let mut process = Process::serve(&[]);
    process.send_bytes(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
    let (status, rest, _) = process.finish();
    assert_eq!((status, rest), (0, vec![r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned()]));
}

#[test]
fn a_signal_fails_calls_that_exceed_the_drain_time_and_exits_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gladhand.toml");
    std::fs::write(&config, "[limits]\ndrain_ms = 100\n").unwrap();
    for (signal, _) in signals() {
        let mut process = mcp_session(&["--config", config.to_str().unwrap()]);
        process.send(&mcp_call(1, "wait", r#"{"ms":60000}"#));
        process.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
        assert_eq!(process.value()["id"], 2, "the call is in flight when the ping is answered");
        process.signal(signal);
        let answer = process.value();
        assert_eq!((&answer["id"], &answer["error"]["data"]["reason"]), (&json!(1), &json!("stopping")), "{answer}");
        assert_eq!(process.wait().code(), Some(0));
    }
}

/// The signals that stop us, with the exit codes of those who are stopped. A test that was told to ignore one hands
/// that down to what it starts.
fn signals() -> Vec<(Signal, i32)> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let all = [(Signal::HUP, 129), (Signal::INT, 130), (Signal::TERM, 143)];
    all.into_iter().filter(|(signal, _)| ignored & (1 << (signal.as_raw() - 1)) == 0).collect()
}

#[test]
fn a_stopped_command_ends_its_server() {
    let result =
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    let opens = format!(r#"read -r line; echo '{{"jsonrpc":"2.0","id":1,"result":{result}}}'"#);
    let folder = tempfile::tempdir().unwrap();
    for (at, (command, before)) in [("open", ":"), ("tools", ":"), ("tools", opens.as_str())].into_iter().enumerate() {
        for (signal, code) in signals() {
            let file = folder.path().join(format!("{at}-{code}"));
            let script = format!("trap '' HUP; {before}; echo $$ > {}; exec sleep 300", file.display());
            let mut started = gladhand();
            started.args([command, "--as", "mcp@2025-11-25", "--", "sh", "-c", &script]);
            let mut process = Process::start(started);
            let begun = Instant::now();
            let pid = loop {
                let pid = std::fs::read_to_string(&file).unwrap_or_default();
                if pid.ends_with('\n') {
                    break pid.trim().to_owned();
                }
                assert!(begun.elapsed() < support::PATIENCE, "the server does not start");
                std::thread::sleep(Duration::from_millis(10));
            };
            process.signal(signal);
            assert_eq!(process.wait().code(), Some(code), "{command} {signal:?}");
            let is_running = || {
                let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                !state.is_empty() && !state.contains(") Z ")
            };
            while is_running() {
                assert!(begun.elapsed() < support::PATIENCE, "{command} {signal:?} left its server");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut process = mcp_session(&[]);
    process.send(&mcp_call(1, "wait", r#"{"ms":60000}"#));
    process.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    process.value();
    process.signal(Signal::TERM);
    // The first one has been heard once nothing is read any more.
    std::thread::sleep(Duration::from_millis(200));
    process.signal(Signal::TERM);
    let begun = Instant::now();
    assert_eq!(process.wait().code(), Some(143));
    assert!(begun.elapsed() < Duration::from_secs(3), "it waited for the grace instead");
}

#[test]
fn a_closed_stdout_ends_the_server_normally() {
    let mut child =
        gladhand().arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    drop(child.stdout.take());
    // It may be gone before everything is written, and that is fine.
    let _ = stdin.write_all(format!("{}\n", mcp_initialize("2025-11-25")).as_bytes());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""));
}

#[test]
fn a_thousand_pings_overtake_a_slow_call() {
    let mut process = mcp_session(&[]);
    process.send(&mcp_call(1_000_000, "wait", r#"{"ms":5000}"#));
    let pings: String =
        (1..=1000).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")).collect();
    process.send_bytes(pings.as_bytes());
    for id in 1..=1000 {
        assert_eq!(process.value(), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
    let last = process.value();
    let content = json!([{"type": "text", "text": "waited 5000 ms in 1 step"}]);
    assert_eq!((&last["id"], &last["result"]["content"]), (&json!(1_000_000), &content));
}

#[test]
fn unread_stderr_never_stops_a_session() {
    let mut child = gladhand()
        .args(["serve", "-vvv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped()) // And nobody reads it.
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let writer = std::thread::spawn(move || {
        let mut input = format!("{}\n{MCP_INITIALIZED}\n", mcp_initialize("2025-11-25"));
        for id in 1..=10_000 {
            input.push_str(&mcp_call(id, "echo", r#"{"message":"hi"}"#));
            input.push('\n');
        }
        stdin.write_all(input.as_bytes()).unwrap();
    });
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut output = String::new();
        stdout.read_to_string(&mut output).unwrap();
        sender.send(output).unwrap();
    });
    let output = receiver.recv_timeout(Duration::from_secs(60)).expect("all calls are answered");
    writer.join().unwrap();
    assert_eq!(output.lines().count(), 10_001);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_reader_that_pauses_loses_nothing() {
    let mut child =
        gladhand().arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let text = "x".repeat(100_000);
    let writer = std::thread::spawn(move || {
        let mut input = format!("{}\n{MCP_INITIALIZED}\n", mcp_initialize("2025-11-25"));
        for id in 1..=100 {
            input.push_str(&mcp_call(id, "echo", &format!(r#"{{"message":"{text}"}}"#)));
            input.push('\n');
        }
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
    });
    // Ten megabytes wait on either side while there is no reader.
    std::thread::sleep(Duration::from_millis(500));
    let held = memory(child.id());
    let mut output = String::new();
    stdout.read_to_string(&mut output).unwrap();
    writer.join().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let ids: Vec<_> = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
    assert_eq!(ids, (0..=100).map(Value::from).collect::<Vec<_>>());
    assert!(held < 6 * 1024, "{held} KiB for a downstream that does not read");
}

#[test]
fn answers_that_wait_their_turn_do_not_fill_the_memory() {
    // Fluxloop answers in request order, so everything behind a slow call has to wait for it.
    let mut child =
        gladhand().arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = "x".repeat(1_000_000);
    let writer = std::thread::spawn(move || {
        stdin.write_all(b"{\"id\":0,\"tool\":\"wait\",\"ms\":1500}\n").unwrap();
        for id in 1..=200 {
            let line = format!("{{\"id\":{id},\"tool\":\"echo\",\"message\":\"{text}\"}}\n");
            stdin.write_all(line.as_bytes()).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(1200));
    let held = memory(child.id());
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    writer.join().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let ids: Vec<_> = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
    assert_eq!(ids, (0..=200).map(Value::from).collect::<Vec<_>>());
    assert!(held < 160 * 1024, "{held} KiB are held for two hundred megabytes of answers");
}

/// The private memory of a process, in KiB. The pages of its program, which are many in an unoptimised build, do not
/// count.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it is running");
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux says so");
    own.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn input_may_be_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    let output = gladhand().arg("serve").stdin(std::fs::File::open(path).unwrap()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn input_and_output_may_be_sockets() {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    let (ours, theirs) = UnixStream::pair().unwrap();
    let input = OwnedFd::from(theirs.try_clone().unwrap());
    let mut child =
        gladhand().arg("serve").stdin(input).stdout(OwnedFd::from(theirs)).stderr(Stdio::null()).spawn().unwrap();
    (&ours).write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut output = String::new();
    (&ours).read_to_string(&mut output).unwrap();
    assert_eq!(output, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_shutdown_without_grace_answers_running_calls() {
    for timeout in ["0", "-1"] {
        let mut process = Process::serve(&["-q"]);
        process.ask(r#"{"type":"handshake/req","id":"h","agent_caps":["tools"]}"#);
        process.send(r#"{"type":"tool/call/req","id":"w","tool_name":"wait","arguments":{"ms":60000}}"#);
        process.send(&format!(r#"{{"type":"shutdown","id":"s","timeout":{timeout}}}"#));
        let answer = process.value();
        assert_eq!((&answer["type"], &answer["req_id"]), (&json!("error"), &json!("w")), "{answer}");
        assert_eq!(process.wait().code(), Some(0));
    }
}

#[test]
fn too_long_ids_are_refused_and_the_session_continues() {
    // Fluxloop's reference echoes ids of a megabyte; there they are counted instead.
    let id = "x".repeat(5000);
    for (opening, long, short) in [
        (
            r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#,
            format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#),
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":0,"method":"system.ping"}"#,
            format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"system.ping"}}"#),
            r#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#,
        ),
        (r#"{"type":"ping","id":"0"}"#, format!(r#"{{"type":"ping","id":"{id}"}}"#), r#"{"type":"ping","id":"1"}"#),
    ] {
        let mut process = Process::serve(&["-q"]);
        process.ask(opening);
        let refused = process.ask(&long).to_string();
        assert!(refused.contains("error") && refused.len() < 1000, "{refused}");
        let answer = process.ask(short).to_string();
        assert!(!answer.contains("error"), "{answer}");
    }
}

#[test]
fn a_long_name_in_a_cancellation_costs_nothing() {
    let mut process = mcp_session(&[]);
    for id in 1..=1000 {
        process.send(&mcp_call(id, "wait", r#"{"ms":60000}"#));
    }
    let name = r"\u0061".repeat(2_000_000);
    process
        .send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{name}"}}}}"#));
    let begun = Instant::now();
    assert_eq!(process.ask(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#)["id"], 0);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn a_peer_cannot_write_its_own_log_lines() {
    let mut process = Process::serve(&["-v"]);
    let name = r"x\nERROR forged \u001b[2J";
    process.ask(&mcp_initialize(name));
    process.send(MCP_INITIALIZED);
    process.ask(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let (_, _, errors) = process.finish();
    assert!(errors.contains("forged"), "{errors}");
    assert!(!errors.contains('\u{1b}') && !errors.lines().any(|line| line.starts_with("ERROR")), "{errors}");
}

#[test]
fn a_reader_that_vanishes_while_a_session_drains_is_noticed() {
    let mut child = gladhand()
        .args(["serve", "-q"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    for line in [
        r#"{"type":"handshake/req","id":"h","agent_caps":["tools"]}"#,
        r#"{"type":"tool/call/req","id":"w","tool_name":"wait","arguments":{"ms":600000},"timeout":3000}"#,
        r#"{"type":"ping","id":"p"}"#,
        r#"{"type":"shutdown","id":"s","timeout":3000}"#,
    ] {
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    for _ in 0..2 {
        std::io::BufRead::read_line(&mut stdout, &mut String::new()).unwrap();
    }
    drop((stdin, stdout));
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < support::PATIENCE, "it waits for a call that nobody can hear the end of");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_client_that_exits_without_reading_does_not_delay_the_exit() {
    let mut command = gladhand();
    command.args(["serve", "--dialect", "mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let big = mcp_call(1, "echo", &json!({"message": "x".repeat(1_000_000)}).to_string());
    // Two are more than may wait unread, so that nothing more is read; a third would not be taken from us.
    for line in [mcp_initialize("2025-11-25"), MCP_INITIALIZED.to_owned(), big.clone(), big] {
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    drop(stdin);
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it waits for somebody who is gone");
        std::thread::sleep(Duration::from_millis(50));
    }
}
