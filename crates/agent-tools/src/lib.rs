//! The tools of the agent: shell, files, scripts, web search, and custom tools from a folder.

mod background;
mod bench;
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
mod web;

pub use bench::Workbench;
pub use contract::{Bench, Effect, Guarded, GuardedPath, Ran, Run, ToolDescription};
pub use files::bounds::SecretFiles;
pub use files::secrets::may_hold_secrets;
pub use files::secrets::steers_programs;
pub use process::Environment;
pub use settings::{KeyOfExa, WorkbenchSettings};

/// Removes temporary files with the variables of commands, which earlier processes left behind because they were
/// killed.
pub fn remove_leftovers() {
    shell::remove_leftovers(&std::env::temp_dir());
}
