//! `gladhand doctor`: whether everything that is needed is there, and what to do where it is not.

mod files;
mod invisible;
mod model;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueHint};
use serde::Serialize;
use serde_json::json;

use crate::commands::lookup::Sources;
use crate::commands::plain::plain;
use crate::commands::{CommandError, outside, print_json, written};
use crate::config::{self, Config, File, Problem, UpstreamConfig, env};
#[cfg(unix)]
use crate::edges::control;
use crate::edges::http::Address;
use crate::exit::Exit;
use crate::upstream::Target;

const DOCTOR_HELP: &str = "\
Looks at the configuration file and the folders and programs that it names, at
each upstream's program or address, at invisible text in what it listed last, at
who can read and change our files, at the data folder and its database, at the
model that `gladhand chat` would ask, and at what running servers say of their
upstreams. Nothing is started.
Exit code 1 means that something is broken.

Examples:
  gladhand doctor
  gladhand doctor --http 127.0.0.1:8080 --json";

/// Options of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub struct DoctorArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Also look whether this address is free to serve at; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    http: Vec<Address>,
    /// The configuration file [default: ./gladhand.toml, then the user's config folder].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// The data folder [default: the user's data folder].
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
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn fine(about: &str, message: impl Into<String>) -> Self {
        Self { state: State::Fine, about: about.to_owned(), message: message.into(), advice: None }
    }

    fn doubtful(about: &str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Doubtful, advice: Some(advice.into()), ..Self::fine(about, message) }
    }

    fn broken(about: &str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Broken, advice: Some(advice.into()), ..Self::fine(about, message) }
    }
}

/// Looks at everything.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, CommandError> {
    let mut findings = vec![Finding::fine(
        "version",
        format!("gladhand {} on {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH),
    )];
    let (config, mistakes) = configuration(args, &mut findings).unzip();
    let data = config::data_dir(args.data_dir.as_deref());
    findings.extend(files::data_folder(data.as_deref()));
    findings.extend(data.as_deref().and_then(files::database));
    let missing = config.iter().flat_map(outside::missing_elsewhere);
    let missing = missing.filter(|one| !one.is_mistaken(mistakes.as_deref().unwrap_or_default()));
    findings.extend(missing.map(|one| Finding::broken(&one.key, one.message, one.advice)));
    findings.extend(config.iter().flat_map(upstreams));
    findings.extend(config.iter().flat_map(|config| invisible::findings(config, data.clone())));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some((config, data)) = config.zip(data) {
        findings.push(runtime.block_on(model::of(config.agent, data)));
    }
    #[cfg(unix)]
    findings.extend(runtime.block_on(running()));
    findings.extend(args.http.iter().map(port));
    let is_broken = findings.iter().any(|finding| finding.state == State::Broken);
    match args.json {
        true => print_json(&format!("{:#}", json!({ "healthy": !is_broken, "findings": findings })))?,
        false => written(anstream::stdout().write_all(drawn(&findings).as_bytes()))?,
    }
    Ok(if is_broken { Exit::Failure } else { Exit::Success }.into())
}

/// The configuration, as far as it can be read, and what is wrong with it.
fn configuration(args: &DoctorArgs, findings: &mut Vec<Finding>) -> Option<(Config, Vec<Problem>)> {
    let about = "configuration";
    let file = match config::find(args.config.as_deref()) {
        Ok(Some(file)) => file,
        Ok(None) => {
            findings.push(Finding::fine(about, "there is no file: the defaults hold"));
            return Some((Config::default(), Vec::new()));
        }
        Err(error) => {
            findings.push(Finding::doubtful(about, error.to_string(), "name another file, or make this one readable"));
            return None;
        }
    };
    let File { path, text } = &file;
    let sources = Sources::with_store_in(config::data_dir(args.data_dir.as_deref()));
    let examined = sources.lookup(|lookup| config::examine(&file, lookup));
    if examined.problems.is_empty() {
        findings.push(Finding::fine(about, path.display().to_string()));
    }
    for problem in &examined.problems {
        let message = format!("{}: {problem}", path.display());
        findings.push(Finding::broken(about, message, "correct it; `gladhand config check` says when it is right"));
    }
    findings.extend(files::permissions(about, path, files::Content::of_configuration(text)));
    let broken = |name: &str| examined.problems.iter().any(|problem| problem.is_of(&["upstreams", name]));
    let mut config = examined.config?;
    config.upstreams.0.retain(|(name, upstream)| upstream.enabled && !broken(name));
    Some((config, examined.problems))
}

/// All upstreams, looked at side by side: an address that does not answer takes its time.
fn upstreams(config: &Config) -> Vec<Finding> {
    std::thread::scope(|scope| {
        let looks: Vec<_> =
            config.upstreams.0.iter().map(|(name, one)| scope.spawn(move || upstream(name, one))).collect();
        looks.into_iter().flat_map(|look| look.join().unwrap_or_default()).collect()
    })
}

fn upstream(name: &str, upstream: &UpstreamConfig) -> Vec<Finding> {
    let about = format!("upstream {name}");
    let mut missing = outside::missing(upstream);
    let place = match upstream.target() {
        Some(Target::Url(url)) => {
            missing.extend(outside::unreachable(&url));
            Target::Url(url).to_string()
        }
        // Arguments may hold secrets.
        _ => upstream.command.first().cloned().unwrap_or_default(),
    };
    if missing.is_empty() {
        return vec![Finding::fine(&about, place)];
    }
    missing.into_iter().map(|one| Finding::broken(&about, one.message, one.advice)).collect()
}

/// What processes that run say of upstreams that they cannot open.
#[cfg(unix)]
async fn running() -> Vec<Finding> {
    let mut findings = Vec::new();
    for process in control::everybody().await {
        for upstream in process.hub.upstreams.iter().filter(|upstream| upstream.state == "failed") {
            let about = format!("upstream {} of process {}", upstream.name, process.pid);
            let why = upstream.detail.as_deref().unwrap_or("it could not be opened");
            findings.push(Finding::broken(
                &about,
                why,
                "it is tried again when somebody needs it; `gladhand ps` shows how it is",
            ));
        }
    }
    findings
}

/// Whether an address can be listened on.
fn port(address: &Address) -> Finding {
    let about = format!("address {address}");
    match address {
        Address::Tcp(place) => match TcpListener::bind(place) {
            Ok(_) => Finding::fine(&about, "free"),
            Err(error) => Finding::broken(&about, error.to_string(), "choose another, or end who has it"),
        },
        Address::Unix(path) if path.exists() => {
            Finding::doubtful(&about, "there is such a file already", "remove it if nobody listens there")
        }
        Address::Unix(path) => {
            match path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
                Some(folder) => Finding::broken(&about, format!("there is no folder {}", folder.display()), "make it"),
                None => Finding::fine(&about, "free"),
            }
        }
    }
}

fn drawn(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { state, about, message, advice } in findings {
        let (style, mark) = match state {
            State::Fine => (AnsiColor::Green.on_default(), "ok"),
            State::Doubtful => (AnsiColor::Yellow.on_default().bold(), "hm"),
            State::Broken => (AnsiColor::Red.on_default().bold(), "no"),
        };
        // A string takes everything.
        let _ = writeln!(text, "{style}{mark}{style:#}  {}: {}", plain(about), plain(message));
        if let Some(advice) = advice {
            let faint = Style::new().dimmed();
            for line in advice.lines() {
                let _ = writeln!(text, "    {faint}{}{faint:#}", plain(line));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_or_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap().to_string());
        assert_eq!(port(&address).state, State::Broken);
        assert_eq!(port(&Address::Tcp("127.0.0.1:0".to_owned())).state, State::Fine);
        assert_eq!(port(&Address::Unix("/no/such/folder/s".into())).state, State::Broken);
    }

    #[test]
    fn an_upstream_without_its_program_is_broken_and_says_what_to_do() {
        let config = UpstreamConfig { command: vec!["no-such-program".to_owned()], ..UpstreamConfig::default() };
        let [finding] = &upstream("a", &config)[..] else { panic!("one finding") };
        assert_eq!((finding.state, finding.about.as_str()), (State::Broken, "upstream a"));
        assert!(drawn(std::slice::from_ref(finding)).contains("install it"));
    }
}
