//! `gladhand config uninstall`: undoes what `install` did, by its record.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use serde_json::json;

use super::{UninstallArgs, install, say};
use crate::clients::import::{self, LeftOut, Source};
use crate::clients::record::{Moved, Record, Records, fingerprint};
use crate::clients::{self, Client, Format};
use crate::commands::CommandError;
use crate::config;
use crate::exit::Exit;
use crate::secrets;

pub(super) fn run(args: &UninstallArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.data_dir.as_deref()).ok_or_else(|| anyhow!("there is no home folder"))?;
    let records = Records::in_folder(&data);
    let record = records.get(args.client)?;
    let file = match &record {
        Some(record) => record.file.clone(),
        None => args.client.file().ok_or_else(|| anyhow!("there is no home folder"))?,
    };
    let before = if file.exists() { clients::read_file(&file)? } else { String::new() };
    let theirs = theirs(args.client, &file, &before, record.as_ref())?;
    let ours = record.as_ref().map(|record| ours(record, &records)).transpose()?.unwrap_or_default();
    let is_there = record.is_some() || theirs.text.as_ref() != Some(&before) && file.exists();
    // An entry that no record knows may have been written by hand, so the old file is kept.
    let kept_as = (is_there && record.is_none()).then(|| install::free_name(&file));
    if !args.dry_run && is_there {
        if let Some(copy) = &kept_as {
            fs_err::copy(&file, copy)?;
        }
        theirs.write(&file, &before)?;
        if let Some(record) = &record {
            ours.write(&data, &records, record.made_config)?;
            // Last, so that a failure before leaves something to undo.
            if let Some(backup) = &theirs.backup {
                fs_err::remove_file(backup)?;
            }
            records.remove(args.client)?;
        }
    }
    let left_copy = record.as_ref().and_then(|record| record.exact.as_ref()?.backup.clone());
    let left_copy = left_copy.filter(|copy| theirs.backup.is_none() && copy.exists());
    if args.json {
        let kept =
            ours.kept.iter().map(|LeftOut { name, why }| json!({ "name": name, "why": why })).collect::<Vec<_>>();
        let report = json!({
            "client": args.client.name(), "file": file, "changed": is_there, "dry_run": args.dry_run,
            "exact": theirs.is_exact, "backup": kept_as.as_ref().or(left_copy.as_ref()), "restored": theirs.restored, "config": ours.config.as_ref().map(|own| &own.file),
            "removed": ours.removed, "kept": kept, "secrets": ours.secrets,
        });
        return super::print_json(&report);
    }
    if !is_there {
        say(&format!("{} does not start Gladhand.", file.display()));
        return Ok(Exit::Success.into());
    }
    for LeftOut { name, why } in &ours.kept {
        say(&format!("the upstream {name} stays: {why}"));
    }
    if args.dry_run {
        let after = theirs.text.as_deref().unwrap_or_default();
        // Reading the servers makes their secrets known to the redaction.
        let _ = import::read_section(after, &Source::of_client(args.client, file.clone()), args.client.section());
        let mut shown = super::changed(&file, &before, after);
        if let Some(Own { file, before, after }) = ours.config.as_ref().filter(|own| own.before != own.after) {
            shown.push_str(&super::changed(file, before, after));
        }
        return super::print(&shown);
    }
    tell(&file, &theirs, &ours);
    if let Some(copy) = &left_copy {
        say(&format!(
            "{} stays: it is the file as it was before the installation, and may hold secrets in clear text. Remove it if \
             you do not need it.",
            copy.display()
        ));
    }
    if let Some(copy) = &kept_as {
        say(&format!("No record of an installation was found. The old file is kept as {}.", copy.display()));
    }
    Ok(Exit::Success.into())
}

/// The client's side.
#[derive(Debug, Default)]
struct Theirs {
    /// The text of the client's file; none if the file is to be removed.
    text: Option<String>,
    /// The servers that are put back.
    restored: Vec<String>,
    /// Whether the file becomes what it was, byte for byte.
    is_exact: bool,
    /// The copy of the old file, which is not needed any more.
    backup: Option<PathBuf>,
}

/// Restores the client's file in memory.
fn theirs(client: Client, file: &Path, before: &str, record: Option<&Record>) -> Result<Theirs, CommandError> {
    let moved = record.map(|record| &record.moved[..]).unwrap_or_default();
    let restored = moved.iter().map(|one| one.name.clone()).collect();
    let exact = record.and_then(|record| record.exact.as_ref()).filter(|exact| exact.after == fingerprint(before));
    if let Some(exact) = exact {
        match &exact.backup {
            None => return Ok(Theirs { restored, is_exact: true, ..Theirs::default() }),
            Some(backup) => {
                let old = clients::read_file(backup).ok().filter(|old| fingerprint(old) == exact.before);
                if let Some(old) = old {
                    return Ok(Theirs { text: Some(old), restored, is_exact: true, backup: Some(backup.clone()) });
                }
            }
        }
    }
    let (format, section) = (Format::of(file), client.section());
    let edit = || {
        let servers = import::read_section(before, &Source::of_client(client, file.to_owned()), section)?;
        let mut text = before.to_owned();
        // Something else of that name stays.
        for us in servers.left_out.iter().filter(|one| one.is_us()) {
            if record.is_none_or(|record| record.names.contains(&us.name)) {
                text = format.take(&text, section, &us.name)?.map_or(text, |(rest, _)| rest);
            }
        }
        moved.iter().try_fold(text, |text, one| format.restore(&text, section, &one.name, &one.written))
    };
    let text = edit().with_context(|| file.display().to_string()).map_err(CommandError::usage)?;
    Ok(Theirs { text: Some(text), restored, ..Theirs::default() })
}

impl Theirs {
    fn write(&self, file: &Path, before: &str) -> Result<(), CommandError> {
        match &self.text {
            Some(text) if text != before => gladhand_store::files::rewrite(file, text.as_bytes())?,
            Some(_) => {}
            None => fs_err::remove_file(file)?,
        }
        Ok(())
    }
}

/// Our side.
#[derive(Debug, Default)]
struct Ours {
    config: Option<Own>,
    /// Upstreams that are removed.
    removed: Vec<String>,
    /// Upstreams that were added and stay, and why.
    kept: Vec<LeftOut>,
    /// Records of other clients with the same configuration. Upstreams, secrets and a file that stay are theirs to remove from
    /// now on.
    heirs: Vec<Record>,
    /// Secrets that are not needed any more.
    secrets: Vec<String>,
}

/// A configuration file of ours, before and after.
#[derive(Debug)]
struct Own {
    file: PathBuf,
    before: String,
    after: String,
}

/// Decides which of the upstreams that were added for a client are removed.
fn ours(record: &Record, records: &Records) -> Result<Ours, CommandError> {
    let Some(file) = &record.config else { return Ok(Ours::default()) };
    let before = if file.exists() { config::read(file)? } else { String::new() };
    let (mut all, mut after) = (Ours::default(), before.clone());
    let mut others = records.others(record.client)?;
    others.retain(|other| other.config.as_ref() == Some(file));
    for Moved { upstream, added, .. } in &record.moved {
        let Some(added) = added else { continue };
        let needs = |other: &&mut Record| other.moved.iter().any(|one| one.upstream == *upstream);
        if let Some(heir) = others.iter_mut().find(needs) {
            let why = format!("{} needs it, too", heir.client.name());
            heir.moved
                .iter_mut()
                .filter(|one| one.upstream == *upstream)
                .for_each(|one| one.added = Some(added.clone()));
            // A secret that only another upstream needs is of no use to this client.
            let needed = record.secrets.iter().filter(|name| added.contains(&reference(name)));
            heir.secrets.extend(needed.cloned());
            all.kept.push(LeftOut { name: upstream.clone(), why });
            continue;
        }
        let Some(expected) = without(&after, upstream) else { continue };
        let cut = after.replacen(added.as_str(), "", 1);
        if cut.parse::<toml::Table>().ok().map(in_short) == Some(expected) {
            all.removed.push(upstream.clone());
            after = cut;
        } else {
            let why = format!("it was changed in {}", file.display());
            all.kept.push(LeftOut { name: upstream.clone(), why });
        }
    }
    all.secrets = record.secrets.iter().filter(|name| !after.contains(&reference(name))).cloned().collect();
    others.iter_mut().for_each(|other| other.made_config |= record.made_config);
    all.heirs = others;
    all.config = Some(Own { file: file.clone(), before, after });
    Ok(all)
}

/// The reference to a secret.
fn reference(secret: &str) -> String {
    format!("${{secret:{secret}}}")
}

/// A configuration without an upstream; none if it has no such upstream.
fn without(text: &str, upstream: &str) -> Option<toml::Table> {
    let mut table = text.parse::<toml::Table>().ok()?;
    table.get_mut("upstreams")?.as_table_mut()?.remove(upstream)?;
    Some(in_short(table))
}

/// The same without a table of upstreams that is empty.
fn in_short(mut table: toml::Table) -> toml::Table {
    if table.get("upstreams").and_then(toml::Value::as_table).is_some_and(toml::Table::is_empty) {
        table.remove("upstreams");
    }
    table
}

impl Ours {
    fn write(&self, data: &Path, records: &Records, made_config: bool) -> Result<(), CommandError> {
        self.heirs.iter().try_for_each(|heir| records.put(heir))?;
        if let Some(Own { file, after, .. }) = self.config.as_ref().filter(|own| own.before != own.after) {
            match after.is_empty() && made_config {
                false => gladhand_store::files::rewrite(file, after.as_bytes())?,
                true => fs_err::remove_file(file)?,
            }
        }
        if !self.secrets.is_empty() {
            let store = secrets::open(data)?;
            for name in &self.secrets {
                store.remove(name)?;
            }
        }
        Ok(())
    }
}

fn tell(file: &Path, theirs: &Theirs, ours: &Ours) {
    let file = file.display();
    match theirs.is_exact {
        true if theirs.text.is_none() => say(&format!("{file} is removed: there was none before.")),
        true => say(&format!("{file} is what it was before.")),
        false => say(&format!("{file} does not start Gladhand any more.")),
    }
    if !theirs.restored.is_empty() {
        say(&format!("put back: {}", theirs.restored.join(", ")));
    }
    if let Some(own) = ours.config.as_ref().filter(|_| !ours.removed.is_empty()) {
        say(&format!("removed from {}: {}", own.file.display(), ours.removed.join(", ")));
    }
    if !ours.secrets.is_empty() {
        say(&format!("removed from the secret store: {}", ours.secrets.join(", ")));
    }
}
