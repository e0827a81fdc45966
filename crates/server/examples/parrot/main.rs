//! A fifth dialect, to show what one takes: the folder `dialect/` and one line in a registry.
//!
//! The hub with its tool, the limits and the transport are the same as for the other four dialects,
//! which the program still speaks. Try:
//!
//! ```sh
//! printf '{"parrot":"Polly"}\n{"say":"hello"}\n' | cargo run -p gladhand-server --example parrot
//! ```

mod dialect;

use gladhand_server::Service;
use gladhand_server::dialects::{Dialect, a2e, fluxloop, loaf, mcp};
use gladhand_server::hub::Kit;
use gladhand_server::operations::{Tool, ToolResult};
use serde_json::json;

static REGISTRY: &[&Dialect] = &[
    &mcp::DIALECT,
    &loaf::DIALECT,
    &a2e::DIALECT,
    &fluxloop::DIALECT,
    &dialect::DIALECT, // The one line.
];

#[derive(serde::Deserialize)]
struct Echo {
    message: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
    let kit = Kit::new().tool(Tool::plain("echo", "Returns its message.").taking(&schema), |call, _| {
        let Echo { message } = call.read()?;
        Ok(ToolResult::text(&message))
    });
    Service::new(kit.into_hub()?).registry(REGISTRY).serve_stdio()?;
    Ok(())
}
