//! Background shells.

use serde_json::{Value, json};

use crate::{Said, Shop, until};

/// Reads until the output contains a text.
async fn read_until(shop: &Shop, id: &str, wanted: &str) -> String {
    let mut text = String::new();
    for _ in 0..3000 {
        let said = shop.call("read_background_bash", json!({"session_id": id})).await;
        text.push_str(said.text("stdout"));
        if text.contains(wanted) {
            return text;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("expected {wanted:?} in the output, got {text:?}");
}

/// Peeks at the output until the process has ended.
async fn ended(shop: &Shop, id: &str) -> Said {
    for _ in 0..3000 {
        let said = shop.call("read_background_bash", json!({"session_id": id, "peek": true})).await;
        if said.output["running"] == false {
            return said;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{id} never ended");
}

/// A report without the members that vary from run to run.
fn settled(said: &Said) -> String {
    let mut written = said.written.clone();
    let mut settle = |value: &Value| {
        for name in ["session_id", "created_at", "updated_at", "pid"] {
            if let Some(varies) = value.get(name) {
                written = written.replace(&varies.to_string(), "0");
            }
        }
    };
    settle(&said.output);
    if let Some(rows) = said.output["sessions"].as_array() {
        rows.iter().for_each(settle);
    }
    written
}

#[tokio::test]
async fn pipes_are_reported_as_recorded() {
    let shop = Shop::open().await;
    let command = "read x; echo got:$x";
    let said = shop
        .call(
            "bash",
            json!({"command": command, "run_in_background": true, "session_name": "bg", "full_terminal": false}),
        )
        .await;
    let id = said.text("session_id").to_owned();
    let shell = said.text("shell").to_owned();
    let switch = said.output["shell_args"][0].as_str().unwrap().to_owned();
    assert!(id.starts_with("bg-bash-"));
    assert_eq!(
        settled(&said),
        format!(
            r#"{{"status":"started","mode":"bash","session_id":0,"session_name":"bg","shell":"{shell}","shell_command":"{shell}","shell_args":["{switch}","<command>"],"command":"read x; echo got:$x","pid":0,"cwd":"<CWD>","created_at":0,"updated_at":0,"session_updated":true,"cwd_before":"<CWD>","cwd_after":"<CWD>","transport":"pipe","full_terminal":false,"terminal_cols":120,"terminal_rows":36}}"#
        )
    );
    let row = |running, status| {
        format!(
            r#"{{"status":"ok","count":1,"sessions":[{{"session_id":0,"session_name":"bg","running":{running},"status":"{status}","shell":"{shell}","command":"read x; echo got:$x","cwd":"<CWD>","created_at":0,"updated_at":0,"unread_stdout_chars":0,"unread_stderr_chars":0,"transport":"pipe","full_terminal":false,"terminal_cols":120,"terminal_rows":36}}]}}"#
        )
    };
    assert_eq!(settled(&shop.call("list_background_bash", json!({})).await), row(true, "running"));

    let said = shop.call("write_background_bash", json!({"session_id": id, "input": "hey"})).await;
    assert_eq!((said.ok, &said.output["bytes_written"], said.text("transport")), (true, &json!(4), "pipe"));
    ended(&shop, &id).await;
    let said = shop.call("read_background_bash", json!({"session_id": id})).await;
    assert_eq!(
        settled(&said),
        r#"{"status":"ok","session_id":0,"session_name":"bg","running":false,"exit_code":0,"signal":null,"stdout":"got:hey\n","stderr":"","stdout_cursor":8,"stderr_cursor":0,"stdout_has_more":false,"stderr_has_more":false,"stdout_dropped":false,"stderr_dropped":false}"#
    );

    let said = shop.call("write_background_bash", json!({"session_id": id, "key": "enter"})).await;
    assert_eq!(said.error.as_deref(), Some("background bash session is not running"));
    assert_eq!(
        settled(&said),
        r#"{"status":"not_running","session_id":0,"running":false,"exit_code":0,"signal":null,"bytes_written":null,"transport":"pipe"}"#
    );
    let said = shop.call("stop_background_bash", json!({"session_id": id})).await;
    assert_eq!(
        settled(&said),
        r#"{"status":"already_stopped","session_id":0,"running":false,"exit_code":0,"signal":null}"#
    );
    let said = shop.call("resize_background_bash", json!({"session_id": id, "cols": 80, "rows": 24})).await;
    assert_eq!(said.error.as_deref(), Some("resize_background_bash requires a PTY full_terminal session"));
    assert_eq!(
        settled(&said),
        r#"{"status":"unsupported","session_id":0,"transport":"pipe","full_terminal":false,"terminal_cols":null,"terminal_rows":null}"#
    );
    assert_eq!(
        shop.call("list_background_bash", json!({})).await.written,
        r#"{"status":"ok","count":0,"sessions":[]}"#
    );
    assert_eq!(
        settled(&shop.call("list_background_bash", json!({"include_exited": true})).await),
        row(false, "exited")
    );
    let said = shop.call("read_background_bash", json!({"session_id": "nope"})).await;
    assert_eq!(said.error.as_deref(), Some("read_background_bash requires a valid `session_id`."));
}

#[tokio::test]
async fn a_background_shell_gets_a_real_terminal() {
    let shop = Shop::open().await;
    let command = "test -t 0 && test -t 1 && printf '\\033[1mterm\\033[0m '; stty size; read -r x; echo \"<$x>\"; cat";
    let said = shop.call("bash", json!({"command": command, "run_in_background": true, "terminal_cols": 100})).await;
    assert_eq!((said.text("transport"), &said.output["terminal_cols"]), ("pty", &json!(100)));
    assert_eq!(said.text("session_name"), "background-bash");
    let id = said.text("session_id").to_owned();
    let text = read_until(&shop, &id, "36 100").await;
    assert!(text.contains("term 36 100"), "{text:?}");

    shop.call("write_background_bash", json!({"session_id": id, "input": "hello"})).await;
    read_until(&shop, &id, "<hello>").await;
    // Once from the terminal and once from `cat`. An interrupt before `cat` runs would reach only the shell.
    shop.call("write_background_bash", json!({"session_id": id, "input": "again"})).await;
    read_until(&shop, &id, "again\r\nagain").await;
    let said = shop.call("resize_background_bash", json!({"session_id": id, "cols": 80, "rows": 9999})).await;
    assert_eq!(
        (said.ok, &said.output["terminal_cols"], &said.output["terminal_rows"]),
        (true, &json!(80), &json!(200))
    );
    let said = shop.call("write_background_bash", json!({"session_id": id, "key": "ctrl+c"})).await;
    assert_eq!(said.output["bytes_written"], 1);
    // A shell that is about to wait for `cat` consumes the first interrupt itself, so press the keys again.
    let pressing = async {
        loop {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            shop.call("write_background_bash", json!({"session_id": id, "key": "ctrl+c"})).await;
        }
    };
    let said = tokio::select! {
        said = ended(&shop, &id) => said,
        () = pressing => unreachable!("the loop never ends"),
    };
    assert!(said.output["exit_code"] == 130 || said.output["signal"] == "SIGINT", "{said:?}");
    let said = shop.call("write_background_bash", json!({"session_id": id, "key": "hyper"})).await;
    assert_eq!(said.error.as_deref(), Some("unknown `key`: hyper"));
}

#[tokio::test]
async fn running_shells_are_found_again_by_name() {
    let shop = Shop::open().await;
    let start = |name: &str, reuse: bool, terminal: bool| {
        json!({"command": "sleep 1000", "run_in_background": true, "session_name": name,
               "reuse_session": reuse, "full_terminal": terminal})
    };
    let first = shop.call("bash", start("a", true, true)).await;
    let again = shop.call("bash", start("a", true, true)).await;
    assert_eq!(again.text("status"), "reused");
    assert_eq!(again.text("session_id"), first.text("session_id"));
    for other in [start("b", true, true), start("a", false, true), start("a", true, false)] {
        assert_eq!(shop.call("bash", other.clone()).await.text("status"), "started", "{other}");
    }
    let elsewhere = shop.call_for("other", "list_background_bash", json!({}), &Default::default()).await;
    assert_eq!(elsewhere.output["count"], 0, "a session does not see the shells of others");

    let id = first.text("session_id");
    let said = shop.call("stop_background_bash", json!({"session_id": id})).await;
    assert_eq!((said.text("status"), said.text("signal")), ("stop_requested", "SIGTERM"));
    assert_eq!(ended(&shop, id).await.output["signal"], "SIGTERM");
    assert_ne!(shop.call("bash", start("a", true, true)).await.text("session_id"), id, "an ended shell is not reused");
}

#[tokio::test]
async fn long_output_is_read_in_pieces_and_its_beginning_is_dropped() {
    let shop = Shop::open().await;
    let command = "yes 123456789 | head -n 100000; echo end >&2";
    let said = shop.call("bash", json!({"command": command, "run_in_background": true, "full_terminal": false})).await;
    let id = said.text("session_id").to_owned();
    ended(&shop, &id).await;
    let said = shop.call("read_background_bash", json!({"session_id": id, "stream": "stderr"})).await;
    assert_eq!((said.text("stdout"), said.text("stderr")), ("", "end\n"));
    assert_eq!(said.output["stdout_has_more"], true);
    let said = shop.call("read_background_bash", json!({"session_id": id, "max_chars": 20})).await;
    assert_eq!(said.text("stdout"), "123456789\n123456789\n");
    assert_eq!(said.output["stdout_cursor"], 700_020);
    assert_eq!((&said.output["stdout_dropped"], &said.output["stdout_has_more"]), (&json!(true), &json!(true)));
    let said = shop.call("read_background_bash", json!({"session_id": id, "max_chars": 1e9})).await;
    assert_eq!(said.text("stdout").len(), 120_000);
    assert_eq!(said.output["stdout_dropped"], false);
    let said = shop.call("read_background_bash", json!({"session_id": id, "stream": "bogus"})).await;
    assert_eq!(said.error.as_deref(), Some("`stream` must be one of: both, stdout, stderr."));
}

#[tokio::test]
async fn a_stop_reaches_all_descendants() {
    let shop = Shop::open().await;
    let command = "sleep 1000 & echo $! >child; wait";
    let said = shop.call("bash", json!({"command": command, "run_in_background": true})).await;
    let child = crate::pid_in(&shop.folder().join("child")).await;
    let id = said.text("session_id");
    assert!(shop.call("stop_background_bash", json!({"session_id": id, "force": true})).await.ok);
    until("the child has ended", || !crate::is_alive(&child)).await;
}
