//! Environments that are programs: any command that reads and writes lines of JSON.
//!
//! The program is started for each episode and ends with it. It reads one object per line:
//!
//! ```text
//! {"id": 1, "reset": {"seed": 7, "options": {…}}}     first, and once
//! {"id": 2, "step": {…}}                               an action
//! {"id": 3, "render": "text"}                          a mode
//! {"id": 4, "plan": {…}}                               a state, or null for the current one
//! {"close": true}                                      last; then its input ends
//! ```
//!
//! It writes responses, each with the id of its request, and pushes:
//!
//! ```text
//! {"id": 1, "obs": {"state": {…}}}
//! {"id": 2, "obs": {"state": {…}, "reward": 0.5, "done": false, "truncated": false, "info": {…}, "metadata": {…}}}
//! {"id": 3, "render": …}
//! {"id": 4, "plan": [{…}, …]}
//! {"id": 2, "error": "no such door", "code": "unknown_action"}
//! {"push": {"event_type": "status", "reason": "…", "delta": {…}, "reward": 0.1, "terminal": false}}
//! ```
//!
//! Lines with `push` may come at any time and become `env/state/push`. An observation needs only `state`. The code of
//! an error is `runtime_error` (the default), `unknown_action` or `reset_denied`. The episode ends if the program times
//! out, exits, or writes a line that is too long or not JSON. The last part of its stderr is logged then.

mod program_task;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gladhand_core::operations::Failure;
use gladhand_process::starting::Starter;
use serde::Deserialize;
use serde_json::{Value, json};

use self::program_task::ProgramConnection;
use super::environment::{Environment, Episode, Object, Observation, Reset, Space, reset_denied};
use super::pushes::Pushes;
use crate::starting::ending::TaskCounter;
use crate::starting::{ProcessSpec, minimal_environment};

/// Configures a program as an environment.
#[derive(Debug, Clone)]
pub struct Program {
    /// The name of the environment, as in `env_name`.
    pub name: String,
    /// The program and its arguments. No shell is involved.
    pub command: Vec<String>,
    /// The working directory; `None` for that of this process.
    pub folder: Option<PathBuf>,
    /// The complete environment variables.
    pub environment: Vec<(String, String)>,
    /// The JSON Schema of an action.
    pub actions: Value,
    /// The JSON Schema of a state.
    pub states: Value,
    /// Timeout of each response, including the first.
    pub timeout: Duration,
    /// How long the program may run after its episode is closed.
    pub grace: Duration,
    /// Maximum length of a line in bytes.
    pub max_line_bytes: usize,
}

impl Program {
    /// Creates a program environment with default limits.
    pub fn new(name: impl Into<String>, command: Vec<String>) -> Self {
        Self {
            name: name.into(),
            command,
            folder: None,
            environment: minimal_environment(),
            actions: json!({"type": "object"}),
            states: json!({"type": "object"}),
            timeout: Duration::from_secs(30),
            grace: Duration::from_secs(1),
            max_line_bytes: 1024 * 1024,
        }
    }
}

/// An environment that is a program.
#[derive(Debug)]
pub(super) struct Command {
    program: Program,
    starter: Arc<dyn Starter>,
    task_counter: TaskCounter,
}

impl Command {
    pub(super) fn of(program: Program, starter: Arc<dyn Starter>, task_counter: TaskCounter) -> Self {
        Self { program, starter, task_counter }
    }
}

#[async_trait]
impl Environment for Command {
    fn name(&self) -> &str {
        &self.program.name
    }

    fn space(&self) -> Space {
        Space { actions: self.program.actions.clone(), states: self.program.states.clone() }
    }

    async fn reset(&self, reset: Reset, pushes: Pushes) -> Result<(Box<dyn Episode>, Observation), Failure> {
        let Program { command, folder, environment, .. } = &self.program;
        let spec = ProcessSpec { command: command.clone(), folder: folder.clone(), environment: environment.clone() };
        let started = spec.start(&*self.starter).await;
        let started = started.map_err(|error| reset_denied(format!("the environment does not start: {error}")))?;
        let (connection, program_task) = program_task::connect(started, &self.program, pushes.clone());
        let task_guard = self.task_counter.add();
        tokio::spawn(async move {
            program_task.await;
            drop(task_guard);
        });
        let mut episode = ProgramEpisode { connection, pushes, timeout: self.program.timeout };
        let seen = episode.observe(json!({"reset": {"seed": reset.seed, "options": reset.options}})).await?;
        Ok((Box::new(episode), seen))
    }
}

/// An episode that a program runs.
#[derive(Debug)]
struct ProgramEpisode {
    connection: ProgramConnection,
    pushes: Pushes,
    timeout: Duration,
}

/// The member `obs` of a response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProgramObservation {
    state: Object,
    reward: Option<f64>,
    done: bool,
    truncated: bool,
    info: Object,
    metadata: Object,
}

#[async_trait]
impl Episode for ProgramEpisode {
    async fn step(&mut self, action: &Object) -> Result<Observation, Failure> {
        self.observe(json!({"step": action})).await
    }

    async fn render(&mut self, mode: &str) -> Result<Option<Value>, Failure> {
        let mut answer = self.ask(json!({"render": mode})).await?;
        Ok(answer.remove("render").filter(|picture| !picture.is_null()))
    }

    async fn plan(&mut self, state: Option<&Object>) -> Result<Vec<Value>, Failure> {
        let mut answer = self.ask(json!({"plan": state})).await?;
        match answer.remove("plan") {
            Some(Value::Array(actions)) if actions.iter().all(Value::is_object) => Ok(actions),
            _ => Err(broken("its plan is not a list of actions")),
        }
    }

    async fn close(&mut self) {
        self.connection.close();
    }
}

impl ProgramEpisode {
    async fn observe(&mut self, request: Value) -> Result<Observation, Failure> {
        let mut answer = self.ask(request).await?;
        let seen: ProgramObservation = answer
            .remove("obs")
            .filter(Value::is_object)
            .and_then(|seen| serde_json::from_value(seen).ok())
            .ok_or_else(|| broken("its observation is invalid"))?;
        let ProgramObservation { state, reward, done, truncated, info, metadata } = seen;
        let done = done || truncated;
        Ok(Observation { state, reward: reward.unwrap_or(0.0), done, truncated, info, metadata })
    }

    async fn ask(&mut self, request: Value) -> Result<Object, Failure> {
        let answer = match tokio::time::timeout(self.timeout, self.connection.ask(request)).await {
            Ok(answer) => answer.ok_or_else(|| broken(program_task::ENDED))?,
            Err(_) => {
                self.connection.stop();
                let why = format!("no answer within {} seconds", self.timeout.as_secs_f64());
                self.pushes.fail(&why);
                return Err(Failure::of_capability("timeout", why));
            }
        };
        match answer.get("error").and_then(Value::as_str) {
            None => Ok(answer),
            Some(why) => {
                let code = match answer.get("code").and_then(Value::as_str) {
                    Some("unknown_action") => "unknown_action",
                    Some("reset_denied") => "reset_denied",
                    _ => "runtime_error",
                };
                Err(Failure::of_capability(code, why.to_owned()))
            }
        }
    }
}

fn broken(why: &str) -> Failure {
    Failure::of_capability("runtime_error", format!("the environment is broken: {why}"))
}
