//! A hub under a policy, from the outside: what is decided, seen, asked, bounded and written down.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_core::Pattern;
use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand_core::operations::{
    Call, CallId, Contents, Failure, FailureKind, Notice, Operation, Outcome, Reply, Resource, ScopeRecord, Tool,
    ToolCall, ToolResult,
};
use gladhand_core::validation::ArgumentSchema;
use gladhand_core::wire::json;
use gladhand_schemas::Check;
use serde_json::{Value, json};

use super::*;
use crate::{Answer, Asking, Caller, Hub, Kit, Mount, Naming, SessionId};

/// A caller that gives the same answer to everything, or none.
#[derive(Debug, Default)]
struct Person {
    session: u64,
    answer: Option<Value>,
    asked: Mutex<Vec<Value>>,
    told: Mutex<Vec<Notice>>,
    waiting: Mutex<Vec<Asking>>,
}

impl Caller for Person {
    fn tell(&self, notice: Notice) {
        self.told.lock().unwrap().push(notice);
    }

    fn ask(&self, _: Option<CallId>, questions: Vec<Asking>) {
        for asking in questions {
            self.asked.lock().unwrap().push(serde_json::from_str(asking.question.params.get()).unwrap());
            match &self.answer {
                Some(answer) => drop(asking.answer.send(Ok(json::to_raw(answer)))),
                None => self.waiting.lock().unwrap().push(asking),
            }
        }
    }

    fn session(&self) -> SessionId {
        SessionId(self.session)
    }
}

fn person(session: u64, answer: Value) -> Arc<Person> {
    Arc::new(Person { session, answer: Some(answer), ..Person::default() })
}

fn agreement(client: &str, capabilities: &[&str]) -> Arc<Agreement> {
    let rules = Rules {
        dialect: "test",
        versions: VersionRule::Common,
        minimum: Minimum::Nothing,
        defines: |_, _, _| Defined::Yes,
    };
    let server = Offer::new(Peer::default(), ["1"]);
    let mut offer = Offer::new(Peer::new(client, "1.2"), ["1"]);
    for capability in capabilities {
        offer = offer.providing(gladhand_core::negotiation::Capability::from_wire(*capability));
    }
    Arc::new(agree(&rules, &offer, &server).expect("one version on both sides"))
}

/// Who calls in a test.
#[derive(Clone)]
struct Someone {
    principal: Option<&'static str>,
    agreement: Arc<Agreement>,
    person: Arc<Person>,
}

impl Someone {
    fn called(client: &str) -> Self {
        Self { principal: None, agreement: agreement(client, &[]), person: person(1, json!(null)) }
    }

    fn proved(self, principal: &'static str) -> Self {
        Self { principal: Some(principal), ..self }
    }

    fn answering(session: u64, answer: &Value) -> Self {
        let person = person(session, answer.clone());
        Self { principal: None, agreement: agreement("c", &["elicitation"]), person }
    }

    fn answer(&self, hub: &Hub, operation: Operation<'_>) -> Answer {
        let mut call = Call::new(CallId(1), operation);
        call.terms.principal = self.principal.map(Arc::from);
        let caller: Arc<dyn Caller> = Arc::clone(&self.person) as _;
        hub.answer(call, &self.agreement, &caller)
    }

    fn start(&self, hub: &Hub, tool: &'static str, arguments: &Value) -> Answer {
        let arguments = std::borrow::Cow::Owned(json::to_raw(arguments));
        self.answer(hub, Operation::CallTool(ToolCall { name: tool.into(), arguments }))
    }

    async fn call(&self, hub: &Hub, tool: &'static str, arguments: Value) -> Result<String, Failure> {
        text(self.start(hub, tool, &arguments).outcome().await)
    }

    fn tools(&self, hub: &Hub) -> Vec<String> {
        match self.answer(hub, Operation::ListTools) {
            Answer::Now(Ok(Reply::Tools(tools))) => tools.iter().map(|tool| tool.name.clone()).collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn text(outcome: Outcome) -> Result<String, Failure> {
    match outcome? {
        Reply::Tool(result) => Ok(result.joined_text()),
        other => panic!("{other:?}"),
    }
}

fn kit() -> Kit {
    let annotated = |name: &str, hints: Value| Tool::plain(name, "").with("annotations", &hints);
    let says = |text: &'static str| move |_: ToolCall<'_>, _: &crate::Context<'_>| Ok(ToolResult::text(text));
    Kit::new()
        .tool(annotated("read", json!({"readOnlyHint": true})), says("read"))
        .tool(annotated("add", json!({"readOnlyHint": false, "destructiveHint": false})), says("added"))
        .tool(Tool::plain("push", ""), says("pushed"))
}

fn hub(policy: Policy) -> Hub {
    governed(Governor::new(policy))
}

fn governed(governor: Governor) -> Hub {
    let mount = Mount { provider: Arc::new(kit()), naming: Naming::prefixed("git") };
    Hub::of(vec![
        mount,
        Mount::plain(Arc::new(Kit::new().tool(Tool::plain("echo", ""), |_, _| Ok(ToolResult::text("echo"))))),
    ])
    .governed(Arc::new(governor))
}

fn rule(name: &str, who: &[&str], tools: &[&str], when: Option<&str>, effect: Effect) -> Rule {
    Rule {
        who: who.iter().map(|who| Callers::parse(who)).collect(),
        about: Subjects {
            tools: tools.iter().map(|tools| Tools::parse(tools).unwrap()).collect(),
            ..Subjects::default()
        },
        when: when.map(|when| Expression::parse(when).unwrap()),
        reason: format!("because of {name}"),
        ..Rule::new(name, effect)
    }
}

fn rules(rules: Vec<Rule>) -> Policy {
    Policy { rules, ..Policy::default() }
}

#[tokio::test]
async fn the_strictest_list_of_rules_decides() {
    let policy = |own: Effect, other: Effect| Policy {
        narrowing: vec![vec![rule("other", &[], &["git__push"], None, other)]],
        ..rules(vec![rule("own", &[], &["git__push"], None, own)])
    };
    let alice = Someone::called("c").proved("alice");
    for (own, other, decided_by) in [
        (Effect::Allow, Effect::Deny, Some("other")),
        (Effect::Deny, Effect::Allow, Some("own")),
        (Effect::Deny, Effect::Ask, Some("own")),
        (Effect::Allow, Effect::Allow, None),
    ] {
        let called = alice.call(&hub(policy(own, other)), "git__push", json!({"branch": "x"})).await;
        let refused_by = called.err().map(|failure| failure.message);
        let expected = decided_by.map(|rule| format!("policy forbids git__push (rule `{rule}`): because of {rule}"));
        assert_eq!(refused_by, expected, "{own} and {other}");
    }
}

#[tokio::test]
async fn the_first_rule_that_matches_decides() {
    let hub = hub(rules(vec![
        rule("ours", &["principal:alice"], &["git__push"], None, Effect::Allow),
        rule("main", &[], &["git__push"], Some(r#"branch == "main""#), Effect::Deny),
        rule("robots", &["client:robot*"], &["@destructive"], None, Effect::Deny),
    ]));
    let (alice, bob) = (Someone::called("c").proved("alice"), Someone::called("c").proved("bob"));
    let main = || json!({"branch": "main"});
    assert_eq!(alice.call(&hub, "git__push", main()).await.unwrap(), "pushed");
    let failure = bob.call(&hub, "git__push", main()).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Denied);
    assert_eq!(failure.message, "policy forbids git__push (rule `main`): because of main");
    assert_eq!(failure.data.unwrap().get(), r#"{"reason":"because of main","rule":"main"}"#);
    assert_eq!(bob.call(&hub, "git__push", json!({"branch": "fix"})).await.unwrap(), "pushed");
    let robot = Someone::called("robot-7").proved("client:x");
    let failure = robot.call(&hub, "git__push", json!({})).await.unwrap_err();
    assert!(failure.message.contains("rule `robots`"), "{failure}");
    assert_eq!(robot.call(&hub, "git__read", json!({})).await.unwrap(), "read");
    assert_eq!(robot.call(&hub, "git__add", json!({})).await.unwrap(), "added", "it says that it destroys nothing");
    let mallory = Someone::called("alice");
    assert!(mallory.call(&hub, "git__push", main()).await.is_err(), "a name is no proof");
}

#[tokio::test]
async fn arguments_that_two_could_read_differently_are_denied_where_a_rule_looks_at_them() {
    let hub = hub(rules(vec![rule("main", &[], &["git__push"], Some(r#"branch == "main""#), Effect::Deny)]));
    let twice = json::raw(r#"{"branch":"main","branch":"fix"}"#.to_owned());
    let call = |name: &'static str| ToolCall { name: name.into(), arguments: std::borrow::Cow::Borrowed(&*twice) };
    let someone = Someone::called("c");
    let outcome = someone.answer(&hub, Operation::CallTool(call("git__push"))).outcome().await;
    let failure = text(outcome).unwrap_err();
    assert!(failure.message.contains(r#""branch" is there twice"#), "{failure}");
    assert!(someone.answer(&hub, Operation::CallTool(call("git__add"))).outcome().await.is_ok());
}

#[test]
fn a_decision_is_explained_rule_by_rule() {
    let schema = Check::compile(r#"{"required": ["path"]}"#).unwrap();
    let mut policy = rules(vec![
        rule("a", &["alice"], &[], None, Effect::Allow),
        rule("b", &[], &["other"], None, Effect::Allow),
        rule("c", &[], &["t"], Some("n > 1"), Effect::Deny),
        Rule { schema: Some(Box::new(schema)), ..rule("d", &[], &[], None, Effect::Deny) },
        rule("e", &[], &["t*"], None, Effect::Ask),
        rule("f", &[], &[], None, Effect::Deny),
    ]);
    let tool = Tool::plain("t", "");
    let who = Who { principal: Some("bob"), client: "c", session: SessionId(1), scopes: None };
    let what = CallTarget::tool("", "t", &tool);
    let explain = |policy: &Policy, arguments: &str| policy.explain(&who, &what, &json::raw(arguments.to_owned()));
    let explanation = explain(&policy, r#"{"n":1}"#);
    let told: Vec<_> =
        explanation.rules.iter().map(|one| format!("{} {}: {}", one.rule, one.effect, one.verdict)).collect();
    assert_eq!(
        told,
        [
            "a allow: is about other callers",
            "b allow: is about something else",
            "c deny: `n > 1` does not hold",
            "d deny: the arguments do not fit its schema",
            "e ask: matches",
        ]
    );
    assert_eq!(explanation.decision.to_string(), "ask, by rule `e`: because of e");
    assert_eq!(explain(&policy, r#"{"n":2}"#).decision.to_string(), "deny, by rule `c`: because of c");
    assert_eq!(explain(&policy, r#"{"path":1}"#).decision.to_string(), "deny, by rule `d`: because of d");
    let json = serde_json::to_value(&explanation.rules[2]).unwrap();
    let expected = json!({"rule": "c", "effect": "deny", "match": "condition_does_not_hold", "condition": "n > 1"});
    assert_eq!(json, expected);
    policy.rules.clear();
    assert_eq!(explain(&policy, "{}").decision, Decision::Allow, "what no rule is about is allowed");
}

#[tokio::test]
async fn unconditionally_denied_tools_are_not_listed() {
    let hub = hub(rules(vec![
        rule("some", &[], &["git__add"], Some("n > 1"), Effect::Deny),
        rule("maybe", &[], &["git__read"], Some("n > 1"), Effect::Allow),
        rule("robots", &["robot"], &["git__*"], None, Effect::Deny),
    ]));
    assert_eq!(Someone::called("c").tools(&hub), ["git__read", "git__add", "git__push", "echo"]);
    assert_eq!(Someone::called("robot").tools(&hub), ["git__read", "echo"]);
    let failure = Someone::called("robot").call(&hub, "git__push", json!({})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Denied, "it exists, and may not be called");
}

#[test]
fn callers_without_hidden_tools_share_one_list() {
    let list = |hub: &Hub| match Someone::called("c").answer(hub, Operation::ListTools) {
        Answer::Now(Ok(Reply::Tools(tools))) => tools,
        other => panic!("{other:?}"),
    };
    let open = hub(rules(vec![rule("some", &[], &["git__add"], Some("n > 1"), Effect::Deny)]));
    assert!(Arc::ptr_eq(&list(&open), &open.tools()));
    let hiding = hub(rules(vec![rule("none", &[], &["git__add"], None, Effect::Deny)]));
    assert!(!Arc::ptr_eq(&list(&hiding), &hiding.tools()));
    assert!(Arc::ptr_eq(&list(&hiding), &list(&hiding)), "and a list that was made is kept");
}

#[test]
fn callers_share_a_view_unless_the_policy_names_them() {
    let everyone = hub(rules(vec![rule("none", &[], &["git__add"], None, Effect::Deny)]));
    let some = hub(rules(vec![rule("none", &["client:a*"], &["git__add"], None, Effect::Deny)]));
    for n in 0..200 {
        assert_eq!(Someone::called(&format!("a{n}")).tools(&everyone), ["git__read", "git__push", "echo"]);
        assert_eq!(Someone::called(&format!("a{n}")).tools(&some), ["git__read", "git__push", "echo"]);
        let other = Someone::called(&format!("b{n}")).tools(&some);
        assert_eq!(other, ["git__read", "git__add", "git__push", "echo"]);
    }
    assert_eq!(everyone.inner.routes().views.count(), 1);
    assert_eq!(some.inner.routes().views.count(), 2);
    let whole = Someone::called("b").answer(&some, Operation::ListTools);
    assert!(matches!(whole, Answer::Now(Ok(Reply::Tools(tools))) if Arc::ptr_eq(&tools, &some.tools())));
}

#[tokio::test]
async fn a_profile_selects_and_renames_tools() {
    let profile = Profile {
        name: "readers".to_owned(),
        who: vec![Callers::parse("reader")],
        upstreams: vec![Pattern("git".to_owned())],
        hidden: vec![Pattern("*push".to_owned())],
        renamed: [("git__read".to_owned(), "look".to_owned())].into(),
        ..Profile::default()
    };
    let hub = hub(Policy { profiles: vec![profile], ..Policy::default() });
    let (reader, other) = (Someone::called("reader"), Someone::called("c"));
    assert_eq!(reader.tools(&hub), ["look", "git__add"]);
    assert_eq!(reader.call(&hub, "look", json!({})).await.unwrap(), "read");
    for name in ["git__read", "git__push", "echo"] {
        let failure = reader.call(&hub, name, json!({})).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::UnknownTool, "{name}");
    }
    assert_eq!(other.tools(&hub), ["git__read", "git__add", "git__push", "echo"]);
    hub.governor().unwrap().replace(Policy::default());
    let mut changes = hub.changes();
    hub.look_again();
    assert_eq!(reader.tools(&hub).len(), 4, "another policy shows something else");
    assert!(matches!(changes.try_recv(), Ok(Notice::ToolsChanged)), "and everybody is told");
}

fn asking() -> Policy {
    rules(vec![rule("careful", &[], &["git__push"], None, Effect::Ask)])
}

fn accept(answer: &str) -> Value {
    json!({"action": "accept", "content": {"answer": answer}})
}

#[tokio::test]
async fn a_person_is_asked_and_only_yes_is_yes() {
    let hub = hub(asking());
    let yes = Someone::answering(1, &accept("yes"));
    assert_eq!(yes.call(&hub, "git__push", json!({"branch": "main"})).await.unwrap(), "pushed");
    {
        let asked = yes.person.asked.lock().unwrap();
        assert_eq!(asked[0]["message"], "Allow git__push with {\"branch\":\"main\"}?\nbecause of careful");
        assert_eq!(asked[0]["requestedSchema"]["properties"]["answer"]["enum"], json!(["yes", "no", "always"]));
    }
    for answer in [
        accept("no"),
        accept("perhaps"),
        json!({"action": "accept"}),
        json!({"action": "decline", "content": {"answer": "yes"}}),
        json!({"action": "cancel"}),
        json!(7),
    ] {
        let failure = Someone::answering(1, &answer).call(&hub, "git__push", json!({})).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Denied, "{answer}");
        let told = "policy forbids git__push (rule `careful`): the user did not allow it";
        assert_eq!(failure.message, told);
    }
}

#[tokio::test]
async fn a_schema_that_cannot_be_checked_denies() {
    let schema = json!({"required": ["op"], "properties": {"op": {"const": "drop"}, "a": {"allOf": [
        {"$ref": "#"}, {"$ref": "#"}]}}, "$defs": {}});
    for effect in [Effect::Deny, Effect::Allow, Effect::Ask] {
        let schema = Some(Box::new(Check::compile(&schema.to_string()).unwrap()) as Box<dyn ArgumentSchema>);
        let hub = hub(rules(vec![Rule { schema, ..rule("shaped", &[], &["git__push"], None, effect) }]));
        let caller = Someone::called("c");
        assert_eq!(caller.call(&hub, "git__push", json!({"op": "keep"})).await.unwrap(), "pushed");
        let deep = (0..60).fold(json!({"op": "drop"}), |inner, _| json!({"op": "drop", "a": inner}));
        let failure = caller.call(&hub, "git__push", deep).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Denied);
        assert!(failure.message.contains("too deeply nested"), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_call_that_a_person_cannot_be_shown_is_refused_without_a_question() {
    let hub = hub(asking());
    let yes = Someone::answering(1, &accept("yes"));
    let failure = yes.call(&hub, "git__push", json!({"list": vec![0; 5000], "force": true})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Denied);
    assert!(failure.message.contains("too long to be shown"), "{}", failure.message);
    assert!(yes.person.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn always_holds_for_the_tool_and_the_session_and_not_longer() {
    let hub = hub(asking());
    let visit = hub.visit();
    let always = Someone::answering(visit.id().0, &accept("always"));
    for _ in 0..3 {
        assert!(always.call(&hub, "git__push", json!({})).await.is_ok());
    }
    assert_eq!(always.person.asked.lock().unwrap().len(), 1);
    let other = Someone::answering(visit.id().0 + 1, &accept("no"));
    assert!(other.call(&hub, "git__push", json!({})).await.is_err());
    drop(visit);
    assert!(always.call(&hub, "git__push", json!({})).await.is_ok());
    assert_eq!(always.person.asked.lock().unwrap().len(), 2, "the session has ended, and so has what it allowed");
    let nobody = Someone::answering(0, &accept("always"));
    for _ in 0..2 {
        assert!(nobody.call(&hub, "git__push", json!({})).await.is_ok());
    }
    let asked = nobody.person.asked.lock().unwrap();
    assert_eq!(asked.len(), 2, "without a session there is nothing to remember it for");
    assert_eq!(asked[0]["requestedSchema"]["properties"]["answer"]["enum"], json!(["yes", "no"]));
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_refused_with_the_reason() {
    let hub = hub(asking());
    let by_url = Someone { agreement: agreement("c", &["elicitation", "elicitation.url"]), ..Someone::called("c") };
    for someone in [Someone::called("c"), by_url] {
        let failure = someone.call(&hub, "git__push", json!({})).await.unwrap_err();
        let told = "policy forbids git__push (rule `careful`): because of careful; a user must be asked first, and this \
                    client cannot ask";
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Denied, told));
    }
}

#[tokio::test]
async fn a_call_that_becomes_a_task_is_approved_first() {
    let tool = Tool::plain("t", "").as_task(gladhand_core::operations::TaskSupport::Optional);
    let hub = Kit::new().slow_tool(tool, |_, _| async { Ok(ToolResult::text("done")) }).into_hub().unwrap();
    let hub = hub.governed(Arc::new(Governor::new(rules(vec![rule("careful", &[], &["t"], None, Effect::Ask)]))));
    for (answer, is_task) in [("yes", true), ("no", false)] {
        let someone = Someone::answering(1, &accept(answer));
        let arguments = gladhand_core::operations::call::no_arguments();
        let mut call = Call::new(CallId(1), Operation::CallTool(ToolCall { name: "t".into(), arguments }));
        call.terms.task = gladhand_core::operations::TaskWish::Able;
        let caller: Arc<dyn Caller> = Arc::clone(&someone.person) as _;
        let Answer::TaskLater(work) = hub.answer(call, &someone.agreement, &caller) else { panic!("it asks first") };
        assert_eq!(work.await.is_ok(), is_task);
        let told = someone.person.told.lock().unwrap();
        assert_eq!(matches!(told[..], [Notice::GoesOnAsTask(CallId(1))]), is_task, "{told:?}");
    }
}

/// An auditor that keeps everything.
#[derive(Debug, Default)]
struct Book {
    records: Mutex<Vec<Record>>,
    payloads: bool,
}

impl Auditor for Book {
    fn record(&self, record: Record) {
        self.records.lock().unwrap().push(record);
    }

    fn wants_payloads(&self) -> bool {
        self.payloads
    }
}

impl Book {
    fn told(&self) -> Vec<String> {
        let records = self.records.lock().unwrap();
        let told = |one: &Record| {
            let rule = one.rule.as_deref().unwrap_or("-");
            format!("{} {}/{} {} {rule}", one.tool, one.upstream, one.own_name, one.outcome)
        };
        records.iter().map(told).collect()
    }
}

#[tokio::test]
async fn a_question_can_be_cancelled_while_it_waits() {
    let book = Arc::new(Book::default());
    let hub = governed(Governor::new(asking()).audited(Arc::clone(&book) as _));
    let silent = Arc::new(Person { session: 1, ..Person::default() });
    let someone = Someone { principal: None, agreement: agreement("c", &["elicitation"]), person: Arc::clone(&silent) };
    let Answer::TaskLater(mut work) = someone.start(&hub, "git__push", &json!({})) else { panic!("it was to wait") };
    tokio::select! {
        biased;
        outcome = &mut work => panic!("{outcome:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(silent.waiting.lock().unwrap().len(), 1);
    drop(work);
    assert!(silent.waiting.lock().unwrap()[0].answer.is_closed(), "no caller waits for the response any more");
    assert_eq!(book.told(), ["git__push git/push cancelled -"]);
}

#[tokio::test]
async fn every_call_is_written_down_with_its_end() {
    let book = Arc::new(Book::default());
    let policy = rules(vec![
        rule("no-add", &[], &["git__add"], None, Effect::Deny),
        rule("careful", &[], &["git__push"], None, Effect::Ask),
    ]);
    let hub = governed(Governor::new(policy).audited(Arc::clone(&book) as _));
    let yes = Someone::answering(3, &accept("yes")).proved("alice");
    assert!(yes.call(&hub, "echo", json!({"secret": "hush"})).await.is_ok());
    assert!(yes.call(&hub, "git__add", json!({})).await.is_err());
    assert!(yes.call(&hub, "git__push", json!({})).await.is_ok());
    assert!(yes.call(&hub, "nothing", json!({})).await.is_err());
    assert!(Someone::answering(3, &accept("no")).call(&hub, "git__push", json!({})).await.is_err());
    assert_eq!(
        book.told(),
        [
            "echo /echo ok -",
            "git__add git/add denied no-add",
            "git__push git/push ok -",
            "nothing / unknown_tool -",
            "git__push git/push denied careful",
        ]
    );
    let records = book.records.lock().unwrap();
    let line = serde_json::to_value(&records[0]).unwrap();
    let expected = json!({
        "session": 3, "principal": "alice", "client": "c", "client_version": "1.2", "dialect": "test", "dialect_version": "1",
        "upstream": "", "operation": "tool", "tool": "echo", "own_name": "echo", "outcome": "ok", "duration_ms": line["duration_ms"],
        "bytes_in": 17, "bytes_out": 6,
    });
    assert_eq!(line, expected, "and nothing of what was said");
}

#[tokio::test]
async fn payloads_are_audited_only_if_enabled() {
    let book = Arc::new(Book { payloads: true, ..Book::default() });
    let hub = governed(Governor::default().audited(Arc::clone(&book) as _));
    let arguments = json::raw("{\n\"a\":1}".to_owned());
    let call = ToolCall { name: "echo".into(), arguments: std::borrow::Cow::Borrowed(&*arguments) };
    assert!(Someone::called("c").answer(&hub, Operation::CallTool(call)).outcome().await.is_ok());
    let line = serde_json::to_string(&book.records.lock().unwrap()[0]).unwrap();
    assert!(!line.contains('\n'), "one call is one line: {line}");
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["arguments"], json!({"a": 1}));
    assert_eq!(value["result"], json!([{"type": "text", "text": "echo"}]));
}

#[tokio::test]
async fn resource_reads_and_prompts_are_audited() {
    use gladhand_core::operations::{Contents, Prompt, PromptResult, Resource};
    let kit = Kit::new()
        .resource(Resource::new("memo://a", "a", ""), |uri, _| Ok(Contents::text(uri, "text/plain", "hi")))
        .prompt(Prompt::new("greet", ""), |_, _| Ok(PromptResult::text("hello")));
    let book = Arc::new(Book::default());
    let governor = Governor::default().audited(Arc::clone(&book) as _);
    let mount = Mount { provider: Arc::new(kit), naming: Naming::prefixed("k") };
    let hub = Hub::of(vec![mount]).governed(Arc::new(governor));
    let someone = Someone::called("c");
    let prompt = ToolCall { name: "k__greet".into(), arguments: gladhand_core::operations::call::no_arguments() };
    for operation in [
        Operation::ReadResource("memo://a".into()),
        Operation::ReadResource("memo://b".into()),
        Operation::GetPrompt(prompt),
        Operation::ListPrompts,
    ] {
        let _ = someone.answer(&hub, operation).outcome().await;
    }
    assert_eq!(
        book.told(),
        ["memo://a k/memo://a ok -", "memo://b / unknown_resource -", "k__greet k/greet ok -"],
        "lists are not: they say nothing of anybody"
    );
}

/// Sets a flag when it is dropped.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn stuck(limit: Limit) -> (Hub, Arc<AtomicBool>) {
    let ended = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ended);
    let kit = Kit::new().slow_tool(Tool::plain("stuck", ""), move |_, _| {
        let ended = Ended(Arc::clone(&seen));
        async move {
            std::future::pending::<()>().await;
            drop(ended);
            Ok(ToolResult::text("never"))
        }
    });
    let limit = Limit { name: "l".to_owned(), ..limit };
    let policy = Policy { limits: vec![limit], ..Policy::default() };
    (kit.into_hub().unwrap().governed(Arc::new(Governor::new(policy))), ended)
}

#[tokio::test]
async fn a_call_that_takes_too_long_fails_and_its_work_is_dropped() {
    let (hub, ended) = stuck(Limit { timeout: Some(Duration::from_millis(5)), ..Limit::default() });
    let failure = Someone::called("c").call(&hub, "stuck", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::TimedOut, "it took longer than the 5 ms allowed")
    );
    assert!(ended.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_call_counts_as_running_until_it_ends_or_is_cancelled() {
    let (hub, _) = stuck(Limit { concurrent: Some(1), ..Limit::default() });
    let someone = Someone::called("c");
    let running = someone.start(&hub, "stuck", &json!({}));
    let failure = someone.call(&hub, "stuck", json!({})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Busy);
    drop(running);
    assert!(matches!(someone.start(&hub, "stuck", &json!({})), Answer::Later(_)));
}

#[tokio::test]
async fn a_replaced_policy_applies_from_the_next_call_and_notifies_of_changed_lists() {
    let hub = hub(rules(vec![rule("r", &[], &["git__push"], None, Effect::Deny)]));
    let (someone, mut changes) = (Someone::called("c"), hub.changes());
    let governor = hub.governor().unwrap();
    let all = Someone::called("c").tools(&hub).len() + 1;
    let replace = |policy| {
        if governor.replace(policy) {
            hub.look_again()
        }
    };
    replace(rules(vec![]));
    assert_eq!(someone.tools(&hub).len(), all, "what was hidden is seen");
    assert!(matches!(changes.try_recv(), Ok(Notice::ToolsChanged)));
    while changes.try_recv().is_ok() {}
    replace(rules(vec![rule("r", &[], &["git__push"], Some("force exists"), Effect::Deny)]));
    let refused = someone.call(&hub, "git__push", json!({"force": true})).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Denied);
    replace(Policy { limits: vec![Limit { concurrent: Some(1), ..Limit::default() }], ..Policy::default() });
    assert!(changes.try_recv().is_err(), "neither shows or hides anything");
    replace(rules(vec![rule("r", &["c"], &["git__push"], None, Effect::Deny)]));
    assert_eq!(someone.tools(&hub).len(), all - 1);
    assert!(matches!(changes.try_recv(), Ok(Notice::ToolsChanged)));
}

#[tokio::test]
async fn a_replaced_policy_keeps_usage_of_unchanged_limits_and_drops_consent() {
    let limited = |name: &str| {
        let rate = Some(Rate { calls: 2, per: Duration::from_secs(3600) });
        Policy { limits: vec![Limit { name: name.to_owned(), rate, ..Limit::default() }], ..asking() }
    };
    let hub = hub(limited("a"));
    let governor = hub.governor().unwrap();
    let someone = Someone::answering(1, &accept("always"));
    let asked = || someone.person.asked.lock().unwrap().len();
    someone.call(&hub, "git__push", json!({})).await.unwrap();
    someone.call(&hub, "git__push", json!({})).await.unwrap();
    assert_eq!(asked(), 1);
    governor.replace(limited("a"));
    let busy = someone.call(&hub, "git__push", json!({})).await.unwrap_err();
    assert_eq!((busy.kind, asked()), (FailureKind::Busy, 2), "the rule may be another one");
    governor.replace(limited("b"));
    someone.call(&hub, "git__push", json!({})).await.unwrap();
}

/// Two upstreams with a resource each, and a client whose dialect has no word for them.
fn with_resources(policy: Policy) -> (Hub, Someone) {
    let mount = |name: &str, uri: &str| {
        let read = |uri: &str, _: &crate::Context<'_>| Ok(Contents::text(uri, "text/plain", "what is in it"));
        Mount {
            provider: Arc::new(Kit::new().resource(Resource::new(uri, "r", ""), read)),
            naming: Naming::prefixed(name),
        }
    };
    let hub = Hub::of(vec![mount("notes", "note:1"), mount("vault", "secret:1")]);
    (hub.governed(Arc::new(Governor::new(policy))), Someone::called("plain"))
}

#[tokio::test]
async fn a_denied_resource_is_also_denied_through_the_read_tool() {
    let not_secrets = rule("vault", &[], &["read_resource"], Some(r#"uri starts_with "secret:""#), Effect::Deny);
    let (hub, plain) = with_resources(rules(vec![not_secrets]));
    assert_eq!(plain.tools(&hub), ["list_resources", "read_resource"]);
    assert!(plain.call(&hub, "read_resource", json!({"uri": "note:1"})).await.unwrap().contains("what is in it"));
    let denied = plain.call(&hub, "read_resource", json!({"uri": "secret:1"})).await.unwrap_err();
    assert!(denied.message.contains("because of vault"), "{denied}");
}

#[tokio::test]
async fn a_tool_that_stands_in_for_resources_is_denied_and_hidden_like_any_other() {
    let (hub, plain) = with_resources(rules(vec![rule("none", &[], &["read_resource"], None, Effect::Deny)]));
    assert_eq!(plain.tools(&hub), ["list_resources"]);
    let denied = plain.call(&hub, "read_resource", json!({"uri": "note:1"})).await.unwrap_err();
    assert!(denied.message.contains("because of none"), "{denied}");
}

#[tokio::test]
async fn a_resource_hidden_by_a_profile_is_also_hidden_from_the_read_tool() {
    let (who, upstreams) = (vec![Callers::parse("plain")], vec![Pattern("notes".to_owned())]);
    let profile = Profile { name: "p".to_owned(), who, upstreams, ..Profile::default() };
    let (hub, plain) = with_resources(Policy { profiles: vec![profile], ..Policy::default() });
    let listed = plain.call(&hub, "list_resources", json!({})).await.unwrap();
    assert!(listed.contains("note:1") && !listed.contains("secret:1"), "{listed}");
    assert!(plain.call(&hub, "read_resource", json!({"uri": "note:1"})).await.is_ok());
    assert!(plain.call(&hub, "read_resource", json!({"uri": "secret:1"})).await.is_err());
}

/// A hub whose upstream has one thing of each kind.
fn of_all_kinds(governor: Governor) -> Hub {
    use gladhand_core::operations::{Prompt, PromptResult, Template};
    let kit = Kit::new()
        .tool(Tool::plain("look", ""), |_, _| Ok(ToolResult::text("seen")))
        .resource(Resource::new("note:1", "n", ""), |uri, _| Ok(Contents::text(uri, "text/plain", "hi")))
        .template(Template::new("user:{id}", "u", ""), |uri, _| Ok(Contents::text(uri, "text/plain", "hi")))
        .prompt(Prompt::new("greet", "").argument("who", ""), |_, _| Ok(PromptResult::text("hello")));
    let vault = Mount { provider: Arc::new(kit), naming: Naming::prefixed("vault") };
    Hub::of(vec![vault, Mount::plain(Arc::new(Memories))]).governed(Arc::new(governor))
}

/// Serves a capability.
#[derive(Debug)]
struct Memories;

impl crate::Provider for Memories {
    fn as_capabilities(&self) -> Option<&dyn crate::CapabilityProvider> {
        Some(self)
    }
}

impl crate::CapabilityProvider for Memories {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["memory"]
    }

    fn serve(&self, _: gladhand_core::operations::CapabilityCall<'_>, _: &crate::Context<'_>) -> Answer {
        Answer::Now(Ok(Reply::Capability(json::raw("{}".to_owned()))))
    }
}

/// Everything that a caller can reach there, and the names by which the audit file knows it.
fn reachable() -> Vec<(&'static str, Operation<'static>)> {
    use gladhand_core::operations::{CapabilityCall, CompletionCall, CompletionOf};
    let call =
        |name: &'static str| ToolCall { name: name.into(), arguments: gladhand_core::operations::call::no_arguments() };
    let completion =
        |of| Operation::Complete(CompletionCall { of, argument: "who".into(), value: "a".into(), context: None });
    let message = std::borrow::Cow::Owned(json::raw("{}".to_owned()));
    let capability = CapabilityCall { kind: "memory/store/req", capability: "memory", request: None, message };
    vec![
        ("tool vault__look", Operation::CallTool(call("vault__look"))),
        ("resource note:1", Operation::ReadResource("note:1".into())),
        ("resource user:7", Operation::ReadResource("user:7".into())),
        ("subscription note:1", Operation::Watch("note:1".into())),
        ("prompt vault__greet", Operation::GetPrompt(call("vault__greet"))),
        ("completion vault__greet", completion(CompletionOf::Prompt("vault__greet".into()))),
        ("completion user:{id}", completion(CompletionOf::Template("user:{id}".into()))),
        ("capability memory/store/req", Operation::Capability(capability)),
    ]
}

/// Which of all that ends with a failure of a kind.
async fn ending_with(kind: FailureKind, someone: &Someone, hub: &Hub) -> Vec<&'static str> {
    let mut ended = Vec::new();
    for (told, operation) in reachable() {
        if someone.answer(hub, operation).outcome().await.is_err_and(|failure| failure.kind == kind) {
            ended.push(told);
        }
    }
    ended
}

#[tokio::test]
async fn a_rule_without_subjects_applies_to_every_kind_of_call() {
    let book = Arc::new(Book::default());
    let policy = rules(vec![rule("none", &["principal:mallory"], &[], None, Effect::Deny)]);
    let hub = of_all_kinds(Governor::new(policy).audited(Arc::clone(&book) as _));
    let (mallory, ann) = (Someone::called("c").proved("mallory"), Someone::called("c").proved("ann"));
    let all: Vec<_> = reachable().into_iter().map(|(told, _)| told).collect();
    assert_eq!(ending_with(FailureKind::Denied, &mallory, &hub).await, all);
    let written: Vec<_> = {
        let records = book.records.lock().unwrap();
        records.iter().map(|one| format!("{} {} {} {:?}", one.operation, one.tool, one.outcome, one.rule)).collect()
    };
    let expected: Vec<_> = all.iter().map(|told| format!("{told} denied Some(\"none\")")).collect();
    assert_eq!(written, expected);
    for (told, operation) in reachable() {
        let outcome = ann.answer(&hub, operation).outcome().await;
        assert!(outcome.is_ok(), "{told}: {outcome:?}");
    }
    for list in [Operation::ListTools, Operation::ListResources, Operation::ListTemplates, Operation::ListPrompts] {
        let count = |someone: &Someone| match someone.answer(&hub, list.clone()) {
            Answer::Now(Ok(Reply::Tools(all))) => all.iter().filter(|tool| tool.name == "vault__look").count(),
            Answer::Now(Ok(Reply::Resources(all))) => all.len(),
            Answer::Now(Ok(Reply::Templates(all))) => all.len(),
            Answer::Now(Ok(Reply::Prompts(all))) => all.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!((count(&mallory), count(&ann)), (0, 1), "{list:?}");
    }
}

#[tokio::test]
async fn a_condition_sees_every_argument_of_a_completion() {
    use gladhand_core::operations::{CompletionCall, CompletionOf};
    let deny = Rule {
        about: Subjects { prompts: vec![Pattern("vault__greet".to_owned())], ..Subjects::default() },
        ..rule("root", &[], &[], Some(r#"who == "root""#), Effect::Deny)
    };
    let (hub, someone) = (of_all_kinds(Governor::new(rules(vec![deny]))), Someone::called("c"));
    for (argument, value, context, is_denied) in [
        ("who", "ann", None, false),
        ("who", "root", None, true),
        ("tone", "x", Some("{ }"), false),
        ("tone", "x", Some(r#"{"who":"ann"}"#), false),
        ("tone", "x", Some(r#"{"who":"root"}"#), true),
        ("tone", "x", Some(r#"{"who":"root","who":"ann"}"#), true),
        ("who", "ann", Some(r#"{"who":"ann"}"#), false),
        ("who", "ann", Some(r#"{"who":"root"}"#), true),
        ("who", "ann", Some(r#"{"who":"root","who":"ann"}"#), true),
        ("who", "ann", Some("[]"), true),
    ] {
        let completion = CompletionCall {
            of: CompletionOf::Prompt("vault__greet".into()),
            argument: argument.into(),
            value: value.into(),
            context: context.map(|context| std::borrow::Cow::Owned(json::raw(context.to_owned()))),
        };
        let outcome = someone.answer(&hub, Operation::Complete(completion)).outcome().await;
        let denied = outcome.is_err_and(|failure| failure.kind == FailureKind::Denied);
        assert_eq!(denied, is_denied, "{argument} {value} {context:?}");
    }
}

#[tokio::test]
async fn a_rule_is_about_the_kinds_and_upstreams_that_it_names() {
    let pattern = |text: &str| vec![Pattern(text.to_owned())];
    for (about, denied) in [
        (
            Subjects { upstreams: pattern("vault"), ..Subjects::default() },
            &[
                "tool vault__look",
                "resource note:1",
                "resource user:7",
                "subscription note:1",
                "prompt vault__greet",
                "completion vault__greet",
                "completion user:{id}",
            ][..],
        ),
        (
            Subjects { resources: pattern("user:*"), ..Subjects::default() },
            &["resource user:7", "completion user:{id}"],
        ),
        (
            Subjects { prompts: pattern("vault__*"), ..Subjects::default() },
            &["prompt vault__greet", "completion vault__greet"],
        ),
        (Subjects { capabilities: pattern("memory"), ..Subjects::default() }, &["capability memory/store/req"]),
        (Subjects { capabilities: pattern("memory/s*"), ..Subjects::default() }, &["capability memory/store/req"]),
        (Subjects { capabilities: pattern("memory/get/req"), ..Subjects::default() }, &[]),
        (Subjects { tools: vec![Tools::parse("*").unwrap()], ..Subjects::default() }, &["tool vault__look"]),
    ] {
        let hub =
            of_all_kinds(Governor::new(rules(vec![Rule { about: about.clone(), ..Rule::new("r", Effect::Deny) }])));
        assert_eq!(ending_with(FailureKind::Denied, &Someone::called("c"), &hub).await, denied, "{about:?}");
    }
}

#[tokio::test]
async fn a_limit_counts_everything_that_a_caller_can_reach() {
    for (told, operation) in reachable() {
        let rate = Some(Rate { calls: 1, per: Duration::from_secs(3600) });
        let limits = vec![Limit { name: "l".to_owned(), rate, ..Limit::default() }];
        let hub = of_all_kinds(Governor::new(Policy { limits, ..Policy::default() }));
        let someone = Someone::called("c");
        assert!(someone.answer(&hub, operation.clone()).outcome().await.is_ok(), "{told}");
        let failure = someone.answer(&hub, operation).outcome().await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Busy, "{told}");
    }
}

#[tokio::test]
async fn scopes_are_needed_for_everything_and_go_with_the_principal() {
    let scopes =
        |pattern: &str| vec![NeededScopes { pattern: Pattern(pattern.to_owned()), scopes: vec!["ops".to_owned()] }];
    let hub = |pattern: &str| of_all_kinds(Governor::new(Policy { scopes: scopes(pattern), ..Policy::default() }));
    let bob = Someone::called("c").proved("bob");
    let of_vault: Vec<_> = reachable().into_iter().map(|(told, _)| told).take(7).collect();
    assert_eq!(ending_with(FailureKind::Denied, &bob, &hub("vault__*")).await, of_vault);
    assert_eq!(ending_with(FailureKind::Denied, &bob, &hub("memory")).await, ["capability memory/store/req"]);
    assert!(
        ending_with(FailureKind::Denied, &Someone::called("c"), &hub("*")).await.is_empty(),
        "not by this transport"
    );
    let mut agreement = Agreement::clone(&bob.agreement);
    agreement.pass = Some("named:bob".into());
    let with_pass = Someone { principal: None, agreement: Arc::new(agreement), ..Someone::called("c") };
    assert!(ending_with(FailureKind::Denied, &with_pass, &hub("*")).await.is_empty(), "a token of A2E has no scopes");
    for (granted, is_enough) in [(None, false), (Some("talk opsy"), false), (Some("talk ops"), true)] {
        let mut call = Call::new(CallId(1), reachable().remove(0).1);
        call.terms.principal = Some("bob".into());
        call.terms.scopes = granted.map(Into::into);
        // As who answers a call by another one makes it.
        call.terms = call.terms.on_behalf();
        let caller: Arc<dyn Caller> = Arc::clone(&bob.person) as _;
        let outcome = hub("vault__look").answer(call, &bob.agreement, &caller).outcome().await;
        assert_eq!(outcome.is_ok(), is_enough, "{granted:?}");
    }
}

#[tokio::test]
async fn the_scopes_that_a_call_needs_are_recorded_unless_it_is_refused() {
    let scopes = vec![NeededScopes { pattern: Pattern("vault__*".to_owned()), scopes: vec!["ops".to_owned()] }];
    let hub = of_all_kinds(Governor::new(Policy { scopes, ..Policy::default() }));
    let bob = Someone::called("c").proved("bob");
    let caller: Arc<dyn Caller> = Arc::clone(&bob.person) as _;
    for granted in ["talk", "talk ops"] {
        for (at, (told, operation)) in reachable().into_iter().enumerate() {
            let (mut call, record) = (Call::new(CallId(1), operation), Arc::new(ScopeRecord::default()));
            (call.terms.principal, call.terms.scopes) = (Some("bob".into()), Some(granted.into()));
            call.terms.record = Some(Arc::clone(&record));
            // As who answers a call by another one makes it.
            call.terms = call.terms.on_behalf();
            let _ = hub.answer(call, &bob.agreement, &caller).outcome().await;
            let needed = (at < 7 && granted.contains("ops")).then(|| "ops".to_owned());
            assert_eq!(record.needed_beyond(None), needed, "{told} with {granted}");
        }
    }
}

#[tokio::test]
async fn a_pattern_that_begins_with_a_prefix_is_about_that_upstream_alone() {
    let mount = |prefix: &str, tools: &[&'static str]| {
        let says = |_: ToolCall<'_>, _: &crate::Context<'_>| Ok(ToolResult::text("done"));
        let kit = tools.iter().fold(Kit::new(), |kit, name| kit.tool(Tool::plain(*name, ""), says));
        let naming = if prefix.is_empty() { Naming::default() } else { Naming::prefixed(prefix) };
        Mount { provider: Arc::new(kit), naming }
    };
    for (pattern, allowed, denied) in [
        ("a__*", &["a__x", "a__b_x"][..], &["a__x", "a__b_x", "a_x"][..]),
        ("a__b__*", &["a__b__x"], &["a__b_x", "a__b__x"]),
        ("a__b__x", &["a__b__x"], &["a__b_x", "a__b__x"]),
        ("a*", &["a__x", "a__b_x", "a__b__x", "a_x"], &["a__x", "a__b_x", "a__b__x", "a_x"]),
        ("*x", &["a__x", "a__b__x"], &["a__x", "a__b_x", "a__b__x", "a_x"]),
    ] {
        let mounts = vec![mount("a", &["x", "b__x"]), mount("a__b", &["x"]), mount("", &["a__x"])];
        let all: Vec<String> = Hub::of(mounts.clone()).tools().iter().map(|tool| tool.name.clone()).collect();
        let listed = |rules: Vec<Rule>| {
            let policy = Policy { rules, ..Policy::default() };
            Someone::called("c").tools(&Hub::of(mounts.clone()).governed(Arc::new(Governor::new(policy))))
        };
        // Those that got another name have a mark at its end.
        let unmarked = |name: &String| match name.rsplit_once('_') {
            Some((name, mark)) if mark.len() == 8 => name.to_owned(),
            _ => name.clone(),
        };
        let about = |effect| rule("r", &[], &[pattern], None, effect);
        let seen = listed(vec![about(Effect::Allow), rule("rest", &[], &[], None, Effect::Deny)]);
        assert_eq!(seen.iter().map(unmarked).collect::<Vec<_>>(), allowed, "{pattern} of {all:?}");
        // A rule that denies is about the names that tools would have without the others, too.
        let seen = listed(vec![about(Effect::Deny)]);
        let unseen: Vec<_> = all.iter().filter(|name| !seen.contains(name)).map(unmarked).collect();
        assert_eq!(unseen, denied, "{pattern} of {all:?}");
    }
}

#[tokio::test]
async fn an_upstream_that_is_added_does_not_free_a_tool_from_its_rule() {
    let says = |_: ToolCall<'_>, _: &crate::Context<'_>| Ok(ToolResult::text("done"));
    let kit = Arc::new(Kit::new().tool(Tool::plain("adm__delete", ""), says));
    let own = Mount { provider: kit, naming: Naming::prefixed("gh") };
    let dead = Mount { provider: Arc::new(Kit::new()), naming: Naming::prefixed("gh__adm") };
    for effect in [Effect::Deny, Effect::Ask] {
        let policy = rules(vec![rule("keep", &[], &["gh__adm__delete"], None, effect)]);
        let hub = Hub::of(vec![own.clone(), dead.clone()]).governed(Arc::new(Governor::new(policy)));
        let name: &'static str = hub.tools()[0].name.clone().leak();
        assert!(name.starts_with("gh__adm_delete_"), "{name}");
        let failure = Someone::called("c").call(&hub, name, json!({})).await.unwrap_err();
        assert!(failure.message.contains("rule `keep`"), "{failure}");
    }
}

#[tokio::test]
async fn a_provider_that_yields_does_not_free_a_tool_of_another_from_its_rule() {
    let says = |_: ToolCall<'_>, _: &crate::Context<'_>| Ok(ToolResult::text("done"));
    let own = Mount::plain(Arc::new(Kit::new().tool(Tool::plain("gh__delete", ""), says)));
    let naming = Naming { yields: true, ..Naming::prefixed("gh") };
    let guest = Mount { provider: Arc::new(Kit::new().tool(Tool::plain("delete", ""), says)), naming };
    for effect in [Effect::Deny, Effect::Ask] {
        let policy = rules(vec![rule("keep", &[], &["gh__*"], None, effect)]);
        let hub = Hub::of(vec![own.clone(), guest.clone()]).governed(Arc::new(Governor::new(policy)));
        let failure = Someone::called("c").call(&hub, "gh__delete", json!({})).await.unwrap_err();
        assert!(failure.message.contains("rule `keep`"), "{failure}");
    }
}

#[tokio::test]
async fn consent_is_for_the_tool_of_the_upstream_and_not_for_its_name() {
    let who = Someone::answering(1, &accept("always"));
    let renamed =
        |from: &str| Naming { renamed: [(from.to_owned(), "go".to_owned())].into(), ..Naming::prefixed("git") };
    let mount = |naming| Mount { provider: Arc::new(kit()), naming };
    let policy = rules(vec![rule("careful", &[], &["go"], None, Effect::Ask)]);
    let hub = Hub::of(vec![mount(renamed("push"))]).governed(Arc::new(Governor::new(policy)));
    assert_eq!(who.call(&hub, "go", json!({})).await.unwrap(), "pushed");
    hub.remount(vec![mount(renamed("add"))]);
    assert_eq!(who.call(&hub, "go", json!({})).await.unwrap(), "added");
    assert_eq!(who.person.asked.lock().unwrap().len(), 2, "it is another tool");
}

#[path = "pin_tests.rs"]
mod pins;
#[path = "resource_tests.rs"]
mod resources;
