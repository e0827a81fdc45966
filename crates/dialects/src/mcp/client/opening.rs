//! The client's opening: the first request, and the evaluation of the answer.
//!
//! We accept or refuse the server's version; nothing is retried silently, and a refusal names the versions of both
//! sides. A success alone does not prove a stateless server, because old servers answer any request. The result must
//! have the right form.

use gladhand_core::negotiation::Refusal;
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{Id, Members, rpc, values};

use super::behalf::client_info;
use super::{Answer, McpClient, Phase};
use crate::mcp::capabilities::{HANDSHAKE_RULES, InForce, STATELESS_RULES};
use crate::mcp::errors::UNSUPPORTED_VERSION;
use crate::mcp::meta::SERVER_INFO;
use crate::mcp::revision::{Revision, names};
use crate::side::Heard;
use gladhand_core::wire::pick;

impl McpClient {
    pub(super) fn begin_opening(&mut self, heard: &mut Heard) {
        if self.revision.has_initialize() {
            let id = self.initialize(heard);
            self.phase = Phase::ExpectInitializeResult { id };
        } else {
            let id = self.discover(heard);
            self.phase = Phase::ExpectDiscoverResult { id, again: false };
        }
    }

    /// Sends `server/discover` and returns its id.
    fn discover(&mut self, heard: &mut Heard) -> u64 {
        let id = self.take_id();
        let params = format!(r#"{{"_meta":{{{}}}}}"#, self.envelope);
        rpc::request(&mut heard.wire, &Id::number(id), "server/discover", Some(&json::raw(params)));
        id
    }

    /// Sends `initialize` and returns its id.
    pub(super) fn initialize(&mut self, heard: &mut Heard) -> u64 {
        let id = self.take_id();
        let params = format!(
            r#"{{"protocolVersion":"{}","capabilities":{},"clientInfo":{}}}"#,
            self.revision.as_str(),
            self.declaration,
            client_info(&self.offer.peer),
        );
        rpc::request(&mut heard.wire, &Id::number(id), "initialize", Some(&json::raw(params)));
        id
    }

    pub(super) fn initialize_answered(&mut self, answer: Answer<'_>, heard: &mut Heard) {
        let settled = match answer {
            Err(error) => Err(self.opening_error(error)),
            Ok(result) => self.initialize_result(result),
        };
        match settled {
            Ok(in_force) => {
                rpc::notification::<()>(&mut heard.wire, "notifications/initialized", None);
                self.opened(in_force, heard);
            }
            Err(refusal) => self.refused(refusal, heard),
        }
    }

    fn initialize_result(&self, result: Option<&RawValue>) -> Result<InForce, Refusal> {
        let members = ["protocolVersion", "capabilities", "serverInfo", "instructions"];
        let picked = result.and_then(|result| pick(result, members));
        let [version, declared, info, instructions] =
            picked.ok_or_else(|| misbehaved("the result of `initialize` is not an object"))?;
        let version = version.and_then(json::string);
        let version = version.ok_or_else(|| misbehaved("the result of `initialize` names no `protocolVersion`"))?;
        if Revision::named(&version).is_none_or(|revision| !revision.has_initialize()) {
            return Err(self.mismatch([version.as_ref()]));
        }
        let declared = declared.ok_or_else(|| misbehaved("the result of `initialize` has no `capabilities`"))?;
        self.compare(&HANDSHAKE_RULES, &version, declared, info, instructions)
    }

    pub(super) fn discover_answered(&mut self, answer: Answer<'_>, again: bool, heard: &mut Heard) {
        if let (Err(error), false) = (answer, again)
            && self.is_refused_and_supported(error)
        {
            let id = self.discover(heard);
            self.phase = Phase::ExpectDiscoverResult { id, again: true };
            return;
        }
        let settled = match answer {
            Err(error) => Err(self.opening_error(error)),
            Ok(result) => self.discover_result(result),
        };
        match settled {
            Ok(in_force) => self.opened(in_force, heard),
            Err(refusal) => self.refused(refusal, heard),
        }
    }

    fn discover_result(&self, result: Option<&RawValue>) -> Result<InForce, Refusal> {
        let members = ["resultType", "supportedVersions", "capabilities", "_meta", "instructions"];
        let picked = result.and_then(|result| pick(result, members));
        let [kind, versions, declared, meta, instructions] =
            picked.ok_or_else(|| misbehaved("the result of `server/discover` is not an object"))?;
        if kind.and_then(json::string).as_deref() != Some("complete") {
            return Err(misbehaved("the result of `server/discover` has no `resultType` \"complete\""));
        }
        let versions = versions.and_then(strings);
        let versions =
            versions.ok_or_else(|| misbehaved("the result of `server/discover` has no `supportedVersions`"))?;
        // Some servers also list handshake versions. Only the version of our opening counts.
        if !versions.iter().any(|version| *version == self.revision.as_str()) {
            return Err(self.mismatch(versions.iter().map(String::as_str)));
        }
        let declared = declared.ok_or_else(|| misbehaved("the result of `server/discover` has no `capabilities`"))?;
        let info = meta.and_then(|meta| pick(meta, [SERVER_INFO])).and_then(|[info]| info);
        self.compare(&STATELESS_RULES, self.revision.as_str(), declared, info, instructions)
    }

    /// Whether the server refuses our version and lists it as supported at the same time.
    fn is_refused_and_supported(&self, error: &RawValue) -> bool {
        let is_ours = |versions: Vec<String>| versions.iter().any(|version| *version == self.revision.as_str());
        refused_versions(error).is_some_and(is_ours)
    }

    /// The refusal for an error response to the opening.
    fn opening_error(&self, error: &RawValue) -> Refusal {
        let [code, message] = pick(error, ["code", "message"]).unwrap_or_default();
        let code = code.map_or_else(|| "none".to_owned(), |code| code.get().to_owned());
        if let Some(supported) = refused_versions(error) {
            if !supported.iter().any(|version| *version == self.revision.as_str()) {
                return self.mismatch(supported.iter().map(String::as_str));
            }
            return misbehaved("the server refuses the version that it says it supports");
        }
        let message = message.and_then(json::string).unwrap_or_default();
        Refusal::PeerRefused { code, message: message.into_owned() }
    }

    fn mismatch<'a>(&self, theirs: impl IntoIterator<Item = &'a str>) -> Refusal {
        Refusal::VersionMismatch {
            asked: names([self.revision]).map(str::to_owned).to_vec(),
            spoken: theirs.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// The versions that a server lists when it refuses ours. `None` for any other error.
fn refused_versions(error: &RawValue) -> Option<Vec<String>> {
    let [code, data] = pick(error, ["code", "data"])?;
    if code?.get().parse() != Ok(UNSUPPORTED_VERSION) {
        return None;
    }
    let supported = data.and_then(Members::of).and_then(|data| data.raw("supported")).and_then(strings);
    Some(supported.unwrap_or_default())
}

fn misbehaved(problem: &str) -> Refusal {
    Refusal::PeerMisbehaved { problem: problem.to_owned() }
}

/// The strings of an array. `None` if the value is not an array.
fn strings(raw: &RawValue) -> Option<Vec<String>> {
    if Kind::of(raw) != Kind::Array {
        return None;
    }
    let parts = values::items(raw.get()).ok()?;
    Some(parts.into_iter().filter_map(json::string).map(Into::into).collect())
}
