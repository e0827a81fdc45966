//! The resources to which a session or a listener is subscribed.
//!
//! Each entry holds one [`gladhand_core::operations::Operation::Watch`] of the provider. It is cancelled when the entry
//! is removed.

use std::collections::BTreeMap;

use gladhand_core::operations::{Update, WatchId, is_part_of, subscription_weight, wholes_of};

use crate::side::{Action, Output};

/// Maximum number of resources of a session. One with a long URI counts as several.
const MAX_WATCHED: usize = 1024;

/// Maximum length of a URI in a subscription, in bytes.
pub(super) const MAX_URI_BYTES: usize = 4096;

/// The resources of one subscriber.
#[derive(Debug, Default)]
pub(super) struct Watches {
    uris: BTreeMap<String, Watch>,
    /// Whether the subscriber is gone.
    is_closed: bool,
}

#[derive(Debug)]
struct Watch {
    id: WatchId,
    /// Whether a change must still be reported.
    is_unreported: bool,
}

impl Watches {
    /// Adds a resource. If it is already present, or the subscriber is gone, the new subscription is cancelled.
    pub(super) fn add(&mut self, uri: &str, id: WatchId, out: &mut Output<'_>) {
        if self.is_closed || self.uris.contains_key(uri) {
            out.actions.push(Action::Unwatch(uri.to_owned(), id));
        } else {
            self.uris.insert(uri.to_owned(), Watch { id, is_unreported: false });
        }
    }

    /// Removes a resource.
    pub(super) fn remove(&mut self, uri: &str, out: &mut Output<'_>) {
        if let Some((uri, watch)) = self.uris.remove_entry(uri) {
            out.actions.push(Action::Unwatch(uri, watch.id));
        }
    }

    /// Removes all resources.
    pub(super) fn clear(&mut self, out: &mut Output<'_>) {
        let all = std::mem::take(&mut self.uris);
        out.actions.extend(all.into_iter().map(|(uri, watch)| Action::Unwatch(uri, watch.id)));
    }

    /// Removes all resources, and cancels those that are added later.
    pub(super) fn close(&mut self, out: &mut Output<'_>) {
        self.is_closed = true;
        self.clear(out);
    }

    pub(super) fn contains(&self, uri: &str) -> bool {
        self.uris.contains_key(uri)
    }

    pub(super) fn len(&self) -> usize {
        self.uris.len()
    }

    /// Whether a session may subscribe to this resource too.
    pub(super) fn has_room_for(&self, uri: &str) -> bool {
        self.uris().chain([uri]).map(subscription_weight).sum::<usize>() <= MAX_WATCHED
    }

    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.uris.keys().map(String::as_str)
    }

    /// Whether a change must be reported: a subscribed resource or a part of one changed.
    pub(super) fn cover(&self, update: &Update) -> bool {
        wholes_of(&self.uris, &update.uri).any(|(_, watch)| !update.denied.contains(&watch.id))
    }

    /// Records a change that cannot be reported yet.
    pub(super) fn record_update(&mut self, update: &Update) {
        for (uri, watch) in &mut self.uris {
            watch.is_unreported |= watch.concerns(uri, update);
        }
    }

    /// Takes the resources whose changes must still be reported.
    pub(super) fn take_unreported(&mut self) -> Vec<String> {
        let unreported = self.uris.iter_mut().filter(|(_, watch)| watch.is_unreported);
        let take = |(uri, watch): (&String, &mut Watch)| {
            watch.is_unreported = false;
            uri.clone()
        };
        unreported.map(take).collect()
    }
}

impl Watch {
    /// Whether an update concerns this subscription, whose resource is `uri`, and may be reported.
    fn concerns(&self, uri: &str, update: &Update) -> bool {
        is_part_of(&update.uri, uri) && !update.denied.contains(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_watched_resource_is_covered() {
        let mut watches = Watches::default();
        let mut out = Output::onto(gladhand_core::wire::Frames::default());
        watches.add("file:///a", WatchId(1), &mut out);
        watches.add("file:///d/", WatchId(2), &mut out);
        for (uri, covered) in [
            ("file:///a", true),
            ("file:///a/b", true),
            ("file:///a#x", true),
            ("file:///ab", false),
            ("file:///", false),
            ("file:///d/e", true),
            ("file:///d", false),
        ] {
            assert_eq!(watches.cover(&Update::of(uri)), covered, "{uri}");
        }
    }

    #[test]
    fn a_denied_subscription_gets_no_update() {
        let mut watches = Watches::default();
        let mut out = Output::onto(gladhand_core::wire::Frames::default());
        watches.add("a:", WatchId(1), &mut out);
        watches.add("b:", WatchId(2), &mut out);
        let denied = |uri: &str| Update { denied: vec![WatchId(1)], ..Update::of(uri) };
        assert!(!watches.cover(&denied("a:")) && watches.cover(&denied("b:")) && watches.cover(&Update::of("a:")));
        watches.record_update(&denied("a:"));
        watches.record_update(&denied("b:"));
        assert_eq!(watches.take_unreported(), ["b:"]);
    }

    #[test]
    fn every_watch_is_cancelled_once() {
        let mut watches = Watches::default();
        let mut out = Output::onto(gladhand_core::wire::Frames::default());
        let unwatched = |out: &mut Output<'_>| -> Vec<String> {
            let actions = std::mem::take(&mut out.actions).into_iter();
            actions.map(|action| format!("{action:?}")).collect()
        };
        watches.add("a:", WatchId(1), &mut out);
        watches.add("b:", WatchId(2), &mut out);
        assert_eq!(unwatched(&mut out), Vec::<String>::new());
        watches.add("a:", WatchId(3), &mut out);
        watches.remove("c:", &mut out);
        assert_eq!(unwatched(&mut out), [r#"Unwatch("a:", WatchId(3))"#]);
        watches.record_update(&Update::of("b:/1"));
        assert_eq!((watches.take_unreported(), watches.take_unreported().len()), (vec!["b:".to_owned()], 0));
        watches.remove("a:", &mut out);
        watches.clear(&mut out);
        assert_eq!(unwatched(&mut out), [r#"Unwatch("a:", WatchId(1))"#, r#"Unwatch("b:", WatchId(2))"#]);
        watches.close(&mut out);
        watches.add("d:", WatchId(4), &mut out);
        assert_eq!(
            (watches.len(), unwatched(&mut out)),
            (0, vec![r#"Unwatch("d:", WatchId(4))"#.to_owned()]),
            "a closed set must cancel new subscriptions"
        );
    }
}
