//! Checks the order of messages in a sampling request: the results of tools must directly follow their use.

use std::collections::BTreeMap;

use gladhand_core::wire::json::{Kind, RawValue};
use gladhand_core::wire::{Members, values};

/// The first problem in the `messages` of `sampling/createMessage`. `None` if they are valid.
///
/// A message in which the model uses tools must be followed by a message with exactly one result for each use and
/// nothing else. Results are not allowed elsewhere.
pub(super) fn disorder(params: &Members<'_>) -> Option<&'static str> {
    let messages = params.raw("messages").filter(|raw| Kind::of(raw) == Kind::Array)?;
    let messages = values::items(messages.get()).ok()?;
    let mut awaited = Tally::new();
    for message in messages {
        let message = Members::of(message).unwrap_or_default();
        let blocks = blocks(&message);
        let is_by = |role: &str| message.str("role").as_deref() == Some(role);
        let results = tally(&blocks, "tool_result", "toolUseId");
        if !results.is_empty() && results.values().sum::<usize>() != blocks.len() {
            return Some("a message with a `tool_result` holds something else too");
        }
        if !awaited.is_empty() && results.is_empty() {
            return Some("a `tool_use` is not answered in the next message");
        }
        if results != awaited {
            return Some("the `tool_result`s are not those of the message before them");
        }
        awaited = tally(&blocks, "tool_use", "id");
        if !results.is_empty() && !is_by("user") || !awaited.is_empty() && !is_by("assistant") {
            return Some("a `tool_use` is the assistant's, and a `tool_result` the user's");
        }
    }
    (!awaited.is_empty()).then_some("a `tool_use` is not answered in the next message")
}

/// The number of occurrences of each id. Blocks without an id are counted under `None`.
type Tally = BTreeMap<Option<String>, usize>;

fn tally(blocks: &[Members<'_>], kind: &str, id: &str) -> Tally {
    let mut tally = Tally::new();
    for block in blocks.iter().filter(|block| block.str("type").as_deref() == Some(kind)) {
        *tally.entry(block.str(id).map(Into::into)).or_default() += 1;
    }
    tally
}

/// The blocks of a message. Its content is one block, or a list of blocks.
fn blocks<'a>(message: &Members<'a>) -> Vec<Members<'a>> {
    let Some(content) = message.raw("content") else { return Vec::new() };
    let blocks = match Kind::of(content) {
        Kind::Array => values::items(content.get()).unwrap_or_default(),
        _ => vec![content],
    };
    blocks.into_iter().map(|block: &RawValue| Members::of(block).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_core::wire::json;

    fn disorder_of(messages: &[(&str, &[&str])]) -> Option<&'static str> {
        let block = |block: &&str| match block.split_once(' ') {
            Some(("use", id)) => serde_json::json!({"type": "tool_use", "id": id, "name": "t", "input": {}}),
            Some(("result", id)) => serde_json::json!({"type": "tool_result", "toolUseId": id, "content": []}),
            _ => serde_json::json!({"type": "text", "text": block}),
        };
        let message = |(role, blocks): &(&str, &[&str])| {
            let blocks: Vec<_> = blocks.iter().map(block).collect();
            let content = if let [only] = &blocks[..] { only.clone() } else { blocks.into() };
            serde_json::json!({"role": role, "content": content})
        };
        let messages: Vec<_> = messages.iter().map(message).collect();
        let params = json::to_raw(&serde_json::json!({"messages": messages, "maxTokens": 1}));
        disorder(&Members::of(&params).unwrap())
    }

    #[test]
    fn tool_results_must_directly_follow_their_use() {
        let (user, model) = ("user", "assistant");
        let good: [&[(&str, &[&str])]; 5] = [
            &[],
            &[(user, &["hi"]), (user, &["there", "you"]), (model, &["yes"])],
            &[(user, &["hi"]), (model, &["let me see", "use a"]), (user, &["result a"]), (model, &["so"])],
            &[(model, &["use a", "use b"]), (user, &["result b", "result a"])],
            &[(model, &["use a"]), (user, &["result a"]), (model, &["use a"]), (user, &["result a"])],
        ];
        for messages in good {
            assert_eq!(disorder_of(messages), None, "{messages:?}");
        }
        let bad: [&[(&str, &[&str])]; 12] = [
            &[(user, &["result a"])],
            &[(model, &["use a"])],
            &[(model, &["use a"]), (user, &["never mind"])],
            &[(model, &["use a"]), (user, &["result a", "by the way"])],
            &[(model, &["use a"]), (user, &["result b"])],
            &[(model, &["use a", "use b"]), (user, &["result a"])],
            &[(model, &["use a"]), (user, &["result a", "result a"])],
            &[(model, &["use a"]), (user, &["result a", "result b"])],
            &[(model, &["use a"]), (user, &["wait"]), (user, &["result a"])],
            &[(user, &["use a"]), (user, &["result a"])],
            &[(model, &["use a"]), (model, &["result a"])],
            &[(model, &["use a"]), (user, &[])],
        ];
        for messages in bad {
            assert!(disorder_of(messages).is_some(), "{messages:?}");
        }
    }
}
