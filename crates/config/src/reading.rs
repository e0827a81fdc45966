//! From the text of a file to its settings, with all mistakes in it.

use std::path::Path;

use super::source::in_order;
use super::{Config, Grants, Lookup, Problem, Source, expand, layers};

/// How many upstreams a file has at most.
pub(crate) const MOST_UPSTREAMS: usize = 1000;

/// Which part of a file is read.
#[derive(Debug, Clone, Copy)]
pub enum Reading<'l> {
    /// The whole file, with references in upstreams resolved.
    Whole(&'l Lookup<'l>),
    /// The whole file, without upstreams whose references were not granted or cannot be resolved.
    Granted(&'l Lookup<'l>, &'l Grants),
    /// As [`Reading::Whole`], for the file of a stranger. The author must not choose what is masked, so redaction learns only
    /// the values behind references.
    Strangers(&'l Lookup<'l>),
    /// The whole file. References in upstreams and relative paths stay as written, and are not checked.
    AsWritten,
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
    /// Upstreams that were removed because their references were not granted or cannot be resolved.
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
            let expanded = layers::with_granted(lookup, grants, |lookup| expand::expand_all(&mut source, lookup));
            // One unavailable upstream of a project does not stop the others.
            refused.extend(expand::take_unresolved(&mut source, expanded));
            Vec::new()
        }
        Reading::AsWritten => Vec::new(),
        Reading::WithoutUpstreams => {
            source.root.remove("upstreams");
            Vec::new()
        }
    };
    let (config, mut problems) = source.parse::<Config>();
    let Some(mut config) = config else {
        return Examined { config: None, problems: in_order(problems), refused, unresolved, places: source };
    };
    config.upstreams.0.sort_by_cached_key(|(name, _)| source.span(&["upstreams", name]).start);
    if let Some(folder) = folder.filter(|_| !matches!(reading, Reading::AsWritten)) {
        config.anchor(folder);
    }
    let range = config.out_of_range(&source);
    if let Reading::Whole(lookup) | Reading::Granted(lookup, _) | Reading::Strangers(lookup) = reading {
        for (name, upstream) in config.upstreams.0.iter_mut().filter(|(_, upstream)| upstream.enabled) {
            let missing = unresolved.iter().filter(|problem| problem.is_of(&["upstreams", name]));
            let missing: Vec<_> = missing.map(|problem| problem.message.as_str()).collect();
            upstream.unavailable = (!missing.is_empty()).then(|| missing.join("; "));
            // The author of a project file must not choose what is masked in messages about others.
            if matches!(reading, Reading::Whole(_)) {
                upstream.learn_secrets();
            }
            // Skip further checks of an upstream that could not be parsed or resolved.
            if missing.is_empty() && !problems.iter().any(|problem| problem.is_of(&["upstreams", name])) {
                problems.extend(upstream.mistakes(name, lookup).into_iter().map(|(key, message)| {
                    let path: Vec<_> = ["upstreams", name].into_iter().chain(key).collect();
                    source.problem(&path, message)
                }));
            }
        }
    }
    problems.extend(range);
    Examined { config: Some(config), problems: in_order(problems), refused, unresolved, places: source }
}

/// The first upstream beyond the limit. A tool can write the file of a server, so the length of the file must not
/// decide how long the server works on it.
fn too_many_upstreams(source: &Source<'_>) -> Option<Problem> {
    let mut keys = source.keys().into_iter().filter(|(section, _)| *section == "upstreams");
    let (section, name) = keys.nth(MOST_UPSTREAMS)?;
    Some(source.problem(&[section, name], format!("there are more than {MOST_UPSTREAMS} upstreams in this file")))
}

impl Config {
    /// Returns values that have the right type and are still invalid.
    fn out_of_range(&self, source: &Source<'_>) -> Vec<Problem> {
        let limits = &self.limits;
        let own = [
            ("limits.line_bytes", "from 1024 to 1073741824", (1024..=1 << 30).contains(&limits.line_bytes)),
            ("limits.in_flight", "from 1 to 100000", (1..=100_000).contains(&limits.in_flight)),
            ("limits.page_size", "from 1 to 10000", (1..=10_000).contains(&limits.page_size)),
            ("limits.drain_ms", "at most 3600000", limits.drain_ms <= 3_600_000),
        ];
        let own = own.into_iter().filter(|(_, _, fits)| !fits).map(|(key, expected, _)| (key, expected));
        let problem = |(key, problem): (String, String)| {
            let path: Vec<_> = key.split('.').collect();
            source.problem(&path, problem)
        };
        let address = |key: &'static str| {
            source.problem(&["agent", key], "must be an address that begins with http:// or https://")
        };
        let addresses = self.agent.malformed().into_iter().map(address);
        let ranges = own.chain(self.http.out_of_range()).chain(self.a2e.out_of_range());
        let ranges = ranges.map(|(key, expected)| (key.to_owned(), format!("must be {expected}")));
        ranges.chain(self.a2e.mistakes()).map(problem).chain(addresses).collect()
    }
}
