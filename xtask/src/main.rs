//! The project's own chores, run as `cargo xtask CHORE`: one file each.
//!
//! - `peers` installs the real peers that the tests talk to, and `test` runs every test with them.
//! - `bench` compares Gladhand with other programs, and `soak` runs a long load test.
//! - `conformance` runs the official MCP suite, and `accuracy` measures the repository tools.
//! - `house` and `prose` measure the source tree and its language.
//! - `model` fetches the small model that works offline, `dist` builds the shipped program, and `picture` draws a
//!   conversation.
//!
//! Nothing here is part of the product, and the product depends on nothing here.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "chores talk to the person who started them")]

mod accuracy;
mod bench;
mod conformance;
mod dist;
mod house;
mod model;
mod order;
mod peers;
mod picture;
mod profile;
mod prose;
mod shell;
mod soak;
mod test;
mod training;

use std::process::ExitCode;

const HELP: &str = "\
The project's own chores.

Usage: cargo xtask CHORE [OPTIONS]

Chores:
  test         Install the peers, then run every test of the workspace with them
  bench        Compare `gladhand serve` with rmcp and with the bare floor, over stdio
  bench mcp    Compare it with the Rust, TypeScript and Python SDKs, over stdio and HTTP
  bench gateway
               Compare `gladhand bridge` with other gateways in front of the same upstream
  bench loaf   Start, pings and streams of the agent, beside what was seen of the reference server
  bench a2e    Handshakes, calls and sessions of A2E, beside a plain host in Python
  bench metrics
               What metrics cost a call over HTTP
  bench repo   Analyse 20,000 files and answer from 3,000 sections, beside the same
  conformance  Run the official MCP conformance suite; exit with 1 if a scored scenario fails
  accuracy     Measure how well frameworks are recognised; exit with 1 if a bar is missed
  model        Fetch the small model that works offline into the data folder (instant when it is there)
  dist         Build the program as it is shipped: one file, without libraries of the system
  house        Measure prose, the crates of the embedding API, large files and the size of the program
  picture      Draw a real conversation with `gladhand chat` into docs/chat.svg
  prose        Count sentences in comments, docs and messages that make a reader stop, and vague test names
  soak         Let 200 clients call servers that break, and see that nothing is lost, left or grows
  peers        Install the pinned real peers into target/peers (instant when nothing changed)

Options of `test`:
  -- ARGS…  Handed to `cargo test` as they are, e.g. `cargo xtask test -- --test peers`

Options of `bench`:
  --quick   Few starts and short runs: a first impression in some seconds
  --json    Print the figures as JSON instead of tables
  --strict  Exit with 1 if a bar is missed

Options of `conformance`:
  --server, --client          Only that role
  --requirements REVISION     Only that revision: 2025-11-25 or 2026-07-28
  --bridge                    Run only what goes through `gladhand bridge`
  --write                     Write docs/conformance.md when everything was run

Options of `house`:
  --build                     Measure the CPU time of a clean release build, too
  --strict                    Exit with 1 if a limit is exceeded

Options of `prose`:
  PATH…                       Only below these files or folders
  --cli                       Measure the help texts of all commands instead of files
  --top [N]                   Show the N worst places (40)
  --strict                    Exit with 1 if a score is above its limit

Options of `soak`:
  --minutes N                 For so long (10)

Example: cargo xtask bench --quick";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [] | ["help" | "-h" | "--help", ..] | [_, "-h" | "--help"] => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        ["test"] => test::run(&[]),
        ["test", "--", rest @ ..] => test::run(rest),
        ["model"] => model::run(),
        ["dist"] => dist::run(),
        ["accuracy"] => accuracy::run(),
        ["picture"] => picture::run(),
        ["peers"] => peers::install().map(|_| ExitCode::SUCCESS),
        ["bench", options @ ..] => match bench::Options::read(options) {
            Ok(options) => bench::run(options),
            Err(unknown) => return misused(&format!("`bench` has no option `{unknown}`")),
        },
        ["house", options @ ..] => match house::Options::read(options) {
            Ok(options) => house::run(&options),
            Err(unknown) => return misused(&format!("`house` has no option `{unknown}`")),
        },
        ["prose", options @ ..] => match prose::Options::read(options) {
            Ok(options) => prose::run(&options),
            Err(unknown) => return misused(&format!("`prose` has no option `{unknown}`")),
        },
        ["soak", options @ ..] => match soak::minutes(options) {
            Ok(minutes) => soak::run(minutes),
            Err(unknown) => return misused(&format!("`soak` has no option `{unknown}`")),
        },
        ["conformance", options @ ..] => match conformance::Options::read(options) {
            Ok(options) => conformance::run(&options),
            Err(unknown) => return misused(&format!("`conformance` has no option `{unknown}`")),
        },
        [chore @ ("test" | "peers" | "dist" | "accuracy" | "model" | "picture"), unknown, ..] => {
            return misused(&format!("`{chore}` has no option `{unknown}`"));
        }
        [unknown, ..] => return misused(&format!("there is no chore `{unknown}`")),
    };
    done.unwrap_or_else(|why| {
        eprintln!("error: {why:#}");
        ExitCode::FAILURE
    })
}

fn misused(how: &str) -> ExitCode {
    eprintln!("error: {how}\n\n{HELP}");
    ExitCode::from(2)
}
