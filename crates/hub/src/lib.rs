//! The hub: finds the provider that answers a call, and calls it through one trait.
//!
//! It knows providers and tools, not dialects, sockets or processes. Of sessions it knows only who is there: a
//! call comes in with its agreement, an answer goes out, now or later.

mod agent;
mod bridged_upstream;
mod call_log;
mod call_observers;
mod change_notifier;
mod claims;
mod closure_provider;
mod governed_calls;
mod hub;
mod list_refresh;
mod naming;
mod origins;
mod per_session_routes;
pub mod policy;
mod portions;
mod provider;
mod provider_features;
mod readiness;
mod routes;
mod routing;
mod session_registry;
mod session_status;
mod stand_ins;
mod status;
mod turns;
mod upstream_observation;
mod watched;

pub use agent::Agent;
pub use bridged_upstream::Represented;
pub use call_log::without_query;
pub use call_observers::{CallDestination, CallObserver, CallOrigin, EndedCall, ObservedCall, PolicyDecision};
pub use change_notifier::ChangeNotifier;
pub use claims::Conflict;
pub use closure_provider::Kit;
pub use hub::Hub;
pub use naming::{BETWEEN, Naming};
pub use portions::{PartyPermit, PartyPermits, Portion, Portions, Usage};
pub use provider::{
    Answer, Asking, Bundles, Caller, Context, Declared, Features, List, Listed, Provider, Reporter, SessionId,
    Settling, Work, viewer,
};
pub use provider_features::{
    CapabilityProvider, CompletionProvider, Opening, PromptProvider, ResourceProvider, ServerProvider, SessionObserver,
    ViewerLists,
};
pub use routes::{HubError, Mount};
pub use session_status::{Busy, CallName, Visit};
pub use status::{ClientStatus, HubStatus, Offence, RunningCall, SessionStatus, UpstreamStatus};
pub use turns::{Turn, Turns};
pub use upstream_observation::{EndedUpstreamCall, UpstreamCall, UpstreamObservation};
pub use watched::Hearers;
