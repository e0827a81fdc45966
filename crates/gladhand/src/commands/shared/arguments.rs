//! Options that several commands have, and how their values are read.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gladhand_client::upstream::Speak;
use gladhand_server::http::Address;

use crate::config::{Approve, env};

/// Whom to serve, and how.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Dialect to speak; `auto`: the client's first line selects it.
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = dialects())]
    pub dialect: String,
    /// Serve over HTTP at this address, HOST:PORT or unix:PATH, instead of stdin and stdout; may be repeated.
    #[arg(long, value_name = "ADDRESS", visible_alias = "listen")]
    pub http: Vec<Address>,
    /// Accept HTTP requests for this host name, with or without a port; may be repeated.
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allow_host: Vec<String>,
    /// Accept requests from web pages of this origin, such as https://app.example; may be repeated.
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,
    /// Serve a page at /console that shows sessions, messages and calls, and tries tools.
    #[arg(long, requires = "http")]
    pub console: bool,
    /// Certificate chain for HTTPS, in PEM form.
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"], value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM form.
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
    /// Serve metrics for Prometheus at /metrics.
    #[arg(long, requires = "http")]
    pub metrics: bool,
    /// Configuration file [default: your own, and ./gladhand.toml if you trust it].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

/// Which server, and how to talk to it.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// As which client to talk to the server.
    #[arg(long = "as", value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = clients(), ignore_case = true, help = AS)]
    pub client: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Limit without any message of the server, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: u64,
    /// Send this header with every HTTP request; may be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// Configuration file, if no server is named [default: as for `serve`].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Data folder, if no server is named [default: the user's data folder].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// Command that starts the server [default: gladhand serve].
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// Who approves a tool that may do harm.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum WhoApproves {
    /// The client. If the client cannot answer, such tools are refused.
    Ask,
    /// No approval: every tool runs unless it is denied.
    All,
    /// No approval: every tool that needs approval is refused.
    None,
}

impl From<WhoApproves> for Approve {
    fn from(who: WhoApproves) -> Self {
        match who {
            WhoApproves::Ask => Self::Ask,
            WhoApproves::All => Self::All,
            WhoApproves::None => Self::None,
        }
    }
}

/// The help of `--as`, which means the same in every command that has it.
pub(in crate::commands) const AS: &str =
    "Dialect to speak to the server; `auto` detects it, `mcp` detects the revision of MCP";

/// `auto`, `mcp`, `mcp@2025-06-18` and so on, from the registry of dialects.
pub(in crate::commands) fn clients() -> clap::builder::PossibleValuesParser {
    clients_beside(&[Speak::AUTO])
}

pub(in crate::commands) fn clients_beside(words: &[&'static str]) -> clap::builder::PossibleValuesParser {
    let each = gladhand_dialects::REGISTRY.iter().flat_map(|dialect| {
        let versions = dialect.versions.iter().map(|version| {
            let name = format!("{}@{version}", dialect.name);
            clap::builder::PossibleValue::new(name).hide(dialect.versions.len() == 1)
        });
        std::iter::once(clap::builder::PossibleValue::new(dialect.name)).chain(versions)
    });
    words.iter().map(|word| clap::builder::PossibleValue::new(*word)).chain(each).collect::<Vec<_>>().into()
}

/// `auto` and the names in the registry of dialects.
pub(in crate::commands) fn dialects() -> clap::builder::PossibleValuesParser {
    let names = gladhand_dialects::REGISTRY.iter().map(|dialect| dialect.name);
    std::iter::once("auto").chain(names).collect::<Vec<_>>().into()
}

/// Sizes of a part of a recording, in MiB.
pub(in crate::commands) fn sizes() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1_048_576)
}

pub(in crate::commands) fn seconds(text: &str) -> Result<u64, String> {
    let whole = text.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
    whole.ok_or_else(|| "expected whole seconds, from 1 to 3600".to_owned())
}
