//! Decides which dropped or refused messages violate a rule, and which are harmless.
//!
//! Messages can cross on the wire: a cancellation can arrive after the response, and a response after the cancellation.
//! That violates nothing. The messages in the table below do violate a rule. The first column is the name of the rule,
//! which is stable.

/// A rule that a peer violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleViolation {
    /// The name of the rule.
    pub rule: &'static str,
    /// Description of the peer's message.
    pub description: &'static str,
}

/// A client's request that the gate refuses because of the agreement.
pub(crate) const REQUEST_NOT_AGREED: &str = "a request that was not agreed";

/// A server's question that the gate refuses because of the agreement.
pub(crate) const QUESTION_NOT_AGREED: &str = "a question that was not agreed";

/// A server's notification that the gate refuses because of the agreement.
pub(crate) const NOTIFICATION_NOT_AGREED: &str = "a notification that was not agreed";

/// The rule that each line is a message.
const READABLE_LINES: &str = "readable_lines";

/// Rules, and the messages that violate them.
const RULES: &[(&str, &[&str])] = &[
    (
        READABLE_LINES,
        &[
            "a line that cannot be read",
            "a line that is not a JSON object",
            "a line that is not a JSON-RPC message",
            "a line that is not a message",
            "a notification without a name",
            "a cancellation that names no request",
            "neither an answer nor an event",
        ],
    ),
    (
        "opening_first",
        &[
            "a notification before a session was open",
            "a notification before the session was open",
            "a message before the answer to the handshake",
            "an unexpected `initialized`",
        ],
    ),
    (
        "only_what_was_agreed",
        &[
            REQUEST_NOT_AGREED,
            QUESTION_NOT_AGREED,
            NOTIFICATION_NOT_AGREED,
            "a batch that was not agreed",
            "a request that a server must not send",
            "a client's notification",
        ],
    ),
];

/// Dropped messages that violate no rule.
#[cfg(test)]
const HARMLESS: &[&str] = &[
    "a cancellation of a request that is not in flight",
    "a cancellation of an unknown request",
    "a line after the end",
    "a line after the end of the session",
    "a message without a pending request",
    "a notification without a recipient",
    "a response to a request that was never sent",
    "an acknowledgement without a pending subscription",
    "an answer without a pending request",
    "a response without a pending request",
    "an event of a kind that is not passed on",
    "an event without a pending request",
];

impl RuleViolation {
    /// Whether the line is no message at all.
    pub fn is_unreadable(&self) -> bool {
        self.rule == READABLE_LINES
    }

    /// The rule that a message violated. `description` comes from an [`Action`](crate::Action) or
    /// [`Event`](crate::Event) that reports the message as dropped, or as passed without agreement.
    pub fn of(description: &'static str) -> Option<Self> {
        let violated = RULES.iter().find(|(_, violating)| violating.contains(&description));
        violated.map(|(rule, _)| Self { rule, description })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Collects the descriptions of dropped messages from the sources of this crate.
    fn dropped(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                dropped(&entry.path(), found);
            } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                let descriptions = text.split("Dropped(\"").skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(descriptions.map(ToOwned::to_owned));
            }
        }
    }

    #[test]
    fn every_dropped_message_is_classified() {
        let mut found = BTreeSet::new();
        dropped(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        found.extend([REQUEST_NOT_AGREED, QUESTION_NOT_AGREED, NOTIFICATION_NOT_AGREED].map(ToOwned::to_owned));
        let violating = RULES.iter().flat_map(|(_, violating)| violating.iter());
        let known: BTreeSet<_> = violating.chain(HARMLESS).map(|description| (*description).to_owned()).collect();
        assert_eq!(found, known);
        assert!(HARMLESS.iter().all(|description| RuleViolation::of(description).is_none()));
    }
}
