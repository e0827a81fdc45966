//! The capability `skill`: procedures that are stored as files and run on demand (`a2e` §11).
//!
//! A skill is a folder with a `skill.md`. It is either a prompt or a program (`run`). A [`Thinker`] executes a prompt;
//! without one, the client gets the completed prompt. This module starts the programs. Nothing of a call outlives it:
//! dropping the call ends its program.

mod catalog;
mod definition;
mod events;
mod running;
mod thinking;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gladhand_core::operations::{CapabilityCall, Failure, FailureKind, Outcome, Party};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{
    Answer, CapabilityProvider, Context, Features, Provider, SessionId, SessionObserver, Settling, Turns,
};
use gladhand_process::starting::Starter;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::catalog::Catalog;
use self::definition::{Skill, Status};
use self::events::SkillEvents;
pub use self::thinking::{Thinker, Thought};
use crate::reply;
use crate::starting::ending::TaskCounter;
use crate::starting::minimal_environment;

/// How many characters of a prompt are shown in the `skill.prompt.ready` event.
const PREVIEW_CHARS: usize = 200;

/// Capacity of the token queue.
const TOKEN_QUEUE: usize = 64;

/// Where skills are, and their limits.
#[derive(Debug, Clone)]
pub struct SkillSettings {
    /// The folders that contain one subfolder for each skill.
    pub folders: Vec<PathBuf>,
    /// The folders that skills must be inside of. Empty: any folder.
    pub roots: Vec<PathBuf>,
    /// The complete environment variables of skills that are programs.
    pub environment: Vec<(String, String)>,
    /// Maximum duration of a call. Longer timeouts of the client or the skill are reduced to this.
    pub max_duration: Duration,
    /// Maximum output in bytes. A program that exceeds it is ended; the answer to a prompt is truncated.
    pub max_output_bytes: u64,
    /// Maximum length of a line, in bytes.
    pub max_line_bytes: usize,
    /// Maximum number of characters of an artifact in one event.
    pub max_chunk_chars: usize,
    /// Maximum number of skill programs that run at once. Further calls wait.
    pub max_running: usize,
}

impl Default for SkillSettings {
    fn default() -> Self {
        Self {
            folders: Vec::new(),
            roots: Vec::new(),
            environment: minimal_environment(),
            max_duration: Duration::from_secs(600),
            max_output_bytes: 64 * 1024 * 1024,
            max_line_bytes: 4 * 1024 * 1024,
            max_chunk_chars: 64 * 1024,
            max_running: 8,
        }
    }
}

/// Provider of the capability `skill`.
#[derive(Debug, Clone)]
pub struct Skills(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: SkillSettings,
    catalog: Catalog,
    starter: Arc<dyn Starter>,
    thinker: Option<Arc<dyn Thinker>>,
    /// Turns of programs. Parties share them.
    running: Arc<Turns>,
    task_counter: TaskCounter,
    /// Sessions that have called a skill, with the token that cancels their calls.
    sessions: Mutex<HashMap<SessionId, CancellationToken>>,
    stopping: CancellationToken,
}

impl Skills {
    /// Offers the skills in the configured folders. `starter` starts programs. `thinker` executes prompts; without it,
    /// prompts are only completed.
    pub fn new(settings: SkillSettings, starter: Arc<dyn Starter>, thinker: Option<Arc<dyn Thinker>>) -> Self {
        Self(Arc::new(Inner {
            catalog: Catalog::of(settings.folders.clone(), settings.roots.clone()),
            running: Turns::of(settings.max_running),
            settings,
            starter,
            thinker,
            task_counter: TaskCounter::default(),
            sessions: Mutex::default(),
            stopping: CancellationToken::new(),
        }))
    }
}

/// `skill/discover/req`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Discover {
    filter_tags: Vec<String>,
    filter_categories: Vec<String>,
}

/// `skill/call/req`. Its members about models are ignored here.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct SkillCall {
    name: String,
    arguments: Map<String, Value>,
    #[serde(deserialize_with = "crate::integer")]
    timeout: i64,
    streaming: bool,
}

impl Default for SkillCall {
    fn default() -> Self {
        Self { name: String::new(), arguments: Map::new(), timeout: 60, streaming: true }
    }
}

/// The result of a skill. It is passed on as it was written: as a tree it could take a hundred times as much memory.
#[derive(Debug, Default)]
struct SkillResult {
    data: Box<RawValue>,
    summary: Option<Box<RawValue>>,
    truncated: bool,
}

/// Why a skill failed.
#[derive(Debug)]
enum SkillError {
    /// The skill reported an error.
    Reported(String),
    /// The skill could not be run to its end.
    Failed(String),
}

impl Provider for Skills {
    fn features(&self) -> Features {
        Features { silent: true, ..Features::default() }
    }

    fn closing(&self) -> Option<Settling> {
        self.0.stopping.cancel();
        let task_counter = self.0.task_counter.clone();
        Some(Box::pin(async move { task_counter.all_done().await }))
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }
}

impl CapabilityProvider for Skills {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["skill"]
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        let inner = Arc::clone(&self.0);
        match call.kind {
            "skill/discover/req" => match call.read() {
                Ok(discover) => Answer::Later(Box::pin(async move { inner.discover(&discover).await })),
                Err(failure) => Answer::Now(Err(failure)),
            },
            "skill/call/req" => match call.read::<SkillCall>() {
                Ok(request) => {
                    let caller = Arc::clone(context.caller);
                    let session = caller.session();
                    let (cancelled, place) = (inner.cancelled(session), (session, context.terms.party));
                    let events = SkillEvents::to(caller, call.request, request.name.clone(), request.streaming);
                    Answer::Later(Box::pin(async move { inner.call(request, place, &cancelled, &events).await }))
                }
                Err(failure) => Answer::Now(Err(failure)),
            },
            other => {
                let message = format!("not a request to skills: {other}");
                Answer::Now(Err(Failure::of_capability("invalid_message", message)))
            }
        }
    }
}

impl SessionObserver for Skills {
    fn left(&self, session: SessionId) {
        if let Some(cancelled) = self.0.sessions().remove(&session) {
            cancelled.cancel();
        }
    }
}

impl Inner {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, CancellationToken>> {
        self.sessions.lock().unpoisoned()
    }

    /// A token that is cancelled when the session ends or the host stops.
    fn cancelled(&self, session: SessionId) -> CancellationToken {
        self.sessions().entry(session).or_insert_with(|| self.stopping.child_token()).clone()
    }

    async fn discover(self: Arc<Self>, discover: &Discover) -> Outcome {
        let Discover { filter_tags, filter_categories } = discover;
        let is_wanted = |skill: &Skill| {
            let by_tag = filter_tags.is_empty() || skill.tags.iter().any(|tag| filter_tags.contains(tag));
            let category = skill.category.as_ref();
            by_tag && (filter_categories.is_empty() || category.is_some_and(|own| filter_categories.contains(own)))
        };
        let skills = self.skills().await;
        let listed: Vec<_> = skills.iter().filter(|skill| is_wanted(skill)).map(|skill| &skill.listed).collect();
        reply(&json!({"skills": listed}))
    }

    /// The current skills. Scanning reads files, so it runs on a blocking thread.
    async fn skills(self: &Arc<Self>) -> Vec<Arc<Skill>> {
        let inner = Arc::clone(self);
        tokio::task::spawn_blocking(move || inner.catalog.skills()).await.unwrap_or_default()
    }

    async fn call(
        self: Arc<Self>,
        request: SkillCall,
        place: (SessionId, Option<Party>),
        cancelled: &CancellationToken,
        events: &SkillEvents,
    ) -> Outcome {
        let began = Instant::now();
        let _task_guard = self.task_counter.add();
        let failed = |code: &str, why: &str| events.tell("skill.failed", json!({"error": why, "error_code": code}));
        let unsuccessful = |code: &str, why: &str| {
            failed(code, why);
            answer(events.skill(), began, Err((code, why)))
        };
        let Some(skill) = catalog::find(&self.skills().await, &request.name) else {
            return unsuccessful("unknown_skill", &format!("Skill not found: {}", request.name));
        };
        if skill.status != Status::Published {
            return unsuccessful("skill_error", &format!("the skill is not published but {}", skill.listed["status"]));
        }
        let arguments = Value::Object(request.arguments);
        if let Some(problems) = skill.problems(&arguments) {
            return unsuccessful("schema_violation", &problems);
        }
        events.tell("skill.started", json!({"arguments": arguments, "tools": skill.tools}));
        events.tell("skill.preparing", json!({}));
        let time = self.time(request.timeout, &skill);
        let Value::Object(arguments) = arguments else { return Err(Failure::panicked()) };
        let work = tokio::time::timeout(time, self.execute(&skill, &arguments, place, events));
        let Some(outcome) = cancelled.run_until_cancelled(work).await else {
            failed("skill_error", "stopping");
            return Err(Failure::new(FailureKind::Stopping, "stopping"));
        };
        match outcome {
            Ok(Ok(result)) => {
                events.tell("skill.completed", json!({"duration_ms": milliseconds(began)}));
                answer(events.skill(), began, Ok(result))
            }
            Ok(Err(SkillError::Reported(why))) => unsuccessful("skill_error", &why),
            Ok(Err(SkillError::Failed(why))) => {
                failed("skill_error", &why);
                Err(Failure::of_capability("skill_error", why))
            }
            Err(_) => {
                let why = format!("the skill took more than {} seconds", time.as_secs_f64());
                failed("timeout", &why);
                Err(Failure::of_capability("timeout", why))
            }
        }
    }

    /// The timeout of a call: the shortest of the client's, the skill's and the operator's.
    fn time(&self, requested: i64, skill: &Skill) -> Duration {
        let requested = u64::try_from(requested).ok();
        let given = [requested, skill.timeout].into_iter().flatten().filter(|seconds| *seconds > 0);
        given.map(Duration::from_secs).fold(self.settings.max_duration, Duration::min)
    }

    async fn execute(
        &self,
        skill: &Skill,
        arguments: &Map<String, Value>,
        (session, party): (SessionId, Option<Party>),
        events: &SkillEvents,
    ) -> Result<SkillResult, SkillError> {
        if let Some(command) = &skill.run {
            let _turn = self.running.take(party).await;
            return running::run(command, skill, arguments, &self.settings, &*self.starter, events).await;
        }
        let prompt = skill.prompt(arguments);
        let preview: String = prompt.chars().take(PREVIEW_CHARS).collect();
        events.tell("skill.prompt.ready", json!({"prompt_preview": preview}));
        let Some(thinker) = &self.thinker else {
            events.tell("llm.skipped", json!({"reason": "no_llm_available"}));
            let data = json::to_raw(&json!({"prompt": prompt, "tools": {}}));
            return Ok(SkillResult { data, ..SkillResult::default() });
        };
        events.tell("llm.started", json!({}));
        let thought = Thought {
            session,
            skill: skill.name.clone(),
            prompt: prompt.clone(),
            tools: skill.tools.clone(),
            max_turns: skill.max_turns,
        };
        let (tokens, mut received) = mpsc::channel::<String>(TOKEN_QUEUE);
        let forward = async {
            while let Some(token) = received.recv().await {
                events.stream("llm.token", json!({"token": token})).await;
            }
        };
        let (thought, ()) = tokio::join!(thinker.think(thought, tokens), forward);
        let mut output = thought.map_err(|failure| SkillError::Failed(failure.message))?;
        let max_bytes = usize::try_from(self.settings.max_output_bytes).unwrap_or(usize::MAX);
        let truncated = output.len() > max_bytes;
        output.truncate(output.floor_char_boundary(max_bytes));
        events.tell("llm.completed", json!({"length": output.len()}));
        let data = json::to_raw(&json!({"output": output, "prompt": prompt, "tools": {}}));
        Ok(SkillResult { data, summary: None, truncated })
    }
}

/// `skill/call/resp`.
fn answer(name: &str, began: Instant, outcome: Result<SkillResult, (&str, &str)>) -> Outcome {
    #[derive(Serialize)]
    struct Response<'a> {
        created_at: f64,
        data: Executed<'a>,
        error: (),
        name: &'a str,
    }
    #[derive(Serialize)]
    struct Executed<'a> {
        data: Box<RawValue>,
        duration_ms: u64,
        error: Option<&'a str>,
        error_code: Option<&'a str>,
        events: [(); 0],
        success: bool,
        summary: Option<Box<RawValue>>,
        truncated: bool,
    }

    let (success, error) = (outcome.is_ok(), outcome.as_ref().err().copied());
    let result = outcome.unwrap_or_default();
    let succeeded = || json::to_raw("Skill executed successfully");
    let executed = Executed {
        data: result.data,
        duration_ms: milliseconds(began),
        error: error.map(|(_, why)| why),
        error_code: error.map(|(code, _)| code),
        events: [],
        success,
        summary: success.then(|| result.summary.unwrap_or_else(succeeded)),
        truncated: result.truncated,
    };
    reply(&Response { created_at: crate::now(), data: executed, error: (), name })
}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
