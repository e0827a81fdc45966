//! The echo tool on rmcp, over stdin and stdout, in four configurations named by the first argument:
//! none (`stdio()` on the multi-thread runtime, as people write it), `single` (the same on one thread),
//! `pipes` (`stdio_pipes()`, which does without the blocking pool) and `single-pipes` (the fastest).

use std::process::ExitCode;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::io::{stdio, stdio_pipes};
use rmcp::{ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};
use tokio::runtime::Builder;

#[derive(Clone)]
struct Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

#[tool_router]
impl Server {
    #[tool(description = "Returns its message.")]
    async fn echo(&self, Parameters(echo): Parameters<Echo>) -> String {
        echo.message
    }
}

#[tool_handler]
impl ServerHandler for Server {}

fn main() -> ExitCode {
    let (mut runtime, pipes) = match std::env::args().nth(1).as_deref() {
        None => (Builder::new_multi_thread(), false),
        Some("single") => (Builder::new_current_thread(), false),
        Some("pipes") => (Builder::new_multi_thread(), true),
        Some("single-pipes") => (Builder::new_current_thread(), true),
        Some(other) => {
            eprintln!("error: no configuration `{other}`\nhint: single, pipes, single-pipes, or nothing");
            return ExitCode::from(2);
        }
    };
    let served = runtime.enable_all().build().map_err(|e| e.to_string()).and_then(|runtime| {
        let served = runtime.block_on(async {
            let service = match pipes {
                true => Server.serve(stdio_pipes()).await,
                false => Server.serve(stdio()).await,
            };
            service.map_err(|e| e.to_string())?.waiting().await.map_err(|e| e.to_string())
        });
        // A blocking read of stdin may still be parked in the pool; it must not hold up the exit.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(_) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
