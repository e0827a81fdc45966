//! The order in which a server wrote the members of a definition or a result.

use gladhand_core::operations::{Member, MemberOrder};
use gladhand_core::wire::Members;
use gladhand_core::wire::json::{self, RawValue};

/// The order in which we write the members of an object.
#[derive(Debug)]
pub(super) struct Shape {
    /// Members with fields of their own in the neutral model, which come first.
    pub(super) first: &'static [&'static str],
    /// The member behind all others, if there is one.
    last: Option<&'static str>,
}

impl Shape {
    const fn of_definition(first: &'static [&'static str]) -> Self {
        Self { first, last: None }
    }

    const fn of_result(first: &'static [&'static str]) -> Self {
        Self { first, last: Some("_meta") }
    }

    fn place(&self, name: &str) -> Member {
        match self.first.iter().position(|known| *known == name) {
            Some(place) => Member::Known(place),
            None if self.last == Some(name) => Member::Last,
            None => Member::Extra,
        }
    }
}

pub(super) const TOOL: Shape =
    Shape::of_definition(&["name", "title", "description", "inputSchema", "outputSchema", "execution"]);
pub(super) const RESOURCE: Shape = Shape::of_definition(&["uri", "name", "title", "description", "mimeType"]);
pub(super) const TEMPLATE: Shape = Shape::of_definition(&["uriTemplate", "name", "title", "description", "mimeType"]);
pub(super) const PROMPT: Shape = Shape::of_definition(&["name", "title", "description", "arguments"]);
pub(super) const ARGUMENT: Shape = Shape::of_definition(&["name", "description", "required"]);
pub(super) const TOOL_RESULT: Shape = Shape::of_result(&["content", "structuredContent", "isError"]);
pub(super) const CONTENTS: Shape = Shape::of_result(&["contents"]);
pub(super) const PROMPT_RESULT: Shape = Shape::of_result(&["messages", "description"]);

/// Whether a member describes the response itself. Such a member is not carried on.
pub(super) fn is_of_response(name: &str) -> bool {
    matches!(name, "resultType" | "ttlMs" | "cacheScope")
}

/// The order of these members.
pub(super) fn order_of(members: &Members<'_>, shape: &Shape) -> MemberOrder {
    let carried = members.iter().map(|(name, _)| name).filter(|name| !is_of_response(name));
    MemberOrder::of(carried.map(|name| shape.place(name)))
}

/// Rewrites the object at the end of `wire`, which begins at `begin`, in this order. Members that the order does not
/// have come last. In the usual order, which most servers use, nothing is done.
pub(super) fn arrange(wire: &mut Vec<u8>, begin: usize, order: MemberOrder, shape: &Shape) {
    if order.is_usual() {
        return;
    }
    let written = wire.split_off(begin);
    let Some(members) = std::str::from_utf8(&written).ok().and_then(|text| Members::parse(text).ok()) else {
        return wire.extend_from_slice(&written);
    };
    let mut left: Vec<(&str, &RawValue)> = members.iter().collect();
    let mut arranged = Vec::with_capacity(left.len());
    for member in order.iter() {
        let is_next = |(name, _): &(&str, &RawValue)| shape.place(name) == member && !is_of_response(name);
        arranged.extend(left.iter().position(is_next).map(|at| left.remove(at)));
    }
    arranged.append(&mut left);
    for (at, (name, value)) in arranged.into_iter().enumerate() {
        wire.push(if at > 0 { b',' } else { b'{' });
        json::write(wire, name);
        wire.push(b':');
        wire.extend_from_slice(value.get().as_bytes());
    }
    wire.push(b'}');
}
