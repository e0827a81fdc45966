//! `gladhand secret`, as a person and as a script use it.
#![cfg(unix)]

mod support;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use support::gladhand;
use tempfile::TempDir;

/// Folders of a user.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("there is room for a folder"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gladhand();
        command.arg("secret").args(arguments);
        command.env("XDG_CONFIG_HOME", self.0.path().join("config")).env("XDG_DATA_HOME", self.0.path().join("data"));
        command
    }

    fn run(&self, arguments: &[&str], stdin: &str) -> Output {
        finish(self.command(arguments), stdin)
    }

    fn sealed(&self) -> PathBuf {
        self.0.path().join("data/gladhand/secrets.sealed")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("config/gladhand/secrets.key")
    }
}

fn finish(mut command: Command, stdin: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // A command that does not read it may be gone already.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn secrets_are_set_from_a_pipe_listed_by_name_and_removed() {
    let home = Home::new();
    for (name, value) in [("two", "second\n"), ("one", "hush")] {
        let output = home.run(&["set", name], value);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), ""), "{said}");
        let place = home.sealed();
        assert!(said.contains(&format!("kept `{name}` in {}", place.display())), "{said}");
        assert!(said.contains(&home.key().display().to_string()) && !said.contains("hush"), "{said}");
    }
    let listed = home.run(&["list"], "");
    assert_eq!(text(&listed.stdout), "one\ntwo\n");
    assert!(text(&listed.stderr).contains("secrets.sealed"));
    let listed: Value = serde_json::from_slice(&home.run(&["list", "--json"], "").stdout).unwrap();
    let (file, key) = (home.sealed(), home.key());
    assert_eq!(listed, json!({"names": ["one", "two"], "file": file, "key": "file", "key_file": key}));

    assert_eq!(home.run(&["rm", "one"], "").status.code(), Some(0));
    let gone = home.run(&["rm", "one"], "");
    assert_eq!((gone.status.code(), text(&gone.stderr).as_str()), (Some(2), "error: there is no secret `one`\n"));
    assert_eq!(text(&home.run(&["list"], "").stdout), "two\n");
}

#[test]
fn a_value_comes_from_no_argument_and_is_not_empty() {
    let home = Home::new();
    let output = home.run(&["set", "name", "value"], "");
    assert_eq!(output.status.code(), Some(2));
    let output = home.run(&["set", "name"], "\n");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), "error: nothing was entered\n"));
    assert!(!home.sealed().exists());
}

#[test]
fn an_unreadable_secret_store_is_reported_with_advice_and_not_changed() {
    let home = Home::new();
    home.run(&["set", "one"], "hush");
    let before = std::fs::read(home.sealed()).unwrap();
    let complaint = |command: Command| {
        let output = finish(command, "other");
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let mut with_passphrase = home.command(&["set", "one"]);
    with_passphrase.env("GLADHAND_PASSPHRASE", "sesame");
    let said = complaint(with_passphrase);
    assert!(
        said.contains("is sealed without a passphrase") && said.contains("hint: unset GLADHAND_PASSPHRASE"),
        "{said}"
    );
    std::fs::remove_file(home.key()).unwrap();
    let said = complaint(home.command(&["set", "one"]));
    assert!(said.contains("which does not exist") && said.contains("hint: restore the key"), "{said}");
    assert_eq!(std::fs::read(home.sealed()).unwrap(), before);
}

#[test]
fn a_passphrase_takes_the_place_of_the_key_file() {
    let home = Home::new();
    let with = |passphrase: &str, arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("GLADHAND_PASSPHRASE", passphrase);
        finish(command, "hush")
    };
    assert!(with("sesame", &["set", "one"]).status.success());
    assert!(!home.key().exists());
    assert_eq!(text(&with("sesame", &["list"]).stdout), "one\n");
    let wrong = with("barley", &["list"]);
    let said = text(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(said.contains("is sealed with another passphrase") && !said.contains("barley"), "{said}");
    assert!(text(&home.run(&["list"], "").stderr).contains("hint: set GLADHAND_PASSPHRASE"));
}

#[test]
fn at_a_terminal_the_value_is_asked_for_and_not_shown() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let home = Home::new();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let side = || std::fs::File::options().read(true).write(true).open(&name).unwrap();
    let mut command = home.command(&["set", "typed"]);
    // Kept open here, so that the terminal does not hang up between the question and the end.
    let ours = side();
    command.stdin(side()).stdout(side()).stderr(side());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut terminal = std::fs::File::from(terminal);
    let mut screen = Vec::new();
    let mut read_until = |terminal: &mut std::fs::File, end: &str| {
        let mut buffer = [0; 1024];
        while !String::from_utf8_lossy(&screen).contains(end) {
            let count = terminal.read(&mut buffer).unwrap();
            screen.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8_lossy(&screen).into_owned()
    };
    read_until(&mut terminal, "(not shown): ");
    terminal.write_all(b"hushh\x7f\r").unwrap();
    let seen = read_until(&mut terminal, "secrets.key");
    assert!(child.wait().unwrap().success());
    assert!(!seen.contains("hus"), "{seen}");
    drop(ours);
    assert_eq!(text(&home.run(&["list"], "").stdout), "typed\n");
}
