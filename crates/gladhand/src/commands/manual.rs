//! `gladhand completions` and `gladhand man`: made from the definition of the command line.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::commands::CommandError;
use crate::exit::Exit;

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "gladhand", &mut script);
    print(&script)
}

/// Prints the manual page, or writes one page per command into a folder.
pub fn man(out: Option<&Path>) -> Result<ExitCode, CommandError> {
    match out {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            print(&page)
        }
        Some(folder) => {
            fs_err::create_dir_all(folder)?;
            clap_mangen::generate_to(Cli::command(), folder)?;
            Ok(Exit::Success.into())
        }
    }
}

fn print(bytes: &[u8]) -> Result<ExitCode, CommandError> {
    match std::io::stdout().write_all(bytes) {
        // `gladhand man | head` is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Success.into()),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(Exit::Success.into()),
    }
}
