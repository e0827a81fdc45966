//! Tests of the capability tables and of their wire form.

use super::*;

fn read(owner: Side, text: &str) -> Vec<(String, Option<String>)> {
    let provides = declared(owner, &Members::parse(text).unwrap()).unwrap();
    provides
        .into_iter()
        .map(|(name, settings)| (name.0.into_owned(), settings.map(|raw| raw.get().to_owned())))
        .collect()
}

#[test]
fn presence_declares_and_false_does_not() {
    let text = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":false,"tasks":null,"x":{"deep":{}},
        "experimental":{"a.b":{"c":{}}},"extensions":{"io.modelcontextprotocol/tasks":{}},"roots2":true}"#;
    let names: Vec<_> = read(Side::Client, text).into_iter().map(|(name, _)| name).collect();
    let expected = [
        "experimental",
        "experimental.a.b",
        "extensions",
        "extensions.io.modelcontextprotocol/tasks",
        "roots",
        "roots.listChanged",
        "roots2",
        "sampling",
        "x",
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_last_of_two_equal_keys_wins_with_all_its_parts() {
    let names = |text| read(Side::Client, text).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(r#"{"roots":{"listChanged":true},"roots":{}}"#), ["roots"]);
    assert_eq!(names(r#"{"roots":{"listChanged":true},"roots":false,"sampling":{}}"#), ["sampling"]);
}

#[test]
fn parts_are_read_as_deep_as_the_tables_go() {
    let text = r#"{"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}},"tools":{"listChanged":false}}"#;
    let names: Vec<_> = read(Side::Server, text).into_iter().map(|(name, _)| name).collect();
    let parts =
        ["tasks", "tasks.cancel", "tasks.list", "tasks.requests", "tasks.requests.tools", "tasks.requests.tools.call"];
    assert_eq!(names, [&parts[..], &["tools"]].concat());
    let all_defined = parts.iter().all(|part| defines("2025-11-25", Side::Server, part) == Defined::Yes);
    assert!(all_defined);
}

#[test]
fn too_many_capabilities_are_refused() {
    let many: Vec<_> = (0..=MAX_DECLARED).map(|at| format!("\"c{at}\":{{}}")).collect();
    let text = format!("{{{}}}", many.join(","));
    assert_eq!(declared(Side::Client, &Members::parse(&text).unwrap()).unwrap_err(), TooMany);
}

#[test]
fn names_and_settings_have_a_bound_that_counts_every_copy_of_them() {
    let read = |text: &str| {
        let provides = declared(Side::Client, &Members::parse(text).unwrap())?;
        let of_one = |(name, settings): (&Capability, &Option<Box<RawValue>>)| {
            name.0.len() + settings.as_ref().map_or(0, |raw| raw.get().len())
        };
        Ok(provides.iter().map(of_one).sum::<usize>())
    };
    let blob = |bytes: usize| "x".repeat(bytes);
    for (around, copies) in [(r#"{"x":{"a":"$"}}"#, 1), (r#"{"sampling":{"tools":{"x":{"y":{"z":"$"}}}}}"#, 4)] {
        let with = |bytes| read(&around.replace('$', &blob(bytes)));
        let kept = with(MAX_DECLARED_BYTES / copies - 100).unwrap();
        assert!(kept <= MAX_DECLARED_BYTES && kept > MAX_DECLARED_BYTES - 1000, "{kept}: {around}");
        assert_eq!(with(MAX_DECLARED_BYTES / copies), Err(TooMany), "{around}");
    }
    let long = format!(r#"{{"{}":{{}}}}"#, blob(MAX_DECLARED_BYTES));
    assert_eq!(read(&long), Err(TooMany), "names count too");
    let again = format!(r#"{{{}"x":{{}}}}"#, format!(r#""x":"{}","#, blob(10_000)).repeat(10));
    assert_eq!(read(&again), Err(TooMany), "and so does what is taken back");
}

#[test]
fn each_revision_defines_the_capabilities_of_the_tables() {
    let defined = |version: &str, side| -> Vec<&str> {
        let known = CAPABILITIES.iter().filter(|known| known.owner == side && !known.name.contains('.'));
        known.map(|known| known.name).filter(|name| defines(version, side, name) == Defined::Yes).collect()
    };
    let client = [
        ("2024-11-05", &["roots", "sampling", "experimental", "extensions"][..]),
        ("2025-03-26", &["roots", "sampling", "experimental", "extensions"]),
        ("2025-06-18", &["roots", "sampling", "elicitation", "experimental", "extensions"]),
        ("2025-11-25", &["roots", "sampling", "elicitation", "tasks", "experimental", "extensions"]),
        ("2026-07-28", &["roots", "sampling", "elicitation", "experimental", "extensions"]),
    ];
    let server = [
        ("2024-11-05", &["tools", "resources", "prompts", "logging", "experimental", "extensions"][..]),
        ("2025-03-26", &["tools", "resources", "prompts", "completions", "logging", "experimental", "extensions"]),
        ("2025-06-18", &["tools", "resources", "prompts", "completions", "logging", "experimental", "extensions"]),
        (
            "2025-11-25",
            &["tools", "resources", "prompts", "completions", "logging", "tasks", "experimental", "extensions"],
        ),
        ("2026-07-28", &["tools", "resources", "prompts", "completions", "logging", "experimental", "extensions"]),
    ];
    for (side, table) in [(Side::Client, client), (Side::Server, server)] {
        for (version, names) in table {
            assert_eq!(defined(version, side), names, "{version} {side:?}");
        }
    }
    assert_eq!(defines("2025-11-25", Side::Client, "tools"), Defined::Unknown);
    assert_eq!(defines("2026-07-28", Side::Client, "roots.listChanged"), Defined::NotInThisVersion);
    assert_eq!(
        defines("2025-11-25", Side::Client, "extensions.a/b"),
        Defined::Yes,
        "clients declare extensions in every revision"
    );
    assert_eq!(defines("2025-11-25", Side::Client, TASKS_EXTENSION), Defined::NotInThisVersion);
    assert_eq!(defines("2026-07-28", Side::Client, TASKS_EXTENSION), Defined::Yes);
}

#[test]
fn a_capability_declaration_is_read_back_unchanged() {
    for (owner, text) in [
        (Side::Client, r#"{"roots":{"listChanged":true},"sampling":{"tools":{}},"experimental":{"x.y":{"z":1}}}"#),
        (
            Side::Server,
            r#"{"tools":{"listChanged":true},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
        ),
    ] {
        let provides = declared(owner, &Members::parse(text).unwrap()).unwrap();
        let written: serde_json::Value = serde_json::from_str(&declaration(&provides)).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }
    assert_eq!(required(TASKS_EXTENSION).get(), r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    assert_eq!(required("elicitation.url").get(), r#"{"elicitation":{"url":{}}}"#);
}

#[test]
fn the_menu_is_declared_as_it_is_offered() {
    for (tools, tool_changes, logging, expected) in [
        (true, true, true, r#"{"logging":{},"tools":{"listChanged":true}}"#),
        (true, false, false, r#"{"tools":{}}"#),
        (false, true, true, r#"{"logging":{}}"#),
    ] {
        for revision in Revision::ALL {
            let menu = Menu { tools, tool_changes, logging, ..Menu::default() };
            assert_eq!(declaration_of_menu(&menu, revision), expected);
        }
    }
}

#[test]
fn each_revision_is_offered_only_its_own_capabilities() {
    let menu = Menu {
        tools: true,
        tool_changes: true,
        resources: true,
        resource_changes: true,
        resource_updates: true,
        prompts: true,
        prompt_changes: true,
        completions: true,
        logging: true,
        tasks: true,
        extensions: vec![("com.example/x".to_owned(), json::raw(r#"{"a":1}"#.to_owned()))],
        ..Menu::default()
    };
    let (prompts, rest) = (
        r#""prompts":{"listChanged":true}"#,
        r#""resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}"#,
    );
    let tasks = r#""tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}"#;
    let extensions = r#""extensions":{"com.example/x":{"a":1},"io.modelcontextprotocol/tasks":{}}"#;
    let own = r#""extensions":{"com.example/x":{"a":1}}"#;
    for (revision, expected) in [
        (Revision::V2024_11_05, format!(r#"{{{own},"logging":{{}},{prompts},{rest}}}"#)),
        (Revision::V2025_03_26, format!(r#"{{"completions":{{}},{own},"logging":{{}},{prompts},{rest}}}"#)),
        (Revision::V2025_06_18, format!(r#"{{"completions":{{}},{own},"logging":{{}},{prompts},{rest}}}"#)),
        (
            Revision::V2025_11_25,
            format!(
                r#"{{"completions":{{}},{own},"logging":{{}},{prompts},{}}}"#,
                rest.replace(r#","tools""#, &format!(r#",{tasks},"tools""#))
            ),
        ),
        (Revision::V2026_07_28, format!(r#"{{"completions":{{}},{extensions},"logging":{{}},{prompts},{rest}}}"#)),
    ] {
        assert_eq!(declaration_of_menu(&menu, revision), expected, "{revision:?}");
    }
    let parts_only =
        Menu { tool_changes: true, resource_updates: true, prompt_changes: true, tasks: true, ..Menu::default() };
    assert_eq!(
        declaration_of_menu(&parts_only, Revision::V2025_11_25),
        "{}",
        "a part must not be declared without its capability"
    );
}
