//! Renders results, errors and notices in the form of a revision.
//!
//! Everything is written directly into the buffer, because payloads are already raw JSON. Members that a revision does
//! not have (structured output, titles, result types) are left out here and nowhere else.

mod content;
mod definitions;
mod failures;
pub(super) mod notices;

use gladhand_core::operations::{Completion, Contents, Outcome, PromptResult, Reply, ToolResult};
use gladhand_core::wire::Frames;
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{Id, Members, rpc};

use super::capabilities::declaration_of_menu;
use super::incoming_requests::{IncomingRequest, RequestKind};
use super::lists::{List, Page};
use super::member_order::{self, arrange};
use super::meta::{SERVER_INFO, SUBSCRIPTION_ID};
use super::revision::{Revision, names};
use super::{cursor, errors};
use crate::side::{CacheHints, ServerSetup};

/// Maximum number of values in a completion.
const MAX_COMPLETIONS: usize = 100;

/// The cache hints of a result for one caller and one time only.
const NEVER_CACHED: &str = r#","ttlMs":0,"cacheScope":"private""#;

/// Maximum size, in bytes, of the server description in every result of 2026-07-28.
const MAX_BRIEF_BYTES: usize = 1024;

/// The constant parts of all answers of a server.
#[derive(Debug)]
pub(super) struct Renderer {
    server_info: String,
    /// The `capabilities` object of each revision, oldest first.
    capabilities: [String; 5],
    /// `,"instructions":"…"`, or nothing.
    instructions: String,
    /// `,"ttlMs":…,"cacheScope":"…"`
    cache_hints: String,
    /// `,"resultType":"complete","_meta":{"…/serverInfo":{…}` up to where other `_meta` would go.
    complete: String,
    /// The number of entries per page.
    page_size: usize,
}

/// A server description with name, version and these members.
fn named(setup: &ServerSetup, about: &[(String, Box<RawValue>)]) -> String {
    let mut info = br#"{"name":"#.to_vec();
    json::write(&mut info, &setup.identity.name);
    text_member(&mut info, "version", Some(&setup.identity.version));
    extras(&mut info, about, &["name", "version"]);
    info.push(b'}');
    String::from_utf8_lossy(&info).into_owned()
}

impl Renderer {
    pub(super) fn new(setup: &ServerSetup) -> Self {
        let server_info = setup.identity.description().map_or_else(|| named(setup, &setup.about), str::to_owned);
        // A long description, for example with icons, is sent once and not with every result.
        let brief = if server_info.len() <= MAX_BRIEF_BYTES { server_info.clone() } else { named(setup, &[]) };
        let instructions = setup.menu.instructions.as_deref().map(|text| json::to_raw(text).get().to_owned());
        let CacheHints { ttl_ms, public } = setup.menu.cache;
        let scope = if public { "public" } else { "private" };
        Self {
            complete: format!(r#","resultType":"complete","_meta":{{"{SERVER_INFO}":{brief}"#),
            server_info,
            capabilities: Revision::ALL.map(|revision| declaration_of_menu(&setup.menu, revision)),
            instructions: instructions.map(|text| format!(r#","instructions":{text}"#)).unwrap_or_default(),
            cache_hints: format!(r#","ttlMs":{ttl_ms},"cacheScope":"{scope}""#),
            page_size: setup.page_size.max(1),
        }
    }

    pub(super) fn initialize_result(&self, wire: &mut Frames, id: &Id, revision: Revision) {
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{"protocolVersion":""#);
        wire.extend_from_slice(revision.as_str().as_bytes());
        wire.extend_from_slice(br#"","capabilities":"#);
        wire.extend_from_slice(self.capabilities[revision as usize].as_bytes());
        wire.extend_from_slice(br#","serverInfo":"#);
        wire.extend_from_slice(self.server_info.as_bytes());
        wire.extend_from_slice(self.instructions.as_bytes());
        wire.push(b'}');
        rpc::finish(wire);
    }

    pub(super) fn discover_result(&self, wire: &mut Frames, id: &Id, revision: Revision) {
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{"supportedVersions":"#);
        json::write(wire, &names(Revision::STATELESS));
        wire.extend_from_slice(br#","capabilities":"#);
        wire.extend_from_slice(self.capabilities[revision as usize].as_bytes());
        wire.extend_from_slice(self.instructions.as_bytes());
        self.close_cacheable(wire, revision, &self.cache_hints, None);
        rpc::finish(wire);
    }

    /// The empty result that ends a subscription.
    pub(super) fn listen_result(&self, wire: &mut Frames, id: &Id) {
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{"resultType":"complete","_meta":{""#);
        wire.extend_from_slice(SUBSCRIPTION_ID.as_bytes());
        wire.extend_from_slice(br#"":"#);
        wire.extend_from_slice(id.as_bytes());
        wire.extend_from_slice(br#",""#);
        wire.extend_from_slice(SERVER_INFO.as_bytes());
        wire.extend_from_slice(br#"":"#);
        wire.extend_from_slice(self.server_info.as_bytes());
        wire.extend_from_slice(b"}}");
        rpc::finish(wire);
    }

    /// Appends `,"_meta":{…}` with the identity of the server (2026-07-28).
    pub(super) fn about_server(&self, wire: &mut Vec<u8>) {
        wire.extend_from_slice(br#","_meta":{""#);
        wire.extend_from_slice(SERVER_INFO.as_bytes());
        wire.extend_from_slice(br#"":"#);
        wire.extend_from_slice(self.server_info.as_bytes());
        wire.push(b'}');
    }

    /// An empty list.
    pub(super) fn empty_list(&self, wire: &mut Frames, id: &Id, list: List, revision: Revision) {
        let page = Page { of: list, from: 0 };
        self.page(wire, id, page, revision, &[(); 0], |_, (), _| {});
    }

    /// The answer to a call.
    pub(super) fn outcome(&self, wire: &mut Frames, call: &IncomingRequest, outcome: Outcome) {
        let (id, revision) = (&call.to.id, call.revision);
        match (outcome, &call.request_kind) {
            (Ok(Reply::Tool(result)), RequestKind::Tool) => self.tool_result(wire, id, &result, revision),
            (Ok(reply), &RequestKind::Page(page)) => match (reply, page.of) {
                (Reply::Tools(all), List::Tools) => self.page(wire, id, page, revision, &all, definitions::tool),
                (Reply::Resources(all), List::Resources) => {
                    self.page(wire, id, page, revision, &all, definitions::resource);
                }
                (Reply::Templates(all), List::Templates) => {
                    self.page(wire, id, page, revision, &all, definitions::template);
                }
                (Reply::Prompts(all), List::Prompts) => {
                    self.page(wire, id, page, revision, &all, definitions::prompt);
                }
                _ => mismatched_reply(wire, id),
            },
            (Ok(Reply::Contents(contents)), RequestKind::Contents { .. }) => self.contents(wire, call, &contents),
            (Ok(Reply::Prompt(prompt)), RequestKind::Prompt) => self.prompt(wire, id, &prompt, revision),
            (Ok(Reply::Completion(completion)), RequestKind::Completion) => {
                self.completion(wire, id, &completion, revision);
            }
            (Ok(Reply::Watching(_)), RequestKind::Watch { .. }) => empty_result(wire, id),
            (Err(failure), RequestKind::Tool) if failures::is_for_the_model(failure.kind, revision) => {
                self.tool_result(wire, id, &ToolResult::failure(&failure.message), revision);
            }
            (Err(failure), request_kind) => failures::failed(wire, id, request_kind, &failure, revision),
            (Ok(_), _) => mismatched_reply(wire, id),
        }
    }

    fn tool_result(&self, wire: &mut Frames, id: &Id, result: &ToolResult, revision: Revision) {
        rpc::begin_result(wire, id);
        let begin = wire.len();
        wire.extend_from_slice(br#"{"content":["#);
        each(wire, &result.content, |wire, block| content::content(wire, block, revision));
        wire.push(b']');
        if let Some(structured) = &result.structured
            && revision.has_structured_output()
            && (revision.has_any_structured_output() || Kind::of(structured) == Kind::Object)
        {
            member(wire, "structuredContent", structured);
        }
        if result.failed {
            wire.extend_from_slice(br#","isError":true"#);
        }
        extras(wire, &result.extra, &["content", "structuredContent", "isError", "resultType", "_meta"]);
        self.close_result(wire, revision, carried_meta(&result.extra));
        arrange(wire, begin, result.order, &member_order::TOOL_RESULT);
        rpc::finish(wire);
    }

    fn contents(&self, wire: &mut Frames, call: &IncomingRequest, contents: &Contents) {
        rpc::begin_result(wire, &call.to.id);
        let begin = wire.len();
        wire.extend_from_slice(br#"{"contents":["#);
        each(wire, &contents.parts, |wire, part| wire.extend_from_slice(part.get().as_bytes()));
        wire.push(b']');
        extras(wire, &contents.extra, &["contents", "resultType", "ttlMs", "cacheScope", "_meta"]);
        let has_asked = call.origin.as_ref().is_some_and(|origin| origin.has_asked);
        let hints = if has_asked { NEVER_CACHED } else { &self.cache_hints };
        self.close_cacheable(wire, call.revision, hints, carried_meta(&contents.extra));
        arrange(wire, begin, contents.order, &member_order::CONTENTS);
        rpc::finish(wire);
    }

    fn prompt(&self, wire: &mut Frames, id: &Id, prompt: &PromptResult, revision: Revision) {
        rpc::begin_result(wire, id);
        let begin = wire.len();
        wire.extend_from_slice(br#"{"messages":["#);
        each(wire, &prompt.messages, |wire, message| content::message(wire, message, revision));
        wire.push(b']');
        text_member(wire, "description", prompt.description.as_deref());
        extras(wire, &prompt.extra, &["messages", "description", "resultType", "_meta"]);
        self.close_result(wire, revision, carried_meta(&prompt.extra));
        arrange(wire, begin, prompt.order, &member_order::PROMPT_RESULT);
        rpc::finish(wire);
    }

    fn completion(&self, wire: &mut Frames, id: &Id, completion: &Completion, revision: Revision) {
        let values = &completion.values[..completion.values.len().min(MAX_COMPLETIONS)];
        let is_cut = values.len() < completion.values.len();
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{"completion":{"values":"#);
        json::write(wire, values);
        if let Some(total) = completion.total.or_else(|| is_cut.then_some(completion.values.len() as u64)) {
            wire.extend_from_slice(br#","total":"#);
            json::write(wire, &total);
        }
        if let Some(has_more) = if is_cut { Some(true) } else { completion.has_more } {
            wire.extend_from_slice(br#","hasMore":"#);
            json::write(wire, &has_more);
        }
        extras(wire, &completion.extra, &["values", "total", "hasMore", "_meta"]);
        wire.push(b'}');
        self.close_result(wire, revision, carried_meta(&completion.extra));
        rpc::finish(wire);
    }

    fn page<T>(
        &self,
        wire: &mut Frames,
        id: &Id,
        Page { of, from }: Page,
        revision: Revision,
        all: &[T],
        write: impl Fn(&mut Vec<u8>, &T, Revision),
    ) {
        if from > 0 && from >= all.len() {
            return rpc::error(wire, Some(id), &cursor::bad());
        }
        let end = all.len().min(from.saturating_add(self.page_size));
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{""#);
        wire.extend_from_slice(of.key().as_bytes());
        wire.extend_from_slice(br#"":["#);
        each(wire, &all[from..end], |wire, entry| write(wire, entry, revision));
        wire.push(b']');
        if end < all.len() {
            wire.extend_from_slice(br#","nextCursor":"#);
            json::write(wire, &cursor::at(end));
        }
        self.close_cacheable(wire, revision, &self.cache_hints, None);
        rpc::finish(wire);
    }

    /// Closes a result with cache hints, if the revision has them.
    fn close_cacheable(&self, wire: &mut Frames, revision: Revision, hints: &str, carried_meta: Option<&RawValue>) {
        if revision.has_result_types() {
            wire.extend_from_slice(hints.as_bytes());
        }
        self.close_result(wire, revision, carried_meta);
    }

    /// Closes a result that has at least one member.
    fn close_result(&self, wire: &mut Frames, revision: Revision, carried_meta: Option<&RawValue>) {
        // We are the server of the result, also if it comes from an upstream.
        let carried = carried_meta.and_then(Members::of).unwrap_or_default();
        let carried = carried.iter().filter(|(name, _)| *name != SERVER_INFO);
        if revision.has_result_types() {
            wire.extend_from_slice(self.complete.as_bytes());
            carried.for_each(|(name, value)| member(wire, name, value));
            wire.push(b'}');
        } else {
            let mut is_first = true;
            for (name, value) in carried {
                wire.extend_from_slice(if is_first { br#","_meta":{"# } else { b"," });
                is_first = false;
                json::write(wire, name);
                wire.push(b':');
                wire.extend_from_slice(value.get().as_bytes());
            }
            if !is_first {
                wire.push(b'}');
            }
        }
        wire.push(b'}');
    }
}

/// An empty result (handshake era).
pub(super) fn empty_result(wire: &mut Frames, id: &Id) {
    rpc::begin_result(wire, id);
    wire.extend_from_slice(b"{}");
    rpc::finish(wire);
}

fn mismatched_reply(wire: &mut Frames, id: &Id) {
    let error = errors::internal("internal", "the reply does not belong to the request".to_owned(), None);
    rpc::error(wire, Some(id), &error);
}

/// Appends entries with commas between them.
fn each<T>(wire: &mut Vec<u8>, entries: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            wire.push(b',');
        }
        write(wire, entry);
    }
}

/// Appends `,"name":value`.
fn member(wire: &mut Vec<u8>, name: &str, value: &RawValue) {
    wire.push(b',');
    json::write(wire, name);
    wire.push(b':');
    wire.extend_from_slice(value.get().as_bytes());
}

/// Appends `,"name":"text"` if there is a text.
fn text_member(wire: &mut Vec<u8>, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        wire.push(b',');
        json::write(wire, name);
        wire.push(b':');
        json::write(wire, text);
    }
}

/// Appends members that are carried unchanged, except those that we write ourselves.
fn extras(wire: &mut Vec<u8>, extra: &[(String, Box<RawValue>)], ours: &[&str]) {
    for (name, value) in extra.iter().filter(|(name, _)| !ours.contains(&name.as_str())) {
        member(wire, name, value);
    }
}

/// The `_meta` among carried members.
fn carried_meta(extra: &[(String, Box<RawValue>)]) -> Option<&RawValue> {
    extra.iter().rev().find(|(name, _)| name == "_meta").map(|(_, value)| &**value)
}
