//! A terminal as a test sees it: a program runs in it, and the test types and looks at the screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::PATIENCE;

/// Begins the mode in which a terminal marks pasted text. The line editor writes this when it begins to read keys.
pub const MARKS_PASTE: &str = "\u{1b}[?2004h";

/// A terminal with a program in it.
pub struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<String>,
    screen: String,
}

impl Terminal {
    /// One that does not know how wide it is.
    pub fn start(command: Command) -> Self {
        Self::with_columns(0, command)
    }

    pub fn with_columns(columns: u16, mut command: Command) -> Self {
        // Without CLOEXEC the program would hold its own terminal open, and stay after the test has ended.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours: OwnedFd = openpt(flags).expect("a terminal");
        grantpt(&ours).expect("it is ours");
        unlockpt(&ours).expect("it is ours");
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).expect("it is a terminal");
        let name = ptsname(&ours, Vec::new()).expect("it has a name").into_string().expect("UTF-8");
        let side = || File::options().read(true).write(true).open(&name).expect("its other side");
        command.stdin(side()).stdout(side()).stderr(side());
        let child = command.spawn().expect("it starts");
        let mut ours = File::from(ours);
        let keys = ours.try_clone().expect("a second handle");
        let (sender, shown) = channel();
        // Its other side is kept open, so that the terminal does not hang up before everything is read.
        let theirs = side();
        std::thread::spawn(move || {
            let (_theirs, mut buffer) = (theirs, [0; 4096]);
            while let Ok(count) = ours.read(&mut buffer) {
                if sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, shown, screen: String::new() }
    }

    /// Waits until this is seen; what was seen up to there, and is not looked at again.
    pub fn until(&mut self, end: &str) -> String {
        // A program that redraws its screen for ever ends no wait for more of it.
        let deadline = Instant::now() + 3 * PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "{end:?} does not come: {}", self.screen);
            if let Some(found) = self.screen.find(end) {
                let rest = self.screen.split_off(found + end.len());
                return std::mem::replace(&mut self.screen, rest);
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(shown) => self.screen.push_str(&shown),
                Err(error) => panic!("waited for {end:?}, {error}: {}", self.screen),
            }
        }
    }

    /// Waits until the line editor of a chat reads keys behind its prompt. A prompt that is shown before that is not enough:
    /// until the editor runs, the terminal edits and echoes lines itself.
    pub fn prompt(&mut self) -> String {
        let seen = self.until(MARKS_PASTE);
        seen + &self.until("› ")
    }

    /// Makes it so wide from here on.
    pub fn resize(&self, columns: u16) {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keys, size).expect("it is a terminal");
    }

    pub fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).expect("it reads");
    }

    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it runs");
    }

    /// Whether the terminal edits lines itself and shows what is typed, as a shell wants to find it.
    pub fn is_usual(&self) -> bool {
        let modes = tcgetattr(&self.keys).expect("it is a terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits for the end of the program, and keeps the terminal.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    /// Everything on the screen until the program ends. Output is read while it runs, so that it never blocks.
    pub fn all(mut self) -> String {
        let begun = Instant::now();
        while self.child.try_wait().expect("it is our child").is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end: {}", self.screen);
            if let Ok(shown) = self.shown.recv_timeout(Duration::from_millis(20)) {
                self.screen.push_str(&shown);
            }
        }
        // The reader sends what is left within a moment, and then waits for more that never comes.
        while let Ok(shown) = self.shown.recv_timeout(Duration::from_millis(200)) {
            self.screen.push_str(&shown);
        }
        std::mem::take(&mut self.screen)
    }

    /// How it ends.
    pub fn ends(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a test that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
