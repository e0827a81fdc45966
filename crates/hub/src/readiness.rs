//! Required upstreams: a server over HTTP reports that it is ready only while each of them is open.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use gladhand_core::sync::Unpoisoned as _;

use crate::hub::Hub;
use crate::routes::Mount;

/// How often to check whether a required upstream has to be opened.
const PERIOD: Duration = Duration::from_secs(1);

impl Hub {
    /// Sets the names of the required upstreams.
    pub fn require(&self, upstreams: Vec<String>) {
        *self.inner.required.write().unpoisoned() = upstreams.into();
    }

    /// The names of required upstreams that are not open now.
    pub fn not_open(&self) -> Vec<String> {
        let required = self.inner.required.read().unpoisoned().clone();
        if required.is_empty() {
            return Vec::new();
        }
        let mounts = self.mounts();
        let is_open = |name: &&String| mounts.iter().any(|mount| mount.upstream() == *name && mount.provider.is_open());
        required.iter().filter(|name| !is_open(name)).cloned().collect()
    }

    /// Opens required upstreams, and opens them again after they ended. Runs until it is dropped. A provider decides how
    /// long it waits after a failure.
    pub async fn keep_required_open(&self) {
        self.keep_open_every(PERIOD).await;
    }

    async fn keep_open_every(&self, period: Duration) {
        let mut opening = FuturesUnordered::new();
        let (mut names, mut not_open) = (HashSet::new(), Vec::new());
        loop {
            let missing = self.not_open();
            self.log_readiness(&not_open, &missing);
            not_open = missing;
            for mount in self.mounts().iter().filter(|mount| not_open.iter().any(|name| name == mount.upstream())) {
                if !names.contains(mount.upstream())
                    && let Some(attempt) = attempt(mount)
                {
                    names.insert(mount.upstream().to_owned());
                    opening.push(attempt);
                }
            }
            let pause = tokio::time::sleep(period);
            let mut pause = std::pin::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    Some(name) = opening.next() => {
                        names.remove(&name);
                        self.log_readiness(&not_open, &self.not_open());
                        not_open = self.not_open();
                    }
                }
            }
        }
    }

    fn log_readiness(&self, before: &[String], now: &[String]) {
        match (before, now) {
            (before, now) if before == now => {}
            (_, []) => tracing::info!("ready: all required upstreams are open"),
            (_, now) => tracing::warn!(upstreams = now.join(","), "not ready: required upstreams are not open"),
        }
    }
}

/// One attempt to open an upstream. Its result is the name.
fn attempt(mount: &Mount) -> Option<impl Future<Output = String> + use<>> {
    let (opened, name) = (mount.provider.open()?, mount.upstream().to_owned());
    Some(async move {
        opened.await;
        name
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use tokio::sync::Notify;

    use crate::{Provider, ServerProvider, Settling};

    use super::*;

    /// An upstream that opens at every second attempt.
    #[derive(Debug, Default)]
    struct Reluctant {
        attempts: Arc<AtomicU64>,
        is_open: Arc<AtomicBool>,
        opened: Arc<Notify>,
    }

    impl Provider for Reluctant {
        fn name(&self) -> &str {
            "files"
        }

        fn as_server(&self) -> Option<&dyn ServerProvider> {
            Some(self)
        }
    }

    impl ServerProvider for Reluctant {
        fn is_open(&self) -> bool {
            self.is_open.load(Ordering::Relaxed)
        }

        fn open(&self) -> Option<Settling> {
            let (attempts, is_open) = (Arc::clone(&self.attempts), Arc::clone(&self.is_open));
            let opened = Arc::clone(&self.opened);
            Some(Box::pin(async move {
                if attempts.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
                    is_open.store(true, Ordering::Relaxed);
                    opened.notify_one();
                }
            }))
        }
    }

    #[tokio::test]
    async fn required_upstreams_are_opened_until_all_are_open_and_opened_again_after_their_end() {
        let provider = Arc::new(Reluctant::default());
        let hub = Hub::of(vec![Mount::plain(Arc::clone(&provider) as _)]);
        assert_eq!(hub.not_open(), Vec::<String>::new());
        hub.require(vec!["files".to_owned(), "removed".to_owned()]);
        assert_eq!(hub.not_open(), ["files", "removed"]);
        let opened_twice = async {
            for attempts in [2, 4] {
                provider.opened.notified().await;
                assert_eq!(provider.attempts.load(Ordering::Relaxed), attempts);
                assert_eq!(hub.not_open(), ["removed"]);
                provider.is_open.store(false, Ordering::Relaxed);
            }
        };
        tokio::select! {
            () = hub.keep_open_every(Duration::from_millis(1)) => unreachable!("it runs until it is dropped"),
            () = opened_twice => {}
        }
    }
}
