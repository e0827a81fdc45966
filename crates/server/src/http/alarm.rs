//! The moment at which a session wants to be woken.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use gladhand_session::clock::Clock;

/// At most one timer, for the earliest moment that was asked for.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    set: Option<(Duration, AbortHandle)>,
}

impl Alarm {
    /// Wakes at this moment of the session's time, unless it wakes earlier anyway.
    pub(super) fn set(&mut self, at: Duration, clock: &Clock, runtime: &Handle, wake: impl FnOnce() + Send + 'static) {
        if self.set.as_ref().is_some_and(|(set, _)| *set <= at) {
            return;
        }
        self.stop();
        let instant = clock.instant(at);
        let timer = runtime.spawn(async move {
            tokio::time::sleep_until(instant).await;
            wake();
        });
        self.set = Some((at, timer.abort_handle()));
    }

    /// It has gone off: the next one that is asked for is set, whenever it is.
    pub(super) fn went_off(&mut self) {
        self.set = None;
    }

    /// Cancels the timer.
    pub(super) fn stop(&mut self) {
        if let Some((_, timer)) = self.set.take() {
            timer.abort();
        }
    }
}
