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
        let resources = invisible::listed(mode, &self.resources, |one, found| warn("resource", &one.uri, &found));
        let uris = resources.iter().map(|(place, one)| (self.resources[*place].uri.as_str(), one.uri.as_str()));
        self.by_uri = renamed(&mut self.by_uri, uris);
        self.resources = resources.into_iter().map(|(_, one)| one).collect();
        let prompts = invisible::listed(mode, &self.prompts, |one, found| warn("prompt", &one.name, &found));
        let names = prompts.iter().map(|(place, one)| (self.prompts[*place].name.as_str(), one.name.as_str()));
        self.by_prompt = renamed(&mut self.by_prompt, names);
        self.prompts = prompts.into_iter().map(|(_, one)| one).collect();
        let templates =
            invisible::listed(mode, &self.templates, |one, found| warn("resource template", &one.uri_template, &found));
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
                self.refused.insert(place, invisible::refusal(&format!("the definition of {}", shown(&name)), &found));
                // A refused tool keeps its name only, so that no list leaks its text.
                *tool = Tool::plain(name, "");
            } else if tool.name != name {
                if self.by_tool.contains_key(&tool.name) || tool.name.is_empty() {
                    let why = "without its invisible characters, its name is empty or that of another tool";
                    tracing::warn!(tool = name, "a tool is not shown: {why}");
                    self.refused.insert(place, format!("{}: {why}", shown(&name)));
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

fn shown(name: &str) -> String {
    escape(name, Layout::Line).into_owned()
}

fn warn(what: &str, name: &str, found: &Found) {
    tracing::warn!(name, "a {what} is not shown: it has {found}");
}
