//! Recordings: `record` changes nothing that passes, `bridge --record` and `[record]` have the sessions of both sides, and
//! no secret reaches the file.
#![cfg(unix)]

mod support;

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gladhand_recording::{Entry, EntryKind, Header, Sender};
use rustix::process::Signal;
use serde_json::json;
use support::{MCP_INITIALIZED, Process, gladhand, mcp_call, mcp_initialize};
use tempfile::TempDir;

/// `gladhand record` in front of a command.
fn record(file: &Path, options: &[&str], command: &[&str]) -> Command {
    let mut gladhand = gladhand();
    gladhand.arg("record").arg(file).args(options).arg("--").args(command);
    gladhand
}

/// Runs a command with this standard input.
fn run(mut command: Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (mut stdin, input) = (child.stdin.take().expect("piped"), input.to_vec());
    // The command may end before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic");
    output
}

fn entries(file: &Path) -> Vec<Entry> {
    let text = fs_err::read_to_string(file).expect("the recording");
    let (header, rest) = text.split_once('\n').expect("a header");
    Header::parse(header).expect("a header");
    rest.lines().map(|line| Entry::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// An entry in few words.
fn brief(entry: &Entry) -> String {
    let session = entry.session.as_deref().unwrap_or("-");
    match &entry.kind {
        EntryKind::Message { from, dialect, kind, .. } => {
            format!("{session} {from:?} {} {}", dialect.as_deref().unwrap_or("-"), kind.as_deref().unwrap_or("-"))
        }
        EntryKind::Text { from, is_stderr, text } => format!("{session} {from:?} stderr={is_stderr} {text}"),
        EntryKind::Opened { dialect, version, peer } => format!("{session} opened {dialect} {version} {}", peer.name),
        EntryKind::Http(http) => format!("{session} {} {} {}", http.method, http.path, http.status),
        EntryKind::Closed(end) => format!("{session} closed {}", end.reason.as_deref().unwrap_or("-")),
        EntryKind::Dropped(number) => format!("dropped {number}"),
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Bytes that look random, the same in every run.
fn junk(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..length).map(next).collect()
}

#[test]
fn every_byte_passes_unchanged_in_any_chunks() {
    let folder = folder();
    let long = [b"{\"a\":\"".as_slice(), &vec![b'x'; 17 << 20], b"\"}"].concat();
    for (number, input) in [
        Vec::new(),
        b"no newline at the end".to_vec(),
        b"{\"jsonrpc\":\"2.0\"}\r\n\r\n\xff\xfe\n\n{}".to_vec(),
        junk(3 << 20),
        long,
    ]
    .into_iter()
    .enumerate()
    {
        let file = folder.path().join(number.to_string());
        let output = run(record(&file, &[], &["sh", "-c", "tee /dev/stderr"]), &input);
        assert!(output.status.success());
        assert!(output.stdout == input, "{number}: stdout differs");
        assert!(output.stderr == input, "{number}: stderr differs");
        assert!(brief(entries(&file).last().unwrap()).ends_with("closed exit status: 0"));
    }
    // Chunk by chunk, through pauses.
    let file = folder.path().join("slow");
    let mut process = Process::start(record(&file, &[], &["cat"]));
    let line = junk(5000).into_iter().filter(|byte| byte.is_ascii_alphanumeric()).collect::<Vec<_>>();
    for chunk in line.chunks(7) {
        process.send_bytes(chunk);
    }
    process.send_bytes(b"\n");
    assert_eq!(process.line().as_bytes(), line);
    process.close();
    assert!(process.wait().success());
    let texts: Vec<_> = entries(&file).iter().map(brief).collect();
    let line = String::from_utf8(line).unwrap();
    let expected = [format!("client-1 Client stderr=false {line}"), format!("client-1 Server stderr=false {line}")];
    assert_eq!(texts[..2], expected);
}

#[test]
fn a_session_is_recorded_with_its_dialect_and_the_kinds_of_messages() {
    let folder = folder();
    let file = folder.path().join("session.jsonl");
    let mut process = Process::start(record(&file, &[], &[env!("CARGO_BIN_EXE_gladhand"), "serve"]));
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    process.ask(&mcp_call(2, "echo", &json!({"text": "hi"}).to_string()));
    process.ask(&mcp_call(3, "missing", &json!({}).to_string()));
    process.close();
    assert!(process.wait().success());
    let briefs: Vec<_> = entries(&file).iter().map(brief).collect();
    let message = |from: &str, kind: &str| format!("client-1 {from} mcp {kind}");
    let expected = [
        message("Client", "request"),
        message("Server", "response"),
        "client-1 opened mcp 2025-11-25 test".to_owned(),
        message("Client", "notification"),
        message("Client", "request"),
        message("Server", "response"),
        message("Client", "request"),
        message("Server", "error"),
        "client-1 closed exit status: 0".to_owned(),
    ];
    assert_eq!(briefs, expected);
    assert_eq!(fs_err::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let times: Vec<_> = entries(&file).iter().map(|entry| entry.ms).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn the_exit_status_and_signals_are_those_of_the_command() {
    let folder = folder();
    let file = |name: &str| folder.path().join(name);
    let shell = |name: &str, script: &str| run(record(&file(name), &[], &["sh", "-c", script]), b"").status;
    assert_eq!(shell("code", "exit 7").code(), Some(7));
    assert_eq!(shell("signal", "kill -9 $$").code(), Some(137));
    for (name, signal, number) in [("term", Signal::TERM, 15), ("usr1", Signal::USR1, 10), ("int", Signal::INT, 2)] {
        let script = "trap 'echo USR1; exit 10' USR1; trap 'echo TERM; exit 15' TERM; trap 'echo INT; exit 2' INT; \
                      echo ready; while :; do sleep 0.02; done";
        // A test run in the background ignores SIGINT, and so would the shell.
        let command = ["env", "--default-signal", "sh", "-c", script];
        let mut process = Process::start(record(&file(name), &[], &command));
        assert_eq!(process.line(), "ready");
        process.signal(signal);
        process.line();
        assert_eq!(process.wait().code(), Some(number), "{name}");
    }
    let missing = run(record(&file("missing"), &[], &["/does/not/exist"]), b"");
    assert_eq!(missing.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot start `/does/not/exist`"));
}

#[test]
fn the_command_ends_by_itself_after_its_input_and_is_ended_only_when_the_client_is_gone() {
    let folder = folder();
    // It ignores the end of its input, and still answers.
    let script = "cat > /dev/null; sleep 0.5; echo later";
    let output = run(record(&folder.path().join("a"), &[], &["sh", "-c", script]), b"x\n");
    assert_eq!(output.stdout, b"later\n");
    // Its input ends, nothing reads its output, and it never ends: it is ended.
    let mut command = record(&folder.path().join("b"), &[], &["sleep", "1000"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop((child.stdin.take(), child.stdout.take()));
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    // Nothing reads its output, and it writes: it gets the error of a closed pipe, as without us.
    let mut command = record(&folder.path().join("c"), &[], &["yes"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let stdin = child.stdin.take();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
    drop(stdin);
    // The command closes its output, and the client sees the end.
    let script = "exec >&-; cat > /dev/null";
    let mut command = record(&folder.path().join("d"), &[], &["sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut all = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_existing_file_is_refused_and_no_link_is_followed() {
    let folder = folder();
    let file = folder.path().join("a");
    fs_err::write(&file, "mine").unwrap();
    let output = run(record(&file, &[], &["touch", "/nonexistent/x"]), b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--force"), "{output:?}");
    assert_eq!(fs_err::read_to_string(&file).unwrap(), "mine");
    assert!(run(record(&file, &["--force"], &["true"]), b"").status.success());
    assert_eq!(entries(&file).len(), 1);
    let link = folder.path().join("link");
    symlink(&file, &link).unwrap();
    for path in [link.as_path(), Path::new("/dev/full")] {
        let output = run(record(path, &["--force"], &["true"]), b"");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
    let output = run(record(&folder.path().join("b"), &["--mask", "("], &["true"]), b"");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_killed_process_leaves_everything_but_the_last_line() {
    let folder = folder();
    let file = folder.path().join("a");
    let mut process = Process::start(record(&file, &[], &["cat"]));
    for number in 0..50 {
        process.send(&format!("{{\"n\":{number}}}"));
        process.line();
    }
    process.signal(Signal::KILL);
    assert_eq!(process.wait().signal(), Some(9));
    // The answer to the last line may have come before it was recorded.
    assert!(entries(&file).len() >= 99, "{}", entries(&file).len());
}

#[test]
fn a_full_part_is_followed_by_another_one_and_the_oldest_go() {
    let folder = folder();
    let file = folder.path().join("a");
    let line = format!("{{\"x\":\"{}\"}}\n", "y".repeat(100_000));
    let output = run(record(&file, &["--max-mib", "1"], &["cat"]), line.repeat(50).as_bytes());
    assert_eq!(output.stdout.len(), line.len() * 50);
    let mut names: Vec<_> = fs_err::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "a.1", "a.2", "a.3", "a.4"]);
    let part = |name: &str| {
        let text = fs_err::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.len() <= 1 << 20);
        Header::parse(text.lines().next().unwrap()).unwrap().part
    };
    let newest = part("a");
    assert!(newest > 5);
    assert_eq!([part("a.1"), part("a.2"), part("a.3"), part("a.4")], [1, 2, 3, 4].map(|older| newest - older));
}

/// Secrets of many kinds, each with the text that it stands in.
fn secrets() -> Vec<(String, String)> {
    let random = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3gH5";
    let mut all = Vec::new();
    let mut plant = |secret: &str, around: &str| all.push((secret.to_owned(), around.replace('@', secret)));
    for prefix in [
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "sk-ant-",
        "sk-",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "AIza",
        "npm_",
        "hf_",
    ] {
        plant(&format!("{prefix}{random}"), "the key @ is refused");
    }
    for token in [
        "xoxb-123456789012-abcdefABCDEF",
        "xoxp-123456789013-abcdefABCDEF",
        "AKIAIOSFODNN7EXAMPLE",
        "ASIAIOSFODNN7EXAMPLE",
    ] {
        plant(token, "token @.");
    }
    plant(&format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{random}"), "jwt @ expired");
    plant("hush01password", "https:%%ann:@%%h/x");
    plant("hush02password", "postgres://ann:@&db/x");
    for (name, secret) in
        [("api_key", "hush03"), ("access_token", "hush04"), ("sig", "hush05"), ("client_secret", "hush06")]
    {
        plant(&format!("{secret}query"), &format!("https://h.example/x?a=1&{name}=@&b=2"));
    }
    for (flag, secret) in
        [("--password", "hush07"), ("--token", "hush08"), ("--api-key", "hush09"), ("--client-secret", "hush10")]
    {
        plant(&format!("{secret}flag"), &format!("run x {flag} @ -v"));
        plant(&format!("{secret}equals"), &format!("run x {flag}=@ -v"));
    }
    plant("hush11mysql", "mysql -uroot -p@ db");
    for (header, secret) in [
        ("Authorization: Bearer ", "hush12bearer0"),
        ("Authorization: Basic ", "aHVzaDEzOmh1c2g="),
        ("Proxy-Authorization: Basic ", "aHVzaDE0Omh1c2g="),
        ("X-Api-Key: ", "hush15header7"),
        ("Private-Token: ", "hush16header8"),
        ("Cookie: id=", "hush17cookie"),
        ("Set-Cookie: id=", "hush18cookie"),
        ("DPoP ", "hush19dpop1234567"),
    ] {
        plant(secret, &format!("{header}@"));
    }
    for (member, secret) in
        [("password", "hush20m"), ("apiKey", "hush21m"), ("refresh_token", "hush22m"), ("privateKey", "hush23m")]
    {
        plant(secret, &format!("{{\"{member}\":\"@\"}}"));
    }
    plant("MIIEhush24keykeykey", "-----BEGIN PRIVATE KEY-----\\n@\\n-----END PRIVATE KEY-----");
    plant("MIIEhush25keykeykey", "-----BEGIN RSA PRIVATE KEY-----\\n@\\n-----END RSA PRIVATE KEY-----");
    for (name, secret) in [("DB_PASSWORD", "hush26v"), ("AWS_SECRET_ACCESS_KEY", "hush27v"), ("GITHUB_PAT", "hush28v")]
    {
        plant(secret, &format!("export {name}=@"));
    }
    // The places of URLs have an `@` of their own.
    for (_, text) in &mut all {
        *text = text.replace("%%h", "@h").replace("&db", "@db").replace("%%", "//");
    }
    all
}

#[test]
fn no_secret_of_any_kind_reaches_the_file() {
    let folder = folder();
    let (file, script) = (folder.path().join("a"), folder.path().join("s"));
    // Known values, in text in which nothing shows that they are secrets.
    let known = [
        ("SERVICE_TOKEN", "plain value one/1"),
        ("MY_PASSPHRASE", "correct horse \"battery\""),
        ("XX_API_KEY", "kn0wnvalue"),
    ];
    let encoded = |value: &str| STANDARD.encode(format!("ann:{value}!!"));
    let mut secrets = secrets();
    for (_, value) in known {
        secrets.push((value.to_owned(), format!("said {value} again")));
        secrets.push((encoded(value)[8..20].to_owned(), format!("said {} again", encoded(value))));
    }
    secrets.push(("plain%20value%20one%2F1".to_owned(), "see /plain%20value%20one%2F1/x".to_owned()));
    assert!(secrets.len() >= 40, "{}", secrets.len());
    let custom = "cust-4711";
    secrets.push((custom.to_owned(), format!("customer {custom}")));
    let mut input = String::new();
    for (_, text) in &secrets {
        let call = |params| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        // A command line as a list of words.
        let words: Vec<_> = if text.contains(" -") { text.split(' ').collect() } else { vec![text.as_str()] };
        let lines = [
            call(json!({"name": "a", "arguments": {"text": text, "deep": [[{"x": text}]], (text): 1}})),
            call(json!({"name": "a", "arguments": {"words": words, "json": json!({"a": text}).to_string()}})),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}}).to_string(),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": text, "data": {"why": text}}})
                .to_string(),
            text.replace("\\n", "\n"),
            json!({"level": "error", "message": text}).to_string(),
        ];
        input.extend(lines.map(|line| line + "\n"));
    }
    // As input, as results, and as lines of the error output.
    fs_err::write(&script, "tee /dev/stderr").unwrap();
    let arguments = ["sh", script.to_str().unwrap(), "--password", "hush29argument", "https://u:hush30url@h/", custom];
    let mut command = record(&file, &["--mask", "cust-[0-9]+"], &arguments);
    command.envs(known);
    let output = run(command, input.as_bytes());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), input, "what passes keeps its secrets");
    let recorded = fs_err::read_to_string(&file).unwrap();
    secrets.extend(["hush29argument", "hush30url"].map(|secret| (secret.to_owned(), String::new())));
    for (secret, text) in &secrets {
        let escaped = json!(secret).to_string();
        for form in [secret.as_str(), escaped.trim_matches('"')] {
            let found = recorded.lines().find(|line| line.contains(form));
            let found = found.map(|line| &line[..line.floor_char_boundary(2000)]);
            assert!(found.is_none(), "{secret} of {text:?} is in {found:?}");
        }
    }
    assert!(!recorded.contains("hush"), "{:?}", recorded.lines().find(|line| line.contains("hush")));
    // What is around them stays.
    assert!(recorded.contains("is refused") && recorded.contains("tools/call"));
    // The first answer opens the session, and the command ends.
    assert_eq!(entries(&file).len(), 3 * input.lines().filter(|line| !line.is_empty()).count() + 2);
}

#[test]
fn a_bridge_records_the_sessions_of_both_sides() {
    let folder = folder();
    let file = folder.path().join("a");
    for _ in 0..2 {
        let mut bridge = gladhand();
        bridge.arg("bridge").arg("--record").arg(&file).arg("--").args([env!("CARGO_BIN_EXE_gladhand"), "serve"]);
        let mut bridge = Process::start(bridge);
        bridge.ask(&mcp_initialize("2025-11-25"));
        bridge.send(MCP_INITIALIZED);
        bridge.ask(&mcp_call(2, "echo", &json!({"text": "hi", "token": "hush-hush"}).to_string()));
        bridge.close();
        assert!(bridge.wait().success());
    }
    let entries = entries(&file);
    let briefs: Vec<_> = entries.iter().map(brief).collect();
    let text = fs_err::read_to_string(&file).unwrap();
    assert!(!text.contains("hush-hush") && text.contains("\"token\":\"***\""), "{text}");
    for session in ["client-1", "server-1"] {
        let of: Vec<_> = briefs.iter().filter(|brief| brief.starts_with(session)).collect();
        assert_eq!(of.iter().filter(|brief| brief.contains(" opened mcp 2025-11-25")).count(), 1, "{briefs:#?}");
        assert_eq!(of.iter().filter(|brief| brief.contains(" closed")).count(), 1, "{briefs:#?}");
        let call = entries.iter().find(|entry| {
            let is_call = |text: &str| text.contains("tools/call");
            let is_sent = matches!(&entry.kind, EntryKind::Message { from: Sender::Client, message, .. } if is_call(message.get()));
            is_sent && entry.session.as_deref() == Some(session)
        });
        assert!(call.is_some(), "{text}");
    }
    assert_eq!(fs_err::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert!(folder.path().join("a.1").exists(), "the earlier recording is kept");
    fs_err::write(&file, "mine").unwrap();
    let mut bridge = gladhand();
    bridge.arg("bridge").arg("--record").arg(&file).args(["--", "cat"]);
    assert!(!run(bridge, b"").status.success());
    assert_eq!(fs_err::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn serve_records_into_the_folder_of_the_configuration() {
    let folder = folder();
    let configuration = folder.path().join("gladhand.toml");
    let (recordings, data) = (folder.path().join("recordings"), folder.path().join("data"));
    fs_err::write(&configuration, "[record]\nfolder = 'recordings'\nmask = ['cust-\\d+']\n").unwrap();
    let serve = || {
        let mut serve = gladhand();
        serve.arg("serve").arg("--config").arg(&configuration).arg("--data-dir").arg(&data);
        serve
    };
    let check = || {
        let mut check = gladhand();
        check.args(["config", "check"]).arg(&configuration);
        run(check, b"")
    };
    assert_eq!(run(serve(), b"").status.code(), Some(1), "there is no folder");
    let checked = check();
    assert_eq!(checked.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("there is no folder"), "{checked:?}");
    fs_err::create_dir(&recordings).unwrap();
    assert_eq!(check().status.code(), Some(0));
    let mut serving = Process::start(serve());
    serving.ask(&mcp_initialize("2025-11-25"));
    serving.send(MCP_INITIALIZED);
    serving.ask(&mcp_call(2, "echo", &json!({"text": "for cust-12"}).to_string()));
    serving.close();
    assert!(serving.wait().success());
    let files: Vec<_> = fs_err::read_dir(&recordings).unwrap().map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let text = fs_err::read_to_string(file).unwrap();
    assert!(text.contains("for ***") && !text.contains("cust-12"), "{text}");
    let briefs: Vec<_> = entries(file).iter().map(brief).collect();
    assert!(briefs.iter().any(|brief| brief.starts_with("client-1 opened mcp 2025-11-25")), "{briefs:?}");
    fs_err::write(&configuration, "[record]\nfolder = 'recordings'\nmask = ['(']\n").unwrap();
    assert_eq!(check().status.code(), Some(2));
    assert_eq!(run(serve(), b"").status.code(), Some(2));
}
