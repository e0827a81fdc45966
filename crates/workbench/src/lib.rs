//! The tools that the agent works with: shell, files, scripts, web search, and tools from a folder.

mod contract;

pub use contract::{Bench, Effect, Ran, Run, ToolDescription};
