//! The JSON Schema of the configuration file, for editors. Defaults come from the settings. Descriptions and ranges are
//! written here by hand, and a test checks that no key is missing.

use gladhand_dialects::REGISTRY;
use serde_json::{Map, Value, json};

use super::{CapabilityName, Config, ProfileConfig, UpstreamConfig};

/// The schema as a whole.
pub fn schema() -> Value {
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    let section = |name: &str, description: &str, keys: &[Key]| table(description, keys, &defaults[name]);
    let upstream = serde_json::to_value(UpstreamConfig::default()).unwrap_or_default();
    let upstream = table("A server that is started (command) or reached (url).", &UPSTREAM, &upstream);
    let profile = serde_json::to_value(ProfileConfig::default()).unwrap_or_default();
    let profile = table("What certain callers get to see.", &PROFILE, &profile);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gladhand.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "a2e": section("a2e", "Settings of the A2E dialect.", &A2E),
            "limits": section("limits", "Bounds on every session.", &LIMITS),
            "http": section("http", "Settings and bounds of HTTP.", &HTTP),
            "authorization": section("authorization", "Who may come in over HTTP.", &AUTHORIZATION),
            "policy": section("policy", "What is allowed and what is looked at.", &POLICY),
            "audit": section("audit", "What is written down of each call.", &AUDIT),
            "profiles": {
                "description": "What certain callers get to see; the first by name that fits a caller counts.",
                "type": "object",
                "additionalProperties": profile,
            },
            "mcp": section("mcp", "Settings of the MCP dialect.", &MCP),
            "agent": section("agent", "The coding agent: what it may do, and where its models are.", &AGENT),
            "repository": section("repository", "The tools that read repositories.", &REPOSITORY),
            "toolbox": section("toolbox", "Our own three tools.", &TOOLBOX),
            "upstreams": {
                "description": "The servers behind this one, each under its name.",
                "type": "object",
                "propertyNames": { "pattern": "^[A-Za-z0-9_-]+$" },
                "maxProperties": super::reading::MOST_UPSTREAMS,
                "additionalProperties": upstream,
            },
        },
    })
}

/// A key, the kind of its value, and its description.
type Key = (&'static str, Kind, &'static str);

/// The kind of a value.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Bool,
    Text,
    Texts,
    TextByName,
    TextsByName,
    TextOrTexts,
    /// An integer between two bounds.
    Number(u64, u64),
    AllOrTexts,
    Speak,
    Oauth,
    OneOf(&'static [&'static str]),
    Rules,
    Bounds,
    Issuers,
    Tokens,
    /// A table in a section.
    Table(&'static [Key]),
    /// A number from 0 to 1.
    Share,
    Capabilities,
    Agents,
    Toolkits,
}

const MANY: Kind = Kind::Number(1, 1_000_000);
const TIME: Kind = Kind::Number(10, 3_600_000);

const BYTES: Kind = Kind::Number(1024, 1 << 40);

const A2E: [Key; 15] = [
    ("tokens", Kind::Texts, "Tokens that open everything to anybody. With neither these nor agents, any is accepted."),
    ("agents", Kind::Agents, "Tokens of single agents, and what they open."),
    ("max_parallel", Kind::Number(1, 100_000), "How many calls of one session run at once."),
    ("sessions", MANY, "How many sessions may be open over HTTP. As many again may wait for their handshake."),
    ("idle_minutes", Kind::Number(1, 10_080), "After how many minutes without use a session over HTTP ends."),
    (
        "handshake_seconds",
        Kind::Number(1, 3600),
        "A session over HTTP ends if its handshake has not come after this many seconds.",
    ),
    (
        "capabilities",
        Kind::Capabilities,
        "The capabilities that there are; unless it is said, all that can do no harm.",
    ),
    (
        "roots",
        Kind::Texts,
        "Folders that processes, programs of env and registered MCP servers start in, and that skills must be in.",
    ),
    ("proc", Kind::Table(&A2E_PROC), "Processes that agents start."),
    ("memory", Kind::Table(&A2E_MEMORY), "How much is remembered."),
    ("skill", Kind::Table(&A2E_SKILL), "Where skills are."),
    ("env", Kind::Table(&A2E_ENV), "Environments beside our own."),
    ("learning", Kind::Table(&A2E_LEARNING), "When experience becomes advice."),
    ("mcp", Kind::Table(&A2E_MCP), "MCP servers that agents may register."),
    ("toolkits", Kind::Toolkits, "Bundles of tools that agents configure together."),
];

const A2E_PROC: [Key; 5] = [
    ("allowed", Kind::Texts, "The words that may be the first of a command, literally."),
    ("variables", Kind::Texts, "Variables that agents may set, beside those of language, time zone and terminal."),
    ("max", Kind::Number(1, 10_000), "How many processes of one session may run at once."),
    ("timeout", Kind::Number(0, 604_800), "How many seconds a process may run; 0: as long as its session."),
    ("output_bytes", BYTES, "How much a process may write before it is ended."),
];

const A2E_MEMORY: [Key; 9] = [
    ("working_entries", MANY, "Entries that a session may have in working memory."),
    ("working_bytes", BYTES, "Their bytes."),
    ("working_total_bytes", BYTES, "Bytes that the working memories of all sessions may have together."),
    ("episodic_entries", MANY, "Entries that an agent may have in episodic memory."),
    ("episodic_bytes", BYTES, "Their bytes."),
    ("semantic_entries", MANY, "Entries that all agents of a principal together may have in semantic memory."),
    ("semantic_bytes", BYTES, "Their bytes."),
    ("entry_bytes", BYTES, "Bytes of one entry."),
    ("total_bytes", BYTES, "Bytes of everything that is kept."),
];

const A2E_SKILL: [Key; 1] = [("path", Kind::Text, "The folder in which each folder is a skill.")];

const A2E_ENV: [Key; 1] =
    [("commands", Kind::TextsByName, "Programs that are environments and speak JSON lines, by name.")];

const A2E_LEARNING: [Key; 3] = [
    ("adapt_every", MANY, "After how many experiences it is looked at them again."),
    ("min_experiences", MANY, "With how few nothing is concluded."),
    ("confidence_threshold", Kind::Share, "Below which confidence nothing is concluded."),
];

const A2E_MCP: [Key; 2] = [
    ("commands", Kind::Texts, "Programs that may be started for it, literally."),
    ("urls", Kind::Texts, "Where they may be: the origin of one of these, and a path that begins with its."),
];

const LIMITS: [Key; 4] = [
    ("line_bytes", Kind::Number(1024, 1 << 30), "Longest line in bytes."),
    ("in_flight", Kind::Number(1, 100_000), "Calls of one session that may wait or run."),
    ("page_size", Kind::Number(1, 10_000), "Tools on a page of a list."),
    ("drain_ms", Kind::Number(0, 3_600_000), "How long calls in flight may take to finish when the session ends."),
];

const HTTP: [Key; 13] = [
    ("allow_hosts", Kind::Texts, "Hosts that requests may be addressed to, beside loopback and our own address."),
    ("allow_origins", Kind::Texts, "Origins of web pages that may talk to us, beside those on an allowed host."),
    ("connections", MANY, "Connections that may be open."),
    ("sessions", MANY, "Sessions that may be open."),
    ("idle_s", Kind::Number(1, 604_800), "After how many seconds without use a session ends."),
    ("streams", MANY, "Event streams that may be open."),
    ("streams_per_session", MANY, "Exchanges of one session that may be open."),
    ("in_flight", MANY, "Calls without a session that may run."),
    ("replay_bytes", Kind::Number(4096, 1 << 30), "How much of a stream is kept for a reader that was cut off."),
    (
        "kept_bytes",
        Kind::Number(1 << 20, 1 << 30),
        "How much is kept for readers and callers that are away, over all sessions.",
    ),
    ("head_ms", TIME, "How long the head of a request may take."),
    ("body_ms", TIME, "How long the body of a request may take."),
    ("keep_alive_ms", TIME, "After which silence an event stream says that it is alive."),
];

const AUTHORIZATION: [Key; 7] = [
    ("resource", Kind::Text, "Our own address as callers know it. Tokens of issuers must be made for it."),
    ("audiences", Kind::Texts, "Further audiences that mean us."),
    ("scopes", Kind::Texts, "Scopes that every request needs."),
    (
        "tool_scopes",
        Kind::TextsByName,
        "Scopes that single tools, prompts, resources and capabilities need besides; `*` fits any characters.",
    ),
    ("dpop", Kind::OneOf(&["off", "accepted", "required"]), "Tokens that are bound to a key (RFC 9449)."),
    ("issuers", Kind::Issuers, "Authorization servers whose tokens are accepted."),
    ("tokens", Kind::Tokens, "Tokens that are accepted as they are."),
];

const POLICY: [Key; 6] = [
    ("validate_arguments", Kind::Bool, "Hold arguments and structured results to the tools' schemas."),
    ("pin", Kind::OneOf(&["off", "warn", "stop"]), "What is done about a tool, a prompt or instructions that changed."),
    (
        "invisible",
        Kind::OneOf(&["show", "strip", "refuse"]),
        "Whether invisible text in definitions, results and questions passes, is stripped or is refused.",
    ),
    (
        "violations",
        Kind::OneOf(&["observe", "repair", "enforce"]),
        "What is done about violations of what was negotiated.",
    ),
    ("rules", Kind::Rules, "The first that matches a call decides."),
    ("limits", Kind::Bounds, "All that fit a call hold for it."),
];

const AUDIT: [Key; 4] = [
    ("file", Kind::Text, "The file; nothing is written down without one."),
    ("max_bytes", Kind::Number(0, u64::MAX), "How large it may become before a new one is begun."),
    ("keep", Kind::Number(0, u32::MAX as u64), "How many older ones are kept."),
    ("payloads", Kind::Bool, "Whether arguments and results are written down."),
];

const PROFILE: [Key; 5] = [
    ("who", Kind::Texts, "Whom it is about: patterns of principals and client names."),
    ("upstreams", Kind::Texts, "The upstreams that are seen; all if there are none."),
    ("only", Kind::Texts, "The tools that are seen; all if there are none."),
    ("hide", Kind::Texts, "Tools that are not seen."),
    ("rename", Kind::TextByName, "Tools that are seen under another name."),
];

const MCP: [Key; 2] = [
    ("empty_lists", Kind::Bool, "Answer lists of what there is none of with an empty list in place of an error."),
    ("cache_ms", Kind::Number(0, u64::MAX), "For how long lists may be kept without asking again (2026-07-28)."),
];

const TOOLBOX: [Key; 1] = [("enabled", Kind::Bool, "Whether echo, agreement and wait are there.")];

const AGENT: [Key; 21] = [
    ("enabled", Kind::Bool, "Whether it is there."),
    ("tools", Kind::Bool, "Whether peers of dialects without agent sessions get it as tools."),
    ("approve", Kind::OneOf(&["ask", "all", "none"]), "Who is asked before a tool runs that may do harm."),
    ("allow", Kind::Texts, "What runs without asking: names of tools, `reads`, `writes`, `runs`, `network`."),
    ("ask", Kind::Texts, "What runs only if somebody says so."),
    ("deny", Kind::Texts, "What never runs."),
    ("folder", Kind::Text, "Where chats, skills and custom tools are kept; by default in the data folder."),
    ("roots", Kind::Texts, "Folders that its file tools use without asking, besides the folder of a session."),
    ("openrouter_base", Kind::Text, "The address of OpenRouter."),
    ("openai_base", Kind::Text, "The address of OpenAI's models."),
    ("openai_backend_base", Kind::Text, "The address that tells what is left of a ChatGPT subscription."),
    ("openai_issuer", Kind::Text, "Who signs people in to OpenAI."),
    ("openai_client_id", Kind::Text, "As whom we are known there."),
    ("antigravity_base", Kind::Text, "The address of Google Cloud Code."),
    ("google_client_id", Kind::Text, "As whom we are known at Google."),
    ("google_client_secret", Kind::Text, "What Google gave us with it, as in ${secret:NAME}."),
    ("anthropic_base", Kind::Text, "The address of Anthropic."),
    ("compatible_base", Kind::Text, "The address of any server that speaks as OpenAI does."),
    ("compatible_key", Kind::Text, "The key for it, as in ${secret:NAME}."),
    ("compatible_model", Kind::Text, "The model to use there, if it does not list its models."),
    ("exa_base", Kind::Text, "The address of the service that searches the web."),
];

const REPOSITORY: [Key; 4] = [
    ("enabled", Kind::Bool, "Whether they are there; unless it is said, for who speaks Fluxloop only."),
    (
        "roots",
        Kind::Texts,
        "The only folders that they read. None: on stdio whatever the user may read, over HTTP nothing.",
    ),
    ("docs", Kind::Text, "The documentation that `faq` answers from; without it, our own."),
    ("recipes", Kind::Text, "A folder of further integration targets."),
];

const UPSTREAM: [Key; 22] = [
    ("enabled", Kind::Bool, "Whether it is used at all."),
    ("command", Kind::TextOrTexts, "The program to start, with its arguments or without."),
    ("args", Kind::Texts, "Arguments (more of them) for the program."),
    (
        "cwd",
        Kind::Text,
        "The folder that the program starts in; default: the home folder, in a project file the current folder.",
    ),
    ("env", Kind::TextByName, "Variables for the program."),
    ("inherit_env", Kind::AllOrTexts, "Which of our variables the program gets beside the usual ones; `*` fits any."),
    ("url", Kind::Text, "The address of an MCP endpoint."),
    ("headers", Kind::TextByName, "Headers of every request."),
    ("bearer", Kind::Text, "The bearer token to present, as in ${secret:NAME}."),
    ("auth", Kind::Oauth, "Tokens that were got by signing in."),
    ("ca", Kind::Text, "A file (PEM) with authorities that are trusted beside those of the system."),
    ("speak", Kind::Speak, "What to speak to it; found out if it is not said."),
    ("token", Kind::Text, "The token to present, in a dialect whose opening has one."),
    ("agent_id", Kind::Text, "As whom we present ourselves to a host of A2E."),
    ("isolated", Kind::Bool, "Whether every session gets one of its own."),
    ("client_roots", Kind::Texts, "Folders that clients over HTTP may name as their roots to the program."),
    ("timeout_ms", Kind::Number(1, 86_400_000), "How long the opening may take."),
    ("call_timeout_ms", Kind::Number(0, 86_400_000), "How long a call may be silent; 0: as long as it likes."),
    ("prefix", Kind::Text, "What is said before its names instead of its own; \"\": they stay as they are."),
    ("rename", Kind::TextByName, "Names that are shown as something else."),
    ("only", Kind::Texts, "If there are any: only what fits one of these is shown; `*` fits any characters."),
    ("hide", Kind::Texts, "What fits one of these is not shown."),
];

fn table(description: &str, keys: &[Key], defaults: &Value) -> Value {
    let property = |(name, kind, description): &Key| {
        let mut schema = kind.schema();
        schema["description"] = json!(description);
        if !defaults[*name].is_null() {
            schema["default"] = defaults[*name].clone();
        }
        ((*name).to_owned(), schema)
    };
    let properties: Map<_, _> = keys.iter().map(property).collect();
    json!({ "description": description, "type": "object", "additionalProperties": false, "properties": properties })
}

impl Kind {
    fn schema(self) -> Value {
        let texts = || json!({ "type": "array", "items": { "type": "string" } });
        match self {
            Self::Bool => json!({ "type": "boolean" }),
            Self::Text => json!({ "type": "string" }),
            Self::Texts => texts(),
            Self::TextByName => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            Self::TextsByName => json!({ "type": "object", "additionalProperties": texts() }),
            Self::OneOf(words) => json!({ "enum": words }),
            Self::Rules => list_of(
                &json!({
                    "name": { "type": "string", "description": "What it is called." },
                    "who": texts(),
                    "upstreams": texts(),
                    "tools": texts(),
                    "resources": texts(),
                    "prompts": texts(),
                    "capabilities": texts(),
                    "when": { "type": "string", "description": "What must hold for the arguments." },
                    "schema": { "type": "object", "description": "A JSON Schema that must hold for the arguments." },
                    "effect": { "enum": ["allow", "deny", "ask"] },
                    "reason": { "type": "string", "description": "Why, for those who hear of it." },
                }),
                &["effect"],
            ),
            Self::Bounds => {
                let number = || json!({ "type": "integer", "minimum": 1 });
                list_of(
                    &json!({
                        "name": { "type": "string", "description": "What it is called." },
                        "who": texts(),
                        "upstreams": texts(),
                        "tools": texts(),
                        "resources": texts(),
                        "prompts": texts(),
                        "capabilities": texts(),
                        "together": { "type": "boolean", "description": "Whether all callers share it." },
                        "calls": number(),
                        "per_s": { "type": "integer", "minimum": 1, "maximum": 86_400 },
                        "concurrent": number(),
                        "timeout_ms": number(),
                        "result_bytes": number(),
                    }),
                    &[],
                )
            }
            Self::TextOrTexts => json!({ "anyOf": [{ "type": "string" }, texts()] }),
            Self::Number(from, to) => json!({ "type": "integer", "minimum": from, "maximum": to }),
            Self::AllOrTexts => json!({ "anyOf": [{ "const": "all" }, texts()] }),
            Self::Oauth => json!({ "const": "oauth" }),
            Self::Speak => {
                let names = REGISTRY.iter().flat_map(|dialect| {
                    let versions = dialect.versions.iter().map(|version| format!("{}@{version}", dialect.name));
                    std::iter::once(dialect.name.to_owned()).chain(versions)
                });
                json!({ "enum": std::iter::once("auto".to_owned()).chain(names).collect::<Vec<_>>() })
            }
            Self::Issuers => list_of(
                &json!({
                    "issuer": { "type": "string", "description": "Its identifier, exactly as it writes itself." },
                    "jwks_url": { "type": "string", "description": "The address of its keys." },
                    "jwks_file": { "type": "string", "description": "A file with its keys." },
                }),
                &["issuer"],
            ),
            Self::Table(keys) => table("", keys, &Value::Null),
            Self::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
            Self::Capabilities => json!({ "type": "array", "items": capability() }),
            Self::Agents => list_of(
                &json!({
                    "id": { "type": "string", "description": "What the agent calls itself." },
                    "token": { "type": "string", "description": "The token that it must present." },
                    "capabilities": { "type": "array", "items": capability(), "description": "What it opens." },
                    "principal": { "type": "string", "description": "Whom it stands for; default: the id." },
                }),
                &["id", "token"],
            ),
            Self::Toolkits => list_of(
                &json!({
                    "name": { "type": "string", "description": "What it is called." },
                    "alias": { "type": "string", "description": "A shorter name for it, which does as well." },
                    "description": { "type": "string", "description": "What it is for." },
                    "category": { "type": "string", "description": "What kind of toolkit it is." },
                    "tags": texts(),
                    "tools": texts(),
                    "schema": { "type": "object", "description": "A JSON Schema that its configuration must satisfy." },
                }),
                &["name", "tools"],
            ),
            Self::Tokens => list_of(
                &json!({
                    "name": { "type": "string", "description": "Whom it stands for." },
                    "token": { "type": "string", "description": "The token." },
                    "scopes": { "type": "array", "items": { "type": "string" }, "description": "What it may be used for." },
                }),
                &["name", "token"],
            ),
        }
    }
}

fn capability() -> Value {
    json!({ "enum": CapabilityName::ALL.map(CapabilityName::word) })
}

fn list_of(properties: &Value, required: &[&str]) -> Value {
    let item =
        json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required });
    json!({ "type": "array", "items": item })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(object: &Value) -> Vec<&String> {
        object.as_object().unwrap().keys().collect()
    }

    #[test]
    fn every_key_of_the_settings_is_in_the_schema_and_no_other() {
        let (schema, settings) = (schema(), serde_json::to_value(Config::default()).unwrap());
        let sections = &schema["properties"];
        assert_eq!(keys(sections), keys(&settings));
        for (name, section) in
            settings.as_object().unwrap().iter().filter(|(name, _)| !["upstreams", "profiles"].contains(&name.as_str()))
        {
            assert_eq!(keys(&sections[name]["properties"]), keys(section), "{name}");
        }
        for (name, inner) in settings["a2e"].as_object().unwrap().iter().filter(|(_, inner)| inner.is_object()) {
            assert_eq!(keys(&sections["a2e"]["properties"][name]["properties"]), keys(inner), "a2e.{name}");
        }
        let profile = serde_json::to_value(ProfileConfig::default()).unwrap();
        assert_eq!(keys(&sections["profiles"]["additionalProperties"]["properties"]), keys(&profile));
        let upstream = serde_json::to_value(UpstreamConfig::default()).unwrap();
        assert_eq!(keys(&sections["upstreams"]["additionalProperties"]["properties"]), keys(&upstream));
        assert_eq!(sections["limits"]["properties"]["page_size"]["default"], 100);
    }
}
