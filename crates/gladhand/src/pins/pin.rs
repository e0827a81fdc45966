//! One pin: a definition's hash and text, its comparison with a definition that an upstream sends, and the change that
//! waits to be approved. No file is accessed here.

use gladhand_hub::policy::{Definition, DefinitionSource, Pinned, Standing};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::utc;

/// The longest pinned definition whose text is stored with its hash.
pub(super) const LONGEST: usize = 256 * 1024;

/// The longest changed definition whose text is stored. A longer one cannot be shown, and so not approved.
pub(super) const LONGEST_CHANGE: usize = 1024 * 1024;

/// One pinned definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pin {
    /// The name under which it is shown and approved.
    pub(super) shown: String,
    pub(super) sha256: String,
    pub(super) since: String,
    /// The part of the definition that the hash covers. Versions before this was written pinned a part of a tool's
    /// definition.
    #[serde(default)]
    pub(super) covers: Covers,
    /// The definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// The current definition, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) changed: Option<Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Covers {
    /// Title, description, schemas and annotations.
    #[default]
    Part,
    /// Everything.
    Whole,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) sha256: String,
    pub(super) at: String,
    /// Whether `policy approve` has shown this very definition in full. Only such a definition can be approved.
    #[serde(default)]
    pub(super) is_listed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

/// A definition that waits to be approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(super) key: String,
    /// The name that approves it.
    pub(crate) name: String,
    /// Since when it was known.
    pub(crate) since: String,
    /// When it was seen to be something else.
    pub(crate) at: String,
    /// The hash of the definition that was seen.
    pub(super) sha256: String,
    /// The pinned definition, if it was kept.
    pub(crate) before: Option<String>,
    /// The definition that was seen, if it was kept.
    pub(crate) after: Option<String>,
}

impl Waiting {
    /// The name that approves this definition and no other.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The hash of the definition that was seen.
    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Whether a user means this definition: by its shown name, or as `upstream/tool`.
    pub(crate) fn is_named(&self, names: &[String]) -> bool {
        names.iter().any(|name| *name == self.name || *name == self.key)
    }
}

/// The changed definition of a pin, if it has one.
pub(super) fn waiting(key: &str, pin: &Pin) -> Option<Waiting> {
    let Change { sha256, at, text, .. } = pin.changed.as_ref()?;
    Some(Waiting {
        key: key.to_owned(),
        name: pin.shown.clone(),
        since: pin.since.clone(),
        at: at.clone(),
        sha256: sha256.clone(),
        before: pin.text.clone(),
        after: text.clone(),
    })
}

/// Under which key a definition is pinned. That of a tool is what older versions wrote.
pub(super) fn key(kind: Pinned, upstream: &str, own: &str) -> String {
    match kind {
        Pinned::Tool => format!("{upstream}/{own}"),
        Pinned::Prompt => format!("prompt:{upstream}/{own}"),
        Pinned::Instructions => format!("instructions:{upstream}"),
    }
}

/// Compares a definition with its pin, if it has one, and returns the pin from now on.
pub(super) fn compare(pin: Option<&Pin>, seen: &Definition, source: DefinitionSource) -> (Standing, Pin) {
    let sha256 = hash(&seen.text);
    let text = |longest: usize| (seen.text.len() <= longest).then(|| seen.text.clone());
    let fresh = |shown: String, since: String| Pin {
        shown,
        sha256: sha256.clone(),
        since,
        covers: Covers::Whole,
        text: text(LONGEST),
        changed: None,
    };
    let Some(pin) = pin else {
        let shown = seen.shown.clone().unwrap_or_else(|| key(seen.kind, &seen.upstream, &seen.own));
        return (Standing::Pinned, fresh(shown, utc::now()));
    };
    let shown = seen.shown.clone().unwrap_or_else(|| pin.shown.clone());
    let is_same = match pin.covers {
        Covers::Whole => pin.sha256 == sha256,
        Covers::Part => seen.narrow.as_ref().is_some_and(|narrow| pin.sha256 == hash(narrow)),
    };
    if is_same {
        // The rest of what only a part was pinned of is pinned now. A remembered list may be older than the change that
        // waits to be approved: only a session shows that the upstream took the change back.
        let changed = match source {
            DefinitionSource::Session => None,
            DefinitionSource::Routes => pin.changed.clone(),
        };
        return (Standing::Pinned, Pin { changed, ..fresh(shown, pin.since.clone()) });
    }
    let changed = match &pin.changed {
        // An older version may have recorded the change without its text, and listed it without showing it.
        Some(change) if change.sha256 == sha256 && change.text.is_none() => {
            Change { text: text(LONGEST_CHANGE), is_listed: false, ..change.clone() }
        }
        Some(change) if change.sha256 == sha256 => change.clone(),
        _ => Change { sha256, at: utc::now(), is_listed: false, text: text(LONGEST_CHANGE) },
    };
    let standing = Standing::Changed { name: shown.clone(), since: pin.since.clone() };
    (standing, Pin { shown, changed: Some(changed), ..pin.clone() })
}

/// A text's SHA-256 in hexadecimal.
pub(super) fn hash(text: &str) -> String {
    gladhand_core::hex::encode(digest(&SHA256, text.as_bytes()).as_ref())
}
