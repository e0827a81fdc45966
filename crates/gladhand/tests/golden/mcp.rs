//! MCP: what we answer to the lines that nine real servers were recorded with, and six real clients.
//!
//! The files in `mcp_answers/` hold the recorded lines of the client, and behind them our own answers, byte for byte; a
//! `peers` line says which recorded servers had the same outcome and what the others did. `mcp_answers/README.md` says
//! why we differ where we do. After a change on purpose, `GLADHAND_BLESS=1` rewrites our answers; read the difference
//! like prose.

use std::time::Duration;

use serde_json::{Value, json};

use crate::replay::{RecordedLine, here, recordings_of, text_of, unhex};
use crate::support::Process;
use crate::{fixture, serve};

/// One exchange in a file: lines sent together and the lines that answer them.
#[derive(Debug, Default)]
struct Exchange {
    sent: Vec<u8>,
    lines: usize,
    closes: bool,
    answers: Vec<String>,
}

fn exchanges(text: &str) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut answered = true;
    for line in text.lines() {
        let line: RecordedLine<'_> = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        match (line.dir, line.event.as_deref()) {
            ("c2s", _) | ("ctl", Some("stdin-closed")) => {
                if answered {
                    exchanges.push(Exchange::default());
                }
                answered = false;
                let current = exchanges.last_mut().expect("just made");
                match (line.msg, line.raw, line.raw_hex) {
                    (Some(message), ..) => current.sent.extend_from_slice(format!("{}\n", message.get()).as_bytes()),
                    (_, Some(raw), _) => current.sent.extend_from_slice(raw.as_bytes()),
                    (_, _, Some(hex)) => current.sent.extend(unhex(&hex)),
                    _ => current.closes = true,
                }
                current.lines += 1;
            }
            ("s2c", _) => {
                answered = true;
                let text = line.msg.map(|message| message.get().to_owned());
                let text = text.or_else(|| line.raw.map(|raw| raw.trim_end().to_owned())).expect("an answer");
                exchanges.last_mut().expect("somebody asked").answers.push(text);
            }
            _ => {}
        }
    }
    exchanges
}

fn play(name: &str, problems: &mut Vec<String>) {
    let slow = name.starts_with("slow_") || name == "modern_cancel";
    let mut process = Process::start(if slow { fixture("mcp_slow.json") } else { serve() });
    for exchange in exchanges(&text_of(&here(&format!("mcp_answers/{name}.ndjson")))) {
        process.try_send_bytes(&exchange.sent);
        if exchange.closes {
            process.close();
        }
        let mut got: Vec<_> =
            exchange.answers.iter().map_while(|_| process.line_within(Duration::from_secs(5))).collect();
        let mut expected = exchange.answers;
        if exchange.lines > 1 {
            got.sort();
            expected.sort();
        }
        if got != expected {
            problems.push(format!("{name}\n  expected {expected:?}\n  got      {got:?}"));
        }
    }
    let (status, rest, _) = process.finish();
    if (status, rest.len()) != (0, 0) {
        problems.push(format!("{name} ended with {status} and {rest:?}"));
    }
}

/// Rewrites our answers, behind the lines that they answer.
fn bless(name: &str) {
    let path = here(&format!("mcp_answers/{name}.ndjson"));
    let slow = name.starts_with("slow_") || name == "modern_cancel";
    let mut process = Process::start(if slow { fixture("mcp_slow.json") } else { serve() });
    let text = text_of(&path);
    let mut asked = exchanges(&text).into_iter();
    let mut written = Vec::new();
    let lines = text.lines().filter(|line| !line.starts_with(r#"{"dir":"s2c""#));
    let is_sent = |line: &str| line.starts_with(r#"{"dir":"c2s""#) || line.contains(r#""stdin-closed""#);
    let mut left = 0;
    for line in lines {
        written.push(line.to_owned());
        if !is_sent(line) {
            continue;
        }
        if left == 0 {
            let exchange = asked.next().expect("the same lines");
            left = exchange.lines;
            process.try_send_bytes(&exchange.sent);
            if exchange.closes {
                process.close();
            }
        }
        left -= 1;
        if left == 0 {
            while let Some(answer) = process.line_within(Duration::from_millis(if slow { 400 } else { 60 })) {
                let is_portable = serde_json::from_str::<Value>(&answer).is_ok();
                written.push(match is_portable {
                    true => format!(r#"{{"dir":"s2c","msg":{answer}}}"#),
                    false => format!(r#"{{"dir":"s2c","raw":{}}}"#, json!(format!("{answer}\n"))),
                });
            }
        }
    }
    std::fs::write(&path, written.join("\n") + "\n").expect("the file can be written");
}

#[test]
fn recorded_lines_get_the_answers_written_down_here() {
    let mut names: Vec<_> = std::fs::read_dir(here("mcp_answers"))
        .unwrap()
        .filter_map(|entry| {
            entry.unwrap().file_name().into_string().unwrap().strip_suffix(".ndjson").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert_eq!(names.len(), 46);
    if std::env::var_os("GLADHAND_BLESS").is_some() {
        names.iter().for_each(|name| bless(name));
        return;
    }
    let mut problems = Vec::new();
    for name in &names {
        play(name, &mut problems);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn each_recorded_client_gets_valid_answers() {
    let mut clients = 0;
    for folder in std::fs::read_dir(recordings_of("mcp")).unwrap().map(Result::unwrap) {
        if !folder.file_name().to_string_lossy().starts_with("client-") {
            continue;
        }
        for file in std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()) {
            // The others met servers that speak less than we do.
            if !file.to_string_lossy().ends_with("_vs_dual.ndjson") {
                continue;
            }
            clients += 1;
            let mut process = Process::start(fixture("mcp.json"));
            for line in std::fs::read_to_string(&file).unwrap().lines() {
                let recorded: RecordedLine<'_> = serde_json::from_str(line).unwrap();
                match (recorded.dir, recorded.msg) {
                    ("c2s", Some(message)) => process.send(message.get()),
                    // The message of the scripted server, under our name.
                    ("s2c", Some(message)) => {
                        let mut expected: Value = serde_json::from_str(message.get()).unwrap();
                        let us = json!({"name": "gladhand", "version": env!("CARGO_PKG_VERSION")});
                        let info = "/result/_meta/io.modelcontextprotocol~1serverInfo";
                        for (pointer, ours) in [
                            ("/result/serverInfo", &us),
                            (info, &us),
                            ("/result/capabilities", &json!({"logging": {}, "tools": {}})),
                        ] {
                            if let Some(value) = expected.pointer_mut(pointer) {
                                *value = ours.clone();
                            }
                        }
                        assert_eq!(process.value(), expected, "{} after {line}", file.display());
                    }
                    // A probe in a process of its own, and then the session in another.
                    _ if line.contains(r#""signal""#) => process.signal(rustix::process::Signal::TERM),
                    _ if line.contains(r#""proc":2"#) && line.contains(r#""start""#) => {
                        assert_eq!(process.wait().code(), Some(0));
                        process = Process::start(fixture("mcp.json"));
                    }
                    _ => {}
                }
            }
            let (status, rest, _) = process.finish();
            assert_eq!((status, rest), (0, Vec::new()), "{}", file.display());
        }
    }
    assert_eq!(clients, 15);
}
