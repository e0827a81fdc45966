//! A2E 1.0: rules for hosts and agents.
//!
//! MUST rules are those of the published Handshake page, and what the reference peers rely on. Where only the reference
//! or the documentation asks for something, the rule is a SHOULD. Known defects of the reference host: it emits no `a2e`
//! member, executes requests before the handshake, never refuses a version and grants a session without capabilities.

use serde_json::Value;

use crate::message::{Message, View, brief, shown};
use crate::rule::{Level, Rule};
use crate::tally::Tally;

/// A version and names that do not exist. Scripts use them.
pub(crate) const UNKNOWN_VERSION: &str = "99.0";
pub(crate) const UNKNOWN_CAPABILITY: &str = "gladhand_no_such_capability";
pub(crate) const UNKNOWN_TYPE: &str = "gladhand/no_such_type/req";
pub(crate) const UNKNOWN_TOOL: &str = "gladhand_no_such_tool";

/// The closed set of capability names.
const CAPABILITIES: [&str; 12] = [
    "skill",
    "tools",
    "toolkits",
    "env",
    "proc",
    "memory",
    "learning",
    "chains",
    "multi_agent",
    "planning",
    "mcp",
    "test",
];

const ENVELOPE: &str = "Handshake: Message Envelope";
const HANDSHAKE: &str = "Handshake: Response";
const REJECTION: &str = "Handshake: Rejection";
const ERRORS: &str = "Errors";
const TOOLS: &str = "Capability tools";

const fn must(id: &'static str, section: &'static str, about: &'static str, judge: fn(&View<'_>, &mut Tally)) -> Rule {
    Rule::new("a2e", Level::Must, id, section, about, judge)
}

const fn should(
    id: &'static str,
    section: &'static str,
    about: &'static str,
    judge: fn(&View<'_>, &mut Tally),
) -> Rule {
    Rule::new("a2e", Level::Should, id, section, about, judge)
}

/// A member of every message of the judged side.
fn envelope(view: &View<'_>, tally: &mut Tally, name: &str, fits: fn(&Value) -> bool) {
    for message in view.ours().filter(|message| message.value.as_ref().is_some_and(Value::is_object)) {
        let value = message.get(name);
        tally.expect(value.is_some_and(fits), &[message.line], || format!("`{name}` is {}", shown(value)));
    }
}

/// Each answered handshake: the request and the response.
fn handshakes<'v, 'e>(view: &'v View<'e>) -> Vec<(&'v Message<'e>, &'v Message<'e>)> {
    let requests = view.messages.iter().filter(|message| message.kind() == Some("handshake/req"));
    let answer = |request: &'v Message<'e>| {
        let id = request.get("id");
        view.messages.iter().find(|message| message.kind() == Some("handshake/resp") && message.get("req_id") == id)
    };
    requests.filter_map(|request| Some((request, answer(request)?))).collect()
}

/// A member of each successful `handshake/resp`.
fn handshake_member(view: &View<'_>, tally: &mut Tally, name: &str, fits: fn(&Value) -> bool) {
    for (request, answer) in handshakes(view) {
        let value = answer.get(name);
        tally.expect(value.is_some_and(fits), &[request.line, answer.line], || format!("`{name}` is {}", shown(value)));
    }
}

/// Each entry of `accepted_caps`.
fn granted<'v>(view: &'v View<'_>) -> Vec<([usize; 2], &'v Value)> {
    let entries = |(request, answer): (&'v Message<'_>, &'v Message<'_>)| {
        let entries = answer.get("accepted_caps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let lines = [request.line, answer.line];
        entries.iter().map(move |entry| (lines, entry))
    };
    handshakes(view).into_iter().flat_map(entries).collect()
}

/// Whether a handshake succeeded before a line, and what it granted.
fn session_before<'v>(view: &'v View<'_>, line: usize) -> Option<Vec<&'v str>> {
    let (_, answer) = handshakes(view).into_iter().rfind(|(_, answer)| answer.line < line)?;
    if answer.get("ok") == Some(&Value::Bool(false)) {
        return None;
    }
    let entries = answer.get("accepted_caps").and_then(Value::as_array)?;
    let enabled = entries.iter().filter(|entry| entry.get("enabled") != Some(&Value::Bool(false)));
    Some(enabled.filter_map(|entry| entry.get("capability")?.as_str()).collect())
}

/// The capability that a request needs.
fn needed(kind: &str) -> Option<&'static str> {
    let (namespace, _) = kind.split_once('/')?;
    Some(match namespace {
        "tool" => "tools",
        "toolkit" => "toolkits",
        "skill" => "skill",
        "env" => "env",
        "proc" => "proc",
        "memory" => "memory",
        "learn" => "learning",
        "chain" => "chains",
        "mcp" => "mcp",
        "planning" => "planning",
        "multi_agent" => "multi_agent",
        _ => return None,
    })
}

/// The answer to an odd line: an error, by its place in the exchange, with one of these codes.
fn next_error(view: &View<'_>, tally: &mut Tally, is_odd: fn(&Message<'_>) -> bool, codes: &[&str]) {
    for odd in view.theirs().filter(|message| is_odd(message)) {
        let next = view.theirs().find(|message| message.line > odd.line && message.kind() == Some("ping"));
        let pong = next.and_then(|ping| view.finals(ping).first().map(|pong| pong.line));
        let until = pong.unwrap_or(usize::MAX);
        let mut errors = view.ours().filter(|message| message.line > odd.line && message.line < until);
        let error = errors.find(|message| message.kind() == Some("error"));
        let code = error.and_then(|error| error.text_at("/code"));
        let lines: Vec<_> = [Some(odd.line), error.map(|error| error.line)].into_iter().flatten().collect();
        if view.exchange.is_complete {
            tally.expect(code.is_some_and(|code| codes.contains(&code)), &lines, || match code {
                Some(code) => format!("the code is {code}"),
                None => "no error".to_owned(),
            });
        }
    }
}

/// Requests of a kind are answered by an error with one of these codes.
fn refused(view: &View<'_>, tally: &mut Tally, requests: Vec<&Message<'_>>, codes: &[&str]) {
    for request in requests {
        let Some(answer) = view.finals(request).first().copied() else { continue };
        let code = answer.text_at("/code");
        let is_refused = answer.kind() == Some("error") && code.is_some_and(|code| codes.contains(&code));
        tally.expect(is_refused, &[request.line, answer.line], || match code {
            Some(code) => format!("the code is {code}"),
            None => format!("it is answered with `{}`", answer.kind().unwrap_or_default()),
        });
    }
}

/// Each tool in the answers to `tool/list/req`.
fn tools<'v>(view: &'v View<'_>) -> Vec<([usize; 2], &'v Value)> {
    let requests = view.theirs().filter(|message| message.kind() == Some("tool/list/req"));
    let entries = |request: &'v Message<'_>| {
        let answer = view.finals(request).into_iter().find(|answer| answer.kind() == Some("tool/list/resp"));
        let tools = answer.and_then(|answer| Some((answer.line, answer.get("tools")?.as_array()?)));
        tools.into_iter().flat_map(move |(line, tools)| tools.iter().map(move |tool| ([request.line, line], tool)))
    };
    requests.flat_map(entries).collect()
}

fn tool_member(view: &View<'_>, tally: &mut Tally, name: &str, fits: fn(&Value) -> bool) {
    for (lines, tool) in tools(view) {
        let value = tool.get(name);
        tally.expect(value.is_some_and(fits), &lines, || format!("`{name}` is {}", shown(value)));
    }
}

/// A request of the agent that wants one final answer.
fn wants_answer(message: &Message<'_>) -> bool {
    let kind = message.kind().unwrap_or_default();
    let id = message.get("id").and_then(Value::as_str).unwrap_or_default();
    let is_request =
        kind == "ping" || kind.ends_with("/req") || kind.starts_with("planning/") || kind.starts_with("multi_agent/");
    is_request && !id.is_empty()
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

pub(crate) static RULES: &[Rule] = &[
    must("a2e.message.json", "Transport: stdio", "every line on stdout is one JSON object", |view, tally| {
        for message in view.ours() {
            let is_object = message.value.as_ref().is_some_and(Value::is_object);
            tally.expect(is_object, &[message.line], || format!("it is {}", brief(message.text)));
        }
    }),
    must("a2e.message.a2e", ENVELOPE, "every message has `a2e`, the version \"1.0\"", |view, tally| {
        envelope(view, tally, "a2e", |value| value == "1.0");
    }),
    should(
        "a2e.message.version",
        ENVELOPE,
        "every message has `version`, as the reference spells it",
        |view, tally| {
            envelope(view, tally, "version", |value| value == "1.0");
        },
    ),
    must("a2e.message.type", ENVELOPE, "every message has `type`, a string", |view, tally| {
        envelope(view, tally, "type", is_text);
    }),
    must("a2e.message.id", ENVELOPE, "every message has `id`, a string", |view, tally| {
        envelope(view, tally, "id", Value::is_string);
    }),
    must("a2e.message.ts", ENVELOPE, "every message has `ts`, a number", |view, tally| {
        envelope(view, tally, "ts", Value::is_number);
    }),
    should("a2e.message.own-id", ENVELOPE, "a message has an id of its own", |view, tally| {
        let mut seen: Vec<&str> = Vec::new();
        for message in view.ours() {
            let Some(id) = message.text_at("/id") else { continue };
            tally.expect(!seen.contains(&id), &[message.line], || format!("the id {} again", brief(id)));
            seen.push(id);
        }
    }),
    must(
        "a2e.response.req-id",
        "Message Patterns",
        "an answer has the id of its request as `req_id`",
        |view, tally| {
            for message in view.ours().filter(|message| message.get("req_id").is_some()) {
                let id = message.get("req_id");
                // An error about a message that could not be read has an empty one.
                let is_empty = id.and_then(Value::as_str) == Some("") && message.kind() == Some("error");
                let is_known = view.theirs().any(|request| request.line < message.line && request.get("id") == id);
                tally.expect(is_empty || is_known, &[message.line], || format!("no request has the id {}", shown(id)));
            }
        },
    ),
    must("a2e.response.one", "Message Patterns", "a request has exactly one final answer", |view, tally| {
        for request in view.theirs().filter(|message| wants_answer(message)) {
            let finals = view.finals(request);
            if finals.is_empty() && !view.exchange.is_complete {
                continue;
            }
            let lines: Vec<_> = [request.line].into_iter().chain(finals.iter().map(|answer| answer.line)).collect();
            tally.expect(finals.len() == 1, &lines, || {
                format!("{} answers to `{}`", finals.len(), request.kind().unwrap_or_default())
            });
        }
    }),
    must("a2e.handshake.response", HANDSHAKE, "a valid handshake is answered with `handshake/resp`", |view, tally| {
        for request in view.theirs().filter(|message| message.kind() == Some("handshake/req")) {
            if let Some(answer) = view.finals(request).first() {
                let is_response = answer.kind() == Some("handshake/resp");
                tally.expect(is_response, &[request.line, answer.line], || shown(answer.get("type")));
            }
        }
    }),
    must("a2e.handshake.session-id", HANDSHAKE, "`session_id` is a string", |view, tally| {
        handshake_member(view, tally, "session_id", Value::is_string);
    }),
    should(
        "a2e.handshake.new-session",
        HANDSHAKE,
        "each successful handshake has a new `session_id`",
        |view, tally| {
            let mut seen: Vec<&str> = Vec::new();
            for (request, answer) in handshakes(view) {
                let id = answer.text_at("/session_id").unwrap_or_default();
                if answer.get("ok") != Some(&Value::Bool(false)) {
                    tally.expect(!seen.contains(&id) && !id.is_empty(), &[request.line, answer.line], || {
                        format!("{id:?}")
                    });
                    seen.push(id);
                }
            }
        },
    ),
    must("a2e.handshake.accepted-caps", HANDSHAKE, "`accepted_caps` is an array", |view, tally| {
        handshake_member(view, tally, "accepted_caps", Value::is_array);
    }),
    must(
        "a2e.handshake.capability",
        "Handshake: Capability Negotiation",
        "each entry names a capability of the closed set",
        |view, tally| {
            for (lines, entry) in granted(view) {
                let name = entry.get("capability").and_then(Value::as_str).unwrap_or_default();
                tally.expect(CAPABILITIES.contains(&name), &lines, || format!("{name:?}"));
            }
        },
    ),
    must(
        "a2e.handshake.requested",
        "Handshake: Capability Negotiation",
        "only requested capabilities are granted",
        |view, tally| {
            for (request, answer) in handshakes(view) {
                let requested =
                    request.get("agent_caps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                for entry in answer.get("accepted_caps").and_then(Value::as_array).into_iter().flatten() {
                    let name = entry.get("capability").unwrap_or(&Value::Null);
                    tally.expect(requested.contains(name), &[request.line, answer.line], || {
                        format!("{name} was not requested")
                    });
                }
            }
        },
    ),
    should("a2e.handshake.once", "Handshake: Capability Negotiation", "a capability is listed once", |view, tally| {
        for (request, answer) in handshakes(view) {
            let mut seen: Vec<&Value> = Vec::new();
            for entry in answer.get("accepted_caps").and_then(Value::as_array).into_iter().flatten() {
                let name = entry.get("capability").unwrap_or(&Value::Null);
                tally.expect(!seen.contains(&name), &[request.line, answer.line], || format!("{name} again"));
                seen.push(name);
            }
        }
    }),
    must("a2e.handshake.enabled", HANDSHAKE, "`enabled` of a capability is a boolean", |view, tally| {
        for (lines, entry) in granted(view) {
            if let Some(enabled) = entry.get("enabled") {
                tally.expect(enabled.is_boolean(), &lines, || format!("it is {enabled}"));
            }
        }
    }),
    must("a2e.handshake.max-parallel", HANDSHAKE, "`max_parallel` is an integer of at least 1", |view, tally| {
        handshake_member(view, tally, "max_parallel", |value| value.as_u64().is_some_and(|count| count >= 1));
    }),
    must("a2e.handshake.ok", HANDSHAKE, "`ok` is a boolean", |view, tally| {
        handshake_member(view, tally, "ok", Value::is_boolean);
    }),
    must("a2e.handshake.reason", HANDSHAKE, "`reason` is a string if it is there, never null", |view, tally| {
        for (request, answer) in handshakes(view) {
            if let Some(reason) = answer.get("reason") {
                tally.expect(reason.is_string(), &[request.line, answer.line], || format!("it is {reason}"));
            }
        }
    }),
    must("a2e.reject.version", REJECTION, "another major version is refused with `version_mismatch`", |view, tally| {
        for (request, answer) in handshakes(view) {
            if request.text_at("/a2e") == Some(UNKNOWN_VERSION) {
                let reason = answer.text_at("/reason").unwrap_or_default();
                let is_refused = answer.get("ok") == Some(&Value::Bool(false));
                let fits = is_refused && matches!(reason, "version_mismatch" | "server_error");
                tally.expect(fits, &[request.line, answer.line], || format!("`reason` is {reason:?}"));
            }
        }
    }),
    must(
        "a2e.reject.no-caps",
        REJECTION,
        "a handshake without an available capability is refused with `no_caps`",
        |view, tally| {
            for (request, answer) in handshakes(view) {
                let requested =
                    request.get("agent_caps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let is_hopeless = requested.iter().all(|name| name == UNKNOWN_CAPABILITY);
                if is_hopeless && request.text_at("/a2e") != Some(UNKNOWN_VERSION) {
                    let reason = answer.text_at("/reason").unwrap_or_default();
                    let is_refused = answer.get("ok") == Some(&Value::Bool(false));
                    let fits = is_refused && matches!(reason, "no_caps" | "auth_failed" | "server_error");
                    tally.expect(fits, &[request.line, answer.line], || format!("`ok` is {}", shown(answer.get("ok"))));
                }
            }
        },
    ),
    must("a2e.reject.reason", REJECTION, "a refusal has one of the four reasons", |view, tally| {
        for (request, answer) in handshakes(view) {
            if answer.get("ok") == Some(&Value::Bool(false)) {
                let reason = answer.text_at("/reason").unwrap_or_default();
                let fits = matches!(reason, "version_mismatch" | "auth_failed" | "no_caps" | "server_error");
                tally.expect(fits, &[request.line, answer.line], || format!("`reason` is {reason:?}"));
            }
        }
    }),
    should("a2e.reject.nothing-granted", REJECTION, "a refusal grants no capability", |view, tally| {
        for (request, answer) in handshakes(view) {
            if answer.get("ok") == Some(&Value::Bool(false)) {
                let granted = answer.get("accepted_caps").and_then(Value::as_array).map_or(0, Vec::len);
                tally.expect(granted == 0, &[request.line, answer.line], || format!("{granted} entries"));
            }
        }
    }),
    must(
        "a2e.gate.handshake-first",
        "Handshake: First Exchange",
        "a request before the handshake is refused with `unauthorized`",
        |view, tally| {
            let early = |message: &&Message<'_>| {
                message.kind().and_then(needed).is_some()
                    && wants_answer(message)
                    && session_before(view, message.line).is_none()
            };
            refused(view, tally, view.theirs().filter(early).collect(), &["unauthorized"]);
        },
    ),
    should(
        "a2e.gate.capability",
        "Handshake: Capability Negotiation",
        "a request without its capability is refused with `capability_missing`",
        |view, tally| {
            let closed = |message: &&Message<'_>| {
                let needed = message.kind().and_then(needed);
                let granted = session_before(view, message.line);
                wants_answer(message) && needed.zip(granted).is_some_and(|(needed, granted)| !granted.contains(&needed))
            };
            refused(view, tally, view.theirs().filter(closed).collect(), &["capability_missing", "parse_error"]);
        },
    ),
    must(
        "a2e.ping.pong",
        "Core Messages: ping",
        "`ping` is answered with `pong`, also before the handshake",
        |view, tally| {
            for ping in view.theirs().filter(|message| message.kind() == Some("ping") && wants_answer(message)) {
                if let Some(answer) = view.finals(ping).first() {
                    tally
                        .expect(answer.kind() == Some("pong"), &[ping.line, answer.line], || shown(answer.get("type")));
                } else if view.exchange.is_complete {
                    tally.expect(false, &[ping.line], || "no answer".to_owned());
                }
            }
        },
    ),
    should(
        "a2e.ping.uptime",
        "Core Messages: ping",
        "`uptime_seconds` of `pong` is a number of at least 0",
        |view, tally| {
            for pong in view.ours().filter(|message| message.kind() == Some("pong")) {
                let uptime = pong.get("uptime_seconds");
                tally.expect(
                    uptime.and_then(Value::as_f64).is_some_and(|seconds| seconds >= 0.0),
                    &[pong.line],
                    || shown(uptime),
                );
            }
        },
    ),
    must("a2e.error.code", ERRORS, "`code` of an error is a string", |view, tally| {
        for error in view.ours().filter(|message| message.kind() == Some("error")) {
            tally.expect(error.get("code").is_some_and(is_text), &[error.line], || shown(error.get("code")));
        }
    }),
    must("a2e.error.message", ERRORS, "`message` of an error is a string", |view, tally| {
        for error in view.ours().filter(|message| message.kind() == Some("error")) {
            let text = error.get("message");
            tally.expect(text.is_none_or(Value::is_string), &[error.line], || shown(text));
        }
    }),
    must("a2e.error.detail", ERRORS, "`detail` is an object and `retryable` a boolean", |view, tally| {
        for error in view.ours().filter(|message| message.kind() == Some("error")) {
            let fits = error.get("detail").is_none_or(Value::is_object)
                && error.get("retryable").is_none_or(Value::is_boolean);
            tally.expect(fits, &[error.line], || shown(error.get("detail")));
        }
    }),
    must("a2e.error.json", ERRORS, "a line that is no JSON is answered with `parse_error`", |view, tally| {
        next_error(view, tally, |message| message.value.is_none(), &["parse_error"]);
    }),
    should("a2e.error.no-object", ERRORS, "JSON that is no object is answered with `parse_error`", |view, tally| {
        next_error(
            view,
            tally,
            |message| message.value.as_ref().is_some_and(|value| !value.is_object()),
            &["parse_error"],
        );
    }),
    should(
        "a2e.error.number-id",
        ERRORS,
        "a message whose id is a number is answered with `parse_error`",
        |view, tally| {
            next_error(view, tally, |message| message.get("id").is_some_and(Value::is_number), &["parse_error"]);
        },
    ),
    must("a2e.error.unknown-type", ERRORS, "an unknown type is answered with `parse_error`", |view, tally| {
        let unknown = view.theirs().filter(|message| message.kind() == Some(UNKNOWN_TYPE));
        refused(view, tally, unknown.collect(), &["parse_error", "unauthorized"]);
    }),
    should(
        "a2e.error.wrong-direction",
        ERRORS,
        "a message that only hosts send is answered with `invalid_message`",
        |view, tally| {
            next_error(view, tally, |message| message.kind() == Some("pong"), &["invalid_message"]);
        },
    ),
    must("a2e.error.survives", ERRORS, "a malformed message does not end the session", |view, tally| {
        let Some(odd) = view.theirs().find(|message| message.value.is_none()) else { return };
        for ping in view
            .theirs()
            .filter(|message| message.line > odd.line && message.kind() == Some("ping") && wants_answer(message))
        {
            let is_answered = !view.finals(ping).is_empty();
            tally.expect(is_answered, &[odd.line, ping.line], || "no answer after it".to_owned());
        }
    }),
    must("a2e.tools.list", TOOLS, "`tool/list/resp` has `tools`, an array", |view, tally| {
        for answer in view.ours().filter(|message| message.kind() == Some("tool/list/resp")) {
            tally.expect(answer.get("tools").is_some_and(Value::is_array), &[answer.line], || {
                shown(answer.get("tools"))
            });
        }
    }),
    must("a2e.tools.name", TOOLS, "a tool has `name`, a string", |view, tally| {
        tool_member(view, tally, "name", is_text)
    }),
    must("a2e.tools.description", TOOLS, "a tool has `description`, a string", |view, tally| {
        tool_member(view, tally, "description", Value::is_string);
    }),
    must("a2e.tools.parameters", TOOLS, "a parameter of a tool has `name`, and `type` of the six", |view, tally| {
        const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "object", "array"];
        for (lines, tool) in tools(view) {
            for parameter in tool.get("input_parameters").and_then(Value::as_array).into_iter().flatten() {
                let kind = parameter.get("type").and_then(Value::as_str).unwrap_or_default();
                let fits = parameter.get("name").is_some_and(is_text) && TYPES.contains(&kind);
                tally.expect(fits, &lines, || shown(Some(parameter)));
            }
        }
    }),
    should("a2e.tools.unknown", TOOLS, "an unknown tool is answered with `unknown_tool`", |view, tally| {
        let is_unknown = |message: &&Message<'_>| message.text_at("/tool_name") == Some(UNKNOWN_TOOL);
        let has_session = |message: &&Message<'_>| {
            session_before(view, message.line).is_some_and(|granted| granted.contains(&"tools"))
        };
        refused(view, tally, view.theirs().filter(is_unknown).filter(has_session).collect(), &["unknown_tool"]);
    }),
    must(
        "a2e.tools.result",
        TOOLS,
        "`data` of `tool/call/resp` has `success`, `tool_name` and an integer `duration_ms`",
        |view, tally| {
            for answer in view.ours().filter(|message| message.kind() == Some("tool/call/resp")) {
                let fits = answer.at("/data/success").is_some_and(Value::is_boolean)
                    && answer.at("/data/tool_name").is_some_and(Value::is_string)
                    && answer.at("/data/duration_ms").is_some_and(|value| value.is_i64() || value.is_u64());
                tally.expect(fits, &[answer.line], || shown(answer.get("data")));
            }
        },
    ),
    must(
        "a2e.agent.handshake-first",
        "Handshake: First Exchange",
        "the first message of the agent is `handshake/req`, or `ping`",
        |view, tally| {
            if let Some(first) = view.ours().next() {
                let fits = matches!(first.kind(), Some("handshake/req" | "ping"));
                tally.expect(fits, &[first.line], || shown(first.get("type")));
            }
        },
    )
    .for_client(),
    must("a2e.agent.envelope", ENVELOPE, "every message has `type`, `id` and `ts`", |view, tally| {
        for message in view.ours() {
            let fits = message.get("type").is_some_and(is_text)
                && message.get("id").is_some_and(Value::is_string)
                && message.get("ts").is_some_and(Value::is_number);
            tally.expect(fits, &[message.line], || brief(message.text));
        }
    })
    .for_client(),
    must("a2e.agent.version", ENVELOPE, "every message names the version in `a2e` or `version`", |view, tally| {
        for message in view.ours() {
            let fits = message.get("a2e").or_else(|| message.get("version")).is_some_and(Value::is_string);
            tally.expect(fits, &[message.line], || brief(message.text));
        }
    })
    .for_client(),
    must(
        "a2e.agent.handshake",
        "Handshake: Request",
        "the handshake has `agent_id`, `agent_caps` and `auth_token`",
        |view, tally| {
            for message in view.ours().filter(|message| message.kind() == Some("handshake/req")) {
                let fits = message.get("agent_id").is_some_and(Value::is_string)
                    && message.get("agent_caps").is_some_and(Value::is_array)
                    && message.get("auth_token").is_some_and(Value::is_string);
                tally.expect(fits, &[message.line], || "a member is missing, or of another type".to_owned());
            }
        },
    )
    .for_client(),
    must("a2e.agent.id-unique", ENVELOPE, "every message has an id of its own", |view, tally| {
        let mut seen: Vec<&str> = Vec::new();
        for message in view.ours() {
            let Some(id) = message.text_at("/id") else { continue };
            tally.expect(!seen.contains(&id), &[message.line], || format!("the id {} again", brief(id)));
            seen.push(id);
        }
    })
    .for_client(),
    must(
        "a2e.agent.granted",
        "Handshake: Capability Negotiation",
        "the agent uses only granted capabilities",
        |view, tally| {
            for message in view.ours() {
                let Some(needed) = message.kind().and_then(needed) else { continue };
                let granted = session_before(view, message.line);
                tally.expect(granted.is_some_and(|granted| granted.contains(&needed)), &[message.line], || {
                    format!("`{needed}` was not granted")
                });
            }
        },
    )
    .for_client(),
];
