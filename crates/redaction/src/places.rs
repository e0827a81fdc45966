//! Finds secrets in configuration values, so that they can be moved to a secret store.
//!
//! The places do not overlap and are in order. References such as `${NAME}` are not secrets; `$${NAME}` is ordinary text.

use std::iter::once;
use std::ops::Range;

use crate::flags::in_words;
use crate::names::is_sensitive;
use crate::rules::{self, SCHEMES};

/// The secrets in each word of a command line.
pub fn places_in_words(words: &[String]) -> Vec<Vec<Range<usize>>> {
    let places = |(word, mut places): (&String, Vec<Range<usize>>)| {
        places.extend(rules::spans(word));
        merged(word, places)
    };
    words.iter().zip(in_words(words)).map(places).collect()
}

/// The secrets that the form of a text shows.
pub fn places_in_text(text: &str) -> Vec<Range<usize>> {
    merged(text, rules::spans(text))
}

/// The secrets in an environment variable of a program: the whole value if its name is sensitive.
pub fn places_in_variable(name: &str, value: &str) -> Vec<Range<usize>> {
    if is_sensitive(name) && !rules::has_reference(value, 0..value.len()) {
        return merged(value, once(0..value.len()));
    }
    places_in_text(value)
}

/// The secrets in a header. A scheme such as `Bearer` is not one.
pub fn places_in_header(name: &str, value: &str) -> Vec<Range<usize>> {
    if !is_sensitive(name) || rules::has_reference(value, 0..value.len()) {
        return places_in_text(value);
    }
    let scheme = value.split_once(' ').map(|(scheme, _)| scheme);
    let scheme = scheme.filter(|scheme| SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)));
    merged(value, once(scheme.map_or(0, |scheme| scheme.len() + 1)..value.len()))
}

/// Sorts the places, merges those that overlap or touch, and removes empty ones.
fn merged(text: &str, places: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let is_secret = |place: &Range<usize>| {
        text.get(place.clone()).is_some_and(|text| !text.is_empty()) && !rules::has_reference(text, place.clone())
    };
    let mut places: Vec<_> = places.into_iter().filter(is_secret).collect();
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for place in places {
        match merged.last_mut() {
            Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
            _ => merged.push(place),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_in_place_and_references_are_not_secrets() {
        let words = ["x", "--token", "hush-1", "--url=https://ann:pw@h/?api_key=hush-2&a=1", "--key", "${secret:k}"];
        let words = words.map(str::to_owned);
        fn at(text: &str, places: Vec<Range<usize>>) -> Vec<&str> {
            places.into_iter().map(|place| &text[place]).collect()
        }
        let found: Vec<_> =
            places_in_words(&words).into_iter().zip(&words).flat_map(|(one, word)| at(word, one)).collect();
        assert_eq!(found, ["hush-1", "ann:pw", "hush-2"]);
        for (name, value, secret) in [
            ("Authorization", "Bearer hush", Some("hush")),
            ("X-Api-Key", "hush", Some("hush")),
            ("Accept", "text/plain", None),
            ("Authorization", "Bearer ${T}", None),
            ("Authorization", "Bearer hush$${T}", Some("hush$${T}")),
        ] {
            assert_eq!(at(value, places_in_header(name, value)), Vec::from_iter(secret), "{name}");
        }
        for (name, value, secret) in [
            ("API_KEY", "hush", Some("hush")),
            ("API_KEY", "", None),
            ("API_KEY", "hush$${T}", Some("hush$${T}")),
            ("API_KEY", "hush${T}", None),
            ("LEVEL", "debug", None),
            ("DATABASE_URL", "postgres://ann:pw@db/x", Some("ann:pw")),
        ] {
            assert_eq!(at(value, places_in_variable(name, value)), Vec::from_iter(secret), "{name}");
        }
    }
}
