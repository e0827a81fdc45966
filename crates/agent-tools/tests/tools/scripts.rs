//! Scripts, with the installed runtimes.

use gladhand_agent_tools::ToolProvider as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Said, Shop, is_alive, needs, pid_in};

/// A report without the members that vary from run to run.
fn settled(shop: &Shop, said: &Said) -> String {
    let mut written = said.written.replace(&shop.home.path().display().to_string(), "<HOME>");
    for name in ["session_id", "created_at", "updated_at", "pid", "command"] {
        if let Some(varies) = said.output.get(name) {
            written = written.replace(&varies.to_string(), "0");
        }
    }
    while let Some(at) = written.find("/run-1") {
        let end = at + written[at..].find(".").unwrap();
        written.replace_range(at..end, "/run");
    }
    written
}

fn scripts_left(shop: &Shop, folder: &str) -> usize {
    std::fs::read_dir(shop.home.path().join("data/js-runtime").join(folder)).map_or(0, |entries| entries.count())
}

#[tokio::test]
async fn javascript_is_reported_as_recorded() {
    needs("node");
    let shop = Shop::open().await;
    let code = "console.log('hi', process.argv.slice(2).join(','))";
    let said = shop.call("run_js", json!({"code": code, "args": ["a", "b"], "runtime": "node"})).await;
    assert!(said.ok, "{said:?}");
    assert_eq!(
        settled(&shop, &said),
        r#"{"status":"ok","mode":"run_js","cwd":"<CWD>","scriptPath":"<HOME>/data/js-runtime/runs/run.mjs","runtime":"node","format":"module","command":0,"args":["<HOME>/data/js-runtime/runs/run.mjs","a","b"],"exit_code":0,"signal":null,"timed_out":false,"duration_ms":0,"stdout":"hi a,b\n","stderr":"","truncated_stdout":false,"truncated_stderr":false}"#
    );
    let said = shop.call("run_js", json!({"code": "process.exit(4)", "runtime": "node", "format": "commonjs"})).await;
    assert_eq!(said.error.as_deref(), Some("process failed (exit code 4)"));
    assert!(said.text("scriptPath").ends_with(".cjs"));
    assert_eq!(scripts_left(&shop, "runs"), 0);
    let said = shop.call("run_js", json!({"code": "1", "runtime": "node", "keep_script": true})).await;
    assert!(said.ok);
    assert_eq!(scripts_left(&shop, "runs"), 1);
    for (input, message) in [
        (json!({"code": ""}), "run_js requires a non-empty `code` string."),
        (json!({"code": "1", "runtime": "deno"}), "`runtime` must be one of: auto, node, bun."),
        (json!({"code": "1", "format": "x"}), "`format` must be one of: module, commonjs."),
    ] {
        let said = shop.call("run_js", input).await;
        assert_eq!(said.output, json!({"status": "invalid_input", "message": message}));
    }
}

#[tokio::test]
async fn files_of_the_agent_are_accessible_only_to_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;

    needs("node");
    let shop = Shop::open().await;
    assert!(shop.call("run_js", json!({"code": "1", "runtime": "node", "keep_script": true})).await.ok);
    let tool = json!({"name": "made", "description": "x", "handler_code": "return 1;"});
    assert!(shop.call("create_persistent_tool", tool).await.ok);
    let (mut pending, mut files) = (vec![shop.home.path().join("data")], 0);
    while let Some(path) = pending.pop() {
        let about = path.metadata().unwrap();
        let wanted = if about.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(about.permissions().mode() & 0o777, wanted, "{}", path.display());
        files += usize::from(about.is_file());
        let entries = std::fs::read_dir(&path).into_iter().flatten();
        pending.extend(entries.map(|entry| entry.unwrap().path()));
    }
    assert_eq!(files, 3, "a script, the driver and a tool");
    shop.tools.close().await;
}

#[tokio::test]
async fn scripts_can_be_interrupted() {
    needs("node");
    let shop = Shop::open().await;
    let cancel = CancellationToken::new();
    let code = "import fs from 'fs'; fs.writeFileSync('pid', process.pid + '\\n'); for (;;) {}";
    let (said, pid) = tokio::join!(shop.call_for("session", "run_js", json!({"code": code}), &cancel), async {
        let pid = pid_in(&shop.folder().join("pid")).await;
        cancel.cancel();
        pid
    });
    assert_eq!(said.error.as_deref(), Some("process aborted (no exit code)"));
    assert_eq!(said.output["aborted"], true);
    assert!(!is_alive(&pid));
}

#[tokio::test]
async fn javascript_in_the_background_is_reported_as_recorded() {
    needs("node");
    let shop = Shop::open().await;
    let code = "process.stdin.on('data',d=>console.log('got',String(d).trim()))";
    let start = json!({"code": code, "runtime": "node", "session_name": "bgjs"});
    let said = shop.call("start_background_js", start.clone()).await;
    let id = said.text("session_id").to_owned();
    assert!(id.starts_with("bg-"));
    assert_eq!(
        settled(&shop, &said),
        r#"{"status":"started","session_id":0,"session_name":"bgjs","pid":0,"runtime":"node","command":0,"args":["<HOME>/data/js-runtime/background/run.mjs"],"cwd":"<CWD>","created_at":0}"#
    );
    assert_eq!(shop.call("start_background_js", start).await.text("status"), "reused");
    let said = shop.call("list_background_js", json!({})).await;
    let row = &said.output["sessions"][0];
    assert_eq!(
        (&row["session_name"], &row["running"], &row["exit_code"]),
        (&json!("bgjs"), &json!(true), &Value::Null)
    );

    let said = shop.call("write_background_js", json!({"session_id": id, "input": "yo"})).await;
    assert_eq!(
        settled(&shop, &said),
        r#"{"status":"ok","session_id":0,"running":true,"exit_code":null,"signal":null,"bytes_written":3}"#
    );
    let mut said = shop.call("read_background_js", json!({"session_id": id, "peek": true})).await;
    while said.text("stdout").is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        said = shop.call("read_background_js", json!({"session_id": id, "peek": true})).await;
    }
    let said = shop.call("read_background_js", json!({"session_id": id, "stream": "stdout"})).await;
    assert_eq!((said.text("stdout"), &said.output["stdout_cursor"]), ("got yo\n", &json!(7)));
    let said = shop.call("stop_background_js", json!({"session_id": id, "force": true})).await;
    assert_eq!(
        settled(&shop, &said),
        r#"{"status":"stop_requested","session_id":0,"signal":"SIGKILL","running":false,"exit_code":null}"#
    );
    assert_eq!(scripts_left(&shop, "background"), 0);
    let said = shop.call("read_background_js", json!({"session_id": id, "stream": "bogus"})).await;
    assert_eq!(said.error.as_deref(), Some("`stream` must be one of: both, stdout, stderr."));
    let said = shop.call("write_background_js", json!({"session_id": id, "input": "yo"})).await;
    assert_eq!(said.text("status"), "not_running");
}

#[tokio::test]
async fn package_managers_get_their_own_arguments() {
    // Programs that print their arguments.
    let home = tempfile::tempdir().unwrap();
    for name in ["npm", "npx", "pnpm"] {
        let program = home.path().join(name);
        std::fs::write(&program, "#!/bin/sh\necho \"$@\"\n").unwrap();
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
    }
    let path = home.path().to_owned();
    let shop = Shop::with(|settings| drop(settings.environment.insert("PATH".into(), path.into()))).await;
    let packages = json!({"packages": "a b@1", "dev": true, "package_manager": "npm", "args": ["--silent"]});
    let said = shop.call("install_js_packages", packages).await;
    assert_eq!(said.text("stdout"), "install --ignore-scripts --save-dev --silent a b@1\n");
    assert!(said.written.starts_with(
        r#"{"status":"ok","mode":"install_js_packages","cwd":"<CWD>","package_manager":"npm","packages":["a","b@1"],"command":"#
    ));
    let said = shop.call("install_js_packages", json!({"packages": ["a"]})).await;
    assert_eq!((said.text("package_manager"), said.text("stdout")), ("pnpm", "add --ignore-scripts a\n"));
    let said = shop.call("run_js_module", json!({"module": "cowsay", "package_manager": "npm", "args": ["hi"]})).await;
    assert_eq!((said.text("module"), said.text("stdout")), ("cowsay", "--yes cowsay hi\n"));
    let said = shop.call("run_js_module", json!({"module": "x", "package_manager": "bun"})).await;
    assert_eq!(said.error.as_deref(), Some("package manager not found: bun."));
    let said = shop.call("install_js_packages", json!({"packages": []})).await;
    assert!(said.error.unwrap().contains("requires a non-empty `packages` list"));
    let said = shop.call("run_js", json!({"code": "1"})).await;
    assert!(said.error.unwrap().starts_with("no javascript runtime found"));
}

#[tokio::test]
async fn no_setting_of_the_folder_adds_code_to_a_script_or_an_installation() {
    // Programs that print their arguments and variables.
    let home = tempfile::tempdir().unwrap();
    for (name, text) in [("bun", "echo \"$@\""), ("yarn", "echo $YARN_ENABLE_SCRIPTS $npm_config_ignore_scripts")] {
        let program = home.path().join(name);
        std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
    }
    let path = home.path().to_owned();
    let shop = Shop::with(|settings| drop(settings.environment.insert("PATH".into(), path.into()))).await;
    let said = shop.call("run_js", json!({"code": "1", "args": ["x"]})).await;
    let words: Vec<_> = said.text("stdout").split_whitespace().collect();
    let [config, variables, script, "x"] = words[..] else { panic!("{words:?}") };
    assert_eq!((config, variables), ("--config=/dev/null", "--env-file=/dev/null"), "before {script}");
    let said = shop.call("install_js_packages", json!({"packages": ["a"]})).await;
    assert_eq!(said.text("stdout"), "add --ignore-scripts a\n");
    let said = shop.call("install_js_packages", json!({"packages": ["a"], "package_manager": "yarn"})).await;
    assert_eq!(said.text("stdout"), "false true\n");
}

#[tokio::test]
async fn python_scripts_run() {
    needs("python3");
    let shop = Shop::open().await;
    let said = shop.call("run_python", json!({"code": "import sys\nprint(sys.argv[1:])", "args": ["x"]})).await;
    assert_eq!((said.ok, said.text("stdout"), said.text("runtime")), (true, "['x']\n", "python3"));
}
