//! Handles the notifications of the upstream.

use std::time::Duration;

use gladhand_core::negotiation::{Closed, Side};
use gladhand_core::operations::{CallId, Log, Notice, Progress, Update};
use gladhand_core::wire::json::{self, RawValue};
use gladhand_core::wire::{Members, pick};

use super::{McpClient, our_id};
use crate::mcp::meta;
use crate::rule_violation::NOTIFICATION_NOT_AGREED;
use crate::side::{Event, Heard, Lane, Unagreed};

impl McpClient {
    pub(super) fn notification(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        lane: Lane,
        now: Duration,
        heard: &mut Heard,
    ) {
        let Some(in_force) = self.in_force() else {
            heard.events.push(Event::Dropped("a notification before the session was open"));
            return;
        };
        match in_force.gate.admit(Side::Server, method) {
            Ok(_) => {}
            Err(Closed::NotAgreed(_)) if self.unagreed == Unagreed::Passes || is_informational(method) => {
                heard.events.push(Event::Passed(NOTIFICATION_NOT_AGREED));
            }
            Err(_) => return heard.events.push(Event::Dropped(NOTIFICATION_NOT_AGREED)),
        }
        let subscribed = self.is_of_subscription(params);
        let notice = match method {
            "notifications/cancelled" => return self.cancelled_by_upstream(params, now, heard),
            "notifications/subscriptions/acknowledged" => return self.listen_acknowledged(params, heard),
            "notifications/progress" => self.progress(params),
            "notifications/message" => params.and_then(log).map(|log| Notice::Log(self.call_of_exchange(lane), log)),
            "notifications/tools/list_changed" if subscribed => Some(Notice::ToolsChanged),
            "notifications/resources/list_changed" if subscribed => Some(Notice::ResourcesChanged),
            "notifications/prompts/list_changed" if subscribed => Some(Notice::PromptsChanged),
            "notifications/resources/updated" if subscribed => {
                text(params, "uri").map(|uri| Notice::ResourceUpdated(Update::of(uri)))
            }
            "notifications/elicitation/complete" => {
                let id = text(params, "elicitationId");
                id.iter().for_each(|id| self.page_visited(id, now, heard));
                id.map(Notice::ElicitationComplete)
            }
            _ => None,
        };
        heard.events.push(notice.map_or(Event::Dropped("a notification without a recipient"), Event::Notice));
    }

    fn progress(&self, params: Option<&RawValue>) -> Option<Notice> {
        let [token, progress, total, message] = pick(params?, ["progressToken", "progress", "total", "message"])?;
        let call = self.call_of_token(our_id(token?.get())?)?;
        let number = |raw: &RawValue| raw.get().parse::<f64>().ok();
        let progress = Progress {
            progress: number(progress?)?,
            total: total.and_then(number),
            message: message.and_then(json::string).map(Into::into),
        };
        Some(Notice::Progress(call, progress))
    }

    /// The call of a progress token, which is the id of one of the call's own requests. A task keeps the token of the
    /// request that created it.
    fn call_of_token(&self, token: u64) -> Option<CallId> {
        let of_request = self.requests.get(&token).and_then(|sent| sent.work());
        let of_task = || {
            let results = self.requests.values().filter(|sent| sent.task().is_some()).filter_map(|sent| sent.work());
            results.chain(self.polls.iter().map(|poll| &*poll.work)).find(|work| work.token == Some(token))
        };
        of_request.or_else(of_task).filter(|work| work.wants_progress).map(|work| work.call)
    }

    /// The call whose exchange a lane is. On a shared channel, a line may belong to an earlier call of another caller.
    fn call_of_exchange(&self, lane: Lane) -> Option<CallId> {
        let sent = (lane != Lane::MAIN).then(|| self.requests.get(&lane.0))??;
        sent.work().map(|work| work.call)
    }

    /// The call whose exchange a lane is. On a shared channel, the call if it is the only one in flight.
    pub(super) fn call_on(&self, lane: Lane) -> Option<CallId> {
        if lane != Lane::MAIN || self.exchanges {
            return self.call_of_exchange(lane);
        }
        let mut calls = self.requests.values().filter_map(|sent| sent.work()).map(|work| work.call);
        calls.next().filter(|_| calls.next().is_none())
    }
}

/// Whether a notification only informs: a log line, or a changed list. Servers of common SDKs send both without
/// declaring them, and clients accept them, so they pass. They are counted like other messages that were not agreed.
fn is_informational(method: &str) -> bool {
    method == "notifications/message" || method.ends_with("/list_changed")
}

fn text(params: Option<&RawValue>, name: &str) -> Option<String> {
    Members::of(params?)?.str(name).map(Into::into)
}

fn log(params: &RawValue) -> Option<Log> {
    let [level, logger, data] = pick(params, ["level", "logger", "data"])?;
    let data = data.map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned);
    Some(Log::from_upstream(meta::level(level?)?, logger.and_then(json::string).map(Into::into), data))
}
