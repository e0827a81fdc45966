//! Requests for tasks, and the wire form of tasks.
//!
//! 2025-11-25 wraps a new task in `task`, returns the outcome in `tasks/result`, and names the task in the `_meta` of
//! every related message. The extension of 2026-07-28 writes the members of a task directly, and `tasks/get` returns
//! the outcome and open questions. The names of its durations contain their unit.

use gladhand_core::negotiation::Side;
use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::wire::Frames;
use gladhand_core::wire::json::{self, RawValue};
use gladhand_core::wire::{Id, Members, pick, rpc};

use super::capabilities::InForce;
use super::meta::RELATED_TASK;
use super::phrasing::rewritten;
use super::render::Renderer;
use super::revision::Revision;
use super::server::{McpServer, Phase, Request};
use super::tasks::{State, Task};
use super::{cursor, errors};
use crate::ambient::Ambient;
use crate::side::{Lane, Output};

/// The recommended polling interval, in milliseconds.
const POLL_INTERVAL: u64 = 500;

impl McpServer {
    /// Handles a request for one task.
    pub(super) fn serve_task(
        &mut self,
        method: &str,
        request: Request<'_, '_>,
        in_force: &InForce,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        let revision = in_force.revision;
        if !self.setup.menu.tasks {
            return self.refuse(&request.to, &errors::method_not_found(method), out);
        }
        let params = request.all_params().and_then(|params| pick(params, ["taskId", "inputResponses"]));
        let [id, answers] = params.unwrap_or_default();
        let at = match self.tasks.find(id.and_then(json::string).as_deref(), ambient, revision) {
            Ok(at) => at,
            Err(error) => return self.refuse(&request.to, &error, out),
        };
        let call = self.tasks.all[at].call();
        let has_ended = self.tasks.all[at].state.has_ended();
        match method {
            "tasks/get" => return self.answer_with_task(&request.to.id, request.to.route.lane, at, out),
            "tasks/result" if has_ended => {
                out.go(request.to.route.lane);
                return outcome(&mut out.wire, &request.to.id, &self.tasks.all[at]);
            }
            "tasks/result" if !self.tasks.may_wait(at, self.setup.max_in_flight) => {
                return self.refuse(&request.to, &errors::busy("requests that wait for tasks"), out);
            }
            "tasks/result" => {
                self.tasks.wait(at, request.to);
                return self.send_task_questions(call, out);
            }
            "tasks/cancel" if has_ended && !revision.is_stateless() => {
                let error = errors::invalid_params("the task has ended; it cannot be cancelled any more");
                return self.refuse(&request.to, &error, out);
            }
            "tasks/cancel" => {
                if !has_ended {
                    self.cancel_task(at, ambient, out);
                }
                if !revision.is_stateless() {
                    return self.answer_with_task(&request.to.id, request.to.route.lane, at, out);
                }
            }
            _ => {
                let Some(answers) = answers.and_then(Members::of) else {
                    let error = errors::invalid_params("`inputResponses` must be an object");
                    return self.refuse(&request.to, &error, out);
                };
                out.actions.extend(self.questions.answer(call, &answers));
                self.continue_task_if_answered(call, ambient, out);
            }
        }
        out.go(request.to.route.lane);
        rpc::begin_result(&mut out.wire, &request.to.id);
        out.wire.extend_from_slice(br#"{"resultType":"complete""#);
        self.render.about_server(&mut out.wire);
        out.wire.push(b'}');
        rpc::finish(&mut out.wire);
    }

    /// Lists all tasks of the caller, in pages (2025-11-25).
    pub(super) fn list_tasks(&mut self, request: Request<'_, '_>, ambient: &Ambient<'_>, out: &mut Output<'_>) {
        let Some(from) = request.params.cursor().map_or(Some(0), cursor::read) else {
            return self.refuse(&request.to, &cursor::bad(), out);
        };
        let is_shown =
            |task: &&Task| task.number >= from && task.is_known_to(ambient.principal, Revision::WITH_TASK_LIST);
        let mut tasks = self.tasks.all.iter().filter(is_shown);
        out.go(request.to.route.lane);
        let wire = &mut out.wire;
        rpc::begin_result(wire, &request.to.id);
        wire.extend_from_slice(br#"{"tasks":["#);
        for (at, task) in tasks.by_ref().take(self.setup.page_size.max(1)).enumerate() {
            wire.extend_from_slice(if at > 0 { b",{" } else { b"{" });
            describe(wire, task);
            wire.push(b'}');
        }
        wire.push(b']');
        if let Some(next) = tasks.next() {
            wire.extend_from_slice(br#","nextCursor":"#);
            json::write(wire, &cursor::at(next.number));
        }
        wire.push(b'}');
        rpc::finish(wire);
    }

    fn answer_with_task(&self, id: &Id, lane: Lane, at: usize, out: &mut Output<'_>) {
        out.go(lane);
        rpc::begin_result(&mut out.wire, id);
        out.wire.push(b'{');
        self.detail(at, &mut out.wire);
        if self.tasks.all[at].revision.is_stateless() {
            out.wire.extend_from_slice(br#","resultType":"complete""#);
            self.render.about_server(&mut out.wire);
        }
        out.wire.push(b'}');
        rpc::finish(&mut out.wire);
    }

    /// Writes a task with all details of its revision.
    fn detail(&self, at: usize, wire: &mut Vec<u8>) {
        let task = &self.tasks.all[at];
        describe(wire, task);
        if !task.revision.is_stateless() {
            return;
        }
        match &task.state {
            State::Working | State::Cancelled => {}
            State::InputRequired => {
                wire.extend_from_slice(br#","inputRequests":"#);
                self.questions.write_requests(task.call(), wire);
            }
            State::Completed(result) | State::FailedResult(result) => {
                wire.extend_from_slice(br#","result":"#);
                wire.extend_from_slice(result.get().as_bytes());
            }
            State::Failed(error) => {
                wire.extend_from_slice(br#","error":"#);
                wire.extend_from_slice(error.get().as_bytes());
            }
        }
    }

    /// Notifies the clients of a task's new state.
    pub(super) fn report_task(&self, at: usize, out: &mut Output<'_>) {
        const METHOD: &str = "notifications/tasks/status";
        let task = &self.tasks.all[at];
        let mut members = Vec::new();
        self.detail(at, &mut members);
        if task.revision.is_stateless() {
            return self.listeners.report_task("notifications/tasks", &task.id, &members, out);
        }
        if let Phase::Open(session) = &self.phase
            && session.in_force.gate.admit(Side::Server, METHOD).is_ok()
        {
            out.go(Lane::MAIN);
            let params = json::raw(format!("{{{}}}", String::from_utf8_lossy(&members)));
            rpc::notification(&mut out.wire, METHOD, Some(&params));
        }
    }
}

/// The answer to a call that became a task.
pub(super) fn created(wire: &mut Frames, id: &Id, task: &Task, render: &Renderer) {
    rpc::begin_result(wire, id);
    if task.revision.is_stateless() {
        wire.extend_from_slice(br#"{"resultType":"task","#);
        describe(wire, task);
        render.about_server(wire);
    } else {
        wire.extend_from_slice(br#"{"task":{"#);
        describe(wire, task);
        wire.push(b'}');
    }
    wire.push(b'}');
    rpc::finish(wire);
}

/// The answer to `tasks/result` for a task that has ended.
pub(super) fn outcome(wire: &mut Frames, id: &Id, task: &Task) {
    match &task.state {
        State::Completed(result) | State::FailedResult(result) => rpc::result(wire, id, result),
        State::Failed(error) => rpc::raw_error(wire, id, error),
        State::Working | State::InputRequired | State::Cancelled => {
            let cancelled = Failure::new(FailureKind::Cancelled, "the task was cancelled");
            rpc::error(wire, Some(id), &errors::of(cancelled));
        }
    }
}

/// The members of a task, without braces.
fn describe(wire: &mut Vec<u8>, task: &Task) {
    let (ttl, interval) =
        if task.revision.is_stateless() { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
    let (id, status, millis) = (&task.id, task.state.word(), task.ttl.as_millis());
    let (created, updated) = (task.created.iso_millis(), task.updated.iso_millis());
    let members = format!(
        r#""taskId":"{id}","status":"{status}","createdAt":"{created}","lastUpdatedAt":"{updated}","{ttl}":{millis},"{interval}":{POLL_INTERVAL}"#
    );
    wire.extend_from_slice(members.as_bytes());
}

/// An object with the id of its task added to `_meta`.
pub(super) fn related(object: &RawValue, task: &str) -> Box<RawValue> {
    let members = Members::of(object).unwrap_or_default();
    let meta = members.object("_meta").unwrap_or_default();
    let task = json::to_raw(&serde_json::json!({"taskId": task}));
    let meta = json::raw(rewritten(&meta, &[RELATED_TASK], Some((RELATED_TASK, &task))));
    json::raw(rewritten(&members, &["_meta"], Some(("_meta", &meta))))
}
