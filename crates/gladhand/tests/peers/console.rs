//! The page of the console in headless Chromium, with live servers behind it.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::installed::{GLADHAND, peers, run, scripts};

/// A console that is served.
struct Console {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Console {
    fn start(folder: TempDir, arguments: &[&str]) -> Self {
        let mut command = Command::new(GLADHAND);
        command.args(arguments).current_dir(folder.path()).env("GLADHAND_DATA_DIR", folder.path().join("data"));
        command.env("XDG_CONFIG_HOME", folder.path()).env_remove("GLADHAND_CONFIG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let address =
            lines.find_map(|line| Some(line.split_once("console listening on ")?.1.to_owned())).expect("a console");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, _folder: folder }
    }

    /// The problems that a browser finds with the page.
    fn problems(&self, mode: &str) -> Value {
        let words: [OsString; 4] = [
            peers().join("bin/node").into(),
            scripts().join("browser/console.mjs").into(),
            mode.into(),
            self.address.clone().into(),
        ];
        run(&words).json["problems"].clone()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_view_of_the_console_works_in_a_browser() {
    let folder = tempfile::tempdir().expect("a folder");
    let everything = peers().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let config = format!(
        "[agent]\nenabled = false\n[repository]\nenabled = false\n\
         [upstreams.everything]\ncommand = {node}\nargs = [{everything}, 'stdio']\n\
         [upstreams.broken]\ncommand = 'sh'\nargs = ['-c', 'echo no database >&2; exit 3']\n\
         [[policy.rules]]\nname = 'no-secrets'\ntools = ['everything__echo']\n\
         when = 'message contains \"secret\"'\neffect = 'deny'\n",
        node = json!(peers().join("bin/node")),
        everything = json!(everything),
    );
    std::fs::write(folder.path().join("c.toml"), config).expect("it can be written");
    let console = Console::start(folder, &["serve", "--http", "127.0.0.1:0", "--console", "--config", "c.toml"]);
    assert_eq!(console.problems("live"), json!([]));
}

#[test]
fn hostile_texts_of_a_recording_stay_text_in_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    write_hostile(&folder.path().join("hostile.jsonl"));
    let console = Console::start(folder, &["console", "hostile.jsonl"]);
    assert!(console.address.contains("?token="), "{}", console.address);
    assert_eq!(console.problems("recording"), json!([]));
}

/// A recording with HTML, scripts and control characters in every field that a peer chooses.
fn write_hostile(file: &Path) {
    let hostile =
        "<img src=x onerror=\"window.marked=1\"><b>x</b><script>window.marked=1</script>\u{1b}[2J\u{202e}\u{200b}'\"&";
    let entry = |session: &str, from: &str, message: Value| {
        json!({"ms": 1, "session": session, "from": from, "dialect": "mcp", "message": message}).to_string()
    };
    let initialize = json!({"jsonrpc": "2.0", "id": hostile, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {hostile: {}, "experimental": {hostile: {}}},
        "clientInfo": {"name": hostile, "version": hostile}}});
    let result = json!({"jsonrpc": "2.0", "id": hostile, "result": {"protocolVersion": "2025-06-18",
        "capabilities": {hostile: {}, "tools": {}}, "serverInfo": {"name": hostile, "version": hostile}}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": hostile, "arguments": {hostile: hostile}}});
    let mut lines = vec![json!({"gladhand_recording": 1, "version": "0.1.0", "started_ms": 5}).to_string()];
    for session in ["client-1", hostile] {
        let peer = json!({"name": hostile, "version": hostile, "principal": hostile, "upstream": hostile});
        lines.push(entry(session, "client", initialize.clone()));
        lines.push(entry(session, "server", result.clone()));
        lines.push(
            json!({"ms": 1, "session": session, "event": "opened", "dialect": "mcp", "version": hostile, "peer": peer})
                .to_string(),
        );
        lines.push(entry(session, "client", call.clone()));
        lines.push(entry(session, "client", json!({"jsonrpc": "2.0", "id": 2, "method": hostile})));
        lines.push(
            json!({"ms": 2, "session": session, "from": "server", "stream": "stderr", "text": hostile}).to_string(),
        );
        lines.push(json!({"ms": 3, "session": session, "event": "closed", "reason": hostile}).to_string());
    }
    std::fs::write(file, lines.join("\n") + "\n").expect("it can be written");
}
