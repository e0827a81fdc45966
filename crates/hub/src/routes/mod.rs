//! The lists of all providers under their shown names, and the provider behind each name.

mod screening;

use std::cell::LazyCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};

use gladhand_core::Order as _;
use gladhand_core::operations::{CompletionOf, Operation, Prompt, Resource, Template, Tool, ToolCall};
use gladhand_core::validation::{ToolChecks, Validation};

use crate::claims::{Age, Claimed, Claims, Space, is_within};
use crate::naming::Naming;
use crate::origins::Origins;
use crate::policy::{CallTarget, Invisible, Kind, Stopped, Views};
use crate::provider::{List, Listed, Provider, SessionId};

/// A provider, and how its names are shown.
#[derive(Debug, Clone)]
pub struct Mount {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// How its names are shown.
    pub naming: Naming,
}

impl Mount {
    /// A provider whose names are shown as they are.
    pub fn plain(provider: Arc<dyn Provider>) -> Self {
        Self { provider, naming: Naming::default() }
    }

    /// The name of the provider in rules, pins and the audit file: its own name, else its prefix.
    pub fn upstream(&self) -> &str {
        match self.provider.name() {
            "" => self.naming.prefix.as_deref().unwrap_or_default(),
            name => name,
        }
    }
}

/// Why a hub cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubError {
    /// Two providers have something of the same name.
    Duplicate {
        /// The kind of thing: a tool, a resource, a prompt.
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

/// The provider behind a shown name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// The index of the provider in the mounts.
    pub(crate) mount: usize,
    /// The provider's own name for it.
    pub(crate) own: String,
    /// Prefixes of other mounts that the shown name begins with, too.
    rivals: Vec<String>,
    /// The name that it would have if that name did not belong to another provider.
    taken_name: Option<String>,
    /// The reason for refusing it, if it contains invisible text.
    refused: Option<Arc<str>>,
}

/// A template that decides which provider owns the URIs that match it.
#[derive(Debug)]
struct Family {
    template: Template,
    mount: usize,
    /// When the provider first claimed it.
    since: Age,
    /// Whether the provider lists the template now. If not, it still owns it.
    is_listed: bool,
    /// The reason for refusing its resources, if it contains invisible text.
    refused: Option<Arc<str>>,
}

impl Route {
    /// The name that it would have if that name did not belong to another provider.
    pub(crate) fn taken_name(&self) -> Option<&str> {
        self.taken_name.as_deref()
    }

    fn to(mount: usize, own: &str) -> Self {
        Self { mount, own: own.to_owned(), rivals: Vec::new(), taken_name: None, refused: None }
    }
}

/// The target of an operation: exactly one thing of one provider. Policy decides on it, and the call goes there.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// A tool, by its index.
    Tool(usize),
    /// A resource that is read, watched or completed.
    Resource(Route),
    /// A prompt that is filled in or completed.
    Prompt(Route),
    /// A capability, and the index of the provider that serves it.
    Capability(&'static str, usize),
}

/// All current lists, and the provider behind each name.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) mounts: Arc<[Mount]>,
    pub(crate) tools: Arc<[Tool]>,
    /// Shown name to its index in `tools`.
    by_tool: HashMap<String, usize>,
    /// The schemas of each tool that was called while calls are validated.
    checks: Vec<OnceLock<Box<dyn ToolChecks>>>,
    pub(crate) resources: Arc<[Resource]>,
    by_uri: HashMap<String, Route>,
    /// For URIs that are owned but not listed now: the index of the owner.
    held: HashMap<String, usize>,
    /// All templates that providers own. If a URI matches several, the first counts.
    families: Vec<Family>,
    /// The indexes of the providers that own URIs or templates.
    with_resources: HashSet<usize>,
    pub(crate) templates: Arc<[Template]>,
    /// The index of each template's provider.
    template_mounts: Vec<usize>,
    pub(crate) prompts: Arc<[Prompt]>,
    by_prompt: HashMap<String, Route>,
    /// The capabilities, each with the index of the provider that serves it.
    capabilities: Vec<(&'static str, usize)>,
    /// The index of the provider that bundles tools, if one does.
    bundler: Option<usize>,
    /// The route of each tool.
    tool_routes: Vec<Route>,
    /// The things that policy has stopped because their definition changed.
    pub(crate) stopped: Stopped,
    /// The mode for invisible text that these lists were made with.
    pub(crate) invisible: Invisible,
    /// Tools that are refused because of invisible text, by their index, and why.
    pub(crate) refused: HashMap<usize, String>,
    /// The parts of these lists that certain callers see.
    pub(crate) views: Views,
}

impl Routes {
    /// Asks all providers for their lists. If a name belongs to another provider, the thing gets another name. If no
    /// other name is free, it is left out. The first such conflict is returned. `session`: the session whose lists are
    /// asked for, if it has its own.
    pub(crate) fn ask(mounts: Arc<[Mount]>, claims: &Claims, session: Option<SessionId>) -> (Self, Option<HubError>) {
        let mut duplicate = None;
        let mut note = |what, name: &str| {
            duplicate.get_or_insert_with(|| HubError::Duplicate { what, name: name.to_owned() });
        };
        let (mut named_tools, mut tool_names) = (Vec::new(), HashSet::new());
        let (mut resources, mut by_uri) = (Vec::new(), HashMap::new());
        let (mut prompts, mut by_prompt) = (Vec::new(), HashMap::new());
        let mut templates: Vec<Claimed<Template>> = Vec::new();
        let mut capabilities: Vec<(&'static str, usize)> = Vec::new();
        let bundler = mounts.iter().position(|mount| mount.provider.bundles().is_some());
        let bundles = bundler.and_then(|place| mounts[place].provider.bundles());
        // Before any name is claimed: a round of claims holds a lock, and providers may take time to answer.
        let mut lists: Vec<_> = mounts.iter().map(|mount| listed(&*mount.provider, session)).collect();
        let is_settled: Vec<_> = mounts.iter().map(|mount| mount.provider.settling().is_none()).collect();
        let served: Vec<_> = mounts.iter().map(|mount| mount.provider.capabilities()).collect();
        let mut round = claims.round(&mounts);
        if session.is_none() {
            round.restart();
        }
        for (mount, list) in lists.iter_mut().enumerate() {
            if !list.is_empty() || is_settled[mount] {
                round.know(mount);
            }
            for template in std::mem::take(&mut list.templates) {
                if let Some(since) = round.claim_template(&template, mount) {
                    templates.push(Claimed { thing: template, mount, since });
                }
            }
        }
        templates.order_by_key(|one| one.since);
        let listed = templates.iter().map(|one| (one, true));
        let unlisted = round.held(Space::Template).into_iter();
        let unlisted: Vec<_> = unlisted.map(|one| one.map(|text| Template::new(text, "", ""))).collect();
        let mut owned: Vec<_> = listed.chain(unlisted.iter().map(|one| (one, false))).collect();
        owned.order_by_key(|(one, _)| (mounts[one.mount].naming.yields, one.since));
        for (index, ((mount, listed), served)) in mounts.iter().zip(lists).zip(served).enumerate() {
            let naming = &mount.naming;
            for capability in served {
                // Each capability is served by exactly one provider.
                if !capabilities.iter().any(|(served, _)| *served == capability)
                    && round.claim(Space::Capability, capability, index).is_some()
                {
                    capabilities.push((capability, index));
                }
            }
            let mut own_names = HashSet::new();
            for mut tool in listed.tools {
                let Some(mut shown) = naming.shown(&tool.name).filter(|_| own_names.insert(tool.name.clone())) else {
                    continue;
                };
                let mut taken_name = None;
                if round.claim(Space::Tool, &shown, index).is_none() || tool_names.contains(&shown) {
                    note("tool", &shown);
                    taken_name = Some(std::mem::replace(&mut shown, naming.instead(&tool.name)));
                    if round.claim(Space::Tool, &shown, index).is_none() {
                        continue;
                    }
                }
                if tool_names.insert(shown.clone()) {
                    let rivals = rivals(&shown, index, &mounts);
                    let route = Route { rivals, taken_name, ..Route::to(index, &tool.name) };
                    tool.name = shown;
                    named_tools.push((tool, route));
                }
            }
            let mut older = round.older_templates(index, &owned);
            for mut resource in listed.resources {
                let mut shown = resource.uri.clone();
                if !round.claim_uri(&shown, index, &mut older) || by_uri.contains_key(&shown) {
                    note("resource", &shown);
                    let Some(other) = naming.other_uri(&shown) else { continue };
                    shown = other;
                    if !round.claim_uri(&shown, index, &mut older) {
                        continue;
                    }
                }
                if let Entry::Vacant(free) = by_uri.entry(shown.clone()) {
                    free.insert(Route::to(index, &resource.uri));
                    resource.uri = shown;
                    resources.push(resource);
                }
            }
            own_names.clear();
            for mut prompt in listed.prompts {
                let Some(mut shown) = naming.shown(&prompt.name).filter(|_| own_names.insert(prompt.name.clone()))
                else {
                    continue;
                };
                let mut taken_name = None;
                if round.claim(Space::Prompt, &shown, index).is_none() || by_prompt.contains_key(&shown) {
                    note("prompt", &shown);
                    taken_name = Some(std::mem::replace(&mut shown, naming.instead(&prompt.name)));
                    if round.claim(Space::Prompt, &shown, index).is_none() {
                        continue;
                    }
                }
                if let Entry::Vacant(free) = by_prompt.entry(shown.clone()) {
                    let rivals = rivals(&shown, index, &mounts);
                    free.insert(Route { rivals, taken_name, ..Route::to(index, &prompt.name) });
                    prompt.name = shown;
                    prompts.push(prompt);
                }
            }
        }
        let held = round.held(Space::Resource).into_iter().map(|one| (one.thing, one.mount)).collect();
        let families = owned.into_iter().map(|(one, is_listed)| Family {
            template: Template::new(&one.thing.uri_template, "", ""),
            mount: one.mount,
            since: one.since,
            is_listed,
            refused: None,
        });
        let families: Vec<_> = families.collect();
        round.end();
        let (mut tools, mut by_tool, mut tool_routes) = (Vec::new(), HashMap::new(), Vec::new());
        for (tool, route) in named_tools {
            let name = tool.name.clone();
            let seen = match bundles {
                Some(bundles) => bundles.shown(tool, session),
                None => Some(tool),
            };
            if let Some(tool) = seen {
                by_tool.insert(name, tools.len());
                tool_routes.push(route);
                tools.push(tool);
            }
        }
        let origins = Origins::of(&mounts, &tools, &tool_routes);
        let origins: Vec<_> =
            tools.iter().zip(&tool_routes).map(|(tool, to)| origins.origin(to, [&tool.name])).collect();
        for (tool, origin) in tools.iter_mut().zip(origins) {
            tool.origin = Some(origin);
        }
        let owners = by_uri.values().map(|route: &Route| route.mount);
        let with_resources = owners.chain(families.iter().map(|family: &Family| family.mount)).collect();
        let mut routes = Self {
            checks: tools.iter().map(|_| OnceLock::new()).collect(),
            tools: tools.into(),
            by_tool,
            resources: resources.into(),
            by_uri,
            held,
            families,
            with_resources,
            template_mounts: templates.iter().map(|one| one.mount).collect(),
            templates: templates.into_iter().map(|one| one.thing).collect(),
            prompts: prompts.into(),
            by_prompt,
            capabilities,
            bundler,
            tool_routes,
            stopped: Stopped::default(),
            invisible: Invisible::Show,
            refused: HashMap::new(),
            views: Views::default(),
            mounts,
        };
        routes.rank_families();
        (routes, duplicate)
    }

    /// A call of a tool, with the arguments that its session has configured for it.
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

    /// A tool, by its index, as it looks to a caller that knows it by this name.
    pub(crate) fn renamed(&self, tool: usize, name: String) -> Tool {
        let listed = &self.tools[tool];
        let mut renamed = listed.clone();
        if listed.name != name {
            let origins = Origins::of(&self.mounts, &self.tools, &self.tool_routes);
            renamed.origin = Some(origins.origin(self.route_of(tool), [&listed.name, &name]));
            renamed.name = name;
        }
        renamed
    }

    /// The schemas of a tool, by its index.
    pub(crate) fn checks_of(&self, tool: usize, validation: &dyn Validation) -> &dyn ToolChecks {
        &**self.checks[tool].get_or_init(|| validation.of_tool())
    }

    /// The route of a tool, by its index.
    pub(crate) fn route_of(&self, tool: usize) -> &Route {
        &self.tool_routes[tool]
    }

    /// The target of an operation. Lists and conversations with the agent have none.
    pub(crate) fn target(&self, operation: &Operation<'_>) -> Option<Target> {
        match operation {
            Operation::CallTool(call) => self.place_of(&call.name).map(Target::Tool),
            Operation::GetPrompt(call) => self.prompt(&call.name).cloned().map(Target::Prompt),
            Operation::ReadResource(uri) | Operation::Watch(uri) => self.resource(uri).map(Target::Resource),
            Operation::Complete(call) => match &call.of {
                CompletionOf::Prompt(name) => self.prompt(name).cloned().map(Target::Prompt),
                CompletionOf::Template(uri) => {
                    let named = self.place_of_template(uri).map(|mount| Route::to(mount, uri));
                    named.or_else(|| self.resource(uri)).map(Target::Resource)
                }
            },
            Operation::Capability(call) => {
                let served = |mount| Target::Capability(call.capability, mount);
                self.capability(call.capability).map(served)
            }
            Operation::Agent(_)
            | Operation::ListTools
            | Operation::ListResources
            | Operation::ListTemplates
            | Operation::ListPrompts => None,
        }
    }

    /// The index of the provider of a target.
    pub(crate) fn mount_of(&self, target: &Target) -> usize {
        match target {
            Target::Tool(tool) => self.route_of(*tool).mount,
            Target::Resource(route) | Target::Prompt(route) => route.mount,
            Target::Capability(_, mount) => *mount,
        }
    }

    /// A target as policy sees it. `name`: the caller's name for it, unless it is a tool.
    pub(crate) fn what<'a>(&'a self, target: &'a Target, name: &'a str) -> CallTarget<'a> {
        let prefix = |mount: usize| self.mounts[mount].naming.prefix.as_deref();
        let routed = |kind, route: &'a Route, name| {
            let what = CallTarget::named(kind, self.upstream(route.mount), &route.own, name);
            what.among(prefix(route.mount), &route.rivals).instead_of(route.taken_name.as_deref())
        };
        match target {
            Target::Tool(tool) => self.tool(*tool),
            Target::Resource(route) => routed(Kind::Resource, route, name),
            Target::Prompt(route) => routed(Kind::Prompt, route, name),
            Target::Capability(capability, mount) => {
                CallTarget::named(Kind::Capability, self.upstream(*mount), capability, name).among(prefix(*mount), &[])
            }
        }
    }

    /// A tool as policy sees it, by its index.
    pub(crate) fn tool(&self, tool: usize) -> CallTarget<'_> {
        let (route, tool) = (self.route_of(tool), &self.tools[tool]);
        let prefix = self.mounts[route.mount].naming.prefix.as_deref();
        let what = CallTarget::tool(self.upstream(route.mount), &route.own, tool).among(prefix, &route.rivals);
        what.instead_of(route.taken_name.as_deref())
    }

    /// The URI of a resource or template as a target of the provider of a mount.
    pub(crate) fn unlisted(&self, uri: &str, mount: usize) -> Target {
        Target::Resource(Route::to(mount, uri))
    }

    /// The target of an operation that reads a resource which no provider lists. Only providers that `shows` accepts
    /// are considered. If the URI has an owner, the owner gets the call. Without an owner, the call goes to the only
    /// provider with resources, because servers answer URIs that they do not list. If several providers have resources,
    /// an unclaimed URI belongs to none of them.
    pub(crate) fn unlisted_target(&self, operation: &Operation<'_>, shows: impl Fn(usize) -> bool) -> Option<Target> {
        let Operation::ReadResource(uri) = operation else { return None };
        let mount = match self.owner(uri) {
            Some(owner) => Some(owner).filter(|owner| shows(*owner)),
            None => self.only_with_resources(shows),
        };
        let has_unlisted = |mount: &usize| self.mounts[*mount].provider.features().unlisted_resources;
        mount.filter(has_unlisted).map(|mount| self.unlisted(uri, mount))
    }

    /// The index of the only provider with resources, among those that `shows` accepts. A provider whose lists could
    /// not be fetched counts only if there is no other.
    fn only_with_resources(&self, shows: impl Fn(usize) -> bool) -> Option<usize> {
        let has_some = |place: &usize| {
            let lists_some = self.with_resources.contains(place);
            shows(*place) && (lists_some || self.mounts[*place].provider.features().unlisted_resources)
        };
        let all: Vec<_> = (0..self.mounts.len()).filter(has_some).collect();
        let is_known = |place: &&usize| self.mounts[**place].provider.trouble(List::Resources).is_none();
        let known: Vec<_> = all.iter().filter(is_known).copied().collect();
        match (&all[..], &known[..]) {
            ([one], _) | (_, [one]) => Some(*one),
            _ => None,
        }
    }

    /// Sorts the templates by precedence: first those that providers had from the start, before those that were added
    /// later. Then the most specific first, then in the order of the configuration.
    fn rank_families(&mut self) {
        let mounts = &self.mounts;
        self.families.sort_by_cached_key(|family| {
            let (round, place) = family.since;
            (mounts[family.mount].naming.yields, round, std::cmp::Reverse(family.template.literal().len()), place)
        });
    }

    /// The index of a provider, if it is mounted.
    pub(crate) fn place(&self, provider: &Weak<dyn Provider>) -> Option<usize> {
        self.mounts.iter().position(|mount| std::ptr::addr_eq(provider.as_ptr(), Arc::as_ptr(&mount.provider)))
    }

    /// The target for a resource that the provider calls `own` and that is shown under another URI.
    pub(crate) fn resource_at(&self, mount: usize, own: &str, shown: &str) -> Target {
        let listed = self.resource(shown).filter(|route| route.mount == mount);
        Target::Resource(listed.unwrap_or_else(|| Route::to(mount, own)))
    }

    /// The name of the provider of a mount.
    pub(crate) fn upstream(&self, mount: usize) -> &str {
        self.mounts[mount].upstream()
    }

    /// Whether the provider of a mount lists anything.
    pub(crate) fn lists_anything_of(&self, mount: usize) -> bool {
        let prompts_and_resources = self.by_uri.values().chain(self.by_prompt.values());
        self.tool_routes.iter().chain(prompts_and_resources).any(|route| route.mount == mount)
            || self.template_mounts.contains(&mount)
    }

    /// The index of the provider of a template, by its text.
    pub(crate) fn place_of_template(&self, text: &str) -> Option<usize> {
        let index = self.templates.iter().position(|template| template.uri_template == text)?;
        Some(self.template_mounts[index])
    }

    /// The index of the provider of a template, by the template's index.
    pub(crate) fn template_mount(&self, template: usize) -> usize {
        self.template_mounts[template]
    }

    /// The provider of the resource with this URI: by name, else by a template that matches.
    pub(crate) fn resource(&self, uri: &str) -> Option<Route> {
        let by_template = || {
            let family = self.family(uri).filter(|family| family.is_listed)?;
            Some(Route { refused: family.refused.clone(), ..Route::to(family.mount, uri) })
        };
        self.by_uri.get(uri).cloned().or_else(by_template)
    }

    /// The index of the provider that owns a URI, even if the provider does not list it now.
    pub(crate) fn owner(&self, uri: &str) -> Option<usize> {
        let by_name = self.by_uri.get(uri).map(|route| route.mount).or_else(|| self.held.get(uri).copied());
        by_name.or_else(|| self.family(uri).map(|family| family.mount))
    }

    /// The template that decides on a URI which no provider lists now.
    fn family(&self, uri: &str) -> Option<&Family> {
        let owner = self.held.get(uri);
        let mut families = self.families.iter().filter(|family| owner.is_none_or(|owner| *owner == family.mount));
        // A template without a scheme could claim the URIs of every provider, so it decides only if there is just one.
        let only = LazyCell::new(|| self.only_with_resources(|_| true));
        let may_claim = |family: &Family| family.template.has_scheme() || *only == Some(family.mount);
        families.find(|family| may_claim(family) && family.template.variables(uri).is_some())
    }

    /// The reason for refusing a target, if it contains invisible text.
    pub(crate) fn refusal<'a>(&'a self, target: &'a Target) -> Option<&'a str> {
        match target {
            Target::Tool(tool) => self.refused.get(tool).map(String::as_str),
            Target::Resource(route) | Target::Prompt(route) => route.refused.as_deref(),
            Target::Capability(..) => None,
        }
    }

    /// The capabilities that a provider serves, in the order of the mounts.
    pub(crate) fn capabilities(&self) -> impl Iterator<Item = &'static str> {
        self.capabilities.iter().map(|(capability, _)| *capability)
    }

    /// The index of the provider that serves a capability.
    pub(crate) fn capability(&self, name: &str) -> Option<usize> {
        self.capabilities.iter().find(|(capability, _)| *capability == name).map(|(_, mount)| *mount)
    }

    /// The route of a prompt.
    pub(crate) fn prompt(&self, name: &str) -> Option<&Route> {
        self.by_prompt.get(name)
    }
}

/// Everything that a provider lists, or the lists of one session if the provider has any for it.
fn listed(provider: &dyn Provider, session: Option<SessionId>) -> Listed {
    session.and_then(|session| provider.listed_for(session)).unwrap_or_else(|| Listed {
        tools: provider.tools(),
        resources: provider.resources(),
        templates: provider.templates(),
        prompts: provider.prompts(),
    })
}

/// Prefixes of other mounts that a shown name begins with, too.
fn rivals(shown: &str, mount: usize, mounts: &[Mount]) -> Vec<String> {
    let Naming { prefix: own, yields, .. } = &mounts[mount].naming;
    // A provider that yields does not decide which patterns concern another provider: otherwise it could lift a
    // restriction.
    let heard = mounts.iter().filter(|other| *yields || !other.naming.yields);
    let (own, prefixes) = (own.as_deref(), heard.filter_map(|other| other.naming.prefix.as_deref()));
    prefixes.filter(|prefix| Some(*prefix) != own && is_within(shown, prefix)).map(str::to_owned).collect()
}
