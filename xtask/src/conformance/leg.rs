//! One role at one revision: starting the suite, and reading what it wrote down.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::Value;

use super::explained;
use super::requirements::{self, Scenario};
use super::server::{Server, Way};
use crate::peers::Suite;
use crate::shell;

/// Which of our two is put to the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

impl Role {
    /// The suite's word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// Our example that plays it.
    pub(crate) fn fixture(self) -> &'static str {
        match self {
            Self::Server => "conformance_server",
            Self::Client => "conformance_client",
        }
    }
}

/// The programs to run.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) suite: Suite,
    /// The folder of our fixtures.
    pub(crate) examples: PathBuf,
    /// The product.
    pub(crate) gladhand: PathBuf,
}

/// A leg that was run.
#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) role: Role,
    pub(crate) revision: &'static str,
    pub(crate) way: Way,
    pub(crate) results: Vec<(Scenario, Checks)>,
    /// Whether the suite itself is content with the scenarios that count.
    pub(crate) content: bool,
}

impl Leg {
    /// Whether everything that counts passed; behind the bridge, everything that passes without it and can exist there.
    pub(crate) fn passed(&self) -> bool {
        match self.way {
            Way::Direct => self.content && self.scored().all(|(_, checks)| checks.passed()),
            Way::Bridged(..) => self
                .results
                .iter()
                .all(|(_, checks)| checks.passed() || (checks.made() > 0 && self.unexplained(checks) == 0)),
        }
    }

    /// How many checks of a scenario are bad without a reason.
    pub(crate) fn unexplained(&self, checks: &Checks) -> usize {
        checks.bad.iter().filter(|(id, _)| explained::reason(id, self.revision, self.way).is_none()).count()
    }

    /// The scored results.
    pub(crate) fn scored(&self) -> impl Iterator<Item = &(Scenario, Checks)> {
        self.results.iter().filter(|(scenario, _)| scenario.unscored.is_none())
    }
}

/// The results of the checks of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Checks {
    pub(crate) good: usize,
    pub(crate) skipped: usize,
    /// The failures and warnings: the id of the check, and the message of the suite.
    pub(crate) bad: Vec<(String, String)>,
}

impl Checks {
    /// Whether it passed: something was checked, and nothing was bad.
    pub(crate) fn passed(&self) -> bool {
        self.bad.is_empty() && self.good + self.skipped > 0
    }

    /// How many were made.
    pub(crate) fn made(&self) -> usize {
        self.good + self.bad.len()
    }

    fn read(text: &str) -> Result<Self> {
        let checks: Vec<Value> = serde_json::from_str(text)?;
        let mut sum = Self::default();
        for check in &checks {
            let said = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            match check["status"].as_str() {
                Some("SUCCESS") => sum.good += 1,
                Some("SKIPPED") => sum.skipped += 1,
                Some("INFO") => {}
                _ => sum.bad.push((said("id"), said("errorMessage"))),
            }
        }
        Ok(sum)
    }
}

pub(crate) fn run(programs: &Programs, role: Role, revision: &'static str, way: Way) -> Result<Leg> {
    let mut name = format!("{}-{revision}", role.word());
    if let Way::Bridged(behind, spoken) = way {
        name = format!("bridge-{revision}-{spoken}-{}", behind.word());
    }
    let output = shell::target().join("conformance").join(&name);
    let _ = fs::remove_dir_all(&output);
    fs::create_dir_all(&output).with_context(|| format!("could not make {}", output.display()))?;
    eprintln!("conformance: {name}");
    let mut suite = programs.suite.command();
    suite.arg(role.word()).args(["--requirements", revision, "--output-dir"]).arg(&output);
    let fixture = programs.examples.join(role.fixture());
    let server = match role {
        Role::Server => {
            let server = Server::start(programs, &fixture, way, &output)?;
            suite.arg("--url").arg(&server.url);
            Some(server)
        }
        Role::Client => {
            suite.arg("--command").arg(fixture);
            None
        }
    };
    let log = fs::File::create(output.join("suite.log")).context("could not make the suite's log")?;
    suite.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let status = suite.status().context("could not start the conformance suite")?;
    drop(server);

    let required = programs.suite.requirements(revision)?;
    let mut found = HashMap::new();
    collect(&output, &output, &mut found)?;
    let prefix = if role == Role::Server { "server-" } else { "" };
    let results = requirements::read(&required, role).into_iter().map(|scenario| {
        let checks = found.remove(&format!("{prefix}{}", scenario.name)).unwrap_or_default();
        (scenario, checks)
    });
    Ok(Leg { role, revision, way, results: results.collect(), content: status.success() })
}

/// Reads every `checks.json` below a folder, by the name of the folder that holds it, without its time.
fn collect(root: &Path, folder: &Path, found: &mut HashMap<String, Checks>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, found)?;
        } else if path.ends_with("checks.json") {
            let name = folder.strip_prefix(root).unwrap_or(folder).to_string_lossy();
            // `-2026-11-15T07-27-43-644Z`
            let end = name.len().saturating_sub(25);
            let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
            let checks = Checks::read(&text).with_context(|| format!("{} is no list of checks", path.display()))?;
            found.insert(name[..end].to_owned(), checks);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_bad_and_information_is_nothing() {
        let text = r#"[{"id":"a","status":"SUCCESS"},{"id":"b","status":"INFO"},{"id":"c","status":"SKIPPED"},
            {"id":"d","status":"WARNING","errorMessage":"hm"}]"#;
        let bad = vec![("d".to_owned(), "hm".to_owned())];
        let checks = Checks::read(text).unwrap();
        assert_eq!(checks, Checks { good: 1, skipped: 1, bad });
        assert!(!checks.passed());
        assert!(!Checks::default().passed(), "what was not run did not pass");
    }
}
