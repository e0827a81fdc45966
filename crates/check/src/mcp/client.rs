//! The rules for clients.

use serde_json::Value;

use super::{HANDSHAKE, STATELESS, handshake, must, should};
use crate::json_rpc;
use crate::message::{Message, View, shown};
use crate::rule::Rule;

const MESSAGES: &str = "basic: Messages";
const PAGE: &str = "basic/lifecycle: Initialization";
const METADATA: &str = "basic: Per-request Metadata";

const META_VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
const META_CAPABILITIES: &str = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
const META_INFO: &str = "/params/_meta/io.modelcontextprotocol~1clientInfo/name";

/// The client's `initialize`.
fn initialize<'v, 'e>(view: &'v View<'e>) -> Option<&'v Message<'e>> {
    view.ours().find(|message| message.method() == Some("initialize"))
}

/// The server's answer to it.
fn opened<'v, 'e>(view: &'v View<'e>) -> Option<&'v Message<'e>> {
    let id = initialize(view)?.get("id")?;
    view.theirs().find(|message| message.is_response() && message.get("id") == Some(id))
}

/// Whether a request carries the metadata of the stateless revision.
fn is_stateless(message: &Message<'_>) -> bool {
    message.at(META_VERSION).is_some()
}

/// The requests of a client that speaks the stateless revision.
fn stateless<'v, 'e>(view: &'v View<'e>) -> Vec<&'v Message<'e>> {
    // Before it knows the server, a client of both eras may send either opening.
    if initialize(view).is_some() {
        return Vec::new();
    }
    view.ours().filter(|message| message.is_request()).collect()
}

macro_rules! initialize_member {
    ($id:literal, $section:expr, $about:literal, $pointer:literal, $fits:expr) => {
        must($id, $section, $about, |view, tally| {
            if let Some(message) = initialize(view) {
                let (value, fits): (_, fn(&Value) -> bool) = (message.at($pointer), $fits);
                tally.expect(value.is_some_and(fits), &[message.line], || format!("it is {}", shown(value)));
            }
        })
        .for_client()
    };
}

pub(crate) static RULES: &[Rule] = &[
    must("mcp.client.json", "basic/transports: stdio", "every line is JSON", json_rpc::lines_are_json).for_client(),
    must("mcp.client.jsonrpc", MESSAGES, "every message has `\"jsonrpc\":\"2.0\"`", json_rpc::has_version).for_client(),
    must("mcp.client.object", MESSAGES, "a message is an object; only 2025-03-26 has batches", |view, tally| {
        for message in view.ours() {
            let Some(value) = &message.value else { continue };
            let is_batch = value.is_array() && super::version_in_force(view) == Some("2025-03-26");
            tally.expect(value.is_object() || is_batch, &[message.line], || format!("it is {}", shown(Some(value))));
        }
    })
    .for_client(),
    must("mcp.client.request-id", MESSAGES, "the id of a request is a string or an integer", |view, tally| {
        for message in view.ours().filter(|message| message.is_request()) {
            let id = message.get("id");
            let fits = id.is_some_and(|id| id.is_string() || id.is_i64() || id.is_u64());
            tally.expect(fits, &[message.line], || format!("the id is {}", shown(id)));
        }
    })
    .for_client(),
    must("mcp.client.request-id-unique", MESSAGES, "no id is used for two requests of a session", |view, tally| {
        let mut seen: Vec<&Value> = Vec::new();
        for message in view.ours().filter(|message| message.is_request()) {
            let Some(id) = message.get("id") else { continue };
            tally.expect(!seen.contains(&id), &[message.line], || format!("the id {id} again"));
            seen.push(id);
        }
    })
    .for_client(),
    must("mcp.client.params", MESSAGES, "`params` is an object", |view, tally| {
        for message in view.ours().filter(|message| message.method().is_some()) {
            if let Some(params) = message.get("params") {
                tally.expect(params.is_object(), &[message.line], || format!("it is {}", shown(Some(params))));
            }
        }
    })
    .for_client(),
    must("mcp.client.response-id", MESSAGES, "a response has the id of a request", json_rpc::response_ids_are_known)
        .for_client(),
    must(
        "mcp.client.response-once",
        MESSAGES,
        "a request has at most one response",
        json_rpc::requests_are_answered_once,
    )
    .for_client(),
    must(
        "mcp.client.response-present",
        MESSAGES,
        "every request of the server has a response",
        json_rpc::requests_are_answered,
    )
    .for_client(),
    must(
        "mcp.client.opens",
        PAGE,
        "the first message is `initialize`, or a request with the metadata of 2026-07-28",
        |view, tally| {
            if let Some(first) = view.ours().next() {
                let opens = first.method() == Some("initialize") || is_stateless(first);
                tally.expect(opens, &[first.line], || format!("it is `{}`", first.method().unwrap_or("no request")));
            }
        },
    )
    .for_client(),
    initialize_member!(
        "mcp.client.version",
        PAGE,
        "`initialize` has `protocolVersion`, a string",
        "/params/protocolVersion",
        Value::is_string
    ),
    initialize_member!(
        "mcp.client.capabilities",
        PAGE,
        "`initialize` has `capabilities`, an object",
        "/params/capabilities",
        Value::is_object
    ),
    initialize_member!(
        "mcp.client.name",
        "schema: Implementation",
        "`initialize` has `clientInfo.name`, a string",
        "/params/clientInfo/name",
        Value::is_string
    ),
    initialize_member!(
        "mcp.client.own-version",
        "schema: Implementation",
        "`initialize` has `clientInfo.version`, a string",
        "/params/clientInfo/version",
        Value::is_string
    ),
    must(
        "mcp.client.not-stateless",
        "basic/lifecycle: Version Negotiation",
        "`initialize` never asks for 2026-07-28, which has no handshake",
        |view, tally| {
            if let Some(message) = initialize(view) {
                let version = message.text_at("/params/protocolVersion").unwrap_or_default();
                tally.expect(version < STATELESS, &[message.line], || format!("it asks for {version}"));
            }
        },
    )
    .for_client(),
    must(
        "mcp.client.initialized",
        PAGE,
        "`notifications/initialized` follows the result of `initialize`",
        |view, tally| {
            let Some(opened) = opened(view) else { return };
            let version = opened.text_at("/result/protocolVersion").unwrap_or_default();
            if HANDSHAKE.contains(&version) && view.exchange.is_complete {
                let initialized = view.ours().find(|message| super::is_initialized(message));
                let follows = initialized.is_some_and(|message| message.line > opened.line);
                tally.expect(follows, &[opened.line], || "it does not come".to_owned());
            }
        },
    )
    .for_client(),
    must("mcp.client.initialized-once", PAGE, "`notifications/initialized` is sent once", |view, tally| {
        let sent: Vec<_> =
            view.ours().filter(|message| super::is_initialized(message)).map(|message| message.line).collect();
        if !sent.is_empty() {
            tally.expect(sent.len() == 1, &sent, || format!("{} times", sent.len()));
        }
    })
    .for_client(),
    should(
        "mcp.client.waits",
        PAGE,
        "the client sends no request but `ping` before the result of `initialize`",
        |view, tally| {
            let (Some(initialize), Some(opened)) = (initialize(view), opened(view)) else { return };
            for message in view.ours().filter(|message| message.is_request() && message.line > initialize.line) {
                if message.line < opened.line {
                    let method = message.method().unwrap_or_default();
                    tally.expect(method == "ping", &[message.line], || format!("it sends `{method}`"));
                }
            }
            tally.expect(true, &[], String::new);
        },
    )
    .for_client(),
    should(
        "mcp.client.unknown-version",
        "basic/lifecycle: Version Negotiation",
        "the client goes no further in a version that it does not have",
        |view, tally| {
            let Some(opened) = opened(view) else { return };
            if opened.text_at("/result/protocolVersion") == Some(super::opening::UNKNOWN_VERSION) {
                let more =
                    view.ours().find(|message| message.line > opened.line && message.method() != Some("initialize"));
                tally.expect(more.is_none(), &more.map(|message| message.line).into_iter().collect::<Vec<_>>(), || {
                    format!("it sends `{}`", more.and_then(Message::method).unwrap_or_default())
                });
            }
        },
    )
    .for_client(),
    handshake(must(
        "mcp.client.ping",
        "basic/utilities/ping",
        "`ping` of the server is answered with an empty result",
        |view, tally| {
            for pair in view.pairs("ping") {
                let result = pair.result();
                let is_empty = result.and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
                tally.expect(is_empty, &pair.lines(), || format!("the result is {}", shown(result)));
            }
        },
    ))
    .for_client(),
    must("mcp.client.unknown-method", MESSAGES, "an unknown method is answered with -32601", |view, tally| {
        super::refused_with(tally, view.pairs(super::base::UNKNOWN_METHOD), &[-32601]);
    })
    .for_client(),
    must(
        "mcp.client.undeclared-sampling",
        "client/sampling: Capabilities",
        "`sampling/createMessage` without the capability is refused",
        |view, tally| {
            undeclared(view, tally, "sampling/createMessage", "sampling");
        },
    )
    .for_client(),
    must(
        "mcp.client.undeclared-elicitation",
        "client/elicitation: Capabilities",
        "`elicitation/create` without the capability is refused",
        |view, tally| {
            undeclared(view, tally, "elicitation/create", "elicitation");
        },
    )
    .since("2025-06-18")
    .for_client(),
    must(
        "mcp.client.undeclared-roots",
        "client/roots: Capabilities",
        "`roots/list` without the capability is refused",
        |view, tally| {
            undeclared(view, tally, "roots/list", "roots");
        },
    )
    .for_client(),
    must(
        "mcp.client.roots",
        "client/roots: Root",
        "`roots/list` returns `roots`, each with a `file://` URI",
        |view, tally| {
            for (pair, result) in view.results("roots/list") {
                let roots = result.get("roots").and_then(Value::as_array);
                let is_root = |root: &Value| {
                    root.get("uri").and_then(Value::as_str).is_some_and(|uri| uri.starts_with("file://"))
                };
                tally.expect(roots.is_some_and(|roots| roots.iter().all(is_root)), &pair.lines(), || {
                    format!("the result is {}", shown(Some(result)))
                });
            }
        },
    )
    .for_client(),
    must(
        "mcp.client.gate",
        "basic/lifecycle: Operation",
        "the client uses only what the server declared",
        |view, tally| {
            const NEEDS: [(&str, &str); 10] = [
                ("tools/list", "/tools"),
                ("tools/call", "/tools"),
                ("resources/list", "/resources"),
                ("resources/templates/list", "/resources"),
                ("resources/read", "/resources"),
                ("resources/subscribe", "/resources/subscribe"),
                ("prompts/list", "/prompts"),
                ("prompts/get", "/prompts"),
                ("completion/complete", "/completions"),
                ("logging/setLevel", "/logging"),
            ];
            for message in view.ours().filter(|message| message.is_request()) {
                let method = message.method().unwrap_or_default();
                let Some((_, capability)) = NEEDS.iter().find(|(name, _)| *name == method) else { continue };
                // Completion had no capability in the first revision.
                if super::version_in_force(view) == Some("2024-11-05") && method == "completion/complete" {
                    continue;
                }
                if let Some(declares) = super::declares(view, capability) {
                    tally.expect(declares, &[message.line], || format!("`{method}` was not declared"));
                }
            }
        },
    )
    .for_client(),
    must("mcp.client.cursor", "server/utilities/pagination", "a cursor is one that the server gave", |view, tally| {
        for message in view.ours().filter(|message| message.is_request()) {
            let method = message.method().unwrap_or_default();
            let Some(cursor) = message.text_at("/params/cursor").filter(|_| method.ends_with("/list")) else {
                continue;
            };
            let is_given = view.theirs().any(|given| given.text_at("/result/nextCursor") == Some(cursor));
            tally.expect(is_given, &[message.line], || format!("the cursor is {cursor:?}"));
        }
    })
    .for_client(),
    must(
        "mcp.client.cancels-own",
        "basic/utilities/cancellation",
        "only own requests are cancelled, and never `initialize`",
        |view, tally| {
            for message in view.ours().filter(|message| message.method() == Some("notifications/cancelled")) {
                let id = message.at("/params/requestId");
                let request = view
                    .ours()
                    .find(|request| request.is_request() && request.get("id") == id && request.line < message.line);
                let may_cancel = request.is_some_and(|request| request.method() != Some("initialize"));
                tally.expect(may_cancel, &[message.line], || format!("it cancels {}", shown(id)));
            }
        },
    )
    .for_client(),
    must(
        "mcp.client.progress-token",
        "basic/utilities/progress",
        "a progress token is a string or an integer",
        |view, tally| {
            for message in view.ours().filter(|message| message.is_request()) {
                if let Some(token) = message.at("/params/_meta/progressToken") {
                    let fits = token.is_string() || token.is_i64() || token.is_u64();
                    tally.expect(fits, &[message.line], || format!("it is {token}"));
                }
            }
        },
    )
    .for_client(),
    must("mcp.client.meta-version", METADATA, "every stateless request names the version", |view, tally| {
        for message in stateless(view) {
            let version = message.at(META_VERSION);
            tally
                .expect(version.is_some_and(Value::is_string), &[message.line], || format!("it is {}", shown(version)));
        }
    })
    .since(STATELESS)
    .for_client(),
    must(
        "mcp.client.meta-capabilities",
        METADATA,
        "every stateless request declares the client's capabilities",
        |view, tally| {
            for message in stateless(view) {
                let declared = message.at(META_CAPABILITIES);
                tally.expect(declared.is_some_and(Value::is_object), &[message.line], || {
                    format!("they are {}", shown(declared))
                });
            }
        },
    )
    .since(STATELESS)
    .for_client(),
    should("mcp.client.meta-info", METADATA, "every stateless request names the client", |view, tally| {
        for message in stateless(view) {
            let name = message.at(META_INFO);
            tally
                .expect(name.is_some_and(Value::is_string), &[message.line], || format!("the name is {}", shown(name)));
        }
    })
    .since(STATELESS)
    .for_client(),
    must(
        "mcp.client.stateless-notifications",
        MESSAGES,
        "a stateless client sends no notification but `notifications/cancelled`",
        |view, tally| {
            if initialize(view).is_none() {
                for message in view.ours().filter(|message| message.is_notification()) {
                    let method = message.method().unwrap_or_default();
                    tally.expect(method == "notifications/cancelled", &[message.line], || {
                        format!("it sends `{method}`")
                    });
                }
            }
        },
    )
    .since(STATELESS)
    .for_client(),
];

/// A request whose capability the client did not declare is refused.
fn undeclared(view: &View<'_>, tally: &mut crate::tally::Tally, method: &str, capability: &str) {
    if !super::client_declares(view, capability) {
        super::refused_with(tally, view.pairs(method), &[-32601, -32602]);
    }
}
