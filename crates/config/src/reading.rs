//! From the text of a file to its settings, with all mistakes in it.

use std::collections::HashMap;
use std::path::Path;

use super::source::{bounded, in_order};
use super::{Config, Grants, Lookup, PolicyConfig, Problem, Source, expand, layers};

/// How many upstreams a file has at most.
pub const MOST_UPSTREAMS: usize = 1000;

/// Which part of a file is read.
#[derive(Debug, Clone, Copy)]
pub enum Reading<'l> {
    /// The whole file, with references in upstreams resolved.
    Whole(&'l Lookup<'l>),
    /// As [`Reading::Whole`], without upstreams whose references were not granted.
    Granted(&'l Lookup<'l>, &'l Grants),
    /// As [`Reading::Whole`], for the file of a stranger. The author must not choose what is masked, so redaction learns only
    /// the values behind references.
    Strangers(&'l Lookup<'l>),
    /// The whole file. References in upstreams and relative paths stay as written, and are not checked.
    AsWritten,
    /// As [`Reading::AsWritten`], with relative paths resolved, so that they can be compared with those in force.
    Resolved,
    /// Everything except the upstreams, for commands that do not use them.
    WithoutUpstreams,
}

impl<'l> Reading<'l> {
    /// The same for a project file, to which these references are granted.
    pub fn granted(self, grants: &'l Grants) -> Self {
        match self {
            Self::Whole(lookup) => Self::Granted(lookup, grants),
            other => other,
        }
    }
}

/// Parses a configuration that is in no file, or returns all mistakes in it. Relative paths begin in the current
/// folder.
pub fn parse(text: &str, reading: Reading<'_>) -> Result<Config, Vec<Problem>> {
    read_through(text, None, reading).sound()
}

/// A configuration with everything that is wrong with it.
#[derive(Debug)]
pub struct Examined<'t> {
    /// The settings, if they could be read.
    pub config: Option<Config>,
    /// The mistakes, in the order of the file.
    pub problems: Vec<Problem>,
    /// Upstreams that were removed because their references were not granted.
    pub refused: Vec<Problem>,
    /// References of upstreams that cannot be resolved. These upstreams are unavailable; all others work.
    pub unresolved: Vec<Problem>,
    /// The positions of all keys.
    pub places: Source<'t>,
}

impl Examined<'_> {
    /// The settings, if nothing is wrong with them.
    pub(crate) fn sound(self) -> Result<Config, Vec<Problem>> {
        match self {
            Self { config: Some(config), problems, unresolved, .. } if problems.is_empty() && unresolved.is_empty() => {
                Ok(config)
            }
            Self { problems, unresolved, .. } => Err(in_order(problems.into_iter().chain(unresolved).collect())),
        }
    }
}

pub(crate) fn read_through<'t>(text: &'t str, folder: Option<&Path>, reading: Reading<'_>) -> Examined<'t> {
    let (mut source, problems) = Source::read(text);
    let excess = || too_many_upstreams(&source).filter(|_| !matches!(reading, Reading::WithoutUpstreams));
    let problems = if problems.is_empty() { excess().into_iter().collect() } else { problems };
    if !problems.is_empty() {
        return Examined { config: None, problems, refused: Vec::new(), unresolved: Vec::new(), places: source };
    }
    let mut refused = Vec::new();
    let unresolved = match reading {
        Reading::Whole(lookup) | Reading::Strangers(lookup) => expand::expand_all(&mut source, lookup),
        Reading::Granted(lookup, grants) => {
            refused = expand::take_ungranted(&mut source, grants);
            layers::with_granted(lookup, grants, |lookup| expand::expand_all(&mut source, lookup))
        }
        Reading::AsWritten | Reading::Resolved => Vec::new(),
        Reading::WithoutUpstreams => {
            source.root.remove("upstreams");
            Vec::new()
        }
    };
    let (config, problems) = source.parse();
    let Some(mut config) = config else {
        return Examined { config: None, problems: in_order(problems), refused, unresolved, places: source };
    };
    config.upstreams.0.sort_by_cached_key(|(name, _)| source.span(&["upstreams", name]).start);
    if let Some(folder) = folder.filter(|_| !matches!(reading, Reading::AsWritten)) {
        config.resolve_paths(folder);
    }
    let mut mistakes = config.mistakes(&source);
    mistakes.extend(mistakes_beside(&source, &problems));
    let mut of_upstreams = Vec::new();
    let told = ProblemsByKey::by(&problems);
    let unresolved_in = ProblemsByKey::by(&unresolved);
    if let Reading::Whole(lookup) | Reading::Granted(lookup, _) | Reading::Strangers(lookup) = reading {
        for (name, upstream) in config.upstreams.0.iter_mut().filter(|(_, upstream)| upstream.enabled) {
            let missing = unresolved_in.about(&["upstreams", name]);
            let missing: Vec<_> = missing.iter().map(|problem| problem.message.as_str()).collect();
            upstream.unavailable = (!missing.is_empty()).then(|| missing.join("; "));
            // The author of a project file must not choose what is masked in messages about others.
            if matches!(reading, Reading::Whole(_)) {
                upstream.learn_secrets();
            }
            // Skip further checks of an upstream that could not be resolved, and of keys that could not be parsed.
            if missing.is_empty() {
                let is_whole = told.about(&["upstreams", name]).is_empty();
                let mistakes = upstream.mistakes(name, lookup, is_whole).into_iter();
                let is_new = |key: &str| told.about(&["upstreams", name, key]).is_empty();
                let mistakes = mistakes.filter(|(key, _)| key.is_none_or(is_new));
                let mistakes = mistakes.map(|(key, message)| {
                    let path: Vec<_> = ["upstreams", name].into_iter().chain(key).collect();
                    source.problem(&path, message)
                });
                of_upstreams.extend(mistakes);
            }
        }
    }
    let problems = problems.into_iter().chain(of_upstreams).chain(mistakes).collect();
    Examined { config: Some(config), problems: bounded(problems), refused, unresolved, places: source }
}

/// Problems by key, so that finding those of a key does not take longer in a file with more mistakes.
struct ProblemsByKey<'p>(HashMap<&'p str, Vec<&'p Problem>>);

impl<'p> ProblemsByKey<'p> {
    fn by(problems: &'p [Problem]) -> Self {
        let mut told: HashMap<&str, Vec<&Problem>> = HashMap::new();
        for problem in problems {
            let key = problem.key.as_str();
            for around in key.match_indices('.').map(|(at, _)| &key[..at]).chain([key]) {
                told.entry(around).or_default().push(problem);
            }
        }
        Self(told)
    }

    /// The problems of this key, and of those inside it.
    fn about(&self, path: &[&str]) -> &[&'p Problem] {
        self.0.get(path.join(".").as_str()).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The first upstream beyond the limit. A tool can write the file of a server, so the length of the file must not
/// decide how long the server works on it.
fn too_many_upstreams(source: &Source<'_>) -> Option<Problem> {
    let mut keys = source.keys().into_iter().filter(|(section, _)| *section == "upstreams");
    let (section, name) = keys.nth(MOST_UPSTREAMS)?;
    Some(source.problem(&[section, name], format!("there are more than {MOST_UPSTREAMS} upstreams in this file")))
}

/// Mistakes in the items of a list of the policy that was left out, as such a list is if one of its items could not be
/// parsed. Keys with a mistake that is known already are passed over.
fn mistakes_beside(source: &Source<'_>, known: &[Problem]) -> Vec<Problem> {
    let mut found = Vec::new();
    for list in ["rules", "limits"] {
        let begin = format!("policy.{list}#");
        // By the number of the item, so that the work does not grow with items times mistakes.
        let mut known_of: HashMap<&str, Vec<&Problem>> = HashMap::new();
        for problem in known {
            if let Some(inside) = problem.key.strip_prefix(&begin) {
                known_of.entry(inside.split('.').next().unwrap_or_default()).or_default().push(problem);
            }
        }
        if known_of.is_empty() {
            continue;
        }
        for (at, mut item) in source.items("policy", list).into_iter().enumerate() {
            let number = (at + 1).to_string();
            let place = format!("{begin}{number}");
            let wrong = known_of.get(number.as_str()).map(Vec::as_slice).unwrap_or_default();
            for problem in wrong {
                let inside = problem.key.strip_prefix(&place).unwrap_or_default().trim_start_matches('.');
                item.remove(inside.split(['.', '#']).next().unwrap_or_default());
            }
            let mistakes = PolicyConfig::mistakes_of_item(list, item, &place).into_iter();
            // An item without one of its keys lacks nothing.
            let mistakes = mistakes.filter(|(key, _)| wrong.is_empty() || *key != place);
            found.extend(mistakes.map(|(key, message)| {
                let path: Vec<_> = key.split('.').collect();
                source.problem_of_value(&path, message)
            }));
        }
    }
    found
}

impl Config {
    /// Returns values that have the right type and are still invalid.
    fn mistakes(&mut self, source: &Source<'_>) -> Vec<Problem> {
        let parts = |key: &str| key.split('.').map(str::to_owned).collect::<Vec<_>>();
        let at = |(key, problem): (String, String), of_value: bool| {
            let path = parts(&key);
            let path: Vec<_> = path.iter().map(String::as_str).collect();
            if of_value { source.problem_of_value(&path, problem) } else { source.problem(&path, problem) }
        };
        let of_keys = self.a2e.mistakes().into_iter().chain(self.agent.mistakes()).map(|mistake| at(mistake, false));
        let mut problems: Vec<_> = of_keys.collect();
        let of_values = self.policy.take_mistakes().into_iter().chain(self.authorization.take_mistakes());
        problems.extend(
            of_values.chain(self.a2e.wrong_schemas()).chain(self.telemetry.mistakes()).map(|mistake| at(mistake, true)),
        );
        problems
    }
}
