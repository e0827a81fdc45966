//! Applies the mode for invisible text to the lists of a hub.

use std::collections::HashMap;
use std::sync::Arc;

use gladhand_operations::Tool;
use gladhand_wire::invisible::{Found, Layout, escape};

use super::{Route, Routes};
use crate::policy::{Invisible, invisible};

impl Routes {
    /// The same routes under a mode for invisible text. A name that loses characters leads where it led before. A tool
    /// that is refused keeps its place, because others are known by theirs.
    pub(crate) fn screened(mut self, mode: Invisible) -> Self {
        self.invisible = mode;
        if mode == Invisible::Show {
            return self;
        }
        self.screen_tools(mode);
        let mut refused = HashMap::new();
        let resources = invisible::listed(mode, &self.resources, |one, found| {
            warn("resource", &one.uri, &found);
            refused.insert(one.uri.clone(), why(&one.uri, &found));
        });
        let uris = resources.iter().map(|(place, one)| (self.resources[*place].uri.as_str(), one.uri.as_str()));
        // What a provider itself calls a resource still belongs to it.
        for (before, _) in uris.clone().filter(|(before, now)| before != now) {
            self.held.extend(self.by_uri.get(before).map(|route| (before.to_owned(), route.mount)));
        }
        let uris = renamed(&mut self.by_uri, uris);
        // A resource that is refused still belongs to its provider: no other may answer for it.
        let left = std::mem::replace(&mut self.by_uri, uris);
        for (uri, route) in left {
            let refused = refused.remove(&uri);
            self.by_uri.entry(uri).or_insert(Route { refused, ..route });
        }
        self.resources = resources.into_iter().map(|(_, one)| one).collect();
        let prompts = invisible::listed(mode, &self.prompts, |one, found| warn("prompt", &one.name, &found));
        let names = prompts.iter().map(|(place, one)| (self.prompts[*place].name.as_str(), one.name.as_str()));
        self.by_prompt = renamed(&mut self.by_prompt, names);
        self.prompts = prompts.into_iter().map(|(_, one)| one).collect();
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
        self.template_mounts = templates.iter().map(|(place, _)| self.template_mounts[*place]).collect();
        self.templates = templates.into_iter().map(|(_, one)| one).collect();
        self
    }

    fn screen_tools(&mut self, mode: Invisible) {
        let mut tools = self.tools.to_vec();
        for (place, tool) in tools.iter_mut().enumerate() {
            let name = tool.name.clone();
            if let Err(found) = mode.look(tool) {
                warn("tool", &name, &found);
                self.refused.insert(place, why(&name, &found).to_string());
                // A refused tool keeps its name only, so that no list leaks its text.
                *tool = Tool::plain(name, "");
            } else if tool.name != name {
                if self.by_tool.contains_key(&tool.name) || tool.name.is_empty() {
                    let problem = "without its invisible characters, its name is empty or that of another tool";
                    tracing::warn!(tool = name, "a tool is not shown: {problem}");
                    self.refused.insert(place, format!("{}: {problem}", shown(&name)));
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

/// The routes of what is listed, under the names that it is listed under now. Of two that became alike the first counts.
fn renamed<'n>(
    routes: &mut HashMap<String, Route>,
    names: impl Iterator<Item = (&'n str, &'n str)>,
) -> HashMap<String, Route> {
    let mut renamed = HashMap::with_capacity(routes.len());
    for (before, now) in names {
        if let Some(route) = routes.remove(before) {
            renamed.entry(now.to_owned()).or_insert(route);
        }
    }
    renamed
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
