//! Lists, shows and resumes saved chats (`loaf` §11).

use std::path::Path;
use std::sync::Arc;

use gladhand_core::operations::Failure;
use serde::Serialize;

use super::answers::{Answered, json_answer, refused};
use super::{Core, new_id};
use crate::chats::{Claim, chat_of};
use crate::moment::Moment;
use crate::payloads::{ChatMessage, ChatSummary};
use crate::session::Chat;

/// The default page size.
const LIMIT: f64 = 100.0;

#[derive(Serialize)]
struct Listed<'a> {
    total: usize,
    cursor: usize,
    limit: usize,
    sessions: &'a [ChatSummary],
    next_cursor: Option<usize>,
}

#[derive(Serialize)]
struct Resumed<'a> {
    resumed: &'a str,
    /// The id of the copy that the session writes, because another session has the original open.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<&'a str>,
}

#[derive(Serialize)]
struct ChatWithMessages {
    #[serde(flatten)]
    summary: ChatSummary,
    messages: Vec<ChatMessage>,
}

impl Core {
    /// One page of the chat list.
    pub(super) fn history_list(&self, limit: Option<f64>, cursor: Option<f64>) -> Answered {
        // Any number is accepted: a cursor beyond the end returns an empty page.
        let limit = limit.filter(|limit| *limit != 0.0).unwrap_or(LIMIT).floor().max(1.0) as usize;
        let cursor = cursor.unwrap_or_default().floor().max(0.0) as usize;
        let all = self.chats.list();
        let rest = all.get(cursor..).unwrap_or_default();
        let sessions = &rest[..rest.len().min(limit)];
        let next_cursor = (sessions.len() < rest.len()).then_some(cursor + sessions.len());
        json_answer(&Listed { total: all.len(), cursor, limit, sessions, next_cursor })
    }

    /// One chat.
    pub(super) fn history_get(&self, id: Option<String>, last: bool, path: Option<String>) -> Answered {
        let (summary, messages) = match (last, path, id) {
            (true, ..) => self.newest()?,
            (false, Some(path), _) => {
                let found = self.chats.read(Path::new(&path));
                found.ok_or_else(|| refused(format!("failed to load chat: {path}")))?
            }
            (false, None, Some(id)) => self.matching(&id)?,
            (false, None, None) => return Err(refused("history.get requires one of: id, last, rollout_path")),
        };
        json_answer(&ChatWithMessages { summary, messages })
    }

    /// Continues a saved chat in a session.
    pub(super) fn resume(self: &Arc<Self>, id: &str, which: &str) -> Answered {
        let (summary, messages) = if which == "last" { self.newest()? } else { self.matching(which)? };
        let (chat, claim) = self.claim_or_copy(id, &summary);
        let (provider, copy) = (summary.provider.clone(), (chat.id != summary.id).then(|| chat.id.clone()));
        let resumed = self.step_now(id, |session, context| {
            if session.is_busy() {
                return Err(refused("session is busy; interrupt it before another chat is resumed"));
            }
            session.resume(chat, provider, messages, context);
            if copy.is_some() {
                session.note(context, "this chat is open elsewhere: it continues here as a copy");
            }
            Ok(())
        })?;
        resumed?;
        if let (Some(claim), Some(entry)) = (claim, self.shared().sessions.get_mut(id)) {
            entry.claim = Some(claim);
        }
        let routing = summary.open_router_provider.as_deref();
        let reason = self.accounts.resume(&summary.provider, &summary.model, summary.thinking_level, routing);
        self.announce_state(reason, None);
        json_answer(&Resumed { resumed: &summary.id, copy: copy.as_deref() })
    }

    /// The chat for a session that resumes: the saved one, or a copy if another session writes it.
    fn claim_or_copy(&self, id: &str, summary: &ChatSummary) -> (Chat, Option<Claim>) {
        let chat = chat_of(summary);
        let path = Path::new(&chat.path);
        let is_ours =
            self.shared().sessions.get(id).is_some_and(|entry| entry.claim.as_ref().is_some_and(|it| it.is_on(path)));
        if is_ours {
            return (chat, None);
        }
        match self.chats.claim(&chat) {
            Ok(Some(claim)) => (chat, Some(claim)),
            Ok(None) => (Chat::new(new_id(), Moment::now(), chat.title), None),
            // If no lock can be created, the chat cannot be written either. The end of the turn reports that.
            Err(_) => (chat, None),
        }
    }

    fn newest(&self) -> Result<(ChatSummary, Vec<ChatMessage>), Failure> {
        let newest = self.chats.list().into_iter().next();
        self.load(newest.ok_or_else(|| refused("no saved chat history yet"))?)
    }

    fn matching(&self, id: &str) -> Result<(ChatSummary, Vec<ChatMessage>), Failure> {
        let found = self.chats.find(id);
        self.load(found.ok_or_else(|| refused(format!("no saved chat matched id: {id}")))?)
    }

    fn load(&self, summary: ChatSummary) -> Result<(ChatSummary, Vec<ChatMessage>), Failure> {
        let path = summary.rollout_path;
        self.chats.read(Path::new(&path)).ok_or_else(|| refused(format!("failed to load chat: {path}")))
    }
}
