//! How processes end: with all descendants, even if they ignore signals.

use gladhand_agent_tools::ToolProvider;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Shop, is_alive, pid_in, until};

/// A command that writes its own process id and that of a background child, and keeps running.
const FAMILY: &str = "sleep 1000 & echo $! >child; echo $$ >self; wait";

#[tokio::test]
async fn a_cancelled_call_ends_the_process_and_its_descendants() {
    let shop = Shop::open().await;
    let cancel = CancellationToken::new();
    let (said, child) = tokio::join!(shop.call_for("session", "bash", json!({"command": FAMILY}), &cancel), async {
        let child = pid_in(&shop.folder().join("child")).await;
        pid_in(&shop.folder().join("self")).await;
        assert!(is_alive(&child));
        cancel.cancel();
        child
    });
    assert!(!is_alive(&child));
    assert_eq!(said.error.as_deref(), Some("process aborted (no exit code)"));
    assert_eq!((&said.output["signal"], &said.output["aborted"]), (&json!("SIGTERM"), &json!(true)));
    assert!(said.written.contains(r#""exit_code":null,"signal":"SIGTERM","timed_out":false,"aborted":true"#));
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed() {
    let shop = Shop::open().await;
    let command = "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo $! >child; wait; wait; sleep 1000";
    let said = shop.call("bash", json!({"command": command, "timeout_seconds": 1})).await;
    assert_eq!(said.error.as_deref(), Some("process timed out (no exit code)"));
    assert_eq!((&said.output["signal"], &said.output["timed_out"]), (&json!("SIGKILL"), &json!(true)));
    let child = pid_in(&shop.folder().join("child")).await;
    until("the child has ended", || !is_alive(&child)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_leaves_the_group_is_found_by_its_mark() {
    let shop = Shop::open().await;
    let command = "setsid sh -c 'echo $$ >daemon; exec sleep 1000' & sleep 1000";
    let said = shop.call("bash", json!({"command": command, "timeout_seconds": 1})).await;
    assert_eq!(said.output["timed_out"], true);
    assert!(!is_alive(&pid_in(&shop.folder().join("daemon")).await));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn processes_left_by_a_command_run_until_the_session_ends() {
    let shop = Shop::open().await;
    let said = shop.bash("sh -c 'echo $$ >one; exec sleep 1000' & sleep 0.1; echo started").await;
    assert!(said.ok);
    assert_eq!(said.text("stdout"), "started", "an open pipe does not delay the result");
    let other = json!({"command": "sh -c 'echo $$ >two; exec sleep 1000' & sleep 0.1"});
    shop.call_for("other", "bash", other, &CancellationToken::new()).await;
    let (one, two) = (pid_in(&shop.folder().join("one")).await, pid_in(&shop.folder().join("two")).await);
    assert!(is_alive(&one) && is_alive(&two));
    shop.tools.forget("session").await;
    assert!(!is_alive(&one) && is_alive(&two));
    shop.tools.close().await;
    assert!(!is_alive(&two));
}

#[tokio::test]
async fn closing_ends_running_calls_and_refuses_new_ones() {
    let shop = Shop::open().await;
    let background = json!({"command": FAMILY, "run_in_background": true});
    assert!(shop.call("bash", background).await.ok);
    let child = pid_in(&shop.folder().join("child")).await;
    let (said, ()) = tokio::join!(shop.bash("echo $$ >front; sleep 1000"), async {
        pid_in(&shop.folder().join("front")).await;
        shop.tools.close().await;
    });
    assert_eq!(said.output["aborted"], true);
    assert!(!is_alive(&child));
    let said = shop.bash("echo more").await;
    assert_eq!((said.ok, said.written.as_str()), (false, r#"{"callId":"c1","tool":"bash","status":"error"}"#));
}

#[tokio::test]
async fn a_dropped_call_ends_its_processes() {
    let shop = Shop::open().await;
    let call = shop.bash(FAMILY);
    let child = async {
        let child = pid_in(&shop.folder().join("child")).await;
        pid_in(&shop.folder().join("self")).await;
        child
    };
    let child = tokio::select! {
        child = child => child,
        said = call => panic!("the call ended: {said:?}"),
    };
    until("the child has ended", || !is_alive(&child)).await;
}
