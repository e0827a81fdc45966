//! The tool of the benches on the library: what it takes to have a server of one's own, beside other libraries'.
//!
//! `echo` serves it on standard input and output, `echo http PORT` at `http://127.0.0.1:PORT/mcp`.

use gladhand::Service;
use gladhand::hub::Kit;
use gladhand::negotiation::Peer;
use gladhand::operations::{Tool, ToolResult};
use gladhand_server::http::{Address, Http};
use serde_json::json;

#[derive(serde::Deserialize)]
struct Echo {
    message: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
    let kit = Kit::new().tool(Tool::plain("echo", "Returns its message.").taking(&schema), |call, _| {
        let echo: Echo = call.read()?;
        Ok(ToolResult::text(&echo.message))
    });
    let service = Service::new(kit.into_hub()?).identity(Peer::new("echo", "1.0.0"));
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [] => service.serve_stdio()?,
        [way, port] if way == "http" => {
            let listen = vec![Address::Tcp(format!("127.0.0.1:{port}"))];
            service.serve_http(Http { listen, ..Http::default() }, |_| ())?
        }
        _ => return Err("expected nothing, or `http PORT`".into()),
    };
    Ok(())
}
