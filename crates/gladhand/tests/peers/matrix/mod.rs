//! The matrix: every peer line, on every transport that it has, in both directions, through one whole session.
//!
//! Each row is one peer in one mode on one transport, each cell something that the two do with each other. Missing
//! features of a peer are listed with the reason; a cell that works although it is listed as absent fails the test, so
//! that the list stays true. The table of results is written to `target/peer-matrix.txt`, and `docs/peers.md` shows it:
//! `GLADHAND_BLESS=1` rewrites that page if there are no complaints. `GLADHAND_MATRIX='rmcp 3.8.0 (auto'` runs only the
//! rows whose words hold that.

mod clients;
pub(crate) mod habits;
pub(crate) mod listening;
pub(crate) mod servers;
mod table;
pub(crate) mod versions;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// The results: success, or an error message. A cell that was not tried is not in it.
type Seen = BTreeMap<Cell, Result<(), String>>;

/// One peer in one mode on one transport.
struct Row {
    /// Its name, with its version.
    peer: String,
    /// How it opens.
    mode: &'static str,
    /// How it is talked to.
    transport: Transport,
    /// Which revision the two must come to speak.
    revision: &'static str,
    /// The cells that it does not support, and the reasons.
    absent: Vec<(Cell, &'static str)>,
    /// Takes it through its session.
    session: Box<dyn Fn(&Self) -> Seen + Send + Sync>,
}

/// How a peer is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
    /// HTTP with a separate event stream, as in 2024-11-05.
    Sse,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

impl Row {
    fn words(&self) -> String {
        format!("{} ({}, {})", self.peer, self.mode, self.transport.name())
    }

    /// The results of its session; after a panic, only that.
    fn run(&self) -> Seen {
        catch_unwind(AssertUnwindSafe(|| (self.session)(self))).unwrap_or_else(|panic| {
            let why = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "it broke down".to_owned());
            Cell::ALL.into_iter().map(|cell| (cell, Err(why.clone()))).collect()
        })
    }

    fn reason(&self, cell: Cell) -> Option<&'static str> {
        self.absent.iter().find(|(absent, _)| *absent == cell).map(|(_, reason)| *reason)
    }

    /// The results that differ from the expected ones.
    fn complaints(&self, seen: &Seen) -> Vec<String> {
        let complaint = |cell: Cell| match (seen.get(&cell), self.reason(cell).is_some()) {
            (Some(Ok(())), false) | (Some(Err(_)) | None, true) => None,
            (Some(Ok(())), true) => Some("is said to be absent, and works".to_owned()),
            (Some(Err(why)), false) => Some(why.clone()),
            (None, false) => Some("was not tried".to_owned()),
        };
        let named = |cell| complaint(cell).map(|why| format!("{}: {}: {why}", self.words(), Cell::name(cell)));
        Cell::ALL.into_iter().filter_map(named).collect()
    }
}

#[test]
fn every_peer_does_everything_that_it_can_do() {
    // Only the rows whose names contain this, for debugging.
    let wanted = std::env::var("GLADHAND_MATRIX").unwrap_or_default();
    let is_wanted = |row: &Row| row.words().contains(&wanted);
    let directions =
        [clients::rows(), servers::rows()].map(|rows| rows.into_iter().filter(is_wanted).collect::<Vec<_>>());
    let sessions = run(&directions.iter().flatten().collect::<Vec<_>>());
    let (clients, servers) = sessions.split_at(directions[0].len());
    let table = table::render(clients, servers);
    table::print(&table, &sessions);
    let mut complaints: Vec<_> = sessions.iter().flat_map(|(row, seen)| row.complaints(seen)).collect();
    if complaints.is_empty() && wanted.is_empty() {
        complaints.extend(table::check_page(&table));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Takes the rows through their sessions, a few at a time.
fn run<'r>(rows: &[&'r Row]) -> Vec<(&'r Row, Seen)> {
    let (next, seen) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((number, row)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    rows.get(number).map(|row| (number, *row))
                } {
                    let session = (row, row.run());
                    seen.lock().expect("a session that panics is caught").insert(number, session);
                }
            });
        }
    });
    seen.into_inner().expect("a session that panics is caught").into_values().collect()
}

#[test]
fn missing_and_wrongly_absent_cells_are_complaints() {
    let absent = vec![(Cell::Cancel, "It cannot."), (Cell::Elicit, "Nor this."), (Cell::Sample, "Nor that.")];
    let session = Box::new(|_: &Row| Seen::new());
    let row = Row { peer: "p".into(), mode: "m", transport: Transport::Http, revision: "r", absent, session };
    let mut seen: Seen = Cell::ALL.into_iter().map(|cell| (cell, Ok(()))).collect();
    seen.insert(Cell::Call, Err("broken".to_owned()));
    seen.insert(Cell::Elicit, Err("broken".to_owned()));
    seen.remove(&Cell::Sample);
    seen.remove(&Cell::Read);
    let expected = [
        "p (m, http): call: broken",
        "p (m, http): cancel: is said to be absent, and works",
        "p (m, http): read: was not tried",
    ];
    assert_eq!(row.complaints(&seen), expected);
}
