//! The tools of the agent: shell, files, scripts, web search, and custom tools from a folder.

mod background;
mod catalogue;
mod contract;
mod custom;
mod files;
mod input;
mod moment;
mod outcome;
mod process;
mod scripts;
mod session_state;
mod settings;
mod shell;
mod tool_set;
mod web;

pub use contract::{Effect, Guarded, GuardedPath, Run, RunResult, ToolDescription, ToolProvider};
pub use files::bounds::SecretFiles;
pub use files::secrets::may_hold_secrets;
pub use files::secrets::steers_programs;
pub use process::Environment;
pub use settings::{KeyOfExa, ToolSettings};
pub use tool_set::ToolSet;

/// Removes temporary files with the variables of commands, which earlier processes left behind because they were
/// killed.
pub fn remove_leftovers() {
    shell::remove_leftovers(&std::env::temp_dir());
}
