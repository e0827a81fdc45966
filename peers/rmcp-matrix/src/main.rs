//! rmcp for the matrix of peers: `rmcp-matrix client PLAN`, or `rmcp-matrix stdio` and `rmcp-matrix http PORT` as a
//! server. The scripts in `peers/matrix` describe the plans and the tools of the server.
#![expect(deprecated, reason = "sampling is, and what is deprecated still has to work")]

mod client;
mod server;

use std::process::ExitCode;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["client", plan] => client::run(plan).await,
        ["stdio"] => server::stdio().await,
        ["http", port] => server::http(port).await,
        _ => Err("client PLAN, stdio, or http PORT".into()),
    };
    match done {
        // Not through `main`: a read of stdin may still be parked in the pool, and must not hold up the exit.
        Ok(()) => std::process::exit(0),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
