//! `gladhand config install`.
//!
//! With `--replace` it moves servers: each is added to our configuration before it is taken out of the client's file, so
//! that a failure in between leaves a server twice and never nowhere.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use serde_json::json;

use super::adoption::{Added, Own, Standing, Vault};
use super::{InstallArgs, counted, say};
use crate::clients::found::Found;
use crate::clients::import::{self, LeftOut, Source};
use crate::clients::record::{Exact, Moved, Record, Records, fingerprint};
use crate::clients::{self, BadFile, Format};
use crate::commands::{CommandError, own_program};
use crate::config;
use crate::exit::Exit;

pub(super) fn run(args: &InstallArgs) -> Result<ExitCode, CommandError> {
    let file = args.client.file().ok_or_else(|| anyhow!("there is no home folder"))?;
    let data = config::data_dir(args.data_dir.as_deref()).ok_or_else(|| anyhow!("there is no home folder"))?;
    let records = Records::in_folder(&data);
    let old = records.get(args.client)?;
    if let Some(old) = old.as_ref().filter(|old| old.file != file) {
        let error = anyhow!("{} was changed before, and now the file is {}", old.file.display(), file.display());
        return Err(
            CommandError::usage(error).hint(format!("`gladhand config uninstall {}` first", args.client.name()))
        );
    }
    let (arguments, own) = configuration(args, &data)?;
    let before = if file.exists() { clients::read_file(&file)? } else { String::new() };
    let in_file = |error: BadFile| CommandError::usage(anyhow!(error).context(file.display().to_string()));
    let mut moving = Moving { text: before.clone(), ..Moving::default() };
    let mut vault = args.secrets.then(|| Vault::open(Some(&data))).transpose()?;
    if args.replace {
        moving.collect(args, &file, &own, vault.as_mut())?;
    }
    let others = moving.others(args, &file)?;
    let Moving { text, moved, left, new, known } = moving;
    let (config, added) = own.with(&new).map_err(CommandError::usage)?;
    let entry = args.client.entry(&own_program()?, &arguments, &own.needed_variables(&config));
    let put = Format::of(&file).put(&text, args.client.section(), &args.name, &entry).map_err(in_file)?;
    let after = put.unwrap_or(text);
    for LeftOut { name, why } in &left {
        say(&format!("{name} stays in {}: {why}", file.display()));
    }
    let changes = after != before;
    let secrets = vault.as_ref().map(Vault::names).unwrap_or_default();
    let mut backup = None;
    if changes && !args.dry_run {
        // The copy of an earlier run is still the old file, as long as nothing else has changed it since.
        let exact = old.as_ref().and_then(|old| old.exact.as_ref());
        let has_copy = exact.is_some_and(|exact| exact.after == fingerprint(&before));
        backup = (!before.is_empty() && !has_copy).then(|| free_name(&file));
        let done = Done { args, file: &file, own: &own, before: &before, after: &after, backup: backup.as_deref() };
        let record = done.record(old, moved.clone(), &added, &secrets);
        let write = || done.write(&config, &records, &record);
        match vault {
            Some(vault) => vault.keep(write)?,
            None => write()?,
        }
    }
    let unavailable = own.unavailable(&config);
    if changes && !args.dry_run {
        for Moved { name, upstream, .. } in moved.iter().filter(|_| !args.json) {
            say(&format!("{name} is moved: it is the upstream {upstream} of {} now", own.file.path.display()));
        }
        own.tell_notes(new.iter().chain(&known));
    }
    if args.json {
        let left = left.iter().map(|LeftOut { name, why }| json!({ "name": name, "why": why })).collect::<Vec<_>>();
        let moved = moved.iter().map(|one| json!({ "name": one.name, "upstream": one.upstream })).collect::<Vec<_>>();
        let report = json!({
            "client": args.client.name(), "file": file, "changed": changes, "dry_run": args.dry_run,
            "backup": backup, "config": own.file.path, "moved": moved, "left": left, "secrets": secrets,
            "unavailable": unavailable,
        });
        return super::print_json(&report);
    }
    if !changes {
        say(&format!("{} has it already.", file.display()));
        return Ok(Exit::Success.into());
    }
    if args.dry_run {
        let mut shown = super::changed(&file, &before, &after);
        if !added.is_empty() {
            shown.push_str(&super::changed(&own.file.path, &own.file.text, &config));
        }
        return super::print(&shown);
    }
    let moved_programs = new.iter().chain(&known).filter(|found| found.is_program()).count();
    tell(args, &arguments, moved.len(), moved_programs);
    let has_secrets =
        || has_clear_secrets(&before, &Source::of_client(args.client, file.clone()), args.client.section());
    if let Some(backup) = &backup {
        let secrets = if has_secrets() { ", with its secrets in clear text" } else { "" };
        say(&format!("The old file is kept as {}{secrets}.", backup.display()));
    }
    if !secrets.is_empty() {
        say(&format!("kept in the secret store: {}", secrets.join(", ")));
    }
    unavailable.iter().for_each(|line| say(line));
    if others > 0 && !args.replace {
        let client = args.client.name();
        let them = if others == 1 { "it" } else { "them" };
        say(&format!("{client} keeps {} of its own; --replace moves {them} behind us.", counted(others, "server")));
    }
    Ok(Exit::Success.into())
}

/// The arguments that we are started with, and the configuration that they name. One with mistakes is refused.
fn configuration(args: &InstallArgs, data: &Path) -> Result<(Vec<String>, Own), CommandError> {
    let mut arguments = vec!["serve".to_owned()];
    let path = match &args.config {
        Some(named) => {
            if args.replace {
                // A link in a clone may lead to the user's own file, which needs no trust.
                gladhand_store::files::no_link(named).map_err(CommandError::usage)?;
            }
            let path = fs_err::canonicalize(named).map_err(CommandError::usage)?;
            let text = path.to_str().ok_or_else(|| anyhow!("the path of the configuration is not UTF-8"))?;
            arguments.extend(["--config".to_owned(), text.to_owned()]);
            path
        }
        None => config::users_file().ok_or_else(|| anyhow!("there is no home folder"))?,
    };
    let own = Own::read(path, Some(data))?;
    own.sound().map_err(|error| {
        let hint = format!("`gladhand config check {}` shows when it is right", own.file.path.display());
        CommandError::usage(anyhow!(error).context("nothing is installed")).hint(hint)
    })?;
    Ok((arguments, own))
}

/// Servers on their way from a client's file into our configuration.
#[derive(Debug, Default)]
struct Moving {
    /// The client's file without them.
    text: String,
    moved: Vec<Moved>,
    /// Servers that stay, and why.
    left: Vec<LeftOut>,
    /// Those that our configuration does not have yet.
    new: Vec<Found>,
    /// Those that our configuration has already.
    known: Vec<Found>,
}

impl Moving {
    /// How many servers the client keeps. Refuses to write over one that has the name under which we would be installed.
    fn others(&self, args: &InstallArgs, file: &Path) -> Result<usize, CommandError> {
        let source = Source::of_client(args.client, file.to_owned());
        let servers = import::read_section(&self.text, &source, args.client.section());
        let servers = servers.with_context(|| file.display().to_string()).map_err(CommandError::usage)?;
        let others = servers.left_out.iter().filter(|one| !one.is_us()).map(|one| &one.name);
        match others.chain(servers.found.iter().map(|one| &one.called)).any(|name| *name == args.name) {
            true => {
                let error = anyhow!("{} has another server that is called `{}`", file.display(), args.name);
                Err(CommandError::usage(error).hint("choose another name with --name"))
            }
            false => Ok(servers.found.len()),
        }
    }

    fn collect(
        &mut self,
        args: &InstallArgs,
        file: &Path,
        own: &Own,
        mut vault: Option<&mut Vault>,
    ) -> Result<(), CommandError> {
        let source = Source::of_client(args.client, file.to_owned());
        let (format, section) = (Format::of(file), args.client.section());
        let servers = import::read_section(&self.text, &source, section).with_context(|| file.display().to_string());
        let servers = servers.map_err(CommandError::usage)?;
        // We ourselves are no news.
        self.left.extend(servers.left_out.into_iter().filter(|one| !one.is_us()));
        for mut found in servers.found {
            let standing = own.standing(&found);
            let trouble = match &standing {
                // A relative folder may be another one for the client than for us.
                Standing::New | Standing::Same => {
                    let trouble = own.trouble(&found).or_else(|| own.missing_folder(&found));
                    trouble.or_else(|| own.withheld(&found, args.client))
                }
                Standing::Differs(differences) => {
                    let path = own.file.path.display();
                    let why = format!("{path} has another server of that name: {}", differences.join("; "));
                    Some(format!("{why}. Rename it here, and `--replace` moves it, too"))
                }
            };
            let taken = match trouble {
                Some(why) => Err(why),
                None => match format.take(&self.text, section, &found.called) {
                    Ok(Some(taken)) => Ok(taken),
                    Ok(None) => continue,
                    Err(error) => Err(error.to_string()),
                },
            };
            let (rest, written) = match taken {
                Ok(taken) => taken,
                Err(why) => {
                    self.left.push(LeftOut { name: found.called, why });
                    continue;
                }
            };
            self.text = rest;
            let (name, upstream) = (found.called.clone(), found.name.clone());
            self.moved.push(Moved { name, written, upstream, added: None });
            if standing != Standing::New {
                self.known.push(found);
                continue;
            }
            if let Some(vault) = &mut vault {
                vault.take_from(&mut found)?;
            }
            self.new.push(found);
        }
        Ok(())
    }
}

/// Everything that is about to be written.
#[derive(Debug)]
struct Done<'d> {
    args: &'d InstallArgs,
    file: &'d Path,
    own: &'d Own,
    before: &'d str,
    after: &'d str,
    backup: Option<&'d Path>,
}

impl Done<'_> {
    /// The record for `uninstall`, merged with the record of an earlier run.
    fn record(&self, old: Option<Record>, mut moved: Vec<Moved>, added: &[Added], secrets: &[String]) -> Record {
        for one in &mut moved {
            one.added = added.iter().find(|added| added.upstream == one.upstream).map(|added| added.text.clone());
        }
        let (before, after) = (fingerprint(self.before), fingerprint(self.after));
        let exact = match old.as_ref().map(|old| &old.exact) {
            None => Some(Exact { backup: self.backup.map(Path::to_owned), before, after }),
            // Nothing else has changed the file since, so the first copy is still what it was.
            Some(Some(exact)) if exact.after == before => Some(Exact { after, ..exact.clone() }),
            Some(_) => None,
        };
        let mut record = Record {
            client: self.args.client,
            file: self.file.to_owned(),
            names: vec![self.args.name.clone()],
            config: (!moved.is_empty()).then(|| self.own.file.path.clone()),
            made_config: !moved.is_empty() && !self.own.file.path.exists(),
            moved,
            exact,
            secrets: secrets.to_vec(),
        };
        if let Some(old) = old {
            record.names.extend(old.names.into_iter().filter(|name| *name != self.args.name));
            let is_again = |one: &Moved| record.moved.iter().any(|again| again.name == one.name);
            let (again, kept): (Vec<_>, Vec<_>) = old.moved.into_iter().partition(is_again);
            for one in &mut record.moved {
                let earlier = again.iter().find(|earlier| earlier.name == one.name);
                one.added = one.added.take().or_else(|| earlier.and_then(|earlier| earlier.added.clone()));
            }
            record.moved.splice(0..0, kept);
            record.config = record.config.or(old.config);
            record.made_config |= old.made_config;
            record.secrets.splice(0..0, old.secrets);
        }
        record
    }

    /// Our configuration first, the client's file last.
    fn write(&self, config: &str, records: &Records, record: &Record) -> Result<(), CommandError> {
        if config != self.own.file.text {
            gladhand_store::files::rewrite(&self.own.file.path, config.as_bytes())?;
        }
        if let Some(backup) = self.backup {
            fs_err::copy(self.file, backup)?;
        }
        records.put(record)?;
        Ok(gladhand_store::files::rewrite(self.file, self.after.as_bytes())?)
    }
}

/// Says what is different for the client and its servers from now on.
fn tell(args: &InstallArgs, arguments: &[String], moved: usize, moved_programs: usize) {
    let client = args.client.name();
    let command = arguments.join(" ");
    say(&format!("{client} starts `gladhand {command}` as `{}` from its next start on.", args.name));
    if moved_programs > 0 {
        let inherits = "and get only the usual variables (`inherit_env` adds others)";
        say(&format!("Moved servers start in your home folder unless they have a `cwd`, {inherits}."));
    }
    if moved > 0 {
        say(&format!("`gladhand config uninstall {client}` puts everything back."));
    }
}

/// Whether a client's file has servers with secrets that are written out.
fn has_clear_secrets(text: &str, source: &Source, section: &str) -> bool {
    let servers = import::read_section(text, source, section).unwrap_or_default();
    servers.found.iter().any(|found| !found.clear_secrets().is_empty())
}

/// A name beside a file that is not taken.
pub(super) fn free_name(file: &Path) -> PathBuf {
    let numbered = |number: usize| {
        let mut name = file.as_os_str().to_owned();
        name.push(if number == 1 { ".bak".to_owned() } else { format!(".bak{number}") });
        PathBuf::from(name)
    };
    // A link that leads nowhere is there, too.
    (1..).map(numbered).find(|name| name.symlink_metadata().is_err()).unwrap_or_else(|| numbered(1))
}
