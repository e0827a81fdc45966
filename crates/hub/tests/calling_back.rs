//! A provider that calls the hub back from each of its methods: the hub holds none of its locks then.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand_core::operations::{Call, CallId, Notice, Operation, Reply, Resource, Tool, ToolCall, WatchId};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::policy::Who;
use gladhand_hub::{
    Answer, Asking, Caller, ChangeNotifier, Context, Hub, Mount, Opening, Provider, ResourceProvider, SessionId,
    SessionObserver,
};

/// Has a tool and a resource. While it does not know its lists, it has none.
#[derive(Debug, Default)]
struct CallsBack {
    hub: OnceLock<Hub>,
    notifier: OnceLock<ChangeNotifier>,
    heard: Mutex<Vec<&'static str>>,
    /// How often it announces a change while it is asked for its tools.
    changes: AtomicUsize,
}

impl CallsBack {
    /// Uses everything of the hub that a provider can reach.
    fn call_back(&self, from: &'static str) {
        self.heard.lock().unpoisoned().push(from);
        let Some(hub) = self.hub.get() else { return };
        hub.expects_one_session();
        hub.status();
        hub.features();
        hub.has_resource_without_provider();
        if self.heard.lock().unpoisoned().iter().filter(|heard| **heard == from).count() > 1 {
            return;
        }
        if from != "watch" {
            subscribe(hub, "a:2");
        }
        if from != "tools" {
            hub.notifier().tools_changed();
            hub.notifier().resources_changed();
        }
        hub.notifier().resource_updated("a:1");
        if let Some(notifier) = self.notifier.get() {
            notifier.resource_updated("a:1");
        }
    }
}

impl Provider for CallsBack {
    fn tools(&self) -> Vec<Tool> {
        self.call_back("tools");
        let is_left = |changes: usize| changes.checked_sub(1);
        if self.changes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_left).is_ok() {
            self.notifier.get().inspect(|notifier| notifier.tools_changed());
        }
        let names = if self.changes.load(Ordering::Relaxed) == 0 { &["late"][..] } else { &[] };
        names.iter().map(|name| Tool::plain(*name, "")).collect()
    }

    fn call(&self, _: ToolCall<'_>, _: &Context<'_>) -> Answer {
        unreachable!("no call is made")
    }

    fn attach(&self, notifier: &ChangeNotifier) {
        let _ = self.notifier.set(notifier.clone());
        self.call_back("attach");
    }

    fn as_resources(&self) -> Option<&dyn ResourceProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }
}

impl ResourceProvider for CallsBack {
    fn resources(&self) -> Vec<Resource> {
        ["a:1", "a:2"].map(|uri| Resource::new(uri, uri, "")).into()
    }

    fn watch(&self, _: &str, _: Option<&Who<'_>>) {
        self.call_back("watch");
    }

    fn unwatch(&self, _: &str) {
        self.call_back("unwatch");
    }
}

impl SessionObserver for CallsBack {
    fn opening(&self, _: Opening<'_>) {
        self.call_back("opening");
    }

    fn joined(&self, _: &Arc<dyn Caller>) {
        self.call_back("joined");
    }

    fn left(&self, _: SessionId) {
        self.call_back("left");
    }
}

#[derive(Debug)]
struct Client(SessionId);

impl Caller for Client {
    fn tell(&self, _: Notice) {}
    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}
    fn session(&self) -> SessionId {
        self.0
    }
}

fn agreement() -> Arc<Agreement> {
    let rules = Rules {
        dialect: "test",
        versions: VersionRule::Common,
        minimum: Minimum::Nothing,
        defines: |_, _, _| Defined::Yes,
    };
    let offer = Offer::new(Peer::default(), ["1"]);
    Arc::new(agree(&rules, &offer, &offer).expect("one version on both sides"))
}

fn subscribe(hub: &Hub, uri: &'static str) -> WatchId {
    let caller: Arc<dyn Caller> = Arc::new(Client(SessionId::NONE));
    let call = Call::new(CallId(1), Operation::Watch(Cow::Borrowed(uri)));
    match hub.answer(call, &agreement(), &caller) {
        Answer::Now(Ok(Reply::Watching(id))) => id,
        answer => panic!("{answer:?}"),
    }
}

/// Runs a test that must not wait for itself.
fn without_deadlock(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match ended.recv_timeout(Duration::from_secs(20)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the hub waits for itself"),
        _ => thread.join().expect("the test succeeds"),
    }
}

/// A hub with one mounted provider, and another provider that knows the hub and is not mounted yet.
fn stage() -> (Hub, Arc<CallsBack>) {
    let hub = Hub::of(Vec::new());
    let provider = Arc::new(CallsBack::default());
    provider.hub.set(hub.clone()).expect("it has no hub yet");
    (hub, provider)
}

fn mount(provider: &Arc<CallsBack>) -> Mount {
    Mount::plain(Arc::clone(provider) as _)
}

#[test]
fn a_provider_may_call_back_while_it_is_mounted() {
    without_deadlock(|| {
        let (hub, provider) = stage();
        hub.expects(&Offer::default());
        let visit = hub.visit();
        let client: Arc<dyn Caller> = Arc::new(Client(visit.id()));
        hub.joined(&client);
        // There is nothing to subscribe to before the provider is mounted.
        provider.heard.lock().unwrap().extend(["opening", "tools"]);
        hub.remount(vec![mount(&provider)]);
        for method in ["opening", "tools", "attach", "joined", "watch"] {
            assert!(provider.heard.lock().unwrap().contains(&method), "{method}");
        }
        drop(visit);
        assert!(provider.heard.lock().unwrap().contains(&"left"));
    });
}

#[test]
fn a_provider_may_call_back_while_a_subscription_begins_and_ends() {
    without_deadlock(|| {
        let (hub, provider) = stage();
        provider.heard.lock().unwrap().extend(["opening", "tools", "attach"]);
        hub.remount(vec![mount(&provider)]);
        let id = subscribe(&hub, "a:1");
        hub.unwatch("a:1", id);
        let heard = provider.heard.lock().unwrap();
        assert_eq!(heard.iter().filter(|heard| **heard == "watch").count(), 2, "the second one from within `unwatch`");
        assert_eq!(heard.iter().filter(|heard| **heard == "unwatch").count(), 1);
    });
}

#[test]
fn a_change_that_a_provider_announces_while_it_is_asked_is_shown() {
    without_deadlock(|| {
        let (hub, provider) = stage();
        provider.heard.lock().unwrap().extend(["opening", "tools", "attach"]);
        hub.remount(vec![mount(&provider)]);
        provider.changes.store(2, Ordering::Relaxed);
        hub.look_again();
        assert_eq!(hub.tools().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["late"]);
    });
}
