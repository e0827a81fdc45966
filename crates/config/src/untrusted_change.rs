//! A change of the configuration that is not trusted yet: only what narrows applies.
//!
//! A running process follows its files. If one of its own tools or agents could have written a file, a change of that file
//! may come from a peer. Such a change narrows at once and widens only after the user has trusted it.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};

use gladhand_core::Pattern;
use gladhand_core::Secret;
use gladhand_hub::policy::Effect;
use serde::Serialize;

use super::policy::RuleConfig;
use super::program_environment::usual;
use super::upstreams::Origin;
use super::{
    A2eConfig, AgentConfig, AgentPass, Approve, AuthorizationConfig, Config, DpopConfig, PolicyConfig, TokenConfig,
    UpstreamConfig,
};

/// How many lists of rules and how many limits changes may add before the user trusts one of them. Beyond it everything is
/// denied, because a rule that is not added would be one that the operator relies on.
const MOST_PENDING: usize = 64;

/// The same for limits, those of the approved files among them.
const MOST_LIMITS: usize = 256;

/// Every class of the agent's own tools.
const EVERY_CLASS: [&str; 4] = ["reads", "writes", "runs", "network"];

impl Config {
    /// This configuration with every stricter setting of a proposed one. Everything else is unchanged.
    pub fn narrowed_by(&self, proposed: &Self) -> Self {
        let mut narrowed = self.clone();
        narrowed.upstreams.0.retain_mut(|(name, upstream)| {
            let is_same =
                |other: &str, one: &UpstreamConfig| other == name && one.enabled && one.origin == upstream.origin;
            let kept = proposed.upstreams.0.iter().find(|(other, one)| is_same(other, one));
            kept.inspect(|(_, proposed)| upstream.narrow_by(proposed)).is_some()
        });
        narrowed.policy.narrow_by(&proposed.policy);
        for (name, profile) in &mut narrowed.profiles {
            if let Some(proposed) = proposed.profiles.get(name) {
                add_new(&mut profile.hide, &proposed.hide);
            }
        }
        narrowed.toolbox.enabled &= proposed.toolbox.enabled;
        narrowed.agent.narrow_by(&proposed.agent);
        if narrowed.policy.is_closed() {
            add_new(&mut narrowed.agent.deny, &EVERY_CLASS.map(str::to_owned));
        }
        narrowed.authorization.narrow_by(&proposed.authorization);
        narrowed.a2e.narrow_by(&proposed.a2e);
        narrowed
    }

    /// Whether a project file has added upstreams.
    pub fn has_project_upstreams(&self) -> bool {
        self.upstreams.0.iter().any(|(_, upstream)| upstream.origin == Origin::Project)
    }

    /// Removes the upstreams that a project file has added.
    pub fn remove_project_upstreams(&mut self) {
        self.upstreams.0.retain(|(_, upstream)| upstream.origin != Origin::Project);
    }

    /// Whether an endpoint lets in no client until a change of its tokens is trusted.
    pub fn is_locked(&self) -> bool {
        self.authorization.is_closed || self.a2e.lock.is_some()
    }

    /// Whether a proposed configuration asks for tokens at an endpoint that is open.
    pub fn closes_for(&self, proposed: &Self) -> bool {
        let (http, a2e) = (&self.authorization, &self.a2e);
        let is_open = !http.is_required() && !http.is_closed;
        (is_open && proposed.authorization.is_required())
            || (!a2e.is_required() && a2e.lock.is_none() && proposed.a2e.is_required())
    }

    /// Everyone who has another token in a proposed configuration.
    pub fn changed_tokens<'c>(&'c self, proposed: &'c Self) -> Vec<&'c str> {
        let tokens = |config: &'c Self| config.authorization.tokens.iter().map(TokenConfig::identity);
        let agents = |config: &'c Self| config.a2e.agents.iter().map(AgentPass::identity);
        let over_http = changed(tokens(self), &tokens(proposed).collect());
        over_http.into_iter().chain(changed(agents(self), &agents(proposed).collect())).collect()
    }

    /// Whether a tool or an agent of this process could have written a file without a question to the user.
    ///
    /// Such tools are: the agent, if it writes or runs without approval; every program that A2E starts; and every upstream that is
    /// a program of this machine. A program has the rights of this user, and roots are no sandbox for it. A file that this user
    /// cannot write is safe.
    pub fn exposes(&self, file: &Path) -> bool {
        let has_programs = self.programs().next().is_some() || self.a2e.starts_programs();
        is_writable(file) && (has_programs || self.agent.acts_freely())
    }

    /// Whether a tool or an agent of this process is known to write in a folder around this file. These are the tools of
    /// [`Self::exposes`], except upstreams without such a folder in their arguments, variables or `cwd`, and programs of A2E whose
    /// roots are elsewhere.
    pub fn names(&self, file: &Path) -> bool {
        let holds = |place: &Path| is_around(place, file);
        let roots = &self.a2e.roots;
        let has_root = roots.is_empty() || roots.iter().any(|root| holds(root));
        self.programs().any(|one| one.places().iter().any(|place| holds(place)))
            || self.agent.acts_freely()
            || (self.a2e.starts_programs() && has_root)
    }

    fn programs(&self) -> impl Iterator<Item = &UpstreamConfig> {
        self.upstreams.0.iter().map(|(_, one)| one).filter(|one| one.enabled && one.url.is_none())
    }
}

/// Whether a folder holds a file, or is that file. A file that is not there is taken to be everywhere.
fn is_around(place: &Path, file: &Path) -> bool {
    let Ok(file) = std::fs::canonicalize(file) else { return true };
    std::fs::canonicalize(place).is_ok_and(|place| file.starts_with(place))
}

/// Whether this user can write a file, or put another one in its place.
fn is_writable(file: &Path) -> bool {
    let Ok(file) = std::fs::canonicalize(file) else { return true };
    #[cfg(unix)]
    let can_write = |place: &Path| rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok();
    #[cfg(not(unix))]
    let can_write = |_: &Path| true;
    file.ancestors().any(can_write)
}

impl PolicyConfig {
    /// Takes over the rules and limits that are new, and each setting that is stricter.
    fn narrow_by(&mut self, proposed: &Self) {
        let is_closed = self.is_closed();
        for rules in std::iter::once(&proposed.rules).chain(&proposed.narrowing).filter(|_| !is_closed) {
            let known = std::iter::once(&self.rules).chain(&self.narrowing).any(|list| is_same(list, rules));
            let narrows = rules.iter().any(|rule| rule.effect != Effect::Allow);
            if narrows && !known {
                self.narrowing.push(rules.clone());
            }
        }
        let mut known: HashSet<_> = self.limits.iter().map(written).collect();
        for limit in proposed.limits.iter().filter(|_| !is_closed) {
            // One more than the most closes everything, and no further one is needed.
            if self.limits.len() <= MOST_LIMITS && known.insert(written(limit)) {
                self.limits.push(limit.clone());
            }
        }
        if self.narrowing.len() > MOST_PENDING || self.limits.len() > MOST_LIMITS {
            self.narrowing = vec![closing()];
        }
        self.pin = self.pin.max(proposed.pin);
        self.invisible = self.invisible.max(proposed.invisible);
        self.violations = self.violations.max(proposed.violations);
        self.validate_arguments |= proposed.validate_arguments;
    }

    /// Whether there were too many changes without trust, so that everything is denied.
    pub fn is_closed(&self) -> bool {
        self.narrowing.iter().any(|rules| is_same(rules, &closing()))
    }
}

impl AgentConfig {
    /// Whether the agent writes files or runs programs without approval.
    fn acts_freely(&self) -> bool {
        let is_free =
            self.approve == Approve::All || self.allow.iter().any(|name| name != "reads" && name != "network");
        self.enabled && is_free
    }

    /// Asks and denies where one of the two does, and allows what both allow.
    fn narrow_by(&mut self, proposed: &Self) {
        add_new(&mut self.deny, &proposed.deny);
        add_new(&mut self.ask, &proposed.ask);
        keep_common(&mut self.allow, &proposed.allow);
        self.approve = self.approve.or_stricter(proposed.approve);
    }
}

impl AuthorizationConfig {
    /// Keeps the tokens, issuers and audiences that a proposed section has too, and asks for the scopes of both. If none is
    /// left and the proposed section asks for tokens, no request is let in.
    fn narrow_by(&mut self, proposed: &Self) {
        // The first of several that are equal counts.
        let known: HashMap<_, _> = proposed.tokens.iter().rev().map(|token| (token.identity(), token)).collect();
        self.tokens.retain_mut(|token| {
            let kept = known.get(&token.identity()).copied();
            if let Some(scopes) = kept.and_then(|kept| kept.scopes.as_ref()) {
                keep_common(token.scopes.get_or_insert_with(|| scopes.clone()), scopes);
            }
            kept.is_some()
        });
        let issuers: HashSet<_> = proposed.issuers.iter().map(written).collect();
        self.issuers.retain(|issuer| issuers.contains(&written(issuer)));
        keep_common(&mut self.audiences, &proposed.audiences);
        match (self.dpop, proposed.dpop) {
            (own, other) if own == other => {}
            (DpopConfig::Accepted, stricter) => self.dpop = stricter,
            (_, DpopConfig::Accepted) => {}
            // One section accepts only bound tokens, the other only tokens that are not bound.
            _ => self.issuers.clear(),
        }
        if self.resource != proposed.resource {
            // Tokens for the old address are not accepted any more, and those for the new one wait for trust.
            self.issuers.clear();
        }
        add_new(&mut self.scopes, &proposed.scopes);
        for (tool, scopes) in &proposed.tool_scopes {
            add_new(self.tool_scopes.entry(tool.clone()).or_default(), scopes);
        }
        self.is_closed |= !self.is_required() && proposed.is_required();
    }
}

impl A2eConfig {
    /// Keeps the tokens that a proposed section has too, with the capabilities that both open. If none is left and the
    /// proposed section asks for tokens, no agent is let in.
    fn narrow_by(&mut self, proposed: &Self) {
        let tokens: HashSet<_> = proposed.tokens.iter().map(Secret::expose).collect();
        self.tokens.retain(|token| tokens.contains(token.expose()));
        let known: HashMap<_, _> = proposed.agents.iter().rev().map(|agent| (agent.identity(), agent)).collect();
        self.agents.retain_mut(|agent| {
            let kept = known.get(&agent.identity()).copied();
            if let Some(capabilities) = kept.and_then(|kept| kept.capabilities.as_ref()) {
                let own = agent.capabilities.get_or_insert_with(|| capabilities.clone());
                own.retain(|name| capabilities.contains(name));
            }
            kept.is_some()
        });
        if !self.is_required() && proposed.is_required() {
            self.lock.get_or_insert_with(gladhand_system::random_token);
        }
    }
}

impl UpstreamConfig {
    /// Hides what a proposed configuration hides too, shows only what both show, and separates callers if one of the two does.
    fn narrow_by(&mut self, proposed: &Self) {
        add_new(&mut self.hide, &proposed.hide);
        self.isolated |= proposed.isolated;
        keep_common(&mut self.client_roots, &proposed.client_roots);
        let own: HashSet<_> = self.only.iter().collect();
        let is_narrower = own.is_empty() || proposed.only.iter().all(|name| own.contains(name));
        if is_narrower && !proposed.only.is_empty() {
            self.only.clone_from(&proposed.only);
        }
    }

    /// Every file and folder in the arguments and variables of the program, in any syntax: `--mount src=DIR,dst=/x`,
    /// `{"root":"DIR"}`, `~/x`, `$HOME/x`. If a shell computes an argument at run time, the root folder stands for it.
    fn places(&self) -> Vec<PathBuf> {
        let program_environment = self.program_environment();
        let start = program_environment.folder.unwrap_or_else(|| PathBuf::from("."));
        let usual: Vec<_> = usual().map(|name| Pattern(name.to_owned())).collect();
        let fits = |patterns: &[Pattern], name: &str| patterns.iter().any(|pattern| pattern.fits(name));
        let is_inherited =
            |name: &str| program_environment.inherits.as_ref().is_none_or(|patterns| fits(patterns, name));
        let inherited = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.to_str().filter(|name| is_inherited(name) && !fits(&usual, name))?;
            // A variable of its own takes the place of ours.
            (!self.env.contains_key(name)).then(|| value.into_string().ok())?
        });
        let arguments = self.command.iter().skip(1).chain(&self.args).map(|word| self.expanded(word));
        let variables = self.env.values().map(|value| value.0.expose().to_owned());
        let home = crate::home_dir();
        let mut places: Vec<_> = self.cwd.iter().chain(&self.client_roots).cloned().collect();
        for value in arguments.chain(variables).chain(inherited) {
            let parts = value.split(|c: char| c.is_whitespace() || "=,:;\"'{}[]()<>&|".contains(c));
            let place = |part: &str| match (part.strip_prefix('~'), &home) {
                (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
                _ => start.join(part),
            };
            places.extend(parts.filter(|part| !part.is_empty()).map(place).chain([start.join(&value)]));
        }
        places
    }

    /// An argument with the values of its variables, as a shell expands it. The result of a command substitution could be any
    /// folder, so the root folder stands for it.
    fn expanded(&self, word: &str) -> String {
        if word.contains("$(") || word.contains('`') {
            return std::path::MAIN_SEPARATOR_STR.to_owned();
        }
        let mut parts = word.split('$');
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let part = part.trim_start_matches('{');
            let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            let own = self.env.get(name).map(|value| value.0.expose().to_owned());
            expanded.push_str(&own.or_else(|| std::env::var(name).ok()).unwrap_or_default());
            expanded.push_str(rest);
        }
        expanded
    }
}

/// A name with its token. No peer sees how long comparing takes.
type Identity<'c> = (&'c str, &'c str);

impl TokenConfig {
    fn identity(&self) -> Identity<'_> {
        (&self.name, self.token.expose())
    }
}

impl AgentPass {
    fn identity(&self) -> Identity<'_> {
        (&self.id, self.token.0.expose())
    }
}

/// The names whose tokens are others in the proposed list.
fn changed<'c>(own: impl Iterator<Item = Identity<'c>>, proposed: &HashSet<Identity<'c>>) -> Vec<&'c str> {
    let names: HashSet<_> = proposed.iter().map(|(name, _)| *name).collect();
    let is_changed = |one: &Identity<'_>| names.contains(one.0) && !proposed.contains(one);
    own.filter(is_changed).map(|(name, _)| name).collect()
}

/// The rules that are in force after too many changes without trust.
fn closing() -> Vec<RuleConfig> {
    vec![RuleConfig::deny_everything("too-many-changes", "the configuration changed too often without being trusted")]
}

/// Adds the names that are new. A tool chooses how many there are, so the work is linear.
fn add_new(names: &mut Vec<String>, more: &[String]) {
    let mut known: HashSet<_> = names.iter().cloned().collect();
    names.extend(more.iter().filter(|name| known.insert(String::clone(name))).cloned());
}

/// Removes everything that the other list does not have.
fn keep_common<T: Eq + Hash>(own: &mut Vec<T>, other: &[T]) {
    let other: HashSet<_> = other.iter().collect();
    own.retain(|one| other.contains(one));
}

/// Whether two settings are written alike.
fn is_same<T: Serialize>(one: &T, other: &T) -> bool {
    written(one) == written(other)
}

/// A setting as it is written, so that it can be compared.
fn written<T: Serialize>(setting: &T) -> Option<String> {
    serde_json::to_string(setting).ok()
}

#[cfg(test)]
mod tests {
    use gladhand_core::operations::Tool;
    use gladhand_hub::SessionId;
    use gladhand_hub::policy::{CallTarget, Decision, Who};
    use serde_json::value::RawValue;

    use super::super::{File, Lookup, Reading};
    use super::*;

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
            "[upstreams.a]\ncommand = 'evil'\nisolated = true\nhide = ['h']\nonly = ['o']\n[upstreams.c]\ncommand = 'c'\n\
             [[policy.rules]]\ntools = ['y']\neffect = 'deny'\n[[policy.limits]]\ncalls = 1\n[toolbox]\nenabled = false\n",
        );
        let narrowed = before.narrowed_by(&proposed);
        let [(name, a)] = &narrowed.upstreams.0[..] else { panic!("{:?}", narrowed.upstreams) };
        assert_eq!((name.as_str(), &a.command[..]), ("a", &["a".to_owned()][..]));
        assert!(a.isolated && narrowed.narrowed_by(&before).upstreams.0[0].1.isolated);
        assert_eq!((&a.hide[..], &a.only[..]), (&["h".to_owned()][..], &["o".to_owned()][..]));
        assert_eq!(
            (narrowed.policy.rules.len(), narrowed.policy.narrowing.len(), narrowed.policy.limits.len()),
            (1, 1, 1)
        );
        assert_eq!(narrowed.policy.pin, before.policy.pin);
        assert!(!narrowed.toolbox.enabled);
        // A token that is gone is gone, and a new one does not come in.
        let tokens = |names: &[&str]| {
            let token = |name: &&str| format!("[[authorization.tokens]]\nname = '{name}'\ntoken = '{name}'\n");
            let agent = |name: &&str| format!("[[a2e.agents]]\nid = '{name}'\ntoken = '{name}'\n");
            config(&names.iter().map(token).chain(names.iter().map(agent)).collect::<String>())
        };
        let kept = tokens(&["ann", "bob"]).narrowed_by(&tokens(&["bob", "eve"]));
        let names: Vec<_> = kept.authorization.tokens.iter().map(|token| token.name.as_str()).collect();
        let agents: Vec<_> = kept.a2e.agents.iter().map(|agent| agent.id.as_str()).collect();
        assert_eq!((names, agents), (vec!["bob"], vec!["bob"]));
        // The same change again adds nothing, and neither does a list that denies nothing.
        let again = narrowed.narrowed_by(&proposed).narrowed_by(&config("[[policy.rules]]\neffect = 'allow'\n"));
        assert_eq!(again.policy.narrowing.len(), 1);
    }

    #[test]
    fn a_first_token_in_an_untrusted_change_closes_the_endpoint() {
        let token = "[[authorization.tokens]]\nname = 'ann'\ntoken = 'ann'\n";
        let issuer = "[authorization]\nresource = 'https://me.example'\n[[authorization.issuers]]\nissuer = 'https://as.example'\n";
        for first in [token, issuer] {
            let narrowed = Config::default().narrowed_by(&config(first)).narrowed_by(&config(first));
            assert!(narrowed.is_locked() && !narrowed.authorization.is_required());
            assert!(narrowed.authorization.is_closed);
            assert!(narrowed.a2e.lock.is_none(), "that section is as it was");
        }
        for first in ["[a2e]\ntokens = ['t']\n", "[[a2e.agents]]\nid = 'ann'\ntoken = 't'\n"] {
            let narrowed = Config::default().narrowed_by(&config(first));
            let lock = narrowed.a2e.lock.as_ref().unwrap();
            assert!(lock.expose().len() == 64 && narrowed.narrowed_by(&config(first)).a2e.lock.unwrap().matches(lock));
            assert!(!narrowed.authorization.is_closed);
        }
        assert!(!Config::default().narrowed_by(&Config::default()).is_locked());
    }

    #[test]
    fn a_changed_token_closes_until_it_is_trusted_and_is_named() {
        let token = |value: &str| config(&format!("[[authorization.tokens]]\nname = 'ann'\ntoken = '{value}'\n"));
        let agent = |value: &str| config(&format!("[[a2e.agents]]\nid = 'ann'\ntoken = '{value}'\n"));
        for of in [&token as &dyn Fn(&str) -> Config, &agent] {
            let (before, proposed) = (of("old"), of("new"));
            assert_eq!(before.changed_tokens(&proposed), ["ann"]);
            assert!(!before.closes_for(&proposed), "it asked for a token before");
            assert!(before.narrowed_by(&proposed).is_locked());
            assert!(before.changed_tokens(&before).is_empty() && !before.narrowed_by(&before).is_locked());
            assert!(!before.narrowed_by(&Config::default()).is_locked(), "no token waits");
            assert!(before.changed_tokens(&Config::default()).is_empty(), "that one is removed");
            assert!(Config::default().closes_for(&proposed));
            assert!(!Config::default().narrowed_by(&proposed).closes_for(&of("newer")), "it is closed already");
        }
    }

    #[test]
    fn stricter_conditions_on_tokens_of_issuers_hold_at_once() {
        let with = |more: &str| {
            let section =
                format!("[authorization]\n{more}\n[[authorization.issuers]]\nissuer = 'https://as.example'\n");
            let resource = if more.contains("resource") { "" } else { "resource = 'https://me.example'\n" };
            config(&section.replace("[authorization]\n", &format!("[authorization]\n{resource}"))).authorization
        };
        let narrowed_by = |before: &str, after: &str| {
            let mut narrowed = with(before);
            narrowed.narrow_by(&with(after));
            (narrowed.issuers.len(), narrowed.dpop, narrowed.audiences.join(" "))
        };
        let none = String::new;
        assert_eq!(narrowed_by("", "dpop = 'required'"), (1, DpopConfig::Required, none()));
        assert_eq!(narrowed_by("", "dpop = 'off'"), (1, DpopConfig::Off, none()));
        assert_eq!(narrowed_by("dpop = 'required'", ""), (1, DpopConfig::Required, none()));
        assert_eq!(narrowed_by("dpop = 'required'", "dpop = 'off'").0, 0, "no token fits both");
        assert_eq!(narrowed_by("audiences = ['a', 'b']", "audiences = ['b', 'c']").2, "b");
        assert_eq!(narrowed_by("", "resource = 'https://other.example'").0, 0);
        assert_eq!(narrowed_by("", ""), (1, DpopConfig::Accepted, none()));
    }

    #[test]
    fn a_relative_file_of_keys_stays_the_same_while_a_change_waits() {
        let with = |file: &str, more: &str, reading| {
            let text = format!(
                "{more}[authorization]\nresource = 'https://me.example'\n[[authorization.issuers]]\n\
                 issuer = 'https://as.example'\njwks_file = '{file}'\n"
            );
            File { path: "/etc/g/gladhand.toml".into(), text }.parse(reading).unwrap()
        };
        let (variable, secret) = (|_: &str| None, |_: &str| Err(String::new()));
        let lookup = Lookup { variable: &variable, secret: &secret, authorities: &|_| Ok(()) };
        let before = with("keys.json", "", Reading::Whole(&lookup));
        let files = |config: &Config| {
            let issuers = config.authorization.issuers.iter();
            issuers.map(|issuer| issuer.jwks_file.clone().unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(files(&before), ["/etc/g/keys.json"]);
        for same in ["keys.json", "./keys.json", "/etc/g/keys.json"] {
            let narrowed = before.narrowed_by(&with(same, "[toolbox]\nenabled = false\n", Reading::Resolved));
            assert_eq!((files(&narrowed), narrowed.toolbox.enabled), (files(&before), false), "{same}");
        }
        for other in ["other.json", "/etc/keys.json", "keys.json/../keys.json"] {
            let narrowed = before.narrowed_by(&with(other, "", Reading::Resolved));
            assert!(files(&narrowed).is_empty() && narrowed.authorization.is_closed, "{other}");
        }
    }

    #[test]
    fn after_too_many_changes_without_trust_everything_is_denied() {
        let rule = |name: &str| config(&format!("[[policy.rules]]\ntools = ['{name}']\neffect = 'deny'\n"));
        let limit = |name: &str| config(&format!("[[policy.limits]]\nname = '{name}'\ncalls = 1\n"));
        for (change, most) in [(&rule as &dyn Fn(&str) -> Config, MOST_PENDING), (&limit, MOST_LIMITS)] {
            let mut narrowed = Config::default();
            for number in 0..most {
                narrowed = narrowed.narrowed_by(&change(&format!("t{number}"))).narrowed_by(&change("t0"));
            }
            assert!(!narrowed.policy.is_closed(), "each change counts once");
            narrowed = narrowed.narrowed_by(&change("last"));
            assert!(narrowed.policy.is_closed());
            for number in 0..200 {
                narrowed = narrowed.narrowed_by(&change(&format!("u{number}")));
            }
            assert_eq!(narrowed.policy.narrowing.len(), 1);
            assert!(narrowed.policy.limits.len() <= MOST_LIMITS + 1);
            assert!(
                ["reads", "writes", "runs", "network"].iter().all(|class| narrowed
                    .agent
                    .deny
                    .iter()
                    .any(|one| one == class))
            );
            let policy = narrowed.policy.policy(&narrowed.profiles, &narrowed.authorization.tool_scopes);
            let tool = Tool::plain("anything", "");
            let who = Who { principal: None, client: "", session: SessionId::NONE, scopes: None };
            let decision = policy.decide(&who, &CallTarget::tool("u", "anything", &tool), RawValue::NULL);
            assert!(matches!(decision, Decision::Deny { .. }), "{decision:?}");
        }
    }

    #[test]
    fn every_configured_program_may_have_written_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("g.toml");
        std::fs::write(&file, "").unwrap();
        let exposes = |text: &str| config(text).exposes(&file);
        assert!(exposes("[upstreams.a]\ncommand = 'a'\n"));
        assert!(!exposes("[upstreams.a]\ncommand = 'a'\nenabled = false\n"));
        assert!(!exposes("[upstreams.a]\nurl = 'https://example.com/mcp'\n"));
        assert!(exposes("[agent]\napprove = 'all'\n"));
        for program in
            ["[a2e.proc]\nallowed = ['cp']", "[a2e.env]\ncommands = { w = ['cp'] }", "[a2e.mcp]\ncommands = ['cp']"]
        {
            assert!(exposes(&format!("{program}\n")), "{program}");
            assert!(exposes(&format!("[a2e]\nroots = ['/no/such']\n{program}\n")), "roots are no sandbox: {program}");
        }
        assert!(!exposes(""));
    }

    #[test]
    fn a_place_is_named_in_arguments_variables_and_working_folders() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let file = inner.join("g.toml");
        std::fs::write(&file, "").unwrap();
        let (folder, inner) = (folder.path().display(), inner.display());
        let names_it = |text: String| config(&text).names(&file);
        let upstream = |more: String| format!("[upstreams.a]\ncommand = 'a'\n{more}\n");
        assert!(!names_it(upstream(String::new())));
        assert!(!names_it(upstream("args = ['--verbose', '/no/such/folder']".to_owned())));
        assert!(names_it(upstream(format!("args = ['{folder}']"))));
        assert!(names_it(upstream(format!("args = ['--root={inner}/../inner']"))));
        assert!(names_it(upstream(format!("args = ['--mount', 'type=bind,src={folder},dst=/x']"))));
        assert!(names_it(upstream(format!("args = ['sh', '-c', 'cd {folder} && exec serve']"))));
        assert!(names_it(upstream(format!("args = [{:?}]", format!("{{\"root\":\"{inner}\"}}")))));
        assert!(names_it(upstream(format!("args = ['{}']", file.display()))));
        assert!(names_it(upstream(format!("env = {{ DIRS = '/no/such:{inner}' }}"))));
        assert!(names_it(upstream(format!("args = ['.']\ncwd = '{inner}'"))));
        assert!(!names_it(upstream(format!("enabled = false\nargs = ['{folder}']"))));
        // A shell expands variables.
        assert!(names_it(upstream(format!("args = ['-c', 'serve $DIR/inner']\nenv = {{ DIR = '{folder}' }}"))));
        assert!(names_it(upstream(format!("args = ['-c', 'serve \"$${{DIR}}\"']\nenv = {{ DIR = '{folder}' }}"))));
        assert!(names_it(upstream("args = ['-c', 'serve $(cat folder)']".to_owned())));
        // The tests run in the folder of the crate, and cargo says so in a variable.
        let here = std::env::current_dir().unwrap().join("Cargo.toml");
        let names = |more: &str| config(&upstream(more.to_owned())).names(&here);
        assert!(!names(""));
        assert!(names("inherit_env = ['CARGO_MANIFEST_*']") && names("inherit_env = 'all'"));
        // Relative arguments begin in the home folder, where the program starts.
        let in_home = etcetera::home_dir().unwrap().canonicalize().unwrap();
        assert!(config(&upstream("args = ['.']".to_owned())).names(&in_home));
        assert!(names_it("[agent]\napprove = 'all'\n".to_owned()));
        assert!(names_it("[agent]\nallow = ['writes']\n".to_owned()));
        assert!(!names_it("[agent]\nallow = ['reads']\n".to_owned()));
        assert!(names_it(format!("[a2e]\nroots = ['{folder}']\n[a2e.proc]\nallowed = ['cp']\n")));
        assert!(!names_it("[a2e]\nroots = ['/no/such']\n[a2e.proc]\nallowed = ['cp']\n".to_owned()));
    }
}
