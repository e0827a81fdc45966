//! Conversation items in the forms that several services share.

use gladhand_core::wire::{Members, RawValue};
use serde::Serialize;

use crate::{ToolOffer, WantedCall};

/// The result of a tool call as JSON text: the output, and the error if the call failed.
pub(crate) fn outcome(output: &RawValue, error: Option<&str>) -> String {
    #[derive(Serialize)]
    struct Outcome<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
        output: &'a RawValue,
    }
    serde_json::to_string(&Outcome { error, output }).expect("text and raw JSON are always JSON")
}

/// The media type and the base64 data of an image in a data URL.
pub(crate) fn picture(url: &str) -> Option<(&str, &str)> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((kind.strip_suffix(";base64")?, data))
}

/// The input schema of a tool. Services reject a schema that does not describe an object with properties. Models
/// invent fewer members if `additionalProperties` is false.
pub(crate) fn schema(tool: &ToolOffer) -> Box<RawValue> {
    let text = tool.schema.get();
    let Some(members) = Members::of(&tool.schema) else { return raw(EMPTY.to_owned()) };
    let mut whole = text.trim_end().strip_suffix('}').unwrap_or(text).to_owned();
    let mut is_first = members.iter().next().is_none();
    for (name, value) in [("type", "\"object\""), ("properties", "{}"), ("additionalProperties", "false")] {
        if !members.has(name) {
            whole.push_str(if is_first { "" } else { "," });
            whole.push_str(&format!("\"{name}\":{value}"));
            is_first = false;
        }
    }
    whole.push('}');
    raw(whole)
}

const EMPTY: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).expect("an object with one more member is JSON")
}

/// The opaque data that the service requires back with these calls. The first call that has such data holds it.
pub(crate) fn seal(calls: &[WantedCall]) -> Option<&RawValue> {
    calls.iter().find_map(|call| call.seal.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_get_the_members_that_services_require() {
        for (given, expected) in [
            ("{}", EMPTY),
            ("true", EMPTY),
            (
                r#"{"type":"object","properties":{"b":{},"a":{}} }"#,
                r#"{"type":"object","properties":{"b":{},"a":{}} ,"additionalProperties":false}"#,
            ),
            (r#"{"additionalProperties":true}"#, r#"{"additionalProperties":true,"type":"object","properties":{}}"#),
        ] {
            let schema = RawValue::from_string(given.to_owned()).unwrap();
            let tool = ToolOffer { name: "t".to_owned(), description: String::new(), schema };
            assert_eq!(super::schema(&tool).get(), expected);
        }
    }

    #[test]
    fn images_are_base64_in_data_urls() {
        assert_eq!(picture("data:image/png;base64,AAAA"), Some(("image/png", "AAAA")));
        for url in ["https://example.test/a.png", "data:image/png,AAAA", "data:image/png;base64"] {
            assert_eq!(picture(url), None, "{url}");
        }
    }
}
