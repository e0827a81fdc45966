//! The capability `mcp`: agents reach MCP servers through this process (a2e §17).
//!
//! There are two kinds of servers. Servers of the configuration are shared by all sessions: they are listed, and calls
//! to them go through the hub, so that policy applies. Those that a session registers are its own: their tools are
//! listed as `<server_id>__<tool>` for that session alone, and they end with it. The configuration says which servers
//! may be registered; by default, none.
//!
//! A registered server that wants to sample, or to know the folders, asks the session's agent ([`Caller::ask`]); the
//! question's key is the server's id.

mod following;
mod hosting;
mod own;
mod permits;
mod server;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use gladhand_core::operations::{CapabilityCall, Failure, Operation, Outcome, Reply, ToolCall};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json;
use gladhand_hub::policy::Kind;
use gladhand_hub::{
    Answer, Caller, CapabilityProvider, ChangeNotifier, Context, Features, Listed, PartyPermits, Provider, SessionId,
    SessionObserver, Settling, ViewerLists,
};
use serde::Deserialize;
use serde_json::{Value, json};

use following::Following;
use own::Own;
use permits::ServerConfig;
pub use permits::{RegistrationLimits, Root};
use server::Server;
use words::{contents, failed, prompts, resources, unknown_server, worded};

/// MCP servers for agents.
#[derive(Debug)]
pub struct A2eMcp {
    settings: Arc<RegistrationLimits>,
    servers: Arc<Servers>,
    /// PartyPermits for servers. A server has one until its processes have ended, which is later than the end of its registration.
    places: Arc<PartyPermits>,
    following: Arc<Following>,
    notifier: OnceLock<ChangeNotifier>,
}

impl A2eMcp {
    /// Serves the configured servers, and the servers that sessions may register.
    pub fn new(settings: RegistrationLimits) -> Self {
        Self {
            places: PartyPermits::of(settings.all),
            settings: Arc::new(settings),
            servers: Arc::default(),
            following: Arc::default(),
            notifier: OnceLock::new(),
        }
    }
}

/// The servers that sessions have registered, in that order.
#[derive(Debug, Default)]
struct Servers(Mutex<HashMap<SessionId, Vec<Arc<Server>>>>);

impl Servers {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<Arc<Server>>>> {
        self.0.lock().unpoisoned()
    }

    /// Those of a session.
    fn of(&self, session: SessionId) -> Vec<Arc<Server>> {
        self.lock().get(&session).cloned().unwrap_or_default()
    }

    /// One more, if its name is free and there is room.
    fn add(&self, session: SessionId, server: &Arc<Server>, settings: &RegistrationLimits) -> Result<(), String> {
        let mut sessions = self.lock();
        let own = sessions.entry(session).or_default();
        if own.iter().any(|other| other.id == server.id) {
            return Err(exists_already(&server.id));
        }
        if own.len() >= settings.of_session {
            return Err(NO_ROOM.to_owned());
        }
        own.push(Arc::clone(server));
        Ok(())
    }

    fn remove(&self, session: SessionId, id: &str) -> Option<Arc<Server>> {
        let mut sessions = self.lock();
        let own = sessions.get_mut(&session)?;
        let place = own.iter().position(|server| server.id == id)?;
        Some(own.remove(place))
    }
}

/// The refusal of a server beyond a limit.
const NO_ROOM: &str = "there is no room for another server";

fn exists_already(id: &str) -> String {
    format!("there is a server {id:?} already")
}

/// Forgets a server whose registration comes to nothing, or is given up.
struct Registering {
    servers: Arc<Servers>,
    session: SessionId,
    id: String,
    is_done: bool,
}

impl Drop for Registering {
    fn drop(&mut self) {
        if !self.is_done {
            self.servers.remove(self.session, &self.id);
        }
    }
}

/// The name of the provider. Rules and the audit file use it for servers that sessions register.
const NAME: &str = "mcp";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Request {
    status_filter: String,
    server_id: String,
    uri: String,
    name: String,
    mcp_request_id: String,
    arguments: serde_json::Map<String, Value>,
    config: ServerConfig,
}

impl Provider for A2eMcp {
    fn name(&self) -> &str {
        NAME
    }

    fn features(&self) -> Features {
        // A registered server belongs to one session, and A2E has no notification for a changed list.
        Features { silent: true, ..Features::default() }
    }

    fn attach(&self, notifier: &ChangeNotifier) {
        // The first hub is the only one.
        let _ = self.notifier.set(notifier.clone());
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        let servers = self.servers.of(context.caller.session());
        let found = servers.into_iter().find_map(|server| server.own_name(&call.name).map(|own| (server, own)));
        let Some((server, own)) = found else { return Answer::Now(Err(Failure::unknown_tool(&call.name))) };
        let call = ToolCall { name: own.into(), arguments: call.arguments }.into_owned();
        let reporter = context.reporter();
        Answer::later(async move { server.call_tool(call, reporter).await })
    }

    fn closing(&self) -> Option<Settling> {
        let all = std::mem::take(&mut *self.servers.lock());
        Some(Box::pin(closed(all.into_values().flatten().collect())))
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }

    fn as_viewer_lists(&self) -> Option<&dyn ViewerLists> {
        Some(self)
    }
}

impl CapabilityProvider for A2eMcp {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["mcp"]
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        self.answer(&call, context).unwrap_or_else(|failure| Answer::Now(Err(failure)))
    }
}

impl SessionObserver for A2eMcp {
    fn left(&self, session: SessionId) {
        let servers = self.servers.lock().remove(&session).unwrap_or_default();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(closed(servers));
        }
        let followed = self.following.left(session);
        if let Some(hub) = self.notifier.get().and_then(ChangeNotifier::hub) {
            followed.iter().for_each(|(uri, id)| hub.unwatch(uri, *id));
        }
    }
}

impl ViewerLists for A2eMcp {
    fn listed_for(&self, session: SessionId) -> Option<Listed> {
        let servers = self.servers.of(session);
        let tools = || servers.iter().flat_map(|server| server.tools()).collect();
        (!servers.is_empty()).then(|| Listed { tools: tools(), ..Listed::default() })
    }
}

async fn closed(servers: Vec<Arc<Server>>) {
    futures_util::future::join_all(servers.iter().map(|server| server.close())).await;
}

impl A2eMcp {
    fn answer(&self, call: &CapabilityCall<'_>, context: &Context<'_>) -> Result<Answer, Failure> {
        let request: Request = call.read()?;
        let own = Own::new(context)?;
        let registered = self.servers.of(context.caller.session());
        let seen = Seen { registered, own, following: Arc::clone(&self.following) };
        Ok(match call.kind {
            "mcp/server/list/req" => Answer::Now(seen.list(&request.status_filter)),
            "mcp/server/register/req" => {
                let size = call.message.get().len();
                if size > permits::MAX_BYTES {
                    refused(&permits::too_long(size))
                } else {
                    self.register(request.config, &seen, context)
                }
            }
            "mcp/server/unregister/req" => self.unregister(request.server_id, context),
            "mcp/resource/list/req" => Answer::later(async move { seen.resources(&request.server_id).await }),
            "mcp/resource/read/req" => Answer::later(async move { seen.read(&request).await }),
            "mcp/resource/subscribe/req" => Answer::later(async move { seen.subscribe(&request).await }),
            "mcp/prompt/list/req" => Answer::later(async move { seen.prompts(&request.server_id).await }),
            "mcp/prompt/get/req" => Answer::later(async move { seen.prompt(request).await }),
            "mcp/root/list/req" => Answer::Now(reply(&json!({
                "server_id": request.server_id, "mcp_request_id": request.mcp_request_id, "roots": self.settings.roots,
            }))),
            kind => return Err(failed("mcp_protocol_error", format!("{kind} is not for this side"))),
        })
    }

    fn register(&self, config: ServerConfig, seen: &Seen, context: &Context<'_>) -> Answer {
        let session = context.caller.session();
        if session == SessionId::NONE {
            return refused("a server is registered for a session, and there is none");
        }
        let permitted = match self.settings.permit(config) {
            Ok(permitted) => permitted,
            Err(why) => return refused(&why),
        };
        if seen.own.is_taken(&permitted.id) || seen.registered.iter().any(|server| server.id == permitted.id) {
            return refused(&exists_already(&permitted.id));
        }
        let Some(place) = self.places.take(context.terms.party) else { return refused(NO_ROOM) };
        let server = Server::new(permitted, place, context, self.settings.roots.clone());
        if let Err(why) = self.servers.add(session, &server, &self.settings) {
            return refused(&why);
        }
        let (servers, id) = (Arc::clone(&self.servers), server.id.clone());
        let registering = Registering { servers, session, id, is_done: false };
        let notifier = context.notifier.clone();
        Answer::later(async move {
            // Whole, so that it ends with this work wherever that is dropped.
            let mut registering = registering;
            server.open().await.map_err(|failure| failed("mcp_transport_error", failure.message))?;
            registering.is_done = true;
            notifier.lists_changed_for(session);
            reply(&json!({"ok": true, "server": server.info(), "error": ""}))
        })
    }

    fn unregister(&self, id: String, context: &Context<'_>) -> Answer {
        let session = context.caller.session();
        let Some(server) = self.servers.remove(session, &id) else {
            return Answer::Now(reply(&json!({"ok": false, "server_id": ""})));
        };
        context.notifier.lists_changed_for(session);
        Answer::later(async move {
            server.close().await;
            reply(&json!({"ok": true, "server_id": id}))
        })
    }
}

/// The servers that a session sees.
struct Seen {
    registered: Vec<Arc<Server>>,
    own: Own,
    following: Arc<Following>,
}

impl Seen {
    fn list(&self, status: &str) -> Outcome {
        let all = self.own.infos().into_iter().chain(self.registered.iter().map(|server| server.info()));
        let shown: Vec<_> = all.filter(|info| status.is_empty() || info.status == status).collect();
        reply(&json!({"servers": shown}))
    }

    /// The registered server of an id; `None`: a configured one.
    fn server(&self, id: &str) -> Result<Option<&Arc<Server>>, Failure> {
        match self.registered.iter().find(|server| server.id == id) {
            Some(server) => Ok(Some(server)),
            None if self.own.has(id) => Ok(None),
            None => Err(unknown_server(id)),
        }
    }

    async fn resources(&self, id: &str) -> Outcome {
        let mut all = Vec::new();
        if id.is_empty() || self.server(id)?.is_none() {
            let own = self.own.resources().await.map_err(worded)?;
            let wanted = own.iter().filter(|(server, _)| id.is_empty() || server == id);
            all.extend(wanted.map(|(server, resource)| resources(server, resource)));
        }
        for server in self.registered.iter().filter(|server| id.is_empty() || server.id == id) {
            let lists = server.lists();
            let seen = lists.resources.iter().filter(|resource| !self.own.hides(Kind::Resource, &resource.uri));
            all.extend(seen.map(|resource| resources(&server.id, resource)));
        }
        reply(&json!({"resources": all, "next_cursor": ""}))
    }

    async fn prompts(&self, id: &str) -> Outcome {
        let mut all = Vec::new();
        if id.is_empty() || self.server(id)?.is_none() {
            let own = self.own.prompts().await.map_err(worded)?;
            let wanted = own.iter().filter(|(server, _)| id.is_empty() || server == id);
            all.extend(wanted.map(|(server, prompt)| prompts(server, prompt)));
        }
        for server in self.registered.iter().filter(|server| id.is_empty() || server.id == id) {
            let lists = server.lists();
            let seen = lists.prompts.iter().filter(|prompt| !self.own.hides(Kind::Prompt, &prompt.name));
            all.extend(seen.map(|prompt| prompts(&server.id, prompt)));
        }
        reply(&json!({"prompts": all, "next_cursor": ""}))
    }

    /// The server that a resource is had from: the one that is named, else the one that lists it or the beginning of
    /// it, else the first. `None`: a configured one, whose name is returned.
    async fn server_of(&self, id: &str, uri: &str) -> Result<(Option<&Arc<Server>>, String), Failure> {
        if !id.is_empty() {
            return Ok((self.server(id)?, id.to_owned()));
        }
        let lists = |server: &&Arc<Server>| server.lists().resources.iter().any(|known| uri.starts_with(&known.uri));
        if let Some(server) = self.registered.iter().find(lists) {
            return Ok((Some(server), server.id.clone()));
        }
        let own = self.own.resources().await.map_err(worded)?;
        if let Some((name, _)) = own.iter().find(|(_, known)| uri.starts_with(&known.uri)) {
            return Ok((None, name.clone()));
        }
        let first = || self.own.first().map(|name| (None, name));
        let registered = self.registered.first().map(|server| (Some(server), server.id.clone()));
        registered.or_else(first).ok_or_else(|| failed("mcp_server_not_found", "there is no server"))
    }

    async fn read(&self, request: &Request) -> Outcome {
        let (server, id) = self.server_of(&request.server_id, &request.uri).await?;
        let read = Operation::ReadResource(request.uri.clone().into());
        let outcome = match server {
            Some(server) => {
                self.own.permits(Kind::Resource, &request.uri, &json!({"uri": request.uri}))?;
                server.may_read(&request.uri)?;
                server.ask(read).await
            }
            None => self.own.ask(read).await,
        };
        match outcome.map_err(worded)? {
            Reply::Contents(read) => {
                reply(&json!({"contents": contents(&read, &request.uri), "server_id": id, "error": ""}))
            }
            _ => Err(failed("mcp_protocol_error", "the server answered something else")),
        }
    }

    async fn subscribe(&self, request: &Request) -> Outcome {
        let (server, id) = self.server_of(&request.server_id, &request.uri).await?;
        let subscribed = match server {
            Some(server) => {
                self.own.permits(Kind::Resource, &request.uri, &json!({"uri": request.uri}))?;
                server.may_read(&request.uri)?;
                server.watch(&request.uri).await
            }
            None => self.own.watch(&id, &request.uri, &self.following).await,
        };
        let error = subscribed.as_ref().err().map_or("", |failure| &failure.message);
        reply(&json!({"ok": subscribed.is_ok(), "error": error}))
    }

    async fn prompt(&self, request: Request) -> Outcome {
        let Request { name, arguments, server_id, .. } = request;
        let unknown = || failed("mcp_prompt_not_found", format!("unknown prompt: {name}"));
        let named = match server_id.as_str() {
            "" => None,
            id => Some(self.server(id)?),
        };
        let has = |server: &&Arc<Server>| server.lists().prompts.iter().any(|prompt| prompt.name == name);
        let server = named.unwrap_or_else(|| self.registered.iter().find(has));
        let fill = Operation::GetPrompt(ToolCall {
            name: name.clone().into(),
            arguments: std::borrow::Cow::Owned(json::to_raw(&arguments)),
        });
        let (outcome, id) = match server {
            Some(server) => {
                self.own.permits(Kind::Prompt, &name, &arguments.clone().into())?;
                (server.ask(fill).await, server.id.clone())
            }
            None => {
                let own = self.own.prompts().await.map_err(worded)?;
                let (id, _) = own.into_iter().find(|(_, prompt)| prompt.name == name).ok_or_else(unknown)?;
                (self.own.ask(fill).await, id)
            }
        };
        match outcome.map_err(worded)? {
            Reply::Prompt(filled) => reply(&json!({
                "description": filled.description.unwrap_or_default(),
                "messages": filled.messages.iter().filter_map(|said| words::parsed(said)).collect::<Vec<_>>(),
                "server_id": id, "error": "",
            })),
            _ => Err(failed("mcp_protocol_error", "the server answered something else")),
        }
    }
}

/// The answer to a registration that is refused.
fn refused(why: &str) -> Answer {
    Answer::Now(reply(&json!({"ok": false, "server": {}, "error": why})))
}

/// The reply that these members make.
fn reply(members: &Value) -> Outcome {
    Ok(Reply::Capability(json::to_raw(members)))
}

/// Who is to be told and asked, as long as it is there.
type Listener = std::sync::Weak<dyn Caller>;
