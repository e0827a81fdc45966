//! Batches, which only 2025-03-26 has: several messages in one array, and their answers in one array.
//!
//! A batch is split on arrival. Its answers are collected and written as one line when its last call has ended. A batch
//! without requests gets no answer.

use std::collections::HashMap;

use gladhand_core::wire::RawValue;
use gladhand_core::wire::rpc::Envelope;
use gladhand_core::wire::{FrameKind, Frames};

use super::errors;
use super::incoming_requests::ReplyRoute;
use super::message::Call;
use super::server::McpServer;
use super::tasks::MAX_KEPT;
use crate::ambient::Ambient;
use crate::side::{Lane, Output};
use crate::storage::Reservation;

/// Maximum number of messages in a batch.
pub(super) const MAX_BATCH: usize = 1024;

/// A batch reserves storage only if its answers exceed this many bytes.
const SMALL: usize = 4096;

/// Identifies a batch whose answers are being collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BatchId(u64);

/// All unanswered batches. Each has at least one call in flight, which limits their number.
#[derive(Debug, Default)]
pub(super) struct Batches {
    open: HashMap<BatchId, Collected>,
    next: u64,
    held: usize,
}

#[derive(Debug)]
struct Collected {
    /// The exchange of the batch.
    lane: Lane,
    /// `{…},{…},` without the brackets.
    answers: Vec<u8>,
    /// The number of calls in flight, plus one while the batch is still being split.
    outstanding: usize,
    /// The storage that its answers use.
    reservation: Box<dyn Reservation>,
}

impl Batches {
    fn begin(&mut self, lane: Lane, reservation: Box<dyn Reservation>) -> BatchId {
        self.next += 1;
        let id = BatchId(self.next);
        self.open.insert(id, Collected { lane, answers: Vec::new(), outstanding: 1, reservation });
        id
    }

    /// Adds a call that must end before the batch is answered.
    pub(super) fn expect(&mut self, id: BatchId) {
        if let Some(batch) = self.open.get_mut(&id) {
            batch.outstanding += 1;
        }
    }

    /// Adds an answer, which `write` writes as a line.
    fn add(&mut self, id: BatchId, write: impl FnOnce(&mut Frames)) {
        if let Some(batch) = self.open.get_mut(&id) {
            let before = batch.answers.len();
            let mut answer = Frames::onto(std::mem::take(&mut batch.answers));
            write(&mut answer);
            batch.answers = answer.into_bytes();
            if batch.answers.last() == Some(&b'\n') {
                batch.answers.pop();
            }
            batch.answers.push(b',');
            self.held += batch.answers.len() - before;
        }
    }

    /// Writes an answer to its lane or its batch.
    pub(super) fn answer(&mut self, route: ReplyRoute, out: &mut Output<'_>, write: impl FnOnce(&mut Frames)) {
        match route.batch {
            None => {
                out.go(route.lane);
                write(&mut out.wire);
            }
            Some(batch) => self.add(batch, write),
        }
    }

    /// Writes an answer of any size to its lane or its batch. If its batch has no room, writes nothing and returns
    /// `false`.
    pub(super) fn try_answer(
        &mut self,
        route: ReplyRoute,
        out: &mut Output<'_>,
        write: impl FnOnce(&mut Frames),
    ) -> bool {
        let before = self.held;
        self.answer(route, out, write);
        let Some(batch) = route.batch.and_then(|id| self.open.get_mut(&id)) else { return true };
        let length = batch.answers.len();
        if self.held <= MAX_KEPT && (length <= SMALL || batch.reservation.resize(length)) {
            return true;
        }
        batch.answers.truncate(length - (self.held - before));
        self.held = before;
        false
    }

    /// The number of bytes of collected answers.
    pub(super) fn held_bytes(&self) -> usize {
        self.held
    }

    /// A call of the batch has ended, with or without an answer. The last call sends the batch.
    pub(super) fn settle(&mut self, id: BatchId, out: &mut Output<'_>) {
        let Some(batch) = self.open.get_mut(&id) else { return };
        batch.outstanding -= 1;
        if batch.outstanding > 0 {
            return;
        }
        let Some(mut batch) = self.open.remove(&id) else { return };
        self.held -= batch.answers.len();
        if batch.answers.pop().is_some() {
            out.go(batch.lane);
            out.wire.begin(FrameKind::Batch);
            out.wire.push(b'[');
            out.wire.extend_from_slice(&batch.answers);
            out.wire.push(b']');
            out.wire.end();
        }
    }
}

impl McpServer {
    /// Processes an array.
    pub(super) fn receive_batch<'a>(
        &mut self,
        parts: &Result<Vec<&'a RawValue>, serde_json::Error>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'a>,
    ) {
        let refused = match parts {
            Err(error) => errors::unreadable(&error.into()),
            Ok(_) if !self.has_batches() => {
                errors::invalid_request("batches are not part of the protocol version in force")
            }
            Ok(parts) if parts.is_empty() => errors::invalid_request("an empty batch asks for nothing"),
            Ok(parts) if parts.len() > MAX_BATCH => errors::invalid_request("the batch holds more than 1024 messages"),
            Ok(parts) => match kinds(parts) {
                (true, true) => errors::invalid_request("a batch holds either requests or responses, not both"),
                (_, false) => {
                    let route = ReplyRoute { lane: ambient.lane, batch: None };
                    return parts.iter().for_each(|part| self.part(part, route, ambient, out));
                }
                (false, true) => {
                    let batch = self.batches.begin(ambient.lane, self.setup.storage.reserve(ambient.party));
                    let route = ReplyRoute { lane: ambient.lane, batch: Some(batch) };
                    for part in parts {
                        self.part(part, route, ambient, out);
                    }
                    self.batches.settle(batch, out);
                    return;
                }
            },
        };
        self.refuse_unread(ReplyRoute { lane: ambient.lane, batch: None }, &refused, out);
    }

    fn part<'a>(&mut self, part: &'a RawValue, route: ReplyRoute, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        self.message(&Call::read(part.get()), route, ambient, out);
    }
}

/// Whether the parts contain responses, and whether they contain other messages.
fn kinds(parts: &[&RawValue]) -> (bool, bool) {
    let is_response = |part: &&RawValue| {
        Envelope::parse(part.get())
            .is_ok_and(|part| part.method.is_none() && (part.result.is_some() || part.error.is_some()))
    };
    let responses = parts.iter().filter(|part| is_response(part)).count();
    (responses > 0, responses < parts.len())
}
