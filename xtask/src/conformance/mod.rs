//! `cargo xtask conformance`: the official MCP conformance suite against our fixture server and client.
//!
//! A leg is one role at one revision; in the role of a server also behind `gladhand bridge`, which speaks to the fixture in
//! the era of the suite or in the other. All scenarios that the suite names for it are run, also those that it does not
//! score; every check that it wrote down is counted. Its output stays in `target/conformance`.

mod explained;
mod leg;
mod report;
mod requirements;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result};

use crate::{peers, shell};
use leg::{Leg, Programs, Role};
use server::{Behind, Way};

/// The revisions that the suite has requirements for.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Which legs are run, and whether the page is written.
#[derive(Debug, Default)]
pub(crate) struct Options {
    role: Option<Role>,
    revision: Option<&'static str>,
    /// Only what goes through the bridge.
    bridge: bool,
    write: bool,
}

impl Options {
    /// Reads the words after `conformance`, or returns the one that makes no sense.
    pub(crate) fn read<'a>(words: &[&'a str]) -> Result<Self, &'a str> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--server" => options.role = Some(Role::Server),
                "--client" => options.role = Some(Role::Client),
                "--bridge" => (options.role, options.bridge) = (Some(Role::Server), true),
                "--write" => options.write = true,
                "--requirements" => {
                    let named = words.next().ok_or(*word)?;
                    options.revision = Some(REVISIONS.into_iter().find(|revision| revision == named).ok_or(*named)?);
                }
                unknown => return Err(unknown),
            }
        }
        Ok(options)
    }

    fn is_whole(&self) -> bool {
        self.role.is_none() && self.revision.is_none() && !self.bridge
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let suite = peers::suite()?;
    let roles = [Role::Server, Role::Client].into_iter().filter(|role| options.role.is_none_or(|only| only == *role));
    let mut build = shell::cargo(&["build", "--package", "gladhand", "--bins"]);
    for role in roles.clone() {
        build.args(["--example", role.fixture()]);
    }
    shell::run(&mut build, "the fixtures are examples of the package `gladhand`")?;
    let built = shell::target().join("debug");
    let programs = Programs { suite, examples: built.join("examples"), gladhand: built.join("gladhand") };

    let mut legs = Vec::new();
    for role in roles {
        let is_wanted = |revision: &&str| options.revision.is_none_or(|only| only == *revision);
        let revisions: Vec<_> = REVISIONS.into_iter().filter(is_wanted).collect();
        for way in ways(role).into_iter().filter(|way| !options.bridge || *way != Way::Direct) {
            legs.extend(run_at_once(&programs, role, &revisions, way)?);
        }
    }

    let version = programs.suite.version()?;
    println!("{}", report::summary(&legs));
    if options.write && options.is_whole() {
        let page = page();
        std::fs::write(&page, report::page(&legs, &version))
            .with_context(|| format!("could not write {}", page.display()))?;
        eprintln!("conformance: wrote {}", page.display());
    }
    let passed = legs.iter().all(Leg::passed);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The ways from the suite to the fixture of a role.
fn ways(role: Role) -> Vec<Way> {
    let bridged = [Behind::Stdio, Behind::Http].into_iter().flat_map(|behind| {
        let spoken = REVISIONS.into_iter();
        spoken.map(move |revision| Way::Bridged(behind, revision))
    });
    let bridged = bridged.filter(|_| role == Role::Server);
    std::iter::once(Way::Direct).chain(bridged).collect()
}

/// The legs of one role and way. They do not meet; those of more at once would make the suite's deadlines ours.
fn run_at_once(programs: &Programs, role: Role, revisions: &[&'static str], way: Way) -> Result<Vec<Leg>> {
    thread::scope(|scope| {
        let start = |revision: &&'static str| {
            let revision = *revision;
            scope.spawn(move || leg::run(programs, role, revision, way))
        };
        let running: Vec<_> = revisions.iter().map(start).collect();
        running.into_iter().map(|leg| leg.join().unwrap_or_else(|_| anyhow::bail!("a leg broke down"))).collect()
    })
}

fn page() -> PathBuf {
    shell::root().join("docs/conformance.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_or_the_wrong_word_is_named() {
        let options = Options::read(&["--server", "--requirements", "2026-07-28", "--write"]).unwrap();
        assert_eq!((options.role, options.revision, options.write), (Some(Role::Server), Some("2026-07-28"), true));
        assert!(!options.is_whole());
        assert_eq!(Options::read(&["--fast"]).unwrap_err(), "--fast");
        assert_eq!(Options::read(&["--requirements", "1999"]).unwrap_err(), "1999");
        assert_eq!(Options::read(&["--requirements"]).unwrap_err(), "--requirements");
    }
}
