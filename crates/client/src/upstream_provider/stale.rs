//! Lists that have changed and must be asked for again, at which connection, and when.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, Weak};
use std::time::Duration;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::List;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::upstream_connection::UpstreamConnection;

/// How long lists are left alone at a connection after they were asked for, for each entry that they have. A long list that changes
/// again and again costs the calls of other upstreams only a small part of the time, and a short one is fresh at once.
const PAUSE_FOR_ENTRY: Duration = Duration::from_millis(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The pause after lists could not be had; each further failure doubles it.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The longest pause after a failure.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The pause after so many failures in a row.
pub(super) fn pause_after(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_RETRY)
}

/// Lists that are not what they were, until they are asked for again. However often a list changes meanwhile, it is asked
/// for once, on each connection on which it changed.
#[derive(Debug)]
pub(super) struct Stale<W = UpstreamConnection> {
    state: Mutex<State<W>>,
    told: Notify,
}

#[derive(Debug)]
struct State<W> {
    changed: VecDeque<Changed<W>>,
    /// Connections whose lists were asked for, and until when they are left alone.
    resting: Vec<(Weak<W>, Instant)>,
    /// Connections whose lists could not be had, and how often in a row.
    failing: Vec<(Weak<W>, u32)>,
}

/// Lists that changed at the other end of a connection.
#[derive(Debug)]
struct Changed<W> {
    connection: Weak<W>,
    lists: Vec<List>,
    /// Whether the connection was opened just now: then nothing is known of its lists.
    is_new: bool,
}

/// The next step.
enum Next<W> {
    /// Ask for these lists.
    Ask(Changed<W>),
    /// Wait until then.
    Wait(Instant),
    Nothing,
}

impl<W> Default for Stale<W> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State { changed: VecDeque::new(), resting: Vec::new(), failing: Vec::new() }),
            told: Notify::new(),
        }
    }
}

impl<W> Stale<W> {
    /// These have changed, at the other end of this connection.
    pub(super) fn mark(&self, lists: &[List], connection: Weak<W>) {
        self.lock().mark(lists, connection, false);
        self.told.notify_one();
    }

    /// This connection was opened: all its lists are to be asked for, without a pause.
    pub(super) fn mark_new(&self, connection: Weak<W>) {
        self.lock().mark(&List::ALL, connection, true);
        self.told.notify_one();
    }

    /// Waits until some have changed and may be asked for, and says where.
    pub(super) async fn take(&self) -> (Vec<List>, Weak<W>) {
        loop {
            let next = self.lock().next(Instant::now());
            match next {
                Next::Ask(Changed { connection, lists, .. }) => return (lists, connection),
                Next::Wait(until) => {
                    // Lists of another connection may change meanwhile.
                    let _ = tokio::time::timeout_at(until, self.told.notified()).await;
                }
                Next::Nothing => self.told.notified().await,
            }
        }
    }

    /// The lists of a connection were requested, and have this many entries.
    pub(super) fn rest(&self, connection: Weak<W>, now: Instant, entries: usize) {
        let pause = PAUSE_FOR_ENTRY.saturating_mul(u32::try_from(entries).unwrap_or(u32::MAX)).min(LONGEST_PAUSE);
        let mut state = self.lock();
        state.failing.retain(|(failing, _)| !failing.ptr_eq(&connection));
        state.resting.push((connection, now + pause));
    }

    /// The lists of a connection could not be had. They are asked for again after a pause that grows.
    pub(super) fn retry(&self, lists: &[List], connection: Weak<W>, now: Instant) {
        let mut state = self.lock();
        let before = state.failing.iter().position(|(failing, _)| failing.ptr_eq(&connection));
        let failures = before.map_or(0, |at| state.failing.swap_remove(at).1).saturating_add(1);
        state.failing.push((Weak::clone(&connection), failures));
        state.resting.push((Weak::clone(&connection), now + pause_after(failures)));
        state.mark(lists, connection, false);
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unpoisoned()
    }
}

impl<W> State<W> {
    fn mark(&mut self, lists: &[List], connection: Weak<W>, is_new: bool) {
        // Changes of a closed connection no longer matter.
        self.changed.retain(|changed| changed.connection.strong_count() > 0);
        let at = self.changed.iter().position(|changed| changed.connection.ptr_eq(&connection)).unwrap_or_else(|| {
            self.changed.push_back(Changed { connection, lists: Vec::new(), is_new });
            self.changed.len() - 1
        });
        let marked = &mut self.changed[at];
        marked.is_new |= is_new;
        let others: Vec<_> = lists.iter().filter(|list| !marked.lists.contains(list)).copied().collect();
        marked.lists.extend(others);
    }

    fn next(&mut self, now: Instant) -> Next<W> {
        self.resting.retain(|(connection, until)| *until > now && connection.strong_count() > 0);
        self.failing.retain(|(connection, _)| connection.strong_count() > 0);
        let resting = &self.resting;
        let rests_until = |changed: &Changed<W>| {
            let own =
                resting.iter().filter(|(connection, _)| !changed.is_new && connection.ptr_eq(&changed.connection));
            own.map(|(_, until)| *until).max()
        };
        let due = self.changed.iter().position(|changed| rests_until(changed).is_none());
        if let Some(changed) = due.and_then(|at| self.changed.remove(at)) {
            return Next::Ask(changed);
        }
        self.changed.iter().filter_map(rests_until).min().map_or(Next::Nothing, Next::Wait)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn lists_that_change_again_and_again_are_asked_for_after_pauses() {
        let (stale, now) = (Stale::<u8>::default(), Instant::now());
        let (busy, calm) = (Arc::new(1), Arc::new(2));
        let asked = |after: Duration| match stale.lock().next(now + after) {
            Next::Ask(changed) => Some((changed.connection.upgrade().map(|connection| *connection), changed.lists)),
            Next::Wait(_) | Next::Nothing => None,
        };
        let (second, many) = (Duration::from_secs(1), 4000);
        stale.mark(&[List::Tools], Arc::downgrade(&busy));
        assert_eq!(asked(Duration::ZERO), Some((Some(1), vec![List::Tools])), "the first change");
        stale.rest(Arc::downgrade(&busy), now, many);

        stale.mark(&[List::Tools], Arc::downgrade(&busy));
        stale.mark(&[List::Tools, List::Prompts], Arc::downgrade(&busy));
        assert!(matches!(stale.lock().next(now), Next::Wait(until) if until == now + 4 * second));
        stale.mark(&[List::Prompts], Arc::downgrade(&calm));
        assert_eq!(asked(second), Some((Some(2), vec![List::Prompts])), "another connection does not wait");
        assert_eq!(asked(second), None);
        let both = vec![List::Tools, List::Prompts];
        assert_eq!(asked(4 * second), Some((Some(1), both)), "both changes at once");

        stale.rest(Arc::downgrade(&busy), now, many);
        stale.mark_new(Arc::downgrade(&busy));
        assert_eq!(asked(second), Some((Some(1), List::ALL.to_vec())), "a connection that was opened does not wait");
        stale.rest(Arc::downgrade(&calm), now, usize::MAX);
        stale.mark(&[List::Tools], Arc::downgrade(&calm));
        assert_eq!(asked(9 * second), None, "a very long list waits longer");
        assert!(asked(LONGEST_PAUSE).is_some(), "but not for ever");
    }
    #[test]
    fn lists_that_fail_are_asked_for_again_after_growing_pauses() {
        let (stale, connection, now) = (Stale::<u8>::default(), Arc::new(1), Instant::now());
        let retry = |at| {
            stale.retry(&[List::Tools], Arc::downgrade(&connection), at);
            match stale.lock().next(at) {
                Next::Wait(until) => until - at,
                Next::Ask(_) | Next::Nothing => panic!("it is asked for later"),
            }
        };
        let mut at = now;
        let pauses: Vec<_> = (0..8)
            .map(|_| {
                let pause = retry(at);
                at += pause;
                assert!(matches!(stale.lock().next(at), Next::Ask(changed) if changed.lists == [List::Tools]));
                pause.as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        stale.rest(Arc::downgrade(&connection), at, 0);
        assert_eq!(retry(at).as_secs(), 1, "a success makes up for failures");
    }
}
