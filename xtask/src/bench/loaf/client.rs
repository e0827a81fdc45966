//! One client of `gladhand serve --dialect loaf`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bench::process::{Running, Server, Streams};

/// A session on stdio after its handshake.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) running: Running,
    output: BufReader<File>,
    line: String,
    next: u64,
}

impl Client {
    /// Starts the server and shakes hands.
    pub(super) fn start(server: &Server) -> Result<Self> {
        let running = server.start(Streams::Pipes)?;
        let output = BufReader::with_capacity(1 << 16, running.output.try_clone()?);
        let mut client = Self { running, output, line: String::new(), next: 0 };
        let params = json!({ "client_name": "bench", "client_version": "1", "protocol_version": "1.0.0" });
        let agreed = client.ask("rpc.handshake", params)?;
        ensure!(agreed["protocol_version"] == "1.0.0", "the handshake was answered with {agreed}");
        Ok(client)
    }

    /// Has a key and a model of the scripted provider from now on.
    pub(super) fn choose(&mut self, model: &str) -> Result<()> {
        self.ask("auth.set.openrouter_key", json!({ "api_key": "sk-bench" }))?;
        let choice = json!({ "model_id": model, "provider": "openrouter", "thinking_level": "OFF" });
        self.ask("model.select", choice).map(drop)
    }

    /// Asks, and returns the result; events that come before it are passed over.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.send(method, params)?;
        loop {
            let mut message: Value = serde_json::from_str(self.line()?).context("a line is no JSON")?;
            if message["id"] == id {
                let result = message.get_mut("result").map(Value::take);
                return result.with_context(|| format!("{method} was answered with {message}"));
            }
        }
    }

    /// Asks without waiting; the id that the answer will have.
    pub(super) fn send(&mut self, method: &str, params: Value) -> Result<u64> {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.running.input.write_all(format!("{request}\n").as_bytes())?;
        Ok(self.next)
    }

    /// The next line of the server.
    pub(super) fn line(&mut self) -> Result<&str> {
        self.line.clear();
        let count = self.output.read_line(&mut self.line)?;
        ensure!(count > 0, "it ended, or was silent too long");
        Ok(&self.line)
    }
}
