//! Collects the rules that a peer broke in a step, and passes them to the counter of violations.

use gladhand_dialects::{Action, Declined, Event, RuleViolation, Unagreed};
use gladhand_hub::policy::{Handling, Offender, Violation, Violations, Who};
use gladhand_hub::{Hub, SessionId};

/// The rules that a downstream broke in a step.
pub fn of_actions(actions: &[Action<'_>]) -> Vec<RuleViolation> {
    let broken = |action: &Action<'_>| match action {
        Action::Dropped(told) | Action::Passed(told) => RuleViolation::of(told),
        Action::Declined(declined) => declined.violation(),
        _ => None,
    };
    actions.iter().filter_map(broken).collect()
}

/// The rules that an upstream broke in a step.
pub fn of_events(events: &[Event]) -> Vec<RuleViolation> {
    let broken = |event: &Event| match event {
        Event::Dropped(told) | Event::Passed(told) => RuleViolation::of(told),
        _ => None,
    };
    events.iter().filter_map(broken).collect()
}

/// Writes down a request of a downstream that was refused because of what was agreed. `principal`: who the transport says
/// it is.
pub fn write_down(hub: &Hub, declined: &Declined, principal: Option<&str>, session: SessionId) {
    let Declined { request, capability, agreement } = declined;
    let who = Who::in_session(principal, agreement, session);
    tracing::info!(request, capability, principal = who.principal, "refused: not agreed");
    if let Some(governor) = hub.governor() {
        governor.declined(&who, agreement, (request, capability));
    }
}

/// How to treat messages that were not agreed: in `observe` mode they pass.
pub fn unagreed(violations: &Violations) -> Unagreed {
    match violations.handling() {
        Handling::Observe => Unagreed::Passes,
        Handling::Repair | Handling::Enforce => Unagreed::Refused,
    }
}

/// Counts what a downstream broke; says whether its session is to end.
pub fn note_client(hub: &Hub, client: &str, breaches: &[RuleViolation], line: &[u8]) -> bool {
    note(hub.violations(), &Offender::Client(client.to_owned()), breaches, line).is_some()
}

/// Counts what a peer broke; returns what its session is to end for, if it is.
pub fn note(violations: &Violations, who: &Offender, breaches: &[RuleViolation], line: &[u8]) -> Option<Violation> {
    let noted = breaches.iter().map(|breach| Violation::new(who.clone(), breach.rule, breach.description, line));
    // All violations are counted, not only the one that ends the session.
    noted.filter(|violation| violations.note(violation) == Handling::Enforce).last()
}
