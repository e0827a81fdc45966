//! Sessions with real processes, ours and others.

use gladhand::negotiation::Refusal;
use gladhand::operations::{FailureKind, Operation, Reply, ToolCall};
use gladhand::upstream::{Eras, OpenError, Options, UnsentBudget};
use gladhand::wire::json;

use crate::*;

fn with_arguments(name: &'static str, arguments: &str) -> Operation<'static> {
    let arguments = std::borrow::Cow::Owned(json::raw(arguments.to_owned()));
    Operation::CallTool(ToolCall { name: name.into(), arguments })
}

/// A shell script that speaks the handshake, and does something else first, and something else last.
fn old_server(on_discover: &str, after_opening: &str) -> Vec<String> {
    let result =
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}"#;
    let script = format!(
        r#"read -r line; case "$line" in *server/discover*) {on_discover};; esac; echo '{{"jsonrpc":"2.0","id":1,"result":{result}}}'; read -r line; {after_opening}"#
    );
    ["sh", "-c", &script].map(str::to_owned).to_vec()
}

async fn open_command(command: &[String], options: Options) -> Result<Upstream, OpenError> {
    let words: Vec<_> = command.iter().map(String::as_str).collect();
    open(&words, options).await
}

#[tokio::test]
async fn our_own_server_is_used_in_every_revision() {
    for (options, version) in [
        (Options::default(), "2026-07-28"),
        (speaking("2024-11-05"), "2024-11-05"),
        (speaking("2025-11-25"), "2025-11-25"),
        (speaking("2026-07-28"), "2026-07-28"),
    ] {
        let upstream = open(&[GLADHAND, "serve"], options).await.unwrap();
        assert_eq!(upstream.agreement().version, version);
        let Ok(Reply::Tools(tools)) = soon(upstream.call(Operation::ListTools)).await else { panic!() };
        assert!(tools.iter().any(|tool| tool.name == "echo"));
        let reply = soon(upstream.call(with_arguments("echo", "{\n\"message\": \"grüezi\"}"))).await.unwrap();
        assert!(matches!(reply, Reply::Tool(result) if result.joined_text() == "grüezi"));
        let failure = soon(upstream.call(tool("nothing"))).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::UnknownTool);
        soon(upstream.close()).await;
    }
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_and_others_go_on() {
    let upstream = open(&[GLADHAND, "serve"], Options::default()).await.unwrap();
    let slow = upstream.call(with_arguments("wait", r#"{"seconds":3600}"#));
    assert!(tokio::time::timeout(Duration::from_millis(50), slow).await.is_err());
    let reply = soon(upstream.call(with_arguments("echo", r#"{"message":"x"}"#))).await;
    assert!(reply.is_ok());
    soon(upstream.close()).await;
}

#[tokio::test]
async fn other_dialects_have_upstreams_too() {
    for dialect in ["a2e", "loaf", "fluxloop"] {
        let options = Options { speak: Speak::parse(dialect).unwrap(), ..Options::default() };
        let upstream = open(&[GLADHAND, "serve", "--dialect", dialect], options).await.unwrap();
        let reply = soon(upstream.call(with_arguments("echo", r#"{"message":"x"}"#))).await;
        assert!(matches!(reply, Ok(Reply::Tool(_))), "{dialect}: {reply:?}");
        soon(upstream.close()).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_survive_the_question_is_asked_in_another_process() {
    let eras = Eras::default();
    for on_discover in ["exit 1", "exec sleep 60"] {
        let server = old_server(on_discover, "read -r line; exit 0");
        let options = Options { eras: eras.clone(), ..Options::default() };
        let upstream = open_command(&server, options).await.unwrap();
        assert_eq!(upstream.agreement().version, "2025-11-25");
        soon(upstream.close()).await;
    }
}

#[tokio::test]
async fn the_detected_era_of_a_command_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let asked = folder.path().join("asked");
    let server = old_server(&format!("echo >> {}; exit 1", asked.display()), "read -r line; exit 0");
    let eras = Eras::kept_in(folder.path().join("eras.json"));
    for _ in 0..2 {
        let upstream = open_command(&server, Options { eras: eras.clone(), ..Options::default() }).await.unwrap();
        soon(upstream.close()).await;
    }
    let again = Eras::kept_in(folder.path().join("eras.json"));
    soon(open_command(&server, Options { eras: again, ..Options::default() }).await.unwrap().close()).await;
    assert_eq!(std::fs::read_to_string(&asked).unwrap(), "\n");
}

/// The reaction of a scripted server to the first question of an era, after this many seconds.
#[derive(Debug, Clone, Copy)]
enum Does {
    Open(u8),
    Refuse(u8),
    Die(u8),
    Nothing,
}

impl Does {
    fn script(self, result: &str) -> String {
        let answer = |answer: &str| format!(r#"echo '{{"jsonrpc":"2.0","id":1,{answer}}}'"#);
        match self {
            Self::Open(after) => format!("sleep {after}; {}", answer(&format!(r#""result":{result}"#))),
            Self::Refuse(after) => {
                format!("sleep {after}; {}", answer(r#""error":{"code":-32601,"message":"no such method"}"#))
            }
            Self::Die(after) => format!("sleep {after}; exit 1"),
            Self::Nothing => ":".to_owned(),
        }
    }
}

/// The script of a server that does one thing for each era and writes a line into a file for each process of it.
fn of_eras(new: Does, old: Does, started: &std::path::Path) -> String {
    let new = new.script(r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}"#);
    let old =
        old.script(r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#);
    format!(
        r#"echo >> {}; read -r line; case "$line" in *server/discover*) {new};; *) {old};; esac; cat > /dev/null"#,
        started.display()
    )
}

/// The result of opening such a server: the version, or the code of the refusal.
async fn found_out(new: Does, old: Does, has_shaken_hands: bool) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (started, script) = (folder.path().join("started"), folder.path().join("script"));
    let server = ["sh", "-c", &format!(". {}", script.display())].map(str::to_owned);
    // Silence is noticed after three seconds, or half of this where hands were shaken before.
    let options = Options { speak: Speak::Mcp, opening_timeout: Duration::from_secs(12), ..Options::default() };
    if has_shaken_hands {
        std::fs::write(&script, of_eras(Does::Die(0), Does::Open(0), &folder.path().join("before"))).unwrap();
        soon(open_command(&server, options.clone()).await.unwrap().close()).await;
    }
    std::fs::write(&script, of_eras(new, old, &started)).unwrap();
    let opened = open_command(&server, options).await;
    let processes = std::fs::read_to_string(&started).unwrap().lines().count();
    assert!(processes <= 2, "{processes} processes of one server: {new:?}, {old:?}");
    match opened {
        Ok(upstream) => {
            let version = upstream.agreement().version.clone();
            soon(upstream.close()).await;
            version
        }
        Err(OpenError::Refused { refusal, .. }) => refusal.word().to_owned(),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_answering_era_is_used_in_any_order_of_failures() {
    use Does::{Die, Nothing, Open, Refuse};
    let (new, old) = ("2026-07-28", "2025-11-25");
    let table = [
        // It is of the new era, with a fast or a slow start, and with any outcome of the handshake.
        (Open(0), Refuse(0), false, new),
        (Open(5), Refuse(0), false, new),
        (Open(5), Refuse(4), false, new),
        (Open(5), Die(0), false, new),
        (Open(5), Die(4), false, new),
        (Open(5), Nothing, false, new),
        // It is of the old era, and does not take the first question well.
        (Refuse(0), Open(0), false, old),
        (Refuse(5), Open(0), false, old),
        (Refuse(4), Open(3), false, old),
        (Die(0), Open(0), false, old),
        (Die(4), Open(3), false, old),
        (Nothing, Open(0), false, old),
        (Nothing, Open(4), false, old),
        // It is of both, and of two the faster is taken.
        (Open(0), Open(0), false, new),
        (Open(9), Open(0), false, old),
        // It is of neither.
        (Refuse(0), Refuse(0), false, "peer_refused"),
        (Refuse(5), Refuse(0), false, "peer_refused"),
        (Die(0), Die(0), false, "peer_gone"),
        (Nothing, Die(0), false, "peer_gone"),
        (Nothing, Refuse(0), false, "peer_refused"),
        (Nothing, Nothing, false, "timed_out"),
        // It has shaken hands before, and does so still.
        (Open(0), Open(0), true, old),
        (Open(0), Open(3), true, old),
        // It has shaken hands before, and does so no longer.
        (Open(0), Refuse(0), true, new),
        (Open(4), Die(0), true, new),
        (Open(0), Nothing, true, new),
        (Refuse(0), Refuse(0), true, "peer_refused"),
    ];
    let mut rows = tokio::task::JoinSet::new();
    for (new, old, before, expected) in table {
        rows.spawn(async move {
            assert_eq!(found_out(new, old, before).await, expected, "{new:?}, {old:?}, {before}");
        });
    }
    rows.join_all().await;
}

#[tokio::test]
async fn a_server_that_dies_fails_its_calls_and_nothing_hangs() {
    let server = old_server("exit 1", "read -r line; echo 'no room left' >&2; exit 3");
    let upstream = open_command(&server, speaking("2025-11-25")).await.unwrap();
    let both = soon(async { tokio::join!(upstream.call(tool("t")), upstream.call(tool("t"))) }).await;
    for failure in [both.0.unwrap_err(), both.1.unwrap_err()] {
        let told = "the server ended during the call (exit status: 3); its stderr ends with: no room left";
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::UpstreamLost, told));
    }
    assert_eq!(soon(upstream.call(tool("t"))).await.unwrap_err().kind, FailureKind::UpstreamLost);
    soon(upstream.close()).await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_taken_is_not_waited_for() {
    let long = r#"read -r line; printf '{"result":"'; head -c 17000000 /dev/zero | tr '\0' x; echo '","id":2}'"#;
    let deep = r#"read -r line; echo '{"id":2,"result":'"$(head -c 200 /dev/zero | tr '\0' '[')"'}'"#;
    for (answer, kind, problem) in
        [(long, FailureKind::TooLong, "longer than"), (deep, FailureKind::UpstreamError, "nests deeper")]
    {
        let server = old_server("exit 1", &format!("{answer}; read -r line"));
        let upstream = open_command(&server, speaking("2025-11-25")).await.unwrap();
        let failure = soon(upstream.call(tool("t"))).await.unwrap_err();
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(problem), "{failure}");
        soon(upstream.close()).await;
    }
}

#[tokio::test]
async fn a_failed_opening_names_its_reason() {
    let missing = open(&["/no/such/program"], Options::default()).await;
    assert!(matches!(missing, Err(OpenError::NotStarted { .. })), "{missing:?}");
    let dying = open(&["sh", "-c", "echo alas >&2; exit 1"], Options::default()).await;
    match dying {
        Err(OpenError::Refused { refusal: Refusal::PeerGone, process: Some(end) }) => {
            assert_eq!(end.stderr_tail, ["alas"])
        }
        other => panic!("{other:?}"),
    }
    let options = Options { speak: Speak::parse("loaf").unwrap(), ..Options::default() };
    assert!(matches!(open(&["http://127.0.0.1:9/"], options).await, Err(OpenError::NotOverHttp("loaf"))));
}

/// Arguments of so many bytes.
fn padded(bytes: usize) -> String {
    format!(r#"{{"pad":"{}"}}"#, "x".repeat(bytes))
}

#[tokio::test]
async fn a_server_that_stops_reading_is_lost_and_every_call_gets_its_failure() {
    let (name, call_timeout) = (Some("deaf".to_owned()), Some(Duration::from_secs(1)));
    let options = Options { name, call_timeout, ..speaking("2025-11-25") };
    let upstream = open_command(&old_server(":", "exec sleep 1000"), options).await.unwrap();
    // The first call fills the buffer. The others are more than the queue takes.
    let first = upstream.call(with_arguments("x", &padded(6_000_000)));
    let others: Vec<_> = (0..300).map(|_| upstream.call(tool("x"))).collect();
    let (first, others) = soon(async { tokio::join!(first, futures_util::future::join_all(others)) }).await;
    let failure = first.unwrap_err();
    assert_eq!(failure.kind, FailureKind::UpstreamLost, "{failure}");
    assert_eq!(failure.message, "upstream deaf stopped reading its input: it took nothing for 1 s");
    assert!(others.iter().all(Result::is_err));
    soon(upstream.ended()).await;
}

#[tokio::test]
async fn a_call_to_an_upstream_that_reads_slowly_times_out_and_the_session_continues() {
    let call_timeout = Some(Duration::from_secs(1));
    let options = Options { call_timeout, ..speaking("2025-11-25") };
    // It reads, but slowly.
    let script = "while :; do dd bs=64k count=1 2>/dev/null | wc -c >/dev/null; sleep 0.3; done";
    let upstream = open_command(&old_server(":", script), options).await.unwrap();
    let large = upstream.call(with_arguments("x", &padded(16_000_000)));
    let small = async {
        tokio::task::yield_now().await;
        upstream.call(tool("x")).await
    };
    let (large, small) = soon(async { tokio::join!(large, small) }).await;
    let kinds = [large.unwrap_err(), small.unwrap_err()].map(|failure| (failure.kind, failure.message));
    assert!(kinds.iter().all(|(kind, _)| *kind == FailureKind::TimedOut), "{kinds:?}");
    assert_eq!(kinds[1].1, "the server did not read its input in time, and the call was not sent");
    assert!(!upstream.is_over());
    soon(upstream.close()).await;
}

#[tokio::test]
async fn bytes_that_no_process_reads_have_a_bound_over_all_upstreams() {
    let unsent = UnsentBudget::of(2_000_000);
    let deaf = || {
        let options = Options { unsent: unsent.clone(), ..speaking("2025-11-25") };
        async { open_command(&old_server(":", "exec sleep 1000"), options).await.unwrap() }
    };
    let (one, other) = (deaf().await, deaf().await);
    let reading = open(&[GLADHAND, "serve"], Options { unsent: unsent.clone(), ..Options::default() }).await.unwrap();
    let arguments = format!(r#"{{"message":"{}"}}"#, "x".repeat(1_500_000));
    let large = || with_arguments("echo", &arguments);
    let (mut first, mut second) = (Box::pin(one.call(large())), Box::pin(other.call(large())));
    for call in [&mut first, &mut second] {
        assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err(), "it waits");
    }
    for upstream in [&one, &other] {
        let failure = soon(upstream.call(large())).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Busy, "{failure}");
    }
    assert!(soon(reading.call(with_arguments("echo", r#"{"message":"small"}"#))).await.is_ok());
    // The first call was sent in part, and its bytes count as long as they wait.
    drop(first);
    assert_eq!(soon(one.call(large())).await.unwrap_err().kind, FailureKind::Busy);
    soon(one.close()).await;
    assert!(soon(reading.call(large())).await.is_ok(), "there is room again");
    drop(second);
    soon(other.close()).await;
    soon(reading.close()).await;
}

#[tokio::test]
async fn a_cancelled_call_is_taken_back_unless_a_part_of_it_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (file, go) = (folder.path().join("heard"), folder.path().join("go"));
    let wait = format!("while [ ! -f '{}' ]; do sleep 0.05; done; exec cat > '{}'", go.display(), file.display());
    let upstream = open_command(&old_server(":", &wait), speaking("2025-11-25")).await.unwrap();
    let call = |name: &'static str| Box::pin(upstream.call(with_arguments(name, &padded(1_000_000))));
    let mut calls = ["begun", "cancelled", "kept", "cancelled", "last"].map(call);
    for call in &mut calls {
        assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err(), "it waits");
    }
    let [begun, cancelled, _kept, also_cancelled, _last] = calls;
    drop((begun, cancelled, also_cancelled));
    tokio::time::sleep(Duration::from_millis(100)).await;
    std::fs::write(&go, "").unwrap();
    let heard = || std::fs::read_to_string(&file).unwrap_or_default();
    let lines = soon(async {
        loop {
            let text = heard();
            if text.contains("notifications/cancelled") && text.ends_with('\n') {
                return text
                    .lines()
                    .map(|line| serde_json::from_str(line).unwrap())
                    .collect::<Vec<serde_json::Value>>();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let told = |line: &serde_json::Value| {
        line["params"]["name"].as_str().or_else(|| line["method"].as_str()).map(str::to_owned)
    };
    let told: Vec<_> = lines.iter().filter_map(told).collect();
    assert_eq!(told, ["begun", "kept", "last", "notifications/cancelled"]);
    soon(upstream.close()).await;
}

#[tokio::test]
async fn a_server_that_does_not_read_our_answers_is_lost() {
    let ping = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "i".repeat(1000));
    let options = Options { name: Some("flood".to_owned()), ..speaking("2025-11-25") };
    let upstream = open_command(&old_server(":", &format!("read -r line; exec yes '{ping}'")), options).await.unwrap();
    let failure = soon(upstream.call(tool("x"))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::UpstreamLost, "{failure}");
    assert_eq!(failure.message, "upstream flood does not read the answers to its requests");
    soon(upstream.ended()).await;
}
