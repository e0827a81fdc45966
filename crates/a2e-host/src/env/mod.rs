//! The capability `env`: episodes that run step by step (`a2e` §12).
//!
//! There may be several environments, and a session may run several episodes. A session sees only its own episodes, and
//! they end with it. Environments implement [`Environment`]. This module does what all of them share: counting,
//! recording, limits, pushes.

mod command;
mod counter;
mod environment;
mod gridworld;
mod pushes;
mod random;
mod running_episode;
mod textfiles;

use std::sync::Arc;

use gladhand_core::operations::{CapabilityCall, Failure, Outcome, Party};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{
    Answer, CapabilityProvider, Context, Features, Portions, Provider, SessionId, SessionObserver, Settling, Usage,
};
use gladhand_process::starting::Starter;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::command::Program;
pub use self::counter::Counter;
use self::environment::reset_denied;
pub use self::environment::{Environment, Episode, Object, Observation, Reset, Space};
pub use self::gridworld::Gridworld;
pub use self::pushes::{Push, Pushes};
use self::running_episode::RunningEpisode;
pub use self::textfiles::Textfiles;
use crate::grants::{self, Programs};
use crate::reply;
use crate::session_values::{Reservation, ReserveError, SessionValues, ValuesOfSession};

/// The configured environments and the limits of episodes.
#[derive(Debug, Clone)]
pub struct EnvSettings {
    /// Programs that are environments, in addition to the built-in ones.
    pub programs: Vec<Program>,
    /// Maximum number of episodes of a session. Episodes that are over make room for new ones.
    pub max_episodes: usize,
    /// Maximum number of episodes of all sessions together.
    pub max_total_episodes: usize,
    /// Maximum size of a state or an action, in bytes of JSON.
    pub max_state_bytes: usize,
    /// Maximum number of recorded steps of an episode. The newest are kept.
    pub max_records: usize,
    /// Maximum size in bytes of JSON of the records of an episode, and of a response with records.
    pub max_record_bytes: usize,
    /// Maximum number of steps in one batch request.
    pub max_batch_steps: usize,
}

impl Default for EnvSettings {
    fn default() -> Self {
        Self {
            programs: Vec::new(),
            max_episodes: 16,
            max_total_episodes: 256,
            max_state_bytes: 1024 * 1024,
            max_records: 1000,
            max_record_bytes: 1024 * 1024,
            max_batch_steps: 64,
        }
    }
}

/// Maximum memory of the states and records of all episodes, in bytes. Parties share it.
const MAX_TOTAL_BYTES: usize = 256 * 1024 * 1024;

/// The built-in environments.
fn own() -> Vec<Arc<dyn Environment>> {
    vec![
        Arc::new(Gridworld),
        Arc::new(Textfiles::default()),
        Arc::new(Counter::named("counter")),
        Arc::new(Counter::named("counter_env")),
    ]
}

/// The names of the built-in environments. A program of the same name would never be used.
pub fn own_names() -> Vec<String> {
    own().iter().map(|environment| environment.name().to_owned()).collect()
}

/// The capability `env`.
#[derive(Debug)]
pub struct Env {
    settings: EnvSettings,
    programs: Programs,
    environments: Vec<Arc<dyn Environment>>,
    episodes: SessionValues<RunningEpisode>,
    /// Bytes of the states and records of all episodes.
    memory: Arc<Portions>,
}

impl Env {
    /// Offers the built-in environments (`gridworld`, `textfiles`, `counter` and its alias `counter_env`) and the
    /// configured programs, which `starter` starts.
    pub fn new(mut settings: EnvSettings, starter: &Arc<dyn Starter>) -> Self {
        let episodes = SessionValues::default();
        let programs = if settings.programs.is_empty() { Programs::None } else { Programs::Some };
        let mut environments = own();
        for program in std::mem::take(&mut settings.programs) {
            let task_counter = episodes.task_counter().clone();
            environments.push(Arc::new(command::Command::of(program, Arc::clone(starter), task_counter)));
        }
        Self { settings, programs, environments, episodes, memory: Portions::lasting(MAX_TOTAL_BYTES, 0) }
    }

    /// Adds an environment, which takes precedence over one of the same name. It is unknown what the environment does,
    /// so it counts as a program.
    pub fn with(mut self, environment: Arc<dyn Environment>) -> Self {
        self.programs = Programs::Some;
        self.environments.insert(0, environment);
        self
    }
}

/// An integer that may be written as `5.0`.
#[derive(Debug, Deserialize)]
struct Whole(#[serde(deserialize_with = "crate::integer")] i64);

/// `env/reset/req`.
#[derive(Debug, Deserialize)]
struct ResetRequest {
    env_name: String,
    #[serde(default)]
    seed: Option<Whole>,
    #[serde(default)]
    options: Object,
}

/// `env/step/req`.
#[derive(Debug, Deserialize)]
struct StepRequest {
    episode_id: String,
    action: Object,
}

/// `env/observe/req`, `env/close/req`, `env/render/req`.
#[derive(Debug, Deserialize)]
struct EpisodeRequest {
    episode_id: String,
    #[serde(default)]
    mode: Option<String>,
}

/// `env/space/req`.
#[derive(Debug, Deserialize)]
struct SpaceRequest {
    env_name: String,
}

/// `env/plan/req`.
#[derive(Debug, Deserialize)]
struct PlanRequest {
    #[serde(default)]
    episode_id: Option<String>,
    #[serde(default)]
    state: Option<Object>,
}

/// `env/batch_step/req`.
#[derive(Debug, Deserialize)]
struct BatchRequest {
    episode_ids: Vec<String>,
    actions: Vec<Object>,
}

/// `env/exp/list/resp`.
#[derive(Debug, Serialize)]
struct Records {
    episodes: Vec<Box<RawValue>>,
}

/// `env/exp/list/req`.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct RecordsRequest {
    episode_id: String,
    #[serde(deserialize_with = "crate::integer")]
    limit: i64,
}

impl Default for RecordsRequest {
    fn default() -> Self {
        Self { episode_id: String::new(), limit: 100 }
    }
}

impl Provider for Env {
    fn features(&self) -> Features {
        Features { silent: true, ..Features::default() }
    }

    fn closing(&self) -> Option<Settling> {
        self.episodes.close().iter().for_each(|episode| episode.abandon());
        let task_counter = self.episodes.task_counter().clone();
        Some(Box::pin(async move { task_counter.all_done().await }))
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }
}

impl CapabilityProvider for Env {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["env"]
    }

    fn open_capabilities(&self) -> Vec<&'static str> {
        grants::open("env", self.programs)
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        let session = context.caller.session();
        let served = match call.kind {
            "env/reset/req" => call.read().and_then(|reset| self.reset(reset, context)),
            "env/step/req" => call.read().and_then(|step| self.step(step, session)),
            "env/observe/req" => call.read().and_then(|of| self.observe(&of, session)),
            "env/close/req" => call.read().and_then(|of| self.close(&of, session)),
            "env/space/req" => call.read().and_then(|of| self.space(&of)),
            "env/render/req" => call.read().and_then(|of| self.render(of, session)),
            "env/plan/req" => call.read().and_then(|plan| self.plan(plan, session)),
            "env/batch_step/req" => call.read().and_then(|batch| self.batch(batch, &call, session)),
            "env/exp/list/req" => call.read().and_then(|of| self.records(&of, session)),
            other => Err(Failure::of_capability("invalid_message", format!("not a request to environments: {other}"))),
        };
        served.unwrap_or_else(|failure| Answer::Now(Err(failure)))
    }
}

impl SessionObserver for Env {
    fn left(&self, session: SessionId) {
        self.episodes.left(session).iter().for_each(|episode| episode.abandon());
    }
}

impl Env {
    fn reset(&self, reset: ResetRequest, context: &Context<'_>) -> Result<Answer, Failure> {
        let environment = Arc::clone(self.environment(&reset.env_name)?);
        let party = context.terms.party;
        let reservation = self.reserve(context.caller.session(), party)?;
        let bounds = pushes::Bounds {
            state: self.settings.max_state_bytes,
            records: self.settings.max_records,
            recorded: self.settings.max_record_bytes,
        };
        let memory = self.memory.portion(party.unwrap_or(Party(0)));
        let (caller, seed) = (Arc::clone(context.caller), reset.seed.map(|Whole(seed)| seed));
        Ok(Answer::Later(Box::pin(async move {
            let reset = Reset { seed, options: reset.options };
            let (episode, observation) = RunningEpisode::begin(&*environment, reset, caller, (bounds, memory)).await?;
            // If the session has ended meanwhile, `reservation` refuses the episode and it is dropped here.
            reservation.fill(&Arc::new(episode)).ok_or_else(|| reset_denied("the session has ended"))?;
            reply(&json!({"obs": observation}))
        })))
    }

    fn environment(&self, name: &str) -> Result<&Arc<dyn Environment>, Failure> {
        let found = self.environments.iter().find(|environment| environment.name() == name);
        found.ok_or_else(|| reset_denied(format!("unknown environment: {name:?}")))
    }

    /// Reserves a place for one more episode. Removes the oldest episodes that are over, if necessary.
    fn reserve(&self, session: SessionId, party: Option<Party>) -> Result<Reservation<RunningEpisode>, Failure> {
        let settings = &self.settings;
        let admit = |values: &mut ValuesOfSession<RunningEpisode>, usage: Usage| {
            while values.reserved + values.items.len() >= settings.max_episodes {
                let over = values.items.iter().position(|episode| episode.is_over());
                values.items.remove(over.ok_or(settings.max_episodes)?);
            }
            if usage.admits(settings.max_total_episodes) { Ok(()) } else { Err(settings.max_total_episodes) }
        };
        self.episodes.reserve((session, party), |_| true, admit).map_err(|error| match error {
            ReserveError::Closed => reset_denied("stopping"),
            ReserveError::NotAdmitted(max) => {
                reset_denied(format!("the limit of {max} episodes is reached; close one first"))
            }
        })
    }

    fn episode(&self, session: SessionId, id: &str) -> Result<Arc<RunningEpisode>, Failure> {
        self.episodes.find(session, |episode| episode.id == id).ok_or_else(running_episode::no_episode)
    }

    fn step(&self, step: StepRequest, session: SessionId) -> Result<Answer, Failure> {
        let episode = self.episode(session, &step.episode_id)?;
        let max_bytes = self.settings.max_state_bytes;
        Ok(Answer::Later(Box::pin(async move {
            let observation = episode.step(&step.action, max_bytes).await?;
            reply(&json!({"obs": observation}))
        })))
    }

    fn observe(&self, of: &EpisodeRequest, session: SessionId) -> Result<Answer, Failure> {
        let episode = self.episode(session, &of.episode_id)?;
        Ok(Answer::Now(reply(&json!({"obs": episode.observe()}))))
    }

    fn close(&self, of: &EpisodeRequest, session: SessionId) -> Result<Answer, Failure> {
        let episode = self.episodes.take(session, |episode| episode.id == of.episode_id);
        let episode = episode.ok_or_else(running_episode::no_episode)?;
        Ok(Answer::Later(Box::pin(async move {
            episode.close().await;
            reply(&json!({"closed": true}))
        })))
    }

    fn space(&self, of: &SpaceRequest) -> Result<Answer, Failure> {
        let Space { actions, states } = self.environment(&of.env_name)?.space();
        Ok(Answer::Now(reply(&json!({"action_space": actions, "state_schema": states}))))
    }

    fn render(&self, of: EpisodeRequest, session: SessionId) -> Result<Answer, Failure> {
        let episode = self.episode(session, &of.episode_id)?;
        Ok(Answer::Later(Box::pin(async move {
            let render = episode.render(of.mode.as_deref().unwrap_or("screenshot")).await?;
            reply(&json!({"render": render}))
        })))
    }

    fn plan(&self, plan: PlanRequest, session: SessionId) -> Result<Answer, Failure> {
        let answer = |actions: &[Value]| -> Outcome { reply(&json!({"suggested_actions": actions})) };
        if let Some(id) = plan.episode_id.filter(|id| !id.is_empty()) {
            let episode = self.episode(session, &id)?;
            return Ok(Answer::Later(Box::pin(async move { answer(&episode.plan(plan.state.as_ref()).await?) })));
        }
        let state = plan.state.ok_or_else(running_episode::no_episode)?;
        let planned = self.environments.iter().find_map(|environment| environment.plan_from(&state));
        let unknown = || Failure::refused("no environment knows this state; name an episode");
        Ok(Answer::Now(answer(&planned.ok_or_else(unknown)?)))
    }

    fn batch(&self, batch: BatchRequest, call: &CapabilityCall<'_>, session: SessionId) -> Result<Answer, Failure> {
        let BatchRequest { episode_ids, actions } = batch;
        let max_steps = self.settings.max_batch_steps;
        if episode_ids.len() != actions.len() {
            return Err(Failure::refused(format!("{} episodes and {} actions", episode_ids.len(), actions.len())));
        }
        if actions.len() > max_steps {
            return Err(Failure::refused(format!("at most {max_steps} steps at once")));
        }
        let found = episode_ids.iter().map(|id| self.episode(session, id));
        let episodes = found.collect::<Result<Vec<_>, _>>()?;
        if episodes.iter().any(|episode| episode.is_over()) {
            return Err(running_episode::is_over());
        }
        let request = call.request.as_ref().map(|id| json::raw(id.as_json().to_owned()));
        let max_bytes = self.settings.max_state_bytes;
        Ok(Answer::Later(Box::pin(async move {
            let mut results = Vec::with_capacity(actions.len());
            for (episode, action) in episodes.iter().zip(&actions) {
                // The steps before this one have been made, so one failure does not fail the batch.
                let observation =
                    episode.step(action, max_bytes).await.unwrap_or_else(|failure| episode.failed(&failure));
                results.push(json!({"type": "env/step/resp", "req_id": request, "obs": observation}));
            }
            reply(&json!({"results": results}))
        })))
    }

    fn records(&self, of: &RecordsRequest, session: SessionId) -> Result<Answer, Failure> {
        let episodes = match of.episode_id.as_str() {
            "" => self.episodes.of(session),
            id => vec![self.episode(session, id)?],
        };
        let max_records = usize::try_from(of.limit).unwrap_or(0);
        let episodes = running_episode::records(&episodes, max_records, self.settings.max_record_bytes);
        Ok(Answer::Now(reply(&Records { episodes })))
    }
}
