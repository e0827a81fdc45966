//! Converts a question to the revision of its caller, or refuses it.
//!
//! Questions have the form of the newest revision. For an older one, they are converted if nothing is lost, and refused
//! otherwise.

use gladhand_core::negotiation::{Agreement, Side};
use gladhand_core::operations::{Failure, FailureKind, Question, QuestionKind};
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{Members, values};
use serde_json::{Map, Value};

use super::capabilities::InForce;
use super::conversation;
use crate::ambient::Ambient;

/// The method of a question.
pub(super) fn method(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Elicit => "elicitation/create",
        QuestionKind::Sample => "sampling/createMessage",
        QuestionKind::Roots => "roots/list",
    }
}

/// The parameters of a question in the caller's revision, on one line.
pub(super) fn phrase(
    question: &Question,
    in_force: &InForce,
    ambient: &mut Ambient<'_>,
) -> Result<Box<RawValue>, Failure> {
    let Some(members) = Members::of(&question.params) else {
        return Err(Failure::new(FailureKind::Internal, "the parameters of a question must be an object"));
    };
    if let Some(missing) = missing_capability(question.kind, &members, &in_force.agreement) {
        return Err(Failure::missing_capability(missing));
    }
    let revision = in_force.revision;
    // Older revisions have no tools in a conversation. `with_single_blocks` reports that.
    let is_conversation = question.kind == QuestionKind::Sample && revision.has_content_lists();
    if let Some(disorder) = is_conversation.then(|| conversation::disorder(&members)).flatten() {
        return Err(Failure::new(FailureKind::InvalidArguments, disorder));
    }
    let phrased = match question.kind {
        QuestionKind::Roots => question.params.to_string(),
        QuestionKind::Elicit if is_url(&members) => {
            if revision.is_stateless() {
                rewritten(&members, &["elicitationId"], None)
            } else if members.some("elicitationId").is_none() {
                let minted = json::to_raw(&ambient.uuid());
                rewritten(&members, &["elicitationId"], Some(("elicitationId", &minted)))
            } else {
                question.params.to_string()
            }
        }
        QuestionKind::Elicit if !revision.has_elicitation_modes() => plain_form(&members)?,
        QuestionKind::Elicit => question.params.to_string(),
        QuestionKind::Sample if !revision.has_content_lists() => with_single_blocks(question.params.get())?,
        QuestionKind::Sample if in_force.agreement.allows(Side::Client, "sampling.context") => {
            question.params.to_string()
        }
        QuestionKind::Sample => rewritten(&members, &["includeContext"], None),
    };
    Ok(json::raw(phrased.replace(['\n', '\r'], " ")))
}

/// The client capability that a question needs and that was not agreed.
pub(super) fn missing_capability(
    kind: QuestionKind,
    params: &Members<'_>,
    agreement: &Agreement,
) -> Option<&'static str> {
    let has = |capability| agreement.allows(Side::Client, capability);
    if !has(kind.capability()) {
        return Some(kind.capability());
    }
    match kind {
        QuestionKind::Elicit if is_url(params) => (!has("elicitation.url")).then_some("elicitation.url"),
        // An empty declaration means forms. One that names only URLs does not.
        QuestionKind::Elicit => (has("elicitation.url") && !has("elicitation.form")).then_some("elicitation.form"),
        QuestionKind::Sample => {
            let needs_tools = params.some("tools").is_some() || params.some("toolChoice").is_some();
            (needs_tools && !has("sampling.tools")).then_some("sampling.tools")
        }
        QuestionKind::Roots => None,
    }
}

fn is_url(params: &Members<'_>) -> bool {
    params.str("mode").is_some_and(|mode| mode == "url")
}

/// An object without some members, and with one more at the end.
pub(super) fn rewritten(members: &Members<'_>, without: &[&str], with: Option<(&str, &RawValue)>) -> String {
    let mut text = vec![b'{'];
    let kept = members.iter().filter(|(name, _)| !without.contains(name));
    for (name, value) in kept.chain(with) {
        if text.len() > 1 {
            text.push(b',');
        }
        json::write(&mut text, name);
        text.push(b':');
        text.extend_from_slice(value.get().as_bytes());
    }
    text.push(b'}');
    String::from_utf8(text).unwrap_or_else(|_| "{}".to_owned())
}

/// A form for the first revision with forms: no modes, choices as `enum`, defaults only for booleans.
fn plain_form(members: &Members<'_>) -> Result<String, Failure> {
    let cannot =
        |feature: &str| Failure::new(FailureKind::Unanswered, format!("the client's version has no {feature}"));
    let mut form = object(&rewritten(members, &["mode"], None))?;
    let properties = form.get_mut("requestedSchema").and_then(|schema| schema.get_mut("properties"));
    for field in properties.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let Some(field) = field.as_object_mut() else { continue };
        if field.get("type").is_some_and(|word| word == "array") {
            return Err(cannot("choice of several"));
        }
        if field.get("type").is_some_and(|word| word != "boolean") {
            field.remove("default");
        }
        if let Some(Value::Array(choices)) = field.remove("oneOf") {
            let each = |name: &str, or: &str| -> Vec<Value> {
                choices
                    .iter()
                    .map(|choice| choice.get(name).or_else(|| choice.get(or)).cloned().unwrap_or_default())
                    .collect()
            };
            field.insert("enumNames".to_owned(), each("title", "const").into());
            field.insert("enum".to_owned(), each("const", "const").into());
        }
    }
    Ok(Value::Object(form).to_string())
}

/// Messages with one block each, for revisions without lists of blocks.
fn with_single_blocks(params: &str) -> Result<String, Failure> {
    let several =
        || Failure::new(FailureKind::Unanswered, "the client's version takes one block of content per message");
    let mut params = object(params)?;
    for message in params.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(content) = message.get_mut("content") else { continue };
        if let Value::Array(blocks) = content {
            *content = match (blocks.pop(), blocks.is_empty()) {
                (Some(block), true) => block,
                _ => return Err(several()),
            };
        }
        if content.get("type").is_some_and(|word| word == "tool_use" || word == "tool_result") {
            return Err(Failure::missing_capability("sampling.tools"));
        }
    }
    Ok(Value::Object(params).to_string())
}

/// Parses text that is known to be an object.
fn object(text: &str) -> Result<Map<String, Value>, Failure> {
    // An unpaired surrogate cannot be parsed. A question to a user or a model does not need one.
    values::read(text)
        .map_err(|_| Failure::new(FailureKind::Internal, "the parameters of a question must be valid text"))
}

/// Whether an answer is an object, which all kinds of answers are.
pub(super) fn is_answer(raw: &RawValue) -> bool {
    Kind::of(raw) == Kind::Object
}
