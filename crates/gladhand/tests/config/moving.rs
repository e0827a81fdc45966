//! Moving in and out: servers of other programs imported, moved behind us and put back.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Setting;
use super::commands::text;

const PROGRAM: &str = env!("CARGO_BIN_EXE_gladhand");

impl Setting {
    /// Writes a file below the home, and says where it is.
    fn at_home(&self, name: &str, content: &str) -> PathBuf {
        let file = self.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be made");
        std::fs::write(&file, content).expect("it can be written");
        file
    }

    /// Runs something that works, and returns what it says.
    fn works(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout) + &text(&output.stderr)
    }

    fn config(&self) -> String {
        content(&self.file())
    }
}

fn content(file: &std::path::Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// A server that works, in JSON. Its own configuration is not that of the one in front.
fn echo() -> String {
    // It is not called `gladhand`, so that it is no entry of ours.
    json!({ "command": "sh", "args": ["-c", format!("exec '{PROGRAM}' serve --config /dev/null")] }).to_string()
}

#[test]
fn servers_are_moved_behind_gladhand_once_and_restored_byte_for_byte() {
    let echo = echo();
    let toml = format!(
        "model = \"x\" # mine\n\n# the echo\n[mcp_servers.echo]\ncommand = \"sh\"\nargs = [\"-c\", {}]\n\n[mcp_servers.echo.env]\nLEVEL = \"1\"\n\n[tui]\ntheme = \"y\"\n",
        Value::from(format!("exec '{PROGRAM}' serve --config /dev/null"))
    );
    let json = |section: &str| {
        format!(
            "{{\n  // mine\n  \"theme\": \"One\",\n  \"{section}\": {{\n    \"echo\": {echo}, // works\n  }},\n  \"z\": [1, 2]\n}}"
        )
    };
    for (client, file, before) in [
        ("cursor", ".cursor/mcp.json", json("mcpServers")),
        ("zed", ".config/zed/settings.json", json("context_servers")),
        ("vscode", ".config/Code/User/mcp.json", json("servers")),
        ("gemini-cli", ".gemini/settings.json", json("mcpServers")),
        ("codex", ".codex/config.toml", toml),
    ] {
        let own = "# my own\n[limits]\npage_size = 50";
        let setting = Setting::new(own);
        let file = setting.at_home(file, &before);
        let told = setting.works(&["config", "install", client, "--replace"]);
        assert!(told.contains("echo is moved") && told.contains("config uninstall"), "{told}");
        let after = content(&file);
        assert!(after.contains("mine") && after.contains("gladhand") && !after.contains("/dev/null"), "{after}");
        assert!(setting.config().starts_with(&format!("{own}\n\n# from {client} (")), "{}", setting.config());
        let tools = setting.works(&["tools", "--json"]);
        assert!(tools.contains("\"echo__echo\""), "it works behind us: {tools}");

        let config = setting.config();
        assert!(setting.works(&["config", "install", client, "--replace"]).contains("has it already"), "{client}");
        assert_eq!((content(&file), setting.config()), (after, config), "twice changes nothing");

        setting.works(&["config", "uninstall", client]);
        assert_eq!((content(&file).as_str(), setting.config().as_str()), (before.as_str(), own), "{client}");
        let beside = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(beside, 1, "no copy is left of {client}");
        assert!(setting.works(&["config", "uninstall", client]).contains("does not start Gladhand."));
    }
}

#[test]
fn an_uninstall_keeps_changes_that_another_program_made() {
    let setting = Setting::new("");
    let before = format!("{{\n  \"mcpServers\": {{\n    \"echo\": {}\n  }}\n}}\n", echo());
    let file = setting.at_home(".claude.json", &before);
    setting.works(&["config", "install", "claude-code", "--replace"]);
    let mut now: Value = serde_json::from_str(&content(&file)).unwrap();
    now["numStartups"] = json!(7);
    std::fs::write(&file, now.to_string()).unwrap();
    let told = setting.works(&["config", "uninstall", "claude-code"]);
    let copy =
        format!("{}.bak stays: it is the file as it was before the installation, and may hold secrets", file.display());
    assert!(told.contains(&copy), "{told}");
    let mut expected: Value = serde_json::from_str(&before).unwrap();
    expected["numStartups"] = json!(7);
    assert_eq!(serde_json::from_str::<Value>(&content(&file)).unwrap(), expected);
    assert_eq!(setting.config(), "");
    // Without --replace, servers stay, and the user hears of the other way.
    let told = setting.works(&["config", "install", "claude-code"]);
    assert!(told.contains("1 server of its own") && told.contains("--replace"), "{told}");
    setting.works(&["config", "uninstall", "claude-code"]);
    assert_eq!(serde_json::from_str::<Value>(&content(&file)).unwrap(), expected);
    // A client that had no file has none again.
    setting.works(&["config", "install", "lm-studio"]);
    assert!(setting.path().join(".lmstudio/mcp.json").exists());
    setting.works(&["config", "uninstall", "lm-studio"]);
    assert!(!setting.path().join(".lmstudio/mcp.json").exists());
}

#[test]
fn servers_that_cannot_be_moved_stay_in_the_client_file() {
    let setting = Setting::new("[upstreams.other]\ncommand = 'one'\n");
    let before = json!({ "servers": {
        "echo": serde_json::from_str::<Value>(&echo()).unwrap(),
        "open": { "command": "x", "args": ["${workspaceFolder}"] },
        "other": { "command": "two" },
        "odd": { "settings": {} },
    } });
    let file = setting.at_home(".config/Code/User/mcp.json", &format!("{before:#}"));
    let (code, report) = setting.json(&["config", "install", "vscode", "--replace", "--json"]);
    assert_eq!((code, &report["moved"]), (Some(0), &json!([{ "name": "echo", "upstream": "echo" }])), "{report:#}");
    let why = |name: &str| {
        let one = report["left"].as_array().unwrap().iter().find(|one| one["name"] == name);
        one.unwrap_or_else(|| panic!("{report:#}"))["why"].as_str().unwrap().to_owned()
    };
    assert_eq!(why("open"), "the variable workspaceFolder is not set");
    assert!(why("other").contains("command is `one` in your configuration and `two` in vscode"), "{}", why("other"));
    assert!(why("odd").contains("neither a command nor a URL"), "{}", why("odd"));
    let after: Value = serde_json::from_str(&content(&file)).unwrap();
    let left: Vec<_> = after["servers"].as_object().unwrap().keys().collect();
    assert_eq!(left, ["gladhand", "odd", "open", "other"]);
    // The name under which we would be installed is taken.
    let output = setting.run(&["config", "install", "vscode", "--name", "open"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("another server that is called `open`"), "{}", text(&output.stderr));
}

#[test]
fn a_configuration_with_errors_is_not_installed() {
    let setting = Setting::new("[upstreams.a]\ncommand = 'a'\nurl = 'b'\n");
    let before = "{ \"mcpServers\": { \"x\": { \"command\": \"x\" } } }";
    let file = setting.at_home(".cursor/mcp.json", before);
    for arguments in [&["config", "install", "cursor"][..], &["config", "install", "cursor", "--replace"]] {
        let output = setting.run(arguments);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        assert!(told.contains("nothing is installed") && told.contains("upstreams.a.url"), "{told}");
        assert_eq!(content(&file), before);
    }
}

#[test]
fn an_installation_names_the_upstreams_that_are_not_available() {
    let setting = Setting::new("[upstreams.a]\nurl = \"https://a.example/${NO_SUCH}\"\n");
    let told = setting.works(&["config", "install", "cursor"]);
    assert!(told.contains("upstream a is not available: the variable NO_SUCH is not set"), "{told}");
}

#[test]
fn secrets_move_into_the_store_and_are_named_if_they_do_not() {
    let setting = Setting::new("");
    let server = json!({ "mcpServers": { "git": {
        "command": "git-server", "args": ["--password", "hush-hush-1"], "env": { "GIT_TOKEN": "hush-hush-2", "LEVEL": "1" },
    } } });
    let file = setting.at_home(".cursor/mcp.json", &server.to_string());
    let told = setting.works(&["config", "import", "cursor", "--write", "--dry-run"]);
    assert!(told.contains("git: an argument of `command`, env.GIT_TOKEN look like secrets in clear text"), "{told}");
    assert!(!told.contains("hush-hush"), "{told}");
    let told = setting.works(&["config", "import", "cursor", "--write", "--secrets", "--dry-run"]);
    assert!(told.contains("would be kept in the secret store: git-password, git-token"), "{told}");
    assert_eq!((setting.config().as_str(), setting.works(&["secret", "list"]).contains("git-token")), ("", false));

    for _ in 0..2 {
        setting.works(&["config", "import", "cursor", "--write", "--secrets"]);
        let config = setting.config();
        assert!(config.contains("env = { GIT_TOKEN = \"${secret:git-token}\", LEVEL = \"1\" }"), "{config}");
        assert!(config.contains("\"--password\", \"${secret:git-password}\"") && !config.contains("hush"), "{config}");
        let (_, report) = setting.json(&["secret", "list", "--json"]);
        assert_eq!(report["names"], json!(["git-password", "git-token"]));
    }
    // The stored secrets are of the same server, so it can be moved without asking for them again.
    let (code, report) = setting.json(&["config", "install", "cursor", "--replace", "--json"]);
    assert_eq!((code, report["moved"][0]["name"].as_str()), (Some(0), Some("git")), "{report:#}");
    setting.works(&["config", "uninstall", "cursor"]);
    assert_eq!(content(&file), server.to_string());
    assert!(setting.config().contains("[upstreams.git]"), "it was there before");
}

#[test]
fn secrets_that_were_moved_for_a_client_go_with_it() {
    let setting = Setting::new("");
    let server = json!({ "mcpServers": { "git": { "command": "git-server", "env": { "GIT_TOKEN": "hush-hush-2" } } } });
    let file = setting.at_home(".cursor/mcp.json", &server.to_string());
    let dry = setting.works(&["config", "install", "cursor", "--replace", "--dry-run"]);
    assert!(dry.contains("git-server") && !dry.contains("hush-hush"), "{dry}");
    assert_eq!(content(&file), server.to_string());
    let (_, planned) = setting.json(&["config", "install", "cursor", "--replace", "--dry-run", "--json"]);
    assert_eq!((&planned["changed"], &planned["dry_run"]), (&json!(true), &json!(true)), "{planned:#}");
    setting.works(&["config", "install", "cursor", "--replace", "--secrets"]);
    assert!(!content(&file).contains("hush") && !setting.config().contains("hush"));
    assert_eq!(setting.json(&["secret", "list", "--json"]).1["names"], json!(["git-token"]));
    setting.works(&["config", "install", "cursor", "--name", "again"]);
    let dry = setting.works(&["config", "uninstall", "cursor", "--dry-run"]);
    assert!(dry.contains("+ ") && !dry.contains("hush-hush"), "{dry}");
    let (_, report) = setting.json(&["config", "uninstall", "cursor", "--json"]);
    let told = (&report["exact"], &report["restored"], &report["removed"], &report["secrets"]);
    assert_eq!(told, (&json!(true), &json!(["git"]), &json!(["git"]), &json!(["git-token"])), "{report:#}");
    assert_eq!((content(&file), setting.config()), (server.to_string(), String::new()));
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no copy is left");
    assert_eq!(setting.json(&["secret", "list", "--json"]).1["names"], json!([]));
}

#[test]
fn different_definitions_of_two_clients_are_reported() {
    let setting = Setting::new("");
    let server = |command: &str, token: &str| {
        json!({ "mcpServers": { "git": { "command": command, "env": { "TOKEN": token } } } }).to_string()
    };
    setting.at_home(".cursor/mcp.json", &server("one", "hush-hush-1"));
    setting.at_home(".codeium/windsurf/mcp_config.json", &server("two", "hush-hush-2"));
    setting.at_home(".lmstudio/mcp.json", &server("one", "hush-hush-1"));
    let output = setting.run(&["config", "import"]);
    assert_eq!(text(&output.stdout).matches("[upstreams.git]").count(), 1);
    let told = text(&output.stderr).replace('\n', " ");
    assert!(told.contains("git differs from the one in cursor"), "{told}");
    assert!(told.contains("command is `one` in cursor and `two` in windsurf; env.TOKEN differs"), "{told}");
    assert!(told.contains("git is the same as in cursor") && !told.contains("hush"), "{told}");
    let (_, report) = setting.json(&["config", "import", "--json"]);
    let states: Vec<_> =
        report["servers"].as_array().unwrap().iter().map(|one| [&one["from"], &one["state"]]).collect();
    assert_eq!(json!(states), json!([["cursor", "new"], ["windsurf", "differs"], ["lm-studio", "same"]]), "{report:#}");
    assert!(!report.to_string().contains("hush"), "{report:#}");
}

#[test]
fn an_entry_without_a_record_is_removed_and_the_old_file_kept() {
    let setting = Setting::new("");
    let before = r#"{"mcpServers":{"mine":{"command":"gladhand","args":["serve","--config","/srv/mine.toml"]}}}"#;
    let file = setting.at_home(".cursor/mcp.json", before);
    let told = setting.works(&["config", "uninstall", "cursor"]);
    let copy = file.with_extension("json.bak");
    assert!(told.contains(&copy.display().to_string()), "{told}");
    assert_eq!(content(&copy), before);
    assert!(!content(&file).contains("mine.toml"), "{}", content(&file));
}

#[test]
fn an_upstream_that_two_clients_need_stays_until_both_are_gone() {
    let setting = Setting::new("");
    let before = format!("{{\"mcpServers\":{{\"echo\":{}}}}}", echo());
    let files = [".cursor/mcp.json", ".junie/mcp/mcp.json"].map(|name| setting.at_home(name, &before));
    setting.works(&["config", "install", "cursor", "--replace"]);
    setting.works(&["config", "install", "jetbrains", "--replace"]);
    assert_eq!(setting.config().matches("[upstreams.echo]").count(), 1);
    let told = setting.works(&["config", "uninstall", "cursor"]);
    assert!(told.contains("the upstream echo stays: jetbrains needs it"), "{told}");
    assert!(setting.config().contains("[upstreams.echo]"));
    setting.works(&["config", "uninstall", "jetbrains"]);
    assert_eq!(setting.config(), "");
    assert_eq!(files.map(|file| content(&file)), [before.clone(), before]);
}

#[test]
fn an_upstream_that_was_changed_is_not_removed() {
    let setting = Setting::new("");
    setting.at_home(".cursor/mcp.json", &format!("{{\"mcpServers\":{{\"echo\":{}}}}}", echo()));
    setting.works(&["config", "install", "cursor", "--replace"]);
    let mine = setting.config() + "prefix = 'mine'\n";
    setting.write(&mine);
    // The line after it belongs to its table, so the table differs from the added one.
    let told = setting.works(&["config", "uninstall", "cursor"]);
    assert!(told.contains("the upstream echo stays: it was changed"), "{told}");
    assert_eq!(setting.config(), mine);
}

#[cfg(unix)]
#[test]
fn servers_are_not_moved_through_a_link_of_the_folder() {
    let setting = Setting::new("");
    let before = "{ \"mcpServers\": { \"x\": { \"command\": \"x\" } } }";
    let file = setting.at_home(".cursor/mcp.json", before);
    let bait = setting.at_home("elsewhere/gladhand.toml", "# mine\n");
    std::os::unix::fs::symlink(&bait, setting.path().join("link.toml")).unwrap();
    let output = setting.run(&["config", "install", "cursor", "--replace", "--config", "link.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is a link"), "{}", text(&output.stderr));
    assert_eq!((content(&file).as_str(), content(&bait).as_str()), (before, "# mine\n"));
}

#[test]
fn a_shared_file_of_a_project_names_its_folder_relatively() {
    let setting = Setting::new("");
    for folder in ["", "shop/"] {
        let [from, into] = [".mcp.json", "shared.toml"].map(|name| format!("{folder}{name}"));
        setting.at_home(&from, "{ \"mcpServers\": { \"x\": { \"command\": \"x\" } } }");
        setting.works(&["config", "import", &from, "--into", &into]);
        let written = content(&setting.path().join(into));
        assert!(written.contains("[upstreams.x]\ncommand = [\"x\"]\ncwd = \".\"\n"), "{written}");
    }
}

#[test]
fn an_install_reports_lost_settings_and_keeps_servers_with_relative_folders() {
    let setting = Setting::new("");
    let servers = json!({ "mcpServers": {
        "py": { "command": "sh", "args": ["-c", "exit"], "timeout": 5, "trust": true },
        "here": { "command": "sh", "cwd": "sub/folder" },
    } });
    let file = setting.at_home(".cursor/mcp.json", &servers.to_string());
    let told = setting.works(&["config", "install", "cursor", "--replace"]);
    assert!(told.contains("py is moved") && told.contains("  py: not taken over: timeout ("), "{told}");
    assert!(told.contains(", trust (the client itself decides when to ask)\n"), "{told}");
    assert!(told.contains("here stays in ") && told.contains("there is no folder "), "{told}");
    let left: Value = serde_json::from_str(&content(&file)).unwrap();
    assert_eq!(left["mcpServers"]["here"], servers["mcpServers"]["here"], "{left}");
    assert!(left["mcpServers"]["py"].is_null() && !setting.config().contains("[upstreams.here]"), "{left}");
}

#[test]
fn a_server_that_was_imported_before_is_moved_only_if_it_works() {
    let setting = Setting::new("");
    let servers = json!({ "servers": {
        "search": { "command": "sh", "env": { "KEY": "${input:api-key}" }, "envFile": ".env" },
        "broken": { "command": "no-such-mcp-server", "envFile": ".env" },
    } });
    let file = setting.at_home(".config/Code/User/mcp.json", &servers.to_string());
    setting.works(&["config", "import", "vscode", "--write"]);
    let told = setting.works(&["config", "install", "vscode", "--replace"]);
    assert!(told.contains("search stays in ") && told.contains("there is no secret `api-key`"), "{told}");
    assert!(told.contains("broken is moved") && told.contains("  broken: not taken over: envFile ("), "{told}");
    assert!(told.contains("  broken: `no-such-mcp-server` is not on the PATH"), "{told}");
    let left: Value = serde_json::from_str(&content(&file)).unwrap();
    assert_eq!(left["servers"]["search"], servers["servers"]["search"], "{left}");
    assert!(left["servers"]["broken"].is_null() && !told.contains("search is moved"), "{left}: {told}");
}

/// A setting with a variable that servers refer to.
fn works_with_token(setting: &Setting, arguments: &[&str]) -> String {
    let mut command = setting.gladhand(arguments);
    command.env("HOME", setting.path()).env("XDG_CONFIG_HOME", setting.path().join(".config"));
    command.env("TICKETS_TOKEN", "hush-hush-1").env_remove("CODEX_HOME").env_remove("COPILOT_HOME");
    let output = command.stdin(std::process::Stdio::null()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn codex_passes_the_variables_that_moved_servers_need() {
    let setting = Setting::new("");
    let before = "# mine\n[mcp_servers.tickets]\nurl = \"https://t.example/mcp\"\nbearer_token_env_var = \"TICKETS_TOKEN\"\n\n\
                  [mcp_servers.local]\ncommand = \"sh\"\nenv_vars = [\"OTHER_VARIABLE\"]\n";
    let file = setting.at_home(".codex/config.toml", before);
    works_with_token(&setting, &["config", "install", "codex", "--replace"]);
    let after: toml::Table = content(&file).parse().expect("TOML");
    let entry = &after["mcp_servers"]["gladhand"];
    let listed: Vec<_> =
        entry["env_vars"].as_array().expect("a list").iter().filter_map(|name| name.as_str()).collect();
    assert!(listed.contains(&"TICKETS_TOKEN") && listed.contains(&"OTHER_VARIABLE"), "{entry:?}");
    assert!(listed.contains(&"GLADHAND_DATA_DIR") && !listed.contains(&"HOME"), "{entry:?}");
    assert!(!content(&file).contains("hush"), "{entry:?}");
    let again = works_with_token(&setting, &["config", "install", "codex", "--replace"]);
    assert!(again.contains("has it already"), "{again}");
    // The same environment as under Codex: a few variables, and the listed ones.
    let mut command = setting.gladhand(&["doctor", "--offline", "--json"]);
    let given: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .filter(|(name, _)| listed.iter().any(|listed| name == listed))
        .collect();
    command.env_clear().env("HOME", setting.path()).env("PATH", std::env::var_os("PATH").expect("a PATH"));
    command.envs(given).env("TICKETS_TOKEN", "hush-hush-1").args(["--config", "gladhand.toml"]);
    let report: Value = serde_json::from_slice(&command.output().expect("it starts").stdout).expect("JSON");
    let tickets = report["findings"].as_array().expect("a list").iter().find(|one| one["about"] == "upstream tickets");
    assert_eq!(tickets.expect("it is there")["state"], "fine", "{report:#}");
    works_with_token(&setting, &["config", "uninstall", "codex"]);
    assert_eq!((content(&file).as_str(), setting.config().as_str()), (before, ""));
}

#[test]
fn clients_that_withhold_variables_get_references_or_keep_the_server() {
    let setting = Setting::new("");
    let reference = |before: &str| format!("${{{before}TICKETS_TOKEN}}");
    for (client, file, before) in [
        ("gemini-cli", ".gemini/settings.json", ""),
        ("copilot-cli", ".copilot/mcp-config.json", ""),
        ("cline", ".cline/data/settings/cline_mcp_settings.json", "env:"),
    ] {
        let server = json!({ "mcpServers": { "t": { "command": "sh", "env": { "KEY": reference(before) } } } });
        let file = setting.at_home(file, &server.to_string());
        works_with_token(&setting, &["config", "install", client, "--replace"]);
        let after: Value = serde_json::from_str(&content(&file)).expect("JSON");
        assert_eq!(after["mcpServers"]["gladhand"]["env"]["TICKETS_TOKEN"], reference(before), "{after:#}");
        works_with_token(&setting, &["config", "uninstall", client]);
        assert_eq!(content(&file), server.to_string(), "{client}");
    }
    let server = json!({ "mcpServers": { "t": { "command": "sh", "env": { "KEY": reference("") } }, "u": { "command": "sh" } } });
    let file = setting.at_home(".config/Claude/claude_desktop_config.json", &server.to_string());
    let told = works_with_token(&setting, &["config", "install", "claude-desktop", "--replace"]).replace('\n', " ");
    assert!(told.contains("t stays in ") && told.contains("does not give the variable TICKETS_TOKEN"), "{told}");
    assert!(told.contains("u is moved") && told.contains("start in your home folder"), "{told}");
    let left: Value = serde_json::from_str(&content(&file)).expect("JSON");
    assert_eq!(left["mcpServers"]["t"], server["mcpServers"]["t"], "{left:#}");
}

#[test]
fn two_clients_with_the_same_server_leave_nothing_behind() {
    let setting = Setting::new("");
    std::fs::remove_file(setting.file()).expect("it is there");
    let run = |arguments: &[&str]| {
        let mut command = setting.gladhand(arguments);
        command.env("HOME", setting.path()).env("XDG_CONFIG_HOME", setting.path().join(".config"));
        let output = command.env_remove("GLADHAND_CONFIG").output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout) + &text(&output.stderr)
    };
    let server =
        json!({ "mcpServers": { "git": { "command": "sh", "env": { "GIT_TOKEN": "hush-hush-2" } } } }).to_string();
    let files = [".cursor/mcp.json", ".claude.json"].map(|name| setting.at_home(name, &server));
    let own = setting.path().join(".config/gladhand/gladhand.toml");
    for client in ["cursor", "claude-code"] {
        let told = run(&["config", "install", client, "--replace", "--secrets"]).replace('\n', " ");
        assert!(told.contains("with its secrets in clear text"), "{client}: {told}");
    }
    assert!(content(&own).contains("${secret:git-token}"), "{}", content(&own));
    let told = run(&["config", "uninstall", "cursor"]);
    assert!(told.contains("the upstream git stays: claude-code needs it"), "{told}");
    let report: Value = serde_json::from_str(&run(&["config", "uninstall", "claude-code", "--json"])).expect("JSON");
    assert_eq!(report["secrets"], json!(["git-token"]), "{report:#}");
    let names: Value = serde_json::from_str(&run(&["secret", "list", "--json"])).expect("JSON");
    assert_eq!(names["names"], json!([]));
    assert!(!own.exists(), "{}", content(&own));
    assert_eq!(files.map(|file| content(&file)), [server.clone(), server]);
}
