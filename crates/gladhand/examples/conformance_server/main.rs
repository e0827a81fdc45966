//! The server that the official MCP conformance suite is run against: its fixtures, built on the public API.
//!
//! `conformance_server` serves on standard input and output, `conformance_server ADDRESS` over HTTP at
//! `http://ADDRESS/mcp`. `cargo xtask conformance` runs the suite; `docs/conformance.md` shows the result.

mod asking;
mod changing;
mod content;
mod tasks;

use std::io::Write;

use gladhand::Service;
use gladhand::dialects::CacheHints;
use gladhand::hub::Hub;
use gladhand::negotiation::Peer;
use gladhand_server::http::Http;
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hub = Hub::new(vec![
        Box::new(content::kit()),
        Box::new(asking::kit()),
        Box::new(tasks::kit()),
        Box::<changing::Changing>::default(),
    ])?;
    let service = Service::new(hub)
        .identity(Peer::new("conformance-server", env!("CARGO_PKG_VERSION")))
        .about("title", &json!("Conformance fixtures"))
        .cache(CacheHints { ttl_ms: 1000, public: true });
    match std::env::args().nth(1) {
        None => service.serve_stdio()?,
        Some(address) => service.serve_http(Http { listen: vec![address.parse()?], ..Http::default() }, announce)?,
    };
    Ok(())
}

/// The parent process reads our address here.
fn announce(urls: &[String]) {
    for url in urls {
        let _ = writeln!(std::io::stdout(), "{url}");
    }
}
