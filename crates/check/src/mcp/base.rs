//! Messages: JSON-RPC as MCP uses it, on both eras, and utilities that every session has.

use serde_json::Value;

use super::{handshake, must, refused_with, result_member, should};
use crate::json_rpc;
use crate::message::{Pair, shown};
use crate::rule::Rule;

/// Methods that no revision has. A script calls one of them.
pub(crate) const UNKNOWN_METHOD: &str = "gladhand/no-such-method";

const MESSAGES: &str = "basic: Messages";

pub(crate) static RULES: &[Rule] = &[
    must("mcp.message.json", "basic/transports: stdio", "every line on stdout is JSON", json_rpc::lines_are_json),
    must("mcp.message.object", MESSAGES, "a message is an object; only 2025-03-26 has batches", |view, tally| {
        for message in view.ours() {
            let Some(value) = &message.value else { continue };
            let is_batch = value.is_array() && super::version_in_force(view) == Some("2025-03-26");
            tally.expect(value.is_object() || is_batch, &[message.line], || format!("it is {}", shown(Some(value))));
        }
    }),
    must("mcp.message.jsonrpc", MESSAGES, "every message has `\"jsonrpc\":\"2.0\"`", json_rpc::has_version),
    must("mcp.message.params", MESSAGES, "`params` is an object", |view, tally| {
        for message in view.ours().filter(|message| message.method().is_some()) {
            if let Some(params) = message.get("params") {
                tally.expect(params.is_object(), &[message.line], || format!("it is {}", shown(Some(params))));
            }
        }
    }),
    must("mcp.message.kind", MESSAGES, "every message is a request, a response or a notification", |view, tally| {
        for message in view.ours().filter(|message| message.value.as_ref().is_some_and(Value::is_object)) {
            let is_any = message.method().is_some() || message.is_response();
            tally.expect(is_any, &[message.line], || "neither `method` nor `result` nor `error`".to_owned());
        }
    }),
    must("mcp.response.id", MESSAGES, "a response has the id of a request", json_rpc::response_ids_are_known),
    must("mcp.response.once", MESSAGES, "a request has at most one response", json_rpc::requests_are_answered_once),
    must("mcp.response.present", MESSAGES, "every request has a response", json_rpc::requests_are_answered),
    must("mcp.response.outcome", MESSAGES, "a response has a result or an error", json_rpc::responses_have_one_outcome),
    must("mcp.response.result", MESSAGES, "a result is an object", json_rpc::results_are_objects),
    must("mcp.error.code", MESSAGES, "the code of an error is an integer", json_rpc::error_codes_are_integers),
    must("mcp.error.message", MESSAGES, "an error has a message", json_rpc::error_messages_are_texts),
    must("mcp.response.string-id", MESSAGES, "a string as id is echoed as a string", |view, tally| {
        for request in view.theirs().filter(|message| message.is_request()) {
            if let (Some(Value::String(id)), true) = (request.get("id"), view.exchange.is_complete) {
                let is_answered = view.response_to(request).is_some();
                tally.expect(is_answered, &[request.line], || format!("no answer has the id {id:?}"));
            }
        }
    }),
    must("mcp.response.large-id", MESSAGES, "an id up to 2^53 - 1 is echoed exactly", |view, tally| {
        for request in view.theirs().filter(|message| message.is_request()) {
            let is_large = request.get("id").and_then(Value::as_u64).is_some_and(|id| id > u64::from(u32::MAX));
            if is_large && view.exchange.is_complete {
                let is_answered = view.response_to(request).is_some();
                tally.expect(is_answered, &[request.line], || "no answer has this id".to_owned());
            }
        }
    }),
    must("mcp.request.id", MESSAGES, "the id of a request is a string or an integer", |view, tally| {
        for message in view.ours().filter(|message| message.is_request()) {
            let id = message.get("id");
            let fits = id.is_some_and(|id| id.is_string() || id.is_i64() || id.is_u64());
            tally.expect(fits, &[message.line], || format!("the id is {}", shown(id)));
        }
    }),
    handshake(must("mcp.request.id-unique", MESSAGES, "no id is used for two requests of a session", |view, tally| {
        let mut seen: Vec<&Value> = Vec::new();
        for message in view.ours().filter(|message| message.is_request()) {
            let Some(id) = message.get("id") else { continue };
            tally.expect(!seen.contains(&id), &[message.line], || format!("the id {id} again"));
            seen.push(id);
        }
    })),
    must("mcp.error.unknown-method", MESSAGES, "an unknown method is answered with -32601", |view, tally| {
        refused_with(tally, view.pairs(UNKNOWN_METHOD), &[-32601]);
    }),
    should("mcp.error.parse", MESSAGES, "an unreadable line gets -32700, or no answer", |view, tally| {
        let Some((line, after)) = json_rpc::after_malformed(view, |value| value.is_none()) else { return };
        let codes = view.ours().filter(|message| message.line > line && message.get("id").is_none_or(Value::is_null));
        for message in codes.filter(|message| message.is_response()) {
            let code = message.error_code();
            tally.expect(code == Some(-32700), &[line, message.line], || format!("the code is {code:?}"));
        }
        if !after.is_empty() {
            tally.expect(true, &[], String::new);
        }
    }),
    should("mcp.error.survives", MESSAGES, "a session goes on after an unreadable line", json_rpc::survives_malformed),
    should(
        "mcp.error.invalid-request",
        MESSAGES,
        "an object that is no message gets -32600, or no answer",
        |view, tally| {
            let is_none = |message: &&crate::message::Message<'_>| {
                message.value.as_ref().is_some_and(Value::is_object)
                    && message.method().is_none()
                    && !message.is_response()
            };
            for odd in view.theirs().filter(is_none) {
                let Some(id) = odd.get("id") else { continue };
                let answer = view.ours().find(|message| message.line > odd.line && message.get("id") == Some(id));
                let lines = [Some(odd.line), answer.map(|answer| answer.line)];
                let lines: Vec<_> = lines.into_iter().flatten().collect();
                let code = answer.and_then(|answer| answer.error_code());
                let fits = answer.is_none() || matches!(code, Some(-32600 | -32700 | -32601));
                tally.expect(fits, &lines, || format!("the code is {code:?}"));
            }
        },
    ),
    should(
        "mcp.message.extra-members",
        "schema: open objects",
        "unknown members of a request are ignored",
        |view, tally| {
            for request in
                view.theirs().filter(|message| message.is_request() && message.at("/params/x-gladhand").is_some())
            {
                if let Some(answer) = view.response_to(request) {
                    let pair = Pair { request, answer };
                    tally.expect(answer.get("result").is_some(), &pair.lines(), || "the request fails".to_owned());
                }
            }
        },
    ),
    handshake(must(
        "mcp.ping.result",
        "basic/utilities/ping",
        "`ping` is answered with an empty result",
        |view, tally| {
            for pair in view.pairs("ping") {
                let result = pair.result();
                let is_empty =
                    result.and_then(Value::as_object).is_some_and(|members| members.keys().all(|key| key == "_meta"));
                tally.expect(is_empty, &pair.lines(), || format!("the result is {}", shown(result)));
            }
        },
    )),
    handshake(should(
        "mcp.ping.early",
        "basic/lifecycle: Initialization",
        "`ping` is answered before `notifications/initialized`",
        |view, tally| {
            let Some(initialized) = view.theirs().find(|message| super::is_initialized(message)) else { return };
            for ping in
                view.theirs().filter(|message| message.method() == Some("ping") && message.line < initialized.line)
            {
                let answer = view.response_to(ping);
                tally.expect(answer.is_some_and(|answer| answer.line < initialized.line), &[ping.line], || {
                    "it waits".to_owned()
                });
            }
        },
    )),
    handshake(must(
        "mcp.progress.token",
        "basic/utilities/progress",
        "progress names a token of a request",
        |view, tally| {
            for message in view.ours().filter(|message| message.method() == Some("notifications/progress")) {
                let token = message.at("/params/progressToken");
                let is_known = view.theirs().any(|request| {
                    request.line < message.line && token.is_some() && request.at("/params/_meta/progressToken") == token
                });
                tally.expect(is_known, &[message.line], || format!("the token is {}", shown(token)));
            }
        },
    )),
    must(
        "mcp.progress.increases",
        "basic/utilities/progress",
        "`progress` increases with each notification",
        |view, tally| {
            let mut last: Vec<(&Value, f64)> = Vec::new();
            for message in view.ours().filter(|message| message.method() == Some("notifications/progress")) {
                let (Some(token), progress) = (message.at("/params/progressToken"), message.at("/params/progress"))
                else {
                    continue;
                };
                let Some(progress) = progress.and_then(Value::as_f64) else {
                    tally.expect(false, &[message.line], || "`progress` is no number".to_owned());
                    continue;
                };
                match last.iter_mut().find(|(known, _)| *known == token) {
                    Some((_, before)) => {
                        tally.expect(progress > *before, &[message.line], || format!("{progress} after {before}"));
                        *before = progress;
                    }
                    None => last.push((token, progress)),
                }
            }
        },
    ),
    handshake(must(
        "mcp.logging.set-level",
        "server/utilities/logging",
        "`logging/setLevel` is answered with an empty result",
        |view, tally| {
            result_member(view, tally, "logging/setLevel", ("", super::Required), |result| {
                result.as_object().is_some_and(|members| members.keys().all(|key| key == "_meta"))
            });
        },
    )),
    handshake(should(
        "mcp.logging.bad-level",
        "server/utilities/logging",
        "an invalid level is answered with -32602",
        |view, tally| {
            let is_bad = |pair: &Pair<'_, '_>| pair.request.text_at("/params/level") == Some("loudest");
            let pairs: Vec<_> = view.pairs("logging/setLevel").into_iter().filter(is_bad).collect();
            let declared: Vec<_> =
                pairs.into_iter().filter(|_| super::declares(view, "/logging") == Some(true)).collect();
            refused_with(tally, declared, &[-32602]);
        },
    )),
    must("mcp.logging.level", "server/utilities/logging", "a log message has a level of the eight", |view, tally| {
        const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        for message in view.ours().filter(|message| message.method() == Some("notifications/message")) {
            let level = message.text_at("/params/level").unwrap_or_default();
            tally.expect(LEVELS.contains(&level), &[message.line], || format!("the level is {level:?}"));
        }
    }),
    must("mcp.logging.data", "server/utilities/logging", "a log message has `data`", |view, tally| {
        for message in view.ours().filter(|message| message.method() == Some("notifications/message")) {
            tally.expect(message.at("/params/data").is_some(), &[message.line], || "no `data`".to_owned());
        }
    }),
];
