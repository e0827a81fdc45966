//! The task of a busy session: performs one job after the other, and feeds each result back as a step.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gladhand_agent_tools::{Run, RunResult};
use gladhand_core::wire::RawValue;
use gladhand_models::{HistoryItem, Listener, ModelError, Piece, Round, Segment, Thinking};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::offered_tools::{failed, forbidden, shallow};
use super::{Core, SessionEntry};
use crate::instructions;
use crate::payloads::{Debugged, event};
use crate::session::{Chat, ChatFile, Effect, Entry, Job, Target, ToolIdentity, Wanted};

/// How long a cancelled tool may take to return its result.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the tools of a session run.
#[derive(Debug, Clone)]
pub(super) struct ToolContext {
    pub(super) session: String,
    pub(super) folder: PathBuf,
    /// Whether file tools can use the folder without approval.
    pub(super) is_workspace: bool,
    pub(super) cancel: CancellationToken,
}

impl ToolContext {
    /// The run request for a tool of the agent, with the paths that were approved. `None` for other tools.
    pub(super) fn run<'a>(&'a self, call: &'a Wanted) -> Option<Run<'a>> {
        let ToolIdentity::Agent { name, edition } = &call.tool else { return None };
        Some(Run {
            name,
            edition: *edition,
            call_id: &call.call_id,
            input: &call.input,
            session: &self.session,
            folder: &self.folder,
            is_workspace: self.is_workspace,
            approved: &call.guarded_paths,
            cancel: &self.cancel,
        })
    }
}

impl Core {
    /// Starts a task that performs this work for a session.
    pub(super) fn spawn_work(self: &Arc<Self>, id: &str, work: Vec<Effect>) {
        if work.is_empty() {
            return;
        }
        self.runners.send_modify(|running| *running += 1);
        let (core, id) = (Arc::clone(self), id.to_owned());
        tokio::spawn(async move {
            let mut work = VecDeque::from(work);
            while let Some(effect) = work.pop_front() {
                match effect {
                    Effect::Journal(chat, entry) => core.write_journal(&id, chat, entry).await,
                    Effect::Keep(file) => core.keep(&id, file).await,
                    Effect::Do(job) => work.extend(core.perform_or_end(&id, job).await),
                    Effect::Emit(_) | Effect::Cancel | Effect::Ended | Effect::Report(_) => {}
                }
            }
            core.runners.send_modify(|running| *running -= 1);
        });
    }

    /// Performs a job. If it panics, the turn ends; otherwise the session would wait for its result for ever.
    async fn perform_or_end(self: &Arc<Self>, id: &str, job: Job) -> Vec<Effect> {
        let turn = self.with_entry(id, |entry| entry.session.turn_id().map(ToOwned::to_owned));
        let (core, session) = (Arc::clone(self), id.to_owned());
        let performed = tokio::spawn(async move { core.perform(&session, job).await }).await;
        performed.unwrap_or_else(|error| {
            tracing::error!(%error, "a step of a turn panicked");
            let ended = self.step(id, |session, context| session.step_panicked(turn, context));
            ended.map(|((), work)| work).unwrap_or_default()
        })
    }

    /// Performs a job and feeds the result back. Returns the next work.
    async fn perform(self: &Arc<Self>, id: &str, job: Job) -> Vec<Effect> {
        let stepped = match job {
            Job::Prepare { text, images } => {
                let (core, session) = (Arc::clone(self), id.to_owned());
                let prepared = tokio::task::spawn_blocking(move || core.prepare(&session, &text, &images)).await;
                let prepared = prepared.unwrap_or_else(|_| Err(broken("preparing the turn")));
                self.step(id, |session, context| session.prepared(prepared, context))
            }
            Job::Begin => {
                // The caller gets its answer first.
                tokio::task::yield_now().await;
                self.collect_tools(id).await;
                self.step(id, |session, context| session.begin(context))
            }
            Job::Summarise { target, history } => {
                let summary = self.summarise(id, target, history).await;
                self.step(id, |session, context| session.summarised(summary, context))
            }
            Job::Round { number, history } => {
                let ended = self.round(id, number, history).await;
                self.step(id, |session, context| session.round_ended(ended, context))
            }
            Job::Decide(call) => {
                let call = self.decide(id, call).await;
                self.step(id, |session, context| session.call_decided(call, context))
            }
            Job::Run(call) => {
                let ran = shallow(self.run_tool(id, call).await);
                // A tool may have created other tools.
                self.renew_tools(id).await;
                self.step(id, |session, context| session.tool_ended(ran, context))
            }
            Job::Save(file) => {
                let (core, session) = (Arc::clone(self), id.to_owned());
                let saving = move || {
                    core.claim(&session, &file.chat);
                    core.chats.save(&file)
                };
                let saved = tokio::task::spawn_blocking(saving).await;
                let saved = saved.unwrap_or_else(|_| Err(std::io::Error::other("writing failed unexpectedly")));
                let saved = saved.map_err(|error| error.to_string());
                self.step(id, |session, context| session.saved(saved, context))
            }
        };
        stepped.map(|((), work)| work).unwrap_or_default()
    }

    /// Sends one request to the model of the turn.
    async fn round(
        self: &Arc<Self>,
        id: &str,
        number: u32,
        history: Vec<HistoryItem>,
    ) -> Result<Vec<Wanted>, ModelError> {
        let found = self.with_entry(id, |entry| {
            let turn = entry.session.turn_id()?.to_owned();
            Some((entry.setup.clone()?, entry.offered_tools.clone()?, entry.tool_context(), turn))
        });
        let Some((setup, offered_tools, tool_context, turn)) = found else {
            return Err(ModelError::Cancelled);
        };
        let chosen = &setup.chosen;
        let round = Round {
            number,
            turn: turn.clone(),
            model: chosen.model.clone(),
            thinking: chosen.thinking,
            routing: routing(&chosen.routing),
            instructions: setup.instructions.clone(),
            history,
            tools: Arc::clone(&offered_tools.offers),
        };
        let listener = TurnListener { core: Arc::clone(self), id: id.to_owned(), turn };
        let result = ask(setup.models.clone(), round, listener, tool_context.cancel.clone()).await?.0;
        Ok(result.calls.into_iter().map(|call| offered_tools.requested(call)).collect())
    }

    /// Summarizes a conversation.
    async fn summarise(
        self: &Arc<Self>,
        id: &str,
        target: Target,
        history: Vec<HistoryItem>,
    ) -> Result<String, String> {
        let Some((models, cancel)) =
            self.with_entry(id, |entry| Some((entry.summariser.clone()?, entry.cancel.clone())))
        else {
            return Err(ModelError::Cancelled.to_string());
        };
        let round = Round {
            number: 1,
            turn: super::new_id(),
            model: target.model,
            thinking: Thinking::Off,
            routing: routing(&target.routing),
            instructions: instructions::SUMMARY.to_owned(),
            history,
            tools: Arc::from([]),
        };
        let result = ask(models, round, AnswerCollector::default(), cancel).await;
        result.map(|(_, collector)| collector.0).map_err(|error| error.to_string())
    }

    /// Runs a tool. A tool that does not stop after cancellation is abandoned.
    async fn run_tool(self: &Arc<Self>, id: &str, call: Wanted) -> RunResult {
        let found = self
            .with_entry(id, |entry| Some((entry.setup.clone()?, entry.offered_tools.clone()?, entry.tool_context())));
        let Some((setup, offered_tools, tool_context)) = found else {
            return failed(&call, "error", "the session is gone");
        };
        // The policy may have changed while the call waited for approval.
        if self.is_forbidden(&offered_tools, &call) {
            return failed(&call, "denied", &forbidden(&call));
        }
        let (core, requested, cancel) = (Arc::clone(self), call.clone(), tool_context.cancel.clone());
        let mut running = tokio::spawn(async move {
            match tool_context.run(&requested) {
                Some(run) => core.screened(&requested, core.tool_provider.run(run).await),
                None => core.call_hub(&requested, &setup.requester, &tool_context).await,
            }
        });
        let late = async {
            cancel.cancelled().await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            ran = &mut running => ran.unwrap_or_else(|_| failed(&call, "error", "the tool failed unexpectedly")),
            () = late => {
                running.abort();
                failed(&call, "aborted", "the tool did not stop when it was cancelled")
            }
        }
    }

    /// Writes a chat during a turn.
    async fn keep(self: &Arc<Self>, id: &str, file: ChatFile) {
        let (core, session) = (Arc::clone(self), id.to_owned());
        let keeping = move || {
            core.claim(&session, &file.chat);
            core.chats.keep(&file)
        };
        // The chat is written again at the end of the turn, and clients are informed if that fails.
        if let Ok(Err(error)) = tokio::task::spawn_blocking(keeping).await {
            tracing::debug!(%error, "could not save a prompt");
        }
    }

    /// Locks a chat for this session. A new chat has no other writer; a resumed one is already locked.
    fn claim(&self, id: &str, chat: &Chat) {
        let path = self.settings.data.join(&chat.path);
        if self.with_entry(id, |entry| Some(entry.claim.as_ref()?.is_on(&path))).unwrap_or_default() {
            return;
        }
        let claim = self.chats.claim(chat).unwrap_or_else(|error| {
            tracing::debug!(%error, "could not lock a chat");
            None
        });
        if let Some(entry) = self.shared().sessions.get_mut(id) {
            entry.claim = claim;
        }
    }

    async fn write_journal(self: &Arc<Self>, id: &str, chat: Chat, entry: Entry) {
        let (core, turn) = (Arc::clone(self), entry.turn_id.clone());
        let written = tokio::task::spawn_blocking(move || core.chats.journal(&chat, &entry)).await;
        if let Ok(Err(error)) = written {
            let data = serde_json::json!({"message": error.to_string()});
            self.emit_debug(id, &turn, "compaction.event_append_failed", &data);
        }
    }

    fn emit_debug(&self, id: &str, turn: &str, stage: &str, data: &impl Serialize) {
        // Under the lock, as all events of a session.
        let _house = self.shared();
        self.followers.emit(&event("session.debug", &Debugged { session_id: id, turn_id: Some(turn), stage, data }));
    }

    pub(super) fn with_entry<T>(&self, id: &str, at: impl FnOnce(&SessionEntry) -> Option<T>) -> Option<T> {
        self.shared().sessions.get(id).and_then(at)
    }
}

/// Sends a request to a model. If it is cancelled, the request is dropped immediately.
async fn ask<L: Listener + 'static>(
    models: Arc<dyn gladhand_models::Models>,
    round: Round,
    mut listener: L,
    cancel: CancellationToken,
) -> Result<(gladhand_models::RoundResult, L), ModelError> {
    let stop = cancel.clone();
    let mut asking = tokio::spawn(async move {
        let result = models.round(&round, &mut listener, &stop).await?;
        Ok((result, listener))
    });
    tokio::select! {
        biased;
        () = cancel.cancelled() => {
            asking.abort();
            // The task may be in the middle of sending an event.
            let _ = asking.await;
            Err(ModelError::Cancelled)
        }
        result = &mut asking => {
            result.unwrap_or_else(|_| Err(ModelError::Failed("the provider failed unexpectedly".to_owned())))
        }
    }
}

/// The provider that runs the model, if one is pinned.
fn routing(word: &str) -> Option<String> {
    (!word.is_empty() && word != "any").then(|| word.to_owned())
}

fn broken(action: &str) -> crate::session::NotReady {
    crate::session::NotReady::NoModel(format!("{action} failed unexpectedly"))
}

/// Receives the output of a turn's model, and applies backpressure from slow clients.
struct TurnListener {
    core: Arc<Core>,
    id: String,
    turn: String,
}

#[async_trait]
impl Listener for TurnListener {
    async fn piece(&mut self, piece: Piece) {
        self.core.light_step(&self.id, |session, context| session.piece_received(&piece, context));
        self.core.followers.keeping_up().await;
    }

    async fn debug(&mut self, stage: &'static str, data: Box<RawValue>) {
        if self.wants_debug() {
            self.core.emit_debug(&self.id, &self.turn, stage, &data);
            self.core.followers.keeping_up().await;
        }
    }

    fn wants_debug(&self) -> bool {
        self.core.shared().debug
    }
}

/// Collects an answer.
#[derive(Default)]
struct AnswerCollector(String);

#[async_trait]
impl Listener for AnswerCollector {
    async fn piece(&mut self, piece: Piece) {
        for segment in piece.segments {
            if let Segment::Answer(answer) = segment {
                self.0.push_str(&answer);
            }
        }
    }

    async fn debug(&mut self, _: &'static str, _: Box<RawValue>) {}

    fn wants_debug(&self) -> bool {
        false
    }
}
