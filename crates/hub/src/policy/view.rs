//! The part of the lists that one caller sees.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use gladhand_core::operations::{Prompt, Resource, Template, Tool};
use gladhand_core::sync::Unpoisoned as _;

use super::Policy;
use super::parties::{CallTarget, Kind, Who};
use crate::naming::BETWEEN;
use crate::routes::{Mount, Routes, Target};

/// Maximum number of views that are kept. Callers share a view unless the policy treats them differently.
const KEPT: usize = 64;

/// The lists that one caller sees.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) tools: Arc<[Tool]>,
    /// The names that exist for the caller, and the index of each tool in the routes. Denied tools exist, so that a
    /// caller that calls one learns the reason.
    by_name: HashMap<String, usize>,
    pub(crate) resources: Arc<[Resource]>,
    pub(crate) templates: Arc<[Template]>,
    pub(crate) prompts: Arc<[Prompt]>,
    /// Whether the profile shows a mount, by index.
    mounts: Vec<bool>,
    /// Whether anything of a mount is visible, by index.
    sees: Vec<bool>,
}

impl View {
    fn of(policy: &Policy, who: &Who<'_>, routes: &Routes) -> Self {
        let profile = policy.profile(who);
        let shows = |mount: usize| profile.is_none_or(|profile| profile.shows_upstream(routes.upstream(mount)));
        let (mut places, mut by_name) = (Vec::new(), HashMap::new());
        for (index, tool) in routes.tools.iter().enumerate() {
            let what = routes.tool(index);
            let Some(name) = profile.map_or_else(|| Some(tool.name.clone()), |profile| profile.shown(&what)) else {
                continue;
            };
            // If two have the same name, the first counts, as everywhere.
            if by_name.contains_key(&name) {
                continue;
            }
            by_name.insert(name.clone(), index);
            let is_stopped = routes.stopped.why(&what).is_some() || routes.refused.contains_key(&index);
            if !is_stopped && policy.denied_always(who, &what).is_none() {
                places.push((index, name));
            }
        }
        let mut sees = vec![false; routes.mounts.len()];
        places.iter().for_each(|(index, _)| sees[routes.route_of(*index).mount] = true);
        // A complete list is shared with the routes: a copy would cost memory for each view.
        let is_whole = places.len() == routes.tools.len()
            && places.iter().zip(&*routes.tools).all(|((_, name), tool)| *name == tool.name);
        let tools = if is_whole {
            Arc::clone(&routes.tools)
        } else {
            places.into_iter().map(|(index, name)| routes.renamed(index, name)).collect()
        };
        let is_seen = |target: Option<Target>, name: &str| {
            target.is_some_and(|target| {
                let what = routes.what(&target, name);
                shows(routes.mount_of(&target))
                    && routes.stopped.why(&what).is_none()
                    && policy.denied_always(who, &what).is_none()
            })
        };
        fn seen<T: Clone>(all: &Arc<[T]>, is_seen: impl Fn(usize, &T) -> bool) -> Arc<[T]> {
            let seen = all.iter().enumerate().filter(|(index, one)| is_seen(*index, one));
            let seen: Vec<_> = seen.map(|(_, one)| one).collect();
            if seen.len() == all.len() { Arc::clone(all) } else { seen.into_iter().cloned().collect() }
        }
        let resources =
            seen(&routes.resources, |_, one| is_seen(routes.resource(&one.uri).map(Target::Resource), &one.uri));
        let templates = seen(&routes.templates, |index, one| {
            is_seen(Some(routes.unlisted(&one.uri_template, routes.template_mount(index))), &one.uri_template)
        });
        let prompts =
            seen(&routes.prompts, |_, one| is_seen(routes.prompt(&one.name).cloned().map(Target::Prompt), &one.name));
        let of_resources = resources.iter().filter_map(|one| routes.resource(&one.uri));
        let of_templates = templates.iter().filter_map(|one| routes.place_of_template(&one.uri_template));
        let of_prompts = prompts.iter().filter_map(|one| routes.prompt(&one.name));
        let seen_of = of_resources.map(|route| route.mount).chain(of_templates);
        seen_of.chain(of_prompts.map(|route| route.mount)).for_each(|mount| sees[mount] = true);
        for (mount, sees) in sees.iter_mut().enumerate() {
            *sees = shows(mount) && (*sees || sees_beyond_lists(policy, who, routes, mount));
        }
        let mounts = (0..routes.mounts.len()).map(shows).collect();
        Self { tools, by_name, resources, templates, prompts, mounts, sees }
    }

    /// Whether the caller sees anything of a mount.
    pub(crate) fn sees(&self, mount: usize) -> bool {
        self.sees.get(mount).copied().unwrap_or_default()
    }

    /// The index in the routes of the tool that the caller knows by this name.
    pub(crate) fn tool(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Whether a mount is visible.
    pub(crate) fn shows(&self, mount: usize) -> bool {
        self.mounts.get(mount).copied().unwrap_or_default()
    }
}

/// Whether a caller may reach something of a mount that is in no list: a capability, or anything of a provider that
/// lists nothing, for example because it was not started yet.
fn sees_beyond_lists(policy: &Policy, who: &Who<'_>, routes: &Routes, mount: usize) -> bool {
    let Mount { provider, naming } = &routes.mounts[mount];
    let (upstream, prefix) = (routes.upstream(mount), naming.prefix.as_deref());
    let is_open = |kind, own: &str, name: &str| {
        policy.denied_always(who, &CallTarget::named(kind, upstream, own, name).among(prefix, &[])).is_none()
    };
    if provider.capabilities().iter().any(|capability| is_open(Kind::Capability, capability, capability)) {
        return true;
    }
    // Rules for all names of the provider also cover names that are not known yet.
    let any_name = prefix.map(|prefix| format!("{prefix}{BETWEEN}")).unwrap_or_default();
    !routes.lists_anything_of(mount)
        && Kind::ALL.into_iter().any(|kind| match kind {
            Kind::Tool | Kind::Prompt => is_open(kind, "", &any_name),
            Kind::Resource | Kind::Capability => is_open(kind, "", ""),
        })
}

/// The inputs that decide the view of a caller: the index of its profile, and the indices of the rules that match it.
/// Client names are not included, because a caller can choose any number of them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Standpoint {
    profile: Option<usize>,
    rules: Vec<usize>,
}

impl Standpoint {
    fn of(policy: &Policy, who: &Who<'_>) -> Self {
        let rules = policy.lists().flatten().enumerate();
        let named = rules.filter(|(_, rule)| rule.who.iter().any(|callers| callers.fits(who)));
        Self {
            profile: policy.profiles.iter().position(|profile| profile.fits(who)),
            rules: named.map(|(index, _)| index).collect(),
        }
    }
}

/// The views of all callers on the same routes, built on demand.
#[derive(Debug, Default)]
pub(crate) struct Views {
    made: Mutex<HashMap<Standpoint, Arc<View>>>,
}

impl Views {
    /// The view of a caller.
    pub(super) fn of(&self, policy: &Policy, who: &Who<'_>, routes: &Routes) -> Arc<View> {
        let standpoint = Standpoint::of(policy, who);
        if let Some(view) = self.lock().get(&standpoint) {
            return Arc::clone(view);
        }
        let view = Arc::new(View::of(policy, who, routes));
        let mut views = self.lock();
        if views.len() >= KEPT {
            views.clear();
        }
        views.insert(standpoint, Arc::clone(&view));
        view
    }

    /// Number of views that are kept.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Standpoint, Arc<View>>> {
        self.made.lock().unpoisoned()
    }
}
