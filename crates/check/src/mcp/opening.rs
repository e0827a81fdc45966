//! The handshake of the revisions that have one.

use serde_json::Value;

use super::Presence::{Optional, Required};
use super::{HANDSHAKE, STATELESS, handshake, is_object, must, result_member, should};
use crate::message::shown;
use crate::rule::Rule;

/// A version that does not exist. A script asks for it.
pub(crate) const UNKNOWN_VERSION: &str = "2099-12-31";

const PAGE: &str = "basic/lifecycle: Initialization";
const VERSIONS: &str = "basic/lifecycle: Version Negotiation";
const CAPABILITIES: &str = "basic/lifecycle: Capability Negotiation";
const INFO: &str = "schema: Implementation";

pub(crate) static RULES: &[Rule] = &[
    handshake(must("mcp.initialize.version", PAGE, "the result has `protocolVersion`, a string", |view, tally| {
        result_member(view, tally, "initialize", ("/protocolVersion", Required), Value::is_string);
    })),
    handshake(must(
        "mcp.initialize.known-version",
        VERSIONS,
        "the version is a revision with a handshake",
        |view, tally| {
            for (pair, result) in view.results("initialize") {
                let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
                let is_known = HANDSHAKE.contains(&version) || version == "2024-10-07";
                tally.expect(is_known, &pair.lines(), || format!("the version is {version:?}"));
            }
        },
    )),
    handshake(must(
        "mcp.initialize.not-stateless",
        VERSIONS,
        "`initialize` never opens 2026-07-28, which has no handshake",
        |view, tally| {
            for (pair, result) in view.results("initialize") {
                let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
                tally.expect(version < STATELESS, &pair.lines(), || format!("the version is {version:?}"));
            }
        },
    )),
    handshake(must("mcp.initialize.unknown-version", VERSIONS, "an unknown version is not accepted", |view, tally| {
        for pair in view.pairs("initialize") {
            if pair.request.text_at("/params/protocolVersion") == Some(UNKNOWN_VERSION) {
                let version = pair.answer.text_at("/result/protocolVersion");
                tally.expect(version != Some(UNKNOWN_VERSION), &pair.lines(), || "the server accepts it".to_owned());
            }
        }
    })),
    handshake(should(
        "mcp.initialize.offers-version",
        VERSIONS,
        "an unknown version is answered with one that the server has",
        |view, tally| {
            for pair in view.pairs("initialize") {
                if pair.request.text_at("/params/protocolVersion") == Some(UNKNOWN_VERSION) {
                    let names_versions = pair.answer.at("/error/data/supported").is_some();
                    let offers = pair.answer.text_at("/result/protocolVersion").is_some() || names_versions;
                    tally.expect(offers, &pair.lines(), || "an error that names no version".to_owned());
                }
            }
        },
    )),
    handshake(must("mcp.initialize.capabilities", PAGE, "the result has `capabilities`, an object", |view, tally| {
        result_member(view, tally, "initialize", ("/capabilities", Required), is_object);
    })),
    handshake(must("mcp.initialize.server-info", PAGE, "the result has `serverInfo`, an object", |view, tally| {
        result_member(view, tally, "initialize", ("/serverInfo", Required), is_object);
    })),
    handshake(must("mcp.initialize.server-name", INFO, "`serverInfo.name` is a string", |view, tally| {
        result_member(view, tally, "initialize", ("/serverInfo/name", Required), Value::is_string);
    })),
    handshake(must("mcp.initialize.server-version", INFO, "`serverInfo.version` is a string", |view, tally| {
        result_member(view, tally, "initialize", ("/serverInfo/version", Required), Value::is_string);
    })),
    handshake(must("mcp.initialize.title", INFO, "`serverInfo.title` is a string", |view, tally| {
        result_member(view, tally, "initialize", ("/serverInfo/title", Optional), Value::is_string);
    })),
    handshake(must("mcp.initialize.instructions", PAGE, "`instructions` is a string", |view, tally| {
        result_member(view, tally, "initialize", ("/instructions", Optional), Value::is_string);
    })),
    must("mcp.initialize.icons", "schema: Icon", "an icon has `src` with https, http or data", |view, tally| {
        for (pair, result) in view.results("initialize") {
            for icon in result.pointer("/serverInfo/icons").and_then(Value::as_array).into_iter().flatten() {
                let source = icon.get("src").and_then(Value::as_str).unwrap_or_default();
                let fits = ["https:", "http:", "data:"].iter().any(|scheme| source.starts_with(scheme));
                tally.expect(fits, &pair.lines(), || format!("`src` is {}", shown(icon.get("src"))));
            }
        }
    })
    .between("2025-11-25", "2025-11-25"),
    must("mcp.capabilities.objects", CAPABILITIES, "each capability is an object", |view, tally| {
        const NAMES: [&str; 7] =
            ["tools", "resources", "prompts", "completions", "logging", "experimental", "extensions"];
        for method in ["initialize", "server/discover"] {
            for (pair, result) in view.results(method) {
                for (name, value) in result.get("capabilities").and_then(Value::as_object).into_iter().flatten() {
                    if NAMES.contains(&name.as_str()) {
                        tally
                            .expect(value.is_object(), &pair.lines(), || format!("`{name}` is {}", shown(Some(value))));
                    }
                }
            }
        }
    }),
    must("mcp.capabilities.flags", CAPABILITIES, "`listChanged` and `subscribe` are booleans", |view, tally| {
        const FLAGS: [&str; 4] =
            ["/tools/listChanged", "/prompts/listChanged", "/resources/listChanged", "/resources/subscribe"];
        for method in ["initialize", "server/discover"] {
            for (pair, result) in view.results(method) {
                for flag in FLAGS {
                    if let Some(value) = result.get("capabilities").and_then(|declared| declared.pointer(flag)) {
                        tally.expect(value.is_boolean(), &pair.lines(), || {
                            format!("`{flag}` is {}", shown(Some(value)))
                        });
                    }
                }
            }
        }
    }),
    handshake(should(
        "mcp.initialize.no-early-request",
        PAGE,
        "the server sends no request but `ping` before `notifications/initialized`",
        |view, tally| {
            let until =
                view.theirs().find(|message| super::is_initialized(message)).map_or(usize::MAX, |message| message.line);
            for message in view.ours().filter(|message| message.line < until && message.is_request()) {
                let method = message.method().unwrap_or_default();
                tally.expect(method == "ping", &[message.line], || format!("it sends `{method}`"));
            }
            if until < usize::MAX {
                tally.expect(true, &[], String::new);
            }
        },
    )),
    handshake(should(
        "mcp.initialize.no-early-notification",
        PAGE,
        "the server sends no notification but log messages before `notifications/initialized`",
        |view, tally| {
            let until =
                view.theirs().find(|message| super::is_initialized(message)).map_or(usize::MAX, |message| message.line);
            for message in view.ours().filter(|message| message.line < until && message.is_notification()) {
                let method = message.method().unwrap_or_default();
                tally.expect(method == "notifications/message", &[message.line], || format!("it sends `{method}`"));
            }
            if until < usize::MAX {
                tally.expect(true, &[], String::new);
            }
        },
    )),
    must(
        "mcp.http.request-status",
        "basic/transports: Streamable HTTP",
        "a request that succeeds has the status 200",
        |view, tally| {
            for message in view.ours().filter(|message| message.get("result").is_some()) {
                if let Some(status) = message.status {
                    tally.expect(status == 200, &[message.line], || format!("the status is {status}"));
                }
            }
        },
    ),
];
