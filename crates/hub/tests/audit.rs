//! Requests to capabilities are written down as calls of tools are.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand_core::operations::{Call, CallId, CapabilityCall, Failure, Notice, Operation, Reply};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json;
use gladhand_hub::policy::{Auditor, Governor, Record};
use gladhand_hub::{Answer, Asking, Caller, CapabilityProvider, Context, Hub, Provider, SessionId};
use serde_json::{Value, json};

/// Remembers one thing only.
#[derive(Debug)]
struct Memory;

impl Provider for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }
}

impl CapabilityProvider for Memory {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["memory"]
    }

    fn serve(&self, call: CapabilityCall<'_>, _: &Context<'_>) -> Answer {
        match call.kind {
            "memory/store/req" => Answer::Now(Ok(Reply::Capability(json::to_raw(&json!({"stored": ["a"]}))))),
            "memory/init/req" => Answer::Later(Box::pin(std::future::pending())),
            _ => Answer::later(async { Err::<Reply, _>(Failure::of_capability("memory_not_found", "no such memory")) }),
        }
    }
}

#[derive(Debug)]
struct Agent;

impl Caller for Agent {
    fn tell(&self, _: Notice) {}
    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}
    fn session(&self) -> SessionId {
        SessionId(7)
    }
}

#[derive(Debug, Default)]
struct Book {
    records: Mutex<Vec<Record>>,
    payloads: bool,
}

impl Auditor for Book {
    fn record(&self, record: Record) {
        self.records.lock().unpoisoned().push(record);
    }

    fn wants_payloads(&self) -> bool {
        self.payloads
    }
}

fn agreement() -> Arc<Agreement> {
    let rules = Rules {
        dialect: "a2e",
        versions: VersionRule::Common,
        minimum: Minimum::Nothing,
        defines: |_, _, _| Defined::Yes,
    };
    let (client, server) = (Offer::new(Peer::new("ann", ""), ["1.0"]), Offer::new(Peer::default(), ["1.0"]));
    Arc::new(agree(&rules, &client, &server).expect("one version on both sides"))
}

async fn ask(hub: &Hub, kind: &'static str, capability: &'static str) {
    let message = Cow::Owned(json::to_raw(&json!({"key": "a secret"})));
    let call = CapabilityCall { kind, capability, request: None, message };
    let caller: Arc<dyn Caller> = Arc::new(Agent);
    let answer = hub.answer(Call::new(CallId(1), Operation::Capability(call)), &agreement(), &caller);
    // A call that never ends is cancelled.
    let _ = tokio::time::timeout(std::time::Duration::from_millis(20), answer.outcome()).await;
}

async fn lines(payloads: bool) -> Vec<Value> {
    let book = Arc::new(Book { payloads, ..Book::default() });
    let governor = Governor::default().audited(Arc::clone(&book) as _);
    let hub = Hub::new(vec![Box::new(Memory)]).expect("one provider").governed(Arc::new(governor));
    ask(&hub, "memory/store/req", "memory").await;
    ask(&hub, "memory/retrieve/req", "memory").await;
    ask(&hub, "memory/init/req", "memory").await;
    ask(&hub, "proc/spawn/req", "proc").await;
    let records = book.records.lock().unpoisoned();
    records.iter().map(|record| serde_json::to_value(record).expect("JSON")).collect()
}

#[tokio::test]
async fn each_audited_request_is_a_line_with_caller_operation_and_outcome() {
    let mut lines = lines(false).await;
    assert!(lines.iter().all(|line| line["duration_ms"].as_f64().is_some_and(|took| took >= 0.0)));
    lines.iter_mut().for_each(|line| line["duration_ms"] = json!(0));
    let line = |tool: &str, upstream: &str, own: &str, outcome: &str, bytes: usize| {
        json!({
            "session": 7, "client": "ann", "client_version": "", "dialect": "a2e", "dialect_version": "1.0",
            "upstream": upstream, "operation": "capability", "tool": tool, "own_name": own, "outcome": outcome,
            "duration_ms": 0, "bytes_in": 18, "bytes_out": bytes,
        })
    };
    assert_eq!(
        lines,
        [
            line("memory/store/req", "memory", "memory", "ok", 16),
            line("memory/retrieve/req", "memory", "memory", "memory_not_found", 0),
            line("memory/init/req", "memory", "memory", "cancelled", 0),
            line("proc/spawn/req", "", "", "unsupported", 0),
        ]
    );
}

#[tokio::test]
async fn arguments_and_results_are_audited_only_with_payloads_enabled() {
    let lines = lines(true).await;
    assert_eq!(lines[0]["arguments"], json!({"key": "a secret"}));
    assert_eq!(lines[0]["result"], json!([{"stored": ["a"]}]));
}
