//! Everything behind the hub, put together from a configuration: the toolbox, the repository tools, the
//! upstreams, the agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gladhand_hub::Hub;

use super::mounted::{Memory, Mounted};
use super::within::Within;
use crate::agent::LaterAgent;
use crate::config::{self, Config, Layers, OwnFiles};
use crate::providers::capabilities::Parts;
use crate::providers::{AgentTools, RepositoryTools};

/// A hub and what is behind it. Nothing is started yet.
#[derive(Debug)]
pub(in crate::commands) struct Assembly {
    /// In front of everything.
    pub(in crate::commands) hub: Hub,
    /// The agent, if there is one.
    pub(super) agent: Option<Arc<LaterAgent>>,
    /// The providers that are mounted in it.
    pub(super) mounted: Mounted,
    /// Whether a Gladhand with the same configuration started this process.
    pub(super) is_circle: bool,
}

/// Who can reach what is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Reached {
    /// Only the process that started this one.
    Here,
    /// Others with a token, who may read only what was configured.
    WithToken,
    /// Others without a token too. They may read only what was configured, and run no model.
    ByAnyone,
}

/// A path that no folder is below.
const NO_FOLDER: &str = "/dev/null";

/// The root of remote clients if no roots are configured. It contains no folder if this process was started in `/`, as
/// services are: otherwise remote clients could read all files.
fn launch_root(launched_in: Option<PathBuf>) -> PathBuf {
    let real = launched_in.and_then(|folder| folder.canonicalize().ok());
    real.filter(|real| real.parent().is_some()).unwrap_or_else(|| {
        tracing::warn!("started in `/`, which is no workspace: set `roots` in [agent]");
        NO_FOLDER.into()
    })
}

impl Assembly {
    /// Puts together what a configuration names. Its upstreams are taken out of it if they would start us again.
    pub(in crate::commands) fn of(config: &mut Config, layers: &Layers, data: Option<&Path>, reached: Reached) -> Self {
        let within =
            Within::new(std::env::var_os(config::env::WITHIN), layers.in_force().map(|file| file.path.as_path()));
        let is_circle = within.is_circle();
        if is_circle {
            tracing::warn!("started by a server with the same configuration: its upstreams are left away");
            config.upstreams.0.clear();
        }
        if config.repository.roots.is_empty() {
            // The repository tools must not read more than the agent's own tools.
            config.repository.roots.clone_from(&config.agent.roots);
        }
        if reached != Reached::Here && config.agent.roots.is_empty() {
            // Remote clients may read the current folder only, not everything that this user may read.
            config.agent.roots.push(launch_root(std::env::current_dir().ok()));
        }
        // Those of a Gladhand around us too: its tokens are no more for our model than our own.
        let files = data.map(|data| OwnFiles::of(data, config, layers).with(within.around()));
        let agent = files.clone().filter(|_| config.agent.enabled);
        let agent = agent.map(|files| Arc::new(LaterAgent::new(config.agent.clone(), files)));
        let mut mounted = Mounted::new(config, Memory::in_folder(data.map(Path::to_owned)), within);
        if let Some(files) = files.filter(|_| config.repository.enabled != Some(false)) {
            let is_networked = reached != Reached::Here;
            mounted.add_repository(RepositoryTools::new(&config.repository, files, is_networked));
        }
        match agent.as_ref().filter(|_| config.agent.tools) {
            Some(_) if reached == Reached::ByAnyone => tracing::warn!(
                "the agent is not offered as tools, because no token is needed to call them (set [authorization])"
            ),
            Some(agent) => mounted.add_agent(AgentTools::new(Arc::clone(agent) as _)),
            None => {}
        }
        let agent_of_parts = agent.as_ref().map(|agent| Arc::clone(agent) as _);
        let parts = Parts { config: &config.a2e, data, agent: agent_of_parts };
        mounted.add_capabilities(parts.assemble());
        let mut hub = Hub::of(mounted.mounts());
        if let Some(agent) = agent.clone() {
            agent.with_hub(hub.clone());
            hub = hub.with_agent(agent);
        }
        Self { hub, agent, mounted, is_circle }
    }
}
