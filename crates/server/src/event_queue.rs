//! The queue of agent and capability events for one downstream client. It drops no event and keeps their order.
//!
//! A producer never waits to add an event, so that a change and its event are one step. It waits between events while
//! the client is behind ([`EventQueue::keeping_up`]). An upstream cannot be paused, so its session ends if the client is
//! too far behind ([`EventQueue::has_room`]).

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
pub struct EventQueue {
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

impl EventQueue {
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
        let behind = |event_queue: &Self| event_queue.queue().bytes > BEHIND / 2;
        if self.queue().bytes <= BEHIND {
            return None;
        }
        let event_queue = Arc::clone(self);
        Some(Box::pin(async move {
            loop {
                let taken = event_queue.taken.notified();
                tokio::pin!(taken);
                // Registered before the check, so that no notification is missed.
                taken.as_mut().enable();
                if !behind(&event_queue) {
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
                event.fields.get().len() + event.request.as_ref().map_or(0, |request| request.as_bytes().len())
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
    async fn events_keep_their_order_and_slow_down_their_producer() {
        let event_queue = Arc::new(EventQueue::default());
        assert!(event_queue.keeping_up().is_none());
        for bytes in [1, 2, BEHIND] {
            event_queue.push(event(bytes));
        }
        event_queue.arrived().await;
        let mut behind = event_queue.keeping_up().unwrap();
        assert!(futures_util::poll!(&mut behind).is_pending());
        assert_eq!(event_queue.pop().map(|event| weight(&event)), Some(OVERHEAD + 3));
        assert!(futures_util::poll!(&mut behind).is_pending());
        assert_eq!(event_queue.pop().map(|event| weight(&event)), Some(OVERHEAD + 4));
        assert!(event_queue.pop().is_some());
        behind.await;
        assert!(event_queue.pop().is_none());
    }

    #[test]
    fn an_event_queue_without_room_reports_it_and_small_events_count() {
        let event_queue = EventQueue::default();
        let pushed =
            (0..).take_while(|_| event_queue.has_room()).map(|_| event_queue.push(event(0))).take(100_000).count();
        assert!((MOST / OVERHEAD / 2..=MOST / OVERHEAD + 1).contains(&pushed), "{pushed}");
        while event_queue.pop().is_some() {}
        assert!(event_queue.has_room());
    }

    #[tokio::test]
    async fn a_closed_event_queue_releases_its_producer() {
        let event_queue = Arc::new(EventQueue::default());
        event_queue.push(event(2 * BEHIND));
        let behind = event_queue.keeping_up().unwrap();
        event_queue.close();
        behind.await;
        event_queue.push(event(2 * BEHIND));
        assert!(event_queue.keeping_up().is_none());
        assert!(event_queue.pop().is_none());
    }
}
