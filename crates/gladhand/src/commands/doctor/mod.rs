//! `gladhand doctor`: whether everything that is needed is there, and what to do where it is not.

mod files;
mod invisible;
mod model;
mod opening;
mod packages;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::anyhow;
use clap::{Args, ValueHint};
use gladhand_hub::Conflict;
use gladhand_redaction::redact;
use serde::Serialize;
use serde_json::json;

use crate::commands::serve::{Memory, Within};
use crate::commands::shared::arguments::seconds;
use crate::commands::shared::existence_checks;
use crate::commands::shared::references::Sources;
use crate::commands::shared::runtime::wait_for;
use crate::commands::shared::settings;
use crate::commands::{CommandError, print_report, written};
use crate::config::{
    self, Config, ExaminedLayers, File, Layers, PROJECT_FILE, Problem, Reading, SetAside, TrustStore, UpstreamConfig,
    env,
};
use crate::exit::Exit;
use crate::terminal::layout;
use crate::terminal::text::plain;
#[cfg(unix)]
use gladhand_server::control::{self, WaitingChange};
use gladhand_server::http::Address;
use gladhand_server::signals;
use opening::Opening;

const DOCTOR_HELP: &str = "\
Checks the configuration file and the folders and programs that it names,
permissions of files, the data folder and its database, the model of `gladhand
chat`, and the upstreams of running servers. For each upstream, it checks
whether the command names a package version, and whether listed texts have
invisible characters.

It opens each upstream, lists its tools and closes it. The report shows the
revision, the number of tools and the time to open. Upstreams of an untrusted
project file are not started. Exit code 1: a check failed.

Examples:
  gladhand doctor
  gladhand doctor --offline
  gladhand doctor --http 127.0.0.1:8080 --json";

/// Options of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub struct DoctorArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Start no upstream and open no connection.
    #[arg(long)]
    offline: bool,
    /// Limit for opening an upstream, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds, conflicts_with = "offline")]
    timeout: u64,
    /// Also check whether this address is free for `serve --http`; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    http: Vec<Address>,
    /// Configuration file [default: your own, and ./gladhand.toml if you trust it].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Fine,
    /// It works, and should not stay so.
    Doubtful,
    Broken,
}

/// Something that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    state: State,
    about: String,
    message: String,
    /// A suggestion for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// The session with an upstream that could be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    opened: Option<Opened>,
}

/// An upstream that could be opened.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Opened {
    dialect: &'static str,
    version: String,
    tools: usize,
    /// How long the opening took, in milliseconds.
    ms: u128,
}

impl Finding {
    fn fine(about: &str, message: impl Into<String>) -> Self {
        Self { state: State::Fine, about: about.to_owned(), message: message.into(), advice: None, opened: None }
    }

    fn doubtful(about: &str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Doubtful, advice: Some(advice.into()), ..Self::fine(about, message) }
    }

    fn broken(about: &str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Broken, advice: Some(advice.into()), ..Self::fine(about, message) }
    }

    /// Takes out secrets: what is out of order may be quoted, and a running server may have quoted its upstream.
    fn redact(&mut self) {
        self.message = redact(&self.message).into_owned();
        self.advice = self.advice.take().map(|advice| redact(&advice).into_owned());
    }
}

/// How many columns stand before a finding, for its mark.
const INDENT: usize = 4;

/// The suggestion for upstreams whose names can clash.
const PREFIXES: &str = "give one of them another `prefix`";

/// Looks at everything.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, CommandError> {
    if let Some(file) = &args.config {
        fs_err::metadata(file).map_err(CommandError::usage)?;
    }
    let mut findings = vec![Finding::fine(
        "version",
        format!("gladhand {} on {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH),
    )];
    let settings = configuration(args, &mut findings);
    let data = config::data_dir(args.data_dir.as_deref());
    findings.extend(files::data_folder(data.as_deref()));
    findings.extend(data.as_deref().and_then(files::database));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(ExaminedConfig { config, mistakes, upstreams, within }) = &settings {
        let missing =
            existence_checks::missing_elsewhere(config).into_iter().chain(existence_checks::missing_keys(config));
        let missing = missing.filter(|one| !one.is_mistaken(mistakes));
        findings.extend(missing.map(|one| Finding::broken(&one.key, one.message, one.advice)));
        let left_open = existence_checks::left_open(config).into_iter();
        findings.extend(left_open.map(|one| Finding::doubtful(&one.key, one.message, one.advice)));
        let opening = (!args.offline).then(|| Opening {
            memory: Memory::in_folder(data.clone()),
            within: within.clone(),
            timeout: Duration::from_secs(args.timeout),
        });
        match wait_for(&runtime, opening::upstreams(upstreams, opening.as_ref()))? {
            Ok(looked) => findings.extend(looked),
            Err(stop) => return Ok(signals::exit_status(stop).into()),
        }
        let clashes = config.upstreams.clashes().into_iter();
        let clashes = clashes.map(|(name, message)| Finding::doubtful(&format!("upstream {name}"), message, PREFIXES));
        findings.extend(clashes);
        findings.extend(invisible::findings(config, data.clone()));
    }
    if let Some((settings, data)) = settings.zip(data).filter(|_| !args.offline) {
        findings.push(wait_for(&runtime, model::of(settings.config.agent, data)));
    }
    #[cfg(unix)]
    findings.extend(wait_for(&runtime, running(config::data_dir(args.data_dir.as_deref()).as_deref())));
    findings.extend(args.http.iter().map(port));
    let is_broken = findings.iter().any(|finding| finding.state == State::Broken);
    findings.iter_mut().for_each(Finding::redact);
    if args.json {
        let bad_news = is_broken.then(|| CommandError::from(anyhow!("something is broken")));
        return print_report(json!({ "healthy": !is_broken, "findings": findings }), bad_news.as_ref());
    }
    written(anstream::stdout().write_all(drawn(&findings, layout::report_width()).as_bytes()))?;
    Ok(if is_broken { Exit::Failure } else { Exit::Success }.into())
}

/// The configuration, as far as it can be read, and what is wrong with it.
#[derive(Debug, Default)]
struct ExaminedConfig {
    config: Config,
    mistakes: Vec<Problem>,
    /// The upstreams that are used and have no mistakes.
    upstreams: Vec<Configured>,
    /// The files that it comes from.
    within: Within,
}

/// An upstream of the configuration.
#[derive(Debug)]
struct Configured {
    name: String,
    config: UpstreamConfig,
    /// With its references, as it can be shown.
    written: UpstreamConfig,
}

fn configuration(args: &DoctorArgs, findings: &mut Vec<Finding>) -> Option<ExaminedConfig> {
    let about = "configuration";
    let data = config::data_dir(args.data_dir.as_deref());
    let layers = match Layers::find(args.config.as_deref(), &TrustStore::in_folder(data.as_deref())) {
        Ok(layers) => layers,
        Err(error) => {
            findings.push(Finding::doubtful(about, error.to_string(), "name another file, or make this one readable"));
            return None;
        }
    };
    if let Some(line) = layers.untrusted() {
        findings.push(Finding::doubtful(about, line, "look at the file before you trust it"));
    }
    let ExaminedLayers { config, set_aside, wrong } =
        Sources::with_store_in(data).lookup(|lookup| layers.examine(Reading::Whole(lookup)));
    for file in layers.in_force() {
        let problems = wrong.iter().find(|(other, _)| *other == file).map(|(_, problems)| problems);
        for problem in problems.into_iter().flatten() {
            let message = format!("{}: {problem}", file.path.display());
            findings.push(Finding::broken(about, message, "correct it; `gladhand config check` says when it is right"));
        }
        if problems.is_none() {
            findings.push(Finding::fine(about, file.path.display().to_string()));
        }
        findings.extend(files::permissions(about, &file.path, files::Content::of_configuration(&file.text)));
    }
    for SetAside(problem) in set_aside {
        findings.push(Finding::doubtful(
            about,
            format!("{PROJECT_FILE}: {problem}"),
            "it has no effect; remove it from the project's file if you do not want to read this again",
        ));
    }
    let skills = settings::untrusted_skills(config::data_dir(args.data_dir.as_deref()).as_deref());
    if let Some(cut) = skills.cut {
        findings.push(Finding::doubtful("skill", cut, "remove the skills that you do not need"));
    }
    for skill in skills.files {
        let message = format!("{} is not used: you have not trusted it as it is", skill.display());
        findings.push(Finding::doubtful("skill", message, "`gladhand config trust` shows it and asks"));
    }
    if layers.in_force().next().is_none() {
        findings.push(Finding::fine(about, "no configuration file: defaults apply"));
    }
    let problems: Vec<Problem> = wrong.into_iter().flat_map(|(_, problems)| problems).collect();
    let broken = |name: &str| problems.iter().any(|problem| problem.is_of(&["upstreams", name]));
    let mut config = config?;
    config.upstreams.0.retain(|(name, upstream)| upstream.enabled && !broken(name));
    // The first file that has an upstream counts.
    let files: Vec<_> = layers.in_force().map(File::all_written).collect();
    let written: HashMap<_, _> = files.into_iter().rev().flatten().collect();
    let configured = |(name, config): &(String, UpstreamConfig)| Configured {
        name: name.clone(),
        config: config.clone(),
        written: written.get(name).cloned().unwrap_or_default(),
    };
    let upstreams = config.upstreams.0.iter().map(configured).collect();
    let within = Within::new(std::env::var_os(env::WITHIN), layers.in_force().map(|file| file.path.as_path()));
    Some(ExaminedConfig { config, mistakes: problems, upstreams, within })
}

/// Findings of running processes with the same data folder about their upstreams.
#[cfg(unix)]
async fn running(data: Option<&Path>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for process in control::neighbours(data).await {
        if let Some(change) = &process.waiting {
            let message = format!("a change of {} waits: it applies only as far as it narrows", plain(&change.file));
            let advice = format!("{} applies the rest", change.remedy());
            findings.push(Finding::doubtful(&format!("process {}", process.pid), message, advice));
        }
        for upstream in &process.hub.upstreams {
            let about = format!("upstream {} of process {}", plain(&upstream.name), process.pid);
            let advice = "what the list names cannot be called; correct this, then restart the server";
            findings.extend(upstream.unlisted.iter().map(|why| Finding::broken(&about, plain(why), advice)));
            if upstream.state != "failed" {
                continue;
            }
            let why = plain(upstream.detail.as_deref().unwrap_or("it could not be opened"));
            findings.push(Finding::broken(&about, why, reopening(upstream.unavailable, process.waiting.as_ref())));
        }
        for conflict in &process.hub.conflicts {
            let Conflict { kind, name, claimant, owner, .. } = conflict;
            let about = format!("{kind} {} of process {}", plain(name), process.pid);
            let message = format!("upstream {} offers it, and the name belongs to {}", plain(claimant), plain(owner));
            findings.push(Finding::doubtful(&about, message, solution(conflict)));
        }
    }
    findings
}

/// What helps if two upstreams offer one name. A prefix is part of the names of tools and prompts only.
#[cfg(unix)]
fn solution(Conflict { kind, claimant, shown_as, .. }: &Conflict) -> String {
    match (kind.as_str(), shown_as) {
        ("resource", Some(uri)) => format!("clients read it as `{}`", plain(uri)),
        ("resource", None) => {
            format!("give {} a `prefix`, and clients read it as `PREFIX+URI`", plain(claimant))
        }
        ("tool" | "prompt", _) => {
            "it is offered under another name; give one of the upstreams another `prefix`, or `rename` it".to_owned()
        }
        _ => "it is not offered; only one of the two servers can have it".to_owned(),
    }
}

/// What opens a failed upstream of a running process again.
#[cfg(unix)]
fn reopening(is_unavailable: bool, waiting: Option<&WaitingChange>) -> String {
    match (is_unavailable, waiting) {
        (_, Some(change)) => format!("if the waiting change corrects it, apply that: {}", change.remedy()),
        (true, None) => "set it where the process starts, then restart the process".to_owned(),
        (false, None) => "the next call opens it again; `gladhand ps` shows its state".to_owned(),
    }
}

/// Whether an address can be listened on.
fn port(address: &Address) -> Finding {
    let about = format!("address {address}");
    match address {
        Address::Tcp(place) => match TcpListener::bind(place) {
            Ok(_) => Finding::fine(&about, "free"),
            Err(error) => {
                Finding::broken(&about, error.to_string(), "choose another address, or end the process that uses it")
            }
        },
        Address::Unix(path) if path.exists() => {
            Finding::doubtful(&about, "the file exists already", "remove it if no process listens there")
        }
        Address::Unix(path) => {
            match path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
                Some(folder) => Finding::broken(&about, format!("there is no folder {}", folder.display()), "make it"),
                None => Finding::fine(&about, "free"),
            }
        }
    }
}

fn drawn(findings: &[Finding], width: Option<usize>) -> String {
    let (mut text, faint) = (String::new(), Style::new().dimmed());
    for Finding { state, about, message, advice, .. } in findings {
        let (style, mark) = match state {
            State::Fine => (AnsiColor::Green.on_default(), "ok"),
            State::Doubtful => (AnsiColor::Yellow.on_default().bold(), "hm"),
            State::Broken => (AnsiColor::Red.on_default().bold(), "no"),
        };
        let mut told = String::new();
        layout::write_line(&mut told, INDENT, &format!("{}: {}", plain(about), plain(message)), width);
        // A string takes everything. The mark stands before the first row.
        let _ = write!(text, "{style}{mark}{style:#}{}", &told[mark.len()..]);
        let mut below = String::new();
        for line in advice.iter().flat_map(|advice| advice.lines()) {
            layout::write_line(&mut below, INDENT, &plain(line), width);
        }
        for row in below.lines() {
            let _ = writeln!(text, "{:INDENT$}{faint}{}{faint:#}", "", &row[INDENT..]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn advice_about_a_shared_name_helps_for_its_kind() {
        let conflict = |kind: &str, shown_as: Option<&str>| Conflict {
            kind: kind.to_owned(),
            name: "file:///a".to_owned(),
            claimant: "b".to_owned(),
            owner: "a".to_owned(),
            shown_as: shown_as.map(str::to_owned),
        };
        assert_eq!(solution(&conflict("resource", Some("b+file:///a"))), "clients read it as `b+file:///a`");
        assert!(solution(&conflict("resource", None)).starts_with("give b a `prefix`"));
        assert!(solution(&conflict("tool", None)).contains("`rename` it"));
        assert!(!solution(&conflict("resource template", None)).contains("prefix"));
    }

    #[test]
    fn a_port_is_free_or_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap().to_string());
        assert_eq!(port(&address).state, State::Broken);
        assert_eq!(port(&Address::Tcp("127.0.0.1:0".to_owned())).state, State::Fine);
        assert_eq!(port(&Address::Unix("/no/such/folder/s".into())).state, State::Broken);
    }

    #[test]
    fn an_upstream_without_its_program_is_broken_and_has_advice() {
        let config = UpstreamConfig { command: vec!["no-such-program".to_owned()], ..UpstreamConfig::default() };
        let one = Configured { name: "a".to_owned(), written: config.clone(), config };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let [finding] = &runtime.block_on(opening::upstream(&one, None))[..] else { panic!("one finding") };
        assert_eq!((finding.state, finding.about.as_str()), (State::Broken, "upstream a"));
        assert!(drawn(std::slice::from_ref(finding), None).contains("install it"));
    }

    #[test]
    fn findings_are_broken_between_words() {
        let long = "one two three four five six seven eight nine";
        let shown = drawn(&[Finding::broken("a", long, long)], Some(30));
        let shown = anstream::adapter::strip_str(&shown).to_string();
        let expected = "no  a: one two three four five
    six seven eight nine
    one two three four five
    six seven eight nine
";
        assert_eq!(shown, expected);
        assert!(shown.lines().all(|row| row.len() <= 30), "{shown}");
    }
}
