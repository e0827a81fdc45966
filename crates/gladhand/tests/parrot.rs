//! The fifth dialect: a process that speaks it and the other four, and what it took to add it.
#![cfg(unix)]

/// The dialect's own tests run here: the example itself is built as a program.
#[path = "../examples/parrot/dialect/mod.rs"]
mod dialect;
mod support;

use support::{Process, example};

fn parrot() -> Process {
    Process::start(example("parrot"))
}

#[test]
fn a_parrot_is_heard() {
    let mut process = parrot();
    process.send(r#"{"parrot":"Polly"}"#);
    let opened = process.value();
    process.send(r#"{"say":"hello"}"#);
    let heard = process.line();
    process.send("garbage");
    let squawk = process.value();
    assert_eq!((opened.get("squawk"), heard.as_str()), (None, r#"{"heard":"hello"}"#), "{opened}");
    assert!(squawk["squawk"].is_string(), "{squawk}");
    let (status, rest, _) = process.finish();
    assert_eq!((status, rest), (0, Vec::new()));
}

#[test]
fn the_other_four_are_detected_by_the_same_program() {
    for (opening, member) in [
        (support::mcp_initialize("2025-06-18"), "/result/protocolVersion"),
        (r#"{"type":"handshake/req","id":"1","agent_caps":["tools"]}"#.to_owned(), "/accepted_caps"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake"}"#.to_owned(), "/result/server_name"),
        (r#"{"type":"handshake","id":"1"}"#.to_owned(), "/result/capabilities/tools"),
    ] {
        let answer = parrot().ask(&opening);
        assert!(answer.pointer(member).is_some(), "{answer}");
    }
    // And it is no dialect of the product.
    let mut process = Process::serve(&[]);
    assert_eq!(process.ask(r#"{"parrot":"Polly"}"#)["error"]["data"]["reason"], "unknown_dialect");
}

/// The example is the product's `serve` with the default configuration, a folder and a line.
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
