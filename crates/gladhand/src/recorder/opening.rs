//! Finds the opening of a session in lines that pass between other processes.

use gladhand_core::negotiation::Peer;
use gladhand_core::wire::{FrameKind, Members};
use gladhand_dialects::{Dialect, FirstLine};
use gladhand_recording::{EntryKind, PeerName};

/// The opening of a session, as far as it has passed. It counts as open with the first result of the server.
#[derive(Debug, Default)]
pub(crate) struct ObservedOpening {
    client: Peer,
    /// The version that the client asked for.
    version: Option<String>,
    is_open: bool,
}

impl ObservedOpening {
    /// The client sent a line.
    pub(crate) fn sent(&mut self, dialect: &Dialect, text: &str) {
        if self.is_open || !self.client.name.is_empty() {
            return;
        }
        let line = FirstLine { text, members: Members::parse(text).ok() };
        let offer = (dialect.offer)(&line);
        self.version = offer.versions.into_iter().next().or_else(|| self.version.take());
        self.client = offer.peer;
        if self.client.name.is_empty()
            && let Some(agent) = line.members.as_ref().and_then(|members| members.str("agent_id"))
        {
            self.client = Peer::new(agent, "");
        }
    }

    /// The server answered. Returns the entry if that opens the session.
    pub(crate) fn answered(&mut self, dialect: &Dialect, kind: FrameKind, text: &str) -> Option<EntryKind> {
        if self.is_open || !matches!(kind, FrameKind::Result) {
            return None;
        }
        self.is_open = true;
        let members = Members::parse(text).ok();
        let result = members.as_ref().and_then(|members| members.object("result"));
        let in_force = result.as_ref().and_then(|result| result.str("protocolVersion"));
        let only = || (dialect.versions.len() == 1).then(|| dialect.versions[0].to_owned());
        let version = in_force.map(|version| Peer::new("", version).version);
        let version = version.or_else(|| self.version.take()).or_else(only).unwrap_or_default();
        let peer =
            PeerName { name: self.client.name.clone(), version: self.client.version.clone(), ..PeerName::default() };
        Some(EntryKind::Opened { dialect: dialect.name.to_owned(), version, peer })
    }
}

#[cfg(test)]
mod tests {
    use gladhand_dialects::{REGISTRY, dialect_of_line};

    use super::*;

    fn opened(sent: &str, answer: &str) -> Option<(String, String, String)> {
        let dialect = dialect_of_line(REGISTRY, sent.as_bytes()).expect("a known dialect");
        let mut opening = ObservedOpening::default();
        opening.sent(dialect, sent);
        let kind = (dialect.describe)(answer).expect("a message").kind;
        match opening.answered(dialect, kind, answer)? {
            EntryKind::Opened { dialect, version, peer } => {
                assert!(opening.answered(REGISTRY[0], kind, answer).is_none(), "it opens once");
                Some((dialect, version, peer.name))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_opening_is_found_in_each_dialect() {
        let names =
            |dialect: &str, version: &str, name: &str| Some((dialect.to_owned(), version.to_owned(), name.to_owned()));
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"zed","version":"2"}}}"#;
        let result = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#;
        assert_eq!(opened(initialize, result), names("mcp", "2025-06-18", "zed"));
        let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;
        assert_eq!(opened(initialize, refused), None);
        let stateless = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"new","version":"3"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let tools = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;
        assert_eq!(opened(stateless, tools), names("mcp", "2026-07-28", "new"));
    }
}
