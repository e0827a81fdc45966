//! What an admitted request asks for, and what we tell a downstream unasked.
//!
//! The gate is asked first, for every request and every notice of ours. A call goes out as it came:
//! name and arguments borrowed from the line, not looked into.

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_accord::{Kind, Side};
use gladhand_operations::call::no_arguments;
use gladhand_operations::{Call, CallId, Level, Log, Operation, Progress, ToolCall};
use gladhand_wire::json::{self, RawValue};
use gladhand_wire::rpc;

use super::capabilities::InForce;
use super::pending::{Asked, InFlight};
use super::render;
use super::server::{McpServer, Phase, Request};
use super::{cursor, errors, meta};
use crate::ambient::Ambient;
use crate::side::{Action, Lane, Output};
use gladhand_wire::pick;

/// What a caller said of notices about its call.
#[derive(Debug, Clone, Copy)]
struct Wishes<'a> {
    progress_token: Option<&'a RawValue>,
    log_level: Option<Level>,
}

impl McpServer {
    /// Serves a request under what is in force for it.
    pub(super) fn serve<'a>(
        &mut self,
        request: Request<'a>,
        progress_token: Option<&'a RawValue>,
        log_level: Option<Level>,
        in_force: &Arc<InForce>,
        _ambient: &mut Ambient<'_>,
        out: &mut Output<'a>,
    ) {
        let wishes = Wishes { progress_token, log_level };
        let error = match in_force.gate.admit(Side::Client, &request.method) {
            Ok(rule) if rule.kind == Kind::Notice => errors::method_not_found(&request.method),
            Err(closed) => errors::closed(&request.method, closed, in_force.revision),
            Ok(rule) => match rule.name {
                "tools/call" => return self.call_tool(request, wishes, in_force, out),
                "tools/list" => return self.list_tools(request, wishes, in_force, out),
                "ping" => return self.pong(request, out),
                "logging/setLevel" => return self.set_level(request, out),
                "server/discover" => return self.discover(request, out),
                "subscriptions/listen" => return self.listen(request, in_force, out),
                // Open, and still nobody here who serves it.
                method => errors::method_not_found(method),
            },
        };
        self.refuse(&request.to, &error, out);
    }

    fn call_tool<'a>(
        &mut self,
        request: Request<'a>,
        wishes: Wishes<'_>,
        in_force: &Arc<InForce>,
        out: &mut Output<'a>,
    ) {
        let problem = match (request.params.name.map(json::string), request.params.arguments) {
            (Some(Some(name)), None) => {
                let call = ToolCall { name, arguments: no_arguments() };
                return self.deliver(request, Asked::Tool, Operation::CallTool(call), wishes, in_force, out);
            }
            (Some(Some(name)), Some(arguments)) if json::Kind::of(arguments) == json::Kind::Object => {
                let call = ToolCall { name, arguments: Cow::Borrowed(arguments) };
                return self.deliver(request, Asked::Tool, Operation::CallTool(call), wishes, in_force, out);
            }
            (None, _) => "`name` is missing",
            (Some(None), _) => "`name` must be a string",
            (Some(Some(_)), Some(_)) => "`arguments` must be an object",
        };
        self.refuse(&request.to, &errors::invalid_params(problem), out);
    }

    fn list_tools<'a>(
        &mut self,
        request: Request<'a>,
        wishes: Wishes<'_>,
        in_force: &Arc<InForce>,
        out: &mut Output<'a>,
    ) {
        match request.params.cursor.map_or(Some(0), cursor::read) {
            Some(from) => self.deliver(request, Asked::Tools { from }, Operation::ListTools, wishes, in_force, out),
            None => self.refuse(&request.to, &cursor::bad(), out),
        }
    }

    fn deliver<'a>(
        &mut self,
        request: Request<'a>,
        asked: Asked,
        operation: Operation<'a>,
        wishes: Wishes<'_>,
        in_force: &Arc<InForce>,
        out: &mut Output<'a>,
    ) {
        if self.pending.len() >= self.setup.max_in_flight {
            return self.refuse(&request.to, &errors::busy("calls in flight"), out);
        }
        if let Some(batch) = request.to.way.batch {
            self.batches.expect(batch);
        }
        let may_log = || in_force.gate.admit(Side::Server, "notifications/message").is_ok();
        let id = self.pending.insert(InFlight {
            to: request.to,
            asked,
            revision: in_force.revision,
            progress_token: wishes.progress_token.map(ToOwned::to_owned),
            progress: None,
            log_level: wishes.log_level.filter(|_| may_log()),
        });
        let call = Call { wants_progress: wishes.progress_token.is_some(), ..Call::new(id, operation) };
        out.actions.push(Action::Deliver(call, Arc::clone(&in_force.agreement)));
    }

    pub(super) fn pong(&mut self, request: Request<'_>, out: &mut Output<'_>) {
        self.empty_result(&request, out);
    }

    fn set_level(&mut self, request: Request<'_>, out: &mut Output<'_>) {
        let level = request.all_params().and_then(|params| pick(params, ["level"]));
        let Some(level) = level.and_then(|[level]| level).and_then(meta::level) else {
            let words = Level::ALL.map(Level::word).join(", ");
            let error = errors::invalid_params(format!("`level` must be one of {words}"));
            return self.refuse(&request.to, &error, out);
        };
        if let Phase::ExpectInitialized(session) | Phase::Open(session) = &mut self.phase {
            session.level = level;
        }
        self.empty_result(&request, out);
    }

    fn discover(&mut self, request: Request<'_>, out: &mut Output<'_>) {
        out.go(request.to.way.lane);
        self.render.discover_result(&mut out.wire, &request.to.id);
    }

    fn empty_result(&mut self, request: &Request<'_>, out: &mut Output<'_>) {
        self.answer(request.to.way, out, |wire| {
            rpc::begin_result(wire, &request.to.id);
            wire.extend_from_slice(b"{}");
            rpc::finish(wire);
        });
    }

    /// How far a call has come, if its caller wants to know and it is further than before.
    pub(super) fn tell_progress(&mut self, call: CallId, progress: &Progress, out: &mut Output<'_>) {
        let is_open = matches!(self.phase, Phase::Open(_));
        let Some(call) = self.pending.get_mut(call) else { return };
        let may_speak = is_open || call.revision.is_stateless();
        let is_further = progress.progress.is_finite() && call.progress.is_none_or(|last| progress.progress > last);
        if let Some(token) = call.progress_token.as_deref()
            && may_speak
            && is_further
        {
            call.progress = Some(progress.progress);
            out.go(call.to.way.lane);
            render::progress(&mut out.wire, token, progress, call.revision);
        }
    }

    /// A log message, if the session's level or the request's own lets it through.
    pub(super) fn tell_log(&mut self, call: Option<CallId>, log: &Log, out: &mut Output<'_>) {
        // What is said about a call that has ended has lost its listener.
        let about = match call {
            None => None,
            Some(call) => match self.pending.get_mut(call) {
                None => return,
                Some(call) => Some((call.revision.is_stateless(), call.log_level, call.to.way.lane)),
            },
        };
        let wanted = match (about, &self.phase) {
            (Some((true, level, _)), _) => level,
            (_, Phase::Open(session)) => {
                let gate = &session.in_force.gate;
                gate.admit(Side::Server, "notifications/message").is_ok().then_some(session.level)
            }
            _ => None,
        };
        if wanted.is_some_and(|wanted| log.level >= wanted) {
            out.go(about.map_or(Lane::MAIN, |(.., lane)| lane));
            render::message(&mut out.wire, log);
        }
    }

    /// The list of tools changed: tell those who may be told, and owe it to a session not yet open.
    pub(super) fn tell_tools_changed(&mut self, out: &mut Output<'_>) {
        if matches!(self.phase, Phase::Open(_)) {
            self.tell_session_of_changed_tools(out);
        } else {
            self.owes_tools_changed = true;
        }
        self.listeners.tell_tools_changed(out);
    }

    pub(super) fn tell_session_of_changed_tools(&self, out: &mut Output<'_>) {
        const METHOD: &str = "notifications/tools/list_changed";
        if let Phase::Open(session) = &self.phase
            && session.in_force.gate.admit(Side::Server, METHOD).is_ok()
        {
            out.go(Lane::MAIN);
            rpc::notification::<()>(&mut out.wire, METHOD, None);
        }
    }
}
