//! A server of another program, as an upstream of ours: how it is written, and what of it is a secret in clear text.

use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gladhand_core::wire::invisible::{Layout, escape};
use gladhand_redaction::{
    self as redaction, Life, places_in_header, places_in_text, places_in_variable, places_in_words,
};
use serde_json::Value;

use super::setting::{Setting, Text, escaped};
use crate::config::text;

/// Where a server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The client, or what else has the file.
    pub(crate) place: String,
    pub(crate) file: PathBuf,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.place, self.file.display())
    }
}

/// A server that was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// Its name as an upstream.
    pub(crate) name: String,
    /// Its name in the client's file.
    pub(crate) called: String,
    pub(crate) origin: Origin,
    /// Whether its file may come from a stranger. A preview hides nothing of it: what looks like a secret may be what it runs.
    pub(crate) is_strangers: bool,
    /// Its settings, in the order in which they are written.
    pub(super) settings: Vec<(&'static str, Setting)>,
    /// Notes for the user, written as comments.
    pub(crate) notes: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = |place: String| {
            let place = secret_place(&place);
            format!("{place} looks like a secret in clear text: `--secrets` moves it to the store")
        };
        let clear = self.clear_secrets().into_iter().map(hint);
        let origin = format!("from {}", self.origin);
        for note in [origin].into_iter().chain(self.notes.iter().cloned()).chain(clear) {
            // A line break in a name must not begin a line of TOML.
            writeln!(f, "# {}", escape(&note, Layout::Line))?;
        }
        writeln!(f, "[upstreams.{}]", self.name)?;
        self.settings.iter().try_for_each(|(key, value)| writeln!(f, "{key} = {}", text::value(&value.written())))
    }
}

impl Found {
    /// Whether it is a program, which we start.
    pub(crate) fn is_program(&self) -> bool {
        self.settings.iter().any(|(key, _)| *key == "command")
    }

    /// Its settings as one JSON object.
    pub(crate) fn settings(&self) -> Value {
        self.settings.iter().map(|(key, value)| ((*key).to_owned(), value.written())).collect()
    }

    /// Whether its settings, as they are written, refer only to what they were made to refer to.
    pub(crate) fn refers_to_its_own(&self) -> bool {
        self.settings.iter().all(|(_, value)| value.refers_to_its_own())
    }

    /// Makes its secrets known to the redaction. Those of a stranger are not: its author would choose what is masked elsewhere.
    pub(super) fn learn_secrets(&self) {
        if self.is_strangers {
            return;
        }
        // Nothing is changed in a copy that is dropped.
        let _ = self.clone().each_text(|_, _, text, places| {
            for secret in text.slices(places) {
                redaction::learn(&secret, Life::Process);
                redaction::learn(&escaped(&secret), Life::Process);
            }
            Ok::<_, Infallible>(())
        });
    }

    /// Where secrets are written out, as in `env.API_KEY`.
    pub(crate) fn clear_secrets(&self) -> Vec<String> {
        let mut found = Vec::new();
        // Nothing is changed in a copy that is dropped.
        let _ = self.clone().move_secrets(|place, _, _| {
            if !found.iter().any(|other| other == place) {
                found.push(place.to_owned());
            }
            Ok::<_, Infallible>(String::new())
        });
        found
    }

    /// Puts `${secret:NAME}` in the place of each secret that is written out. `keep` gets where it is, as in `env.API_KEY`,
    /// what it is called there, as in `API_KEY`, and the secret. It returns the name under which the secret is kept.
    pub(crate) fn move_secrets<E>(
        &mut self,
        mut keep: impl FnMut(&str, &str, &str) -> Result<String, E>,
    ) -> Result<(), E> {
        self.each_text(|place, called, text, places| {
            text.replace(places, |secret| Ok(format!("secret:{}", keep(place, called, secret)?)))
        })
    }

    /// Visits each text that can hold secrets: where it is, what a secret in it is called, and the places of its secrets.
    fn each_text<E>(
        &mut self,
        mut visit: impl FnMut(&str, &str, &mut Text, &[Range<usize>]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (key, setting) in &mut self.settings {
            match (&*key, setting) {
                (&"command", Setting::List(items)) => {
                    let word = |item: &Setting| item.text().map(Text::searched).unwrap_or_default();
                    let words: Vec<_> = items.iter().map(word).collect();
                    for (at, (item, places)) in items.iter_mut().zip(places_in_words(&words)).enumerate() {
                        let called = places.first().map(|place| argument_name(&words[..at], &words[at][..place.start]));
                        if let Setting::Text(text) = item {
                            visit("command", &called.unwrap_or_default(), text, &places)?;
                        }
                    }
                }
                (&"url", Setting::Text(text)) => {
                    let places = places_in_text(&text.searched());
                    visit("url", "url", text, &places)?;
                }
                (key @ (&"env" | &"headers"), Setting::Table(members)) => {
                    for (name, item) in members {
                        let Setting::Text(text) = item else { continue };
                        let places = match *key {
                            "env" => places_in_variable(name, &text.searched()),
                            _ => places_in_header(name, &text.searched()),
                        };
                        visit(&format!("{key}.{name}"), name, text, &places)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a `cwd` that is the folder of the file it is written to as one that begins there, for a file that others
    /// share.
    pub(crate) fn relative_to(&mut self, folder: &Path) {
        for (_, value) in self.settings.iter_mut().filter(|(key, _)| *key == "cwd") {
            if value.text().and_then(Text::as_plain).is_some_and(|cwd| Path::new(cwd) == folder) {
                *value = Setting::Text(Text::plain("."));
            }
        }
    }
}

/// Where a secret is, as a person reads it.
pub(crate) fn secret_place(place: &str) -> String {
    match place {
        "command" => "an argument of `command`".to_owned(),
        place => place.to_owned(),
    }
}

/// The name for a secret in a command line: the text before it in its word (`--token=`, `API_KEY=`, `Authorization:`),
/// else the option before that word.
fn argument_name(words: &[String], before: &str) -> String {
    let name = |text: &str| {
        let name = text.rsplit(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)).next().unwrap_or_default();
        Some(name.trim_matches(['-', '_']).to_owned()).filter(|name| name.len() > 1)
    };
    let named = match before.strip_suffix('=') {
        Some(named) => name(named),
        None if before.contains("://") => Some("credentials".to_owned()),
        None if before.is_empty() => words.last().filter(|word| word.starts_with('-')).and_then(|word| name(word)),
        None => before.split_once(':').and_then(|(header, _)| name(header)),
    };
    named.unwrap_or_else(|| "argument".to_owned())
}

/// The name that a secret of an upstream gets: `github-api-key` for one that is called `API_KEY` at `github`.
pub(crate) fn secret_name(upstream: &str, called: &str) -> String {
    let plain = |text: &str| {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        text.chars().map(letter).collect::<String>()
    };
    let (upstream, called) = (plain(upstream), plain(called));
    match called.strip_prefix(&upstream).is_some_and(|rest| rest.starts_with('-')) {
        true => called,
        false => format!("{upstream}-{called}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_moved_out_of_every_setting_and_the_rest_stays() {
        let mut texts = |text: &str| match text.strip_prefix("ref:") {
            Some(reference) => {
                let mut text = Text::default();
                text.push_reference(reference.to_owned());
                text
            }
            None => Text::plain(text),
        };
        let mut setting = |value| Setting::new(value, &mut texts);
        let mut found = Found {
            name: "git".to_owned(),
            called: "git".to_owned(),
            origin: Origin { place: "cursor".to_owned(), file: "/f".into() },
            is_strangers: false,
            settings: vec![
                ("command", setting(json!(["x", "--token", "hush-1", "-v"]))),
                (
                    "env",
                    setting(
                        json!({ "API_KEY": "hush-2", "DB": "postgres://ann:hush-3@db/x", "LEVEL": "debug", "T": "ref:T" }),
                    ),
                ),
                ("headers", setting(json!({ "Authorization": "Bearer hush-4" }))),
            ],
            notes: Vec::new(),
        };
        assert_eq!(found.clear_secrets(), ["command", "env.API_KEY", "env.DB", "headers.Authorization"]);
        let mut kept = Vec::new();
        let keep = |_: &str, called: &str, secret: &str| {
            kept.push(secret.to_owned());
            Ok::<_, Infallible>(secret_name("git", called))
        };
        found.move_secrets(keep).unwrap();
        assert_eq!(kept, ["hush-1", "hush-2", "ann:hush-3", "hush-4"]);
        let expected = json!({
            "command": ["x", "--token", "${secret:git-token}", "-v"],
            "env": { "API_KEY": "${secret:git-api-key}", "DB": "postgres://${secret:git-db}@db/x", "LEVEL": "debug", "T": "${T}" },
            "headers": { "Authorization": "Bearer ${secret:git-authorization}" },
        });
        assert_eq!(found.settings(), expected);
        assert_eq!(found.clear_secrets(), Vec::<String>::new());
        assert_eq!(secret_name("git", "GIT_TOKEN"), "git-token");
    }

    #[test]
    fn a_secret_of_a_command_line_is_named_after_the_option_before_it() {
        for (words, before, expected) in [
            (&["x", "--api-key"][..], "", "api-key"),
            (&["x"], "--token=", "token"),
            (&["x", "-e"], "DB_PASSWORD=", "DB_PASSWORD"),
            (&["x"], "postgres://", "credentials"),
            (&["x"], "https://h/?api_key=", "api_key"),
            (&["x", "--header"], "Authorization: Bearer ", "Authorization"),
            (&["x", "-p"], "", "argument"),
            (&["x", "y"], "", "argument"),
        ] {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(argument_name(&words, before), expected, "{words:?} {before}");
        }
    }
}
