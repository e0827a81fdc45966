//! Progress and log messages about a parked call, kept until its caller sends the request again.
//!
//! A server of the handshake era may continue a call while its question is open. The request of the call has its response by
//! then, so no exchange can carry a notice. The notices go out with the caller's next request. Each call has a bound on their
//! number and size, and all sides of a process share a storage. The oldest notices are dropped first, because a progress
//! report supersedes those before it.

use std::collections::VecDeque;

use gladhand_core::operations::{Level, Notice};

use crate::ambient::Party;
use crate::storage::{Reservation, Storage};

/// How many notices are kept for one call.
const MAX_NOTICES: usize = 64;

/// How many bytes of notices are kept for one call.
const MAX_BYTES: usize = 16 * 1024;

/// The size of a notice without its text.
const OVERHEAD: usize = 64;

/// The notices about one parked call.
#[derive(Debug)]
pub(super) struct KeptNotices {
    /// Whether the request that was answered last asked for progress.
    wants_progress: bool,
    /// The level from which that request asked for log messages.
    log_level: Option<Level>,
    /// The oldest first, each with its size.
    notices: VecDeque<(Notice, usize)>,
    bytes: usize,
    /// The part of the storage that they take, once there are any.
    reservation: Option<Box<dyn Reservation>>,
}

impl KeptNotices {
    pub(super) fn new(wants_progress: bool, log_level: Option<Level>) -> Self {
        Self { wants_progress, log_level, notices: VecDeque::new(), bytes: 0, reservation: None }
    }

    /// Keeps a notice, if the caller asked for such notices and there is room.
    pub(super) fn push(&mut self, notice: Notice, storage: &dyn Storage, party: Option<Party>) {
        let Some(bytes) = self.wanted(&notice).filter(|bytes| *bytes <= MAX_BYTES) else { return };
        let reservation = self.reservation.get_or_insert_with(|| storage.reserve(party));
        loop {
            let fits = self.notices.len() < MAX_NOTICES && self.bytes + bytes <= MAX_BYTES;
            if fits && reservation.resize(self.bytes + bytes) {
                self.bytes += bytes;
                self.notices.push_back((notice, bytes));
                return;
            }
            let Some((_, dropped)) = self.notices.pop_front() else { break };
            self.bytes -= dropped;
        }
        // Fewer bytes than before always have room.
        reservation.resize(self.bytes);
    }

    /// The size of a notice, if it is one that the caller asked for.
    fn wanted(&self, notice: &Notice) -> Option<usize> {
        match notice {
            Notice::Progress(_, progress) if self.wants_progress => {
                Some(OVERHEAD + progress.message.as_ref().map_or(0, String::len))
            }
            Notice::Log(_, log) if self.log_level.is_some_and(|wanted| log.level >= wanted) => {
                Some(OVERHEAD + log.logger.as_ref().map_or(0, String::len) + log.data.get().len())
            }
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The notices in the order in which they came.
    pub(super) fn into_notices(self) -> impl Iterator<Item = Notice> {
        self.notices.into_iter().map(|(notice, _)| notice)
    }
}
