//! A change of the configuration that is not trusted yet: only what narrows applies.
//!
//! A running process follows its files. If one of its own tools or agents could have written a file, a change of that file
//! may come from a peer. Such a change narrows at once and widens only after the user has trusted it.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{A2eConfig, AgentConfig, Approve, Config, Inherit, UpstreamConfig};
use crate::authorization::AuthorizationConfig;

/// How many lists of rules and how many limits changes may add before the user trusts one of them.
const MOST_PENDING: usize = 64;

impl Config {
    /// This configuration, narrowed by what a proposed one is stricter in. Everything else stays as it is.
    pub(crate) fn held(&self, proposed: &Self) -> Self {
        let mut held = self.clone();
        held.upstreams.0.retain_mut(|(name, upstream)| {
            let kept = proposed.upstreams.0.iter().find(|(other, other_config)| other == name && other_config.enabled);
            kept.inspect(|(_, proposed)| upstream.hold(proposed)).is_some()
        });
        for rules in std::iter::once(&proposed.policy.rules).chain(&proposed.policy.narrowing) {
            let is_known = |known: &&Vec<_>| is_same(known, &rules);
            let known = std::iter::once(&held.policy.rules).chain(&held.policy.narrowing).any(|list| is_known(&list));
            if !known && held.policy.narrowing.len() < MOST_PENDING {
                held.policy.narrowing.push(rules.clone());
            }
        }
        for limit in &proposed.policy.limits {
            let is_known = held.policy.limits.iter().any(|known| is_same(known, limit));
            if !is_known && held.policy.limits.len() < self.policy.limits.len() + MOST_PENDING {
                held.policy.limits.push(limit.clone());
            }
        }
        held.policy.pin = held.policy.pin.max(proposed.policy.pin);
        held.policy.invisible = held.policy.invisible.max(proposed.policy.invisible);
        held.policy.violations = held.policy.violations.max(proposed.policy.violations);
        held.policy.validate_arguments |= proposed.policy.validate_arguments;
        for (name, profile) in &mut held.profiles {
            if let Some(proposed) = proposed.profiles.get(name) {
                add_new(&mut profile.hide, &proposed.hide);
            }
        }
        held.toolbox.enabled &= proposed.toolbox.enabled;
        held.agent.hold(&proposed.agent);
        held.authorization.hold(&proposed.authorization);
        held.a2e.hold(&proposed.a2e);
        held
    }

    /// Whether a tool or an agent of this process could have written a file without a question to the user.
    ///
    /// Such tools are: the agent, if it writes or runs without approval; processes and skills of A2E below their roots; and an
    /// upstream that is told of the file or of a folder around it, in its arguments, its variables or its `cwd`.
    pub(crate) fn exposes(&self, file: &Path) -> bool {
        let Ok(file) = std::fs::canonicalize(file) else { return true };
        let holds = |place: &Path| std::fs::canonicalize(place).is_ok_and(|place| file.starts_with(place));
        let agent = &self.agent;
        let is_free =
            agent.approve == Approve::All || agent.allow.iter().any(|name| name != "reads" && name != "network");
        let agent_writes = agent.enabled && is_free;
        let a2e_writes = !self.a2e.proc.allowed.is_empty() || self.a2e.skill.path.is_some();
        let a2e_writes = a2e_writes && (self.a2e.roots.is_empty() || self.a2e.roots.iter().any(|root| holds(root)));
        agent_writes
            || a2e_writes
            || self
                .upstreams
                .0
                .iter()
                .filter(|(_, one)| one.enabled)
                .any(|(_, one)| one.places().any(|one| holds(&one)))
    }
}

impl AgentConfig {
    /// Asks and denies where one of the two does, and allows what both allow.
    fn hold(&mut self, proposed: &Self) {
        add_new(&mut self.deny, &proposed.deny);
        add_new(&mut self.ask, &proposed.ask);
        self.allow.retain(|name| proposed.allow.contains(name));
        self.approve = self.approve.or_stricter(proposed.approve);
    }
}

impl AuthorizationConfig {
    /// Keeps the tokens and issuers that a proposed section has too, and asks for the scopes of both.
    fn hold(&mut self, proposed: &Self) {
        self.tokens.retain_mut(|token| {
            let kept = proposed.tokens.iter().find(|kept| kept.name == token.name && kept.token.matches(&token.token));
            if let Some(scopes) = kept.and_then(|kept| kept.scopes.as_ref()) {
                let own = token.scopes.get_or_insert_with(|| scopes.clone());
                own.retain(|scope| scopes.contains(scope));
            }
            kept.is_some()
        });
        self.issuers.retain(|issuer| proposed.issuers.iter().any(|kept| is_same(kept, issuer)));
        add_new(&mut self.scopes, &proposed.scopes);
        for (tool, scopes) in &proposed.tool_scopes {
            add_new(self.tool_scopes.entry(tool.clone()).or_default(), scopes);
        }
    }
}

impl A2eConfig {
    /// Keeps the tokens that a proposed section has too, with the capabilities that both open.
    fn hold(&mut self, proposed: &Self) {
        self.tokens.retain(|token| proposed.tokens.iter().any(|kept| kept.matches(token)));
        self.agents.retain_mut(|agent| {
            let kept = proposed.agents.iter().find(|kept| kept.id == agent.id && kept.token == agent.token);
            if let Some(capabilities) = kept.and_then(|kept| kept.capabilities.as_ref()) {
                let own = agent.capabilities.get_or_insert_with(|| capabilities.clone());
                own.retain(|name| capabilities.contains(name));
            }
            kept.is_some()
        });
    }
}

impl UpstreamConfig {
    /// Hides what a proposed configuration hides too, and shows only what both show.
    fn hold(&mut self, proposed: &Self) {
        add_new(&mut self.hide, &proposed.hide);
        let is_narrower = self.only.is_empty() || proposed.only.iter().all(|name| self.only.contains(name));
        if is_narrower && !proposed.only.is_empty() {
            self.only.clone_from(&proposed.only);
        }
    }

    /// Every file and folder that the program is told of, in whatever syntax: `--mount src=DIR,dst=/x`, `{"root":"DIR"}`, `~/x`.
    fn places(&self) -> impl Iterator<Item = PathBuf> {
        let inherited = match &self.inherit_env {
            Inherit::All => Vec::new(),
            Inherit::Also(names) => names.iter().filter_map(|name| std::env::var(name).ok()).collect(),
        };
        let arguments = self.command.iter().skip(1).chain(&self.args).cloned();
        let variables = self.env.values().map(|value| value.0.expose().to_owned());
        let (home, start) = (etcetera::home_dir().ok(), self.cwd.clone().unwrap_or_else(|| PathBuf::from(".")));
        let named = arguments.chain(variables).chain(inherited).flat_map(move |value| {
            let parts = value.split(|c: char| c.is_whitespace() || "=,:;\"'{}[]()<>&|".contains(c));
            let place = |part: &str| match (part.strip_prefix('~'), &home) {
                (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
                _ => start.join(part),
            };
            let whole = start.join(&value);
            parts.filter(|part| !part.is_empty()).map(place).chain([whole]).collect::<Vec<_>>()
        });
        named.chain(self.cwd.clone()).filter(|place| place.exists())
    }
}

fn add_new(names: &mut Vec<String>, more: &[String]) {
    for name in more {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
}

/// Whether two settings are written alike.
fn is_same<T: Serialize>(one: &T, other: &T) -> bool {
    serde_json::to_value(one).ok() == serde_json::to_value(other).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Reading};

    fn config(text: &str) -> Config {
        super::super::parse(text, Reading::AsWritten).unwrap()
    }

    #[test]
    fn a_held_change_takes_away_and_adds_nothing() {
        let before = config(
            "[upstreams.a]\ncommand = 'a'\n[upstreams.b]\ncommand = 'b'\n\
             [[policy.rules]]\ntools = ['x']\neffect = 'deny'\n[policy]\npin = 'warn'\n",
        );
        let proposed = config(
            "[upstreams.a]\ncommand = 'evil'\nhide = ['h']\nonly = ['o']\n[upstreams.c]\ncommand = 'c'\n\
             [[policy.rules]]\neffect = 'allow'\n[[policy.limits]]\ncalls = 1\n[toolbox]\nenabled = false\n",
        );
        let held = before.held(&proposed);
        let [(name, a)] = &held.upstreams.0[..] else { panic!("{:?}", held.upstreams) };
        assert_eq!((name.as_str(), &a.command[..]), ("a", &["a".to_owned()][..]));
        assert_eq!((&a.hide[..], &a.only[..]), (&["h".to_owned()][..], &["o".to_owned()][..]));
        assert_eq!((held.policy.rules.len(), held.policy.narrowing.len(), held.policy.limits.len()), (1, 1, 1));
        assert_eq!(held.policy.pin, before.policy.pin);
        assert!(!held.toolbox.enabled);
        // A token that is gone is gone, and a new one does not come in.
        let tokens = |names: &[&str]| {
            let token = |name: &&str| format!("[[authorization.tokens]]\nname = '{name}'\ntoken = '{name}'\n");
            let agent = |name: &&str| format!("[[a2e.agents]]\nid = '{name}'\ntoken = '{name}'\n");
            config(&names.iter().map(token).chain(names.iter().map(agent)).collect::<String>())
        };
        let kept = tokens(&["ann", "bob"]).held(&tokens(&["bob", "eve"]));
        let names: Vec<_> = kept.authorization.tokens.iter().map(|token| token.name.as_str()).collect();
        let agents: Vec<_> = kept.a2e.agents.iter().map(|agent| agent.id.as_str()).collect();
        assert_eq!((names, agents), (vec!["bob"], vec!["bob"]));
        // The same change again adds nothing, and going back and forth stays bounded.
        let mut again = held.held(&proposed);
        assert_eq!(again.policy.narrowing.len(), 1);
        for number in 0..200 {
            again = again.held(&config(&format!("[[policy.rules]]\ntools = ['t{number}']\neffect = 'deny'\n")));
        }
        assert_eq!(again.policy.narrowing.len(), super::MOST_PENDING);
    }

    #[test]
    fn a_file_is_exposed_to_tools_that_could_write_it() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let file = inner.join("g.toml");
        std::fs::write(&file, "").unwrap();
        let (folder, inner) = (folder.path().display(), inner.display());
        let exposes = |text: String| config(&text).exposes(&file);
        let upstream = |more: String| format!("[upstreams.a]\ncommand = 'a'\n{more}\n");
        assert!(!exposes(upstream(String::new())));
        assert!(!exposes(upstream("args = ['--verbose', '/no/such/folder']".to_owned())));
        assert!(exposes(upstream(format!("args = ['{folder}']"))));
        assert!(exposes(upstream(format!("args = ['--root={inner}/../inner']"))));
        assert!(exposes(upstream(format!("args = ['--mount', 'type=bind,src={folder},dst=/x']"))));
        assert!(exposes(upstream(format!("args = ['sh', '-c', 'cd {folder} && exec serve']"))));
        assert!(exposes(upstream(format!("args = [{:?}]", format!("{{\"root\":\"{inner}\"}}")))));
        assert!(exposes(upstream(format!("args = ['{}']", file.display()))));
        assert!(exposes(upstream(format!("env = {{ DIRS = '/no/such:{inner}' }}"))));
        assert!(exposes(upstream(format!("args = ['.']\ncwd = '{inner}'"))));
        assert!(!exposes(upstream(format!("enabled = false\nargs = ['{folder}']"))));
        assert!(exposes("[agent]\napprove = 'all'\n".to_owned()));
        assert!(exposes("[agent]\nallow = ['writes']\n".to_owned()));
        assert!(!exposes("[agent]\nallow = ['reads']\n".to_owned()));
        assert!(exposes(format!("[a2e]\nroots = ['{folder}']\n[a2e.proc]\nallowed = ['cp']\n")));
        assert!(!exposes("[a2e]\nroots = ['/no/such']\n[a2e.proc]\nallowed = ['cp']\n".to_owned()));
    }
}
