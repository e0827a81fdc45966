//! The session in the documentation of A2E is what really happens. Elsewhere `wc` writes its number otherwise.
#![cfg(target_os = "linux")]

mod support;

use std::collections::HashMap;

use serde_json::Value;
use support::{Process, gladhand};

/// Members that are different each time.
const VOLATILE: [&str; 11] = [
    "id",
    "ts",
    "session_id",
    "episode_id",
    "proc_id",
    "memory_id",
    "pid",
    "created_at",
    "updated_at",
    "duration_ms",
    "uptime_seconds",
];

/// What the agent writes, and what it is answered.
struct Exchange {
    request: String,
    answers: Vec<Value>,
}

/// The section of the page.
fn section() -> &'static str {
    let page = include_str!("../../../docs/a2e.md");
    let (_, section) = page.split_once("## A session, message by message").expect("the section is there");
    section.split_once("\n## ").expect("others follow").0
}

fn exchanges() -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in section().lines() {
        if let Some(request) = line.strip_prefix("→ ") {
            exchanges.push(Exchange { request: request.to_owned(), answers: Vec::new() });
        } else if let Some(answer) = line.strip_prefix("← ") {
            let exchange = exchanges.last_mut().expect("nobody answers before a request");
            exchange.answers.push(serde_json::from_str(answer).expect("an answer is JSON"));
        }
    }
    exchanges
}

/// Takes out what is different each time, and remembers which name on the page stands for which here.
fn settle(page: &mut Value, here: &mut Value, names: &mut HashMap<String, String>) {
    match (page, here) {
        (Value::Object(page), Value::Object(here)) => {
            for (key, page) in page.iter_mut() {
                let Some(here) = here.get_mut(key) else { continue };
                if VOLATILE.contains(&key.as_str()) {
                    if let (Some(page), Some(here)) = (page.as_str(), here.as_str()) {
                        names.insert(page.to_owned(), here.to_owned());
                    }
                    (*page, *here) = (Value::Null, Value::Null);
                } else {
                    settle(page, here, names);
                }
            }
        }
        (Value::Array(page), Value::Array(here)) => {
            page.iter_mut().zip(here).for_each(|(page, here)| settle(page, here, names));
        }
        _ => {}
    }
}

/// An answer and the events of an earlier request may come in either order.
fn in_order(answers: &mut [Value]) {
    answers.sort_by_key(|answer| (answer["req_id"].to_string(), answer["seq"].as_u64(), answer["type"].to_string()));
}

#[test]
fn the_page_says_what_is_granted_over_http_without_a_token() {
    use gladhand_capabilities::grants::{GRANTS, Grant};
    let page = include_str!("../../../docs/a2e.md");
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?;
        Some((name, cells.nth(1)?))
    });
    let told: Vec<_> = rows.filter(|(name, _)| GRANTS.iter().any(|(known, _)| known == name)).collect();
    let word = |grant: Grant| match grant {
        Grant::Anyone => "yes",
        Grant::AnyoneWithoutPrograms => "without programs in `[a2e.env]`",
        Grant::Token => "no",
    };
    let expected: Vec<_> = GRANTS.iter().map(|(name, grant)| (*name, word(*grant))).collect();
    assert_eq!(told, expected);
}

#[test]
fn the_session_on_the_page_is_what_really_happens() {
    let folder = tempfile::tempdir().unwrap();
    let (_, config) = section().split_once("```toml\n").unwrap();
    std::fs::write(folder.path().join("a2e.toml"), config.split_once("```").unwrap().0).unwrap();
    let mut command = gladhand();
    command
        .args(["serve", "--dialect", "a2e", "--config", "a2e.toml", "--data-dir", "data"])
        .current_dir(folder.path());
    let mut process = Process::start(command);
    let (exchanges, mut names) = (exchanges(), HashMap::new());
    assert!(exchanges.len() >= 10, "the page shows {} exchanges", exchanges.len());
    for Exchange { request, answers: mut page } in exchanges {
        let known =
            names.iter().fold(request.clone(), |request, (page, here): (&String, &String)| request.replace(page, here));
        process.send(&known);
        let mut here: Vec<_> = page.iter().map(|_| process.value()).collect();
        in_order(&mut page);
        in_order(&mut here);
        for (page, here) in page.iter_mut().zip(&mut here) {
            settle(page, here, &mut names);
        }
        assert_eq!(here, page, "{request}");
    }
    let (code, rest, errors) = process.finish();
    assert_eq!((code, rest.len()), (0, 0), "{errors}");
}
