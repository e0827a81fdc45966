//! The method table: the sender of each message, its revisions, and the required capability.
//!
//! The gate, the claim and the tests use this one table. The most frequent row comes first, because a gate searches
//! from the top. 2026-07-28 carries some requests inside a result (`roots/list` and the like). They are not messages
//! there, so their rows end with 2025-11-25.

use gladhand_core::negotiation::{Kind, Need, Rule, Side};
use gladhand_core::operations::Feature;

use super::revision::Revision;
use crate::side::TASKS_EXTENSION;

/// Every method and notification of every revision, both directions.
pub static TABLE: &[Rule] = &[
    call("tools/call", Side::Client, server("tools"), EVER),
    call("tools/list", Side::Client, server("tools"), EVER),
    call("initialize", Side::Client, None, HANDSHAKE),
    notice("notifications/initialized", Side::Client, None, HANDSHAKE),
    call("server/discover", Side::Client, None, STATELESS),
    call("ping", Side::Client, None, HANDSHAKE),
    call("ping", Side::Server, None, HANDSHAKE),
    notice("notifications/cancelled", Side::Client, None, EVER),
    notice("notifications/cancelled", Side::Server, None, EVER),
    notice("notifications/progress", Side::Client, None, HANDSHAKE),
    notice("notifications/progress", Side::Server, None, EVER),
    notice("notifications/tools/list_changed", Side::Server, server("tools.listChanged"), EVER),
    call("resources/list", Side::Client, server("resources"), EVER),
    call("resources/read", Side::Client, server("resources"), EVER),
    call("resources/templates/list", Side::Client, server("resources"), EVER),
    call("resources/subscribe", Side::Client, server("resources.subscribe"), HANDSHAKE),
    call("resources/unsubscribe", Side::Client, server("resources.subscribe"), HANDSHAKE),
    notice("notifications/resources/updated", Side::Server, server("resources.subscribe"), EVER),
    notice("notifications/resources/list_changed", Side::Server, server("resources.listChanged"), EVER),
    call("prompts/list", Side::Client, server("prompts"), EVER),
    call("prompts/get", Side::Client, server("prompts"), EVER),
    notice("notifications/prompts/list_changed", Side::Server, server("prompts.listChanged"), EVER),
    // The baseline has the method but no capability for it, so clients may simply try.
    call("completion/complete", Side::Client, None, BASELINE),
    call("completion/complete", Side::Client, server("completions"), SINCE_2025_03_26),
    call("logging/setLevel", Side::Client, server("logging"), HANDSHAKE),
    notice("notifications/message", Side::Server, server("logging"), EVER),
    call("roots/list", Side::Server, client("roots"), HANDSHAKE),
    notice("notifications/roots/list_changed", Side::Client, client("roots.listChanged"), HANDSHAKE),
    call("sampling/createMessage", Side::Server, client("sampling"), HANDSHAKE),
    call("elicitation/create", Side::Server, client("elicitation"), ELICITATION),
    notice("notifications/elicitation/complete", Side::Server, client("elicitation.url"), TASKS),
    call("tasks/get", Side::Client, server("tasks"), TASKS),
    call("tasks/result", Side::Client, server("tasks"), TASKS),
    call("tasks/list", Side::Client, server("tasks.list"), TASKS),
    call("tasks/cancel", Side::Client, server("tasks.cancel"), TASKS),
    notice("notifications/tasks/status", Side::Server, server("tasks"), TASKS),
    call("tasks/get", Side::Server, client("tasks"), TASKS),
    call("tasks/result", Side::Server, client("tasks"), TASKS),
    call("tasks/list", Side::Server, client("tasks.list"), TASKS),
    call("tasks/cancel", Side::Server, client("tasks.cancel"), TASKS),
    notice("notifications/tasks/status", Side::Client, client("tasks"), TASKS),
    call("subscriptions/listen", Side::Client, None, STATELESS),
    notice("notifications/subscriptions/acknowledged", Side::Server, None, STATELESS),
    // The extension must be declared by both sides. The error can only name the client's capability, so the rows use
    // that one.
    call("tasks/get", Side::Client, client(TASKS_EXTENSION), STATELESS),
    call("tasks/update", Side::Client, client(TASKS_EXTENSION), STATELESS),
    call("tasks/cancel", Side::Client, client(TASKS_EXTENSION), STATELESS),
    notice("notifications/tasks", Side::Server, client(TASKS_EXTENSION), STATELESS),
];

/// Requests that 2026-07-28 carries inside a result. They are not messages there, so the gate does not use them.
static IN_RESULTS: &[Rule] = &[
    call("roots/list", Side::Server, client("roots"), STATELESS),
    call("sampling/createMessage", Side::Server, client("sampling"), STATELESS),
    call("elicitation/create", Side::Server, client("elicitation"), STATELESS),
];

/// The rows that carry a feature.
pub(super) fn carriers(feature: Feature) -> Vec<Rule> {
    let (from, name) = match feature {
        Feature::Tools => (Side::Client, "tools/call"),
        Feature::ToolChanges => (Side::Server, "notifications/tools/list_changed"),
        Feature::Resources => (Side::Client, "resources/read"),
        Feature::Templates => (Side::Client, "resources/templates/list"),
        Feature::ResourceChanges => (Side::Server, "notifications/resources/list_changed"),
        Feature::ResourceUpdates => (Side::Server, "notifications/resources/updated"),
        Feature::Prompts => (Side::Client, "prompts/get"),
        Feature::PromptChanges => (Side::Server, "notifications/prompts/list_changed"),
        Feature::Completion => (Side::Client, "completion/complete"),
        Feature::Progress => (Side::Server, "notifications/progress"),
        Feature::Cancellation => (Side::Client, "notifications/cancelled"),
        Feature::Logging => (Side::Server, "notifications/message"),
        Feature::Elicitation => (Side::Server, "elicitation/create"),
        Feature::Sampling => (Side::Server, "sampling/createMessage"),
        Feature::Roots => (Side::Server, "roots/list"),
        Feature::Tasks => (Side::Client, "tasks/get"),
    };
    TABLE.iter().chain(IN_RESULTS).filter(|row| (row.from, row.name) == (from, name)).copied().collect()
}

/// Whether any revision has a message of this name, in either direction.
pub(super) fn is_known(name: &str) -> bool {
    TABLE.iter().any(|rule| rule.name == name)
}

/// The first and the last revision of a row. An empty last one means that it has not been removed.
type Span = (&'static str, &'static str);

const EVER: Span = (Revision::V2024_11_05.as_str(), "");
const HANDSHAKE: Span = (Revision::V2024_11_05.as_str(), Revision::V2025_11_25.as_str());
const STATELESS: Span = (Revision::V2026_07_28.as_str(), "");
const BASELINE: Span = (Revision::V2024_11_05.as_str(), Revision::V2024_11_05.as_str());
const SINCE_2025_03_26: Span = (Revision::V2025_03_26.as_str(), "");
const ELICITATION: Span = (Revision::V2025_06_18.as_str(), Revision::V2025_11_25.as_str());
const TASKS: Span = (Revision::V2025_11_25.as_str(), Revision::V2025_11_25.as_str());

const fn call(name: &'static str, from: Side, needs: Option<Need>, (since, until): Span) -> Rule {
    Rule { name, from, kind: Kind::Call, needs, since, until }
}

const fn notice(name: &'static str, from: Side, needs: Option<Need>, (since, until): Span) -> Rule {
    Rule { name, from, kind: Kind::Notice, needs, since, until }
}

const fn server(capability: &'static str) -> Option<Need> {
    Some(Need { owner: Side::Server, capability })
}

const fn client(capability: &'static str) -> Option<Need> {
    Some(Need { owner: Side::Client, capability })
}
