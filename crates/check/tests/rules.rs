//! Each rule is kept by a correct exchange, and broken by one small change of it.
//!
//! The exchanges in `exchanges/` are written by hand from the specifications: `> ` begins a line of the client, `< ` one of
//! the server, `<200 ` one with an HTTP status.

use std::collections::BTreeSet;

use gladhand_check::{Exchange, Level, Line, Outcome, Subject, Verdict, judge, rules};
use gladhand_core::negotiation::Side;

/// An exchange: its file, dialect, version and the judged side.
type Base = (&'static str, &'static str, &'static str, Subject);

const MCP: Base = (include_str!("exchanges/mcp_server.txt"), "mcp", "2025-11-25", Subject::Server);
const BARE: Base = (include_str!("exchanges/mcp_bare_server.txt"), "mcp", "2025-11-25", Subject::Server);
const STATELESS: Base = (include_str!("exchanges/mcp_stateless_server.txt"), "mcp", "2026-07-28", Subject::Server);
const CLIENT: Base = (include_str!("exchanges/mcp_client.txt"), "mcp", "2025-11-25", Subject::Client);
const STATELESS_CLIENT: Base =
    (include_str!("exchanges/mcp_stateless_client.txt"), "mcp", "2026-07-28", Subject::Client);
const A2E: Base = (include_str!("exchanges/a2e_host.txt"), "a2e", "1.0", Subject::Server);
const AGENT: Base = (include_str!("exchanges/a2e_agent.txt"), "a2e", "1.0", Subject::Client);
const LOAF: Base = (include_str!("exchanges/loaf_server.txt"), "loaf", "1.0.0", Subject::Server);
const LOAF_CLIENT: Base = (include_str!("exchanges/loaf_client.txt"), "loaf", "1.0.0", Subject::Client);
const FLUXLOOP: Base = (include_str!("exchanges/fluxloop_server.txt"), "fluxloop", "0.1.0", Subject::Server);
const FLUXLOOP_CLIENT: Base = (include_str!("exchanges/fluxloop_client.txt"), "fluxloop", "0.1.0", Subject::Client);
const BASES: [Base; 11] =
    [MCP, BARE, STATELESS, CLIENT, STATELESS_CLIENT, A2E, AGENT, LOAF, LOAF_CLIENT, FLUXLOOP, FLUXLOOP_CLIENT];

fn exchange(text: &str, (_, dialect, version, _): Base) -> Exchange {
    let line = |line: &str| {
        let (mark, text) = line.split_once(' ').expect("a mark and a text");
        let from = if mark.starts_with('>') { Side::Client } else { Side::Server };
        Line { from, text: text.to_owned(), ms: 0.0, status: mark[1..].parse().ok() }
    };
    let lines = text.lines().filter(|line| !line.is_empty()).map(line).collect();
    let (dialect, version) = (dialect.to_owned(), version.to_owned());
    Exchange { dialect, version, name: "test".to_owned(), lines, is_complete: true, is_http: false }
}

fn outcomes(text: &str, base: Base) -> Vec<Outcome> {
    judge(&exchange(text, base), base.3)
}

/// An exchange, a text in it, its replacement, and the rule that this breaks.
type Change = (Base, &'static str, &'static str, &'static str);

/// The changes of one line each; the last four fields of a row are written as in the file.
const CHANGES: &[Change] = &[
    (MCP, "< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}", "< ready", "mcp.message.json"),
    (
        MCP,
        "< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}",
        "< [{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}]",
        "mcp.message.object",
    ),
    (MCP, "< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}", "< {\"id\":2,\"result\":{}}", "mcp.message.jsonrpc"),
    (
        MCP,
        "\"method\":\"notifications/tools/list_changed\"",
        "\"method\":\"notifications/tools/list_changed\",\"params\":[]",
        "mcp.message.params",
    ),
    (MCP, "< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}", "< {\"jsonrpc\":\"2.0\",\"id\":2}", "mcp.message.kind"),
    (
        MCP,
        "< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}",
        "< {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}",
        "mcp.response.id",
    ),
    (
        MCP,
        "< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}",
        "< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}",
        "mcp.response.once",
    ),
    (MCP, "\n< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}", "", "mcp.response.present"),
    (
        MCP,
        "\"id\":2,\"result\":{}",
        "\"id\":2,\"result\":{},\"error\":{\"code\":1,\"message\":\"m\"}",
        "mcp.response.outcome",
    ),
    (MCP, "\"id\":2,\"result\":{}", "\"id\":2,\"result\":[]", "mcp.response.result"),
    (MCP, "\"code\":-32601", "\"code\":\"none\"", "mcp.error.code"),
    (MCP, "\"code\":-32601,\"message\":\"method not found\"", "\"code\":-32601", "mcp.error.message"),
    (
        MCP,
        "< {\"jsonrpc\":\"2.0\",\"id\":\"gladhand-ping\"",
        "< {\"jsonrpc\":\"2.0\",\"id\":0",
        "mcp.response.string-id",
    ),
    (
        MCP,
        "< {\"jsonrpc\":\"2.0\",\"id\":9007199254740991",
        "< {\"jsonrpc\":\"2.0\",\"id\":9007199254740992",
        "mcp.response.large-id",
    ),
    (MCP, "< {\"jsonrpc\":\"2.0\",\"id\":\"s1\"", "< {\"jsonrpc\":\"2.0\",\"id\":null", "mcp.request.id"),
    (MCP, "< {\"jsonrpc\":\"2.0\",\"id\":\"s3\"", "< {\"jsonrpc\":\"2.0\",\"id\":\"s2\"", "mcp.request.id-unique"),
    (MCP, "\"code\":-32601", "\"code\":-32600", "mcp.error.unknown-method"),
    (MCP, "\"code\":-32700", "\"code\":-32603", "mcp.error.parse"),
    (MCP, "\n< {\"jsonrpc\":\"2.0\",\"id\":32,\"result\":{}}", "", "mcp.error.survives"),
    (MCP, "\"code\":-32600", "\"code\":-32002", "mcp.error.invalid-request"),
    (MCP, "\"id\":32,\"result\":{}", "\"id\":32,\"result\":{\"ok\":true}", "mcp.ping.result"),
    (
        MCP,
        "< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n> {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
        "> {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n< {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}",
        "mcp.ping.early",
    ),
    (MCP, "\"progressToken\":\"t\",\"progress\":2", "\"progressToken\":\"u\",\"progress\":2", "mcp.progress.token"),
    (MCP, "\"progressToken\":\"t\",\"progress\":2", "\"progressToken\":\"t\",\"progress\":1", "mcp.progress.increases"),
    (MCP, "\"id\":21,\"result\":{}", "\"id\":21,\"result\":{\"level\":1}", "mcp.logging.set-level"),
    (MCP, "\"id\":22,\"error\":{\"code\":-32602", "\"id\":22,\"error\":{\"code\":-32603", "mcp.logging.bad-level"),
    (MCP, "\"level\":\"info\"", "\"level\":\"fine\"", "mcp.logging.level"),
    (MCP, ",\"data\":\"read\"", "", "mcp.logging.data"),
    (MCP, "\"result\":{\"protocolVersion\":\"2025-11-25\",", "\"result\":{", "mcp.initialize.version"),
    (
        MCP,
        "\"result\":{\"protocolVersion\":\"2025-11-25\"",
        "\"result\":{\"protocolVersion\":\"2025-01-01\"",
        "mcp.initialize.known-version",
    ),
    (
        MCP,
        "\"result\":{\"protocolVersion\":\"2025-11-25\"",
        "\"result\":{\"protocolVersion\":\"2026-07-28\"",
        "mcp.initialize.not-stateless",
    ),
    (
        MCP,
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\"",
        "\"id\":60,\"result\":{\"protocolVersion\":\"2099-12-31\"",
        "mcp.initialize.unknown-version",
    ),
    (
        MCP,
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\"",
        "\"id\":60,\"result\":{\"other\":\"2025-11-25\"",
        "mcp.initialize.offers-version",
    ),
    (
        MCP,
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\"",
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\",\"abilities\":{\"tools\"",
        "mcp.initialize.capabilities",
    ),
    (
        MCP,
        "\"serverInfo\":{\"name\":\"s\",\"version\":\"1\",\"title\":\"S\"",
        "\"info\":{\"name\":\"s\",\"version\":\"1\",\"title\":\"S\"",
        "mcp.initialize.server-info",
    ),
    (
        MCP,
        "\"serverInfo\":{\"name\":\"s\",\"version\":\"1\",\"title\":\"S\"",
        "\"serverInfo\":{\"version\":\"1\",\"title\":\"S\"",
        "mcp.initialize.server-name",
    ),
    (
        MCP,
        "\"serverInfo\":{\"name\":\"s\",\"version\":\"1\",\"title\":\"S\"",
        "\"serverInfo\":{\"name\":\"s\",\"version\":1,\"title\":\"S\"",
        "mcp.initialize.server-version",
    ),
    (MCP, "\"title\":\"S\"", "\"title\":1", "mcp.initialize.title"),
    (MCP, "\"instructions\":\"Be careful.\"", "\"instructions\":[]", "mcp.initialize.instructions"),
    (MCP, "\"src\":\"https://s/i.png\"", "\"src\":\"file:///i.png\"", "mcp.initialize.icons"),
    (MCP, "\"completions\":{}", "\"completions\":true", "mcp.capabilities.objects"),
    (MCP, "\"tools\":{\"listChanged\":true}", "\"tools\":{\"listChanged\":\"yes\"}", "mcp.capabilities.flags"),
    (
        MCP,
        "> {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}",
        "> {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n< {\"jsonrpc\":\"2.0\",\"id\":\"s0\",\"method\":\"roots/list\"}",
        "mcp.initialize.no-early-request",
    ),
    (
        MCP,
        "> {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}",
        "> {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n< {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}",
        "mcp.initialize.no-early-notification",
    ),
    (MCP, "\"id\":40,\"result\":{\"tools\"", "\"id\":40,\"result\":{\"tool\"", "mcp.tools.list"),
    (MCP, "\"name\":\"read_file\",\"title\"", "\"title\"", "mcp.tools.name"),
    (MCP, "\"name\":\"delete_file\"", "\"name\":\"read_file\"", "mcp.tools.name-unique"),
    (MCP, "\"name\":\"delete_file\"", "\"name\":\"delete file\"", "mcp.tools.name-characters"),
    (MCP, "\"title\":\"Read\"", "\"title\":{}", "mcp.tools.title"),
    (MCP, "\"description\":\"Deletes the file at a path.\"", "\"description\":null", "mcp.tools.description"),
    (MCP, "\"inputSchema\":{\"type\":\"object\"},\"annotations\"", "\"annotations\"", "mcp.tools.input-schema"),
    (
        MCP,
        "\"inputSchema\":{\"type\":\"object\"},\"annotations\"",
        "\"inputSchema\":{},\"annotations\"",
        "mcp.tools.input-type",
    ),
    (MCP, "\"outputSchema\":{\"type\":\"object\"}", "\"outputSchema\":{\"type\":\"array\"}", "mcp.tools.output-schema"),
    (
        MCP,
        "\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":true}",
        "\"annotations\":[]",
        "mcp.tools.annotations",
    ),
    (MCP, "\"readOnlyHint\":false", "\"readOnlyHint\":0", "mcp.tools.read-only-hint"),
    (MCP, "\"destructiveHint\":true", "\"destructiveHint\":1", "mcp.tools.destructive-hint"),
    (MCP, "\"idempotentHint\":true", "\"idempotentHint\":1", "mcp.tools.idempotent-hint"),
    (MCP, "\"openWorldHint\":false", "\"openWorldHint\":0", "mcp.tools.open-world-hint"),
    (MCP, "\"taskSupport\":\"optional\"", "\"taskSupport\":\"maybe\"", "mcp.tools.task-support"),
    (MCP, "\"id\":11,\"result\":{\"resources\"", "\"id\":11,\"result\":{\"resource\"", "mcp.resources.list"),
    (MCP, "{\"uri\":\"file:///a\",\"name\":\"a\"", "{\"uri\":\"a\",\"name\":\"a\"", "mcp.resources.uri"),
    (
        MCP,
        "\"resources\":[{\"uri\"",
        "\"resources\":[{\"uri\":\"file:///a\",\"name\":\"b\"},{\"uri\"",
        "mcp.resources.uri-unique",
    ),
    (MCP, "\"uri\":\"file:///a\",\"name\":\"a\",", "\"uri\":\"file:///a\",", "mcp.resources.name"),
    (MCP, "\"mimeType\":\"text/plain\"", "\"mimeType\":1", "mcp.resources.mime-type"),
    (MCP, "\"size\":5", "\"size\":\"5\"", "mcp.resources.size"),
    (MCP, "\"priority\":0.5", "\"priority\":5", "mcp.resources.priority"),
    (MCP, "\"audience\":[\"user\"]", "\"audience\":[\"all\"]", "mcp.resources.audience"),
    (MCP, "\"resourceTemplates\":", "\"templates\":", "mcp.templates.list"),
    (MCP, "\"uriTemplate\":\"file:///{path}\",", "", "mcp.templates.uri"),
    (MCP, ",\"name\":\"files\"", "", "mcp.templates.name"),
    (MCP, "\"id\":13,\"result\":{\"prompts\"", "\"id\":13,\"result\":{\"prompt\"", "mcp.prompts.list"),
    (MCP, "{\"name\":\"greet\",\"description\"", "{\"description\"", "mcp.prompts.name"),
    (MCP, "\"prompts\":[{", "\"prompts\":[{\"name\":\"greet\"},{", "mcp.prompts.name-unique"),
    (MCP, "\"arguments\":[{\"name\":\"who\",\"required\":false}]", "\"arguments\":{}", "mcp.prompts.arguments"),
    (MCP, "\"name\":\"who\",\"required\":false", "\"required\":false", "mcp.prompts.argument-name"),
    (MCP, "\"required\":false", "\"required\":0", "mcp.prompts.argument-required"),
    (MCP, "\"nextCursor\":\"2\"", "\"nextCursor\":2", "mcp.pages.next-cursor"),
    (MCP, "\"id\":40,\"result\":{\"tools\"", "\"id\":40,\"result\":{\"nextCursor\":\"2\",\"tools\"", "mcp.pages.end"),
    (MCP, "\"id\":14,\"error\":{\"code\":-32602", "\"id\":14,\"error\":{\"code\":-32603", "mcp.pages.bad-cursor"),
    (
        MCP,
        "\"id\":15,\"error\":{\"code\":-32602,\"message\":\"unknown tool\"}",
        "\"id\":15,\"result\":{\"content\":[]}",
        "mcp.call.unknown-tool",
    ),
    (MCP, "\"id\":15,\"error\":{\"code\":-32602", "\"id\":15,\"error\":{\"code\":-32603", "mcp.call.unknown-tool-code"),
    (MCP, "\"content\":[{\"type\":\"text\",\"text\":\"hello\"}]", "\"content\":\"hello\"", "mcp.call.content"),
    (MCP, "\"content\":[{\"type\":\"text\"", "\"content\":[{\"type\":\"html\"", "mcp.call.blocks"),
    (MCP, "\"isError\":false", "\"isError\":0", "mcp.call.is-error"),
    (MCP, "\"structuredContent\":{\"text\":\"hello\"}", "\"structuredContent\":[1]", "mcp.call.structured"),
    (MCP, "\"content\":[{\"type\":\"text\",\"text\":\"hello\"}]", "\"content\":[]", "mcp.call.structured-text"),
    (MCP, "\"contents\":[{\"uri\"", "\"content\":[{\"uri\"", "mcp.read.contents"),
    (MCP, "\"contents\":[{\"uri\":\"file:///a\",", "\"contents\":[{", "mcp.read.uri"),
    (MCP, "\"blob\":\"aGVsbG8=\"", "\"blob\":\"aGVsbG8=\",\"text\":\"a\"", "mcp.read.data"),
    (MCP, "\"blob\":\"aGVsbG8=\"", "\"blob\":\"hello!\"", "mcp.read.base64"),
    (
        MCP,
        "\"id\":17,\"error\":{\"code\":-32002,\"message\":\"not found\"}",
        "\"id\":17,\"result\":{\"contents\":[]}",
        "mcp.read.unknown",
    ),
    (MCP, "\"code\":-32002", "\"code\":-32603", "mcp.read.unknown-code"),
    (MCP, "\"id\":16,\"error\":{\"code\":-32602", "\"id\":16,\"error\":{\"code\":-32603", "mcp.prompts.unknown"),
    (MCP, "\"id\":51,\"result\":{\"messages\"", "\"id\":51,\"result\":{\"message\"", "mcp.prompts.messages"),
    (MCP, "\"role\":\"user\"", "\"role\":\"system\"", "mcp.prompts.role"),
    (MCP, "\"content\":{\"type\":\"text\",\"text\":\"Hello\"}", "\"content\":\"Hello\"", "mcp.prompts.content"),
    (MCP, "\"values\":[\"you\"]", "\"values\":[1]", "mcp.completion.values"),
    (MCP, "\"hasMore\":false", "\"hasMore\":0", "mcp.completion.total"),
    (MCP, "\"id\":18,\"error\":{\"code\":-32602", "\"id\":18,\"error\":{\"code\":-32603", "mcp.completion.unknown"),
    (
        MCP,
        "\"id\":10,\"result\":{",
        "\"id\":10,\"error\":{\"code\":-32602,\"message\":\"m\"},\"other\":{",
        "mcp.message.extra-members",
    ),
    (
        MCP,
        "\"id\":10,\"result\":{",
        "\"id\":10,\"error\":{\"code\":-32601,\"message\":\"m\"},\"other\":{",
        "mcp.gate.tools-served",
    ),
    (
        MCP,
        "\"id\":11,\"result\":{",
        "\"id\":11,\"error\":{\"code\":-32601,\"message\":\"m\"},\"other\":{",
        "mcp.gate.resources-served",
    ),
    (
        MCP,
        "\"id\":13,\"result\":{",
        "\"id\":13,\"error\":{\"code\":-32601,\"message\":\"m\"},\"other\":{",
        "mcp.gate.prompts-served",
    ),
    (
        MCP,
        "\"id\":12,\"result\":{",
        "\"id\":12,\"error\":{\"code\":-32601,\"message\":\"m\"},\"other\":{",
        "mcp.gate.templates-served",
    ),
    (
        MCP,
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{\"listChanged\":true}",
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}",
        "mcp.gate.tools-changed",
    ),
    (
        MCP,
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{\"listChanged\":true},\"resources\":{\"subscribe\":true,\"listChanged\":true}",
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"resources\":{\"subscribe\":true}",
        "mcp.gate.resources-changed",
    ),
    (
        MCP,
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{\"listChanged\":true},\"resources\":{\"subscribe\":true,\"listChanged\":true}",
        "\"id\":60,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"resources\":{\"listChanged\":true}",
        "mcp.gate.resource-updated",
    ),
    (
        MCP,
        "\"prompts\":{\"listChanged\":true},\"completions\":{},\"logging\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}",
        "\"logging\":{}}}}",
        "mcp.gate.prompts-changed",
    ),
    (
        MCP,
        "\"logging\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}",
        "\"other\":{}}}}",
        "mcp.gate.log-messages",
    ),
    (MCP, "\"roots\":{},", "", "mcp.gate.roots-asked"),
    (MCP, "\"sampling\":{},", "", "mcp.gate.sampling-asked"),
    (MCP, ",\"elicitation\":{}", "", "mcp.gate.elicitation-asked"),
    (
        MCP,
        "\"method\":\"notifications/resources/list_changed\"",
        "\"method\":\"notifications/resources/changed\"",
        "mcp.gate.known-methods",
    ),
    (
        BARE,
        "\"id\":10,\"error\":{\"code\":-32601,\"message\":\"method not found\"}",
        "\"id\":10,\"result\":{\"tools\":[]}",
        "mcp.gate.tools-closed",
    ),
    (
        BARE,
        "\"id\":11,\"error\":{\"code\":-32601,\"message\":\"method not found\"}",
        "\"id\":11,\"result\":{\"resources\":[]}",
        "mcp.gate.resources-closed",
    ),
    (
        BARE,
        "\"id\":13,\"error\":{\"code\":-32601,\"message\":\"method not found\"}",
        "\"id\":13,\"result\":{\"prompts\":[]}",
        "mcp.gate.prompts-closed",
    ),
    (
        BARE,
        "\"id\":18,\"error\":{\"code\":-32601",
        "\"id\":18,\"error\":{\"code\":-32602",
        "mcp.gate.completion-closed",
    ),
    (BARE, "\"id\":21,\"error\":{\"code\":-32601", "\"id\":21,\"error\":{\"code\":-32602", "mcp.gate.logging-closed"),
    (
        BARE,
        "\"id\":23,\"error\":{\"code\":-32601,\"message\":\"method not found\"}",
        "\"id\":23,\"result\":{}",
        "mcp.gate.subscribe-closed",
    ),
    (STATELESS, "<200 {\"jsonrpc\":\"2.0\",\"id\":2", "<201 {\"jsonrpc\":\"2.0\",\"id\":2", "mcp.http.request-status"),
    (
        STATELESS,
        "\"id\":1,\"result\":{",
        "\"id\":1,\"error\":{\"code\":-32601,\"message\":\"m\"},\"other\":{",
        "mcp.discover.result",
    ),
    (
        STATELESS,
        "\"supportedVersions\":[\"2026-07-28\"]",
        "\"supportedVersions\":[\"2025-11-25\"]",
        "mcp.discover.versions",
    ),
    (
        STATELESS,
        "\"capabilities\":{\"tools\":{},\"resources\":{\"subscribe\":true}}",
        "\"capabilities\":[]",
        "mcp.discover.capabilities",
    ),
    (
        STATELESS,
        "\"capabilities\":{\"tools\":{}",
        "\"capabilities\":{\"tasks\":{},\"tools\":{}",
        "mcp.discover.no-tasks",
    ),
    (
        STATELESS,
        "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"s\"",
        "\"io.modelcontextprotocol/serverInfo\":{\"title\":\"s\"",
        "mcp.discover.server-info",
    ),
    (STATELESS, "\"result\":{\"resultType\":\"complete\",\"tools\"", "\"result\":{\"tools\"", "mcp.result.type"),
    (
        STATELESS,
        "\"result\":{\"resultType\":\"complete\",\"tools\"",
        "\"result\":{\"resultType\":\"partial\",\"tools\"",
        "mcp.result.known-type",
    ),
    (
        STATELESS,
        "\"result\":{\"resultType\":\"complete\",\"tools\"",
        "\"result\":{\"resultType\":\"input_required\",\"tools\"",
        "mcp.result.input-only-for-calls",
    ),
    (STATELESS, "\"tools\":[],\"ttlMs\":0", "\"tools\":[],\"ttlMs\":-1", "mcp.cache.ttl"),
    (STATELESS, "\"cacheScope\":\"public\"", "\"cacheScope\":\"all\"", "mcp.cache.scope"),
    (
        STATELESS,
        "\"id\":9,\"error\":{\"code\":-32602",
        "\"id\":9,\"error\":{\"code\":-32600",
        "mcp.meta.version-missing",
    ),
    (
        STATELESS,
        "\"id\":3,\"error\":{\"code\":-32602",
        "\"id\":3,\"error\":{\"code\":-32600",
        "mcp.meta.capabilities-missing",
    ),
    (STATELESS, "\"code\":-32022", "\"code\":-32602", "mcp.meta.unknown-version"),
    (STATELESS, "\"supported\":[\"2026-07-28\"]", "\"supported\":[]", "mcp.meta.supported"),
    (
        STATELESS,
        "< {\"jsonrpc\":\"2.0\",\"id\":20,",
        "< {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n< {\"jsonrpc\":\"2.0\",\"id\":20,",
        "mcp.stateless.no-requests",
    ),
    (STATELESS, "\"id\":5,\"error\":{\"code\":-32601", "\"id\":5,\"error\":{\"code\":-32602", "mcp.stateless.removed"),
    (
        STATELESS,
        "\"id\":7,\"error\":{\"code\":-32602",
        "\"id\":7,\"error\":{\"code\":-32002",
        "mcp.stateless.not-found",
    ),
    (
        STATELESS,
        "\"id\":7,\"error\":{\"code\":-32602",
        "\"id\":7,\"error\":{\"code\":-32603",
        "mcp.stateless.unknown-resource",
    ),
    (
        STATELESS,
        "\"contents\":[{\"uri\":\"file:///a\",\"text\":\"a\"}]",
        "\"contents\":[]",
        "mcp.stateless.no-empty-contents",
    ),
    (
        STATELESS,
        "< {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":20}}}\n",
        "",
        "mcp.listen.acknowledged",
    ),
    (
        STATELESS,
        "\"uri\":\"a:b\",\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":20}",
        "\"uri\":\"a:b\"",
        "mcp.listen.subscription-id",
    ),
    (
        STATELESS,
        "<404 {\"jsonrpc\":\"2.0\",\"id\":6",
        "<200 {\"jsonrpc\":\"2.0\",\"id\":6",
        "mcp.http.not-found-status",
    ),
    (STATELESS, "<400 {\"jsonrpc\":\"2.0\",\"id\":4", "<200 {\"jsonrpc\":\"2.0\",\"id\":4", "mcp.http.version-status"),
    (STATELESS, "<400 {\"jsonrpc\":\"2.0\",\"id\":3", "<200 {\"jsonrpc\":\"2.0\",\"id\":3", "mcp.http.metadata-status"),
];

#[path = "changes/mod.rs"]
mod changes;

fn all_changes() -> impl Iterator<Item = &'static Change> {
    CHANGES.iter().chain(changes::CHANGES)
}

#[test]
fn a_correct_exchange_breaks_no_rule() {
    for base in BASES {
        for outcome in outcomes(base.0, base).iter().filter(|outcome| outcome.rule.level != Level::Lint) {
            assert_ne!(outcome.verdict(), Verdict::Broken, "{} {}: {outcome:#?}", base.1, base.2);
        }
    }
}

#[test]
fn each_change_breaks_its_rule() {
    let mut wrong = Vec::new();
    for (base, old, new, rule) in all_changes() {
        assert!(base.0.contains(old), "{rule}: {old} is not in the exchange");
        let find = |text: &str| {
            let outcomes = outcomes(text, *base);
            let outcome = outcomes.iter().find(|outcome| outcome.rule.id == *rule);
            outcome.map(|outcome| (outcome.verdict(), outcome.failures.clone()))
        };
        let (before, after) = (find(base.0), find(&base.0.replacen(old, new, 1)));
        let was_broken = before.as_ref().is_none_or(|(verdict, _)| *verdict == Verdict::Broken);
        let is_broken = after.as_ref().is_some_and(|(verdict, _)| *verdict == Verdict::Broken);
        if was_broken || !is_broken {
            wrong.push(format!("{rule}: {before:?} then {after:?}"));
            continue;
        }
        let lines = base.0.replacen(old, new, 1).lines().count();
        for failure in after.into_iter().flat_map(|(_, failures)| failures) {
            let is_there = failure.lines.iter().all(|line| *line < lines);
            if !is_there || failure.note.is_empty() {
                wrong.push(format!("{rule}: {failure:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_broken_by_some_change() {
    let changed: BTreeSet<_> = all_changes().map(|(_, _, _, rule)| *rule).collect();
    let untried: Vec<_> = rules().map(|rule| rule.id).filter(|id| !changed.contains(id)).collect();
    assert!(untried.is_empty(), "{untried:?}");
    let known: BTreeSet<_> = rules().map(|rule| rule.id).collect();
    assert!(changed.is_subset(&known), "{:?}", changed.difference(&known));
}

#[test]
fn rules_have_unique_names_and_descriptions() {
    let mut seen = BTreeSet::new();
    for rule in rules() {
        assert!(seen.insert(rule.id), "{} is there twice", rule.id);
        assert!(rule.id.starts_with(&format!("{}.", rule.dialect)), "{}", rule.id);
        assert!(!rule.about.is_empty() && !rule.about.ends_with('.') && !rule.section.is_empty(), "{}", rule.id);
    }
    assert!(seen.len() >= 150, "{} rules", seen.len());
}

#[test]
fn a_hostile_exchange_is_judged_without_a_panic() {
    let odd = ["", "null", "1", "\"x\"", "[]", "[[]]", "{}", "{\"id\":{}}", "{\"jsonrpc\":1,\"method\":[],\"id\":[]}"];
    let hostile =
        ["{\"result\":{\"tools\":[1,{\"name\":{}}]},\"id\":1}", "{\"type\":{},\"req_id\":[]}", "\u{0}\u{fffd}"];
    for base in BASES {
        let lines: Vec<_> = odd
            .iter()
            .chain(&hostile)
            .flat_map(|text| [Side::Client, Side::Server].map(|from| (from, (*text).to_owned())))
            .map(|(from, text)| Line { from, text, ms: 0.0, status: Some(500) })
            .collect();
        let all = Exchange { lines, ..exchange("", base) };
        for subject in [Subject::Server, Subject::Client] {
            assert!(judge(&all, subject).iter().any(|outcome| outcome.verdict() == Verdict::Broken), "{}", base.1);
        }
    }
}
