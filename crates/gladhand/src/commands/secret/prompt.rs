//! Asking for what must not be seen on the screen.

use std::io::{self, Write as _};

use gladhand_core::Secret;

/// Reads a value from the terminal without echo; none if it is empty or the user gives up.
#[cfg(unix)]
pub(super) fn ask(question: &str) -> io::Result<Option<Secret>> {
    use std::io::Read as _;

    // Echo is turned off before the question appears, because the user may type at once.
    let silent = Silent::begin()?;
    let mut stderr = anstream::stderr();
    let _ = stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush());
    let mut line = HiddenInput::default();
    let mut bytes = io::stdin().lock().bytes();
    let entered = loop {
        match bytes.next().transpose()? {
            Some(byte) => match line.take(byte) {
                Typed::More => {}
                Typed::Done => break Some(line),
                Typed::GivenUp => break None,
            },
            None => break Some(line),
        }
    };
    drop(silent);
    let _ = writeln!(stderr);
    let Some(line) = entered.filter(|line| !line.0.is_empty()) else { return Ok(None) };
    let text = std::str::from_utf8(&line.0).map_err(|_| io::Error::other("what was entered is not UTF-8"))?;
    Ok(Some(Secret::new(text)))
}

/// There is no way to hide it here.
#[cfg(not(unix))]
pub(super) fn ask(_question: &str) -> io::Result<Option<Secret>> {
    Err(io::Error::other("a value cannot be hidden on this terminal: pipe it in"))
}

/// A terminal that shows nothing of what is typed, and leaves every key to us. It is set back when this is dropped,
/// which is why Ctrl-C must not end the process meanwhile.
#[cfg(unix)]
struct Silent(rustix::termios::Termios);

#[cfg(unix)]
impl Silent {
    fn begin() -> io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

#[cfg(unix)]
impl Drop for Silent {
    fn drop(&mut self) {
        // An error cannot be reported here.
        let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Drain, &self.0);
    }
}

/// The input so far. Wiped when it is dropped.
#[cfg(unix)]
#[derive(Default)]
struct HiddenInput(zeroize::Zeroizing<Vec<u8>>);

#[cfg(unix)]
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    More,
    Done,
    GivenUp,
}

#[cfg(unix)]
impl HiddenInput {
    fn take(&mut self, byte: u8) -> Typed {
        const CTRL_C: u8 = 3;
        const CTRL_D: u8 = 4;
        const BACKSPACE: [u8; 2] = [8, 127];
        const CTRL_U: u8 = 21;
        match byte {
            b'\n' | b'\r' | CTRL_D => return Typed::Done,
            CTRL_C => return Typed::GivenUp,
            CTRL_U => self.0.clear(),
            byte if BACKSPACE.contains(&byte) => {
                // A letter may have several bytes; only its first one does not begin with 10.
                while self.0.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
            }
            byte => self.0.push(byte),
        }
        Typed::More
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_corrected() {
        let typed = |text: &str| {
            let mut line = HiddenInput::default();
            let ends: Vec<_> = text.bytes().map(|byte| line.take(byte)).filter(|typed| *typed != Typed::More).collect();
            (String::from_utf8(line.0.to_vec()).unwrap(), ends)
        };
        assert_eq!(typed("hush\n"), ("hush".to_owned(), vec![Typed::Done]));
        assert_eq!(typed("hü\u{7f}us\u{8}\u{7f}ush\r").0, "hush");
        assert_eq!(typed("oops\u{15}hush\u{4}").0, "hush");
        assert_eq!(typed("\u{7f}x\u{3}"), ("x".to_owned(), vec![Typed::GivenUp]));
    }
}
