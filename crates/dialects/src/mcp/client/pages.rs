//! Lists: requested page by page, within limits, and returned as a whole.

use std::collections::HashSet;

use gladhand_core::operations::{Failure, FailureKind, Operation, Prompt, Reply, Resource, Template, Tool};
use gladhand_core::wire::{Members, RawValue};

use super::results::{self, array, upstream_error};
use super::work::Params;
use crate::MAX_TOOLS;

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 1000;

/// Maximum number of entries of a list. A server may list each of its files as a resource. Each URI may be compared
/// with each template, so there may be fewer templates.
const MAX_RESOURCES: usize = 100_000;
const MAX_PROMPTS: usize = 10_000;
const MAX_TEMPLATES: usize = 1000;

/// Maximum memory of a list: its text, plus a fixed amount for each entry.
const MAX_BYTES: usize = 48 * 1024 * 1024;
const ENTRY_BYTES: usize = 256;

/// A list with its pages so far.
#[derive(Debug)]
pub(super) struct Pages {
    entries: Entries,
    /// All cursors so far. A server that repeats a cursor would cause an endless loop.
    seen: HashSet<String>,
    /// The memory of the entries, in bytes.
    bytes: usize,
}

#[derive(Debug)]
enum Entries {
    Tools(Vec<Tool>),
    Resources(Vec<Resource>),
    Templates(Vec<Template>),
    Prompts(Vec<Prompt>),
}

/// The result of adding a page.
#[derive(Debug)]
pub(super) enum PageResult {
    /// The page was the last one.
    Whole(Reply),
    /// There is another page. Contains the members of `params` that request it.
    Next(Pages, String),
}

impl Pages {
    /// An empty list for a list operation. `None` for other operations.
    pub(super) fn of(operation: &Operation<'_>) -> Option<Self> {
        let entries = match operation {
            Operation::ListTools => Entries::Tools(Vec::new()),
            Operation::ListResources => Entries::Resources(Vec::new()),
            Operation::ListTemplates => Entries::Templates(Vec::new()),
            Operation::ListPrompts => Entries::Prompts(Vec::new()),
            _ => return None,
        };
        Some(Self { entries, ..Self::of_tools() })
    }

    /// An empty list of tools.
    pub(super) fn of_tools() -> Self {
        Self { entries: Entries::Tools(Vec::new()), seen: HashSet::new(), bytes: 0 }
    }

    /// Adds a page.
    pub(super) fn add_page(mut self, members: &Members<'_>) -> Result<PageResult, Failure> {
        let member_name = self.entries.member();
        let page = members.raw(member_name).and_then(array);
        let page = page.ok_or_else(|| upstream_error(format!("the upstream's list has no `{member_name}`")))?;
        let max_entries = self.entries.max_entries();
        if self.entries.len() + page.len() > max_entries {
            return Err(Failure::list_too_long(member_name, max_entries));
        }
        self.bytes += page.iter().map(|entry| entry.get().len() + ENTRY_BYTES).sum::<usize>();
        if self.bytes > MAX_BYTES {
            let message = format!("the upstream's list of `{member_name}` takes more than {MAX_BYTES} bytes");
            return Err(Failure::new(FailureKind::TooMany, message));
        }
        self.entries.extend(page);
        let Some(next) = members.str("nextCursor") else {
            return Ok(PageResult::Whole(self.entries.into_reply()));
        };
        if !self.seen.insert(next.clone().into_owned()) {
            return Err(upstream_error(format!("the upstream's list of `{member_name}` repeats a cursor")));
        }
        if self.seen.len() >= MAX_PAGES {
            return Err(upstream_error(format!("the upstream's list of `{member_name}` does not end")));
        }
        let mut params = Params::default();
        params.text("cursor", &next);
        Ok(PageResult::Next(self, params.0))
    }
}

impl Entries {
    /// The member of a page that contains the entries.
    fn member(&self) -> &'static str {
        match self {
            Self::Tools(_) => "tools",
            Self::Resources(_) => "resources",
            Self::Templates(_) => "resourceTemplates",
            Self::Prompts(_) => "prompts",
        }
    }

    /// Adds the entries of a page. Entries without a name or a URI are left out, since clients cannot request them.
    fn extend(&mut self, page: Vec<&RawValue>) {
        let page = page.into_iter();
        match self {
            Self::Tools(tools) => tools.extend(page.filter_map(results::tool)),
            Self::Resources(resources) => resources.extend(page.filter_map(results::resource)),
            Self::Templates(templates) => templates.extend(page.filter_map(results::template)),
            Self::Prompts(prompts) => prompts.extend(page.filter_map(results::prompt)),
        }
    }

    /// Maximum number of entries.
    fn max_entries(&self) -> usize {
        match self {
            Self::Tools(_) => MAX_TOOLS,
            Self::Resources(_) => MAX_RESOURCES,
            Self::Templates(_) => MAX_TEMPLATES,
            Self::Prompts(_) => MAX_PROMPTS,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds these pages to a list. `Ok`: the list is within its limits.
    fn read(operation: &Operation<'_>, pages: &[String]) -> Result<(), String> {
        let mut list = Pages::of(operation).unwrap();
        for (at, page) in pages.iter().enumerate() {
            let result = format!(r#"{{"{}":[{page}],"nextCursor":"{at}"}}"#, list.entries.member());
            let result = gladhand_core::wire::json::raw(result);
            match list.add_page(&Members::of(&result).unwrap()).map_err(|failure| failure.message)? {
                PageResult::Next(next, _) => list = next,
                PageResult::Whole(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn entries(count: usize) -> String {
        let entry = r#"{"name":"n","uri":"a:","uriTemplate":"a:{x}","inputSchema":{}}"#;
        vec![entry; count].join(",")
    }

    #[test]
    fn every_list_has_a_bound_of_entries_on_its_first_page_and_over_all_pages() {
        for (operation, max_entries) in [
            (Operation::ListTools, MAX_TOOLS),
            (Operation::ListPrompts, MAX_PROMPTS),
            (Operation::ListTemplates, MAX_TEMPLATES),
            (Operation::ListResources, MAX_RESOURCES),
        ] {
            assert_eq!(read(&operation, &[entries(max_entries)]), Ok(()), "{operation:?}");
            for pages in [vec![entries(max_entries + 1)], vec![entries(max_entries), entries(1)]] {
                let error = read(&operation, &pages).unwrap_err();
                assert!(error.contains(&format!("has more than {max_entries} entries")), "{operation:?}: {error}");
            }
        }
    }

    #[test]
    fn every_list_has_a_bound_of_bytes() {
        let long = format!(r#"{{"name":"n","description":"{}"}}"#, "x".repeat(MAX_BYTES / 4));
        assert_eq!(read(&Operation::ListTools, &vec![long.clone(); 3]), Ok(()));
        let error = read(&Operation::ListTools, &vec![long; 4]).unwrap_err();
        assert!(error.contains("takes more than"), "{error}");
    }
}
