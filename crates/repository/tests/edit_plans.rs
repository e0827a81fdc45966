//! Plans that are proposed, and what is found wrong with others.

mod common;

use std::path::Path;

use gladhand_repository::{IntegrationInput, Plan, ValidateInput, Validation, propose_edit_plan, validate_edit_plan};
use serde_json::{Value, json};

const EXPRESS: &str = "-- package.json --\n{ \"name\": \"orders\", \"scripts\": { \"build\": \"tsc\" }, \"dependencies\": { \"express\": \"^4\" } }\n-- pnpm-lock.yaml --\nlockfileVersion: '9.0'\n-- src/server.ts --\nimport express from 'express';\n\nconst web = express();\nweb.use(express.json());\nweb.listen(3000);\n";

fn plan(folder: &Path, framework: &str, target: &str) -> Plan {
    let input = IntegrationInput {
        framework: Some(framework.to_owned()),
        target: Some(target.to_owned()),
        ..IntegrationInput::default()
    };
    common::within(folder, |setting| propose_edit_plan(&input, setting)).expect("the fixture is sound")
}

fn validate(folder: &Path, plan: Value) -> Validation {
    common::within(folder, |setting| validate_edit_plan(&ValidateInput { plan: Some(plan), root: None }, setting))
        .expect("the fixture is sound")
}

/// A plan around edits that has everything else.
fn whole(edits: Value) -> Value {
    json!({ "summary": "s", "edits": edits, "postChecks": ["x"], "rollback": { "instruction": "y" } })
}

fn edit(file: &str, pattern: &str, code: &str) -> Value {
    json!({ "filepath": file, "strategy": "insert_middleware", "anchors": [{ "type": "after_match", "pattern": pattern }], "payload": { "code": code } })
}

#[test]
fn a_plan_uses_the_names_and_the_manager_of_the_project() {
    let tree = common::tree(EXPRESS);
    let plan = plan(tree.path(), "Express", "fluxloop");
    assert_eq!(plan.summary, "Add Fluxloop integration for express project using http-rest runner.");
    assert_eq!(plan.post_checks, ["pnpm run build"]);
    assert_eq!(plan.warnings, Vec::<String>::new());
    assert_eq!(plan.edits[0].anchors[0].pattern, "const web = express();");
    assert_eq!(
        plan.patches[0].diff,
        "--- a/src/server.ts\n+++ b/src/server.ts\n@@ -1,5 +1,7 @@\n import express from 'express';\n+import { fluxloop } from '@fluxloop/sdk';\n \n const web = express();\n+web.use(fluxloop({ projectKey: '<PROJECT_KEY>' }));\n web.use(express.json());\n web.listen(3000);\n"
    );
}

#[test]
fn present_imports_and_code_are_not_proposed_again() {
    let tree = common::tree(
        "-- package.json --\n{ \"dependencies\": { \"express\": \"^4\" } }\n-- app.js --\nconst express = require('express');\nconst { fluxloop } = require('@fluxloop/sdk');\nconst app = express();\napp.use(fluxloop({ projectKey: 'k' }));\n",
    );
    let plan = plan(tree.path(), "express", "fluxloop");
    assert_eq!(plan.edits, []);
    assert_eq!(
        plan.warnings,
        ["Import already present in app.js; avoid duplicates.", "Fluxloop code snippet already exists in app.js."]
    );
}

#[test]
fn commonjs_files_keep_to_require() {
    let tree = common::tree(
        "-- package.json --\n{ \"dependencies\": { \"express\": \"^4\" } }\n-- app.js --\nconst express = require('express');\nconst app = express();\n",
    );
    let plan = plan(tree.path(), "express", "fluxloop");
    assert_eq!(plan.edits[0].payload.import.as_deref(), Some("const { fluxloop } = require('@fluxloop/sdk');"));
}

#[test]
fn a_server_is_registered_with_gladhand_by_the_command_that_starts_it() {
    let tree = common::tree(
        "-- pyproject.toml --\n[project]\nname = \"weather\"\ndependencies = [\"fastmcp\"]\n-- uv.lock --\nversion = 1\n-- server.py --\nfrom fastmcp import FastMCP\nmcp = FastMCP(\"w\")\n",
    );
    let plan = plan(tree.path(), "fastmcp", "gladhand");
    assert_eq!(plan.edits[0].filepath, "gladhand.toml");
    assert_eq!(
        plan.edits[0].payload.code,
        "# The MCP server of server.py.\n[upstreams.weather]\ncommand = [\"uv\", \"run\", \"python\", \"server.py\"]\n"
    );
}

#[test]
fn a_project_without_an_mcp_server_is_not_registered() {
    let tree = common::tree(EXPRESS);
    let input = |framework: &str| IntegrationInput {
        framework: Some(framework.to_owned()),
        target: Some("gladhand".to_owned()),
        ..IntegrationInput::default()
    };
    let error = common::within(tree.path(), |setting| propose_edit_plan(&input("express"), setting)).unwrap_err();
    assert!(error.to_string().contains("only MCP servers can be registered"), "{error}");
    assert_eq!(error.details(), Some(json!({ "valid_frameworks": ["fastmcp", "mcp-sdk"] })));
    let client = common::tree(
        "-- package.json --\n{ \"scripts\": { \"start\": \"node a.js\" }, \"dependencies\": { \"@modelcontextprotocol/sdk\": \"^1\" } }\n-- a.js --\nimport { Client } from '@modelcontextprotocol/sdk/client/index.js';\nconst client = new Client({ name: 'a', version: '1' });\n",
    );
    let plan = plan(client.path(), "mcp-sdk", "gladhand");
    assert_eq!(plan.edits, []);
    assert!(plan.warnings[0].ends_with("nothing is registered."), "{:?}", plan.warnings);
}

#[test]
fn an_imported_package_is_declared_in_the_manifest() {
    let tree = common::tree(EXPRESS);
    let plan = plan(tree.path(), "express", "mcp-server");
    assert_eq!(plan.warnings, Vec::<String>::new());
    let declared = &plan.edits[1];
    assert_eq!((declared.filepath.as_str(), declared.anchors[0].kind), ("package.json", "replace_match"));
    let patch = plan.patches.iter().find(|patch| patch.filepath == "package.json").unwrap();
    assert!(
        patch.diff.contains("{ \"@modelcontextprotocol/sdk\": \"^1.12.0\", \"express\": \"^4\" }"),
        "{}",
        patch.diff
    );
    assert!(plan.rollback.instruction.ends_with("src/server.ts package.json"), "{}", plan.rollback.instruction);
    assert!(validate(tree.path(), serde_json::to_value(&plan).unwrap()).valid);
}

#[test]
fn a_plan_without_an_editable_manifest_names_the_install_command() {
    let tree = common::tree(
        "-- environment.yml --\ndependencies:\n  - flask\n-- app.py --\nfrom flask import Flask\napp = Flask(__name__)\n",
    );
    let plan = plan(tree.path(), "flask", "fluxloop");
    assert_eq!(plan.edits.len(), 1);
    assert_eq!(plan.warnings, ["fluxloop must be added to the dependencies of the project: pip install fluxloop"]);
}

#[test]
fn a_project_without_an_application_object_gets_no_edit() {
    let tree = common::tree("-- package.json --\n{ \"dependencies\": { \"express\": \"^4\" } }\n");
    let plan = plan(tree.path(), "express", "fluxloop");
    assert_eq!(plan.edits, []);
    assert_eq!(plan.warnings, ["Could not identify Express entry point."]);
}

#[test]
fn every_problem_is_an_issue_with_its_place() {
    let tree = common::tree(EXPRESS);
    let issues = |edits: Value| {
        let validation = validate(tree.path(), whole(edits));
        assert!(!validation.valid);
        validation
            .problems
            .into_iter()
            .filter(|problem| problem.severity == "issue")
            .map(|problem| (problem.line, problem.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        issues(json!([edit("src/nope.ts", "x", "y")])),
        [(None, "Edit #0: file 'src/nope.ts' does not exist.".to_owned())]
    );
    assert_eq!(
        issues(json!([edit("src/server.ts", "nothing like it", "y();")])),
        [(None, "Edit #0: anchor pattern 'nothing like it' not found in 'src/server.ts'.".to_owned())]
    );
    assert_eq!(
        issues(json!([edit("src/server.ts", "web.", "y();")])),
        [(Some(5), "Edit #0: anchor pattern 'web.' occurs 2 times in 'src/server.ts'.".to_owned())]
    );
    assert_eq!(
        issues(json!([edit("../etc/passwd", "x", "y")])),
        [(None, "Edit #0: path '../etc/passwd' leaves the root.".to_owned())]
    );
    assert_eq!(
        issues(json!([edit("/etc/passwd", "root", "y")])),
        [(None, "Edit #0: path '/etc/passwd' leaves the root.".to_owned())]
    );
    assert_eq!(issues(json!([edit("src", "x", "y")])), [(None, "Edit #0: unable to read 'src'.".to_owned())]);
    assert_eq!(
        issues(json!([edit("src/server.ts", "const web = express();", "web.use((;")])),
        [(Some(4), "The result does not parse: 'src/server.ts' line 4.".to_owned())]
    );
    let replace = |pattern: &str| json!({ "filepath": "src/server.ts", "strategy": "modify_config", "anchors": [{ "type": "replace_match", "pattern": pattern }], "payload": { "code": "const a = 1;" } });
    assert_eq!(
        issues(json!([replace("const web = express();"), replace("express();\nweb.use(express.json());")])),
        [(Some(3), "Edit #1: overlaps with edit #0 in 'src/server.ts'.".to_owned())]
    );
    assert_eq!(
        issues(json!([{ "filepath": 5, "strategy": "x" }])),
        [(None, "Edit #0: filepath must be a string.".to_owned())]
    );
    assert_eq!(issues(json!([edit(" ", "x", "y")])), [(None, "Edit #0: filepath is empty.".to_owned())]);
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_out_is_refused() {
    let secret = common::tree("-- secret.ts --\nexport const key = 1;\n");
    let tree = common::tree(EXPRESS);
    std::os::unix::fs::symlink(secret.path().join("secret.ts"), tree.path().join("src/link.ts")).unwrap();
    let validation = validate(tree.path(), whole(json!([edit("src/link.ts", "export", "y")])));
    assert_eq!(validation.issues, ["Edit #0: path 'src/link.ts' leads out of the root through a link."]);
}

#[test]
fn a_patch_that_does_something_else_is_an_issue() {
    let tree = common::tree(EXPRESS);
    let mut written = serde_json::to_value(plan(tree.path(), "express", "fluxloop")).unwrap();
    assert!(validate(tree.path(), written.clone()).valid);
    let diff = written["patches"][0]["diff"].as_str().unwrap().replace("+web.use", "+web.unuse");
    written["patches"][0]["diff"] = Value::String(diff);
    assert_eq!(
        validate(tree.path(), written.clone()).issues,
        ["The patch for 'src/server.ts' does not match the edits."]
    );
    written["patches"][0]["diff"] = Value::String("--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-never there\n+x\n".to_owned());
    assert_eq!(validate(tree.path(), written).issues, ["The patch for 'src/server.ts' does not apply."]);
}

#[test]
fn data_files_are_read_by_their_own_readers() {
    let tree = common::tree(EXPRESS);
    let create = |file: &str, code: &str| {
        whole(json!([{ "filepath": file, "strategy": "create_or_replace", "payload": { "code": code } }]))
    };
    assert!(validate(tree.path(), create("a.toml", "a = 1\n")).valid);
    for (file, code) in [("a.toml", "a = \n"), ("a.json", "{\"a\":}"), ("a.yaml", "a: [1\n"), ("a.py", "def (:\n")] {
        let validation = validate(tree.path(), create(file, code));
        assert!(
            validation.issues[0].starts_with(&format!("The result does not parse: '{file}' line ")),
            "{:?}",
            validation.issues
        );
    }
}
