//! Do no harm: everything that works between a client and a server directly also works through `gladhand` in the same
//! way.
//!
//! Each client of others opens each ordinary server twice: it starts the server itself, and it reaches the same server
//! through `gladhand bridge` or `gladhand serve`. In each session it tries every feature that the server has, and writes
//! down all that it saw. A trial that works directly must work through us, with an equal result ([`compare`]); of one that
//! fails directly nothing is expected.
//!
//! The working features are a table in `docs/coupling.md` ([`table`]), and the results of a run must match it. A run
//! tries a sample of the pairs, which is the same each time, with every client and every server in it;
//! `GLADHAND_WHOLE_MATRIX=1` tries all pairs in all ways, and `GLADHAND_MATRIX='rmcp'` only those whose words hold
//! that. `GLADHAND_BLESS=1` writes what is seen into the page. `target/tmp/direct-sessions` has all that the clients
//! saw.

mod compare;
mod features;
mod servers;
mod table;
mod through;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};

use crate::coupling::clients::{Theirs, theirs};
use crate::installed::run;
use crate::matrix::Transport;
use features::Feature;
use servers::{Place, Server};
use table::{Cell, Key, Row};
use through::Through;

/// How many pairs are run at once. A session waits more than it works.
const AT_ONCE: usize = 8;

/// One in this many pairs is run each time.
const SAMPLE: usize = 11;

/// A pair that is run each time, in every way: its tool asks in the middle of a call, in the era of the handshake only.
const ALWAYS: (&str, &str, Transport) = ("Python SDK 2", "FastMCP", Transport::Stdio);

/// A folder, which clients name as their root.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// How a client reaches a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Bridge,
    BridgeHttp,
    Serve,
}

impl Way {
    const ALL: [Self; 3] = [Self::Bridge, Self::BridgeHttp, Self::Serve];

    fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::BridgeHttp => "bridge --http",
            Self::Serve => "serve --http",
        }
    }

    /// Its place among all ways.
    fn number(self) -> usize {
        Self::ALL.iter().position(|known| *known == self).unwrap_or_default()
    }
}

/// A client and a server, with the ways between them that are tried.
struct Pair<'m> {
    client: &'m Theirs,
    server: &'m Server,
    ways: Vec<Way>,
}

/// The results of a pair.
struct Compared {
    worse: Vec<String>,
    key: Key,
    row: Row,
}

impl Pair<'_> {
    fn words(&self, way: Way) -> String {
        let Server { name, transport, .. } = self.server;
        format!("{} through {} to {name} over {}", self.client.name, way.name(), transport.name())
    }

    /// Has the client meet the server directly and through us.
    fn compare(&self) -> Compared {
        let direct = {
            let server = self.server.start();
            self.session("directly", &server.place.target(), self.server.transport)
        };
        // As `docs/coupling.md` says: a client that cannot fall back to the handshake needs a server that has it.
        let can_talk = self.client.mode == "auto" || self.server.has_handshake;
        assert_eq!(compare::works(&direct["open"]), can_talk, "{} to {}", self.client.name, self.server.name);
        let mut worse = Vec::new();
        let mut through: [Option<Map<String, Value>>; Way::ALL.len()] = Default::default();
        for way in &self.ways {
            let server = self.server.start();
            let seen = self.session_through(&server.place, *way);
            // `serve` stands for all of its upstreams, so it introduces itself and none of them.
            let is_compared = |trial: &&Value| *way != Way::Serve || trial["name"] != "identity";
            let trials: Vec<Value> = self.server.trials.iter().filter(is_compared).cloned().collect();
            let differences = compare::worse(&trials, &direct, &seen);
            worse.extend(differences.into_iter().map(|difference| format!("{}: {difference}", self.words(*way))));
            through[way.number()] = Some(seen);
        }
        let key = (self.server.name.clone(), self.server.transport.name(), self.client.name.clone());
        Compared { worse, key, row: self.row(&direct, &through) }
    }

    fn session_through(&self, server: &Place, way: Way) -> Map<String, Value> {
        let through = Through::before(server, way);
        let transport = if way == Way::Bridge { Transport::Stdio } else { Transport::Http };
        self.session(way.name(), &through.target(), transport)
    }

    /// Leaves what was seen in a file, for a person who looks for a fault.
    fn keep(&self, how: &str, seen: &Map<String, Value>) {
        let folder = Path::new(FOLDER).join("direct-sessions");
        let Server { name, transport, .. } = self.server;
        let file = format!("{name}, {}, {how}, {}.json", transport.name(), self.client.name);
        let text = serde_json::to_string_pretty(seen).expect("JSON is JSON");
        let kept = fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join(file), text));
        kept.expect("there is a place for what was seen");
    }

    /// The results, as a row of the page.
    fn row(&self, direct: &Map<String, Value>, through: &[Option<Map<String, Value>>; Way::ALL.len()]) -> Row {
        let revision = |seen: &Map<String, Value>| seen["open"].as_str().unwrap_or("–").to_owned();
        let cell = |shown: &dyn Fn(&Map<String, Value>) -> String| {
            let through = std::array::from_fn(|way| through[way].as_ref().map(shown));
            Cell { direct: shown(direct), through }
        };
        let is_other_era = through.iter().flatten().any(|seen| compare::is_other_era(direct, seen));
        let of_feature =
            |feature: Feature| cell(&|seen| feature.mark(&self.server.trials, seen, is_other_era).to_string());
        [cell(&revision)].into_iter().chain(Feature::ALL.map(of_feature)).collect()
    }

    /// All that the client sees in a session with a target.
    fn session(&self, how: &str, target: &Value, transport: Transport) -> Map<String, Value> {
        let declares = json!({
            "roots": {"listChanged": true},
            "elicitation": {"form": {}, "url": {}},
            "experimental": {"org.example/trial": {"depth": 1}},
            "extensions": {"org.example/view": {"mimeTypes": ["text/html"]}},
        });
        let plan = json!({
            "transport": transport.name(),
            "mode": self.client.mode,
            "target": target,
            "form": {"name": "ada"},
            "root": format!("file://{FOLDER}"),
            "declares": declares,
            "trials": self.server.trials,
        });
        let mut words: Vec<OsString> = self.client.words.clone();
        words.push(plan.to_string().into());
        match run(&words).json {
            Value::Object(seen) => {
                self.keep(how, &seen);
                seen
            }
            other => panic!("{} printed {other}", self.client.name),
        }
    }
}

/// The pairs of a run.
fn pairs<'m>(clients: &'m [Theirs], servers: &'m [Server]) -> Vec<Pair<'m>> {
    let wanted = std::env::var("GLADHAND_MATRIX").unwrap_or_default();
    let is_whole = std::env::var_os("GLADHAND_WHOLE_MATRIX").is_some() || !wanted.is_empty();
    let mut pairs = Vec::new();
    for (column, server) in servers.iter().enumerate() {
        for (row, client) in clients.iter().enumerate() {
            let place = row + 3 * column;
            let (client_name, server_name, transport) = ALWAYS;
            let is_always = client.name.starts_with(client_name)
                && client.mode == "legacy"
                && server.name.starts_with(server_name)
                && server.transport == transport;
            // Every sampled pair is tried with the plain bridge, and in turn with one of the others.
            let is_sampled = |way: Way| way == Way::Bridge || (place / SAMPLE) % 2 + 1 == way.number();
            let is_tried = |way: &Way| is_whole || is_always || place % SAMPLE == 0 && is_sampled(*way);
            let mut pair = Pair { client, server, ways: Way::ALL.into_iter().filter(is_tried).collect() };
            let ways = std::mem::take(&mut pair.ways);
            pair.ways = ways.into_iter().filter(|way| pair.words(*way).contains(&wanted)).collect();
            pairs.push(pair);
        }
    }
    pairs.retain(|pair| !pair.ways.is_empty());
    pairs
}

#[test]
fn a_sample_has_every_client_and_every_server() {
    let (clients, servers) = (theirs(), servers::all());
    let pairs = pairs(&clients, &servers);
    let has = |is_it: &dyn Fn(&Pair<'_>) -> bool| pairs.iter().any(is_it);
    for client in &clients {
        assert!(has(&|pair| std::ptr::eq(pair.client, client)), "{}", client.name);
    }
    for server in &servers {
        assert!(has(&|pair| pair.server.name == server.name), "{}", server.name);
    }
    assert!(has(&|pair| pair.server.transport == Transport::Http));
    assert!(has(&|pair| pair.ways.len() == Way::ALL.len()), "the pair that is always run");
}

#[test]
fn features_that_work_directly_work_through_the_bridge() {
    let (clients, servers) = (theirs(), servers::all());
    let pairs = pairs(&clients, &servers);
    let (next, compared) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((number, pair)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    pairs.get(number).map(|pair| (number, pair))
                } {
                    let found = pair.compare();
                    let mut compared = compared.lock().expect("a pair that panics ends the test");
                    if found.worse.is_empty() {
                        table::bless(&clients, &servers, &found);
                    }
                    compared.insert(number, found);
                }
            });
        }
    });
    let (mut worse, mut rows) = (Vec::new(), BTreeMap::new());
    for found in compared.into_inner().expect("no pair panicked").into_values() {
        if found.worse.is_empty() {
            rows.insert(found.key, found.row);
        }
        worse.extend(found.worse);
    }
    let complaints = table::check(&clients, &servers, &rows);
    assert!(worse.is_empty(), "{} cells are worse than directly:\n{}", worse.len(), worse.join("\n"));
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
