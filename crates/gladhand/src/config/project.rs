//! What a project file may say: it adds upstreams and narrows policy.
//!
//! Everything else in it is set aside, with its place, and the rest of the file holds.

use super::source::{Problem, Source};
use super::{AgentConfig, Approve, Config};

/// Something that a project file says and that has no effect, with its place and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside(pub Problem);

impl Config {
    /// Takes over what a project file may say. Returns what it may not.
    ///
    /// Rules of the project decide beside the user's, and the stricter decision holds, so the project may use `allow` among
    /// its own rules and still widens nothing.
    pub(super) fn narrow(&mut self, project: Self, places: &Source<'_>) -> Vec<SetAside> {
        let mut set_aside = Vec::new();
        let mut refuse = |path: &[&str], message: &str| set_aside.push(SetAside(places.problem(path, message)));
        for (section, key) in places.keys() {
            let path = [section, key];
            match path {
                ["upstreams", name] if self.upstreams.0.iter().any(|(own, _)| own == name) => {
                    refuse(&path, "not used: your own configuration has an upstream of this name");
                }
                ["upstreams", name] => {
                    let added = project.upstreams.0.iter().find(|(added, _)| added == name);
                    self.upstreams.0.extend(added.cloned());
                }
                ["policy", "rules"] => self.policy.narrowing.push(project.policy.rules.clone()),
                ["policy", "limits"] => self.policy.limits.extend(project.policy.limits.iter().cloned()),
                _ if self.takes_stricter(&path, &project) => {}
                ["policy", _] | ["agent", "approve" | "enabled"] | ["toolbox" | "repository", "enabled"] => {
                    refuse(&path, "not used: a project file cannot widen what your own configuration allows");
                }
                _ => refuse(&path, "not used: a project file can only add upstreams and narrow policy"),
            }
        }
        // The file names upstreams in the order in which it writes them.
        let place = |name: &str| project.upstreams.0.iter().position(|(added, _)| added == name).map_or(0, |at| at + 1);
        self.upstreams.0.sort_by_key(|(name, _)| place(name));
        set_aside
    }

    /// What of this project file has no effect, whatever the user's own configuration says.
    pub(crate) fn set_aside(&self, places: &Source<'_>) -> Vec<SetAside> {
        Self::default().narrow(self.clone(), places)
    }

    /// Takes over one setting if it is as strict as the one in force or stricter. Returns whether it was.
    fn takes_stricter(&mut self, path: &[&str; 2], project: &Self) -> bool {
        fn stricter<T: PartialOrd + Copy>(own: &mut T, other: T) -> bool {
            let is_stricter = other >= *own;
            if is_stricter {
                *own = other;
            }
            is_stricter
        }
        /// `false` is stricter than `true`.
        fn disabled(own: &mut bool, other: bool) -> bool {
            *own &= other;
            other == *own
        }
        let AgentConfig { approve, enabled, deny, ask, .. } = &project.agent;
        match path {
            ["policy", "pin"] => stricter(&mut self.policy.pin, project.policy.pin),
            ["policy", "violations"] => stricter(&mut self.policy.violations, project.policy.violations),
            ["policy", "validate_arguments"] => {
                stricter(&mut self.policy.validate_arguments, project.policy.validate_arguments)
            }
            ["agent", "approve"] => match (self.agent.approve, *approve) {
                (own, other) if strictness(other) >= strictness(own) => {
                    self.agent.approve = other;
                    true
                }
                _ => false,
            },
            ["agent", "enabled"] => disabled(&mut self.agent.enabled, *enabled),
            ["agent", "deny"] => {
                self.agent.deny.extend(deny.iter().cloned());
                true
            }
            ["agent", "ask"] => {
                self.agent.ask.extend(ask.iter().cloned());
                true
            }
            ["toolbox", "enabled"] => disabled(&mut self.toolbox.enabled, project.toolbox.enabled),
            ["repository", "enabled"] if project.repository.enabled == Some(false) => {
                self.repository.enabled = Some(false);
                true
            }
            _ => false,
        }
    }
}

fn strictness(approve: Approve) -> u8 {
    match approve {
        Approve::All => 0,
        Approve::Ask => 1,
        Approve::None => 2,
    }
}
