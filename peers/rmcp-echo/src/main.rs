//! The echo tool on rmcp, over stdin and stdout. The first argument selects the configuration:
//!
//! - none: `stdio()` on the multi-thread runtime, the usual way. `single`: the same on one thread.
//! - `pipes`: `stdio_pipes()`, which does not use the blocking pool. `single-pipes`: the same on one thread, the fastest.
//!
//! `http PORT` and `single-http PORT` serve it at `http://127.0.0.1:PORT/mcp`: see `http.rs`.

mod http;

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

/// Where calls come from.
enum Way {
    Stdio,
    Pipes,
    Http(u16),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (mut runtime, way) = match words.as_slice() {
        [] => (Builder::new_multi_thread(), Way::Stdio),
        ["single"] => (Builder::new_current_thread(), Way::Stdio),
        ["pipes"] => (Builder::new_multi_thread(), Way::Pipes),
        ["single-pipes"] => (Builder::new_current_thread(), Way::Pipes),
        [name @ ("http" | "single-http"), port] => match port.parse() {
            Ok(port) if *name == "http" => (Builder::new_multi_thread(), Way::Http(port)),
            Ok(port) => (Builder::new_current_thread(), Way::Http(port)),
            Err(_) => return misused(&format!("`{port}` is no port")),
        },
        other => return misused(&format!("no configuration `{}`", other.join(" "))),
    };
    let served = runtime.enable_all().build().map_err(|e| e.to_string()).and_then(|runtime| {
        let served = runtime.block_on(async {
            let service = match way {
                Way::Pipes => Server.serve(stdio_pipes()).await,
                Way::Stdio => Server.serve(stdio()).await,
                Way::Http(port) => return http::serve(port).await.map_err(|e| e.to_string()),
            };
            let waiting = service.map_err(|e| e.to_string())?.waiting().await;
            waiting.map(drop).map_err(|e| e.to_string())
        });
        // A blocking read of stdin may still be parked in the pool; it must not hold up the exit.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn misused(how: &str) -> ExitCode {
    eprintln!("error: {how}\nhint: single, pipes, single-pipes, http PORT, single-http PORT, or nothing");
    ExitCode::from(2)
}
