//! MCP and A2E over HTTP, our side as a client: lines become requests, and what comes back becomes messages.
//!
//! Each line is posted by a task of its own, so that none waits for another's answer; only what wants no answer
//! holds up those behind it until it has arrived, because its order may matter. All tasks report to one bounded
//! queue. What a report means is not decided here.

mod agent;
mod authorizer;
mod events;
mod exchange;
mod main_stream;
mod obstacle;
mod requests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gladhand_auth::Roots;
use gladhand_dialects::{Dialect, Lane, Loss, a2e, mcp};
use gladhand_wire::rpc::Envelope;
use http::HeaderMap;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use url::Url;

pub use authorizer::{Attempt, Authorizer, Bearer};
use exchange::Posted;

/// How many reports wait to be taken; beyond that, nothing more is read from the network.
const REPORTS: usize = 64;

/// How many lines may be on their way before nothing more is heard, since what is heard may want an answer. More than
/// there are calls at once, so that some of them wait for nobody who listens.
const MAX_POSTED: usize = 2048;

/// How long the server may take to hear that a session is over.
const GOODBYE: Duration = Duration::from_secs(2);

/// What a client over HTTP talks to, and how.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address.
    pub url: Url,
    /// Headers that every request carries.
    pub headers: HeaderMap,
    /// Where authorization comes from.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// Whose certificates are trusted beside those that the system trusts.
    pub roots: Roots,
    /// The most that one message may hold, in bytes: as much as a line on any other channel.
    pub line_bytes: usize,
}

/// How answers find their way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Each in the response to its request, and nowhere else (2026-07-28).
    Stateless,
    /// Each in the response to its request; a broken stream is taken up again, and what belongs to no request comes on
    /// a stream of its own (2025-03-26 to 2025-11-25).
    Sessions,
    /// All on one stream that is opened first (2024-11-05).
    OneStream,
    /// All on one stream of a session that is asked for first (A2E).
    Agent,
}

impl Style {
    /// Whether each request is an exchange of its own.
    pub(crate) fn has_exchanges(self) -> bool {
        matches!(self, Self::Stateless | Self::Sessions)
    }
}

/// Whether a dialect has a form over HTTP.
pub(crate) fn carries(dialect: &Dialect) -> bool {
    [mcp::DIALECT.name, a2e::DIALECT.name].contains(&dialect.name)
}

/// What happened.
#[derive(Debug)]
pub enum Report {
    /// A message came, on this way and under this status.
    Message(Lane, Vec<u8>, u16),
    /// An exchange ended without an answer.
    Lost(Lane, Loss),
    /// Nothing will come any more.
    Gone,
}

/// A client over HTTP.
#[derive(Debug)]
pub struct HttpClient {
    shared: Arc<Shared>,
    reports: mpsc::Receiver<Report>,
    tasks: JoinSet<()>,
    /// The exchanges under way, by the id of their request.
    exchanges: HashMap<u64, AbortHandle>,
    /// Done when the last line that wants no answer has arrived.
    turn: CancellationToken,
}

/// What all tasks of one client share.
#[derive(Debug)]
struct Shared {
    http: reqwest::Client,
    endpoint: Endpoint,
    style: Style,
    /// Where lines are posted to.
    post_to: Url,
    /// Where streams are.
    stream_from: Url,
    session: Mutex<Option<String>>,
    /// The version header of the last line, for requests that carry no line.
    version: Mutex<Option<String>>,
    /// The stream that belongs to no request.
    main_stream: Mutex<Option<AbortHandle>>,
    report_to: mpsc::Sender<Report>,
}

impl HttpClient {
    /// A client that has sent nothing yet. In the style of one stream that stream is opened first, in that of an agent a
    /// session is asked for; either may fail.
    pub async fn connect(endpoint: Endpoint, style: Style) -> Result<Self, Loss> {
        let (mut shared, reports) = Shared::new(endpoint, style);
        let turn = CancellationToken::new();
        turn.cancel();
        let mut tasks = JoinSet::new();
        let shared = match style {
            Style::OneStream => {
                let (stream, post_to) = shared.open_one_stream().await?;
                shared.post_to = post_to;
                let shared = Arc::new(shared);
                tasks.spawn(Arc::clone(&shared).read_one_stream(stream));
                shared
            }
            Style::Agent => {
                shared.begin_as_agent().await?;
                let shared = Arc::new(shared);
                shared.start_agent_stream();
                shared
            }
            Style::Stateless | Style::Sessions => Arc::new(shared),
        };
        Ok(Self { shared, reports, tasks, exchanges: HashMap::new(), turn })
    }

    /// Sends a line with the headers that go with it.
    pub fn send(&mut self, line: &str, headers: Vec<(String, String)>) {
        while self.tasks.try_join_next().is_some() {}
        self.exchanges.retain(|_, exchange| !exchange.is_finished());
        let posted = Posted::new(line, headers);
        self.shared.remember_version(&posted);
        let before = self.turn.clone();
        // Where everything comes on one stream, a response says no more than that the line has arrived.
        let holds_up = posted.id.is_none() || !self.shared.style.has_exchanges();
        let done = CancellationToken::new();
        let id = posted.id;
        let guard = done.clone().drop_guard();
        let shared = Arc::clone(&self.shared);
        let task = self.tasks.spawn(async move {
            let _guard = guard;
            before.cancelled().await;
            shared.post_line(posted).await;
        });
        if holds_up {
            self.turn = done;
        }
        if let Some(id) = id {
            self.exchanges.insert(id, task);
        }
    }

    /// Lets go of an exchange: its answer is not wanted.
    pub fn let_go(&mut self, lane: Lane) {
        if let Some(exchange) = self.exchanges.remove(&lane.0) {
            exchange.abort();
        }
    }

    /// The next thing that happens. May be dropped and called again.
    pub async fn next(&mut self) -> Report {
        while self.tasks.len() >= MAX_POSTED && self.tasks.join_next().await.is_some() {}
        self.reports.recv().await.unwrap_or(Report::Gone)
    }

    /// Ends the session, so far as there is one, and lets go of everything.
    pub async fn close(&mut self) {
        if self.shared.style == Style::Agent {
            // The last message is the goodbye, which nothing else stands for.
            let said = async { while self.tasks.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(GOODBYE, said).await;
        }
        self.shared.stop_main_stream();
        self.tasks.abort_all();
        let _ = tokio::time::timeout(GOODBYE, self.shared.end_session()).await;
    }
}

impl Drop for HttpClient {
    fn drop(&mut self) {
        self.shared.stop_main_stream();
    }
}

impl Shared {
    /// What a client of an endpoint is made of, and where its tasks report to.
    fn new(endpoint: Endpoint, style: Style) -> (Self, mpsc::Receiver<Report>) {
        let (report_to, reports) = mpsc::channel(REPORTS);
        let (post_to, stream_from) = match style {
            Style::Agent => (agent::beside(&endpoint.url, "send"), agent::beside(&endpoint.url, "stream")),
            _ => (endpoint.url.clone(), endpoint.url.clone()),
        };
        let shared = Self {
            http: requests::client(&endpoint),
            style,
            post_to,
            stream_from,
            endpoint,
            session: Mutex::default(),
            version: Mutex::default(),
            main_stream: Mutex::default(),
            report_to,
        };
        (shared, reports)
    }

    fn session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets a session that the server does not know any more; false if another has taken its place.
    fn forget_session(&self, ended: &str) -> bool {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.take_if(|session| session == ended).is_some()
    }

    fn begin_session(&self, id: Option<String>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    fn remember_version(&self, posted: &Posted) {
        let version = posted.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("mcp-protocol-version"));
        let version = version.map(|(_, version)| version.clone());
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }

    fn version(&self) -> Option<String> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn report(&self, report: Report) {
        // Nobody listens: the client is being closed.
        let _ = self.report_to.send(report).await;
    }
}

/// Whether a message, or one of a batch, answers the request of an id.
fn answers(text: &str, id: u64) -> bool {
    let is_answer = |text: &str| {
        let envelope = Envelope::parse(text).ok().filter(|envelope| envelope.method.is_none());
        let answered = envelope.and_then(|envelope| envelope.id).map(|id| id.get().parse::<f64>());
        answered.is_some_and(|answered| answered == Ok(id as f64))
    };
    if !text.trim_start().starts_with('[') {
        return is_answer(text);
    }
    let parts: Vec<&serde_json::value::RawValue> = serde_json::from_str(text).unwrap_or_default();
    parts.into_iter().any(|part| is_answer(part.get()))
}
