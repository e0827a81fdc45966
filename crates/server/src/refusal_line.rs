//! Refuses a client on standard input: the response to its first line says why it cannot be served. Many clients never
//! show stderr.

use std::io;
use std::time::Duration;

use gladhand_core::wire::{Frames, Lines};
use gladhand_dialects::Door;

use crate::stdio::{Input, Output};
use gladhand_session::clock::Clock;

/// How long to wait for the first line.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Responds to the first line that expects a response, if it arrives in time.
pub fn send(door: &Door, clock: Clock, why: &str) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = runtime.block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, answer(door, clock, why)).await });
    // A thread may be blocked in a read whose result is not needed.
    runtime.shutdown_background();
    told.unwrap_or(Ok(()))
}

async fn answer(door: &Door, mut clock: Clock, why: &str) -> io::Result<()> {
    let (mut input, mut output) = (Input::stdin()?, Output::stdout()?);
    let (mut lines, mut wire) = (Lines::with_limit(gladhand_core::wire::lines::MAX_LINE), Frames::default());
    while wire.is_empty() {
        if let Some(line) = lines.next_line() {
            door.refuse(line, why, &mut clock.ambient(), &mut wire);
        } else if input.read(lines.spare(0)).await? == 0 {
            return Ok(());
        }
    }
    let mut rest = wire.as_slice();
    while !rest.is_empty() {
        output.writable().await?;
        rest = &rest[output.write(rest)?..];
    }
    Ok(())
}
