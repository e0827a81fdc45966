//! The stateless revision: discovery, results, metadata of each request, and subscriptions.

use serde_json::Value;

use super::Presence::Required;
use super::{STATELESS, is_object, must, refused_with, result_member, should};
use crate::message::{Message, Pair, View, shown};
use crate::rule::Rule;
use crate::tally::Tally;

const DISCOVERY: &str = "basic: Discovery";
const METADATA: &str = "basic: Per-request Metadata";
const RESULT: &str = "basic: Results";
const CACHING: &str = "basic/utilities/caching";
const HTTP: &str = "basic/transports: Streamable HTTP";
const LISTEN: &str = "basic/utilities/subscriptions";

const META_VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
const META_CAPABILITIES: &str = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
const META_SUBSCRIPTION: &str = "/params/_meta/io.modelcontextprotocol~1subscriptionId";

/// The results that a client may cache.
const CACHEABLE: [&str; 6] =
    ["server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list", "resources/read"];

/// The methods that the stateless revision does not have any more.
pub(crate) const REMOVED: [&str; 3] = ["ping", "logging/setLevel", "resources/subscribe"];

/// A request with all metadata of this revision.
pub(crate) fn is_modern(message: &Message<'_>) -> bool {
    message.text_at(META_VERSION) == Some(STATELESS) && message.at(META_CAPABILITIES).is_some()
}

/// Every answered request with metadata.
fn modern<'v, 'e>(view: &'v View<'e>) -> Vec<Pair<'v, 'e>> {
    let requests = view.theirs().filter(|message| message.is_request() && is_modern(message));
    requests.filter_map(|request| Some(Pair { request, answer: view.response_to(request)? })).collect()
}

/// Every complete result that may be cached.
fn cacheable<'v>(view: &'v View<'_>) -> Vec<(Vec<usize>, &'v Value)> {
    let of = |method: &&str| view.results(method);
    let all = CACHEABLE.iter().flat_map(of);
    let complete = all.filter(|(_, result)| result.get("resultType").and_then(Value::as_str) == Some("complete"));
    complete.map(|(pair, result)| (pair.lines().to_vec(), result)).collect()
}

fn status(tally: &mut Tally, pairs: Vec<Pair<'_, '_>>, expected: u16) {
    for pair in pairs {
        if let Some(status) = pair.answer.status {
            tally.expect(status == expected, &pair.lines(), || format!("the status is {status}"));
        }
    }
}

/// Requests that lack a member of the metadata.
fn lacking<'v, 'e>(view: &'v View<'e>, pointer: &str) -> Vec<Pair<'v, 'e>> {
    let lacks = |message: &&Message<'_>| message.is_request() && message.at(pointer).is_none();
    // A handshake has no metadata, and a server of both eras answers it.
    let requests = view.theirs().filter(lacks).filter(|message| message.method() != Some("initialize"));
    requests.filter_map(|request| Some(Pair { request, answer: view.response_to(request)? })).collect()
}

/// Requests in a version that the server does not have.
fn unknown_version<'v, 'e>(view: &'v View<'e>) -> Vec<Pair<'v, 'e>> {
    let is_unknown = |message: &&Message<'_>| message.text_at(META_VERSION) == Some(super::opening::UNKNOWN_VERSION);
    let requests = view.theirs().filter(is_unknown);
    requests.filter_map(|request| Some(Pair { request, answer: view.response_to(request)? })).collect()
}

const fn modern_rule(rule: Rule) -> Rule {
    rule.since(STATELESS)
}

pub(crate) static RULES: &[Rule] = &[
    modern_rule(must(
        "mcp.discover.result",
        DISCOVERY,
        "`server/discover` is answered with a result",
        |view, tally| {
            for pair in modern(view).into_iter().filter(|pair| pair.request.method() == Some("server/discover")) {
                tally.expect(pair.result().is_some(), &pair.lines(), || "it fails".to_owned());
            }
        },
    )),
    modern_rule(must(
        "mcp.discover.versions",
        DISCOVERY,
        "`supportedVersions` contains the version of the request",
        |view, tally| {
            for (pair, result) in view.results("server/discover") {
                let versions = result.get("supportedVersions").and_then(Value::as_array);
                let has_ours = versions.is_some_and(|versions| versions.iter().any(|version| version == STATELESS));
                tally.expect(has_ours, &pair.lines(), || format!("it is {}", shown(result.get("supportedVersions"))));
            }
        },
    )),
    modern_rule(must("mcp.discover.capabilities", DISCOVERY, "`capabilities` is an object", |view, tally| {
        result_member(view, tally, "server/discover", ("/capabilities", Required), is_object);
    })),
    modern_rule(must(
        "mcp.discover.no-tasks",
        "extensions: Tasks",
        "the capability `tasks` of 2025-11-25 is not declared",
        |view, tally| {
            for (pair, result) in view.results("server/discover") {
                let tasks = result.pointer("/capabilities/tasks");
                tally.expect(tasks.is_none(), &pair.lines(), || "`tasks` is declared".to_owned());
            }
        },
    )),
    modern_rule(should("mcp.discover.server-info", METADATA, "results name the server in `_meta`", |view, tally| {
        for (pair, result) in view.results("server/discover") {
            let info = result.pointer("/_meta/io.modelcontextprotocol~1serverInfo/name");
            tally.expect(info.is_some_and(Value::is_string), &pair.lines(), || "no `serverInfo`".to_owned());
        }
    })),
    modern_rule(must("mcp.result.type", RESULT, "every result has `resultType`, a string", |view, tally| {
        for pair in modern(view) {
            if let Some(result) = pair.result() {
                let kind = result.get("resultType");
                tally.expect(kind.is_some_and(Value::is_string), &pair.lines(), || format!("it is {}", shown(kind)));
            }
        }
    })),
    modern_rule(must(
        "mcp.result.known-type",
        RESULT,
        "`resultType` is `complete`, `input_required` or a declared extension's",
        |view, tally| {
            for pair in modern(view) {
                if let Some(kind) = pair.answer.text_at("/result/resultType") {
                    let is_known = matches!(kind, "complete" | "input_required" | "task");
                    tally.expect(is_known, &pair.lines(), || format!("it is {kind:?}"));
                }
            }
        },
    )),
    modern_rule(must(
        "mcp.result.input-only-for-calls",
        "basic/patterns: Multi Round-Trip Requests",
        "only calls, prompts and reads ask for input",
        |view, tally| {
            for pair in modern(view) {
                if pair.answer.text_at("/result/resultType") == Some("input_required") {
                    let method = pair.request.method().unwrap_or_default();
                    let may_ask = matches!(method, "tools/call" | "prompts/get" | "resources/read");
                    tally.expect(may_ask, &pair.lines(), || format!("`{method}` asks"));
                }
            }
        },
    )),
    modern_rule(must(
        "mcp.cache.ttl",
        CACHING,
        "results of discovery, lists and reads have `ttlMs`, at least 0",
        |view, tally| {
            for (lines, result) in cacheable(view) {
                let ttl = result.get("ttlMs");
                tally.expect(ttl.and_then(Value::as_f64).is_some_and(|ttl| ttl >= 0.0), &lines, || {
                    format!("it is {}", shown(ttl))
                });
            }
        },
    )),
    modern_rule(must(
        "mcp.cache.scope",
        CACHING,
        "results of discovery, lists and reads have `cacheScope`, `public` or `private`",
        |view, tally| {
            for (lines, result) in cacheable(view) {
                let scope = result.get("cacheScope");
                let fits = matches!(scope.and_then(Value::as_str), Some("public" | "private"));
                tally.expect(fits, &lines, || format!("it is {}", shown(scope)));
            }
        },
    )),
    modern_rule(must(
        "mcp.meta.version-missing",
        METADATA,
        "a request without a version is answered with -32602",
        |view, tally| {
            refused_with(tally, lacking(view, META_VERSION), &[-32602, -32020]);
        },
    )),
    modern_rule(must(
        "mcp.meta.capabilities-missing",
        METADATA,
        "a request without client capabilities is answered with -32602",
        |view, tally| {
            let pairs =
                lacking(view, META_CAPABILITIES).into_iter().filter(|pair| pair.request.at(META_VERSION).is_some());
            refused_with(tally, pairs.collect(), &[-32602]);
        },
    )),
    modern_rule(must(
        "mcp.meta.unknown-version",
        METADATA,
        "an unsupported version is answered with -32022",
        |view, tally| {
            refused_with(tally, unknown_version(view), &[-32022, -32020]);
        },
    )),
    modern_rule(must(
        "mcp.meta.supported",
        METADATA,
        "the error for an unsupported version lists `data.supported`",
        |view, tally| {
            for pair in unknown_version(view).into_iter().filter(|pair| pair.answer.error_code() == Some(-32022)) {
                let supported = pair.answer.at("/error/data/supported").and_then(Value::as_array);
                tally.expect(supported.is_some_and(|versions| !versions.is_empty()), &pair.lines(), || {
                    "no versions".to_owned()
                });
            }
        },
    )),
    modern_rule(must("mcp.stateless.no-requests", "basic: Messages", "the server sends no requests", |view, tally| {
        for message in view.ours().filter(|message| message.value.is_some()) {
            tally.expect(!message.is_request(), &[message.line], || {
                format!("it sends `{}`", message.method().unwrap_or_default())
            });
        }
    })),
    modern_rule(must(
        "mcp.stateless.removed",
        "changelog: 2026-07-28",
        "methods that were removed are answered with -32601",
        |view, tally| {
            let removed =
                modern(view).into_iter().filter(|pair| REMOVED.contains(&pair.request.method().unwrap_or_default()));
            refused_with(tally, removed.collect(), &[-32601]);
        },
    )),
    modern_rule(must(
        "mcp.stateless.not-found",
        "server/resources: Error Handling",
        "-32002 is not sent any more",
        |view, tally| {
            for message in view.ours().filter(|message| message.get("error").is_some()) {
                tally.expect(message.error_code() != Some(-32002), &[message.line], || "the code is -32002".to_owned());
            }
        },
    )),
    modern_rule(should(
        "mcp.stateless.unknown-resource",
        "server/resources: Error Handling",
        "an unknown resource is answered with -32602",
        |view, tally| {
            let is_unknown =
                |pair: &Pair<'_, '_>| pair.request.text_at("/params/uri") == Some(super::calls::UNKNOWN_URI);
            if super::declares(view, "/resources") == Some(true) {
                refused_with(tally, view.pairs("resources/read").into_iter().filter(is_unknown).collect(), &[-32602]);
            }
        },
    )),
    modern_rule(must(
        "mcp.stateless.no-empty-contents",
        "server/resources: Error Handling",
        "a missing resource is not answered with empty `contents`",
        |view, tally| {
            for (pair, result) in view.results("resources/read") {
                let is_empty = result.get("contents").and_then(Value::as_array).is_some_and(Vec::is_empty);
                tally.expect(!is_empty, &pair.lines(), || "`contents` is empty".to_owned());
            }
        },
    )),
    modern_rule(must(
        "mcp.listen.acknowledged",
        LISTEN,
        "the first message of a subscription acknowledges it",
        |view, tally| {
            for request in view.theirs().filter(|message| message.method() == Some("subscriptions/listen")) {
                let id = request.get("id");
                let first =
                    view.ours().find(|message| message.line > request.line && message.at(META_SUBSCRIPTION) == id);
                if let Some(first) = first {
                    let is_first = first.method() == Some("notifications/subscriptions/acknowledged");
                    tally.expect(is_first, &[request.line, first.line], || "another message comes first".to_owned());
                }
            }
        },
    )),
    modern_rule(must(
        "mcp.listen.subscription-id",
        LISTEN,
        "list changes carry the id of the subscription",
        |view, tally| {
            let is_change = |message: &&Message<'_>| {
                message.method().is_some_and(|method| {
                    method.ends_with("/list_changed") || method == "notifications/resources/updated"
                })
            };
            for message in view.ours().filter(is_change) {
                tally.expect(message.at(META_SUBSCRIPTION).is_some(), &[message.line], || {
                    "no `subscriptionId`".to_owned()
                });
            }
        },
    )),
    modern_rule(must("mcp.http.not-found-status", HTTP, "an unknown method has the status 404", |view, tally| {
        status(tally, view.pairs(super::base::UNKNOWN_METHOD), 404);
    })),
    modern_rule(must("mcp.http.version-status", HTTP, "an unsupported version has the status 400", |view, tally| {
        status(tally, unknown_version(view), 400);
    })),
    modern_rule(must("mcp.http.metadata-status", HTTP, "missing metadata has the status 400", |view, tally| {
        status(tally, lacking(view, META_CAPABILITIES), 400);
    })),
];
