//! Resources whose changes somebody wants to hear of: a session, or a listener.
//!
//! Each holds one [`gladhand_core::operations::Operation::Watch`] of whoever has the resource, which is taken back when it
//! is forgotten here.

use std::collections::BTreeMap;

use gladhand_core::operations::{Update, WatchId, is_part_of, subscription_weight, wholes_of};

use crate::side::{Action, Output};

/// How many resources a session may watch; one with a long URI counts as several.
const MAX_WATCHED: usize = 1024;

/// The longest URI that is kept for watching.
pub(super) const LONGEST_URI: usize = 4096;

/// Resources that are watched for somebody.
#[derive(Debug, Default)]
pub(super) struct Watches {
    uris: BTreeMap<String, Watch>,
    /// Whether whoever wanted to know is gone.
    is_closed: bool,
}

#[derive(Debug)]
struct Watch {
    id: WatchId,
    /// Whether a change of it is still to be told.
    is_owed: bool,
}

impl Watches {
    /// Remembers a resource; one that was there already, or comes too late, is taken back at once.
    pub(super) fn add(&mut self, uri: &str, id: WatchId, out: &mut Output<'_>) {
        if self.is_closed || self.uris.contains_key(uri) {
            out.actions.push(Action::Unwatch(uri.to_owned(), id));
        } else {
            self.uris.insert(uri.to_owned(), Watch { id, is_owed: false });
        }
    }

    /// Forgets a resource.
    pub(super) fn remove(&mut self, uri: &str, out: &mut Output<'_>) {
        if let Some((uri, watch)) = self.uris.remove_entry(uri) {
            out.actions.push(Action::Unwatch(uri, watch.id));
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self, out: &mut Output<'_>) {
        let all = std::mem::take(&mut self.uris);
        out.actions.extend(all.into_iter().map(|(uri, watch)| Action::Unwatch(uri, watch.id)));
    }

    /// Forgets all of them, and those that are still to come.
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

    /// Whether a session may watch this resource too.
    pub(super) fn has_room_for(&self, uri: &str) -> bool {
        self.uris().chain([uri]).map(subscription_weight).sum::<usize>() <= MAX_WATCHED
    }

    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.uris.keys().map(String::as_str)
    }

    /// Whether a change is to be told: of a resource that is watched, itself or as a part of one that is.
    pub(super) fn cover(&self, update: &Update) -> bool {
        wholes_of(&self.uris, &update.uri).any(|(_, watch)| !update.denied.contains(&watch.id))
    }

    /// A resource changed at a time when nobody may be told.
    pub(super) fn owe(&mut self, update: &Update) {
        for (uri, watch) in &mut self.uris {
            watch.is_owed |= watch.hears(uri, update);
        }
    }

    /// What is still to be told.
    pub(super) fn take_owed(&mut self) -> Vec<String> {
        let owed = self.uris.iter_mut().filter(|(_, watch)| watch.is_owed);
        let take = |(uri, watch): (&String, &mut Watch)| {
            watch.is_owed = false;
            uri.clone()
        };
        owed.map(take).collect()
    }
}

impl Watch {
    /// Whether a change is one of what it watches, which is this URI, and may be told.
    fn hears(&self, uri: &str, update: &Update) -> bool {
        is_part_of(&update.uri, uri) && !update.denied.contains(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_watched_resource_is_covered_and_a_namesake_is_not() {
        let mut watches = Watches::default();
        let mut out = Output::onto(Vec::new());
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
    fn a_subscription_that_may_not_hear_of_a_change_is_told_nothing() {
        let mut watches = Watches::default();
        let mut out = Output::onto(Vec::new());
        watches.add("a:", WatchId(1), &mut out);
        watches.add("b:", WatchId(2), &mut out);
        let denied = |uri: &str| Update { denied: vec![WatchId(1)], ..Update::of(uri) };
        assert!(!watches.cover(&denied("a:")) && watches.cover(&denied("b:")) && watches.cover(&Update::of("a:")));
        watches.owe(&denied("a:"));
        watches.owe(&denied("b:"));
        assert_eq!(watches.take_owed(), ["b:"]);
    }

    #[test]
    fn every_watch_is_taken_back_once() {
        let mut watches = Watches::default();
        let mut out = Output::onto(Vec::new());
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
        watches.owe(&Update::of("b:/1"));
        assert_eq!((watches.take_owed(), watches.take_owed().len()), (vec!["b:".to_owned()], 0));
        watches.remove("a:", &mut out);
        watches.clear(&mut out);
        assert_eq!(unwatched(&mut out), [r#"Unwatch("a:", WatchId(1))"#, r#"Unwatch("b:", WatchId(2))"#]);
        watches.close(&mut out);
        watches.add("d:", WatchId(4), &mut out);
        assert_eq!(
            (watches.len(), unwatched(&mut out)),
            (0, vec![r#"Unwatch("d:", WatchId(4))"#.to_owned()]),
            "too late"
        );
    }
}
