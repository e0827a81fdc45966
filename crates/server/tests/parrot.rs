//! The fifth dialect: a process that speaks it and the other four, and what it took to add it.
#![cfg(unix)]

/// The dialect's own tests run here: the example itself is built as a program.
#[path = "../examples/parrot/dialect/mod.rs"]
mod dialect;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// The example as a process of its own.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Starts the example, which Cargo has built for the tests of this crate.
fn parrot() -> Process {
    let test = std::env::current_exe().expect("a program has a file");
    let folder = test.ancestors().nth(2).expect("it is in `deps`").join("examples");
    let mut command = Command::new(folder.join("parrot"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`cargo build --examples` has built it");
    let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("a pipe")));
    Process { child, input, output }
}

impl Process {
    fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("it is open"), "{line}").expect("the process reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the process writes text");
        line.trim_end().to_owned()
    }

    fn value(&mut self) -> Value {
        serde_json::from_str(&self.line()).expect("a line of JSON")
    }

    /// Ends the input, and returns the exit code and the number of lines that were left.
    fn finish(mut self) -> (Option<i32>, usize) {
        drop(self.input.take());
        let rest = self.output.by_ref().lines().count();
        (self.child.wait().expect("it is our child").code(), rest)
    }
}

#[test]
fn the_parrot_dialect_opens_and_answers() {
    let mut process = parrot();
    process.send(r#"{"parrot":"Polly"}"#);
    let opened = process.value();
    process.send(r#"{"say":"hello"}"#);
    let heard = process.line();
    process.send("garbage");
    let squawk = process.value();
    assert_eq!((opened.get("squawk"), heard.as_str()), (None, r#"{"heard":"hello"}"#), "{opened}");
    assert!(squawk["squawk"].is_string(), "{squawk}");
    assert_eq!(process.finish(), (Some(0), 0));
}

#[test]
fn the_other_four_are_detected_by_the_same_program() {
    for (opening, member) in [
        (
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#,
            "/result/protocolVersion",
        ),
        (r#"{"type":"handshake/req","id":"1","agent_caps":["tools"]}"#, "/accepted_caps"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake"}"#, "/result/server_name"),
        (r#"{"type":"handshake","id":"1"}"#, "/result/capabilities/tools"),
    ] {
        let mut process = parrot();
        process.send(opening);
        let answer = process.value();
        assert!(answer.pointer(member).is_some(), "{answer}");
        assert_eq!(process.finish().0, Some(0));
    }
    assert!(gladhand_dialects::REGISTRY.iter().all(|dialect| dialect.name != "parrot"), "no dialect of the product");
}

/// The example is a server with one tool, a folder and a line.
#[test]
fn a_dialect_is_one_folder_and_one_line() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/parrot");
    let mut entries: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    entries.sort();
    assert_eq!(entries, ["dialect", "main.rs"]);
    let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    let code: Vec<_> = main.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let registry: Vec<_> = code.iter().filter(|line| line.contains("::DIALECT")).collect();
    assert_eq!(registry.len(), gladhand_dialects::REGISTRY.len() + 1);
    let ours = code.iter().filter(|line| line.contains("dialect::DIALECT") && !line.contains("static"));
    assert_eq!(ours.count(), 1, "one line in the registry");
    // Nothing else in the program knows of it, and nothing in the product does.
    assert_eq!(code.iter().filter(|line| line.to_lowercase().contains("parrot")).count(), 0);
}
