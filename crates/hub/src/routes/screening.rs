//! Applies the mode for invisible text to the lists of a hub.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gladhand_core::operations::Tool;
use gladhand_core::wire::invisible::{Found, Layout, escape};

use super::{Route, Routes};
use crate::claims::{Claims, Space};
use crate::policy::{Invisible, invisible};

impl Routes {
    /// The same routes under a mode for invisible text. A name that loses characters leads where it led before. A tool
    /// that is refused keeps its place, because others are known by theirs.
    pub(crate) fn screened(mut self, mode: Invisible, claims: &Claims) -> Self {
        self.invisible = mode;
        if mode == Invisible::Show {
            return self;
        }
        self.screen_tools(mode, claims);
        let mut refused = HashMap::new();
        let resources = invisible::listed(mode, &self.resources, |one, found| {
            warn("resource", &one.uri, &found);
            refused.insert(one.uri.clone(), why(&one.uri, &found));
        });
        let uris = resources.iter().map(|(place, one)| (self.resources[*place].uri.as_str(), one.uri.as_str()));
        // The provider's own URI of a resource still belongs to it.
        for (before, _) in uris.clone().filter(|(before, now)| before != now) {
            self.held.extend(self.by_uri.get(before).map(|route| (before.to_owned(), route.mount)));
        }
        let (uris, taken) = renamed("resource", &mut self.by_uri, uris, |uri, mount| {
            claims.is_anothers(Space::Resource, uri, &self.mounts, mount)
        });
        // A resource that is refused still belongs to its provider: no other may answer for it.
        let left = std::mem::replace(&mut self.by_uri, uris);
        for (uri, route) in left {
            let refused = refused.remove(&uri).or_else(|| taken.contains(&uri).then(|| TAKEN.into()));
            self.by_uri.entry(uri).or_insert(Route { refused, ..route });
        }
        let is_free = |place: &usize| !taken.contains(&self.resources[*place].uri);
        self.resources = resources.into_iter().filter(|(place, _)| is_free(place)).map(|(_, one)| one).collect();
        let prompts = invisible::listed(mode, &self.prompts, |one, found| warn("prompt", &one.name, &found));
        let names = prompts.iter().map(|(place, one)| (self.prompts[*place].name.as_str(), one.name.as_str()));
        let (names, taken) = renamed("prompt", &mut self.by_prompt, names, |name, mount| {
            claims.is_anothers(Space::Prompt, name, &self.mounts, mount)
        });
        self.by_prompt = names;
        let is_free = |place: &usize| !taken.contains(&self.prompts[*place].name);
        self.prompts = prompts.into_iter().filter(|(place, _)| is_free(place)).map(|(_, one)| one).collect();
        let mut refused = HashMap::new();
        let templates = invisible::listed(mode, &self.templates, |one, found| {
            warn("resource template", &one.uri_template, &found);
            refused.insert(one.uri_template.clone(), why(&one.uri_template, &found));
        });
        let texts = templates.iter().map(|(place, one)| (&self.templates[*place].uri_template, &one.uri_template));
        let mut texts: HashMap<_, _> = texts.collect();
        for family in self.families.iter_mut().filter(|family| family.is_listed) {
            family.refused = refused.remove(&family.template.uri_template);
            if let Some(text) = texts.remove(&family.template.uri_template) {
                family.template.uri_template.clone_from(text);
            }
        }
        // Characters that are gone make no template more specific.
        self.rank_families();
        self.template_mounts = templates.iter().map(|(place, _)| self.template_mounts[*place]).collect();
        self.templates = templates.into_iter().map(|(_, one)| one).collect();
        self
    }

    fn screen_tools(&mut self, mode: Invisible, claims: &Claims) {
        let mut tools = self.tools.to_vec();
        for (place, tool) in tools.iter_mut().enumerate() {
            let name = tool.name.clone();
            if let Err(found) = mode.look(tool) {
                warn("tool", &name, &found);
                self.refused.insert(place, why(&name, &found).to_string());
                // A refused tool keeps its name only, so that no list leaks its text.
                *tool = Tool::plain(name, "");
            } else if tool.name != name {
                let mount = self.tool_routes[place].mount;
                let is_anothers = || claims.is_anothers(Space::Tool, &tool.name, &self.mounts, mount);
                if self.by_tool.contains_key(&tool.name) || tool.name.is_empty() || is_anothers() {
                    warn_of_taken("tool", &name);
                    self.refused.insert(place, format!("{}: {TAKEN}", shown(&name)));
                    tool.name = name;
                    continue;
                }
                self.by_tool.remove(&name);
                self.by_tool.insert(tool.name.clone(), place);
            }
        }
        self.tools = Arc::from(tools);
    }
}

/// Why something is not shown whose name has invisible characters.
const TAKEN: &str = "without its invisible characters, its name is empty or belongs to another";

fn warn_of_taken(what: &str, name: &str) {
    tracing::warn!(name, "a {what} is not shown: {TAKEN}");
}

/// The routes of what is listed, under the names that it is listed under now, and the names of what cannot be listed so. Of
/// two that become alike the first counts.
fn renamed<'n>(
    what: &str,
    routes: &mut HashMap<String, Route>,
    names: impl Iterator<Item = (&'n str, &'n str)>,
    is_anothers: impl Fn(&str, usize) -> bool,
) -> (HashMap<String, Route>, HashSet<String>) {
    let (mut renamed, mut taken) = (HashMap::with_capacity(routes.len()), HashSet::new());
    let (changed, same): (Vec<_>, Vec<_>) = names.partition(|(before, now)| before != now);
    for (before, now) in same.into_iter().chain(changed) {
        let Some(mount) = routes.get(before).map(|route| route.mount) else { continue };
        let is_used = || now.is_empty() || renamed.contains_key(now) || is_anothers(now, mount);
        if before != now && is_used() {
            warn_of_taken(what, before);
            taken.insert(before.to_owned());
        } else if let Some(route) = routes.remove(before) {
            renamed.insert(now.to_owned(), route);
        }
    }
    (renamed, taken)
}

fn why(name: &str, found: &Found) -> Arc<str> {
    invisible::refusal(&format!("the definition of {}", shown(name)), found).into()
}

fn shown(name: &str) -> String {
    escape(name, Layout::Line).into_owned()
}

fn warn(what: &str, name: &str, found: &Found) {
    tracing::warn!(name, "a {what} is not shown: it has {found}");
}
