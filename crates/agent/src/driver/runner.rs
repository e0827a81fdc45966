//! The task of a busy session: performs one job after the other, and feeds each result back as a step.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gladhand_agent_tools::{Ran, Run};
use gladhand_core::wire::RawValue;
use gladhand_models::{Listener, ModelError, Piece, Round, Said, Segment, Thinking};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::toolset::{failed, forbidden, shallow};
use super::{Core, Room};
use crate::instructions;
use crate::payloads::{Debugged, event};
use crate::session::{Chat, ChatFile, Effect, Entry, Job, Target, ToolIdentity, Wanted};

/// How long a cancelled tool may take to return its result.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the tools of a session run.
#[derive(Debug, Clone)]
pub(super) struct Workplace {
    pub(super) session: String,
    pub(super) folder: PathBuf,
    /// Whether file tools can use the folder without approval.
    pub(super) is_workspace: bool,
    pub(super) cancel: CancellationToken,
}

impl Workplace {
    /// The run request for a workbench tool, with the paths that were approved. `None` for other tools.
    pub(super) fn run<'a>(&'a self, call: &'a Wanted) -> Option<Run<'a>> {
        let ToolIdentity::Workbench { name, edition } = &call.tool else { return None };
        Some(Run {
            name,
            edition: *edition,
            call_id: &call.call_id,
            input: &call.input,
            session: &self.session,
            folder: &self.folder,
            is_workspace: self.is_workspace,
            approved: &call.reach,
            cancel: &self.cancel,
        })
    }
}

impl Core {
    /// Starts a task that performs this work for a session.
    pub(super) fn labour(self: &Arc<Self>, id: &str, work: Vec<Effect>) {
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
                    Effect::Tell(_) | Effect::Cancel | Effect::Ended | Effect::Report(_) => {}
                }
            }
            core.runners.send_modify(|running| *running -= 1);
        });
    }

    /// Performs a job. If it panics, the turn ends; otherwise the session would wait for its result for ever.
    async fn perform_or_end(self: &Arc<Self>, id: &str, job: Job) -> Vec<Effect> {
        let turn = self.look(id, |room| room.session.turn_id().map(ToOwned::to_owned));
        let (core, session) = (Arc::clone(self), id.to_owned());
        let performed = tokio::spawn(async move { core.perform(&session, job).await }).await;
        performed.unwrap_or_else(|error| {
            tracing::error!(%error, "a step of a turn panicked");
            let ended = self.step(id, |session, scene| session.broke(turn, scene));
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
                self.step(id, |session, scene| session.prepared(prepared, scene))
            }
            Job::Begin => {
                // The caller gets its answer first.
                tokio::task::yield_now().await;
                self.lay_out_tools(id).await;
                self.step(id, |session, scene| session.begin(scene))
            }
            Job::Summarise { target, said } => {
                let summary = self.summarise(id, target, said).await;
                self.step(id, |session, scene| session.summarised(summary, scene))
            }
            Job::Round { number, said } => {
                let ended = self.round(id, number, said).await;
                self.step(id, |session, scene| session.round_ended(ended, scene))
            }
            Job::Decide(call) => {
                let call = self.decide(id, call).await;
                self.step(id, |session, scene| session.decided(call, scene))
            }
            Job::Run(call) => {
                let ran = shallow(self.run_tool(id, call).await);
                // A tool may have created other tools.
                self.renew_tools(id).await;
                self.step(id, |session, scene| session.ran(ran, scene))
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
                self.step(id, |session, scene| session.saved(saved, scene))
            }
        };
        stepped.map(|((), work)| work).unwrap_or_default()
    }

    /// Sends one request to the model of the turn.
    async fn round(self: &Arc<Self>, id: &str, number: u32, said: Vec<Said>) -> Result<Vec<Wanted>, ModelError> {
        let found = self.look(id, |room| {
            let turn = room.session.turn_id()?.to_owned();
            Some((room.setup.clone()?, room.toolset.clone()?, room.workplace(), turn))
        });
        let Some((setup, toolset, place, turn)) = found else {
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
            said,
            tools: Arc::clone(&toolset.offers),
        };
        let hearing = Hearing { core: Arc::clone(self), id: id.to_owned(), turn };
        let heard = ask(setup.models.clone(), round, hearing, place.cancel.clone()).await?.0;
        Ok(heard.calls.into_iter().map(|call| toolset.wanted(call)).collect())
    }

    /// Summarizes a conversation.
    async fn summarise(self: &Arc<Self>, id: &str, target: Target, said: Vec<Said>) -> Result<String, String> {
        let Some((models, cancel)) = self.look(id, |room| Some((room.summariser.clone()?, room.cancel.clone()))) else {
            return Err(ModelError::Cancelled.to_string());
        };
        let round = Round {
            number: 1,
            turn: super::new_id(),
            model: target.model,
            thinking: Thinking::Off,
            routing: routing(&target.routing),
            instructions: instructions::SUMMARY.to_owned(),
            said,
            tools: Arc::from([]),
        };
        let heard = ask(models, round, Noting::default(), cancel).await;
        heard.map(|(_, noting)| noting.0).map_err(|error| error.to_string())
    }

    /// Runs a tool. A tool that does not stop after cancellation is abandoned.
    async fn run_tool(self: &Arc<Self>, id: &str, call: Wanted) -> Ran {
        let found = self.look(id, |room| Some((room.setup.clone()?, room.toolset.clone()?, room.workplace())));
        let Some((setup, toolset, place)) = found else {
            return failed(&call, "error", "the session is gone");
        };
        // The policy may have changed while the call waited for approval.
        if self.is_forbidden(&toolset, &call) {
            return failed(&call, "denied", &forbidden(&call));
        }
        let (core, wanted, cancel) = (Arc::clone(self), call.clone(), place.cancel.clone());
        let mut running = tokio::spawn(async move {
            match place.run(&wanted) {
                Some(run) => core.screened(&wanted, core.bench.run(run).await),
                None => core.call_hub(&wanted, &setup.asker, &place).await,
            }
        });
        let late = async {
            cancel.cancelled().await;
            tokio::time::sleep(PATIENCE).await;
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
        if self.look(id, |room| Some(room.claim.as_ref()?.is_on(&path))).unwrap_or_default() {
            return;
        }
        let claim = self.chats.claim(chat).unwrap_or_else(|error| {
            tracing::debug!(%error, "could not lock a chat");
            None
        });
        if let Some(room) = self.house().sessions.get_mut(id) {
            room.claim = claim;
        }
    }

    async fn write_journal(self: &Arc<Self>, id: &str, chat: Chat, entry: Entry) {
        let (core, turn) = (Arc::clone(self), entry.turn_id.clone());
        let written = tokio::task::spawn_blocking(move || core.chats.journal(&chat, &entry)).await;
        if let Ok(Err(error)) = written {
            let data = serde_json::json!({"message": error.to_string()});
            self.tell_debug(id, &turn, "compaction.event_append_failed", &data);
        }
    }

    fn tell_debug(&self, id: &str, turn: &str, stage: &str, data: &impl Serialize) {
        // Under the lock, as all events of a session.
        let _house = self.house();
        self.followers.tell(&event("session.debug", &Debugged { session_id: id, turn_id: Some(turn), stage, data }));
    }

    pub(super) fn look<T>(&self, id: &str, at: impl FnOnce(&Room) -> Option<T>) -> Option<T> {
        self.house().sessions.get(id).and_then(at)
    }
}

/// Sends a request to a model. If it is cancelled, the request is dropped immediately.
async fn ask<L: Listener + 'static>(
    models: Arc<dyn gladhand_models::Models>,
    round: Round,
    mut listener: L,
    cancel: CancellationToken,
) -> Result<(gladhand_models::Heard, L), ModelError> {
    let stop = cancel.clone();
    let mut asking = tokio::spawn(async move {
        let heard = models.round(&round, &mut listener, &stop).await?;
        Ok((heard, listener))
    });
    tokio::select! {
        biased;
        () = cancel.cancelled() => {
            asking.abort();
            // The task may be in the middle of sending an event.
            let _ = asking.await;
            Err(ModelError::Cancelled)
        }
        heard = &mut asking => {
            heard.unwrap_or_else(|_| Err(ModelError::Failed("the provider failed unexpectedly".to_owned())))
        }
    }
}

/// The provider that runs the model, if one is pinned.
fn routing(word: &str) -> Option<String> {
    (!word.is_empty() && word != "any").then(|| word.to_owned())
}

fn broken(what: &str) -> crate::session::NotReady {
    crate::session::NotReady::NoModel(format!("{what} failed unexpectedly"))
}

/// Receives the output of a turn's model, and applies backpressure from slow clients.
struct Hearing {
    core: Arc<Core>,
    id: String,
    turn: String,
}

#[async_trait]
impl Listener for Hearing {
    async fn piece(&mut self, piece: Piece) {
        self.core.light_step(&self.id, |session, scene| session.heard(&piece, scene));
        self.core.followers.keeping_up().await;
    }

    async fn debug(&mut self, stage: &'static str, data: Box<RawValue>) {
        if self.is_curious() {
            self.core.tell_debug(&self.id, &self.turn, stage, &data);
            self.core.followers.keeping_up().await;
        }
    }

    fn is_curious(&self) -> bool {
        self.core.house().debug
    }
}

/// Collects an answer.
#[derive(Default)]
struct Noting(String);

#[async_trait]
impl Listener for Noting {
    async fn piece(&mut self, piece: Piece) {
        for segment in piece.segments {
            if let Segment::Answer(answer) = segment {
                self.0.push_str(&answer);
            }
        }
    }

    async fn debug(&mut self, _: &'static str, _: Box<RawValue>) {}

    fn is_curious(&self) -> bool {
        false
    }
}
