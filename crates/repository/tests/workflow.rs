//! The workflow: its stages, its end, and what it does not show.

mod common;

use std::sync::Mutex;

use gladhand_repository::{
    ContextFile, ContextInput, Documents, Limits, Passage, Places, Progress, Recipes, RepositoryError, Secrets,
    Setting, Stage, WorkflowInput, collect_repo_profile, run_integration_workflow, tools,
};

const FASTAPI: &str = "-- requirements.txt --\nfastapi\n-- app/main.py --\nfrom fastapi import FastAPI\n\napp = FastAPI()\n-- .env --\nFLUXLOOP_RUNNER_TARGET=app.main:app\nAPI_KEY=hunter2\n-- agents/tracer.py --\nimport fluxloop\n\n\nclass Tracer(object):\n    pass\n-- configs/simulation.yaml --\nrunner:\n  type: python-function\n  target: app.main:app\n";

/// Remembers stages, and gives up at one.
#[derive(Default)]
struct Watcher {
    stages: Mutex<Vec<Stage>>,
    until: Option<Stage>,
}

impl Progress for Watcher {
    fn report(&self, stage: Stage, _: usize, _: Option<usize>) {
        let mut stages = self.stages.lock().expect("nobody panicked");
        if stages.last() != Some(&stage) {
            stages.push(stage);
        }
    }

    fn cancelled(&self) -> bool {
        self.until.is_some_and(|until| self.stages.lock().expect("nobody panicked").contains(&until))
    }
}

struct Shelf;

impl Documents for Shelf {
    fn best(&self, _: &str, most: usize) -> Vec<Passage> {
        let passage = |path: &str| Passage { path: path.to_owned(), number: 0, text: "x".repeat(700), score: 0.5 };
        [passage("docs/a.md"), passage("docs/b.md")].into_iter().take(most).collect()
    }
}

fn run(text: &str, input: &WorkflowInput, progress: &dyn Progress) -> Result<serde_json::Value, RepositoryError> {
    let tree = common::tree(text);
    let working_folder = tree.path().canonicalize().expect("the tree is there");
    let secrets = Secrets(std::sync::Arc::new(|real, _| real.ends_with(".env")));
    let places = Places { working_folder, secrets, ..Places::default() };
    let recipes = Recipes::shipped();
    let setting = Setting {
        limits: Limits::default(),
        progress,
        places: &places,
        recipes: &recipes,
        documents: &Shelf,
        now: "now",
    };
    run_integration_workflow(input, &setting)
        .map(|workflow| serde_json::to_value(workflow).expect("answers are plain data"))
}

#[test]
fn the_stages_come_in_order() {
    let watcher = Watcher::default();
    let answer =
        run(FASTAPI, &WorkflowInput { question: Some(" why? ".to_owned()), ..WorkflowInput::default() }, &watcher)
            .unwrap();
    let stages = watcher.stages.into_inner().unwrap();
    assert_eq!(
        stages,
        [
            Stage::List,
            Stage::Read,
            Stage::Analyze,
            Stage::Detect,
            Stage::Collect,
            Stage::Steps,
            Stage::Plan,
            Stage::Validate
        ]
    );
    assert_eq!(answer["question"], "why?");
    assert_eq!(answer["validation"]["valid"], true);
    assert_eq!(answer["detection"]["frameworks"][0]["confidence"], 0.85);
    assert_eq!(answer["repo_profile"]["agent_signals"][0]["class_or_function"], "Tracer");
    // Passages of different documents are both kept, although their numbers are the same.
    let paths: Vec<_> = answer["llm_inputs"]["rag_documents"]
        .as_array()
        .unwrap()
        .iter()
        .take(2)
        .map(|one| one["path"].clone())
        .collect();
    assert_eq!(paths, ["docs/a.md", "docs/b.md"]);
}

#[test]
fn a_cancelled_workflow_ends_in_every_stage() {
    for until in [Stage::List, Stage::Read, Stage::Detect, Stage::Plan] {
        let watcher = Watcher { until: Some(until), ..Watcher::default() };
        assert_eq!(
            run(FASTAPI, &WorkflowInput::default(), &watcher).err(),
            Some(RepositoryError::Cancelled),
            "{until:?}"
        );
    }
}

#[test]
fn without_a_framework_the_answer_is_short() {
    let answer = run("-- notes.txt --\nhi\n", &WorkflowInput::default(), &()).unwrap();
    assert_eq!(answer["warnings"][0], "No supported frameworks detected.");
    for absent in ["integration_steps", "edit_plan", "validation", "question"] {
        assert!(answer.get(absent).is_none(), "{absent}");
    }
    assert_eq!(answer["llm_inputs"]["structure_context"]["validation"]["issues"][0], "No frameworks detected");
}

#[test]
fn a_stage_that_fails_leaves_the_others() {
    let answer = run("-- Gemfile --\ngem 'rails'\n", &WorkflowInput::default(), &()).unwrap();
    assert_eq!(answer["detection"]["frameworks"][0]["name"], "rails");
    assert_eq!(answer["integration_steps"]["error"], "no recipe available for framework 'rails'");
    assert_eq!(answer["validation"]["valid"], false);
}

#[test]
fn secrets_are_not_shown() {
    let context = ContextInput {
        targets: Some(vec![".env".to_owned(), "app/main.py".to_owned(), "../x".to_owned()]),
        ..ContextInput::default()
    };
    let answer = run(FASTAPI, &WorkflowInput { context: Some(context), ..WorkflowInput::default() }, &()).unwrap();
    assert!(!answer.to_string().contains("hunter2"));
    assert_eq!(answer["integration_context"]["files"].as_array().unwrap().len(), 1);
    assert_eq!(answer["integration_context"]["errors"][1]["message"], "Target outside workspace; skipped");
}

#[test]
fn runners_are_read_from_yaml_and_from_the_one_variable() {
    let tree = common::tree(FASTAPI);
    let profile = common::within(tree.path(), |setting| {
        collect_repo_profile(&gladhand_repository::CollectInput::default(), setting)
    })
    .unwrap();
    let runners: Vec<_> = profile
        .runner_configs
        .iter()
        .map(|runner| (runner.source, runner.target.as_str(), runner.confidence))
        .collect();
    assert_eq!(runners, [("simulation_yaml", "app.main:app", 0.8), ("env", "app.main:app", 0.5)]);
}

#[test]
fn every_tool_has_schemas_and_a_wrong_parameter_is_named() {
    let tree = common::tree(FASTAPI);
    for tool in tools() {
        assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
        assert!(tool.output_schema["properties"].is_object(), "{}", tool.name);
        assert!(!tool.input_schema.to_string().contains("\"$ref\""), "{} needs no other document", tool.name);
        let refused = common::within(tree.path(), |setting| tool.call(serde_json::json!({ "root": 5 }), setting));
        let Err(RepositoryError::WrongType { param, expected }) = refused else { panic!("{}: {refused:?}", tool.name) };
        assert_eq!((param.as_str(), expected.as_str()), ("root", "a string"));
    }
    let context = ContextFile::Directory { path: ".".to_owned(), entries: Vec::new() };
    assert_eq!(serde_json::to_value(context).unwrap()["kind"], "directory");
}
