//! Requests to capabilities that are more than tools: memory, processes, environments and the like.
//!
//! They are carried in the words of their own: which message it is is known, what is in it concerns only whoever answers.

use std::borrow::Cow;

use crate::wire::{Id, RawValue};
use serde::de::DeserializeOwned;

use crate::operations::failure::{Failure, FailureKind};

/// A request to a capability.
#[derive(Debug, Clone)]
pub struct CapabilityCall<'a> {
    /// Which message it is: `memory/store/req`.
    pub kind: &'static str,
    /// The capability that it belongs to: `memory`.
    pub capability: &'static str,
    /// What the caller calls it; the events that belong to it repeat that.
    pub request: Option<Id>,
    /// The message: a raw JSON object whose members have the types that they are to have. Those of the envelope are in it
    /// too, and of no concern.
    pub message: Cow<'a, RawValue>,
}

impl CapabilityCall<'_> {
    /// The message, read into a type of the capability's own.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(self.message.get()).map_err(|error| {
            let problem = error.to_string();
            // Where in the line it is says nothing to whoever wrote the message.
            let problem = problem.rsplit_once(" at line ").map_or(problem.as_str(), |(problem, _)| problem);
            Failure::refused(format!("{}: {problem}", self.kind))
        })
    }

    /// An event that belongs to it: which message that is, and its own members.
    pub fn event(&self, kind: &'static str, fields: Box<RawValue>) -> CapabilityEvent {
        CapabilityEvent { kind, request: self.request.clone(), fields }
    }

    /// The same call, free of the line it was read from.
    pub fn into_owned(self) -> CapabilityCall<'static> {
        CapabilityCall { message: Cow::Owned(self.message.into_owned()), ..self }
    }
}

/// Something that a capability tells, while it works on a request or on its own.
#[derive(Debug, Clone)]
pub struct CapabilityEvent {
    /// Which message it is: `proc/read/event`.
    pub kind: &'static str,
    /// The request that it belongs to, in its caller's words; none: a push.
    pub request: Option<Id>,
    /// Its own members: a raw JSON object, without the envelope and `req_id`.
    pub fields: Box<RawValue>,
}

impl Failure {
    /// A failure that a capability has a word of its own for: `memory_not_found`.
    pub fn of_capability(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(FailureKind::Capability(code), message)
    }

    /// A request that a capability will refuse whenever it is asked, and has no word of its own for.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::of_capability("runtime_error", message).lasting()
    }

    /// Nobody here serves such a capability.
    pub fn no_capability(capability: &str) -> Self {
        Self::new(FailureKind::Unsupported, format!("not supported by this server: it has no {capability}"))
    }
}
