//! `gladhand chat`, as a person and as a script use it, with a scripted provider over real HTTP.
#![cfg(unix)]

mod editing;
#[path = "../support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};

use gladhand_models::scripted::{Reply, Route, Script, ScriptedProvider};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::gladhand;
use support::terminal::Terminal;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const COMPLETIONS: &str = "/v1/chat/completions";

/// A home, a provider, and what it says one after the other.
struct Stage {
    home: TempDir,
    provider: ScriptedProvider,
    runtime: Runtime,
}

impl Stage {
    fn new(replies: Vec<Reply>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let models = Reply::json(&json!({"object": "list", "data": [{"id": "parrot", "object": "model"}]}));
        let route = |path: &str, replies, otherwise| Route { method: None, path: path.to_owned(), replies, otherwise };
        let script =
            Script { routes: vec![route("/v1/models", Vec::new(), Some(models)), route(COMPLETIONS, replies, None)] };
        let provider = runtime.block_on(ScriptedProvider::start(script)).expect("a free port");
        Self { home: tempfile::tempdir().expect("there is room for a folder"), provider, runtime }
    }

    /// `gladhand chat` with the provider.
    fn chat(&self, arguments: &[&str]) -> Command {
        let mut command = self.without_model(arguments);
        command.env("GLADHAND_COMPATIBLE_BASE", format!("{}/v1", self.provider.origin()));
        command
    }

    fn without_model(&self, arguments: &[&str]) -> Command {
        let mut command = self.surroundings();
        command.arg("chat").args(arguments);
        command
    }

    /// The program, where it finds no model.
    fn surroundings(&self) -> Command {
        let mut command = gladhand();
        for name in
            ["OPENAI_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "GLADHAND_COMPATIBLE_BASE", "NO_COLOR"]
        {
            command.env_remove(name);
        }
        command.current_dir(self.home.path()).env("TERM", "xterm");
        command.env("GLADHAND_OLLAMA_BASE", "").env("GLADHAND_LLAMACPP_BASE", "");
        command
            .env("XDG_CONFIG_HOME", self.home.path().join("config"))
            .env("XDG_DATA_HOME", self.home.path().join("data"));
        command
    }

    /// Writes the user's own configuration.
    fn configure(&self, config: &str) {
        let folder = self.home.path().join("config/gladhand");
        std::fs::create_dir_all(&folder).expect("there is room for a folder");
        std::fs::write(folder.join("gladhand.toml"), config).expect("there is room for a file");
    }

    /// Everything that the provider was asked last.
    fn last_request(&self) -> Value {
        self.provider.requests_of(COMPLETIONS).pop().expect("it was asked").body
    }
}

fn delta(delta: &Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "parrot",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finished(reason: &str) -> Value {
    let mut last = delta(&json!({}));
    last["choices"][0]["finish_reason"] = reason.into();
    last
}

/// An answer in pieces.
fn says(pieces: &[&str]) -> Reply {
    let pieces = pieces.iter().map(|piece| delta(&json!({"content": piece})));
    Reply::events(&pieces.chain([finished("stop"), json!("[DONE]")]).collect::<Vec<_>>())
}

/// The beginning of an answer that never ends.
fn begins(piece: &str) -> Reply {
    Reply::events(&[delta(&json!({"content": piece})), json!({"_stall": true})])
}

/// The wish to have a tool called.
fn calls(tool: &str, arguments: &Value) -> Reply {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let call = json!({"index": 0, "id": "call-1", "type": "function", "function": function});
    Reply::events(&[delta(&json!({"tool_calls": [call]})), finished("tool_calls"), json!("[DONE]")])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn piped(mut command: Command, stdin: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // One that does not read it may be gone already.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::INT).expect("it runs");
}

#[test]
fn one_question_gets_its_answer_and_nothing_else() {
    let stage = Stage::new(vec![says(&["Hello **th", "ere**.\n\n- on", "e"]), says(&["again"])]);
    let output = piped(stage.chat(&["-p", "hi"]), "");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert_eq!(text(&output.stdout), "Hello **there**.\n\n- one\n");
    assert_eq!(stage.last_request()["model"], "parrot");
    let output = piped(stage.chat(&["-p", "-"]), "from a pipe\n");
    assert_eq!(text(&output.stdout), "again\n");
    assert!(stage.last_request()["messages"].to_string().contains("from a pipe"));
}

#[test]
fn a_failed_prompt_prints_the_reason_on_stderr_once() {
    let refusal = Reply::json(&json!({"error": {"message": "the parrot is dead"}})).with_status(400);
    let stage = Stage::new(vec![refusal.clone(), refusal]);
    let output = piped(stage.chat(&["-p", "hi"]), "");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(5), ""));
    let said = text(&output.stderr);
    assert!(said.starts_with("error: ") && said.contains("the parrot is dead"), "{said}");
    assert_eq!(said.matches("dead").count(), 1, "{said}");
    let output = piped(stage.chat(&[]), "hi\n");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.matches("dead").count()), (Some(5), 1), "{said}");
}

#[test]
fn the_last_line_of_json_output_is_the_error() {
    let refusal = Reply::json(&json!({"error": {"message": "the parrot is dead"}})).with_status(400);
    let stage = Stage::new(vec![refusal.clone(), refusal]);
    for (arguments, stdin, message) in
        [(&["--json", "-p", "hi"][..], "", "the parrot is dead"), (&["--json"], "hi\n", "has no answer")]
    {
        let output = piped(stage.chat(arguments), stdin);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(5), ""));
        let last: Value = serde_json::from_str(text(&output.stdout).lines().last().expect("a line")).expect("JSON");
        let error = &last["error"];
        assert_eq!((&error["code"], &error["exit"]), (&json!("call_failed"), &json!(5)), "{last}");
        assert!(error["message"].as_str().is_some_and(|told| told.contains(message)), "{last}");
    }
}

#[test]
fn events_come_as_lines_of_json() {
    let stage = Stage::new(vec![says(&["Hello."])]);
    let output = piped(stage.chat(&["--json", "-p", "hi"]), "");
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let chunk = lines.iter().find(|line| line["type"] == "session.stream.chunk").expect("a chunk");
    assert_eq!(chunk["payload"]["chunk"]["answerText"], "Hello.");
    let last = lines.last().expect("a line");
    assert_eq!((&last["type"], &last["payload"]["model"]), (&json!("chat.answered"), &json!("parrot")));
    assert!(last["payload"]["context_tokens"].is_u64(), "{last}");
}

#[test]
fn without_a_model_the_ways_to_one_are_named() {
    let stage = Stage::new(Vec::new());
    let output = piped(stage.without_model(&["-p", "hi"]), "");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""));
    for way in ["no model", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "Ollama", "cargo xtask model"] {
        assert!(said.contains(way), "{way} is missing in: {said}");
    }
    let output = piped(stage.chat(&["-p", "hi", "--model", "parot"]), "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there is no model `parot`"), "{}", text(&output.stderr));
}

#[test]
fn a_chat_through_a_pipe_reads_line_by_line() {
    let stage = Stage::new(vec![says(&["one"]), says(&["two"])]);
    let output = piped(stage.chat(&[]), "first \\\nstill first\nsecond\n/nonsense\n/model\n");
    assert_eq!(text(&output.stdout), "one\ntwo\n* compatible/parrot\n");
    let said = text(&output.stderr);
    assert_eq!(said, "unknown command: /nonsense\n", "only what fails is said beside the answers");
    let messages = stage.last_request()["messages"].to_string();
    assert!(messages.contains("first \\nstill first") && messages.contains("second"), "{messages}");
}

#[test]
fn a_resumed_chat_sends_its_earlier_messages() {
    let stage = Stage::new(vec![says(&["Your name is Polly."]), says(&["Polly."])]);
    piped(stage.chat(&["-p", "I am Polly"]), "");
    let output = piped(stage.chat(&["--resume", "-p", "Who am I?"]), "");
    assert_eq!(text(&output.stdout), "Polly.\n", "{}", text(&output.stderr));
    let messages = stage.last_request()["messages"].to_string();
    assert!(messages.contains("I am Polly") && messages.contains("Your name is Polly."), "{messages}");
    let mut terminal = Terminal::start(stage.chat(&["--resume", "last"]));
    let seen = terminal.until("parrot · compatible");
    assert!(seen.contains("4 messages so far") && seen.contains("Who am I?") && seen.contains("Polly."), "{seen}");
    terminal.prompt();
    terminal.types("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let output = piped(stage.chat(&["--resume", "nonsense", "-p", "x"]), "");
    assert!(text(&output.stderr).contains("no saved chat matched id: nonsense"), "{}", text(&output.stderr));
}

#[test]
fn a_tool_runs_only_if_the_user_approves_it() {
    let call = |file: &str| calls("bash", &json!({"command": format!("echo done > {file}")}));
    let replies = vec![call("no"), says(&["I may not."]), call("yes"), says(&["It is *made*."])];
    let stage = Stage::new(replies);
    let mut terminal = Terminal::start(stage.chat(&[]));
    terminal.prompt();
    terminal.types("make it\r");
    let seen = terminal.until("in this chat: ");
    assert!(seen.contains("bash wants to run") && seen.contains("command: echo done > no"), "{seen}");
    terminal.types("what?\r");
    terminal.until("in this chat: ");
    terminal.types("n\r");
    let seen = terminal.until("I may not.");
    assert!(seen.contains("the user did not allow it"), "{seen}");
    terminal.prompt();
    terminal.types("please\r");
    terminal.until("in this chat: ");
    terminal.types("y\r");
    let seen = terminal.until("made");
    assert!(seen.contains("• bash") && seen.contains("✓") && seen.contains("It is \u{1b}[3m"), "{seen}");
    terminal.prompt();
    terminal.types("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    assert!(!stage.home.path().join("no").exists());
    assert!(stage.home.path().join("yes").exists());
}

#[test]
fn configured_tools_are_available_in_the_first_turn() {
    let stage = Stage::new(vec![calls("own_echo", &json!({"message": "squawk"})), says(&["Heard."])]);
    let program = env!("CARGO_BIN_EXE_gladhand");
    let config = format!("[upstreams.own]\ncommand = '{program}'\nargs = ['serve']\n");
    stage.configure(&config);
    let output = piped(stage.chat(&["--approve", "all", "-p", "say squawk"]), "");
    assert_eq!(text(&output.stdout), "Heard.\n", "{}", text(&output.stderr));
    let first = &stage.provider.requests_of(COMPLETIONS)[0].body["tools"];
    let mut names = first.as_array().into_iter().flatten().map(|tool| &tool["function"]["name"]);
    assert!(names.any(|name| name == "own_echo"), "{names:?}");
    let messages = stage.last_request()["messages"].clone();
    let result = messages.as_array().and_then(|messages| messages.last()).expect("a result");
    assert_eq!((&result["role"], &result["content"]), (&json!("tool"), &json!(r#"{"output":"squawk"}"#)));
}

#[test]
fn a_script_is_not_asked() {
    let call = || calls("bash", &json!({"command": "echo done > made"}));
    let stage = Stage::new(vec![call(), says(&["no"]), call(), says(&["yes"])]);
    assert_eq!(text(&piped(stage.chat(&["-p", "make it"]), "y\n").stdout), "no\n");
    assert!(stage.last_request()["messages"].to_string().contains("needs approval"));
    assert!(!stage.home.path().join("made").exists());
    assert_eq!(text(&piped(stage.chat(&["--approve", "all", "-p", "make it"]), "").stdout), "yes\n");
    assert!(stage.home.path().join("made").exists());
}

/// Clears the line in which the cursor is.
const CLEAR: &str = "\r\u{1b}[K";

#[test]
fn a_status_line_is_shown_during_a_wait_and_then_erased() {
    let tool = calls("bash", &json!({"command": "echo done"}));
    let replies = vec![tool.behind("tool"), says(&["Hello."]).behind("answer"), Reply::stalled()];
    let stage = Stage::new(replies);
    let mut terminal = Terminal::with_columns(40, stage.chat(&["--approve", "all"]));
    terminal.prompt();
    terminal.types("hi\r");
    terminal.until("thinking… 1 s");
    stage.provider.release("tool");
    let seen = terminal.until("• bash");
    assert!(seen.contains(CLEAR) && !seen.rsplit(CLEAR).next().unwrap().contains("thinking"), "{seen:?}");
    terminal.until("bash… ");
    terminal.until(CLEAR);
    terminal.until("✓");
    terminal.until("thinking… ");
    stage.provider.release("answer");
    let seen = terminal.until("Hello.");
    assert_eq!(seen.rsplit(CLEAR).next(), Some("Hello."), "{seen:?}");
    terminal.prompt();
    terminal.types("again\r");
    terminal.until("thinking… 1 s");
    terminal.interrupt();
    terminal.until(CLEAR);
    let seen = terminal.prompt();
    assert!(!seen.contains("thinking"), "{seen:?}");
}

#[test]
fn no_color_removes_styles_and_json_output_has_no_status_line() {
    let stage = Stage::new(vec![says(&["Hello **there**."]), says(&["Hello."])]);
    let mut command = stage.chat(&["-p", "hi"]);
    command.env("NO_COLOR", "1");
    let seen = Terminal::start(command).until("context");
    assert!(seen.contains("thinking… ") && seen.contains("Hello **there**."), "{seen:?}");
    assert!(!seen.contains("\u{1b}[2m") && !seen.contains("\u{1b}[0m"), "{seen:?}");
    let seen = Terminal::start(stage.chat(&["--json", "-p", "hi"])).until("chat.answered");
    assert!(!seen.contains('\u{1b}') && !seen.contains("thinking… "), "{seen:?}");
}

#[test]
fn answers_are_broken_between_words_as_wide_as_the_terminal_is() {
    let mut events = vec![delta(&json!({"content": "The parrot sat on the highest br"}))];
    events.push(delta(
        &json!({"content": "anch. 鳥は木の上に座っていた。\n```\nlet code = left(as_it_is, whole);\n```\n"}),
    ));
    events.push(json!({"_gate": "wider"}));
    events.push(delta(&json!({"content": "Nothing could be heard of it."})));
    events.extend([finished("stop"), json!("[DONE]")]);
    let stage = Stage::new(vec![Reply::events(&events)]);
    let mut command = stage.chat(&[]);
    command.env("NO_COLOR", "1");
    let mut terminal = Terminal::with_columns(24, command);
    terminal.prompt();
    terminal.types("a story\r");
    terminal.until("The parrot sat on the");
    let seen = terminal.until("whole);\r\n```\r\n");
    let expected =
        "\r\nhighest branch. 鳥は木の\r\n上に座っていた。\r\n```\r\nlet code = left(as_it_is, whole);\r\n```\r\n";
    assert_eq!(seen, expected);
    terminal.resize(40);
    stage.provider.release("wider");
    terminal.until("Nothing could be heard of it.");
}

#[test]
fn a_line_typed_ahead_is_echoed_when_it_is_sent() {
    let stage = Stage::new(vec![says(&["One."]).behind("one"), says(&["Two."]), says(&["Three."])]);
    let mut terminal = Terminal::with_columns(60, stage.chat(&[]));
    terminal.prompt();
    terminal.types("first\r");
    terminal.until("thinking… ");
    terminal.types("second\r");
    terminal.until("thinking, then 1 more… ");
    terminal.types("third \\\rand more\r");
    terminal.until("thinking, then 3 more… ");
    stage.provider.release("one");
    terminal.until("One.");
    let seen = terminal.until("Two.");
    assert!(seen.contains("› \u{1b}[0m\u{1b}[2msecond\u{1b}[0m\r\n"), "{seen:?}");
    let seen = terminal.until("Three.");
    assert!(seen.contains("\u{1b}[2mthird \\\u{1b}[0m\r\n"), "{seen:?}");
    assert!(seen.contains("\u{1b}[2mand more\u{1b}[0m\r\n"), "{seen:?}");
    assert!(stage.last_request()["messages"].to_string().contains("third \\nand more"));
}

#[test]
fn a_compression_prints_its_result_once() {
    let long = "It is a long story. ".repeat(100);
    let stage = Stage::new(vec![says(&[&long]), says(&["A story was told."]), says(&[&long])]);
    let mut terminal = Terminal::start(stage.chat(&[]));
    terminal.prompt();
    let mut said = |line: &str| {
        terminal.types(line);
        terminal.until("\r\n");
        terminal.prompt()
    };
    let seen = said("/compress\r");
    assert_eq!(seen.matches("compress").count(), 1, "{seen}");
    assert!(seen.contains("there is nothing to compress"), "{seen}");
    said("tell it\r");
    let seen = said("/compress\r");
    assert_eq!(seen.matches("tokens").count(), 1, "{seen}");
    assert!(seen.contains("2 messages are one summary now: about "), "{seen}");
    let seen = said("/compress\r");
    assert_eq!(seen.matches("tokens").count(), 1, "{seen}");
    assert!(seen.contains("1 message is one summary now, which is no shorter: about "), "{seen}");
}

#[test]
fn the_doctor_names_the_model_and_where_it_comes_from() {
    let stage = Stage::new(Vec::new());
    let found = |command: &mut Command| {
        let output = command.args(["doctor", "--json"]).stdin(Stdio::null()).output().expect("it starts");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut findings = report["findings"].as_array().cloned().unwrap_or_default();
        findings.retain(|finding| finding["about"] == "model");
        (output.status.code(), findings.pop().expect("a finding"))
    };
    let (code, finding) = found(&mut stage.surroundings());
    assert_eq!((code, &finding["state"]), (Some(0), &json!("doubtful")));
    assert!(finding["advice"].as_str().is_some_and(|advice| advice.contains("OPENROUTER_API_KEY")), "{finding}");
    let base = format!("{}/v1", stage.provider.origin());
    let (_, finding) = found(stage.surroundings().env("GLADHAND_COMPATIBLE_BASE", &base));
    let message =
        "`gladhand chat` asks parrot of compatible: the server that the variable GLADHAND_COMPATIBLE_BASE names";
    assert_eq!(finding, json!({"state": "fine", "about": "model", "message": message}));
    stage.configure(&format!("[agent]\ncompatible_base = '{base}'\n"));
    let (_, finding) = found(&mut stage.surroundings());
    let message = "`gladhand chat` asks parrot of compatible: the server that `compatible_base` of [agent] names";
    assert_eq!(finding["message"], message);
    let (code, finding) = found(stage.surroundings().env("GLADHAND_COMPATIBLE_BASE", "http://127.0.0.1:1/v1"));
    assert_eq!((code, &finding["state"]), (Some(1), &json!("broken")), "{finding}");
    assert!(!stage.home.path().join("data/gladhand").exists(), "nothing is written");
}

#[test]
fn a_provider_that_cannot_be_reached_is_named() {
    let stage = Stage::new(Vec::new());
    for (key, base, name) in [
        ("OPENAI_API_KEY", "GLADHAND_OPENAI_BASE", "OpenAI"),
        ("OPENROUTER_API_KEY", "GLADHAND_OPENROUTER_BASE", "OpenRouter"),
        ("ANTHROPIC_API_KEY", "GLADHAND_ANTHROPIC_BASE", "Anthropic"),
    ] {
        for arguments in [&["-p", "hi"][..], &["-p", "hi", "--model", "gpt-5"], &[]] {
            let mut command = stage.without_model(arguments);
            command.env(key, "sk-test").env(base, "http://127.0.0.1:1/v1");
            let output = piped(command, "hi\n");
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(5), "{errors}");
            assert!(errors.starts_with(&format!("error: {name} unreachable\nhint: `gladhand doctor` ")), "{errors}");
        }
    }
}

#[test]
fn a_provider_that_was_reached_before_is_named_when_it_is_gone() {
    let stage = Stage::new(vec![says(&["Hello."])]);
    let keyed = |base: &str| {
        let mut command = stage.without_model(&["-p", "hi"]);
        command.env("OPENROUTER_API_KEY", "sk-test").env("GLADHAND_OPENROUTER_BASE", base);
        piped(command, "")
    };
    let output = keyed(&format!("{}/v1", stage.provider.origin()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = keyed("http://127.0.0.1:1/v1");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{errors}");
    assert!(errors.contains("error: OpenRouter unreachable\n"), "{errors}");
}

#[test]
fn an_interrupt_stops_the_answer_and_then_the_chat() {
    let stage = Stage::new(vec![begins("Once upon "), says(&["Hello."]), begins("Twice upon ")]);
    let mut terminal = Terminal::start(stage.chat(&[]));
    terminal.prompt();
    terminal.types("a story\r");
    terminal.until("Once upon");
    terminal.interrupt();
    terminal.until("response interrupted by user");
    terminal.prompt();
    stage.runtime.block_on(stage.provider.abandoned(1));
    terminal.types("hi\r");
    terminal.until("Hello.");
    terminal.prompt();
    // When nothing runs, it leaves.
    terminal.interrupt();
    assert_eq!(terminal.ends(), Some(0));

    let mut command = stage.chat(&["-p", "another"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut begun = [0; 11];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut begun).unwrap();
    interrupt(&child);
    assert_eq!((&begun, child.wait().unwrap().code()), (b"Twice upon ", Some(130)));
}
