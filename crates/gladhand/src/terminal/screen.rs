//! The alternate screen of a terminal, for pictures that replace each other.
//!
//! The terminal is restored when the value is dropped: at the end, after a signal, and when a panic unwinds.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::layout::columns;

/// Begins the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";

/// Undoes [`ENTER`].
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The alternate screen of a terminal, until this is dropped.
#[derive(Debug)]
pub(crate) struct Screen {
    output: File,
    /// The terminal of the keys with its modes from before, if keys are read.
    keys: Option<(OwnedFd, Termios)>,
}

impl Screen {
    /// Begins a screen on stdout.
    pub(crate) fn enter() -> io::Result<Self> {
        Self::on(io::stdout().as_fd().try_clone_to_owned()?, None)
    }

    /// The same, and lets single keys be read from stdin without showing them. Ctrl-C still is a signal.
    pub(crate) fn enter_with_keys() -> io::Result<Self> {
        Self::on(io::stdout().as_fd().try_clone_to_owned()?, Some(io::stdin().as_fd().try_clone_to_owned()?))
    }

    fn on(output: OwnedFd, keys: Option<OwnedFd>) -> io::Result<Self> {
        let before = keys.map(|keys| tcgetattr(&keys).map(|before| (keys, before))).transpose()?;
        // From here on, every end restores the terminal.
        let mut screen = Self { output: output.into(), keys: before };
        if let Some((keys, before)) = &screen.keys {
            let mut modes = before.clone();
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(keys, OptionalActions::Now, &modes)?;
        }
        screen.output.write_all(ENTER.as_bytes())?;
        Ok(screen)
    }

    /// Replaces what is shown, in place. Lines that do not fit are counted in the last one.
    pub(crate) fn draw(&mut self, text: &str, rows: usize) -> io::Result<()> {
        self.output.write_all(frame(text, rows).as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = self.output.write_all(LEAVE.as_bytes());
        if let Some((keys, before)) = &self.keys {
            let _ = tcsetattr(keys, OptionalActions::Now, before);
        }
    }
}

/// The bytes that replace what a terminal of so many rows shows. The rest of each row is cleared after its text, so that
/// the picture does not flicker. No line break follows the last row: it would scroll.
fn frame(text: &str, rows: usize) -> String {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    if lines.len() > rows {
        let hidden = lines.split_off(rows.saturating_sub(1)).len();
        let what = if hidden == 1 { "more line" } else { "more lines" };
        lines.push(format!("… {hidden} {what}"));
    }
    format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"))
}

/// Text in exactly so many columns: cut with a mark, or followed by blanks.
pub(crate) fn cell(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let blanks = " ".repeat(width.saturating_sub(columns(&text)));
    text + &blanks
}

/// Text in at most so many columns. What is cut off is replaced by a mark.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    for c in text.chars() {
        shown.push(c);
        if columns(&shown) >= width {
            shown.pop();
            break;
        }
    }
    shown.push('…');
    if width == 0 { String::new() } else { shown }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    #[test]
    fn a_panic_restores_the_terminal() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let side = || OwnedFd::from(File::options().read(true).write(true).open(&name).unwrap());
        let modes = || tcgetattr(&ours).unwrap().local_modes;
        let before = modes();
        let (output, keys) = (side(), side());
        let panicked = std::panic::catch_unwind(|| {
            let _screen = Screen::on(output, Some(keys)).unwrap();
            assert!(!modes().intersects(LocalModes::ICANON | LocalModes::ECHO) && modes().contains(LocalModes::ISIG));
            panic!("while the screen is shown");
        });
        assert!(panicked.is_err());
        assert_eq!(modes(), before);
        let mut shown = vec![0; ENTER.len() + LEAVE.len()];
        File::from(ours).read_exact(&mut shown).unwrap();
        assert_eq!(shown, format!("{ENTER}{LEAVE}").as_bytes());
    }

    #[test]
    fn a_picture_never_scrolls_the_terminal() {
        assert_eq!(frame("a\nb\n", 2), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
        assert_eq!(frame("a\nb\nc\n", 2), "\x1b[Ha\x1b[K\r\n… 2 more lines\x1b[K\x1b[J");
        assert_eq!(frame("a\n", 0), "\x1b[H… 1 more line\x1b[K\x1b[J");
    }

    #[test]
    fn a_cell_has_exactly_its_columns() {
        for (text, shown) in [("ab", "ab   "), ("abcde", "abcde"), ("abcdef", "abcd…"), ("日本語日", "日本…")]
        {
            let cell = cell(text, 5);
            assert_eq!((cell.as_str(), columns(&cell)), (shown, 5), "{text}");
        }
        assert_eq!(cell("ab", 0), "");
    }
}
