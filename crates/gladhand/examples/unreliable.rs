//! An MCP server of the handshake era that misbehaves on request, for tests of the code in front of it.
//!
//! Its tools answer with the text that they are given. Before that:
//!
//! - `echo` does nothing else.
//! - `die` ends the process in place of an answer, and `vanish` after half of one.
//! - `silence` never answers, and `stall` reads and writes nothing for `ms` milliseconds.
//! - `flood` writes `lines` lines to stderr.
//! - `garbage` writes lines that are no messages, and answers to unknown requests.
//! - `twice` answers twice.
//!
//! `--exit` ends it at once with a word on stderr, `--slow MS` lets it begin late, and with `--stay` it does not leave
//! when its input ends.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

fn main() -> io::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut stays = false;
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--exit"] => {
            writeln!(io::stderr(), "no room for a server here")?;
            return Ok(ExitCode::from(3));
        }
        ["--slow", ms] => std::thread::sleep(Duration::from_millis(ms.parse().unwrap_or_default())),
        ["--stay"] => stays = true,
        _ => {}
    }
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        // Notices need no answer.
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { continue };
        let answer = match method {
            "initialize" => result(id, &opening(&message["params"]["protocolVersion"])),
            "ping" => result(id, &json!({})),
            "tools/list" => result(id, &json!({"tools": TOOLS.map(tool)})),
            "tools/call" => match call(id, &message["params"], &mut output)? {
                Some(answer) => answer,
                None => continue,
            },
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    if stays {
        loop {
            std::thread::park();
        }
    }
    Ok(ExitCode::SUCCESS)
}

const TOOLS: [&str; 8] = ["echo", "die", "vanish", "silence", "stall", "flood", "garbage", "twice"];

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

fn opening(version: &Value) -> Value {
    json!({
        "protocolVersion": version, "capabilities": {"tools": {}},
        "serverInfo": {"name": "unreliable", "version": "1"},
    })
}

fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Misbehaves as it is told; returns the answer that is still to be written.
fn call(id: &Value, params: &Value, output: &mut impl Write) -> io::Result<Option<Value>> {
    let arguments = &params["arguments"];
    let number = |name: &str, otherwise| arguments[name].as_u64().unwrap_or(otherwise);
    let text = arguments["text"].as_str().unwrap_or_default();
    let answer = result(id, &json!({"content": [{"type": "text", "text": text}]}));
    match params["name"].as_str() {
        Some("die") => {
            writeln!(io::stderr(), "dying as asked")?;
            std::process::exit(1);
        }
        Some("vanish") => {
            let line = answer.to_string();
            output.write_all(&line.as_bytes()[..line.len() / 2])?;
            output.flush()?;
            std::process::exit(1);
        }
        Some("silence") => return Ok(None),
        Some("stall") => std::thread::sleep(Duration::from_millis(number("ms", 100))),
        Some("flood") => {
            let mut errors = io::stderr().lock();
            for line in 0..number("lines", 1000) {
                writeln!(errors, "line {line} of very many that nobody will ever read, however patient they are")?;
            }
        }
        Some("garbage") => {
            output.write_all(b"Starting the server...\n{\"jsonrpc\":\"2.0\",\"id\":\n[]\n\xff\xfe\n\n")?;
            writeln!(output, "{}", result(&json!(987_654_321), &json!({})))?;
            writeln!(output, "{}", result(&json!("nobody"), &json!({})))?;
        }
        Some("twice") => writeln!(output, "{answer}")?,
        _ => {}
    }
    Ok(Some(answer))
}
