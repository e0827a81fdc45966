//! The place in a repository where an integration goes, and the values that fill the templates of its recipe.

use crate::frameworks::{Finding, ProfileInput, TABLE, managers, projects_with};
use crate::manifest::{Ecosystem, Format, Manifest, Role};
use crate::recipes::{Package, Recipe, Target, add_command, ecosystem_of, filled, usual_manager};
use crate::source::Family;
use crate::survey::{FileFacts, Project, Survey};
use gladhand_core::Order as _;

/// The place of an integration.
#[derive(Debug)]
pub(crate) struct Site<'s> {
    pub(crate) framework: &'s str,
    /// Whether `detect_frameworks` names the framework for the tree; also true where it has no tree or does not know it.
    pub(crate) is_detected: bool,
    family: Option<Family>,
    /// The project, if there is a tree.
    pub(crate) project: Option<(&'s Survey, &'s Project)>,
    /// The statement that creates the application object, and its file.
    pub(crate) constructor: Option<(&'s FileFacts, &'s Finding)>,
    /// The package manager.
    pub(crate) manager: String,
}

impl<'s> Site<'s> {
    /// Chooses the project with the highest confidence for the framework, and the package manager of its language.
    pub(crate) fn new(
        framework: &'s str,
        survey: Option<&'s Survey>,
        profile: &ProfileInput,
        manager: Option<&str>,
    ) -> Self {
        let known = TABLE.named(framework);
        let detected = survey.map(|survey| projects_with(survey, framework)).unwrap_or_default();
        let is_detected = known.is_none() || survey.is_none() || !detected.is_empty();
        let first = detected.first().map(|(project, _)| *project);
        let constructors = detected.into_iter().flat_map(|(_, constructors)| constructors);
        let mut constructors: Vec<_> = constructors.filter(|(_, finding)| finding.anchor.is_some()).collect();
        // One that a variable holds is worth more than one that is passed on; then the shortest path.
        constructors.order_by_key(|(file, finding)| {
            (finding.bound.is_none(), file.path.matches('/').count(), file.path.clone(), finding.line)
        });
        let constructor = constructors.into_iter().next();
        let project = survey.map(|survey| {
            let chosen = match constructor {
                Some((file, _)) => survey.project_of(&file.path),
                None => first.unwrap_or(0),
            };
            (survey, &survey.projects[chosen])
        });
        let in_source = constructor.and_then(|(file, _)| Family::of(file.language?));
        let family = in_source.or_else(|| known.and_then(|known| spoken(known.families().collect(), profile, project)));
        let manager = choose_manager(family, project, profile, manager);
        Self { framework, is_detected, family, project, constructor, manager }
    }

    pub(crate) fn family(&self) -> Option<Family> {
        self.family
    }

    /// The path of a file as seen from the root, for one that is named from the project.
    pub(crate) fn outer(&self, inner: &str) -> String {
        self.project.map_or_else(|| inner.to_owned(), |(_, project)| project.outer(inner))
    }

    /// Fills a template of a recipe. Returns `None` if a needed value was not found.
    pub(crate) fn fill(&self, template: &str, target: &Target, recipe: &Recipe) -> Option<String> {
        let app = self.constructor.and_then(|(_, finding)| finding.bound.as_deref());
        let file = self.constructor.map(|(file, _)| file.path.as_str());
        let module = self.constructor.map(|(file, _)| self.module(file));
        let (package, install) = self.install(target, recipe).unzip();
        let (project, run) = (self.project_name(), self.run());
        filled(
            template,
            &[
                ("app", app),
                ("file", file),
                ("module", module.as_deref()),
                ("framework", Some(self.framework)),
                ("title", Some(&target.title)),
                ("runner", Some(&recipe.runner_pattern)),
                ("package", package.map(|package| package.name)),
                ("install", install.as_deref()),
                ("project", Some(&project)),
                ("run", run.as_deref()),
            ],
        )
    }

    /// The package to add, and the command that does it.
    pub(crate) fn install<'r>(&self, target: &'r Target, recipe: &'r Recipe) -> Option<(Package<'r>, String)> {
        let usual = self.family.map(usual_manager).unwrap_or("npm");
        let manager = if ecosystem_of(&self.manager).is_some() { &self.manager } else { usual };
        let package = target.package(recipe, ecosystem_of(manager)?)?;
        Some((package, add_command(manager, &package)?))
    }

    /// The manifests in which the project declares its dependencies; the one that its package manager reads comes
    /// first.
    pub(crate) fn declaring(&self, ecosystem: Ecosystem) -> Vec<(&'s FileFacts, &'s Manifest)> {
        let files = self.project.into_iter().flat_map(|(survey, project)| survey.files_of(project));
        let is_declaring = |format: Format| format.ecosystem == ecosystem && format.role == Role::Project;
        let mut found: Vec<_> = files
            .filter(|file| !file.aside && file.format.is_some_and(is_declaring))
            .filter_map(|file| Some((file, file.manifest.as_ref()?)))
            .collect();
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let is_read = |path: &str| match self.manager.as_str() {
            "pip" => path.ends_with(".txt") || path.ends_with(".in"),
            "pipenv" => name(path) == "Pipfile",
            "uv" | "poetry" | "pdm" | "hatch" => name(path) == "pyproject.toml",
            _ => true,
        };
        // A file that is compiled from a `.in` is overwritten each time.
        found.order_by_key(|(file, manifest)| {
            let path = file.path.as_str();
            (manifest.dependencies.is_empty(), !is_read(path), !path.ends_with(".in"), path.len())
        });
        found
    }

    /// The warning about a framework that `detect_frameworks` does not report for the tree.
    pub(crate) fn doubt(&self) -> Option<String> {
        let title = TABLE.named(self.framework).map_or(self.framework, |known| known.title.as_str());
        (!self.is_detected).then(|| format!("{title} was not detected in this repository."))
    }

    /// A file as a Python module, as seen from its project.
    fn module(&self, file: &FileFacts) -> String {
        let inner = self.project.map_or(file.path.as_str(), |(_, project)| project.inner(&file.path));
        let inner = inner.strip_prefix("src/").unwrap_or(inner);
        inner.trim_end_matches(".py").trim_end_matches("/__init__").replace('/', ".")
    }

    fn manifests(&self) -> impl Iterator<Item = &'s Manifest> {
        self.project
            .into_iter()
            .flat_map(|(survey, project)| survey.files_of(project))
            .filter_map(|file| file.manifest.as_ref())
    }

    /// A name for the project that may be a key everywhere: letters, digits, `-` and `_`.
    fn project_name(&self) -> String {
        let named = self.manifests().find_map(|manifest| manifest.name.clone());
        let folder = || {
            self.project.and_then(|(survey, _)| Some(survey.root.path().file_name()?.to_string_lossy().into_owned()))
        };
        let name = named.or_else(folder).unwrap_or_default();
        let last = name.rsplit('/').next().unwrap_or_default();
        let plain: String =
            last.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' }).collect();
        if plain.is_empty() { "app".to_owned() } else { plain }
    }

    /// The command that starts the project, as a TOML list: a script that it declares, or the file of its application object.
    fn run(&self) -> Option<String> {
        let scripts: Vec<&str> =
            self.manifests().flat_map(|manifest| manifest.scripts.keys()).map(String::as_str).collect();
        let words: Vec<String> = match self.family? {
            Family::Javascript if scripts.contains(&"start") => {
                let manager =
                    if ecosystem_of(&self.manager) == ecosystem_of("npm") { self.manager.as_str() } else { "npm" };
                vec![manager.to_owned(), "start".to_owned()]
            }
            Family::Javascript => vec!["node".to_owned(), self.constructor?.0.path.clone()],
            Family::Python => {
                let file = self.constructor?.0.path.clone();
                let start: &[&str] = match self.manager.as_str() {
                    "uv" => &["uv", "run", "python"],
                    "poetry" => &["poetry", "run", "python"],
                    "pdm" => &["pdm", "run", "python"],
                    _ => &["python"],
                };
                start.iter().map(|word| (*word).to_owned()).chain([file]).collect()
            }
            Family::Rust => vec!["cargo".to_owned(), "run".to_owned(), "--quiet".to_owned()],
            Family::Go => vec!["go".to_owned(), "run".to_owned(), ".".to_owned()],
            Family::Csharp => vec!["dotnet".to_owned(), "run".to_owned()],
            Family::Java => vec![
                if self.manager == "gradle" { "gradle" } else { "mvn" }.to_owned(),
                if self.manager == "gradle" { "bootRun" } else { "spring-boot:run" }.to_owned(),
            ],
            Family::Ruby => {
                vec!["bundle".to_owned(), "exec".to_owned(), "ruby".to_owned(), self.constructor?.0.path.clone()]
            }
            Family::Php => vec!["php".to_owned(), self.constructor?.0.path.clone()],
        };
        serde_json::to_string(&words).ok().map(|list| list.replace("\",\"", "\", \""))
    }

    /// Commands that show whether the project still works: its own scripts first.
    pub(crate) fn checks(&self) -> Vec<String> {
        let has = |name: &str| {
            self.manifests()
                .any(|manifest| manifest.scripts.get(name).is_some_and(|run| !run.contains("no test specified")))
        };
        let script = |name: &str| match self.manager.as_str() {
            "yarn" => format!("yarn {name}"),
            "pnpm" | "bun" => format!("{} run {name}", self.manager),
            _ => format!("npm run {name}"),
        };
        match self.family {
            Some(Family::Javascript) if self.project.is_none() => vec![script("build")],
            Some(Family::Javascript) => ["build", "test"].into_iter().filter(|name| has(name)).map(script).collect(),
            Some(Family::Python) => vec![match self.manager.as_str() {
                "uv" | "poetry" | "pdm" => format!("{} run pytest", self.manager),
                _ => "pytest || python -m build".to_owned(),
            }],
            Some(Family::Rust) => vec!["cargo check".to_owned()],
            Some(Family::Go) => vec!["go build ./...".to_owned()],
            Some(Family::Csharp) => vec!["dotnet build".to_owned()],
            Some(Family::Java) if self.manager == "gradle" => vec!["gradle build".to_owned()],
            Some(Family::Java) => vec!["mvn verify".to_owned()],
            Some(Family::Ruby) => vec!["bundle exec rake".to_owned()],
            Some(Family::Php) => vec!["composer validate".to_owned()],
            None => Vec::new(),
        }
    }
}

/// Which of a framework's languages is meant, where it has several.
fn spoken(families: Vec<Family>, profile: &ProfileInput, project: Option<(&Survey, &Project)>) -> Option<Family> {
    let in_project = |family: &Family| {
        project.is_some_and(|(survey, project)| {
            survey.files_of(project).any(|file| file.language.and_then(Family::of) == Some(*family))
        })
    };
    let in_profile = |family: &Family| {
        let names: &[&str] = match family {
            Family::Javascript => &["javascript", "typescript", "npm", "pnpm", "yarn", "bun"],
            Family::Python => &["python", "pip", "uv", "poetry"],
            _ => &[],
        };
        let given = profile.languages.iter().chain(&profile.package_managers).flatten();
        given.into_iter().any(|given| names.iter().any(|name| given.eq_ignore_ascii_case(name)))
    };
    families
        .iter()
        .find(|family| in_project(family))
        .or_else(|| families.iter().find(|family| in_profile(family)))
        .or_else(|| families.first())
        .copied()
}

/// The manager that was asked for, or the most telling one of the project in the framework's language.
fn choose_manager(
    family: Option<Family>,
    project: Option<(&Survey, &Project)>,
    profile: &ProfileInput,
    asked: Option<&str>,
) -> String {
    if let Some(asked) = asked.filter(|asked| !asked.is_empty()) {
        return asked.to_owned();
    }
    let Some(family) = family else { return "npm".to_owned() };
    if let Some(found) = project.and_then(|(survey, project)| managers(survey, project, family).first().copied()) {
        return found.to_owned();
    }
    const PREFERENCE: [&str; 10] = ["pnpm", "yarn", "bun", "npm", "uv", "poetry", "pdm", "pipenv", "pip", "cargo"];
    let given: Vec<String> = profile.package_managers.iter().flatten().map(|name| name.to_lowercase()).collect();
    let ecosystem = ecosystem_of(usual_manager(family));
    let fits = |name: &&&str| ecosystem_of(name) == ecosystem && given.iter().any(|one| one == **name);
    PREFERENCE.iter().find(fits).copied().unwrap_or_else(|| usual_manager(family)).to_owned()
}
