//! An upstream that does not read its input: calls that wait, lines that are counted and taken back, and the end of a
//! session that is lost.

use std::collections::VecDeque;
use std::ops::Range;

use gladhand_core::operations::{CallId, Failure, FailureKind};
use gladhand_core::wire::{FrameKind, Frames};
use gladhand_dialects::Heard;
use gladhand_process::child::Manner;
use tokio::time::Instant;

use super::super::process_end;
use super::super::unsent_budget::Origin;
use super::{Command, Driver, Lost};

impl Driver {
    /// Ends the session if it is lost: every pending call fails.
    pub(super) fn conclude(&mut self) {
        let Some(Lost { why, is_deaf }) = self.lost.take() else { return };
        let waiting = self.backlog.drain(..).filter(|_| is_deaf).map(|waiting| waiting.reply);
        for reply in self.calls.drain().map(|(_, pending)| pending.reply).chain(waiting) {
            let _ = reply.send(Err(Failure::new(FailureKind::UpstreamLost, why.clone())));
        }
        if is_deaf {
            self.manner = Manner::Hurried;
        }
        self.is_gone = true;
        self.step(|client, clock, heard| client.handle_disconnect(&mut clock.ambient(), heard));
    }

    /// When the upstream counts as lost, if it takes no byte of a full buffer until then.
    pub(super) fn stalls_at(&self) -> Option<Instant> {
        Some(self.transport.full_since()? + self.call_timeout?)
    }

    /// The upstream does not read its input. Its process may hang for ever, so the next call starts another.
    pub(super) fn stalled(&mut self) {
        let (name, seconds) =
            (process_end::named(self.name.as_deref()), self.call_timeout.unwrap_or_default().as_secs_f32());
        let why = format!("{name} stopped reading its input: it took nothing for {seconds} s");
        tracing::warn!(upstream = self.name, "session ended: the upstream stopped reading its input");
        self.lost = Some(Lost { why, is_deaf: true });
    }

    /// Cancels a call. If the upstream has read nothing of it, the line is taken back.
    pub(super) fn cancel(&mut self, call: CallId) {
        let unsent = self.unsent.take_back(call);
        if unsent.is_some_and(|lines| self.transport.take_back(lines)) {
            self.withdraw(call);
        } else {
            self.step(|client, clock, heard| client.cancel(call, &mut clock.ambient(), heard));
        }
    }

    /// Cancels a call of which the upstream does not know, so that it needs no notification.
    pub(super) fn withdraw(&mut self, call: CallId) {
        let mut heard = Heard::default();
        self.client.cancel(call, &mut self.clock.ambient(), &mut heard);
        if heard.wire.frames().iter().all(|frame| frame.kind == FrameKind::Notice) {
            heard.wire.clear();
            heard.wire.forget_frames();
        }
        self.perform(heard);
    }

    /// Counts lines that the upstream does not read at once.
    pub(super) fn count_unsent(&mut self, bytes: Range<u64>, lines: &Frames) {
        let are_answers = lines.frames().iter().all(|frame| frame.kind.is_answer());
        let origin = if self.origin == Origin::Answer && !are_answers { Origin::Other } else { self.origin };
        self.unsent.add(bytes, origin, self.party);
        if self.unsent.has_too_many_answers() && self.lost.is_none() {
            let why = format!("{} does not read the answers to its requests", process_end::named(self.name.as_deref()));
            tracing::warn!(
                upstream = self.name,
                "session ended: the upstream does not read the answers to its requests"
            );
            self.lost = Some(Lost { why, is_deaf: true });
        }
    }

    /// Fails the calls that were not sent in time.
    pub(super) fn expire_backlog(&mut self, now: Instant) {
        let is_late = |waiting: &Command| waiting.expires.is_some_and(|expires| expires <= now);
        if self.backlog.iter().any(is_late) {
            let (late, waiting): (VecDeque<_>, _) = self.backlog.drain(..).partition(is_late);
            self.backlog = waiting;
            for Command { reply, .. } in late {
                let _ = reply.send(Err(process_end::unsent(self.name.as_deref())));
            }
        }
    }

    /// Stops counting the lines that the upstream has read.
    pub(super) fn settle_unsent(&mut self) {
        if !self.unsent.is_empty() {
            let behind = self.transport.behind();
            self.unsent.taken(behind.as_ref().map_or(0, |behind| behind.start), behind.is_some());
        }
    }
}
