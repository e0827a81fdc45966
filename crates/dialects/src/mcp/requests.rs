//! Serves requests.
//!
//! The gate decides first, for every request. The name and arguments of a call are borrowed from the line and not
//! parsed. Resources and prompts have their own files.

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_core::negotiation::{Closed, Kind, Side};
use gladhand_core::operations::call::no_arguments;
use gladhand_core::operations::{Call, Level, Operation, TaskWish, Terms, ToolCall};
use gladhand_core::wire::json::{self, RawValue};

use super::capabilities::InForce;
use super::incoming_requests::{IncomingRequest, ReplyTo, RequestKind};
use super::lists::{List, Page};
use super::render;
use super::server::{McpServer, Phase, Request};
use super::{cursor, errors, meta, parked};
use crate::ambient::{Ambient, Party};
use crate::rule_violation::REQUEST_NOT_AGREED;
use crate::shares::Bound;
use crate::side::{Action, Declined, Output, Unagreed};
use gladhand_core::wire::pick;

/// The caller's options for notices about its call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NoticeOptions<'a> {
    pub(super) progress_token: Option<&'a RawValue>,
    pub(super) log_level: Option<Level>,
}

impl McpServer {
    /// Serves a request under the given agreement.
    pub(super) fn serve<'a>(
        &mut self,
        mut request: Request<'_, 'a>,
        progress_token: Option<&'a RawValue>,
        log_level: Option<Level>,
        in_force: &Arc<InForce>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'a>,
    ) {
        let may_log = || in_force.gate.admit(Side::Server, "notifications/message").is_ok();
        let notice_options = NoticeOptions { progress_token, log_level: log_level.filter(|_| may_log()) };
        let mut admitted = in_force.gate.admit(Side::Client, request.method);
        if matches!(admitted, Err(Closed::NotAgreed(_))) && self.setup.unagreed == Unagreed::Passes {
            out.actions.push(Action::Passed(REQUEST_NOT_AGREED));
            admitted = in_force.gate.row(Side::Client, request.method).ok_or(Closed::Unknown);
        }
        if let Ok(rule) = admitted
            && parked::can_wait(rule.name)
        {
            if in_force.revision.is_stateless() && request.params.request_state().is_some() {
                return self.resume_parked(request, notice_options, in_force, ambient, out);
            }
            match self.origin(&request, in_force, ambient) {
                Ok(origin) => request.origin = origin,
                Err(error) => return self.refuse(&request.to, &error, out),
            }
        }
        let error = match admitted {
            Ok(rule) if rule.kind == Kind::Notice => errors::method_not_found(request.method),
            Err(closed) => match List::of(request.method) {
                Some(list) if self.setup.menu.empty_lists && matches!(closed, Closed::NotAgreed(_)) => {
                    return self.empty_list(&request.to, list, in_force, out);
                }
                _ => {
                    if let Closed::NotAgreed(need) = closed {
                        let (capability, agreement) = (need.capability, Arc::clone(&in_force.agreement));
                        let request = request.method.to_owned();
                        out.actions.push(Action::Declined(Declined { request, capability, agreement }));
                    }
                    errors::closed(request.method, closed, in_force.revision)
                }
            },
            Ok(rule) => match rule.name {
                "tools/call" => return self.call_tool(request, notice_options, in_force, out),
                "ping" => return self.pong(request, out),
                "logging/setLevel" => return self.set_level(request, out),
                "server/discover" => return self.discover(&request.to, in_force, out),
                "subscriptions/listen" => return self.listen(request, in_force, ambient, out),
                "tasks/list" => return self.list_tasks(request, ambient, out),
                "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update" => {
                    return self.serve_task(rule.name, request, in_force, ambient, out);
                }
                "resources/read" => return self.read_resource(request, notice_options, in_force, out),
                "resources/subscribe" => return self.subscribe(request, in_force, out),
                "resources/unsubscribe" => return self.unsubscribe(request, out),
                "prompts/get" => return self.get_prompt(request, notice_options, in_force, out),
                "completion/complete" if self.setup.menu.completions => {
                    return self.complete(request, notice_options, in_force, out);
                }
                method => match List::of(method) {
                    Some(list) => return self.list(request, list, notice_options, in_force, out),
                    // The gate is open, but this server does not implement the method.
                    None => errors::method_not_found(method),
                },
            },
        };
        self.refuse(&request.to, &error, out);
    }

    fn call_tool<'a>(
        &mut self,
        request: Request<'_, 'a>,
        notice_options: NoticeOptions<'_>,
        in_force: &Arc<InForce>,
        out: &mut Output<'a>,
    ) {
        let problem = match (request.params.name().map(json::string), request.params.arguments()) {
            (Some(Some(name)), None) => {
                let call = ToolCall { name, arguments: no_arguments() };
                return self.deliver(
                    request,
                    RequestKind::Tool,
                    Operation::CallTool(call),
                    notice_options,
                    in_force,
                    out,
                );
            }
            (Some(Some(name)), Some(arguments)) if json::Kind::of(arguments) == json::Kind::Object => {
                let call = ToolCall { name, arguments: Cow::Borrowed(arguments) };
                return self.deliver(
                    request,
                    RequestKind::Tool,
                    Operation::CallTool(call),
                    notice_options,
                    in_force,
                    out,
                );
            }
            (None, _) => "`name` is missing",
            (Some(None), _) => "`name` must be a string",
            (Some(Some(_)), Some(_)) => "`arguments` must be an object",
        };
        self.refuse(&request.to, &errors::invalid_params(problem), out);
    }

    fn list<'a>(
        &mut self,
        request: Request<'_, 'a>,
        list: List,
        notice_options: NoticeOptions<'_>,
        in_force: &Arc<InForce>,
        out: &mut Output<'a>,
    ) {
        match request.params.cursor().map_or(Some(0), cursor::read) {
            Some(from) => {
                let request_kind = RequestKind::Page(Page { of: list, from });
                self.deliver(request, request_kind, list.operation(), notice_options, in_force, out);
            }
            None => self.refuse(&request.to, &cursor::bad(), out),
        }
    }

    /// Answers with an empty list instead of an error, for downstreams that need it.
    fn empty_list(&mut self, to: &ReplyTo, list: List, in_force: &InForce, out: &mut Output<'_>) {
        let render = &self.render;
        self.batches.answer(to.route, out, |wire| render.empty_list(wire, &to.id, list, in_force.revision));
    }

    /// Delivers a call to the hub.
    pub(super) fn deliver<'a>(
        &mut self,
        request: Request<'_, 'a>,
        request_kind: RequestKind,
        operation: Operation<'a>,
        notice_options: NoticeOptions<'_>,
        in_force: &Arc<InForce>,
        out: &mut Output<'a>,
    ) {
        if !self.has_room_for(request.party) {
            return self.refuse(&request.to, &errors::busy("calls in flight"), out);
        }
        if let Some(batch) = request.to.route.batch {
            self.batches.expect(batch);
        }
        let origin = request.origin.as_deref();
        let task = origin.map_or(TaskWish::Never, |origin| origin.task);
        let record = origin.and_then(|origin| origin.record.clone());
        let id = self.incoming.insert(IncomingRequest {
            arguments: request.params.arguments().map_or(0, |raw| raw.get().len()),
            origin: request.origin,
            party: request.party,
            progress_token: notice_options.progress_token.map(ToOwned::to_owned),
            log_level: notice_options.log_level,
            ..IncomingRequest::new(request.to, request_kind, in_force)
        });
        let log_level = match &self.phase {
            Phase::ExpectInitialized(session) | Phase::Open(session) if !in_force.revision.is_stateless() => {
                session.level
            }
            _ => notice_options.log_level,
        };
        let terms = Terms {
            wants_progress: notice_options.progress_token.is_some(),
            task,
            log_level,
            record,
            meta: request.params.meta().map(Cow::Borrowed),
            ..Terms::default()
        };
        let call = Call { id, operation, terms };
        out.actions.push(Action::Deliver(call, Arc::clone(&in_force.agreement)));
    }

    /// Whether a party may have one more call in flight.
    pub(super) fn has_room_for(&self, party: Option<Party>) -> bool {
        let bound = Bound { limit: self.setup.max_in_flight, used: self.incoming.len() };
        bound.admits(1, party, |party| self.incoming.len_of(party))
    }

    pub(super) fn pong(&mut self, request: Request<'_, '_>, out: &mut Output<'_>) {
        self.done(&request.to, out);
    }

    fn set_level(&mut self, request: Request<'_, '_>, out: &mut Output<'_>) {
        let level = request.all_params().and_then(|params| pick(params, ["level"]));
        let Some(level) = level.and_then(|[level]| level).and_then(meta::level) else {
            let words = Level::ALL.map(Level::word).join(", ");
            let error = errors::invalid_params(format!("`level` must be one of {words}"));
            return self.refuse(&request.to, &error, out);
        };
        if let Phase::ExpectInitialized(session) | Phase::Open(session) = &mut self.phase {
            session.level = Some(level);
        }
        self.done(&request.to, out);
    }

    fn discover(&mut self, to: &ReplyTo, in_force: &InForce, out: &mut Output<'_>) {
        out.go(to.route.lane);
        self.render.discover_result(&mut out.wire, &to.id, in_force.revision);
    }

    /// Answers with an empty result.
    pub(super) fn done(&mut self, to: &ReplyTo, out: &mut Output<'_>) {
        self.answer(to.route, out, |wire| render::empty_result(wire, &to.id));
    }
}
