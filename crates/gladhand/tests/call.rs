//! `gladhand call`, `tools` and `prompts` as a person types them: mistakes, questions, progress, and servers that fail.
#![cfg(unix)]

mod support;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::gladhand;
use support::terminal::Terminal;

/// A server of MCP in a shell. It has a tool for each test, and a prompt.
const SERVER: &str = r##"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  token=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([^,}]*\).*/\1/p')
  text='{"content":[{"type":"text","text":"done"}]}'
  result=
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},{"name":"count","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}},{"name":"book","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}]}' ;;
    *'"prompts/list"'*) result='{"prompts":[{"name":"review","arguments":[{"name":"language","description":"Which one.","required":true},{"name":"tone"},{"name":"file","required":true}]}]}' ;;
    *'"prompts/get"'*) result='{"messages":[{"role":"user","content":{"type":"text","text":"filled in"}}]}' ;;
    *'"name":"echo"'*) result=$(printf '%s' "$line" | sed 's/.*"text":"\([^"]*\)".*/{"content":[{"type":"text","text":"said \1"}]}/') ;;
    *'"name":"count"'*)
      printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":2,"total":4,"message":"halfway"}}\n' "$token"
      sleep 1; result=$text ;;
    *'"name":"ask"'*)
      echo '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Before the parcel can be sent, a few things must be known about it.","requestedSchema":{"type":"object","properties":{"size":{"type":"string","title":"Size of the parcel","description":"A parcel that is larger than this is sent on the next day, and costs more.","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]}},"required":["size"]}}}'
      read -r answer
      case "$answer" in *'"size":"l"'*) result='{"content":[{"type":"text","text":"a large one"}]}' ;; *) result=$text ;; esac ;;
    *'"name":"book"'*)
      echo '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Name"}},"required":["name"]}}}'
      sleep 0.2
      printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":"asked"}}\n' "$token"
      echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a line of the log"}}'
      echo 'a line on stderr' >&2
      read -r answer
      sleep 1; result=$text ;;
    *'"name":"die"'*) echo 'first words' >&2; printf 'out of \033[31mink\n' >&2; exit 9 ;;
    *'"name":"hang"'*) trap '' TERM INT HUP; echo hanging >&2; while :; do sleep 0.05; done ;;
  esac
  [ -n "$result" ] && [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"##;

/// A command with the server behind it.
fn with_server(arguments: &[&str]) -> Command {
    let mut command = gladhand();
    command.args(arguments).args(["--as", "mcp@2025-11-25", "--", "sh", "-c", SERVER]);
    command
}

fn output(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_mistyped_tool_or_argument_gets_a_suggestion() {
    let (code, _, errors) = output(with_server(&["call", "ecko", "text=hi"]));
    assert_eq!(
        (code, errors.as_str()),
        (
            Some(2),
            "error: the server lists no tool `ecko`: the server does not have it, or its policy hides it\nhint: did you mean `echo`?\n"
        )
    );
    let (code, _, errors) = output(with_server(&["call", "echo", "txt=hi"]));
    assert_eq!(code, Some(2));
    assert!(errors.starts_with("error: the tool has no argument `txt`: did you mean `text`?\n"), "{errors}");
}

#[test]
fn a_dissimilar_argument_gets_no_suggestion() {
    let (code, _, errors) = output(with_server(&["call", "echo", "c=4"]));
    assert_eq!(code, Some(2));
    assert!(errors.starts_with("error: the tool has no argument `c`: it takes text\n"), "{errors}");
    let (code, _, errors) = output(with_server(&["call", "echo", "--text", "hi"]));
    assert_eq!(code, Some(2));
    assert!(errors.contains("hint: arguments of a tool are written as key=value: write text=hi\n"), "{errors}");
    assert!(!errors.contains("tip:"), "{errors}");
    let (_, _, errors) = output(with_server(&["call", "echo", "--args", "[1]"]));
    assert!(errors.contains(r#"--args must be a JSON object, such as {"name": 1}"#), "{errors}");
}

#[test]
fn tools_are_listed_with_their_arguments() {
    let (code, shown, _) = output(with_server(&["tools"]));
    assert_eq!(code, Some(0));
    assert!(shown.starts_with("echo  text\ncount\nask\n"), "{shown}");
}

#[test]
fn a_status_line_names_the_current_wait_and_disappears() {
    let mut command = gladhand();
    command.args(["tools", "--timeout", "2", "--", "sleep", "1000"]);
    let mut terminal = Terminal::with_columns(80, command);
    terminal.until("opening sleep 1000, at most 2 s …");
    terminal.until("the peer did not answer the opening within 2 s");
    assert_eq!(terminal.ends(), Some(4));
    let mut terminal = Terminal::with_columns(80, with_server(&["call", "hang"]));
    terminal.until("calling hang …");
    terminal.interrupt();
    assert_eq!(terminal.ends(), Some(130));
    let mut command = gladhand();
    command.args(["tools", "--timeout", "1", "--", "sleep", "1000"]);
    let (_, _, errors) = output(command);
    assert!(errors.starts_with("error: "), "nothing but the error without a terminal: {errors}");
}

/// A command without a server, for a user whose upstream `tickets` lacks its variable.
fn without_tickets(folder: &std::path::Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let file = folder.join("gladhand.toml");
    let config = "[upstreams.tickets]\nurl = \"https://tickets.example/mcp\"\nbearer = \"${NO_SUCH_TOKEN}\"\n";
    std::fs::write(&file, config).expect("it can be written");
    let mut command = gladhand();
    command.args(arguments).env("GLADHAND_CONFIG", &file).env("GLADHAND_DATA_DIR", folder.join("data"));
    output(command)
}

#[test]
fn an_unavailable_upstream_is_reported_once_and_only_if_it_matters() {
    let folder = tempfile::tempdir().expect("a folder");
    let why = "upstream tickets is not available: the variable NO_SUCH_TOKEN is not set";
    for command in ["tools", "resources", "prompts"] {
        let (_, _, errors) = without_tickets(folder.path(), &[command]);
        assert_eq!(errors.matches(why).count(), 1, "{command}: {errors}");
    }
    let (code, said, errors) = without_tickets(folder.path(), &["call", "echo", "message=hi"]);
    assert_eq!((code, said.as_str(), errors.as_str()), (Some(0), "hi\n", ""));
    let (code, _, errors) = without_tickets(folder.path(), &["call", "tickets__search"]);
    let expected = format!("error: {why}\nhint: `gladhand doctor` shows how each upstream is\n");
    assert_eq!((code, errors), (Some(4), expected));
    let (_, report, _) = without_tickets(folder.path(), &["call", "tickets__search", "--json"]);
    assert!(report.contains(r#""code":"upstream_lost""#), "{report}");
}

#[test]
fn a_silent_upstream_is_named_and_delays_no_call_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, good) = (folder.path().join("gladhand.toml"), folder.path().join("good.toml"));
    std::fs::write(&good, "[toolbox]\nenabled = true\n").expect("it can be written");
    let program = gladhand().get_program().to_str().expect("text").to_owned();
    let config = format!(
        "[upstreams.quiet]\ncommand = ['sleep', '1000']\n[upstreams.good]\ncommand = ['{program}', 'serve', '--config', '{}']\n",
        good.display()
    );
    std::fs::write(&file, config).expect("it can be written");
    let run = |data: &str, arguments: &[&str]| {
        let mut command = gladhand();
        command.args(arguments).arg("--config").arg(&file).env("GLADHAND_DATA_DIR", folder.path().join(data));
        output(command)
    };
    let begun = Instant::now();
    let (code, said, errors) = run("a", &["call", "good__echo", "message=hi"]);
    assert_eq!((code, said.as_str(), errors.as_str()), (Some(0), "hi\n", ""));
    assert!(begun.elapsed().as_secs() < 12, "it does not wait for `quiet`");
    // The timeout does not end the list before the wait for `quiet` is over.
    let (code, report, errors) = run("a", &["tools", "--json", "--timeout", "4"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let unavailable = report["unavailable"].as_array().expect("a list");
    assert_eq!((code, unavailable.len()), (Some(0), 1), "{report}");
    assert_eq!(unavailable[0]["name"], "quiet");
    assert_eq!(errors, format!("warning: {}\n", unavailable[0]["message"].as_str().expect("text")));
    assert!(report["tools"].as_array().expect("a list").iter().any(|tool| tool["name"] == "good__echo"));
    let (code, _, errors) = run("a", &["call", "quiet__x", "--timeout", "2"]);
    assert_eq!(code, Some(4));
    assert!(errors.starts_with("error: upstream quiet: it has not opened yet (for "), "{errors}");
}

#[test]
fn a_missing_tool_without_a_named_server_is_reported_with_the_known_tools() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, _, errors) = without_tickets(folder.path(), &["call", "get-sum", "a=1", "b=2"]);
    let expected = "error: no server was named, so gladhand's own tools and the configured upstreams were asked: they have \
                    no tool `get-sum`\nhint: name the server: a URL, or a command behind `--`; they have `echo`, ";
    assert_eq!(code, Some(2));
    assert!(errors.contains(expected), "{errors}");
}

#[test]
fn without_a_server_the_configuration_can_be_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, data) = (folder.path().join("named.toml"), folder.path().join("data"));
    let rule = "[[policy.rules]]\nname = 'no-echo'\ntools = ['echo']\neffect = 'deny'\n";
    std::fs::write(&file, rule).expect("it can be written");
    let (file, data) = (file.to_str().expect("UTF-8"), data.to_str().expect("UTF-8"));
    let run = |arguments: &[&str]| {
        let mut command = gladhand();
        command.args(arguments).env("XDG_CONFIG_HOME", folder.path()).env("XDG_DATA_HOME", folder.path());
        output(command)
    };
    let (code, said, errors) = run(&["call", "echo", "message=hi"]);
    assert_eq!((code, said.as_str()), (Some(0), "hi\n"), "{errors}");
    let (code, _, errors) = run(&["call", "echo", "message=hi", "--config", file, "--data-dir", data]);
    assert!(code != Some(0) && errors.contains("no-echo"), "{errors}");
    let (code, _, errors) = run(&["call", "echo", "--", env!("CARGO_BIN_EXE_gladhand"), "serve", "--config", file]);
    let expected = "error: the server lists no tool `echo`: the server does not have it, or its policy hides it\n";
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.starts_with(expected), "{errors}");
    let (code, tools, errors) = run(&["tools", "--config", file, "--data-dir", data]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(!tools.is_empty() && !tools.lines().any(|line| line.starts_with("echo ")), "{tools}");
    for command in ["resources", "prompts"] {
        let (code, _, errors) = run(&[command, "--config", "/no/such.toml"]);
        assert_eq!(code, Some(2), "{command}: {errors}");
        assert!(errors.contains("/no/such.toml"), "{command}: {errors}");
    }
    for option in ["--config", "--data-dir"] {
        for server in [&["http://127.0.0.1:9/mcp"][..], &["--", "cat"]] {
            let (code, _, errors) = run(&[&["tools", option, "x"], server].concat());
            let expected =
                format!("error: {option} is for your own configuration, which is used if no server is named");
            assert_eq!(code, Some(2), "{errors}");
            assert!(errors.starts_with(&expected), "{errors}");
        }
    }
}

#[test]
fn arguments_come_from_a_file_or_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("arguments.json");
    std::fs::write(&file, r#"{"text":"from a file"}"#).unwrap();
    let named = format!("@{}", file.display());
    let (code, text, errors) = output(with_server(&["call", "echo", "--args", &named]));
    assert_eq!((code, text.as_str()), (Some(0), "said from a file\n"), "{errors}");

    let mut command = with_server(&["call", "echo", "--args", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"{"text":"from a pipe"}"#).unwrap();
    let piped = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), "said from a pipe\n");

    let (code, _, errors) = output(with_server(&["call", "echo", "--args", "@/no/such/file"]));
    assert_eq!(code, Some(2));
    assert!(errors.starts_with("error: --args: failed to open file `/no/such/file`"), "{errors}");
    let (code, _, errors) = output(with_server(&["call", "echo", "--args", "nonsense"]));
    assert_eq!(code, Some(2));
    assert!(errors.starts_with("error: --args is not valid JSON: "), "{errors}");
}

#[test]
fn a_command_without_its_separator_is_explained() {
    for (words, expected) in [
        ("call echo text=hi sh server", "gladhand call echo text=hi -- sh server"),
        ("call echo text=hi npx -y server", "gladhand call echo text=hi -- npx -y server"),
        ("tools npx server", "gladhand tools -- npx server"),
        ("prompts --get review sh server", "gladhand prompts --get review -- sh server"),
        ("open --as mcp npx server", "gladhand open --as mcp -- npx server"),
        ("bridge npx server", "gladhand bridge -- npx server"),
    ] {
        let mut command = gladhand();
        command.args(words.split(' '));
        let (code, _, errors) = output(command);
        assert_eq!(code, Some(2), "{errors}");
        let hint = format!("hint: the command of a server goes behind `--`: {expected}\n");
        assert!(errors.ends_with(&hint), "{words}: {errors}");
    }
    let (code, _, errors) = output(with_server(&["call", "echo", "hi"]));
    assert_eq!(code, Some(2));
    assert!(errors.contains("hint: arguments are written as key=value"), "{errors}");
}

#[test]
fn missing_arguments_of_a_prompt_are_named() {
    let (code, _, errors) = output(with_server(&["prompts", "--get", "review", "tone=kind"]));
    let expected = "error: the prompt needs the arguments `language`, `file`\n\
        hint: write language=… file=…\n  language: Which one.\n";
    assert_eq!((code, errors.as_str()), (Some(2), expected));
    let (code, _, errors) = output(with_server(&["prompts", "--get", "reveiw"]));
    let expected = "error: the server lists no prompt `reveiw`: the server does not have it, or its policy hides it\n\
        hint: did you mean `review`?\n";
    assert_eq!((code, errors.as_str()), (Some(2), expected));
    let (code, text, errors) = output(with_server(&["prompts", "--get", "review", "language=rust", "file=x"]));
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.contains("filled in"), "{text}");
}

#[test]
fn progress_shows_numbers_and_message_of_the_server() {
    let mut terminal = Terminal::with_columns(60, with_server(&["call", "count"]));
    terminal.until(" 2/4 halfway");
    assert!(terminal.all().ends_with("done\r\n"));
}

#[test]
fn a_question_is_broken_between_words_and_shows_titles() {
    let mut terminal = Terminal::with_columns(60, with_server(&["call", "ask"]));
    let asked = terminal.until("(a number or a name) > ");
    let expected = "
The server asks: Before the parcel can be sent, a few things
must be known about it.
  (!no declines)
  Size of the parcel
    A parcel that is larger than this is sent on the next
    day, and costs more.
    1 Small
    2 Large
  (a number or a name) > ";
    assert_eq!(asked.replace("\r\n", "\n"), expected);
    terminal.types("2\n");
    assert!(terminal.all().ends_with("a large one\r\n"));
}

#[test]
fn nothing_is_written_into_an_open_question() {
    let mut command = with_server(&["-v", "call", "book"]);
    command.env_remove("GLADHAND_LOG");
    let mut terminal = Terminal::with_columns(80, command);
    terminal.until("  Name: ");
    // Longer than it takes until the status line is shown, and until the server has written its lines.
    std::thread::sleep(Duration::from_millis(1500));
    terminal.types("Ada\n");
    let answered = terminal.until("Ada\r\n");
    assert!(!answered.trim_end_matches("Ada\r\n").contains('\n'), "{answered:?}");
    for hidden in ["calling book", "1/2 asked", "a line of the log", "a line on stderr"] {
        assert!(!answered.contains(hidden), "{hidden}: {answered:?}");
    }
    let later = terminal.all();
    for shown in ["1/2 asked", "info: a line of the log", "a line on stderr"] {
        assert!(later.contains(shown), "{shown}: {later:?}");
    }
    assert!(later.ends_with("done\r\n"), "{later:?}");
}

#[test]
fn a_server_that_ends_during_a_call_is_named_with_its_status_and_last_words() {
    let (code, _, errors) = output(with_server(&["call", "die"]));
    let expected = "error: the server ended during the call (exit status: 9); \
        its stderr ends with: first words | out of \\u{1b}[31mink\n";
    assert_eq!((code, errors.as_str()), (Some(4), expected));
}

#[test]
fn an_interrupt_ends_a_call_at_once_though_the_server_does_not_want_to_leave() {
    let mut command = with_server(&["-v", "call", "hang"]);
    command.env_remove("GLADHAND_LOG");
    let mut terminal = Terminal::with_columns(80, command);
    terminal.until("hanging");
    let begun = Instant::now();
    terminal.interrupt();
    assert_eq!(terminal.ends(), Some(130));
    // A server that is treated politely has more than four seconds.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn hints_of_a_bridge_name_no_command_that_would_fail() {
    let failing = "echo 'no configuration file' >&2; exit 3";
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.toml");
    std::fs::write(&broken, "[upstreams.x]\ncomand = 'y'\n").unwrap();
    let (own, broken) = (env!("CARGO_BIN_EXE_gladhand"), broken.to_str().unwrap());
    let broken_hint =
        format!("`gladhand open -- {own} serve --config {broken}` shows what it was sent and what it answered");
    let failing_hint = format!("`gladhand open -- sh -c {failing}` shows what it was sent and what it answered");
    for (client, server, code, hint) in [
        ("auto", &["sleep", "100"][..], 4, "`gladhand open -- sleep 100` shows what it was sent and what it answered"),
        ("auto", &["cat"], 3, "`gladhand open --as all -- cat` shows which dialects and revisions it speaks"),
        ("mcp@2025-06-18", &["cat"], 3, "`gladhand open --as all -- cat` shows which dialects and revisions it speaks"),
        ("auto", &["false"], 4, "`gladhand open -- false` shows what it was sent and what it answered"),
        ("auto", &["sh", "-c", failing], 4, &failing_hint),
        ("auto", &[own, "serve", "--config", broken], 3, &broken_hint),
        ("mcp@2025-06-18", &[own, "serve", "--config", broken], 3, &broken_hint),
    ] {
        let mut command = gladhand();
        command.args(["tools", "--as", client, "--timeout", "2", "--"]).args(server);
        let (ended, _, errors) = output(command);
        assert_eq!(ended, Some(code), "{errors}");
        assert!(errors.ends_with(&format!("hint: {hint}\n")), "{server:?}: {errors}");
        assert!(!errors.contains("bridge"), "{errors}");
    }
}
