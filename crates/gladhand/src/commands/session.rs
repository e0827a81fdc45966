//! What the commands that talk to a server share: which server, opened how, and what became of it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use gladhand_accord::Refusal;
use gladhand_operations::{Failure, FailureKind, Outcome};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::cli::ServerArgs;
use crate::commands::{CommandError, lookup, sign_in};
use crate::config::{self, env};
use crate::edges::signals::{self, Signals};
use crate::exit::Exit;
use crate::upstream::{Bearer, Eras, Host, OpenError, Options, Speak, Target, Upstream};

/// How long a person may take to sign in.
const SIGNING_IN: Duration = Duration::from_secs(330);

/// The file of the data folder in which it is kept what was found out about servers.
const ERAS: &str = "eras.json";

/// A server and how to talk to it, as the command line says.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) options: Options,
    /// How a person is asked to sign in, should the server want it.
    pub(super) sign_in: sign_in::Manner,
    /// Whether no server was named, and we start one of our own.
    is_ours: bool,
}

impl Plan {
    /// Reads the options; `url` is the word of the command line that names a server, if one does.
    pub(super) fn read(args: &ServerArgs, url: Option<&str>) -> Result<Self, CommandError> {
        let words = match (url, args.command.is_empty()) {
            (Some(url), true) => vec![url.to_owned()],
            (None, false) => args.command.clone(),
            (None, true) => vec![super::own_program()?, "serve".to_owned()],
            (Some(_), false) => {
                return Err(CommandError::usage(anyhow!("give a URL or a command behind `--`, not both")));
            }
        };
        let target = Target::parse(&words).map_err(CommandError::usage)?;
        let speak = Speak::parse(&args.client)
            .ok_or_else(|| CommandError::usage(anyhow!("there is no client `{}`", args.client)))?;
        let timeout = Duration::from_secs(args.timeout);
        let token = config::mcp_token_in_environment().map_err(CommandError::usage)?;
        let options = Options {
            speak,
            opening_timeout: timeout,
            call_timeout: Some(timeout),
            headers: headers(&args.header).map_err(CommandError::usage)?,
            authorizer: token.map(|token| Arc::new(Bearer::new(token)) as _),
            eras: eras(std::env::var_os(env::DATA_DIR).map(PathBuf::from).as_deref()),
            hidden: lookup::hidden(),
            ..Options::default()
        };
        Ok(Self {
            target,
            options,
            sign_in: sign_in::Manner::InPassing,
            is_ours: url.is_none() && args.command.is_empty(),
        })
    }

    /// The server as it would be typed behind a command.
    pub(super) fn shown(&self) -> String {
        match &self.target {
            Target::Url(_) => self.target.to_string(),
            // Without a server, the next command needs none either.
            Target::Command(_) if self.is_ours => String::new(),
            Target::Command(words) => format!("-- {}", words.join(" ")),
        }
    }

    /// Opens a session, does the work, closes it. Ctrl-C and SIGTERM end it wherever it is.
    pub(super) fn run<F: Future<Output = Result<ExitCode, CommandError>>>(
        self,
        host: Arc<dyn Host>,
        work: impl FnOnce(Upstream) -> F,
    ) -> Result<ExitCode, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let done = runtime.block_on(async {
            let mut signals = Signals::listen()?;
            let mut options = self.options;
            let (timeout, asked) = (options.opening_timeout, Arc::new(AtomicBool::new(false)));
            if let (Target::Url(url), None) = (&self.target, &options.authorizer) {
                let authorizer = sign_in::authorizer(url, self.sign_in, Arc::clone(&asked)).await;
                options.authorizer = authorizer.map(|authorizer| Arc::new(authorizer) as _);
                // A person may take longer than a server.
                options.opening_timeout = timeout.max(SIGNING_IN);
            }
            let opened = tokio::select! {
                opened = Upstream::open(&self.target, options, host) => opened,
                () = silence(timeout, &asked) => {
                    let refusal = Refusal::TimedOut { seconds: timeout.as_secs() };
                    Err(OpenError::Refused { refusal, last_words: Vec::new() })
                }
                stop = signals.next() => return Ok(signals::exit_status(stop).into()),
            };
            let upstream = opened.map_err(|error| not_open(error, &self.target))?;
            let done = tokio::select! {
                done = work(upstream.clone()) => done,
                stop = signals.next() => Ok(signals::exit_status(stop).into()),
            };
            tokio::select! {
                () = upstream.close() => {}
                _ = signals.next() => {}
            }
            done
        });
        // A person may still be looking at a question that nobody awaits any more.
        runtime.shutdown_background();
        done
    }
}

/// Ends when a server has been silent for too long, and never while a person is signing in.
async fn silence(timeout: Duration, asked: &AtomicBool) {
    // What the opening itself says about it is better, where it has the same time.
    tokio::time::sleep(timeout + Duration::from_secs(1)).await;
    if asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// What other runs found out about servers, where there is a place to keep it.
pub(super) fn eras(data_dir: Option<&Path>) -> Eras {
    config::data_dir(data_dir).map(|folder| Eras::kept_in(folder.join(ERAS))).unwrap_or_default()
}

pub(super) fn headers(lines: &[String]) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines {
        // The value may be a secret, so complaints name only what is before it.
        let (name, value) = line.split_once(':').context("--header wants `Name: value`")?;
        let key: HeaderName =
            name.trim().parse().with_context(|| format!("`{}` is no name of a header", name.trim()))?;
        let mut value = HeaderValue::from_str(value.trim())
            .map_err(|_| anyhow!("the value of the header `{key}` holds what a header cannot"))?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

/// Why there is no session, with something to do about it.
fn not_open(error: OpenError, target: &Target) -> CommandError {
    let exit = match &error {
        OpenError::NotStarted { .. } | OpenError::Unreachable(_) => Exit::PeerFailed,
        OpenError::NotOverHttp(_) => Exit::Usage,
        OpenError::Unauthorized { .. } => Exit::Refused,
        OpenError::Refused { refusal, .. } => super::exit_of(refusal),
    };
    let hint = match (&error, target) {
        (OpenError::Refused { last_words, .. }, _) if !last_words.is_empty() => {
            format!("its last words on stderr were:\n{}", super::plain::plain_lines(&last_words.join("\n")))
        }
        (OpenError::Unauthorized { .. }, _) => {
            format!(
                "sign in with `gladhand login`, set {} to a bearer token, or give --header 'Authorization: …'",
                env::MCP_TOKEN
            )
        }
        (OpenError::Unreachable(_), _) => "is it running, and is the path right (often /mcp)?".to_owned(),
        (OpenError::Refused { .. }, Target::Command(words)) => {
            format!("`gladhand open --as mcp -- {}` shows the handshake", words.join(" "))
        }
        (OpenError::Refused { .. }, Target::Url(_)) => "is this the URL of an MCP endpoint?".to_owned(),
        (OpenError::NotOverHttp(_), _) => "start the server behind `--` instead".to_owned(),
        (OpenError::NotStarted { .. }, _) => "is the program installed and on the path?".to_owned(),
    };
    CommandError::new(exit, error).hint(hint)
}

/// The reply of a call, or how the command ends without one.
pub(super) fn reply(outcome: Outcome) -> Result<gladhand_operations::Reply, CommandError> {
    outcome.map_err(|failure: Failure| {
        let exit = match failure.kind {
            FailureKind::UnknownTool | FailureKind::UnknownPrompt | FailureKind::UnknownResource => Exit::Usage,
            FailureKind::UpstreamLost | FailureKind::TimedOut => Exit::PeerFailed,
            _ => Exit::CallFailed,
        };
        CommandError::new(exit, anyhow!(super::plain::plain_lines(&failure.message)))
    })
}
