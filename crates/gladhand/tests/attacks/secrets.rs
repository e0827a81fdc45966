//! Secrets never reach messages, logs, listings or records, also where an upstream repeats them; and `doctor` warns of
//! packages that can change under their name.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{MCP_INITIALIZED, Process, gladhand, mcp_call, mcp_initialize};

const TOKEN: &str = "tok-4711-bearer-of-the-test";
/// In the URL it is percent-encoded.
const URL_KEY: &str = "url/key+4711=";
const URL_KEY_ENCODED: &str = "url%2Fkey%2B4711%3D";
const HEADER: &str = "own-header-value-4711";
const ARGUMENT: &str = "argument-secret-4711";
const DSN: &str = "dsn-password-4711";
const VARIABLE: &str = "environment-secret-4711";
const IN_PATH: &str = "path-secret-4711";

/// No output may hold one of these: the secrets as they are, percent-encoded and in base64.
const SECRETS: [&str; 9] = [
    TOKEN,
    URL_KEY,
    URL_KEY_ENCODED,
    HEADER,
    ARGUMENT,
    DSN,
    VARIABLE,
    IN_PATH,
    // `x:` and the token.
    "eDp0b2stNDcxMS1iZWFyZXItb2YtdGhlLXRlc3Q",
];

/// An MCP server that repeats all that it was shown, in every place where a server can say something about an error.
/// The path of a request says how it behaves.
fn parrot() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    address
}

/// Answers one request; nothing at the end of the connection.
fn answer(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let echo = format!(
        "you sent {}; the token is {TOKEN}, the key {URL_KEY}, Basic eDp0b2stNDcxMS1iZWFyZXItb2YtdGhlLXRlc3Q=, and {HEADER}",
        head.join(" | ")
    );
    let (status, message) = respond(&head[0], &request, &echo);
    let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{}\"", echo.replace('"', "'"));
    let message = message.map(|message| message.to_string()).unwrap_or(echo);
    let response = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nwww-authenticate: {challenge}\r\ncontent-length: {}\r\n\r\n{message}",
        message.len()
    );
    let mut stream = stream;
    stream.write_all(response.as_bytes()).ok()
}

fn respond(first: &str, request: &Value, echo: &str) -> (u16, Option<Value>) {
    let id = &request["id"];
    let failed = |code: i64| {
        let data = json!({"echo": echo, "authorization": format!("Bearer {TOKEN}"), "deep": [[echo]]});
        Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": echo, "data": data}}))
    };
    let result = |result: Value| Some(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let path = first.split([' ', '?']).nth(1).unwrap_or_default();
    match (path, request["method"].as_str()) {
        ("/denied", _) => (401, None),
        ("/forbidden", _) => (403, None),
        ("/broken", _) => (500, None),
        ("/garbled", _) => (200, None),
        (_, None) => (405, None),
        (path, Some(_)) if path.starts_with("/cut/") => {
            let before = path.rsplit('/').next().and_then(|length| length.parse().ok()).unwrap_or(0);
            let error = json!({"code": -32000, "message": "x".repeat(before) + TOKEN});
            (200, Some(json!({"jsonrpc": "2.0", "id": id, "error": error})))
        }
        (_, Some(method)) if method.starts_with("notifications/") => (202, Some(json!(""))),
        ("/talking", Some("initialize")) => (
            200,
            result(json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "parrot", "version": "1"}, "instructions": echo})),
        ),
        ("/talking", Some("tools/list")) => {
            let tool = |name: &str| json!({"name": name, "description": "x", "inputSchema": {"type": "object"}});
            (200, result(json!({"tools": [tool("fail"), tool("say")]})))
        }
        ("/talking", Some("tools/call")) if request["params"]["name"] == "say" => {
            (200, result(json!({"content": [{"type": "text", "text": format!("data {TOKEN}")}]})))
        }
        ("/talking", Some("tools/call")) => (200, failed(-32000)),
        _ => (200, failed(-32601)),
    }
}

const PATHS: [&str; 6] = ["denied", "forbidden", "broken", "garbled", "refusing", "talking"];

/// A folder with a configuration of upstreams that repeat secrets.
struct Scene {
    folder: tempfile::TempDir,
    parrot: SocketAddr,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().expect("a folder"), parrot: parrot() };
        let mut config = format!("[audit]\nfile = '{}'\npayloads = true\n", scene.file("audit.jsonl").display());
        for path in PATHS {
            config.push_str(&format!(
                "[upstreams.{path}]\nurl = '{}'\nbearer = '${{secret:token}}'\nheaders = {{ X-Own = '${{OWN}}' }}\n",
                scene.url(path)
            ));
        }
        // A process that repeats what it was given on stderr, and leaves.
        config.push_str(&format!(
            "[upstreams.dying]\ncommand = 'sh'\nargs = ['-c', 'echo \"got $DB_SECRET and $*\" >&2; exit 1', 'sh', \
             '--password={ARGUMENT}', '--token', '{ARGUMENT}', 'postgres://ann:{DSN}@db/x']\n\
             env = {{ DB_SECRET = '${{secret:variable}}' }}\n\
             [upstreams.absent]\ncommand = '/nowhere/${{secret:path}}/server'\n\
             [upstreams.gone]\nurl = 'http://ann:{DSN}@127.0.0.1:9/mcp?token={ARGUMENT}'\n"
        ));
        std::fs::write(scene.file("config.toml"), config).expect("it can be written");
        scene
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}?api_key={URL_KEY_ENCODED}", self.parrot)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gladhand();
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GLADHAND_CONFIG", self.file("config.toml"))
            .env("GLADHAND_DATA_DIR", self.file("data"))
            .env("GLADHAND_SECRET_TOKEN", TOKEN)
            .env("GLADHAND_SECRET_VARIABLE", VARIABLE)
            .env("GLADHAND_SECRET_PATH", IN_PATH)
            .env("OWN", HEADER)
            .stdin(Stdio::null());
        command
    }

    /// All that a command writes.
    fn output(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    /// The same with a server and credentials on the command line.
    fn output_of_client(&self, arguments: &[&str]) -> String {
        let mut command = self.command(&["-vv"]);
        command.args(arguments).env("GLADHAND_MCP_TOKEN", TOKEN);
        let output = command.output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

fn assert_no_secret(of: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{of} shows {secret}:\n{text}");
    }
}

#[test]
fn commands_that_talk_to_a_server_show_no_secret_that_it_repeats() {
    let scene = Scene::new();
    let own = format!("X-Own: {HEADER}");
    for path in PATHS {
        let url = scene.url(path);
        for arguments in [
            &["tools", "--header", &own, &url][..],
            &["tools", "--json", "--as", "mcp@2025-06-18", "--header", &own, &url],
            &["call", "fail", "--header", &own, &url],
            &["call", "fail", "--json", "--header", &own, &url],
            &["resources", "--header", &own, &url],
            &["open", "--as", "mcp@2025-06-18", "--header", &own, &url],
            &["open", "--json", "--as", "mcp@2025-06-18", "--header", &own, &url],
        ] {
            let shown = scene.output_of_client(arguments);
            assert!(!shown.trim().is_empty(), "{arguments:?}");
            assert_no_secret(&format!("{path}: {arguments:?}"), &shown);
        }
    }
    let script = "echo \"got $*\" >&2; exit 1";
    let command = ["--", "sh", "-c", script, "sh", "--password", ARGUMENT, &format!("postgres://ann:{DSN}@db/x")];
    for arguments in [&["tools"][..], &["call", "x"], &["open", "--as", "mcp"], &["open", "--json", "--as", "mcp"]] {
        let shown = scene.output_of_client(&[arguments, &command[..]].concat());
        assert!(shown.contains("***"), "{arguments:?}: {shown}");
        assert_no_secret(&format!("{arguments:?}"), &shown);
    }
}

#[test]
fn the_configuration_is_shown_with_references_and_without_secrets() {
    let scene = Scene::new();
    for arguments in [
        &["config", "show"][..],
        &["config", "show", "--all"],
        &["config", "show", "--json"],
        &["config", "check"],
        &["config", "check", "--json"],
        &["doctor"],
        &["doctor", "--json"],
    ] {
        assert_no_secret(&format!("{arguments:?}"), &scene.output(&[&["-vv"], arguments].concat()));
    }
    for arguments in [&["config", "check"], &["config", "show"], &["doctor", "--json"][..]] {
        let shown = scene.output(arguments);
        assert!(shown.contains("/nowhere/${secret:path}/server"), "{arguments:?}: {shown}");
    }
    let shown = scene.output(&["config", "show"]);
    assert!(shown.contains("?api_key=***") && shown.contains("postgres://***@db/x"), "{shown}");
    assert!(shown.contains("${secret:token}") && shown.contains("${OWN}"), "{shown}");
}

/// Reads lines until one is the answer to a request.
fn answer_to(process: &mut Process, id: u64, shown: &mut String) {
    loop {
        let line = process.line();
        shown.push_str(&line);
        shown.push('\n');
        if serde_json::from_str::<Value>(&line).is_ok_and(|line| line["id"] == id) {
            return;
        }
    }
}

#[test]
fn a_server_shows_no_secret_that_its_upstreams_repeat() {
    let scene = Scene::new();
    for format in ["human", "json"] {
        let mut process = Process::start(scene.command(&["-vvv", "--log-format", format, "serve"]));
        let mut shown = String::new();
        process.send(&mcp_initialize("2025-06-18"));
        answer_to(&mut process, 0, &mut shown);
        process.send(MCP_INITIALIZED);
        process.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        answer_to(&mut process, 1, &mut shown);
        assert!(shown.contains("talking__fail"), "{shown}");
        let names = PATHS.iter().chain(&["dying", "absent", "gone"]);
        for (id, upstream) in (2..).zip(names) {
            process.send(&mcp_call(id, &format!("{upstream}__fail"), &json!({"note": TOKEN}).to_string()));
            answer_to(&mut process, id, &mut shown);
        }
        assert!(shown.contains("you sent"), "the upstream's words are passed on: {shown}");
        for arguments in [&["ps"][..], &["ps", "--json"], &["doctor"], &["doctor", "--json"]] {
            let told = scene.output(arguments);
            let is_about_it = told.contains(&process.id().to_string());
            assert!(is_about_it && told.contains("talking"), "{arguments:?}: {told}");
            assert_no_secret(&format!("{arguments:?}"), &told);
        }
        let (_, rest, log) = process.finish();
        assert_no_secret("stdout", &(shown + &rest.join("\n")));
        assert!(log.contains("upstream not open"), "{log}");
        assert!(log.contains("got *** and"), "what the process wrote is in the log: {log}");
        assert_no_secret("the log", &log);
        let audit = std::fs::read_to_string(scene.file("audit.jsonl")).expect("calls are written down");
        assert!(audit.contains("talking__fail"), "{audit}");
        assert_no_secret("the audit file", &audit);
        assert_no_secret_below(&scene.file("data"));
    }
}

/// No file of the data folder holds one of the secrets.
fn assert_no_secret_below(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => assert_no_secret_below(&entry.path()),
            Ok(kind) if kind.is_file() => {
                let text = std::fs::read(entry.path()).unwrap_or_default();
                assert_no_secret(&entry.path().display().to_string(), &String::from_utf8_lossy(&text));
            }
            _ => {}
        }
    }
}

#[test]
fn instructions_repeat_no_secret() {
    let scene = Scene::new();
    let url = scene.url("talking");
    let mut command = scene.command(&["-vv", "bridge", "--header", &format!("X-Own: {HEADER}"), &url]);
    command.env("GLADHAND_MCP_TOKEN", TOKEN);
    let mut process = Process::start(command);
    let opened = process.ask(&mcp_initialize("2025-06-18"));
    let instructions = opened["result"]["instructions"].as_str().unwrap_or_default().to_owned();
    assert!(instructions.contains("you sent"), "{opened}");
    assert_no_secret("the opening", &opened.to_string());
    let (_, rest, log) = process.finish();
    assert_no_secret("the bridge", &(rest.join("\n") + &log));
}

#[test]
fn a_secret_at_the_place_where_a_text_is_cut_is_not_shown_in_part() {
    let scene = Scene::new();
    // A refusal is cut after 128 characters.
    for before in [100, 110, 120, 127] {
        let url = scene.url(&format!("cut/{before}"));
        for arguments in [&["tools", "--as", "mcp@2025-06-18", &url], &["open", "--as", "mcp@2025-06-18", &url]] {
            let shown = scene.output_of_client(arguments);
            assert!(shown.contains("xxxx*"), "{arguments:?}: {shown}");
            assert!(!shown.contains("xt"), "{arguments:?}: {shown}");
        }
    }
}

#[test]
fn the_content_of_a_result_passes_unchanged() {
    let scene = Scene::new();
    let shown = scene.output_of_client(&["call", "say", &scene.url("talking")]);
    assert!(shown.contains(&format!("data {TOKEN}")), "{shown}");
}

#[test]
fn doctor_warns_of_packages_without_a_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.toml");
    let config = "[upstreams.any]\ncommand = ['npx', '-y', '@scope/server']\n\
                  [upstreams.pinned]\ncommand = ['npx', '-y', '@scope/server@1.2.3']\n\
                  [upstreams.image]\ncommand = 'docker'\nargs = ['run', '-i', '--rm', 'org/server:latest']\n";
    std::fs::write(&file, config).expect("it can be written");
    let mut command = gladhand();
    // Nothing is fetched for the sake of a test.
    command
        .args(["doctor", "--json", "--offline"])
        .arg("--config")
        .arg(&file)
        .env("GLADHAND_DATA_DIR", folder.path().join("data"));
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let warnings: Vec<_> =
        report["findings"].as_array().expect("a list").iter().filter(|one| one["state"] == "doubtful").collect();
    let about = |name: &str| warnings.iter().find(|one| one["about"] == format!("upstream {name}"));
    let any = about("any").unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(
        any["message"],
        "`npx` runs `@scope/server` without an exact version, so that it can change at any start"
    );
    assert_eq!(any["advice"], "name the version that you looked at, as in `@scope/server@1.2.3`");
    assert!(about("image").is_some() && about("pinned").is_none(), "{report:#}");
}

#[test]
fn tokens_and_passwords_are_masked_by_their_form_alone() {
    const GITHUB: &str = "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3gH5";
    const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJlLW9mLXRoZS10ZXN0";
    const AWS: &str = "AKIAIOSFODNN7EXAMPLE";
    let scene = Scene::new();
    let script = format!("echo 'no answer for {JWT}' >&2; exit 3");
    let config = format!(
        "[upstreams.a]\ncommand = ['sh', '-c', {}, '{GITHUB}', '--password', 'hush-hush', '--port', '8080']\n\
         [upstreams.b]\ncommand = ['mysql', '-uroot', '-phush-hush', 'shop']\nenv = {{ NOTE = '{AWS}' }}\n",
        Value::from(script)
    );
    std::fs::write(scene.file("config.toml"), config).expect("it can be written");
    let mut process = Process::start(scene.command(&["-vvv", "serve"]));
    process.ask(&mcp_initialize("2025-06-18"));
    process.send(MCP_INITIALIZED);
    let mut shown = String::new();
    process.send(&mcp_call(1, "a__x", "{}"));
    answer_to(&mut process, 1, &mut shown);
    for arguments in [&["config", "show"][..], &["config", "show", "--json"], &["ps"], &["ps", "--json"], &["doctor"]] {
        shown += &scene.output(arguments);
    }
    let (_, rest, log) = process.finish();
    shown = shown + &rest.join("\n") + &log;
    for secret in [GITHUB, JWT, AWS, "hush-hush"] {
        assert!(!shown.contains(secret), "{secret} is shown:\n{shown}");
    }
    assert!(shown.contains("--password") && shown.contains("8080") && shown.contains("-p***"), "{shown}");
    assert!(log.contains("no answer for ***"), "{log}");
}
