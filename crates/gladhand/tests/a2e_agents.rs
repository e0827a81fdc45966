//! Agents that are not ours open the built host of A2E, over pipes and over HTTP.
//!
//! One is a client of our own in another language, so that both ends do not share a mistake; it needs `python3` and nothing
//! else. The other is the client of the reference SDK, which no registry has: `A2E_PEER_PYTHON` names an interpreter that
//! can import it, and it is asked for with `--ignored`.
#![cfg(unix)]

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

const CONFIG: &str = "[a2e]\ntokens = ['dev-secret']\n[a2e.proc]\nallowed = ['cat']\n";

/// A host with a configuration and data of its own.
struct Host {
    folder: TempDir,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("gladhand.toml"), CONFIG).expect("there is room");
        Self { folder }
    }

    /// The words that start it.
    fn command(&self, more: &[&str]) -> Vec<OsString> {
        let config = self.folder.path().join("gladhand.toml");
        let mut words: Vec<OsString> = vec![env!("CARGO_BIN_EXE_gladhand").into(), "serve".into()];
        words.extend([OsString::from("--config"), config.into()]);
        words.extend([OsString::from("--data-dir"), self.folder.path().join("data").into()]);
        words.extend(more.iter().map(OsString::from));
        words
    }

    /// Starts it at a free port, and returns its address.
    fn listen(&self) -> (Listening, String) {
        let words = self.command(&["--http", "127.0.0.1:0"]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let listening = Listening(child);
        let mut lines = stderr.lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.split_once("listening on ").map(|(_, url)| url.to_owned()));
        let url = url.expect("it listens");
        // The rest of its output is not needed, and must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let origin = url.split('/').take(3).collect::<Vec<_>>().join("/");
        (listening, origin)
    }
}

/// A host that listens, until the test is over.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a script to its end; it has to be content.
fn is_content(python: &str, script: &str, arguments: &[OsString]) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../peers/clients").join(script);
    let mut command = Command::new(python);
    command.arg(&script).args(arguments).stdin(Stdio::null());
    for name in ["GLADHAND_CONFIG", "GLADHAND_DATA_DIR", "GLADHAND_A2E_TOKEN"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap_or_else(|error| panic!("could not start {python}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.lines().last() == Some("PEER-OK"), "{said}\n{errors}");
}

/// Both ways to a host.
fn is_content_both_ways(python: &str, script: &str) {
    let host = Host::new();
    let words = [vec![OsString::from("stdio")], host.command(&[])].concat();
    is_content(python, script, &words);
    let (_listening, url) = host.listen();
    is_content(python, script, &["http".into(), url.into()]);
}

#[test]
fn an_agent_of_the_standard_library_is_served() {
    is_content_both_ways("python3", "a2e.py");
}

#[test]
fn capabilities_other_than_tools_are_available_through_a_bridge() {
    let host = Host::new();
    let mut words: Vec<OsString> = ["stdio", "env", "GLADHAND_A2E_TOKEN=dev-secret"].map(Into::into).to_vec();
    let data = host.folder.path().join("bridge");
    words.extend([env!("CARGO_BIN_EXE_gladhand"), "bridge", "--as", "a2e", "--data-dir"].map(OsString::from));
    words.extend([data.into(), OsString::from("--")]);
    words.extend(host.command(&[]));
    is_content("python3", "a2e.py", &words);
}

#[test]
#[ignore = "not run: needs the reference SDK, in an interpreter that A2E_PEER_PYTHON names"]
fn the_reference_client_is_served() {
    let python = std::env::var("A2E_PEER_PYTHON").expect("A2E_PEER_PYTHON names an interpreter that can `import a2e`");
    is_content_both_ways(&python, "a2e_reference.py");
}
