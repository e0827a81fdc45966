//! Compaction: replaces a conversation by a summary (`loaf` §15).

use gladhand_models::HistoryItem;

use super::ending::End;
use super::history::History;
use super::state::{Activity, READY, Session};
use super::step::{Chat, Job, StepContext, Target};
use super::turn::{Awaits, Turn};
use super::window::{high_watermark, target_limit};
use crate::payloads::{
    AnchorSelected, ChatMessage, CompactionCompleted, CompactionFailed, CompactionReport, CompactionStarted, Role,
    SummaryMerged,
};
use crate::text::{self, thousands};

/// A running compaction.
#[derive(Debug)]
pub(super) struct Compaction {
    reason: &'static str,
    turn_id: Option<String>,
    target: Target,
    /// The token estimate before.
    before: u64,
    /// Whether the summary has replaced the conversation.
    merged: bool,
    /// The provider of the conversation before.
    from: Option<String>,
    /// The error that the compaction resolves: the conversation was too long for the model.
    pub(super) overflow: Option<String>,
}

/// A compaction that a client requested.
#[derive(Debug)]
pub(crate) struct Standalone {
    reason: &'static str,
    target: Target,
    /// Whether users see status labels and notes.
    noted: bool,
    /// Whether the conversation was cleared meanwhile.
    pub(super) discarded: bool,
    compaction: Option<Compaction>,
}

impl Standalone {
    /// A compaction that the user requested.
    pub(super) fn manual(target: Target) -> Self {
        Self { reason: "manual", target, noted: true, discarded: false, compaction: None }
    }

    /// A compaction that is part of another call.
    pub(super) fn quiet(reason: &'static str, target: Target) -> Self {
        Self { reason, target, noted: false, discarded: false, compaction: None }
    }
}

impl Compaction {
    pub(super) fn is_merged(&self) -> bool {
        self.merged
    }

    fn turn_id(&self) -> Option<&str> {
        self.turn_id.as_deref()
    }
}

impl Session {
    /// The summary is available, or could not be created.
    pub(crate) fn summarised(&mut self, summary: Result<String, String>, context: &mut StepContext<'_>) {
        let summary = summary.and_then(|summary| match text::trim(&summary) {
            "" => Err("the model returned no summary".to_owned()),
            summary => Ok(summary.to_owned()),
        });
        if let Activity::Compaction(_) = self.activity {
            return self.standalone_summarised(summary, context);
        }
        let is_awaited = |awaits: &Awaits| match awaits {
            Awaits::Summary(compaction) | Awaits::Recovery(compaction) => !compaction.merged,
            _ => false,
        };
        let Some(mut turn) = self.turn_that(is_awaited) else { return };
        let (mut compaction, recovers) = match std::mem::replace(&mut turn.awaits, Awaits::Round) {
            Awaits::Summary(compaction) => (compaction, false),
            Awaits::Recovery(compaction) => (compaction, true),
            _ => return,
        };
        match summary {
            _ if turn.stop.is_some() => {
                self.compaction_failed(&compaction, "Request was aborted.", context);
                if recovers {
                    // The partial answer is already in the history.
                    self.conclude(turn, &End::Interrupted { partial: false }, context);
                } else {
                    self.finish_interrupted(turn, context);
                }
            }
            Ok(summary) => {
                self.merge(&mut compaction, &summary, context);
                let awaits = if recovers { Awaits::Recovery(compaction) } else { Awaits::Summary(compaction) };
                self.wait(turn, awaits);
            }
            Err(why) => {
                let message = self.compaction_failed(&compaction, &why, context);
                match &compaction.overflow {
                    Some(overflow) => {
                        self.note(context, format!("inference error: {overflow}"));
                        self.note(context, format!("auto-compression failed: {message}"));
                    }
                    None => self.note(context, format!("inference error: {message}")),
                }
                self.conclude(turn, &End::Failed(message), context);
            }
        }
    }

    /// The chat with the summary was saved before a turn: the turn continues.
    pub(super) fn summary_saved(
        &mut self,
        turn: Box<Turn>,
        compaction: &Compaction,
        saved: Result<(), String>,
        context: &mut StepContext<'_>,
    ) {
        let report = self.compaction_done(compaction, saved, context);
        let (before, after) = (thousands(report.estimated_tokens_before), thousands(report.estimated_tokens_after));
        let window = compaction.target.window;
        self.note(
            context,
            match &compaction.from {
                Some(from) if compaction.reason == "provider_switch" => {
                    let to = &compaction.target.provider;
                    format!("provider switched: {from} -> {to}. context compressed ({before} -> {after} est. tokens).")
                }
                _ => {
                    let (limit, window) = (thousands(high_watermark(window)), thousands(window));
                    format!(
                        "context compression (auto): {before} -> {after} est. tokens (limit {limit} / window {window})."
                    )
                }
            },
        );
        match turn.stop {
            Some(_) => self.finish_interrupted(turn, context),
            None => self.converse(turn, context),
        }
    }

    /// The chat with the summary of a too long conversation was saved: another turn continues it.
    pub(super) fn recovery_saved(
        &mut self,
        turn: Box<Turn>,
        compaction: &Compaction,
        saved: Result<(), String>,
        context: &mut StepContext<'_>,
    ) {
        let report = self.compaction_done(compaction, saved, context);
        let (before, after) = (thousands(report.estimated_tokens_before), thousands(report.estimated_tokens_after));
        let sizes = format!("{before} -> {after} est. tokens");
        self.note(context, format!("context overflow detected; compressed context ({sizes}). continuing..."));
        match turn.stop {
            Some(_) => self.conclude(turn, &End::Interrupted { partial: false }, context),
            None => self.continue_later(turn, context),
        }
    }

    /// Starts a compaction that a client requested. If the history is empty, it ends immediately.
    pub(super) fn compact(
        &mut self,
        mut standalone: Standalone,
        about: Option<HistoryItem>,
        context: &mut StepContext<'_>,
    ) {
        if self.history.is_empty() {
            let tokens = if standalone.noted { context.request_sizes.pinned } else { 0 };
            let window = standalone.target.window;
            let (reason, limit) = match standalone.noted {
                true => (standalone.reason, target_limit(window)),
                false => ("none", high_watermark(window)),
            };
            let nothing = report(false, reason, tokens, tokens, window, limit);
            return self.standalone_ended(&standalone, Ok(nothing), context);
        }
        let compaction = self.start_compaction(standalone.reason, None, standalone.target.clone(), about, context);
        standalone.compaction = Some(compaction);
        self.activity = Activity::Compaction(Box::new(standalone));
    }

    fn standalone_summarised(&mut self, summary: Result<String, String>, context: &mut StepContext<'_>) {
        let Some((mut standalone, mut compaction)) = self.take_standalone(false) else { return };
        let summary = summary.and_then(|summary| match standalone.discarded {
            true => Err("the conversation was cleared meanwhile".to_owned()),
            false => Ok(summary),
        });
        match summary {
            Ok(summary) => {
                self.merge(&mut compaction, &summary, context);
                standalone.compaction = Some(compaction);
                self.activity = Activity::Compaction(standalone);
            }
            Err(why) => {
                let message = self.compaction_failed(&compaction, &why, context);
                self.standalone_ended(&standalone, Err(message), context);
            }
        }
    }

    pub(super) fn standalone_saved(&mut self, saved: Result<(), String>, context: &mut StepContext<'_>) {
        let Some((standalone, compaction)) = self.take_standalone(true) else { return };
        let report = self.compaction_done(&compaction, saved, context);
        if standalone.noted {
            let (before, after) = (thousands(report.estimated_tokens_before), thousands(report.estimated_tokens_after));
            self.note(context, format!("context compression complete: {before} -> {after} est. tokens."));
        }
        self.standalone_ended(&standalone, Ok(report), context);
    }

    fn standalone_ended(
        &mut self,
        standalone: &Standalone,
        report: Result<CompactionReport, String>,
        context: &mut StepContext<'_>,
    ) {
        self.activity = Activity::Idle;
        self.updated_at = context.now;
        if standalone.noted {
            self.status(context, READY, None);
        } else {
            self.label = READY.to_owned();
        }
        context.effects.push(super::step::Effect::Ended);
        self.drain(context);
        context.effects.push(super::step::Effect::Report(report));
    }

    fn take_standalone(&mut self, merged: bool) -> Option<(Box<Standalone>, Compaction)> {
        match std::mem::replace(&mut self.activity, Activity::Idle) {
            Activity::Compaction(mut standalone)
                if standalone.compaction.as_ref().is_some_and(|running| running.merged == merged) =>
            {
                let compaction = standalone.compaction.take()?;
                Some((standalone, compaction))
            }
            other => {
                self.activity = other;
                None
            }
        }
    }

    /// Requests a summary. `about` describes unfinished work.
    pub(super) fn start_compaction(
        &mut self,
        reason: &'static str,
        turn_id: Option<&str>,
        target: Target,
        about: Option<HistoryItem>,
        context: &mut StepContext<'_>,
    ) -> Compaction {
        let started = CompactionStarted {
            session_id: &self.id,
            turn_id,
            reason,
            anchor_event_index_before: 0,
            event_count: self.history.messages().len(),
            context_window_tokens: target.window,
        };
        context.emit("compaction.started", &started);
        let mut history = self.history.items();
        history.extend(about);
        history.push(HistoryItem::User { text: crate::instructions::SUMMARY_WISH.to_owned(), images: Vec::new() });
        context.request_job(Job::Summarise { target: target.clone(), history });
        let before = context.request_sizes.pinned + self.history.tokens();
        let (turn_id, from) = (turn_id.map(Into::into), self.conversation_provider.clone());
        Compaction { reason, turn_id, target, before, merged: false, from, overflow: None }
    }

    /// Replaces the conversation by the summary, and saves it.
    fn merge(&mut self, compaction: &mut Compaction, summary: &str, context: &mut StepContext<'_>) {
        let count = self.history.messages().len();
        let text = format!("## Conversation Summary\n\n{summary}");
        self.history = History::of(vec![ChatMessage { role: Role::Assistant, text, images: Vec::new() }]);
        self.conversation_provider = Some(compaction.target.provider.clone());
        compaction.merged = true;
        let selected = AnchorSelected {
            session_id: &self.id,
            turn_id: compaction.turn_id(),
            reason: compaction.reason,
            anchor_event_index_before: 0,
            anchor_event_index_after: 0,
            delta_event_count: count,
        };
        context.emit("compaction.anchor_selected", &selected);
        let merged = SummaryMerged {
            session_id: &self.id,
            turn_id: compaction.turn_id(),
            summary_updated_at: context.now.text(),
            anchor_event_index_after: 0,
        };
        context.emit("compaction.summary_merged", &merged);
        if self.chat.is_none() {
            self.chat = Some(Chat::new((context.new_id)(), context.now, "compressed conversation".to_owned()));
        }
        if let Some(file) = self.chat_file(compaction.target.clone(), context) {
            context.request_job(Job::Save(file));
        }
    }

    fn compaction_done(
        &mut self,
        compaction: &Compaction,
        saved: Result<(), String>,
        context: &mut StepContext<'_>,
    ) -> CompactionReport {
        if let Err(why) = saved {
            self.note(context, format!("chat history save failed: {why}"));
        }
        let window = compaction.target.window;
        let after = context.request_sizes.pinned + self.history.tokens();
        let completed = CompactionCompleted {
            session_id: &self.id,
            turn_id: compaction.turn_id(),
            compressed: true,
            reason: compaction.reason,
            estimated_tokens_before: compaction.before,
            estimated_tokens_after: after,
            model_context_window: window,
            target_limit: target_limit(window),
            high_watermark_limit: high_watermark(window),
            anchor_event_index_before: 0,
            anchor_event_index_after: 0,
        };
        context.emit("compaction.completed", &completed);
        self.estimate(context);
        report(true, compaction.reason, compaction.before, after, window, target_limit(window))
    }

    /// Sends the event about a failed compaction, and returns the error message.
    fn compaction_failed(&self, compaction: &Compaction, why: &str, context: &mut StepContext<'_>) -> String {
        let failed = CompactionFailed {
            session_id: &self.id,
            turn_id: compaction.turn_id(),
            reason: compaction.reason,
            message: why,
        };
        context.emit("compaction.failed", &failed);
        format!("context compaction failed: {why}")
    }
}

fn report(
    compressed: bool,
    reason: &'static str,
    before: u64,
    after: u64,
    window: u64,
    target_limit: u64,
) -> CompactionReport {
    CompactionReport {
        compressed,
        reason,
        estimated_tokens_before: before,
        estimated_tokens_after: after,
        model_context_window: window,
        target_limit,
        anchor_event_index_before: 0,
        anchor_event_index_after: 0,
    }
}
