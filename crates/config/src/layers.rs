//! The files that the configuration comes from, and the settings that each of them may contain.
//!
//! A file that the operator names (`--config`, `GLADHAND_CONFIG`) is the whole configuration. Otherwise there are two
//! layers: the user's own file, which always applies, and `gladhand.toml` of the current folder, the project file. A
//! project file comes from the author of a repository, so two rules bound it:
//!
//! - It is used only if the user trusted exactly its content ([`TrustStore`]). If a trusted file has changed, the rules
//!   and limits of the trusted content stay in force, because a tool that changes a file must not widen policy.
//! - It can add upstreams and narrow policy ([`Config::narrow`]). It cannot widen policy, change where models are, or
//!   read secrets and variables that were not granted to it.

use std::path::{Path, PathBuf};

use super::expand::{self, Lookup};
use super::project::SetAside;
use super::source::in_order;
use super::trust::{Grants, Standing, TrustStore};
use super::{Config, ConfigError, File, Problem, Reading, read, users_file};

/// The name of a project file.
pub const PROJECT_FILE: &str = "gladhand.toml";

/// The files that apply here, as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layers {
    /// The file that the operator named, else the user's own.
    pub own: Option<File>,
    /// The project file, trusted or not. There is none if the operator named a file.
    pub project: Option<Project>,
    /// Whether the operator named the file.
    pub is_named: bool,
}

/// The project file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The file.
    pub file: File,
    /// Whether it may be used.
    pub standing: Standing,
}

/// A configuration that was put together from its layers.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Settings of a project file that it may not make.
    pub set_aside: Vec<SetAside>,
}

/// The layers as far as they can be read.
#[derive(Debug)]
pub struct ExaminedLayers<'f> {
    /// The settings; none if the user's or operator's own file has none.
    pub config: Option<Config>,
    /// Settings of a project file that it may not make.
    pub set_aside: Vec<SetAside>,
    /// The files that are wrong, with their problems.
    pub wrong: Vec<(&'f File, Vec<Problem>)>,
}

impl Layers {
    /// Finds and reads the files. A project file that cannot be read is one that is not trusted.
    pub fn find(named: Option<&Path>, trust: &TrustStore) -> Result<Self, ConfigError> {
        if let Some(path) = named {
            let text = read(path).map_err(ConfigError::Unreadable)?;
            return Ok(Self { own: Some(File { path: path.to_owned(), text }), project: None, is_named: true });
        }
        let own = match users_file() {
            Some(path) => read_if_there(path).map_err(ConfigError::Unreadable)?,
            None => None,
        };
        let is_own = |path: &Path| {
            let real = |path: &Path| std::fs::canonicalize(path).ok();
            own.as_ref().is_some_and(|own| real(&own.path) == real(path))
        };
        let project = match read_project() {
            Ok(file) => file.map(|file| Project { standing: trust.standing(&file.path, &file.text), file }),
            Err(error) => {
                let file = File { path: PathBuf::from(PROJECT_FILE), text: String::new() };
                Some(Project { standing: trust.unreadable(&file.path, &error), file })
            }
        };
        let project = project.filter(|project| !is_own(&project.file.path));
        Ok(Self { own, project, is_named: false })
    }

    /// The configuration that the files make up. Without a file, the defaults hold.
    pub fn load(&self, reading: Reading<'_>) -> Result<Loaded, ConfigError> {
        let ExaminedLayers { config, set_aside, mut wrong } = self.examine(reading);
        match (config, wrong.pop()) {
            (Some(config), None) => Ok(Loaded { config, set_aside }),
            (_, Some((file, problems))) => Err(ConfigError::Invalid { path: file.path.clone(), problems }),
            (None, None) => Ok(Loaded { config: Config::default(), set_aside }),
        }
    }

    /// Reads as much of the configuration as possible, with the ignored settings and the problems of each file.
    pub fn examine(&self, reading: Reading<'_>) -> ExaminedLayers<'_> {
        let (mut config, mut set_aside, mut wrong) = (Some(Config::default()), Vec::new(), Vec::new());
        if let Some(file) = &self.own {
            let examined = file.examine(reading);
            config = examined.config;
            let mut problems = examined.problems;
            if !problems.is_empty() {
                problems.extend(examined.unresolved);
                wrong.push((file, in_order(problems)));
            }
        }
        if let Some((file, grants)) = self.trusted_project() {
            let examined = file.examine(reading.granted(grants));
            let refused = match reading {
                Reading::AsWritten | Reading::Resolved => {
                    expand::take_ungranted(&mut super::Source::read(&file.text).0, grants)
                }
                _ => examined.refused,
            };
            set_aside.extend(config.clone().unwrap_or_default().refusals(refused, file));
            if let (Some(config), Some(project)) = (&mut config, examined.config) {
                let narrowed = config.narrow(project, &examined.places);
                let new: Vec<_> = narrowed.into_iter().filter(|one| !set_aside.contains(one)).collect();
                set_aside.extend(new);
            }
            wrong.extend((!examined.problems.is_empty()).then_some((file, examined.problems)));
        }
        if let (Some(config), Some((path, before))) = (&mut config, self.trusted_before()) {
            let trusted = File { path: path.to_owned(), text: before.to_owned() };
            let examined = trusted.examine(Reading::WithoutUpstreams);
            // Keys that it may not set were reported while it was in force.
            let _ = examined.config.map(|project| config.narrow(project, &examined.places));
        }
        ExaminedLayers { config, set_aside, wrong }
    }

    /// The project file, if the user trusted it, with what was granted to it.
    pub fn trusted_project(&self) -> Option<(&File, &Grants)> {
        match self.project.as_ref()? {
            Project { file, standing: Standing::Trusted(grants) } => Some((file, grants)),
            Project { .. } => None,
        }
    }

    /// The project file that is not as the user trusted it, and the content that was trusted.
    fn trusted_before(&self) -> Option<(&Path, &str)> {
        let project = self.project.as_ref()?;
        Some((&project.file.path, project.standing.before()?))
    }

    /// The files in force.
    pub fn in_force(&self) -> impl Iterator<Item = &File> {
        self.own.iter().chain(self.trusted_project().map(|(file, _)| file))
    }

    /// The paths of the files in force, and that of a project file of which the trusted rules still apply.
    pub fn files_in_use(&self) -> impl Iterator<Item = &Path> {
        self.in_force().map(|file| file.path.as_path()).chain(self.trusted_before().map(|(path, _)| path))
    }

    /// One line about a project file that is not used: why, and how to trust it.
    pub fn untrusted(&self) -> Option<String> {
        let Project { file, standing } = self.project.as_ref()?;
        let why = match standing {
            Standing::Trusted(_) => return None,
            Standing::Changed { .. } => "it has changed since you trusted it",
            Standing::Unknown => "you have not trusted it",
            Standing::Unreadable { why, .. } => why,
        };
        let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
        let rules = if standing.before().is_some() { ", and only its trusted rules still apply" } else { "" };
        let advice = match standing {
            Standing::Unreadable { .. } => "make it readable or remove it",
            _ => "`gladhand config trust` shows it and asks",
        };
        Some(format!("{} is not loaded: {why}{rules}; {advice}", path.display()))
    }
}

/// The project file. A link is none: relative paths in it would mean other files than where it leads.
fn read_project() -> std::io::Result<Option<File>> {
    read_if_there(not_a_link(PathBuf::from(PROJECT_FILE))?)
}

/// The path of the project file in a folder, if the file is there. A link is an error.
pub fn project_file(folder: &Path) -> std::io::Result<Option<PathBuf>> {
    let path = not_a_link(folder.join(PROJECT_FILE))?;
    Ok(path.exists().then_some(path))
}

/// The path of a project file. A link could lead to a file outside of the project.
fn not_a_link(path: PathBuf) -> std::io::Result<PathBuf> {
    match std::fs::symlink_metadata(&path).is_ok_and(|data| data.is_symlink()) {
        true => Err(std::io::Error::other(format!("{PROJECT_FILE} is a link"))),
        false => Ok(path),
    }
}

fn read_if_there(path: PathBuf) -> std::io::Result<Option<File>> {
    match read(&path) {
        Ok(text) => Ok(Some(File { path, text })),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The references of a project file to values outside of it, by upstream: `${secret:NAME}`, `${NAME}`, inherited
/// variables.
pub fn references(file: &File) -> Vec<(String, Grants)> {
    let (source, _) = super::Source::read(&file.text);
    expand::references(&source)
}

/// A lookup that knows only what was granted. [`expand::take_ungranted`] has removed everything else before.
pub(super) fn with_granted<R>(lookup: &Lookup<'_>, grants: &Grants, then: impl FnOnce(&Lookup<'_>) -> R) -> R {
    let variable = |name: &str| (lookup.variable)(name).filter(|_| expand::may_read(grants, name));
    let secret = |name: &str| match grants.secrets.contains(name) {
        true => (lookup.secret)(name),
        false => Err("it is not granted to this file".to_owned()),
    };
    then(&Lookup { variable: &variable, secret: &secret, authorities: lookup.authorities })
}
