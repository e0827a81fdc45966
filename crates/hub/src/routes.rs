//! What all providers have, under the names that it is shown under, and who is behind each name.

mod screening;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use gladhand_operations::{CompletionOf, Prompt, Resource, Template, Tool, ToolCall};

use crate::naming::Naming;
use crate::policy::{Invisible, Views, What};
use crate::provider::{Listed, Provider, SessionId};
use crate::schema::Checks;

/// A provider, and how its names are shown.
#[derive(Debug, Clone)]
pub struct Mount {
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// How its names are shown.
    pub naming: Naming,
}

impl Mount {
    /// A provider whose names are shown as they are.
    pub fn plain(provider: Arc<dyn Provider>) -> Self {
        Self { provider, naming: Naming::default() }
    }
}

/// Why a hub cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubError {
    /// Two providers have something of the same name.
    Duplicate {
        /// What it is: a tool, a resource, a prompt.
        what: &'static str,
        /// The name.
        name: String,
    },
}

impl std::fmt::Display for HubError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Duplicate { what, name } => write!(f, "two providers have a {what} named `{name}`"),
        }
    }
}

impl std::error::Error for HubError {}

/// Where a name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// The provider's place among the mounts.
    pub(crate) mount: usize,
    /// What the provider itself calls it.
    pub(crate) own: String,
}

/// All lists as they are now, and who is behind each name.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) mounts: Arc<[Mount]>,
    pub(crate) tools: Arc<[Tool]>,
    /// Shown name to its index in `tools`.
    by_tool: HashMap<String, usize>,
    /// The schemas of each tool.
    pub(crate) checks: Vec<Checks>,
    pub(crate) resources: Arc<[Resource]>,
    by_uri: HashMap<String, Route>,
    pub(crate) templates: Arc<[Template]>,
    /// The place of each template's provider.
    template_mounts: Vec<usize>,
    pub(crate) prompts: Arc<[Prompt]>,
    by_prompt: HashMap<String, Route>,
    /// The place of who serves a capability.
    capabilities: Vec<(&'static str, usize)>,
    /// The place of who bundles tools, if somebody does.
    bundler: Option<usize>,
    /// The route of each tool.
    tool_routes: Vec<Route>,
    /// Tools that policy has stopped, by their index, and why.
    pub(crate) stopped: HashMap<usize, String>,
    /// The mode for invisible text that these lists were made with.
    pub(crate) invisible: Invisible,
    /// Tools that are refused because of invisible text, by their index, and why.
    pub(crate) refused: HashMap<usize, String>,
    /// What certain callers get to see of all this.
    pub(crate) views: Views,
}

impl Routes {
    /// Asks all providers. Where two have something of one name, the later one's gets another; where there is no other,
    /// the first counts. The first such case is told. `session`: what this one sees, where that is its own.
    pub(crate) fn ask(mounts: Arc<[Mount]>, session: Option<SessionId>) -> (Self, Option<HubError>) {
        let mut duplicate = None;
        let mut note = |what, name: &str| {
            duplicate.get_or_insert_with(|| HubError::Duplicate { what, name: name.to_owned() });
        };
        let (mut tools, mut by_tool, mut tool_routes) = (Vec::new(), HashMap::new(), Vec::new());
        let (mut resources, mut by_uri) = (Vec::new(), HashMap::new());
        let (mut templates, mut template_mounts) = (Vec::new(), Vec::new());
        let (mut prompts, mut by_prompt) = (Vec::new(), HashMap::new());
        let mut capabilities: Vec<(&'static str, usize)> = Vec::new();
        let bundler = mounts.iter().position(|mount| mount.provider.bundles().is_some());
        let bundles = bundler.and_then(|place| mounts[place].provider.bundles());
        for (index, mount) in mounts.iter().enumerate() {
            let naming = &mount.naming;
            let route = |own: &str| Route { mount: index, own: own.to_owned() };
            let provider = &mount.provider;
            let listed = session.and_then(|session| provider.listed_for(session)).unwrap_or_else(|| Listed {
                tools: provider.tools(),
                resources: provider.resources(),
                templates: provider.templates(),
                prompts: provider.prompts(),
            });
            for capability in provider.capabilities() {
                // Each is served by exactly one, the first.
                if !capabilities.iter().any(|(served, _)| *served == capability) {
                    capabilities.push((capability, index));
                }
            }
            for mut tool in listed.tools {
                let Some(mut shown) = naming.shown(&tool.name) else { continue };
                if by_tool.contains_key(&shown) {
                    note("tool", &shown);
                    shown = naming.instead(&shown, &tool.name);
                }
                if let Entry::Vacant(free) = by_tool.entry(shown.clone()) {
                    let own = route(&tool.name);
                    tool.name = shown;
                    let seen = match bundles {
                        Some(bundles) => bundles.shown(tool, session),
                        None => Some(tool),
                    };
                    if let Some(tool) = seen {
                        free.insert(tools.len());
                        tool_routes.push(own);
                        tools.push(tool);
                    }
                }
            }
            for mut resource in listed.resources {
                let mut shown = resource.uri.clone();
                if by_uri.contains_key(&shown) {
                    note("resource", &shown);
                    let Some(other) = naming.other_uri(&shown) else { continue };
                    shown = other;
                }
                if let Entry::Vacant(free) = by_uri.entry(shown.clone()) {
                    free.insert(route(&resource.uri));
                    resource.uri = shown;
                    resources.push(resource);
                }
            }
            for template in listed.templates {
                templates.push(template);
                template_mounts.push(index);
            }
            for mut prompt in listed.prompts {
                let Some(mut shown) = naming.shown(&prompt.name) else { continue };
                if by_prompt.contains_key(&shown) {
                    note("prompt", &shown);
                    shown = naming.instead(&shown, &prompt.name);
                }
                if let Entry::Vacant(free) = by_prompt.entry(shown.clone()) {
                    free.insert(route(&prompt.name));
                    prompt.name = shown;
                    prompts.push(prompt);
                }
            }
        }
        let routes = Self {
            checks: tools.iter().map(|_| Checks::default()).collect(),
            mounts,
            tools: tools.into(),
            by_tool,
            resources: resources.into(),
            by_uri,
            templates: templates.into(),
            template_mounts,
            prompts: prompts.into(),
            by_prompt,
            capabilities,
            bundler,
            tool_routes,
            stopped: HashMap::new(),
            invisible: Invisible::Show,
            refused: HashMap::new(),
            views: Views::default(),
        };
        (routes, duplicate)
    }

    /// A call of a tool, with what its session has configured for it.
    pub(crate) fn completed<'a>(&self, call: ToolCall<'a>, session: SessionId) -> ToolCall<'a> {
        let bundles = self.bundler.and_then(|place| self.mounts[place].provider.bundles());
        match bundles {
            Some(bundles) => bundles.completed(call, session),
            None => call,
        }
    }

    /// The index of the tool that is shown under a name.
    pub(crate) fn place_of(&self, tool: &str) -> Option<usize> {
        self.by_tool.get(tool).copied()
    }

    /// Where a tool leads, by its index.
    pub(crate) fn route_of(&self, tool: usize) -> &Route {
        &self.tool_routes[tool]
    }

    /// A tool as policy sees it, by its index.
    pub(crate) fn what(&self, tool: usize) -> What<'_> {
        let route = self.route_of(tool);
        What { upstream: self.upstream(route.mount), own: &route.own, tool: &self.tools[tool] }
    }

    /// What the provider of a mount is called: by its prefix, else by its own name.
    pub(crate) fn upstream(&self, mount: usize) -> &str {
        let mount = &self.mounts[mount];
        mount.naming.prefix.as_deref().unwrap_or_else(|| mount.provider.name())
    }

    /// The place of the provider of a template, by the template's index.
    pub(crate) fn template_mount(&self, template: usize) -> usize {
        self.template_mounts[template]
    }

    /// Who has the resource of a URI: by name, else by a template that it follows.
    pub(crate) fn resource(&self, uri: &str) -> Option<Route> {
        let by_template = || {
            let mut templates = self.templates.iter().zip(&self.template_mounts);
            let follows = templates.find(|(template, _)| template.variables(uri).is_some());
            follows.map(|(_, mount)| Route { mount: *mount, own: uri.to_owned() })
        };
        self.by_uri.get(uri).cloned().or_else(by_template)
    }

    /// The capabilities that somebody serves, in the order of the mounts.
    pub(crate) fn capabilities(&self) -> impl Iterator<Item = &'static str> {
        self.capabilities.iter().map(|(capability, _)| *capability)
    }

    /// The place of who serves a capability.
    pub(crate) fn capability(&self, name: &str) -> Option<usize> {
        self.capabilities.iter().find(|(capability, _)| *capability == name).map(|(_, mount)| *mount)
    }

    /// Who has a prompt.
    pub(crate) fn prompt(&self, name: &str) -> Option<&Route> {
        self.by_prompt.get(name)
    }

    /// Who has what an argument is completed of, by the provider's own name for it.
    pub(crate) fn completion(&self, of: &CompletionOf<'_>) -> Option<Route> {
        match of {
            CompletionOf::Prompt(name) => self.prompt(name).cloned(),
            CompletionOf::Template(uri) => {
                let mut templates = self.templates.iter().zip(&self.template_mounts);
                let named = templates.find(|(template, _)| template.uri_template == *uri);
                let named = named.map(|(_, mount)| Route { mount: *mount, own: uri.clone().into_owned() });
                named.or_else(|| self.resource(uri))
            }
        }
    }
}
