//! loaf RPC 1.0.0: rules for servers and clients.
//!
//! MUST rules are those of the published protocol documents. Behaviour that only the reference implementation shows is a
//! SHOULD.

use serde_json::Value;

use crate::json_rpc;
use crate::message::{Message, Pair, View, brief, shown};
use crate::rule::{Level, Rule};
use crate::tally::Tally;

/// A version, a method and a session that do not exist. Scripts use them.
pub(crate) const UNKNOWN_VERSION: &str = "99.0.0";
pub(crate) const UNKNOWN_METHOD: &str = "gladhand.no_such_method";
pub(crate) const UNKNOWN_SESSION: &str = "00000000-0000-4000-8000-000000000000";

const MESSAGES: &str = "Requests, Responses, Errors";
const FRAMING: &str = "Transport and Framing";
const HANDSHAKE: &str = "rpc.handshake";
const ERRORS: &str = "Error Codes";
const EVENTS: &str = "Events";

const fn must(id: &'static str, section: &'static str, about: &'static str, judge: fn(&View<'_>, &mut Tally)) -> Rule {
    Rule::new("loaf", Level::Must, id, section, about, judge)
}

const fn should(
    id: &'static str,
    section: &'static str,
    about: &'static str,
    judge: fn(&View<'_>, &mut Tally),
) -> Rule {
    Rule::new("loaf", Level::Should, id, section, about, judge)
}

fn result_member(view: &View<'_>, tally: &mut Tally, method: &str, name: &str, fits: fn(&Value) -> bool) {
    for (pair, result) in view.results(method) {
        let value = result.get(name);
        tally.expect(value.is_some_and(fits), &pair.lines(), || format!("`{name}` is {}", shown(value)));
    }
}

/// Whether a handshake insists on a version that does not exist.
fn is_strict(pair: &Pair<'_, '_>) -> bool {
    pair.request.at("/params/strict") == Some(&Value::Bool(true))
        && pair.request.text_at("/params/protocol_version") == Some(UNKNOWN_VERSION)
}

/// The first error with the id null after a line, which is how an unreadable line is answered.
fn unread(view: &View<'_>, tally: &mut Tally, is_odd: fn(&Message<'_>) -> bool, code: i64, reason: &str) {
    for odd in view.theirs().filter(|message| is_odd(message)) {
        let is_answer = |message: &&Message<'_>| {
            message.line > odd.line && message.is_response() && message.get("id").is_some_and(Value::is_null)
        };
        let answers: Vec<_> = view.ours().filter(is_answer).collect();
        let fits = |message: &&&Message<'_>| {
            message.error_code() == Some(code) && message.text_at("/error/data/reason") == Some(reason)
        };
        let lines: Vec<_> = [odd.line].into_iter().chain(answers.first().map(|answer| answer.line)).collect();
        if view.exchange.is_complete {
            tally.expect(answers.iter().any(|answer| fits(&answer)), &lines, || {
                format!("no error {code} with the reason `{reason}` and the id null")
            });
        }
    }
}

/// `2026-01-01T00:00:00.000Z`.
fn is_time(value: &Value) -> bool {
    let Some(text) = value.as_str().filter(|text| text.len() == 24 && text.is_ascii()) else { return false };
    text.bytes().zip("0000-00-00T00:00:00.000Z".bytes()).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        shape => byte == shape,
    })
}

fn events<'v, 'e>(view: &'v View<'e>) -> impl Iterator<Item = &'v Message<'e>> {
    view.ours().filter(|message| message.is_notification())
}

pub(crate) static RULES: &[Rule] = &[
    must("loaf.message.json", FRAMING, "every line on stdout is JSON", json_rpc::lines_are_json),
    must("loaf.message.jsonrpc", MESSAGES, "every message has `\"jsonrpc\":\"2.0\"`", json_rpc::has_version),
    must("loaf.message.kind", MESSAGES, "the server sends responses and events only", |view, tally| {
        for message in view.ours().filter(|message| message.value.is_some()) {
            let fits = message.is_response() || message.method() == Some("event") && message.get("id").is_none();
            tally.expect(fits, &[message.line], || brief(message.text));
        }
    }),
    must("loaf.response.id", MESSAGES, "a response has the id of a request, or null", json_rpc::response_ids_are_known),
    must("loaf.response.once", MESSAGES, "a request has at most one response", json_rpc::requests_are_answered_once),
    must("loaf.response.present", MESSAGES, "every request has a response", json_rpc::requests_are_answered),
    must(
        "loaf.response.outcome",
        MESSAGES,
        "a response has a result or an error",
        json_rpc::responses_have_one_outcome,
    ),
    must("loaf.error.code", ERRORS, "the code of an error is an integer", json_rpc::error_codes_are_integers),
    must("loaf.error.message", ERRORS, "an error has a message", json_rpc::error_messages_are_texts),
    must("loaf.error.reason", ERRORS, "an error has `data.reason`, a string", |view, tally| {
        for message in view.ours().filter(|message| message.get("error").is_some()) {
            let reason = message.at("/error/data/reason");
            tally.expect(reason.is_some_and(Value::is_string), &[message.line], || shown(reason));
        }
    }),
    must("loaf.error.known-code", ERRORS, "the code of an error is one of the six", |view, tally| {
        for message in view.ours().filter(|message| message.get("error").is_some()) {
            let code = message.error_code();
            let fits = matches!(code, Some(-32700 | -32600 | -32601 | -32602 | -32603 | -32000));
            tally.expect(fits, &[message.line], || format!("the code is {code:?}"));
        }
    }),
    must("loaf.handshake.result", HANDSHAKE, "a handshake that is not strict succeeds", |view, tally| {
        for pair in view.pairs("rpc.handshake") {
            let params = pair.request.get("params");
            let is_plain =
                params.is_none_or(|params| params.get("strict").is_none_or(|strict| strict == &Value::Bool(false)));
            if is_plain {
                tally.expect(pair.result().is_some(), &pair.lines(), || "it fails".to_owned());
            }
        }
    }),
    must("loaf.handshake.version", HANDSHAKE, "`protocol_version` is \"1.0.0\"", |view, tally| {
        result_member(view, tally, "rpc.handshake", "protocol_version", |value| value == "1.0.0");
    }),
    must("loaf.handshake.server-name", HANDSHAKE, "`server_name` is a string", |view, tally| {
        result_member(view, tally, "rpc.handshake", "server_name", Value::is_string);
    }),
    must("loaf.handshake.capabilities", HANDSHAKE, "`capabilities` is an object", |view, tally| {
        result_member(view, tally, "rpc.handshake", "capabilities", Value::is_object);
    }),
    must("loaf.handshake.methods", HANDSHAKE, "`methods` lists method names", |view, tally| {
        result_member(view, tally, "rpc.handshake", "methods", |value| {
            value.as_array().is_some_and(|names| !names.is_empty() && names.iter().all(Value::is_string))
        });
    }),
    must(
        "loaf.handshake.own-methods",
        HANDSHAKE,
        "`methods` contains the methods that open a session",
        |view, tally| {
            for (pair, result) in view.results("rpc.handshake") {
                let methods = result.get("methods").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                for name in ["rpc.handshake", "system.ping", "system.shutdown"] {
                    let has = methods.iter().any(|method| method == name);
                    tally.expect(has, &pair.lines(), || format!("`{name}` is missing"));
                }
            }
        },
    ),
    should("loaf.handshake.sorted", HANDSHAKE, "`methods` is sorted", |view, tally| {
        for (pair, result) in view.results("rpc.handshake") {
            let methods = result.get("methods").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let names: Vec<_> = methods.iter().filter_map(Value::as_str).collect();
            tally.expect(names.is_sorted(), &pair.lines(), || "it is not".to_owned());
        }
    }),
    must(
        "loaf.handshake.strict",
        HANDSHAKE,
        "a strict handshake in another version is refused with -32602",
        |view, tally| {
            for pair in view.pairs("rpc.handshake").into_iter().filter(is_strict) {
                let code = pair.answer.error_code();
                tally.expect(code == Some(-32602), &pair.lines(), || format!("the code is {code:?}"));
            }
        },
    ),
    must(
        "loaf.handshake.strict-data",
        HANDSHAKE,
        "that refusal names the reason and the supported version",
        |view, tally| {
            for pair in view.pairs("rpc.handshake").into_iter().filter(is_strict) {
                let reason = pair.answer.text_at("/error/data/reason");
                let supported = pair.answer.text_at("/error/data/supported");
                let fits = reason == Some("unsupported_protocol_version") && supported == Some("1.0.0");
                tally.expect(fits, &pair.lines(), || shown(pair.answer.at("/error/data")));
            }
        },
    ),
    must(
        "loaf.handshake.flexible",
        HANDSHAKE,
        "a handshake in another version succeeds if it is not strict",
        |view, tally| {
            for pair in view.pairs("rpc.handshake") {
                let is_other = pair.request.text_at("/params/protocol_version") == Some(UNKNOWN_VERSION);
                if is_other && !is_strict(&pair) {
                    tally.expect(pair.result().is_some(), &pair.lines(), || "it fails".to_owned());
                }
            }
        },
    ),
    must("loaf.error.unknown-method", ERRORS, "an unknown method is answered with -32601", |view, tally| {
        for pair in view.pairs(UNKNOWN_METHOD) {
            let code = pair.answer.error_code();
            tally.expect(code == Some(-32601), &pair.lines(), || format!("the code is {code:?}"));
        }
    }),
    must(
        "loaf.error.method-name",
        ERRORS,
        "that error has the reason `method_not_found` and the name of the method",
        |view, tally| {
            for pair in view.pairs(UNKNOWN_METHOD) {
                let reason = pair.answer.text_at("/error/data/reason");
                let method = pair.answer.text_at("/error/data/method");
                let fits = reason == Some("method_not_found") && method == Some(UNKNOWN_METHOD);
                tally.expect(fits, &pair.lines(), || shown(pair.answer.at("/error/data")));
            }
        },
    ),
    must(
        "loaf.error.parse",
        ERRORS,
        "a line that is no JSON is answered with -32700 and the id null",
        |view, tally| {
            unread(view, tally, |message| message.value.is_none(), -32700, "parse_error");
        },
    ),
    must("loaf.error.batch", ERRORS, "a batch is answered with -32600 and the id null", |view, tally| {
        unread(
            view,
            tally,
            |message| message.value.as_ref().is_some_and(Value::is_array),
            -32600,
            "batch_not_supported",
        );
    }),
    must("loaf.error.invalid", ERRORS, "an invalid request is answered with -32600 and the id null", |view, tally| {
        let is_odd =
            |message: &Message<'_>| message.value.as_ref().is_some_and(Value::is_object) && message.method().is_none();
        unread(view, tally, is_odd, -32600, "invalid_request");
    }),
    must("loaf.error.survives", FRAMING, "the server goes on after an unreadable line", json_rpc::survives_malformed),
    must("loaf.notification.ignored", MESSAGES, "a notification of the client gets no answer", |view, tally| {
        for message in view.theirs().filter(|message| message.is_notification()) {
            let next = view.messages.iter().find(|next| next.line > message.line);
            let is_answered = next.is_some_and(|next| {
                next.from == view.side() && next.get("id").is_some_and(Value::is_null) && next.get("error").is_some()
            });
            tally.expect(!is_answered, &[message.line], || "it is answered".to_owned());
        }
    }),
    should(
        "loaf.request.null-id",
        MESSAGES,
        "a request with the id null is answered with the id null",
        |view, tally| {
            let is_null =
                |message: &&Message<'_>| message.is_request() && message.get("id").is_some_and(Value::is_null);
            for request in view.theirs().filter(is_null) {
                let is_answered = view.response_to(request).is_some();
                if view.exchange.is_complete {
                    tally.expect(is_answered, &[request.line], || "no answer".to_owned());
                }
            }
        },
    ),
    must("loaf.ping.ok", "system.ping", "`system.ping` returns `ok`, true", |view, tally| {
        result_member(view, tally, "system.ping", "ok", |value| value == &Value::Bool(true));
    }),
    must(
        "loaf.ping.time",
        "system.ping",
        "`system.ping` returns `time` in ISO 8601, UTC, with milliseconds",
        |view, tally| {
            result_member(view, tally, "system.ping", "time", is_time);
        },
    ),
    must("loaf.params.required", ERRORS, "a missing parameter is answered with -32602", |view, tally| {
        let lacks = |pair: &Pair<'_, '_>| pair.request.at("/params/session_id").is_none();
        for pair in view.pairs("session.get").into_iter().filter(lacks) {
            let code = pair.answer.error_code();
            // A server may have no sessions at all.
            tally.expect(matches!(code, Some(-32602 | -32601)), &pair.lines(), || format!("the code is {code:?}"));
        }
    }),
    should("loaf.params.field", ERRORS, "that error names the field", |view, tally| {
        let lacks = |pair: &Pair<'_, '_>| pair.request.at("/params/session_id").is_none();
        for pair in view.pairs("session.get").into_iter().filter(lacks) {
            if pair.answer.error_code() == Some(-32602) {
                let field = pair.answer.text_at("/error/data/field");
                tally.expect(field == Some("session_id"), &pair.lines(), || format!("`field` is {field:?}"));
            }
        }
    }),
    should("loaf.session.unknown", "Sessions", "an unknown session is answered with -32603", |view, tally| {
        let is_unknown = |pair: &Pair<'_, '_>| pair.request.text_at("/params/session_id") == Some(UNKNOWN_SESSION);
        for pair in view.pairs("session.get").into_iter().filter(is_unknown) {
            let code = pair.answer.error_code();
            tally.expect(matches!(code, Some(-32603 | -32601)), &pair.lines(), || format!("the code is {code:?}"));
        }
    }),
    must("loaf.state.get", "state.get", "`state.get` returns an object", |view, tally| {
        for (pair, result) in view.results("state.get") {
            tally.expect(result.is_object(), &pair.lines(), || shown(Some(result)));
        }
    }),
    must("loaf.tools.list", "tools.list", "`tools.list` returns an object or an array", |view, tally| {
        for (pair, result) in view.results("tools.list") {
            tally.expect(result.is_object() || result.is_array(), &pair.lines(), || shown(Some(result)));
        }
    }),
    must("loaf.event.type", EVENTS, "an event has `type`, a string", |view, tally| {
        for event in events(view) {
            let kind = event.at("/params/type");
            tally.expect(kind.is_some_and(Value::is_string), &[event.line], || shown(kind));
        }
    }),
    must(
        "loaf.event.timestamp",
        EVENTS,
        "an event has `timestamp` in ISO 8601, UTC, with milliseconds",
        |view, tally| {
            for event in events(view) {
                let time = event.at("/params/timestamp");
                tally.expect(time.is_some_and(is_time), &[event.line], || shown(time));
            }
        },
    ),
    must("loaf.event.payload", EVENTS, "an event has `payload`, an object", |view, tally| {
        for event in events(view) {
            let payload = event.at("/params/payload");
            tally.expect(payload.is_some_and(Value::is_object), &[event.line], || shown(payload));
        }
    }),
    should(
        "loaf.client.handshake-first",
        HANDSHAKE,
        "the first request of the client is `rpc.handshake`",
        |view, tally| {
            if let Some(first) = view.ours().next() {
                tally.expect(first.method() == Some("rpc.handshake"), &[first.line], || shown(first.get("method")));
            }
        },
    )
    .for_client(),
    must("loaf.client.requests", MESSAGES, "every line of the client is a request", |view, tally| {
        for message in view.ours() {
            let is_id = |id: &Value| id.is_string() || id.is_number() || id.is_null();
            let fits = message.is_request()
                && message.get("id").is_some_and(is_id)
                && message.text_at("/jsonrpc") == Some("2.0");
            tally.expect(fits, &[message.line], || brief(message.text));
        }
    })
    .for_client(),
    must("loaf.client.handshake", HANDSHAKE, "`protocol_version` is a string and `strict` a boolean", |view, tally| {
        for message in view.ours().filter(|message| message.method() == Some("rpc.handshake")) {
            let fits = message.at("/params/protocol_version").is_none_or(|value| value.is_string() || value.is_null())
                && message.at("/params/strict").is_none_or(|value| value.is_boolean() || value.is_null());
            tally.expect(fits, &[message.line], || shown(message.get("params")));
        }
    })
    .for_client(),
];
