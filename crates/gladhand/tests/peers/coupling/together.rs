//! Two clients at once before one bridge, each with a person of its own.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gladhand::operations::call::no_arguments;
use gladhand::operations::{Answered, Operation, Question, Reply, ToolCall};
use gladhand::upstream::{Target, Upstream, UpstreamEvents};
use gladhand::wire::json::to_raw;
use serde_json::json;
use tokio::sync::Barrier;

use super::bridge::Bridge;
use super::verdict::Tongue;
use super::{Way, ours, servers};
use crate::matrix::servers::soon;

/// A named user who answers only after the other was asked too.
struct Person {
    name: &'static str,
    both_are_asked: Arc<Barrier>,
}

impl UpstreamEvents for Person {
    fn ask(&self, _question: Question) -> BoxFuture<'static, Answered> {
        let (name, both_are_asked) = (self.name, Arc::clone(&self.both_are_asked));
        Box::pin(async move {
            both_are_asked.wait().await;
            Ok(to_raw(&json!({"action": "accept", "content": {"name": name}})))
        })
    }
}

async fn greeting(target: &Target, tongue: Tongue, person: Person) -> String {
    let host: Arc<dyn UpstreamEvents> = Arc::new(person);
    let upstream = Upstream::open(target, ours::options(tongue), Arc::clone(&host)).await.expect("it opens");
    let ask = Operation::CallTool(ToolCall { name: "ask".into(), arguments: no_arguments() });
    let outcome = upstream.call_for(ask, host).await;
    upstream.close().await;
    match outcome {
        Ok(Reply::Tool(result)) => result.joined_text(),
        other => format!("{other:?}"),
    }
}

#[test]
fn two_clients_at_once_are_asked_their_own() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let servers: Vec<_> = servers::all().into_iter().filter(|server| server.steps.elicit.is_some()).collect();
    for server in servers.iter().filter(|server| server.steps.call.tool == "echo" && !server.name.contains("every")) {
        let bridge = Bridge::before(server, Way::Http);
        let target = Target::parse(&bridge.words()).expect("a URL");
        for tongues in [
            [Tongue::Handshake("2025-11-25"); 2],
            [Tongue::Stateless; 2],
            [Tongue::Handshake("2025-06-18"), Tongue::Stateless],
        ] {
            let both_are_asked = Arc::new(Barrier::new(2));
            let person = |name| Person { name, both_are_asked: Arc::clone(&both_are_asked) };
            let both = async {
                tokio::join!(greeting(&target, tongues[0], person("ada")), greeting(&target, tongues[1], person("bea")))
            };
            let both = runtime.block_on(soon(both));
            let expected = Ok(("Hello, ada!".to_owned(), "Hello, bea!".to_owned()));
            assert_eq!(both, expected, "{}: {tongues:?}", server.name);
        }
    }
}
