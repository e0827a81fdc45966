//! Tests of the conversion of tools and results between the neutral model and A2E.

use std::time::Duration;

use gladhand_core::operations::{Content, Tool, ToolResult};
use gladhand_core::wire::json::{raw, to_raw};
use serde_json::json;

use super::super::parameters::{schema_of, write_parameters};
use super::super::results::{read_result, write_result};
use super::super::tools::{Filter, read_definition, write_definition};
use super::*;

fn parameters(schema: &Value) -> Value {
    let mut out = Vec::new();
    write_parameters(&mut out, Some(&to_raw(schema)));
    serde_json::from_slice(&out).unwrap()
}

fn parameter(name: &str, kind: &str) -> Value {
    json!({"name": name, "type": kind, "description": "", "required": false, "enum": null, "properties": null})
}

#[test]
fn each_notation_of_a_type_becomes_one_of_the_six() {
    let cases = [
        (json!({"type": "string"}), "string"),
        (json!({"type": "integer", "minimum": 1}), "integer"),
        (json!({"type": ["null", "number"]}), "number"),
        (json!({"type": "null"}), "string"),
        (json!({"type": "date"}), "string"),
        (json!({"type": 7}), "string"),
        (json!({"items": {}}), "array"),
        (json!({"additionalProperties": true}), "object"),
        (json!({"anyOf": [{"type": "null"}, {"type": "boolean"}]}), "boolean"),
        (json!({"$ref": "#/$defs/count"}), "integer"),
        (json!({"$ref": "#/$defs/loop"}), "string"),
        (json!({"$ref": "http://elsewhere"}), "string"),
        (json!({}), "string"),
        (json!(true), "string"),
        (json!(null), "string"),
    ];
    for (property, kind) in cases {
        let defs = json!({"count": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}});
        let schema = json!({"type": "object", "properties": {"x": property}, "$defs": defs});
        assert_eq!(parameters(&schema), json!([parameter("x", kind)]), "{property}");
    }
    for empty in [json!({}), json!([]), json!({"properties": 1}), json!({"type": "object", "required": ["x"]})] {
        assert_eq!(parameters(&empty), json!([]), "{empty}");
    }
}

#[test]
fn nested_objects_enumerations_and_requirements_convert_both_ways() {
    let schema = json!({"type": "object", "properties": {
        "mode": {"type": "string", "description": "how", "enum": ["fast", "safe"]},
        "where": {"type": "object", "description": "place", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x"]},
    }, "required": ["mode"]});
    let number = |name: &str, required: bool| {
        let mut number = parameter(name, "number");
        number["required"] = json!(required);
        number
    };
    let expected = json!([
        {"name": "mode", "type": "string", "description": "how", "required": true, "enum": ["fast", "safe"], "properties": null},
        {"name": "where", "type": "object", "description": "place", "required": false, "enum": null,
         "properties": {"x": number("x", true), "y": number("y", false)}},
    ]);
    assert_eq!(parameters(&schema), expected);
    let back: Value = serde_json::from_str(schema_of(Some(&to_raw(&expected))).get()).unwrap();
    assert_eq!(back, schema);
    assert_eq!(parameters(&json!({"properties": {"x": {"enum": ["a", 1]}}})), json!([parameter("x", "string")]));
}

#[test]
fn a_schema_that_expands_too_far_is_cut() {
    let wide: serde_json::Map<_, _> = (0..20).map(|n| (format!("p{n}"), json!({"$ref": "#"}))).collect();
    let mut out = Vec::new();
    write_parameters(&mut out, Some(&to_raw(&json!({"type": "object", "properties": wide}))));
    assert!(serde_json::from_slice::<Value>(&out).is_ok());
    assert!(out.len() < 1 << 20, "{}", out.len());
}

#[test]
fn parameters_and_parsed_bytes_of_one_schema_are_limited() {
    let properties = |count: usize, property: &Value| {
        let all: serde_json::Map<_, _> = (0..count).map(|n| (format!("p{n}"), property.clone())).collect();
        Value::Object(all)
    };
    let wide = parameters(&json!({"properties": properties(5000, &json!({"type": "integer"}))}));
    assert_eq!(wide.as_array().unwrap().len(), 2000, "on the first level too");
    let long = json!({"type": "integer", "description": "x".repeat(100_000)});
    let repeated = json!({"properties": properties(1000, &json!({"$ref": "#/$defs/long"})), "$defs": {"long": long}});
    let mut out = Vec::new();
    write_parameters(&mut out, Some(&to_raw(&repeated)));
    assert!(serde_json::from_slice::<Value>(&out).is_ok());
    assert!(out.len() < 4 << 20, "{} bytes of a description that is referenced 1000 times", out.len());
    // The object around a part is parsed once, however many references lead through it.
    let parts = properties(300, &json!({"type": "integer", "title": "x".repeat(100)}));
    let references: serde_json::Map<_, _> =
        (0..300).map(|n| (format!("p{n}"), json!({"$ref": format!("#/$defs/a~1b/p{n}")}))).collect();
    let all = parameters(&json!({"properties": references, "$defs": {"a/b": parts}}));
    assert_eq!(all.as_array().unwrap().iter().filter(|one| one["type"] == "integer").count(), 300);
}

#[test]
fn an_invalid_parameter_list_becomes_an_empty_schema() {
    for garbage in [None, Some("null"), Some("7"), Some(r#"[1,{"type":"string"},null]"#)] {
        let schema = schema_of(garbage.map(|text| raw(text.to_owned())).as_deref());
        assert_eq!(schema.get(), r#"{"type":"object","properties":{}}"#, "{garbage:?}");
    }
}

#[test]
fn a_definition_converts_both_ways_with_a2e_members() {
    let definition = json!({"name": "Read", "description": "Reads", "input_parameters": [parameter("path", "string")],
        "output_parameters": [parameter("text", "string")], "streaming": false, "idempotent": true, "tags": ["files"],
        "version": "2.1.0", "toolkit": "filesystem", "defer_loading": true, "title": "Read!", "x-more": [1]});
    let tool = read_definition(&to_raw(&definition)).unwrap();
    let mut out = Vec::new();
    write_definition(&mut out, &tool);
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), definition);
    // Members of the wrong type come from other dialects and are ignored.
    let odd = Tool {
        extra: vec![("streaming".into(), raw("1".into())), ("version".into(), raw("2".into()))],
        ..Tool::new("t", "", raw("{}".into()))
    };
    out.clear();
    write_definition(&mut out, &odd);
    let expected = json!({"name": "t", "description": "", "input_parameters": [], "output_parameters": [], "streaming": true,
        "idempotent": false, "tags": [], "version": "1.0.0", "toolkit": null, "defer_loading": false});
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), expected);
}

#[test]
fn lists_hide_deferred_tools_and_searches_find_them() {
    let tool = |name: &str, description: &str, tags: &[&str], deferred| Tool {
        tags: tags.iter().map(ToString::to_string).collect(),
        deferred,
        ..Tool::new(name, description, raw("{}".into()))
    };
    let tools = [
        tool("echo", "Says it again", &["text", "Short"], false),
        tool("hidden", "Deferred É", &["text"], true),
        tool("grep", "Finds", &[], false),
    ];
    let cases: [(&str, &[&str], bool, &[&str]); 9] = [
        ("", &[], false, &["echo", "grep"]),
        ("", &[], true, &["echo", "hidden", "grep"]),
        ("", &["TEXT"], false, &["echo"]),
        ("", &["text", "short"], true, &["echo"]),
        ("É", &[], false, &["hidden"]),
        ("defer", &["text"], false, &["hidden"]),
        ("SHORT", &[], false, &["echo"]),
        ("e", &["none"], false, &[]),
        ("zzz", &[], true, &[]),
    ];
    for (query, tags, include_deferred, expected) in cases {
        let tags: Vec<_> = tags.iter().map(|tag| (*tag).into()).collect();
        let filter = Filter::new(query, &tags, include_deferred);
        let shown: Vec<_> = tools.iter().filter(|tool| filter.shows(tool)).map(|tool| tool.name.as_str()).collect();
        assert_eq!(shown, expected, "{query} {tags:?}");
    }
}

fn written(result: &ToolResult) -> Value {
    let mut out = Vec::new();
    write_result(&mut out, "t", result, Duration::from_millis(5));
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn results_convert_both_ways_by_their_content() {
    let image = || Content::Block(raw(r#"{"type":"image","data":"aGk="}"#.into()));
    let image_json = json!({"type": "image", "data": "aGk="});
    let structured =
        |content| ToolResult { content, structured: Some(raw(r#"{"exit_code":3.0}"#.into())), ..ToolResult::default() };
    let cases = [
        (ToolResult::text("hi"), json!({"data": {"value": "hi"}})),
        (ToolResult::default(), json!({"data": {"value": null}})),
        (ToolResult { content: vec![image()], ..ToolResult::default() }, json!({"data": {"content": [image_json]}})),
        (
            ToolResult { content: vec![Content::text("a"), image()], ..ToolResult::default() },
            json!({"data": {"content": [{"type": "text", "text": "a"}, image_json]}}),
        ),
        (ToolResult::structured(raw(r#"{"a":1}"#.into())), json!({"data": {"a": 1}})),
        (
            structured(vec![Content::text("short")]),
            json!({"data": {"exit_code": 3.0}, "exit_code": 3, "content": [{"type": "text", "text": "short"}]}),
        ),
        (structured(vec![image()]), json!({"data": {"exit_code": 3.0}, "exit_code": 3, "content": [image_json]})),
        (
            ToolResult::failure("no"),
            json!({"success": false, "data": null, "error": "no", "error_code": "tool_execution_error"}),
        ),
        (
            ToolResult { failed: true, content: vec![Content::text("a"), image()], ..ToolResult::default() },
            json!({"success": false, "data": null, "error": "a", "error_code": "tool_execution_error",
                   "content": [{"type": "text", "text": "a"}, image_json]}),
        ),
        (
            ToolResult {
                extra: vec![
                    ("x".into(), raw("1".into())),
                    ("data".into(), raw("2".into())),
                    ("truncated".into(), raw("true".into())),
                ],
                ..ToolResult::text("hi")
            },
            json!({"data": {"value": "hi"}, "truncated": true, "x": 1}),
        ),
    ];
    for (result, differs) in cases {
        let mut expected = json!({"success": true, "tool_name": "t", "summary": null, "truncated": false, "exit_code": null,
            "error": null, "error_code": null, "duration_ms": 5, "events": []});
        expected.as_object_mut().unwrap().extend(differs.as_object().unwrap().clone());
        assert_eq!(written(&result), expected);
        let back = read_result(&to_raw(&expected)).unwrap();
        assert_eq!(written(&back), expected, "the converted result must convert back");
    }
}

#[test]
fn results_of_reference_hosts_are_understood() {
    let read = |data: Value| {
        let result = read_result(&to_raw(&data)).unwrap();
        (result.failed, result.joined_text(), result.structured.map(|raw| raw.get().to_owned()))
    };
    let cases = [
        (json!({"success": true, "data": "plain"}), (false, "plain", None)),
        (json!({"success": true, "data": [1]}), (false, "[1]", None)),
        (json!({"success": true, "data": {"value": 42}}), (false, r#"{"value":42}"#, Some(r#"{"value":42}"#))),
        (json!({"success": true}), (false, "", None)),
        (json!({"success": false, "error": null}), (true, "the tool failed and did not say why", None)),
    ];
    for (data, (failed, text, structured)) in cases {
        assert_eq!(read(data), (failed, text.to_owned(), structured.map(str::to_owned)));
    }
    for garbage in [json!(null), json!([]), json!({}), json!({"success": 1})] {
        assert!(read_result(&to_raw(&garbage)).is_err(), "{garbage}");
    }
    let soft_fail = json!({"success": false, "tool_name": "t", "data": null, "summary": "s", "truncated": false, "exit_code": 3,
        "error": "nope", "error_code": "tool_denied", "duration_ms": 5, "events": []});
    assert_eq!(written(&read_result(&to_raw(&soft_fail)).unwrap()), soft_fail);
}
