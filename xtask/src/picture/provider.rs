//! A model that says what the picture is to show, over HTTP on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use serde_json::{Value, json};

const ANSWER: &str = "\
## The longest is `parser.rs`

It has **547 lines**, more than the others together:

- `parser.rs`: expressions, statements, *error recovery*
- `lexer.rs`: 214 lines
- `syntax.rs`: 163, and `main.rs`: 38

```rust
mod lexer;
mod parser; // Error recovery could be a file of its own.
```
";

/// Starts it; the address that it is asked at.
pub(super) fn start() -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let base = format!("http://{}/v1", listener.local_addr()?);
    std::thread::spawn(move || {
        let asked = AtomicUsize::new(0);
        for stream in listener.incoming().flatten() {
            // A client may disconnect early: a failed write is ignored.
            let _ = answer(&stream, &asked);
        }
    });
    Ok(base)
}

fn answer(mut stream: &TcpStream, asked: &AtomicUsize) -> Result<()> {
    let mut input = BufReader::new(stream);
    let (mut line, mut path, mut length) = (String::new(), String::new(), 0);
    while input.read_line(&mut line)? > 2 {
        if path.is_empty() {
            path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        }
        let value = line.to_lowercase().strip_prefix("content-length:").and_then(|length| length.trim().parse().ok());
        length = value.unwrap_or(length);
        line.clear();
    }
    std::io::copy(&mut input.take(length), &mut std::io::sink())?;
    let (kind, body) = if path.ends_with("/models") {
        ("application/json", json!({"object": "list", "data": [{"id": "parrot-1", "object": "model"}]}).to_string())
    } else {
        ("text/event-stream", reply(asked.fetch_add(1, Ordering::Relaxed)))
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
    Ok(stream.write_all((head + &body).as_bytes())?)
}

/// The reply to the first request, or to those after it.
fn reply(number: usize) -> String {
    let deltas = if number == 0 {
        let function = json!({"name": "bash", "arguments": json!({"command": "wc -l src/*.rs"}).to_string()});
        let call = json!({"index": 0, "id": "call-1", "type": "function", "function": function});
        vec![json!({"content": "I'll count their lines."}), json!({"tool_calls": [call]})]
    } else {
        ANSWER.split_inclusive(' ').map(|piece| json!({"content": piece})).collect()
    };
    let event = |delta: &Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
    };
    let reason = if number == 0 { "tool_calls" } else { "stop" };
    let pieces: String = deltas.iter().map(|delta| event(delta, Value::Null)).collect();
    format!("{pieces}{}data: [DONE]\n\n", event(&json!({}), reason.into()))
}
