//! The one `gladhand serve` that all clients use, and its figures from the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand::config::{Grants, TrustStore};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bridge::{self, signal};
use crate::client::{Connection, STATELESS, stateless, stateless_call};
use crate::support::{example, gladhand};

/// How many servers there are behind it, beside one that comes and goes.
pub(crate) const UPSTREAMS: usize = 10;

/// How long anything may take. The machine may have much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A `gladhand serve` that can be killed and started again where it was.
pub(crate) struct House {
    folder: TempDir,
    /// A word on the command lines of its servers, by which they are known.
    word: String,
    pub(crate) address: SocketAddr,
    child: Mutex<Child>,
    /// Counts up when it is about to be killed, and again when it is back. A connection may be cut only by that.
    age: AtomicU64,
    /// Panic messages from its log.
    panics: Arc<Mutex<Vec<String>>>,
}

/// The parts of the configuration that change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    /// Which edition of each server is to run.
    pub(crate) editions: [u64; UPSTREAMS],
    pub(crate) has_extra: bool,
    pub(crate) policy: &'static str,
}

/// A process: its id, and when it began, since ids are used again.
type Identity = (u32, u64);

impl House {
    pub(crate) fn build() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let word = format!("soak-{}", std::process::id());
        let panics = Arc::<Mutex<Vec<String>>>::default();
        write_file(&folder, &word, &Plan::default());
        let (child, address) = start(&folder, "127.0.0.1:0", &panics);
        Self { folder, word, address, child: Mutex::new(child), age: AtomicU64::new(0), panics }
    }

    /// Puts another configuration in place.
    pub(crate) fn rewrite(&self, plan: &Plan) {
        write_file(&self.folder, &self.word, plan);
    }

    /// Puts a configuration in place that is none.
    pub(crate) fn spoil(&self) {
        replace_file(&self.folder, "[upstreams\n");
    }

    /// Kills it with SIGKILL, checks that all processes that it started end too, and starts it again.
    pub(crate) fn kill_and_start_again(&self) {
        let mut child = self.child.lock().expect("nobody panicked");
        let family = descendants(child.id());
        self.age.fetch_add(1, Ordering::SeqCst);
        child.kill().expect("it runs");
        child.wait().expect("it is our child");
        gone(&family);
        *child = start(&self.folder, &self.address.to_string(), &self.panics).0;
        self.age.fetch_add(1, Ordering::SeqCst);
    }

    /// Stops it, and checks that it ends in order and leaves no process behind.
    pub(crate) fn stop(&self) {
        let mut child = self.child.lock().expect("nobody panicked");
        let family = descendants(child.id());
        signal(child.id(), Signal::TERM);
        let status = patiently("it ends", || child.try_wait().expect("it is our child"));
        assert!(status.success(), "{status}");
        gone(&family);
        patiently("no server is left", || self.servers().is_empty().then_some(()));
        let panics = self.panics.lock().expect("nobody panicked");
        assert!(panics.is_empty(), "{panics:?}");
    }

    /// How often it was killed and came back.
    pub(crate) fn age(&self) -> u64 {
        self.age.load(Ordering::SeqCst)
    }

    /// The servers that run for it.
    pub(crate) fn servers(&self) -> Vec<u32> {
        bridge::upstreams(&self.word)
    }

    /// A connection, and the age at which it was opened. While the house is being started again, it is waited for.
    pub(crate) fn connect(&self, is_near: bool) -> (Connection, u64) {
        patiently("it listens", || {
            let age = self.age();
            let is_back = age.is_multiple_of(2);
            is_back.then(|| self.reach(is_near).ok().map(|connection| (connection, age))).flatten()
        })
    }

    /// A connection, if it listens.
    pub(crate) fn reach(&self, is_near: bool) -> io::Result<Connection> {
        match is_near {
            true => Connection::reach_unix(&socket(&self.folder), PATIENCE),
            false => Connection::reach(self.address, PATIENCE),
        }
    }

    /// Its memory (without the pages of the program) and its number of open files, once these are stable.
    pub(crate) fn weight(&self) -> Weight {
        let id = self.child.lock().expect("nobody panicked").id();
        let look = || {
            std::thread::sleep(Duration::from_millis(200));
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
            let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next());
            let kibibytes: u64 = own.and_then(|number| number.parse().ok()).expect("a number");
            let files = std::fs::read_dir(format!("/proc/{id}/fd")).expect("it runs").count();
            Weight { bytes: kibibytes * 1024, files, servers: self.servers().len() }
        };
        let looks: Vec<_> = (0..10).map(|_| look()).collect();
        Weight {
            bytes: looks.iter().map(|look| look.bytes).min().unwrap_or_default(),
            files: looks.iter().map(|look| look.files).min().unwrap_or_default(),
            servers: looks.iter().map(|look| look.servers).min().unwrap_or_default(),
        }
    }
}

/// The memory and the open files of the house.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight {
    pub(crate) bytes: u64,
    pub(crate) files: usize,
    pub(crate) servers: usize,
}

impl Drop for House {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something is there, however slow the machine is.
pub(crate) fn patiently<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn start(folder: &TempDir, address: &str, panics: &Arc<Mutex<Vec<String>>>) -> (Child, SocketAddr) {
    let near = format!("unix:{}", socket(folder).display());
    let mut command = gladhand();
    command.args(["serve", "--http", address, "--http", &near, "--config", "gladhand.toml"]);
    command.current_dir(folder.path()).env("GLADHAND_DATA_DIR", folder.path().join("data"));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the program is built");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut listening = || lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned()));
    let (far, _near) = (listening().expect("it listens"), listening().expect("it listens there too"));
    let panics = Arc::clone(panics);
    // It must never wait for us to read its log.
    std::thread::spawn(move || {
        for line in lines.filter(|line| line.contains("panicked")) {
            panics.lock().expect("nobody panicked").push(line);
        }
    });
    (child, far.split('/').nth(2).and_then(|address| address.parse().ok()).expect("an address"))
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("gladhand.sock")
}

fn write_file(folder: &TempDir, word: &str, plan: &Plan) {
    // A client that has to wait for its turn may say nothing for long.
    let mut text = "[toolbox]\nenabled = false\n[http]\nhead_ms = 600000\n".to_owned();
    let program = example("unreliable");
    let program = program.get_program().to_str().expect("a path that is text");
    let servers = plan.editions.iter().enumerate().map(|(number, edition)| (format!("u{number}"), *edition));
    for (name, edition) in servers.chain(plan.has_extra.then(|| ("extra".to_owned(), 0))) {
        let command = json!([program, word, format!("{name}-{edition}")]);
        let _ = write!(text, "[upstreams.{name}]\ncommand = {command}\n");
    }
    replace_file(folder, &(text + plan.policy));
}

/// Puts another file in the place of the old one. The user trusts it first, so that it also applies where it widens something.
fn replace_file(folder: &TempDir, text: &str) {
    let (beside, file) = (folder.path().join("gladhand.toml.new"), folder.path().join("gladhand.toml"));
    let store = TrustStore::in_folder(Some(&folder.path().join("data")));
    store.trust(&file, text, Grants::default()).expect("it can be written");
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file)).expect("it can be written");
}

/// Waits until all of these processes are gone.
fn gone(family: &BTreeSet<Identity>) {
    let is_there = |(id, begun): &&Identity| began(*id).is_some_and(|(_, when)| when == *begun);
    patiently("all that it started is gone", || family.iter().find(is_there).is_none().then_some(()));
}

/// All processes that a process started, and that those started.
fn descendants(process: u32) -> BTreeSet<Identity> {
    let all = std::fs::read_dir("/proc").expect("processes can be seen").flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: BTreeMap<u32, (u32, u64)> = ids.filter_map(|id| Some((id, began(id)?))).collect();
    let is_descendant = |mut id: u32| loop {
        match parents.get(&id) {
            Some((parent, _)) if *parent == process => return true,
            Some((parent, _)) => id = *parent,
            None => return false,
        }
    };
    parents.iter().filter(|(id, _)| is_descendant(**id)).map(|(id, (_, begun))| (*id, *begun)).collect()
}

/// A process's parent and when it began, unless it is gone; one that only waits to be noticed is gone.
fn began(process: u32) -> Option<(u32, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program comes first, and may hold anything.
    let words: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    if words.first() == Some(&"Z") {
        return None;
    }
    Some((words.get(1)?.parse().ok()?, words.get(19)?.parse().ok()?))
}

/// The names of all tools that a new client sees.
pub(crate) fn tools(house: &House) -> Vec<String> {
    let mut connection = house.reach(false).expect("it listens");
    let headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/list")];
    let answer = bridge::answer(&connection.post(&headers, &stateless(1, "tools/list", "")));
    let tools = answer["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool: &Value| Some(tool["name"].as_str()?.to_owned())).collect()
}

/// Waits until every server answers.
pub(crate) fn all_are_open(house: &House) {
    let mut connection = house.reach(false).expect("it listens");
    for number in 0..UPSTREAMS {
        let tool = format!("u{number}__echo");
        patiently("a server answers", || {
            let (headers, body) = stateless_call(1, &tool, r#"{"text":"there"}"#);
            let answer = bridge::answer(&connection.post(&headers, &body));
            (answer["result"]["content"][0]["text"] == "there").then_some(())
        });
    }
}
