//! Chats on disk: one readable file per chat, always rewritten as a whole, and a journal next to it (`loaf` §18.3).
//!
//! Two processes can use the same data directory. Files are replaced atomically by renaming. Memory holds nothing
//! that becomes wrong when another process changes a file.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json;
use gladhand_models::Thinking;
use gladhand_store::files;
use serde::{Deserialize, Serialize};

use crate::payloads::{ChatMessage, ChatSummary, Image, Role};
use crate::session::{Chat, ChatFile, Entry};
use crate::text;

mod claim;
mod index;

pub(crate) use claim::Claim;
pub(crate) use index::Index;

/// The chats of a data directory.
#[derive(Debug)]
pub(crate) struct Chats {
    data: PathBuf,
    index: Index,
    /// The size and the number of lines of each journal after the last write.
    journals: Mutex<HashMap<PathBuf, (u64, u64)>>,
}

/// The first line of a chat file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    r#type: String,
    id: String,
    title: String,
    provider: String,
    model: String,
    thinking_level: Thinking,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open_router_provider: Option<String>,
    created_at: String,
    updated_at: String,
    message_count: usize,
}

/// Each further line.
#[derive(Debug, Serialize, Deserialize)]
struct StoredMessage {
    r#type: String,
    #[serde(default)]
    index: usize,
    role: Role,
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<Image>,
}

impl Chats {
    /// The chats in this data directory.
    pub(crate) fn new(data: impl Into<PathBuf>) -> Self {
        let data = data.into();
        Self { index: Index::new(&data), data, journals: Mutex::default() }
    }

    /// Writes a chat atomically and flushes it to disk.
    pub(crate) fn save(&self, file: &ChatFile) -> io::Result<()> {
        files::replace_private_synced(&self.path(&file.chat), lines_of(file).as_bytes())
    }

    /// Writes a chat atomically without flushing: it survives the end of this process, but perhaps not a crash of
    /// the machine.
    pub(crate) fn keep(&self, file: &ChatFile) -> io::Result<()> {
        files::replace_private(&self.path(&file.chat), lines_of(file).as_bytes())
    }

    /// Locks a chat for writing. Returns `None` if another session holds it, in this or another process.
    pub(crate) fn claim(&self, chat: &Chat) -> io::Result<Option<Claim>> {
        Claim::on(&self.path(chat))
    }

    /// The path of a chat.
    fn path(&self, chat: &Chat) -> PathBuf {
        self.data.join(&chat.path)
    }

    /// Appends a line to the journal of a chat.
    pub(crate) fn journal(&self, chat: &Chat, entry: &Entry) -> io::Result<()> {
        let path = self.path(chat).with_extension("compact.events.jsonl");
        make_folder_of(&path)?;
        let mut file = private().read(true).append(true).open(&path)?;
        let length = file.metadata()?.len();
        let mut journals = self.journals.lock().unpoisoned();
        // The index of an entry is its line number. If another process has written too, the lines are counted
        // again.
        let index = match journals.get(&path) {
            Some((known, lines)) if *known == length => *lines,
            _ => io::BufReader::new(&mut file).split(b'\n').count() as u64,
        };
        let line = entry.line(index) + "\n";
        file.write_all(line.as_bytes())?;
        journals.insert(path, (length + line.len() as u64, index + 1));
        Ok(())
    }

    /// Whether a chat can be written now.
    pub(crate) fn is_writable(&self) -> io::Result<()> {
        gladhand_store::make_folder(&self.data.join("sessions"))
    }

    /// All chats, the newest first.
    pub(crate) fn list(&self) -> Vec<ChatSummary> {
        self.index.list()
    }

    /// The chat with this id. A prefix is enough if it is unique.
    pub(crate) fn find(&self, id: &str) -> Option<ChatSummary> {
        let id = id.to_lowercase();
        let all = self.list();
        if let Some(exact) = all.iter().find(|chat| chat.id.to_lowercase() == id) {
            return Some(exact.clone());
        }
        let mut matching = all.into_iter().filter(|chat| chat.id.to_lowercase().starts_with(&id));
        matching.next().filter(|_| matching.next().is_none())
    }

    /// The content of a chat. `None` if the file does not exist or is not a chat.
    pub(crate) fn read(&self, path: &Path) -> Option<(ChatSummary, Vec<ChatMessage>)> {
        read(path)
    }
}

/// The chat of a summary, for a session that resumes it.
pub(crate) fn chat_of(summary: &ChatSummary) -> Chat {
    let ChatSummary { id, created_at, rollout_path, title, .. } = summary.clone();
    Chat { id, created_at, path: rollout_path, title }
}

fn lines_of(file: &ChatFile) -> String {
    let trimmed = file.messages.iter().filter_map(|message| {
        let text = text::trim(&message.text).to_owned();
        let images = if message.role == Role::User { message.images.clone() } else { Vec::new() };
        (!text.is_empty() || !images.is_empty()).then_some((message.role, text, images))
    });
    let messages: Vec<_> = trimmed
        .enumerate()
        .map(|(index, (role, text, images))| StoredMessage { r#type: "message".to_owned(), index, role, text, images })
        .collect();
    let ChatFile { chat, target, updated_at, .. } = file;
    let meta = Meta {
        r#type: "session_meta".to_owned(),
        id: chat.id.clone(),
        title: chat.title.clone(),
        provider: target.provider.clone(),
        model: target.model.clone(),
        thinking_level: target.thinking,
        open_router_provider: (target.provider == "openrouter").then(|| target.routing.clone()),
        created_at: chat.created_at.clone(),
        updated_at: updated_at.clone(),
        message_count: messages.len(),
    };
    let mut lines = json::to_raw(&meta).get().to_owned();
    for message in &messages {
        lines.push('\n');
        lines.push_str(json::to_raw(message).get());
    }
    lines.push('\n');
    lines
}

/// Reads a chat file. Invalid and unknown lines are skipped, and the last `session_meta` counts.
fn read(path: &Path) -> Option<(ChatSummary, Vec<ChatMessage>)> {
    let mut bytes = Vec::new();
    gladhand_store::open_regular(path).ok()?.read_to_end(&mut bytes).ok()?;
    let (mut meta, mut messages) = (None, Vec::new());
    for line in String::from_utf8_lossy(&bytes).lines() {
        if let Some(found) = meta_of(line) {
            meta = Some(found);
        } else if let Ok(message) = serde_json::from_str::<StoredMessage>(line)
            && message.r#type == "message"
        {
            messages.push(ChatMessage { role: message.role, text: message.text, images: message.images });
        }
    }
    let summary = summary(meta?, path);
    Some((summary, messages))
}

fn meta_of(line: &str) -> Option<Meta> {
    let meta: Meta = serde_json::from_str(line).ok()?;
    let is_whole = !meta.id.is_empty() && !meta.title.is_empty() && !meta.provider.is_empty() && !meta.model.is_empty();
    (meta.r#type == "session_meta" && is_whole).then_some(meta)
}

fn summary(meta: Meta, path: &Path) -> ChatSummary {
    ChatSummary {
        id: meta.id,
        title: meta.title,
        provider: meta.provider,
        model: meta.model,
        thinking_level: meta.thinking_level,
        open_router_provider: meta.open_router_provider,
        created_at: meta.created_at,
        updated_at: meta.updated_at,
        message_count: meta.message_count,
        rollout_path: path.display().to_string(),
    }
}

/// Options for files that are private to their owner, because conversations are confidential.
fn private() -> fs_err::OpenOptions {
    let mut options = fs_err::OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn make_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), gladhand_store::make_folder)
}

#[cfg(test)]
mod tests;
