//! One session with `gladhand serve --dialect fluxloop` on stdio.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bench::process::{Running, Server, Streams};

/// A server that has answered the handshake.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) running: Running,
    output: BufReader<File>,
}

impl Session {
    pub(super) fn start(server: &Server) -> Result<Self> {
        let running = server.start(Streams::Pipes)?;
        let output = BufReader::new(running.output.try_clone()?);
        let mut session = Self { running, output };
        session.exchange(&json!({ "type": "handshake", "id": 0 }))?;
        Ok(session)
    }

    /// Calls a tool and returns its result.
    pub(super) fn call(&mut self, tool: &str, params: &Value) -> Result<Value> {
        self.exchange(&json!({ "type": "request", "id": 1, "tool": tool, "params": params }))
    }

    fn exchange(&mut self, request: &Value) -> Result<Value> {
        self.running.input.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "it ended, or was silent too long");
        let mut answer: Value = serde_json::from_str(&line).context("an answer is no JSON")?;
        let result = answer.get_mut("result").map(Value::take);
        result.with_context(|| format!("{request} was answered with {line}"))
    }
}
