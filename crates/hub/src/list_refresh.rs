//! Lets one thread at a time ask the providers for their lists, and holds no lock while it asks.
//!
//! A provider may announce a change while the hub asks it, on the same thread. With a lock, that thread would wait for
//! itself. Here it asks once more when it is done, and sends the notices of such changes after that.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use gladhand_core::operations::Notice;
use gladhand_core::sync::Unpoisoned as _;

/// How often the lists are asked for in a row, because a provider announces a change each time it is asked.
const MOST_ROUNDS: usize = 8;

/// Refreshes of the lists, one after the other.
#[derive(Debug, Default)]
pub(crate) struct ListRefresh {
    state: Mutex<State>,
    has_ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The thread that asks now.
    asking: Option<ThreadId>,
    /// Whether that thread was told of another change meanwhile.
    is_outdated: bool,
    /// The notices of such changes.
    deferred: Vec<Notice>,
}

impl ListRefresh {
    /// Asks for the lists, after other threads have asked, and returns the notices to send. A call from within `ask`
    /// returns at once and without notices: the running refresh takes them over, and asks once more.
    pub(crate) fn run(&self, notices: Vec<Notice>, mut ask: impl FnMut()) -> Vec<Notice> {
        let this = thread::current().id();
        let mut state = self.lock();
        if state.asking == Some(this) {
            state.is_outdated = true;
            state.deferred.extend(notices);
            return Vec::new();
        }
        state = self.has_ended.wait_while(state, |state| state.asking.is_some()).unpoisoned();
        *state = State { asking: Some(this), is_outdated: false, deferred: notices };
        drop(state);
        let _running = Running(self);
        for _ in 0..MOST_ROUNDS {
            ask();
            if !std::mem::take(&mut self.lock().is_outdated) {
                break;
            }
        }
        std::mem::take(&mut self.lock().deferred)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }
}

/// A running refresh. It ends when this is dropped, so that a provider that panics blocks no later refresh.
struct Running<'r>(&'r ListRefresh);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.lock().asking = None;
        self.0.has_ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_change_during_a_refresh_is_asked_for_and_announced_after_it() {
        let (refresh, rounds) = (ListRefresh::default(), AtomicUsize::new(0));
        let sent = refresh.run(vec![Notice::ToolsChanged], || {
            if rounds.fetch_add(1, Ordering::Relaxed) == 0 {
                let inner = refresh.run(vec![Notice::PromptsChanged], || panic!("the outer refresh asks"));
                assert!(inner.is_empty(), "the lists are not there yet");
            }
        });
        assert_eq!(rounds.load(Ordering::Relaxed), 2);
        assert!(matches!(sent[..], [Notice::ToolsChanged, Notice::PromptsChanged]));
    }

    #[test]
    fn a_provider_that_always_announces_a_change_does_not_hold_up_the_hub() {
        let refresh = ListRefresh::default();
        refresh.run(Vec::new(), || drop(refresh.run(Vec::new(), || ())));
        assert!(refresh.lock().asking.is_none());
    }

    #[test]
    fn refreshes_of_several_threads_come_one_after_the_other_and_survive_a_panic() {
        let (refresh, asking) = (ListRefresh::default(), AtomicUsize::new(0));
        let panicked = std::panic::AssertUnwindSafe(|| refresh.run(Vec::new(), || panic!("a clumsy provider")));
        assert!(std::panic::catch_unwind(panicked).is_err());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    refresh.run(Vec::new(), || {
                        assert_eq!(asking.fetch_add(1, Ordering::SeqCst), 0, "another thread asks");
                        thread::yield_now();
                        asking.fetch_sub(1, Ordering::SeqCst);
                    })
                });
            }
        });
    }
}
