//! Sessions and the snapshot of the state, without an agent (`loaf` §§6.4, 7.1).
//!
//! Sessions are kept in memory, as in the reference. Without a model they have only an identity. The values for
//! providers, skills and tokens are therefore empty.

use std::collections::HashMap;

use serde::Serialize;

/// Maximum number of sessions. Every snapshot lists all sessions, so this also limits the length of a line.
pub(super) const MAX_SESSIONS: usize = 1_000;

/// The sessions, in creation order.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    ids: Vec<String>,
    states: HashMap<String, SessionState>,
}

impl Sessions {
    /// Adds a session. `None` if the limit is reached.
    pub(super) fn create(&mut self, id: String, now: String) -> Option<&SessionState> {
        if self.ids.len() >= MAX_SESSIONS {
            return None;
        }
        self.ids.push(id.clone());
        Some(self.states.entry(id.clone()).or_insert_with(|| SessionState::new(id, now)))
    }

    /// The state of a session.
    pub(super) fn state(&self, id: &str) -> Option<&SessionState> {
        self.states.get(id)
    }

    /// The content of `state.get` and `state.changed`.
    pub(super) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            auth: Auth::default(),
            onboarding: Onboarding { completed: false },
            model: Model {
                selected_model: "",
                selected_thinking: "HIGH",
                selected_open_router_provider: "any",
                selected_provider: None,
            },
            sessions: Created { count: self.ids.len(), ids: &self.ids },
            skills: Skills { count: 0, directories: [] },
        }
    }
}

/// The state of a session, in the member order of the reference.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionState {
    id: String,
    created_at: String,
    updated_at: String,
    pending: bool,
    status_label: &'static str,
    messages: [(); 0],
    history: [(); 0],
    queue: [(); 0],
    pending_steer_count: u32,
    conversation_provider: Option<()>,
    active_session_id: Option<()>,
    context_token_estimate: u32,
    context_token_source: &'static str,
    context_token_provider: Option<()>,
    context_token_breakdown: TokenBreakdown,
}

/// There are no messages, so every part is 0.
#[derive(Debug, Default, Serialize)]
struct TokenBreakdown {
    pinned_tokens: u32,
    conversation_tokens: u32,
    tool_schema_tokens: u32,
    provider_overhead_tokens: u32,
}

impl SessionState {
    fn new(id: String, now: String) -> Self {
        Self {
            id,
            created_at: now.clone(),
            updated_at: now,
            pending: false,
            status_label: "ready",
            messages: [],
            history: [],
            queue: [],
            pending_steer_count: 0,
            conversation_provider: None,
            active_session_id: None,
            context_token_estimate: 0,
            context_token_source: "history",
            context_token_provider: None,
            context_token_breakdown: TokenBreakdown::default(),
        }
    }
}

/// The snapshot, in the member order of the reference.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot<'a> {
    auth: Auth,
    onboarding: Onboarding,
    model: Model,
    sessions: Created<'a>,
    skills: Skills,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Auth {
    enabled_providers: [(); 0],
    has_open_ai_token: bool,
    has_open_router_key: bool,
    has_antigravity_token: bool,
    antigravity_profile: Option<()>,
}

#[derive(Debug, Serialize)]
struct Onboarding {
    completed: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    selected_model: &'static str,
    selected_thinking: &'static str,
    selected_open_router_provider: &'static str,
    selected_provider: Option<()>,
}

#[derive(Debug, Serialize)]
struct Created<'a> {
    count: usize,
    ids: &'a [String],
}

#[derive(Debug, Serialize)]
struct Skills {
    count: usize,
    directories: [(); 0],
}
