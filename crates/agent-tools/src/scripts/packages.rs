//! `install_js_packages` and `run_js_module`: run package managers.
//!
//! An installation runs no lifecycle scripts. Otherwise the scripts of the folder's own `package.json` would run too,
//! and an approval of the packages does not show them. Arguments of the call, which the approval shows, can enable
//! them.

use std::path::PathBuf;

use serde::Serialize;

use super::report::report;
use crate::outcome::{Outcome, Problem};
use crate::process::{Plan, arguments, foreground, programs};
use crate::tool_set::Job;

/// The command line of a package manager.
#[derive(Debug)]
struct Manager {
    name: &'static str,
    install: &'static [&'static str],
    development: &'static str,
    /// The program that runs modules, and its first arguments.
    runner: &'static str,
    run: &'static [&'static str],
}

/// Package managers, in order of preference.
static MANAGERS: [Manager; 4] = [
    Manager { name: "bun", install: &["add", "--ignore-scripts"], development: "--dev", runner: "bun", run: &["x"] },
    Manager {
        name: "pnpm",
        install: &["add", "--ignore-scripts"],
        development: "--save-dev",
        runner: "pnpm",
        run: &["dlx"],
    },
    Manager { name: "yarn", install: &["add"], development: "--dev", runner: "yarn", run: &["dlx"] },
    Manager {
        name: "npm",
        install: &["install", "--ignore-scripts"],
        development: "--save-dev",
        runner: "npx",
        run: &["--yes"],
    },
];

/// `install_js_packages`.
pub(crate) async fn install(job: &Job<'_>) -> Outcome {
    #[derive(Serialize)]
    struct Installation<'a> {
        package_manager: &'a str,
        packages: &'a [String],
    }
    let packages = job.input.list("packages");
    if packages.is_empty() {
        return Err(Problem::invalid("install_js_packages requires a non-empty `packages` list."));
    }
    let (manager, program) = find(job, |manager| manager.name)?;
    let mut words: Vec<&str> = manager.install.to_vec();
    if job.input.flag("dev", false) {
        words.push(manager.development);
    }
    let extra = job.input.list("args");
    words.extend(extra.iter().chain(&packages).map(String::as_str));
    let installation = Installation { package_manager: manager.name, packages: &packages };
    // The versions of Yarn have no common flag for this.
    let settings = [("npm_config_ignore_scripts", "true"), ("YARN_ENABLE_SCRIPTS", "false")];
    run(job, "install_js_packages", &installation, program, &words, &settings).await
}

/// `run_js_module`.
pub(crate) async fn run_module(job: &Job<'_>) -> Outcome {
    #[derive(Serialize)]
    struct ModuleRun<'a> {
        package_manager: &'a str,
        module: &'a str,
    }
    let Some(module) = job.input.word("module") else {
        return Err(Problem::invalid("run_js_module requires a non-empty `module` string."));
    };
    let (manager, program) = find(job, |manager| manager.runner)?;
    let extra = job.input.list("args");
    let words: Vec<&str> =
        manager.run.iter().copied().chain([module]).chain(extra.iter().map(String::as_str)).collect();
    let module_run = ModuleRun { package_manager: manager.name, module };
    run(job, "run_js_module", &module_run, program, &words, &[]).await
}

/// The requested manager, or the first whose program is installed.
fn find(job: &Job<'_>, program: fn(&Manager) -> &'static str) -> Result<(&'static Manager, PathBuf), Problem> {
    let wanted = job.input.word("package_manager").unwrap_or("auto");
    if wanted != "auto" && MANAGERS.iter().all(|manager| manager.name != wanted) {
        return Err(Problem::invalid("`package_manager` must be one of: auto, bun, pnpm, yarn, npm."));
    }
    let mut candidates = MANAGERS.iter().filter(|manager| wanted == "auto" || manager.name == wanted);
    let found = candidates
        .find_map(|manager| Some((manager, programs::find(program(manager), &job.tools.settings.environment)?)));
    found.ok_or_else(|| Problem::invalid(format!("package manager not found: {wanted}.")))
}

async fn run(
    job: &Job<'_>,
    mode: &str,
    target: &impl Serialize,
    program: PathBuf,
    words: &[&str],
    settings: &[(&str, &str)],
) -> Outcome {
    let mut environment = job.tools.settings.environment.clone();
    environment.extend(settings.iter().map(|(name, value)| (name.into(), value.into())));
    let plan = Plan { program, arguments: arguments(words), folder: job.cwd()?, environment };
    let finished = foreground::run(job, &plan).await?;
    Ok(report(mode, target, &plan, &finished))
}
