//! The agent of this process, built from the configuration when it is first needed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gladhand_agent::accounts::{AccountSettings, Accounts, DefaultModel, Provider, secret_variables};
use gladhand_agent::{AgentSettings, Conversations, LivePolicy, Policy, Rule, TrustedFiles};
use gladhand_agent_tools::{Effect, SecretFiles, ToolProvider, ToolSet};
use gladhand_core::operations::{AgentCall, Failure, FailureKind};
use gladhand_hub::{Agent, Answer, Context, Hub, SessionId, Settling};
use tokio::sync::OnceCell;

use crate::config::{AgentConfig, Approve, OwnFiles, TrustStore, env};
use crate::from_config;
use crate::secrets;

/// How long the first question waits for what services say about accounts and models.
const PATIENCE: Duration = Duration::from_secs(2);

/// An agent that is put together when it is first needed: most sessions never do.
#[derive(Debug)]
pub struct LaterAgent {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: AgentConfig,
    /// Which tools may run: it follows the configuration.
    policy: LivePolicy,
    /// Where everything of ours is kept.
    files: OwnFiles,
    hub: OnceLock<Hub>,
    agent: OnceCell<Result<Conversations, String>>,
}

impl LaterAgent {
    /// The agent of a configuration, with its files below the data folder.
    pub fn new(config: AgentConfig, files: impl Into<OwnFiles>) -> Self {
        let (policy, files) = (LivePolicy::new(policy(&config)), files.into());
        Self { inner: Arc::new(Inner { config, policy, files, hub: OnceLock::new(), agent: OnceCell::new() }) }
    }

    /// Decides about tools as a changed configuration says. The rest of that holds from the next start on.
    pub fn follow(&self, config: &AgentConfig) {
        self.inner.policy.replace(policy(config));
    }

    /// Gives it the tools of a hub. Once only.
    pub fn with_hub(&self, hub: Hub) {
        if self.inner.hub.set(hub).is_err() {
            tracing::warn!("the agent has a hub already");
        }
    }

    /// The model that answers unless the user chooses another. Services are asked as at the start of a chat; nothing is
    /// changed.
    pub async fn default_model(&self) -> std::io::Result<DefaultModel> {
        let settings = self.inner.accounts(&self.inner.folder(), &std::env::current_dir()?);
        let accounts = Accounts::open(AccountSettings { keeps: false, ..settings });
        let _ = tokio::time::timeout(PATIENCE, accounts.refresh()).await;
        Ok(accounts.default_model())
    }

    /// The agent itself, put together if it was not.
    pub async fn ready(&self) -> Result<&Conversations, Failure> {
        self.inner.ready().await
    }
}

impl Inner {
    async fn ready(&self) -> Result<&Conversations, Failure> {
        let agent = self.agent.get_or_init(|| async { self.build().await.map_err(|error| error.to_string()) }).await;
        agent.as_ref().map_err(|why| Failure::new(FailureKind::Internal, format!("there is no agent: {why}")))
    }

    async fn build(&self) -> std::io::Result<Conversations> {
        let folder = self.folder();
        let home = crate::config::home_dir();
        let here = std::env::current_dir()?;
        let accounts = Accounts::open(self.accounts(&folder, &here));
        let refreshing = tokio::spawn({
            let accounts = Arc::clone(&accounts);
            async move { accounts.refresh().await }
        });
        // If no account is signed in, this returns immediately; slow services are not waited for.
        let _ = tokio::time::timeout(PATIENCE, refreshing).await;
        let tool_settings = self.tool_settings(&folder, &accounts);
        let secret_files = SecretFiles::new(&tool_settings);
        let tool_set = ToolSet::open(tool_settings);
        let roots = self.config.roots.clone();
        let trust = TrustStore::in_folder(Some(&self.files.data));
        let records = trust.clone();
        let trusted = TrustedFiles {
            has_record: Arc::new(move |path| records.has_record(path)),
            trusts: Arc::new(move |path, text| trust.trusts(path, text)),
        };
        let policy = self.policy.clone();
        let settings = AgentSettings { data: folder, folder: here, home, roots, secret_files, policy, trusted };
        if !tool_set.may_have_more() {
            self.look_for_strangers(&*tool_set);
        }
        let agent = Conversations::new(settings, accounts, tool_set);
        if let Some(hub) = self.hub.get() {
            agent.with_hub(hub.clone());
        }
        Ok(agent)
    }

    /// Where the agent keeps what is its own.
    fn folder(&self) -> PathBuf {
        self.config.folder.clone().unwrap_or_else(|| self.files.data.join("agent"))
    }

    /// A name that no tool has is a mistake more often than not, and one that forbids nothing is a bad one. A name that
    /// several upstreams can have allows nothing.
    fn look_for_strangers(&self, tool_set: &dyn ToolProvider) {
        let ours: Vec<String> = tool_set.tools().into_iter().map(|tool| tool.name).collect();
        let hub = self.hub.get().map(|hub| hub.tools()).unwrap_or_default();
        // Each name, and whether it names one tool for certain.
        let mut known: HashMap<&str, bool> = HashMap::new();
        for name in hub.iter().filter_map(|tool| tool.origin.as_ref()).flat_map(|origin| &origin.names) {
            *known.entry(&name.name).or_default() |= name.is_exclusive;
        }
        let is_known = |name: &String| {
            ["reads", "writes", "runs", "network"].contains(&name.as_str())
                || ours.contains(name)
                || known.contains_key(name.as_str())
        };
        let named = [&self.config.allow, &self.config.ask, &self.config.deny].into_iter().flatten();
        for name in named.filter(|name| !is_known(name)) {
            tracing::warn!(name, "[agent] has a rule for a tool that is not there");
        }
        let is_ambiguous = |name: &&String| known.get(name.as_str()) == Some(&false) && !ours.contains(name);
        for name in self.config.allow.iter().filter(is_ambiguous) {
            let why = "other upstreams can have a tool of this name; UPSTREAM__TOOL names one";
            tracing::warn!(name, "[agent] allow has no effect: {why}");
        }
    }

    /// Where the accounts are: what the file says, and before that what the environment says.
    fn accounts(&self, folder: &Path, here: &Path) -> AccountSettings {
        let config = &self.config;
        let mut settings = AccountSettings::new(folder);
        let put = |place: &mut String, said: &Option<String>| {
            if let Some(said) = said {
                place.clone_from(said);
            }
        };
        put(&mut settings.openai.backend, &config.openai_backend_base);
        put(&mut settings.openai.issuer, &config.openai_issuer);
        settings.openai.client_id.clone_from(&config.openai_client_id);
        settings.google.client_id.clone_from(&config.google_client_id);
        settings.google.client_secret = config.google_client_secret.as_ref().map(|secret| secret.0.clone());
        configure_providers(&mut settings, config);
        settings.embedded = self.embedded();
        settings.started_in = Some(here.to_owned());
        settings.secrets = match secrets::open(&self.files.data) {
            Ok(secrets) => Some(Arc::new(secrets)),
            Err(error) => {
                tracing::warn!(%error, "keys and tokens of the agent are forgotten when it ends");
                None
            }
        };
        settings.with_environment(|name| std::env::var(name).ok())
    }

    /// The model that works offline, where this build can run it and its file is there.
    #[cfg(feature = "local-model")]
    fn embedded(&self) -> Option<Arc<dyn gladhand_models::Models>> {
        gladhand_local_model::find(&self.files.data).map(|file| gladhand_local_model::open(&file))
    }

    /// This build runs no model itself.
    #[cfg(not(feature = "local-model"))]
    #[expect(clippy::unused_self, reason = "the build that can run one looks into the data folder")]
    fn embedded(&self) -> Option<Arc<dyn gladhand_models::Models>> {
        None
    }

    fn tool_settings(&self, folder: &Path, accounts: &Arc<Accounts>) -> gladhand_agent_tools::ToolSettings {
        let mut settings = gladhand_agent_tools::ToolSettings::new(folder);
        settings.roots.clone_from(&self.config.roots);
        #[cfg(unix)]
        if gladhand_process::leash::is_enabled() {
            settings.starter = Arc::new(gladhand_process::starting::OnLeash::always());
        }
        // The output of a program reaches the model, and with it the service that runs the model. So tools do not get the
        // keys of the agent, beside the variables that no program gets.
        settings
            .environment
            .retain(|name, _| !env::is_never_passed_on(name) && !secret_variables().any(|key| name == key));
        from_config::keep_from(&self.files, &mut settings);
        let skills = crate::config::home_dir().map(|home| home.join(".agents/skills"));
        settings.readable = skills.into_iter().chain([folder.join("skills")]).collect();
        let base = std::env::var(env::EXA_BASE).ok().or_else(|| self.config.exa_base.clone());
        if let Some(base) = base {
            settings.exa_base = base;
        }
        let accounts = Arc::clone(accounts);
        settings.exa_key = Arc::new(move || accounts.exa_key().map(|key| key.expose().to_owned()));
        settings
    }
}

/// Applies the keys of model providers in the file.
fn configure_providers(settings: &mut AccountSettings, config: &AgentConfig) {
    for provider in Provider::all() {
        let (keys, place) = (config.provider(provider.id), &mut settings.providers[provider]);
        if let Some(base) = keys.base {
            place.base = Some(base.to_owned());
        }
        place.key = keys.key.map(|key| key.0.clone());
        place.model = keys.model.map(str::to_owned);
    }
}

/// Which tools may run.
fn policy(config: &AgentConfig) -> Policy {
    let (approve_all, approve_none) = (config.approve == Approve::All, config.approve == Approve::None);
    let mut policy = Policy { approve_all, approve_none, ..Policy::default() };
    // Stricter rules come last, because later ones win.
    for (names, rule) in [(&config.allow, Rule::Allow), (&config.ask, Rule::Ask), (&config.deny, Rule::Deny)] {
        for name in names {
            let (of_effect, effect) = match name.as_str() {
                "reads" => (&mut policy.reads, Effect::Reads),
                "writes" => (&mut policy.writes, Effect::Writes),
                "runs" => (&mut policy.runs, Effect::Runs),
                "network" => (&mut policy.network, Effect::Network),
                tool => {
                    policy.tools.insert(tool.to_owned(), rule);
                    continue;
                }
            };
            *of_effect = rule;
            if rule == Rule::Deny {
                policy.denied.insert(effect);
            }
        }
    }
    policy
}

impl Agent for LaterAgent {
    fn ask(&self, call: AgentCall<'_>, context: &Context<'_>) -> Answer {
        if let Some(Ok(agent)) = self.inner.agent.get() {
            return agent.ask(call, context);
        }
        let (inner, asked, id) = (Arc::clone(&self.inner), call.into_owned(), context.call);
        let (terms, notifier) = (context.terms.clone().into_owned(), context.notifier.clone());
        let (agreement, caller) = (Arc::clone(context.agreement), Arc::clone(context.caller));
        Answer::Later(Box::pin(async move {
            let agent = inner.ready().await?;
            let context =
                Context { call: id, terms: &terms, agreement: &agreement, caller: &caller, notifier: &notifier };
            let answer = agent.ask(asked, &context);
            answer.outcome().await
        }))
    }

    fn settling(&self) -> Option<Settling> {
        if self.inner.agent.initialized() {
            return None;
        }
        let inner = Arc::clone(&self.inner);
        Some(Box::pin(async move {
            if let Err(error) = inner.ready().await {
                tracing::warn!(%error, "the agent cannot be used");
            }
        }))
    }

    fn left(&self, session: SessionId) {
        if let Some(Ok(agent)) = self.inner.agent.get() {
            agent.left(session);
        }
    }

    fn closing(&self) -> Settling {
        match self.inner.agent.get() {
            Some(Ok(agent)) => agent.closing(),
            _ => Box::pin(std::future::ready(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs(page: &str) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)).unwrap()
    }

    #[test]
    fn each_configured_provider_has_its_keys_in_the_section() {
        let keys = serde_json::to_value(AgentConfig::default()).unwrap();
        let configured = Provider::all().filter(|provider| provider.is_configured());
        let mut expected: Vec<String> = configured.map(|provider| format!("{}_base", provider.id)).collect();
        expected.sort_unstable();
        let services = ["exa_base", "openai_backend_base"];
        let mut bases: Vec<&String> = keys.as_object().unwrap().keys().filter(|key| key.ends_with("_base")).collect();
        bases.retain(|key| !services.contains(&key.as_str()));
        bases.sort_unstable();
        assert_eq!(bases, expected.iter().collect::<Vec<_>>());
        for key in expected {
            let mut section = serde_json::Map::new();
            section.insert(key.clone(), "http://127.0.0.1:1/here".into());
            let mut settings = AccountSettings::new("/data");
            configure_providers(&mut settings, &serde_json::from_value(section.into()).unwrap());
            let changed = Provider::all().find(|provider| format!("{}_base", provider.id) == key).unwrap();
            assert_eq!(settings.providers[changed].base.as_deref(), Some("http://127.0.0.1:1/here"), "{key}");
            let others = Provider::all().filter(|provider| *provider != changed);
            let mut others = others.map(|provider| (settings.providers[provider].base.as_deref(), provider));
            assert!(others.all(|(base, provider)| base == provider.default_base), "{key}");
        }
    }

    #[test]
    fn loaf_accepts_the_ids_of_the_table() {
        let ids: Vec<&str> = Provider::all().map(|provider| provider.id).collect();
        assert_eq!(gladhand_dialects::loaf::MODEL_PROVIDERS, ids);
    }

    #[test]
    fn the_documentation_names_every_provider_and_its_variables() {
        let (agent, configuration) = (docs("agent.md"), docs("configuration.md"));
        for provider in Provider::all() {
            let is_listed = |line: &str| line.starts_with('|') && line.contains(&format!("`{}`", provider.id));
            assert!(agent.lines().any(is_listed), "agent.md has no row for {provider}");
            let key = provider.key.map(|key| key.variable);
            for variable in [key, provider.base_variable, provider.model_variable].into_iter().flatten() {
                assert!(configuration.contains(&format!("`{variable}`")), "configuration.md does not name {variable}");
            }
            let base = format!("| `{}_base` |", provider.id);
            assert_eq!(configuration.contains(&base), provider.is_configured(), "{base}");
        }
    }

    #[test]
    fn approve_none_turns_questions_into_denials() {
        let ask = vec!["bash".to_owned(), "writes".to_owned()];
        let policy = policy(&AgentConfig { approve: Approve::None, ask, ..AgentConfig::default() });
        assert!(policy.approve_none, "a question is then a denial");
    }

    #[test]
    fn the_stricter_rule_of_the_agent_wins() {
        let config = AgentConfig {
            allow: vec!["runs".to_owned(), "bash".to_owned()],
            deny: vec!["bash".to_owned(), "network".to_owned()],
            ..AgentConfig::default()
        };
        let policy = policy(&config);
        assert_eq!((policy.runs, policy.network, policy.writes), (Rule::Allow, Rule::Deny, Rule::Ask));
        assert_eq!(policy.tools.get("bash"), Some(&Rule::Deny));
        assert!(policy.denied.contains(&Effect::Network) && !policy.denied.contains(&Effect::Runs));
    }
}
