//! The origin of each listed tool, and the names by which rules can refer to it.
//!
//! The shown name of a tool depends on profiles and on the names that other providers had first. A rule that restricts
//! a tool must hold under each of its names. A rule that allows a tool must not cover a tool of another provider. So
//! each tool carries all its names, and for each name whether the configuration ties it to this provider alone. The
//! names that providers offer at the moment do not count for that: a provider without a prefix can offer any name at
//! its next start.

use std::collections::HashSet;
use std::sync::Arc;

use gladhand_core::operations::{KnownName, Origin, Tool};

use crate::claims::is_within;
use crate::naming::BETWEEN;
use crate::routes::{Mount, Route};

/// How closely the configuration ties a name to a provider, the closest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tie {
    /// The provider cannot have the name.
    Impossible,
    /// The provider may have the name, as others may.
    Possible,
    /// The name begins with the prefix or with the name of the provider, which has this length in bytes.
    Prefix(usize),
}

/// The providers, and the names that those of this process list.
pub(crate) struct Origins<'r> {
    mounts: &'r [Mount],
    built_in: HashSet<(usize, &'r str)>,
}

impl<'r> Origins<'r> {
    /// Looks at all tools that are listed, with their routes.
    pub(crate) fn of(mounts: &'r [Mount], tools: &'r [Tool], routes: &'r [Route]) -> Self {
        let listed = tools.iter().zip(routes).filter(|(_, route)| !mounts[route.mount].provider.is_upstream());
        let names = listed.flat_map(|(tool, route)| [(route.mount, &*tool.name), (route.mount, &*route.own)]);
        Self { mounts, built_in: names.collect() }
    }

    /// The origin of a tool that is shown under a name; under several, if a profile renames it.
    pub(crate) fn origin<const N: usize>(&self, route: &Route, shown: [&str; N]) -> Arc<Origin> {
        let mount = &self.mounts[route.mount];
        let upstream = mount.upstream();
        let mut names: Vec<KnownName> = Vec::new();
        let prefixed = mount.naming.prefixed_name(&route.own);
        let with_upstream = (!upstream.is_empty()).then(|| format!("{upstream}{BETWEEN}{}", route.own));
        let others = [&*prefixed].into_iter().chain(route.taken_name()).chain(with_upstream.as_deref());
        for name in shown.into_iter().chain(others) {
            if !names.iter().any(|known| known.name == name) {
                names.push(KnownName { name: name.to_owned(), is_exclusive: self.is_exclusive(name, route.mount) });
            }
        }
        Arc::new(Origin { upstream: upstream.to_owned(), own: route.own.clone(), names, yields: mount.naming.yields })
    }

    /// Whether no provider but that of a mount can have a tool of this name. A provider that yields has no name for good.
    fn is_exclusive(&self, name: &str, mount: usize) -> bool {
        let yields = |place: usize| self.mounts[place].naming.yields;
        let own = self.tie(name, mount).max(Tie::Possible);
        let mut others = (0..self.mounts.len()).filter(|other| *other != mount && !yields(*other));
        !yields(mount) && others.all(|other| self.tie(name, other) < own)
    }

    /// How closely the configuration ties a name to a provider.
    fn tie(&self, name: &str, place: usize) -> Tie {
        let mount = &self.mounts[place];
        let naming = &mount.naming;
        let prefixes = [naming.prefix.as_deref(), Some(mount.upstream())].into_iter().flatten();
        let within = prefixes.filter(|prefix| !prefix.is_empty() && is_within(name, prefix)).map(str::len);
        let may_have = || {
            naming.renamed.values().any(|renamed| renamed == name)
                || (naming.prefix.is_none() && mount.provider.is_upstream())
                || self.built_in.contains(&(place, name))
        };
        match within.max() {
            Some(length) => Tie::Prefix(length),
            None if may_have() => Tie::Possible,
            None => Tie::Impossible,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::provider::Provider;
    use crate::{Hub, Naming};

    /// An upstream, or a provider of this process.
    #[derive(Debug)]
    struct Offering {
        name: &'static str,
        tools: &'static [&'static str],
        is_upstream: bool,
    }

    impl Provider for Offering {
        fn name(&self) -> &str {
            self.name
        }

        fn is_upstream(&self) -> bool {
            self.is_upstream
        }

        fn tools(&self) -> Vec<Tool> {
            self.tools.iter().map(|name| Tool::plain(*name, "")).collect()
        }
    }

    fn mount(name: &'static str, prefix: &str, tools: &'static [&'static str]) -> Mount {
        let naming = if prefix.is_empty() { Naming::default() } else { Naming::prefixed(prefix) };
        Mount { provider: Arc::new(Offering { name, tools, is_upstream: true }), naming }
    }

    /// The names of each tool of a provider, those that are exclusive with a mark.
    fn known(mounts: Vec<Mount>, upstream: &str) -> Vec<String> {
        let hub = Hub::of(mounts);
        let tools = hub.tools();
        let origins = tools.iter().filter_map(|tool| tool.origin.as_ref());
        let names = origins.filter(|origin| origin.upstream == upstream).flat_map(|origin| &origin.names);
        names.map(|known| format!("{}{}", known.name, if known.is_exclusive { "!" } else { "" })).collect()
    }

    #[test]
    fn a_tool_is_known_by_its_shown_name_its_prefix_and_its_upstream() {
        assert_eq!(known(vec![mount("git", "git", &["push"])], "git"), ["git__push!"]);
        assert_eq!(known(vec![mount("git", "g", &["push"])], "git"), ["g__push!", "git__push!"]);
        assert_eq!(known(vec![mount("git", "", &["push"])], "git"), ["push!", "git__push!"]);
        let renamed = BTreeMap::from([("push".to_owned(), "send".to_owned())]);
        let mut git = mount("git", "g", &["push"]);
        git.naming.renamed = renamed;
        assert_eq!(known(vec![git.clone()], "git"), ["send!", "g__push!", "git__push!"]);
        let mounts = vec![git, mount("other", "", &["x"])];
        assert_eq!(known(mounts, "git"), ["send", "g__push!", "git__push!"], "the other may offer `send` too");
    }

    #[test]
    fn a_name_that_two_upstreams_may_offer_is_exclusive_to_neither() {
        let mounts = |evil| vec![mount("evil", "", evil), mount("mine", "", &["deploy"])];
        assert_eq!(known(mounts(&[]), "mine"), ["deploy", "mine__deploy!"]);
        assert_eq!(known(mounts(&["deploy"]), "evil"), ["deploy", "evil__deploy!"]);
        let [shown, others @ ..] = &known(mounts(&["deploy"]), "mine")[..] else { panic!("it is listed") };
        assert!(shown.starts_with("deploy_"), "{shown}");
        assert_eq!(others, ["deploy", "mine__deploy!"]);
        assert_eq!(known(mounts(&["mine__deploy"]), "evil"), ["mine__deploy", "evil__mine__deploy!"]);
        let nested = vec![mount("a", "a", &["b__x"]), mount("a__b", "a__b", &[])];
        assert!(known(nested, "a").contains(&"a__b__x".to_owned()), "it is known by the name, which is not its own");
        let alike = vec![mount("git", "g", &["push"]), mount("x", "git", &[])];
        assert_eq!(known(alike, "git"), ["g__push!", "git__push"]);
    }

    #[test]
    fn a_name_of_a_provider_of_this_process_is_its_own_only_while_it_lists_it() {
        let toolbox = Offering { name: "toolbox", tools: &["echo"], is_upstream: false };
        let mounts = vec![Mount::plain(Arc::new(toolbox)), mount("git", "", &["echo", "push"])];
        let known = known(mounts, "git");
        assert!(known[0].starts_with("echo_"), "{known:?}");
        assert_eq!(known[1..], ["echo", "git__echo!", "push!", "git__push!"]);
    }
}
