//! Builds the configured capabilities of A2E, except tools. It opens and starts nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gladhand_a2e_host::chains::{ChainSettings, Chains};
use gladhand_a2e_host::env::{Env, EnvSettings, Program};
use gladhand_a2e_host::learning::{Learning, LearningSettings};
use gladhand_a2e_host::memory::{Bound, Memory, MemorySettings};
use gladhand_a2e_host::multi_agent::{MultiAgent, MultiAgentSettings};
use gladhand_a2e_host::planning::{Planning, PlanningSettings};
use gladhand_a2e_host::proc::{Proc, ProcSettings};
use gladhand_a2e_host::skill::{SkillSettings, Skills};
use gladhand_a2e_host::storage::Storage;
use gladhand_a2e_host::toolkits::{Toolkit, ToolkitSettings, Toolkits};
use gladhand_client::upstream::Options;
use gladhand_hub::{Agent, Provider};
use gladhand_process::starting::{OnLeash, Starter};
use url::Url;

use super::a2e_mcp::{A2eMcp, RegistrationLimits, Root};
use crate::config::{A2eConfig, CapabilityName, MemoryConfig};
use gladhand_process::open_files::OpenFiles;
use gladhand_session::tap::Tap;

/// The parts that the capabilities are built from.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    /// The configuration.
    pub(crate) config: &'a A2eConfig,
    /// The folder for data that outlives sessions. Without it, capabilities that need it are left out.
    pub(crate) data: Option<&'a Path>,
    /// The agent that runs delegated tasks.
    pub(crate) agent: Option<Arc<dyn Agent>>,
    /// The tap of this process, which sessions with registered servers pass.
    pub(crate) tap: &'a Arc<Tap>,
}

impl Parts<'_> {
    /// The capabilities, in the order of their names in the configuration.
    pub(crate) fn assemble(self) -> Vec<Arc<dyn Provider>> {
        let storage = self.data.map(|data| Storage::in_folder(data.to_owned()));
        let starter: Arc<dyn Starter> = Arc::new(OnLeash::or_family());
        self.config.enabled().into_iter().filter_map(|name| self.one(name, storage.as_ref(), &starter)).collect()
    }

    fn one(
        &self,
        name: CapabilityName,
        storage: Option<&Storage>,
        starter: &Arc<dyn Starter>,
    ) -> Option<Arc<dyn Provider>> {
        let config = self.config;
        Some(match name {
            // The hub has these.
            CapabilityName::Tools => return None,
            CapabilityName::Memory => Arc::new(Memory::new(storage?.clone(), bounds(&config.memory))),
            CapabilityName::Learning => Arc::new(Learning::new(storage?.clone(), learning(config))),
            CapabilityName::Planning => Arc::new(Planning::new(storage?.clone(), PlanningSettings::default())),
            CapabilityName::Proc => Arc::new(Proc::new(processes(config), Arc::clone(starter))),
            CapabilityName::Env => Arc::new(Env::new(environments(config), starter)),
            CapabilityName::Skill => {
                let folders = config.skill.path.iter().cloned().collect();
                let settings = SkillSettings { folders, roots: config.roots.clone(), ..SkillSettings::default() };
                Arc::new(Skills::new(settings, Arc::clone(starter), None))
            }
            CapabilityName::Chains => Arc::new(Chains::new(ChainSettings::default())),
            CapabilityName::MultiAgent => {
                Arc::new(MultiAgent::new(Arc::clone(self.agent.as_ref()?), MultiAgentSettings::default()))
            }
            CapabilityName::Mcp => Arc::new(A2eMcp::new(servers(config, self.tap))),
            CapabilityName::Toolkits => match Toolkits::new(bundles(config)) {
                Ok(toolkits) => Arc::new(toolkits),
                Err(error) => {
                    // The configuration has been checked, so this does not happen.
                    tracing::warn!(%error, "there are no toolkits");
                    return None;
                }
            },
        })
    }
}

fn bounds(config: &MemoryConfig) -> MemorySettings {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let bound = |entries, limit| Bound { entries, bytes: bytes(limit) };
    MemorySettings {
        working: bound(config.working_entries, config.working_bytes),
        working_total_bytes: bytes(config.working_total_bytes),
        episodic: bound(config.episodic_entries, config.episodic_bytes),
        semantic: bound(config.semantic_entries, config.semantic_bytes),
        entry_bytes: bytes(config.entry_bytes),
        total_bytes: bytes(config.total_bytes),
        ..MemorySettings::default()
    }
}

fn learning(config: &A2eConfig) -> LearningSettings {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    LearningSettings {
        adapt_every: count(config.learning.adapt_every),
        min_experiences: count(config.learning.min_experiences),
        confidence_threshold: config.learning.confidence_threshold,
        ..LearningSettings::default()
    }
}

fn processes(config: &A2eConfig) -> ProcSettings {
    let max_duration = Some(config.proc.timeout).filter(|seconds| *seconds > 0).map(Duration::from_secs);
    ProcSettings {
        allowed: config.proc.allowed.clone(),
        base: config.folder.clone(),
        roots: config.roots.clone(),
        variables: config.proc.variables.clone(),
        max_running: config.proc.max,
        max_duration,
        max_output_bytes: config.proc.output_bytes,
        max_running_total: OpenFiles::now().processes(ProcSettings::default().max_running_total),
        ..ProcSettings::default()
    }
}

fn environments(config: &A2eConfig) -> EnvSettings {
    let folder: Option<PathBuf> = config.roots.first().cloned();
    let program = |(name, command): (&String, &Vec<String>)| Program {
        folder: folder.clone(),
        ..Program::new(name.clone(), command.clone())
    };
    let (programs, usual): (Vec<_>, _) = (config.env.commands.iter().map(program).collect(), EnvSettings::default());
    let max_total_episodes = match programs.is_empty() {
        true => usual.max_total_episodes,
        // Each may be a process.
        false => OpenFiles::now().processes(usual.max_total_episodes),
    };
    EnvSettings { programs, max_total_episodes, ..usual }
}

fn servers(config: &A2eConfig, tap: &Arc<Tap>) -> RegistrationLimits {
    let usual = RegistrationLimits::default();
    RegistrationLimits {
        commands: config.mcp.commands.iter().map(|command| vec![command.clone()]).collect(),
        base: config.folder.clone(),
        urls: config.mcp.urls.iter().filter_map(|url| Url::parse(url).ok()).collect(),
        folders: config.roots.clone(),
        roots: config.roots.iter().filter_map(|folder| root(folder)).collect(),
        options: Options { tap: Arc::clone(tap), ..usual.options },
        ..usual
    }
}

/// A folder as a root for servers.
fn root(folder: &Path) -> Option<Root> {
    let folder = std::path::absolute(folder).ok()?;
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
    Some(Root { uri: Url::from_file_path(&folder).ok()?.into(), name })
}

fn bundles(config: &A2eConfig) -> ToolkitSettings {
    let toolkits = config.toolkits.iter().map(|kit| Toolkit {
        name: kit.name.clone(),
        alias: kit.alias.clone(),
        description: kit.description.clone(),
        category: kit.category.clone(),
        tags: kit.tags.clone(),
        tools: kit.tools.clone(),
        schema: kit.schema.as_ref().map_or_else(|| serde_json::json!({}), |schema| schema.value().clone()),
        ..Toolkit::default()
    });
    ToolkitSettings { toolkits: toolkits.collect(), ..ToolkitSettings::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_servers_pass_the_tap_of_the_process() {
        let tap = Arc::<Tap>::default();
        assert!(Arc::ptr_eq(&servers(&A2eConfig::default(), &tap).options.tap, &tap));
    }
}
