//! Requests to capabilities other than tools: memory, processes, environments and the like.
//!
//! The message type is known here. The message itself is carried raw, because only the provider reads it.

use std::borrow::Cow;

use crate::wire::{Id, RawValue, values};
use serde::de::DeserializeOwned;

use crate::operations::failure::{Failure, FailureKind};

/// A request to a capability.
#[derive(Debug, Clone)]
pub struct CapabilityCall<'a> {
    /// The message type: `memory/store/req`.
    pub kind: &'static str,
    /// The capability that the message belongs to: `memory`.
    pub capability: &'static str,
    /// The caller's id for the request. The events of the request repeat it.
    pub request: Option<Id>,
    /// The message: a raw JSON object whose members have been checked for their types. The envelope's members are
    /// included and can be ignored.
    pub message: Cow<'a, RawValue>,
}

impl CapabilityCall<'_> {
    /// Deserializes the message into a type of the capability.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        values::read(self.message.get()).map_err(|error| Failure::refused(format!("{}: {error}", self.kind)))
    }

    /// An event of this request: its message type and its own members.
    pub fn event(&self, kind: &'static str, fields: Box<RawValue>) -> CapabilityEvent {
        CapabilityEvent { kind, request: self.request.clone(), fields }
    }

    /// The same call without borrowed data.
    pub fn into_owned(self) -> CapabilityCall<'static> {
        CapabilityCall { message: Cow::Owned(self.message.into_owned()), ..self }
    }
}

/// An event of a capability, for a request or on its own.
#[derive(Debug, Clone)]
pub struct CapabilityEvent {
    /// The message type: `proc/read/event`.
    pub kind: &'static str,
    /// The caller's id for the request that the event belongs to. `None`: the event belongs to no request.
    pub request: Option<Id>,
    /// The event's own members: a raw JSON object, without the envelope and `req_id`.
    pub fields: Box<RawValue>,
}

impl Failure {
    /// A failure with an error code of the capability: `memory_not_found`.
    pub fn of_capability(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(FailureKind::Capability(code), message)
    }

    /// A request that the capability always refuses, and that has no error code of its own.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::of_capability("runtime_error", message).lasting()
    }

    /// No provider here serves this capability.
    pub fn no_capability(capability: &str) -> Self {
        Self::new(FailureKind::Unsupported, format!("not supported by this server: it has no {capability}"))
    }
}
