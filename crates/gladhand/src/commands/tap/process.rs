//! Which process is meant.

use std::fmt::Write as _;

use anyhow::anyhow;
use gladhand_server::control::ProcessStatus;

use crate::commands::CommandError;
use crate::terminal::text::plain;

/// The process that the command line names.
pub(super) fn named(all: Vec<ProcessStatus>, name: Option<&str>) -> Result<ProcessStatus, CommandError> {
    let (mut fitting, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|process| name.is_none_or(|name| is_called(process, name)));
    match (fitting.len(), name) {
        (1, _) => Ok(fitting.swap_remove(0)),
        (0, Some(name)) => {
            let error = CommandError::usage(anyhow!("no running process is called `{}`", plain(name)));
            Err(error.hint(if others.is_empty() { NONE.to_owned() } else { choice(&others) }))
        }
        (0, None) => Err(CommandError::usage(anyhow!("no `gladhand serve` or `gladhand bridge` runs")).hint(NONE)),
        (count, Some(name)) => {
            let error = anyhow!("{count} running processes are called `{}`", plain(name));
            Err(CommandError::usage(error).hint(choice(&fitting)))
        }
        (count, None) => Err(CommandError::usage(anyhow!("{count} processes run: which one?")).hint(choice(&fitting))),
    }
}

const NONE: &str = "start `gladhand serve` or `gladhand bridge` first; `gladhand ps` lists them";

/// What to type for each process.
fn choice(all: &[ProcessStatus]) -> String {
    let mut text = "type one of".to_owned();
    for process in all {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  gladhand tap {}   {}", process.pid, plain(&facts(process)));
    }
    text
}

fn is_called(process: &ProcessStatus, name: &str) -> bool {
    let mut clients = process.sessions.iter().flat_map(|session| &session.clients);
    process.pid.to_string() == name
        || process.command == name
        || process.listening.iter().any(|address| address == name)
        || process.hub.upstreams.iter().any(|upstream| upstream.name == name)
        || clients.any(|client| client.name == name)
}

/// The title of the drawing.
pub(super) fn title(process: &ProcessStatus) -> String {
    format!("process {}: gladhand {}", process.pid, facts(process))
}

/// The command, where it listens, and its clients.
fn facts(process: &ProcessStatus) -> String {
    let place = if process.listening.is_empty() { "stdin".to_owned() } else { process.listening.join(", ") };
    let mut clients: Vec<_> = process.sessions.iter().flat_map(|session| &session.clients).collect();
    clients.dedup_by(|a, b| a.name == b.name);
    let names: Vec<_> = clients.iter().take(3).map(|client| client.name.as_str()).collect();
    match (names.is_empty(), clients.len() - names.len()) {
        (true, _) => format!("{} on {place}", process.command),
        (false, 0) => format!("{} on {place} for {}", process.command, names.join(", ")),
        (false, more) => format!("{} on {place} for {} and {more} more", process.command, names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use gladhand_hub::{ClientStatus, HubStatus, SessionStatus, UpstreamStatus};

    use super::*;

    fn process(pid: u32, command: &str, client: &str, upstream: &str) -> ProcessStatus {
        let client = ClientStatus {
            name: client.to_owned(),
            version: String::new(),
            principal: None,
            dialect: "mcp".to_owned(),
            revision: "2025-11-25".to_owned(),
        };
        let upstream = UpstreamStatus { name: upstream.to_owned(), ..UpstreamStatus::default() };
        ProcessStatus {
            pid,
            version: "0".to_owned(),
            command: command.to_owned(),
            data_dir: None,
            listening: Vec::new(),
            since: 0,
            waiting: None,
            sessions: vec![SessionStatus { clients: vec![client], ..SessionStatus::default() }],
            hub: HubStatus { upstreams: vec![upstream], ..HubStatus::default() },
        }
    }

    #[test]
    fn a_process_is_found_by_id_command_client_or_upstream() {
        let all = || vec![process(1, "serve", "cursor", "git"), process(2, "bridge", "zed", "files")];
        for (name, pid) in [("1", 1), ("2", 2), ("serve", 1), ("bridge", 2), ("zed", 2), ("git", 1)] {
            assert_eq!(named(all(), Some(name)).unwrap().pid, pid, "{name}");
        }
        assert_eq!(named(vec![process(7, "serve", "a", "b")], None).unwrap().pid, 7);
    }

    #[test]
    fn several_processes_are_listed_with_the_command_for_each() {
        let all = vec![process(1, "serve", "cursor", "git"), process(2, "serve", "a\u{1b}", "git")];
        for name in [None, Some("git"), Some("absent")] {
            let hint = named(all.clone(), name).unwrap_err().hint.unwrap();
            let expected = "type one of\n  gladhand tap 1   serve on stdin for cursor\n  \
                            gladhand tap 2   serve on stdin for a\\u{1b}";
            assert_eq!(hint, expected, "{name:?}");
        }
        assert!(named(Vec::new(), None).unwrap_err().to_string().contains("runs"));
    }
}
