//! Calls on behalf of somebody: what our requests say of whoever wants to know.
//!
//! With a handshake all calls of a session are made in our own name, under what was agreed once. Without one every
//! request declares what its caller can be asked, so that one way to the upstream serves callers of all kinds.

use std::sync::Arc;

use gladhand_core::negotiation::{Agreement, Capability, Peer, Side};
use gladhand_core::operations::Level;
use gladhand_core::wire::{Members, RawValue, json};

use super::McpClient;
use super::work::{Params, Sent, Work};
use crate::mcp::capabilities;
use crate::mcp::meta;
use crate::mcp::revision::Revision;
use crate::side::{self, Heard, TASKS_EXTENSION, is_passed_on};

/// How many of those are remembered on whose behalf calls were made: many callers share one way.
const MOST_REMEMBERED: usize = 64;

/// How many bytes of them.
const MOST_BYTES: usize = 1024 * 1024;

/// Somebody on whose behalf calls are made.
#[derive(Debug)]
pub(super) struct Behalf {
    agreement: Arc<Agreement>,
    log_level: Option<Level>,
    envelope: String,
}

impl Behalf {
    /// What every request for it carries in `_meta`, without the braces.
    pub(super) fn envelope(&self) -> &str {
        &self.envelope
    }

    fn bytes(&self) -> usize {
        self.agreement.client_weight() + self.envelope.len()
    }
}

impl McpClient {
    /// Somebody with whom this was agreed; `None` where requests do not say for whom they are made.
    pub(super) fn on_behalf(&mut self, agreement: &Arc<Agreement>, log_level: Option<Level>) -> Option<Arc<Behalf>> {
        if !self.revision.is_stateless() {
            return None;
        }
        let is_same = |known: &Arc<Behalf>| Arc::ptr_eq(&known.agreement, agreement) && known.log_level == log_level;
        if let Some(known) = self.behalves.iter().find(|known| is_same(known)) {
            return Some(Arc::clone(known));
        }
        // What we do ourselves we do for every caller; what it can be asked is the caller's own, and so is whether there may
        // be tasks, where it could say so.
        let has_tasks = !agreement.per_request || agreement.allows(Side::Client, TASKS_EXTENSION);
        let is_ours =
            |capability: &Capability| !is_passed_on(capability) && (has_tasks || capability.0 != TASKS_EXTENSION);
        let ours = self.offer.provides.iter().filter(|(capability, _)| is_ours(capability));
        let ours = ours.map(|(capability, settings)| (capability.clone(), settings.clone()));
        // Nobody tells of changes here: roots are asked for each time.
        let theirs =
            side::passed_on(agreement).filter_map(|(capability, settings)| match capability.0.split_once('.') {
                Some(("roots", _)) => None,
                None if capability.0 == "roots" => Some((capability, None)),
                _ => Some((capability, settings)),
            });
        let declaration = capabilities::declaration(&ours.chain(theirs).collect());
        let peer = if agreement.client.name.is_empty() { &self.offer.peer } else { &agreement.client };
        // A client with a session that has named no level gets what its server sends unasked.
        let unnamed = (!agreement.per_request && agreement.allows(Side::Server, "logging")).then_some(Level::Info);
        let envelope = envelope(self.revision, peer, &declaration, log_level.or(unnamed));
        let behalf = Arc::new(Behalf { agreement: Arc::clone(agreement), log_level, envelope });
        self.behalves.push_back(Arc::clone(&behalf));
        let mut bytes: usize = self.behalves.iter().map(|known| known.bytes()).sum();
        while self.behalves.len() > MOST_REMEMBERED || bytes > MOST_BYTES {
            let Some(oldest) = self.behalves.pop_front() else { break };
            bytes -= oldest.bytes();
        }
        Some(behalf)
    }

    /// Sends a call behind the level from which its caller wants log lines, where that is said once for all calls: the
    /// lines of all callers come at the level of who wants most, and each caller's own level is kept elsewhere. Over
    /// HTTP the call waits for the answer, for what is sent after it may arrive before it.
    pub(super) fn send_at_level(&mut self, work: Box<Work>, wanted: Option<Level>, heard: &mut Heard) {
        let is_new = wanted.is_some_and(|wanted| self.log_level.is_none_or(|level| wanted < level));
        if !is_new || self.revision.is_stateless() || !self.may_send("logging/setLevel") {
            return self.send(work, heard);
        }
        self.log_level = wanted;
        if self.exchanges {
            let level = self.level_params();
            self.send_other("logging/setLevel", &level, Sent::Level(work), heard);
        } else {
            self.set_level(heard);
            self.send(work, heard);
        }
    }

    /// Whether somebody can be asked in the middle of a call.
    pub(super) fn may_be_asked(&self, work: Option<&Work>, capability: &str) -> bool {
        match work.and_then(|work| work.behalf.as_ref()) {
            Some(behalf) => behalf.agreement.allows(Side::Client, capability),
            None => self.is_agreed(Side::Client, capability),
        }
    }
}

/// What every request carries in `_meta`, without the braces; empty with a handshake.
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

/// What a caller sent along, without what was meant for us, as members without the braces.
pub(super) fn passed_on(sent: &RawValue) -> String {
    let mut members = Params::default();
    for (name, value) in Members::of(sent).unwrap_or_default().iter() {
        if name != meta::PROGRESS_TOKEN && !meta::is_reserved(name) {
            members.raw(name, value);
        }
    }
    members.0
}

/// A client as MCP describes it: with a name and a version, which clients of other dialects may not have.
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
    fn what_is_remembered_of_callers_has_a_bound_of_bytes() {
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
            (client.behalves.len(), client.behalves.iter().map(|known| known.bytes()).sum::<usize>())
        };
        for _ in 0..100 {
            let (count, bytes) = remembered(&text);
            assert!(count > 0 && bytes <= MOST_BYTES, "{count} {bytes}");
        }
        let small = (0..100).map(|_| remembered(r#"{"experimental":{"a":{}}}"#)).last();
        assert!(small.is_some_and(|(count, _)| count == MOST_REMEMBERED), "{small:?}");
    }

    #[test]
    fn a_client_without_a_version_is_described_with_an_empty_one() {
        assert_eq!(client_info(&Peer::new("c", "")), r#"{"name":"c","version":""}"#);
        assert_eq!(client_info(&Peer::new("c", "1")), r#"{"name":"c","version":"1"}"#);
    }
}
