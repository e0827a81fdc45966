//! `gladhand completions` and `gladhand man`: made from the definition of the command line.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::Cli;
use crate::commands::CommandError;
use crate::exit::Exit;

/// How the examples of a help begin.
const EXAMPLES: &str = "Examples:";

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "gladhand", &mut script);
    print(&script)
}

/// Prints the manual page, or writes one page per command into a folder.
pub fn man(out: Option<&Path>) -> Result<ExitCode, CommandError> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    match out {
        None => print(&page(&root, None, &all(&root))?),
        Some(folder) => {
            fs_err::create_dir_all(folder)?;
            write_pages(&root, None, &all(&root), folder)?;
            Ok(Exit::Success.into())
        }
    }
}

/// The pages of a command and of everything below it.
fn write_pages(
    command: &clap::Command,
    parent: Option<&clap::Command>,
    all: &[String],
    folder: &Path,
) -> Result<(), CommandError> {
    fs_err::write(folder.join(format!("{}.1", title(command))), page(command, parent, all)?)?;
    visible(command).try_for_each(|below| write_pages(below, Some(command), all, folder))
}

/// A manual page: the help of a command, and further sections.
fn page(command: &clap::Command, parent: Option<&clap::Command>, all: &[String]) -> std::io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).source(format!("gladhand {}", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes): (Vec<_>, Vec<_>) = help.split("\n\n").partition(|part| part.starts_with(EXAMPLES));
    let mut roff = Roff::default();
    prose(&mut roff, "NOTES", &notes);
    section(&mut roff, "EXAMPLES", examples.concat().trim_start_matches(EXAMPLES).trim_start_matches('\n'));
    roff.control("SH", ["EXIT STATUS"]);
    for (exit, meaning) in Exit::TABLE {
        roff.control("TP", ["4"]).text([bold((exit as u8).to_string())]).text([roman(meaning)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let related = related(command, parent, &help, all);
    for (at, name) in related.iter().enumerate() {
        let comma = if at + 1 < related.len() { "," } else { "" };
        roff.text([bold(name.as_str()), roman(format!("(1){comma}"))]);
    }
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// A section of paragraphs, which are filled to the width of the page. A paragraph with an indented line stays as it is.
fn prose(roff: &mut Roff, heading: &str, paragraphs: &[&str]) {
    if paragraphs.iter().all(|paragraph| paragraph.is_empty()) {
        return;
    }
    roff.control("SH", [heading]);
    for (at, paragraph) in paragraphs.iter().enumerate() {
        if at > 0 {
            roff.control("PP", []);
        }
        match paragraph.lines().any(|line| line.starts_with(' ')) {
            true => lines(roff, paragraph),
            false => drop(roff.text([roman(paragraph.replace('\n', " "))])),
        }
    }
}

/// A section whose lines stay as they are.
fn section(roff: &mut Roff, heading: &str, text: &str) {
    if !text.is_empty() {
        roff.control("SH", [heading]);
        lines(roff, text);
    }
}

/// Lines that stay as they are. They begin further to the left than prose, because they are as wide as a help may be.
fn lines(roff: &mut Roff, text: &str) {
    roff.control("in", ["0"]).control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []).control("in", []);
}

/// Related pages: the parent command, subcommands, siblings in a group, and commands that the help mentions.
fn related(command: &clap::Command, parent: Option<&clap::Command>, help: &str, all: &[String]) -> Vec<String> {
    let own = title(command);
    let beside = parent.filter(|parent| title(parent).contains('-')).into_iter().flat_map(visible);
    let near = parent.into_iter().chain(visible(command)).chain(beside).map(title);
    let said = help.replace("gladhand ", "gladhand-").replace(' ', "-");
    let words: Vec<_> = said.split(['\n', '`', '.', ',']).collect();
    let is_said = |name: &&String| words.iter().any(|word| word.trim_matches('-').starts_with(name.as_str()));
    let mut related: Vec<String> = Vec::new();
    for name in near.chain(all.iter().filter(is_said).cloned()) {
        if name != own && !related.contains(&name) {
            related.push(name);
        }
    }
    related
}

/// The titles of all pages.
fn all(command: &clap::Command) -> Vec<String> {
    std::iter::once(title(command)).chain(visible(command).flat_map(all)).collect()
}

fn visible(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}

/// The title of a page: `gladhand-config-check`.
fn title(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn print(bytes: &[u8]) -> Result<ExitCode, CommandError> {
    match std::io::stdout().write_all(bytes) {
        // `gladhand man | head` is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Success.into()),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(Exit::Success.into()),
    }
}
