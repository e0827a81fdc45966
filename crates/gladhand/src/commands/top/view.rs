//! What `top` shows: rows made of two snapshots, in an order, as text of a width. Reads no clock and no terminal.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use gladhand_redaction::redact;
use gladhand_server::control::ProcessStatus;

use crate::commands::ps::{age, megabytes};
use crate::terminal::screen::{cell, cut};
use crate::terminal::text::{counted, plain};

const HEAD: Style = Style::new().bold();
const QUIET: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// An order of the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Most calls first.
    Calls,
    /// Most calls per second first.
    Rate,
    /// Most running calls first.
    Running,
    /// Slowest first.
    Latency,
    /// Oldest first.
    Age,
    /// By the name of the client.
    Name,
}

impl Order {
    /// The key that chooses it.
    pub(super) fn key(self) -> char {
        match self {
            Self::Calls => 'c',
            Self::Rate => 's',
            Self::Running => 'r',
            Self::Latency => 'l',
            Self::Age => 'a',
            Self::Name => 'n',
        }
    }
}

/// The state of all processes at one time.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) processes: Vec<ProcessStatus>,
    pub(super) at: Instant,
    /// Seconds since 1970.
    pub(super) now: u64,
}

/// A session: its process and its number there.
type SessionKey = (u32, Option<u64>);

/// The counters of a session at one time.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    calls: u64,
    waited_calls: u64,
    waited_us: u64,
}

#[derive(Debug, Clone)]
struct SessionRow {
    pid: u32,
    client: String,
    dialect: String,
    since: u64,
    calls: u64,
    /// Calls per second. `None`: the session was not seen before.
    rate: Option<f64>,
    running: usize,
    /// Mean duration of the calls that ended, in milliseconds.
    latency: Option<f64>,
    doing: String,
}

#[derive(Debug)]
struct UpstreamRow {
    pid: u32,
    name: String,
    state: String,
    tools: usize,
    calls: usize,
    restarts: u64,
    memory: String,
}

/// The screen.
#[derive(Debug)]
pub(super) struct View {
    order: Order,
    is_reversed: bool,
    pub(super) is_paused: bool,
    sessions: Vec<SessionRow>,
    upstreams: Vec<UpstreamRow>,
    processes: usize,
    now: u64,
    before: Option<(Instant, HashMap<SessionKey, Counters>)>,
}

impl View {
    pub(super) fn new(order: Order) -> Self {
        Self {
            order,
            is_reversed: false,
            is_paused: false,
            sessions: Vec::new(),
            upstreams: Vec::new(),
            processes: 0,
            now: 0,
            before: None,
        }
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: u8) {
        match char::from(key) {
            'R' => self.is_reversed = !self.is_reversed,
            ' ' => self.is_paused = !self.is_paused,
            key => {
                if let Some(order) = Order::value_variants().iter().find(|order| order.key() == key) {
                    (self.order, self.is_reversed) = (*order, false);
                }
            }
        }
        self.sort();
    }

    /// Shows another snapshot. Rates and latencies are those since the last one.
    pub(super) fn update(&mut self, snapshot: Snapshot) {
        let mut counters = HashMap::new();
        let seconds = self.before.as_ref().map(|(at, _)| snapshot.at.saturating_duration_since(*at).as_secs_f64());
        (self.sessions, self.upstreams) = (Vec::new(), Vec::new());
        for process in &snapshot.processes {
            for session in &process.sessions {
                let key = (process.pid, session.session);
                let (calls, waited_calls, waited_us) = (session.calls, session.waited_calls, session.waited_us);
                let now = Counters { calls, waited_calls, waited_us };
                let before = self.before.as_ref().and_then(|(_, before)| before.get(&key));
                let waited = now.waited_calls - before.map_or(0, |before| before.waited_calls.min(now.waited_calls));
                let us = now.waited_us - before.map_or(0, |before| before.waited_us.min(now.waited_us));
                let names: Vec<_> = session.clients.iter().map(|client| shown(&client.name)).collect();
                let client = match (names.is_empty(), session.session) {
                    (true, _) => "(no handshake yet)".to_owned(),
                    (false, Some(_)) => names.join(", "),
                    (false, None) => format!("{} (no session)", names.join(", ")),
                };
                self.sessions.push(SessionRow {
                    pid: process.pid,
                    client,
                    dialect: session
                        .clients
                        .first()
                        .map_or_else(String::new, |client| shown(&format!("{} {}", client.dialect, client.revision))),
                    since: session.since,
                    calls: session.calls,
                    rate: before
                        .zip(seconds)
                        .map(|(before, seconds)| now.calls.saturating_sub(before.calls) as f64 / seconds.max(0.001)),
                    running: session.under_way,
                    latency: (waited > 0).then(|| us as f64 / waited as f64 / 1e3),
                    doing: session
                        .running
                        .iter()
                        .max_by_key(|call| call.seconds)
                        .map_or_else(String::new, |call| shown(&call.name)),
                });
                counters.insert(key, now);
            }
            self.upstreams.extend(process.hub.upstreams.iter().map(|upstream| UpstreamRow {
                pid: process.pid,
                name: shown(&upstream.name),
                state: shown(&upstream.state),
                tools: upstream.tools,
                calls: upstream.calls,
                restarts: upstream.restarts,
                memory: upstream.processes.first().map_or_else(String::new, |process| megabytes(*process)),
            }));
        }
        self.before = Some((snapshot.at, counters));
        (self.processes, self.now) = (snapshot.processes.len(), snapshot.now);
        self.sort();
    }

    fn sort(&mut self) {
        // The order of equal rows stays: by process, then by session.
        self.sessions.sort_by_key(|row| (row.pid, row.since));
        match self.order {
            Order::Calls => self.sessions.sort_by_key(|row| std::cmp::Reverse(row.calls)),
            Order::Rate => self.sessions.sort_by(|a, b| b.rate.unwrap_or(0.0).total_cmp(&a.rate.unwrap_or(0.0))),
            Order::Running => self.sessions.sort_by_key(|row| std::cmp::Reverse(row.running)),
            Order::Latency => {
                self.sessions.sort_by(|a, b| b.latency.unwrap_or(0.0).total_cmp(&a.latency.unwrap_or(0.0)));
            }
            Order::Age => self.sessions.sort_by_key(|row| row.since),
            Order::Name => self.sessions.sort_by(|a, b| a.client.cmp(&b.client)),
        }
        if self.is_reversed {
            self.sessions.reverse();
        }
    }

    /// The screen as text with colours, in lines of at most this width, and at most so many.
    pub(super) fn drawn(&self, time: &str, width: usize, rows: usize) -> String {
        let mut lines = vec![self.summary(time, width), String::new()];
        // Two headlines, two blank lines, the summary and the keys.
        let room = rows.saturating_sub(6);
        let upstreams = self.upstreams.len().min((room / 3).max(room.saturating_sub(self.sessions.len())));
        let sessions = self.sessions.len().min(room.saturating_sub(upstreams));
        lines.push(styled(HEAD, &self.session_head(width)));
        lines.extend(self.sessions.iter().take(sessions).map(|row| self.session_line(row, width)));
        if !self.upstreams.is_empty() {
            lines.push(String::new());
            lines.push(styled(HEAD, &upstream_head(width)));
            lines.extend(self.upstreams.iter().take(upstreams).map(|row| upstream_line(row, width)));
        }
        let hidden = self.sessions.len() - sessions + self.upstreams.len() - upstreams;
        let hidden = if hidden > 0 { format!("{} hidden  ", counted(hidden, "row")) } else { String::new() };
        let keys = "calls:c rate:s run:r latency:l age:a name:n reverse:R quit:q";
        lines.push(styled(QUIET, &cut(&format!("{hidden}{keys}"), width)));
        lines.join("\n")
    }

    fn summary(&self, time: &str, width: usize) -> String {
        // The sum of no numbers is a negative zero.
        let rate = self.sessions.iter().filter_map(|row| row.rate).fold(0.0, |sum, rate| sum + rate);
        let running: usize = self.sessions.iter().map(|row| row.running).sum();
        let paused = if self.is_paused { "PAUSED  " } else { "" };
        let processes = match self.processes {
            0 => "nothing runs: start `gladhand serve` or `gladhand bridge`".to_owned(),
            1 => {
                format!("1 process, {}, {rate:.1} calls/s, {running} running", counted(self.sessions.len(), "session"))
            }
            count => {
                let sessions = counted(self.sessions.len(), "session");
                format!("{count} processes, {sessions}, {rate:.1} calls/s, {running} running")
            }
        };
        cut(&format!("{time}  {paused}{processes}"), width)
    }

    fn session_head(&self, width: usize) -> String {
        let columns = Columns::of(width);
        let mark = |order: Order, name: &str| match (self.order == order, self.is_reversed) {
            (false, _) => name.to_owned(),
            (true, false) => format!("{name}▾"),
            (true, true) => format!("{name}▴"),
        };
        let mut line = cell("PID", 7);
        let _ = write!(line, " {}", cell(&mark(Order::Name, "CLIENT"), columns.client));
        if columns.has_dialect {
            let _ = write!(line, " {}", cell("DIALECT", DIALECT));
            let _ = write!(line, " {:>8}", mark(Order::Age, "AGE"));
        }
        let (calls, rate) = (mark(Order::Calls, "CALLS"), mark(Order::Rate, "CALLS/S"));
        let (running, latency) = (mark(Order::Running, "RUN"), mark(Order::Latency, "LATENCY"));
        let _ = write!(line, " {calls:>8} {rate:>8} {running:>4} {latency:>9}");
        if columns.doing > 0 {
            let _ = write!(line, " {}", cell("CALL", columns.doing));
        }
        cut(line.trim_end(), width)
    }

    fn session_line(&self, row: &SessionRow, width: usize) -> String {
        let columns = Columns::of(width);
        let mut line = cell(&row.pid.to_string(), 7);
        let _ = write!(line, " {}", cell(&row.client, columns.client));
        if columns.has_dialect {
            let _ = write!(line, " {} {:>8}", cell(&row.dialect, DIALECT), age(self.now, row.since));
        }
        let rate = row.rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
        let latency = row.latency.map_or_else(|| "-".to_owned(), milliseconds);
        let _ = write!(line, " {:>8} {rate:>8} {:>4} {latency:>9}", short(row.calls), row.running);
        if columns.doing > 0 {
            let _ = write!(line, " {}", cut(&row.doing, columns.doing));
        }
        let line = cut(line.trim_end(), width);
        if row.running > 0 { styled(GOOD, &line) } else { line }
    }
}

/// The width of the column for dialect and revision.
const DIALECT: usize = 16;

/// The columns of sessions that depend on the width.
struct Columns {
    client: usize,
    has_dialect: bool,
    doing: usize,
}

impl Columns {
    fn of(width: usize) -> Self {
        // The process, four numbers, and blanks between them.
        let rest = width.saturating_sub(7 + 1 + 9 + 9 + 5 + 10);
        let has_dialect = rest >= 20 + DIALECT + 1 + 9;
        let rest = if has_dialect { rest - DIALECT - 1 - 9 } else { rest };
        let doing = if rest >= 45 { rest - 26 } else { 0 };
        let client = if doing > 0 { 25 } else { rest };
        Self { client, has_dialect, doing }
    }
}

fn upstream_head(width: usize) -> String {
    let name = upstream_name(width);
    let line = format!(
        "{} {} {} {:>6} {:>6} {:>8} {:>11}",
        cell("PID", 7),
        cell("UPSTREAM", name),
        cell("STATE", 8),
        "TOOLS",
        "CALLS",
        "RESTARTS",
        "MEMORY"
    );
    cut(&line, width)
}

fn upstream_line(row: &UpstreamRow, width: usize) -> String {
    let name = upstream_name(width);
    let state = cell(&row.state, 8);
    let state = match row.state.as_str() {
        "open" => styled(GOOD, &state),
        "failed" => styled(BAD, &state),
        _ => state,
    };
    let (pid, name) = (cell(&row.pid.to_string(), 7), cell(&row.name, name));
    let numbers = format!("{:>6} {:>6} {:>8} {:>11}", row.tools, row.calls, row.restarts, row.memory);
    let numbers = cut(numbers.trim_end(), width.saturating_sub(7 + 1 + upstream_name(width) + 1 + 8 + 1));
    format!("{pid} {name} {state} {numbers}")
}

fn upstream_name(width: usize) -> usize {
    width.saturating_sub(7 + 1 + 1 + 8 + 1 + 6 + 1 + 6 + 1 + 8 + 1 + 11).clamp(6, 40)
}

fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Text of a peer in one line, without secrets.
fn shown(text: &str) -> String {
    plain(&redact(text))
}

fn milliseconds(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.2} ms"),
        ..1000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1e3),
    }
}

/// A number in at most seven characters.
fn short(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1}M", number as f64 / 1e6),
        _ => format!("{:.1}G", number as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gladhand_hub::{ClientStatus, HubStatus, RunningCall, SessionStatus, UpstreamStatus};

    use super::*;
    use crate::terminal::layout::columns;

    fn session(number: u64, client: &str, calls: u64, waited_ms: u64) -> SessionStatus {
        let client = ClientStatus {
            name: client.to_owned(),
            version: "1".to_owned(),
            principal: None,
            dialect: "mcp".to_owned(),
            revision: "2025-11-25".to_owned(),
        };
        let running = RunningCall { kind: "tool".to_owned(), name: "git__push".to_owned(), seconds: 1 };
        SessionStatus {
            session: Some(number),
            clients: vec![client],
            since: 1000 + number,
            calls,
            under_way: usize::from(number == 1),
            running: if number == 1 { vec![running] } else { Vec::new() },
            waited_calls: waited_ms / 10,
            waited_us: waited_ms * 1000,
        }
    }

    fn snapshot(at: Instant, sessions: Vec<SessionStatus>) -> Snapshot {
        let upstream = UpstreamStatus {
            name: "git\u{1b}[2J".to_owned(),
            state: "failed".to_owned(),
            restarts: 3,
            ..UpstreamStatus::default()
        };
        let process = ProcessStatus {
            pid: 42,
            version: "0".to_owned(),
            command: "serve".to_owned(),
            data_dir: None,
            listening: Vec::new(),
            since: 0,
            waiting: None,
            sessions,
            hub: HubStatus { upstreams: vec![upstream], ..HubStatus::default() },
        };
        Snapshot { processes: vec![process], at, now: 1130 }
    }

    fn updated() -> View {
        let mut view = View::new(Order::Rate);
        let begun = Instant::now();
        view.update(snapshot(begun, vec![session(1, "zed", 100, 0), session(2, "cursor", 10, 100)]));
        let later = begun + Duration::from_secs(2);
        view.update(snapshot(later, vec![session(1, "zed", 110, 0), session(2, "cursor", 50, 500)]));
        view
    }

    fn text(view: &View, width: usize, rows: usize) -> Vec<String> {
        let drawn = view.drawn("12:00", width, rows);
        anstream::adapter::strip_str(&drawn).to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn rates_and_latencies_are_those_since_the_last_update() {
        let expected = [
            "12:00  1 process, 2 sessions, 25.0 calls/s, 1 running",
            "",
            "PID     CLIENT                     CALLS CALLS/S▾  RUN   LATENCY",
            "42      cursor                        50     20.0    0     10 ms",
            "42      zed                          110      5.0    1         -",
            "",
            "PID     UPSTREAM     STATE     TOOLS  CALLS RESTARTS      MEMORY",
            "42      git\\u{1b}[2J failed        0      0        3",
            "calls:c rate:s run:r latency:l age:a name:n reverse:R quit:q",
        ];
        assert_eq!(text(&updated(), 64, 24), expected);
    }

    #[test]
    fn keys_change_the_order() {
        let mut view = updated();
        let mut first = |keys: &str| {
            keys.bytes().for_each(|key| view.press(key));
            view.sessions[0].client.clone()
        };
        for (keys, client) in
            [("c", "zed"), ("s", "cursor"), ("r", "zed"), ("l", "cursor"), ("lR", "zed"), ("a", "zed"), ("n", "cursor")]
        {
            assert_eq!(first(keys), client, "{keys}");
        }
        assert_eq!(first("x"), "cursor", "another key has no effect");
    }

    #[test]
    fn the_screen_fits_any_size() {
        let mut view = View::new(Order::Name);
        let sessions = (0..50).map(|number| session(number, &"日本語 client ".repeat(9), number * 10_000_000, 0));
        view.update(snapshot(Instant::now(), sessions.collect()));
        for (width, rows) in [(60, 10), (80, 24), (100, 24), (132, 60), (200, 8), (20, 5), (1, 1)] {
            let lines = text(&view, width, rows);
            let wide: Vec<_> = lines.iter().filter(|line| columns(line) > width.max(50)).collect();
            assert!(wide.is_empty(), "{width}: {wide:#?}");
            assert!(rows < 8 || lines.len() <= rows, "{rows}: {}", lines.len());
        }
        assert!(text(&view, 80, 24).last().is_some_and(|line| line.contains("hidden")));
        assert!(text(&view, 132, 24)[2].contains("DIALECT") && text(&view, 132, 24)[2].contains("CALL"));
    }

    #[test]
    fn a_process_that_starts_again_under_the_same_id_has_no_negative_rate() {
        let mut view = updated();
        view.update(snapshot(Instant::now() + Duration::from_secs(9), vec![session(1, "zed", 1, 0)]));
        assert_eq!(view.sessions[0].rate, Some(0.0));
        assert_eq!(view.sessions[0].latency, None);
    }
}
