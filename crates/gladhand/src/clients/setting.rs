//! Settings of a server that is taken over, before they are written.
//!
//! A text is a list of pieces: what stands for itself, and references in our form. It is escaped when it is written, as the last step.
//! Nothing edits text that is escaped already: a cut between the two `$` of `$${NAME}` would make a reference of it.

use std::cell::Cell;
use std::ops::Range;

use gladhand_core::Secret;
use serde_json::Value;

use crate::config::expand::{Lookup, expand};

/// A setting whose texts may have references.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setting {
    Text(Text),
    List(Vec<Self>),
    Table(Vec<(String, Self)>),
    /// A number, a boolean or nothing.
    Other(Value),
}

impl Setting {
    /// The setting for a value whose strings become texts in this way.
    pub(super) fn new(value: Value, text: &mut impl FnMut(&str) -> Text) -> Self {
        match value {
            Value::String(string) => Self::Text(text(&string)),
            Value::Array(items) => Self::List(items.into_iter().map(|item| Self::new(item, text)).collect()),
            Value::Object(members) => {
                Self::Table(members.into_iter().map(|(name, member)| (name, Self::new(member, text))).collect())
            }
            other => Self::Other(other),
        }
    }

    /// The text, if it is one.
    pub(super) fn text(&self) -> Option<&Text> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The value as a configuration file has it.
    pub(super) fn written(&self) -> Value {
        match self {
            Self::Text(text) => Value::String(text.written()),
            Self::List(items) => items.iter().map(Self::written).collect(),
            Self::Table(members) => {
                members.iter().map(|(name, member)| (name.clone(), member.written())).collect::<Value>()
            }
            Self::Other(value) => value.clone(),
        }
    }

    /// Whether the written value refers only to what its texts refer to.
    pub(super) fn refers_to_its_own(&self) -> bool {
        match self {
            Self::Text(text) => text.refers_to_its_own(),
            Self::List(items) => items.iter().all(Self::refers_to_its_own),
            Self::Table(members) => members.iter().all(|(_, member)| member.refers_to_its_own()),
            Self::Other(_) => true,
        }
    }
}

/// A text with references.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Literal text. No two of these follow each other: together they may look like a reference.
    Plain(String),
    /// The text between `${` and `}`.
    Reference(String),
}

impl Text {
    /// A text without references.
    pub(super) fn plain(text: &str) -> Self {
        let mut whole = Self::default();
        whole.push_plain(text);
        whole
    }

    pub(super) fn push_plain(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Plain(last)) => last.push_str(text),
            _ => self.0.push(Piece::Plain(text.to_owned())),
        }
    }

    pub(super) fn push_reference(&mut self, reference: String) {
        self.0.push(Piece::Reference(reference));
    }

    /// The whole text, if it has no reference.
    pub(super) fn as_plain(&self) -> Option<&str> {
        match &self.0[..] {
            [] => Some(""),
            [Piece::Plain(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether it begins with a reference or with `/`, so that it may be an absolute path.
    pub(super) fn may_be_absolute(&self) -> bool {
        self.0.first().is_some_and(|first| match first {
            Piece::Plain(text) => text.starts_with('/'),
            Piece::Reference(_) => true,
        })
    }

    /// The same text behind another one.
    pub(super) fn behind(self, before: &str) -> Self {
        let mut whole = Self::plain(before);
        for piece in self.0 {
            match piece {
                Piece::Plain(text) => whole.push_plain(&text),
                Piece::Reference(reference) => whole.push_reference(reference),
            }
        }
        whole
    }

    /// The text as a configuration file has it.
    pub(super) fn written(&self) -> String {
        self.joined(escaped)
    }

    /// The text for a search for secrets, in which only references look like one. It has the length of the unescaped text, so
    /// places in it are places for [`Text::replace`] and [`Text::slices`].
    pub(super) fn searched(&self) -> String {
        self.joined(|text| text.replace("${", "$("))
    }

    fn joined(&self, plain: impl Fn(&str) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Plain(text) => plain(text),
            Piece::Reference(reference) => format!("${{{reference}}}"),
        };
        self.0.iter().map(piece).collect()
    }

    /// The text at these places, unescaped.
    pub(super) fn slices(&self, places: &[Range<usize>]) -> Vec<String> {
        let whole = self.joined(str::to_owned);
        places.iter().filter_map(|place| whole.get(place.clone()).map(str::to_owned)).collect()
    }

    /// Puts references in these places, which are in order. A place inside of a reference is left as it is. `name` gets what
    /// stood in the place, and returns the reference.
    pub(super) fn replace<E>(
        &mut self,
        places: &[Range<usize>],
        mut name: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<(), E> {
        let (mut replaced, mut begin) = (Self::default(), 0);
        for piece in &self.0 {
            let text = match piece {
                Piece::Plain(text) => text,
                Piece::Reference(reference) => {
                    begin += reference.len() + "${}".len();
                    replaced.push_reference(reference.clone());
                    continue;
                }
            };
            let mut done = 0;
            for place in places {
                let end = place.end.saturating_sub(begin).min(text.len());
                let start = place.start.saturating_sub(begin).max(done);
                if start >= end {
                    continue;
                }
                // A `$` right before a reference would escape it.
                let start = done + text[done..start].trim_end_matches('$').len();
                replaced.push_plain(&text[done..start]);
                replaced.push_reference(name(&text[start..end])?);
                done = end;
            }
            replaced.push_plain(&text[done..]);
            begin += text.len();
        }
        *self = replaced;
        Ok(())
    }

    /// Whether the written text, read as a configuration file is, refers only to what this text refers to.
    fn refers_to_its_own(&self) -> bool {
        let is_own = Cell::new(true);
        let has = |fits: &dyn Fn(&str) -> bool| {
            let fits = |piece: &Piece| matches!(piece, Piece::Reference(reference) if fits(reference));
            is_own.set(is_own.get() && self.0.iter().any(fits));
        };
        let variable = |name: &str| {
            has(&|reference| reference.split(":-").next() == Some(name));
            Some(String::new())
        };
        let secret = |name: &str| {
            has(&|reference| reference.strip_prefix("secret:") == Some(name));
            Ok(Secret::new(""))
        };
        // References that cannot be read are left as they are, and refer to nothing.
        let _ = expand(&self.written(), &Lookup { variable: &variable, secret: &secret, authorities: &|_| Ok(()) });
        is_own.get()
    }
}

/// A text in which nothing is a reference.
pub(super) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn text(pieces: &[&str]) -> Text {
        let mut text = Text::default();
        for piece in pieces {
            match piece.strip_prefix("ref:") {
                Some(reference) => text.push_reference(reference.to_owned()),
                None => text.push_plain(piece),
            }
        }
        text
    }

    #[test]
    fn a_place_that_is_replaced_makes_no_reference_of_the_text_around_it() {
        for (pieces, place, kept, written) in [
            (&["hush${secret:a}"][..], 0..4, &["hush"][..], "${new}$${secret:a}"),
            (&["hush${secret:a}"], 0..5, &["hush$"], "${new}{secret:a}"),
            (&["a$hush"], 2..6, &["$hush"], "a${new}"),
            (&["a$$", "{hush}"], 3..9, &["$${hush}"], "a${new}"),
            (&["a", "ref:HOME", "b"], 0..9, &["a", "b"], "${new}${HOME}${new}"),
            (&["a", "ref:T:-hush", "b"], 6..10, &[], "a${T:-hush}b"),
        ] {
            let (mut text, mut all) = (text(pieces), Vec::new());
            let keep = |secret: &str| {
                all.push(secret.to_owned());
                Ok::<_, Infallible>("new".to_owned())
            };
            text.replace(&[place], keep).unwrap();
            assert_eq!(text.written(), written, "{pieces:?}");
            assert_eq!(all, kept, "{pieces:?}");
            assert!(text.refers_to_its_own(), "{written}");
        }
    }

    #[test]
    fn a_written_text_that_refers_to_more_is_noticed() {
        assert!(text(&["${secret:a}$${B}", "ref:HOME", "ref:GH:-x", "ref:secret:b"]).refers_to_its_own());
        // A reference that brings along another one stands for an escape that failed.
        for reference in ["A}${secret:b", "secret:a}${B"] {
            assert!(!Text(vec![Piece::Reference(reference.to_owned())]).refers_to_its_own(), "{reference}");
        }
        // So do two plain pieces that follow each other.
        let split = ["$", "{secret:b}"].map(|text| Piece::Plain(text.to_owned()));
        assert!(!Text(split.into()).refers_to_its_own());
    }
}
