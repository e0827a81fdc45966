//! Processes of agents: what they may be told, and where they may work.

use serde_json::{Value, json};

use crate::a2e_agent::{Prepared, ask, write};
use crate::approval::Stage;
use crate::support::Process;

fn opened(prepared: &Prepared, capabilities: &[&str]) -> Process {
    let mut process = prepared.on_streams();
    let hello = json!({"type": "handshake/req", "agent_id": "ann", "agent_caps": capabilities});
    assert_eq!(ask(&mut process, hello)["ok"], true);
    process
}

/// Starts a process and returns what it wrote, or why it was not started.
fn output(process: &mut Process, spawn: Value) -> Result<String, String> {
    let mut spawn = spawn;
    (spawn["type"], spawn["id"], spawn["stdin_mode"]) = (json!("proc/spawn/req"), json!("s"), json!("null"));
    process.send(&spawn.to_string());
    let (mut text, mut id) = (String::new(), None);
    loop {
        let heard = process.value();
        if heard["type"] == "proc/spawn/resp" {
            if heard["ok"] == false {
                return Err(heard["error"].as_str().unwrap_or_default().to_owned());
            }
            id = Some(heard["proc_id"].clone());
        } else if heard["data"]["text"].is_string() {
            text.push_str(heard["data"]["text"].as_str().unwrap_or_default());
        } else if heard["data"]["code"].is_number() && id.is_some() {
            return Ok(text);
        }
    }
}

#[test]
fn a_variable_does_not_turn_an_allowed_program_into_another() {
    let prepared = Prepared::new("[a2e]\nroots = ['.']\n[a2e.proc]\nallowed = ['tar', 'less', 'git', 'env']\n");
    let here = prepared.path();
    write(&here.join("home/.gitconfig"), "[alias]\nstatus2 = !touch started\n");
    write(&here.join("home/git/config"), "[alias]\nstatus2 = !touch started\n");
    let mut process = opened(&prepared, &["proc"]);
    let home = here.join("home").display().to_string();
    let attempts = [
        (
            "TAR_OPTIONS",
            "--checkpoint=1 --checkpoint-action=exec=touch${IFS}started",
            json!(["tar", "-cf", "x.tar", "."]),
        ),
        ("LESSOPEN", "|touch started", json!(["less", "gladhand.toml"])),
        ("LESSCLOSE", "touch started", json!(["less", "gladhand.toml"])),
        ("HOME", &home, json!(["git", "status2"])),
        ("XDG_CONFIG_HOME", &home, json!(["git", "status2"])),
        ("GIT_CONFIG_GLOBAL", &home, json!(["git", "status2"])),
        ("LD_PRELOAD", "./evil.so", json!(["env"])),
        ("BASH_ENV", "./evil.sh", json!(["env"])),
        ("PAGER", "touch started", json!(["git", "-p", "help"])),
        ("PATH", &home, json!(["git", "status"])),
        ("TMPDIR", &home, json!(["env"])),
        ("SSH_ASKPASS", "./evil.sh", json!(["env"])),
        ("FOO", "a variable that the operator has not named", json!(["env"])),
    ];
    for (name, value, command) in attempts {
        let refused = output(&mut process, json!({"cmd": command, "env": {name: value}}));
        assert_eq!(refused, Err(format!("environment variable not allowed: {name}")));
        assert!(!here.join("started").exists(), "{name}");
    }
    let shown =
        output(&mut process, json!({"cmd": ["env"], "env": {"LANG": "C.UTF-8", "TZ": "Europe/Berlin"}})).unwrap();
    assert!(shown.contains("LANG=C.UTF-8\n") && shown.contains("TZ=Europe/Berlin\n"), "{shown}");
}

#[test]
fn an_operator_names_the_variables_that_agents_may_set() {
    let prepared = Prepared::new("[a2e.proc]\nallowed = ['env']\nvariables = ['FOO', 'CI']\n");
    let mut process = opened(&prepared, &["proc"]);
    let shown = output(&mut process, json!({"cmd": ["env"], "env": {"FOO": "bar", "CI": "1"}})).unwrap();
    assert!(shown.contains("FOO=bar\n") && shown.contains("CI=1\n"), "{shown}");
    for name in ["FOO2", "foo", "HOME"] {
        let refused = output(&mut process, json!({"cmd": ["env"], "env": {name: "x"}}));
        assert_eq!(refused, Err(format!("environment variable not allowed: {name}")));
    }
}

/// A folder with roots, and links that lead out of them.
fn rooted(more: &str) -> Prepared {
    let prepared = Prepared::new(&format!("[a2e]\nroots = ['work', 'more']\n{more}"));
    let here = prepared.path();
    for folder in ["work/inner", "more", "outside"] {
        std::fs::create_dir_all(here.join(folder)).expect("it can be made");
    }
    std::os::unix::fs::symlink(here.join("outside"), here.join("work/out")).expect("it can be made");
    prepared
}

#[test]
fn a_process_works_inside_the_roots() {
    let prepared = rooted("[a2e.proc]\nallowed = ['pwd']\n");
    let here = prepared.path();
    let mut process = opened(&prepared, &["proc"]);
    for (cwd, real) in [("", "work"), ("inner", "work/inner"), ("../more", "more"), ("inner/..", "work")] {
        let shown = output(&mut process, json!({"cmd": ["pwd"], "cwd": cwd}));
        assert_eq!(shown, Ok(format!("{}\n", here.join(real).display())), "{cwd}");
    }
    let outside = here.join("outside").display().to_string();
    for cwd in ["..", "out", "/", "../outside", "inner/../..", outside.as_str()] {
        let refused = output(&mut process, json!({"cmd": ["pwd"], "cwd": cwd}));
        assert_eq!(refused, Err(format!("cwd not allowed: {cwd}")));
    }
}

#[test]
fn skills_outside_the_roots_are_not_offered() {
    for (path, offered) in
        [("work/skills", true), ("more/skills", true), ("outside/skills", false), ("work/out/skills", false)]
    {
        let prepared = rooted(&format!("[a2e.skill]\npath = '{path}'\n"));
        let here = prepared.path();
        write(&here.join(path).join("where/skill.md"), "---\nname: where\nrun: ['pwd']\n---\n");
        let mut process = opened(&prepared, &["skill"]);
        let found = ask(&mut process, json!({"type": "skill/discover/req"}));
        assert_eq!(found["skills"].as_array().map(Vec::len), Some(usize::from(offered)), "{path}: {found}");
        let called = ask(&mut process, json!({"type": "skill/call/req", "name": "where", "arguments": {}}));
        assert_eq!(called["data"]["success"], offered, "{path}: {called}");
        let mut check = crate::support::gladhand();
        let check = check.args(["config", "check"]).current_dir(&here).output().unwrap();
        let told = String::from_utf8(check.stdout).unwrap();
        assert_eq!(told.contains("a2e.skill.path") && told.contains("outside a2e.roots"), !offered, "{told}");
    }
}

#[test]
fn a_program_of_an_environment_works_in_the_first_root() {
    let script = r#"read line; printf '{"id":1,"obs":{"state":{"at":"%s"}}}\n' "$(pwd)"; cat"#;
    let prepared = rooted(&format!("[a2e.env.commands]\nwhere = ['sh', '-c', '''{script}''']\n"));
    let mut process = opened(&prepared, &["env"]);
    let began = ask(&mut process, json!({"type": "env/reset/req", "env_name": "where"}));
    let work = prepared.path().join("work").display().to_string();
    assert_eq!(began["obs"]["state"]["at"], work, "{began}");
}

/// Programs of one name beside the configuration, in the first root and below it. Each says where it is.
fn scripts(prepared: &Prepared) {
    use std::os::unix::fs::PermissionsExt as _;
    let here = prepared.path();
    for folder in [".", "work", "work/inner"] {
        let file = here.join(folder).join("run.sh");
        write(&file, &format!("#!/bin/sh\necho {folder}; echo {folder} >> '{}'\n", here.join("ran").display()));
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
}

#[test]
fn an_agent_does_not_choose_by_its_folder_which_program_is_started() {
    let prepared = rooted("[a2e.proc]\nallowed = ['./run.sh']\n[a2e.mcp]\ncommands = ['./run.sh']\n");
    scripts(&prepared);
    let mut process = opened(&prepared, &["proc", "mcp"]);
    for cwd in ["", "inner"] {
        let shown = output(&mut process, json!({"cmd": ["./run.sh"], "cwd": cwd}));
        assert_eq!(shown, Ok(".\n".to_owned()), "{cwd}: the program is beside the configuration");
        let config = json!({"transport": "stdio", "cmd": ["./run.sh"], "cwd": cwd});
        let answer = ask(&mut process, json!({"type": "mcp/server/register/req", "config": config}));
        assert_eq!(answer["code"], "mcp_transport_error", "it is started, and is no server: {answer}");
    }
    let ran = std::fs::read_to_string(prepared.path().join("ran")).expect("it was started");
    assert!(ran.lines().count() >= 4 && ran.lines().all(|folder| folder == "."), "{ran}");
}

#[test]
fn a_registered_server_works_inside_the_roots() {
    let prepared = rooted("[a2e.mcp]\ncommands = ['sh']\n");
    let here = prepared.path();
    let mut process = opened(&prepared, &["mcp"]);
    let mut register = |cwd: &str| {
        // It says where it was started and leaves, so that it is no server; where it was is in the file.
        let script = format!("pwd > '{}'", here.join("where").display());
        let config = json!({"transport": "stdio", "cmd": ["sh", "-c", script], "cwd": cwd});
        let _ = std::fs::remove_file(here.join("where"));
        let answer = ask(&mut process, json!({"type": "mcp/server/register/req", "config": config}));
        (answer, std::fs::read_to_string(here.join("where")).ok())
    };
    for (cwd, real) in [("", "work"), ("inner", "work/inner"), ("../more", "more")] {
        let (answer, at) = register(cwd);
        assert_eq!(at, Some(format!("{}\n", here.join(real).display())), "{cwd}: {answer}");
    }
    for cwd in ["..", "out", "/", "../outside"] {
        let (answer, at) = register(cwd);
        assert_eq!((&answer["ok"], at), (&json!(false), None), "{cwd}: {answer}");
        assert_eq!(answer["error"], "config.cwd: commands may not work there");
    }
}

#[test]
fn no_program_that_we_start_gets_a_variable_that_holds_a_secret() {
    let ours = [
        "GLADHAND_SECRET_GITHUB",
        "GLADHAND_PASSPHRASE",
        "GLADHAND_A2E_TOKEN",
        "GLADHAND_MCP_TOKEN",
        "GLADHAND_CONSOLE_TOKEN",
    ];
    let code = "return JSON.stringify(process.env)";
    let calls = [
        ("bash", json!({"command": "env > bash; env"})),
        ("run_js", json!({"code": "console.log(JSON.stringify(process.env))", "runtime": "node"})),
        ("create_persistent_tool", json!({"name": "shows", "description": "x", "handler_code": code})),
        ("shows", json!({})),
    ];
    let upstream = "[upstreams.u]\ncommand = ['sh', '-c', 'env > upstream']\ncwd = 'work'\ninherit_env = 'all'";
    let stage = Stage::new(upstream, &calls);
    let run = |arguments: &[&str]| {
        let mut command = stage.gladhand(arguments);
        command.envs(ours.map(|name| (name, "correct-horse-battery"))).env("MARK", "inherited");
        command.output().expect("it starts")
    };
    run(&["chat", "-p", "go", "--approve", "all"]);
    let told = stage.results();
    for index in [0, 1, 3] {
        assert!(told[index].contains("inherited"), "{}: {}", calls[index].0, told[index]);
    }
    for (told, call) in told.iter().zip(&calls) {
        assert!(!told.contains("correct-horse-battery"), "{}: {told}", call.0);
    }
    run(&["open", "--", "sh", "-c", "env > open"]);
    run(&["tools", "--", "sh", "-c", "env > tools"]);
    for file in ["bash", "upstream", "open", "tools"] {
        let shown = std::fs::read_to_string(stage.at("work").join(file)).expect(file);
        assert!(shown.contains("MARK=inherited"), "{file}: {shown}");
        assert!(!ours.iter().any(|name| shown.contains(&format!("{name}="))), "{file}: {shown}");
    }
}

#[test]
fn an_upstream_without_a_home_folder_does_not_start_in_a_shared_folder() {
    let stage = Stage::new("[upstreams.u]\ncommand = ['sh', '-c', 'pwd > \"$SEEN\"']\ninherit_env = ['SEEN']", &[]);
    let seen = stage.at("seen");
    for home in ["/no/such/home", ""] {
        let _ = std::fs::remove_file(&seen);
        let mut command = stage.gladhand(&["tools", "--timeout", "5"]);
        command.env("HOME", home).env("SEEN", &seen).output().expect("it starts");
        let folder = std::fs::read_to_string(&seen).expect("it was started");
        let is_shared = |folder: &str| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::metadata(folder).expect("it is there").permissions().mode() & 0o002 != 0
        };
        assert!(is_shared(std::env::temp_dir().to_str().expect("UTF-8")), "the test shows nothing otherwise");
        assert!(!is_shared(folder.trim()), "{folder}");
        assert_ne!(folder.trim(), stage.at("work").to_str().expect("UTF-8"));
    }
}

#[test]
fn a_relative_home_or_data_folder_makes_no_file_of_the_clone_the_users_own() {
    let stage = Stage::new("", &[]);
    let (work, marker) = (stage.at("work"), stage.at("started"));
    let config = work.join(".config/gladhand");
    std::fs::create_dir_all(&config).expect("a folder");
    let upstream = format!("[upstreams.evil]\ncommand = ['touch', '{}']\n", marker.display());
    std::fs::write(config.join("gladhand.toml"), upstream).expect("it can be written");
    for home in [".", "./", "x/.."] {
        let mut command = stage.gladhand(&["tools", "--timeout", "5"]);
        command.env("HOME", home).env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        command.env_remove("GLADHAND_CONFIG").env_remove("GLADHAND_DATA_DIR").output().expect("it starts");
        assert!(!marker.exists(), "HOME={home}");
    }
    let mut command = stage.gladhand(&["open", "--timeout", "1", "--", "false"]);
    command.env("GLADHAND_DATA_DIR", "").output().expect("it starts");
    let files = std::fs::read_dir(&work).expect("it is there").map(|entry| entry.expect("it is there").file_name());
    assert_eq!(files.collect::<Vec<_>>(), [".config"], "an empty data folder is not the current one");
}

/// As a shell does that starts a job in the background, or `nohup`.
#[cfg(target_os = "linux")]
#[test]
fn no_program_that_we_start_inherits_ignored_signals() {
    let write = |file: &str| format!("grep -E '^Sig(Blk|Ign):' /proc/self/status > <WORK>/{file}");
    let waits = "while [ ! -s <WORK>/background ]; do sleep 0.05; done";
    let calls = [
        ("bash", json!({"command": write("bash")})),
        ("bash", json!({"command": write("background"), "run_in_background": true})),
        ("bash", json!({"command": waits})),
    ];
    let upstream = "[upstreams.u]\ncommand = ['sh', '-c', 'grep -E \"^Sig(Blk|Ign):\" /proc/self/status > upstream']\ncwd = 'work'";
    let stage = Stage::new(upstream, &calls);
    let ours = stage.gladhand(&["chat", "-p", "go", "--approve", "all"]);
    let mut command = std::process::Command::new("env");
    command.args(["--ignore-signal=HUP,INT,QUIT,TSTP,USR1", "--block-signal=INT,USR2"]);
    command.arg(ours.get_program()).args(ours.get_args()).current_dir(stage.at("work"));
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.stdin(std::process::Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in ["bash", "background", "upstream"] {
        let shown = std::fs::read_to_string(stage.at("work").join(file)).expect(file);
        let masks = shown.lines().filter_map(|line| line.split_once(':'));
        for (name, mask) in masks.clone() {
            // The C library keeps two signals for itself.
            let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask") & !(0b11 << 31);
            assert_eq!(mask, 0, "{file}: {name}");
        }
        assert_eq!(masks.count(), 2, "{file}: {shown}");
    }
}
