//! Answers the calls of the agent, with one match arm for each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gladhand_core::operations::{AgentCall, Failure, FailureKind, ModelChoice};
use gladhand_core::wire::json;
use gladhand_hub::{Agent, Answer, Context, SessionId, Settling};
use gladhand_models::Models;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::answers::{
    Accepted, Answered, Brief, Cleared, Created, Decided, Deleted, Interrupted, Queue, QueueCleared, ShuttingDown,
    Steered, json_answer, later, now, reading, refused,
};
use super::runner::ToolContext;
use super::{AgentSettings, Conversations, Core, GRACE, Requester, SESSIONS, SessionEntry, new_id, preparing};
use crate::accounts::Chosen;
use crate::moment::Moment;
use crate::payloads::CompactionReport;
use crate::session::{Effect, Job, Prompt, Session, StepContext};
use crate::skills::Skills;

/// The result of a compaction, when it is done.
pub(super) type Report = oneshot::Receiver<Result<CompactionReport, String>>;

impl Agent for Conversations {
    fn ask(&self, call: AgentCall<'_>, context: &Context<'_>) -> Answer {
        let core = &self.core;
        core.followers.follow(context.caller);
        let accounts = Arc::clone(&core.accounts);
        match call {
            AgentCall::State => now(Ok(core.snapshot())),
            AgentCall::Create { title, folder } => now(core.create(title.as_deref(), folder.as_deref(), context)),
            AgentCall::Get(id) => now(core.step_now(&id, |session, step_context| session.state(step_context))),
            AgentCall::List => now(core.list()),
            AgentCall::Delete(id) => core.delete(&id),
            AgentCall::Send { session, text, enqueue, images } => {
                let images = images.into_iter().map(Into::into).collect();
                let prompt = Prompt { text: text.into_owned(), images, enqueue };
                now(core.send(&session, prompt, Requester::of(context)))
            }
            AgentCall::Steer { session, text } => now(core.step_now(&session, |it, _| {
                json::to_raw(&Steered { session_id: &session, accepted: it.steer(&text) })
            })),
            AgentCall::Interrupt(session) => now(core.step_now(&session, |it, step_context| {
                json::to_raw(&Interrupted { session_id: &session, interrupted: it.interrupt(step_context) })
            })),
            AgentCall::QueueList(session) => {
                now(core.step_now(&session, |it, _| json::to_raw(&Queue { session_id: &session, queue: it.queue() })))
            }
            AgentCall::QueueClear(session) => now(core.step_now(&session, |it, step_context| {
                json::to_raw(&QueueCleared { session_id: &session, cleared_count: it.clear_queue(step_context) })
            })),
            AgentCall::Approve { session, call, allow, always } => now(core.step_now(&session, |it, step_context| {
                let accepted = it.decide(&call, allow, always, step_context);
                json::to_raw(&Decided { session_id: &session, call_id: &call, accepted })
            })),
            AgentCall::ClearSession(session) => {
                let answer = json_answer(&Cleared { session_id: &session, cleared: true });
                core.clear(&session, true, move |_| answer)
            }
            AgentCall::Command { session, line } => core.command(&session, &line),
            AgentCall::AuthStatus => now(Ok(accounts.auth_status())),
            AgentCall::SetOpenRouterKey(key) => {
                let (core, key) = (Arc::clone(core), key.into_owned());
                later(async move { Ok(core.changed(accounts.set_openrouter_key(&key).await?)) })
            }
            AgentCall::SetExaKey(key) => now(accounts.set_exa_key(&key).map(|changed| core.changed(changed))),
            AgentCall::ConnectOpenAi { mode, originator } => {
                let (core, mode) = (Arc::clone(core), mode.map(|mode| mode.into_owned()));
                let originator = originator.map(|originator| originator.into_owned());
                later(async move {
                    let events = |event| core.followers.emit(&event);
                    let changed = accounts.connect_openai(mode.as_deref(), originator.as_deref(), &events).await?;
                    Ok(core.changed(changed))
                })
            }
            AgentCall::ConnectAntigravity => {
                let core = Arc::clone(core);
                later(async move {
                    let changed = accounts.connect_antigravity(&|event| core.followers.emit(&event)).await?;
                    Ok(core.changed(changed))
                })
            }
            AgentCall::OnboardingStatus => now(Ok(accounts.onboarding())),
            AgentCall::OnboardingComplete => now(Ok(core.changed(accounts.complete_onboarding()))),
            AgentCall::Limits => later(async move { accounts.limits().await }),
            AgentCall::Models { provider } => now(accounts.models(provider.as_deref())),
            AgentCall::SelectModel(choice) => core.select(*choice),
            AgentCall::RoutingProviders(model) => {
                let model = model.into_owned();
                later(async move { accounts.routing_providers(&model).await })
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
                let (core, requester) = (Arc::clone(core), Requester::of(context));
                later(async move {
                    core.tool_provider.ready().await;
                    Ok(core.offered_tools(&requester).await.list())
                })
            }
            AgentCall::Debug { everything } => {
                core.shared().debug = everything;
                now(json_answer(&serde_json::json!({"super_debug": everything})))
            }
            AgentCall::Shutdown { reason } => {
                core.shut_down(reason.as_deref().unwrap_or("shutdown"));
                now(json_answer(&ShuttingDown { accepted: true, reason: reason.as_deref() }))
            }
            AgentCall::CanApprove => {
                core.followers.approves(context.caller);
                now(json_answer(&serde_json::json!({"accepted": true})))
            }
        }
    }

    fn left(&self, session: SessionId) {
        self.core.followers.remove(session);
        if !self.core.followers.can_approve() {
            self.core.each(|session, step_context| session.approvers_left(step_context));
        }
    }

    fn closing(&self) -> Settling {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            core.each(|session, step_context| session.shut_down(step_context));
            let mut runners = core.runners.subscribe();
            // Jobs that have not ended within the grace period end with their tools.
            let _ = tokio::time::timeout(GRACE, runners.wait_for(|running| *running == 0)).await;
            core.tool_provider.close().await;
            // Releases the chats, so that another process can continue them.
            core.shared().sessions.values_mut().for_each(|entry| entry.claim = None);
        })
    }
}

impl Core {
    /// Runs one step of a session that a client named. The answer is available immediately.
    pub(super) fn step_now<T>(
        self: &Arc<Self>,
        id: &str,
        act: impl FnOnce(&mut Session, &mut StepContext<'_>) -> T,
    ) -> Result<T, Failure> {
        self.is_known(id)?;
        let (answer, work) = self.step(id, act)?;
        self.spawn_work(id, work);
        Ok(answer)
    }

    /// Runs the same step for every session.
    fn each(self: &Arc<Self>, act: impl Fn(&mut Session, &mut StepContext<'_>)) {
        let ids = self.shared().order.clone();
        for id in ids {
            if let Ok(((), work)) = self.step(&id, &act) {
                self.spawn_work(&id, work);
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
            || is_below_launch_folder(&folder, launched_in)
            || !roots.is_empty() && crate::images::is_within(&folder, roots);
        let id = new_id();
        {
            let mut shared = self.shared();
            if shared.sessions.len() >= SESSIONS {
                return Err(Failure::new(FailureKind::Busy, "too many sessions are open; delete some"));
            }
            let session = Session::new(id.clone(), title.and_then(crate::text::title), Moment::now());
            shared.sessions.insert(
                id.clone(),
                SessionEntry { is_workspace, ..SessionEntry::new(session, folder, Requester::of(context)) },
            );
            shared.order.push(id.clone());
        }
        self.announce_state("session_created", Some(&id));
        let (state, _) = self.step(&id, |session, step_context| session.state(step_context))?;
        json_answer(&Created { session_id: &id, state })
    }

    fn list(&self) -> Answered {
        let shared = self.shared();
        let entries = shared.order.iter().filter_map(|id| shared.sessions.get(id)).filter(|entry| !entry.is_leaving);
        let brief = |entry: &SessionEntry| {
            let (created, updated) = entry.session.times();
            Brief {
                id: entry.session.id().to_owned(),
                title: entry.session.title(),
                created_at: created.text(),
                updated_at: updated.text(),
                pending: entry.session.is_busy(),
                status_label: entry.session.label().to_owned(),
                message_count: entry.session.message_count(),
                folder: entry.folder.display().to_string(),
            }
        };
        let sessions: Vec<_> = entries.map(brief).collect();
        json_answer(&serde_json::json!({ "sessions": sessions }))
    }

    fn delete(self: &Arc<Self>, id: &str) -> Answer {
        let session = id.to_owned();
        self.clear(id, true, move |core| {
            if let Some(entry) = core.shared().sessions.get_mut(&session) {
                entry.is_leaving = true;
            }
            // The session is removed in a step that finds it idle.
            let _ = core.step(&session, |_, _| ());
            core.accounts.forget_session(&session);
            let (tool_provider, gone) = (Arc::clone(&core.tool_provider), session.clone());
            tokio::spawn(async move { tool_provider.forget(&gone).await });
            core.announce_state("session_deleted", None);
            json_answer(&Deleted { session_id: &session, deleted: true })
        })
    }

    /// Starts a turn, as far as that is possible immediately, or puts the prompt into the queue.
    fn send(self: &Arc<Self>, id: &str, prompt: Prompt, requester: Requester) -> Answered {
        self.is_known(id)?;
        let (sent, mut work) = self.step(id, |session, step_context| session.send(prompt, step_context))?;
        let sent = sent?;
        if let Some(entry) = self.shared().sessions.get_mut(id) {
            entry.requester = requester;
        }
        // The turn is prepared before the answer, so that the sender learns immediately if it cannot run.
        if let Some(Effect::Do(Job::Prepare { text, images })) = work.first() {
            let prepared = self.prepare(id, text, images);
            work = self.step(id, |session, step_context| session.prepared(prepared, step_context))?.1;
        }
        self.spawn_work(id, work);
        json_answer(&Accepted { session_id: id, turn_id: &sent.turn_id, accepted: true, queued: sent.queued })
    }

    /// Clears the history of a session. A running turn is stopped first, and the answer waits for its end.
    pub(super) fn clear(
        self: &Arc<Self>,
        id: &str,
        queue_too: bool,
        answer: impl FnOnce(&Arc<Self>) -> Answered + Send + 'static,
    ) -> Answer {
        let (waiting, ended) = oneshot::channel();
        if let Some(entry) = self.shared().sessions.get_mut(id) {
            entry.waiting.push(waiting);
        }
        let cleared = self.step_now(id, |session, step_context| {
            if queue_too {
                session.clear_queue(step_context);
            }
            session.clear(step_context)
        });
        if let Some(entry) = self.shared().sessions.get_mut(id) {
            entry.claim = None;
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
            return now(self.accounts.select(&choice).map(|changed| self.changed(changed)));
        }
        let Some(session) = choice.session.as_deref() else {
            return now(Err(refused("session_id is required when compress_immediately is true")));
        };
        let report = match self.compress_for(session, &choice) {
            Ok(report) => report,
            Err(failure) => return now(Err(failure)),
        };
        let AgentCall::SelectModel(choice) = AgentCall::SelectModel(Box::new(choice)).into_owned() else {
            return now(Err(refused("the choice was lost")));
        };
        let core = Arc::clone(self);
        later(async move {
            let report = report.await.map_err(|_| refused("the session was deleted"))?.map_err(refused)?;
            let selected = core.accounts.select(&choice)?;
            let result = core.changed(selected);
            Ok(with_compression(result.get(), report))
        })
    }

    fn compress_for(self: &Arc<Self>, id: &str, choice: &ModelChoice<'_>) -> Result<Report, Failure> {
        self.is_known(id)?;
        let chosen = self.accounts.consider(choice)?;
        let models = self.accounts.ready(&chosen);
        let has_history = self.shared().sessions.get(id).is_some_and(|entry| entry.session.has_history());
        let target = match &models {
            Ok(models) => preparing::target(&chosen, &**models),
            Err(why) if has_history => return Err(refused(why)),
            Err(_) => preparing::target_of(&chosen),
        };
        let summariser = models.ok();
        self.reported(id, summariser, Some(chosen), |session, step_context| session.compress_for(target, step_context))
    }

    /// Starts a compaction, and returns a receiver for its result.
    pub(super) fn reported(
        self: &Arc<Self>,
        id: &str,
        summariser: Option<Arc<dyn Models>>,
        considered: Option<Chosen>,
        start: impl FnOnce(&mut Session, &mut StepContext<'_>) -> Result<(), Failure>,
    ) -> Result<Report, Failure> {
        let (waiting, report) = oneshot::channel();
        {
            let mut shared = self.shared();
            let entry = shared.sessions.get_mut(id).ok_or_else(|| Failure::unknown_session(id))?;
            if entry.report.is_some() {
                return Err(refused("the conversation is being compressed already"));
            }
            entry.report = Some(waiting);
            entry.considered = considered;
            if let Some(summariser) = summariser {
                entry.summariser = Some(summariser);
            }
        }
        let started = self.step_now(id, start).and_then(|started| started);
        if let (Err(_), Some(entry)) = (&started, self.shared().sessions.get_mut(id)) {
            (entry.report, entry.considered) = (None, None);
        }
        started.map(|()| report)
    }

    pub(super) fn shut_down(self: &Arc<Self>, reason: &str) {
        self.announce_state(reason, None);
        self.each(|session, step_context| session.shut_down(step_context));
    }

    pub(super) fn look_for_skills(&self) -> Box<json::RawValue> {
        let settings = &self.settings;
        let skills = Skills::scan(&settings.folder, &settings.data, settings.home.as_deref(), &settings.trusted);
        let answer = json::to_raw(&skills);
        self.shared().skills = skills;
        answer
    }
}

impl SessionEntry {
    /// Where the tools of the session run.
    pub(super) fn tool_context(&self) -> ToolContext {
        ToolContext {
            session: self.session.id().to_owned(),
            folder: self.folder.clone(),
            is_workspace: self.is_workspace,
            cancel: self.cancel.clone(),
        }
    }

    fn new(session: Session, folder: PathBuf, requester: Requester) -> Self {
        Self {
            session,
            folder,
            is_workspace: true,
            requester,
            claim: None,
            cancel: CancellationToken::new(),
            setup: None,
            offered_tools: None,
            summariser: None,
            considered: None,
            waiting: Vec::new(),
            report: None,
            is_leaving: false,
        }
    }
}

/// The selection, with the result of the compaction.
/// Whether a folder is below the folder that this process was started in. A service that is started in `/` has no launch
/// folder, because every folder would be below it.
fn is_below_launch_folder(folder: &Path, launched_in: &Path) -> bool {
    launched_in.canonicalize().is_ok_and(|real| real.parent().is_some())
        && crate::images::is_within(folder, &[launched_in.to_owned()])
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_directory_is_no_launch_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, link) = (folder.path().join("inner"), folder.path().join("link"));
        std::fs::create_dir(&inner).unwrap();
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(is_below_launch_folder(&inner, folder.path()));
        assert!(!is_below_launch_folder(folder.path(), &inner));
        for launched_in in [Path::new("/"), &link, Path::new("/..")] {
            assert!(!is_below_launch_folder(&inner, launched_in), "{}", launched_in.display());
        }
    }
}
