//! The expected result of a cell, by the protocols of the two sides of the bridge.

use super::servers::Server;
use super::{Cell, Way};

/// The protocol of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tongue {
    /// MCP with a handshake, in a revision.
    Handshake(&'static str),
    /// MCP without one.
    Stateless,
    /// MCP of both eras, as some servers speak it: each client is spoken to in its own.
    Both,
    A2e,
    Loaf,
    Fluxloop,
}

impl Tongue {
    pub(super) fn is_mcp(self) -> bool {
        matches!(self, Self::Handshake(_) | Self::Stateless | Self::Both)
    }

    /// Whether both are of one era of MCP, or speak the same dialect.
    pub(super) fn is_of_the_era_of(self, other: Self) -> bool {
        match (self, other) {
            (Self::Both, other) | (other, Self::Both) => other.is_mcp(),
            (Self::Handshake(_), Self::Handshake(_)) => true,
            (one, another) => one == another,
        }
    }

    /// Its own name, and what a client of ours is told to speak.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Handshake(revision) => revision,
            Self::Stateless => "2026-07-28",
            Self::Both => "both eras",
            Self::A2e => "a2e",
            Self::Loaf => "loaf",
            Self::Fluxloop => "fluxloop",
        }
    }
}

/// How a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As if there were no bridge between the two.
    Exact,
    /// It works, and this is different.
    Emulated(&'static str),
    /// It cannot be, and is not offered.
    Absent(&'static str),
}

const NO_PROGRESS: &str = "Fluxloop has no progress messages.";
const IN_PERCENT: &str = "A2E reports progress in percent: numbers arrive scaled to 100.";
const NOT_GIVEN_UP: &str = "The client's dialect has no message that cancels a call.";
const GIVEN_UP_HERE: &str = "The server's dialect has no message that cancels a call: the bridge cancels it, and drops the late result of the server.";
const REPEATED: &str =
    "The tool declares that it is read-only: the bridge retries a lost call, and the retry succeeds.";
const SEVERAL: &str = "The server's form has a multiple choice field, which the client's revision does not have.";
const NOT_ASKED: &str =
    "The client's dialect has no server requests, so the bridge does not declare the capability to the server.";
const NOT_ASKING: &str = "The server's dialect has no server requests.";
const TOO_YOUNG: &str =
    "The client's revision has no elicitation, so the bridge does not declare the capability to the server.";
const BY_ROUNDS: &str =
    "The server's request becomes an `input_required` response; the client's next round contains the answer.";
const BY_REQUESTS: &str = "The server's `input_required` response becomes a request to the client; the client's response starts the next round.";
const NOT_TOLD: &str =
    "The client's dialect has no list change notification; each list request returns the current list.";
const ONE_LIST: &str = "Calls without a session, of one client with equal capabilities, take turns on servers and see the list of the server that changed last.";
const BY_LISTENING: &str =
    "Notifications of the handshake era are sent on the subscription streams of the stateless era, and the reverse.";

/// The expected result of a cell.
pub(super) fn of(client: Tongue, server: &Server, way: Way, cell: Cell) -> Verdict {
    use Tongue::{A2e, Fluxloop, Handshake};
    use Verdict::{Absent, Emulated, Exact};
    if let Some((_, reason)) = server.absent.iter().find(|(absent, _)| *absent == cell) {
        return Absent(reason);
    }
    let is_same = client.is_of_the_era_of(server.tongue);
    match cell {
        Cell::Dies if server.repeats => Emulated(REPEATED),
        Cell::Open | Cell::List | Cell::Call | Cell::Error | Cell::Dies => Exact,
        Cell::Progress => match (client, server.tongue) {
            (Fluxloop, _) | (_, Fluxloop) => Absent(NO_PROGRESS),
            (A2e, _) | (_, A2e) => Emulated(IN_PERCENT),
            _ => Exact,
        },
        Cell::Cancel if !client.is_mcp() => Absent(NOT_GIVEN_UP),
        Cell::Cancel if !server.tongue.is_mcp() => Emulated(GIVEN_UP_HERE),
        Cell::Cancel => Exact,
        Cell::Elicit | Cell::Sample => match client {
            _ if !server.tongue.is_mcp() => Absent(NOT_ASKING),
            _ if !client.is_mcp() => Absent(NOT_ASKED),
            Handshake("2024-11-05" | "2025-03-26") if cell == Cell::Elicit => Absent(TOO_YOUNG),
            // Its form is the newest that there is.
            Handshake("2025-06-18") if cell == Cell::Elicit && server.repeats => Absent(SEVERAL),
            _ if is_same => Exact,
            Tongue::Stateless => Emulated(BY_ROUNDS),
            _ => Emulated(BY_REQUESTS),
        },
        Cell::Change if !client.is_mcp() => Absent(NOT_TOLD),
        Cell::Change if way == Way::Http && client == Tongue::Stateless && !is_same => Emulated(ONE_LIST),
        Cell::Change if is_same => Exact,
        Cell::Change => Emulated(BY_LISTENING),
    }
}
