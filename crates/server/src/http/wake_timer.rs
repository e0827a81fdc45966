//! The timer of a session that other threads use.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use gladhand_session::clock::Clock;

/// At most one timer, for the earliest requested time.
#[derive(Debug, Default)]
pub(super) struct WakeTimer {
    set: Option<(Duration, AbortHandle)>,
}

impl WakeTimer {
    /// Calls `wake` at this time of the session's clock, unless an earlier timer is set.
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

    /// The timer has fired: the next request sets a new one.
    pub(super) fn fired(&mut self) {
        self.set = None;
    }

    /// Cancels the timer.
    pub(super) fn stop(&mut self) {
        if let Some((_, timer)) = self.set.take() {
            timer.abort();
        }
    }
}
