//! The gate: negotiated capabilities decide which messages may be sent.

use super::{client_declares, declares, handshake, must, refused_with, should, stateless};
use crate::message::{Message, View};
use crate::rule::Rule;
use crate::tally::Tally;

const PAGE: &str = "basic/lifecycle: Operation";

/// A request whose capability the server did not declare is refused with -32601.
fn closed(view: &View<'_>, tally: &mut Tally, method: &str, capability: &str) {
    if declares(view, capability) == Some(false) {
        refused_with(tally, view.pairs(method), &[-32601]);
    }
}

/// A list that the server declared is served.
fn open(view: &View<'_>, tally: &mut Tally, method: &str, capability: &str) {
    if declares(view, capability) == Some(true) {
        // A request with a cursor of our own making may fail.
        let is_stateless = view.theirs().any(|message| message.method() == Some("server/discover"));
        let is_plain = |request: &Message<'_>| {
            request.at("/params/cursor").is_none() && (!is_stateless || stateless::is_modern(request))
        };
        let plain = view.pairs(method).into_iter().filter(|pair| is_plain(pair.request));
        for pair in plain {
            tally.expect(pair.result().is_some(), &pair.lines(), || format!("`{method}` fails"));
        }
    }
}

/// A notification is sent only with the flag that announces it.
fn announced(view: &View<'_>, tally: &mut Tally, method: &str, flag: &str) {
    let declares = declares(view, flag);
    for message in view.ours().filter(|message| message.method() == Some(method)) {
        tally.expect(declares == Some(true), &[message.line], || {
            format!("`{}` was not declared", flag.trim_matches('/'))
        });
    }
}

/// A request to the client is sent only if the client declared the capability.
fn asked(view: &View<'_>, tally: &mut Tally, method: &str, capability: &str) {
    for message in view.ours().filter(|message| message.is_request() && message.method() == Some(method)) {
        tally.expect(client_declares(view, capability), &[message.line], || {
            format!("the client did not declare `{capability}`")
        });
    }
}

pub(crate) static RULES: &[Rule] = &[
    must("mcp.gate.tools-served", "server/tools: Capabilities", "declared tools can be listed", |view, tally| {
        open(view, tally, "tools/list", "/tools");
    }),
    must(
        "mcp.gate.resources-served",
        "server/resources: Capabilities",
        "declared resources can be listed",
        |view, tally| {
            open(view, tally, "resources/list", "/resources");
        },
    ),
    must("mcp.gate.prompts-served", "server/prompts: Capabilities", "declared prompts can be listed", |view, tally| {
        open(view, tally, "prompts/list", "/prompts");
    }),
    should(
        "mcp.gate.templates-served",
        "server/resources: Resource Templates",
        "a server with resources lists its templates",
        |view, tally| {
            open(view, tally, "resources/templates/list", "/resources");
        },
    ),
    should("mcp.gate.tools-closed", PAGE, "`tools/list` without the capability gets -32601", |view, tally| {
        closed(view, tally, "tools/list", "/tools");
    }),
    should("mcp.gate.resources-closed", PAGE, "`resources/list` without the capability gets -32601", |view, tally| {
        closed(view, tally, "resources/list", "/resources");
    }),
    should("mcp.gate.prompts-closed", PAGE, "`prompts/list` without the capability gets -32601", |view, tally| {
        closed(view, tally, "prompts/list", "/prompts");
    }),
    should(
        "mcp.gate.completion-closed",
        "server/utilities/completion: Capabilities",
        "`completion/complete` without the capability gets -32601",
        |view, tally| {
            closed(view, tally, "completion/complete", "/completions");
        },
    )
    .since("2025-03-26"),
    handshake(should(
        "mcp.gate.logging-closed",
        PAGE,
        "`logging/setLevel` without the capability gets -32601",
        |view, tally| {
            closed(view, tally, "logging/setLevel", "/logging");
        },
    )),
    handshake(should(
        "mcp.gate.subscribe-closed",
        "server/resources: Subscriptions",
        "`resources/subscribe` without the flag is refused",
        |view, tally| {
            if declares(view, "/resources/subscribe") == Some(false) {
                refused_with(tally, view.pairs("resources/subscribe"), &[-32601, -32602]);
            }
        },
    )),
    must(
        "mcp.gate.tools-changed",
        "server/tools: List Changed Notification",
        "`tools/list_changed` is sent only with `tools.listChanged`",
        |view, tally| {
            announced(view, tally, "notifications/tools/list_changed", "/tools/listChanged");
        },
    ),
    must(
        "mcp.gate.resources-changed",
        "server/resources: List Changed Notification",
        "`resources/list_changed` is sent only with `resources.listChanged`",
        |view, tally| {
            announced(view, tally, "notifications/resources/list_changed", "/resources/listChanged");
        },
    ),
    must(
        "mcp.gate.prompts-changed",
        "server/prompts: List Changed Notification",
        "`prompts/list_changed` is sent only with `prompts.listChanged`",
        |view, tally| {
            announced(view, tally, "notifications/prompts/list_changed", "/prompts/listChanged");
        },
    ),
    must(
        "mcp.gate.resource-updated",
        "server/resources: Subscriptions",
        "`resources/updated` is sent only with `resources.subscribe`",
        |view, tally| {
            announced(view, tally, "notifications/resources/updated", "/resources/subscribe");
        },
    ),
    must(
        "mcp.gate.log-messages",
        "server/utilities/logging: Capabilities",
        "log messages are sent only with `logging`",
        |view, tally| {
            announced(view, tally, "notifications/message", "/logging");
        },
    ),
    must(
        "mcp.gate.roots-asked",
        "client/roots: Capabilities",
        "`roots/list` is sent only to a client that declared `roots`",
        |view, tally| {
            asked(view, tally, "roots/list", "roots");
        },
    ),
    must(
        "mcp.gate.sampling-asked",
        "client/sampling: Capabilities",
        "`sampling/createMessage` is sent only to a client that declared `sampling`",
        |view, tally| {
            asked(view, tally, "sampling/createMessage", "sampling");
        },
    ),
    must(
        "mcp.gate.elicitation-asked",
        "client/elicitation: Capabilities",
        "`elicitation/create` is sent only to a client that declared `elicitation`",
        |view, tally| {
            asked(view, tally, "elicitation/create", "elicitation");
        },
    )
    .since("2025-06-18"),
    should("mcp.gate.known-methods", PAGE, "the server sends only methods of its revision", |view, tally| {
        const SENT: [&str; 16] = [
            "ping",
            "roots/list",
            "sampling/createMessage",
            "elicitation/create",
            "tasks/get",
            "tasks/result",
            "tasks/list",
            "tasks/cancel",
            "notifications/cancelled",
            "notifications/progress",
            "notifications/message",
            "notifications/tools/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
            "notifications/prompts/list_changed",
            "notifications/elicitation/complete",
        ];
        for message in view.ours() {
            let Some(method) = message.method() else { continue };
            let is_known = SENT.contains(&method)
                || method.starts_with("notifications/tasks")
                || method == "notifications/subscriptions/acknowledged";
            tally.expect(is_known, &[message.line], || format!("it sends `{method}`"));
        }
    }),
];
