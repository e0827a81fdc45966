//! Open files: raises the limit of this process, and divides the files among those who need them.
//!
//! Every connection of a client, every request to an HTTP upstream and every channel of a child is an open file. Without
//! a division, one client with many connections or slow calls could take the files that others and we ourselves need.
//! The parts are bounds; parties share each of them by its own rule.

use std::sync::OnceLock;

/// Open files of one child: three channels, the socket to its leash, and the leash itself.
const FILES_OF_CHILD: usize = 5;

/// The most requests to HTTP upstreams at once, however many files there are.
const MAX_EXCHANGES: usize = 4096;

/// The most children that clients may cause, however many files there are.
const MAX_CHILDREN: usize = 1024;

/// The parts of the open files of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// Connections of clients.
    pub connections: usize,
    /// Requests to HTTP upstreams. To be fair to late parties, there may be twice as many.
    pub exchanges: usize,
    /// Children that clients cause.
    pub children: usize,
}

impl OpenFiles {
    /// Divides this many files.
    pub fn of(files: usize) -> Self {
        let exchanges = (files / 8).clamp(4, MAX_EXCHANGES);
        let children = (files / 32).clamp(4, MAX_CHILDREN);
        // The database, logs, listeners, the control socket, and upstreams that run all the time.
        let own = (files / 16).clamp(32, 1024);
        let others = 2 * exchanges + FILES_OF_CHILD * children + own;
        Self { connections: files.saturating_sub(others).max(1), exchanges, children }
    }

    /// The parts of the files that this process may have open.
    pub fn now() -> Self {
        Self::of(limit())
    }

    /// How many of `most` separate connections to upstreams fit.
    pub fn upstream_connections(self, most: usize) -> usize {
        most.min(self.children / 2).max(1)
    }

    /// How many of `most` processes of A2E fit, or of programs that are environments.
    pub fn processes(self, most: usize) -> usize {
        most.min(self.children / 4).max(1)
    }
}

/// The limit before it was raised.
static BEFORE: OnceLock<u64> = OnceLock::new();

/// Raises the limit to the maximum: the default is meant for programs without clients. Call it before the files
/// are divided.
pub fn raise() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
            Ok(()) => drop(limit.current.map(|before| BEFORE.set(before))),
            Err(error) => {
                tracing::debug!(%error, limit = ?limit.current, "the number of open files stays as it is");
            }
        }
    }
}

/// The limit for children, if it is another than ours: some programs misbehave with a high one.
#[cfg(unix)]
pub(crate) fn limit_of_children() -> Option<u64> {
    BEFORE.get().copied()
}

/// How many files this process may have open.
fn limit() -> usize {
    #[cfg(unix)]
    {
        let open = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        open.and_then(|open| usize::try_from(open).ok()).unwrap_or(usize::MAX)
    }
    #[cfg(not(unix))]
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_fit_into_the_open_files_and_some_are_left() {
        for files in [256, 1024, 4096, 20_000, 1 << 20] {
            let parts = OpenFiles::of(files);
            let children = parts.upstream_connections(256) + parts.processes(64) + parts.processes(256);
            let used = parts.connections + 2 * parts.exchanges + FILES_OF_CHILD * children;
            assert!(used + 32 <= files, "{files}: {parts:?}");
            assert!(parts.connections >= files / 3 && parts.exchanges >= 32 && parts.children >= 8, "{parts:?}");
        }
        let parts = OpenFiles::of(usize::MAX);
        assert_eq!((parts.upstream_connections(256), parts.processes(64), parts.exchanges), (256, 64, MAX_EXCHANGES));
    }
}
