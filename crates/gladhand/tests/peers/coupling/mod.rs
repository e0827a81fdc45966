//! The coupling, cell by cell: real clients, real servers, and `gladhand bridge` between each two of them.
//!
//! A pair is a client, a server, and the way in which the client comes to the bridge; a cell is something that the two
//! do with each other. The expected result of a cell follows from the protocols of the two ([`verdict`]), and
//! `docs/coupling.md` shows it for all pairs. Each cell that is run must match the page: exact or emulated ones work,
//! absent ones do not. `GLADHAND_BLESS=1` rewrites the page.
//!
//! Every client meets a server of each era in every run, and a sample of the others; `GLADHAND_WHOLE_MATRIX=1` runs all
//! pairs, and `GLADHAND_MATRIX='rmcp'` only those whose words hold that.

pub(crate) mod bridge;
pub(crate) mod clients;
mod ours;
mod servers;
mod table;
mod together;
mod verdict;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clients::Client;
use servers::Server;
use verdict::Verdict;

/// How many pairs are run at once.
const AT_ONCE: usize = 3;

/// One in this many of the optional pairs is run each time.
const SAMPLE: usize = 6;

/// Something that a client and a server do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Open,
    List,
    Call,
    Progress,
    Cancel,
    Error,
    Elicit,
    Sample,
    Change,
    Dies,
}

impl Cell {
    const ALL: [Self; 10] = [
        Self::Open,
        Self::List,
        Self::Call,
        Self::Progress,
        Self::Cancel,
        Self::Error,
        Self::Elicit,
        Self::Sample,
        Self::Change,
        Self::Dies,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::List => "list",
            Self::Call => "call",
            Self::Progress => "progress",
            Self::Cancel => "cancel",
            Self::Error => "error",
            Self::Elicit => "elicit",
            Self::Sample => "sample",
            Self::Change => "change",
            Self::Dies => "dies",
        }
    }
}

/// The results: success, or an error message. A cell that was not tried is not in it.
type Seen = BTreeMap<Cell, Result<(), String>>;

/// How the client comes to the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Stdio,
    Http,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// A client and a server with the bridge between them.
struct Pair<'m> {
    client: &'m Client,
    server: &'m Server,
    way: Way,
}

impl Pair<'_> {
    fn words(&self) -> String {
        format!("{} over {} to {}", self.client.name, self.way.name(), self.server.name)
    }

    fn verdict(&self, cell: Cell) -> Verdict {
        verdict::of(self.client.tongue, self.server, self.way, cell)
    }

    /// The results of its session; after a panic, only that.
    fn run(&self) -> Seen {
        catch_unwind(AssertUnwindSafe(|| self.client.meet(self))).unwrap_or_else(|panic| {
            let why = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "it broke down".to_owned());
            Cell::ALL.into_iter().map(|cell| (cell, Err(why.clone()))).collect()
        })
    }

    /// The results that differ from the expected ones.
    fn complaints(&self, seen: &Seen) -> Vec<String> {
        let complaint = |cell: Cell| match (seen.get(&cell), self.verdict(cell)) {
            (Some(Ok(())), Verdict::Exact | Verdict::Emulated(_)) | (Some(Err(_)) | None, Verdict::Absent(_)) => None,
            (Some(Ok(())), Verdict::Absent(_)) => Some("is said to be absent, and works".to_owned()),
            (Some(Err(why)), _) => Some(why.clone()),
            (None, _) => Some("was not tried".to_owned()),
        };
        let named = |cell| complaint(cell).map(|why| format!("{}: {}: {why}", self.words(), Cell::name(cell)));
        Cell::ALL.into_iter().filter_map(named).collect()
    }
}

/// All pairs, with whether each is run every time.
fn pairs<'m>(clients: &'m [Client], servers: &'m [Server]) -> Vec<(Pair<'m>, bool)> {
    let mut pairs = Vec::new();
    for (column, server) in servers.iter().enumerate() {
        for (row, client) in clients.iter().enumerate() {
            let is_sampled = (row + 2 * column) % SAMPLE == 0;
            pairs.push((Pair { client, server, way: Way::Stdio }, server.is_strict || is_sampled));
            if client.tongue.is_mcp() && server.is_strict {
                pairs.push((Pair { client, server, way: Way::Http }, (row + column) % 2 == 0));
            }
        }
    }
    pairs
}

#[test]
fn every_client_reaches_every_server_as_in_the_table() {
    let (clients, servers) = (clients::all(), servers::all());
    let pairs = pairs(&clients, &servers);
    let wanted = std::env::var("GLADHAND_MATRIX").unwrap_or_default();
    let is_whole = std::env::var_os("GLADHAND_WHOLE_MATRIX").is_some() || !wanted.is_empty();
    let chosen: Vec<&Pair<'_>> = pairs
        .iter()
        .filter(|(pair, always)| (is_whole || *always) && pair.words().contains(&wanted))
        .map(|(pair, _)| pair)
        .collect();
    let sessions = run(&chosen);
    let mut complaints: Vec<_> = sessions.iter().flat_map(|(pair, seen)| pair.complaints(seen)).collect();
    if complaints.is_empty() && wanted.is_empty() {
        let all: Vec<&Pair<'_>> = pairs.iter().map(|(pair, _)| pair).collect();
        complaints.extend(table::check_page(&table::render(&all, &servers)));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Takes the pairs through their sessions, a few at a time.
fn run<'r>(pairs: &[&'r Pair<'r>]) -> Vec<(&'r Pair<'r>, Seen)> {
    let (next, seen) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((number, pair)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    pairs.get(number).map(|pair| (number, *pair))
                } {
                    let session = (pair, pair.run());
                    seen.lock().expect("a session that panics is caught").insert(number, session);
                }
            });
        }
    });
    seen.into_inner().expect("a session that panics is caught").into_values().collect()
}
