//! The kinds of runs.

use std::fmt;

use super::process::Streams;
use super::request::{Era, Payload};

/// One kind of run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) way: Way,
    pub(crate) payload: Payload,
    pub(crate) era: Era,
    pub(crate) pace: Pace,
    pub(crate) cores: Cores,
}

/// How calls reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Stdio(Streams),
    Http,
}

/// Where the load generator and the server run.
///
/// On one core they take turns, and a figure is the work of both and the switch between them. Apart, each has a core of
/// its own: with many calls in flight the server never sleeps, and a figure is its work alone. On free cores the
/// scheduler places them. Then a figure also includes the time that a sleeping core takes to wake. On a virtual machine
/// this can be ten times the work. It is the same for every server and depends on the load of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    One,
    Apart,
    Free,
}

/// Whether a call waits for the reply to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    OneByOne,
    /// So many at a time; over HTTP each on a connection of its own.
    InFlight(u32),
}

impl Pace {
    /// How many calls are in flight at a time.
    pub(crate) fn width(self) -> u32 {
        match self {
            Self::OneByOne => 1,
            Self::InFlight(width) => width,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::Stdio(Streams::Pipes) => "pipes",
            Way::Stdio(Streams::Sockets) => "sockets",
            Way::Http => "HTTP",
        };
        let payload = match self.payload {
            Payload::Small => "small",
            Payload::Large => "4 KiB",
        };
        write!(f, "{way}, {payload}, {}, ", self.era.version())?;
        match self.pace {
            Pace::OneByOne => f.write_str("one by one")?,
            Pace::InFlight(width) => write!(f, "{width} in flight")?,
        }
        match self.cores {
            Cores::One => Ok(()),
            Cores::Apart => f.write_str(", apart"),
            Cores::Free => f.write_str(", free cores"),
        }
    }
}
