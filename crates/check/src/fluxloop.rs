//! Fluxloop: rules for servers, and for clients.
//!
//! MUST rules are those of the protocol page. The shipped server speaks another form and ends at a malformed line. A rule
//! that only the recommendations have is a SHOULD.

use serde_json::Value;

use crate::message::{Message, View, brief, shown};
use crate::rule::{Level, Rule};
use crate::tally::Tally;

/// A tool that does not exist. A script asks for it.
pub(crate) const UNKNOWN_TOOL: &str = "gladhand_no_such_tool";

/// The tools of the page, in its order.
const TOOLS: [&str; 8] = [
    "handshake",
    "faq",
    "analyze_repository",
    "detect_frameworks",
    "generate_integration_steps",
    "propose_edit_plan",
    "validate_edit_plan",
    "run_integration_workflow",
];

const FORMAT: &str = "Protocol: Message Format";
const HANDSHAKE: &str = "Protocol: Handshake";
const ERRORS: &str = "Protocol: Errors";

const fn must(id: &'static str, section: &'static str, about: &'static str, judge: fn(&View<'_>, &mut Tally)) -> Rule {
    Rule::new("fluxloop", Level::Must, id, section, about, judge)
}

const fn should(
    id: &'static str,
    section: &'static str,
    about: &'static str,
    judge: fn(&View<'_>, &mut Tally),
) -> Rule {
    Rule::new("fluxloop", Level::Should, id, section, about, judge)
}

/// The answer to a message: the first one with its id.
fn answer_to<'v, 'e>(view: &'v View<'e>, request: &Message<'_>) -> Option<&'v Message<'e>> {
    let id = request.get("id")?;
    view.ours().find(|message| message.line > request.line && message.get("id") == Some(id))
}

/// The results of handshakes.
fn handshakes<'v>(view: &'v View<'_>) -> Vec<([usize; 2], &'v Value)> {
    let requests = view.theirs().filter(|message| message.kind() == Some("handshake"));
    requests
        .filter_map(|request| {
            let answer = answer_to(view, request)?;
            Some(([request.line, answer.line], answer.get("result")?))
        })
        .collect()
}

fn handshake_member(view: &View<'_>, tally: &mut Tally, pointer: &str, fits: fn(&Value) -> bool) {
    for (lines, result) in handshakes(view) {
        let value = result.pointer(pointer);
        tally.expect(value.is_some_and(fits), &lines, || {
            format!("`{}` is {}", pointer.trim_start_matches('/'), shown(value))
        });
    }
}

/// The answers to requests of a tool.
fn answers<'v, 'e>(view: &'v View<'e>, tool: &str) -> Vec<(&'v Message<'e>, &'v Message<'e>)> {
    let requests =
        view.theirs().filter(|message| message.kind() == Some("request") && message.text_at("/tool") == Some(tool));
    requests.filter_map(|request| Some((request, answer_to(view, request)?))).collect()
}

/// The errors without an id after an odd line.
fn refused_without_id(view: &View<'_>, tally: &mut Tally, is_odd: fn(&Message<'_>) -> bool) {
    for odd in view.theirs().filter(|message| is_odd(message)) {
        let error = view.ours().find(|message| message.line > odd.line && message.kind() == Some("error"));
        let code = error.and_then(|error| error.text_at("/error/code"));
        let lines: Vec<_> = [odd.line].into_iter().chain(error.map(|error| error.line)).collect();
        if view.exchange.is_complete {
            tally.expect(code == Some("invalid_payload"), &lines, || format!("the code is {code:?}"));
        }
    }
}

pub(crate) static RULES: &[Rule] = &[
    must("fluxloop.message.json", FORMAT, "every line on stdout is one JSON object", |view, tally| {
        for message in view.ours() {
            let is_object = message.value.as_ref().is_some_and(Value::is_object);
            tally.expect(is_object, &[message.line], || brief(message.text));
        }
    }),
    must("fluxloop.message.type", FORMAT, "every answer has the type `response` or `error`", |view, tally| {
        for message in view.ours().filter(|message| message.value.is_some()) {
            let fits = matches!(message.kind(), Some("response" | "error"));
            tally.expect(fits, &[message.line], || shown(message.get("type")));
        }
    }),
    must("fluxloop.message.id", FORMAT, "an answer has the id of its request", |view, tally| {
        for request in view.theirs().filter(|message| matches!(message.kind(), Some("handshake" | "request"))) {
            if request.get("id").is_some_and(|id| !id.is_null()) && view.exchange.is_complete {
                let is_answered = answer_to(view, request).is_some();
                tally.expect(is_answered, &[request.line], || {
                    format!("no answer has the id {}", shown(request.get("id")))
                });
            }
        }
    }),
    must("fluxloop.message.known-id", FORMAT, "no answer has an id that no request has", |view, tally| {
        for message in view.ours() {
            let Some(id) = message.get("id") else { continue };
            let is_known = view.theirs().any(|request| request.line < message.line && request.get("id") == Some(id));
            tally.expect(is_known, &[message.line], || format!("the id is {id}"));
        }
    }),
    must("fluxloop.response.result", FORMAT, "a response has `result`", |view, tally| {
        for message in view.ours().filter(|message| message.kind() == Some("response")) {
            tally.expect(message.get("result").is_some(), &[message.line], || "no `result`".to_owned());
        }
    }),
    must("fluxloop.error.code", ERRORS, "an error has `error.code`, a string", |view, tally| {
        for message in view.ours().filter(|message| message.kind() == Some("error")) {
            let code = message.at("/error/code");
            tally.expect(code.is_some_and(Value::is_string), &[message.line], || shown(code));
        }
    }),
    must("fluxloop.error.message", ERRORS, "an error has `error.message`, a string", |view, tally| {
        for message in view.ours().filter(|message| message.kind() == Some("error")) {
            let text = message.at("/error/message");
            tally.expect(text.is_some_and(Value::is_string), &[message.line], || shown(text));
        }
    }),
    must("fluxloop.error.details", ERRORS, "`error.details` is an object", |view, tally| {
        for message in view.ours().filter(|message| message.kind() == Some("error")) {
            if let Some(details) = message.at("/error/details") {
                tally.expect(details.is_object(), &[message.line], || shown(Some(details)));
            }
        }
    }),
    should("fluxloop.order", "Protocol: Transport", "answers come in the order of the requests", |view, tally| {
        let order: Vec<_> = view
            .theirs()
            .filter(|message| matches!(message.kind(), Some("handshake" | "request")))
            .filter_map(|request| Some(answer_to(view, request)?.line))
            .collect();
        if order.len() > 1 {
            tally.expect(order.is_sorted(), &order, || "they do not".to_owned());
        }
    }),
    must("fluxloop.speaks-second", "Protocol: Transport", "the server never speaks first", |view, tally| {
        if let Some(first) = view.messages.first() {
            tally.expect(first.from != view.side(), &[first.line], || brief(first.text));
        }
    }),
    must("fluxloop.handshake.response", HANDSHAKE, "a handshake is answered with a response", |view, tally| {
        for request in view.theirs().filter(|message| message.kind() == Some("handshake")) {
            if let Some(answer) = answer_to(view, request) {
                let fits = answer.kind() == Some("response");
                tally.expect(fits, &[request.line, answer.line], || shown(answer.get("error")));
            }
        }
    }),
    must("fluxloop.handshake.name", HANDSHAKE, "the result has `name`, a string", |view, tally| {
        handshake_member(view, tally, "/name", Value::is_string);
    }),
    must("fluxloop.handshake.version", HANDSHAKE, "the result has `version`, a string", |view, tally| {
        handshake_member(view, tally, "/version", Value::is_string);
    }),
    must("fluxloop.handshake.tools", HANDSHAKE, "`capabilities.tools` lists the names of the tools", |view, tally| {
        handshake_member(view, tally, "/capabilities/tools", |value| {
            value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
        });
    }),
    must("fluxloop.handshake.itself", HANDSHAKE, "`handshake` is among the tools", |view, tally| {
        handshake_member(view, tally, "/capabilities/tools", |value| {
            value.as_array().is_some_and(|names| names.iter().any(|name| name == "handshake"))
        });
    }),
    should(
        "fluxloop.handshake.order",
        HANDSHAKE,
        "the eight tools of the page come first, in its order",
        |view, tally| {
            for (lines, result) in handshakes(view) {
                let names = result
                    .pointer("/capabilities/tools")
                    .and_then(Value::as_array)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let first: Vec<_> = names.iter().take(TOOLS.len()).filter_map(Value::as_str).collect();
                tally.expect(first == TOOLS, &lines, || format!("the first are: {}", brief(&first.join(", "))));
            }
        },
    ),
    must(
        "fluxloop.tools.handshake",
        HANDSHAKE,
        "the tool `handshake` returns the same as the handshake",
        |view, tally| {
            for (request, answer) in answers(view, "handshake") {
                if let Some((_, result)) = handshakes(view).first() {
                    let fits = answer.get("result") == Some(result);
                    tally.expect(fits, &[request.line, answer.line], || "it differs".to_owned());
                }
            }
        },
    ),
    must("fluxloop.tools.unknown", ERRORS, "an unknown tool is answered with `tool_not_found`", |view, tally| {
        for (request, answer) in answers(view, UNKNOWN_TOOL) {
            let code = answer.text_at("/error/code");
            tally.expect(code == Some("tool_not_found"), &[request.line, answer.line], || {
                format!("the code is {code:?}")
            });
        }
    }),
    must("fluxloop.tools.available", ERRORS, "that error lists `details.availableTools`", |view, tally| {
        for (request, answer) in answers(view, UNKNOWN_TOOL) {
            let available = answer.at("/error/details/availableTools");
            tally.expect(available.is_some_and(Value::is_array), &[request.line, answer.line], || shown(available));
        }
    }),
    must("fluxloop.faq.answer", "Tools: faq", "`faq` returns `answer`, a string", |view, tally| {
        for (request, answer) in answers(view, "faq").into_iter().filter(|(_, answer)| answer.get("result").is_some()) {
            let text = answer.at("/result/answer");
            tally.expect(text.is_some_and(Value::is_string), &[request.line, answer.line], || shown(text));
        }
    }),
    must(
        "fluxloop.faq.citations",
        "Tools: faq",
        "`faq` returns `citations`, each with `path` and `section`",
        |view, tally| {
            for (request, answer) in
                answers(view, "faq").into_iter().filter(|(_, answer)| answer.get("result").is_some())
            {
                let citations = answer.at("/result/citations").and_then(Value::as_array);
                let is_citation = |citation: &Value| {
                    ["path", "section"].iter().all(|name| citation.get(name).is_some_and(Value::is_string))
                };
                let fits = citations.is_some_and(|citations| citations.iter().all(is_citation));
                tally.expect(fits, &[request.line, answer.line], || shown(answer.at("/result/citations")));
            }
        },
    ),
    should(
        "fluxloop.params.type",
        ERRORS,
        "`params` that is no object is answered with `invalid_payload`",
        |view, tally| {
            let is_odd = |message: &&Message<'_>| {
                message.get("params").is_some_and(|params| !params.is_object() && !params.is_null())
            };
            for request in view.theirs().filter(is_odd) {
                if let Some(answer) = answer_to(view, request) {
                    let code = answer.text_at("/error/code");
                    let fits = code == Some("invalid_payload");
                    tally.expect(fits, &[request.line, answer.line], || format!("the code is {code:?}"));
                }
            }
        },
    ),
    should(
        "fluxloop.request.no-tool",
        ERRORS,
        "a request without `tool` is answered with `invalid_payload`",
        |view, tally| {
            let is_odd = |message: &&Message<'_>| message.kind() == Some("request") && message.get("tool").is_none();
            for request in view.theirs().filter(is_odd) {
                if let Some(answer) = answer_to(view, request) {
                    let code = answer.text_at("/error/code");
                    let fits = code == Some("invalid_payload");
                    tally.expect(fits, &[request.line, answer.line], || format!("the code is {code:?}"));
                }
            }
        },
    ),
    should(
        "fluxloop.request.unknown-type",
        ERRORS,
        "an unknown `type` is answered with `invalid_payload`",
        |view, tally| {
            let is_odd = |message: &&Message<'_>| message.kind() == Some("gladhand-no-such-type");
            for request in view.theirs().filter(is_odd) {
                if let Some(answer) = answer_to(view, request) {
                    let code = answer.text_at("/error/code");
                    let fits = code == Some("invalid_payload");
                    tally.expect(fits, &[request.line, answer.line], || format!("the code is {code:?}"));
                }
            }
        },
    ),
    should(
        "fluxloop.error.no-object",
        ERRORS,
        "JSON that is no object is answered with `invalid_payload`",
        |view, tally| {
            refused_without_id(view, tally, |message| message.value.as_ref().is_some_and(|value| !value.is_object()));
        },
    ),
    should(
        "fluxloop.error.parse",
        ERRORS,
        "a line that is no JSON is answered with `invalid_payload`",
        |view, tally| {
            refused_without_id(view, tally, |message| message.value.is_none());
        },
    ),
    should("fluxloop.error.survives", ERRORS, "the server goes on after a malformed line", |view, tally| {
        let Some(odd) = view.theirs().find(|message| message.value.is_none()) else { return };
        for request in view.theirs().filter(|message| message.line > odd.line && message.kind() == Some("handshake")) {
            let is_answered = answer_to(view, request).is_some();
            tally.expect(is_answered, &[odd.line, request.line], || "no answer after it".to_owned());
        }
    }),
    must(
        "fluxloop.client.handshake-first",
        HANDSHAKE,
        "the first message of the client is the handshake",
        |view, tally| {
            if let Some(first) = view.ours().next() {
                tally.expect(first.kind() == Some("handshake"), &[first.line], || shown(first.get("type")));
            }
        },
    )
    .for_client(),
    must(
        "fluxloop.client.messages",
        FORMAT,
        "every message of the client is a handshake or a request with `tool`",
        |view, tally| {
            for message in view.ours() {
                let fits = match message.kind() {
                    Some("handshake") => true,
                    Some("request") => message.get("tool").is_some_and(Value::is_string),
                    _ => false,
                };
                tally.expect(fits, &[message.line], || brief(message.text));
            }
        },
    )
    .for_client(),
    must("fluxloop.client.id", FORMAT, "every message of the client has `id`, a string", |view, tally| {
        for message in view.ours() {
            tally.expect(message.get("id").is_some_and(Value::is_string), &[message.line], || shown(message.get("id")));
        }
    })
    .for_client(),
];
