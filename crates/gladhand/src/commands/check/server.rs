//! Judges a server: sends it every script of the dialects and versions that it speaks.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use gladhand_check::{Exchange, Line, Script, Step, Subject, answered_id, asked_id, server_scripts};
use gladhand_core::negotiation::Side;
use gladhand_dialects::{ClientSetup, Dialect, Lane, REGISTRY};

use crate::commands::CommandError;
use crate::commands::open::draw::shown;
use crate::commands::open::exchange::Verdict;
use crate::commands::open::{Waiting, every};
use crate::commands::shared::opened_server::{Access, client_setup, headers, hint_for, roots, target, typed};
use crate::commands::shared::raw_exchange::{RawExchange, Waited};
use crate::commands::shared::sign_in;
use crate::config;
use crate::exit::Exit;
use gladhand_client::upstream::{OpenError, Speak, Target};
use gladhand_server::signals::{self, Signals};

use super::posting::posting;
use super::summary::Summary;
use super::{CheckArgs, finish};

/// How many servers run at once.
const AT_ONCE: usize = 4;

/// The limit for the first answer: a server may have to be downloaded.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// After this many answers that did not come in time, a script is given up.
const MOST_SILENCES: usize = 3;

/// How many requests may follow from what a server listed.
const MOST_FOLLOWING: usize = 25;

/// After the last answer the server may still send something that no request asked for.
const AFTERTHOUGHT: Duration = Duration::from_millis(100);

/// A version of a dialect that the server speaks.
type Spoken = (&'static Dialect, &'static str);

pub(super) fn run(args: &CheckArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let speak =
        Speak::parse(&args.only).ok_or_else(|| CommandError::usage(anyhow!("there is no client `{}`", args.only)))?;
    let target = target(args.url.as_deref(), &args.command)?;
    let mcp_token = config::mcp_token_in_environment().map_err(CommandError::usage)?;
    let headers = headers(&args.header).map_err(CommandError::usage)?;
    let roots = roots(&target, args.ca.as_deref())?;
    let setup = client_setup(Vec::new())?;
    let limit = Duration::from_secs(args.timeout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exchanges = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let access = Access::to(&target, headers, roots, mcp_token, sign_in::Manner::InPassing).await;
        let check = async {
            let spoken = match named(&args.only) {
                Some(named) => vec![named],
                None => spoken(&target, &access, &setup, speak, verbosity > 0).await?,
            };
            exercise(&target, &access, &setup, &spoken, limit).await
        };
        tokio::select! {
            exchanges = check => exchanges.map(Ok),
            // Dropping the check ends every process at once.
            stop = signals.next() => Ok(Err(stop)),
        }
    })?;
    match exchanges {
        Ok(exchanges) => finish(&Summary::of(shown(&target), Subject::Server, exchanges), args),
        Err(stop) => Ok(signals::exit_status(stop).into()),
    }
}

/// The version that `--only` names, if it names one.
fn named(text: &str) -> Option<Spoken> {
    let (name, version) = text.split_once('@')?;
    let dialect = REGISTRY.iter().copied().find(|dialect| dialect.name.eq_ignore_ascii_case(name))?;
    Some((dialect, dialect.versions.iter().copied().find(|known| *known == version)?))
}

/// The versions in which a session opens, as the server chose them.
async fn spoken(
    target: &Target,
    access: &Access,
    setup: &ClientSetup,
    speak: Speak,
    log_stderr: bool,
) -> Result<Vec<Spoken>, CommandError> {
    let waiting = Waiting::tell("finding out what the server speaks …");
    let hidden = config::env::never_passed_on();
    let survey = every::Survey { target, access, setup, timeout: FIRST_ANSWER, log_stderr, lists: None, hidden };
    let opened = every::open(&survey).await;
    drop(waiting);
    let (records, servers): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    if let Some(Verdict::Failed(error @ OpenError::NotStarted { .. })) = records.first().map(|record| &record.verdict) {
        let hint = error.hint(target, hint_for(&typed(target)));
        return Err(CommandError::new(Exit::PeerFailed, anyhow!(error.to_string())).code(error.word()).hint(hint));
    }
    join_all(servers.into_iter().zip(&records).map(|(server, record)| server.end(record))).await;
    let is_wanted = |dialect: &str| match speak {
        Speak::Auto => true,
        Speak::Mcp => dialect == "mcp",
        Speak::As(wanted, _) => dialect == wanted.name,
    };
    let mut spoken: Vec<Spoken> = Vec::new();
    for record in records.iter().filter(|record| is_wanted(record.dialect.name)) {
        if let Verdict::Opened(agreement) = &record.verdict
            && let Some(version) = record.dialect.versions.iter().copied().find(|known| *known == agreement.version)
            && !spoken.iter().any(|(dialect, known)| dialect.name == record.dialect.name && *known == version)
        {
            spoken.push((record.dialect, version));
        }
    }
    Ok(spoken)
}

/// Runs every script.
async fn exercise(
    target: &Target,
    access: &Access,
    setup: &ClientSetup,
    spoken: &[Spoken],
    limit: Duration,
) -> Result<Vec<Exchange>, CommandError> {
    let token = setup.token.as_ref().map(|token| token.expose().to_owned()).unwrap_or_default();
    let is_http = matches!(target, Target::Url(_));
    let scripts = spoken.iter().flat_map(|(dialect, version)| {
        let scripts = server_scripts(dialect.name, version, &token).into_iter();
        scripts.filter(move |script| script.is_for_http || !is_http).map(move |script| (*dialect, script))
    });
    let scripts: Vec<_> = scripts.collect();
    let waiting = Waiting::tell(&format!("running {} exchanges …", scripts.len()));
    let running = scripts.into_iter().map(|(dialect, script)| exchange(dialect, script, target, access, limit));
    let exchanges: Vec<_> = stream::iter(running).buffered(AT_ONCE).collect().await;
    drop(waiting);
    exchanges.into_iter().collect()
}

/// Runs one script with a server of its own.
async fn exchange(
    dialect: &'static Dialect,
    script: Script,
    target: &Target,
    access: &Access,
    limit: Duration,
) -> Result<Exchange, CommandError> {
    let started = RawExchange::start(dialect, script.version, target, access).await;
    let raw =
        started.map_err(|error| CommandError::new(Exit::PeerFailed, anyhow!(error.to_string())).code(error.word()))?;
    let mut player =
        Player { raw, dialect, version: script.version, limit, silences: 0, open: BTreeMap::new(), seen: 0 };
    for step in &script.steps {
        match step {
            Step::Send(line) => player.send(line),
            Step::Wait => player.wait().await,
            Step::Follow(next) => {
                for _ in 0..MOST_FOLLOWING {
                    let Some(line) = next(&player.lines()) else { break };
                    player.send(&line);
                    player.wait().await;
                    if player.is_over() {
                        break;
                    }
                }
            }
        }
        if player.is_over() {
            break;
        }
    }
    if !player.is_over() {
        // A line of the server ends the wait, and others may follow.
        while player.raw.wait(AFTERTHOUGHT, |_| true).await == Waited::Came {}
    }
    player.raw.close().await;
    let lines = player.lines();
    let is_http = matches!(target, Target::Url(_));
    let (dialect, version, name) = (dialect.name.to_owned(), script.version.to_owned(), script.name.to_owned());
    Ok(Exchange { dialect, version, name, lines, is_complete: true, is_http })
}

/// A script that is being played to a server.
struct Player {
    raw: RawExchange,
    dialect: &'static Dialect,
    version: &'static str,
    limit: Duration,
    silences: usize,
    /// The ids, as JSON, of the requests that may still be answered, with the HTTP exchanges that carry them.
    open: BTreeMap<String, Option<Lane>>,
    /// How many lines were searched for answers.
    seen: usize,
}

impl Player {
    fn send(&mut self, line: &str) {
        // Larger than any number that a script uses as id, and exact as a float.
        let spare = (1 << 40) + self.raw.lines.len() as u64;
        let posting = posting(self.dialect.name, self.version, line, spare);
        if let Some(id) = asked_id(self.dialect.name, line) {
            self.open.insert(id, posting.exchange);
        }
        self.raw.send(line, &posting);
    }

    /// Waits until each request has an answer, or will get none.
    async fn wait(&mut self) {
        let has_answer = self.raw.lines.iter().any(|line| line.from == Side::Server);
        let limit = if has_answer { self.limit } else { self.limit.max(FIRST_ANSWER) };
        let until = tokio::time::Instant::now() + limit;
        self.settle();
        while !self.open.is_empty() {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            match self.raw.wait(left, |_| true).await {
                Waited::Came => {}
                Waited::Ended if !self.raw.is_gone => {}
                Waited::Ended => return,
                Waited::Silence => {
                    self.silences += 1;
                    // Later waits are for later requests.
                    self.open.clear();
                }
            }
            self.settle();
        }
    }

    /// Takes out the requests that were answered, or whose HTTP exchange is over.
    fn settle(&mut self) {
        for line in self.raw.lines.iter().skip(self.seen).filter(|line| line.from == Side::Server) {
            if let Some(id) = answered_id(self.dialect.name, &line.text) {
                self.open.remove(&id);
            }
        }
        self.seen = self.raw.lines.len();
        for lane in self.raw.lost.drain(..) {
            self.open.retain(|_, open| *open != Some(lane));
        }
    }

    fn is_over(&self) -> bool {
        self.raw.is_gone || self.silences >= MOST_SILENCES
    }

    fn lines(&self) -> Vec<Line> {
        let line = |line: &crate::commands::shared::raw_exchange::RawLine| Line {
            from: line.from,
            text: line.text.clone(),
            ms: crate::commands::open::draw::millis(line.at),
            status: line.status,
        };
        self.raw.lines.iter().map(line).collect()
    }
}
