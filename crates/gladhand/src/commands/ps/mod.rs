//! `gladhand ps`: the processes of this user, their sessions and upstreams, and what sharing saves.

mod watch;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};
use clap::Args;
use gladhand_hub::{ClientStatus, Offence, RunningCall, SessionStatus, UpstreamStatus};
use gladhand_redaction::redact;

use crate::commands::shared::runtime::wait_for;
use crate::commands::{CommandError, print_json, written};
use crate::exit::Exit;
use crate::terminal::layout;
use crate::terminal::text::plain;
use gladhand_server::control::{self, ProcessStatus};

const PS_HELP: &str = "\
Lists every `gladhand serve` and `gladhand bridge` of this user, with any data
folder. For each session it shows client, principal, dialect, revision, age and
calls, and for each upstream its processes and how many sessions share them.

Examples:
  gladhand ps
  gladhand ps --watch
  gladhand ps --json

`gladhand top` shows rates and latencies, and sorts by key.";

/// Options of `ps`.
#[derive(Debug, Args)]
#[command(after_help = PS_HELP)]
pub struct PsArgs {
    /// Print JSON; with --watch, one line per update.
    #[arg(long)]
    pub json: bool,
    /// Update every two seconds, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
}

const HEAD: Style = Style::new().bold();
const QUIET: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ODD: Style = AnsiColor::Yellow.on_default();

/// Shows every process of this user, once or until Ctrl-C.
pub fn run(args: &PsArgs) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    wait_for(&runtime, async {
        if args.watch {
            return watch::run(args.json).await;
        }
        let all = control::everybody().await;
        match args.json {
            true => print_json(&serde_json::to_string(&all)?)?,
            false => written(anstream::stdout().write_all(drawn(&all, layout::width()).as_bytes()))?,
        }
        Ok(Exit::Success.into())
    })
}

/// All processes as text, with colours, in lines of at most this width.
fn drawn(all: &[ProcessStatus], width: Option<usize>) -> String {
    let mut text = Text { text: String::new(), width };
    if all.is_empty() {
        text.line(0, "nothing runs: start `gladhand serve` or `gladhand bridge`", &[]);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    all.iter().for_each(|process| describe(&mut text, process, now));
    text.text
}

/// Lines that are broken between words to fit a width.
struct Text {
    text: String,
    width: Option<usize>,
}

impl Text {
    /// Appends a line. Each of the pieces is shown in its style where it stands first.
    fn line(&mut self, indent: usize, line: &str, styled: &[(&str, Style)]) {
        let mut broken = String::new();
        layout::write_line(&mut broken, indent, &redact(line), self.width);
        for (piece, style) in styled {
            broken = broken.replacen(piece, &format!("{style}{piece}{style:#}"), 1);
        }
        self.text.push_str(&broken);
    }
}

fn describe(text: &mut Text, process: &ProcessStatus, now: u64) {
    let head = format!("{} gladhand {}", process.pid, plain(&process.command));
    let place = if process.listening.is_empty() { "stdin".to_owned() } else { plain(&process.listening.join(", ")) };
    let (sessions, tools) = (process.hub.sessions, process.hub.tools);
    let facts = format!(
        "for {}, {} of memory, {}, {}",
        age(now, process.since),
        megabytes(process.pid),
        count(sessions, "session"),
        count(tools, "tool"),
    );
    text.line(0, &format!("{head}  {place}"), &[(&head, HEAD)]);
    text.line(2, &facts, &[]);
    if let Some(change) = &process.waiting {
        let waits = format!("a change of {} waits", plain(&change.file));
        text.line(2, &format!("{waits}: {} applies it", plain(&change.remedy())), &[("a change of", ODD)]);
    }
    process.sessions.iter().for_each(|session| describe_session(text, session, now));
    process.hub.upstreams.iter().for_each(|upstream| describe_upstream(text, upstream));
    let handling = process.hub.violations;
    let of_servers = process.hub.upstreams.iter().flat_map(|upstream| &upstream.offences).map(|one| ("server", one));
    for (side, Offence { who, rule, count: times }) in
        process.hub.offences.iter().map(|one| ("client", one)).chain(of_servers)
    {
        let broken = format!("{side} `{}` broke {}", plain(who), plain(rule));
        text.line(2, &format!("{broken} {} ({handling})", many(*times, "time")), &[(&broken, ODD)]);
    }
    let processes: usize = process.hub.upstreams.iter().map(|upstream| upstream.processes.len()).sum();
    // Without sharing, each session would have a process of its own for each upstream that is one.
    let would_be = sessions * process.hub.upstreams.iter().filter(|upstream| !upstream.processes.is_empty()).count();
    if would_be > processes {
        text.line(2, &format!("sharing saves {}", count(would_be - processes, "process")), &[]);
    }
}

/// A session: the client, then what it does.
fn describe_session(text: &mut Text, session: &SessionStatus, now: u64) {
    let clients: Vec<_> = session.clients.iter().map(client).collect();
    let head = match (session.session, clients.is_empty()) {
        (Some(_), true) => "session: no handshake yet".to_owned(),
        (Some(_), false) => format!("session: {}", clients.join("; ")),
        (None, _) => format!("without a session: {}", clients.join("; ")),
    };
    text.line(2, &head, &[]);
    let doing = match &session.running[..] {
        [] => "idle".to_owned(),
        [first, ..] => match session.under_way.saturating_sub(1) {
            0 => doing(first),
            more => format!("{} and {more} more", doing(first)),
        },
    };
    let style = if session.running.is_empty() { QUIET } else { GOOD };
    let facts = format!("for {}, {}, {doing}", age(now, session.since), many(session.calls, "call"));
    text.line(4, &facts, &[(&doing, style)]);
}

fn client(client: &ClientStatus) -> String {
    let name = if client.name.is_empty() { "unnamed client" } else { &client.name };
    let principal = client.principal.as_ref().map(|principal| format!(" as {}", plain(principal))).unwrap_or_default();
    let version = if client.version.is_empty() { String::new() } else { format!(" {}", plain(&client.version)) };
    format!("{}{version}{principal}, {} {}", plain(name), plain(&client.dialect), plain(&client.revision))
}

fn doing(call: &RunningCall) -> String {
    let what = match call.kind.as_str() {
        "tool" => plain(&call.name),
        "list" => format!("list of {}", plain(&call.name)),
        "agent" => "agent".to_owned(),
        kind => format!("{} {}", plain(kind), plain(&call.name)),
    };
    format!("running {what} for {}", span(call.seconds))
}

fn describe_upstream(text: &mut Text, upstream: &UpstreamStatus) {
    let style = match upstream.state.as_str() {
        "open" => GOOD,
        "failed" => BAD,
        _ => QUIET,
    };
    let detail = upstream.detail.as_deref().map(|detail| format!("  {}", plain(detail))).unwrap_or_default();
    let (name, state) = (plain(&upstream.name), plain(&upstream.state));
    text.line(2, &format!("upstream {name}: {state}{detail}"), &[(&format!(": {state}"), style)]);
    let mut parts = vec![count(upstream.tools, "tool"), count(upstream.calls, "call under way")];
    if upstream.restarts > 0 {
        parts.push(many(upstream.restarts, "restart"));
    }
    let processes = upstream.processes.iter().map(|id| format!("{id} ({})", megabytes(*id)));
    let processes: Vec<_> = processes.collect();
    if !processes.is_empty() {
        parts.push(format!("as {}", processes.join(", ")));
    }
    text.line(4, &parts.join(", "), &[]);
    upstream.unlisted.iter().for_each(|why| text.line(4, &plain(why), &[]));
}

fn many(number: u64, what: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), what)
}

fn count(number: usize, what: &str) -> String {
    match (number, what) {
        (1, what) => format!("1 {what}"),
        (number, "call under way") => format!("{number} calls under way"),
        (number, "process") => format!("{number} processes"),
        (number, what) => format!("{number} {what}s"),
    }
}

/// The time since a moment, in words.
pub(in crate::commands) fn age(now: u64, since: u64) -> String {
    span(now.saturating_sub(since))
}

fn span(seconds: u64) -> String {
    match Duration::from_secs(seconds).as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// How much memory a process has to itself and shared, where that can be found out.
pub(in crate::commands) fn megabytes(process: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = kilobytes.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.map_or_else(|| "?".to_owned(), |kilobytes| format!("{:.1} MiB", kilobytes / 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_hub::HubStatus;
    use gladhand_server::control::WaitingChange;

    fn process() -> ProcessStatus {
        let client = |name: &str, revision: &str| ClientStatus {
            name: name.to_owned(),
            version: "2.1".to_owned(),
            principal: Some("alice".to_owned()),
            dialect: "mcp".to_owned(),
            revision: revision.to_owned(),
        };
        let running = RunningCall { kind: "tool".to_owned(), name: "git__push".to_owned(), seconds: 130 };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let busy = SessionStatus {
            session: Some(1),
            clients: vec![client("claude-code", "2025-11-25")],
            since: now - 300,
            calls: 14,
            under_way: 3,
            running: vec![running],
            ..SessionStatus::default()
        };
        let opening = SessionStatus { session: Some(2), since: now, ..SessionStatus::default() };
        let clients = vec![client("a\u{1b}[2J", "2026-07-28"), client("b", "2026-07-28")];
        let stateless = SessionStatus { clients, since: now, calls: 1, ..SessionStatus::default() };
        let upstream = UpstreamStatus {
            name: "git".to_owned(),
            state: "failed".to_owned(),
            detail: Some("could not be started: no such file or directory, looked for on the path".to_owned()),
            ..UpstreamStatus::default()
        };
        ProcessStatus {
            pid: 0,
            version: "0".to_owned(),
            command: "serve".to_owned(),
            data_dir: None,
            listening: vec!["http://127.0.0.1:8080/mcp".to_owned()],
            since: now - 600,
            waiting: None,
            sessions: vec![busy, opening, stateless],
            hub: HubStatus { sessions: 2, tools: 9, upstreams: vec![upstream], ..HubStatus::default() },
        }
    }

    #[test]
    fn each_session_is_shown_with_its_client_and_running_calls() {
        let text = anstream::adapter::strip_str(&drawn(&[process()], None)).to_string();
        let expected = "\
0 gladhand serve  http://127.0.0.1:8080/mcp
  for 10 min, ? of memory, 2 sessions, 9 tools
  session: claude-code 2.1 as alice, mcp 2025-11-25
    for 5 min, 14 calls, running git__push for 2 min and 2 more
  session: no handshake yet
    for 0 s, 0 calls, idle
  without a session: a\\u{1b}[2J 2.1 as alice, mcp 2026-07-28; b 2.1 as alice, mcp 2026-07-28
    for 0 s, 1 call, idle
  upstream git: failed  could not be started: no such file or directory, looked for on the path
    0 tools, 0 calls under way
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_waiting_change_is_shown_with_the_command_that_applies_it() {
        let command = Some("gladhand config trust /a.toml".to_owned());
        let mut waiting = WaitingChange { file: "/a.toml".to_owned(), command };
        let shown = |waiting: &WaitingChange| {
            let process = ProcessStatus { waiting: Some(waiting.clone()), ..process() };
            anstream::adapter::strip_str(&drawn(&[process], None)).to_string()
        };
        let told = "  a change of /a.toml waits: `gladhand config trust /a.toml` or a restart applies it\n";
        assert!(shown(&waiting).contains(told), "{}", shown(&waiting));
        waiting.command = None;
        assert!(shown(&waiting).contains("waits: a restart (a tool could"), "{}", shown(&waiting));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [60, 80] {
            let drawn = drawn(&[process()], Some(width));
            let text = anstream::adapter::strip_str(&drawn).to_string();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(drawn.contains("\u{1b}[31m: failed"), "{drawn:?}");
        }
    }
}
