//! Servers of other programs as upstreams of a configuration file of ours: whether they are there already, what keeps
//! them from working, and how they are added.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use gladhand_core::wire::invisible::{Layout, escape};
use gladhand_core::{Order as _, Pattern, Secret};
use gladhand_store::{SecretError, Secrets};

use crate::clients::found::{Found, secret_name};
use crate::clients::{Client, GivenVariables};
use crate::commands::CommandError;
use crate::commands::shared::existence_checks;
use crate::commands::shared::references::{Sources, variable_of};
use crate::commands::shared::settings;
use crate::config::{self, ConfigError, File, Problem, Reading, UpstreamConfig, env};
use crate::secrets;

/// The configuration file that servers are added to, as it is now.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) file: File,
    sources: Sources,
}

/// How a server and the configuration stand to each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is no upstream of that name.
    New,
    /// The upstream of that name is this server.
    Same,
    /// It is another server, or the same one with other settings.
    Differs(Vec<String>),
}

/// Text that is added to a file for an upstream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) upstream: String,
    /// Whether it may come from a stranger.
    pub(super) is_strangers: bool,
    /// The text, with the blank line before it.
    pub(super) text: String,
}

impl Own {
    /// Reads the file; one that is not there is empty.
    pub(super) fn read(path: PathBuf, data: Option<&Path>) -> Result<Self, CommandError> {
        let mut own = Self::unread(path, data);
        if own.file.path.exists() {
            own.file.text = config::read(&own.file.path).map_err(CommandError::usage)?;
        }
        Ok(own)
    }

    /// The same place without its content, for servers that are not added to it.
    pub(super) fn unread(path: PathBuf, data: Option<&Path>) -> Self {
        let file = File { path, text: String::new() };
        Self { file, sources: Sources::with_store_in(data.map(Path::to_owned)) }
    }

    /// Refuses a file with mistakes: `serve` would not start with it.
    pub(super) fn sound(&self) -> Result<(), ConfigError> {
        let problems = self.sources.lookup(|lookup| self.file.examine(Reading::Whole(lookup)).problems);
        match problems.is_empty() {
            true => Ok(()),
            false => Err(ConfigError::Invalid { path: self.file.path.clone(), problems }),
        }
    }

    /// A text in the place of this file, with what its upstreams refer to, and everything that is wrong with it.
    fn examined(&self, text: &str) -> (Vec<(String, UpstreamConfig)>, Vec<Problem>) {
        self.examined_as(text, false)
    }

    /// The same for a server alone.
    fn examined_server(&self, found: &Found) -> (Vec<(String, UpstreamConfig)>, Vec<Problem>) {
        self.examined_as(&found.to_string(), found.is_strangers)
    }

    fn examined_as(&self, text: &str, is_strangers: bool) -> (Vec<(String, UpstreamConfig)>, Vec<Problem>) {
        let file = File { path: self.file.path.clone(), text: text.to_owned() };
        let (config, mut problems) = self.sources.lookup(|lookup| {
            let reading = if is_strangers { Reading::Strangers(lookup) } else { Reading::Whole(lookup) };
            let examined = file.examine(reading);
            (examined.config, examined.problems.into_iter().chain(examined.unresolved).collect::<Vec<_>>())
        });
        problems.order_by_key(|problem| (problem.line, problem.column));
        (config.map(|config| config.upstreams.0).unwrap_or_default(), problems)
    }

    /// A server as an upstream of this file.
    fn upstream(&self, found: &Found) -> UpstreamConfig {
        self.examined_server(found).0.pop().map(|(_, upstream)| upstream).unwrap_or_default()
    }

    /// In what one description of a server differs from another.
    pub(super) fn differences(&self, taken: &Found, other: &Found) -> Vec<String> {
        self.upstream(taken).differences(&self.upstream(other), [&taken.origin.place, &other.origin.place])
    }

    /// Whether the server is there already.
    pub(super) fn standing(&self, found: &Found) -> Standing {
        let (upstreams, _) = self.examined(&self.file.text);
        let Some((_, own)) = upstreams.iter().find(|(name, _)| *name == found.name) else { return Standing::New };
        match own.differences(&self.upstream(found), ["your configuration", &found.origin.place]) {
            differences if differences.is_empty() => Standing::Same,
            differences => Standing::Differs(differences),
        }
    }

    /// Why a server would not work as an upstream here, if so.
    pub(super) fn trouble(&self, found: &Found) -> Option<String> {
        let (_, problems) = self.examined_server(found);
        let told: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Variables, secrets and programs that a server needs and that are missing.
    pub(super) fn missing(&self, found: &Found) -> Vec<String> {
        match self.trouble(found) {
            Some(trouble) => vec![trouble],
            None => {
                let upstream = self.upstream(found);
                let missing = existence_checks::missing(&upstream, &upstream).into_iter();
                missing.map(|missing| format!("{}: {}", missing.message, missing.advice)).collect()
            }
        }
    }

    /// That the folder is missing in which a server is to be started, if so.
    pub(super) fn missing_folder(&self, found: &Found) -> Option<String> {
        let upstream = self.upstream(found);
        let missing =
            existence_checks::missing(&upstream, &upstream).into_iter().find(|missing| missing.key == "cwd")?;
        Some(format!("{}: {}", missing.message, missing.advice))
    }

    /// Says what upstreams need that is not there, and what the user should know of them besides.
    pub(super) fn tell_notes<'f>(&self, servers: impl IntoIterator<Item = &'f Found>) {
        for found in servers {
            let missing = self.missing(found);
            // The list of missing items names each secret that replaces a question.
            let notes = found.notes.iter().filter(|note| !note.starts_with("`gladhand secret set"));
            let say = |note: &String| super::say(&format!("  {}: {}", found.name, escape(note, Layout::Line)));
            notes.chain(&missing).for_each(say);
        }
    }

    /// The upstreams that a text in the place of this file has and that are not available, each with why.
    pub(super) fn unavailable(&self, text: &str) -> Vec<String> {
        let (upstreams, _) = self.examined(text);
        let why = |(name, upstream): (String, UpstreamConfig)| {
            Some(settings::unavailable(&name, upstream.unavailable.as_deref()?))
        };
        upstreams.into_iter().filter_map(why).collect()
    }

    /// The variables that the upstreams of a text in the place of this file need beside the plain ones, and those that say
    /// where our files are.
    pub(super) fn needed_variables(&self, text: &str) -> BTreeSet<String> {
        let mut all = self.referenced_variables(text);
        all.extend(OUR_VARIABLES.iter().filter(|name| is_set(name)).map(|name| (*name).to_owned()));
        all
    }

    /// Why a server could not get its variables if this client started us, if so.
    pub(super) fn withheld(&self, found: &Found, client: Client) -> Option<String> {
        let needed = self.referenced_variables(&found.to_string());
        (client.given_variables() == GivenVariables::Few && !needed.is_empty()).then(|| {
            let names = needed.into_iter().collect::<Vec<_>>().join(", ");
            format!(
                "{} does not give the variable {names} to servers; write the value to the entry, and --secrets moves it to \
                 the store",
                client.name()
            )
        })
    }

    /// A pattern stands for the variables of that form that are set now. `inherit_env = "all"` asks for none in particular.
    fn referenced_variables(&self, text: &str) -> BTreeSet<String> {
        let file = File { path: self.file.path.clone(), text: text.to_owned() };
        let mut all = BTreeSet::new();
        for (_, needed) in config::references(&file) {
            all.extend(needed.secrets.iter().map(|name| variable_of(name)).filter(|name| is_set(name)));
            for name in needed.variables.into_iter().filter(|name| name != "*" && name != "PWD") {
                match name.contains('*') {
                    true => {
                        let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
                        let pattern = Pattern(name);
                        all.extend(set.filter(|name| pattern.fits(name) && !env::is_never_passed_on(name.as_ref())));
                    }
                    false => drop(all.insert(name)),
                }
            }
        }
        all
    }

    /// The file's text with these servers at its end, and the text that each of them added. Upstreams that are there
    /// already stay as they are.
    pub(super) fn with<'f>(&self, found: impl IntoIterator<Item = &'f Found>) -> anyhow::Result<(String, Vec<Added>)> {
        self.added(found).with_context(|| self.file.path.display().to_string())
    }

    fn added<'f>(&self, found: impl IntoIterator<Item = &'f Found>) -> anyhow::Result<(String, Vec<Added>)> {
        let before = &self.file.text;
        let settings: toml::Table =
            before.parse().map_err(|_| anyhow!("it is no TOML: `gladhand config check` says why"))?;
        let is_there = |name: &str| settings.get("upstreams").is_some_and(|upstreams| upstreams.get(name).is_some());
        let (mut after, mut all) = (before.clone(), Vec::new());
        for server in found.into_iter().filter(|server| !is_there(&server.name)) {
            // If the escaping had a mistake, a stranger's server could get a secret of the user.
            if !server.refers_to_its_own() {
                anyhow::bail!("`{}` would refer to something that it did not refer to before", server.name);
            }
            let between = match after.as_str() {
                "" => "",
                text if text.ends_with("\n\n") => "",
                text if text.ends_with('\n') => "\n",
                _ => "\n\n",
            };
            let text = format!("{between}{server}");
            let added = Added { upstream: server.name.clone(), is_strangers: server.is_strangers, text };
            after.push_str(&added.text);
            all.push(added);
        }
        let is_fine =
            config::parse(&after, Reading::AsWritten).is_ok() || config::parse(before, Reading::AsWritten).is_err();
        if !is_fine || after.parse::<toml::Table>().is_err() {
            anyhow::bail!("nothing can be added to it: is `upstreams` written as one value?");
        }
        Ok((after, all))
    }
}

/// Variables that say where our files are and how our store opens.
const OUR_VARIABLES: [&str; 4] = [env::DATA_DIR, env::PASSPHRASE, "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Secrets on their way from clear text into the store. Nothing is kept before [`Vault::keep`].
#[derive(Debug)]
pub(super) struct Vault {
    store: Secrets,
    new: BTreeMap<String, Secret>,
}

impl Vault {
    /// The store in this data folder.
    pub(super) fn open(data: Option<&Path>) -> Result<Self, CommandError> {
        let data = data.ok_or_else(|| anyhow!("there is no home folder to keep secrets in"))?;
        Ok(Self { store: secrets::open(data)?, new: BTreeMap::new() })
    }

    /// Puts references in the place of the secrets of a server.
    pub(super) fn take_from(&mut self, found: &mut Found) -> Result<(), CommandError> {
        let upstream = found.name.clone();
        Ok(found.move_secrets(|_, called, secret| self.name(&secret_name(&upstream, called), secret))?)
    }

    /// The name for a secret: the one under which it is kept already, else one that is free.
    fn name(&mut self, base: &str, value: &str) -> Result<String, SecretError> {
        let mut number = 1;
        loop {
            let name = if number == 1 { base.to_owned() } else { format!("{base}-{number}") };
            let kept = match self.new.get(&name) {
                Some(secret) => Some(secret.clone()),
                None => self.store.get(&name)?,
            };
            match kept {
                Some(kept) if kept.expose() == value => return Ok(name),
                Some(_) => number += 1,
                None => {
                    self.new.insert(name.clone(), Secret::new(value));
                    return Ok(name);
                }
            }
        }
    }

    /// The names of secrets that are not in the store yet.
    pub(super) fn names(&self) -> Vec<String> {
        self.new.keys().cloned().collect()
    }

    /// Puts the new secrets into the store, then does what needs them there. If that fails, they are taken out again.
    pub(super) fn keep<T>(self, then: impl FnOnce() -> Result<T, CommandError>) -> Result<T, CommandError> {
        let names = self.names();
        let undo = |store: &Secrets| {
            // The first error is the one to tell.
            names.iter().for_each(|name| drop(store.remove(name)));
        };
        for (name, secret) in self.new {
            self.store.set(&name, secret).inspect_err(|_| undo(&self.store))?;
        }
        then().inspect_err(|_| undo(&self.store))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::import::{self, Source};

    fn found(json: &str) -> Vec<Found> {
        import::read(json, &Source::of_client(Client::Cursor, "/f".into()), None).unwrap().found
    }

    fn own(text: &str) -> Own {
        Own { file: File { path: "gladhand.toml".into(), text: text.to_owned() }, sources: Sources::default() }
    }

    #[test]
    fn an_import_adds_missing_upstreams_and_changes_no_other() {
        let found = found(r#"{ "mcpServers": { "a": { "command": "new" }, "b": { "command": "b" } } }"#);
        let before = "# mine\n[upstreams.a]\ncommand = 'old' # kept\n";
        let (after, added) = own(before).with(&found).unwrap();
        assert_eq!(added.iter().map(|one| one.upstream.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(after, format!("{before}\n# from cursor (/f)\n[upstreams.b]\ncommand = [\"b\"]\n"));
        assert_eq!(after.replacen(&added[0].text, "", 1), before, "and it can be taken away again");
        assert_eq!(own(&after).with(&found).unwrap(), (after.clone(), vec![]));
        let both = "# from cursor (/f)\n[upstreams.a]\ncommand = [\"new\"]\n\n# from cursor (/f)\n[upstreams.b]\ncommand = [\"b\"]\n";
        assert_eq!(own("").with(&found).unwrap().0, both);
        assert!(own("upstreams = {}").with(&found).is_err());
        assert!(own("upstreams = ").with(&found).is_err());
    }

    #[test]
    fn a_server_is_new_or_the_same_or_differs_and_may_not_work() {
        let found = found(
            r#"{ "mcpServers": { "a": { "command": "a", "args": ["1"], "env": { "X": "${NO_SUCH_VARIABLE}" } } } }"#,
        );
        assert_eq!(own("").standing(&found[0]), Standing::New);
        let same = "[upstreams.a]\ncommand = 'a'\nargs = ['1']\nenv = { X = '${NO_SUCH_VARIABLE}' }\nprefix = 'b'\n";
        assert_eq!(own(same).standing(&found[0]), Standing::Same);
        let other = own("[upstreams.a]\ncommand = 'b'\n").standing(&found[0]);
        let expected =
            ["command is `b` in your configuration and `a 1` in cursor", "env.X is missing in your configuration"]
                .map(str::to_owned);
        assert_eq!(other, Standing::Differs(expected.into()));
        assert_eq!(own("").trouble(&found[0]).unwrap(), "the variable NO_SUCH_VARIABLE is not set");
    }
}
