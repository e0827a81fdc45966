//! The live server of a replay: a process that is started, or a server at a URL.

use std::collections::HashMap;

use anyhow::anyhow;
use gladhand_client::http_client::{HttpClient, Report, Style};
use gladhand_client::upstream::OpenError;
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_core::wire::{FrameKind, Members};
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Dialect, Lane, Loss, Posting, PostingEffect, mcp};
use gladhand_process::child::{ChildPeer, Manner};
use gladhand_process::child_lines::{ChildEvent, ChildLines};
use gladhand_process::surroundings::Surroundings;
use url::Url;

use super::{ReplayArgs, dialect, with_id};
use crate::commands::CommandError;
use crate::commands::shared::drawing::describe;
use crate::commands::shared::opened_server::{self, Access};
use crate::commands::shared::recordings::Session;
use crate::commands::shared::sign_in;
use crate::config::{self, env};
use crate::exit::Exit;

/// How many lines of the server's stderr are shown if it failed.
const STDERR_LINES: usize = 20;

/// Ids of requests over HTTP must be numbers. Other ids are replaced by numbers from here on.
const FIRST_ID: u64 = 1 << 40;

/// What a live server does.
#[derive(Debug)]
pub(super) enum LiveEvent {
    /// It sent a message.
    Message(Vec<u8>),
    /// It sent a message of more than so many bytes.
    TooLong(usize),
    /// The request with this recorded id gets no answer, for this reason.
    Lost(String, String),
    /// It lets nothing pass, for this reason.
    Closed(String),
    /// Nothing that matters here.
    Nothing,
    /// It sends nothing any more.
    End,
}

/// The server.
pub(super) enum LiveServer {
    Process(Box<ChildLines>),
    Http(Box<HttpServer>),
}

/// A server at a URL.
pub(super) struct HttpServer {
    client: HttpClient,
    dialect: &'static Dialect,
    /// The revision of MCP that is spoken.
    revision: Option<Revision>,
    /// Whether the handshake got its answer.
    is_open: bool,
    /// The request that opens the session.
    opening: Option<Lane>,
    /// Recorded ids of requests that have no answer.
    ids: HashMap<u64, String>,
    next_id: u64,
}

impl LiveServer {
    /// Starts a process.
    pub(super) async fn start(command: &[String], session: &Session) -> Result<Self, CommandError> {
        let hidden = env::never_passed_on();
        let hidden: Vec<_> = hidden.iter().map(String::as_str).collect();
        let child = ChildPeer::start(command, &Surroundings::default(), &hidden, |_| {}).await;
        let child = child.map_err(|source| {
            let program = command.first().cloned().unwrap_or_default();
            let error = OpenError::NotStarted { program, source };
            let code = error.word();
            CommandError::new(Exit::PeerFailed, error).code(code)
        })?;
        Ok(Self::Process(Box::new(ChildLines::new(child, dialect(session).text.terminator, MAX_LINE))))
    }

    /// Connects to a server at a URL, in the style of the recorded version.
    pub(super) async fn connect(args: &ReplayArgs, url: &Url, session: &Session) -> Result<Self, CommandError> {
        let dialect = dialect(session);
        if !dialect.has_http {
            let error = anyhow!("the recorded session is of {}, which has no form over HTTP", dialect.name);
            return Err(CommandError::usage(error).hint("start the server: `gladhand replay FILE -- COMMAND`"));
        }
        let headers = opened_server::headers(&args.header).map_err(CommandError::usage)?;
        let token = config::mcp_token_in_environment().map_err(CommandError::usage)?;
        let target = gladhand_client::upstream::Target::Url(url.clone());
        let roots = opened_server::roots(&target, args.ca.as_deref())?;
        let access = Access::to(&target, headers, roots, token, sign_in::Manner::InPassing).await;
        let version = session.version.as_deref().or_else(|| dialect.versions.first().copied()).unwrap_or_default();
        let client = HttpClient::connect(access.endpoint(url.clone()), Style::first(dialect, version)).await;
        let client = client.map_err(|loss| CommandError::new(Exit::PeerFailed, anyhow!("{url}: {}", words(&loss))))?;
        let revision = Revision::named(version);
        let (ids, is_open, opening) = (HashMap::new(), false, None);
        Ok(Self::Http(Box::new(HttpServer { client, dialect, revision, is_open, opening, ids, next_id: FIRST_ID })))
    }

    /// Sends a message. It has no line break.
    pub(super) fn send(&mut self, text: &str) {
        match self {
            Self::Process(lines) => lines.send(format!("{text}\n").as_bytes()),
            Self::Http(server) => server.send(text),
        }
    }

    /// The next event. May be dropped and called again.
    pub(super) async fn next(&mut self) -> LiveEvent {
        match self {
            Self::Process(lines) => match lines.next().await {
                ChildEvent::Line(bytes) => LiveEvent::Message(bytes),
                ChildEvent::TooLong(limit, _) => LiveEvent::TooLong(limit),
                ChildEvent::Room => LiveEvent::Nothing,
                ChildEvent::End => LiveEvent::End,
            },
            Self::Http(server) => {
                let report = server.client.next().await;
                server.received(report)
            }
        }
    }

    /// How it ended, if it is a process, and the last lines of its stderr.
    pub(super) async fn ending(&mut self) -> (Option<String>, Vec<String>) {
        match self {
            Self::Process(lines) => {
                let (status, stderr) = lines.ending(STDERR_LINES).await;
                (status.map(|status| status.to_string()), stderr)
            }
            Self::Http(_) => (None, Vec::new()),
        }
    }

    /// Ends it, or the session with it.
    pub(super) async fn end(&mut self, manner: Manner) {
        match self {
            Self::Process(lines) => lines.end(manner).await,
            Self::Http(server) => server.client.close().await,
        }
    }

    /// Ends a process at once.
    pub(super) fn kill(&mut self) {
        if let Self::Process(lines) = self {
            lines.kill();
        }
    }
}

impl HttpServer {
    fn send(&mut self, text: &str) {
        if self.dialect.name != mcp::DIALECT.name {
            self.client.send(text, None, Posting::default());
            return;
        }
        let summary = describe(Some(self.dialect), text);
        let id = summary.filter(|summary| summary.kind == FrameKind::Request).and_then(|summary| summary.id);
        let text = match id.map(|id| id.get()) {
            Some(recorded) => {
                let (recorded, id) = (recorded.to_owned(), self.number(recorded));
                self.ids.insert(id, recorded);
                with_id(self.dialect, text, &id.to_string())
            }
            None => text.to_owned(),
        };
        let posting = mcp::http::posting(&text, self.revision, self.is_open);
        if posting.effect == PostingEffect::Opens {
            (self.is_open, self.opening) = (false, posting.exchange);
        }
        self.client.send(&text, None, posting);
    }

    /// The number that stands for a recorded id: the id itself, if it is a number that is not in use.
    fn number(&mut self, recorded: &str) -> u64 {
        let number = recorded.parse().ok().filter(|id: &u64| *id < FIRST_ID && id.to_string() == recorded);
        number.filter(|id| !self.ids.contains_key(id)).unwrap_or_else(|| {
            self.next_id += 1;
            self.next_id
        })
    }

    fn received(&mut self, report: Report) -> LiveEvent {
        match report {
            Report::Message(lane, message, _) => {
                let text = String::from_utf8_lossy(&message.bytes).into_owned();
                if self.opening == Some(lane) {
                    self.note_opening(&text);
                }
                LiveEvent::Message(self.with_recorded_id(text).into_bytes())
            }
            Report::Lost(_, loss @ (Loss::Denied(_) | Loss::Forbidden(_) | Loss::Session)) => {
                LiveEvent::Closed(words(&loss))
            }
            Report::Lost(Lane(id), loss) => match self.ids.remove(&id) {
                Some(recorded) => LiveEvent::Lost(recorded, words(&loss)),
                None => LiveEvent::Nothing,
            },
            Report::Room => LiveEvent::Nothing,
            Report::Gone => LiveEvent::End,
        }
    }

    /// The result of the handshake says which revision is in force.
    fn note_opening(&mut self, text: &str) {
        let result = Members::parse(text).ok();
        let result = result.as_ref().and_then(|members| members.object("result"));
        if let Some(version) = result.as_ref().and_then(|result| result.str("protocolVersion")) {
            self.is_open = true;
            self.revision = Revision::named(&version).or(self.revision);
        }
    }

    /// An answer with the id that its request has in the recording.
    fn with_recorded_id(&mut self, text: String) -> String {
        let summary = describe(Some(self.dialect), &text).filter(|summary| summary.kind.is_answer());
        let id: Option<u64> = summary.and_then(|summary| summary.id?.get().parse().ok());
        match id.and_then(|id| self.ids.remove(&id)) {
            Some(recorded) => with_id(self.dialect, &text, &recorded),
            None => text,
        }
    }
}

/// Why there is no answer.
fn words(loss: &Loss) -> String {
    match loss {
        Loss::Unsent(why) | Loss::Denied(why) | Loss::Forbidden(why) => why.to_string(),
        Loss::Busy(why) => (*why).to_owned(),
        Loss::Broken => "the connection broke before the answer".to_owned(),
        Loss::Session => "the server ended the session".to_owned(),
        Loss::Status(status) => format!("the answer is HTTP status {status} without a message"),
        Loss::TooLong(limit) => format!("the answer has more than {limit} bytes"),
        Loss::NoRoom => "there is no room for the answer".to_owned(),
        Loss::WebPage(status) => format!("the answer is a web page (HTTP status {status})"),
    }
}
