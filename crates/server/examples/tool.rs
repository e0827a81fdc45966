//! A server with one tool of its own, in all dialects. Try:
//!
//! ```sh
//! cargo run -p gladhand-server --example tool    # and type a first line, or
//! gladhand open --as mcp -- target/debug/examples/tool
//! ```

use gladhand_server::Service;
use gladhand_server::hub::Kit;
use gladhand_server::negotiation::Peer;
use gladhand_server::operations::{Tool, ToolResult};
use serde_json::json;

#[derive(serde::Deserialize)]
struct Shout {
    text: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let kit = Kit::new().tool(Tool::plain("shout", "Says it louder.").taking(&schema), |call, _| {
        let shout: Shout = call.read()?;
        Ok(ToolResult::text(&shout.text.to_uppercase()))
    });
    Service::new(kit.into_hub()?).identity(Peer::new("shouter", "1.0.0")).serve_stdio()?;
    Ok(())
}
