//! A server process that listens on a port of its own.

use std::ffi::OsString;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gladhand::upstream::Target;

use super::Transport;

/// Longer than a server needs to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    /// Starts a script that takes `http PORT` or `sse PORT` before words of its own.
    pub(crate) fn by_arguments(words: &[OsString], transport: Transport) -> Self {
        let port = free_port();
        let (program, own) = words.split_at(words.len().min(2));
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args([transport.name(), &port.to_string()]).args(own);
        Self::start(command, port)
    }

    /// Starts server-everything, which has its own names and wants the port in the environment.
    pub(crate) fn by_environment(words: &[OsString], transport: Transport) -> Self {
        let port = free_port();
        let mut command = Command::new(&words[0]);
        let name = if transport == Transport::Http { "streamableHttp" } else { "sse" };
        command.args(&words[1..]).arg(name).env("PORT", port.to_string());
        Self::start(command, port)
    }

    pub(crate) fn target(&self, transport: Transport) -> Target {
        Target::parse(&[self.url(transport)]).expect("a URL")
    }

    pub(crate) fn url(&self, transport: Transport) -> String {
        let path = if transport == Transport::Sse { "sse" } else { "mcp" };
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    fn start(mut command: Command, port: u16) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { child: command.spawn().expect("the server starts"), port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < PATIENCE, "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.expect("a free port").port()
}
