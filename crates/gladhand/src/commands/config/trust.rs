//! `gladhand config trust`: shows the files of a project and what they would do, and asks whether to use them.
//!
//! The answer must come from a terminal. A program that runs in the project, an agent among them, cannot give it through a
//! pipe. The content that was shown is the content that is trusted: a file that changes meanwhile is asked about again.
//! Nothing in a project's file is redacted: text that looks like a secret could hide what a command does. In the user's own
//! file and in the file of a server, [`masked`] hides the tokens.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use gladhand_hub::policy::Effect;
use serde_json::json;

use super::masked::masked;
use super::{TrustArgs, counted, say};
use crate::commands::CommandError;
use crate::commands::config::text_diff;
use crate::commands::shared::references;
use crate::config::{
    self, Config, Examined, File, Grants, Layers, Lookup, MOST_SHOWN, PROJECT_FILE, Problem, Reading, SetAside,
    Standing, TrustStore, UpstreamConfig,
};
use crate::exit::Exit;
use crate::terminal::layout;
use crate::terminal::text::{exact, exact_lines};

/// How far the text of a line is from its begin, which has a label.
const LABEL: usize = 12;

pub(super) fn run(args: &TrustArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.data_dir.as_deref());
    let data = data.ok_or_else(|| anyhow!("there is no data folder to keep trust in")).map_err(CommandError::usage)?;
    let store = TrustStore::in_folder(Some(&data));
    if args.list {
        return list(&store, args.json);
    }
    if args.revoke {
        return revoke(&store, args.path.as_deref(), args.json);
    }
    let files = files(args.path.as_deref())?;
    if files.is_empty() {
        say("There is nothing to trust here: no gladhand.toml and no skill in .agents/skills.");
        return Ok(Exit::Success.into());
    }
    let questions: Vec<_> = files.iter().filter_map(|file| Question::about(file, &store)).collect();
    if questions.is_empty() {
        say(&format!("{} trusted already.", counted(files.len(), "file")));
        return Ok(Exit::Success.into());
    }
    super::print(&shown_files(&questions))?;
    if let Some(wrong) = questions.iter().find(|question| !question.mistakes.is_empty()) {
        let mistakes = counted(wrong.mistakes.len(), "mistake");
        let error = anyhow!("nothing is trusted: {} has {mistakes}", wrong.file.path.display());
        return Err(CommandError::usage(error).hint("correct the file, and run `gladhand config trust` again"));
    }
    if !std::io::stdin().is_terminal() {
        let error = anyhow!("nothing is trusted: the question must be answered at a terminal");
        let hint = "run `gladhand config trust` yourself, or name a file that you know with --config FILE";
        return Err(CommandError::usage(error).hint(hint));
    }
    let new = questions.iter().filter(|question| !question.is_trusted()).count();
    if new > 0 && !confirm(&format!("Trust {} as shown?", counted(new, "file")))? {
        say("Nothing is trusted.");
        return Ok(Exit::Failure.into());
    }
    for question in &questions {
        question.settle(&store)?;
    }
    let named = args.path.as_ref().and_then(|path| std::fs::canonicalize(path).ok());
    let path = named.map(|path| format!(" {}", shown(&path))).unwrap_or_default();
    say(&format!("Trusted. A change of a file asks again.\n`gladhand config trust --revoke{path}` takes trust back."));
    Ok(Exit::Success.into())
}

/// A file that the user is asked about.
struct Question<'f> {
    file: &'f File,
    standing: Standing,
    /// Whether it is the configuration file of a server. Such a file may say everything.
    is_of_server: bool,
    /// The settings of a project file that have no effect.
    set_aside: Vec<SetAside>,
    /// Everything that its upstreams refer to, by upstream. Upstreams that are disabled or not used need no grants.
    references: Vec<(String, Grants)>,
    /// The mistakes in it. Such a file would stop every command once it is trusted.
    mistakes: Vec<Problem>,
}

impl<'f> Question<'f> {
    /// A question, if there is one: the content is not trusted, or it refers to something that is not granted.
    fn about(file: &'f File, store: &TrustStore) -> Option<Self> {
        let standing = store.standing(&file.path, &file.text);
        let (mut references, mut wrong, mut set_aside) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_of_server = false;
        if is_configuration(file) {
            let own = OwnConfig::beside(file);
            is_of_server = own.is_of_server;
            references = config::references(file);
            wrong = mistakes(file, &references);
            if !is_of_server {
                let Examined { config, places, .. } = file.examine(Reading::AsWritten);
                set_aside = config.map(|project| own.config.set_aside(&project, &places)).unwrap_or_default();
            }
            references.retain(|(name, _)| !is_ignored(&set_aside, name));
        }
        let question = Self { file, standing, is_of_server, set_aside, references, mistakes: wrong };
        let is_settled = question.is_trusted() && question.ungranted().is_empty();
        (!is_settled).then_some(question)
    }

    fn is_trusted(&self) -> bool {
        matches!(self.standing, Standing::Trusted(_))
    }

    fn granted(&self) -> Grants {
        match &self.standing {
            Standing::Trusted(grants) => grants.clone(),
            Standing::Changed { .. } | Standing::Unknown | Standing::Unreadable { .. } => Grants::default(),
        }
    }

    /// References that were not granted yet, as words for a person, each with what it adds to the grants.
    fn ungranted(&self) -> Vec<(String, Grants)> {
        let granted = self.granted();
        let all = Grants::sum(self.references.iter().map(|(_, grants)| grants));
        all.each().filter(|(_, one)| !granted.covers(one)).collect()
    }

    /// Asks for each reference, and records the answers. An upstream that lacks one grant is not used, so a reference
    /// that only such upstreams need is not asked for.
    fn settle(&self, store: &TrustStore) -> Result<(), CommandError> {
        let mut granted = self.granted();
        let mut unused = BTreeSet::new();
        for (words, one) in self.ungranted() {
            let needs = |grants: &Grants| grants.each().any(|(_, other)| other == one);
            let needing = self.references.iter().filter(|(_, grants)| needs(grants)).map(|(name, _)| name);
            if needing.clone().all(|name| unused.contains(name)) {
                continue;
            }
            if confirm(&format!("Let it read {}?", exact(&words)))? {
                granted = Grants::sum([&granted, &one]);
            } else {
                unused.extend(needing);
                say("An upstream that refers to it is not used.");
            }
        }
        Ok(store.trust(&self.file.path, &self.file.text, granted)?)
    }
}

/// The files of all questions: first their contents, then what they do, right above the question.
fn shown_files(questions: &[Question<'_>]) -> String {
    let mut text = String::new();
    for Question { file, standing, is_of_server, .. } in questions {
        let lines = |text: &str| exact_lines(&if *is_of_server { masked(text) } else { text.to_owned() });
        // A string takes everything.
        let _ = writeln!(text, "{}", shown(&file.path));
        let content = match standing {
            Standing::Trusted(_) => continue,
            Standing::Changed { before } => {
                let _ = writeln!(text, "  has changed since it was trusted:");
                text_diff::of(&lines(before), &lines(&file.text))
            }
            Standing::Unknown | Standing::Unreadable { .. } => lines(&file.text),
        };
        for line in content.lines() {
            let _ = writeln!(text, "  | {line}");
        }
    }
    text.push('\n');
    for question in questions.iter().filter(|question| is_configuration(question.file)) {
        text.push_str(&effects(question));
    }
    text
}

/// The programs that a configuration starts, the servers that it connects to, the values that it reads, and its
/// ineffective settings.
fn effects(question: &Question<'_>) -> String {
    let examined = question.file.examine(Reading::AsWritten);
    let mut text = String::new();
    for problem in question.mistakes.iter().take(MOST_SHOWN) {
        write_labelled(&mut text, "wrong", &problem.to_string());
    }
    if let Some(more) = config::more(question.mistakes.len()) {
        write_labelled(&mut text, "", &more);
    }
    let Some(project) = &examined.config else { return text };
    let Question { is_of_server, set_aside, .. } = question;
    if *is_of_server {
        let meaning = "the configuration file of a server: its changes take effect in the running server";
        write_labelled(&mut text, "is", meaning);
    }
    let used = project.upstreams.0.iter().filter(|(name, one)| one.enabled && !is_ignored(set_aside, name));
    for (name, upstream) in used {
        text.push_str(&effect(name, upstream));
        let read = question.references.iter().filter(|(other, _)| other == name).flat_map(|(_, grants)| grants.each());
        for (words, _) in read {
            let _ = writeln!(text, "            reads {}", exact(&words));
        }
    }
    let count = |number: usize, what: &str| (number > 0).then(|| counted(number, what));
    let Config { policy, .. } = project;
    let allowing = policy.rules.iter().filter(|rule| rule.effect == Effect::Allow && !is_of_server).count();
    let narrowing = [count(policy.rules.len() - allowing, "rule"), count(policy.limits.len(), "limit")];
    let narrowing: Vec<_> = narrowing.into_iter().flatten().collect();
    if !narrowing.is_empty() {
        let verb = if *is_of_server { "sets" } else { "narrows" };
        let _ = writeln!(text, "  {verb:<9} policy with {}", narrowing.join(" and "));
    }
    if let Some(allowing) = count(allowing, "rule") {
        let meaning = "with effect `allow`: your own policy still applies, and it allows nothing that you deny";
        write_labelled(&mut text, "has", &format!("{allowing} {meaning}"));
    }
    let has_two_meanings = !set_aside.is_empty();
    for SetAside(Problem { line, key, message, .. }) in set_aside {
        let why = message.strip_prefix("not used: ").unwrap_or(message);
        let _ = writeln!(text, "  ignored   {} (line {line})", exact(key));
        write_labelled(&mut text, "", why);
    }
    if has_two_meanings {
        let meaning = "a server that you started with `--config` and this file also uses what is ignored here";
        write_labelled(&mut text, "but", meaning);
    }
    text.push('\n');
    text
}

/// Whether an upstream is among the settings that have no effect.
fn is_ignored(set_aside: &[SetAside], name: &str) -> bool {
    set_aside.iter().any(|SetAside(one)| one.key == format!("upstreams.{name}"))
}

/// The user's own configuration, beside a file that is to be trusted.
struct OwnConfig {
    config: Config,
    /// Whether the file is the user's own, or one that a server was started with. A project file has a fixed name.
    is_of_server: bool,
}

impl OwnConfig {
    fn beside(file: &File) -> Self {
        let own = Layers::find(None, &TrustStore::default()).ok().and_then(|layers| layers.own);
        let is_of_user = own.as_ref().is_some_and(|own| config::place(&own.path).is_ok_and(|own| own == file.path));
        let is_of_server = is_of_user || file.path.file_name().is_none_or(|name| name != PROJECT_FILE);
        let config = own.and_then(|own| own.examine(Reading::AsWritten).config).unwrap_or_default();
        Self { config, is_of_server }
    }
}

/// Everything that would be wrong with a file in force. An upstream whose references cannot be looked up here is left out.
fn mistakes(file: &File, references: &[(String, Grants)]) -> Vec<Problem> {
    let variable = |name: &str| std::env::var(name).ok();
    let secret = |_: &str| Err("secrets are read only after the file is trusted".to_owned());
    let all = Grants::sum(references.iter().map(|(_, grants)| grants));
    let lookup = Lookup { variable: &variable, secret: &secret, authorities: &references::authorities };
    file.examine(Reading::Granted(&lookup, &all)).problems
}

/// Appends a line behind a label, broken to fit the screen.
fn write_labelled(text: &mut String, label: &str, line: &str) {
    let mut lines = String::new();
    layout::write_line(&mut lines, LABEL, &exact(line), layout::report_width());
    lines.replace_range(2..2 + label.len(), label);
    text.push_str(&lines);
}

/// The program that an upstream starts, or the address that it connects to.
fn effect(name: &str, upstream: &UpstreamConfig) -> String {
    let mut text = String::new();
    let words: Vec<_> = upstream.command.iter().chain(&upstream.args).map(|word| quoted(word)).collect();
    // A string takes everything.
    if !words.is_empty() {
        let _ = writeln!(text, "  starts    {}: {}", exact(name), words.join(" "));
    }
    if let Some(url) = &upstream.url {
        let _ = writeln!(text, "  connects  {}: {}", exact(name), exact(url));
    }
    // A variable can change what a program does, so its value is shown, too.
    for (variable, value) in &upstream.env {
        let _ = writeln!(text, "            with {}={}", exact(variable), quoted(value.0.expose()));
    }
    text
}

/// A word as a shell would have it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,${}".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", exact(&word.replace('\'', r"'\''"))),
    }
}

/// The files that the question is about: those of a folder's project, or the one that is named.
fn files(named: Option<&Path>) -> Result<Vec<File>, CommandError> {
    let path = named.unwrap_or_else(|| Path::new("."));
    let path = if path.is_dir() { fs_err::canonicalize(path) } else { config::place(path) };
    let path = path.map_err(CommandError::usage)?;
    let read = |path: PathBuf| -> Result<File, CommandError> {
        let text = config::read(&path).map_err(CommandError::usage)?;
        Ok(File { path, text })
    };
    if !path.is_dir() {
        return Ok(vec![read(path)?]);
    }
    let config = config::project_file(&path).map_err(CommandError::usage)?;
    let home = config::home_dir();
    let skills = gladhand_agent::project_skills(&path, home.as_deref());
    if let Some(cut) = skills.cut {
        say(&exact(&cut));
    }
    config.into_iter().chain(skills.files).map(read).collect()
}

fn is_configuration(file: &File) -> bool {
    file.path.extension().is_some_and(|kind| kind == "toml")
}

fn shown(path: &Path) -> String {
    exact(&path.display().to_string())
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
    let state = |path: &Path| match config::read(path) {
        Ok(text) if store.trusts(path, &text) => "unchanged",
        Ok(_) => "changed",
        Err(_) => "gone",
    };
    if as_json {
        let files = records.iter().map(|record| {
            let config::TrustRecord { path, sha256, since, grants, .. } = record;
            json!({ "path": path, "sha256": sha256, "since": since, "grants": grants, "state": state(path) })
        });
        return super::print_json(&json!({ "trusted": files.collect::<Vec<_>>() }));
    }
    if records.is_empty() {
        say("No file is trusted.");
    }
    let mut text = String::new();
    for record in &records {
        // A string takes everything.
        let _ = writeln!(text, "{}\n  since {}, {}", shown(&record.path), record.since, state(&record.path));
        for (words, _) in record.grants.each() {
            let _ = writeln!(text, "  reads {}", exact(&words));
        }
    }
    super::print(&text)
}

/// A path that may be gone, without `..`.
fn without_parents(path: PathBuf) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Forgets the trust in a file, or in every file below a folder. Both may be gone.
fn revoke(store: &TrustStore, named: Option<&Path>, as_json: bool) -> Result<ExitCode, CommandError> {
    let path = named.unwrap_or_else(|| Path::new("."));
    let path = if path.is_dir() {
        fs_err::canonicalize(path)?
    } else {
        config::place(path).or_else(|_| std::path::absolute(path).map(without_parents))?
    };
    let records = store.records().into_iter().filter(|record| record.path.starts_with(&path));
    let mut revoked = Vec::new();
    for record in records {
        if store.revoke(&record.path)? {
            revoked.push(record.path);
        }
    }
    if as_json {
        return super::print_json(&json!({ "revoked": revoked }));
    }
    for path in &revoked {
        say(&format!("{} is not trusted any more.", shown(path)));
    }
    if revoked.is_empty() {
        say("Nothing here was trusted.");
    }
    Ok(Exit::Success.into())
}
