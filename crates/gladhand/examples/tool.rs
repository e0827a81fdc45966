//! A server with one tool of its own, in all dialects. Try:
//!
//! ```sh
//! cargo run --example tool                       # and type a first line, or
//! gladhand open --as mcp -- target/debug/examples/tool
//! ```

use gladhand::Service;
use gladhand::accord::Peer;
use gladhand::hub::{Answer, Context, Hub, Provider};
use gladhand::operations::{Failure, Reply, Tool, ToolCall, ToolResult};
use gladhand::wire::{Members, json};

#[derive(Debug)]
struct Shouter;

impl Provider for Shouter {
    fn tools(&self) -> Vec<Tool> {
        let schema = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
        vec![Tool::new("shout", "Says it louder.", json::raw(schema.to_owned()))]
    }

    fn call(&self, call: ToolCall<'_>, _: &Context<'_>) -> Answer {
        let text = Members::of(&call.arguments).and_then(|arguments| arguments.str("text"));
        Answer::Now(match text {
            Some(text) => Ok(Reply::Tool(ToolResult::text(&text.to_uppercase()))),
            None => Err(Failure::invalid_argument("text", "expected a string")),
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hub = Hub::new(vec![Box::new(Shouter)])?;
    Service::new(hub).identity(Peer::new("shouter", "1.0.0")).serve_stdio()?;
    Ok(())
}
