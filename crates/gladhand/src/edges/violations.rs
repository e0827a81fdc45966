//! What a peer broke in a step, found between the dialect and whoever counts it.

use gladhand_dialects::{Action, Breach, Event};
use gladhand_hub::Hub;
use gladhand_hub::policy::{Handling, Offender, Violation, Violations};

/// The rules that a downstream broke in a step.
pub(crate) fn of_actions(actions: &[Action<'_>]) -> Vec<Breach> {
    let dropped = |action: &Action<'_>| if let Action::Dropped(told) = action { Breach::of(told) } else { None };
    actions.iter().filter_map(dropped).collect()
}

/// The rules that an upstream broke in a step.
pub(crate) fn of_events(events: &[Event]) -> Vec<Breach> {
    let dropped = |event: &Event| if let Event::Dropped(told) = event { Breach::of(told) } else { None };
    events.iter().filter_map(dropped).collect()
}

/// Counts what a downstream broke; says whether its session is to end.
pub(crate) fn note_client(hub: &Hub, client: &str, breaches: &[Breach], line: &[u8]) -> bool {
    note(hub.violations(), &Offender::Client(client.to_owned()), breaches, line).is_some()
}

/// Counts what a peer broke; returns what its session is to end for, if it is.
pub(crate) fn note(violations: &Violations, who: &Offender, breaches: &[Breach], line: &[u8]) -> Option<Violation> {
    let noted = breaches.iter().map(|breach| Violation::new(who.clone(), breach.rule, breach.told, line));
    // All are counted, whichever it ends for.
    noted.filter(|violation| violations.note(violation) == Handling::Enforce).last()
}
