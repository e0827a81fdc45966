//! Servers to talk to: the built program, or a hub of our own in this process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gladhand::authorization::unnamed_pass;
use gladhand::dialects::Stop;
use gladhand::hub::{Hub, Provider};
use gladhand::{Limits, Secret, Service};
use gladhand_server::access::Access;
use gladhand_server::http::{Http, HttpOptions};
use rustix::process::{Pid, Signal, kill_process};

use crate::client::Connection;
use crate::support::{PATIENCE, gladhand};

/// The built program.
pub(crate) struct Program {
    child: Child,
    pub(crate) url: String,
    pub(crate) stderr: BufReader<ChildStderr>,
}

impl Program {
    /// Starts `gladhand serve --http` at a free port.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", arguments)
    }

    pub(crate) fn start_at(address: &str, arguments: &[&str]) -> Self {
        let mut command: Command = gladhand();
        command.args(["serve", "--http", address]).args(arguments);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut seen = String::new();
        let url = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).expect("text") > 0, "it ended: {seen}");
            if let Some((_, url)) = line.trim_end().split_once("listening on ") {
                break url.to_owned();
            }
            seen.push_str(&line);
        };
        Self { child, url, stderr }
    }

    /// The program with a configuration of its own.
    pub(crate) fn configured(configuration: &str) -> (Self, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gladhand.toml");
        std::fs::write(&file, configuration).expect("it can be written");
        (Self::start(&["--config", file.to_str().expect("text")]), folder)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let address = self.url.split("//").nth(1).and_then(|rest| rest.split('/').next());
        address.and_then(|address| address.parse().ok()).expect("an address")
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it is running");
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The rest of its stderr, until its end.
    pub(crate) fn rest_of_stderr(&mut self) -> String {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut rest).expect("text");
        rest
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server in this process, in front of a provider of our own.
pub(crate) struct Embedded {
    pub(crate) address: SocketAddr,
    /// The access rules of the server.
    pub(crate) access: Arc<Access>,
    stop: Option<tokio::sync::oneshot::Sender<Stop>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Embedded {
    pub(crate) fn start(provider: impl Provider + 'static, options: HttpOptions) -> Self {
        Self::with(provider, Http { options, ..Http::default() })
    }

    /// A server with everything but an address.
    pub(crate) fn with(provider: impl Provider + 'static, http: Http) -> Self {
        Self::on_terms(provider, http, Vec::new())
    }

    /// A server that wants a token of agents.
    pub(crate) fn asking_for(token: &str, provider: impl Provider + 'static) -> Self {
        Self::on_terms(provider, Http::default(), vec![Secret::new(token)])
    }

    fn on_terms(provider: impl Provider + 'static, http: Http, tokens: Vec<Secret>) -> Self {
        let hub = Hub::new(vec![Box::new(provider)]).expect("names are unique");
        let limits = Limits { drain: Duration::from_millis(100), ..Limits::default() };
        let http = Http { listen: vec!["127.0.0.1:0".parse().expect("an address")], ..http };
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (bound, address) = std::sync::mpsc::channel();
        let passes = tokens.into_iter().map(unnamed_pass).collect();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let service = Service::new(hub).limits(limits).passes(passes);
                let access = Arc::clone(service.access());
                let server = service.bind_http(http).await.expect("a free port");
                let address = server.urls()[0].split('/').nth(2).and_then(|address| address.parse().ok());
                bound.send((address.expect("an address"), access)).expect("the test waits for the address");
                server.run(async { stopped.await.unwrap_or(Stop::Terminated) }).await;
            });
        });
        let (address, access) = address.recv_timeout(PATIENCE).expect("it is bound");
        Self { address, access, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
