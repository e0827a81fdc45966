//! Calls on behalf of a caller: the parts of our requests that describe the caller.
//!
//! With a handshake, all calls of a session use our own identity and one agreement. Without one, every request declares
//! the capabilities of its caller, so one connection to the upstream serves all callers.

use std::sync::Arc;

use gladhand_core::negotiation::{Agreement, Capability, Peer, Side};
use gladhand_core::operations::Level;
use gladhand_core::wire::{Members, RawValue, json};

use super::McpClient;
use super::work::{OutgoingRequest, Params, Work};
use crate::mcp::capabilities;
use crate::mcp::meta;
use crate::mcp::revision::Revision;
use crate::side::{self, Heard, TASKS_EXTENSION, is_passed_on};

/// Maximum number of remembered callers. Many callers share one connection.
const MAX_CALLER_ENVELOPES: usize = 64;

/// Maximum total size of remembered callers in bytes.
const MAX_CALLER_ENVELOPE_BYTES: usize = 1024 * 1024;

/// A caller on whose behalf calls are made.
#[derive(Debug)]
pub(super) struct CallerEnvelope {
    agreement: Arc<Agreement>,
    log_level: Option<Level>,
    envelope: String,
}

impl CallerEnvelope {
    /// The members of `_meta` in every request for this caller, without the braces.
    pub(super) fn envelope(&self) -> &str {
        &self.envelope
    }

    fn bytes(&self) -> usize {
        self.agreement.client_weight() + self.envelope.len()
    }
}

impl McpClient {
    /// The caller of an agreement. `None` if requests of this revision do not describe their caller.
    pub(super) fn on_behalf(
        &mut self,
        agreement: &Arc<Agreement>,
        log_level: Option<Level>,
    ) -> Option<Arc<CallerEnvelope>> {
        if !self.revision.is_stateless() {
            return None;
        }
        let is_same =
            |known: &Arc<CallerEnvelope>| Arc::ptr_eq(&known.agreement, agreement) && known.log_level == log_level;
        if let Some(known) = self.caller_envelopes.iter().find(|known| is_same(known)) {
            return Some(Arc::clone(known));
        }
        // We declare our own capabilities for every caller. The capabilities for questions are the caller's own, and so
        // is the tasks extension if the caller could declare it.
        let has_tasks = !agreement.per_request || agreement.allows(Side::Client, TASKS_EXTENSION);
        let is_ours =
            |capability: &Capability| !is_passed_on(capability) && (has_tasks || capability.0 != TASKS_EXTENSION);
        let ours = self.offer.provides.iter().filter(|(capability, _)| is_ours(capability));
        let ours = ours.map(|(capability, settings)| (capability.clone(), settings.clone()));
        // This revision has no roots notification: servers request the roots each time.
        let theirs =
            side::passed_on(agreement).filter_map(|(capability, settings)| match capability.0.split_once('.') {
                Some(("roots", _)) => None,
                None if capability.0 == "roots" => Some((capability, None)),
                _ => Some((capability, settings)),
            });
        let declaration = capabilities::declaration(&ours.chain(theirs).collect());
        let peer = if agreement.client.name.is_empty() { &self.offer.peer } else { &agreement.client };
        // A client with a session that has set no level gets the default log lines of its server.
        let unnamed = (!agreement.per_request && agreement.allows(Side::Server, "logging")).then_some(Level::Info);
        let envelope = envelope(self.revision, peer, &declaration, log_level.or(unnamed));
        let behalf = Arc::new(CallerEnvelope { agreement: Arc::clone(agreement), log_level, envelope });
        self.caller_envelopes.push_back(Arc::clone(&behalf));
        let mut bytes: usize = self.caller_envelopes.iter().map(|known| known.bytes()).sum();
        while self.caller_envelopes.len() > MAX_CALLER_ENVELOPES || bytes > MAX_CALLER_ENVELOPE_BYTES {
            let Some(oldest) = self.caller_envelopes.pop_front() else { break };
            bytes -= oldest.bytes();
        }
        Some(behalf)
    }

    /// Sends a call, after raising the log level of the session if the caller wants more log lines. The level is common
    /// to all calls: the upstream sends the lines of the most verbose caller, and the level of each caller is applied
    /// elsewhere. Over HTTP, the call waits for the response to the level, because a later request may arrive earlier.
    pub(super) fn send_at_level(&mut self, work: Box<Work>, wanted: Option<Level>, heard: &mut Heard) {
        let is_new = wanted.is_some_and(|wanted| self.log_level.is_none_or(|level| wanted < level));
        if !is_new || self.revision.is_stateless() || !self.may_send("logging/setLevel") {
            return self.send(work, heard);
        }
        self.log_level = wanted;
        if self.exchanges {
            let level = self.level_params();
            self.send_other("logging/setLevel", &level, OutgoingRequest::Level(work), heard);
        } else {
            self.set_level(heard);
            self.send(work, heard);
        }
    }

    /// Whether a question of this kind may be asked during a call.
    pub(super) fn may_be_asked(&self, work: Option<&Work>, capability: &str) -> bool {
        match work.and_then(|work| work.behalf.as_ref()) {
            Some(behalf) => behalf.agreement.allows(Side::Client, capability),
            None => self.is_agreed(Side::Client, capability),
        }
    }
}

/// The members of `_meta` in every request, without the braces. Empty with a handshake.
pub(super) fn envelope(revision: Revision, peer: &Peer, declaration: &str, log_level: Option<Level>) -> String {
    if !revision.is_stateless() {
        return String::new();
    }
    let mut envelope = format!(
        r#""{}":"{}","{}":{},"{}":{}"#,
        meta::PROTOCOL_VERSION,
        revision.as_str(),
        meta::CLIENT_INFO,
        client_info(peer),
        meta::CLIENT_CAPABILITIES,
        declaration,
    );
    if let Some(level) = log_level {
        envelope.push_str(&format!(r#","{}":"{}""#, meta::LOG_LEVEL, level.word()));
    }
    envelope
}

/// The caller's metadata without the members that concern only us, as members without the braces.
pub(super) fn passed_on(sent: &RawValue) -> String {
    let mut members = Params::default();
    for (name, value) in Members::of(sent).unwrap_or_default().iter() {
        if name != meta::PROGRESS_TOKEN && !meta::is_reserved(name) {
            members.raw(name, value);
        }
    }
    members.0
}

/// The description of a client in MCP's form, which requires a name and a version. Clients of other dialects may have
/// neither.
pub(super) fn client_info(peer: &Peer) -> String {
    if peer.description().is_none() && (peer.name.is_empty() || peer.version.is_empty()) {
        return serde_json::json!({"name": peer.name, "version": peer.version}).to_string();
    }
    json::to_raw(peer).get().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_caller_declarations_are_bounded_in_bytes() {
        use crate::mcp::capabilities::{InForce, STATELESS_RULES, declared};
        use gladhand_core::negotiation::Offer;
        let version = Revision::STATELESS[0].as_str();
        let mut client = McpClient::new(crate::testing::client_setup(version));
        let text = format!(r#"{{"experimental":{{"a":{{"b":"{}"}}}}}}"#, "x".repeat(30_000));
        let mut remembered = |declaration: &str| {
            let provides = declared(Side::Client, &Members::parse(declaration).unwrap()).unwrap();
            let caller = Offer { provides, ..Offer::new(Peer::new("c", "1"), [version]) };
            let server = Offer::new(Peer::new("s", "1"), [version]);
            let agreement = InForce::between(&STATELESS_RULES, &caller, &server).unwrap().agreement;
            let behalf = client.on_behalf(&agreement, None).unwrap();
            assert!(behalf.envelope().contains("experimental"));
            (client.caller_envelopes.len(), client.caller_envelopes.iter().map(|known| known.bytes()).sum::<usize>())
        };
        for _ in 0..100 {
            let (count, bytes) = remembered(&text);
            assert!(count > 0 && bytes <= MAX_CALLER_ENVELOPE_BYTES, "{count} {bytes}");
        }
        let small = (0..100).map(|_| remembered(r#"{"experimental":{"a":{}}}"#)).last();
        assert!(small.is_some_and(|(count, _)| count == MAX_CALLER_ENVELOPES), "{small:?}");
    }

    #[test]
    fn a_client_without_a_version_is_described_with_an_empty_one() {
        assert_eq!(client_info(&Peer::new("c", "")), r#"{"name":"c","version":""}"#);
        assert_eq!(client_info(&Peer::new("c", "1")), r#"{"name":"c","version":"1"}"#);
    }
}
