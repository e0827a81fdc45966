//! Rewrites serde's messages for users, without the value that they quote, which may be a secret.

use super::spelling::nearest;

/// The message for people.
pub(super) fn told(message: &str) -> String {
    let named = |beginning: &str| message.strip_prefix(beginning)?.split_once('`');
    if let Some((key, rest)) = named("unknown field `") {
        return unknown_key(key, &quoted(rest));
    }
    if let Some((value, rest)) = named("unknown variant `") {
        return format!("`{value}` cannot be said here: expected {}", one_of(&quoted(rest)));
    }
    if let Some((key, _)) = named("missing field `") {
        return format!("`{key}` is missing");
    }
    let first = message.lines().next().unwrap_or_default();
    let quotes_a_value = ["invalid type", "invalid value"].iter().any(|beginning| first.starts_with(beginning));
    match first.rfind("expected ").map(|at| &first[at + "expected ".len()..]) {
        Some(expected) if quotes_a_value => format!("expected {}", kind(expected)),
        _ => first.to_owned(),
    }
}

/// The key that a message about a missing key names.
pub(super) fn missing(message: &str) -> Option<&str> {
    Some(message.strip_prefix("missing field `")?.split_once('`')?.0)
}

/// A kind of value, as serde names it.
fn kind(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    }
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    match nearest(key, known.iter().copied()) {
        Some(nearest) => format!("there is no key `{key}`: did you mean `{nearest}`?"),
        None if known.is_empty() => format!("there is no key `{key}`"),
        None => format!("there is no key `{key}`: expected {}", one_of(known)),
    }
}

/// The texts between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn one_of(names: &[&str]) -> String {
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
    fn serde_is_put_into_words() {
        for (said, words) in [
            ("invalid type: string \"hush\", expected a sequence", "expected a list"),
            ("invalid type: integer `5`, expected a boolean", "expected true or false"),
            ("invalid type: integer `5`, expected struct Limits", "expected a table"),
            ("invalid value: integer `-5`, expected u32", "expected a whole number"),
            ("unknown field `hid`, expected one of `only`, `hide`", "there is no key `hid`: did you mean `hide`?"),
            ("unknown field `xyz`, expected `only` or `hide`", "there is no key `xyz`: expected `only` or `hide`"),
            ("unknown field `xyz`, there are no fields", "there is no key `xyz`"),
            ("unknown variant `no`, expected `a` or `b`", "`no` cannot be said here: expected `a` or `b`"),
            ("missing field `effect`", "`effect` is missing"),
            ("a limit needs one of `calls`", "a limit needs one of `calls`"),
        ] {
            assert_eq!(told(said), words);
        }
    }
}
