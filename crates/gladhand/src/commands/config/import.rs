//! `gladhand config import`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;

use super::{ImportArgs, counted, say};
use crate::clients::import::{self, Found, LeftOut, Servers};
use crate::clients::{self, Client};
use crate::commands::CommandError;
use crate::config::{self, Reading};
use crate::exit::Exit;

pub(super) fn run(args: &ImportArgs) -> Result<ExitCode, CommandError> {
    let found = match &args.source {
        Some(source) => told(read(&file_of(source)?)?),
        None => everything(if args.write || args.into.is_some() { &[] } else { &OF_PROJECT }),
    };
    if found.is_empty() {
        say("There are no servers to take over.");
        if args.source.is_none() {
            say("Looked for:");
            places(&OF_PROJECT).iter().for_each(|(name, file)| say(&format!("  {name:<15} {}", file.display())));
            say("`gladhand config import FILE` reads another file of that kind.");
        }
        return Ok(Exit::Success.into());
    }
    if args.write || args.into.is_some() {
        for file in OF_PROJECT.iter().filter(|file| args.source.is_none() && Path::new(file).is_file()) {
            say(&format!("{file} of this folder is left out: `gladhand config import {file} --write` takes it over"));
        }
        return add(&found, target(args)?);
    }
    let toml: Vec<_> = found.iter().map(ToString::to_string).collect();
    super::print(&toml.join("\n"))
}

/// The file that is meant: a client's, or one that is named.
fn file_of(source: &str) -> Result<PathBuf, CommandError> {
    match Client::from_str(source, false) {
        Ok(client) => client.file().ok_or_else(|| anyhow!("there is no home folder").into()),
        Err(_) => Ok(PathBuf::from(source)),
    }
}

fn read(file: &Path) -> Result<Servers, CommandError> {
    let text = clients::read_file(file).map_err(CommandError::usage)?;
    let project = std::env::current_dir().ok();
    let servers = import::read(&text, project.as_deref()).with_context(|| file.display().to_string());
    servers.map_err(CommandError::usage)
}

/// The servers that are taken over; the others are named.
fn told(servers: Servers) -> Vec<Found> {
    for LeftOut { name, why } in &servers.left_out {
        say(&format!("  {name} is left out: {why}"));
    }
    servers.found
}

/// Files of a project that name servers. They belong to the author of the repository, so they are only written into a
/// configuration if the user names one of them.
const OF_PROJECT: [&str; 3] = [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"];

/// Where servers may be found, and what each place is called on the command line.
fn places(of_project: &[&str]) -> Vec<(String, PathBuf)> {
    let of_project = of_project.iter().map(|file| ("this folder".to_owned(), file.into()));
    let of_user = Client::value_variants().iter().filter_map(|client| Some((client.name(), client.file()?)));
    of_user.chain(of_project).collect()
}

/// All servers of the files that are where they usually are. The first of a name counts, and a file that cannot be read does
/// not keep us from the others.
fn everything(of_project: &[&str]) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for (place, file) in places(of_project).into_iter().filter(|(_, file)| file.is_file()) {
        let servers = match read(&file) {
            Ok(servers) => servers,
            Err(error) => {
                say(&format!("left out: {error}"));
                continue;
            }
        };
        say(&format!("{} ({place}): {}", file.display(), counted(servers.found.len(), "server")));
        for server in told(servers) {
            match all.iter().any(|other| other.name == server.name) {
                true => say(&format!("  {} is there already", server.name)),
                false => all.push(server),
            }
        }
    }
    all
}

/// The file to add to: the one that is named, else the user's own.
fn target(args: &ImportArgs) -> Result<PathBuf, CommandError> {
    if let Some(file) = &args.into {
        return Ok(file.clone());
    }
    let named = std::env::var_os(config::env::CONFIG).map(PathBuf::from);
    named.or_else(config::users_file).ok_or_else(|| anyhow!("there is no home folder").into())
}

fn add(found: &[Found], file: PathBuf) -> Result<ExitCode, CommandError> {
    let before = if file.exists() { config::read(&file).map_err(CommandError::usage)? } else { String::new() };
    let (after, added) =
        added(&before, found).with_context(|| file.display().to_string()).map_err(CommandError::usage)?;
    for server in found {
        let became = if added.contains(&server.name.as_str()) { "added" } else { "there already, and left as it is" };
        say(&format!("{}: {became}", server.name));
    }
    if !added.is_empty() {
        crate::files::rewrite(&file, after.as_bytes())?;
        say(&format!("{} has {} more", file.display(), counted(added.len(), "upstream")));
    }
    Ok(Exit::Success.into())
}

/// A file's text with the servers that were not there yet, and their names.
fn added<'f>(before: &str, found: &'f [Found]) -> anyhow::Result<(String, Vec<&'f str>)> {
    let settings: toml::Table =
        before.parse().map_err(|_| anyhow!("it is no TOML: `gladhand config check` says why"))?;
    let is_there = |name: &str| settings.get("upstreams").is_some_and(|upstreams| upstreams.get(name).is_some());
    let (mut after, mut names) = (before.trim_end().to_owned(), Vec::new());
    for server in found.iter().filter(|server| !is_there(&server.name)) {
        if !after.is_empty() {
            after.push_str("\n\n");
        }
        after.push_str(server.to_string().trim_end());
        names.push(server.name.as_str());
    }
    after.push('\n');
    let is_fine =
        config::parse(&after, Reading::AsWritten).is_ok() || config::parse(before, Reading::AsWritten).is_err();
    if !is_fine || after.parse::<toml::Table>().is_err() {
        anyhow::bail!("nothing can be added to it: is `upstreams` written as one value?");
    }
    Ok((after, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_there_is_added_and_the_rest_stays() {
        let json = r#"{ "mcpServers": { "a": { "command": "new" }, "b": { "command": "b" } } }"#;
        let found = import::read(json, None).unwrap().found;
        let before = "# mine\n[upstreams.a]\ncommand = 'old' # kept\n";
        let (after, names) = added(before, &found).unwrap();
        assert_eq!(names, ["b"]);
        assert_eq!(after, format!("{before}\n[upstreams.b]\ncommand = [\"b\"]\n"));
        assert_eq!(added(&after, &found).unwrap(), (after.clone(), vec![]));
        assert_eq!(
            added("", &found).unwrap().0,
            "[upstreams.a]\ncommand = [\"new\"]\n\n[upstreams.b]\ncommand = [\"b\"]\n"
        );
        assert!(added("upstreams = {}", &found).is_err());
        assert!(added("upstreams = ", &found).is_err());
    }
}
