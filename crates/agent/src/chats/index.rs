//! Lists chats without reading every file each time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use gladhand_core::Order as _;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_store::files;
use serde::{Deserialize, Serialize};

use super::read;
use crate::payloads::ChatSummary;

/// The depth of the folder tree: year, month and day.
const DEPTH: usize = 3;

/// A cache of chat summaries, stored in a file of its own. It can be deleted at any time.
#[derive(Debug)]
pub(crate) struct Index {
    sessions: PathBuf,
    file: PathBuf,
    known: Mutex<Option<HashMap<PathBuf, IndexedFile>>>,
}

/// The summary of a file, and the state of the file that it belongs to. `summary` is `None` for a file that is not
/// a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct IndexedFile {
    modified: SystemTime,
    size: u64,
    summary: Option<ChatSummary>,
}

impl Index {
    pub(super) fn new(data: &Path) -> Self {
        Self { sessions: data.join("sessions"), file: data.join("sessions-index.json"), known: Mutex::new(None) }
    }

    /// All chats, the newest first.
    pub(super) fn list(&self) -> Vec<ChatSummary> {
        let mut known = self.known.lock().unpoisoned();
        let before = known.take().unwrap_or_else(|| self.load());
        let mut now = HashMap::new();
        let mut changed = false;
        for (path, modified, size) in files(&self.sessions) {
            let entry = match before.get(&path) {
                Some(entry) if entry.modified == modified && entry.size == size => entry.clone(),
                _ => {
                    changed = true;
                    IndexedFile { modified, size, summary: read(&path).map(|(summary, _)| summary) }
                }
            };
            now.insert(path, entry);
        }
        if changed || now.len() != before.len() {
            self.store(&now);
        }
        let mut chats: Vec<_> = now.values().filter_map(|entry| entry.summary.clone()).collect();
        chats.order_by(|one, other| (&other.updated_at, &other.id).cmp(&(&one.updated_at, &one.id)));
        *known = Some(now);
        chats
    }

    fn load(&self) -> HashMap<PathBuf, IndexedFile> {
        let text = gladhand_store::read_state(&self.file).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn store(&self, known: &HashMap<PathBuf, IndexedFile>) {
        let stored = serde_json::to_vec(known)
            .map_err(Into::into)
            .and_then(|text| files::replace_private_synced(&self.file, &text));
        if let Err(error) = stored {
            tracing::debug!(%error, "could not write the chat index");
        }
    }
}

/// The chat files in a folder tree, with modification time and size.
fn files(sessions: &Path) -> Vec<(PathBuf, SystemTime, u64)> {
    let mut found = Vec::new();
    let mut folders = vec![(sessions.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEPTH {
                folders.push((path, depth + 1));
            } else if kind.is_file() && is_chat(&name.to_string_lossy()) {
                let Ok(data) = entry.metadata() else { continue };
                found.push((path, data.modified().unwrap_or(SystemTime::UNIX_EPOCH), data.len()));
            }
        }
    }
    found
}

fn is_chat(name: &str) -> bool {
    name.starts_with("rollout-") && name.ends_with(".jsonl") && !name.ends_with(".compact.events.jsonl")
}
