//! Resources under a policy: which upstream a URI is read from, and which subscribers hear of changes.

use super::*;

/// Reads any URI, listed or not, unless it is down.
#[derive(Debug, Default)]
struct Reader {
    name: &'static str,
    is_down: AtomicBool,
    resources: Mutex<Vec<Resource>>,
    templates: Mutex<Vec<&'static str>>,
}

impl crate::Provider for Reader {
    fn name(&self) -> &str {
        self.name
    }

    fn features(&self) -> crate::Features {
        crate::Features { unlisted_resources: true, ..crate::Features::default() }
    }

    fn as_resources(&self) -> Option<&dyn crate::ResourceProvider> {
        Some(self)
    }
}

impl crate::ResourceProvider for Reader {
    fn resources(&self) -> Vec<Resource> {
        self.resources.lock().unwrap().clone()
    }

    fn templates(&self) -> Vec<gladhand_core::operations::Template> {
        let texts = self.templates.lock().unwrap();
        texts.iter().map(|text| gladhand_core::operations::Template::new(*text, "t", "")).collect()
    }

    fn read(&self, uri: &str, _: &crate::Context<'_>) -> Answer {
        match self.is_down.load(Ordering::Relaxed) {
            true => Answer::Now(Err(Failure::unknown_resource(uri))),
            false => Contents::text(uri, "text/plain", self.name).into(),
        }
    }
}

/// An upstream that owns `note:1` and `user:{id}`, and another before it that reads any URI.
fn owner_and_other() -> (Arc<Reader>, Arc<Reader>, Vec<Mount>) {
    let owner = Reader { name: "owner", ..Reader::default() };
    owner.resources.lock().unwrap().push(Resource::new("note:1", "n", ""));
    owner.templates.lock().unwrap().push("user:{id}");
    let (owner, other) = (Arc::new(owner), Arc::new(Reader { name: "other", ..Reader::default() }));
    let mounts = [&other, &owner].map(|one| Mount::plain(Arc::clone(one) as _)).to_vec();
    (owner, other, mounts)
}

async fn read(hub: &Hub, uri: &'static str) -> Result<String, FailureKind> {
    let outcome = Someone::called("c").answer(hub, Operation::ReadResource(uri.into())).outcome().await;
    match outcome.map_err(|failure| failure.kind)? {
        Reply::Contents(contents) => {
            let part: Value = serde_json::from_str(contents.parts[0].get()).unwrap();
            Ok(part["text"].as_str().unwrap().to_owned())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_uri_is_read_from_its_owner_alone_also_while_it_is_not_listed() {
    for is_governed in [false, true] {
        let (owner, other, mounts) = owner_and_other();
        let mut hub = Hub::of(mounts);
        if is_governed {
            hub = hub.governed(Arc::default());
        }
        owner.resources.lock().unwrap().clear();
        owner.templates.lock().unwrap().clear();
        hub.look_again();
        for uri in ["note:1", "user:7"] {
            assert_eq!(read(&hub, uri).await.as_deref(), Ok("owner"), "{uri}");
        }
        owner.is_down.store(true, Ordering::Relaxed);
        for takes_over in [false, true] {
            if takes_over {
                other.templates.lock().unwrap().extend(["note:{id}", "user:{name}", "user:7{more}"]);
                other.resources.lock().unwrap().push(Resource::new("user:7", "u", ""));
                hub.look_again();
            }
            for uri in ["note:1", "user:7", "user:7x"] {
                assert_eq!(read(&hub, uri).await, Err(FailureKind::UnknownResource), "{uri} {takes_over}");
            }
            assert_eq!(read(&hub, "free:1").await, Err(FailureKind::UnknownResource), "which of the two has it?");
        }
        assert_eq!(read(&hub, "note:2").await.as_deref(), Ok("other"), "no other owns it");
    }
}

/// Upstreams with these names, templates and resources, in this order.
fn readers(all: [(&'static str, &[&'static str], &[&'static str]); 2]) -> Vec<Mount> {
    let reader = |(name, templates, resources): (&'static str, &[&'static str], &[&'static str])| Reader {
        name,
        templates: Mutex::new(templates.to_vec()),
        resources: Mutex::new(resources.iter().map(|uri| Resource::new(*uri, *uri, "")).collect()),
        ..Reader::default()
    };
    all.into_iter().map(|one| Mount::plain(Arc::new(reader(one)))).collect()
}

#[tokio::test]
async fn a_template_that_names_no_scheme_claims_no_uri_of_another_upstream() {
    for wide in ["{+x}", "{scheme}://{+rest}", "{a}"] {
        let mounts = readers([("wide", &[wide], &["wide://own"]), ("vault", &["vault://{+key}"], &["vault://list"])]);
        for mounts in [mounts.clone(), mounts.into_iter().rev().collect()] {
            let hub = Hub::of(mounts);
            for uri in ["vault://list", "vault://keys/1"] {
                assert_eq!(read(&hub, uri).await.as_deref(), Ok("vault"), "{wide} {uri}");
            }
            assert_eq!(read(&hub, "wide://own").await.as_deref(), Ok("wide"), "{wide}");
            assert_eq!(read(&hub, "other://x").await, Err(FailureKind::UnknownResource), "{wide}");
        }
    }
}

#[tokio::test]
async fn a_listed_uri_wins_over_templates_and_of_templates_the_most_specific_one() {
    let broad: (_, &[_], &[_]) = ("broad", &["file:///{+path}", "note:{id}"], &[]);
    let narrow: (_, &[_], &[_]) = ("narrow", &["file:///srv/{+path}", "note:{name}"], &["file:///etc/motd"]);
    for (is_broad_first, mounts) in [(true, readers([broad, narrow])), (false, readers([narrow, broad]))] {
        let hub = Hub::of(mounts);
        assert_eq!(read(&hub, "file:///etc/motd").await.as_deref(), Ok("narrow"));
        assert_eq!(read(&hub, "file:///srv/a/b").await.as_deref(), Ok("narrow"));
        assert_eq!(read(&hub, "file:///home/a").await.as_deref(), Ok("broad"));
        let first = if is_broad_first { "broad" } else { "narrow" };
        assert_eq!(read(&hub, "note:1").await.as_deref(), Ok(first), "equally specific: the first has it");
    }
}

#[tokio::test]
async fn invisible_characters_make_no_template_more_specific() {
    let padded = "file:///\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}{+path}";
    let mounts = readers([("padded", &[padded], &[]), ("srv", &["file:///srv/{+path}"], &[])]);
    let hub = Hub::of(mounts).screening(Invisible::Strip);
    assert_eq!(read(&hub, "file:///srv/a").await.as_deref(), Ok("srv"));
    assert_eq!(read(&hub, "file:///a").await.as_deref(), Ok("padded"));
}

#[tokio::test]
async fn an_unlisted_resource_is_read_from_the_only_upstream_with_resources() {
    let [one, another] = [("one", &["{+x}"] as &[_], &[] as &[_]), ("another", &[], &["a:1"])];
    let mut mounts = readers([one, another]);
    let profile = Profile { upstreams: vec![Pattern("another".to_owned())], ..Profile::default() };
    let policy = Policy { profiles: vec![profile], ..Policy::default() };
    let hub = Hub::of(mounts.clone()).governed(Arc::new(Governor::new(policy)));
    assert_eq!(read(&hub, "free:1").await.as_deref(), Ok("another"), "the other does not exist for this caller");
    mounts.pop();
    mounts.push(Mount::plain(Arc::new(kit())));
    let hub = Hub::of(mounts);
    for uri in ["free:1", "a://b/c"] {
        assert_eq!(read(&hub, uri).await.as_deref(), Ok("one"), "{uri}");
    }
}

#[tokio::test]
async fn a_resource_that_is_left_out_does_not_fall_to_another_upstream() {
    let (owner, _, mounts) = owner_and_other();
    owner.resources.lock().unwrap()[0].name = "n\u{200b}\u{e0041}".to_owned();
    owner.templates.lock().unwrap().push("user:\u{e0041}{id}");
    let book = Arc::new(Book::default());
    let governor = Governor::default().audited(Arc::clone(&book) as _);
    let hub = Hub::of(mounts.clone()).governed(Arc::new(governor)).screening(Invisible::Refuse);
    assert!(hub.resources().is_empty());
    assert_eq!(read(&hub, "note:1").await, Err(FailureKind::Denied));
    assert_eq!(read(&hub, "user:\u{e0041}7").await, Err(FailureKind::Denied));
    let expected = ["note:1 owner/note:1", "user:\u{e0041}7 owner/user:\u{e0041}7"];
    assert_eq!(book.told(), expected.map(|line| format!("{line} denied invisible")));
    let profile = Profile { upstreams: vec![Pattern("other".to_owned())], ..Profile::default() };
    let policy = Policy { profiles: vec![profile], ..Policy::default() };
    let hub = Hub::of(mounts).governed(Arc::new(Governor::new(policy)));
    for uri in ["note:1", "user:7"] {
        assert_eq!(read(&hub, uri).await, Err(FailureKind::UnknownResource), "{uri}");
    }
}

#[tokio::test]
async fn the_audit_names_provider_and_rule_for_reads_of_unlisted_resources() {
    let (_, _, mounts) = owner_and_other();
    let deny = Rule {
        about: Subjects { resources: vec![Pattern("no:*".to_owned())], ..Subjects::default() },
        ..Rule::new("not-those", Effect::Deny)
    };
    let book = Arc::new(Book::default());
    let governor = Arc::new(Governor::new(rules(vec![deny])).audited(Arc::clone(&book) as _));
    let hub = Hub::of(mounts[..1].to_vec()).governed(Arc::clone(&governor));
    assert_eq!(read(&hub, "no:1").await, Err(FailureKind::Denied));
    assert_eq!(read(&hub, "free:1").await.as_deref(), Ok("other"));
    let hub = Hub::of(mounts).governed(governor);
    assert_eq!(read(&hub, "free:1").await, Err(FailureKind::UnknownResource));
    let expected = ["no:1 other/no:1 denied not-those", "free:1 other/free:1 ok -", "free:1 / unknown_resource -"];
    assert_eq!(book.told(), expected);
}

/// The notices of changes, and how many subscriptions may not receive each.
fn told(changes: &mut tokio::sync::broadcast::Receiver<Notice>) -> Vec<(String, usize)> {
    let mut told = Vec::new();
    while let Ok(notice) = changes.try_recv() {
        if let Notice::ResourceUpdated(update) = notice {
            told.push((update.uri, update.denied.len()));
        }
    }
    told
}

async fn watch(someone: &Someone, hub: &Hub, uri: &'static str) -> gladhand_core::operations::WatchId {
    match someone.answer(hub, Operation::Watch(uri.into())).outcome().await {
        Ok(Reply::Watching(id)) => id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn policy_is_checked_for_each_resource_update() {
    let (_, _, mounts) = owner_and_other();
    let governor = Arc::new(Governor::default());
    let hub = Hub::of(mounts).governed(Arc::clone(&governor));
    let (ann, bob) = (Someone::called("c").proved("ann"), Someone::called("c").proved("bob"));
    let mut changes = hub.changes();
    let of_bob = watch(&bob, &hub, "note:1").await;
    watch(&ann, &hub, "note:1").await;
    let mut denied_now = |policy: Policy| {
        governor.replace(policy);
        hub.notifier.resource_updated("note:1/part");
        match changes.try_recv() {
            Ok(Notice::ResourceUpdated(update)) => (update.uri, update.denied),
            other => panic!("{other:?}"),
        }
    };
    let about_bob = |about: Subjects| {
        let rule = Rule { who: vec![Callers::parse("principal:bob")], about, ..Rule::new("not-bob", Effect::Deny) };
        rules(vec![rule])
    };
    let pattern = |text: &str| vec![Pattern(text.to_owned())];
    let scopes = NeededScopes { pattern: Pattern("note:*".to_owned()), scopes: vec!["notes".to_owned()] };
    let profile = Profile { who: vec![Callers::parse("bob")], upstreams: pattern("other"), ..Profile::default() };
    let ask = Rule { who: vec![Callers::parse("bob")], ..Rule::new("ask-bob", Effect::Ask) };
    for (what, policy, denied) in [
        ("nothing", Policy::default(), vec![]),
        ("the upstream", about_bob(Subjects { upstreams: pattern("owner"), ..Subjects::default() }), vec![of_bob]),
        ("another upstream", about_bob(Subjects { upstreams: pattern("other"), ..Subjects::default() }), vec![]),
        ("the resource", about_bob(Subjects { resources: pattern("note:*"), ..Subjects::default() }), vec![of_bob]),
        ("the part", about_bob(Subjects { resources: pattern("*/part"), ..Subjects::default() }), vec![of_bob]),
        ("by a profile", Policy { profiles: vec![profile], ..Policy::default() }, vec![of_bob]),
        ("without consent", rules(vec![ask]), vec![of_bob]),
        ("nothing again", Policy::default(), vec![]),
    ] {
        assert_eq!(denied_now(policy), ("note:1/part".to_owned(), denied), "{what}");
    }
    let policy = Policy { scopes: vec![scopes], ..Policy::default() };
    assert_eq!(denied_now(policy).1.len(), 2, "neither has the scope");
}

#[tokio::test]
async fn updates_of_an_approved_resource_are_sent_until_policy_changes() {
    let (_, _, mounts) = owner_and_other();
    let ask = || rules(vec![Rule::new("ask", Effect::Ask)]);
    let governor = Arc::new(Governor::new(ask()));
    let hub = Hub::of(mounts).governed(Arc::clone(&governor));
    let yes = Someone::answering(3, &accept("yes"));
    let mut changes = hub.changes();
    watch(&yes, &hub, "note:1").await;
    hub.notifier.resource_updated("note:1");
    assert_eq!(told(&mut changes), [("note:1".to_owned(), 0)]);
    governor.replace(ask());
    hub.notifier.resource_updated("note:1");
    assert_eq!(told(&mut changes), [("note:1".to_owned(), 1)]);
}

#[test]
fn a_scope_of_an_upstream_is_needed_for_every_spelling_of_its_uris() {
    let needed = |pattern: &str, uri: &str| {
        let scopes = vec!["notes".to_owned()];
        let all = [NeededScopes { pattern: Pattern(pattern.to_owned()), scopes }];
        !NeededScopes::of(&all, &CallTarget::named(Kind::Resource, "vault", uri, uri)).is_empty()
    };
    for uri in ["note:x", "NOTE:x", "note:./x", "note:%78"] {
        assert!(needed("vault__*", uri), "{uri}");
    }
    assert!(needed("note:*", "note:x") && !needed("note:*", "NOTE:x"), "URIs are compared as they are written");
}
