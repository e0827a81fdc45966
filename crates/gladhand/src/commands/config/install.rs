//! `gladhand config install`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};

use super::{InstallArgs, say};
use crate::clients::{self, jsonc};
use crate::commands::plain::plain_lines;
use crate::commands::{CommandError, difference, own_program};
use crate::exit::Exit;

pub(super) fn run(args: &InstallArgs) -> Result<ExitCode, CommandError> {
    let file = args.client.file().ok_or_else(|| anyhow!("there is no home folder"))?;
    let mut arguments = vec!["serve".to_owned()];
    if let Some(config) = &args.config {
        let path = fs_err::canonicalize(config).map_err(CommandError::usage)?;
        let path = path.to_str().ok_or_else(|| anyhow!("the path of the configuration is not UTF-8"))?;
        arguments.extend(["--config".to_owned(), path.to_owned()]);
    }
    let entry = args.client.entry(&own_program()?, &arguments);
    let before = if file.exists() { clients::read_file(&file)? } else { String::new() };
    let after = jsonc::put(&before, args.client.section(), &args.name, &entry);
    let Some(after) = after.with_context(|| file.display().to_string()).map_err(CommandError::usage)? else {
        say(&format!("{} has it already.", file.display()));
        return Ok(Exit::Success.into());
    };
    if args.dry_run {
        return super::print(&format!(
            "{}\n{}",
            file.display(),
            difference::of(&plain_lines(&before), &plain_lines(&after))
        ));
    }
    if !before.is_empty() {
        let backup = free_name(&file);
        fs_err::copy(&file, &backup)?;
        say(&format!("The old file is kept as {}.", backup.display()));
    }
    crate::files::rewrite(&file, after.as_bytes())?;
    let command = arguments.join(" ");
    say(&format!("{} starts `gladhand {command}` as `{}` from its next start on.", args.client.name(), args.name));
    Ok(Exit::Success.into())
}

/// A name beside a file that is not taken.
fn free_name(file: &Path) -> PathBuf {
    let numbered = |number: usize| {
        let mut name = file.as_os_str().to_owned();
        name.push(if number == 1 { ".bak".to_owned() } else { format!(".bak{number}") });
        PathBuf::from(name)
    };
    (1..).map(numbered).find(|name| !name.exists()).unwrap_or_else(|| numbered(1))
}
