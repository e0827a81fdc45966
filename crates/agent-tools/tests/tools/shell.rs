//! `bash` in the foreground.

use serde_json::json;

use crate::Shop;

#[tokio::test]
async fn reports_are_written_as_recorded() {
    let shop = Shop::open().await;
    let said = shop.bash("printf 'one\\ntwo\\n'; echo err >&2").await;
    let shell = said.text("shell").to_owned();
    let switch = said.output["shell_args"][0].as_str().unwrap();
    assert!(said.ok);
    assert_eq!(
        said.written,
        format!(
            r#"{{"status":"ok","mode":"bash","shell":"{shell}","shell_command":"{shell}","shell_args":["{switch}","<command>"],"command":"printf 'one\\ntwo\\n'; echo err >&2","exit_code":0,"signal":null,"timed_out":false,"aborted":false,"duration_ms":0,"stdout":"one\ntwo","stderr":"err\n","truncated_stdout":false,"truncated_stderr":false,"cwd_before":"<CWD>","cwd_after":"<CWD>","state_captured":true,"session_updated":true}}"#
        )
    );
    let said = shop.bash("exit 3").await;
    assert_eq!((said.ok, said.error.as_deref()), (false, Some("process failed (exit code 3)")));
    assert_eq!(said.output["state_captured"], false);
    assert_eq!(said.output["exit_code"], 3);

    let said = shop.call("bash", json!({})).await;
    let message = "bash requires a non-empty `command` string.";
    assert_eq!(said.error.as_deref(), Some(message));
    assert_eq!(said.written, format!(r#"{{"status":"invalid_input","message":"{message}"}}"#));
}

#[tokio::test]
async fn directory_and_variables_pass_from_one_command_to_the_next() {
    let shop = Shop::open().await;
    let said = shop.bash("mkdir -p 'a b' && cd 'a b' && export X=\"4\n2\" PATH=\"$PATH:/nowhere\"").await;
    assert!(said.ok, "{said:?}");
    assert!(said.written.contains(r#""cwd_before":"<CWD>","cwd_after":"<CWD>/a b","state_captured":true"#));
    let said = shop.bash("pwd; echo \"$X\"; echo \"${PATH##*:}\"").await;
    assert_eq!(said.text("stdout").replace(shop.folder().to_str().unwrap(), "<CWD>"), "<CWD>/a b\n4\n2\n/nowhere");
    let said = shop.bash("cd /; exit 1").await;
    assert!(said.text("cwd_after").ends_with("/a b"), "a command that exits the shell passes nothing on");

    // Other sessions have their own state.
    let said = shop.call_for("other", "bash", json!({"command": "pwd; echo $X"}), &Default::default()).await;
    assert_eq!(said.text("stdout"), shop.folder().to_str().unwrap());

    let said = shop.call("bash", json!({"command": "echo $X", "reset_session": true})).await;
    assert_eq!((said.text("stdout"), said.text("cwd_before")), ("", shop.folder().to_str().unwrap()));
}

#[tokio::test]
async fn given_directories_and_variables_are_kept_even_if_the_command_fails() {
    let shop = Shop::open().await;
    shop.file("sub/x", "");
    let said = shop.call("bash", json!({"command": "exit 9", "cwd": "sub", "env": {"A": "b", "N": 1}})).await;
    assert_eq!(said.output["exit_code"], 9);
    assert!(said.written.contains(r#""cwd_before":"<CWD>/sub","cwd_after":"<CWD>/sub""#), "{said:?}");
    assert_eq!(shop.bash("echo $A$N; pwd").await.text("stdout").lines().next(), Some("b1"));

    let said = shop.call("bash", json!({"command": "true", "cwd": "missing"})).await;
    assert!(said.error.unwrap().contains("is not a directory"));
    let said = shop.call("bash", json!({"command": "true", "env": {"A=B": "c"}})).await;
    assert!(said.error.unwrap().contains("no variable can have"));
    std::fs::remove_dir_all(shop.folder().join("sub")).unwrap();
    assert_eq!(
        shop.bash("pwd").await.text("stdout"),
        shop.folder().to_str().unwrap(),
        "a removed directory falls back to the session's folder"
    );
}

#[tokio::test]
async fn a_command_that_does_not_parse_does_not_affect_the_next() {
    let shop = Shop::open().await;
    let said = shop.bash("echo 'unfinished").await;
    assert!(!said.ok);
    assert!(!said.text("stderr").is_empty());
    let said = shop.bash("cat <<END\nopen").await;
    assert_eq!(said.text("stdout"), "open");
    assert_eq!(shop.bash("echo done # comment").await.text("stdout"), "done");
    assert_eq!(shop.bash("cat").await.text("stdout"), "", "stdin is empty");
}

#[tokio::test]
async fn long_output_is_cut_and_counted_in_utf16() {
    let shop = Shop::open().await;
    let said = shop.bash("yes '😀' | head -c 5000000; yes x | head -n 500000 >&2; cd /").await;
    assert!(said.ok, "{:?}", said.error);
    assert_eq!(said.text("stdout").encode_utf16().count().div_ceil(3), 100_000);
    assert_eq!(said.text("stderr").len(), 300_000);
    assert_eq!((&said.output["truncated_stdout"], &said.output["truncated_stderr"]), (&json!(true), &json!(true)));
    assert_eq!(said.text("cwd_after"), "/", "the state is still captured");
}

#[tokio::test]
async fn unknown_tools_are_results_too() {
    let shop = Shop::open().await;
    let said = shop.call("no_such_tool", json!({"x": 1})).await;
    assert_eq!(said.error.as_deref(), Some("unknown tool: no_such_tool"));
    assert_eq!(said.written, r#"{"callId":"c1","tool":"no_such_tool","status":"not_found"}"#);
}
