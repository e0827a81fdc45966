//! A fifth dialect, to show what one takes: the folder `dialect/` and one line in a registry.
//!
//! Everything behind the opening (hub, toolbox, limits, the stdio edge) is the same as for the
//! other four, which go on working beside it. Try:
//!
//! ```sh
//! printf '{"parrot":"Polly"}\n{"say":"hello"}\n' | cargo run --example parrot
//! ```

mod dialect;

use gladhand::Service;
use gladhand::dialects::{Dialect, a2e, fluxloop, loaf, mcp};
use gladhand::hub::Hub;
use gladhand::providers::Toolbox;

static REGISTRY: &[&Dialect] = &[
    &mcp::DIALECT,
    &loaf::DIALECT,
    &a2e::DIALECT,
    &fluxloop::DIALECT,
    &dialect::DIALECT, // The one line.
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hub = Hub::new(vec![Box::new(Toolbox)])?;
    Service::new(hub).registry(REGISTRY).serve_stdio()?;
    Ok(())
}
