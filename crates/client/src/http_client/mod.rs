//! MCP and A2E over HTTP, our side as a client: lines become requests, and what comes back becomes messages.
//!
//! Each line is posted by a task of its own, so that none waits for another's answer; only what wants no answer holds
//! up those behind it until it has arrived, because its order may matter. A cancellation holds up nothing. All tasks
//! report to one bounded queue. The session decides how to interpret a report.

mod agent;
mod authorizer;
mod connect_error;
mod events;
mod exchange;
mod main_stream;
mod requests;
mod response_budget;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_auth::Roots;
use gladhand_core::operations::Party;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::{Lane, Loss, Posting, PostingEffect};
use gladhand_session::tap::{SessionExchanges, TappedSession};
use http::HeaderMap;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use url::Url;

pub use authorizer::{Attempt, Authorizer, Bearer};
use exchange::Posted;
pub use requests::HEADER_REFUSED;
pub use response_budget::{ReceivedMessage, ResponseBudget};

/// How many reports wait to be taken; beyond that, nothing more is read from the network.
const REPORTS: usize = 64;

/// How many lines may be on their way before no more calls are taken.
const FULL: usize = 2048;

/// How many lines may be on their way at all. A client side also answers questions, unsubscribes and ends tasks when it is
/// full; what comes beyond this is not posted.
const MAX_POSTED: usize = 2 * FULL;

/// How many cancellations may wait to be posted. Those beyond it are dropped: the caller has its answer already.
const MAX_CANCELLATIONS: usize = 1024;

/// How many cancellations are posted at once.
const CANCELLATIONS_AT_ONCE: usize = 32;

/// How long the server may take to receive the end of the session.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// The server that an HTTP client talks to, and the connection settings.
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
    /// Room for answers that arrive.
    pub response_budget: ResponseBudget,
    /// The tap for the exchanges of the session.
    pub exchanges: SessionExchanges,
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
    pub fn has_exchanges(self) -> bool {
        matches!(self, Self::Stateless | Self::Sessions)
    }
}

/// An event that a task reports.
#[derive(Debug)]
pub enum Report {
    /// A message came, on this way and under this status.
    Message(Lane, ReceivedMessage, u16),
    /// An exchange ended without an answer.
    Lost(Lane, Loss),
    /// Nothing, but a line is not on its way any more while there were too many.
    Room,
    /// Nothing will come any more.
    Gone,
}

/// A client over HTTP.
#[derive(Debug)]
pub struct HttpClient {
    shared: Arc<Shared>,
    reports: mpsc::Receiver<Report>,
    tasks: JoinSet<()>,
    /// Cancellations on their way. They hold up nothing and do not count as lines that are.
    cancellations: JoinSet<()>,
    cancelling: Arc<Semaphore>,
    /// Requests that were not posted because too many are on their way.
    refused: VecDeque<Report>,
    /// The exchanges under way, by the id of their request, and whose share their answers take.
    exchanges: HashMap<u64, (AbortHandle, Option<Party>)>,
    /// Done when the last line that wants no answer has arrived.
    turn: CancellationToken,
    /// The turn that the last notification of changed roots waits for. Done when that is being posted.
    roots_turn: Option<CancellationToken>,
}

/// State that all tasks of one client share.
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
        Ok(Self {
            shared,
            reports,
            tasks,
            cancellations: JoinSet::new(),
            cancelling: Arc::new(Semaphore::new(CANCELLATIONS_AT_ONCE)),
            refused: VecDeque::new(),
            exchanges: HashMap::new(),
            turn,
            roots_turn: None,
        })
    }

    /// Posts a line as its dialect says. The answer takes the share of a party. Returns whether the line is posted.
    pub fn send(&mut self, line: &str, party: Option<Party>, posting: Posting) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.exchanges.retain(|_, (exchange, _)| !exchange.is_finished());
        let posted = Posted::new(line, party, posting);
        self.shared.remember_version(&posted);
        let before = self.turn.clone();
        match posted.effect {
            PostingEffect::Cancels => return self.cancel(posted, before),
            // The line that waits says the same.
            PostingEffect::RootsChanged if self.roots_wait_for(&before) => return false,
            _ if self.tasks.len() >= MAX_POSTED => {
                self.refuse(&posted);
                return false;
            }
            _ => {}
        }
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
            self.exchanges.insert(id, (task, party));
        }
        true
    }

    /// Posts a cancellation behind the lines that hold it up, if not too many others wait.
    fn cancel(&mut self, posted: Posted, before: CancellationToken) -> bool {
        while self.cancellations.try_join_next().is_some() {}
        if self.cancellations.len() >= MAX_CANCELLATIONS {
            tracing::debug!("a cancellation is not passed on: too many are on their way");
            return false;
        }
        let (shared, cancelling) = (Arc::clone(&self.shared), Arc::clone(&self.cancelling));
        self.cancellations.spawn(async move {
            before.cancelled().await;
            // The semaphore is never closed.
            let _one = cancelling.acquire().await;
            shared.post_line(posted).await;
        });
        true
    }

    /// Does not post a line. If it is a request, it is lost.
    fn refuse(&mut self, posted: &Posted) {
        let loss = || Loss::Unsent("too many requests are on their way".into());
        self.refused.extend(posted.id.map(|id| Report::Lost(Lane(id), loss())));
    }

    /// Whether too many lines are on their way to add another call.
    pub fn is_full(&self) -> bool {
        self.tasks.len() >= FULL
    }

    /// Whether a notification of changed roots waits to be posted already. Otherwise the next one waits for `turn`.
    fn roots_wait_for(&mut self, turn: &CancellationToken) -> bool {
        let is_waiting = self.roots_turn.as_ref().is_some_and(|turn| !turn.is_cancelled());
        if !is_waiting {
            self.roots_turn = Some(turn.clone());
        }
        is_waiting
    }

    /// Lets go of an exchange: its answer is not wanted.
    pub fn let_go(&mut self, lane: Lane) {
        if let Some((exchange, _)) = self.exchanges.remove(&lane.0) {
            exchange.abort();
        }
    }

    /// The session at the tap.
    pub fn tapped_session(&self) -> TappedSession {
        self.shared.endpoint.exchanges.session()
    }

    /// The address of the server.
    pub fn url(&self) -> &Url {
        &self.shared.endpoint.url
    }

    /// Whose share the answer of an exchange takes.
    pub fn party(&self, lane: Lane) -> Option<Party> {
        self.exchanges.get(&lane.0).and_then(|(_, party)| *party)
    }

    /// The next thing that happens. May be dropped and called again.
    pub async fn next(&mut self) -> Report {
        if let Some(refused) = self.refused.pop_front() {
            return refused;
        }
        let is_full = self.is_full();
        tokio::select! {
            biased;
            report = self.reports.recv() => report.unwrap_or(Report::Gone),
            Some(_) = self.tasks.join_next(), if is_full => Report::Room,
        }
    }

    /// Ends the session, so far as there is one, and lets go of everything.
    pub async fn close(&mut self) {
        if self.shared.style == Style::Agent {
            // The last message ends the session: A2E over HTTP has no other request for that.
            let said = async { while self.tasks.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(END_SESSION_TIMEOUT, said).await;
        }
        self.shared.stop_main_stream();
        self.tasks.abort_all();
        self.cancellations.abort_all();
        let _ = tokio::time::timeout(END_SESSION_TIMEOUT, self.shared.end_session()).await;
    }
}

impl Drop for HttpClient {
    fn drop(&mut self) {
        self.shared.stop_main_stream();
    }
}

impl Shared {
    /// The parts of a client for an endpoint, and the queue that its tasks report to.
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
        self.session.lock().unpoisoned().clone()
    }

    /// Forgets a session that the server does not know any more; false if another has taken its place.
    fn forget_session(&self, ended: &str) -> bool {
        let mut session = self.session.lock().unpoisoned();
        session.take_if(|session| session == ended).is_some()
    }

    fn begin_session(&self, id: Option<String>) {
        *self.session.lock().unpoisoned() = id;
    }

    fn remember_version(&self, posted: &Posted) {
        let version = posted.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("mcp-protocol-version"));
        let version = version.map(|(_, version)| version.clone());
        *self.version.lock().unpoisoned() = version;
    }

    fn version(&self) -> Option<String> {
        self.version.lock().unpoisoned().clone()
    }

    async fn report(&self, report: Report) {
        // An error means that the queue has no receiver: the client is being closed.
        let _ = self.report_to.send(report).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A client of a server that never answers. Its first line is on its way for ever.
    async fn unanswered(style: Style) -> (HttpClient, TcpListener) {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/mcp", server.local_addr().unwrap())).unwrap();
        let (headers, roots) = (HeaderMap::new(), Roots::default());
        let endpoint = Endpoint {
            url,
            headers,
            authorizer: None,
            roots,
            line_bytes: 1024,
            response_budget: ResponseBudget::default(),
            exchanges: SessionExchanges::default(),
        };
        (HttpClient::connect(endpoint, style).await.unwrap(), server)
    }

    #[tokio::test]
    async fn a_flood_of_changed_roots_is_posted_once_more_and_not_each_time() {
        let (mut client, _server) = unanswered(Style::Sessions).await;
        for _ in 0..1000 {
            let posting = Posting { effect: PostingEffect::RootsChanged, ..Posting::default() };
            client.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#, None, posting);
        }
        assert_eq!(client.tasks.len(), 2, "one on its way, and one for all changes since");
    }

    /// Sends a request that the server never answers.
    fn send_request(client: &mut HttpClient, id: usize) {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#);
        client.send(&line, None, Posting { exchange: Some(Lane(id as u64)), ..Posting::default() });
    }

    #[tokio::test]
    async fn cancellations_hold_up_nothing_and_have_a_bound() {
        let (mut client, _server) = unanswered(Style::Sessions).await;
        for id in 0..2 * MAX_CANCELLATIONS {
            let params = format!(r#"{{"requestId":{id}}}"#);
            let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
            let posting = Posting { effect: PostingEffect::Cancels, ..Posting::default() };
            client.send(&line, None, posting);
        }
        assert_eq!(client.cancellations.len(), MAX_CANCELLATIONS);
        assert!(client.turn.is_cancelled(), "the next line waits for nothing");
        assert!(client.tasks.is_empty());
    }

    #[tokio::test]
    async fn a_full_http_client_still_receives_answers() {
        let (mut client, _server) = unanswered(Style::Sessions).await;
        // All requests wait behind this, so that one connection is enough.
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, None, Posting::default());
        (1..FULL).for_each(|id| send_request(&mut client, id));
        assert!(client.is_full());
        client.shared.report_to.try_send(Report::Lost(Lane(7), Loss::Broken)).unwrap();
        assert!(matches!(client.next().await, Report::Lost(Lane(7), Loss::Broken)));

        (FULL..=MAX_POSTED).for_each(|id| send_request(&mut client, id));
        assert_eq!(client.tasks.len(), MAX_POSTED);
        let lost = client.next().await;
        assert!(matches!(lost, Report::Lost(Lane(id), Loss::Unsent(_)) if id == MAX_POSTED as u64), "{lost:?}");
        client.let_go(Lane(9));
        assert!(matches!(client.next().await, Report::Room), "a line that is let go makes room");
    }
}
