//! Renders the entries of the four lists.

use gladhand_core::operations::{Prompt, Resource, TaskSupport, Template, Tool};
use gladhand_core::wire::Members;
use gladhand_core::wire::json::{self, RawValue};

use super::super::member_order::{self, arrange};
use super::super::revision::Revision;
use super::{extras, member, text_member};

pub(super) fn tool(wire: &mut Vec<u8>, tool: &Tool, revision: Revision) {
    let begin = wire.len();
    wire.extend_from_slice(br#"{"name":"#);
    json::write(wire, &tool.name);
    title(wire, tool.title.as_deref(), revision);
    text_member(wire, "description", Some(&tool.description));
    member(wire, "inputSchema", &tool.input_schema);
    if let Some(schema) = &tool.output_schema
        && revision.has_structured_output()
        && (revision.has_any_structured_output() || describes_an_object(schema))
    {
        member(wire, "outputSchema", schema);
    }
    if revision.has_task_support() {
        match tool.tasks {
            TaskSupport::Forbidden => {}
            TaskSupport::Optional => wire.extend_from_slice(br#","execution":{"taskSupport":"optional"}"#),
            TaskSupport::Required => wire.extend_from_slice(br#","execution":{"taskSupport":"required"}"#),
        }
    }
    extras(wire, &tool.extra, member_order::TOOL.first);
    wire.push(b'}');
    arrange(wire, begin, tool.order, &member_order::TOOL);
}

pub(super) fn resource(wire: &mut Vec<u8>, resource: &Resource, revision: Revision) {
    let begin = wire.len();
    wire.extend_from_slice(br#"{"uri":"#);
    json::write(wire, &resource.uri);
    text_member(wire, "name", Some(&resource.name));
    title(wire, resource.title.as_deref(), revision);
    text_member(wire, "description", resource.description.as_deref());
    text_member(wire, "mimeType", resource.mime_type.as_deref());
    extras(wire, &resource.extra, member_order::RESOURCE.first);
    wire.push(b'}');
    arrange(wire, begin, resource.order, &member_order::RESOURCE);
}

pub(super) fn template(wire: &mut Vec<u8>, template: &Template, revision: Revision) {
    let begin = wire.len();
    wire.extend_from_slice(br#"{"uriTemplate":"#);
    json::write(wire, &template.uri_template);
    text_member(wire, "name", Some(&template.name));
    title(wire, template.title.as_deref(), revision);
    text_member(wire, "description", template.description.as_deref());
    text_member(wire, "mimeType", template.mime_type.as_deref());
    extras(wire, &template.extra, member_order::TEMPLATE.first);
    wire.push(b'}');
    arrange(wire, begin, template.order, &member_order::TEMPLATE);
}

pub(super) fn prompt(wire: &mut Vec<u8>, prompt: &Prompt, revision: Revision) {
    let begin = wire.len();
    wire.extend_from_slice(br#"{"name":"#);
    json::write(wire, &prompt.name);
    title(wire, prompt.title.as_deref(), revision);
    text_member(wire, "description", prompt.description.as_deref());
    if !prompt.arguments.is_empty() {
        wire.extend_from_slice(br#","arguments":["#);
        for (at, argument) in prompt.arguments.iter().enumerate() {
            if at > 0 {
                wire.push(b',');
            }
            let begin = wire.len();
            wire.extend_from_slice(br#"{"name":"#);
            json::write(wire, &argument.name);
            text_member(wire, "description", argument.description.as_deref());
            if argument.required {
                wire.extend_from_slice(br#","required":true"#);
            }
            extras(wire, &argument.extra, member_order::ARGUMENT.first);
            wire.push(b'}');
            arrange(wire, begin, argument.order, &member_order::ARGUMENT);
        }
        wire.push(b']');
    }
    extras(wire, &prompt.extra, member_order::PROMPT.first);
    wire.push(b'}');
    arrange(wire, begin, prompt.order, &member_order::PROMPT);
}

fn title(wire: &mut Vec<u8>, title: Option<&str>, revision: Revision) {
    text_member(wire, "title", title.filter(|_| revision.has_structured_output()));
}

fn describes_an_object(schema: &RawValue) -> bool {
    Members::of(schema).and_then(|schema| schema.str("type")).is_some_and(|word| word == "object")
}
