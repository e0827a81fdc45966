//! Tests of the limits on kept outcomes, for each side and for all sides that share a storage.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gladhand_core::operations::{CallId, ToolResult};
use gladhand_dialects::Party;
use gladhand_dialects::Server as _;
use gladhand_dialects::storage::{Reservation, Storage};
use serde_json::json;

use crate::parked::{again, asked, call, hearing, progress};
use crate::questions::{ask, delivered, form};
use crate::tasks::{about, extended, extended_task, get, legacy_call, legacy_task, session, with_tasks};
use crate::*;

const MIB: usize = 1024 * 1024;
const NOT_KEPT: &str = "the result is too large to be kept";

/// A storage for all parties together.
#[derive(Debug, Clone)]
struct Shelf {
    most: usize,
    taken: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Part {
    shelf: Shelf,
    bytes: usize,
}

impl Shelf {
    fn of(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn setup(&self) -> ServerSetup {
        ServerSetup { storage: Arc::new(self.clone()), ..server_setup() }
    }
}

impl Storage for Shelf {
    fn reserve(&self, _: Option<Party>) -> Box<dyn Reservation> {
        Box::new(Part { shelf: self.clone(), bytes: 0 })
    }
}

impl Reservation for Part {
    fn resize(&mut self, bytes: usize) -> bool {
        let taken = self.shelf.taken() - self.bytes + bytes;
        if taken > self.shelf.most {
            return false;
        }
        self.shelf.taken.store(taken, Ordering::Relaxed);
        self.bytes = bytes;
        true
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.shelf.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn large(bytes: usize) -> Outcome {
    Ok(Reply::Tool(ToolResult::text(&"x".repeat(bytes))))
}

/// Creates tasks of 2025-11-25 and ends each with a result of this size. Returns the final state of each.
fn ended(server: &mut TestServer, count: usize, bytes: usize) -> Vec<String> {
    let tasks: Vec<_> = (0..count).map(|at| legacy_task(server, &at.to_string())).collect();
    tasks.iter().for_each(|(call, _)| drop(server.resolve(*call, large(bytes))));
    let mut status = |id: &str| only(server.line(&about("99", "tasks/get", id)))["result"]["status"].clone();
    tasks.iter().map(|(_, id)| status(id).as_str().unwrap().to_owned()).collect()
}

#[test]
fn results_of_tasks_that_ended_together_are_kept_up_to_a_bound_of_the_session() {
    let mut server = session(server_setup());
    let (call, small) = legacy_task(&mut server, "1");
    assert_eq!(ended(&mut server, 5, 10 * MIB), ["completed", "completed", "completed", "failed", "failed"]);
    server.resolve(call, large(100));
    let kept = only(server.line(&about("2", "tasks/result", &small)));
    assert_eq!(kept["result"]["content"][0]["text"], "x".repeat(100), "a small result must be kept");
}

#[test]
fn a_result_without_storage_fails_its_task() {
    let shelf = Shelf::of(MIB);
    let mut server = session(shelf.setup());
    let (call, id) = legacy_task(&mut server, "1");
    assert_eq!(server.line(&about("2", "tasks/result", &id)), NOTHING);
    let lines: Vec<_> = server.resolve(call, large(2 * MIB)).iter().map(|line| value(line)).collect();
    assert_eq!(lines.len(), 2, "expected the notice and exactly one answer: {lines:?}");
    assert_eq!(lines[0]["params"]["status"], "failed");
    let error = json!({"code": -32603, "message": NOT_KEPT, "data": {"reason": "too_long"}});
    assert_eq!((&lines[1]["id"], &lines[1]["error"]), (&json!(2), &error));
    assert_eq!(
        only(server.line(&about("3", "tasks/result", &id)))["error"],
        error,
        "a later request must get the same error"
    );

    let mut server = with_tasks(shelf.setup());
    let (call, id) = extended_task(&mut server, "1");
    assert_eq!(server.resolve(call, large(2 * MIB)), NOTHING);
    let task = get(&mut server, &id);
    assert_eq!((&task["status"], &task["error"], &task["result"]), (&json!("failed"), &error, &Value::Null));
}

#[test]
fn tasks_of_all_sides_share_a_storage_and_free_it() {
    let shelf = Shelf::of(12 * MIB);
    let (mut first, mut second) = (session(shelf.setup()), session(shelf.setup()));
    assert_eq!(ended(&mut first, 2, 5 * MIB), ["completed"; 2]);
    assert_eq!(ended(&mut second, 1, 5 * MIB), ["failed"]);
    drop(first);
    assert_eq!(ended(&mut second, 1, 5 * MIB), ["completed"]);
    let (_, id) = legacy_task(&mut second, "1");
    second.line(&about("2", "tasks/cancel", &id));
    second.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(shelf.taken(), 0, "expired tasks must free their storage");
    // Without storage for a task itself, no task is created.
    let mut full = session(Shelf::of(1500).setup());
    legacy_task(&mut full, "1");
    let call = delivered(&mut full, &legacy_call("2", "{}"));
    let refused = only(full.continue_as_task(call));
    assert_eq!((&refused["id"], &refused["error"]["data"]["reason"]), (&json!(2), &json!("busy")), "{refused}");
    assert_eq!(full.cancelled, [call]);
}

#[test]
fn one_peer_cannot_use_the_storage_of_others() {
    let mut server = with_tasks(server_setup());
    let mut end = |party, count: usize| {
        server.party = Some(Party(party));
        let tasks: Vec<_> = (0..count).map(|at| extended_task(&mut server, &at.to_string())).collect();
        tasks.iter().for_each(|(call, _)| drop(server.resolve(*call, large(15 * MIB))));
        tasks.iter().filter(|(_, id)| get(&mut server, id)["status"] == "completed").count()
    };
    assert_eq!((end(1, 4), end(2, 4)), (2, 2));
}

#[test]
fn the_number_of_requests_that_wait_for_a_task_is_limited() {
    let mut server = session(server_setup());
    let (call, id) = legacy_task(&mut server, "1");
    for waiter in 0..8 {
        assert_eq!(server.line(&about(&format!("1{waiter}"), "tasks/result", &id)), NOTHING);
    }
    assert_eq!(error(server.line(&about("2", "tasks/result", &id))), (json!(2), -32603));
    assert_eq!(server.resolve(call, large(10)).len(), 9, "expected the notice and an answer for each request");
}

#[test]
fn a_large_result_is_sent_to_few_subscribers() {
    let mut server = with_tasks(server_setup());
    let (call, id) = extended_task(&mut server, "1");
    for listener in 10..20 {
        let filter = format!(r#""notifications":{{"taskIds":["{id}"]}}"#);
        assert_eq!(server.line(&extended(&listener.to_string(), "subscriptions/listen", &filter)).len(), 1);
    }
    assert_eq!(server.resolve(call, large(10 * MIB)).len(), 3);
    assert_eq!(get(&mut server, &id)["status"], "completed");
    let (call, id) = extended_task(&mut server, "2");
    let filter = format!(r#""notifications":{{"taskIds":["{id}"]}}"#);
    for listener in 20..30 {
        server.line(&extended(&listener.to_string(), "subscriptions/listen", &filter));
    }
    assert_eq!(server.resolve(call, large(10)).len(), 10);
}

/// Parks a call, and returns it with its state.
fn parked(server: &mut TestServer, id: u64) -> (CallId, Value) {
    let delivered = delivered(server, &call(&id.to_string()));
    let (_, state) = asked(ask(server, delivered, id, form().named("a")), id);
    (delivered, state)
}

#[test]
fn outcomes_of_parked_calls_are_kept_up_to_the_limits() {
    let shelf = Shelf::of(45 * MIB);
    let mut server = TestServer::pinned(&DIALECT, shelf.setup()).holding();
    let mut come_back = |party, count: u64| {
        server.party = Some(Party(party));
        let calls: Vec<_> = (1..=count).map(|id| parked(&mut server, id)).collect();
        calls.iter().for_each(|(call, _)| assert_eq!(server.resolve(*call, large(10 * MIB)), NOTHING));
        let answers = calls.iter().map(|(_, state)| only(server.line(&again("9", "", state))));
        let answers: Vec<_> = answers.collect();
        let failed = answers.iter().filter(|answer| answer.to_string().contains(NOT_KEPT)).count();
        (answers.len() - failed, failed)
    };
    assert_eq!(come_back(1, 5), (3, 2), "a caller may keep 32 MiB");
    assert_eq!(come_back(2, 2), (2, 0), "fetched outcomes must free their storage");
    assert_eq!(shelf.taken(), 0);
    let mut full = TestServer::pinned(&DIALECT, Shelf::of(MIB).setup()).holding();
    let (call, state) = parked(&mut full, 1);
    full.resolve(call, large(2 * MIB));
    assert!(only(full.line(&again("2", "", &state))).to_string().contains(NOT_KEPT));
}

#[test]
fn notices_of_parked_calls_are_kept_up_to_the_bounds() {
    let shelf = Shelf::of(20_000);
    let mut server = TestServer::pinned(&DIALECT, shelf.setup()).holding();
    let parked = |server: &mut TestServer, id: u64| {
        let call = delivered(server, &hearing(call(&id.to_string()), id, "debug"));
        let (_, state) = asked(ask(server, call, id, form().named("a")), id);
        (call, state)
    };
    let mut told = |steps: u32, bytes: usize| -> Vec<f64> {
        let (call, state) = parked(&mut server, 1);
        for step in 1..=steps {
            assert_eq!(server.notify(progress(call, step.into(), bytes)), NOTHING);
        }
        assert!(shelf.taken() <= 16 * 1024);
        let lines = server.line(&hearing(again("2", "", &state), 2, "debug"));
        assert_eq!(shelf.taken(), 0);
        lines.iter().filter_map(|line| value(line)["params"]["progress"].as_f64()).collect()
    };
    let last = |count: u32, of: u32| (of - count + 1..=of).map(f64::from).collect::<Vec<_>>();
    assert_eq!(told(100, 0), last(64, 100), "the newest 64");
    assert_eq!(told(100, 1000), last(15, 100), "the newest 16 KiB");
    assert_eq!(told(3, 16 * 1024), last(0, 3), "none that is larger than all may be");
    // All calls together have a bound, too.
    let (first, second) = (parked(&mut server, 1), parked(&mut server, 2));
    for step in 1..=20 {
        server.notify(progress(first.0, step.into(), 1000));
    }
    for step in 1..=20 {
        server.notify(progress(second.0, step.into(), 1000));
    }
    assert!(shelf.taken() <= 20_000);
    assert_eq!(server.line(&hearing(again("3", "", &first.1), 3, "debug")).len(), 16, "and the questions");
    let lines = server.line(&hearing(again("4", "", &second.1), 4, "debug"));
    assert_eq!((lines.len(), &value(&lines[0])["params"]["progress"]), (4, &json!(18)), "the newest that have room");
    server.advance(Duration::from_secs(600));
    assert_eq!((shelf.taken(), server.door.held_bytes()), (0, 0), "a caller that does not come back leaves nothing");
}

#[test]
fn answers_that_exceed_the_batch_storage_become_errors() {
    for (setup, fitting) in [(server_setup(), 3), (Shelf::of(25 * MIB).setup(), 2)] {
        let mut server = opened(TestServer::pinned(&DIALECT, setup), "2025-03-26").holding();
        let batch: Vec<_> = (0..6).map(|id| echo(&id.to_string())).collect();
        assert_eq!(server.line(&format!("[{}]", batch.join(","))), NOTHING);
        let calls: Vec<_> = server.delivered.drain(..).map(|delivered| delivered.call.id).collect();
        let mut lines: Vec<_> = calls[..5].iter().map(|call| server.resolve(*call, large(10 * MIB))).collect();
        assert!(
            lines.iter().all(Vec::is_empty) && server.door.held_bytes() <= 32 * MIB,
            "{}",
            server.door.held_bytes()
        );
        lines.push(server.resolve(calls[5], large(10)));
        let answers = only(lines.pop().unwrap());
        let answers = answers.as_array().unwrap();
        let ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 5], "each call must have one answer");
        let is_refused = |answer: &&Value| answer["error"]["message"] == NOT_KEPT;
        assert_eq!(answers.iter().filter(is_refused).count(), 5 - fitting);
        assert_eq!(server.door.held_bytes(), 0);
    }
}

/// An `initialize` whose capabilities have settings of so many bytes.
fn initialize_with(bytes: usize) -> String {
    let declared = format!(r#""capabilities":{{"experimental":{{"a":{{"b":"{}"}}}}}}"#, "x".repeat(bytes));
    initialize("2025-11-25").replace(r#""capabilities":{}"#, &declared)
}

#[test]
fn large_capabilities_of_clients_are_refused_and_all_that_are_kept_share_a_storage() {
    let refused = only(server().line(&initialize_with(100_000)));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("`capabilities`"), "{refused}");
    let shelf = Shelf::of(100_000);
    let server = || TestServer::pinned(&DIALECT, shelf.setup());
    let mut first = opened(server(), "2025-11-25");
    assert_eq!(shelf.taken(), 0, "what a usual client declares does not count");
    let mut second = server();
    assert!(only(second.line(&initialize_with(30_000)))["result"].is_object());
    assert!(shelf.taken() > 60_000, "{}: kept for `experimental` and for `experimental.a`", shelf.taken());
    let busy = only(server().line(&initialize_with(30_000)));
    assert_eq!(busy["error"]["data"]["reason"], "busy", "{busy}");
    assert_eq!(first.line(PING), [PONG]);
    drop(second);
    assert_eq!(shelf.taken(), 0);
    assert!(only(server().line(&initialize_with(30_000)))["result"].is_object());
}
