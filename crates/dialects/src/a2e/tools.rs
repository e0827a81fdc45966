//! Lists of tools: the filter of a request, and the conversion to `ToolDefinition` (a2e §9).

use std::borrow::Cow;

use gladhand_core::operations::{MemberOrder, Progress, TaskSupport, Tool};
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue, json, values};

use super::fields::text_of;
use super::message::Object;
use super::parameters::{schema_of, write_parameters};

/// Members of a definition that the neutral model has.
const NEUTRAL: [&str; 7] =
    ["name", "description", "input_parameters", "output_parameters", "tags", "defer_loading", "title"];
/// Members of a definition that only A2E has, with their defaults.
const OWN: [(&str, Kind, &str); 4] = [
    ("streaming", Kind::Bool, "true"),
    ("idempotent", Kind::Bool, "false"),
    ("version", Kind::String, r#""1.0.0""#),
    ("toolkit", Kind::String, "null"),
];

/// The filter of a `tool/list/req`.
#[derive(Debug)]
pub(super) struct Filter {
    query: String,
    tags: Vec<String>,
    include_deferred: bool,
}

impl Filter {
    /// The number of kept bytes that the peer controls.
    pub(super) fn held_bytes(&self) -> usize {
        self.query.len() + self.tags.iter().map(|tag| size_of::<String>() + tag.capacity()).sum::<usize>()
    }

    pub(super) fn new(query: &str, tags: &[Cow<'_, str>], include_deferred: bool) -> Self {
        Self {
            query: query.to_lowercase(),
            tags: tags.iter().map(|tag| tag.to_lowercase()).collect(),
            include_deferred,
        }
    }

    /// Whether a tool is in the list. A search also finds deferred tools: the flag only affects lists without a query.
    pub(super) fn shows(&self, tool: &Tool) -> bool {
        let tags: Vec<_> = tool.tags.iter().map(|tag| tag.to_lowercase()).collect();
        if !self.tags.iter().all(|wanted| tags.contains(wanted)) {
            return false;
        }
        if self.query.is_empty() {
            return self.include_deferred || !tool.deferred;
        }
        let found = |text: &str| text.to_lowercase().contains(&self.query);
        found(&tool.name) || found(&tool.description) || tags.iter().any(|tag| tag.contains(&self.query))
    }
}

/// Writes a `ToolDefinition`.
pub(super) fn write_definition(out: &mut Vec<u8>, tool: &Tool) {
    let mut definition = Object::open(out)
        .with("name", &tool.name)
        .with("description", &tool.description)
        .written("input_parameters", |out| write_parameters(out, Some(&tool.input_schema)))
        .written("output_parameters", |out| write_parameters(out, tool.output_schema.as_deref()));
    let extra = |name: &str| tool.extra.iter().find(|(key, _)| key == name).map(|(_, raw)| &**raw);
    let own = |name: &str, kind: Kind| extra(name).filter(|raw| Kind::of(raw) == kind);
    for (name, kind, default) in &OWN[..2] {
        definition = definition.raw(name, own(name, *kind).map_or(*default, RawValue::get));
    }
    definition = definition.with("tags", &tool.tags);
    for (name, kind, default) in &OWN[2..] {
        definition = definition.raw(name, own(name, *kind).map_or(*default, RawValue::get));
    }
    definition = definition.with("defer_loading", &tool.deferred);
    if let Some(title) = &tool.title {
        definition = definition.with("title", title);
    }
    // Agents ignore unknown members, so members from other dialects can be included.
    let taken = |name: &str| NEUTRAL.contains(&name) || OWN.iter().any(|(own, ..)| *own == name);
    for (name, raw) in tool.extra.iter().filter(|(name, _)| !taken(name)) {
        definition = definition.raw(name, raw.get());
    }
    definition.close();
}

/// Reads a `ToolDefinition`; `None` if it has no name.
pub(super) fn read_definition(raw: &RawValue) -> Option<Tool> {
    let members = Members::of(raw)?;
    let name = members.raw("name").and_then(text_of)?;
    let text = |name: &str| members.raw(name).and_then(text_of);
    let tags = members.raw("tags").map_or_else(Vec::new, texts);
    let outputs = members.some("output_parameters").filter(|raw| raw.get() != "[]");
    let extra = members.iter().filter(|(name, _)| !NEUTRAL.contains(name));
    Some(Tool {
        name: name.into_owned(),
        title: text("title").map(Cow::into_owned),
        description: text("description").unwrap_or_default().into_owned(),
        input_schema: schema_of(members.some("input_parameters")),
        output_schema: outputs.map(|raw| schema_of(Some(raw))),
        tags,
        deferred: members.raw("defer_loading").is_some_and(|raw| raw.get() == "true"),
        tasks: TaskSupport::Forbidden,
        extra: extra.map(|(name, raw)| (name.to_owned(), raw.to_owned())).collect(),
        order: MemberOrder::default(),
        vouched_read_only: false,
        origin: None,
    })
}

/// The strings of a list. Other items are left out.
fn texts(raw: &RawValue) -> Vec<String> {
    let items = values::items(raw.get()).unwrap_or_default();
    items.into_iter().filter_map(json::string).map(Cow::into_owned).collect()
}

/// Progress as a percentage. If the total is unknown, the number itself is used.
pub(super) fn percent(progress: &Progress) -> u8 {
    let percent = match progress.total {
        Some(total) if total > 0.0 => progress.progress / total * 100.0,
        _ => progress.progress,
    };
    // A cast from a float saturates, and turns NaN into 0.
    percent.clamp(0.0, 100.0) as u8
}
