//! Fluxloop: the recordings of the shipped server, as they are and turned into the page's form.

use serde_json::{Map, Value, json};

use crate::fixture;
use crate::replay::{Item, Rules, Run, play, recorded};

const RULES: Rules = Rules {
    dialect: "fluxloop",
    varies: &[],
    parser_texts: &["Malformed line: "],
    elsewhere: &[],
    in_order: true,
    apart: &[],
    standing: as_we_say_it,
};

/// The eleven lines that kill the shipped server (fluxloop §6.2).
const FATAL: [&str; 11] = [
    "04-fatal-bareword",
    "04-fatal-bom",
    "04-fatal-deep-nesting",
    "04-fatal-invalid-utf8",
    "04-fatal-lone-surrogate",
    "04-fatal-nan",
    "04-fatal-raw-control-char",
    "04-fatal-single-quotes",
    "04-fatal-trailing-comma",
    "04-fatal-truncated",
    "04-fatal-two-objects",
];

/// §9: name and version are those that page and shipped server state; our own are additive.
fn as_we_say_it(answer: &mut Value) {
    for handshake in ["/result", "/result/data"] {
        if let Some(Value::Object(result)) = answer.pointer_mut(handshake)
            && result.contains_key("capabilities")
        {
            let implementation = json!({"name": "gladhand", "version": env!("CARGO_PKG_VERSION")});
            result.insert("implementation".to_owned(), implementation);
        }
    }
}

/// §6.2: after a line that cannot be read the server goes on, and a handshake shows it.
fn and_go_on(mut items: Vec<Item>) -> Vec<Item> {
    let Some(Item::Expect(line, answer)) = items.get(1).cloned() else { panic!("a handshake first") };
    let mut answer = answer;
    answer["id"] = json!("after");
    items.push(Item::Send(line + 10, b"{\"tool\":\"handshake\",\"id\":\"after\"}\n".to_vec()));
    items.push(Item::Expect(line + 10, answer));
    items
}

/// `<1000000 x in all>` stands for what a recording left out.
fn with_all_the_letters(items: Vec<Item>) -> Vec<Item> {
    let full = |text: String| match text.split_once('<') {
        Some((before, after)) if after.contains(" x in all>") => {
            let (count, rest) = after.split_once(" x in all>").expect("just seen");
            let letters = "x".repeat(count.parse().expect("a count"));
            format!("{}{letters}{rest}", before.trim_end_matches('x'))
        }
        _ => text,
    };
    let item = |item| match item {
        Item::Send(line, bytes) => Item::Send(line, full(String::from_utf8(bytes).expect("text")).into_bytes()),
        Item::Expect(line, answer) => {
            Item::Expect(line, serde_json::from_str(&full(answer.to_string())).expect("still JSON"))
        }
        other => other,
    };
    items.into_iter().map(item).collect()
}

/// Without the newline behind the last line (§2: handled like any other when stdin closes).
fn cut_short(mut items: Vec<Item>) -> Vec<Item> {
    let last = items.iter().rposition(|item| matches!(item, Item::Send(..))).expect("a line");
    let Item::Send(_, bytes) = &mut items[last] else { unreachable!() };
    assert_eq!(bytes.pop(), Some(b'\n'));
    items.insert(last + 1, Item::CloseInput);
    items
}

/// A recorded exchange in the form of the protocol page (§4).
fn in_page_form(items: Vec<Item>) -> Vec<Item> {
    let mut rewritten = Vec::new();
    let Some(Item::Expect(_, handshake)) = recorded(&RULES, "01-handshake").into_iter().nth(1) else { panic!() };
    let tools = page_tools(&handshake["result"]["data"]);
    for item in with_all_the_letters(items) {
        match item {
            Item::Send(line, bytes) => {
                let message = match serde_json::from_slice::<Map<String, Value>>(&bytes) {
                    Ok(message) => page_request(message),
                    Err(_) => String::from_utf8(bytes).expect("text").trim_end().to_owned(),
                };
                rewritten.push(Item::Send(line, format!("{message}\n").into_bytes()));
            }
            Item::Expect(line, mut answer) => {
                if let Some(data) = answer.pointer("/result/data").cloned() {
                    let is_handshake = answer["result"]["tool"] == "handshake";
                    answer["result"] = if is_handshake { page_handshake(&data) } else { data };
                }
                if answer["error"]["code"] == "unknown_tool" {
                    let message = answer["error"]["message"].as_str().expect("a text");
                    let name = message.trim_start_matches("Unknown tool '").trim_end_matches('\'');
                    answer["error"] = json!({
                        "code": "tool_not_found",
                        "message": format!("Unknown tool: {name}"),
                        "details": {"availableTools": tools},
                    });
                }
                rewritten.push(Item::Expect(line, answer));
            }
            other => rewritten.push(other),
        }
    }
    rewritten
}

fn page_request(mut message: Map<String, Value>) -> String {
    let id = message.remove("id");
    let mut page = Map::new();
    match message.remove("tool") {
        Some(tool) if tool == "handshake" => page.insert("type".to_owned(), json!("handshake")),
        tool => {
            page.insert("type".to_owned(), json!("request"));
            page.insert("tool".to_owned(), tool.unwrap_or_default());
            page.insert("params".to_owned(), Value::Object(message))
        }
    };
    page.extend(id.map(|id| ("id".to_owned(), id)));
    Value::Object(page).to_string()
}

/// The recorded names in the order of the page: it has `faq` first (§3).
fn page_tools(data: &Value) -> Vec<String> {
    let mut names: Vec<&str> =
        data["capabilities"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    names.sort_by_key(|name| *name != "faq");
    std::iter::once("handshake").chain(names).map(str::to_owned).collect()
}

fn page_handshake(data: &Value) -> Value {
    json!({"name": "fluxloop-mcp", "version": "0.1.0", "capabilities": {"tools": page_tools(data)}})
}

#[test]
fn the_recorded_server_is_matched_in_both_forms() {
    let shipped = |file| Run::new(file, fixture("fluxloop.json"));
    // If the first line does not reveal the dialect, the operator must choose it.
    let pinned = |file| {
        let mut command = fixture("fluxloop.json");
        command.arg("fluxloop");
        Run::new(file, command)
    };
    let fatal = FATAL.map(|file| Run { rewrite: and_go_on, ..shipped(file) });
    let mut runs = vec![
        Run::new("00-page-examples", fixture("fluxloop_page.json")),
        shipped("01-handshake"),
        shipped("02-page-dialect-at-peer"),
        pinned("03-bad-but-survivable"),
        pinned("18-json-rpc-is-not-spoken"),
        shipped("19-pipelined"),
        Run { rewrite: cut_short, ..shipped("20-last-line-without-newline") },
        Run { line_end: "\r\n", ..shipped("21-crlf") },
        Run { rewrite: with_all_the_letters, ..shipped("23-long-line") },
        Run { name: "19 in page form", rewrite: in_page_form, ..shipped("19-pipelined") },
        Run { name: "20 in page form", rewrite: in_page_form, ..shipped("20-last-line-without-newline") },
        Run { name: "21 in page form", rewrite: in_page_form, line_end: "\r\n", ..shipped("21-crlf") },
        Run { name: "23 in page form", rewrite: in_page_form, ..shipped("23-long-line") },
    ];
    runs.extend(fatal);
    play(&RULES, runs);
}
