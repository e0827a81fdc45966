//! A line that says that something is going on, and leaves no trace.
//!
//! Text that the user types meanwhile stands behind it, until they press Enter or other output is shown.

use std::io;
use std::time::Duration;

use anstyle::Style;
use tokio::time::Instant;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::pane::Pane;

const DIM: Style = Style::new().dimmed();
/// Goes to the beginning of the line and clears it.
const CLEAR: &str = "\r\x1b[K";
/// Room for how long it takes, so that nothing behind it moves.
const SECONDS: usize = 6;

/// The current activity.
#[derive(Debug)]
pub(super) struct Status {
    what: String,
    since: Instant,
    /// How many lines were typed meanwhile.
    waiting: usize,
    /// How wide it is on the screen, if it is there.
    drawn: Option<usize>,
}

impl Status {
    /// An activity begins, and this many lines wait for its end.
    pub(super) fn begin(what: &str, waiting: usize) -> Self {
        Self { what: what.to_owned(), since: Instant::now(), waiting, drawn: None }
    }

    /// Ends when there is another second to be shown.
    pub(super) async fn second(&self) {
        let next = self.since.elapsed().as_secs() + 1;
        tokio::time::sleep_until(self.since + Duration::from_secs(next)).await;
    }

    /// Shows how it is now. The cursor is at the beginning of a line, or behind what was shown before.
    pub(super) fn draw(&mut self, pane: &mut Pane) -> io::Result<()> {
        let text = self.text(pane.width());
        let (style, width) = (pane.style(DIM), text.width());
        match self.drawn.replace(width) {
            // The cursor goes back to what a person is typing behind it.
            Some(before) if before == width => pane.sketch(&format!("\x1b7\r{style}{text}{style:#}\x1b8")),
            _ => pane.sketch(&format!("{CLEAR}{style}{text}{style:#}")),
        }
    }

    /// Takes it from the screen.
    pub(super) fn erase(&mut self, pane: &mut Pane) -> io::Result<()> {
        if self.drawn.take().is_some() { pane.sketch(CLEAR) } else { Ok(()) }
    }

    /// A person has typed a line behind it, and so many wait now. The line is shown again when its turn comes.
    pub(super) fn typed(&mut self, line: &str, waiting: usize, pane: &mut Pane) -> io::Result<()> {
        self.waiting = waiting;
        let Some(drawn) = self.drawn.take() else { return Ok(()) };
        let rows = pane.width().map_or(1, |width| (drawn + line.width()).div_ceil(width).max(1));
        pane.sketch(&format!("\x1b[{rows}A\r\x1b[J"))?;
        self.draw(pane)
    }

    fn text(&self, width: Option<usize>) -> String {
        let seconds = self.since.elapsed().as_secs();
        let seconds = if seconds == 0 { String::new() } else { format!("{seconds} s") };
        let more = if self.waiting == 0 { String::new() } else { format!(", then {} more", self.waiting) };
        let mut room = width.map_or(usize::MAX, |width| width.saturating_sub(more.width() + SECONDS + 3));
        let fits = |c: &char| {
            let wide = c.width().unwrap_or_default();
            let fits = wide <= room;
            room = if fits { room - wide } else { 0 };
            fits
        };
        let what: String = self.what.chars().take_while(fits).collect();
        format!("{what}{more}… {seconds:SECONDS$}")
    }
}
