//! A server that a session has registered: its session with us, and what it has.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::SystemTime;

use gladhand_core::negotiation::Side;
use gladhand_core::operations::{
    CapabilityEvent, Content, Failure, FailureKind, Operation, Outcome, Prompt, Reply, Resource, TaskSupport, Tool,
    ToolCall, ToolResult, subscription_weight,
};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{Members, RawValue, json};
use gladhand_hub::{ChangeNotifier, Context, PartyPermit, Reporter, SessionId};
use serde::Serialize;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::Listener;
use super::hosting::{CallHost, ServerHost, WAITING, size_of};
use super::permits::{Permitted, Root};
use super::words::{ServerInfo, failed};
use gladhand_client::upstream::{OpenError, Upstream, UpstreamEvents};
use gladhand_process::surroundings::Permit;

/// How many resources of one server may be followed; one with a long URI counts as several.
const WATCHED: usize = 1000;

/// A registered server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) id: String,
    permitted: Permitted,
    /// Its place in the limit of all servers. Its processes share it.
    _place: Permit,
    host: Arc<ServerHost>,
    state: Mutex<State>,
    /// Held while the server is opened, so that it is opened once.
    opening: tokio::sync::Mutex<()>,
    /// Cancelled when it is not registered any more.
    closed: CancellationToken,
    keeper: Mutex<Option<AbortHandle>>,
}

/// The mutable state.
#[derive(Debug, Default)]
struct State {
    upstream: Option<Upstream>,
    lists: Arc<Lists>,
    connected_at: f64,
    /// Why it could not be opened the last time.
    error: String,
}

/// The visible tools and other lists of a server.
#[derive(Debug, Default)]
pub(super) struct Lists {
    tools: Vec<Tool>,
    pub(super) resources: Vec<Resource>,
    pub(super) prompts: Vec<Prompt>,
}

impl Server {
    /// A server that is not open yet, for the session of the caller.
    pub(super) fn new(
        mut permitted: Permitted,
        place: PartyPermit,
        context: &Context<'_>,
        roots: Vec<Root>,
    ) -> Arc<Self> {
        let place: Permit = Arc::new(place);
        permitted.options.surroundings.permit = Some(Arc::clone(&place));
        let (pushes, waiting) = mpsc::channel(WAITING);
        let waiting_bytes = Arc::<AtomicUsize>::default();
        let (id, stale, agent) = (permitted.id.clone(), Arc::new(Notify::new()), Arc::downgrade(context.caller));
        let host = ServerHost {
            id: id.clone(),
            agent: agent.clone(),
            agreement: Arc::clone(context.agreement),
            terms: context.terms.on_behalf(),
            notifier: context.notifier.clone(),
            roots,
            watched: Mutex::default(),
            pushes,
            waiting_bytes: Arc::clone(&waiting_bytes),
            stale: Arc::clone(&stale),
        };
        let server = Arc::new(Self {
            id,
            permitted,
            _place: place,
            host: Arc::new(host),
            state: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            closed: CancellationToken::new(),
            keeper: Mutex::default(),
        });
        let shown = (context.caller.session(), context.notifier.clone());
        let keeper = tokio::spawn(keep(Arc::downgrade(&server), agent, (waiting, waiting_bytes), stale, shown));
        *server.keeper.lock().unpoisoned() = Some(keeper.abort_handle());
        server
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }

    /// Opens it and finds out what it has.
    pub(super) async fn open(&self) -> Result<Upstream, Failure> {
        let _alone = self.opening.lock().await;
        if let Some(open) = self.session() {
            return Ok(open);
        }
        let unavailable = |why: String| failed("mcp_server_unavailable", format!("server {:?}: {why}", self.id));
        let unregistered = || unavailable("it is not registered any more".to_owned());
        let host: Arc<dyn UpstreamEvents> = Arc::clone(&self.host) as _;
        // Dropping the work, also when the server is unregistered meanwhile, ends the processes that it has started.
        let opened = self.closed.run_until_cancelled(async {
            let upstream = Upstream::open(&self.permitted.target, self.permitted.options.clone(), host).await?;
            let lists = self.fetch(&upstream).await;
            Ok::<_, OpenError>((upstream, lists))
        });
        let (upstream, lists) = match opened.await {
            Some(Ok(opened)) => opened,
            Some(Err(error)) => {
                let why = error.to_string();
                self.state().error.clone_from(&why);
                return Err(unavailable(why));
            }
            None => return Err(unregistered()),
        };
        let watched = {
            let mut state = self.state();
            if self.closed.is_cancelled() {
                // No other handle exists, so the server ends with this one.
                return Err(unregistered());
            }
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            state.connected_at = since.map_or(0.0, |since| since.as_secs_f64());
            state.error.clear();
            state.lists = Arc::new(lists);
            state.upstream = Some(upstream.clone());
            self.host.watched().clone()
        };
        for uri in watched {
            if let Err(failure) = upstream.call(Operation::Watch(uri.into())).await {
                tracing::debug!(server = self.id, %failure, "a resource is not followed any more");
            }
        }
        Ok(upstream)
    }

    /// Ends it, with everything that was started for it.
    pub(super) async fn close(&self) {
        let upstream = {
            let mut state = self.state();
            self.closed.cancel();
            state.upstream.take()
        };
        if let Some(upstream) = upstream {
            upstream.close().await;
        }
    }

    /// Asks for all lists again.
    async fn refresh(&self) {
        if let Some(upstream) = self.session() {
            let lists = self.fetch(&upstream).await;
            self.state().lists = Arc::new(lists);
        }
    }

    /// Fetches the lists that it has and may show. A list that cannot be had is empty.
    async fn fetch(&self, upstream: &Upstream) -> Lists {
        let agreement = upstream.agreement();
        let mut lists = Lists::default();
        let list = |capability: &'static str, operation: Operation<'static>| {
            let has_it = agreement.allows(Side::Server, capability);
            async move { if has_it { upstream.call(operation).await } else { Ok(Reply::Done) } }
        };
        let is_shown = |allowed: &[String], name: &String| allowed.is_empty() || allowed.contains(name);
        if let Ok(Reply::Tools(tools)) = list("tools", Operation::ListTools).await {
            lists.tools = tools.iter().filter(|tool| is_shown(&self.permitted.tools, &tool.name)).cloned().collect();
        }
        if let Ok(Reply::Resources(resources)) = list("resources", Operation::ListResources).await {
            let shown = resources.iter().filter(|one| is_shown(&self.permitted.resources, &one.name));
            lists.resources = shown.cloned().collect();
        }
        if let Ok(Reply::Prompts(prompts)) = list("prompts", Operation::ListPrompts).await {
            lists.prompts = prompts.to_vec();
        }
        lists
    }

    /// The session with it, if it is open.
    fn session(&self) -> Option<Upstream> {
        self.state().upstream.clone().filter(|upstream| !upstream.is_over())
    }

    /// The session with it, opened again if it has ended and that is wanted.
    async fn upstream(&self) -> Result<Upstream, Failure> {
        match self.session() {
            Some(upstream) => Ok(upstream),
            None if self.permitted.reconnects => self.open().await,
            None => Err(failed("mcp_server_unavailable", format!("server {:?} has ended", self.id))),
        }
    }

    pub(super) fn lists(&self) -> Arc<Lists> {
        Arc::clone(&self.state().lists)
    }

    /// Its tools, as the agent sees them.
    pub(super) fn tools(&self) -> Vec<Tool> {
        let name = &self.permitted.name;
        let shown = |tool: &Tool| Tool {
            name: format!("{}__{}", self.id, tool.name),
            description: format!("[MCP:{name}] {}", tool.description),
            // The result is converted to another form, so the schema would not match.
            output_schema: None,
            // Agents know no tasks, so a tool that runs only as a task is awaited here.
            tasks: TaskSupport::Forbidden,
            tags: vec!["mcp".to_owned(), self.id.clone(), name.clone()],
            ..tool.clone().with("streaming", &false.into())
        };
        self.lists().tools.iter().map(shown).collect()
    }

    /// The server's own name for a tool.
    pub(super) fn own_name(&self, shown: &str) -> Option<String> {
        let own = shown.strip_prefix(&self.id)?.strip_prefix("__")?;
        self.lists().tools.iter().any(|tool| tool.name == own).then(|| own.to_owned())
    }

    /// Whether a resource may be read.
    pub(super) fn may_read(&self, uri: &str) -> Result<(), Failure> {
        let is_shown = || self.lists().resources.iter().any(|resource| resource.uri == uri);
        if self.permitted.resources.is_empty() || is_shown() {
            return Ok(());
        }
        Err(failed("mcp_resource_not_found", format!("unknown resource: {uri}")))
    }

    /// Asks it.
    pub(super) async fn ask(&self, operation: Operation<'static>) -> Outcome {
        self.upstream().await?.call(operation).await
    }

    /// Follows a resource.
    pub(super) async fn watch(&self, uri: &str) -> Result<(), Failure> {
        {
            let mut watched = self.host.watched();
            if watched.contains(uri) {
                return Ok(());
            }
            let uris = watched.iter().map(String::as_str).chain([uri]);
            if uris.map(subscription_weight).sum::<usize>() > WATCHED {
                let message = format!("at most {WATCHED} resources of a server are followed");
                return Err(Failure::new(FailureKind::Busy, message));
            }
            // Before the request to the server: it may report a change before its answer is read.
            watched.insert(uri.to_owned());
        }
        let asked = self.ask(Operation::Watch(uri.to_owned().into())).await;
        if asked.is_err() {
            self.host.watched().remove(uri);
        }
        asked.map(drop)
    }

    /// Calls one of its tools.
    pub(super) async fn call_tool(&self, call: ToolCall<'static>, reporter: Reporter) -> Outcome {
        let host = Arc::new(CallHost { server: Arc::clone(&self.host), reporter });
        match self.upstream().await?.call_for(Operation::CallTool(call), host).await? {
            Reply::Tool(result) => Ok(Reply::Tool(told(result))),
            _ => Err(failed("mcp_protocol_error", "the server answered something else than a result")),
        }
    }

    /// How it stands.
    pub(super) fn info(&self) -> ServerInfo {
        let state = self.state();
        let open = state.upstream.as_ref().filter(|upstream| !upstream.is_over());
        let status = match (open, &state.upstream) {
            (Some(_), _) => "ready",
            (None, Some(_)) => "disconnected",
            (None, None) if state.error.is_empty() => "connecting",
            (None, None) => "error",
        };
        let agreement = open.map(Upstream::agreement);
        let said = |part: fn(&gladhand_core::negotiation::Agreement) -> &String| {
            agreement.as_deref().map(part).cloned().unwrap_or_default()
        };
        ServerInfo {
            server_id: self.id.clone(),
            name: self.permitted.name.clone(),
            transport: self.permitted.transport.to_owned(),
            status,
            mcp_version: said(|agreement| &agreement.version),
            server_name: said(|agreement| &agreement.server.name),
            server_version: said(|agreement| &agreement.server.version),
            tools_count: state.lists.tools.len(),
            resources_count: state.lists.resources.len(),
            prompts_count: state.lists.prompts.len(),
            last_ping_ms: 0.0,
            error: state.error.clone(),
            connected_at: state.connected_at,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.lock().unpoisoned().take() {
            keeper.abort();
        }
    }
}

/// Passes on what a server says, as fast as the agent reads, and asks for its lists again when they have changed.
async fn keep(
    server: Weak<Server>,
    agent: Listener,
    (mut waiting, waiting_bytes): (mpsc::Receiver<CapabilityEvent>, Arc<AtomicUsize>),
    stale: Arc<Notify>,
    (session, notifier): (SessionId, ChangeNotifier),
) {
    loop {
        tokio::select! {
            // Notifications come before their consequences.
            biased;
            push = waiting.recv() => {
                let (Some(push), Some(agent)) = (push, agent.upgrade()) else { return };
                waiting_bytes.fetch_sub(size_of(&push), Ordering::Relaxed);
                let behind = agent.keeping_up();
                agent.push(push);
                // An agent that is only waited for may go.
                drop(agent);
                if let Some(behind) = behind {
                    behind.await;
                }
            }
            () = stale.notified() => {
                let Some(server) = server.upgrade() else { return };
                server.refresh().await;
                notifier.lists_changed_for(session);
            }
        }
    }
}

/// The result of a tool call, in the form of A2E.
fn told(result: ToolResult) -> ToolResult {
    #[derive(Serialize)]
    struct Data<'a> {
        content: &'a [Box<RawValue>],
        text: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        images: Vec<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        structured: Option<&'a RawValue>,
    }
    let blocks: Vec<_> = result.content.iter().map(Content::to_block).collect();
    let is_image =
        |block: &&RawValue| Members::of(block).is_some_and(|block| block.str("type").as_deref() == Some("image"));
    let data = Data {
        content: &blocks,
        text: result.joined_text(),
        images: blocks.iter().map(|block| &**block).filter(is_image).collect(),
        structured: result.structured.as_deref(),
    };
    ToolResult { structured: Some(json::to_raw(&data)), ..result }
}
