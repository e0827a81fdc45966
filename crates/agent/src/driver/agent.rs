//! Answers the calls of the agent, with one match arm for each.

use std::path::PathBuf;
use std::sync::Arc;

use gladhand_core::operations::{AgentCall, Failure, FailureKind, ModelChoice};
use gladhand_core::wire::json;
use gladhand_hub::{Agent, Answer, Context, SessionId, Settling};
use gladhand_models::Models;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::answers::{
    Accepted, Answered, Brief, Cleared, Created, Decided, Deleted, Interrupted, Queue, QueueCleared, ShuttingDown,
    Steered, later, now, reading, refused, told,
};
use super::runner::Workplace;
use super::{AgentSettings, Asker, Conversations, Core, GRACE, Room, SESSIONS, new_id, preparing};
use crate::accounts::Chosen;
use crate::moment::Moment;
use crate::payloads::CompactionReport;
use crate::session::{Effect, Job, Prompt, Scene, Session};
use crate::skills::Skills;

/// The result of a compaction, when it is done.
pub(super) type Report = oneshot::Receiver<Result<CompactionReport, String>>;

impl Agent for Conversations {
    fn ask(&self, call: AgentCall<'_>, context: &Context<'_>) -> Answer {
        let core = &self.core;
        core.followers.follow(context.caller);
        let desk = Arc::clone(&core.desk);
        match call {
            AgentCall::State => now(Ok(core.snapshot())),
            AgentCall::Create { title, folder } => now(core.create(title.as_deref(), folder.as_deref(), context)),
            AgentCall::Get(id) => now(core.quick(&id, |session, scene| session.state(scene))),
            AgentCall::List => now(core.list()),
            AgentCall::Delete(id) => core.delete(&id),
            AgentCall::Send { session, text, enqueue, images } => {
                let images = images.into_iter().map(Into::into).collect();
                let prompt = Prompt { text: text.into_owned(), images, enqueue };
                now(core.send(&session, prompt, Asker::of(context)))
            }
            AgentCall::Steer { session, text } => now(core
                .quick(&session, |it, _| json::to_raw(&Steered { session_id: &session, accepted: it.steer(&text) }))),
            AgentCall::Interrupt(session) => now(core.quick(&session, |it, scene| {
                json::to_raw(&Interrupted { session_id: &session, interrupted: it.interrupt(scene) })
            })),
            AgentCall::QueueList(session) => {
                now(core.quick(&session, |it, _| json::to_raw(&Queue { session_id: &session, queue: it.queue() })))
            }
            AgentCall::QueueClear(session) => now(core.quick(&session, |it, scene| {
                json::to_raw(&QueueCleared { session_id: &session, cleared_count: it.clear_queue(scene) })
            })),
            AgentCall::Approve { session, call, allow, always } => now(core.quick(&session, |it, scene| {
                let accepted = it.decide(&call, allow, always, scene);
                json::to_raw(&Decided { session_id: &session, call_id: &call, accepted })
            })),
            AgentCall::ClearSession(session) => {
                let answer = told(&Cleared { session_id: &session, cleared: true });
                core.clear(&session, true, move |_| answer)
            }
            AgentCall::Command { session, line } => core.command(&session, &line),
            AgentCall::AuthStatus => now(Ok(desk.auth_status())),
            AgentCall::SetOpenRouterKey(key) => {
                let (core, key) = (Arc::clone(core), key.into_owned());
                later(async move { Ok(core.changed(desk.set_openrouter_key(&key).await?)) })
            }
            AgentCall::SetExaKey(key) => now(desk.set_exa_key(&key).map(|changed| core.changed(changed))),
            AgentCall::ConnectOpenAi { mode, originator } => {
                let (core, mode) = (Arc::clone(core), mode.map(|mode| mode.into_owned()));
                let originator = originator.map(|originator| originator.into_owned());
                later(async move {
                    let tell = |event| core.followers.tell(&event);
                    let changed = desk.connect_openai(mode.as_deref(), originator.as_deref(), &tell).await?;
                    Ok(core.changed(changed))
                })
            }
            AgentCall::ConnectAntigravity => {
                let core = Arc::clone(core);
                later(async move {
                    let changed = desk.connect_antigravity(&|event| core.followers.tell(&event)).await?;
                    Ok(core.changed(changed))
                })
            }
            AgentCall::OnboardingStatus => now(Ok(desk.onboarding())),
            AgentCall::OnboardingComplete => now(Ok(core.changed(desk.complete_onboarding()))),
            AgentCall::Limits => later(async move { desk.limits().await }),
            AgentCall::Models { provider } => now(desk.models(provider.as_deref())),
            AgentCall::SelectModel(choice) => core.select(choice),
            AgentCall::RoutingProviders(model) => {
                let model = model.into_owned();
                later(async move { desk.routing_providers(&model).await })
            }
            AgentCall::HistoryList { limit, cursor } => {
                let core = Arc::clone(core);
                reading(move || core.history_list(limit, cursor))
            }
            AgentCall::HistoryGet { id, last, path } => {
                let (core, id, path) = (Arc::clone(core), id.map(Into::into), path.map(Into::into));
                reading(move || core.history_get(id, last, path))
            }
            AgentCall::Skills => {
                let core = Arc::clone(core);
                reading(move || Ok(core.look_for_skills()))
            }
            AgentCall::Tools => {
                let (core, asker) = (Arc::clone(core), Asker::of(context));
                later(async move {
                    core.bench.ready().await;
                    Ok(core.toolset(&asker).await.list())
                })
            }
            AgentCall::Debug { everything } => {
                core.house().debug = everything;
                now(told(&serde_json::json!({"super_debug": everything})))
            }
            AgentCall::Shutdown { reason } => {
                core.shut_down(reason.as_deref().unwrap_or("shutdown"));
                now(told(&ShuttingDown { accepted: true, reason: reason.as_deref() }))
            }
            AgentCall::CanApprove => {
                core.followers.approves(context.caller);
                now(told(&serde_json::json!({"accepted": true})))
            }
        }
    }

    fn left(&self, session: SessionId) {
        self.core.followers.leaves(session);
        if !self.core.followers.can_approve() {
            self.core.each(|session, scene| session.left_alone(scene));
        }
    }

    fn closing(&self) -> Settling {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            core.each(|session, scene| session.shut(scene));
            let mut runners = core.runners.subscribe();
            // Jobs that have not ended within the grace period end with their tools.
            let _ = tokio::time::timeout(GRACE, runners.wait_for(|running| *running == 0)).await;
            core.bench.close().await;
            // Releases the chats, so that another process can continue them.
            core.house().sessions.values_mut().for_each(|room| room.claim = None);
        })
    }
}

impl Core {
    /// Runs one step of a session that a client named. The answer is available immediately.
    pub(super) fn quick<T>(
        self: &Arc<Self>,
        id: &str,
        act: impl FnOnce(&mut Session, &mut Scene<'_>) -> T,
    ) -> Result<T, Failure> {
        self.is_known(id)?;
        let (answer, work) = self.step(id, act)?;
        self.labour(id, work);
        Ok(answer)
    }

    /// Runs the same step for every session.
    fn each(self: &Arc<Self>, act: impl Fn(&mut Session, &mut Scene<'_>)) {
        let ids = self.house().order.clone();
        for id in ids {
            if let Ok(((), work)) = self.step(&id, &act) {
                self.labour(&id, work);
            }
        }
    }

    fn create(&self, title: Option<&str>, folder: Option<&str>, context: &Context<'_>) -> Answered {
        let is_chosen = folder.is_some();
        let folder = match folder {
            None => self.settings.folder.clone(),
            Some(folder) => {
                let path = self.settings.folder.join(folder);
                let real = std::fs::canonicalize(&path).ok().filter(|real| real.is_dir());
                real.ok_or_else(|| Failure::invalid_argument("folder", format!("there is no folder {folder}")))?
            }
        };
        // A network peer cannot choose which files are read without approval. If the operator configured roots, no
        // peer can.
        let AgentSettings { roots, folder: launched_in, .. } = &self.settings;
        let is_workspace = !is_chosen
            || roots.is_empty() && context.terms.party.is_none()
            || crate::images::is_within(&folder, std::slice::from_ref(launched_in))
            || !roots.is_empty() && crate::images::is_within(&folder, roots);
        let id = new_id();
        {
            let mut house = self.house();
            if house.sessions.len() >= SESSIONS {
                return Err(Failure::new(FailureKind::Busy, "too many sessions are open; delete some"));
            }
            let session = Session::new(id.clone(), title.and_then(crate::text::title), Moment::now());
            house.sessions.insert(id.clone(), Room { is_workspace, ..Room::new(session, folder, Asker::of(context)) });
            house.order.push(id.clone());
        }
        self.tell_state("session_created", Some(&id));
        let (state, _) = self.step(&id, |session, scene| session.state(scene))?;
        told(&Created { session_id: &id, state })
    }

    fn list(&self) -> Answered {
        let house = self.house();
        let rooms = house.order.iter().filter_map(|id| house.sessions.get(id)).filter(|room| !room.is_leaving);
        let brief = |room: &Room| {
            let (created, updated) = room.session.times();
            Brief {
                id: room.session.id().to_owned(),
                title: room.session.title(),
                created_at: created.text(),
                updated_at: updated.text(),
                pending: room.session.is_busy(),
                status_label: room.session.label().to_owned(),
                message_count: room.session.message_count(),
                folder: room.folder.display().to_string(),
            }
        };
        let sessions: Vec<_> = rooms.map(brief).collect();
        told(&serde_json::json!({ "sessions": sessions }))
    }

    fn delete(self: &Arc<Self>, id: &str) -> Answer {
        let session = id.to_owned();
        self.clear(id, true, move |core| {
            if let Some(room) = core.house().sessions.get_mut(&session) {
                room.is_leaving = true;
            }
            // The session is removed in a step that finds it idle.
            let _ = core.step(&session, |_, _| ());
            core.desk.forget_session(&session);
            let (bench, gone) = (Arc::clone(&core.bench), session.clone());
            tokio::spawn(async move { bench.forget(&gone).await });
            core.tell_state("session_deleted", None);
            told(&Deleted { session_id: &session, deleted: true })
        })
    }

    /// Starts a turn, as far as that is possible immediately, or puts the prompt into the queue.
    fn send(self: &Arc<Self>, id: &str, prompt: Prompt, asker: Asker) -> Answered {
        self.is_known(id)?;
        let (sent, mut work) = self.step(id, |session, scene| session.send(prompt, scene))?;
        let sent = sent?;
        if let Some(room) = self.house().sessions.get_mut(id) {
            room.asker = asker;
        }
        // The turn is prepared before the answer, so that the sender learns immediately if it cannot run.
        if let Some(Effect::Do(Job::Prepare { text, images })) = work.first() {
            let prepared = self.prepare(id, text, images);
            work = self.step(id, |session, scene| session.prepared(prepared, scene))?.1;
        }
        self.labour(id, work);
        told(&Accepted { session_id: id, turn_id: &sent.turn_id, accepted: true, queued: sent.queued })
    }

    /// Clears the history of a session. A running turn is stopped first, and the answer waits for its end.
    pub(super) fn clear(
        self: &Arc<Self>,
        id: &str,
        queue_too: bool,
        answer: impl FnOnce(&Arc<Self>) -> Answered + Send + 'static,
    ) -> Answer {
        let (waiting, ended) = oneshot::channel();
        if let Some(room) = self.house().sessions.get_mut(id) {
            room.waiting.push(waiting);
        }
        let cleared = self.quick(id, |session, scene| {
            if queue_too {
                session.clear_queue(scene);
            }
            session.clear(scene)
        });
        if let Some(room) = self.house().sessions.get_mut(id) {
            room.claim = None;
        }
        match cleared {
            Err(failure) => now(Err(failure)),
            Ok(false) => now(answer(self)),
            Ok(true) => {
                let core = Arc::clone(self);
                later(async move {
                    // If the session is gone, the turn has ended too.
                    let _ = ended.await;
                    answer(&core)
                })
            }
        }
    }

    /// Selects a model. If requested, the conversation is compacted for it first.
    fn select(self: &Arc<Self>, choice: ModelChoice<'_>) -> Answer {
        if !choice.compress {
            return now(self.desk.select(&choice).map(|changed| self.changed(changed)));
        }
        let Some(session) = choice.session.as_deref() else {
            return now(Err(refused("session_id is required when compress_immediately is true")));
        };
        let report = match self.compress_for(session, &choice) {
            Ok(report) => report,
            Err(failure) => return now(Err(failure)),
        };
        let AgentCall::SelectModel(choice) = AgentCall::SelectModel(choice).into_owned() else {
            return now(Err(refused("the choice was lost")));
        };
        let core = Arc::clone(self);
        later(async move {
            let report = report.await.map_err(|_| refused("the session was deleted"))?.map_err(refused)?;
            let selected = core.desk.select(&choice)?;
            let result = core.changed(selected);
            Ok(with_compression(result.get(), report))
        })
    }

    fn compress_for(self: &Arc<Self>, id: &str, choice: &ModelChoice<'_>) -> Result<Report, Failure> {
        self.is_known(id)?;
        let chosen = self.desk.consider(choice)?;
        let models = self.desk.ready(&chosen);
        let has_history = self.house().sessions.get(id).is_some_and(|room| room.session.has_history());
        let target = match &models {
            Ok(models) => preparing::target(&chosen, &**models),
            Err(why) if has_history => return Err(refused(why)),
            Err(_) => preparing::target_of(&chosen),
        };
        let summariser = models.ok();
        self.reported(id, summariser, Some(chosen), |session, scene| session.compress_for(target, scene))
    }

    /// Starts a compaction, and returns a receiver for its result.
    pub(super) fn reported(
        self: &Arc<Self>,
        id: &str,
        summariser: Option<Arc<dyn Models>>,
        considered: Option<Chosen>,
        start: impl FnOnce(&mut Session, &mut Scene<'_>) -> Result<(), Failure>,
    ) -> Result<Report, Failure> {
        let (waiting, report) = oneshot::channel();
        {
            let mut house = self.house();
            let room = house.sessions.get_mut(id).ok_or_else(|| Failure::unknown_session(id))?;
            if room.report.is_some() {
                return Err(refused("the conversation is being compressed already"));
            }
            room.report = Some(waiting);
            room.considered = considered;
            if let Some(summariser) = summariser {
                room.summariser = Some(summariser);
            }
        }
        let started = self.quick(id, start).and_then(|started| started);
        if let (Err(_), Some(room)) = (&started, self.house().sessions.get_mut(id)) {
            (room.report, room.considered) = (None, None);
        }
        started.map(|()| report)
    }

    pub(super) fn shut_down(self: &Arc<Self>, reason: &str) {
        self.tell_state(reason, None);
        self.each(|session, scene| session.shut(scene));
    }

    pub(super) fn look_for_skills(&self) -> Box<json::RawValue> {
        let settings = &self.settings;
        let skills = Skills::scan(&settings.folder, &settings.data, settings.home.as_deref(), &settings.trusted);
        let answer = json::to_raw(&skills);
        self.house().skills = skills;
        answer
    }
}

impl Room {
    /// Where the tools of the session run.
    pub(super) fn workplace(&self) -> Workplace {
        Workplace {
            session: self.session.id().to_owned(),
            folder: self.folder.clone(),
            is_workspace: self.is_workspace,
            cancel: self.cancel.clone(),
        }
    }

    fn new(session: Session, folder: PathBuf, asker: Asker) -> Self {
        Self {
            session,
            folder,
            is_workspace: true,
            asker,
            claim: None,
            cancel: CancellationToken::new(),
            setup: None,
            toolset: None,
            summariser: None,
            considered: None,
            waiting: Vec::new(),
            report: None,
            is_leaving: false,
        }
    }
}

/// The selection, with the result of the compaction.
fn with_compression(selected: &str, report: CompactionReport) -> Box<json::RawValue> {
    #[derive(serde::Serialize)]
    struct Compression {
        requested: bool,
        applied: bool,
        reason: &'static str,
        estimated_tokens_before: u64,
        estimated_tokens_after: u64,
        model_context_window: u64,
        target_limit: u64,
        anchor_event_index_before: u64,
        anchor_event_index_after: u64,
    }
    let compression = Compression {
        requested: true,
        applied: report.compressed,
        reason: report.reason,
        estimated_tokens_before: report.estimated_tokens_before,
        estimated_tokens_after: report.estimated_tokens_after,
        model_context_window: report.model_context_window,
        target_limit: report.target_limit,
        anchor_event_index_before: 0,
        anchor_event_index_after: 0,
    };
    let members = selected.trim_end().trim_end_matches('}');
    json::raw(format!(r#"{members},"compression":{}}}"#, json::to_raw(&compression)))
}
