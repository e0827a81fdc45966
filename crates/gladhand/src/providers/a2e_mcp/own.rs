//! The servers of the configuration, as a session sees them through the hub.

use std::collections::HashMap;
use std::sync::Arc;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, CallId, Failure, Operation, Outcome, Prompt, Reply, Resource, Terms};
use gladhand_core::wire::json;
use gladhand_hub::policy::{CallTarget, Governor, Kind};
use gladhand_hub::{Caller, ChangeNotifier, Context, Hub, Mount, UpstreamStatus};
use serde_json::Value;

use super::following::Following;
use super::words::{ServerInfo, failed};

/// The configured servers, and who asks them.
pub(super) struct Own {
    hub: Hub,
    /// Those of which policy lets the caller see anything.
    servers: Vec<(Mount, UpstreamStatus)>,
    call: CallId,
    agreement: Arc<Agreement>,
    caller: Arc<dyn Caller>,
    terms: Terms<'static>,
    notifier: ChangeNotifier,
}

impl Own {
    pub(super) fn new(context: &Context<'_>) -> Result<Self, Failure> {
        let hub = context.notifier.hub().ok_or_else(|| failed("mcp_server_unavailable", "everything ends"))?;
        let mounts = hub.mounts_for(context).into_iter();
        let servers = mounts.filter_map(|mount| mount.provider.status().map(|status| (mount, status))).collect();
        Ok(Self {
            hub,
            servers,
            call: context.call,
            agreement: Arc::clone(context.agreement),
            caller: Arc::clone(context.caller),
            terms: context.terms.clone().into_owned(),
            notifier: context.notifier.clone(),
        })
    }

    /// Refuses what policy forbids of a server that the session registered. The hub knows only the tools of those.
    pub(super) fn permits(&self, kind: Kind, name: &str, arguments: &Value) -> Result<(), Failure> {
        let refused =
            |by: &Arc<Governor>| by.refuses(&registered(kind, name), &json::to_raw(arguments), &self.context());
        self.hub.governor().and_then(refused).map_or(Ok(()), Err)
    }

    /// Whether policy hides something of a server that the session registered.
    pub(super) fn hides(&self, kind: Kind, name: &str) -> bool {
        self.hub.governor().is_some_and(|by| by.hides(&registered(kind, name), &self.context()))
    }

    fn context(&self) -> Context<'_> {
        let Self { call, terms, agreement, caller, notifier, .. } = self;
        Context { call: *call, terms, agreement, caller, notifier }
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.servers.iter().any(|(_, status)| status.name == id)
    }

    /// Whether a configured server has this name, seen or not.
    pub(super) fn is_taken(&self, id: &str) -> bool {
        self.hub.mounts().iter().any(|mount| mount.provider.status().is_some_and(|status| status.name == id))
    }

    /// The name of the first one.
    pub(super) fn first(&self) -> Option<String> {
        self.servers.first().map(|(_, status)| status.name.clone())
    }

    /// Asks through the hub, on the caller's own terms.
    pub(super) async fn ask(&self, operation: Operation<'static>) -> Outcome {
        let call = Call { id: self.call, operation, terms: self.terms.clone() };
        self.hub.answer(call, &self.agreement, &self.caller).outcome().await
    }

    /// The resources that the caller sees, and whose they are.
    pub(super) async fn resources(&self) -> Result<Vec<(String, Resource)>, Failure> {
        if self.servers.is_empty() {
            return Ok(Vec::new());
        }
        let Reply::Resources(seen) = self.ask(Operation::ListResources).await? else { return Ok(Vec::new()) };
        let owners = self.owners(|mount| mount.provider.resources().into_iter().map(|resource| resource.uri).collect());
        let owned = |resource: &Resource| Some(((*owners.get(&resource.uri)?).clone(), resource.clone()));
        Ok(seen.iter().filter_map(owned).collect())
    }

    /// The prompts that the caller sees, and whose they are.
    pub(super) async fn prompts(&self) -> Result<Vec<(String, Prompt)>, Failure> {
        if self.servers.is_empty() {
            return Ok(Vec::new());
        }
        let Reply::Prompts(seen) = self.ask(Operation::ListPrompts).await? else { return Ok(Vec::new()) };
        let names = |mount: &Mount| -> Vec<String> {
            mount.provider.prompts().iter().filter_map(|prompt| mount.naming.shown(&prompt.name)).collect()
        };
        let owners = self.owners(names);
        let owned = |prompt: &Prompt| Some(((*owners.get(&prompt.name)?).clone(), prompt.clone()));
        Ok(seen.iter().filter_map(owned).collect())
    }

    /// The first server that has each name.
    fn owners(&self, names: impl Fn(&Mount) -> Vec<String>) -> HashMap<String, &String> {
        let mut owners = HashMap::new();
        for (mount, status) in &self.servers {
            for name in names(mount) {
                owners.entry(name).or_insert(&status.name);
            }
        }
        owners
    }

    /// Follows a resource, if its server reports changes.
    pub(super) async fn watch(&self, server: &str, uri: &str, following: &Arc<Following>) -> Result<(), Failure> {
        if !self
            .servers
            .iter()
            .any(|(mount, status)| status.name == server && mount.provider.features().resource_updates)
        {
            return Err(Failure::cannot_watch());
        }
        let Reply::Watching(id) = self.ask(Operation::Watch(uri.to_owned().into())).await? else {
            return Err(Failure::cannot_watch());
        };
        let added = following.add(&self.caller, server, (uri, id), &self.hub);
        // If the resource is followed already, or cannot be, its changes must not be reported twice.
        if !matches!(added, Ok(true)) {
            self.hub.unwatch(uri, id);
        }
        added.map(drop)
    }

    /// How they stand. One that was not started yet is started when it is needed, and so as good as ready.
    pub(super) fn infos(&self) -> Vec<ServerInfo> {
        self.servers.iter().map(|(mount, status)| info(mount, status)).collect()
    }
}

/// Something of a server that a session registered, as policy sees it.
pub(super) fn registered(kind: Kind, name: &str) -> CallTarget<'_> {
    CallTarget::named(kind, super::NAME, name, name)
}

fn info(mount: &Mount, status: &UpstreamStatus) -> ServerInfo {
    let is_failed = status.state == "failed";
    let detail = status.detail.clone().unwrap_or_default();
    // Who and what an open one is: `name version as dialect version`.
    let open = if status.state == "open" { detail.rsplit_once(" as ") } else { None };
    let (who, what) = open.unwrap_or_default();
    let (server_name, server_version) = who.rsplit_once(' ').unwrap_or((who, ""));
    ServerInfo {
        server_id: status.name.clone(),
        name: status.name.clone(),
        transport: if status.target.starts_with("http") { "sse" } else { "stdio" }.to_owned(),
        status: if is_failed { "error" } else { "ready" },
        mcp_version: what.strip_prefix("mcp ").unwrap_or_default().to_owned(),
        server_name: server_name.to_owned(),
        server_version: server_version.to_owned(),
        tools_count: status.tools,
        resources_count: mount.provider.resources().len(),
        prompts_count: mount.provider.prompts().len(),
        error: if is_failed { detail.clone() } else { String::new() },
        ..ServerInfo::default()
    }
}
