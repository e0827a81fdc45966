//! The queue of agent and capability events for one downstream client. It drops no event and keeps their order.
//!
//! A producer never waits to add an event, so that a change and its event are one step. It waits between events while
//! the client is behind ([`Following::keeping_up`]). An upstream cannot be paused, so its session ends if the client is
//! too far behind ([`Following::has_room`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::operations::Notice;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::Settling;
use tokio::sync::Notify;

/// Above this many queued bytes, a producer waits.
const BEHIND: usize = 256 * 1024;

/// Above this many queued bytes, a producer that cannot wait must end.
const MOST: usize = 8 * BEHIND;

/// The approximate cost of an event beyond its text.
const OVERHEAD: usize = 128;

/// The queue between event producers and the loop that serves a client.
#[derive(Debug, Default)]
pub struct Following {
    queue: Mutex<Queue>,
    /// Whether there may be an event, which is looked at after every call.
    may_have_events: AtomicBool,
    /// Notified when an event was added.
    arrived: Notify,
    /// Notified when an event was taken.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Notice>,
    bytes: usize,
    /// The client is gone, and events are discarded.
    closed: bool,
}

impl Following {
    /// Puts an event in.
    pub fn push(&self, event: Notice) {
        let mut queue = self.queue();
        if !queue.closed {
            queue.bytes += weight(&event);
            queue.events.push_back(event);
            self.may_have_events.store(true, Ordering::Release);
            drop(queue);
            self.arrived.notify_one();
        }
    }

    /// Takes the oldest event out.
    pub fn pop(&self) -> Option<Notice> {
        if !self.may_have_events() {
            return None;
        }
        let mut queue = self.queue();
        let event = queue.events.pop_front();
        if event.is_none() {
            self.may_have_events.store(false, Ordering::Release);
        }
        let event = event?;
        queue.bytes -= weight(&event);
        let kept_up = queue.bytes < BEHIND / 2;
        drop(queue);
        if kept_up {
            self.taken.notify_waiters();
        }
        Some(event)
    }

    /// Whether there may be an event. If not, the queue is empty.
    #[inline]
    pub fn may_have_events(&self) -> bool {
        self.may_have_events.load(Ordering::Acquire)
    }

    /// Completes when an event is queued.
    pub async fn arrived(&self) {
        while self.queue().events.is_empty() {
            self.arrived.notified().await;
        }
    }

    /// Closes the queue: later events are discarded, and waiting producers continue.
    pub fn close(&self) {
        let mut queue = self.queue();
        *queue = Queue { closed: true, ..Queue::default() };
        drop(queue);
        self.taken.notify_waiters();
    }

    /// If the client is behind, returns a future that completes when it has caught up or is gone.
    pub fn keeping_up(self: &Arc<Self>) -> Option<Settling> {
        let behind = |following: &Self| following.queue().bytes > BEHIND / 2;
        if self.queue().bytes <= BEHIND {
            return None;
        }
        let following = Arc::clone(self);
        Some(Box::pin(async move {
            loop {
                let taken = following.taken.notified();
                tokio::pin!(taken);
                // Registered before the check, so that no notification is missed.
                taken.as_mut().enable();
                if !behind(&following) {
                    return;
                }
                taken.await;
            }
        }))
    }

    /// Whether a producer that cannot wait may put another event in.
    pub fn has_room(&self) -> bool {
        self.bytes() <= MOST
    }

    /// How many bytes are in the queue.
    pub fn bytes(&self) -> usize {
        self.queue().bytes
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unpoisoned()
    }
}

/// How many bytes an event takes in the queue.
fn weight(event: &Notice) -> usize {
    OVERHEAD
        + match event {
            Notice::Agent(event) => event.payload.get().len(),
            Notice::Capability(event) => {
                event.fields.get().len() + event.request.as_ref().map_or(0, |request| request.as_json().len())
            }
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use gladhand_core::operations::AgentEvent;
    use gladhand_core::wire::json;

    use super::*;

    fn event(bytes: usize) -> Notice {
        Notice::Agent(AgentEvent { kind: "session.status", payload: json::to_raw(&"x".repeat(bytes)) })
    }

    #[tokio::test]
    async fn events_keep_their_order_and_whoever_makes_many_waits() {
        let following = Arc::new(Following::default());
        assert!(following.keeping_up().is_none());
        for bytes in [1, 2, BEHIND] {
            following.push(event(bytes));
        }
        following.arrived().await;
        let mut behind = following.keeping_up().unwrap();
        assert!(futures_util::poll!(&mut behind).is_pending());
        assert_eq!(following.pop().map(|event| weight(&event)), Some(OVERHEAD + 3));
        assert!(futures_util::poll!(&mut behind).is_pending());
        assert_eq!(following.pop().map(|event| weight(&event)), Some(OVERHEAD + 4));
        assert!(following.pop().is_some());
        behind.await;
        assert!(following.pop().is_none());
    }

    #[test]
    fn who_cannot_wait_is_told_that_there_is_no_room_and_small_events_count_too() {
        let following = Following::default();
        let pushed = (0..).take_while(|_| following.has_room()).map(|_| following.push(event(0))).take(100_000).count();
        assert!((MOST / OVERHEAD / 2..=MOST / OVERHEAD + 1).contains(&pushed), "{pushed}");
        while following.pop().is_some() {}
        assert!(following.has_room());
    }

    #[tokio::test]
    async fn nobody_waits_for_a_downstream_that_is_gone() {
        let following = Arc::new(Following::default());
        following.push(event(2 * BEHIND));
        let behind = following.keeping_up().unwrap();
        following.close();
        behind.await;
        following.push(event(2 * BEHIND));
        assert!(following.keeping_up().is_none());
        assert!(following.pop().is_none());
    }
}
