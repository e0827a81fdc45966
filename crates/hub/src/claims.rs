//! Which provider a name belongs to.
//!
//! Two providers may offer something under the same shown name. A name belongs to the provider to which the configuration
//! gives it: by `rename`, else by the longest prefix (`a__b__x` is a name of the upstream `a__b`, never of `a`). Names that
//! the configuration gives to no provider belong to the first provider that offered them, for as long as that provider is
//! mounted. A later claim is refused, so that no provider can take over a name at run time.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_operations::Template;
use serde::{Deserialize, Serialize};

use crate::naming::{BETWEEN, Naming};
use crate::provider::Provider;
use crate::routes::Mount;

/// Names that one provider may own without offering them at the moment. Beyond this, its unused names are released.
const UNUSED: usize = 4096;

/// Refused claims that are logged, and that are kept for the status.
const TOLD: usize = 256;

/// Characters of a name that are told of a refused claim.
const LONGEST: usize = 200;

/// Kinds of names. Names of different kinds do not conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Space {
    Tool,
    Prompt,
    Resource,
    Template,
    Capability,
}

impl Space {
    fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "resource template",
            Self::Capability => "capability",
        }
    }
}

/// A claim on a name that belongs to another provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Conflict {
    /// What it is: `tool`, `prompt`, `resource`, `resource template` or `capability`.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The provider whose claim was refused.
    pub claimant: String,
    /// The provider that the name belongs to.
    pub owner: String,
}

/// The owners of all names, while the hub lasts.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    round: u64,
    owned: HashMap<(Space, String), Claim>,
    conflicts: BTreeSet<Conflict>,
    logged: BTreeSet<Conflict>,
}

#[derive(Debug, Clone)]
struct Claim {
    owner: Owner,
    since: Age,
    /// The round in which the owner last offered it.
    offered: u64,
}

/// When a name was claimed: in which round, and by the provider at which place. The order of the configuration decides
/// between claims of one round.
pub(crate) type Age = (u64, usize);

/// A provider, the same across reloads of the configuration if it has a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    Named(String),
    /// The address of the provider. It is not reused while the provider is mounted, and claims do not outlive that.
    Nameless(usize),
}

impl Owner {
    fn of(provider: &Arc<dyn Provider>) -> Self {
        match provider.name() {
            "" => Self::Nameless(Arc::as_ptr(provider).cast::<()>() as usize),
            name => Self::Named(name.to_owned()),
        }
    }
}

impl Claims {
    /// Begins a round: the providers are asked for their lists, in the order of the mounts.
    pub(crate) fn round<'c>(&'c self, mounts: &'c [Mount]) -> Round<'c> {
        let owners = mounts.iter().map(|mount| Owner::of(&mount.provider)).collect();
        let mut ledger = self.lock();
        ledger.round += 1;
        Round { ledger, mounts, owners }
    }

    /// The claims that were refused when all providers were last asked.
    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        self.lock().conflicts.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One round of claims.
pub(crate) struct Round<'c> {
    ledger: MutexGuard<'c, Ledger>,
    mounts: &'c [Mount],
    owners: Vec<Owner>,
}

impl Round<'_> {
    /// Releases the names of providers that are not mounted any more. For rounds that concern all sessions.
    pub(crate) fn begin_anew(&mut self) {
        let owners = &self.owners;
        self.ledger.owned.retain(|_, claim| owners.contains(&claim.owner));
        self.ledger.conflicts.clear();
    }

    /// Claims a name for the provider of a mount: since when that provider has it, or `None` if it belongs to another.
    pub(crate) fn claim(&mut self, space: Space, name: &str, mount: usize) -> Option<Age> {
        let title = |mount: &Mount| title(space, name, &mount.naming);
        let best = self.mounts.iter().map(title).max().unwrap_or_default();
        if title(&self.mounts[mount]) < best {
            let owner = self.mounts.iter().position(|other| title(other) == best);
            self.refuse(space, name, mount, owner);
            return None;
        }
        let round = self.ledger.round;
        let key = (space, name.to_owned());
        if let Some(claim) = self.ledger.owned.get_mut(&key) {
            if claim.owner == self.owners[mount] {
                claim.offered = round;
                return Some(claim.since);
            }
            let place = self.owners.iter().position(|owner| *owner == claim.owner);
            // The configuration may have given the name to this provider since.
            if place.is_some_and(|place| title(&self.mounts[place]) == best) {
                self.refuse(space, name, mount, place);
                return None;
            }
        }
        let since = (round, mount);
        self.ledger.owned.insert(key, Claim { owner: self.owners[mount].clone(), since, offered: round });
        Some(since)
    }

    /// Claims the URI of a resource. It is refused also if the URI follows a template that another provider had before.
    pub(crate) fn claim_uri(&mut self, uri: &str, mount: usize, templates: &[(&Claimed<Template>, bool)]) -> bool {
        let is_known = self.ledger.owned.contains_key(&(Space::Resource, uri.to_owned()));
        let now = (self.ledger.round, mount);
        let is_covered =
            |one: &&Claimed<Template>| one.mount != mount && one.since < now && one.thing.variables(uri).is_some();
        if let Some(one) = templates.iter().map(|(one, _)| *one).find(is_covered).filter(|_| !is_known) {
            let owner = Some(one.mount);
            self.refuse(Space::Resource, uri, mount, owner);
            return false;
        }
        self.claim(Space::Resource, uri, mount).is_some()
    }

    /// The names that providers own without offering them in this round, with the places of the providers.
    pub(crate) fn held(&self, space: Space) -> Vec<Claimed<String>> {
        let owned = self.ledger.owned.iter();
        let unused = owned.filter(|((of, _), claim)| *of == space && claim.offered < self.ledger.round);
        let placed = unused.filter_map(|((_, name), claim)| {
            let mount = self.owners.iter().position(|owner| *owner == claim.owner)?;
            Some(Claimed { thing: name.clone(), mount, since: claim.since })
        });
        placed.collect()
    }

    /// Ends a round. A provider that owns too many names which it does not offer loses those.
    pub(crate) fn end(mut self) {
        let mut unused: HashMap<Owner, usize> = HashMap::new();
        let ledger = &mut *self.ledger;
        for claim in ledger.owned.values().filter(|claim| claim.offered < ledger.round) {
            *unused.entry(claim.owner.clone()).or_default() += 1;
        }
        unused.retain(|_, count| *count > UNUSED);
        if !unused.is_empty() {
            let round = ledger.round;
            ledger.owned.retain(|_, claim| claim.offered == round || !unused.contains_key(&claim.owner));
        }
    }

    fn refuse(&mut self, space: Space, name: &str, mount: usize, owner: Option<usize>) {
        let label = |mount: usize| self.mounts[mount].upstream().to_owned();
        let conflict = Conflict {
            kind: space.word().to_owned(),
            name: name.chars().take(LONGEST).collect(),
            claimant: label(mount),
            owner: owner.map(label).unwrap_or_default(),
        };
        if self.ledger.logged.len() < TOLD && self.ledger.logged.insert(conflict.clone()) {
            let Conflict { kind, name, claimant, owner } = &conflict;
            tracing::warn!(kind, name, claimant, owner, "claim refused: the name belongs to another provider");
        }
        if self.ledger.conflicts.len() < TOLD {
            self.ledger.conflicts.insert(conflict);
        }
    }
}

/// Something that is listed, with the place of its provider and since when the provider has its name.
#[derive(Debug, Clone)]
pub(crate) struct Claimed<T> {
    pub(crate) thing: T,
    pub(crate) mount: usize,
    pub(crate) since: Age,
}

impl<T> Claimed<T> {
    pub(crate) fn map<U>(self, with: impl FnOnce(T) -> U) -> Claimed<U> {
        Claimed { thing: with(self.thing), mount: self.mount, since: self.since }
    }
}

/// How strong a title to a name the configuration gives to a provider. The longest prefix is the strongest of prefixes, and
/// a name that the operator chose is stronger than any.
fn title(space: Space, name: &str, naming: &Naming) -> usize {
    if !matches!(space, Space::Tool | Space::Prompt) {
        return 0;
    }
    if naming.renamed.values().any(|renamed| renamed == name) {
        return usize::MAX;
    }
    naming.prefix.as_deref().filter(|prefix| is_within(name, prefix)).map_or(0, |prefix| 1 + prefix.len())
}

/// Whether a shown name is one of those that a prefix begins.
pub(crate) fn is_within(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(BETWEEN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hub, Kit};
    use gladhand_operations::{Notice, Prompt, Resource, Tool};
    use std::collections::BTreeMap;

    /// A provider whose lists can change.
    #[derive(Debug, Default)]
    struct Shifting {
        name: &'static str,
        tools: Mutex<Vec<&'static str>>,
        resources: Mutex<Vec<&'static str>>,
        templates: Mutex<Vec<&'static str>>,
        prompts: Mutex<Vec<&'static str>>,
    }

    impl Shifting {
        fn named(name: &'static str, tools: &[&'static str]) -> Arc<Self> {
            Arc::new(Self { name, tools: Mutex::new(tools.to_vec()), ..Self::default() })
        }
    }

    impl Provider for Shifting {
        fn name(&self) -> &str {
            self.name
        }

        fn tools(&self) -> Vec<Tool> {
            self.tools.lock().unwrap().iter().map(|name| Tool::plain(*name, self.name)).collect()
        }

        fn resources(&self) -> Vec<Resource> {
            self.resources.lock().unwrap().iter().map(|uri| Resource::new(*uri, self.name, "")).collect()
        }

        fn templates(&self) -> Vec<Template> {
            self.templates.lock().unwrap().iter().map(|text| Template::new(*text, self.name, "")).collect()
        }

        fn prompts(&self) -> Vec<Prompt> {
            self.prompts.lock().unwrap().iter().map(|name| Prompt::new(*name, self.name)).collect()
        }
    }

    fn plain(provider: &Arc<Shifting>) -> Mount {
        Mount::plain(Arc::clone(provider) as _)
    }

    fn prefixed(provider: &Arc<Shifting>, prefix: &str) -> Mount {
        Mount { naming: Naming::prefixed(prefix), ..plain(provider) }
    }

    /// The provider of each tool that is shown under a name.
    fn provider_of(hub: &Hub, name: &str) -> Option<String> {
        hub.tools().iter().find(|tool| tool.name == name).map(|tool| tool.description.clone())
    }

    fn told(hub: &Hub) -> Vec<String> {
        let told = |one: Conflict| format!("{} {}: {} for {}", one.kind, one.name, one.owner, one.claimant);
        hub.status().conflicts.into_iter().map(told).collect()
    }

    #[test]
    fn a_name_stays_with_the_first_that_had_it_also_while_it_is_not_offered() {
        let (late, first) = (Shifting::named("late", &[]), Shifting::named("first", &["deploy"]));
        let hub = Hub::of(vec![plain(&late), plain(&first)]);
        late.tools.lock().unwrap().push("deploy");
        hub.inner.changed(Notice::ToolsChanged);
        assert_eq!(provider_of(&hub, "deploy").as_deref(), Some("first"));
        assert_eq!(told(&hub), ["tool deploy: first for late"]);
        // A restart: its list is gone for a while.
        first.tools.lock().unwrap().clear();
        hub.inner.changed(Notice::ToolsChanged);
        assert_eq!(provider_of(&hub, "deploy"), None);
        first.tools.lock().unwrap().push("deploy");
        hub.inner.changed(Notice::ToolsChanged);
        assert_eq!(provider_of(&hub, "deploy").as_deref(), Some("first"));
        hub.remount(vec![plain(&late)]);
        assert_eq!(provider_of(&hub, "deploy").as_deref(), Some("late"), "the owner is not configured any more");
        assert!(told(&hub).is_empty());
    }

    #[test]
    fn a_name_within_the_prefix_of_another_is_never_its_own() {
        for a_is_first in [true, false] {
            let (a, ab) = (Shifting::named("a", &["b__x", "y"]), Shifting::named("a__b", &[]));
            let free = Shifting::named("free", &["a__z", "w"]);
            let mut mounts = vec![prefixed(&a, "a"), prefixed(&ab, "a__b"), plain(&free)];
            if !a_is_first {
                mounts.reverse();
            }
            let hub = Hub::of(mounts);
            for name in ["a__b__x", "a__z"] {
                assert_eq!(provider_of(&hub, name), None, "{name}: its owner does not offer it, and no other may");
            }
            for name in ["a__y", "w"] {
                assert!(provider_of(&hub, name).is_some(), "{name}");
            }
            ab.tools.lock().unwrap().push("x");
            hub.inner.changed(Notice::ToolsChanged);
            assert_eq!(provider_of(&hub, "a__b__x").as_deref(), Some("a__b"));
            assert_eq!(told(&hub), ["tool a__b__x: a__b for a", "tool a__z: a for free"]);
        }
    }

    #[test]
    fn a_name_that_the_operator_gave_is_not_taken_over() {
        let (git, free) = (Shifting::named("git", &[]), Shifting::named("free", &["status"]));
        let renamed = BTreeMap::from([("st".to_owned(), "status".to_owned())]);
        let git_mount = Mount { naming: Naming { renamed, ..Naming::prefixed("git") }, ..plain(&git) };
        let hub = Hub::of(vec![plain(&free), git_mount]);
        assert_eq!(provider_of(&hub, "status"), None);
        git.tools.lock().unwrap().push("st");
        hub.inner.changed(Notice::ToolsChanged);
        assert_eq!(provider_of(&hub, "status").as_deref(), Some("git"));
    }

    #[test]
    fn resources_templates_and_prompts_stay_with_the_first_that_had_them() {
        let (late, first) = (Shifting::named("late", &[]), Shifting::named("first", &[]));
        first.resources.lock().unwrap().push("note:1");
        first.templates.lock().unwrap().push("user:{id}");
        first.prompts.lock().unwrap().push("greet");
        let hub = Hub::of(vec![plain(&late), plain(&first)]);
        late.resources.lock().unwrap().extend(["note:1", "user:7"]);
        late.templates.lock().unwrap().extend(["user:{id}", "{+anything}"]);
        late.prompts.lock().unwrap().push("greet");
        hub.inner.changed(Notice::ResourcesChanged);
        let routes = hub.inner.routes();
        for uri in ["note:1", "user:7", "user:8"] {
            assert_eq!(routes.resource(uri).map(|to| to.mount), Some(1), "{uri}");
        }
        assert_eq!(routes.resource("other:1").map(|to| to.mount), Some(0));
        assert_eq!(routes.prompt("greet").map(|to| to.mount), Some(1));
        assert_eq!(routes.prompts.len(), 2, "the other prompt has another name");
        assert_eq!(
            told(&hub),
            [
                "prompt greet: first for late",
                "resource note:1: first for late",
                "resource user:7: first for late",
                "resource template user:{id}: first for late",
            ]
        );
    }

    #[test]
    fn names_that_are_not_offered_are_bounded_for_each_provider() {
        let (claims, kit): (Claims, Arc<dyn Provider>) = (Claims::default(), Arc::new(Kit::new()));
        let mounts = [Mount::plain(kit)];
        let mut round = claims.round(&mounts);
        assert!((0..UNUSED + 10).all(|n| round.claim(Space::Tool, &n.to_string(), 0).is_some()));
        round.end();
        let mut round = claims.round(&mounts);
        round.claim(Space::Tool, "1", 0);
        round.end();
        assert_eq!(claims.lock().owned.len(), 1);
    }
}
