//! Requests that carry their own opening (2026-07-28): version and capabilities in `_meta`.
//!
//! Each request is evaluated independently. Peers repeat the same `_meta`, so the latest ones are cached with their
//! agreements. The same text gives the same result, so it is not negotiated again.

use std::sync::Arc;

use gladhand_core::negotiation::{Offer, Refusal, Side};
use gladhand_core::operations::Level;
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{Members, rpc};

use super::capabilities::{self, InForce, STATELESS_RULES, offer_of_menu};
use super::errors;
use super::meta::{self, Meta};
use super::revision::{Revision, names};
use super::server::{McpServer, Phase, Request};
use crate::ambient::Ambient;
use crate::side::{Action, Output, ServerSetup};

/// Maximum size of a `_meta` that is cached as a whole, in bytes.
const MAX_CACHED_META_BYTES: usize = 4096;

/// Maximum number of cached openings. Over HTTP, many clients share one server side.
const MAX_CACHED: usize = 16;

/// Maximum total size of cached openings in bytes. A larger opening is not cached.
const MAX_CACHED_BYTES: usize = 256 * 1024;

/// The openings of the latest requests.
#[derive(Debug, Default)]
pub(super) struct Stateless {
    /// Most recently used first.
    known: Vec<CachedOpening>,
}

#[derive(Debug)]
struct CachedOpening {
    /// The whole `_meta`, if no member belongs to a single request.
    meta: Option<Box<str>>,
    version: Box<str>,
    capabilities: Box<str>,
    client_info: Option<Box<str>>,
    log_level: Option<Level>,
    in_force: Arc<InForce>,
}

impl Stateless {
    /// Whether exactly this `_meta` is cached, so that it need not be parsed.
    pub(super) fn contains(&self, meta: &RawValue) -> bool {
        self.known.iter().any(|known| known.is(meta))
    }

    /// The same, for a `_meta` with this version.
    pub(super) fn knows(&self, meta: &RawValue, version: &str) -> bool {
        let is_quoted = |raw: &str| raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) == Some(version);
        self.known.iter().any(|known| known.is(meta) && is_quoted(&known.version))
    }

    /// Whether any request was accepted so far.
    fn has_agreed(&self) -> bool {
        !self.known.is_empty()
    }

    /// Finds a cached opening and moves it to the front.
    fn find_cached(&mut self, is_it: impl Fn(&CachedOpening) -> bool) -> Option<&mut CachedOpening> {
        let at = self.known.iter().position(is_it)?;
        self.known[..=at].rotate_right(1);
        self.known.first_mut()
    }

    /// The agreement for a request, and whether it is new.
    fn evaluate(
        &mut self,
        raw: &RawValue,
        meta: &Meta<'_>,
        setup: &ServerSetup,
    ) -> Result<Evaluated, rpc::Error<'static>> {
        if let Some(known) = self.find_cached(|known| known.is(raw)) {
            return Ok(Evaluated { in_force: Arc::clone(&known.in_force), log_level: known.log_level, is_new: false });
        }
        let (version, declared) = required(meta)?;
        let log_level = log_level(meta)?;
        let is_worth_keeping = meta.progress_token.is_none() && raw.get().len() <= MAX_CACHED_META_BYTES;
        let whole = || is_worth_keeping.then(|| Box::from(raw.get()));
        let is_equal = |known: &CachedOpening| {
            *known.version == *version.get()
                && *known.capabilities == *declared.get()
                && known.client_info.as_deref() == meta.client_info.map(RawValue::get)
        };
        if let Some(known) = self.find_cached(is_equal) {
            if let Some(meta) = whole() {
                (known.meta, known.log_level) = (Some(meta), log_level);
            }
            return Ok(Evaluated { in_force: Arc::clone(&known.in_force), log_level, is_new: false });
        }
        let in_force = Arc::new(negotiate(version, declared, meta.client_info, setup)?);
        let known = CachedOpening {
            meta: whole(),
            version: version.get().into(),
            capabilities: declared.get().into(),
            client_info: meta.client_info.map(|info| info.get().into()),
            log_level,
            in_force: Arc::clone(&in_force),
        };
        if known.bytes() <= MAX_CACHED_BYTES {
            self.known.insert(0, known);
            self.known.truncate(MAX_CACHED);
        }
        while self.known.iter().map(CachedOpening::bytes).sum::<usize>() > MAX_CACHED_BYTES {
            self.known.pop();
        }
        Ok(Evaluated { in_force, log_level, is_new: true })
    }
}

impl CachedOpening {
    fn is(&self, meta: &RawValue) -> bool {
        self.meta.as_deref() == Some(meta.get())
    }

    fn bytes(&self) -> usize {
        let optional = [&self.meta, &self.client_info].into_iter().flatten().map(|text| text.len()).sum::<usize>();
        self.version.len() + self.capabilities.len() + optional
    }
}

struct Evaluated {
    in_force: Arc<InForce>,
    log_level: Option<Level>,
    is_new: bool,
}

/// The two keys that every request must have.
pub(super) fn required<'a>(meta: &Meta<'a>) -> Result<(&'a RawValue, &'a RawValue), rpc::Error<'static>> {
    let version = meta.version.filter(|raw| Kind::of(raw) == Kind::String);
    let version = version.ok_or_else(|| errors::bad_meta(meta::PROTOCOL_VERSION, "a version as a string"))?;
    if Revision::STATELESS.iter().all(|revision| json::string(version).as_deref() != Some(revision.as_str())) {
        let requested = json::string(version).unwrap_or_else(|| version.get().into());
        return Err(errors::unsupported_version(&requested));
    }
    let declared = meta.capabilities.filter(|raw| Kind::of(raw) == Kind::Object);
    let declared = declared.ok_or_else(|| errors::bad_meta(meta::CLIENT_CAPABILITIES, "an object, `{}` for none"))?;
    if meta.client_info.is_some_and(|info| Kind::of(info) != Kind::Object) {
        return Err(errors::bad_meta(meta::CLIENT_INFO, "an object, or leave it out"));
    }
    Ok((version, declared))
}

/// The minimum level of log messages for the request.
pub(super) fn log_level(meta: &Meta<'_>) -> Result<Option<Level>, rpc::Error<'static>> {
    let Some(raw) = meta.log_level else { return Ok(None) };
    let level = meta::level(raw);
    level.map(Some).ok_or_else(|| errors::invalid_params(format!("`{}` is not a log level", meta::LOG_LEVEL)))
}

fn negotiate(
    version: &RawValue,
    declared: &RawValue,
    client_info: Option<&RawValue>,
    setup: &ServerSetup,
) -> Result<InForce, rpc::Error<'static>> {
    let too_many = |_| errors::bad_meta(meta::CLIENT_CAPABILITIES, "at most 256 capabilities and 65536 bytes");
    let members = Members::of(declared).unwrap_or_default();
    let provides = capabilities::declared(Side::Client, &members).map_err(too_many)?;
    let peer = capabilities::peer(client_info, capabilities::CLIENT_DESCRIPTION);
    let client = Offer { provides, ..Offer::new(peer, json::string(version)) };
    let server = offer_of_menu(&setup.identity, &setup.menu, Revision::STATELESS);
    InForce::between(&STATELESS_RULES, &client, &server)
        .map(|in_force| in_force.with_switches_of(&setup.menu))
        .map_err(|refusal| errors::invalid_params(refusal.to_string()))
}

impl McpServer {
    /// Handles a request that carries its own opening.
    pub(super) fn stateless_request<'a>(
        &mut self,
        request: Request<'_, 'a>,
        raw: &'a RawValue,
        meta: Meta<'a>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'a>,
    ) {
        if request.to.route.batch.is_some() {
            let error = errors::invalid_request("a request that carries its own opening cannot be part of a batch");
            return self.refuse(&request.to, &error, out);
        }
        match self.stateless.evaluate(raw, &meta, &self.setup) {
            Ok(evaluated) => {
                if evaluated.is_new {
                    out.actions.push(Action::Opened(Arc::clone(&evaluated.in_force.agreement)));
                }
                self.serve(request, meta.progress_token, evaluated.log_level, &evaluated.in_force, ambient, out);
            }
            Err(error) => {
                let nothing_is_open = matches!(self.phase, Phase::ExpectInitialize) && !self.stateless.has_agreed();
                if error.code == errors::UNSUPPORTED_VERSION && nothing_is_open {
                    let asked = meta.version.and_then(json::string).map(Into::into).into_iter().collect();
                    let spoken = names(Revision::STATELESS).map(str::to_owned).to_vec();
                    out.actions.push(Action::Refused(Refusal::VersionMismatch { asked, spoken }));
                }
                self.refuse(&request.to, &error, out);
            }
        }
    }
}
