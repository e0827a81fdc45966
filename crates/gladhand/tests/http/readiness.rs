//! `/readyz` and required upstreams.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::server::Program;
use crate::support::PATIENCE;

/// A server that answers only after a line was written to `gate`. It leaves its process id in `pid`.
const SERVER: &str = r#"echo $$ > pid; read -r go < gate
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}';;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[]}}';;
    esac
done"#;

/// Asks until the status is the expected one, and returns the body.
fn becomes(program: &Program, expected: u16) -> String {
    let begun = Instant::now();
    loop {
        let answer = program.connect().ask("GET", "/readyz", &[], "");
        if answer.status == expected {
            return answer.body;
        }
        assert!(begun.elapsed() < PATIENCE, "{} {}", answer.status, answer.body);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_server_is_ready_while_its_required_upstreams_are_open_and_opens_them_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    assert!(std::process::Command::new("mkfifo").arg(file("gate")).status().expect("mkfifo").success());
    let cwd = folder.path().display();
    let configuration = format!(
        "[upstreams.slow]\ncommand = ['sh', '-c', '''{SERVER}''']\ncwd = '{cwd}'\nspeak = 'mcp@2025-06-18'\nrequired = true\n\
         [upstreams.broken]\ncommand = '/does/not/exist'\n"
    );
    std::fs::write(file("gladhand.toml"), configuration).expect("it can be written");
    let named = [file("gladhand.toml"), file("data")].map(|path| path.display().to_string());
    let program = Program::start(&["--config", &named[0], "--data-dir", &named[1]]);
    let open_gate = || std::fs::write(file("gate"), "go\n").expect("the server reads");

    assert_eq!(becomes(&program, 503), "a required upstream is not open\n");
    assert_eq!(program.connect().ask("GET", "/healthz", &[], "").status, 200, "it is alive");
    open_gate();
    assert_eq!(becomes(&program, 200), "ready\n", "an upstream that is not required may be broken");

    let server = std::fs::read_to_string(file("pid")).expect("the server runs");
    let server = server.trim().parse().ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(server, Signal::KILL).expect("it runs");
    becomes(&program, 503);
    open_gate();
    becomes(&program, 200);
}
