//! Resources whose changes somebody wants to hear of: a session, or a listener.
//!
//! Each holds one [`gladhand_operations::Operation::Watch`] of whoever has the resource, which is taken back when it
//! is forgotten here.

use std::collections::BTreeMap;

use crate::side::{Action, Output};

/// How many resources a session may watch.
pub(super) const MAX_WATCHED: usize = 1024;

/// The longest URI that is kept for watching.
pub(super) const LONGEST_URI: usize = 4096;

/// Resources that are watched for somebody.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// Each with whether a change of it is still to be told.
    uris: BTreeMap<String, bool>,
    /// Whether whoever wanted to know is gone.
    is_closed: bool,
}

impl Watches {
    /// Remembers a resource; one that was there already, or comes too late, is taken back at once.
    pub(super) fn add(&mut self, uri: &str, out: &mut Output<'_>) {
        if self.is_closed || self.uris.insert(uri.to_owned(), false).is_some() {
            out.actions.push(Action::Unwatch(uri.to_owned()));
        }
    }

    /// Forgets a resource.
    pub(super) fn remove(&mut self, uri: &str, out: &mut Output<'_>) {
        if let Some((uri, _)) = self.uris.remove_entry(uri) {
            out.actions.push(Action::Unwatch(uri));
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self, out: &mut Output<'_>) {
        out.actions.extend(std::mem::take(&mut self.uris).into_keys().map(Action::Unwatch));
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

    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.uris.keys().map(String::as_str)
    }

    /// Whether a resource is watched, itself or as a part of one that is.
    pub(super) fn covers(&self, uri: &str) -> bool {
        self.uris().any(|watched| is_part_of(uri, watched))
    }

    /// A resource changed at a time when nobody may be told.
    pub(super) fn owe(&mut self, uri: &str) {
        for (watched, is_owed) in &mut self.uris {
            *is_owed |= is_part_of(uri, watched);
        }
    }

    /// What is still to be told.
    pub(super) fn take_owed(&mut self) -> Vec<String> {
        let owed = self.uris.iter_mut().filter(|(_, is_owed)| **is_owed);
        let take = |(uri, is_owed): (&String, &mut bool)| {
            *is_owed = false;
            uri.clone()
        };
        owed.map(take).collect()
    }
}

/// Whether a URI is another one, or something below it.
fn is_part_of(uri: &str, whole: &str) -> bool {
    uri.strip_prefix(whole)
        .is_some_and(|rest| rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_watched_resource_is_covered_and_a_namesake_is_not() {
        let mut watches = Watches::default();
        let mut out = Output::onto(Vec::new());
        watches.add("file:///a", &mut out);
        watches.add("file:///d/", &mut out);
        for (uri, covered) in [
            ("file:///a", true),
            ("file:///a/b", true),
            ("file:///a#x", true),
            ("file:///ab", false),
            ("file:///", false),
            ("file:///d/e", true),
            ("file:///d", false),
        ] {
            assert_eq!(watches.covers(uri), covered, "{uri}");
        }
    }

    #[test]
    fn every_watch_is_taken_back_once() {
        let mut watches = Watches::default();
        let mut out = Output::onto(Vec::new());
        let unwatched = |out: &mut Output<'_>| -> Vec<String> {
            let actions = std::mem::take(&mut out.actions).into_iter();
            actions.map(|action| format!("{action:?}")).collect()
        };
        watches.add("a:", &mut out);
        watches.add("b:", &mut out);
        assert_eq!(unwatched(&mut out), Vec::<String>::new());
        watches.add("a:", &mut out);
        watches.remove("c:", &mut out);
        assert_eq!(unwatched(&mut out), [r#"Unwatch("a:")"#]);
        watches.owe("b:/1");
        assert_eq!((watches.take_owed(), watches.take_owed().len()), (vec!["b:".to_owned()], 0));
        watches.remove("a:", &mut out);
        watches.clear(&mut out);
        assert_eq!(unwatched(&mut out), [r#"Unwatch("a:")"#, r#"Unwatch("b:")"#]);
        watches.close(&mut out);
        watches.add("d:", &mut out);
        assert_eq!((watches.len(), unwatched(&mut out)), (0, vec![r#"Unwatch("d:")"#.to_owned()]), "too late");
    }
}
