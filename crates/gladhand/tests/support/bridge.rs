//! `gladhand bridge` in front of the example `unreliable`, over HTTP or stdio, and what the kernel knows of both.
#![allow(dead_code, unreachable_pub, reason = "each test target includes this module and uses another part of it")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::{Connection, Response};
use crate::support::{PATIENCE, example, gladhand};

/// A bridge that listens.
#[derive(Debug)]
pub struct Bridge {
    child: Child,
    pub address: SocketAddr,
}

impl Bridge {
    /// In front of `unreliable` with these arguments.
    pub fn to(arguments: &[&str]) -> Self {
        Self::at("127.0.0.1:0", arguments)
    }

    /// The same at an address.
    pub fn at(address: &str, arguments: &[&str]) -> Self {
        let mut command = command(arguments, &["--http", address]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned())).expect("it listens");
        // It must never wait for us to read its log.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.split('/').nth(2).and_then(|address| address.parse().ok()).expect("an address");
        Self { child, address }
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end, and waits until it has; whether that was in order.
    pub fn stop(mut self) -> bool {
        signal(self.id(), Signal::TERM);
        until("it ends", || self.child.try_wait().expect("it is our child")).success()
    }

    /// Kills it.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `gladhand bridge` in front of `unreliable`.
pub fn command(arguments: &[&str], options: &[&str]) -> Command {
    let mut command = gladhand();
    command.arg("bridge").args(options).arg("--").arg(example("unreliable").get_program()).args(arguments);
    command
}

/// Waits until something is there.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Signals a process, if it is still there.
pub fn signal(process: u32, signal: Signal) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process id");
    let _ = kill_process(pid, signal);
}

/// The processes that were started as `unreliable` with this word among their arguments.
pub fn upstreams(word: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("processes can be seen").flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_one = |id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"/unreliable")) && words.any(|w| w == word.as_bytes())
    };
    ids.filter(is_one).collect()
}

/// The messages in a response, whether it is one or a stream of them.
pub fn messages(response: &Response) -> Vec<Value> {
    if response.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
        let data = response.body.lines().filter_map(|line| line.strip_prefix("data: "));
        return data.filter(|data| !data.is_empty()).map(|data| data.parse().expect("JSON")).collect();
    }
    vec![response.json()]
}

/// The one answer in a response; what only tells something is passed over.
pub fn answer(response: &Response) -> Value {
    let mut answers: Vec<_> =
        messages(response).into_iter().filter(|message| message.get("method").is_none()).collect();
    assert_eq!(answers.len(), 1, "{response:?}");
    answers.remove(0)
}
