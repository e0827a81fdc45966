//! The commands that a user runs on the file: check, show, import, install.

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use super::{Setting, ours};

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

impl Setting {
    /// Runs a command with a home of its own.
    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.gladhand(arguments);
        command.env("HOME", self.path()).env("XDG_CONFIG_HOME", self.path().join(".config"));
        for name in ["NO_SUCH_VARIABLE", "CODEX_HOME", "COPILOT_HOME", "CLINE_MCP_SETTINGS_PATH"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).output().expect("it starts")
    }

    pub(super) fn json(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = self.run(arguments);
        let value = serde_json::from_slice(&output.stdout);
        (output.status.code(), value.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr))))
    }
}

#[test]
fn config_check_reports_all_mistakes_with_places_and_an_exit_code() {
    let setting = Setting::new(&ours("a"));
    let output = setting.run(&["config", "check"]);
    assert_eq!(text(&output.stdout), "gladhand.toml is fine, with 1 upstream\n");
    assert_eq!(output.status.code(), Some(0));

    setting.write("[upstreams.a]\ncommand = \"no-such-program\"\ncwd = \"/no/such/folder\"\n");
    let output = setting.run(&["config", "check"]);
    let expected = "\
gladhand.toml:3:1: warning: upstreams.a.cwd: there is no folder /no/such/folder: make it, or name another
gladhand.toml:2:1: warning: upstreams.a.command: `no-such-program` is not on the PATH: install it, or write where it is
0 errors, 2 warnings
";
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), (expected, Some(0)));

    setting.write("[upstreams.a]\nurl = \"hush\"\n[upstreams.b]\ncommand = [\"x\", \"hush-${NO_SUCH_VARIABLE}\"]\n");
    let (code, report) = setting.json(&["config", "check", "--json"]);
    let problem = |line: u32, column: u32, key: &str, message: &str| json!({ "severity": "error", "line": line, "column": column, "key": key, "message": message });
    let mut expected = json!({
        "file": "gladhand.toml",
        "ok": false,
        "upstreams": 2,
        "problems": [
            problem(2, 1, "upstreams.a.url", "expected an address that begins with http:// or https://"),
            json!({
                "severity": "warning", "line": 4, "column": 17, "key": "upstreams.b.command",
                "message": "upstream b is not available until this is there: the variable NO_SUCH_VARIABLE is not set",
            }),
        ],
    });
    expected["files"] = json!([expected]);
    let message = "the configuration has 1 error and 1 warning";
    expected["error"] = json!({ "code": "usage", "exit": 2, "message": message, "hint": null });
    assert_eq!((code, report), (Some(2), expected));
    // And serve does not start with it, because of the first mistake.
    let output = setting.run(&["serve"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(errors.contains("line 2, column 1: upstreams.a.url"), "{errors}");
    assert!(errors.contains("line 4, column 17: upstreams.b.command") && !errors.contains("hush"), "{errors}");
}

#[test]
fn an_upstream_without_its_variable_or_secret_is_a_warning_and_a_malformed_reference_an_error() {
    let setting = Setting::new("[upstreams.a]\nurl = \"https://a.example/mcp\"\nbearer = \"${secret:linear_key}\"\n");
    let output = setting.run(&["config", "check"]);
    let expected = "\
gladhand.toml:3:10: warning: upstreams.a.bearer: upstream a is not available until this is there: there is no secret \
`linear_key`: run `gladhand secret set linear_key`, or set the variable GLADHAND_SECRET_LINEAR_KEY
0 errors, 1 warning
";
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), (expected, Some(0)));
    setting.write("[upstreams.a]\nurl = \"https://a.example/${X\"\n");
    let output = setting.run(&["config", "check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("error: upstreams.a.url: `${` is never closed"), "{output:?}");
}

#[test]
fn a_client_that_is_not_known_is_answered_with_those_that_are() {
    let setting = Setting::new("");
    let output = setting.run(&["config", "import", "emacs"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors.starts_with("error: `emacs` is neither a file nor a client that is known here\nhint: known"),
        "{errors}"
    );
    assert!(errors.contains("claude-desktop, claude-code, cursor, "), "{errors}");
    assert!(text(&setting.run(&["config", "import", "./emacs"]).stderr).contains("./emacs"));
}

#[test]
fn an_import_reports_missing_programs_and_secrets_with_next_steps() {
    let setting = Setting::new("");
    let servers = r#"{ "mcpServers": {
        "far": { "url": "https://x.example/mcp", "headers": { "Authorization": "Bearer ${input:linear_key}" } },
        "near": { "command": "no-such-program", "timeout": 5, "strange": 1 } } }"#;
    std::fs::write(setting.path().join("servers.json"), servers).unwrap();
    let output = setting.run(&["config", "import", "servers.json", "--into", "new.toml"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    // The name has digits that depend on where the file is.
    let secret = told.lines().find(|line| line.contains("there is no secret")).expect("it is told");
    let name = secret.split('`').nth(1).expect("a name");
    assert!(name.starts_with("far-linear-key-"), "{name}");
    let variable = format!("GLADHAND_SECRET_{}", name.replace('-', "_").to_uppercase());
    let missing = format!("  far: there is no secret `{name}`: run `gladhand secret set {name}`");
    for line in [
        &format!("{missing}, or set the variable {variable}"),
        "  near: `no-such-program` is not on the PATH: install it, or write where it is",
        "`gladhand config check` shows what is still missing, `gladhand doctor` opens each upstream.",
    ] {
        assert!(told.lines().any(|told| told == line), "{line} is not in\n{told}");
    }
    assert!(told.contains("  near: not taken over: "), "{told}");
}

#[test]
fn show_masks_and_schema_is_json() {
    let setting = Setting::new("[upstreams.a]\nurl = \"https://x.example/mcp\"\nbearer = \"hush\"\n");
    let shown = text(&setting.run(&["config", "show"]).stdout);
    assert!(shown.contains("[upstreams.a]") && shown.contains("bearer = \"***\""), "{shown}");
    assert!(!shown.contains("page_size") && !shown.contains("hush"), "{shown}");
    let all = text(&setting.run(&["config", "show", "--all"]).stdout);
    assert!(all.contains("page_size = 100") && !all.contains("hush"), "{all}");
    let (code, schema) = setting.json(&["config", "schema"]);
    assert_eq!((code, &schema["title"]), (Some(0), &json!("gladhand.toml")));
}

#[test]
fn secrets_come_from_the_environment_or_from_the_store() {
    let setting = Setting::new("[upstreams.a]\nurl = \"https://x.example/mcp\"\nbearer = \"${secret:api-key}\"\n");
    let output = setting.run(&["config", "check"]);
    let advice =
        "there is no secret `api-key`: run `gladhand secret set api-key`, or set the variable GLADHAND_SECRET_API_KEY";
    assert!(text(&output.stdout).contains(advice), "{}", text(&output.stdout));
    let mut command = setting.gladhand(&["config", "check"]);
    let output = command.env("GLADHAND_SECRET_API_KEY", "hush").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));

    let mut command = setting.gladhand(&["secret", "set", "api-key"]);
    command.env("HOME", setting.path()).env("XDG_CONFIG_HOME", setting.path().join(".config"));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hush").unwrap();
    assert!(child.wait().unwrap().success());
    let output = setting.run(&["config", "check"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn servers_are_imported_once() {
    let setting = Setting::new("# mine\n");
    let json =
        "{ \"mcpServers\": { \"a\": { \"command\": \"x\", }, /* old */ \"b\": { \"url\": \"https://x.example/\" } } }";
    std::fs::write(setting.path().join(".mcp.json"), json).unwrap();
    let (here, from) = (setting.path().display(), format!("# from project ({}/.mcp.json)\n", setting.path().display()));
    let expected = format!(
        "{from}[upstreams.a]\ncommand = [\"x\"]\ncwd = \"{here}\"\n\n{from}[upstreams.b]\nurl = \"https://x.example/\"\n"
    );
    assert_eq!(text(&setting.run(&["config", "import", ".mcp.json"]).stdout), expected);
    assert_eq!(text(&setting.run(&["config", "import"]).stdout), expected, "it is where such files are");
    for _ in 0..2 {
        assert_eq!(setting.run(&["config", "import", ".mcp.json", "--write"]).status.code(), Some(0));
        assert_eq!(std::fs::read_to_string(setting.file()).unwrap(), format!("# mine\n\n{expected}"));
    }
    // One file that cannot be read does not keep us from the others.
    std::fs::create_dir(setting.path().join(".vscode")).unwrap();
    std::fs::write(setting.path().join(".vscode/mcp.json"), "servers").unwrap();
    let output = setting.run(&["config", "import"]);
    assert_eq!(text(&output.stdout), expected);
    assert!(text(&output.stderr).contains("left out: .vscode/mcp.json"), "{}", text(&output.stderr));
    let output = setting.run(&["config", "import", "no/such.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no/such.json"));
}

#[test]
fn gladhand_is_installed_once_with_a_backup_and_the_rest_is_unchanged() {
    let setting = Setting::new("");
    let file = setting.path().join(".config/zed/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let before = "{\n  // my theme\n  \"theme\": \"One\",\n}\n";
    std::fs::write(&file, before).unwrap();
    let output = setting.run(&["config", "install", "zed", "--dry-run"]);
    let diff = text(&output.stdout);
    assert!(diff.contains("+   \"context_servers\": {") && !diff.contains("- "), "{diff}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "nothing is changed");

    assert_eq!(setting.run(&["config", "install", "zed"]).status.code(), Some(0));
    let after = std::fs::read_to_string(&file).unwrap();
    assert!(
        after.starts_with("{\n  // my theme\n  \"theme\": \"One\",\n  \"context_servers\": {\n    \"gladhand\""),
        "{after}"
    );
    assert!(after.contains("\"source\": \"custom\"") && after.contains("\"serve\""), "{after}");
    assert_eq!(std::fs::read_to_string(file.with_file_name("settings.json.bak")).unwrap(), before);

    let again = setting.run(&["config", "install", "zed"]);
    assert!(text(&again.stderr).contains("has it already"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), after);
    assert!(!file.with_file_name("settings.json.bak2").exists());
}

#[test]
fn a_client_without_a_file_gets_one_that_starts_gladhand() {
    let setting = Setting::new("");
    let output = setting.run(&["config", "install", "cursor", "--name", "tools", "--config", "gladhand.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let file: Value = serde_json::from_slice(&std::fs::read(setting.path().join(".cursor/mcp.json")).unwrap()).unwrap();
    let config = setting.file().canonicalize().unwrap();
    assert_eq!(file["mcpServers"]["tools"]["args"], json!(["serve", "--config", config]));
    // The file of this folder is named although it was not requested, because it would not be found from elsewhere.
    assert_eq!(setting.run(&["config", "install", "cursor"]).status.code(), Some(0));
    let file: Value = serde_json::from_slice(&std::fs::read(setting.path().join(".cursor/mcp.json")).unwrap()).unwrap();
    assert_eq!(file["mcpServers"]["gladhand"]["args"], json!(["serve", "--config", config]));
    // Our own entry is not imported as a server.
    let imported = setting.run(&["config", "import", "cursor"]);
    assert_eq!(text(&imported.stdout), "");
    assert!(text(&imported.stderr).contains("tools is left out: it is gladhand itself"), "{}", text(&imported.stderr));
}

#[test]
fn trust_in_the_file_of_a_server_ignores_nothing() {
    let setting = Setting::new("");
    let token = "[[authorization.tokens]]\nname = \"ann\"\ntoken = \"abc\"\n";
    let screen = |name: &str| {
        std::fs::write(setting.path().join(name), token).expect("it can be written");
        text(&setting.run(&["config", "trust", name]).stdout)
    };
    // A project file has a fixed name.
    let of_server = screen("tok.toml");
    assert!(of_server.contains("  is        the configuration file of a server"), "{of_server}");
    assert!(!of_server.contains("ignored"), "{of_server}");
    let of_either = screen("gladhand.toml");
    assert!(of_either.contains("  ignored   authorization.tokens"), "{of_either}");
    let of_either = of_either.split_whitespace().collect::<Vec<_>>().join(" ");
    let but = "but a server that you started with `--config` and this file also uses what is ignored here";
    assert!(of_either.contains(but), "{of_either}");
}

#[test]
fn config_check_reports_syntax_and_value_mistakes_together() {
    let setting = Setting::new(
        "[upstreams.a]\ncommand = \"sh\"\nurl = \"ftp://x\"\nspeak = \"mpc\"\ntimeout_ms = \"long\"\n\
         [[policy.rules]]\neffect = \"forbid\"\nwhen = 'path wihin \"/srv\"'\n\
         [[policy.rules]]\neffect = \"deny\"\nwhen = 'path wihin \"/srv\"'\n\
         [[policy.limits]]\ncalls = \"many\"\n[upstreams.b]\ncomand = \"sh\"\nargs = [\"x\"]\n",
    );
    let (_, report) = setting.json(&["config", "check", "--json"]);
    let problems = report["problems"].as_array().expect("a list");
    let told = problems.iter().filter(|problem| problem["severity"] == "error");
    let told: Vec<_> =
        told.map(|problem| (problem["line"].as_u64().unwrap(), problem["key"].as_str().unwrap())).collect();
    let expected = [
        (3, "upstreams.a.url"),
        (3, "upstreams.a.url"),
        (4, "upstreams.a.speak"),
        (5, "upstreams.a.timeout_ms"),
        (7, "policy.rules#1.effect"),
        (8, "policy.rules#1.when"),
        (11, "policy.rules#2.when"),
        (13, "policy.limits#1.calls"),
        (15, "upstreams.b.comand"),
    ];
    assert_eq!(told, expected, "{report}");
}

#[test]
fn a_printed_import_masks_secrets_and_counts_servers_of_other_projects() {
    let setting = Setting::new("");
    let servers = json!({
        "mcpServers": { "git": { "command": "sh", "env": { "GIT_TOKEN": "hush-hush-7", "LEVEL": "debug" } } },
        "projects": { "/elsewhere": { "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } } },
    });
    std::fs::write(setting.path().join(".claude.json"), servers.to_string()).expect("it can be written");
    let output = setting.run(&["config", "import", "claude-code"]);
    let (shown, told) = (text(&output.stdout), text(&output.stderr));
    assert!(shown.contains("GIT_TOKEN = \"***\"") && shown.contains("LEVEL = \"debug\""), "{shown}");
    assert!(!shown.contains("hush") && told.contains("Secrets are shown as ***"), "{told}");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("2 servers of 1 other project are left out"), "{told}");
    setting.run(&["config", "import", "claude-code", "--write"]);
    let written = std::fs::read_to_string(setting.file()).expect("it is there");
    assert!(written.contains("GIT_TOKEN = \"hush-hush-7\""), "{written}");
}

#[test]
fn tools_that_one_of_two_clients_hides_are_a_difference() {
    let setting = Setting::new("");
    let write = |name: &str, content: Value| {
        let file = setting.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be made");
        std::fs::write(file, content.to_string()).expect("it can be written");
    };
    write(".cursor/mcp.json", json!({ "mcpServers": { "git": { "command": "sh" } } }));
    let hidden = json!({ "mcpServers": { "git": { "command": "sh", "excludeTools": ["push"] } } });
    write(".gemini/settings.json", hidden);
    let output = setting.run(&["config", "import"]);
    let told = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("hide is missing in cursor and `push` in gemini-cli. To have both, rename one"), "{told}");
}

#[test]
fn a_warning_alone_does_not_fail_the_check_of_a_configuration() {
    let setting = Setting::new("[upstreams.a]\ncommand = \"no-such-program\"\n");
    let (code, report) = setting.json(&["config", "check", "--json"]);
    assert_eq!((code, &report["problems"][0]["severity"]), (Some(0), &json!("warning")), "{report:#}");
}
