//! Where the peers are, how they are started, and how long they may take.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than any peer needs on a busy machine, and short enough to wait for.
const PATIENCE: Duration = Duration::from_secs(90);

/// The binary under test.
pub(crate) const GLADHAND: &str = env!("CARGO_BIN_EXE_gladhand");

/// The folder that `cargo xtask peers` fills.
pub(crate) fn peers() -> &'static Path {
    static PEERS: OnceLock<PathBuf> = OnceLock::new();
    PEERS.get_or_init(|| {
        let named = std::env::var_os("GLADHAND_PEERS").expect("GLADHAND_PEERS names no peers: run `cargo xtask test`");
        let folder = PathBuf::from(named);
        // Modules are looked for beside the script that imports them, so scripts go where the packages are.
        for kind in ["clients", "servers", "matrix", "ordinary"] {
            let (from, to) = (scripts().join(kind), folder.join("npm").join(kind));
            fs::create_dir_all(&to).expect("no place for the scripts among the peers");
            for entry in fs::read_dir(from).expect("no scripts").map(|entry| entry.expect("no script")) {
                if entry.path().extension().is_some_and(|ending| ending == "mjs") {
                    // In one step, since another test may be running the script.
                    let beside = to.join(format!(".{}", std::process::id()));
                    let copied = fs::copy(entry.path(), &beside);
                    copied.and_then(|_| fs::rename(beside, to.join(entry.file_name()))).expect("a script is copied");
                }
            }
        }
        folder
    })
}

/// The folder of scripts, in the repository.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers")
}

/// A JavaScript peer: the runtime and one of our scripts.
pub(crate) fn node(script: &str) -> Vec<OsString> {
    vec![peers().join("bin/node").into(), peers().join("npm").join(script).into()]
}

/// A Python peer of one line of the SDK: the interpreter and one of our scripts.
pub(crate) fn python(line: &str, script: &str) -> Vec<OsString> {
    vec![peers().join(line).join("bin/python").into(), scripts().join(script).into()]
}

/// The output of a program that succeeds: one line of JSON.
pub(crate) struct Printed {
    pub(crate) code: Option<i32>,
    pub(crate) json: Value,
}

/// Runs a command to its end and reads the line that it prints.
pub(crate) fn run(words: &[OsString]) -> Printed {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("could not start {words:?}: {error}"));
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().expect("a child can be killed");
            panic!("{words:?} did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let text = reader.join().expect("the reader does not panic").expect("stdout is UTF-8");
    let json =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?} ({status}) printed {text:?}: {error}"));
    Printed { code: status.code(), json }
}
