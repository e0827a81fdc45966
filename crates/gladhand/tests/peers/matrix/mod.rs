//! The matrix: every peer line, on every transport that it has, in both directions, through one whole session.
//!
//! Each row is one peer in one mode on one transport, each cell something that the two do with each other. What a peer
//! cannot do is written down with its reason; a cell that works although it is written down as absent fails the test, so
//! that the list stays true. The table is printed to `target/peer-matrix.txt`, and it is what `docs/peers.md` shows:
//! `GLADHAND_BLESS=1` writes that page anew.

mod clients;
mod habits;
mod listening;
mod servers;
mod table;
mod versions;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// How many peers are started at once.
const AT_ONCE: usize = 3;

/// Something that two peers do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Open,
    List,
    Call,
    Progress,
    Cancel,
    Elicit,
    Sample,
    Subscribe,
    Read,
    Prompt,
    Close,
}

impl Cell {
    const ALL: [Self; 11] = [
        Self::Open,
        Self::List,
        Self::Call,
        Self::Progress,
        Self::Cancel,
        Self::Elicit,
        Self::Sample,
        Self::Subscribe,
        Self::Read,
        Self::Prompt,
        Self::Close,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::List => "list",
            Self::Call => "call",
            Self::Progress => "progress",
            Self::Cancel => "cancel",
            Self::Elicit => "elicit",
            Self::Sample => "sample",
            Self::Subscribe => "subscribe",
            Self::Read => "read",
            Self::Prompt => "prompt",
            Self::Close => "close",
        }
    }
}

/// What was seen: nothing to complain of, or what went wrong. A cell that was not tried is not in it.
type Seen = BTreeMap<Cell, Result<(), String>>;

/// One peer in one mode on one transport.
struct Row {
    /// Who it is, with its version.
    peer: String,
    /// How it opens.
    mode: &'static str,
    /// How it is talked to.
    transport: Transport,
    /// Which revision the two must come to speak.
    revision: &'static str,
    /// What it cannot do, and why.
    absent: Vec<(Cell, &'static str)>,
    /// Takes it through its session.
    session: Box<dyn Fn(&Row) -> Seen + Send + Sync>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
    /// HTTP with a stream beside it, as 2024-11-05 has it.
    Sse,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

impl Row {
    /// What is wrong with what was seen.
    fn complaints(&self, seen: &Seen) -> Vec<String> {
        let complaint = |cell: &Cell| {
            let is_absent = self.absent.iter().any(|(absent, _)| absent == cell);
            match (seen.get(cell), is_absent) {
                (Some(Ok(())), false) | (Some(Err(_)) | None, true) => None,
                (Some(Ok(())), true) => Some("is said to be absent, and works".to_owned()),
                (Some(Err(why)), false) => Some(why.clone()),
                (None, false) => Some("was not tried".to_owned()),
            }
        };
        let named = |(cell, why): (Cell, String)| {
            format!("{} ({}, {}): {}: {why}", self.peer, self.mode, self.transport.name(), cell.name())
        };
        let complaints = Cell::ALL.into_iter().filter_map(|cell| complaint(&cell).map(|why| (cell, why)));
        complaints.map(named).collect()
    }
}

#[test]
fn every_peer_does_everything_that_it_can_do() {
    let (clients, servers) = (clients::rows(), servers::rows());
    let mut complaints = run(clients.iter().chain(&servers).collect());
    let table = table::render(&clients, &servers);
    table::print(&table);
    complaints.extend(table::check_page(&table));
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Takes the rows through their sessions, a few at a time, and returns what is wrong.
fn run(rows: Vec<&Row>) -> Vec<String> {
    // Only the rows whose text holds this, if somebody looks for a fault.
    let wanted = std::env::var("GLADHAND_MATRIX").unwrap_or_default();
    let is_wanted = |row: &&Row| format!("{} {} {}", row.peer, row.mode, row.transport.name()).contains(&wanted);
    let waiting = Mutex::new(rows.into_iter().filter(is_wanted).collect::<Vec<_>>());
    let complaints = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(row) = { waiting.lock().expect("no row panics").pop() } {
                    let seen = catch_unwind(AssertUnwindSafe(|| (row.session)(row)));
                    let seen = seen.unwrap_or_else(|panic| {
                        let why = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "it panicked".to_owned());
                        Cell::ALL.into_iter().map(|cell| (cell, Err(why.clone()))).collect()
                    });
                    complaints.lock().expect("no row panics").extend(row.complaints(&seen));
                }
            });
        }
    });
    complaints.into_inner().expect("no row panics")
}
