//! The shell: foreground and background commands.

pub(crate) mod background;
pub(crate) mod bash;
mod keys;
mod state;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::process::{Environment, programs};

pub(crate) use state::remove_leftovers;

/// The shell that runs commands.
#[derive(Debug)]
pub(crate) struct Shell {
    /// Its name.
    pub(crate) name: &'static str,
    program: PathBuf,
    /// The option before a command. It makes a login shell if the shell supports that.
    switch: &'static str,
}

impl Shell {
    /// The first that is installed.
    pub(crate) fn find(environment: &Environment) -> Option<Self> {
        let known = [("zsh", "-lc"), ("bash", "-lc"), ("sh", "-c")];
        known.into_iter().find_map(|(name, switch)| {
            let program = programs::find(name, environment)?;
            Some(Self { name, program, switch })
        })
    }

    /// The arguments for a script.
    fn arguments(&self, script: &str) -> Vec<OsString> {
        vec![self.switch.into(), script.into()]
    }

    /// The arguments as reports show them.
    fn shown_arguments(&self) -> [&'static str; 2] {
        [self.switch, "<command>"]
    }
}
