//! The members of `_meta` that this side reads.

use gladhand_core::operations::Level;
use gladhand_core::wire::json::{self, Kind};
use gladhand_core::wire::{Id, RawValue};

use gladhand_core::wire::pick;

pub(super) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub(super) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(super) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub(super) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
pub(super) const PROGRESS_TOKEN: &str = "progressToken";

/// The raw members of a request's `_meta`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meta<'a> {
    pub(super) version: Option<&'a RawValue>,
    pub(super) capabilities: Option<&'a RawValue>,
    pub(super) client_info: Option<&'a RawValue>,
    pub(super) log_level: Option<&'a RawValue>,
    pub(super) progress_token: Option<&'a RawValue>,
}

impl<'a> Meta<'a> {
    /// Parses `_meta`. `None` if it is not an object.
    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        let names = [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN];
        let [version, capabilities, client_info, log_level, progress_token] = pick(raw, names)?;
        // Other kinds of tokens cannot be echoed, and a very long token is not kept.
        let is_token = |token: &&RawValue| matches!(Kind::of(token), Kind::String | Kind::Number);
        let progress_token = progress_token.filter(|token| is_token(token) && Id::is_keepable(token));
        Some(Self { version, capabilities, client_info, log_level, progress_token })
    }

    /// Whether the request carries its own opening, complete or not. A log level alone is no opening: servers of the
    /// handshake era ignore it.
    pub(super) fn is_stateless(&self) -> bool {
        self.version.is_some() || self.capabilities.is_some() || self.client_info.is_some()
    }
}

/// Whether a member belongs to the protocol itself, and therefore to a single hop.
pub(super) fn is_reserved(name: &str) -> bool {
    name.starts_with("io.modelcontextprotocol/")
}

/// The level of a raw string.
pub(super) fn level(raw: &RawValue) -> Option<Level> {
    json::string(raw).and_then(|word| Level::from_word(&word))
}
