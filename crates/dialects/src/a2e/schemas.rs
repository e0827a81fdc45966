//! The fields of requests that are passed on unparsed: names, types, and which are mandatory (a2e §§10–19). The
//! provider can deserialize any message that passes this check.

use gladhand_core::wire::Members;

use super::fields::Fields;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Texts,
    Flag,
    Integer,
    Number,
    Object,
    Objects,
    /// An object whose values are strings.
    TextMap,
}

/// Whether a field must be present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// A message without the field is invalid.
    Mandatory,
    /// The field has a default.
    Optional,
    /// The field has a default, and may also be `null`.
    Nullable,
}

type Row = (&'static str, Shape, Presence);

use Presence::{Mandatory, Nullable, Optional};
use Shape::{Flag, Integer, Number, Object, Objects, Text, TextMap, Texts};

/// The fields of a request, without the envelope. Empty for a type that is not passed on.
#[rustfmt::skip]
fn rows(kind: &str) -> &'static [Row] {
    match kind {
        "toolkit/list/req" => &[("filter_kind", Text, Optional), ("filter_tags", Texts, Optional)],
        "toolkit/configure/req" => &[
            ("session_id", Text, Optional), ("toolkit_name", Text, Optional), ("config", Object, Optional),
        ],
        "skill/discover/req" => &[("filter_tags", Texts, Optional), ("filter_categories", Texts, Optional)],
        "skill/call/req" => &[
            ("name", Text, Optional), ("arguments", Object, Optional), ("correlation_id", Text, Optional),
            ("timeout", Integer, Optional), ("streaming", Flag, Optional), ("llm_override", Object, Nullable),
            ("metadata", Object, Optional),
        ],
        "env/reset/req" => &[("env_name", Text, Mandatory), ("seed", Integer, Nullable), ("options", Object, Optional)],
        "env/step/req" => &[("episode_id", Text, Mandatory), ("action", Object, Mandatory)],
        "env/observe/req" | "env/close/req" => &[("episode_id", Text, Mandatory)],
        "env/space/req" => &[("env_name", Text, Mandatory)],
        "env/render/req" => &[("episode_id", Text, Mandatory), ("mode", Text, Nullable)],
        "env/plan/req" => &[("episode_id", Text, Nullable), ("state", Object, Nullable)],
        "env/batch_step/req" => &[("episode_ids", Texts, Mandatory), ("actions", Objects, Mandatory)],
        "env/exp/list/req" => &[("episode_id", Text, Optional), ("limit", Integer, Optional)],
        "proc/spawn/req" => &[
            ("session_id", Text, Optional), ("cmd", Texts, Optional), ("cwd", Text, Optional), ("env", TextMap, Optional),
            ("stdin_mode", Text, Optional), ("timeout", Integer, Optional),
        ],
        "proc/write/req" => &[("proc_id", Text, Optional), ("data", Text, Optional), ("eof", Flag, Optional)],
        "proc/kill/req" => &[("proc_id", Text, Optional), ("signal", Text, Optional)],
        "proc/status/req" => &[("proc_id", Text, Optional)],
        "memory/init/req" => &[("namespace", Text, Optional), ("scope", TextMap, Optional), ("metadata", Object, Optional)],
        "memory/store/req" => &[("memory_id", Text, Mandatory), ("entries", Objects, Optional)],
        "memory/retrieve/req" => &[
            ("memory_id", Text, Mandatory), ("keys", Objects, Optional), ("query", Text, Optional),
            ("tags", Texts, Optional), ("tier", Text, Optional), ("limit", Integer, Optional),
            ("min_score", Number, Optional),
        ],
        "memory/forget/req" => &[
            ("memory_id", Text, Mandatory), ("keys", Objects, Optional), ("tags", Texts, Optional),
            ("tier", Text, Optional),
        ],
        "learn/feedback/req" => &[("feedbacks", Objects, Mandatory)],
        "learn/experience/req" => &[("experiences", Objects, Optional)],
        "learn/adapt/req" => &[("component_name", Text, Optional), ("strategy", Text, Optional)],
        "learn/stats/req" => &[("component_name", Text, Optional)],
        "learn/refinement/plan/req" => &[("component_name", Text, Optional), ("scope", Text, Optional)],
        "learn/refinement/review/req" | "learn/refinement/apply/req" => &[("proposal", Object, Optional)],
        "learn/refinement/rollback/req" => &[("refinement_id", Text, Optional)],
        "chain/req" => &[
            ("session_id", Text, Optional), ("chain_id", Text, Optional), ("nodes", Objects, Optional),
            ("entry_node", Text, Optional), ("initial_input", Object, Optional), ("correlation_id", Text, Optional),
            ("streaming", Flag, Optional), ("timeout", Integer, Optional),
        ],
        "mcp/server/list/req" => &[("status_filter", Text, Optional)],
        "mcp/server/register/req" => &[("config", Object, Optional)],
        "mcp/server/unregister/req" => &[("server_id", Text, Optional)],
        "mcp/resource/list/req" | "mcp/prompt/list/req" => &[("server_id", Text, Optional), ("cursor", Text, Optional)],
        "mcp/resource/read/req" | "mcp/resource/subscribe/req" => &[("uri", Text, Optional), ("server_id", Text, Optional)],
        "mcp/prompt/get/req" => &[("name", Text, Optional), ("arguments", Object, Optional), ("server_id", Text, Optional)],
        "mcp/root/list/req" => &[("server_id", Text, Optional), ("mcp_request_id", Text, Optional)],
        "mcp/sample/resp" => &[
            ("req_id", Text, Optional), ("server_id", Text, Optional), ("mcp_request_id", Text, Optional),
            ("role", Text, Optional), ("content", Object, Optional), ("model", Text, Optional),
            ("stop_reason", Text, Optional), ("error", Text, Optional),
        ],
        "mcp/root/list/resp" => &[
            ("req_id", Text, Optional), ("server_id", Text, Optional), ("mcp_request_id", Text, Optional),
            ("roots", Objects, Optional),
        ],
        "planning/plan/create" => &[("name", Text, Optional), ("columns", Texts, Optional), ("description", Text, Optional)],
        "planning/plan/board" => &[("plan_id", Text, Optional)],
        "planning/task/add" => &[
            ("plan_id", Text, Mandatory), ("title", Text, Mandatory), ("status", Text, Optional),
            ("description", Text, Optional), ("assignee", Text, Optional), ("deps", Texts, Optional),
            ("metadata", Object, Optional),
        ],
        "planning/task/update" => &[
            ("plan_id", Text, Mandatory), ("task_id", Text, Mandatory), ("status", Text, Optional),
            ("assignee", Text, Optional), ("deps", Texts, Optional),
        ],
        "planning/task/list" => &[("plan_id", Text, Optional), ("status", Text, Optional)],
        "multi_agent/spawn" => &[
            ("name", Text, Mandatory), ("role", Text, Optional), ("model", Text, Optional),
            ("max_steps", Integer, Optional), ("metadata", Object, Optional),
        ],
        "multi_agent/delegate" => &[
            ("subagent_id", Text, Mandatory), ("task_name", Text, Mandatory), ("instruction", Text, Mandatory),
            ("success_criteria", Texts, Optional),
        ],
        "multi_agent/await" | "multi_agent/terminate" => &[("subagent_id", Text, Mandatory)],
        _ => &[],
    }
}

/// Checks the fields of a message against its type.
pub(super) fn check(kind: &str, members: &Members<'_>) -> Result<(), Vec<(String, String)>> {
    let mut fields = Fields::of(members);
    let _ = fields.envelope();
    for (name, shape, presence) in rows(kind) {
        match presence {
            Mandatory => fields.required(name),
            Optional => {}
            Nullable if members.some(name).is_none() => continue,
            Nullable => {}
        }
        match shape {
            Text => drop(fields.optional_text(name)),
            Texts => drop(fields.texts(name)),
            Flag => _ = fields.flag(name),
            Integer => _ = fields.integer(name),
            Number => fields.number(name),
            Object => fields.optional_object(name),
            Objects => fields.objects(name),
            TextMap => fields.text_map(name),
        }
    }
    fields.finish()
}
