//! Renders content blocks in a form that the revision has.
//!
//! Two kinds came after the first revision. Audio becomes an embedded resource, and a link becomes the text of its URI.
//! All other blocks are written unchanged.

use gladhand_core::operations::Content;
use gladhand_core::wire::Members;
use gladhand_core::wire::json::{Kind, RawValue};

use super::super::revision::Revision;
use super::member;

pub(super) fn content(wire: &mut Vec<u8>, content: &Content, revision: Revision) {
    match content {
        Content::Text(text) => {
            wire.extend_from_slice(br#"{"type":"text","text":"#);
            wire.extend_from_slice(text.get().as_bytes());
            wire.push(b'}');
        }
        Content::Block(raw) => block(wire, raw, revision),
    }
}

/// A message of a prompt: an object with `role` and `content`.
pub(super) fn message(wire: &mut Vec<u8>, message: &RawValue, revision: Revision) {
    let members = Members::of(message).filter(|_| !revision.has_resource_links()).unwrap_or_default();
    let Some(message_content) = members.raw("content") else {
        return wire.extend_from_slice(message.get().as_bytes());
    };
    wire.extend_from_slice(br#"{"content":"#);
    block(wire, message_content, revision);
    for (name, value) in members.iter().filter(|(name, _)| *name != "content") {
        member(wire, name, value);
    }
    wire.push(b'}');
}

fn block(wire: &mut Vec<u8>, raw: &RawValue, revision: Revision) {
    // A revision with links has all kinds of blocks.
    let members = Members::of(raw).filter(|_| !revision.has_resource_links()).unwrap_or_default();
    let kind = members.str("type");
    let text = |name: &str| members.raw(name).filter(|raw| Kind::of(raw) == Kind::String);
    match (kind.as_deref(), text("uri"), text("data")) {
        (Some("resource_link"), Some(uri), _) => {
            wire.extend_from_slice(br#"{"type":"text","text":"#);
            wire.extend_from_slice(uri.get().as_bytes());
        }
        (Some("audio"), _, Some(data)) if !revision.has_audio() => {
            // A resource must have a URI, and audio has none.
            wire.extend_from_slice(br#"{"type":"resource","resource":{"uri":"about:audio""#);
            if let Some(mime_type) = text("mimeType") {
                member(wire, "mimeType", mime_type);
            }
            member(wire, "blob", data);
            wire.push(b'}');
        }
        _ => return wire.extend_from_slice(raw.get().as_bytes()),
    }
    if let Some(annotations) = members.some("annotations") {
        member(wire, "annotations", annotations);
    }
    wire.push(b'}');
}
