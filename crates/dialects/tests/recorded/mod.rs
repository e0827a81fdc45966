//! Loads recorded sessions, and compares JSON including the order of members.

#![allow(dead_code, reason = "each test that includes this module uses a part of it")]

use std::fmt;
use std::path::Path;

use gladhand_core::wire::json::{Kind, RawValue};
use gladhand_core::wire::{Members, json};

/// One line of a transcript.
#[derive(Debug)]
pub(crate) enum Entry {
    /// Bytes that the client wrote.
    ToServer(Vec<u8>),
    /// A line that the server wrote.
    FromServer(String),
    /// Any other line, unchanged.
    Control(serde_json::Value),
}

/// Loads `transcripts/<dialect>/<file>`. `end` is appended to `raw` lines without a terminator.
pub(crate) fn load(dialect: &str, file: &str, end: &str) -> Vec<Entry> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts").join(dialect).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| entry(line, end)).collect()
}

/// The transcripts of a dialect, by name.
pub(crate) fn files(dialect: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts").join(dialect);
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".ndjson"))
        .collect();
    names.sort();
    names
}

fn entry(line: &str, end: &str) -> Entry {
    let members = Members::parse(line).unwrap();
    let message = members.raw("msg").map(|raw| raw.get().to_owned());
    match (members.str("dir").as_deref(), message) {
        (Some("c2s"), Some(message)) => Entry::ToServer(format!("{message}\n").into_bytes()),
        (Some("c2s"), None) => Entry::ToServer(match members.str("raw") {
            Some(raw) => format!("{raw}{end}").into_bytes(),
            None => {
                let mut bytes = unhex(&members.str("raw_hex").unwrap());
                bytes.extend_from_slice(end.as_bytes());
                bytes
            }
        }),
        (Some("s2c"), Some(message)) => Entry::FromServer(message),
        _ => Entry::Control(serde_json::from_str(line).unwrap()),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// JSON that keeps the order of members. Numbers keep their notation, strings do not.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Tree {
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    Text(String),
    Other(String),
}

impl Tree {
    pub(crate) fn parse(text: &str) -> Self {
        Self::of(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}")))
    }

    fn of(raw: &RawValue) -> Self {
        match Kind::of(raw) {
            Kind::Object => {
                let members = Members::of(raw).unwrap();
                Self::Object(members.iter().map(|(name, value)| (name.to_owned(), Self::of(value))).collect())
            }
            Kind::Array => {
                let items: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap();
                Self::Array(items.into_iter().map(Self::of).collect())
            }
            Kind::String => Self::Text(json::string(raw).map_or_else(|| raw.get().to_owned(), Into::into)),
            _ => Self::Other(raw.get().to_owned()),
        }
    }

    /// The value at a path of member names.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        match self {
            Self::Object(members) => members.iter().find(|(name, _)| name == first)?.1.at(rest),
            _ => None,
        }
    }

    pub(crate) fn text_at(&self, path: &[&str]) -> Option<&str> {
        match self.at(path)? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Changes every value that is a member, innermost first.
    pub(crate) fn map_members(&mut self, change: &mut impl FnMut(&str, &mut Self)) {
        match self {
            Self::Object(members) => {
                for (name, value) in members {
                    value.map_members(change);
                    change(name, value);
                }
            }
            Self::Array(items) => {
                for item in items {
                    item.map_members(change);
                    change("", item);
                }
            }
            Self::Text(_) | Self::Other(_) => {}
        }
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(members) => f.debug_map().entries(members.iter().map(|(name, value)| (name, value))).finish(),
            Self::Array(items) => f.debug_list().entries(items).finish(),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}
