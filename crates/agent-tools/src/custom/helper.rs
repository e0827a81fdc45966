//! The process that runs custom tools. It is started on first use, and again if it has died.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::RawValue;
use gladhand_process::starting::Starter;
use gladhand_store::files::replace_private;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::process::ending::{GRACE, end};
use crate::process::pipes::Pipes;
use crate::process::{Environment, Plan, arguments, pipes};
use crate::scripts::Runtime;
use crate::settings::ToolSettings;

/// The program of the process.
const DRIVER: &str = include_str!("driver.mjs");

/// Maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 32 * 1024 * 1024;

/// Timeout for loading a file.
pub(super) const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a tool call.
const CALL_TIMEOUT: Duration = Duration::from_secs(1200);

/// Starts and owns the process that runs custom tools.
#[derive(Debug)]
pub(super) struct Helper {
    runtime: Runtime,
    /// Its working directory, where its program is written.
    folder: PathBuf,
    environment: Environment,
    starter: Arc<dyn Starter>,
    process: tokio::sync::Mutex<Option<Arc<Process>>>,
}

/// A running process.
#[derive(Debug)]
struct Process {
    stdin: tokio::sync::Mutex<Sender>,
    /// Pending requests, by id.
    pending: Mutex<HashMap<u64, oneshot::Sender<Box<RawValue>>>>,
    next: AtomicU64,
    /// Cancelled to end the process.
    stopping: CancellationToken,
    /// Cancelled when the process and all its descendants have ended.
    ended: CancellationToken,
}

/// A request to the process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request<'a> {
    /// Load a file and describe its tool.
    Load(&'a Path),
    /// Parse the body of a function.
    Check(&'a str),
    /// Run the tool of a file.
    Run(&'a Path),
    /// Stop a call.
    Stop(u64),
}

#[derive(Serialize)]
struct RequestLine<'a> {
    id: u64,
    #[serde(flatten)]
    request: Request<'a>,
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawValue>,
}

impl Helper {
    pub(super) fn new(runtime: Runtime, settings: &ToolSettings) -> Self {
        Self {
            runtime,
            folder: settings.data.join("js-runtime"),
            environment: settings.environment.clone(),
            starter: Arc::clone(&settings.starter),
            process: tokio::sync::Mutex::default(),
        }
    }

    /// Ends the process.
    pub(super) async fn close(&self) {
        if let Some(process) = self.process.lock().await.take() {
            process.stopping.cancel();
            process.ended.cancelled().await;
        }
    }

    /// Loads a file and returns the description of its tool.
    pub(super) async fn load<T: for<'a> Deserialize<'a>>(&self, path: &Path, version: u64) -> Result<T, String> {
        read(&self.ask_soon(Request::Load(path), version).await?)
    }

    /// Checks the syntax of the body of a function, without running it.
    pub(super) async fn check(&self, body: &str) -> Result<(), String> {
        self.ask_soon(Request::Check(body), 0).await.map(drop)
    }

    /// Sends a request that is answered soon, unless a file does not finish loading.
    async fn ask_soon(&self, request: Request<'_>, version: u64) -> Result<Box<RawValue>, String> {
        let process = self.process().await.map_err(|error| error.to_string())?;
        let answer = process.ask(process.number(), request, version, None);
        let Ok(answer) = tokio::time::timeout(LOAD_TIMEOUT, answer).await else {
            process.stopping.cancel();
            return Err(format!("it did not load within {} seconds", LOAD_TIMEOUT.as_secs()));
        };
        answer
    }

    /// Runs the tool of a file.
    pub(super) async fn run<T: for<'a> Deserialize<'a>>(
        &self,
        path: &Path,
        version: u64,
        input: &RawValue,
        stop: &CancellationToken,
    ) -> Result<T, String> {
        let process = self.process().await.map_err(|error| error.to_string())?;
        let call = process.number();
        let mut answer = Box::pin(process.ask(call, Request::Run(path), version, Some(input)));
        let why = tokio::select! {
            // In this order, so that a call is sent before it is stopped.
            biased;
            answer = &mut answer => return read(&answer?),
            () = stop.cancelled() => "the tool was stopped",
            () = tokio::time::sleep(CALL_TIMEOUT) => "the tool took too long",
        };
        let stop_call = async {
            process.stop(call).await;
            answer.await
        };
        match tokio::time::timeout(GRACE, stop_call).await {
            Ok(answer) => read(&answer?),
            Err(_) => {
                process.stopping.cancel();
                Err(why.to_owned())
            }
        }
    }

    async fn process(&self) -> io::Result<Arc<Process>> {
        let mut kept = self.process.lock().await;
        if let Some(process) = kept.as_ref().filter(|process| !process.stopping.is_cancelled()) {
            return Ok(Arc::clone(process));
        }
        let process = self.start().await?;
        *kept = Some(Arc::clone(&process));
        Ok(process)
    }

    async fn start(&self) -> io::Result<Arc<Process>> {
        let driver = self.folder.join("driver.mjs");
        replace_private(&driver, DRIVER.as_bytes())?;
        let answer_prefix = format!("{}:", gladhand_system::random_hex::<8>());
        let mut environment = self.environment.clone();
        environment.insert("GLADHAND_DRIVER_WORD".into(), answer_prefix.clone().into());
        let plan = Plan {
            program: self.runtime.program.clone(),
            arguments: arguments([&driver]),
            folder: self.folder.clone(),
            environment,
        };
        let (Pipes { stdin, stdout, stderr }, channels) = pipes::open()?;
        let held = self.starter.start(plan.program(), channels).await?;
        let process = Arc::new(Process {
            stdin: tokio::sync::Mutex::new(stdin),
            pending: Mutex::default(),
            next: AtomicU64::new(0),
            stopping: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        tokio::spawn(log(stderr));
        let reader = Arc::clone(&process);
        tokio::spawn(async move {
            tokio::select! {
                () = reader.read_answers(stdout, &answer_prefix) => {}
                () = reader.stopping.cancelled() => {}
            }
            reader.stopping.cancel();
            end(&*held).await;
            // Pending requests get an error.
            reader.pending.lock().unpoisoned().clear();
            reader.ended.cancel();
        });
        Ok(process)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(process) = self.process.get_mut() {
            process.stopping.cancel();
        }
    }
}

impl Process {
    /// The id of the next request.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    async fn ask(
        &self,
        id: u64,
        request: Request<'_>,
        version: u64,
        input: Option<&RawValue>,
    ) -> Result<Box<RawValue>, String> {
        const ENDED: &str = "the process that runs custom tools has ended";
        let (sender, receiver) = oneshot::channel();
        self.pending.lock().unpoisoned().insert(id, sender);
        let written = self.write(&RequestLine { id, request, version, input }).await;
        if written.is_err() || self.stopping.is_cancelled() {
            self.pending.lock().unpoisoned().remove(&id);
            return Err(ENDED.to_owned());
        }
        let answer = receiver.await.map_err(|_| ENDED.to_owned())?;
        #[derive(Deserialize)]
        struct Thrown {
            thrown: String,
        }
        match serde_json::from_str::<Thrown>(answer.get()) {
            Ok(Thrown { thrown }) => Err(thrown),
            Err(_) => Ok(answer),
        }
    }

    async fn write(&self, line: &RequestLine<'_>) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        // The input may contain line breaks between its members.
        bytes.retain(|byte| !matches!(byte, b'\n' | b'\r'));
        bytes.push(b'\n');
        self.stdin.lock().await.write_all(&bytes).await
    }

    async fn stop(&self, call: u64) {
        // If the process no longer reads, it is ended soon anyway.
        let _ =
            self.write(&RequestLine { id: self.number(), request: Request::Stop(call), version: 0, input: None }).await;
    }

    /// Delivers answers to the pending requests until the output ends.
    async fn read_answers(&self, stdout: Receiver, answer_prefix: &str) {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut stdout).take(MAX_ANSWER_BYTES).read_until(b'\n', &mut line).await {
                Ok(1..) if line.ends_with(b"\n") => {}
                _ => return,
            }
            let Some((id, answer)) = std::str::from_utf8(&line)
                .ok()
                .and_then(|line| line.trim_end().strip_prefix(answer_prefix)?.split_once(' '))
            else {
                continue;
            };
            let pending = id.parse().ok().and_then(|id| self.pending.lock().unpoisoned().remove(&id));
            if let (Some(pending), Ok(answer)) = (pending, serde_json::from_str(answer)) {
                // A caller that was cancelled no longer receives it.
                let _ = pending.send(answer);
            }
        }
    }
}

fn read<T: for<'a> Deserialize<'a>>(answer: &RawValue) -> Result<T, String> {
    serde_json::from_str(answer.get()).map_err(|error| error.to_string())
}

/// Logs what custom tools print, for debugging.
async fn log(stderr: impl tokio::io::AsyncRead + Unpin) {
    let mut stderr = stderr;
    let mut chunk = vec![0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        let text = String::from_utf8_lossy(&chunk[..length]);
        tracing::debug!(text = text.trim_end(), "a custom tool wrote");
    }
}
