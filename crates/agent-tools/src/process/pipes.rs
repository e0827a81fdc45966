//! What joins us to a program that has no terminal.

use std::io;
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe::{Receiver, Sender, pipe};

use super::starting::Channels;

/// Our ends of the channels of a program.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Sender,
    pub(crate) stdout: Receiver,
    pub(crate) stderr: Receiver,
}

/// Three new pipes: our ends, and those for the program.
pub(crate) fn open() -> io::Result<(Pipes, Channels)> {
    let (stdin, theirs) = pipe()?;
    let (stdout, stderr, channels) = with_input(theirs.into_blocking_fd()?)?;
    Ok((Pipes { stdin, stdout, stderr }, channels))
}

/// The same for a program that has nothing to read. A closed pipe would not do: some look into whatever they are given.
pub(crate) fn open_without_input() -> io::Result<(Receiver, Receiver, Channels)> {
    with_input(std::fs::File::open("/dev/null")?.into())
}

fn with_input(input: OwnedFd) -> io::Result<(Receiver, Receiver, Channels)> {
    let (their_stdout, stdout) = pipe()?;
    let (their_stderr, stderr) = pipe()?;
    // Programs expect to wait.
    let theirs = [input, their_stdout.into_blocking_fd()?, their_stderr.into_blocking_fd()?];
    Ok((stdout, stderr, Channels::Three(theirs)))
}
