//! The exchanges in the documentation of A2E are what really happens. Elsewhere `wc` writes its number otherwise.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::pages::{Snippet, page, snippets};
use crate::shell;
use crate::support::{PATIENCE, Process, gladhand};

const PAGE: &str = "docs/a2e.md";

/// Members that are different each time.
const VOLATILE: [&str; 11] = [
    "id",
    "ts",
    "session_id",
    "episode_id",
    "proc_id",
    "memory_id",
    "pid",
    "created_at",
    "updated_at",
    "duration_ms",
    "uptime_seconds",
];

/// A request of the agent, and the answer.
struct Exchange {
    request: String,
    answers: Vec<Value>,
}

/// The snippets under a heading of the page, in one language.
fn under(heading: &str, language: &str) -> Vec<String> {
    let fits = |one: &Snippet| one.is(PAGE, heading, language);
    let all: Vec<_> = snippets().into_iter().filter(fits).map(|one| one.text).collect();
    assert!(!all.is_empty(), "{PAGE} has no {language} under `{heading}`");
    all
}

fn exchanges(heading: &str) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in under(heading, "text").concat().lines() {
        if let Some(request) = line.strip_prefix("→ ") {
            exchanges.push(Exchange { request: request.to_owned(), answers: Vec::new() });
        } else if let Some(answer) = line.strip_prefix("← ") {
            let exchange = exchanges.last_mut().expect("nobody answers before a request");
            exchange.answers.push(serde_json::from_str(answer).expect("an answer is JSON"));
        }
    }
    exchanges
}

/// Takes out what is different each time, and remembers which name on the page stands for which here.
fn settle(page: &mut Value, here: &mut Value, names: &mut HashMap<String, String>) {
    match (page, here) {
        (Value::Object(page), Value::Object(here)) => {
            for (key, page) in page.iter_mut() {
                let Some(here) = here.get_mut(key) else { continue };
                if VOLATILE.contains(&key.as_str()) {
                    if let (Some(page), Some(here)) = (page.as_str(), here.as_str()) {
                        names.insert(page.to_owned(), here.to_owned());
                    }
                    (*page, *here) = (Value::Null, Value::Null);
                } else {
                    settle(page, here, names);
                }
            }
        }
        (Value::Array(page), Value::Array(here)) => {
            page.iter_mut().zip(here).for_each(|(page, here)| settle(page, here, names));
        }
        _ => {}
    }
}

/// An answer and the events of an earlier request may come in either order.
fn in_order(answers: &mut [Value]) {
    answers.sort_by_key(|answer| (answer["req_id"].to_string(), answer["seq"].as_u64(), answer["type"].to_string()));
}

/// A host on standard streams, in a folder, with a configuration.
fn host(folder: &Path, config: &str) -> Process {
    std::fs::write(folder.join("a2e.toml"), config).expect("there is room for a file");
    let mut command = gladhand();
    command.args(["serve", "--dialect", "a2e", "--config", "a2e.toml", "--data-dir", "data"]).current_dir(folder);
    Process::start(command)
}

/// Has the exchanges under a heading again, with the configuration that is shown there.
fn replay(heading: &str, folder: &Path, at_least: usize) {
    let mut process = host(folder, &under(heading, "toml").concat());
    let (exchanges, mut names) = (exchanges(heading), HashMap::new());
    assert!(exchanges.len() >= at_least, "the page shows {} exchanges", exchanges.len());
    for Exchange { request, answers: mut page } in exchanges {
        let known =
            names.iter().fold(request.clone(), |request, (page, here): (&String, &String)| request.replace(page, here));
        process.send(&known);
        let mut here: Vec<_> = page.iter().map(|_| process.value()).collect();
        in_order(&mut page);
        in_order(&mut here);
        for (page, here) in page.iter_mut().zip(&mut here) {
            settle(page, here, &mut names);
        }
        assert_eq!(here, page, "{request}");
    }
    let (code, rest, errors) = process.finish();
    assert_eq!((code, rest.len()), (0, 0), "{errors}");
}

#[test]
fn the_page_lists_the_grants_over_http_without_a_token() {
    use gladhand_a2e_host::grants::{GRANTS, Grant};
    let page = page(PAGE);
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?;
        Some((name, cells.nth(1)?))
    });
    let told: Vec<_> = rows.filter(|(name, _)| GRANTS.iter().any(|(known, _)| known == name)).collect();
    let word = |grant: Grant| match grant {
        Grant::Anyone => "yes",
        Grant::AnyoneWithoutPrograms => "without programs in `[a2e.env]`",
        Grant::Token => "no",
    };
    let expected: Vec<_> = GRANTS.iter().map(|(name, grant)| (*name, word(*grant))).collect();
    assert_eq!(told, expected);
}

pub(crate) const SESSION: &str = "A session, message by message";

#[test]
pub(crate) fn the_session_on_the_page_replays_exactly() {
    replay(SESSION, tempfile::tempdir().unwrap().path(), 10);
}

pub(crate) const SKILL: &str = "Discover and call a skill";

#[test]
pub(crate) fn the_skill_on_the_page_is_discovered_and_called() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skills/count");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("skill.md"), under(SKILL, "yaml").concat()).unwrap();
    std::fs::write(skill.join("main.sh"), under(SKILL, "sh").concat()).unwrap();
    replay(SKILL, folder.path(), 4);
}

fn values(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// A shell's word for a text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub(crate) const ENVIRONMENT: &str = "A program as an environment";

#[test]
pub(crate) fn a_program_that_answers_as_on_the_page_is_an_environment() {
    let folder = tempfile::tempdir().unwrap();
    let lines = under(ENVIRONMENT, "json").concat();
    let is_request = |line: &Value| line.get("reset").is_some() || line.get("step").is_some();
    // A program that keeps what it reads, and says what the page says.
    let mut program = String::new();
    for (line, value) in lines.lines().zip(values(&lines)) {
        program += &match is_request(&value) {
            true => "read -r line; printf '%s\\n' \"$line\" >> read.jsonl\n".to_owned(),
            false => format!("printf '%s\\n' {}\n", quoted(line)),
        };
    }
    std::fs::write(folder.path().join("chess.sh"), program + "cat > rest\n").unwrap();
    let config = under(ENVIRONMENT, "toml").concat().replace(r#""python3", "chess.py""#, r#""sh", "chess.sh""#);
    let mut process = host(folder.path(), &config);
    process.ask(r#"{"type":"handshake/req","id":"1","agent_id":"ann","agent_caps":["env"]}"#);
    let reset = process.ask(r#"{"type":"env/reset/req","id":"2","env_name":"chess","seed":7}"#);
    assert_eq!((&reset["type"], &reset["obs"]["state"]["board"]), (&json!("env/reset/resp"), &json!("…")), "{reset}");
    let step =
        json!({"type": "env/step/req", "id": "3", "episode_id": reset["obs"]["episode_id"], "action": {"move": "e4"}});
    let told = [process.ask(&step.to_string()), process.value()];
    let of = |kind: &str| told.iter().find(|one| one["type"] == kind).unwrap_or_else(|| panic!("{kind}: {told:?}"));
    assert_eq!(of("env/step/resp")["obs"]["reward"], 0.5, "{told:?}");
    assert_eq!(of("env/state/push")["delta"], json!({"clock": 59}), "{told:?}");
    let read = std::fs::read_to_string(folder.path().join("read.jsonl")).unwrap();
    let requests: Vec<_> = values(&lines).into_iter().filter(is_request).collect();
    assert_eq!(values(&read), requests);
    assert_eq!(process.finish().0, 0);
}

pub(crate) const PROGRAM: &str = "A program as a skill";

#[test]
pub(crate) fn a_program_that_writes_as_on_the_page_is_a_skill() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skills/words");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("skill.md"), "---\nname: words\nrun: [\"sh\", \"main.sh\"]\n---\n").unwrap();
    let lines = under(PROGRAM, "json").concat();
    let program: String = lines.lines().map(|line| format!("printf '%s\\n' {}\n", quoted(line))).collect();
    std::fs::write(skill.join("main.sh"), format!("read -r arguments\n{program}")).unwrap();
    let mut process = host(folder.path(), "[a2e.skill]\npath = \"skills\"\n");
    process.ask(r#"{"type":"handshake/req","id":"1","agent_id":"ann","agent_caps":["skill"]}"#);
    process.send(r#"{"type":"skill/call/req","id":"2","name":"words"}"#);
    let mut events = HashMap::new();
    let result = loop {
        let told = process.value();
        match told["kind"].as_str() {
            Some(kind) => drop(events.insert(kind.to_owned(), told["data"].clone())),
            None => break told,
        }
    };
    for value in values(&lines) {
        let (kind, said) = value.as_object().and_then(|line| line.iter().next()).expect("a member");
        if kind == "result" {
            assert_eq!((&result["data"]["data"], &result["data"]["summary"]), (said, &value["summary"]), "{result}");
            continue;
        }
        let event = events.get(kind).unwrap_or_else(|| panic!("no event `{kind}`: {events:?}"));
        for (member, said) in said.as_object().expect("an object") {
            assert_eq!(&event[member], said, "{kind}: {event}");
        }
    }
}

/// A request over HTTP as the words of a `curl` command say it.
fn curl(line: &str, names: &HashMap<String, String>) -> TcpStream {
    let line = names.iter().fold(line.to_owned(), |line, (page, here)| line.replace(page, here));
    let words = shell::words(&line);
    let (mut method, mut headers, mut body, mut url) = ("GET", String::new(), String::new(), String::new());
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-N" => {}
            "-X" => assert_eq!(rest.next().map(String::as_str), Some("POST"), "{line}"),
            "-H" => headers += &format!("{}\r\n", rest.next().expect("a header")),
            "-d" => rest.next().expect("a body").clone_into(&mut body),
            word => word.clone_into(&mut url),
        }
        method = if matches!(word.as_str(), "-X" | "-d") { "POST" } else { method };
    }
    let (address, path) = url.strip_prefix("http://").and_then(|url| url.split_once('/')).expect("an address");
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{line}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!("{method} /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("it reads");
    stream
}

#[test]
pub(crate) fn the_requests_over_http_on_the_page_are_answered_as_shown() {
    let mut command = gladhand();
    let folder = tempfile::tempdir().unwrap();
    command.args(["serve", "--http", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let url = lines.find_map(|line| Some(line.split_once("listening on http://")?.1.to_owned())).expect("it listens");
    std::thread::spawn(move || lines.for_each(drop));
    let address = url.split('/').next().unwrap_or_default().to_owned();
    let mut names = HashMap::from([("127.0.0.1:8765".to_owned(), address)]);
    let (mut stream, mut streamed) = (None, Vec::new());
    let console = under(SESSION, "console").concat().replace("\\\n", " ");
    let mut said = console.lines().filter(|line| !line.is_empty()).peekable();
    while let Some(line) = said.next() {
        let request = line.strip_prefix("$ ").unwrap_or_else(|| panic!("no command: {line}"));
        let mut shown: Vec<Value> = Vec::new();
        while let Some(line) = said.next_if(|line| !line.starts_with("$ ")) {
            shown.push(serde_json::from_str(line.trim_start_matches("data: ")).expect("JSON"));
        }
        let mut connection = curl(request, &names);
        if request.contains("/stream") {
            (stream, streamed) = (Some(connection), shown);
            continue;
        }
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").expect("a response").1;
        let mut here: Value = serde_json::from_str(body.trim()).unwrap_or_else(|error| panic!("{error}: {answer}"));
        for page in &mut shown {
            settle(page, &mut here, &mut names);
            assert_eq!(*page, here, "{request}");
        }
    }
    let stream = BufReader::new(stream.expect("a stream is read")).lines().map_while(Result::ok);
    let mut events = stream.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok());
    for mut page in streamed {
        let mut here: Value = events.next().expect("an event");
        settle(&mut page, &mut here, &mut names);
        assert_eq!(page, here);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
