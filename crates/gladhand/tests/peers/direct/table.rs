//! The page: a table for each server, in which each cell says what works directly and what works through us.
//!
//! A run writes what it saw into the rows that the page has, and the result must be the page. So a run of a sample holds
//! the page to what it ran, and a run of everything holds it to everything.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::features::{Feature, Mark};
use super::servers::Server;
use super::{Compared, Way};
use crate::coupling::clients::Theirs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coupling.md");

/// The test generates the text between these.
const BEGIN: &str = "<!-- made by a test from sessions with and without us -->\n";
const END: &str = "<!-- end of the sessions with and without us -->\n";

/// The name of the column before those of the features.
const REVISION: &str = "revision";

/// The text of a cell if nothing works.
const NOTHING: &str = "–";

/// The direct result, and the result through us in each way; `None` where that was not tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) direct: String,
    pub(super) through: [Option<String>; Way::ALL.len()],
}

/// A server, how it is talked to, and a client.
pub(super) type Key = (String, &'static str, String);

/// A revision and a cell for each feature.
pub(super) type Row = Vec<Cell>;

impl Cell {
    /// A cell of the page: a result that is the same in all ways is written once.
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        let through = |way: usize| words.get(if words.len() == 2 { 1 } else { way + 1 }).cloned();
        let is_whole = words.len() == 2 || words.len() == Way::ALL.len() + 1;
        is_whole.then(|| Self { direct: words[0].clone(), through: std::array::from_fn(through) })
    }

    fn shown(&self) -> String {
        let through: Vec<_> = self.through.iter().map(|seen| seen.as_deref().unwrap_or("?")).collect();
        let is_same = through.iter().all(|seen| *seen == through[0]);
        format!("{} {}", self.direct, if is_same { through[0].to_owned() } else { through.join(" ") })
    }

    /// Takes over what a run saw.
    fn update(&mut self, seen: &Self) {
        self.direct.clone_from(&seen.direct);
        for (old, new) in self.through.iter_mut().zip(&seen.through) {
            if new.is_some() {
                old.clone_from(new);
            }
        }
    }

    fn is_worse(&self) -> bool {
        let Some(direct) = Mark::parse(&self.direct) else { return false };
        self.through.iter().flatten().any(|through| Mark::parse(through).is_none_or(|through| through < direct))
    }
}

/// Writes what a pair did into the page, if that is wanted.
pub(super) fn bless(clients: &[Theirs], servers: &[Server], seen: &Compared) {
    if std::env::var_os("GLADHAND_BLESS").is_some() {
        let seen = BTreeMap::from([(seen.key.clone(), seen.row.clone())]);
        let (_, made) = with(clients, servers, &seen, &mut Vec::new());
        std::fs::write(PAGE, made).expect("the page can be written");
    }
}

/// The differences between the page and the results of a run.
pub(super) fn check(clients: &[Theirs], servers: &[Server], seen: &BTreeMap<Key, Row>) -> Vec<String> {
    let mut complaints = Vec::new();
    let (page, made) = with(clients, servers, seen, &mut complaints);
    if page != made {
        let old: Vec<_> = page.lines().collect();
        let changed = made.lines().filter(|line| !old.contains(line));
        complaints.push(format!("docs/coupling.md does not say:\n{}", changed.collect::<Vec<_>>().join("\n")));
        complaints
            .push("run this test with GLADHAND_BLESS=1 GLADHAND_WHOLE_MATRIX=1 to write the page anew".to_owned());
    }
    complaints
}

/// The page as it is, and as it would be with what was seen.
fn with(
    clients: &[Theirs],
    servers: &[Server],
    seen: &BTreeMap<Key, Row>,
    complaints: &mut Vec<String>,
) -> (String, String) {
    let page = std::fs::read_to_string(PAGE).expect("there is a page about the coupling");
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the tables");
    let (shown, after) = rest.split_once(END).expect("the place has an end");
    let mut rows = parse(shown);
    for (key, row) in seen {
        match rows.get_mut(key).filter(|known| known.len() == row.len()) {
            Some(known) => known.iter_mut().zip(row).for_each(|(known, seen)| known.update(seen)),
            None => drop(rows.insert(key.clone(), row.clone())),
        }
    }
    let tables = render(clients, servers, &rows, complaints);
    let made = format!("{before}{BEGIN}{tables}{END}{after}");
    (page, made)
}

/// The rows that a page has.
fn parse(tables: &str) -> BTreeMap<Key, Row> {
    let (mut rows, mut server) = (BTreeMap::new(), String::new());
    for line in tables.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            name.clone_into(&mut server);
        }
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [client, transport, cells @ ..] = cells.as_slice() else { continue };
        let Some(transport) = ["stdio", "http"].into_iter().find(|known| known == transport) else { continue };
        if let Some(row) = cells.iter().map(|cell| Cell::parse(cell)).collect() {
            rows.insert((server.clone(), transport, (*client).to_owned()), row);
        }
    }
    rows
}

/// A table for each server. A row that is missing or not whole is complained of.
fn render(clients: &[Theirs], servers: &[Server], rows: &BTreeMap<Key, Row>, complaints: &mut Vec<String>) -> String {
    let (mut tables, mut last, mut counted) = (String::new(), "", Vec::new());
    for server in servers {
        if server.name != last {
            let names: String = Feature::ALL.iter().map(|feature| format!(" {} |", feature.name())).collect();
            let _ = write!(tables, "\n### {}\n\n| client | server over | {REVISION} |{names}\n", server.name);
            let _ = writeln!(tables, "|---|---|---|{}", ":-:|".repeat(Feature::ALL.len()));
            last = &server.name;
        }
        for client in clients {
            let key = (server.name.clone(), server.transport.name(), client.name.clone());
            let is_whole = |row: &&Row| {
                let is_seen = |cell: &Cell| cell.through.iter().all(Option::is_some);
                row.len() == Feature::ALL.len() + 1 && row.iter().all(is_seen)
            };
            let Some(row) = rows.get(&key).filter(is_whole) else {
                complaints.push(format!("there is no whole row for {key:?}: run all pairs"));
                continue;
            };
            let cells: String = row.iter().map(|cell| format!(" {} |", cell.shown())).collect();
            let _ = writeln!(tables, "| {} | {} |{cells}", client.name, server.transport.name());
            let named = row[1..].iter().zip(Feature::ALL);
            complaints.extend(
                named.filter(|(cell, _)| cell.is_worse()).map(|(cell, feature)| {
                    format!("{key:?}: {} is worse through us: {}", feature.name(), cell.shown())
                }),
            );
            counted.extend(&row[1..]);
        }
    }
    format!("\n{}\n{tables}\n", sums(&counted))
}

/// How many cells there are of each kind.
fn sums(cells: &[&Cell]) -> String {
    let count = |is_of_kind: &dyn Fn(&Cell) -> bool| cells.iter().filter(|cell| is_of_kind(cell)).count();
    let is_nothing = |cell: &Cell| cell.through.iter().flatten().all(|through| through == NOTHING);
    let is_equal = |cell: &Cell| cell.through.iter().flatten().all(|through| *through == cell.direct);
    let neither = count(&|cell| cell.direct == NOTHING && is_nothing(cell));
    let equal = count(&|cell| cell.direct != NOTHING && is_equal(cell));
    let worse = count(&Cell::is_worse);
    let better = cells.len() - neither - equal - worse;
    format!(
        "{} cells: {equal} work the same directly and through `gladhand`, {better} work better through `gladhand`, \
         {worse} work worse, {neither} do not exist between the two.\n",
        cells.len(),
    )
}

#[test]
fn a_cell_is_read_as_it_is_written_and_less_than_directly_is_worse() {
    let read = |text: &str| Cell::parse(text).unwrap_or_else(|| panic!("`{text}` is a cell"));
    for text in ["✓ ✓", "– ✓ – ✓", "2025-11-25 2026-07-28"] {
        assert_eq!(read(text).shown(), text);
    }
    assert_eq!(["✓", "✓ ✓ ✓"].map(Cell::parse), [None, None]);
    assert_eq!(["✓ –", "✓ ◐", "◐ –", "✓ ✓ – ✓"].map(|text| read(text).is_worse()), [true; 4]);
    assert_eq!(["✓ ✓", "– –", "– ✓", "◐ ✓", "– – ✓ ◐"].map(|text| read(text).is_worse()), [false; 5]);
    let mut known = read("– – ✓ ✓");
    known.update(&Cell { direct: "✓".to_owned(), through: [Some("✓".to_owned()), None, None] });
    assert_eq!(known, read("✓ ✓"));
}
