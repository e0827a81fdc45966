//! Every snippet of README.md and docs is run, or checked in the way that fits its language. One that nothing covers fails.

use std::collections::BTreeSet;
use std::time::Instant;

use clap::Parser as _;
use gladhand::cli::Cli;
use serde_json::Value;

use crate::pages::{Snippet, page, repository, snippets};
use crate::stage::{Service, Stage};
use crate::support::terminal::Terminal;
use crate::support::{PATIENCE, Process, gladhand, mcp_initialize};
use crate::{a2e, reports, shell};

type Test = fn();

/// Snippets that tests of their own cover: page, heading, language, and the test.
const COVERED: [(&str, &str, &str, Test); 18] = [
    ("README.md", "Gladhand", "mermaid", the_drawing_of_the_readme_names_every_dialect),
    ("README.md", "Two commands", "text", the_handshake_of_the_readme_equals_the_output_of_open),
    ("README.md", "An agent behind any client", "console", the_lines_to_the_agent_in_the_readme_are_answered),
    ("README.md", "Host A2E agents", "python", the_python_of_the_readme_prints_the_documented_output),
    ("docs/embedding.md", "Serve a tool of your own", "rust", the_rust_on_the_page_is_the_example),
    ("docs/a2e.md", a2e::SESSION, "text", a2e::the_session_on_the_page_replays_exactly),
    ("docs/a2e.md", a2e::SESSION, "console", a2e::the_requests_over_http_on_the_page_are_answered_as_shown),
    ("docs/a2e.md", a2e::SKILL, "yaml", a2e::the_skill_on_the_page_is_discovered_and_called),
    ("docs/a2e.md", a2e::SKILL, "sh", a2e::the_skill_on_the_page_is_discovered_and_called),
    ("docs/a2e.md", a2e::SKILL, "text", a2e::the_skill_on_the_page_is_discovered_and_called),
    ("docs/a2e.md", a2e::ENVIRONMENT, "json", a2e::a_program_that_answers_as_on_the_page_is_an_environment),
    ("docs/a2e.md", a2e::PROGRAM, "json", a2e::a_program_that_writes_as_on_the_page_is_a_skill),
    ("docs/commands.md", "Tap", "sh", the_tap_commands_on_the_page_follow_a_process),
    ("docs/chat.md", "In a terminal", "text", the_chat_on_the_page_equals_the_terminal_output),
    ("docs/configuration.md", "Project files", "console", the_trust_question_on_the_page_equals_the_real_one),
    ("docs/configuration.md", "Logs and processes", "", the_log_lines_on_the_page_have_the_form_of_real_ones),
    (
        "docs/coupling.md",
        "A server that ends during a call",
        "text",
        the_error_of_an_ended_server_on_the_page_equals_the_real_one,
    ),
    ("docs/stability.md", "Reports as JSON", "json", reports::the_page_shows_the_shape_and_all_codes),
];

/// Commands that only another build than this one can run. They are read, and not run.
const OF_ANOTHER_BUILD: [&str; 1] = ["gladhand chat --model local"];

/// How a snippet is checked.
#[derive(Debug, PartialEq, Eq)]
enum Check {
    /// By a test of its own.
    Covered,
    /// `config check` finds no mistake in it.
    Configuration,
    /// Its commands run.
    Commands,
    /// Messages that a server of ours answers without an error.
    Messages,
    /// A client's file that `config import` understands.
    ClientFile,
    /// A line of the audit file.
    Audit,
    /// A line of the access log.
    AccessLog,
}

fn check(snippet: &Snippet) -> Option<Check> {
    if COVERED.iter().any(|(page, heading, language, _)| snippet.is(page, heading, language)) {
        return Some(Check::Covered);
    }
    let has = |member: &str| snippet.text.contains(&format!("\"{member}\":"));
    match snippet.language.as_str() {
        "toml" => Some(Check::Configuration),
        "sh" | "console" => Some(Check::Commands),
        "json" if has("mcpServers") => Some(Check::ClientFile),
        "json" if has("jsonrpc") || has("type") => Some(Check::Messages),
        "json" if has("own_name") => Some(Check::Audit),
        "json" if has("outcome") => Some(Check::AccessLog),
        _ => None,
    }
}

fn checked_by(wanted: &Check) -> Vec<Snippet> {
    let all: Vec<_> = snippets().into_iter().filter(|one| check(one).as_ref() == Some(wanted)).collect();
    assert!(!all.is_empty(), "no snippet is checked by {wanted:?}");
    all
}

#[test]
fn every_snippet_is_covered_and_every_check_has_a_snippet() {
    let all = snippets();
    assert!(all.len() > 40, "{}", all.len());
    for snippet in &all {
        assert!(check(snippet).is_some(), "no test covers the snippet at {snippet}:\n{}", snippet.text);
    }
    for (page, heading, language, _) in COVERED {
        assert!(all.iter().any(|one| one.is(page, heading, language)), "{page} has no {language} under `{heading}`");
    }
}

/// The names in a configuration between these words, as in `${secret:NAME}`.
fn names<'t>(text: &'t str, before: &str) -> Vec<&'t str> {
    let rest = text.split(before).skip(1);
    rest.map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()).collect()
}

#[test]
fn every_configuration_on_a_page_has_no_mistake() {
    let folder = tempfile::tempdir().unwrap();
    for snippet in checked_by(&Check::Configuration) {
        std::fs::write(folder.path().join("gladhand.toml"), &snippet.text).unwrap();
        let mut command = gladhand();
        command.args(["config", "check", "--json", "gladhand.toml"]).current_dir(folder.path());
        for name in names(&snippet.text, "${secret:") {
            command.env(format!("GLADHAND_SECRET_{}", name.to_uppercase()), "hush hush");
        }
        let output = command.output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["ok"], true, "{snippet}: {report:#}");
    }
}

#[test]
fn every_message_on_a_page_is_answered() {
    for snippet in checked_by(&Check::Messages) {
        let mut process = Process::serve(&["-q"]);
        process.send_bytes(snippet.text.as_bytes());
        let (code, answers, errors) = process.finish();
        let expected = snippet.text.lines().filter(|line| line.contains("\"id\":") && !line.contains("\"shutdown\""));
        assert!(code == 0 && answers.len() >= expected.count(), "{snippet}: {answers:?}\n{errors}");
        let answers = answers.join("\n");
        assert!(!answers.contains(r#""error":{"#) && !answers.contains(r#""type":"error""#), "{snippet}: {answers}");
        if snippet.page == "docs/dialects.md" {
            let is_called = answers.contains(r#""hi""#) || answers.contains("waited 500 ms in 5 steps");
            assert!(is_called, "{snippet}: {answers}");
        }
    }
}

#[test]
fn every_dialect_is_explained_with_its_specification() {
    let links = [
        ("mcp", "https://modelcontextprotocol.io/specification"),
        ("a2e", "https://github.com/a2eprotocol/python-sdk/tree/HEAD/codewiki/protocol-spec"),
        ("loaf", "https://github.com/veyzyn/loaf/blob/HEAD/docs/rpc.md"),
        ("fluxloop", "https://fluxloop.io/mcp/protocol"),
    ];
    for dialect in gladhand_dialects::REGISTRY {
        let (_, link) = links.iter().find(|(name, _)| *name == dialect.name).expect("a dialect has a specification");
        for name in ["README.md", "docs/dialects.md"] {
            assert!(page(name).contains(link), "{name} does not link {link}");
        }
    }
    for beginning in ["A2E connects ", "loaf RPC, ", "Fluxloop clients "] {
        assert!(page("README.md").contains(beginning), "README.md does not say who speaks it: {beginning}");
    }
}

#[test]
fn every_client_file_on_a_page_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    for snippet in checked_by(&Check::ClientFile) {
        std::fs::write(folder.path().join("client.json"), &snippet.text).unwrap();
        let mut command = gladhand();
        let output = command.args(["config", "import", "client.json"]).current_dir(folder.path()).output().unwrap();
        let file: Value = serde_json::from_str(&snippet.text).unwrap();
        for (name, server) in file["mcpServers"].as_object().unwrap() {
            let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let is_ours = stderr.contains(&format!("{name} is left out: it is gladhand itself"));
            assert!(is_ours || stdout.contains(&format!("[upstreams.{name}]")), "{snippet}: {output:?}");
            let words = server["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let words: Vec<_> = server["command"].as_str().into_iter().chain(words).collect();
            let read = Cli::try_parse_from(&words);
            assert!(words[0] != "gladhand" || read.is_ok(), "{snippet}: {read:?}");
        }
    }
}

#[test]
fn lines_of_logs_of_calls_on_a_page_have_the_members_of_real_ones() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[audit]\nfile = \"audit.jsonl\"\n[access_log]\nfile = \"access.jsonl\"\n[[policy.rules]]\nname = \"careful\"\n\
                  tools = [\"wait\"]\neffect = \"deny\"\n";
    std::fs::write(folder.path().join("gladhand.toml"), config).unwrap();
    let mut command = gladhand();
    command.args(["serve", "--config", "gladhand.toml", "--data-dir", "data"]).current_dir(folder.path());
    let mut process = Process::start(command);
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(crate::support::MCP_INITIALIZED);
    process.ask(&crate::support::mcp_call(1, "wait", r#"{"ms":1}"#));
    assert_eq!(process.finish().0, 0);
    let members = |text: &str| -> BTreeSet<String> {
        let line: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        line.as_object().expect("an object").keys().cloned().collect()
    };
    for (check, file) in [(Check::Audit, "audit.jsonl"), (Check::AccessLog, "access.jsonl")] {
        let line = std::fs::read_to_string(folder.path().join(file)).unwrap();
        for snippet in checked_by(&check) {
            let mut shown = members(&snippet.text);
            // Only a caller over HTTP has a proven identity.
            assert!(shown.remove("principal"), "{snippet}");
            assert_eq!(shown, members(line.trim()), "{snippet}");
        }
    }
}

/// One command of a snippet, and what the page says that it writes.
struct Shown {
    line: String,
    output: Vec<String>,
}

/// The commands of a snippet. In a `console` they begin with `$`, and everything else is output.
fn commands(snippet: &Snippet) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for line in snippet.text.replace("\\\n", " ").lines() {
        let is_console = snippet.language == "console";
        match (is_console, line.strip_prefix("$ "), all.last_mut()) {
            (false, _, _) if line.trim().is_empty() || line.starts_with('#') => {}
            (false, _, _) => all.push(Shown { line: line.to_owned(), output: Vec::new() }),
            (true, Some(line), _) => all.push(Shown { line: line.to_owned(), output: Vec::new() }),
            (true, None, Some(shown)) => shown.output.push(line.to_owned()),
            (true, None, None) => panic!("{snippet} begins with output"),
        }
    }
    all
}

/// Whether a line is as a page shows it, where `…` stands for anything.
fn fits(shown: &str, line: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Asserts that all lines of a page were written, in this order.
fn assert_written(shown: &[String], written: &str, what: &str) {
    let mut lines = written.lines();
    for expected in shown.iter().filter(|line| line.trim() != "…") {
        let found = lines.any(|line| fits(expected, line.trim_end()));
        assert!(found, "{what}: it does not write {expected:?}, but\n{written}");
    }
}

#[test]
fn every_command_on_a_page_runs() {
    for snippet in checked_by(&Check::Commands) {
        let stage = Stage::new();
        if snippet.page == "docs/policy.md" {
            let first = snippets().into_iter().find(|one| one.page == snippet.page && one.language == "toml");
            stage.configure(&first.expect("the rules are there").text);
        }
        run_all(&snippet, &stage);
    }
}

fn run_all(snippet: &Snippet, stage: &Stage) {
    // Servers run until the snippet ends, under the addresses that the page gives them.
    let mut services: Vec<(String, Service)> = Vec::new();
    for Shown { line, output } in commands(snippet) {
        let what = format!("{snippet}: `{line}`");
        for words in shell::ours(&line) {
            // `--help` of a tool is known only to its server.
            Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let words = shell::words(&line);
        if OF_ANOTHER_BUILD.contains(&words.join(" ").as_str()) {
            continue;
        }
        let here = services.iter().fold(line.clone(), |line, (page, service)| line.replace(page, &service.address));
        if let Some(at) = words.iter().position(|word| word == "--http").filter(|_| words[1] != "doctor") {
            let address = words[at + 1].clone();
            let here = format!("exec {}", here.replace(&address, "127.0.0.1:0"));
            services.push((address, Service::start(stage.shell(&here, false))));
            continue;
        }
        let has_no_model = output.iter().any(|line| line.contains("there is no model"));
        let mut command = stage.shell(&here, !has_no_model);
        if words.get(1).is_some_and(|word| word == "repo") {
            command.current_dir(repository());
        }
        let (code, written) = stage.run(command);
        let fails = output.iter().any(|line| line.starts_with("error:"));
        assert_eq!(code == Some(0), !fails, "{what} ends with {code:?}:\n{written}");
        assert_written(&output, &written, &what);
    }
}

/// The only snippet of a page under a heading in a language.
fn only(page: &str, heading: &str, language: &str) -> Snippet {
    let mut all: Vec<_> = snippets().into_iter().filter(|one| one.is(page, heading, language)).collect();
    assert_eq!(all.len(), 1, "{page}, {heading}, {language}");
    all.remove(0)
}

#[test]
fn the_tap_commands_on_the_page_follow_a_process() {
    let stage = Stage::new();
    let mut served = Process::start(stage.shell("exec gladhand serve", false));
    // Its standard input is open as long as this is held, unlike that of other commands of a page.
    served.ask(&mcp_initialize("2025-11-25"));
    let begun = Instant::now();
    let id = loop {
        let (_, listed) = stage.run(stage.shell("gladhand ps --json", false));
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        if let Some(id) = listed[0]["pid"].as_u64() {
            break id.to_string();
        }
        assert!(begun.elapsed() < PATIENCE, "it is not listed");
    };
    for Shown { line, .. } in commands(&only("docs/commands.md", "Tap", "sh")) {
        let line = line.split(" | ").next().unwrap_or_default().replace("4711", &id).replace("github", "serve");
        let mut tapped = Process::start(stage.shell(&format!("exec {line}"), false));
        let shown = if line.contains("--json") { "gladhand_recording" } else { "gladhand serve on stdin" };
        while !tapped.line().contains(shown) {}
    }
}

#[test]
fn the_drawing_of_the_readme_names_every_dialect() {
    let drawing = only("README.md", "Gladhand", "mermaid").text;
    assert!(drawing.starts_with("flowchart "), "{drawing}");
    for dialect in gladhand_dialects::REGISTRY {
        assert!(drawing.to_lowercase().contains(dialect.name), "{}", dialect.name);
    }
}

#[test]
fn the_handshake_of_the_readme_equals_the_output_of_open() {
    // Lines break at the width of the terminal, and times differ.
    let plain = |text: &str| -> String {
        let words = text.split(|c: char| c.is_whitespace() || "│─▶◀".contains(c)).filter(|word| !word.is_empty());
        let words: Vec<_> = words.filter(|word| *word != "ms" && word.parse::<f64>().is_err()).collect();
        words.concat()
    };
    let output = gladhand().args(["open", "--as", "mcp@2025-06-18"]).output().unwrap();
    let shown = only("README.md", "Two commands", "text").text;
    assert_eq!(plain(&String::from_utf8(output.stdout).unwrap()), plain(&shown));
}

#[test]
fn the_lines_to_the_agent_in_the_readme_are_answered() {
    let snippet = only("README.md", "An agent behind any client", "console");
    let shown = commands(&snippet);
    let stage = Stage::new();
    let mut process = Process::start(stage.shell(&shown[0].line, true));
    let mut session = String::new();
    for line in &shown[0].output {
        process.send(&line.replace('…', &session));
        let id = serde_json::from_str::<Value>(line).unwrap()["id"].clone();
        let answer = std::iter::repeat_with(|| process.value()).find(|told| told["id"] == id).unwrap();
        assert!(answer["error"].is_null(), "{line}: {answer}");
        answer["result"]["session_id"].as_str().unwrap_or(&session.clone()).clone_into(&mut session);
    }
    // The answer of the model comes as events.
    while !process.line().contains("Polly.") {}
}

#[test]
#[cfg_attr(not(feature = "peers"), ignore = "needs Python, which `cargo xtask test` asks for")]
fn the_python_of_the_readme_prints_the_documented_output() {
    let snippet = only("README.md", "Host A2E agents", "python");
    let stage = Stage::new();
    std::fs::write(stage.work().join("agent.py"), &snippet.text).unwrap();
    let mut command = stage.shell("python3 agent.py", false);
    if let Some(path) = std::env::var_os("PATH") {
        let ours = command.get_envs().find_map(|(name, value)| (name == "PATH").then_some(value?.to_owned()));
        let path = [ours.unwrap_or_default(), path].join(std::ffi::OsStr::new(":"));
        command.env("PATH", path);
    }
    let (code, written) = stage.run(command);
    assert_eq!(code, Some(0), "{written}");
    assert!(page("README.md").contains(&format!("prints `{}`", written.trim())), "{written}");
}

#[test]
fn the_rust_on_the_page_is_the_example() {
    let example = include_str!("../../../server/examples/tool.rs");
    assert!(example.contains(&only("docs/embedding.md", "Serve a tool of your own", "rust").text));
}

#[test]
fn the_chat_on_the_page_equals_the_terminal_output() {
    let shown = only("docs/chat.md", "In a terminal", "text").text;
    let lines: Vec<_> = shown.lines().collect();
    let [first, answer, below, second, thinking] = lines[..] else { panic!("{shown}") };
    let typed = |line: &str| line.strip_prefix("› ").expect("a prompt").to_owned();
    let stage = Stage::new();
    let mut command = stage.shell("gladhand chat", true);
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    let mut terminal = Terminal::with_columns(100, command);
    terminal.until("› ");
    terminal.types(&format!("{}\r", typed(first)));
    terminal.until(answer);
    // `small · ollama · about 4716 tokens of context`: the model and the number are those of the moment.
    let parts: Vec<_> = below.split(" · ").collect();
    terminal.until(&format!("qwen3 · {} · about ", parts[1]));
    terminal.until(parts[2].trim_start_matches("about ").trim_start_matches(|c: char| c.is_ascii_digit()));
    terminal.until("› ");
    terminal.types(&format!("{}\r", typed(second)));
    terminal.until(thinking.trim_end_matches(|c: char| c != '…'));
}

#[test]
fn the_trust_question_on_the_page_equals_the_real_one() {
    let snippet = only("docs/configuration.md", "Project files", "console");
    let [tools, trust] = &commands(&snippet)[..] else { panic!("{snippet}") };
    let stage = Stage::new();
    let config: Vec<_> = trust.output.iter().filter_map(|line| line.strip_prefix("  | ")).collect();
    std::fs::write(stage.work().join("gladhand.toml"), config.join("\n") + "\n").unwrap();
    let folder = stage.work().canonicalize().unwrap().display().to_string();
    let here = |lines: &[String]| lines.iter().map(|line| line.replace("/home/ann/shop", &folder)).collect::<Vec<_>>();
    let (code, written) = stage.run(stage.shell(&tools.line, false));
    assert_eq!(code, Some(0), "{written}");
    assert_written(&here(&tools.output), &written, &tools.line);
    let mut terminal = Terminal::with_columns(200, stage.shell(&trust.line, false));
    let mut screen = String::new();
    for answer in trust.output.iter().filter_map(|line| line.split_once("[y/N] ")) {
        screen += &terminal.until("[y/N] ");
        terminal.types(&format!("{}\r", answer.1));
    }
    let asked: Vec<_> =
        here(&trust.output).iter().map(|line| line.trim_end_matches(" y").trim_end().to_owned()).collect();
    assert_written(&asked, &screen.replace("\r\n", "\n").replace("y\n", "\n"), &trust.line);
}

#[test]
fn an_ellipsis_on_a_page_matches_any_text() {
    assert!(fits("a…c", "abbc") && fits("abc", "abc") && fits("…", "x") && fits("a…b…d", "a-b-b-d"));
    assert!(!fits("a…c", "abd") && !fits("abc", "abcd") && !fits("a…b…d", "a-d"));
}

#[test]
fn a_snippet_that_nothing_knows_is_not_covered() {
    let snippet = Snippet {
        page: "README.md".to_owned(),
        line: 1,
        heading: "Anything".to_owned(),
        language: "cobol".to_owned(),
        text: String::new(),
    };
    assert_eq!(check(&snippet), None);
}

#[test]
fn the_log_lines_on_the_page_have_the_form_of_real_ones() {
    use crate::support::{MCP_INITIALIZED, mcp_call, mcp_initialize};
    let folder = tempfile::tempdir().unwrap();
    let config = "[[policy.rules]]\nname = \"no-push\"\ntools = [\"wait\"]\neffect = \"deny\"\n";
    std::fs::write(folder.path().join("gladhand.toml"), config).unwrap();
    let mut command = gladhand();
    command.args(["serve", "-v", "--config", "gladhand.toml", "--data-dir", "data"]).current_dir(folder.path());
    let mut process = Process::start(command);
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    process.ask(&mcp_call(1, "wait", r#"{"ms":1}"#));
    let (_, _, logged) = process.finish();
    // The level, the words and the names of the fields. Only a caller over HTTP has a principal.
    let shape = |line: &str| -> Vec<String> {
        let words = line.split_whitespace().skip(1).map(|word| word.split('=').next().unwrap_or_default().to_owned());
        words.filter(|word| word != "principal").collect()
    };
    for line in only("docs/configuration.md", "Logs and processes", "").text.lines() {
        assert!(logged.lines().any(|one| shape(one) == shape(line)), "{line} is not in\n{logged}");
    }
}

#[test]
fn the_error_of_an_ended_server_on_the_page_equals_the_real_one() {
    const NOTES: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"find","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) echo 'Traceback:' >&2; echo "KeyError: 'x'" >&2; exit 3 ;;
    *'"id":'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done"#;
    let shown = only("docs/coupling.md", "A server that ends during a call", "text").text;
    let stage = Stage::new();
    let script = stage.work().join("notes.sh");
    std::fs::write(&script, NOTES).unwrap();
    stage.configure(&format!("[upstreams.notes]\ncommand = [\"sh\", {:?}]\n", script.display().to_string()));
    let (_, written) = stage.run(stage.shell("gladhand call notes__find", false));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&written).contains(&words(&shown)), "{written}");
}
