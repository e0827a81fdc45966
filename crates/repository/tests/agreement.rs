//! Detection, plan and workflow over the same tree never contradict each other.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

mod common;

use std::path::PathBuf;

use gladhand_repository::{
    AnalyzeInput, DetectInput, Detection, IntegrationInput, RepositoryError, Setting, WorkflowInput,
    analyze_repository, detect_frameworks, propose_edit_plan, run_integration_workflow,
};
use serde_json::Value;

/// The trees of the accuracy set and the recorded samples.
fn trees() -> Vec<(String, tempfile::TempDir)> {
    let entries = ["accuracy", "tests/samples"].map(|folder| std::fs::read_dir(common::folder(folder)).unwrap());
    let mut paths: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tree"));
    paths.sort_unstable();
    assert!(paths.len() > 50);
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, common::tree(&std::fs::read_to_string(path).unwrap()))
    };
    paths.iter().map(read).collect()
}

fn detection(setting: &Setting<'_>) -> Detection {
    detect_frameworks(&DetectInput { root: Some(".".to_owned()), ..DetectInput::default() }, setting).unwrap()
}

#[test]
fn a_profile_alone_gives_the_same_frameworks_as_its_tree() {
    for (name, tree) in trees() {
        common::within(tree.path(), |setting| {
            let profile = analyze_repository(&AnalyzeInput::default(), setting).unwrap();
            let mut profile = serde_json::to_value(&profile).unwrap();
            profile.as_object_mut().unwrap().remove("root");
            let input = serde_json::json!({ "repository_profile": profile });
            let alone = detect_frameworks(&serde_json::from_value(input).unwrap(), setting).unwrap();
            let with_root = detection(setting);
            assert_eq!(alone.frameworks, with_root.frameworks, "{name}");
            assert_eq!(alone.recommended_patterns, with_root.recommended_patterns, "{name}");
        });
    }
}

#[test]
fn a_foreign_profile_omits_dependencies_of_a_detected_framework() {
    let input = serde_json::json!({ "repository_profile": {
        "languages": ["python"], "packageManagers": ["pip"], "frameworkCandidates": ["fastapi", "starlette"],
        "detectedFrameworks": ["not", "ours"],
    } });
    let tree = common::tree("");
    let found = common::within(tree.path(), |setting| {
        detect_frameworks(&serde_json::from_value(input).unwrap(), setting).unwrap()
    });
    assert_eq!(found.frameworks.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["fastapi"]);
}

#[test]
fn plans_and_workflows_agree_with_the_detection() {
    let frameworks = ["express", "fastapi", "nextjs", "nestjs", "django", "flask", "starlette", "langgraph", "fastmcp"];
    for (name, tree) in trees() {
        common::within(tree.path(), |setting| {
            let detection = detection(setting);
            for framework in frameworks {
                let input = IntegrationInput { framework: Some(framework.to_owned()), ..IntegrationInput::default() };
                let plan = match propose_edit_plan(&input, setting) {
                    Err(RepositoryError::NoRecipe { .. }) => continue,
                    plan => plan.unwrap(),
                };
                match detection.frameworks.iter().find(|one| one.name == framework) {
                    None => {
                        assert!(plan.edits.is_empty(), "{name}: {framework} is not there, but {plan:?}");
                        assert!(plan.warnings[0].contains("was not detected"), "{name}: {:?}", plan.warnings);
                    }
                    Some(found) => {
                        assert!(!plan.warnings.iter().any(|warning| warning.contains("not detected")), "{name}");
                        let is_inside = |path: &str| {
                            found.members.iter().any(|member| member == "." || path.starts_with(&format!("{member}/")))
                        };
                        assert!(plan.edits.iter().all(|edit| is_inside(&edit.filepath)), "{name}: {plan:?}");
                    }
                }
            }
            let workflow = run_integration_workflow(&WorkflowInput::default(), setting).unwrap();
            assert_eq!(workflow.detection, detection, "{name}");
            assert_eq!(workflow.profile.detected_frameworks, detection.frameworks, "{name}");
            let planned = workflow.edit_plan.as_ref().and_then(|plan| plan.done()).map(|plan| plan.framework.as_str());
            let recommended = detection.recommended_patterns.first().map(|one| one.framework.as_str());
            assert_eq!(planned, recommended, "{name}");
        });
    }
}

#[test]
fn a_module_of_the_project_with_the_name_of_a_framework_gets_no_edits() {
    let tree = common::tree(
        "-- fastapi.py --\nclass FastAPI:\n    pass\n-- main.py --\nfrom fastapi import FastAPI\n\napp = FastAPI()\n",
    );
    let input = IntegrationInput { framework: Some("fastapi".to_owned()), ..IntegrationInput::default() };
    let plan = common::within(tree.path(), |setting| propose_edit_plan(&input, setting)).unwrap();
    assert_eq!((plan.edits.len(), plan.patches.len()), (0, 0), "{plan:?}");
    assert_eq!(plan.warnings, ["FastAPI was not detected in this repository."]);
}

#[test]
fn the_rollback_restores_exactly_the_files_of_the_plan() {
    let rollback = |tree: &str, framework: &str| -> String {
        let tree = common::tree(tree);
        let input = IntegrationInput { framework: Some(framework.to_owned()), ..IntegrationInput::default() };
        let plan = common::within(tree.path(), |setting| propose_edit_plan(&input, setting)).unwrap();
        let plan: Value = serde_json::to_value(&plan).unwrap();
        plan["rollback"]["instruction"].as_str().unwrap().to_owned()
    };
    assert_eq!(rollback("-- a.txt --\n", "fastapi"), "Nothing to undo: the plan has no edits.");
    let next = "-- package.json --\n{\"dependencies\":{\"next\":\"15.0.0\"}}\n-- app/page.tsx --\nexport default 1;\n";
    assert_eq!(
        rollback(next, "nextjs"),
        "git restore -SW -- package.json && rm -- app/api/fluxloop/route.ts",
        "git cannot restore a file that it does not know"
    );
    let spaced = "-- my app/requirements.txt --\nfastapi\n-- my app/main.py --\nfrom fastapi import FastAPI\n\napp = FastAPI()\n";
    assert_eq!(rollback(spaced, "fastapi"), "git restore -SW -- 'my app/main.py' 'my app/requirements.txt'");
}
