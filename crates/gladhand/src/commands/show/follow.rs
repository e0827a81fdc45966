//! `show --follow`: the messages as they are recorded, until Ctrl-C.
//!
//! Sessions are interleaved: each change of the session begins with a headline. If the recorder rotates the file, reading
//! goes on in the new one.

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;

use gladhand_recording::{Entry, EntryKind, NotARecording};
use gladhand_server::signals::{self, Signals};

use super::filter::Filter;
use super::{ShowArgs, draw_line, new_drawing, session_head};
use crate::commands::shared::drawing::{Drawing, headline};
use crate::commands::shared::recordings::{Session, open, parts};
use crate::commands::{CommandError, note, written};
use crate::exit::Exit;
use crate::terminal::text::plain;

/// How long to wait before the file is looked at again.
const PAUSE: Duration = Duration::from_millis(200);

/// How many messages of a session are kept, to name the requests of later answers.
const KEPT: usize = 10_000;

pub(super) fn run(args: &ShowArgs, filter: &Filter) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let mut following = Following::new(args.full);
        let mut parts = parts(&args.file)?;
        let header = parts[0].1.header().clone();
        let title = format!("recording of gladhand {}", plain(&header.version));
        let width = following.drawing.width;
        following.drawing.print(&headline(&title, &header.command.join(" "), width));
        let mut last_part = 0;
        loop {
            for (_, reader) in &mut parts {
                last_part = last_part.max(reader.header().part);
                while let Some((number, entry)) = reader.next_entry()? {
                    following.show(number, entry, filter);
                    if following.drawing.written.is_err() {
                        written(following.drawing.written)?;
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

struct Following {
    drawing: Drawing,
    sessions: HashMap<String, Session>,
    current: Option<String>,
}

impl Following {
    fn new(is_full: bool) -> Self {
        Self { drawing: new_drawing(is_full), sessions: HashMap::new(), current: None }
    }

    fn show(&mut self, number: u64, entry: Result<Entry, NotARecording>, filter: &Filter) {
        let Entry { ms, session, kind } = match entry {
            Ok(entry) => entry,
            Err(why) => return note(&format!("warning: line {number}: {why}")),
        };
        if let EntryKind::Dropped(entries) = kind {
            return note(&format!("warning: {entries} entries were not recorded"));
        }
        let id = session.unwrap_or_default();
        let session = self.sessions.entry(id.clone()).or_insert_with(|| Session::beginning(id.clone(), ms));
        if session.lines.len() >= KEPT {
            session.forget();
        }
        let is_end = matches!(kind, EntryKind::Closed(_));
        let line = session.add(number, ms, kind).and_then(|at| session.lines.get(at));
        let passes = match line {
            Some(line) => filter.passes(session, line),
            None => is_end && !filter.is_partial(),
        };
        let shown = passes && filter.has_session(session);
        if shown {
            if self.current.as_ref() != Some(&id) || is_end {
                let mut text = String::from("\n");
                text.push_str(&session_head(session, self.drawing.width));
                self.drawing.print(&text);
                self.drawing.has_messages = false;
                self.current = Some(id.clone());
            }
            if let Some(line) = line {
                draw_line(&mut self.drawing, line, session.first_ms);
            }
        }
        if is_end {
            self.sessions.remove(&id);
        }
    }
}
