//! `gladhand config import`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use gladhand_redaction::{redact, redact_json};
use serde_json::{Value, json};

use super::adoption::{Added, Own, Standing, Vault};
use super::{ImportArgs, counted, say};
use crate::clients::found::{Found, Origin, secret_place};
use crate::clients::import::{self, LeftOut, Servers, Source};
use crate::clients::{self, Client, projects};
use crate::commands::CommandError;
use crate::config;
use crate::exit::Exit;
use crate::terminal::text::plain;

/// The servers of all files.
#[derive(Debug, Default)]
struct Gathered {
    servers: Vec<Server>,
    left_out: Vec<(PathBuf, LeftOut)>,
}

/// A server, and whether it is taken over.
#[derive(Debug)]
struct Server {
    found: Found,
    standing: Standing,
    /// Where the server of that name is that keeps it from being taken over.
    beside: Option<String>,
}

pub(super) fn run(args: &ImportArgs) -> Result<ExitCode, CommandError> {
    let writes = args.write || args.into.is_some();
    let data = config::data_dir(args.data_dir.as_deref());
    let own = match writes {
        true => Own::read(target(args)?, data.as_deref())?,
        false => Own::unread(target(args)?, data.as_deref()),
    };
    let sources = match &args.source {
        Some(source) => vec![source_of(source)?],
        None => usual_sources(!writes),
    };
    let mut gathered = gather(&sources, args.source.is_some(), &own)?;
    if gathered.servers.is_empty() && !args.json {
        nothing_found(args);
        return Ok(Exit::Success.into());
    }
    if writes {
        compare(&mut gathered.servers, &own);
    }
    let mut vault = args.secrets.then(|| Vault::open(data.as_deref())).transpose()?;
    let folder = std::path::absolute(&own.file.path).ok().and_then(|file| Some(file.parent()?.to_owned()));
    for Server { found, .. } in gathered.servers.iter_mut().filter(|server| server.standing == Standing::New) {
        if let Some(vault) = &mut vault {
            vault.take_from(found)?;
        }
        if let (true, Some(folder)) = (args.into.is_some(), &folder) {
            found.relative_to(folder);
        }
    }
    let kept = vault.as_ref().map(Vault::names).unwrap_or_default();
    let new = gathered.servers.iter().filter(|server| server.standing == Standing::New);
    let new: Vec<_> = new.map(|server| &server.found).collect();
    tell_secrets(&new, &kept, args);
    let (after, added) = match writes {
        true => own.with(new.iter().copied()).map_err(CommandError::usage)?,
        false => (String::new(), Vec::new()),
    };
    let write = || {
        if !added.is_empty() {
            gladhand_store::files::rewrite(&own.file.path, after.as_bytes())?;
        }
        Ok(())
    };
    match vault {
        _ if args.dry_run => {}
        Some(vault) => vault.keep(write)?,
        None => write()?,
    }
    if writes {
        for Server { found, standing, .. } in gathered.servers.iter().filter(|server| server.beside.is_none()) {
            tell(found, standing, None, args.dry_run);
        }
        if !added.is_empty() && !args.dry_run {
            own.tell_notes(new.iter().copied());
            say(&format!("{} has {} more", own.file.path.display(), counted(added.len(), "upstream")));
            say("`gladhand config check` shows what is still missing, `gladhand doctor` opens each upstream.");
        }
    }
    if args.json {
        return super::print_json(&report(&gathered, &kept, writes.then_some(&own), args));
    }
    if !writes {
        let shown: Vec<_> = new.iter().map(|found| shown(found.is_strangers, &found.to_string())).collect();
        let is_masked = shown.iter().zip(&new).any(|(shown, found)| *shown != found.to_string());
        if is_masked {
            say("Secrets are shown as ***: --write writes them, --secrets moves them to the store.");
        }
        return super::print(&shown.join("\n"));
    }
    if args.dry_run && !added.is_empty() {
        return super::print(&preview(&own, &added));
    }
    Ok(Exit::Success.into())
}

/// The file that is meant: a client's, or one that is named.
fn source_of(source: &str) -> Result<Source, CommandError> {
    match Client::from_str(source, false) {
        Ok(client) => {
            let file = client.file().ok_or_else(|| anyhow!("there is no home folder"))?;
            Ok(Source::of_client(client, file))
        }
        Err(_) if is_word(source) && !Path::new(source).exists() => {
            let clients: Vec<_> = Client::value_variants().iter().map(|client| client.name()).collect();
            let error = anyhow!("`{source}` is neither a file nor a client that is known here");
            Err(CommandError::usage(error).hint(format!("known clients: {}", clients.join(", "))))
        }
        Err(_) => Ok(Source::named(Path::new(source))),
    }
}

/// Whether a source looks like the name of a client rather than like a path.
fn is_word(source: &str) -> bool {
    source.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

/// The files that are where they usually are: the user's, and those of this folder if they are wanted. The latter belong
/// to the author of the repository, so they are only written into a configuration if the user names one of them.
fn usual_sources(with_project: bool) -> Vec<Source> {
    let clients = Client::value_variants();
    let own = clients.iter().filter_map(|client| Some(Source::of_client(*client, client.file()?)));
    let of_project = clients.iter().filter_map(|client| Some(Source::named(Path::new(client.project_file()?))));
    let of_project = of_project.filter(|source| source.project.is_some());
    let all = own.chain(of_project.clone());
    if !with_project {
        for Source { file, .. } in of_project.filter(|source| source.file.is_file()) {
            let file = file.display();
            say(&format!("{file} of this folder is left out: `gladhand config import {file} --write` takes it over"));
        }
    }
    all.filter(|source| with_project || source.project.is_none()).collect()
}

/// The servers of a file, and a line about those that it has only for other projects.
fn read(source: &Source) -> Result<(Servers, Option<String>), CommandError> {
    let text = clients::read_file(&source.file).map_err(CommandError::usage)?;
    let here = std::env::current_dir().ok();
    let servers = import::read(&text, source, here.as_deref()).with_context(|| source.file.display().to_string());
    let elsewhere = match (source.client, &source.project) {
        (Some(Client::ClaudeCode), None) => projects::servers_elsewhere(&text, here.as_deref()),
        _ => (0, 0),
    };
    let line = (elsewhere.0 > 0).then(|| {
        let (servers, projects) = (counted(elsewhere.0, "server"), counted(elsewhere.1, "other project"));
        format!(
            "  {servers} of {projects} are left out: `gladhand config import claude-code` reads those of its folder"
        )
    });
    Ok((servers.map_err(CommandError::usage)?, line))
}

/// All servers of these files. The first of a name counts. A file that was not named and cannot be read does not keep us
/// from the others.
fn gather(sources: &[Source], is_named: bool, own: &Own) -> Result<Gathered, CommandError> {
    let mut all = Gathered::default();
    for source in sources.iter().filter(|source| is_named || source.file.is_file()) {
        let (servers, elsewhere) = match read(source) {
            Ok(servers) => servers,
            Err(error) if is_named => return Err(error),
            Err(error) => {
                say(&format!("left out: {error}"));
                continue;
            }
        };
        if !is_named {
            let Origin { place, .. } = source.origin();
            say(&format!("{} ({place}): {}", source.file.display(), counted(servers.found.len(), "server")));
        }
        elsewhere.iter().for_each(|line| say(line));
        for left_out in servers.left_out {
            say(&format!("  {} is left out: {}", plain(&left_out.name), left_out.why));
            all.left_out.push((source.file.clone(), left_out));
        }
        for found in servers.found {
            let is_taken = |other: &&Server| other.found.name == found.name && other.beside.is_none();
            let server = match all.servers.iter().find(is_taken) {
                None => Server { found, standing: Standing::New, beside: None },
                Some(Server { found: taken, .. }) => {
                    let standing = match own.differences(taken, &found) {
                        differences if differences.is_empty() => Standing::Same,
                        differences => Standing::Differs(differences),
                    };
                    Server { beside: Some(taken.origin.to_string()), standing, found }
                }
            };
            if let Some(beside) = &server.beside {
                tell(&server.found, &server.standing, Some(beside), false);
            }
            all.servers.push(server);
        }
    }
    Ok(all)
}

/// Compares what would be taken over with what the configuration has.
fn compare(servers: &mut [Server], own: &Own) {
    for server in servers.iter_mut().filter(|server| server.standing == Standing::New) {
        server.standing = own.standing(&server.found);
    }
}

/// Says what becomes of a server.
fn tell(found: &Found, standing: &Standing, beside: Option<&str>, is_trial: bool) {
    let name = &found.name;
    match (standing, beside) {
        (Standing::New, _) if is_trial => say(&format!("{name}: would be added")),
        (Standing::New, _) => say(&format!("{name}: added")),
        (Standing::Same, None) => say(&format!("{name}: there already, and left as it is")),
        (Standing::Same, Some(beside)) => say(&format!("  {name} is the same as in {beside}")),
        (Standing::Differs(differences), None) => {
            let theirs = format!("the one of {} differs: {}", found.origin, plain(&differences.join("; ")));
            say(&format!("{name}: there already, and left as it is; {theirs}. To have both, rename one"));
        }
        (Standing::Differs(differences), Some(beside)) => {
            let differences = plain(&differences.join("; "));
            let advice = "To have both, rename one";
            say(&format!("  {name} differs from the one in {beside}, which is taken: {differences}. {advice}"));
        }
    }
}

/// Says which values look like secrets, or where they are now.
fn tell_secrets(new: &[&Found], kept: &[String], args: &ImportArgs) {
    if !kept.is_empty() {
        let verb = if args.dry_run { "would be kept" } else { "kept" };
        say(&format!("{verb} in the secret store: {}", kept.join(", ")));
    }
    // Printed TOML says it itself.
    for found in new.iter().filter(|_| args.write || args.into.is_some() || args.json) {
        let clear = found.clear_secrets();
        if !clear.is_empty() {
            let what = if clear.len() == 1 { "looks like a secret" } else { "look like secrets" };
            say(&format!(
                "{}: {} {what} in clear text: --secrets moves them to the store",
                found.name,
                clear.iter().map(|place| plain(&secret_place(place))).collect::<Vec<_>>().join(", ")
            ));
        }
    }
}

fn nothing_found(args: &ImportArgs) {
    say("There are no servers to take over.");
    if args.source.is_none() {
        say("Looked for:");
        for source in usual_sources(true) {
            say(&format!("  {:<15} {}", source.origin().place, source.file.display()));
        }
        say("`gladhand config import FILE` reads another file of that kind.");
    }
}

/// A server as it is shown.
fn shown(is_strangers: bool, text: &str) -> String {
    if is_strangers { text.to_owned() } else { redact(text).into_owned() }
}

/// The configuration that would be added. Of a stranger's servers everything is shown: what looks like a secret may be
/// what they run.
fn preview(own: &Own, added: &[Added]) -> String {
    let before = redact(&own.file.text).into_owned();
    let shown = |one: &Added| shown(one.is_strangers, &one.text);
    let after = before.clone() + &added.iter().map(shown).collect::<String>();
    super::changed_as_it_is(&own.file.path, &before, &after)
}

fn report(gathered: &Gathered, kept: &[String], own: Option<&Own>, args: &ImportArgs) -> Value {
    let server = |Server { found, standing, beside }: &Server| {
        let (state, differences) = match standing {
            Standing::New => ("new", &[][..]),
            Standing::Same => ("same", &[][..]),
            Standing::Differs(differences) => ("differs", &differences[..]),
        };
        let mut settings = found.settings();
        if !found.is_strangers {
            redact_json(&mut settings);
        }
        json!({
            "name": found.name,
            "called": found.called,
            "from": found.origin.place,
            "file": found.origin.file,
            "settings": settings,
            "notes": found.notes,
            "clear_secrets": found.clear_secrets(),
            "state": state,
            "differences": differences,
            "beside": beside,
        })
    };
    let left_out =
        |(file, LeftOut { name, why }): &(PathBuf, LeftOut)| json!({ "name": name, "file": file, "why": why });
    json!({
        "servers": gathered.servers.iter().map(server).collect::<Vec<_>>(),
        "left_out": gathered.left_out.iter().map(left_out).collect::<Vec<_>>(),
        "secrets": kept,
        "written": own.filter(|_| !args.dry_run).map(|own| &own.file.path),
    })
}

/// The file to add to: the one that is named, else the user's own.
fn target(args: &ImportArgs) -> Result<PathBuf, CommandError> {
    if let Some(file) = &args.into {
        // A link in a clone may lead to the user's own file, which needs no trust.
        gladhand_store::files::no_link(file).map_err(CommandError::usage)?;
        return Ok(file.clone());
    }
    let named = std::env::var_os(config::env::CONFIG).map(PathBuf::from);
    named.or_else(config::users_file).ok_or_else(|| anyhow!("there is no home folder").into())
}
