//! A socket in the file system on which a running process reports its status. `gladhand ps` finds all sockets of a user.
//! A second one is for programs that follow the messages of the process, as `gladhand tap` does.
//!
//! The sockets are in a folder that depends on the user alone, so processes with different data folders find each other.
//! The folder has mode 0700, and a folder of another user is never used. A process that was killed leaves its socket
//! behind; the next status request finds that no process listens there, and removes it.

use std::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gladhand_core::Order as _;
use gladhand_hub::{Hub, HubStatus, SessionStatus};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::AbortHandle;

/// The extension of a socket that reports the status.
const STATUS: &str = "sock";

/// The extension of a socket that shows messages.
const MESSAGES: &str = "tap";

/// The longest status that is read.
const LARGEST: u64 = 16 * 1024 * 1024;

/// How long a process may take to report its status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// The status of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Its command, as in `serve`.
    pub command: String,
    /// Its data folder.
    #[serde(default)]
    pub data_dir: Option<String>,
    /// Where it listens; nothing for one that serves its stdin.
    pub listening: Vec<String>,
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// A change of its configuration that waits.
    #[serde(default)]
    pub waiting: Option<WaitingChange>,
    /// Its sessions with downstreams.
    #[serde(default)]
    pub sessions: Vec<SessionStatus>,
    /// The status of its hub.
    pub hub: HubStatus,
}

/// A change of the configuration that waits until the user confirms it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingChange {
    /// The file that changed.
    pub file: String,
    /// The command that applies the change; none if only a restart does.
    pub command: Option<String>,
}

impl WaitingChange {
    /// What applies the change, in words.
    pub fn remedy(&self) -> String {
        match &self.command {
            Some(command) => format!("`{command}` or a restart"),
            None => "a restart (a tool could also have written the records of trust)".to_owned(),
        }
    }
}

/// The change that waits now. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ChangeStatus(Arc<Mutex<Option<WaitingChange>>>);

impl ChangeStatus {
    /// Reports this change from now on, or none.
    pub fn set(&self, waiting: Option<WaitingChange>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = waiting;
    }

    fn get(&self) -> Option<WaitingChange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How a process introduces itself in its status.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// Its command, as in `serve`.
    pub command: String,
    /// Its data folder.
    pub data_dir: Option<PathBuf>,
    /// The change of its configuration that waits, if one does.
    pub change: ChangeStatus,
}

/// Shows the messages of this process to programs of the same user.
pub trait Followers: Send + Sync + fmt::Debug {
    /// A program connected. Must not block.
    fn connected(&self, stream: std::os::unix::net::UnixStream);
}

/// The sockets, as long as this is kept.
#[derive(Debug)]
pub struct Control {
    sockets: Vec<(PathBuf, AbortHandle)>,
}

impl Control {
    /// Reports the status to every process of this user that connects, and shows messages to followers. Needs a runtime.
    pub fn open(
        hub: Hub,
        shown_as: &Introduction,
        listening: Vec<String>,
        followers: Option<Arc<dyn Followers>>,
    ) -> io::Result<Self> {
        let (path, listener) = bind(STATUS)?;
        let answering = report_status(listener, hub, shown_as.clone(), listening);
        let mut sockets = vec![(path, tokio::spawn(answering).abort_handle())];
        if let Some(followers) = followers {
            match bind(MESSAGES) {
                Ok((path, listener)) => {
                    sockets.push((path, tokio::spawn(accept_followers(listener, followers)).abort_handle()));
                }
                Err(error) => tracing::debug!(%error, "no program can follow the messages of this process"),
            }
        }
        Ok(Self { sockets })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        for (path, task) in &self.sockets {
            task.abort();
            let _ = std::fs::remove_file(path);
        }
    }
}

async fn report_status(listener: UnixListener, hub: Hub, shown_as: Introduction, listening: Vec<String>) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let Introduction { command, data_dir, change } = shown_as;
    let data_dir = data_dir.map(|folder| named(&folder));
    loop {
        let mut stream = accept(&listener).await;
        let status = ProcessStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.clone(),
            data_dir: data_dir.clone(),
            listening: listening.clone(),
            since,
            waiting: change.get(),
            sessions: hub.sessions(),
            hub: hub.status(),
        };
        let text = serde_json::to_vec(&status).unwrap_or_default();
        // A reader that is too slow gets half a status, which it does not take for one.
        let _ = tokio::time::timeout(STATUS_TIMEOUT, stream.write_all(&text)).await;
    }
}

async fn accept_followers(listener: UnixListener, followers: Arc<dyn Followers>) {
    loop {
        match accept(&listener).await.into_std() {
            Ok(stream) => followers.connected(stream),
            Err(error) => tracing::debug!(%error, "a program cannot follow the messages"),
        }
    }
}

async fn accept(listener: &UnixListener) -> UnixStream {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            return stream;
        }
        // There may be no file descriptor left; later there is one again.
        tokio::time::sleep(STATUS_TIMEOUT).await;
    }
}

/// The status of every process of this user.
pub async fn everybody() -> Vec<ProcessStatus> {
    let folders = folders().into_iter().filter(|folder| is_private(folder));
    let entries = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flat_map(Iterator::flatten);
    let sockets = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == STATUS));
    let asked = futures_util::future::join_all(sockets.map(status));
    let mut all: Vec<_> = asked.await.into_iter().flatten().collect();
    all.order_by_key(|status| (status.since, status.pid));
    all
}

/// The status of every process of this user that has the same data folder.
pub async fn neighbours(data_dir: Option<&Path>) -> Vec<ProcessStatus> {
    let data_dir = data_dir.map(named);
    everybody().await.into_iter().filter(|process| process.data_dir == data_dir).collect()
}

/// The status of the process at a socket. The socket of a process that is gone is removed.
async fn status(path: PathBuf) -> Option<ProcessStatus> {
    match tokio::time::timeout(STATUS_TIMEOUT, ask(&path)).await {
        Ok(Ok(status)) => return Some(status),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(path.with_extension(MESSAGES));
            let _ = std::fs::remove_file(path);
        }
        Ok(Err(error)) => tracing::debug!(%error, path = %path.display(), "no status"),
        Err(_) => tracing::warn!(path = %path.display(), "a process did not report its status in time"),
    }
    None
}

async fn ask(path: &Path) -> io::Result<ProcessStatus> {
    let mut text = Vec::new();
    UnixStream::connect(path).await?.take(LARGEST).read_to_end(&mut text).await?;
    Ok(serde_json::from_slice(&text)?)
}

/// Connects to the socket on which a process of this user shows its messages.
///
/// # Errors
///
/// If there is no such socket, for example because the process ended or has an older version.
pub async fn follow(pid: u32) -> io::Result<UnixStream> {
    let mut failure = io::ErrorKind::NotFound.into();
    for folder in folders().into_iter().filter(|folder| is_private(folder)) {
        match UnixStream::connect(folder.join(format!("{pid}.{MESSAGES}"))).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn named(folder: &Path) -> String {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).to_string_lossy().into_owned()
}

/// Listens in the first folder that allows it.
fn bind(extension: &str) -> io::Result<(PathBuf, UnixListener)> {
    let mut failure = io::Error::other("there is no folder for its socket");
    for folder in folders() {
        match bind_in(&folder, extension) {
            Ok(bound) => return Ok(bound),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn bind_in(folder: &Path, extension: &str) -> io::Result<(PathBuf, UnixListener)> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if !is_private(folder) {
        return Err(io::Error::other(format!("{} is not private to this user", folder.display())));
    }
    let pid = std::process::id();
    let (early, path) = (folder.join(format!("{pid}.new")), folder.join(format!("{pid}.{extension}")));
    // A process that is gone may have had the same id.
    let _ = std::fs::remove_file(&early);
    let listener = UnixListener::bind(&early)?;
    std::fs::set_permissions(&early, std::fs::Permissions::from_mode(0o600))?;
    // Under its name only once it listens: a socket that refuses connections is taken for a leftover.
    std::fs::rename(&early, &path)?;
    Ok((path, listener))
}

/// Whether a folder belongs to this user and is closed to all others.
fn is_private(folder: &Path) -> bool {
    let is_private = |found: std::fs::Metadata| found.is_dir() && is_own(&found) && found.mode() & 0o077 == 0;
    std::fs::symlink_metadata(folder).is_ok_and(is_private)
}

fn is_own(found: &std::fs::Metadata) -> bool {
    found.uid() == rustix::process::getuid().as_raw()
}

/// Where sockets are: in the runtime folder of the user if there is one, else in the user's own data folder. Neither
/// depends on the data folder of a process. A process that was started without `XDG_RUNTIME_DIR` uses the folder that
/// login sessions have.
fn folders() -> Vec<PathBuf> {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let Some(home) = std::env::home_dir().filter(|home| !home.as_os_str().is_empty()) else { return Vec::new() };
    let data = named("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"));
    let login = || PathBuf::from(format!("/run/user/{}", rustix::process::getuid().as_raw()));
    let runtime = named("XDG_RUNTIME_DIR").unwrap_or_else(login);
    let is_usable = std::fs::metadata(&runtime).is_ok_and(|found| is_own(&found));
    let runtime = is_usable.then_some(runtime);
    runtime.into_iter().chain([data]).map(|base| base.join("gladhand/run")).collect()
}
