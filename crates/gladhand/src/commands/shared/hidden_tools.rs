//! Tools that the configuration withholds: the upstream that a shown name belongs to, and the setting or rule that keeps a
//! tool out of the list.
//!
//! Only commands that read the user's own configuration say this. A client learns no more than the list of tools and the
//! failures of its calls tell.

use anyhow::anyhow;
use gladhand_core::Order as _;
use gladhand_core::operations::{FailureKind, Tool};
use gladhand_hub::policy::{CallTarget, Kind, PinMode, Who};
use gladhand_hub::{BETWEEN, Provider as _, SessionId};

use crate::commands::CommandError;
use crate::commands::serve::Memory;
use crate::config::{self, Config, UpstreamConfig};
use crate::from_config;
use crate::pins::{self, PinFile};
use crate::providers::Toolbox;
use crate::terminal::text::plain;

/// The name that our own commands present to a server.
const OUR_NAME: &str = "gladhand";

/// A tool, prompt, resource or capability, as a command names it.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct Named<'a> {
    pub(in crate::commands) kind: Kind,
    /// The shown name.
    pub(in crate::commands) name: &'a str,
    /// The upstream, if the command names it.
    pub(in crate::commands) upstream: Option<&'a str>,
}

/// A tool or prompt of an upstream, as the upstream listed it when it was last asked.
pub(in crate::commands) struct Known {
    pub(in crate::commands) upstream: String,
    pub(in crate::commands) own: String,
    /// The name that it would have if no other upstream had it.
    pub(in crate::commands) natural: Option<String>,
}

/// The tool or prompt that is shown under the name. Rules also hold by the name that it would have without a conflict, and a
/// shown name does not tell that one.
pub(in crate::commands) fn remembered(named: Named<'_>, config: &Config, memory: &Memory) -> Option<Known> {
    if !matches!(named.kind, Kind::Tool | Kind::Prompt) {
        return None;
    }
    let wanted = |name: &str| named.upstream.is_none_or(|wanted| wanted == name);
    enabled(config).filter(|(name, _)| wanted(name)).find_map(|(name, upstream)| {
        let naming = upstream.naming(name);
        let owns = from_config::target(upstream).and_then(|target| memory.names(name, &target))?;
        owns.into_iter().find_map(|own| {
            let shown = naming.shown(&own)?;
            let natural = if shown == named.name { None } else { Some(shown) };
            let is_meant = natural.is_none() || naming.instead(&own) == named.name;
            is_meant.then(|| Known { upstream: name.to_owned(), own, natural })
        })
    })
}

/// The prefixes of configured upstreams that the name begins with, the longest last: the upstream that it belongs to.
pub(in crate::commands) fn prefixes_of(name: &str, config: &Config) -> Vec<String> {
    let within = |prefix: &&str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(BETWEEN));
    let prefixes = enabled(config).filter_map(|(name, upstream)| upstream.effective_prefix(name)).filter(within);
    let mut prefixes: Vec<_> = prefixes.map(str::to_owned).collect();
    prefixes.order_by_key(String::len);
    prefixes
}

fn enabled(config: &Config) -> impl Iterator<Item = (&str, &UpstreamConfig)> {
    config.upstreams.0.iter().filter(|(_, upstream)| upstream.enabled).map(|(name, one)| (name.as_str(), one))
}

/// The error for a tool that is not in the list because the configuration withholds it from a local caller. `None` if it
/// does not, or if the upstream had no such tool when it was last asked.
pub(in crate::commands) fn withheld(name: &str, config: &Config) -> Option<CommandError> {
    let data = config::data_dir(std::env::var_os(config::env::DATA_DIR).as_deref().map(std::path::Path::new));
    let ours = Toolbox.tools().into_iter().find(|tool| tool.name == name);
    let mut tool = ours.clone().unwrap_or_else(|| Tool::plain(name, ""));
    let (mut upstream, mut own) = ("", name.to_owned());
    if ours.is_none() {
        let owner = Owner::of(name, config)?;
        if let Some(listed) = owner.listed(&Memory::in_folder(data)) {
            let found = listed.into_iter().find(|tool| tool.name == owner.own)?;
            tool = Tool { name: name.to_owned(), ..found };
        }
        (upstream, own) = (owner.name, owner.own);
        if owner.upstream.naming(upstream).shown(&own).is_none() {
            let error = anyhow!("`{}` is hidden by `hide` or `only` of [upstreams.{upstream}]", plain(name));
            return Some(of_user(error, "`gladhand config show` shows these settings"));
        }
    }
    let policy = config.policy.policy(&config.profiles, &config.authorization.tool_scopes);
    let who = Who { principal: None, client: OUR_NAME, session: SessionId::NONE, scopes: None };
    let mut prefixes = prefixes_of(name, config);
    let prefix = prefixes.pop();
    let what = CallTarget::tool(upstream, &own, &tool).among(prefix.as_deref(), &prefixes);
    let test = format!(
        "`gladhand policy test {} --client {OUR_NAME}` explains it",
        crate::commands::shared::suggest::shell_word(name)
    );
    if let Some(rule) = policy.denied_always(&who, &what) {
        let reason = if rule.reason.is_empty() { String::new() } else { format!(": {}", plain(&rule.reason)) };
        let error = anyhow!("policy forbids `{}` (rule `{}`){reason}", plain(name), plain(&rule.name));
        return Some(of_user(error, &test));
    }
    if let Some(profile) = policy.profile(&who).filter(|profile| profile.shown(&what).is_none()) {
        let error = anyhow!("the profile `{}` does not show `{}`", plain(&profile.name), plain(name));
        return Some(of_user(error, &test));
    }
    let pins = stopping_pins(config);
    let pins = pins?;
    if let Some(why) = pins.why_unpinned(upstream, &own).filter(|_| ours.is_none()) {
        let error = anyhow!("the definition of `{}` cannot be compared: {}", plain(name), plain(&why));
        return Some(of_user(error, "make the data folder writable, or name another one with GLADHAND_DATA_DIR"));
    }
    let waiting = pins.waiting();
    waiting.iter().any(|one| one.name == name).then(|| {
        let error = anyhow!("`{}` has changed since it was first seen, and waits for your approval", plain(name));
        of_user(error, "`gladhand policy approve` shows the change")
    })
}

/// The pins, if changed definitions are stopped.
fn stopping_pins(config: &Config) -> Option<PinFile> {
    let data = config::data_dir(std::env::var_os(config::env::DATA_DIR).as_deref().map(std::path::Path::new));
    let data = data.filter(|_| config.policy.pin == PinMode::Stop)?;
    PinFile::open(data.join(pins::NAME)).ok()
}

/// A sentence about definitions that are left out of all lists because they cannot be pinned, if there may be any.
pub(in crate::commands) fn unpinned(config: &Config) -> Option<String> {
    let why = stopping_pins(config)?.why_unwritable()?;
    Some(format!("definitions without a pin are not used: {why}"))
}

/// An error about the user's own settings. For a script it is the same as an unknown tool.
fn of_user(error: anyhow::Error, hint: &str) -> CommandError {
    CommandError::usage(error).code(FailureKind::UnknownTool.word()).hint(hint)
}

/// The upstream that a shown name belongs to.
struct Owner<'c> {
    name: &'c str,
    upstream: &'c UpstreamConfig,
    /// The name of the tool there.
    own: String,
}

impl<'c> Owner<'c> {
    /// The upstream whose prefix fits best.
    fn of(shown: &str, config: &'c Config) -> Option<Self> {
        let fitting = enabled(config).filter_map(|(name, one)| Some((one.naming(name).fits(shown)?, name, one)));
        let (_, name, upstream) = fitting.max_by_key(|(fit, ..)| *fit)?;
        let renamed = upstream.rename.iter().find(|(_, renamed)| *renamed == shown).map(|(own, _)| own.clone());
        let own = renamed.unwrap_or_else(|| match upstream.effective_prefix(name) {
            Some(prefix) => shown.strip_prefix(&format!("{prefix}{BETWEEN}")).unwrap_or(shown).to_owned(),
            None => shown.to_owned(),
        });
        Some(Self { name, upstream, own })
    }

    /// The tools that it had when it was last asked.
    fn listed(&self, memory: &Memory) -> Option<Vec<Tool>> {
        let target = from_config::target(self.upstream)?;
        let (listed, _) = memory.listed(self.name, &target)?;
        Some(listed.tools.to_vec())
    }
}
