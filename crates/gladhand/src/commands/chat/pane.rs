//! One of our two outputs.

use std::io::{self, Write};

use anstyle::Style;

use super::ink::Ink;
use crate::terminal::layout;

/// An output, and where its cursor is.
pub(super) struct Pane {
    to: Box<dyn Write + Send>,
    pub(super) is_terminal: bool,
    pub(super) is_styled: bool,
    /// Whether the cursor is at the beginning of a line.
    pub(super) is_fresh: bool,
}

impl Pane {
    /// Around stdout or stderr.
    pub(super) fn new(to: impl Write + Send + 'static, is_terminal: bool, colours: anstream::ColorChoice) -> Self {
        let is_styled = is_terminal && colours != anstream::ColorChoice::Never;
        Self { to: Box::new(to), is_terminal, is_styled, is_fresh: true }
    }

    /// How wide its lines may be, as far as they may not be as wide as they are.
    pub(super) fn width(&self) -> Option<usize> {
        if self.is_terminal { layout::terminal_width() } else { None }
    }

    /// A style, where there are styles.
    pub(super) fn style(&self, style: Style) -> Style {
        if self.is_styled { style } else { Style::new() }
    }

    /// Writes text as it is.
    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.is_fresh = text.ends_with('\n');
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }

    /// Writes text in a style.
    pub(super) fn write_in(&mut self, style: Style, text: &str) -> io::Result<()> {
        let style = self.style(style);
        self.write(&format!("{style}{text}{style:#}"))
    }

    /// Writes whole lines of text in styles, broken between words on a terminal. Lines that go on begin so far to the
    /// right, or where the first one does.
    pub(super) fn write_lines(&mut self, pieces: &[(Style, &str)], indent: usize) -> io::Result<()> {
        let mut ink = Ink::default();
        ink.fit(self.width());
        for (style, text) in pieces {
            for line in text.split_inclusive('\n') {
                let own = line.len() - line.trim_start_matches(' ').len();
                ink.hang(&" ".repeat(own.max(indent)), Style::new());
                ink.put(line, self.style(*style));
            }
        }
        let text = ink.finish();
        self.write(&text)?;
        self.refresh()
    }

    /// Goes to the beginning of a line.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
        if self.is_fresh { Ok(()) } else { self.write("\n") }
    }

    /// Writes what leaves the cursor in the line where it is.
    pub(super) fn sketch(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }
}
