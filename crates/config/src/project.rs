//! The settings that a project file may make: it adds upstreams and narrows policy.
//!
//! Every other setting is ignored and reported with its place. The rest of the file applies.

use gladhand_hub::BETWEEN;

use super::policy::of_project;
use super::source::{Problem, Source};
use super::{AgentConfig, CapabilityName, Config, File, Origin, Reading, UpstreamConfig};

/// A setting of a project file that has no effect, with its place and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside(pub Problem);

impl Config {
    /// Merges the settings that a project file may make. Returns the others.
    ///
    /// Rules of the project and of the user both decide, and the stricter decision wins. So the project may use `allow`
    /// among its own rules and still widens nothing.
    pub(super) fn narrow(&mut self, project: Self, places: &Source<'_>) -> Vec<SetAside> {
        let mut set_aside = Vec::new();
        let mut refuse = |path: &[&str], message: &str| set_aside.push(SetAside(places.problem(path, message)));
        for (section, key) in places.keys() {
            let path = [section, key];
            match path {
                ["upstreams", name] if self.upstreams.0.iter().any(|(own, _)| own == name) => {
                    refuse(&path, "not used: your own configuration has an upstream of this name");
                }
                ["upstreams", name] if CapabilityName::ALL.iter().any(|capability| capability.word() == name) => {
                    refuse(&path, "not used: the name belongs to a capability of Gladhand itself");
                }
                ["upstreams", name] => {
                    let Some((_, added)) = project.upstreams.0.iter().find(|(added, _)| added == name) else {
                        continue;
                    };
                    match self.names_refused(name, added) {
                        Some(why) => refuse(&path, why),
                        None => {
                            let added = UpstreamConfig { origin: Origin::Project, ..added.clone() };
                            self.upstreams.0.push((name.to_owned(), added));
                        }
                    }
                }
                ["policy", "rules"] => self.policy.narrowing.push(of_project(&project.policy.rules)),
                ["policy", "limits"] => self.policy.limits.extend(project.policy.limits.iter().cloned()),
                _ if self.takes_stricter(&path, &project) => {}
                ["policy", _] | ["agent", "approve" | "enabled"] | ["toolbox" | "repository", "enabled"] => {
                    refuse(&path, "not used: a project file cannot widen what your own configuration allows");
                }
                _ => refuse(&path, "not used: a project file can only add upstreams and narrow policy"),
            }
        }
        set_aside
    }

    /// Why an upstream of a project may not show its names: they would not be under a prefix of its own, so a name like that
    /// of one of the user's tools could be among them.
    fn names_refused(&self, name: &str, added: &UpstreamConfig) -> Option<&'static str> {
        let is_within = |name: &str, prefix: &str| {
            name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(BETWEEN))
        };
        let Some(prefix) = added.effective_prefix(name) else {
            return Some("not used: an upstream of a project needs a prefix");
        };
        if !added.rename.values().all(|renamed| is_within(renamed, prefix) && renamed != prefix) {
            return Some("not used: a project file may rename only to names that begin with the prefix and `__`");
        }
        let mut own = self.upstreams.0.iter().filter_map(|(name, own)| own.effective_prefix(name));
        let is_close = own.any(|own| is_within(prefix, own) || is_within(own, prefix));
        is_close.then_some("not used: its names would begin like those of one of your own upstreams")
    }

    /// Returns the settings of a project file that have no effect in this configuration.
    pub fn set_aside(&self, project: &Self, places: &Source<'_>) -> Vec<SetAside> {
        self.clone().narrow(project.clone(), places)
    }

    /// The reasons why upstreams of a project file are refused. A grant would not help an upstream that this
    /// configuration leaves out anyway, so the reason for that one is another.
    pub fn refusals(&self, refused: Vec<Problem>, project: &File) -> Vec<SetAside> {
        if refused.is_empty() {
            return Vec::new();
        }
        let examined = project.examine(Reading::AsWritten);
        let unused = examined.config.map(|project| self.set_aside(&project, &examined.places)).unwrap_or_default();
        let reason = |problem: Problem| {
            unused.iter().find(|SetAside(one)| one.key == problem.key).cloned().unwrap_or(SetAside(problem))
        };
        refused.into_iter().map(reason).collect()
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
            ["policy", "invisible"] => stricter(&mut self.policy.invisible, project.policy.invisible),
            ["policy", "violations"] => stricter(&mut self.policy.violations, project.policy.violations),
            ["policy", "validate_arguments"] => {
                stricter(&mut self.policy.validate_arguments, project.policy.validate_arguments)
            }
            ["agent", "approve"] => {
                self.agent.approve = self.agent.approve.or_stricter(*approve);
                self.agent.approve == *approve
            }
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

#[cfg(test)]
mod tests {
    use super::super::{Approve, File, Reading};
    use super::*;

    fn narrowed(own: &str, project: &str) -> (Config, Vec<String>) {
        let mut config = super::super::parse(own, Reading::AsWritten).unwrap();
        let file = File { path: "gladhand.toml".into(), text: project.to_owned() };
        let examined = file.examine(Reading::AsWritten);
        let set_aside = config.narrow(examined.config.unwrap(), &examined.places);
        (config, set_aside.into_iter().map(|SetAside(problem)| problem.key).collect())
    }

    #[test]
    fn upstreams_are_added_behind_the_users_own_in_the_order_of_the_file() {
        let own = "[upstreams.z]\ncommand = 'own'\n";
        let project = "[upstreams.y]\ncommand = 'y'\n[upstreams.z]\ncommand = 'evil'\n[upstreams.b]\ncommand = 'b'\n";
        let (config, set_aside) = narrowed(own, project);
        let names: Vec<_> =
            config.upstreams.0.iter().map(|(name, one)| (name.as_str(), one.command[0].as_str())).collect();
        assert_eq!(names, [("z", "own"), ("y", "y"), ("b", "b")]);
        assert_eq!(set_aside, ["upstreams.z"]);
    }

    #[test]
    fn an_upstream_of_a_project_has_no_names_that_look_like_the_users() {
        let own = "[upstreams.gh]\ncommand = 'own'\n";
        let project = "[upstreams.gh__adm]\ncommand = 'x'\n[upstreams.y]\ncommand = 'y'\nprefix = 'gh'\n\
                       [upstreams.z]\ncommand = 'z'\nrename = { w = 'gh__w' }\n[upstreams.ghost]\ncommand = 'g'\n";
        let (config, set_aside) = narrowed(own, project);
        let names: Vec<_> = config.upstreams.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["gh", "ghost"]);
        assert_eq!(set_aside, ["upstreams.gh__adm", "upstreams.y", "upstreams.z"]);
    }

    #[test]
    fn a_looser_setting_is_set_aside_and_a_stricter_one_is_used() {
        let looser = "[policy]\npin = 'off'\nvalidate_arguments = false\n[agent]\napprove = 'all'\nallow = ['runs']\n";
        let own = "[policy]\npin = 'stop'\nvalidate_arguments = true\n[toolbox]\nenabled = false\n";
        let (config, set_aside) = narrowed(
            own,
            &format!("{looser}[toolbox]\nenabled = true\n[http]\nsessions = 1\n[record]\nfolder = '.'\n"),
        );
        let expected = [
            "policy.pin",
            "policy.validate_arguments",
            "agent.approve",
            "agent.allow",
            "toolbox.enabled",
            "http.sessions",
            "record.folder",
        ];
        assert_eq!(set_aside, expected);
        assert!(config.policy.validate_arguments && !config.toolbox.enabled && config.agent.approve == Approve::Ask);
        assert_eq!(config.record.folder, None);
        let stricter = "[policy]\npin = 'stop'\n[agent]\napprove = 'none'\ndeny = ['bash']\nenabled = false\n";
        let (config, set_aside) = narrowed("", stricter);
        assert_eq!(set_aside, Vec::<String>::new());
        assert!(config.agent.approve == Approve::None && config.agent.deny == ["bash"] && !config.agent.enabled);
    }
}
