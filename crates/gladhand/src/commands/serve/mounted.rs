//! The mounted providers: the toolbox and the upstreams of the configuration.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gladhand_auth::Roots;
use gladhand_core::Secret;
use gladhand_hub::policy::Violations;
use gladhand_hub::{Listed, Mount, Provider, Settling};
use url::Url;

use super::recursion::Within;
use crate::commands::shared::sign_in;
use crate::config::{Config, UpstreamConfig, env};
use crate::from_config;
use crate::providers::{AgentTools, RepositoryTools, Toolbox, Unavailable};
use gladhand_client::upstream::{Eras, Options, ResponseBudget, Target, UnsentBudget};
use gladhand_client::upstream_provider::{self, ConnectionBudget, Spec, UpstreamProvider, memory};
use gladhand_session::tap::Tap;

/// Where what is found out about upstreams is kept.
#[derive(Debug, Clone, Default)]
pub(in crate::commands) struct Memory {
    folder: Option<PathBuf>,
    eras: Eras,
}

impl Memory {
    /// Kept in the data folder, if there is one.
    pub(in crate::commands) fn in_folder(folder: Option<PathBuf>) -> Self {
        let eras = folder.as_ref().map(|folder| Eras::kept_in(folder.join("eras.json"))).unwrap_or_default();
        Self { folder, eras }
    }

    /// The names of the tools and prompts that an upstream had when it was last asked; none if nothing is remembered.
    pub(in crate::commands) fn names(&self, name: &str, target: &Target) -> Option<Vec<String>> {
        memory::names(&self.file(name, target)?)
    }

    /// Everything that an upstream listed when it was last asked, and its instructions; none if nothing is remembered.
    pub(in crate::commands) fn listed(&self, name: &str, target: &Target) -> Option<(Listed, Option<String>)> {
        memory::listed(&self.file(name, target)?)
    }

    /// The file in which what an upstream has is remembered.
    fn file(&self, name: &str, target: &Target) -> Option<PathBuf> {
        let mut hasher = DefaultHasher::new();
        // Hashed because it may hold secrets.
        match target {
            Target::Command(words) => words.hash(&mut hasher),
            Target::Url(url) => url.as_str().hash(&mut hasher),
        }
        Some(self.upstreams()?.join(format!("{name}-{:016x}.json", hasher.finish())))
    }

    /// Forgets upstreams that have not been used for long.
    fn clear_out(&self) {
        if let Some(folder) = self.upstreams() {
            upstream_provider::forget_unused(&folder, SystemTime::now());
        }
    }

    /// The folder in which what upstreams have is remembered.
    fn upstreams(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join("upstreams"))
    }
}

/// The providers that are mounted now.
#[derive(Debug)]
pub(super) struct Mounted {
    memory: Memory,
    within: Within,
    toolbox: Option<Arc<Toolbox>>,
    repository: Option<Arc<RepositoryTools>>,
    agent: Option<Arc<AgentTools>>,
    capabilities: Vec<Arc<dyn Provider>>,
    upstreams: Vec<Entry>,
    /// The limit on connections besides the main ones, which all upstreams share.
    connection_budget: ConnectionBudget,
    /// The limit on responses that arrive over HTTP, which all upstreams share.
    response_budget: ResponseBudget,
    /// The bound on lines that upstream processes do not read.
    unsent: UnsentBudget,
    /// Counts the protocol violations of upstreams.
    violations: Arc<Violations>,
    /// The tap of this process, which every session with an upstream passes.
    tap: Arc<Tap>,
    /// The longest line that is taken from an upstream.
    line_bytes: usize,
    list_waits: ListWaits,
}

/// How long list requests wait for upstreams whose lists are unknown.
#[derive(Debug, Clone)]
pub(in crate::commands) struct ListWaits {
    pub(in crate::commands) longest: Duration,
    /// Wait only for upstreams that this tool may belong to by its name, and for all if there are none.
    pub(in crate::commands) for_tool: Option<String>,
}

impl Default for ListWaits {
    fn default() -> Self {
        Self { longest: Spec::USUAL_LIST_WAIT, for_tool: None }
    }
}

impl ListWaits {
    /// The waits that the command which started us asks for.
    pub(super) fn of_environment() -> Self {
        let usual = Self::default();
        let Ok(asked) = std::env::var(env::LIST_WAIT) else { return usual };
        let (longest, tool) = asked.split_once(' ').unwrap_or((&asked, ""));
        let longest = longest.parse().map_or(usual.longest, Duration::from_millis);
        Self { longest, for_tool: Some(tool).filter(|tool| !tool.is_empty()).map(str::to_owned) }
    }

    /// The variable that asks for these waits.
    pub(in crate::commands) fn to_variable(&self) -> (String, Secret) {
        let tool = self.for_tool.as_deref().unwrap_or_default();
        (env::LIST_WAIT.to_owned(), Secret::new(format!("{} {tool}", self.longest.as_millis())))
    }

    /// How long list requests wait for an upstream of a configuration.
    fn of(&self, name: &str, config: &Config) -> Duration {
        let Some(tool) = &self.for_tool else { return self.longest };
        let upstreams = config.upstreams.0.iter().filter(|(_, upstream)| upstream.enabled);
        let mut fitting = upstreams.filter(|(name, upstream)| upstream.naming(name).fits(tool).is_some()).peekable();
        let is_of_none = fitting.peek().is_none();
        if is_of_none || fitting.any(|(other, _)| other == name) { self.longest } else { Duration::ZERO }
    }
}

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    config: UpstreamConfig,
    provider: Arc<dyn Provider>,
}

/// The differences, by name.
#[derive(Default)]
pub(super) struct Change {
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    /// Another server, or another way to it, under the same name.
    pub(super) replaced: Vec<String>,
    /// The same server, shown in another way.
    pub(super) renamed: Vec<String>,
    /// Whether the toolbox came or went.
    toolbox: bool,
    /// Completes when the unmounted providers are closed.
    pub(super) closing: Vec<Settling>,
}

impl Mounted {
    /// The providers that a configuration names. Nothing is started yet.
    pub(super) fn new(config: &Config, memory: Memory, within: Within, tap: Arc<Tap>, list_waits: ListWaits) -> Self {
        let violations = Arc::new(Violations::new(config.policy.violations));
        let (upstreams, connection_budget) = (Vec::new(), ConnectionBudget::default());
        let (toolbox, repository, agent, line_bytes) = (None, None, None, config.limits.line_bytes);
        let (capabilities, response_budget, unsent) = (Vec::new(), ResponseBudget::default(), UnsentBudget::default());
        let mut mounted = Self {
            memory,
            within,
            toolbox,
            repository,
            agent,
            capabilities,
            upstreams,
            connection_budget,
            response_budget,
            unsent,
            violations,
            tap,
            line_bytes,
            list_waits,
        };
        mounted.update(config);
        mounted.memory.clear_out();
        mounted
    }

    /// Adds the repository tools. A later configuration does not remove them.
    pub(super) fn add_repository(&mut self, repository: RepositoryTools) {
        self.repository = Some(Arc::new(repository));
    }

    /// Adds the agent as tools. A later configuration does not remove them.
    pub(super) fn add_agent(&mut self, agent: AgentTools) {
        self.agent = Some(Arc::new(agent));
    }

    /// Adds the capabilities of A2E. A later configuration does not remove them.
    pub(super) fn add_capabilities(&mut self, capabilities: Vec<Arc<dyn Provider>>) {
        self.capabilities = capabilities;
    }

    /// As the hub takes it: what is ours under plain names, then the upstreams in their order.
    pub(super) fn mounts(&self) -> Vec<Mount> {
        let toolbox = self.toolbox.iter().map(|toolbox| Mount::plain(Arc::clone(toolbox) as _));
        let upstreams = self.upstreams.iter().map(|Entry { name, config, provider }| Mount {
            provider: Arc::clone(provider),
            naming: config.naming(name),
        });
        let agent = self.agent.iter().map(|agent| Mount::plain(Arc::clone(agent) as _));
        let repository = self.repository.iter().map(|repository| Mount::plain(Arc::clone(repository) as _));
        let capabilities = self.capabilities.iter().map(|provider| Mount::plain(Arc::clone(provider)));
        toolbox.chain(repository).chain(agent).chain(capabilities).chain(upstreams).collect()
    }

    /// The names of the required upstreams.
    pub(super) fn required(&self) -> Vec<String> {
        self.upstreams.iter().filter(|entry| entry.config.required).map(|entry| entry.name.clone()).collect()
    }

    /// Follows a configuration. An upstream that stayed what it is goes on undisturbed.
    pub(super) fn update(&mut self, config: &Config) -> Change {
        self.violations.handle(config.policy.violations);
        let toolbox = config.toolbox.enabled != self.toolbox.is_some();
        let mut change = Change { toolbox, ..Change::default() };
        self.toolbox = config.toolbox.enabled.then(|| self.toolbox.take().unwrap_or_default());
        let mut before = std::mem::take(&mut self.upstreams);
        let list_wait = |name: &str| self.list_waits.of(name, config);
        let enabled = config.upstreams.0.iter().filter(|(_, upstream)| upstream.enabled);
        let enabled: Vec<_> = enabled.map(|(name, upstream)| (name, upstream, list_wait(name))).collect();
        for (name, config, list_wait) in enabled {
            let old = before.iter().position(|entry| entry.name == *name).map(|at| before.remove(at));
            let kept = match old {
                Some(old) if old.config.is_same_server(config) => {
                    if old.config != *config {
                        change.renamed.push(name.clone());
                    }
                    Some(old.provider)
                }
                Some(old) => {
                    change.replaced.push(name.clone());
                    change.closing.extend(old.provider.closing());
                    None
                }
                None => {
                    change.added.push(name.clone());
                    None
                }
            };
            // Settings without mistakes have a target.
            let Some(provider) = kept.or_else(|| self.provider(name, config, list_wait)) else { continue };
            self.upstreams.push(Entry { name: name.clone(), config: config.clone(), provider });
        }
        for old in before {
            change.closing.extend(old.provider.closing());
            change.removed.push(old.name);
        }
        change
    }

    fn provider(&self, name: &str, config: &UpstreamConfig, list_wait: Duration) -> Option<Arc<dyn Provider>> {
        if let Some(why) = &config.unavailable {
            return Some(Arc::new(Unavailable::new(name, why)));
        }
        let (target, options) = reach(name, config, &self.memory, &self.within)?;
        let (response_budget, unsent) = (self.response_budget.clone(), self.unsent.clone());
        let (line_bytes, violations, tap) = (self.line_bytes, Arc::clone(&self.violations), Arc::clone(&self.tap));
        let options = Options { line_bytes, response_budget, unsent, violations, tap, ..options };
        let remembered_in = self.memory.file(name, &target);
        let (connection_budget, isolated) = (self.connection_budget.clone(), config.isolated);
        let client_roots = config.client_roots.clone();
        let (name, list_wait) = (name.to_owned(), Some(list_wait));
        let spec = Spec { name, target, options, isolated, client_roots, connection_budget, list_wait, remembered_in };
        Some(Arc::new(UpstreamProvider::new(spec)))
    }
}

/// The target of an upstream and the options to open it. A valid configuration has both.
pub(in crate::commands) fn reach(
    name: &str,
    config: &UpstreamConfig,
    memory: &Memory,
    within: &Within,
) -> Option<(Target, Options)> {
    let sign_in = |url: &Url, roots: &Roots| {
        sign_in::non_interactive_authorizer(url, roots).map(|authorizer| Arc::new(authorizer) as _)
    };
    from_config::upstream(name, config, memory.eras.clone(), within.passed_on(), sign_in)
}

impl Change {
    /// Whether nothing is different.
    pub(super) fn is_empty(&self) -> bool {
        let names = [&self.added, &self.removed, &self.replaced, &self.renamed];
        !self.toolbox && names.iter().all(|names| names.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::shared::references;
    use crate::config::{self, Reading};

    fn config(text: &str) -> Config {
        references::Sources::default().lookup(|lookup| config::parse(text, Reading::Whole(lookup))).unwrap()
    }

    #[test]
    fn only_changed_upstreams_are_remounted() {
        let before = "[upstreams.a]\ncommand = 'a'\n[upstreams.b]\ncommand = 'b'\n[upstreams.c]\ncommand = 'c'\n";
        let mut mounted =
            Mounted::new(&config(before), Memory::default(), Within::default(), Arc::default(), ListWaits::default());
        let old = mounted.mounts();
        let after = "[upstreams.d]\ncommand = 'd'\n[upstreams.b]\ncommand = 'b'\nargs = ['-v']\n\
                     [upstreams.a]\ncommand = 'a'\nprefix = 'x'\n";
        let change = mounted.update(&config(after));
        assert_eq!((change.added, change.removed), (vec!["d".to_owned()], vec!["c".to_owned()]));
        assert_eq!((change.replaced, change.renamed), (vec!["b".to_owned()], vec!["a".to_owned()]));
        let new = mounted.mounts();
        let prefixes: Vec<_> = new.iter().map(|mount| mount.naming.prefix.as_deref()).collect();
        assert_eq!(prefixes, [None, Some("d"), Some("b"), Some("x")]);
        assert!(Arc::ptr_eq(&old[0].provider, &new[0].provider), "the toolbox stays");
        assert!(Arc::ptr_eq(&old[1].provider, &new[3].provider), "a stays, wherever it is now");
        assert!(!Arc::ptr_eq(&old[2].provider, &new[2].provider), "b is another");
        assert!(mounted.update(&config(after)).is_empty());
    }

    #[test]
    fn disabled_providers_are_not_mounted() {
        let text = "[toolbox]\nenabled = false\n[upstreams.a]\ncommand = 'a'\nenabled = false\n";
        assert!(
            Mounted::new(&config(text), Memory::default(), Within::default(), Arc::default(), ListWaits::default())
                .mounts()
                .is_empty()
        );
    }

    #[test]
    fn a_call_waits_for_the_upstreams_that_its_tool_may_belong_to() {
        let config = config("[upstreams.a]\ncommand = 'a'\n[upstreams.b]\ncommand = 'b'\n");
        let longest = Duration::from_secs(7);
        let waits = |tool: Option<&str>| {
            let waits = ListWaits { longest, for_tool: tool.map(str::to_owned) };
            ["a", "b"].map(|name| waits.of(name, &config))
        };
        assert_eq!(waits(None), [longest; 2]);
        assert_eq!(waits(Some("b__x")), [Duration::ZERO, longest]);
        assert_eq!(waits(Some("c__x")), [longest; 2], "no upstream has this prefix");
    }
}
