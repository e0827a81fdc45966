use serde_json::json;

use super::*;

/// What is wrong with arguments; `Err` if the schema cannot be used.
fn problems(schema: &Value, arguments: &Value) -> Result<Option<String>, String> {
    let check = Check::compile(&schema.to_string())?;
    Ok(check.problems("arguments", &gladhand_wire::json::to_raw(arguments)))
}

fn unusable(schema: &Value) -> String {
    Check::compile(&schema.to_string()).map(|_| ()).unwrap_err()
}

#[test]
fn a_problem_is_told_with_its_place() {
    let limit = json!({"type": "object", "properties": {"limit": {"type": "integer", "maximum": 5}}});
    assert_eq!(problems(&limit, &json!({"limit": 5})), Ok(None));
    let told = problems(&limit, &json!({"limit": 7})).unwrap().unwrap();
    assert_eq!(told, "arguments.limit: 7 is greater than the maximum of 5");
    let list = json!({"properties": {"list": {"items": {"properties": {"n": {"type": "string"}}}}}});
    let told = problems(&list, &json!({"list": [{}, {"n": 1}]})).unwrap().unwrap();
    assert_eq!(told, r#"arguments.list[1].n: 1 is not of type "string""#);
}

#[test]
fn several_problems_are_told_up_to_a_bound_and_each_is_short() {
    let schema = json!({"additionalProperties": {"type": "integer"}, "required": ["z"]});
    let told = problems(&schema, &json!({"a": "x"})).unwrap().unwrap();
    assert_eq!(told.matches("; ").count(), 1, "{told}");
    let long = "x".repeat(1000);
    let told = problems(&schema, &json!({"a": long, "b": long, "c": long, "d": long, "e": long, "f": long})).unwrap();
    let told = told.unwrap();
    assert!(told.ends_with("; and more"), "{told}");
    assert!(told.chars().count() < PROBLEMS * (PROBLEM_CHARS + 10), "{told}");
}

#[test]
fn a_result_that_the_tool_forbids_itself_is_its_failure() {
    let tool = Tool::plain("t", "").returning(&json!({"type": "object", "required": ["n"]}));
    let result = |data: Value| ToolResult::structured(gladhand_wire::json::to_raw(&data));
    let checks = Checks::default();
    assert!(checks.reply(&tool, &result(json!({"n": 1})).into()).is_ok());
    assert!(checks.reply(&tool, &ToolResult::text("no data").into()).is_ok());
    assert!(checks.reply(&tool, &ToolResult { failed: true, ..result(json!({})) }.into()).is_ok());
    let failure = checks.reply(&tool, &result(json!({})).into()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::ToolFailed);
    let told = "the tool returned what its own schema forbids: result: \"n\" is a required property";
    assert_eq!(failure.message, told);
}

#[test]
fn a_schema_that_cannot_be_used_checks_nothing() {
    let tool = Tool::plain("t", "").taking(&json!({"type": 7}));
    let anything = gladhand_wire::json::to_raw(&json!({"x": 1}));
    assert!(Checks::default().arguments(&tool, &anything).is_ok());
}

#[test]
fn remote_references_are_not_fetched() {
    for reference in ["https://127.0.0.1:1/x.json", "http://localhost/x", "file:///etc/passwd", "other.json#/a"] {
        let why = unusable(&json!({"properties": {"a": {"$ref": reference}}}));
        assert!(why.contains("leads out of it"), "{why}");
    }
}

#[test]
fn references_may_go_round_through_the_value_but_not_on_the_spot() {
    let tree =
        json!({"type": "object", "properties": {"children": {"items": {"$ref": "#"}}, "n": {"type": "integer"}}});
    let told = problems(&tree, &json!({"children": [{"children": [{"n": "x"}]}]})).unwrap().unwrap();
    assert!(told.starts_with("arguments.children[0].children[0].n: "), "{told}");
    let here =
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"});
    assert!(unusable(&here).contains("leads to itself"));
    let anchored =
        json!({"$defs": {"n": {"$anchor": "number", "type": "integer"}}, "properties": {"a": {"$ref": "#number"}}});
    assert!(problems(&anchored, &json!({"a": "x"})).unwrap().is_some());
}

#[test]
fn a_few_references_that_stand_for_a_billion_are_too_many() {
    let mut definitions = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        definitions.insert(format!("l{level}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("l30".to_owned(), json!({"type": "object"}));
    assert!(unusable(&json!({"$defs": definitions, "$ref": "#/$defs/l0"})).contains("subschemas"));
}

#[test]
fn recursion_that_doubles_with_each_level_is_left_alone_where_the_value_is_deep() {
    let twice = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "n": {"type": "integer"}}});
    let mut value = json!({"n": "x"});
    assert!(problems(&twice, &value).unwrap().is_some());
    for _ in 0..60 {
        value = json!({"a": value});
    }
    assert_eq!(problems(&twice, &value), Ok(None));
}

#[test]
fn patterns_are_bounded_and_run_in_linear_time() {
    let pattern = |pattern: &str| json!({"properties": {"s": {"type": "string", "pattern": pattern}}});
    let evil = json!({"s": "a".repeat(100_000) + "!"});
    assert!(problems(&pattern("^(a+)+$"), &evil).unwrap().is_some());
    assert!(problems(&pattern("^(a|a)*$"), &evil).unwrap().is_some());
    unusable(&pattern("(a{1000}){1000}"));
    unusable(&pattern(&"a".repeat(1024 * 1024)));
    // A look-around would need an engine that can take for ever.
    unusable(&pattern("^(?=a)a$"));
}

#[test]
fn what_is_deep_or_long_comes_to_an_end() {
    let deep = "{\"items\":".repeat(10_000) + "{}" + &"}".repeat(10_000);
    Check::compile(&deep).unwrap_err();
    let unique = json!({"properties": {"list": {"type": "array", "uniqueItems": true, "items": {"type": "integer"}}}});
    let list: Vec<usize> = (0..100_000).collect();
    assert_eq!(problems(&unique, &json!({"list": list})), Ok(None));
    let words: Vec<String> = list.iter().map(usize::to_string).collect();
    assert!(problems(&unique, &json!({"list": words})).unwrap().unwrap().ends_with("; and more"));
}
