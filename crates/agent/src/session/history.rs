//! The messages of a conversation that a model receives, and their estimated token count.

use gladhand_models::HistoryItem;

use crate::payloads::{Breakdown, ChatMessage, Role};
use crate::text;

/// The tokens of each message besides its text.
const MESSAGE: u64 = 20;
/// The tokens of each image.
const IMAGE: u64 = 850;

/// The messages of a conversation, with their token count.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    messages: Vec<ChatMessage>,
    tokens: u64,
}

impl History {
    /// A history with these messages.
    pub(super) fn of(messages: Vec<ChatMessage>) -> Self {
        let tokens = messages.iter().map(cost).sum();
        Self { messages, tokens }
    }

    /// Adds a message, unless it is empty.
    pub(super) fn push(&mut self, message: ChatMessage) {
        if !message.text.is_empty() || !message.images.is_empty() {
            self.tokens += cost(&message);
            self.messages.push(message);
        }
    }

    pub(super) fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The history as input for a model.
    pub(super) fn items(&self) -> Vec<HistoryItem> {
        self.messages.iter().map(item).collect()
    }
}

/// A message as input for a model.
pub(super) fn item(message: &ChatMessage) -> HistoryItem {
    match message.role {
        Role::User => HistoryItem::User {
            text: message.text.clone(),
            images: message.images.iter().map(|image| image.data_url.clone()).collect(),
        },
        Role::Assistant => HistoryItem::Assistant { text: message.text.clone(), calls: Vec::new() },
    }
}

fn cost(message: &ChatMessage) -> u64 {
    text_tokens(&message.text) + IMAGE * message.images.len() as u64
}

/// The token count of a text as a message of its own.
pub(crate) fn text_tokens(text: &str) -> u64 {
    MESSAGE + (text::length(&text::collapse(text)) as u64).div_ceil(4)
}

/// The parts of every request that count for token estimates.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestSizes {
    /// The provider of the next request, if known.
    pub(crate) provider: Option<String>,
    /// The token count of the instructions.
    pub(crate) pinned: u64,
    /// The tools.
    pub(crate) tools: ToolTotals,
}

/// The size of the tool descriptions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ToolTotals {
    /// The number of tools.
    pub(crate) count: u64,
    /// The total length of names, descriptions and schemas, in UTF-16 units.
    pub(crate) units: u64,
}

impl RequestSizes {
    /// The estimated token count of the next request, with this many conversation tokens.
    pub(super) fn breakdown(&self, conversation_tokens: u64) -> Breakdown {
        let (tool_schema_tokens, provider_overhead_tokens) = match self.provider.as_deref() {
            None => (0, 0),
            Some("antigravity") => (self.tools.tokens(24, 24), 58),
            Some("openai") => (self.tools.tokens(18, 16), 42),
            Some(_) => (self.tools.tokens(18, 16), 48),
        };
        let pinned_tokens = self.pinned;
        Breakdown { pinned_tokens, conversation_tokens, tool_schema_tokens, provider_overhead_tokens }
    }
}

impl ToolTotals {
    fn tokens(self, each: u64, all: u64) -> u64 {
        self.units.div_ceil(4) + self.count * each + all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payloads::Image;

    fn message(role: Role, text: &str) -> ChatMessage {
        ChatMessage { role, text: text.to_owned(), images: Vec::new() }
    }

    #[test]
    fn estimates_are_those_of_the_recordings() {
        let mut history = History::of(vec![message(Role::User, "hi"), message(Role::Assistant, "Hello there.")]);
        assert_eq!(history.tokens(), 44);
        history.push(message(Role::User, "again"));
        history.push(message(Role::Assistant, "Second answer."));
        assert_eq!(history.tokens(), 90);
        let image = Image { path: String::new(), mime_type: String::new(), data_url: String::new(), byte_size: 70 };
        let mut asked = message(Role::User, "other chat [Image 1]");
        asked.images.push(image);
        assert_eq!(History::of(vec![asked, message(Role::Assistant, "answer three")]).tokens(), 898);
    }

    #[test]
    fn without_a_provider_only_the_text_counts() {
        let tools = ToolTotals { count: 2, units: 9 };
        let request_sizes =
            |provider: Option<&str>| RequestSizes { provider: provider.map(Into::into), pinned: 7, tools };
        assert_eq!(request_sizes(None).breakdown(5).total(), 12);
        assert_eq!(request_sizes(Some("openrouter")).breakdown(0).total(), 7 + 3 + 36 + 16 + 48);
        assert_eq!(request_sizes(Some("antigravity")).breakdown(0).total(), 7 + 3 + 48 + 24 + 58);
    }
}
