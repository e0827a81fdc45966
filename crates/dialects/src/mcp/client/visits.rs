//! Calls that are refused until the user has visited a page (`-32042` of 2025-11-25).
//!
//! The caller is asked to visit the pages. Consent is not yet a visit. The call is repeated when the upstream reports
//! the visit as complete, or after a pause: not every upstream reports it.

use std::time::Duration;

use gladhand_core::Order as _;
use gladhand_core::negotiation::Side;
use gladhand_core::operations::{Answered, CallId, Failure, FailureKind, Question, QuestionKind};
use gladhand_core::wire::{Members, RawValue};

use super::McpClient;
use super::questions::Asker;
use super::results;
use super::rounds::MAX_ROUNDS;
use super::work::{OutgoingRequest, Work};
use crate::mcp::errors::URL_ELICITATION_REQUIRED;
use crate::side::Heard;

/// Pause before a call is repeated without a report that the visit is complete.
const PAUSE: Duration = Duration::from_secs(5);

/// A call that waits for visits.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) work: Box<Work>,
    /// The error that refused the call.
    error: Box<RawValue>,
    pages: Vec<Page>,
    /// When to repeat the call, once the user has agreed to visit all pages.
    pub(super) due: Option<Duration>,
}

#[derive(Debug)]
struct Page {
    id: String,
    is_agreed: bool,
    is_visited: bool,
}

/// The pages in an error, with the parameters of `elicitation/create`.
pub(super) fn pages(error: &RawValue) -> Vec<&RawValue> {
    let Some(error) = Members::of(error) else { return Vec::new() };
    if error.raw("code").and_then(|code| code.get().parse().ok()) != Some(URL_ELICITATION_REQUIRED) {
        return Vec::new();
    }
    let pages = error.object("data").and_then(|data| data.raw("elicitations")).and_then(results::array);
    pages.unwrap_or_default()
}

/// The id of a page. `None` if the page has no URL or no id.
fn id_of(page: &RawValue) -> Option<String> {
    let page = Members::of(page).filter(|page| page.str("mode").as_deref() == Some("url") && page.str("url").is_some());
    page?.str("elicitationId").map(Into::into)
}

impl McpClient {
    /// Whether the caller can be asked to visit the pages of an error.
    pub(super) fn wants_visits(&self, work: &Work, error: &RawValue) -> bool {
        if !self.spoken().has_url_elicitation_required() || !self.is_agreed(Side::Client, "elicitation.url") {
            return false;
        }
        let pages = pages(error);
        let fits = self.may_ask(pages.len(), work.party) && work.rounds < MAX_ROUNDS;
        fits && !pages.is_empty() && pages.iter().all(|page| id_of(page).is_some())
    }

    /// Asks for the visits, and repeats the call after them. A page that the user agreed to before is not asked for
    /// again.
    pub(super) fn visit_first(&mut self, mut work: Box<Work>, error: &RawValue, now: Duration, heard: &mut Heard) {
        work.rounds += 1;
        let call = work.call;
        let pages: Vec<_> = pages(error).into_iter().filter_map(|page| Some((id_of(page)?, page))).collect();
        let agreed = |id: &String| work.asked_keys.contains(id);
        let page = |(id, _): &(String, _)| Page { id: id.clone(), is_agreed: agreed(id), is_visited: false };
        let asked: Vec<_> = pages.iter().filter(|(id, _)| !agreed(id)).cloned().collect();
        let pages = pages.iter().map(page).collect();
        self.visits.insert(call, Visit { work, error: error.to_owned(), pages, due: None });
        for (id, page) in asked {
            let question = Question { key: Some(id.clone()), kind: QuestionKind::Elicit, params: page.to_owned() };
            self.pass_on(Asker::Page(call, id), Some(call), question, heard);
        }
        self.continue_after_visits(call, now, heard);
    }

    /// Handles the answer to a request to visit a page. If the user declines, the call fails. If the user could not be
    /// asked, the caller gets the upstream's error.
    pub(super) fn page_answered(
        &mut self,
        call: CallId,
        id: &str,
        answered: Answered,
        now: Duration,
        heard: &mut Heard,
    ) {
        let action =
            answered.map(|answer| Members::of(&answer).and_then(|answer| answer.str("action").map(String::from)));
        if let (Ok(Some("accept")), Some(visit)) = (action.as_ref().map(Option::as_deref), self.visits.get_mut(&call)) {
            visit.work.asked_keys.insert(id.to_owned());
            visit.pages.iter_mut().filter(|page| page.id == id).for_each(|page| page.is_agreed = true);
            return self.continue_after_visits(call, now, heard);
        }
        let Some(visit) = self.abandon_visit(call, heard) else { return };
        let refusal = visit.work.kind.failure(&visit.error);
        let failure = match action {
            Ok(_) => Failure::new(FailureKind::Unanswered, format!("declined: {}", refusal.message)),
            Err(_) => refusal,
        };
        self.done(&visit.work, Err(failure), heard);
    }

    /// The upstream reports that a visit is complete.
    pub(super) fn page_visited(&mut self, id: &str, now: Duration, heard: &mut Heard) {
        let mut calls = Vec::new();
        for (call, visit) in &mut self.visits {
            for page in visit.pages.iter_mut().filter(|page| page.id == id) {
                page.is_visited = true;
                calls.push(*call);
            }
        }
        calls.order();
        calls.into_iter().for_each(|call| self.continue_after_visits(call, now, heard));
    }

    /// Repeats the calls whose pause is over.
    pub(super) fn repeat_due_calls(&mut self, now: Duration, heard: &mut Heard) {
        let due = self.visits.iter().filter(|(_, visit)| visit.due.is_some_and(|due| due <= now));
        let mut due: Vec<_> = due.map(|(call, _)| *call).collect();
        due.order();
        for call in due {
            if let Some(visit) = self.visits.remove(&call) {
                self.send_again(OutgoingRequest::Work(visit.work), heard);
            }
        }
    }

    /// Removes a call from its visits and withdraws the questions.
    pub(super) fn abandon_visit(&mut self, call: CallId, heard: &mut Heard) -> Option<Visit> {
        let visit = self.visits.remove(&call)?;
        self.unask(call, heard);
        Some(visit)
    }

    fn continue_after_visits(&mut self, call: CallId, now: Duration, heard: &mut Heard) {
        let Some(visit) = self.visits.get_mut(&call).filter(|visit| visit.pages.iter().all(|page| page.is_agreed))
        else {
            return;
        };
        if visit.pages.iter().all(|page| page.is_visited) {
            visit.due = Some(now);
            self.repeat_due_calls(now, heard);
        } else {
            visit.due.get_or_insert(now + PAUSE);
        }
    }
}
