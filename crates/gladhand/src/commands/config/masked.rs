//! The text of a configuration file of the user, without the tokens in it.
//!
//! Only a value that no program gets as a word or as a variable is masked, so that nothing hides what an upstream runs. A
//! mask has a fingerprint of its value: values that differ are shown differently.

use std::ops::Range;

use gladhand_core::Order as _;
use gladhand_redaction::{MASK, is_sensitive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::clients::record::fingerprint;

/// Characters of a fingerprint that are shown.
const SHOWN: usize = 12;

/// The text with a mask for each token. Text that is no TOML stays as it is.
pub(super) fn masked(text: &str) -> String {
    let Ok(root) = DeTable::parse(text) else { return text.to_owned() };
    let mut tokens = Vec::new();
    for (key, value) in root.get_ref() {
        collect(value, &mut vec![key.get_ref().as_ref()], &mut tokens);
    }
    tokens.order_by_key(|(span, _)| span.start);
    let mut masked = text.to_owned();
    for (span, value) in tokens.into_iter().rev() {
        let mark = fingerprint(value).chars().take(SHOWN).collect::<String>();
        masked.replace_range(span, &format!("\"{MASK} (SHA-256 {mark})\""));
    }
    masked
}

/// The tokens in a value, with their places. Items of a list have the path of the list.
fn collect<'v>(value: &'v Spanned<DeValue<'_>>, path: &mut Vec<&'v str>, tokens: &mut Vec<(Range<usize>, &'v str)>) {
    match value.get_ref() {
        DeValue::String(text) if is_token(path) && !text.contains("${") => tokens.push((value.span(), text)),
        DeValue::Array(items) => items.iter().for_each(|item| collect(item, path, tokens)),
        DeValue::Table(members) => {
            for (key, value) in members {
                path.push(key.get_ref().as_ref());
                collect(value, path, tokens);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Whether the setting with this path is a token.
fn is_token(path: &[&str]) -> bool {
    match path {
        ["upstreams", _, "bearer"] | ["authorization" | "a2e", .., "token"] | ["a2e", "tokens"] => true,
        ["upstreams", _, "headers", name] => is_sensitive(name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_masked_and_nothing_that_runs() {
        let text = "[upstreams.a] # mine\nurl = 'https://a.example'\nbearer = 'hush-1'\nheaders = { Authorization = 'hush-2', X = 'y' }\n\
                    [upstreams.b]\ncommand = ['sh', '-c', '''\nbearer = 'seen'\n''']\nenv = { bearer = 'seen-2', token = 'seen-3' }\n\
                    bearer = '${secret:b}'\n[[authorization.tokens]]\nname = 'ann'\ntoken = '''hush-3'''\n[a2e]\ntokens = ['hush-4']\n";
        let shown = masked(text);
        assert!(!shown.contains("hush") && shown.matches("\"*** (SHA-256 ").count() == 4, "{shown}");
        for kept in ["# mine", "X = 'y'", "bearer = 'seen'", "'seen-2'", "'seen-3'", "${secret:b}", "name = 'ann'"] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        assert_ne!(masked("upstreams.a.bearer = 'x'"), masked("upstreams.a.bearer = 'y'"), "they differ");
        assert_eq!(masked("bearer = "), "bearer = ");
    }
}
