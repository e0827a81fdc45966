//! A socket in the file system on which a running process says how it stands. For `gladhand ps`.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etcetera::BaseStrategy;
use gladhand_hub::{Hub, HubStatus};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::AbortHandle;

/// The longest answer that is read.
const LARGEST: u64 = 16 * 1024 * 1024;

/// How long a process may take to say how it stands.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a process stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// What it was started to do, as in `serve`.
    pub command: String,
    /// Where it listens; nothing for one that serves its stdin.
    pub listening: Vec<String>,
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// How its hub stands.
    pub hub: HubStatus,
}

/// The socket, as long as this is kept.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    task: AbortHandle,
}

impl Control {
    /// Answers whoever may open the socket: nobody but this user. Needs a runtime.
    pub fn open(hub: Hub, command: &str, listening: Vec<String>) -> io::Result<Self> {
        let pid = std::process::id();
        let folder = folder().ok_or_else(|| io::Error::other("there is no folder for it"))?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = folder.join(format!("{pid}.sock"));
        // One of that name is of a process that is gone: the number is ours now.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let command = command.to_owned();
        let answering = async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let (command, listening, hub) = (command.clone(), listening.clone(), hub.status());
                let status = ProcessStatus { pid, version, command, listening, since, hub };
                let text = serde_json::to_vec(&status).unwrap_or_default();
                // Who does not read in time does not want to know.
                let _ = tokio::time::timeout(PATIENCE, stream.write_all(&text)).await;
            }
        };
        Ok(Self { path, task: tokio::spawn(answering).abort_handle() })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// How all processes of this user stand. Sockets of processes that are gone are removed.
pub async fn everybody() -> Vec<ProcessStatus> {
    let Some(entries) = folder().and_then(|folder| std::fs::read_dir(folder).ok()) else { return Vec::new() };
    let mut all = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "sock")) {
        match tokio::time::timeout(PATIENCE, ask(&entry.path())).await {
            Ok(Ok(status)) => all.push(status),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(entry.path());
            }
            Ok(Err(error)) => tracing::debug!(%error, path = %entry.path().display(), "no answer"),
            Err(_) => tracing::warn!(path = %entry.path().display(), "no answer in time"),
        }
    }
    all.sort_by_key(|status| (status.since, status.pid));
    all
}

async fn ask(path: &Path) -> io::Result<ProcessStatus> {
    let mut text = Vec::new();
    UnixStream::connect(path).await?.take(LARGEST).read_to_end(&mut text).await?;
    Ok(serde_json::from_slice(&text)?)
}

/// Where the sockets are: a folder that goes with the user's login where there is one.
fn folder() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(crate::config::env::DATA_DIR) {
        return Some(PathBuf::from(named).join("run"));
    }
    let dirs = etcetera::choose_base_strategy().ok()?;
    Some(dirs.runtime_dir().unwrap_or_else(|| dirs.data_dir()).join("gladhand/run"))
}
