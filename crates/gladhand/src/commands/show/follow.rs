//! `show --follow`: the messages as they are recorded, until Ctrl-C.
//!
//! If the recorder rotates the file, reading goes on in the new one.

use std::process::ExitCode;
use std::time::Duration;

use gladhand_server::signals::{self, Signals};

use super::ShowArgs;
use crate::commands::CommandError;
use crate::commands::shared::recordings::{open, parts};
use crate::commands::shared::runtime::wait_for;
use crate::commands::shared::session_drawing::LiveDrawing;
use crate::exit::Exit;
use crate::terminal::text::plain;

/// How long to wait before the file is looked at again.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) fn run(args: &ShowArgs) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    wait_for(&runtime, async {
        let mut signals = Signals::listen()?;
        let mut following = LiveDrawing::new(args.full);
        let mut parts = parts(&args.file)?;
        let header = parts[0].1.header().clone();
        let title = format!("recording of gladhand {}", plain(&header.version));
        following.headline(&title, &header.command);
        let mut last_part = 0;
        loop {
            for (_, reader) in &mut parts {
                last_part = last_part.max(reader.header().part);
                while let Some((number, entry)) = reader.next_entry()? {
                    following.show(number, entry, &args.filter);
                    if following.is_unread()? {
                        return Ok(Exit::Success.into());
                    }
                }
            }
            // Earlier parts are complete. The last one is continued by a part with a higher number.
            parts.drain(..parts.len() - 1);
            tokio::select! {
                stop = signals.next() => return Ok(signals::exit_status(stop).into()),
                () = tokio::time::sleep(PAUSE) => {}
            }
            // Between two parts the file may be absent for a moment.
            if let Ok(reader) = open(&args.file)
                && reader.header().started_ms == header.started_ms
                && reader.header().part > last_part
            {
                parts.push((args.file.clone(), reader));
            }
        }
    })
}
