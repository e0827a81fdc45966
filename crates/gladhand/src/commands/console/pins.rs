//! Definitions that changed and wait to be approved, as `gladhand policy approve` lists them.
//!
//! The file of pins belongs to the data folder. The running process notices an approval, wherever it comes from. A
//! definition is approved by its hash, so one that changed again after it was shown is not.

use std::path::{Path, PathBuf};

use gladhand_redaction::redact;
use serde_json::{Value, json};

use crate::commands::policy::definition_changes::{Changes, Extent};
use crate::pins::{self, PinFile, Waiting};

/// The pins of a data folder.
#[derive(Debug, Clone)]
pub(super) struct Pins(PathBuf);

impl Pins {
    /// The pins in a data folder.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self(folder.join(pins::NAME))
    }

    /// The definitions that wait, with all their changes.
    pub(super) fn waiting(&self) -> Result<Value, String> {
        let file = PinFile::open(self.0.clone()).map_err(|error| error.to_string())?;
        Ok(file.waiting().iter().map(shown).collect())
    }

    /// Approves the definition that was shown with this hash.
    pub(super) fn approve(&self, key: &str, sha256: &str) -> Result<(), String> {
        let file = PinFile::open(self.0.clone()).map_err(|error| error.to_string())?;
        let is_it = |one: &Waiting| one.key() == key && one.sha256() == sha256 && one.after.is_some();
        let Some(shown) = file.waiting().into_iter().find(is_it) else {
            return Err("the definition has changed since it was shown".to_owned());
        };
        let names = [shown.key().to_owned()];
        let approved = file.note_listed(&[shown]).and_then(|()| file.approve(&names));
        match approved.map_err(|error| error.to_string())?.approved.is_empty() {
            true => Err("the definition has changed since it was shown".to_owned()),
            false => Ok(()),
        }
    }
}

fn shown(one: &Waiting) -> Value {
    let after = one.after.as_deref();
    let changes = after.map(|after| Changes::between(one.before.as_deref(), after, Extent::Full).lines);
    let changes = changes.map(|lines| lines.iter().map(|line| redact(line).into_owned()).collect::<Vec<_>>());
    json!({
        "key": one.key(),
        "sha256": one.sha256(),
        "name": redact(&one.name),
        "since": one.since,
        "at": one.at,
        "changes": changes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_approved_only_by_the_hash_that_was_shown() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::in_folder(folder.path());
        assert_eq!(pins.waiting(), Ok(json!([])));
        let pin = json!({"files/read": {"shown": "files__read", "sha256": "a", "since": "2026-01-01T00:00:00Z",
            "covers": "whole", "text": "{\"description\":\"Reads.\"}",
            "changed": {"sha256": "b", "at": "2026-01-02T00:00:00Z", "text": "{\"description\":\"Sends.\"}"}}});
        fs_err::write(folder.path().join(pins::NAME), pin.to_string()).unwrap();
        let waiting = pins.waiting().unwrap();
        assert_eq!(waiting[0]["changes"], json!([r#"description: "Reads." -> "Sends.""#]));
        assert!(pins.approve("files/read", "a").is_err() && pins.approve("other", "b").is_err());
        assert_eq!(pins.approve("files/read", "b"), Ok(()));
        assert_eq!(pins.waiting(), Ok(json!([])));
        assert!(pins.approve("files/read", "b").is_err());
        fs_err::write(folder.path().join(pins::NAME), "{").unwrap();
        assert!(pins.waiting().is_err());
    }
}
