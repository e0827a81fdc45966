//! Several servers behind one `gladhand serve`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use serde_json::json;

use super::{Setting, call, echoed, ours, tools};
use crate::support::{MCP_INITIALIZED, PATIENCE, Process, mcp_initialize};

#[test]
fn tools_of_all_upstreams_have_distinct_names() {
    let hidden = format!("{}prefix = \"plain\"\nonly = [\"e*\"]\nrename = {{ echo = \"shout\" }}\n", ours("c"));
    let setting = Setting::new(&(ours("b") + &ours("a") + &hidden));
    let mut process = setting.session();
    let all = tools(&mut process);
    assert_eq!(
        all,
        [
            "echo",
            "agreement",
            "wait",
            "b__echo",
            "b__agreement",
            "b__wait",
            "a__echo",
            "a__agreement",
            "a__wait",
            "shout"
        ]
    );
    for tool in ["echo", "a__echo", "b__echo", "shout"] {
        let answer = call(&mut process, tool, &json!({ "message": tool }));
        assert_eq!(answer["result"]["content"], echoed(tool), "{answer}");
    }
    let (code, _, errors) = process.finish();
    assert_eq!(code, 0, "{errors}");
    // Their lists are cached for the next run.
    let mut kept: Vec<_> = std::fs::read_dir(setting.path().join("data/upstreams"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    let names: Vec<_> = kept.iter().map(|name| &name[..2]).collect();
    assert_eq!(names, ["a-", "b-", "c-"]);
}

#[test]
fn each_upstream_starts_in_its_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let who = |name: &str| {
        let upstream = ours(name).replace("\"/dev/null\"", "\"own.toml\"");
        format!("{upstream}cwd = {:?}\n", place.join(name))
    };
    for name in ["a", "b"] {
        std::fs::create_dir(place.join(name)).unwrap();
        // A file in the folder of each upstream determines its tools.
        let text = format!("[toolbox]\nenabled = {}\n", name == "a");
        std::fs::write(place.join(name).join("own.toml"), text).unwrap();
    }
    let setting = Setting::new(&(who("a") + &who("b")));
    let mut process = setting.session();
    let all = tools(&mut process);
    assert!(all.contains(&"a__echo".to_owned()) && !all.contains(&"b__echo".to_owned()), "{all:?}");
}

#[test]
fn calls_reach_the_upstream_that_they_name_in_the_dialect_that_it_speaks() {
    let speaking = |name: &str, dialect: &str| format!("{}speak = \"{dialect}\"\n", ours(name));
    let setting = Setting::new(&(speaking("a", "mcp@2025-03-26") + &speaking("b", "loaf") + &speaking("c", "a2e")));
    let mut process = setting.session();
    for (tool, dialect) in [("a__agreement", "mcp"), ("b__agreement", "loaf"), ("c__agreement", "a2e")] {
        let answer = call(&mut process, tool, &json!({}));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains(dialect), "{tool}: {answer}");
    }
}

#[test]
fn a_program_gets_the_usual_variables_and_its_own_and_no_others() {
    let setting = Setting::new("");
    let place = setting.path().join("variables");
    let config = format!(
        "[upstreams.a]\ncommand = [\"sh\", \"-c\", \"env > '{}'\"]\ninherit_env = [\"TEAM_*\"]\n\
         env = {{ OWN = \"${{secret:own}}\" }}\n",
        place.display()
    );
    setting.write(&config);
    let mut command = setting.gladhand(&["serve"]);
    command.env("GLADHAND_SECRET_OWN", "hush").env("TEAM_NAME", "red").env("API_TOKEN", "ours");
    let mut process = Process::start(command);
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    assert_eq!(tools(&mut process), ["echo", "agreement", "wait"], "it says nothing, and the others do");
    let variables = std::fs::read_to_string(&place).unwrap();
    let value = |name: &str| variables.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    assert_eq!((value("OWN"), value("TEAM_NAME")), (Some("hush"), Some("red")), "{variables}");
    assert!(value("PATH").is_some() && value("HOME").is_some(), "{variables}");
    assert_eq!((value("API_TOKEN"), value("GLADHAND_SECRET_OWN")), (None, None), "{variables}");
}

#[test]
fn a_server_that_is_its_own_upstream_is_nested_only_once() {
    let setting = Setting::new(&ours("me").replace(", \"--config\", \"/dev/null\"", ""));
    let mut process = setting.session();
    let names = ["echo", "agreement", "wait", "me__echo", "me__agreement", "me__wait"];
    assert_eq!(tools(&mut process), names);
}

#[test]
fn upstreams_are_served_over_http_and_reloaded_from_the_file() {
    let setting = Setting::new(&ours("a"));
    let mut command = setting.gladhand(&["serve", "--http", "127.0.0.1:0"]);
    let mut server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut errors = BufReader::new(server.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    let url = line.trim().rsplit(' ').next().unwrap().to_owned();
    let call = |tool: &str| {
        let output = setting.gladhand(&["call", tool, "message=hi", &url]).stdin(Stdio::null()).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert_eq!(call("a__echo"), "hi\n");
    setting.write_trusted(&ours("b"));
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let begun = Instant::now();
    while call("b__echo") != "hi\n" {
        assert!(begun.elapsed() < PATIENCE, "b does not come");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
