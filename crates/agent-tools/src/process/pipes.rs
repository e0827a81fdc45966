//! Pipes to a program without a terminal.

use std::io;
use std::os::fd::OwnedFd;

use gladhand_process::starting::Channels;
use tokio::net::unix::pipe::{Receiver, Sender, pipe};

/// Our ends of the channels of a program.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Sender,
    pub(crate) stdout: Receiver,
    pub(crate) stderr: Receiver,
}

/// Opens three pipes: our ends, and those for the program.
pub(crate) fn open() -> io::Result<(Pipes, Channels)> {
    let (stdin, theirs) = pipe()?;
    let (stdout, stderr, channels) = with_input(theirs.into_blocking_fd()?)?;
    Ok((Pipes { stdin, stdout, stderr }, channels))
}

/// The same for a program without input. It gets `/dev/null`, because some programs inspect their stdin and would not
/// accept a closed pipe.
pub(crate) fn open_without_input() -> io::Result<(Receiver, Receiver, Channels)> {
    with_input(std::fs::File::open("/dev/null")?.into())
}

fn with_input(input: OwnedFd) -> io::Result<(Receiver, Receiver, Channels)> {
    let (their_stdout, stdout) = pipe()?;
    let (their_stderr, stderr) = pipe()?;
    // Programs expect blocking pipes.
    let theirs = [input, their_stdout.into_blocking_fd()?, their_stderr.into_blocking_fd()?];
    Ok((stdout, stderr, Channels::Three(theirs)))
}
