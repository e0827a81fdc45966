//! The leash: children end when their leash dies or stops. Lists that exceed the line limit are errors.
#![cfg(target_os = "linux")]

use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{PATIENCE, Process, gladhand, mcp_call, mcp_initialize, mcp_session};

const OPENED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;

/// A bridge to a server that starts two processes that leave its group, its parent and its environment, and then signals
/// its own leash.
struct Hostile {
    process: Process,
    folder: tempfile::TempDir,
}

impl Hostile {
    /// Starts it; `attack` is what the server does after the opening.
    fn start(attack: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let shell = format!(
            r#"echo $$ >> "$0"
            setsid sh -c 'echo $$ >> "$0"; exec sleep 600' "$0" &
            setsid env -i /bin/sh -c '(/bin/sh -c "echo \$\$ >> \"\$0\"; exec /bin/sleep 600" "$0" &)' "$0" &
            read -r line; echo '{{"jsonrpc":"2.0","id":1,"result":{OPENED}}}'
            while [ ! -e "$0.go" ]; do sleep 0.02; done
            {attack}
            exec sleep 600"#
        );
        let mut command: Command = gladhand();
        command.args(["bridge", "--as", "mcp@2025-11-25", "--", "sh", "-c", &shell]).arg(folder.path().join("ids"));
        command.env("GLADHAND_DATA_DIR", folder.path().join("data"));
        let mut process = Process::start(command);
        let opened = process.ask(&mcp_initialize("2025-11-25"));
        assert_eq!(opened["result"]["serverInfo"]["name"], "s", "{opened}");
        let hostile = Self { process, folder };
        until("all have started", || hostile.living() == 3);
        hostile
    }

    fn attack(&self) {
        std::fs::write(self.folder.path().join("ids.go"), "").expect("it can be written to");
    }

    fn living(&self) -> usize {
        living(&self.folder.path().join("ids"))
    }
}

/// How many of the processes live whose ids are in a file.
fn living(file: &PathBuf) -> usize {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let is_alive = |id: &&str| {
        let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    text.lines().filter(is_alive).count()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_started_program_gets_the_limit_on_open_files_from_before() {
    let folder = tempfile::tempdir().expect("a folder for tests");
    let config =
        "[upstreams.s]\ncommand = 'sh'\nargs = ['-c', 'ulimit -Sn > limit.new; mv limit.new limit; exec sleep 600']\n";
    let config = format!("{config}cwd = '{}'\n", folder.path().display());
    std::fs::write(folder.path().join("gladhand.toml"), config).expect("it can be written");
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -Sn 300; exec "$0" "$@""#]).arg(gladhand().get_program());
    command.args(["serve", "--config", "gladhand.toml", "--data-dir", "data", "--http", "127.0.0.1:0"]);
    command.current_dir(folder.path()).stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut server = command.spawn().expect("the program is built");
    let limit = folder.path().join("limit");
    until("the program has started", || limit.exists());
    let own = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).expect("it runs");
    let _ = server.kill();
    let _ = server.wait();
    let own = own.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a line of its own");
    let [soft, hard] = [0, 1].map(|place| own.split_whitespace().nth(place).expect("two limits").to_owned());
    assert_eq!(soft, hard, "we have as many as we may");
    assert_eq!(std::fs::read_to_string(limit).expect("it was written").trim(), "300");
}

#[test]
fn a_server_that_kills_its_leash_is_ended_with_its_descendants() {
    let mut hostile = Hostile::start("kill -KILL $PPID");
    hostile.attack();
    until("nobody is left", || hostile.living() == 0);
    let pong = hostile.process.ask(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#);
    assert_eq!(pong["id"], 9, "we go on: {pong}");
}

#[test]
fn a_server_that_stops_its_leash_is_ended_with_its_descendants() {
    let mut hostile = Hostile::start("kill -STOP $PPID");
    hostile.attack();
    until("nobody is left", || hostile.living() == 0);
    let pong = hostile.process.ask(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#);
    assert_eq!(pong["id"], 9, "we go on: {pong}");
}

#[test]
fn a_server_that_kills_its_leash_at_once_is_not_started_without_one() {
    for signal in ["KILL", "STOP"] {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let ids = folder.path().join("ids");
        // Without a leash its parent would be the bridge itself, which it would kill.
        let shell =
            format!(r#"echo $$ >> "$0"; setsid sleep 600 & echo $! >> "$0"; kill -{signal} $PPID; exec sleep 600"#);
        let mut command = gladhand();
        command.args(["bridge", "--as", "mcp@2025-11-25", "--timeout", "3", "--", "sh", "-c", &shell]).arg(&ids);
        let mut process = Process::start(command);
        process.send(&mcp_initialize("2025-11-25"));
        until("it has started", || std::fs::read_to_string(&ids).unwrap_or_default().lines().count() >= 2);
        process.value();
        until("nobody is left", || living(&ids) == 0);
        assert_eq!(process.ask(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#)["id"], 9, "the bridge goes on");
    }
}

#[test]
fn a_process_that_forks_very_fast_does_not_outlive_gladhand() {
    // Each process of the chain ends as soon as it has started the next. The last would tell that it survived.
    let chain = "import os, signal, sys, time\n\
                 out = os.open(sys.argv[1], os.O_WRONLY)\n\
                 signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
                 if os.fork(): os._exit(0)\n\
                 os.setsid()\n\
                 until = time.time() + 15\n\
                 while time.time() < until:\n\
                 \x20   if os.fork(): os._exit(0)\n\
                 os.write(out, b'survived')\n";
    let folder = tempfile::tempdir().expect("a folder for tests");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it starts").success());
    let shell = format!(
        r#"read -r line; echo '{{"jsonrpc":"2.0","id":1,"result":{OPENED}}}'
        python3 -c "$0" "$1"; exec sleep 600"#
    );
    let mut command: Command = gladhand();
    command.args(["bridge", "--as", "mcp@2025-11-25", "--", "sh", "-c", &shell, chain]).arg(&pipe);
    command.env("GLADHAND_DATA_DIR", folder.path().join("data"));
    let mut process = Process::start(command);
    assert_eq!(process.ask(&mcp_initialize("2025-11-25"))["result"]["serverInfo"]["name"], "s");
    // This waits for the first of the chain, and the end comes when the last is gone.
    let mut pipe = std::fs::File::open(pipe).expect("it is there");
    drop(process);
    let mut told = String::new();
    pipe.read_to_string(&mut told).expect("text");
    assert_eq!(told, "", "the chain went on");
}

/// A configuration with one upstream whose list of tools is longer than a line may be.
struct Long(tempfile::TempDir);

impl Long {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let opened = OPENED.replace(r#""capabilities":{}"#, r#""capabilities":{"tools":{}}"#);
        let script = format!(
            r#"while read -r line; do
                id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
                case "$line" in
                    *'"initialize"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{opened}}}';;
                    *'"tools/list"'*)
                        tools=$(printf '{{"name":"t%s","inputSchema":{{"type":"object"}}}},' $(seq 200))
                        echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"tools":['"${{tools%,}}"']}}}}';;
                esac
            done"#
        );
        std::fs::write(folder.path().join("server.sh"), script).expect("it can be written to");
        let config = format!(
            "[limits]\nline_bytes = 4096\n[toolbox]\nenabled = false\n\
             [upstreams.big]\ncommand = ['sh', '{}']\nspeak = 'mcp@2025-11-25'\n",
            folder.path().join("server.sh").display()
        );
        std::fs::write(folder.path().join("gladhand.toml"), config).expect("it can be written to");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn arguments(&self) -> [String; 4] {
        ["--config".to_owned(), self.path("gladhand.toml"), "--data-dir".to_owned(), self.path("data")]
    }
}

const TOO_LONG: &str =
    "tools/list of upstream big exceeds the line limit of 4096 bytes; raise limits.line_bytes to take it";

fn answer(process: &mut Process, id: &str) -> Value {
    loop {
        let message = process.value();
        if message["id"] == id || message["req_id"] == id {
            return message;
        }
    }
}

#[test]
fn a_list_that_exceeds_the_line_limit_is_a_named_error() {
    let long = Long::new();
    // The cache of the first run must not turn this into an empty list either.
    for run in 0..2 {
        let arguments = long.arguments();
        let mut process = mcp_session(&arguments.each_ref().map(String::as_str));
        process.send(r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#);
        let listed = answer(&mut process, "l");
        assert_eq!(listed["error"]["message"], TOO_LONG, "run {run}: {listed}");
        process.send(&mcp_call(5, "big__t1", "{}").replace(":5,", r#":"c","#));
        let called = answer(&mut process, "c");
        assert_eq!(called["error"]["message"], TOO_LONG, "run {run}: {called}");
    }
}

#[test]
fn a_list_that_exceeds_the_line_limit_is_an_error_in_the_dialect_of_the_peer() {
    let long = Long::new();
    let arguments = long.arguments();
    let mut process = Process::serve(&arguments.each_ref().map(String::as_str));
    process.ask(r#"{"type":"handshake/req","id":"h","agent_caps":["tools"]}"#);
    process.send(r#"{"type":"tool/list/req","id":"l"}"#);
    let listed = answer(&mut process, "l");
    assert_eq!((&listed["type"], &listed["message"]), (&Value::from("error"), &Value::from(TOO_LONG)), "{listed}");
}

#[test]
fn commands_report_a_list_that_exceeds_the_line_limit() {
    let long = Long::new();
    let mut command = gladhand();
    command.args(["tools", "--"]).arg(env!("CARGO_BIN_EXE_gladhand")).arg("serve").args(long.arguments());
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains(TOO_LONG), "{errors}");

    // `doctor` hears of it from the server that runs.
    let arguments = long.arguments();
    let runtime = long.path("run");
    std::fs::create_dir(&runtime).expect("it can be made");
    let mut command = gladhand();
    command.arg("serve").args(&arguments).env("XDG_RUNTIME_DIR", &runtime);
    let mut process = Process::start(command);
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#);
    answer(&mut process, "l");
    let doctor =
        gladhand().arg("doctor").args(&arguments).env("XDG_RUNTIME_DIR", &runtime).output().expect("it starts");
    let report = String::from_utf8_lossy(&doctor.stdout);
    assert!(report.contains(TOO_LONG), "{report}");
}
