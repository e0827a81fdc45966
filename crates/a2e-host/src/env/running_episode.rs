//! An episode of any environment, as requests see it.

use std::sync::{Arc, Mutex};

use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{Caller, Portion};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::environment::{Environment, Episode, Object, Reset};
use super::pushes::{Bounds, EpisodeState, Pushes, lock, observation, text};

/// A running episode.
#[derive(Debug)]
pub(super) struct RunningEpisode {
    pub(super) id: String,
    environment: String,
    created_at: f64,
    /// The current observation. Reading it never waits for a step.
    episode_state: Arc<Mutex<EpisodeState>>,
    /// The episode of the environment, until it is closed. The lock allows one step at a time.
    game: tokio::sync::Mutex<Option<Box<dyn Episode>>>,
    abandoned: CancellationToken,
}

impl RunningEpisode {
    /// Starts an episode and returns its first observation.
    pub(super) async fn begin(
        environment: &dyn Environment,
        reset: Reset,
        caller: Arc<dyn Caller>,
        (bounds, memory): (Bounds, Portion),
    ) -> Result<(Self, Value), Failure> {
        let id = fresh_id();
        let episode_state = Arc::new(Mutex::new(EpisodeState::with(bounds, memory)));
        let pushes = Pushes::of(id.clone(), Arc::clone(&episode_state), caller);
        let (game, seen) = environment.reset(reset, pushes).await?;
        lock(&episode_state).begin(&seen)?;
        let running = Self {
            id,
            environment: environment.name().to_owned(),
            created_at: crate::now(),
            episode_state,
            game: tokio::sync::Mutex::new(Some(game)),
            abandoned: CancellationToken::new(),
        };
        let first = observation(&running.id, &lock(&running.episode_state), seen.reward, running.created_at, None);
        Ok((running, first))
    }

    /// Performs a step and returns the observation.
    pub(super) async fn step(&self, action: &Object, max_bytes: usize) -> Result<Value, Failure> {
        let bytes = text(action).get().len();
        if bytes > max_bytes {
            let message = format!("an action of {bytes} bytes is over the limit of {max_bytes}");
            return Err(Failure::refused(message));
        }
        self.unless_abandoned(async {
            let mut game = self.game.lock().await;
            let game = game.as_mut().ok_or_else(no_episode)?;
            if self.is_over() {
                return Err(is_over());
            }
            let seen = game.step(action).await?;
            let mut episode_state = lock(&self.episode_state);
            episode_state.advance(action, &seen)?;
            Ok(observation(&self.id, &episode_state, seen.reward, crate::now(), Some(&seen.info)))
        })
        .await
    }

    /// Returns the current observation without a step.
    pub(super) fn observe(&self) -> Value {
        observation(&self.id, &lock(&self.episode_state), 0.0, self.created_at, None)
    }

    /// The observation that reports a failed step of a batch.
    pub(super) fn failed(&self, failure: &Failure) -> Value {
        let mut seen = self.observe();
        let code = match failure.kind {
            FailureKind::Capability(code) => code,
            other => other.word(),
        };
        seen["metadata"]["error"] = json!({"code": code, "message": failure.message});
        seen
    }

    /// Renders the episode.
    pub(super) async fn render(&self, mode: &str) -> Result<Value, Failure> {
        let rendered = self.unless_abandoned(async {
            let mut game = self.game.lock().await;
            game.as_mut().ok_or_else(no_episode)?.render(mode).await
        });
        match rendered.await? {
            Some(picture) => Ok(picture),
            None if mode == "json" => Ok(Value::Object(lock(&self.episode_state).state.clone())),
            None => {
                let message = format!("the environment {:?} cannot be rendered as {mode:?}", self.environment);
                Err(Failure::refused(message))
            }
        }
    }

    /// Suggests the next actions.
    pub(super) async fn plan(&self, state: Option<&Object>) -> Result<Vec<Value>, Failure> {
        self.unless_abandoned(async {
            let mut game = self.game.lock().await;
            game.as_mut().ok_or_else(no_episode)?.plan(state).await
        })
        .await
    }

    /// Closes the episode. A step in progress is cancelled.
    pub(super) async fn close(&self) {
        self.abandoned.cancel();
        if let Some(mut game) = self.game.lock().await.take() {
            game.close().await;
        }
    }

    /// Cancels all work on the episode because its session has ended. The episode is dropped with its last reference.
    pub(super) fn abandon(&self) {
        self.abandoned.cancel();
    }

    /// Whether the episode is over.
    pub(super) fn is_over(&self) -> bool {
        lock(&self.episode_state).done
    }

    async fn unless_abandoned<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.abandoned.run_until_cancelled(work).await.unwrap_or_else(|| Err(no_episode()))
    }
}

/// The newest records of some episodes: at most `max` records and `max_bytes` bytes.
pub(super) fn records(episodes: &[Arc<RunningEpisode>], max: usize, max_bytes: usize) -> Vec<Box<RawValue>> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    for episode in episodes.iter().rev() {
        let episode_state = lock(&episode.episode_state);
        let newest: Vec<_> = episode_state.records(max.saturating_sub(all.len())).collect();
        for record in newest.into_iter().rev() {
            bytes += record.get().len();
            if bytes > max_bytes {
                break;
            }
            let name = json::to_raw(&episode.environment);
            let begin = record.get().strip_suffix('}').unwrap_or_default();
            all.push(json::raw(format!(r#"{begin},"episode_id":"{}","env_name":{name}}}"#, episode.id)));
        }
    }
    all.reverse();
    all
}

/// The error for an unknown episode id.
pub(super) fn no_episode() -> Failure {
    Failure::refused("No active episode. Call reset().")
}

/// The error for an episode that is over.
pub(super) fn is_over() -> Failure {
    Failure::refused("Episode already completed. Call reset().")
}

/// A new episode id.
fn fresh_id() -> String {
    gladhand_core::hex::uuid(gladhand_system::random_bytes())
}
