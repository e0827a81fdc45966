//! `gladhand config trust`: shows what the files of a project would do, and asks whether to use them.
//!
//! The answer must come from a terminal. A program that runs in the project, an agent among them, cannot give it through a
//! pipe. The content that was shown is the content that is trusted: a file that changes meanwhile is asked about again.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use gladhand_redaction::redact;
use serde_json::json;

use super::{TrustArgs, counted, say};
use crate::commands::plain::{plain, plain_lines};
use crate::commands::{CommandError, difference};
use crate::config::{self, Config, File, Grants, PROJECT_FILE, Reading, Standing, TrustStore};
use crate::exit::Exit;

pub(super) fn run(args: &TrustArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.data_dir.as_deref());
    let data = data.ok_or_else(|| anyhow!("there is no data folder to keep trust in")).map_err(CommandError::usage)?;
    let store = TrustStore::in_folder(Some(&data));
    if args.list {
        return list(&store, args.json);
    }
    if args.revoke {
        return revoke(&store, args.path.as_deref());
    }
    let files = files(args.path.as_deref())?;
    if files.is_empty() {
        say("There is nothing to trust here: no gladhand.toml and no skill in .agents/skills.");
        return Ok(Exit::Success.into());
    }
    let asked: Vec<_> = files.iter().filter(|file| !store.trusts(&file.path, &file.text)).collect();
    if asked.is_empty() {
        say(&format!("{} trusted already.", counted(files.len(), "file")));
        return Ok(Exit::Success.into());
    }
    let mut report = String::new();
    for file in &asked {
        report.push_str(&describe(file, &store.standing(&file.path, &file.text)));
    }
    super::print(&report)?;
    if !std::io::stdin().is_terminal() {
        let error = anyhow!("nothing is trusted: the question must be answered at a terminal");
        let hint = "run `gladhand config trust` yourself, or name a file that you know with --config FILE";
        return Err(CommandError::usage(error).hint(hint));
    }
    if !confirm(&format!("Trust {} as shown?", counted(asked.len(), "file")))? {
        say("Nothing is trusted, and nothing of it is used.");
        return Ok(Exit::Failure.into());
    }
    for file in asked {
        let grants = needed(file);
        let is_granted =
            grants.is_empty() || confirm(&format!("May {} read {}?", shown(&file.path), list_of(&grants)))?;
        store.trust(&file.path, &file.text, if is_granted { grants } else { Grants::default() })?;
        if !is_granted {
            say("Upstreams that refer to what is not granted are not used.");
        }
    }
    say("Trusted. A change of these files asks again; `gladhand config trust --revoke` takes it back.");
    Ok(Exit::Success.into())
}

/// The files that the question is about: those of a folder's project, or the one that is named.
fn files(named: Option<&Path>) -> Result<Vec<File>, CommandError> {
    let path = named.unwrap_or_else(|| Path::new("."));
    if !path.is_dir() {
        return Ok(vec![read(path).map_err(CommandError::usage)?]);
    }
    let config = Some(path.join(PROJECT_FILE)).filter(|file| file.exists());
    let home = etcetera::home_dir().ok();
    let skills = gladhand_agent::project_skills(&std::path::absolute(path)?, home.as_deref());
    config.into_iter().chain(skills).map(|file| read(&file).map_err(CommandError::usage)).collect()
}

fn read(path: &Path) -> std::io::Result<File> {
    let text = config::read(path)?;
    Ok(File { path: std::path::absolute(path)?, text })
}

/// What a person has to know before trusting a file.
fn describe(file: &File, standing: &Standing) -> String {
    let mut text = String::new();
    // A string takes everything.
    let _ = writeln!(text, "{}", shown(&file.path));
    match standing {
        Standing::Changed { before } => {
            let _ = writeln!(text, "  has changed since it was trusted:");
            for line in difference::of(&redact(before), &redact(&file.text)).lines() {
                let _ = writeln!(text, "    {line}");
            }
        }
        Standing::Unknown | Standing::Trusted(_) => {}
    }
    if file.path.extension().is_none_or(|kind| kind != "toml") {
        if *standing == Standing::Unknown {
            for line in plain_lines(&file.text).lines() {
                let _ = writeln!(text, "    {line}");
            }
        }
        return text + "\n";
    }
    let examined = file.examine(Reading::AsWritten);
    for problem in &examined.problems {
        let _ = writeln!(text, "  wrong     {problem}");
    }
    if let Some(config) = &examined.config {
        text.push_str(&effects(config));
        for config::SetAside(problem) in config.set_aside(&examined.places) {
            let config::Problem { line, key, message, .. } = problem;
            let why = message.strip_prefix("not used: ").unwrap_or(&message);
            let _ = writeln!(text, "  ignored   {} (line {line})\n            {}", plain(&key), plain(why));
        }
    }
    let grants = needed(file);
    if !grants.is_empty() {
        let _ = writeln!(text, "  reads     {}", list_of(&grants));
    }
    text + "\n"
}

/// The programs that a configuration starts and the addresses that it connects to.
fn effects(config: &Config) -> String {
    let mut text = String::new();
    for (name, upstream) in config.upstreams.0.iter().filter(|(_, upstream)| upstream.enabled) {
        let words: Vec<_> = upstream.command.iter().chain(&upstream.args).map(|word| plain(&redact(word))).collect();
        if !words.is_empty() {
            let _ = writeln!(text, "  starts    {}: {}", plain(name), words.join(" "));
        }
        // A variable can change what a program does, so its value is shown, too.
        for (variable, value) in &upstream.env {
            let value = redact(value.0.expose());
            let _ = writeln!(text, "            with {}={}", plain(variable), plain(&value));
        }
        if let Some(folder) = &upstream.cwd {
            let _ = writeln!(text, "            in {}", shown(folder));
        }
        if let Some(url) = &upstream.url {
            let _ = writeln!(text, "  connects  {}: {}", plain(name), plain(&redact(url)));
        }
        for (header, value) in &upstream.headers {
            let value = redact(value.0.expose());
            let _ = writeln!(text, "            with {}: {}", plain(header), plain(&value));
        }
    }
    text
}

/// Everything that the enabled upstreams of a file refer to.
fn needed(file: &File) -> Grants {
    let mut all = Grants::default();
    for (_, grants) in config::references(file) {
        all.secrets.extend(grants.secrets);
        all.variables.extend(grants.variables);
    }
    all
}

fn list_of(grants: &Grants) -> String {
    let secrets = grants.secrets.iter().map(|name| format!("the secret {}", plain(name)));
    let variables = grants.variables.iter().map(|name| match name.as_str() {
        "*" => "all variables of your environment".to_owned(),
        name => format!("the variable {}", plain(name)),
    });
    secrets.chain(variables).collect::<Vec<_>>().join(", ")
}

fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}

/// Asks a question at the terminal. Anything but a clear yes is a no.
fn confirm(question: &str) -> Result<bool, CommandError> {
    let mut stderr = anstream::stderr();
    let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn list(store: &TrustStore, as_json: bool) -> Result<ExitCode, CommandError> {
    let records = store.records();
    if as_json {
        let files: Vec<_> = records
            .iter()
            .map(|record| {
                json!({ "path": record.path, "sha256": record.sha256, "since": record.since, "grants": record.grants })
            })
            .collect();
        return super::print_json(&json!({ "trusted": files }));
    }
    let mut text = String::new();
    for record in &records {
        let grants =
            if record.grants.is_empty() { String::new() } else { format!(", reads {}", list_of(&record.grants)) };
        // A string takes everything.
        let _ = writeln!(text, "{}  since {}{grants}", shown(&record.path), record.since);
    }
    super::print(&text)
}

fn revoke(store: &TrustStore, named: Option<&Path>) -> Result<ExitCode, CommandError> {
    let paths: Vec<PathBuf> = match named {
        // A file that is gone can still be revoked by its path.
        Some(path) if !path.exists() => vec![std::path::absolute(path)?],
        _ => files(named)?.into_iter().map(|file| file.path).collect(),
    };
    let mut revoked = 0;
    for path in paths {
        if store.revoke(&path)? {
            say(&format!("{} is not trusted any more.", shown(&path)));
            revoked += 1;
        }
    }
    if revoked == 0 {
        say("Nothing here was trusted.");
    }
    Ok(Exit::Success.into())
}
