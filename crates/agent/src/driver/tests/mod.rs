//! Tests of the agent through its public interface, with a scripted model.

mod stage;

use std::sync::atomic::Ordering;

use gladhand_core::operations::{AgentCall, ModelChoice, Party, Terms};
use gladhand_models::{HistoryItem, ModelError};
use serde_json::Value;

use self::stage::{Scene, Script, Stage, kinds, one};
use crate::accounts::{AccountSettings, Accounts, Provider};
use crate::driver::{Policy, Rule};

#[tokio::test]
async fn a_turn_sends_events_gets_an_answer_and_is_saved() {
    let stage = Stage::new(&[Scene::Says("Hello there.")]);
    let session = stage.create().await;
    let sent = stage.send(&session, " hi ").await.unwrap();
    assert_eq!(sent["queued"], false);
    let events = stage.until_ready().await;
    let expected = [
        "status",
        "status",
        "message.appended",
        "context.estimate",
        "status",
        "stream.chunk",
        "message.appended",
        "context.estimate",
        "completed",
        "status",
    ];
    assert_eq!(kinds(&events), expected);
    assert_eq!(*stage.counter.prompts.lock().unwrap(), ["hi"]);
    let listed = stage.ask(AgentCall::HistoryList { limit: None, cursor: None }).await.unwrap();
    assert_eq!((&listed["total"], &listed["sessions"][0]["title"]), (&1.into(), &"hi".into()));
    let chat = stage.ask(AgentCall::HistoryGet { id: None, last: true, path: None }).await.unwrap();
    assert_eq!(chat["messages"][1]["text"], "Hello there.");
}

#[tokio::test]
async fn only_the_first_status_is_sent_before_the_answer() {
    let stage = Stage::new(&[Scene::Hangs]);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    let events = stage.until("session.status", "preparing").await;
    assert_eq!(kinds(&events), ["status"]);
    *stage.counter.model.lock().unwrap() = "";
    let other = stage.ask(AgentCall::Create { title: None, folder: None }).await.unwrap();
    let other = other["session_id"].as_str().unwrap();
    stage.send(other, "hi").await.unwrap();
    let events = stage.until("session.error", other).await;
    assert_eq!(one(&events, "session.error")["message"], "select a model from an enabled provider first");
}

#[tokio::test]
async fn a_request_that_hangs_can_be_interrupted() {
    let stage = Stage::new(&[Scene::Hangs]);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    stage.until("session.context.estimate", "").await;
    let answer = stage.ask(AgentCall::Interrupt(session.as_str().into())).await.unwrap();
    assert_eq!(answer["interrupted"], true);
    let events = stage.until_ready().await;
    assert_eq!(one(&events, "session.interrupted")["partial_output"], false);
    let state = stage.ask(AgentCall::Get(session.into())).await.unwrap();
    assert_eq!(state["history"][0]["text"], "hi");
}

#[tokio::test]
async fn a_tool_that_does_not_end_is_stopped() {
    let stage = Stage::new(&[Scene::Wants("sleep")]);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    stage.until("session.tool.call.started", "").await;
    stage.ask(AgentCall::Interrupt(session.into())).await.unwrap();
    let events = stage.until_ready().await;
    assert_eq!(one(&events, "session.tool.call.completed")["data"]["executed"]["error"], "process aborted");
    one(&events, "session.interrupted");
}

#[tokio::test]
async fn models_use_safe_tool_names_and_events_the_original_ones() {
    let stage = Stage::new(&[Scene::Wants("read_file"), Scene::Wants("echo"), Scene::Says("done")]);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    let events = stage.until_ready().await;
    let started: Vec<_> = events.iter().filter(|(kind, _)| kind == "session.tool.call.started").collect();
    let call = &started[0].1["data"]["call"];
    assert_eq!((&call["name"], &call["providerToolName"]), (&"read.file".into(), &"read_file".into()));
    let results: Vec<_> = events.iter().filter(|(kind, _)| kind == "session.tool.call.completed").collect();
    let result = |at: usize| &results[at].1["data"]["executed"]["result"];
    assert_eq!((result(0), result(1)), (&"read.file ran".into(), &"again".into()), "the second call goes to the hub");
    let asked = stage.script.asked.lock().unwrap();
    assert!(matches!(
        &asked[2].history[..],
        [HistoryItem::User { .. }, HistoryItem::Assistant { .. }, HistoryItem::Result { .. }, ..]
    ));
    let names: Vec<_> = asked[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["bash", "c_write_everything", "echo", "look", "make", "read_file", "sleep", "whereabouts"]);
}

#[tokio::test]
async fn tools_of_the_hub_get_the_folder_of_the_session() {
    let stage = Stage::new(&[Scene::Wants("whereabouts"), Scene::Says("done")]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let created = stage.ask(AgentCall::Create { title: None, folder: Some(path.into()) }).await.unwrap();
    stage.send(created["session_id"].as_str().unwrap(), "hi").await.unwrap();
    let events = stage.until_ready().await;
    let result = events.iter().find(|(kind, _)| kind == "session.tool.call.completed").unwrap();
    assert_eq!(result.1["data"]["executed"]["result"], path);
}

#[tokio::test]
async fn a_call_that_needs_approval_is_refused_if_no_client_can_approve() {
    let stage = Stage::new(&[Scene::Wants("bash"), Scene::Says("so be it")]);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    let events = stage.until_ready().await;
    let executed = &one(&events, "session.tool.call.completed")["data"]["executed"];
    assert_eq!((&executed["ok"], &executed["result"]["status"]), (&false.into(), &"denied".into()));
}

/// The outcomes of all calls of one turn: whether they ran, the status and the error.
async fn outcomes(stage: &Stage) -> Vec<(bool, Value, Value)> {
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    let events = stage.until_ready().await;
    let ended = events.iter().filter(|(kind, _)| kind == "session.tool.call.completed");
    let executed = ended.map(|(_, payload)| &payload["data"]["executed"]);
    executed.map(|it| (it["ok"] == true, it["result"]["status"].clone(), it["error"].clone())).collect()
}

#[tokio::test]
async fn a_name_that_was_not_offered_calls_nothing() {
    let spellings = ["c__write_everything", "c.write_everything", "C_write_everything", "read.file", "nonsense"];
    let stage = Stage::new(&spellings.map(Scene::Wants));
    for ((ok, status, error), name) in outcomes(&stage).await.into_iter().zip(spellings) {
        assert_eq!((ok, status, error), (false, "not_found".into(), format!("unknown tool: {name}").into()));
    }
}

#[tokio::test]
async fn a_read_only_annotation_of_an_upstream_is_not_trusted() {
    let stage = Stage::new(&[Scene::Wants("c_write_everything")]);
    let [(ok, status, _)] = &outcomes(&stage).await[..] else { panic!("expected one call") };
    assert_eq!((*ok, status), (false, &"denied".into()));
}

#[tokio::test]
async fn a_tool_made_in_a_turn_is_offered_and_needs_its_own_decision() {
    let stage = Stage::new(&[Scene::Wants("make"), Scene::Wants("made"), Scene::Says("done")]);
    let outcomes = outcomes(&stage).await;
    assert_eq!((outcomes[0].0, outcomes[1].0, &outcomes[1].1), (true, false, &"denied".into()));
    let asked = stage.script.asked.lock().unwrap();
    let offers = |at: usize| asked[at].tools.iter().any(|tool| tool.name == "made");
    assert_eq!((offers(0), offers(1)), (false, true));
}

#[tokio::test]
async fn a_tool_made_and_called_in_one_round_needs_its_own_decision() {
    let stage = Stage::new(&[Scene::WantsAll(&["made", "make", "made", "m.ade"]), Scene::Says("done")]);
    let outcomes = outcomes(&stage).await;
    let statuses: Vec<_> = outcomes.iter().map(|(ok, status, _)| (*ok, status.as_str())).collect();
    let expected = [(false, Some("not_found")), (true, None), (false, Some("denied")), (false, Some("not_found"))];
    assert_eq!(statuses, expected);
}

/// Runs a turn in which one call needs approval, and returns the outcomes of all calls. The policy changes before
/// the user approves the call.
async fn allowed_after_a_change(stage: &Stage, denied: &str) -> Vec<(bool, Value)> {
    stage.ask(AgentCall::CanApprove).await.unwrap();
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    stage.until("session.approval.requested", "").await;
    let tools = [(denied.to_owned(), Rule::Deny)].into();
    stage.policy.replace(Policy { tools, ..Policy::default() });
    let (call, allow) = ("c1".into(), true);
    stage.ask(AgentCall::Approve { session: session.into(), call, allow, always: false }).await.unwrap();
    let events = stage.until_ready().await;
    let ended = events.iter().filter(|(kind, _)| kind == "session.tool.call.completed");
    let executed = ended.map(|(_, payload)| &payload["data"]["executed"]);
    executed.map(|it| (it["ok"] == true, it["error"].clone())).collect()
}

#[tokio::test]
async fn a_call_that_policy_denies_meanwhile_does_not_run_even_if_approved() {
    let stage = Stage::new(&[Scene::Wants("bash"), Scene::Says("done")]);
    let ended = allowed_after_a_change(&stage, "bash").await;
    assert_eq!(ended, [(false, "bash was not run: it is forbidden here".into())]);
}

#[tokio::test]
async fn a_later_call_of_the_same_reply_uses_the_current_policy() {
    let stage = Stage::new(&[Scene::WantsAll(&["bash", "read_file"]), Scene::Says("done")]);
    let ended = allowed_after_a_change(&stage, "read.file").await;
    assert_eq!(ended, [(true, Value::Null), (false, "read.file was not run: it is forbidden here".into())]);
}

#[tokio::test]
async fn arguments_nested_too_deeply_are_refused_and_the_turn_continues() {
    let stage = Stage::new(&[Scene::WantsDeep("read_file"), Scene::Says("done")]);
    let [(ok, _, error)] = &outcomes(&stage).await[..] else { panic!("expected one call") };
    assert!(!ok && error.as_str().unwrap().contains("nested deeper than 100 levels"), "{error}");
}

#[tokio::test]
async fn a_panic_ends_only_its_own_turn() {
    let stage = Stage::new(&[Scene::Wants("read_file"), Scene::Says("done")]);
    stage.tools.is_broken.store(true, Ordering::Relaxed);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    let events = stage.until_ready().await;
    assert_eq!(one(&events, "session.error")["message"], "the turn failed unexpectedly");
    stage.tools.is_broken.store(false, Ordering::Relaxed);
    stage.send(&session, "again").await.unwrap();
    one(&stage.until_ready().await, "session.completed");
}

#[tokio::test]
async fn reading_beyond_the_workspace_needs_approval() {
    let stage = Stage::new(&[Scene::Wants("look"), Scene::Says("done")]);
    let [(ok, _, error)] = &outcomes(&stage).await[..] else { panic!("expected one call") };
    assert!(!ok && error.as_str().unwrap().contains("/home/u/.ssh/key may hold secrets"), "{error}");
    let stage = Stage::new(&[Scene::Wants("look"), Scene::Says("done")]);
    stage.ask(AgentCall::CanApprove).await.unwrap();
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    let events = stage.until("session.approval.requested", "").await;
    assert_eq!(one(&events, "session.approval.requested")["reason"], "/home/u/.ssh/key may hold secrets");
    let (call, allow) = ("c1".into(), true);
    stage.ask(AgentCall::Approve { session: session.into(), call, allow, always: false }).await.unwrap();
    let events = stage.until_ready().await;
    assert_eq!(one(&events, "session.tool.call.completed")["data"]["executed"]["result"], "look ran");
}

#[tokio::test]
async fn a_folder_chosen_by_a_network_peer_is_not_read_without_approval() {
    let local = Terms::default();
    let networked = Terms { party: Some(Party(1)), ..Terms::default() };
    for (terms, folder, runs) in [(local, "/", true), (networked.clone(), "/", false), (networked, ".", true)] {
        let stage = Stage::new(&[Scene::Wants("read_file"), Scene::Says("done")]);
        let create = AgentCall::Create { title: None, folder: Some(folder.into()) };
        let created = stage.ask_as(terms, create).await.unwrap();
        stage.send(created["session_id"].as_str().unwrap(), "hi").await.unwrap();
        let events = stage.until_ready().await;
        assert_eq!(one(&events, "session.tool.call.completed")["data"]["executed"]["ok"], runs, "{folder}");
    }
}

#[tokio::test]
async fn an_approved_call_runs() {
    let stage = Stage::new(&[Scene::Wants("bash"), Scene::Says("done")]);
    stage.ask(AgentCall::CanApprove).await.unwrap();
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    let events = stage.until("session.approval.requested", "").await;
    let requested = one(&events, "session.approval.requested");
    assert_eq!((&requested["tool"], &requested["effect"]), (&"bash".into(), &"runs".into()));
    let approve = |call: &'static str| AgentCall::Approve {
        session: session.clone().into(),
        call: call.into(),
        allow: true,
        always: false,
    };
    assert_eq!(stage.ask(approve("other")).await.unwrap()["accepted"], false);
    assert_eq!(stage.ask(approve("c1")).await.unwrap()["accepted"], true);
    let events = stage.until_ready().await;
    assert_eq!(one(&events, "session.tool.call.completed")["data"]["executed"]["result"], "bash ran");
}

#[tokio::test]
async fn a_call_does_not_wait_for_approval_by_a_disconnected_client() {
    let stage = Stage::new(&[Scene::Wants("bash"), Scene::Says("done")]);
    stage.ask(AgentCall::CanApprove).await.unwrap();
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    stage.until("session.approval.requested", "").await;
    stage.leave();
    let asked = || stage.ask(AgentCall::Get(session.as_str().into()));
    while asked().await.unwrap()["pending"] == true {
        tokio::task::yield_now().await;
    }
    assert_eq!(asked().await.unwrap()["messages"][1]["text"], "done");
}

#[tokio::test]
async fn clearing_waits_for_the_end_of_the_turn() {
    let stage = Stage::new(&[Scene::Hangs]);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    stage.until("session.context.estimate", "").await;
    let cleared = stage.ask(AgentCall::ClearSession(session.as_str().into())).await.unwrap();
    assert_eq!(cleared, serde_json::json!({"session_id": session, "cleared": true}));
    let events = stage.until_ready().await;
    assert_eq!(kinds(&events), ["status", "interrupted", "status"]);
    let state = stage.ask(AgentCall::Get(session.into())).await.unwrap();
    assert_eq!((&state["pending"], &state["messages"]), (&false.into(), &serde_json::json!([])));
}

#[tokio::test]
async fn a_deleted_session_is_unknown() {
    let stage = Stage::new(&[Scene::Hangs]);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    stage.ask(AgentCall::Delete(session.as_str().into())).await.unwrap();
    let unknown = stage.ask(AgentCall::Get(session.as_str().into())).await.unwrap_err();
    assert_eq!(unknown, format!("unknown session: {session}"));
    assert_eq!(stage.ask(AgentCall::List).await.unwrap(), serde_json::json!({"sessions": []}));
}

#[tokio::test]
async fn compress_answers_with_its_report() {
    let stage = Stage::new(&[Scene::Says("answer"), Scene::Says("SUMMARY")]);
    let session = stage.create().await;
    stage.send(&session, "question").await.unwrap();
    stage.until_ready().await;
    let report = stage.command(&session, "/compress").await.unwrap();
    assert_eq!((&report["handled"], &report["output"]["compressed"]), (&true.into(), &true.into()));
    let state = stage.ask(AgentCall::Get(session.into())).await.unwrap();
    assert_eq!(state["history"][0]["text"], "## Conversation Summary\n\nSUMMARY");
}

#[tokio::test]
async fn a_model_is_selected_only_if_the_compaction_for_it_succeeds() {
    let broken = Scene::Fails(ModelError::Failed("no".to_owned()));
    let stage = Stage::new(&[Scene::Says("answer"), broken, Scene::Says("SUMMARY")]);
    let session = stage.create().await;
    stage.send(&session, "question").await.unwrap();
    stage.until_ready().await;
    let choice = || ModelChoice {
        model: "gpt".into(),
        provider: "openai".into(),
        thinking: "OFF".into(),
        routing: None,
        session: Some(session.clone().into()),
        compress: true,
        only_session: false,
    };
    let error = stage.ask(AgentCall::SelectModel(Box::new(choice()))).await.unwrap_err();
    assert_eq!(
        (error.as_str(), *stage.counter.model.lock().unwrap()),
        ("context compaction failed: no", "acme/plain-1")
    );
    let selected = stage.ask(AgentCall::SelectModel(Box::new(choice()))).await.unwrap();
    let compression = &selected["compression"];
    assert_eq!((&compression["applied"], &compression["reason"]), (&true.into(), &"provider_switch".into()));
    assert_eq!(*stage.counter.model.lock().unwrap(), "gpt");
}

#[tokio::test]
async fn a_chat_can_be_resumed_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let before = Stage::on(folder.path(), &[Scene::Says("remembered")]);
    let session = before.create().await;
    before.send(&session, "remember me").await.unwrap();
    before.until_ready().await;
    gladhand_hub::Agent::closing(&before.agent).await;
    let after = Stage::on(folder.path(), &[Scene::Says("after resume")]);
    let session = after.create().await;
    let resumed = after.command(&session, "/history last").await.unwrap();
    let id = resumed["output"]["resumed"].as_str().unwrap().to_owned();
    after.send(&session, "go on").await.unwrap();
    after.until_ready().await;
    let chat = after.ask(AgentCall::HistoryGet { id: Some(id[..8].into()), last: false, path: None }).await.unwrap();
    assert_eq!((&chat["messageCount"], &chat["title"]), (&4.into(), &"remember me".into()));
    let listed = after.ask(AgentCall::HistoryList { limit: None, cursor: None }).await.unwrap();
    assert_eq!(listed["total"], 1);
}

#[tokio::test]
async fn a_chat_that_is_open_elsewhere_continues_as_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let stages = ["one", "two"].map(|answer| Stage::on(folder.path(), &[Scene::Says("first"), Scene::Says(answer)]));
    let sessions = [stages[0].create().await, stages[1].create().await];
    stages[0].send(&sessions[0], "begin").await.unwrap();
    stages[0].until_ready().await;
    let resumed = stages[1].command(&sessions[1], "/history last").await.unwrap();
    assert!(resumed["output"]["copy"].is_string(), "{resumed}");
    for (stage, session) in stages.iter().zip(&sessions) {
        stage.send(session, "go on").await.unwrap();
        stage.until_ready().await;
    }
    let listed = stages[0].ask(AgentCall::HistoryList { limit: None, cursor: None }).await.unwrap();
    let counts: Vec<_> = listed["sessions"].as_array().unwrap().iter().map(|chat| &chat["messageCount"]).collect();
    assert_eq!(counts, [4, 4], "{listed}");
}

#[tokio::test]
async fn pages_of_history_follow_each_other() {
    let stage = Stage::new(&[]);
    for text in ["one", "two", "three"] {
        let session = stage.create().await;
        stage.send(&session, text).await.unwrap();
        stage.until_ready().await;
    }
    let page = |limit, cursor| stage.ask(AgentCall::HistoryList { limit: Some(limit), cursor: Some(cursor) });
    let first = page(2.9, 0.0).await.unwrap();
    assert_eq!((&first["total"], &first["limit"], &first["next_cursor"]), (&3.into(), &2.into(), &2.into()));
    let last = page(2.0, 2.0).await.unwrap();
    assert_eq!((last["sessions"].as_array().unwrap().len(), last["next_cursor"].is_null()), (1, true));
    assert_eq!(page(0.0, -4.0).await.unwrap()["limit"], 100);
}

#[tokio::test]
async fn an_unwritable_disk_is_noted_and_the_conversation_continues() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::write(&data, "not a folder").unwrap();
    let stage = Stage::on(&data, &[Scene::Says("still here")]);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    let events = stage.until_ready().await;
    one(&events, "session.completed");
    let note = events.iter().find(|(_, payload)| payload["message"]["kind"] == "system").unwrap();
    assert!(note.1["message"]["text"].as_str().unwrap().starts_with("history save disabled for this turn: "));
    assert!(kinds(&events).contains(&"debug"), "the journal could not be written, so there is a debug event");
}

#[tokio::test]
async fn slash_commands_return_their_output() {
    let stage = Stage::new(&[]);
    let session = stage.create().await;
    assert_eq!(stage.command(&session, "hello").await.unwrap(), serde_json::json!({"handled": false}));
    let help = stage.command(&session, "  /HELP  extra").await.unwrap();
    assert_eq!(help["output"]["commands"].as_array().unwrap().len(), 13);
    let unknown = stage.command(&session, "/Nope arg").await.unwrap();
    assert_eq!(unknown["output"]["error"], "unknown command: /nope");
    assert_eq!(stage.command(&session, "/history last").await.unwrap_err(), "no saved chat history yet");
    assert_eq!(stage.command(&session, "/history abc").await.unwrap_err(), "no saved chat matched id: abc");
    assert_eq!(stage.command(&session, "/forgeteverything").await.unwrap()["output"]["cleared"], true);
    let events = stage.until("state.changed", "forgeteverything").await;
    assert_eq!(kinds(&events), ["message.appended", "state.changed"]);
    let error = stage.command(&session, "/compress").await.unwrap_err();
    assert_eq!(error, "select a model first before running /compress");
    assert_eq!(stage.command("nobody", "/help").await.unwrap_err(), "unknown session: nobody");
}

#[tokio::test]
async fn the_title_of_a_session_becomes_the_title_of_its_chat() {
    let stage = Stage::new(&[]);
    let create = AgentCall::Create { title: Some("my project".into()), folder: None };
    let created = stage.ask(create).await.unwrap();
    let session = created["session_id"].as_str().unwrap();
    stage.send(session, "one").await.unwrap();
    stage.until_ready().await;
    let listed = stage.ask(AgentCall::HistoryList { limit: None, cursor: None }).await.unwrap();
    assert_eq!(listed["sessions"][0]["title"], "my project");
    assert!(stage.data.join("sessions").is_dir());
}

#[tokio::test]
async fn accounts_select_the_model_that_answers() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::of(&[Scene::Says("Hello.")]);
    let mut settings =
        AccountSettings { embedded: Some(script.clone()), ..AccountSettings::new(folder.path().join("data")) };
    for id in ["ollama", "llamacpp"] {
        settings.providers[Provider::of_id(id).unwrap()].base = None;
    }
    let accounts = Accounts::open(settings);
    accounts.refresh().await;
    let stage = Stage::at(accounts, script);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    let events = stage.until_ready().await;
    assert_eq!(one(&events, "session.completed")["answer_length"], 6);
    let state = stage.ask(AgentCall::State).await.unwrap();
    assert_eq!((&state["sessions"]["count"], &state["onboarding"]["completed"]), (&1.into(), &false.into()));
    let chat = stage.ask(AgentCall::HistoryGet { id: None, last: true, path: None }).await.unwrap();
    assert_eq!((&chat["provider"], &chat["model"]), (&"local".into(), &"small".into()));
}

#[tokio::test]
async fn closing_ends_running_turns() {
    let stage = Stage::new(&[Scene::Hangs]);
    let session = stage.create().await;
    stage.send(&session, "hi").await.unwrap();
    gladhand_hub::Agent::closing(&stage.agent).await;
    let events = stage.until_ready().await;
    one(&events, "session.interrupted");
}
