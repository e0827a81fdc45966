//! Lists: asked for page by page, with bounds, and answered once with all of it.

use std::collections::HashSet;

use gladhand_operations::{Failure, Operation, Prompt, Reply, Resource, Template, Tool};
use gladhand_wire::{Members, RawValue};

use super::results::{self, array, upstream_error};
use super::work::Params;

/// Beyond these a list is not believed.
const MAX_PAGES: usize = 1000;
const MAX_ENTRIES: usize = 100_000;

/// A list as far as it has come.
#[derive(Debug)]
pub(super) struct Pages {
    entries: Entries,
    /// All cursors so far: a server that repeats one would be asked forever.
    seen: HashSet<String>,
}

#[derive(Debug)]
enum Entries {
    Tools(Vec<Tool>),
    Resources(Vec<Resource>),
    Templates(Vec<Template>),
    Prompts(Vec<Prompt>),
}

/// What follows from a page.
#[derive(Debug)]
pub(super) enum Turned {
    /// It was the last one.
    Whole(Reply),
    /// The members of `params` that ask for the next one.
    Next(Pages, String),
}

impl Pages {
    /// An empty list of what an operation lists; `None` if it lists nothing.
    pub(super) fn of(operation: &Operation<'_>) -> Option<Self> {
        let entries = match operation {
            Operation::ListTools => Entries::Tools(Vec::new()),
            Operation::ListResources => Entries::Resources(Vec::new()),
            Operation::ListTemplates => Entries::Templates(Vec::new()),
            Operation::ListPrompts => Entries::Prompts(Vec::new()),
            _ => return None,
        };
        Some(Self { entries, seen: HashSet::new() })
    }

    /// An empty list of tools.
    pub(super) fn of_tools() -> Self {
        Self { entries: Entries::Tools(Vec::new()), seen: HashSet::new() }
    }

    /// Adds a page.
    pub(super) fn turned(mut self, members: &Members<'_>) -> Result<Turned, Failure> {
        let what = self.entries.member();
        let page = members.raw(what).and_then(array);
        let page = page.ok_or_else(|| upstream_error(format!("the upstream's list has no `{what}`")))?;
        self.entries.extend(page);
        let Some(next) = members.str("nextCursor") else {
            return Ok(Turned::Whole(self.entries.into_reply()));
        };
        if !self.seen.insert(next.clone().into_owned()) {
            return Err(upstream_error(format!("the upstream's list of `{what}` goes in a circle")));
        }
        if self.seen.len() >= MAX_PAGES || self.entries.len() >= MAX_ENTRIES {
            return Err(upstream_error(format!("the upstream's list of `{what}` does not end")));
        }
        let mut params = Params::default();
        params.text("cursor", &next);
        Ok(Turned::Next(self, params.0))
    }
}

impl Entries {
    /// The member of a page that holds them.
    fn member(&self) -> &'static str {
        match self {
            Self::Tools(_) => "tools",
            Self::Resources(_) => "resources",
            Self::Templates(_) => "resourceTemplates",
            Self::Prompts(_) => "prompts",
        }
    }

    /// Takes over a page. What has no name or no URI is left out, since nobody could ask for it.
    fn extend(&mut self, page: Vec<&RawValue>) {
        let page = page.into_iter();
        match self {
            Self::Tools(tools) => tools.extend(page.filter_map(results::tool)),
            Self::Resources(resources) => resources.extend(page.filter_map(results::resource)),
            Self::Templates(templates) => templates.extend(page.filter_map(results::template)),
            Self::Prompts(prompts) => prompts.extend(page.filter_map(results::prompt)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Tools(tools) => tools.len(),
            Self::Resources(resources) => resources.len(),
            Self::Templates(templates) => templates.len(),
            Self::Prompts(prompts) => prompts.len(),
        }
    }

    fn into_reply(self) -> Reply {
        match self {
            Self::Tools(tools) => Reply::Tools(tools.into()),
            Self::Resources(resources) => Reply::Resources(resources.into()),
            Self::Templates(templates) => Reply::Templates(templates.into()),
            Self::Prompts(prompts) => Reply::Prompts(prompts.into()),
        }
    }
}
