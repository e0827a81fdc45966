use serde_json::{Map, json};

use super::*;

/// The problems of arguments; `Err` if the schema cannot be used.
fn problems(schema: &Value, arguments: &Value) -> Result<Option<String>, String> {
    let check = Check::compile(&schema.to_string())?;
    Ok(check.check("arguments", &gladhand_core::wire::json::to_raw(arguments)).err().map(|problem| problem.to_string()))
}

/// The message about arguments whose check would cost too much.
fn too_costly() -> Result<Option<String>, String> {
    Ok(Some(format!("arguments: {TOO_COSTLY}")))
}

fn unusable(schema: &Value) -> String {
    Check::compile(&schema.to_string()).map(|_| ()).unwrap_err()
}

#[test]
fn a_schema_problem_has_its_path() {
    let limit = json!({"type": "object", "properties": {"limit": {"type": "integer", "maximum": 5}}});
    assert_eq!(problems(&limit, &json!({"limit": 5})), Ok(None));
    let told = problems(&limit, &json!({"limit": 7})).unwrap().unwrap();
    assert_eq!(told, "arguments.limit: 7 is greater than the maximum of 5");
    let list = json!({"properties": {"list": {"items": {"properties": {"n": {"type": "string"}}}}}});
    let told = problems(&list, &json!({"list": [{}, {"n": 1}]})).unwrap().unwrap();
    assert_eq!(told, r#"arguments.list[1].n: 1 is not of type "string""#);
}

#[test]
fn schema_problems_are_limited_in_number_and_length() {
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
    let result = |data: Value| ToolResult::structured(gladhand_core::wire::json::to_raw(&data));
    let checks = Checks::default();
    assert!(checks.reply(&tool, &result(json!({"n": 1})).into()).is_ok());
    assert!(checks.reply(&tool, &ToolResult::text("no data").into()).is_ok());
    assert!(checks.reply(&tool, &ToolResult { failed: true, ..result(json!({})) }.into()).is_ok());
    let failure = checks.reply(&tool, &result(json!({})).into()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::ToolFailed);
    let told = "the result of the tool violates its output schema: result: \"n\" is a required property";
    assert_eq!(failure.message, told);
    let tool = Tool::plain("t", "").returning(&json!({"items": {"enum": vec![1; 5000]}}));
    let failure = Checks::default().reply(&tool, &result(json!(vec![1; 10_000])).into()).unwrap_err();
    let told = format!("the result of the tool cannot be checked against its output schema: result: {TOO_COSTLY}");
    assert_eq!((failure.kind, failure.message), (FailureKind::ToolFailed, told));
}

#[test]
fn a_schema_that_cannot_be_used_checks_nothing() {
    let tool = Tool::plain("t", "").taking(&json!({"type": 7}));
    let anything = gladhand_core::wire::json::to_raw(&json!({"x": 1}));
    assert!(Checks::default().arguments(&tool, &anything).is_ok());
}

#[test]
fn remote_references_are_not_fetched() {
    for reference in ["https://127.0.0.1:1/x.json", "http://localhost/x", "file:///etc/passwd", "other.json#/a"] {
        let why = unusable(&json!({"properties": {"a": {"$ref": reference}}}));
        assert!(why.contains("points out of it"), "{why}");
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
    let mut definitions = Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        definitions.insert(format!("l{level}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("l30".to_owned(), json!({"type": "object"}));
    assert!(unusable(&json!({"$defs": definitions, "$ref": "#/$defs/l0"})).contains("subschemas"));
}

#[test]
fn recursion_that_doubles_with_each_level_is_refused_where_the_value_is_deep() {
    let twice = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "n": {"type": "integer"}}});
    let mut value = json!({"n": "x"});
    assert!(problems(&twice, &value).unwrap().unwrap().contains("is not of type"));
    for _ in 0..60 {
        value = json!({"a": value});
    }
    assert_eq!(problems(&twice, &value), too_costly());
    let check = Check::compile(&twice.to_string()).unwrap();
    assert_eq!(check.verdict(&value), Verdict::CannotBeTold);
}

#[test]
fn depth_that_no_subschema_looks_at_costs_nothing() {
    let filter = json!({"type": "object", "properties": {
        "and": {"type": "array", "items": {"$ref": "#"}},
        "or": {"type": "array", "items": {"$ref": "#"}},
        "mode": {"enum": ["safe"]},
    }});
    let nested = |inner: Value| (0..50).fold(inner, |inner, _| json!([inner]));
    assert_eq!(problems(&filter, &json!({"mode": "safe", "pad": nested(json!(1))})), Ok(None));
    let told = problems(&filter, &json!({"mode": "evil", "pad": nested(json!(1))})).unwrap().unwrap();
    assert!(told.starts_with("arguments.mode: "), "{told}");
    let tree = |leaf: Value| (0..25).fold(leaf, |inner, _| json!({"and": [{"or": [inner]}, {"mode": "safe"}]}));
    assert_eq!(problems(&filter, &tree(json!({"mode": "safe"}))), Ok(None), "depth alone is no cost");
    let told = problems(&filter, &tree(json!({"mode": "evil"}))).unwrap().unwrap();
    assert!(told.starts_with("arguments.and[0].or[0]"), "{told}");
}

#[test]
fn a_long_list_of_alternatives_for_each_item_of_a_long_list_is_refused() {
    fn any_of(count: usize) -> Value {
        let constants: Vec<_> = (0..count).map(|n| json!({"const": format!("c{n}")})).collect();
        json!({"properties": {"a": {"items": {"anyOf": constants}}}})
    }
    fn one_of(count: usize) -> Value {
        let values: Vec<_> = (0..count).map(|n| json!(format!("c{n}"))).collect();
        json!({"properties": {"a": {"items": {"enum": values}}}})
    }
    let list = |count: usize| json!({"a": vec!["c0"; count]});
    for schema in [any_of, one_of] {
        assert_eq!(problems(&schema(9000), &list(300_000)), too_costly());
        assert_eq!(problems(&schema(9000), &list(100)), Ok(None));
        assert_eq!(problems(&schema(5), &list(100_000)), Ok(None));
    }
    let required: Vec<_> = (0..9000).map(|n| n.to_string()).collect();
    let objects = json!({"a": vec![json!({}); 10_000]});
    assert_eq!(problems(&json!({"properties": {"a": {"items": {"required": required}}}}), &objects), too_costly());
}

#[test]
fn repeated_checks_of_a_value_count_each_time() {
    // Each level uses the next one twice: to check, and to find out what it has seen.
    let mut levels = json!({"type": "object"});
    for _ in 0..40 {
        levels = json!({"anyOf": [levels], "unevaluatedProperties": true});
    }
    assert_eq!(problems(&levels, &json!({"a": 1})), too_costly());
    let list: Vec<usize> = (0..1000).collect();
    let unique = json!({"allOf": vec![json!({"uniqueItems": true}); 9000]});
    assert_eq!(problems(&unique, &json!(list)), too_costly());
}

#[test]
fn an_unreadable_value_fails_the_check() {
    let check = Check::compile(r#"{"properties":{"mode":{"enum":["safe"]}}}"#).unwrap();
    let deep = format!(r#"{{"mode":"evil","pad":{}1{}}}"#, "[".repeat(500), "]".repeat(500));
    let told = check.check("arguments", &gladhand_core::wire::json::raw(deep)).unwrap_err().to_string();
    assert!(told.starts_with("arguments: recursion limit exceeded"), "{told}");
}

#[test]
fn ambiguous_references_make_a_schema_unusable() {
    let cheap = json!({"type": "object"});
    let moved = json!({"$defs": {"a": {"$id": "x:y", "$ref": "#/$defs/b", "$defs": {"b": cheap}}, "b": cheap},
        "$ref": "#/$defs/a"});
    assert!(unusable(&moved).contains("`$id` of its own"));
    let escaped = json!({"%24defs": {"a": cheap}, "$defs": {"a": cheap}, "$ref": "#/%24defs/a"});
    assert!(unusable(&escaped).contains("points out of it"));
    let named = json!({"$id": "urn:whole", "properties": {"$id": {"type": "string"}, "id": {"type": "string"}},
        "examples": [{"id": "x"}]});
    assert_eq!(problems(&named, &json!({"id": "x"})), Ok(None));
}

#[test]
fn recursion_is_bounded_wherever_it_comes_from() {
    let chain = |length: usize| {
        let link = |n: usize| (format!("l{n}"), json!({"$ref": format!("#/$defs/l{}", n + 1)}));
        let mut links: Map<_, _> = (0..length).map(link).collect();
        links.insert(format!("l{length}"), json!({"items": {"$ref": "#/$defs/l0"}, "not": {"const": 1}}));
        json!({"$defs": links, "$ref": "#/$defs/l0"})
    };
    assert!(unusable(&chain(5000)).contains("nested"));
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    // The longest chain and the deepest values that are checked must not exhaust the stack.
    assert_eq!(problems(&chain(90), &nested(120)), too_costly());
    let told: Vec<_> = (1..=5).map(|depth| problems(&chain(90), &nested(depth)).unwrap().unwrap()).collect();
    assert!(told[..4].iter().all(|told| told.contains("is not allowed")), "{told:?}");
    let told = problems(&chain(1), &nested(120)).unwrap().unwrap();
    assert!(told.starts_with("arguments[0][0]"), "{told}");
}

#[test]
fn patterns_are_bounded_and_run_in_linear_time() {
    let pattern = |pattern: &str| json!({"properties": {"s": {"type": "string", "pattern": pattern}}});
    let evil = json!({"s": "a".repeat(100_000) + "!"});
    assert!(problems(&pattern("^(a+)+$"), &evil).unwrap().is_some());
    assert!(problems(&pattern("^(a|a)*$"), &evil).unwrap().is_some());
    unusable(&pattern("(a{1000}){1000}"));
    assert_eq!(problems(&pattern("[ab]*a[ab]{1000}c"), &json!({"s": "ab".repeat(100_000)})), too_costly());
    let many = json!({"allOf": vec![pattern("^a+$"); 900]});
    assert_eq!(problems(&many, &evil), too_costly());
    unusable(&pattern(&"a".repeat(1024 * 1024)));
    // A look-around would need an engine that can take for ever.
    unusable(&pattern("^(?=a)a$"));
}

#[test]
fn checks_of_deep_schemas_and_long_lists_end() {
    let deep = "{\"items\":".repeat(10_000) + "{}" + &"}".repeat(10_000);
    Check::compile(&deep).unwrap_err();
    let unique = json!({"properties": {"list": {"type": "array", "uniqueItems": true, "items": {"type": "integer"}}}});
    let list: Vec<usize> = (0..100_000).collect();
    assert_eq!(problems(&unique, &json!({"list": list})), Ok(None));
    let words: Vec<String> = list.iter().map(usize::to_string).collect();
    let told = problems(&unique, &json!({"list": words})).unwrap().unwrap();
    assert_eq!(told, "arguments: the schema forbids it, and it is too large for details");
    assert!(problems(&unique, &json!({"list": words[..1000]})).unwrap().unwrap().ends_with("; and more"));
}

/// A list of nothing but lists whose shape follows the bits of a number.
fn tree(bits: u32, left: u32) -> Value {
    let inner = || tree(bits >> 1, left - 1);
    match (left, bits & 1) {
        (0, _) => json!([]),
        (_, 0) => json!([inner(), []]),
        (_, _) => json!([[], inner()]),
    }
}

#[test]
fn items_that_hash_alike_are_compared_in_the_time_of_a_sort() {
    let trees: Vec<Value> = (0..4_000_u32).map(|bits| tree(bits, 14)).collect();
    let unique = json!({"properties": {"list": {"uniqueItems": true}}});
    assert_eq!(problems(&unique, &json!({"list": trees})), Ok(None));
    let twice = json!({"list": [[[], {"a": 1}], [1], [[], {"a": 1.0}]]});
    let told = problems(&unique, &twice).unwrap().unwrap();
    assert_eq!(told, "arguments.list: has non-unique elements");
    assert_eq!(problems(&unique, &json!({"list": vec![json!([[[[]]]]); 1_000_000]})), too_costly());
}

#[test]
fn anchors_are_found_in_the_time_of_one_look_at_the_schema() {
    let count = 2000;
    let anchored = |at: usize| json!({"$anchor": format!("a{at}"), "type": "integer"});
    let definitions: Map<String, Value> = (0..count).map(|at| (at.to_string(), anchored(at))).collect();
    let references: Map<String, Value> =
        (0..count).map(|at| (at.to_string(), json!({"$ref": format!("#a{at}")}))).collect();
    let schema = json!({"$defs": definitions, "properties": references});
    assert_eq!(problems(&schema, &json!({"1999": 1})), Ok(None));
    assert!(problems(&schema, &json!({"1999": "one"})).unwrap().is_some());
}

#[test]
fn subschemas_that_are_looked_at_again_within_each_other_are_counted_as_often_as_they_are() {
    for branches in ["anyOf", "allOf", "oneOf"] {
        let nested = |levels: usize| {
            (0..levels).fold(
                json!({"properties": {"a": {"type": "integer"}}}),
                |inner, _| json!({branches: [inner], "unevaluatedProperties": {"type": "integer"}}),
            )
        };
        assert_eq!(problems(&nested(8), &json!({"a": 1})), Ok(None), "{branches}");
        assert_eq!(problems(&nested(19), &json!({"a": 1})), too_costly(), "{branches}");
    }
}

#[test]
fn all_patterns_of_a_schema_have_one_bound() {
    let letters = |count: usize| {
        let patterns = (0..count).map(|at| (at.to_string(), json!({"pattern": format!(r"\p{{L}}{{10}}{at}")})));
        json!({"properties": patterns.collect::<Map<_, _>>()})
    };
    assert_eq!(problems(&letters(5), &json!({"4": "x"})).map(|told| told.is_some()), Ok(true));
    assert!(unusable(&letters(1000)).contains("is not a"), "{}", unusable(&letters(1000)));
    let dates = (0..100).map(|at| (at.to_string(), json!({"pattern": r"^\d{4}-\d\d-\d\d$"})));
    let dates = json!({"properties": dates.collect::<Map<_, _>>()});
    assert_eq!(problems(&dates, &json!({"7": "2026-11-16"})), Ok(None));
}

#[test]
fn schemas_beyond_the_room_check_without_being_kept() {
    let schema = json!({"properties": {"a": {"pattern": r"^\w{20}$"}}});
    let size = Check::compile(&schema.to_string()).unwrap().memory();
    assert!((64 * 1024..2 * LARGEST_PATTERN).contains(&size), "{size}");
    let before = KEPT.load(Ordering::Relaxed);
    let kept = KeptShare::take(MOST_KEPT - before).expect("there is room");
    let tool = Tool::plain("t", "").taking(&schema);
    let checks = Checks::default();
    let wrong = gladhand_core::wire::json::to_raw(&json!({"a": "x"}));
    assert!(checks.arguments(&tool, &wrong).is_err());
    assert!(checks.input.0.get().is_none(), "it is not kept");
    drop(kept);
    assert!(checks.arguments(&tool, &wrong).is_err());
    assert!(checks.input.0.get().is_some(), "it is kept");
}
