//! Checks that cannot pass behind the bridge, each with its reason. Every other check that passes without the bridge
//! must pass behind it. A check that could be fixed does not belong here.

use super::server::Way;

const STATELESS: &str = "2026-07-28";

/// Features that the handshake era behind a stateless front does not have.
const OF_THE_OTHER_ERA: [(&str, &str); 5] = [
    (
        "sep-2322-elicitation-incomplete",
        "In the handshake era a server request has no name, so the bridge assigns one.",
    ),
    (
        "sep-2322-ignore-unexpected-params",
        "The suite answers under the name that the server would assign; the bridge assigns another name and sends the request again.",
    ),
    (
        "sep-2575-server-rejects-undeclared-capability",
        "In the handshake era a server knows the capabilities of its client, and reports the missing one in the result of the tool.",
    ),
    ("sep-2575-missing-capability-http-400", "The handshake era has no such error."),
    (
        "sep-2663-mrtr-synchronous-before-task-creation",
        "In the handshake era the client turns a call into a task, before the server has sent a request.",
    ),
];

/// Checks that are the same for servers of both eras.
const OF_EVERY_ERA: [(&str, &str); 1] = [(
    "sep-2575-missing-capability-http-400",
    "The server's error arrives when the bridge has already sent the status of an event stream.",
)];

/// Why a check cannot pass on a way, if it cannot.
pub(crate) fn reason(check: &str, revision: &str, way: Way) -> Option<&'static str> {
    let Way::Bridged(_, spoken) = way else { return None };
    let of_the_era: &[_] = match (revision, spoken) {
        (STATELESS, STATELESS) => &OF_EVERY_ERA,
        (STATELESS, _) => &OF_THE_OTHER_ERA,
        _ => &[],
    };
    of_the_era.iter().find(|(explained, _)| *explained == check).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::super::server::Behind;
    use super::*;

    #[test]
    fn only_failures_through_the_bridge_are_explained() {
        let check = "sep-2322-elicitation-incomplete";
        assert!(reason(check, STATELESS, Way::Bridged(Behind::Stdio, "2025-11-25")).is_some());
        assert!(reason(check, STATELESS, Way::Bridged(Behind::Stdio, STATELESS)).is_none());
        assert!(reason(check, STATELESS, Way::Direct).is_none());
    }
}
