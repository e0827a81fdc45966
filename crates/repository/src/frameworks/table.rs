//! The table of frameworks, loaded from `frameworks/`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use gladhand_ignore_files::{GlobError, glob, glob_set};
use globset::GlobSet;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::manifest::Ecosystem;
use crate::source::Family;

/// The built-in table.
pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let parts = [
        include_str!("../../frameworks/python.toml"),
        include_str!("../../frameworks/javascript.toml"),
        include_str!("../../frameworks/agents.toml"),
        include_str!("../../frameworks/others.toml"),
    ];
    let weights = include_str!("../../frameworks/weights.toml");
    Table::read(weights, &parts).expect("the table is part of the program and is tested")
});

/// How many bytes after its module name an import may extend.
const LONGEST_IMPORT: usize = 2000;

/// All known frameworks.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) frameworks: Vec<FrameworkRules>,
    pub(crate) weights: Weights,
    needles: BTreeMap<Family, AhoCorasick>,
    /// Every statement that creates an application object contains one of these words.
    makers: BTreeMap<Family, AhoCorasick>,
    /// The patterns of all conventional files, and the rule that each belongs to.
    conventions: (GlobSet, Vec<RuleId>),
}

/// A rule of a framework about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RuleId {
    /// The index of the framework in the table.
    pub(crate) framework: usize,
    /// The index of the rule in the framework.
    pub(crate) number: usize,
}

/// One known framework.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrameworkRules {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) kind: Kind,
    dependencies: BTreeMap<Ecosystem, Vec<String>>,
    imports: BTreeMap<Family, Vec<String>>,
    #[serde(default)]
    constructors: BTreeMap<Family, Vec<String>>,
    #[serde(default)]
    pub(crate) files: Vec<FileRule>,
    /// Frameworks that this one includes.
    #[serde(default)]
    pub(crate) replaces: Vec<String>,
    #[serde(default)]
    pub(crate) needs_dependency: bool,
    #[serde(default)]
    weights: OwnWeights,
}

/// The kind of a framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Serves HTTP requests.
    Web,
    /// Runs agents of language models.
    Agent,
    /// Speaks the Model Context Protocol.
    Mcp,
    /// A library that is not a framework of its own.
    Library,
}

/// A conventional file of a framework.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileRule {
    path: String,
    #[serde(default)]
    pub(crate) contains: Option<String>,
    #[serde(default)]
    pub(crate) anchor: Option<String>,
    #[serde(default)]
    pub(crate) weak: bool,
}

/// The weights of the kinds of evidence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Weights {
    constructor: f64,
    import: f64,
    file: f64,
    pub(crate) most: f64,
    pub(crate) language: BTreeMap<Family, f64>,
    pub(crate) dependency: BTreeMap<Ecosystem, f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnWeights {
    constructor: Option<f64>,
    import: Option<f64>,
    file: Option<f64>,
}

/// Kinds of evidence that are found in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingKind {
    Constructor,
    Import,
    File,
}

impl Table {
    fn read(weights: &str, parts: &[&str]) -> Result<Self, Box<dyn std::error::Error>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Part {
            framework: Vec<FrameworkRules>,
        }
        let mut frameworks = Vec::new();
        for part in parts {
            frameworks.extend(values::<Part>(part)?.framework);
        }
        let mut words: BTreeMap<Family, Vec<String>> = BTreeMap::new();
        for known in &frameworks {
            for (family, modules) in &known.imports {
                let needles = modules.iter().map(|module| module.trim_end_matches('*').to_owned());
                words.entry(*family).or_default().extend(needles);
            }
            for (family, marks) in known.constructors.iter().filter(|(family, _)| family.lexis().is_some()) {
                words.entry(*family).or_default().extend(marks.iter().map(|mark| first_word(mark).to_owned()));
            }
        }
        let needles =
            words.into_iter().filter_map(|(family, words)| Some((family, AhoCorasick::new(words).ok()?))).collect();
        let makers =
            frameworks.iter().flat_map(FrameworkRules::makers).fold(BTreeMap::new(), |mut words, (family, word)| {
                words.entry(family).or_insert_with(Vec::new).push(word);
                words
            });
        let makers =
            makers.into_iter().filter_map(|(family, words)| Some((family, AhoCorasick::new(words).ok()?))).collect();
        let conventions = conventions(&frameworks)?;
        Ok(Self { frameworks, weights: values(weights)?, needles, makers, conventions })
    }

    /// Whether a file can concern any framework: a quick check before it is parsed.
    pub(crate) fn may_concern(&self, family: Family, bytes: &[u8]) -> bool {
        self.needles.get(&family).is_some_and(|needles| needles.is_match(bytes))
    }

    /// The part of a file that can contain evidence. That is the whole file if it may create an application object,
    /// otherwise the text up to the last mention of a module. Most files only import something at their top, and
    /// parsing is slow.
    pub(crate) fn telling_part<'t>(&self, family: Family, text: &'t str) -> &'t str {
        let makes = self.makers.get(&family).is_some_and(|words| words.is_match(text));
        let mentions = self.needles.get(&family).and_then(|needles| needles.find_iter(text).last());
        match mentions {
            Some(last) if !makes && family.lexis().is_none() => {
                let from = (last.end() + LONGEST_IMPORT).min(text.len());
                let end = memchr::memchr(b'\n', &text.as_bytes()[from..]).map_or(text.len(), |length| from + length);
                &text[..end]
            }
            _ => text,
        }
    }

    /// The rules that match a path relative to its project; for each framework, the first one.
    pub(crate) fn rules_for(&self, path: &str) -> impl Iterator<Item = RuleId> {
        let (patterns, rules) = &self.conventions;
        let mut last = None;
        let fitting = patterns.matches(path).into_iter().map(|at| rules[at]);
        fitting.filter(move |rule| last.replace(rule.framework) != Some(rule.framework))
    }

    /// The marks to search for in files of a language without a grammar.
    pub(crate) fn marks(&self, family: Family) -> Vec<&str> {
        if family.lexis().is_none() {
            return Vec::new();
        }
        self.frameworks
            .iter()
            .filter_map(|known| known.constructors.get(&family))
            .flatten()
            .map(String::as_str)
            .collect()
    }

    pub(crate) fn weight(&self, known: &FrameworkRules, found: FindingKind) -> f64 {
        match found {
            FindingKind::Constructor => known.weights.constructor.unwrap_or(self.weights.constructor),
            FindingKind::Import => known.weights.import.unwrap_or(self.weights.import),
            FindingKind::File => known.weights.file.unwrap_or(self.weights.file),
        }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&FrameworkRules> {
        self.frameworks.iter().find(|known| known.name == name)
    }
}

impl FrameworkRules {
    /// Whether a dependency is this framework.
    pub(crate) fn is_dependency(&self, ecosystem: Ecosystem, name: &str) -> bool {
        let mut names = self.dependencies.get(&ecosystem).into_iter().flatten();
        names.any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == known,
        })
    }

    /// Whether an imported module is part of this framework.
    pub(crate) fn is_import(&self, family: Family, module: &str) -> bool {
        self.imports.get(&family).into_iter().flatten().any(|known| below(known, module).is_some())
    }

    /// Whether a called path creates this framework's application object.
    pub(crate) fn is_constructor(&self, family: Family, path: &str) -> bool {
        let mut names = self.constructors.get(&family).into_iter().flatten();
        if family.lexis().is_some() {
            return names.any(|name| name == path);
        }
        names.any(|name| {
            let mut modules = self.imports.get(&family).into_iter().flatten();
            modules.any(|module| match (below(module, path), name.as_str()) {
                (Some(rest), "default") => rest.is_empty(),
                // In Go, a package below another one is a different package, unless the path only adds a version.
                (Some(rest), name) if family == Family::Go => without_version(rest) == name,
                (Some(rest), name) => {
                    rest == name || rest.strip_suffix(name).is_some_and(|before| before.ends_with('.'))
                }
                (None, _) => false,
            })
        })
    }

    /// Every statement that creates the application object contains one of these words.
    fn makers(&self) -> impl Iterator<Item = (Family, &str)> {
        self.constructors.iter().flat_map(move |(family, names)| {
            let modules = || self.imports.get(family).into_iter().flatten().map(|module| module.trim_end_matches('*'));
            names
                .iter()
                .flat_map(move |name| match name.as_str() {
                    "default" => modules().collect(),
                    name => vec![name.rsplit('.').max_by_key(|part| part.len()).unwrap_or(name)],
                })
                .map(|word| (*family, word))
        })
    }

    /// The language families that it supports.
    pub(crate) fn families(&self) -> impl Iterator<Item = Family> {
        self.imports.keys().copied()
    }

    /// The package ecosystems that it is published in.
    pub(crate) fn ecosystems(&self) -> impl Iterator<Item = Ecosystem> {
        self.dependencies.keys().copied()
    }
}

/// The values in a text. Read as JSON, they need a quarter of the code.
fn values<T: DeserializeOwned>(text: &str) -> Result<T, Box<dyn std::error::Error>> {
    let table: toml::Table = text.parse()?;
    Ok(serde_json::from_value(serde_json::to_value(table)?)?)
}

fn conventions(frameworks: &[FrameworkRules]) -> Result<(GlobSet, Vec<RuleId>), GlobError> {
    let (mut patterns, mut rules) = (Vec::new(), Vec::new());
    for (framework, known) in frameworks.iter().enumerate() {
        for (number, rule) in known.files.iter().enumerate() {
            patterns.push(glob(&rule.path)?);
            rules.push(RuleId { framework, number });
        }
    }
    Ok((glob_set(patterns)?, rules))
}

/// The rest of a path below a module: empty for the module itself.
fn below<'a>(module: &str, path: &'a str) -> Option<&'a str> {
    let (module, any_rest) = module.strip_suffix('*').map_or((module, false), |module| (module, true));
    let rest = path.strip_prefix(module)?;
    match rest.chars().next() {
        None => Some(rest),
        Some('.' | '/' | '\\') => Some(&rest[1..]),
        Some(_) if any_rest => Some(rest.find(['.', '/']).map_or("", |at| &rest[at + 1..])),
        Some(_) => None,
    }
}

/// The path of a Go module after the version.
fn without_version(path: &str) -> &str {
    let (first, rest) = path.split_at(path.find(['.', '/']).map_or(path.len(), |at| at + 1));
    let digits = first.strip_prefix('v').map(|version| version.trim_end_matches(['.', '/'])).unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) { rest } else { path }
}

fn first_word(mark: &str) -> &str {
    mark.split(['.', ':', ' ', '\\']).next().unwrap_or(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let table = &*TABLE;
        let mut names: Vec<&str> = table.frameworks.iter().map(|known| known.name.as_str()).collect();
        for known in &table.frameworks {
            for replaced in &known.replaces {
                assert!(names.contains(&replaced.as_str()), "{} replaces {replaced}, which is not known", known.name);
            }
            assert!(known.ecosystems().all(|ecosystem| table.weights.dependency.contains_key(&ecosystem)));
            assert!(known.families().all(|family| table.weights.language.contains_key(&family)));
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "names are unique");
    }

    #[test]
    fn modules_match_by_whole_parts() {
        let table = &*TABLE;
        let nextjs = table.named("nextjs").unwrap();
        assert!(nextjs.is_import(Family::Javascript, "next/server"));
        assert!(!nextjs.is_import(Family::Javascript, "next-auth"));
        let langchain = table.named("langchain").unwrap();
        assert!(langchain.is_import(Family::Python, "langchain_openai.chat"));
        assert!(langchain.is_constructor(Family::Python, "langchain_openai.ChatOpenAI"));
        let express = table.named("express").unwrap();
        assert!(express.is_constructor(Family::Javascript, "express"));
        assert!(!express.is_constructor(Family::Javascript, "express.Router"));
        let gin = table.named("gin").unwrap();
        assert!(gin.is_constructor(Family::Go, "github.com/gin-gonic/gin.Default"));
        assert!(!gin.is_constructor(Family::Go, "github.com/gin-gonic/gin/binding.Default"));
        assert!(table.named("echo").unwrap().is_constructor(Family::Go, "github.com/labstack/echo/v4.New"));
        let routes = format!("from fastapi import APIRouter\n{}", "def f():\n    pass\n".repeat(1000));
        assert!(table.telling_part(Family::Python, &routes).len() < 2100);
        let app = format!("{routes}app = FastAPI()\n");
        assert_eq!(table.telling_part(Family::Python, &app), app);
        let axum = table.named("axum").unwrap();
        assert!(axum.is_constructor(Family::Rust, "axum.Router.new"));
        assert!(!axum.is_constructor(Family::Rust, "axum.MyRouter.new"));
    }
}
