//! Checks that cannot pass behind the bridge, each with its reason.
//!
//! Everything else that passes without the bridge must pass behind it. What is here is no excuse for what could be mended.

use super::server::Way;

const STATELESS: &str = "2026-07-28";

/// What the handshake era behind a stateless front does not have.
const OF_THE_OTHER_ERA: [(&str, &str); 5] = [
    (
        "sep-2322-elicitation-incomplete",
        "In the handshake era a question is a request and has no name, so its name here is one that the bridge gives it.",
    ),
    (
        "sep-2322-ignore-unexpected-params",
        "The suite answers under the name that the server would give its question; the bridge gives it another, and asks again.",
    ),
    (
        "sep-2575-server-rejects-undeclared-capability",
        "In the handshake era a server knows what its client lacks, and says in the result of the tool that it needs it.",
    ),
    ("sep-2575-missing-capability-http-400", "There is no such error in the handshake era."),
    (
        "sep-2663-mrtr-synchronous-before-task-creation",
        "In the handshake era it is the client's wish that makes a task of a call, before the server has asked anything.",
    ),
];

/// What is the same for servers of both eras.
const OF_EVERY_ERA: [(&str, &str); 1] = [(
    "sep-2575-missing-capability-http-400",
    "The server's error comes when the bridge has already begun to answer, with a stream and its status.",
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
    fn only_what_goes_through_the_bridge_is_explained() {
        let check = "sep-2322-elicitation-incomplete";
        assert!(reason(check, STATELESS, Way::Bridged(Behind::Stdio, "2025-11-25")).is_some());
        assert!(reason(check, STATELESS, Way::Bridged(Behind::Stdio, STATELESS)).is_none());
        assert!(reason(check, STATELESS, Way::Direct).is_none());
    }
}
