//! Renders notices.

use gladhand_core::operations::{Log, Progress};
use gladhand_core::wire::json::{self, RawValue};
use gladhand_core::wire::rpc;
use gladhand_core::wire::{FrameKind, Frames};

use super::super::revision::Revision;
use super::{member, text_member};

pub(in super::super) fn progress(wire: &mut Frames, token: &RawValue, progress: &Progress, revision: Revision) {
    wire.begin(FrameKind::Notice);
    wire.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#);
    wire.extend_from_slice(token.get().as_bytes());
    wire.extend_from_slice(br#","progress":"#);
    number(wire, progress.progress);
    if let Some(total) = progress.total.filter(|total| total.is_finite()) {
        wire.extend_from_slice(br#","total":"#);
        number(wire, total);
    }
    text_member(wire, "message", progress.message.as_deref().filter(|_| revision.has_progress_message()));
    wire.push(b'}');
    rpc::finish(wire);
}

/// A number without an unnecessary fraction: `1` instead of `1.0`.
fn number(wire: &mut Vec<u8>, number: f64) {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        json::write(wire, &(number as i64));
    } else {
        json::write(wire, &number);
    }
}

pub(in super::super) fn message(wire: &mut Frames, log: &Log) {
    wire.begin(FrameKind::Notice);
    wire.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"#);
    json::write(wire, log.level.word());
    text_member(wire, "logger", log.logger.as_deref());
    member(wire, "data", &log.data);
    wire.push(b'}');
    rpc::finish(wire);
}
