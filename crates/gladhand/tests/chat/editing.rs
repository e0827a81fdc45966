//! Line editing at the prompt: keys, history, pasted text, the size of the window, and how the terminal is left.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::support::PATIENCE;
use super::support::terminal::{MARKS_PASTE, Terminal};
use super::{Stage, calls, says};

const UP: &str = "\u{1b}[A";
const LEFT: &str = "\u{1b}[D";

impl Stage {
    /// A chat at whose prompt keys are edited.
    fn prompt(&self, columns: u16) -> Terminal {
        let mut terminal = Terminal::with_columns(columns, self.chat(&[]));
        terminal.prompt();
        terminal
    }

    /// The last thing that the provider was asked by a person.
    fn last_message(&self) -> String {
        let request = self.last_request();
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.iter().rfind(|message| message["role"] == "user").expect("a message");
        last["content"].as_str().unwrap_or_default().to_owned()
    }

    fn history(&self) -> String {
        std::fs::read_to_string(self.home.path().join("data/gladhand/chat_history")).unwrap_or_default()
    }
}

#[test]
fn a_line_is_edited_and_comes_back_with_the_arrow_keys_also_in_the_next_chat() {
    let stage = Stage::new(vec![says(&["One."]), says(&["Two."]), says(&["Three."])]);
    let mut terminal = stage.prompt(60);
    terminal.types(&format!("helo{LEFT}l\r"));
    terminal.until("One.");
    assert_eq!(stage.last_message(), "hello");
    terminal.until(MARKS_PASTE);
    terminal.types(&format!("{UP} again\r"));
    terminal.until("Two.");
    assert_eq!(stage.last_message(), "hello again");
    terminal.until(MARKS_PASTE);
    terminal.types("/auth exa not-for-any-file\r");
    terminal.until("done;");
    terminal.until(MARKS_PASTE);
    terminal.types("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    assert_eq!(stage.history(), "\"hello\"\n\"hello again\"\n");
    let file = std::fs::metadata(stage.home.path().join("data/gladhand/chat_history")).expect("it is there");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);

    let mut terminal = stage.prompt(80);
    terminal.types(&format!("{UP}{UP}\r"));
    terminal.until("Three.");
    assert_eq!(stage.last_message(), "hello");
}

#[test]
fn pasted_lines_are_one_message() {
    let stage = Stage::new(vec![says(&["Read."])]);
    let mut terminal = stage.prompt(60);
    terminal.types("look: \u{1b}[200~one\rtwo\r\nthree\n\u{1b}[201~\r");
    terminal.until("Read.");
    assert_eq!(stage.last_message(), "look: one\ntwo\nthree");
    assert_eq!(stage.provider.requests_of(super::COMPLETIONS).len(), 1);
}

#[test]
fn answers_to_questions_and_lines_typed_ahead_keep_their_ways() {
    let call = calls("bash", &json!({"command": "echo done > made"})).behind("call");
    let stage = Stage::new(vec![call, says(&["Done."]), says(&["Two."])]);
    let mut terminal = stage.prompt(60);
    terminal.types("make it\r");
    terminal.until("thinking… ");
    assert!(terminal.is_usual(), "lines are typed ahead in the usual mode");
    // This was typed before the question, so it is no answer to it.
    terminal.types("y\r");
    terminal.until("thinking, then 1 more… ");
    stage.provider.release("call");
    terminal.until("in this chat: ");
    assert!(!stage.home.path().join("made").exists());
    terminal.types("n\r");
    terminal.until("Done.");
    terminal.until("Two.");
    assert_eq!(stage.last_message(), "y");
    terminal.until(MARKS_PASTE);
    assert!(!stage.home.path().join("made").exists());
    terminal.types(UP);
    terminal.until("y");
    assert_eq!(stage.history(), "\"make it\"\n\"y\"\n", "messages are kept, and answers are not");
}

#[test]
fn half_a_line_that_was_typed_ahead_can_be_edited() {
    let stage = Stage::new(vec![says(&["One."]).behind("one"), says(&["Two."])]);
    let mut terminal = stage.prompt(60);
    terminal.types("first\r");
    terminal.until("thinking… ");
    terminal.types("secnd");
    terminal.until("secnd");
    stage.provider.release("one");
    terminal.until("One.");
    terminal.until(MARKS_PASTE);
    terminal.until("secnd");
    terminal.types(&format!("{LEFT}{LEFT}o\r"));
    terminal.until("Two.");
    assert_eq!(stage.last_message(), "second");
}

#[test]
fn a_line_follows_the_size_of_the_window() {
    let stage = Stage::new(vec![says(&["Read."])]);
    let mut terminal = stage.prompt(60);
    terminal.types("a line that is longer than twenty columns");
    terminal.until("columns");
    terminal.resize(20);
    // A test's terminal controls no process, so it sends no signal itself.
    terminal.signal(Signal::WINCH);
    terminal.until("› ");
    terminal.until("columns");
    terminal.types("!\r");
    terminal.until("Read.");
    assert_eq!(stage.last_message(), "a line that is longer than twenty columns!");
}

#[test]
fn a_chat_that_is_left_at_the_prompt_leaves_the_terminal_as_it_was() {
    let stage = Stage::new(Vec::new());
    let by_key = |keys: &'static str| move |terminal: &mut Terminal| terminal.types(keys);
    let by_signal = |signal| move |terminal: &mut Terminal| terminal.signal(signal);
    for (leave, status) in [
        (&by_key("half\u{3}") as &dyn Fn(&mut Terminal), Some(0)),
        (&by_key("\u{4}"), Some(0)),
        (&by_signal(Signal::INT), Some(0)),
        (&by_signal(Signal::TERM), Some(143)),
    ] {
        let mut terminal = stage.prompt(60);
        let begun = Instant::now();
        while terminal.is_usual() {
            assert!(begun.elapsed() < PATIENCE, "no line is edited");
            std::thread::sleep(Duration::from_millis(5));
        }
        leave(&mut terminal);
        assert_eq!(terminal.wait(), status);
        assert!(terminal.is_usual());
        terminal.until("\u{1b}[?2004l");
    }
    assert_eq!(stage.history(), "");
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_is_read_line_by_line() {
    let stage = Stage::new(vec![says(&["Hello."])]);
    let mut command = stage.chat(&[]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::with_columns(60, command);
    let mut seen = terminal.until("› ");
    assert!(terminal.is_usual());
    terminal.types("hi\r");
    seen += &terminal.until("Hello.");
    seen += &terminal.until("› ");
    assert!(!seen.contains("\u{1b}[?") && !seen.contains("\u{1b}[K"), "{seen:?}");
    terminal.types("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}
