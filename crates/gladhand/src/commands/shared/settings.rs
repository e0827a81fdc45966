//! The configuration of a command: finds and reads its files, and reports the parts that are not used.

use std::path::Path;

use gladhand_agent::ProjectSkills;
use gladhand_redaction::redact;

use crate::commands::shared::references::Sources;
use crate::config::{self, Config, ConfigError, Layers, Loaded, Reading, SetAside, TrustStore};
use crate::logging;
use crate::terminal::layout;
use crate::terminal::text::plain;

/// A configuration and the files that it comes from.
#[derive(Debug)]
pub(in crate::commands) struct Settings {
    pub(in crate::commands) config: Config,
    pub(in crate::commands) layers: Layers,
}

/// Which part of the configuration a command needs.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) enum Part {
    /// All of it, with what upstreams refer to.
    Whole,
    /// All but the upstreams.
    WithoutUpstreams,
    /// All of it, as it is written.
    AsWritten,
}

/// Finds and reads the configuration. Each part of it that is not used gives one line to `report`: [`note`], or [`log`]
/// for a command that goes on running.
pub(in crate::commands) fn load(
    named: Option<&Path>,
    data: Option<&Path>,
    part: Part,
    report: fn(&str),
) -> Result<Settings, ConfigError> {
    let settings = read(named, data, part, report)?;
    for (name, why) in settings.config.upstreams.unavailable() {
        report(&unavailable(name, why));
    }
    Ok(settings)
}

/// The message about an upstream with a variable or secret that does not exist.
pub(in crate::commands) fn unavailable(name: &str, why: &str) -> String {
    format!("upstream {name} is not available: {why}")
}

/// The same, without messages about unavailable upstreams.
fn read(named: Option<&Path>, data: Option<&Path>, part: Part, report: fn(&str)) -> Result<Settings, ConfigError> {
    let layers = Layers::find(named, &TrustStore::in_folder(data))?;
    let sources = Sources::with_store_in(data.map(Path::to_owned));
    let loaded = sources.lookup(|lookup| {
        layers.load(match part {
            Part::Whole => Reading::Whole(lookup),
            Part::WithoutUpstreams => Reading::WithoutUpstreams,
            Part::AsWritten => Reading::AsWritten,
        })
    });
    if let Some(line) = layers.untrusted() {
        report(&line);
    }
    let Loaded { config, set_aside } = loaded?;
    if let Some((file, _)) = layers.trusted_project() {
        let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
        match &set_aside[..] {
            [] => {}
            [SetAside(problem)] => report(&format!("{}: {problem}", path.display())),
            all => report(&format!(
                "{}: {} settings are not used; `gladhand config check` lists them",
                path.display(),
                all.len()
            )),
        }
    }
    Ok(Settings { config, layers })
}

/// Reads the configuration for a command that leaves it to a server of our own, so that the user hears of mistakes here.
/// Of upstreams that are not available the command itself tells.
pub(in crate::commands) fn check(named: Option<&Path>, data: Option<&Path>) -> Result<Config, ConfigError> {
    let data = config::data_dir(data);
    read(named, data.as_deref(), Part::Whole, note).map(|settings| settings.config)
}

/// Notes the skills of the project around the current folder that are not used.
pub(in crate::commands) fn note_skills(data: Option<&Path>) {
    let ProjectSkills { files: untrusted, cut } = untrusted_skills(data);
    if let Some(cut) = cut {
        note(&cut);
    }
    if let Some(first) = untrusted.first() {
        let more = if untrusted.len() > 1 { format!(" and {} more", untrusted.len() - 1) } else { String::new() };
        note(&format!("the skill {}{more} is not used: `gladhand config trust` shows it and asks", first.display()));
    }
}

/// Skills of the project around the current folder that the user has not trusted as they are. Only those with a record of
/// trust are read.
pub(in crate::commands) fn untrusted_skills(data: Option<&Path>) -> ProjectSkills {
    let trust = TrustStore::in_folder(data);
    let Ok(here) = std::env::current_dir() else { return ProjectSkills::default() };
    let mut skills = gladhand_agent::project_skills(&here, config::home_dir().as_deref());
    let is_trusted = |skill: &Path| config::read(skill).is_ok_and(|text| trust.trusts(skill, &text));
    skills.files.retain(|skill| !(trust.has_record(skill) && is_trusted(skill)));
    skills
}

/// A warning in the log, with its time.
pub(in crate::commands) fn log(line: &str) {
    tracing::warn!("{line}");
}

/// One line on stderr, broken to fit a terminal, in one write.
pub(in crate::commands) fn note(line: &str) {
    let line = plain(&redact(line));
    let human = layout::message(&format!("gladhand: {line}"), layout::message_width());
    logging::say(tracing::Level::WARN, &line, &[], &human);
}
