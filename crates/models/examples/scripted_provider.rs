//! Runs a scripted provider, for manual tests and for tests in other languages.

#![expect(clippy::print_stdout, reason = "prints the address of the provider")]

use std::error::Error;
use std::net::SocketAddr;

use gladhand_models::scripted::{Script, ScriptedProvider};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which script?")?;
    let address: SocketAddr = arguments.next().as_deref().unwrap_or("127.0.0.1:0").parse()?;
    let text = std::fs::read_to_string(&path)?;
    let script = if path.ends_with(".ndjson") { Script::of_recording(&text)? } else { Script::parse(&text)? };
    let provider = ScriptedProvider::start_at(address, script).await?;
    println!("{}", provider.origin());
    std::future::pending().await
}
