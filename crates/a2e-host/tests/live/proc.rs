//! Requests to processes, their refusals, and processes that misbehave.

use std::sync::Arc;
use std::time::Duration;

use gladhand_a2e_host::proc::{Proc, ProcSettings};
use gladhand_process::starting::Family;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Session, gone};

fn settings() -> ProcSettings {
    let allowed = ["bash", "cat", "echo", "sleep", "yes", "ls", "head", "no-such-program"].map(str::to_owned).to_vec();
    ProcSettings { allowed, grace: Duration::from_millis(300), ..ProcSettings::default() }
}

fn fixture(settings: ProcSettings) -> Fixture {
    Fixture::with(Proc::new(settings, Arc::new(Family)))
}

async fn spawn(session: &Session, message: Value) -> Value {
    session.ask("proc/spawn/req", message).await.expect("a response, also for a refusal")
}

async fn bash(session: &Session, script: &str) -> (String, u64) {
    let spawned = spawn(session, json!({"cmd": ["bash", "-c", script]})).await;
    assert_eq!((&spawned["ok"], &spawned["error"]), (&json!(true), &json!("")), "{spawned}");
    let id = spawned["proc_id"].as_str().expect("an id is a string");
    (id.to_owned(), spawned["pid"].as_u64().expect("a pid is a number"))
}

async fn status(session: &Session, id: &str) -> Value {
    session.ask("proc/status/req", json!({"proc_id": id})).await.expect("a status request never fails")
}

/// Waits for the end of a process, and returns all its events.
async fn until_end(session: &Session, id: &str) -> Vec<Value> {
    session.heard(|event| event["proc_id"] == id && event["data"]["code"].is_number()).await;
    session.events().into_iter().filter(|event| event["proc_id"] == id).collect()
}

fn texts(events: &[Value], stream: &str) -> String {
    let of_stream = events.iter().filter(|event| event["stream_type"] == stream);
    of_stream.filter_map(|event| event["data"]["text"].as_str()).collect()
}

#[tokio::test]
async fn output_is_reported_line_by_line_and_the_end_last() {
    let session = fixture(settings()).session();
    let (id, _) = bash(&session, "echo out; echo err >&2; printf rest; exit 3").await;
    let events = until_end(&session, &id).await;
    assert_eq!((texts(&events, "stdout").as_str(), texts(&events, "stderr").as_str()), ("out\nrest", "err\n"));
    let expected = json!({
        "type": "proc/read/event", "req_id": "r1", "kind": "status", "data": {"code": 3}, "seq": 3,
        "proc_id": id, "stream_type": "stderr",
    });
    assert_eq!(events.last(), Some(&expected));
    assert!(events.iter().enumerate().all(|(at, event)| event["seq"] == at), "{events:?}");
    assert_eq!(status(&session, &id).await, json!({"proc_id": id, "status": "failed", "error": "exit code 3"}));
    let written = session.ask("proc/write/req", json!({"proc_id": id, "data": "x"})).await.unwrap();
    assert_eq!((&written["ok"], &written["error"]), (&json!(false), &json!("proc_dead")));
    let killed = session.ask("proc/kill/req", json!({"proc_id": id})).await.unwrap();
    assert_eq!(killed, json!({"ok": false, "state": "failed"}));
}

#[tokio::test]
async fn a_successful_end_is_reported_on_stdout() {
    let session = fixture(settings()).session();
    let spawned = spawn(&session, json!({"cmd": ["echo", "done"]})).await;
    let id = spawned["proc_id"].as_str().unwrap();
    assert_eq!(id.len(), 32);
    let events = until_end(&session, id).await;
    assert_eq!(texts(&events, "stdout"), "done\n");
    assert_eq!((&events[1]["data"], &events[1]["stream_type"]), (&json!({"code": 0}), &json!("stdout")));
    assert_eq!(status(&session, id).await["status"], "completed");
}

#[tokio::test]
async fn a_process_reads_its_input_and_the_end_of_input() {
    let session = fixture(settings()).session();
    let spawned = spawn(&session, json!({"cmd": ["cat"]})).await;
    let id = spawned["proc_id"].as_str().unwrap();
    assert_eq!(status(&session, id).await, json!({"proc_id": id, "status": "running", "error": ""}));
    let written = session.ask("proc/write/req", json!({"proc_id": id, "data": "one\n"})).await.unwrap();
    assert_eq!(written, json!({"proc_id": id, "ok": true, "pid": spawned["pid"], "error": ""}));
    session.heard(|event| event["data"]["text"] == "one\n").await;
    session.ask("proc/write/req", json!({"proc_id": id, "data": "two", "eof": true})).await.unwrap();
    let again = session.ask("proc/write/req", json!({"proc_id": id, "data": "three"})).await.unwrap();
    assert_eq!(again["ok"], false);
    let events = until_end(&session, id).await;
    assert_eq!(texts(&events, "stdout"), "one\ntwo");
    assert_eq!(events.last().unwrap()["data"], json!({"code": 0}));
}

#[tokio::test]
async fn without_stdin_a_process_has_no_input() {
    let session = fixture(settings()).session();
    let spawned = spawn(&session, json!({"cmd": ["bash", "-c", "cat; sleep 100"], "stdin_mode": "null"})).await;
    let id = &spawned["proc_id"];
    let written = session.ask("proc/write/req", json!({"proc_id": id, "data": "x"})).await.unwrap();
    assert_eq!(written["ok"], false);
    let refused = spawn(&session, json!({"cmd": ["cat"], "stdin_mode": "tty"})).await;
    assert_eq!(refused["error"], "unknown stdin_mode: \"tty\"");
}

#[tokio::test]
async fn only_programs_allowed_by_name_are_started() {
    let refusal = |error: &str| json!({"proc_id": "", "ok": false, "pid": 0, "error": error});
    let session = fixture(settings()).session();
    for (cmd, error) in [
        (json!(["rm", "-rf", "x"]), "Command not allowed"),
        (json!(["/bin/ls"]), "Command not allowed"),
        (json!([]), "Empty command"),
    ] {
        assert_eq!(spawn(&session, json!({"cmd": cmd})).await, refusal(error));
    }
    let missing = spawn(&session, json!({"cmd": ["no-such-program"]})).await;
    assert!(missing["error"].as_str().unwrap().starts_with("cannot start: "), "{missing}");
    let odd = spawn(&session, json!({"cmd": ["echo", "a\0b"]})).await;
    assert_eq!(odd["ok"], false);
    let session = fixture(ProcSettings::default()).session();
    assert_eq!(spawn(&session, json!({"cmd": ["ls"]})).await, refusal("Command not allowed"));
}

#[tokio::test]
async fn a_callers_path_does_not_change_which_program_was_allowed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("echo"), "#!/bin/sh\necho trapped\n").unwrap();
    std::fs::set_permissions(folder.path().join("echo"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let session = fixture(settings()).session();
    let refused = spawn(&session, json!({"cmd": ["echo", "free"], "env": {"PATH": folder.path()}})).await;
    assert_eq!(refused["error"], "environment variable not allowed: PATH");
}

#[tokio::test]
async fn the_environment_is_minimal_plus_the_clients_variables() {
    let environment = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("LANG".to_owned(), "C".to_owned())];
    let variables = vec!["FOO".to_owned()];
    let session = fixture(ProcSettings { environment, variables, ..settings() }).session();
    let script = r#"echo "$FOO $LANG ${HOME-none} ${CARGO_MANIFEST_DIR-none}""#;
    let spawned = spawn(&session, json!({"cmd": ["bash", "-c", script], "env": {"FOO": "bar", "LANG": "de"}})).await;
    let events = until_end(&session, spawned["proc_id"].as_str().unwrap()).await;
    assert_eq!(texts(&events, "stdout"), "bar de none none\n");
}

#[tokio::test]
async fn variables_that_affect_the_dynamic_linker_or_shell_are_refused() {
    let session = fixture(ProcSettings { variables: vec!["FOO".to_owned()], ..settings() }).session();
    let not_named = [
        "LD_PRELOAD",
        "DYLD_INSERT_LIBRARIES",
        "BASH_ENV",
        "BASH_FUNC_ls%%",
        "ENV",
        "PS4",
        "IFS",
        "PATH",
        "HOME",
        "LESSOPEN",
        "LESSCLOSE",
        "LESS",
        "TAR_OPTIONS",
        "XDG_CONFIG_HOME",
        "XDG_DATA_DIRS",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PERL5OPT",
        "RUBYOPT",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_GLOBAL",
        "SSH_ASKPASS",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "MANPAGER",
        "JAVA_TOOL_OPTIONS",
        "GCONV_PATH",
        "LOCPATH",
        "NLSPATH",
        "TERMINFO",
        "CURL_HOME",
        "WGETRC",
        "OPENSSL_CONF",
        "SSL_CERT_FILE",
        "HTTPS_PROXY",
        "npm_config_registry",
        "CARGO_HOME",
        "RUSTC_WRAPPER",
        "GREP_OPTIONS",
        "ZIPOPT",
        "XZ_OPT",
        "MAKEFLAGS",
        "RSYNC_RSH",
        "TMPDIR",
        "DOCKER_HOST",
        "KUBECONFIG",
        "AWS_CONFIG_FILE",
        "GLADHAND_CONFIG",
        "foo",
        "FOO ",
        "LANGUAGE",
        "LC_ALL ",
        "",
        "A=B",
        "FOO=x",
        "A\0",
    ];
    let values =
        [("TZ", "/etc/passwd"), ("TZ", ":/etc/passwd"), ("LANG", "../../tmp/x"), ("TERM", "x\0"), ("FOO", "\0")];
    for (name, value) in not_named.into_iter().map(|name| (name, "x")).chain(values) {
        let refused = spawn(&session, json!({"cmd": ["echo"], "env": {name: value}})).await;
        let expected = json!(format!("environment variable not allowed: {name}"));
        assert_eq!((&refused["ok"], &refused["error"]), (&json!(false), &expected), "{name}={value}");
    }
    let harmless =
        [("FOO", "/any thing"), ("TZ", "Europe/Berlin"), ("LANG", "de_DE.UTF-8"), ("LC_ALL", "C"), ("TERM", "dumb")];
    for (name, value) in harmless {
        assert_eq!(spawn(&session, json!({"cmd": ["echo"], "env": {name: value}})).await["ok"], true, "{name}={value}");
    }
}

#[tokio::test]
async fn a_process_runs_only_inside_the_roots() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(root.path().join("inner")).unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("out")).unwrap();
    std::os::unix::fs::symlink(root.path().join("inner"), root.path().join("in")).unwrap();
    std::fs::write(root.path().join("file"), "").unwrap();
    let roots = vec![root.path().to_owned()];
    let session = fixture(ProcSettings { roots: roots.clone(), ..settings() }).session();
    let real = std::fs::canonicalize(root.path()).unwrap();
    let inner = root.path().join("inner");
    for (cwd, expected) in [
        ("", real.clone()),
        ("inner", real.join("inner")),
        ("in", real.join("inner")),
        (inner.to_str().unwrap(), real.join("inner")),
    ] {
        let spawned = spawn(&session, json!({"cmd": ["bash", "-c", "pwd -P"], "cwd": cwd})).await;
        let events = until_end(&session, spawned["proc_id"].as_str().unwrap()).await;
        assert_eq!(texts(&events, "stdout"), format!("{}\n", expected.display()));
    }
    for cwd in ["/", "..", "out", "inner/../..", "file", "nowhere", "a\0b"] {
        let refused = spawn(&session, json!({"cmd": ["echo"], "cwd": cwd})).await;
        assert_eq!((&refused["ok"], &refused["error"]), (&json!(false), &json!(format!("cwd not allowed: {cwd}"))));
    }
    let session = fixture(settings()).session();
    assert_eq!(spawn(&session, json!({"cmd": ["echo"], "cwd": "/tmp"})).await["error"], "cwd not allowed: /tmp");
}

#[tokio::test]
async fn signals_are_sent_and_the_answer_has_the_resulting_state() {
    let session = fixture(settings()).session();
    // A signal that the test process ignores is also ignored by its children.
    let status_of_ours = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status_of_ours.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    for (signal, code) in [("SIGTERM", -15), ("SIGKILL", -9), ("SIGINT", -2)] {
        if ignored & (1 << (-code - 1)) != 0 {
            continue;
        }
        let spawned = spawn(&session, json!({"cmd": ["sleep", "1000"]})).await;
        let id = spawned["proc_id"].as_str().unwrap();
        let killed = session.ask("proc/kill/req", json!({"proc_id": id, "signal": signal})).await.unwrap();
        assert_eq!(killed, json!({"ok": true, "state": "killed"}));
        assert_eq!(until_end(&session, id).await.last().unwrap()["data"], json!({"code": code}));
        assert_eq!(status(&session, id).await, json!({"proc_id": id, "status": "killed", "error": ""}));
    }
    let (id, pid) = bash(&session, "trap '' TERM; echo ready; while :; do sleep 0.1; done").await;
    session.heard(|event| event["proc_id"] == *id && event["data"]["text"] == "ready\n").await;
    let killed = session.ask("proc/kill/req", json!({"proc_id": id})).await.unwrap();
    assert_eq!(killed, json!({"ok": true, "state": "running"}));
    let unknown = session.ask("proc/kill/req", json!({"proc_id": id, "signal": "SIGHUP"})).await.unwrap_err();
    assert_eq!(unknown.0, "runtime_error");
    assert!(unknown.1.starts_with("unknown signal: \"SIGHUP\""), "{unknown:?}");
    session.leave();
    gone(pid).await;
}

#[tokio::test]
async fn a_session_does_not_see_the_processes_of_others() {
    let fixture = fixture(settings());
    let (session, other) = (fixture.session(), fixture.session());
    let (id, pid) = bash(&session, "sleep 1000").await;
    for (session, id) in [(&session, "nope"), (&other, &*id)] {
        let not_found = json!({"proc_id": id, "status": "not_found", "error": "session not found"});
        assert_eq!(status(session, id).await, not_found);
        let killed = session.ask("proc/kill/req", json!({"proc_id": id})).await.unwrap();
        assert_eq!(killed, json!({"ok": false, "state": ""}));
        let written = session.ask("proc/write/req", json!({"proc_id": id, "data": ""})).await.unwrap();
        assert_eq!(written, json!({"proc_id": id, "ok": false, "pid": 0, "error": "session not found"}));
    }
    let all = status(&session, "").await;
    assert_eq!((&all["status"], &all["error"], &all["proc_id"]), (&json!("ok"), &json!(""), &json!("")));
    let [listed] = all["procs"].as_array().unwrap().as_slice() else { panic!("one process: {all}") };
    assert_eq!((&listed["proc_id"], &listed["state"], &listed["pid"]), (&json!(id), &json!("running"), &json!(pid)));
    assert_eq!((&listed["cmd"], &listed["exit_code"]), (&json!(["bash", "-c", "sleep 1000"]), &json!(null)));
    assert_eq!(status(&other, "").await["procs"], json!([]));
}

#[tokio::test]
async fn running_and_remembered_processes_are_limited() {
    let fixture = fixture(ProcSettings { max_running: 2, max_running_total: 3, remembered: 1, ..settings() });
    let (session, other) = (fixture.session(), fixture.session());
    let (first, _) = bash(&session, "sleep 1000").await;
    bash(&session, "sleep 1000").await;
    let limit = json!({"proc_id": "", "ok": false, "pid": 0, "error": "proc_limit"});
    assert_eq!(spawn(&session, json!({"cmd": ["echo"]})).await, limit);
    bash(&other, "sleep 1000").await;
    assert_eq!(spawn(&other, json!({"cmd": ["echo"]})).await, limit);
    session.ask("proc/kill/req", json!({"proc_id": first, "signal": "SIGKILL"})).await.unwrap();
    for _ in 0..5 {
        let spawned = spawn(&session, json!({"cmd": ["echo"]})).await;
        until_end(&session, spawned["proc_id"].as_str().unwrap()).await;
    }
    assert_eq!(status(&session, &first).await["status"], "not_found");
    assert!(status(&session, "").await["procs"].as_array().unwrap().len() <= 4);
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed_after_its_timeout() {
    let session = fixture(settings()).session();
    let script = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let spawned = spawn(&session, json!({"cmd": ["bash", "-c", script], "timeout": 1.0})).await;
    let id = spawned["proc_id"].as_str().unwrap();
    let events = until_end(&session, id).await;
    assert_eq!(events.last().unwrap()["data"], json!({"code": -9}));
    assert_eq!(status(&session, id).await, json!({"proc_id": id, "status": "killed", "error": "timeout"}));
    assert_eq!(status(&session, "").await["procs"][0]["state"], "timedout");
    gone(spawned["pid"].as_u64().unwrap()).await;
    let session = fixture(ProcSettings { max_duration: Some(Duration::from_millis(100)), ..settings() }).session();
    let (id, _) = bash(&session, "sleep 1000").await;
    until_end(&session, &id).await;
    assert_eq!(status(&session, &id).await["error"], "timeout");
}

#[tokio::test]
async fn descendants_end_with_their_process() {
    let session = fixture(settings()).session();
    let (id, _) = bash(&session, "sleep 1000 & echo $!").await;
    let events = until_end(&session, &id).await;
    assert_eq!(events.last().unwrap()["data"], json!({"code": 0}));
    gone(texts(&events, "stdout").trim().parse().unwrap()).await;
}

#[tokio::test]
async fn all_processes_end_with_their_session() {
    let fixture = fixture(settings());
    let (session, other) = (fixture.session(), fixture.session());
    let script = "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 0.1; done";
    let (_, pid) = bash(&session, script).await;
    let (_, stays) = bash(&other, script).await;
    let grandchild = session.heard(|event| event["data"]["text"].is_string()).await;
    let grandchild = grandchild["data"]["text"].as_str().unwrap().trim().parse().unwrap();
    session.leave();
    gone(pid).await;
    gone(grandchild).await;
    assert!(std::fs::exists(format!("/proc/{stays}")).unwrap());
    fixture.closed().await;
    gone(stays).await;
    assert_eq!(spawn(&other, json!({"cmd": ["echo"]})).await["error"], "stopping");
}

#[tokio::test]
async fn a_flood_of_output_is_slowed_to_the_client() {
    let window = 20;
    let session = fixture(settings()).session_that_reads(window);
    let (id, pid) = bash(&session, "yes flood").await;
    session.until(|heard| heard.events.len() > window).await;
    // Other requests are served meanwhile.
    assert_eq!(status(&session, &id).await["status"], "running");
    // Each of the two streams may send one more event before it waits.
    assert!(session.events().len() <= window + 2);
    session.catch_up();
    session.until(|heard| heard.events.len() > 2 * window).await;
    assert!(session.events().len() <= 2 * window + 4);
    let killed = session.ask("proc/kill/req", json!({"proc_id": id})).await.unwrap();
    assert_eq!(killed["state"], "killed");
    session.leave();
    gone(pid).await;
}

#[tokio::test]
async fn a_process_over_its_output_limit_is_killed() {
    let session = fixture(ProcSettings { max_output_bytes: 10_000, ..settings() }).session();
    let spawned = spawn(&session, json!({"cmd": ["yes"]})).await;
    let id = spawned["proc_id"].as_str().unwrap();
    let events = until_end(&session, id).await;
    assert_eq!(texts(&events, "stdout").len(), 10_000);
    assert!(events.iter().any(|event| event["kind"] == "log" && event["data"]["level"] == "error"));
    assert_eq!(status(&session, id).await, json!({"proc_id": id, "status": "killed", "error": "output limit"}));
    gone(spawned["pid"].as_u64().unwrap()).await;
}

#[tokio::test]
async fn a_very_long_line_is_split_into_pieces() {
    let session = fixture(ProcSettings { max_piece_bytes: 1000, ..settings() }).session();
    let (id, _) = bash(&session, r"head -c 100000 /dev/zero | tr '\0' x; printf '\xff\n'").await;
    let events = until_end(&session, &id).await;
    let text = texts(&events, "stdout");
    assert_eq!(text, format!("{}\u{fffd}\n", "x".repeat(100_000)));
    assert!(events.iter().all(|event| event["data"]["text"].as_str().is_none_or(|text| text.len() <= 1000)));
}

#[tokio::test]
async fn a_process_that_never_reads_fills_only_its_own_queue() {
    let session = fixture(ProcSettings { max_queued_bytes: 300_000, ..settings() }).session();
    let (id, pid) = bash(&session, "sleep 1000").await;
    let data = "x".repeat(50_000);
    let mut refusal = None;
    for _ in 0..20 {
        let written = session.ask("proc/write/req", json!({"proc_id": id, "data": data})).await.unwrap();
        if written["ok"] == false {
            refusal = Some(written);
            break;
        }
    }
    let refusal = refusal.expect("the queue is limited");
    assert!(refusal["error"].as_str().unwrap().starts_with("stdin is full: "), "{refusal}");
    let spawned = spawn(&session, json!({"cmd": ["echo", "meanwhile"]})).await;
    until_end(&session, spawned["proc_id"].as_str().unwrap()).await;
    session.leave();
    gone(pid).await;
}

#[tokio::test]
async fn a_process_killed_from_outside_has_failed() {
    let session = fixture(settings()).session();
    let (id, pid) = bash(&session, "sleep 1000").await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until_end(&session, &id).await;
    assert_eq!(status(&session, &id).await, json!({"proc_id": id, "status": "failed", "error": "exit code -9"}));
}

#[tokio::test]
async fn a_cancelled_spawn_request_leaves_no_process() {
    let fixture = fixture(ProcSettings { max_running: 1, ..settings() });
    let session = fixture.session();
    drop(session.begin("proc/spawn/req", json!({"cmd": ["sleep", "1000"]})));
    // The place is free again.
    bash(&session, "sleep 1000").await;
    fixture.closed().await;
}

#[tokio::test]
async fn a_process_that_leaves_the_group_does_not_delay_the_end() {
    let session = fixture(settings()).session();
    let (id, _) = bash(&session, "setsid sleep 1000 & echo $!").await;
    let events = until_end(&session, &id).await;
    assert_eq!(events.last().unwrap()["data"], json!({"code": 0}));
    // The plain starter cannot find the process, so the test kills it.
    let pid = rustix::process::Pid::from_raw(texts(&events, "stdout").trim().parse().unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[tokio::test]
async fn command_lines_of_ended_processes_have_a_bound_that_parties_share() {
    let fixture = fixture(ProcSettings { max_total_command_bytes: 60_000, ..settings() });
    let echo = json!({"cmd": ["echo", "x".repeat(8000)]});
    let run = async |session: &Session| {
        let spawned = spawn(session, echo.clone()).await;
        if let Some(id) = spawned["proc_id"].as_str().filter(|id| !id.is_empty()) {
            until_end(session, id).await;
        }
        spawned["error"].as_str().unwrap_or_default().to_owned()
    };
    let mut sessions = Vec::new();
    let refusal = loop {
        let session = fixture.session_of(1);
        let error = run(&session).await;
        if !error.is_empty() || sessions.len() > 50 {
            break error;
        }
        sessions.push(session);
    };
    assert_eq!((refusal.as_str(), sessions.len()), ("proc_limit", 5));
    assert_eq!(run(&sessions[0]).await, "", "an ended process of the session makes room");
    let listed = sessions[0].ask("proc/status/req", json!({})).await.unwrap();
    assert_eq!(listed["procs"].as_array().unwrap().len(), 1);
    assert_eq!(run(&fixture.session_of(2)).await, "", "another party has a share of its own");
    sessions[1].leave();
    assert_eq!(run(&fixture.session_of(1)).await, "", "memory of a session that has ended is free");
}

#[tokio::test]
async fn queued_input_has_a_bound_that_parties_share() {
    let fixture = fixture(ProcSettings { max_total_queued_bytes: 400_000, ..settings() });
    let start = async |session: &Session| spawn(session, json!({"cmd": ["sleep", "100"]})).await["proc_id"].clone();
    let write = async |session: &Session, id: &Value, bytes: usize| {
        let message = json!({"proc_id": id, "data": "x".repeat(bytes)});
        session.ask("proc/write/req", message).await.unwrap()["error"].clone()
    };
    let (first, second, other) = (fixture.session_of(1), fixture.session_of(1), fixture.session_of(2));
    assert_eq!(write(&first, &start(&first).await, 300_000).await, "");
    let id = start(&second).await;
    let full = "stdin is full: too many bytes are queued for the processes of this client";
    assert_eq!(write(&second, &id, 300_000).await, full);
    assert_eq!(write(&other, &start(&other).await, 150_000).await, "", "another party has a share of its own");
    first.leave();
    other.leave();
    let freed = async {
        while write(&second, &id, 300_000).await != "" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::fixture::PATIENCE, freed).await.expect("input of an ended process is freed");
}

#[tokio::test]
async fn running_processes_have_a_number_that_parties_share() {
    let fixture = fixture(ProcSettings { max_running_total: 4, ..settings() });
    let mut sessions = Vec::new();
    let mut fill = async |party| {
        let mut started = 0;
        loop {
            let session = fixture.session_of(party);
            let spawned = spawn(&session, json!({"cmd": ["sleep", "100"]})).await;
            sessions.push(session);
            if spawned["ok"] != true || started == 50 {
                return started;
            }
            started += 1;
        }
    };
    assert_eq!((fill(1).await, fill(2).await, fill(1).await), (4, 2, 0));
}
