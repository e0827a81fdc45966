//! HTTP, server side: MCP's Streamable HTTP in both eras, the pair of addresses before it, and A2E.
//!
//! `listener` owns sockets and connections, and `endpoint` routes requests by path. `a2e` contains everything for A2E;
//! `mcp` and `old_transport` are the two transports of MCP. `session` and `driver` hold our side under a lock, and `lanes` and
//! `stream` send messages to a peer. The dialect below decides what protocol messages mean.

mod a2e;
mod address;
mod authorize;
mod coarse_timer;
mod connections;
mod endpoint;
mod events;
mod first_bytes;
mod guard;
mod lanes;
mod listener;
mod mcp;
mod old_transport;
mod options;
mod pending_response;
mod refusals;
mod request;
mod request_origin;
mod respond;
mod served;
mod session;
mod session_id;
mod sessions;
mod shared;
mod side_routes;
mod stream;
mod timeout_io;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod transport;
mod wake_timer;
mod worker_threads;

use std::future::Future;
use std::hash::RandomState;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gladhand_dialects::Stop;
use gladhand_dialects::a2e::DIALECT as A2E;
use gladhand_dialects::mcp::DIALECT as MCP;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Service;
use a2e::{Agents, Trust};
use connections::Connections;
use endpoint::Endpoint;
use gladhand_process::open_files::OpenFiles;
use guard::Guard;
use listener::{ConnectionContext, Listener};
use refusals::RefusalLog;
use sessions::Sessions;
use shared::Shared;

pub use a2e::AgentLimits;
pub use address::{Address, BadAddress};
pub use authorize::{Authorize, Authorized};
pub use options::HttpOptions;
pub use side_routes::{RouteAccess, SideBody, SideOrigin, SideResponse, SideRoutes};
#[cfg(feature = "tls")]
pub use tls::Tls;
pub(crate) use worker_threads::WorkerThreads;

/// The path of MCP.
pub const ENDPOINT: &str = "/mcp";

/// How long unread answers may hold up the end.
const FLUSH_GRACE: Duration = Duration::from_secs(2);

/// How to serve over HTTP.
#[derive(Debug, Clone, Default)]
pub struct Http {
    /// Where to listen, at one address at least.
    pub listen: Vec<Address>,
    /// Encrypts what goes over TCP.
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
    /// Who may come in; without it, the service's own guard decides, if it has one.
    pub authorize: Option<Arc<dyn Authorize>>,
    /// Bounds, and which hosts and origins are expected.
    pub options: HttpOptions,
    /// Bounds on sessions of A2E.
    pub agents: AgentLimits,
    /// Routes beside the dialects. The first one that serves a path answers.
    pub side_routes: Vec<Arc<dyn SideRoutes>>,
}

/// A server that is bound and not running yet.
#[derive(Debug)]
pub struct HttpServer {
    listeners: Vec<Listener>,
    urls: Vec<String>,
    context: ConnectionContext,
}

impl HttpServer {
    /// Binds all addresses. Connections wait until it runs.
    pub(crate) async fn bind(service: Service, http: Http) -> io::Result<Self> {
        #[cfg(feature = "tls")]
        let tls = http.tls.as_ref().map(Tls::encryption).transpose()?;
        #[cfg(not(feature = "tls"))]
        let tls: Option<tls::Encryption> = None;
        let mut listeners = Vec::with_capacity(http.listen.len());
        for address in &http.listen {
            listeners.push(Listener::bind(address).await?);
        }
        let addresses: Vec<_> = listeners.iter().map(Listener::address).collect::<io::Result<_>>()?;
        let bound: Vec<_> = addresses.into_iter().flatten().collect();
        let is_authorized = http.authorize.is_some() || service.access().guard().is_some();
        if !is_authorized && bound.iter().any(|address| !address.ip().is_loopback()) {
            tracing::warn!(
                "listening on a network address without authorization: every client that can reach it can call every tool"
            );
        }
        let (speaks_mcp, speaks_a2e) = (service.speaks(&MCP), service.speaks(&A2E));
        let path = if speaks_mcp { ENDPOINT } else { "" };
        let urls = listeners.iter().map(|listener| listener.url(tls.is_some(), path)).collect::<io::Result<_>>()?;
        if speaks_a2e {
            Trust::of(&service, is_authorized).announce(&service);
        }
        if speaks_a2e && speaks_mcp && service.access().asks_for_passes() && !is_authorized {
            tracing::warn!(
                "A2E agents need a token, and MCP at /mcp needs none (set [authorization], or --dialect a2e)"
            );
        }
        let connections = Arc::new(Connections::of(within_open_files(http.options.connections)));
        let guard = Guard::new(&bound, http.options.allow_hosts.clone(), http.options.allow_origins.clone());
        let runtime = tokio::runtime::Handle::current();
        let shared = Arc::new(Shared::new(service, http.options, http.authorize, runtime));
        let sessions = Arc::new(Sessions::new(Arc::clone(&shared)));
        let agents = speaks_a2e.then(|| Arc::new(Agents::new(Arc::clone(&shared), http.agents)));
        let endpoint = Arc::new(Endpoint {
            shared,
            sessions,
            speaks_mcp,
            agents,
            guard,
            refusals: RefusalLog::default(),
            stopping: AtomicBool::new(false),
            secret: RandomState::new(),
            side_routes: http.side_routes.into(),
            ending_streams: CancellationToken::new(),
        });
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        let workers = Arc::new(WorkerThreads::of_one());
        Ok(Self {
            listeners,
            urls,
            context: ConnectionContext { endpoint, tls, connections, workers, tasks, stopping },
        })
    }

    /// Has connections served by several threads.
    pub(crate) fn served_by(mut self, workers: WorkerThreads) -> Self {
        self.context.workers = Arc::new(workers);
        self
    }

    /// Where clients find it, with the ports that were really bound.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Serves until it is told to stop; then calls in flight are finished or failed, answers are written, and it ends.
    pub async fn run(self, stop: impl Future<Output = Stop>) {
        let Self { listeners, context, .. } = self;
        let context = Arc::new(context);
        let (endpoint, chores) = (Arc::clone(&context.endpoint), CancellationToken::new());
        let _chores = chores.clone().drop_guard();
        let sessions = Arc::clone(&endpoint.sessions);
        tokio::spawn(chores.clone().run_until_cancelled_owned(async move { sessions.pass_on_changes().await }));
        let sessions = Arc::clone(&endpoint.sessions);
        tokio::spawn(chores.clone().run_until_cancelled_owned(async move { sessions.end_idle().await }));
        let guarded = Arc::clone(&endpoint);
        tokio::spawn(chores.clone().run_until_cancelled_owned(async move { guarded.follow_access().await }));
        if let Some(agents) = endpoint.agents.clone() {
            tokio::spawn(chores.clone().run_until_cancelled_owned(async move { agents.end_overdue().await }));
        }
        let hub = endpoint.shared.service.hub().clone();
        tokio::spawn(chores.clone().run_until_cancelled_owned(async move { hub.keep_required_open().await }));
        let connections = Arc::clone(&context.connections);
        tokio::spawn(chores.run_until_cancelled_owned(async move { connections.give_memory_back().await }));
        let accepting = TaskTracker::new();
        for listener in listeners {
            accepting.spawn(listener.serve(Arc::clone(&context)));
        }
        accepting.close();
        let stop = stop.await;
        tracing::info!(why = ?stop, "stopping");
        endpoint.stopping.store(true, Ordering::Relaxed);
        endpoint.ending_streams.cancel();
        context.connections.close();
        context.stopping.cancel();
        endpoint.sessions.stop(stop);
        endpoint.agents.iter().for_each(|agents| agents.stop(stop));
        let calls = &endpoint.shared.calls;
        calls.close();
        // In time or not: who did not finish is failed below.
        let _ = tokio::time::timeout(endpoint.shared.service.bounds().drain, calls.wait()).await;
        endpoint.sessions.end_all(stop);
        endpoint.agents.iter().for_each(|agents| agents.end_all());
        accepting.wait().await;
        context.tasks.close();
        if tokio::time::timeout(FLUSH_GRACE, context.tasks.wait()).await.is_err() {
            tracing::info!("a client did not read its answers");
        }
    }
}

/// How many connections fit into the files that this process may have open, with some left for everything else.
fn within_open_files(connections: usize) -> usize {
    let room = OpenFiles::now().connections;
    if room < connections {
        tracing::info!(connections, room, "the limit on open files allows for fewer connections than are configured");
    }
    connections.min(room)
}
