//! Exit codes: one table, for all commands. `docs/stability.md` shows it to users.

use std::process::ExitCode;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done. For `open`: a session opened.
    Success = 0,
    /// Something outside failed: a file, a pipe, the operating system.
    Failure = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The peer and we have nothing in common: it answered, and there is no session.
    Refused = 3,
    /// The peer could not be started, went away, was silent, or broke its protocol.
    PeerFailed = 4,
    /// The peer answered, and the call did not succeed: the tool says so, or the server does.
    CallFailed = 5,
}

impl Exit {
    /// All codes with what they mean, for the docs and their test.
    pub const TABLE: [(Self, &'static str); 6] = [
        (Self::Success, "done; for `open`: a session opened"),
        (Self::Failure, "something outside failed: a file, a pipe, the operating system"),
        (Self::Usage, "the command line or the configuration is wrong"),
        (Self::Refused, "the peer answered, and there is no session"),
        (Self::PeerFailed, "the peer could not be started, went away, was silent, or broke its protocol"),
        (
            Self::CallFailed,
            "for `call` and its like: the tool reports a failure, or the server answered with an error; for `replay`: messages differ; for `check`: a rule is broken",
        ),
    ];

    /// The `code` of an error under `--json` that has no word of its own.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Usage => "usage",
            Self::Refused => "refused",
            Self::PeerFailed => "peer_failed",
            Self::CallFailed => "call_failed",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
