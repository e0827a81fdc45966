//! `gladhand config install`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::{Context as _, anyhow};

use super::{InstallArgs, say};
use crate::clients::{self, jsonc};
use crate::commands::{CommandError, own_program};
use crate::config;
use crate::exit::Exit;

const OLD: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();

/// How many lines are shown around what is different.
const AROUND: usize = 2;

pub(super) fn run(args: &InstallArgs) -> Result<ExitCode, CommandError> {
    let file = args.client.file().ok_or_else(|| anyhow!("there is no home folder"))?;
    let mut arguments = vec!["serve".to_owned()];
    if let Some(config) = config_to_name(args.config.as_deref())? {
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
        return super::print(&format!("{}\n{}", file.display(), diff(&before, &after)));
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

/// The configuration file that is in force here, if we would not find it again when somebody else starts us elsewhere.
fn config_to_name(named: Option<&Path>) -> Result<Option<PathBuf>, CommandError> {
    let file = config::find(named).map_err(CommandError::usage)?;
    let is_found_anywhere = |path: &PathBuf| named.is_none() && config::users_file().as_ref() == Some(path);
    Ok(file.map(|file| file.path).filter(|path| !is_found_anywhere(path)))
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

/// What is different between two texts that differ in one place, with some lines around it.
fn diff(before: &str, after: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let mut text = String::new();
    let mut show = |style: Style, mark: char, lines: &[&str]| {
        for line in lines {
            // A string takes everything.
            let _ = writeln!(text, "{style}{mark} {}{style:#}", crate::commands::plain::plain(line));
        }
    };
    show(Style::new(), ' ', &new[same.saturating_sub(AROUND)..same]);
    show(OLD, '-', &old[same..old.len() - tail]);
    show(NEW, '+', &new[same..new.len() - tail]);
    show(Style::new(), ' ', &new[new.len() - tail..new.len().min(new.len() - tail + AROUND)]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_diff_shows_what_is_different_and_a_little_around_it() {
        let (before, after) = ("1\n2\n3\n4\n5\n6\n", "1\n2\n3\nx\n4b\n5\n6\n");
        assert_eq!(plain(&diff(before, after)), "  2\n  3\n- 4\n+ x\n+ 4b\n  5\n  6\n");
        assert_eq!(plain(&diff("", "a\n")), "+ a\n");
        assert_eq!(plain(&diff("a\na\n", "a\na\na\n")), "  a\n  a\n+ a\n");
    }
}
