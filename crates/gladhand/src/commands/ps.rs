//! `gladhand ps`: what runs, for whom, and what sharing saves.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gladhand_hub::{Offence, UpstreamStatus};

use crate::cli::PsArgs;
use crate::commands::plain::plain;
use crate::commands::{CommandError, print_json, written};
use crate::edges::control::{self, ProcessStatus};
use crate::exit::Exit;

/// Shows every process of this user.
pub fn run(args: &PsArgs) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let all = runtime.block_on(control::everybody());
    let mut out = anstream::stdout();
    if args.json {
        print_json(&serde_json::to_string_pretty(&all)?)?;
        return Ok(Exit::Success.into());
    }
    if all.is_empty() {
        written(writeln!(out, "nothing runs: start `gladhand serve` or `gladhand bridge`"))?;
    }
    let text: String = all.iter().map(describe).collect();
    written(out.write_all(text.as_bytes()))?;
    Ok(Exit::Success.into())
}

fn describe(process: &ProcessStatus) -> String {
    let bold = anstyle::Style::new().bold();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let age = age(Duration::from_secs(now.saturating_sub(process.since)));
    let place = if process.listening.is_empty() { "stdin".to_owned() } else { plain(&process.listening.join(", ")) };
    let (sessions, tools) = (process.hub.sessions, process.hub.tools);
    let memory = megabytes(process.pid);
    let mut text = format!(
        "{bold}{} gladhand {}{bold:#}  {place}  for {age}, {} of memory, {}, {}\n",
        process.pid,
        plain(&process.command),
        memory,
        count(sessions, "session"),
        count(tools, "tool"),
    );
    for upstream in &process.hub.upstreams {
        text.push_str(&line(upstream));
    }
    let offences = process.hub.upstreams.iter().flat_map(|upstream| &upstream.offences);
    text.extend(process.hub.offences.iter().map(|offence| broken("client", offence, process)));
    text.extend(offences.map(|offence| broken("server", offence, process)));
    let processes: usize = process.hub.upstreams.iter().map(|upstream| upstream.processes.len()).sum();
    // Without sharing, each session would have a process of its own for each upstream that is one.
    let would_be = sessions * process.hub.upstreams.iter().filter(|upstream| !upstream.processes.is_empty()).count();
    if would_be > processes {
        text.push_str(&format!("  sharing saves {}\n", count(would_be - processes, "process")));
    }
    text
}

fn line(upstream: &UpstreamStatus) -> String {
    let style = match upstream.state.as_str() {
        "open" => anstyle::AnsiColor::Green.on_default(),
        "failed" => anstyle::AnsiColor::Red.on_default(),
        _ => anstyle::Style::new().dimmed(),
    };
    let processes = upstream.processes.iter().map(|id| format!("{id} ({})", megabytes(*id)));
    let processes: Vec<_> = processes.collect();
    let mut parts = vec![count(upstream.tools, "tool"), count(upstream.calls, "call under way")];
    if upstream.restarts > 0 {
        parts.push(count(usize::try_from(upstream.restarts).unwrap_or(usize::MAX), "restart"));
    }
    if !processes.is_empty() {
        parts.push(format!("as {}", processes.join(", ")));
    }
    let detail = upstream.detail.as_deref().map(|detail| format!("  {}", plain(detail))).unwrap_or_default();
    let (name, state) = (plain(&upstream.name), &upstream.state);
    let unlisted: String = upstream.unlisted.iter().map(|why| format!("    {}\n", plain(why))).collect();
    format!("  {name}  {style}{state}{style:#}{detail}\n    {}\n{unlisted}", parts.join(", "))
}

/// A rule of what was negotiated that somebody broke.
fn broken(side: &str, offence: &Offence, process: &ProcessStatus) -> String {
    let style = anstyle::AnsiColor::Yellow.on_default();
    let times = count(usize::try_from(offence.count).unwrap_or(usize::MAX), "time");
    let who = plain(&offence.who);
    let (rule, handling) = (plain(&offence.rule), process.hub.violations);
    format!("  {style}{side} `{who}` broke {rule}{style:#} {times} ({handling})\n")
}

fn count(number: usize, what: &str) -> String {
    match (number, what) {
        (1, what) => format!("1 {what}"),
        (number, "call under way") => format!("{number} calls under way"),
        (number, "process") => format!("{number} processes"),
        (number, what) => format!("{number} {what}s"),
    }
}

fn age(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// How much memory a process has to itself and shared, where that can be found out.
fn megabytes(process: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = kilobytes.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.map_or_else(|| "?".to_owned(), |kilobytes| format!("{:.1} MiB", kilobytes / 1024.0))
}
