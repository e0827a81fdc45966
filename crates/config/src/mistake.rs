//! The mistakes that a key or a value can contain, and their messages.

use std::fmt;

use super::spelling::nearest;

/// A mistake in a key or a value. Of values, only words that are none of a few known ones are quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mistake<'s> {
    /// There is no such key.
    UnknownKey { key: &'s str, known: Vec<&'s str> },
    /// A key that must be there is not.
    MissingKey(&'s str),
    /// The value is of another kind.
    Expected(String),
    /// The value is none of these words.
    UnknownWord { key: &'s str, word: &'s str, known: Vec<&'s str> },
    /// The number is too small or too large.
    OutOfRange { least: Option<String>, most: Option<String>, advice: Option<&'s str> },
}

impl fmt::Display for Mistake<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { key, known } => match nearest(key, known.iter().copied()) {
                Some(nearest) => write!(f, "there is no key `{key}`: did you mean `{nearest}`?"),
                None if known.is_empty() => write!(f, "there is no key `{key}`"),
                None => write!(f, "there is no key `{key}`: expected {}", one_of(known)),
            },
            Self::MissingKey(key) => write!(f, "`{key}` is missing"),
            Self::Expected(kind) => write!(f, "expected {kind}"),
            Self::UnknownWord { key, word, known } => {
                write!(f, "invalid value `{word}` for `{key}`: expected {}", one_of(known))
            }
            Self::OutOfRange { least, most, advice } => {
                match (least.as_deref(), most.as_deref()) {
                    (least, Some(most)) => write!(f, "must be from {} to {most}", least.unwrap_or("0"))?,
                    (least, None) => write!(f, "must be at least {}", least.unwrap_or("0"))?,
                }
                advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
        }
    }
}

/// Names in backticks, the last one after "or".
pub(crate) fn one_of(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        Some((last, _)) => last.clone(),
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_has_its_message() {
        let known = vec!["only", "hide"];
        let range = |least: Option<u64>, most: Option<u64>| Mistake::OutOfRange {
            least: least.map(|least| least.to_string()),
            most: most.map(|most| most.to_string()),
            advice: None,
        };
        for (mistake, words) in [
            (Mistake::UnknownKey { key: "hid", known: known.clone() }, "there is no key `hid`: did you mean `hide`?"),
            (
                Mistake::UnknownKey { key: "xyz", known: known.clone() },
                "there is no key `xyz`: expected `only` or `hide`",
            ),
            (Mistake::UnknownKey { key: "xyz", known: Vec::new() }, "there is no key `xyz`"),
            (
                Mistake::UnknownWord { key: "a.b", word: "no", known },
                "invalid value `no` for `a.b`: expected `only` or `hide`",
            ),
            (Mistake::MissingKey("effect"), "`effect` is missing"),
            (range(Some(1), Some(5)), "must be from 1 to 5"),
            (range(Some(0), Some(5)), "must be from 0 to 5"),
            (range(Some(1), None), "must be at least 1"),
        ] {
            assert_eq!(mistake.to_string(), words);
        }
    }
}
