//! `doctor` with real upstreams: what it opens, what it says of them, and how it ends.

use serde_json::{Value, json};

use super::commands::text;
use super::{Setting, ours, wait_until};
use crate::support::Process;

/// An upstream that is a script.
fn script(name: &str, script: &str) -> String {
    format!("[upstreams.{name}]\ncommand = [\"sh\", \"-c\", {}]\n", Value::from(script))
}

fn finding<'r>(report: &'r Value, about: &str) -> &'r Value {
    let mut all = report["findings"].as_array().expect("a list").iter();
    all.find(|one| one["about"] == about).unwrap_or_else(|| panic!("{about}: {report:#}"))
}

#[test]
fn the_doctor_reports_broken_upstreams_with_advice() {
    let setting = Setting::new(&ours("a"));
    let (code, report) = setting.json(&["doctor", "--json", "--http", "127.0.0.1:0"]);
    assert_eq!((code, &report["healthy"]), (Some(0), &json!(true)), "{report:#}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    setting.write(&format!(
        "{}[upstreams.b]\nurl = \"http://{closed}/mcp\"\n[upstreams.c]\ncommand = \"no-such-program\"\n",
        ours("a")
    ));
    let (code, report) = setting.json(&["doctor", "--json"]);
    assert_eq!((code, &report["healthy"]), (Some(1), &json!(false)));
    let findings = report["findings"].as_array().unwrap();
    let broken: Vec<_> = findings.iter().filter(|one| one["state"] == "broken").collect();
    assert_eq!(
        broken.iter().map(|one| one["about"].as_str().unwrap()).collect::<Vec<_>>(),
        ["upstream b", "upstream c"]
    );
    assert!(broken.iter().all(|one| one["advice"].is_string()), "{report:#}");
    let drawn = text(&setting.run(&["doctor"]).stdout);
    assert!(
        drawn.contains("ok  upstream a") && drawn.contains("no  upstream c: `no-such-program` is not on the PATH"),
        "{drawn}"
    );
    assert!(!drawn.contains('\u{1b}'), "no colours in a pipe");
}

#[test]
fn each_upstream_is_opened_and_shown_with_its_revision_its_tools_and_its_time() {
    let broken = script("b", "echo 'no licence found' >&2; exit 3");
    let setting = Setting::new(&format!("{}speak = \"mcp@2025-06-18\"\n{broken}", ours("a")));
    let (code, report) = setting.json(&["doctor", "--json"]);
    assert_eq!(code, Some(1), "{report:#}");
    let opened = &finding(&report, "upstream a")["opened"];
    assert_eq!((&opened["dialect"], &opened["version"]), (&json!("mcp"), &json!("2025-06-18")), "{report:#}");
    let (tools, ms) = (opened["tools"].as_u64().unwrap(), opened["ms"].as_u64().unwrap());
    assert!(tools > 0, "{report:#}");
    let message = finding(&report, "upstream a")["message"].as_str().unwrap();
    assert!(message.ends_with(&format!(": mcp 2025-06-18, {tools} tools, opened in {ms} ms")), "{message}");
    let failed = finding(&report, "upstream b");
    assert_eq!((&failed["state"], &failed["opened"]), (&json!("broken"), &Value::Null), "{failed}");
    assert!(failed["message"].as_str().unwrap().contains("no licence found"), "{failed}");
}

#[test]
fn an_upstream_with_hidden_tools_is_shown_with_both_numbers() {
    let setting = Setting::new(&format!("{}only = [\"echo\"]\n", ours("a")));
    let (code, report) = setting.json(&["doctor", "--json"]);
    assert_eq!(code, Some(0), "{report:#}");
    let found = finding(&report, "upstream a");
    let (tools, message) = (&found["opened"]["tools"], found["message"].as_str().unwrap());
    assert!(tools.as_u64() > Some(1) && message.contains(&format!(", 1 of {tools} tools, ")), "{message}");
}

#[test]
fn upstreams_are_opened_side_by_side() {
    let setting = Setting::new("");
    // Each of the two waits until the other was started.
    let waiting = |name: &str, other: &str| {
        let (program, here) = (env!("CARGO_BIN_EXE_gladhand"), setting.path().display());
        let wait = format!(": > '{here}/{name}'; until [ -e '{here}/{other}' ]; do sleep 0.1; done");
        script(name, &format!("{wait}; exec '{program}' serve --config /dev/null"))
    };
    setting.write(&(waiting("a", "b") + &waiting("b", "a")));
    let (code, report) = setting.json(&["doctor", "--json"]);
    assert_eq!(code, Some(0), "{report:#}");
}

#[test]
fn a_silent_upstream_is_given_up_and_named() {
    let setting = Setting::new(&script("mute", "exec sleep 600"));
    let (code, report) = setting.json(&["doctor", "--json", "--timeout", "1"]);
    assert_eq!(code, Some(1));
    let failed = finding(&report, "upstream mute");
    assert!(failed["message"].as_str().unwrap().contains("within 1 s"), "{failed}");
    assert!(failed["advice"].as_str().unwrap().contains("timeout_ms"), "{failed}");
}

#[test]
fn offline_nothing_is_started() {
    let setting = Setting::new("");
    let mark = setting.path().join("mark");
    setting.write(&script("a", &format!(": > '{}'", mark.display())));
    let (code, report) = setting.json(&["doctor", "--json", "--offline"]);
    assert_eq!((code, finding(&report, "upstream a")["state"].as_str()), (Some(0), Some("fine")), "{report:#}");
    assert!(!mark.exists());
    setting.run(&["doctor"]);
    assert!(mark.exists(), "without --offline it is started");
}

#[cfg(unix)]
#[test]
fn an_interrupted_doctor_ends_its_upstreams() {
    let setting = Setting::new("");
    let mark = setting.path().join("pid");
    setting.write(&script("mute", &format!("echo $$ > '{}'; exec sleep 600", mark.display())));
    let mut command = setting.gladhand(&["doctor"]);
    command.env("HOME", setting.path());
    let mut process = Process::start(command);
    let pid = || std::fs::read_to_string(&mark).unwrap_or_default().trim().to_owned();
    wait_until("the upstream is started", || !pid().is_empty());
    process.signal(rustix::process::Signal::INT);
    assert_eq!(process.wait().code(), Some(130));
    let server = rustix::process::Pid::from_raw(pid().parse().unwrap()).unwrap();
    wait_until("the upstream is gone", || rustix::process::test_kill_process(server).is_err());
}

#[cfg(unix)]
#[test]
fn a_reference_to_a_variable_that_is_not_set_is_no_secret() {
    use std::os::unix::fs::PermissionsExt as _;
    let setting = Setting::new("[upstreams.t]\nurl = \"https://t.example/mcp\"\nbearer = \"${NO_SUCH_TOKEN}\"\n");
    std::fs::set_permissions(setting.file(), std::fs::Permissions::from_mode(0o644)).expect("it can be changed");
    let output = setting.run(&["doctor", "--offline"]);
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(shown.contains("the variable NO_SUCH_TOKEN is not set") && !shown.contains("holds secrets"), "{shown}");
}

#[test]
fn a_default_is_suggested_for_a_variable_only() {
    let setting = Setting::new("[upstreams.a]\ncommand = ['x', '${secret:none}']\n");
    let findings = |setting: &Setting| String::from_utf8_lossy(&setting.run(&["doctor"]).stdout).into_owned();
    let told = findings(&setting);
    assert!(told.contains("gladhand secret set none") && !told.contains("give a default"), "{told}");
    setting.write("[upstreams.a]\ncommand = ['x', '${NO_SUCH_VARIABLE}']\n");
    let told = findings(&setting);
    assert!(told.contains("give a default") && !told.contains("other upstreams"), "{told}");
}

#[test]
fn the_command_of_a_broken_upstream_is_shown_to_be_repeated() {
    let setting = Setting::new("[upstreams.a]\ncommand = ['sh', '-c', 'exit 3']\n");
    let told =
        String::from_utf8_lossy(&setting.run(&["doctor"]).stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("`gladhand open -- sh -c exit 3` shows what it answers"), "{told}");
}
