//! Converts a conversation into messages, and shortens it to the context of a small model.

use gladhand_models::{HistoryItem, Round, WantedCall};

use crate::engine::Vocabulary;
use crate::template::{ChatMessage, Role};

/// The tokens of a message besides its text: role and markers.
const FRAME: usize = 8;

/// A conversation in the form that chat templates accept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub(crate) system: Option<ChatMessage>,
    /// Messages of user and model in alternation. The first and the last message are the user's.
    pub(crate) said: Vec<ChatMessage>,
}

/// The user request to answer now. `None` if the last item is not a user message, for example a tool result.
pub(crate) fn request(round: &Round) -> Option<&str> {
    match round.history.last() {
        Some(HistoryItem::User { text, .. }) => Some(text),
        _ => None,
    }
}

impl Conversation {
    /// Converts the parts of a conversation that can be expressed as text.
    pub(crate) fn new(instructions: &str, said: &[HistoryItem], vocabulary: &dyn Vocabulary) -> Self {
        let plain = |text: &str| plain(text, vocabulary.controls());
        let instructions = plain(instructions.trim());
        let system = (!instructions.is_empty()).then(|| ChatMessage::new(Role::System, instructions));
        let mut conversation = Self { system, said: Vec::new() };
        for said in said {
            let (role, text) = in_words(said);
            conversation.add(role, &plain(&text));
        }
        conversation
    }

    /// Shortens the conversation to this many tokens. It first cuts the instructions to a quarter of the budget,
    /// then removes the oldest messages, and finally cuts the end of the last message. It removes more messages
    /// than necessary, so that the next rounds start with the same messages and can reuse their prefix.
    pub(crate) fn fit(&mut self, budget: usize, vocabulary: &dyn Vocabulary) {
        let cost = |message: &ChatMessage| vocabulary.tokens(&message.content).len() + FRAME;
        let mut left = budget.saturating_sub(FRAME);
        if let Some(system) = &mut self.system {
            shorten(&mut system.content, budget / 4, vocabulary);
            left = left.saturating_sub(cost(system));
        }
        let costs: Vec<usize> = self.said.iter().map(cost).collect();
        let mut total: usize = costs.iter().sum();
        if total <= left {
            return;
        }
        let mut forgotten = 0;
        while forgotten + 1 < self.said.len() && (total > left * 3 / 4 || self.said[forgotten].role != Role::User) {
            total -= costs[forgotten];
            forgotten += 1;
        }
        self.said.drain(..forgotten);
        if let Some(last) = self.said.last_mut() {
            shorten(&mut last.content, left.saturating_sub(FRAME), vocabulary);
        }
    }

    /// All messages, as input for a template.
    pub(crate) fn messages(&self) -> Vec<ChatMessage> {
        self.system.iter().chain(&self.said).cloned().collect()
    }

    /// Adds a message. Messages of the same role in sequence are merged, because templates reject them.
    fn add(&mut self, role: Role, text: &str) {
        match self.said.last_mut() {
            Some(last) if last.role == role => {
                last.content.push_str("\n\n");
                last.content.push_str(text);
            }
            // A conversation must start with a message of the user.
            None if role == Role::Assistant => {}
            _ => self.said.push(ChatMessage::new(role, text)),
        }
    }
}

/// A tool call in the form that the model must generate. History uses a different form; otherwise the model would
/// imitate calls in its answers.
pub(crate) fn call_in_words(name: &str, input: &str) -> String {
    format!("{{\"name\": \"{name}\", \"arguments\": {input}}}")
}

fn in_words(said: &HistoryItem) -> (Role, String) {
    match said {
        HistoryItem::User { text, images } if images.is_empty() => (Role::User, text.clone()),
        HistoryItem::User { text, .. } => (Role::User, format!("{text}\n(with pictures, which cannot be seen here)")),
        HistoryItem::Assistant { text, calls } => {
            let call = |call: &WantedCall| format!("Let me ask `{}`.", call.name);
            let parts = std::iter::once(text.clone()).filter(|text| !text.is_empty()).chain(calls.iter().map(call));
            (Role::Assistant, parts.collect::<Vec<_>>().join("\n"))
        }
        HistoryItem::Result { name, error: Some(error), .. } => (Role::User, format!("`{name}` failed: {error}")),
        HistoryItem::Result { name, output, error: None, .. } => {
            let text = serde_json::from_str::<String>(output.get()).unwrap_or_else(|_| output.get().to_owned());
            (Role::User, format!("Result of `{name}`:\n{text}"))
        }
    }
}

/// Breaks up the spelling of control tokens, so that text cannot end its message or start another one.
fn plain(text: &str, controls: &[String]) -> String {
    let mut plain = text.to_owned();
    for control in controls.iter().filter(|control| text.contains(control.as_str())) {
        let mut letters = control.chars();
        let broken: String = letters.next().into_iter().chain([' ']).chain(letters).collect();
        plain = plain.replace(control, &broken);
    }
    plain
}

/// Cuts the end of a text until at most this many tokens are left.
fn shorten(text: &mut String, most: usize, vocabulary: &dyn Vocabulary) {
    loop {
        let tokens = vocabulary.tokens(text).len();
        if tokens <= most {
            return;
        }
        let length = (text.len() * most / tokens).min(text.len().saturating_sub(1));
        text.truncate(text.floor_char_boundary(length));
    }
}

#[cfg(test)]
mod tests {
    use gladhand_core::wire::RawValue;

    use super::*;
    use crate::testing::{Letters, round, user};

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn conversation(said: Vec<HistoryItem>) -> Conversation {
        Conversation::new("", &said, &Letters)
    }

    fn texts(conversation: &Conversation) -> Vec<&str> {
        conversation.said.iter().map(|message| message.content.as_str()).collect()
    }

    #[test]
    fn tool_results_are_messages_with_the_role_user() {
        let call = WantedCall { call_id: "1".to_owned(), name: "add".to_owned(), input: raw(r#"{"a":1}"#), seal: None };
        let result = |output: &str, error: Option<&str>| HistoryItem::Result {
            call_id: "1".to_owned(),
            name: "add".to_owned(),
            output: raw(output),
            error: error.map(str::to_owned),
        };
        let said = vec![
            user("Add!"),
            HistoryItem::Assistant { text: "Now.".to_owned(), calls: vec![call] },
            result(r#""two""#, None),
            result("null", Some("too many")),
        ];
        assert_eq!(request(&round(said.clone())), None);
        let conversation = conversation(said);
        assert_eq!(
            texts(&conversation),
            ["Add!", "Now.\nLet me ask `add`.", "Result of `add`:\ntwo\n\n`add` failed: too many"]
        );
        assert_eq!(
            conversation.said.iter().map(|message| message.role).collect::<Vec<_>>(),
            [Role::User, Role::Assistant, Role::User]
        );
    }

    #[test]
    fn control_tokens_in_messages_are_broken_up() {
        let conversation = conversation(vec![user("a<|im_end|>b")]);
        assert_eq!(texts(&conversation), ["a< |im_end|>b"]);
    }

    #[test]
    fn the_oldest_messages_are_dropped_first() {
        let model = |text: &str| HistoryItem::Assistant { text: text.to_owned(), calls: Vec::new() };
        let said = vec![user(&"a".repeat(40)), model(&"b".repeat(40)), user(&"c".repeat(20)), model("d"), user("e")];
        let mut conversation = conversation(said);
        conversation.fit(100, &Letters);
        assert_eq!(texts(&conversation), [&"c".repeat(20), "d", "e"]);
    }

    #[test]
    fn one_message_that_is_too_long_loses_its_end() {
        let mut conversation = conversation(vec![user(&"ä".repeat(500))]);
        conversation.fit(100, &Letters);
        let length = texts(&conversation)[0].len();
        assert!((60..=84).contains(&length), "{length}");
    }

    #[test]
    fn long_instructions_leave_room_for_the_conversation() {
        let mut conversation = Conversation::new(&"x".repeat(10_000), &[user("Hello")], &Letters);
        conversation.fit(100, &Letters);
        assert_eq!(conversation.system.as_ref().map(|system| system.content.len()), Some(25));
        assert_eq!(texts(&conversation), ["Hello"]);
    }
}
