//! What serde says of a mistake, in words that people use, and without the value that it says it of: that may be a secret.

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

/// The key that a complaint of a missing one names.
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
    let nearest = known.iter().map(|known| (distance(key, known), known)).min();
    match nearest {
        // A third of it may be wrong.
        Some((distance, nearest)) if distance <= (key.chars().count() / 3).max(1) => {
            format!("there is no key `{key}`: did you mean `{nearest}`?")
        }
        Some(_) => format!("there is no key `{key}`: expected {}", one_of(known)),
        None => format!("there is no key `{key}`"),
    }
}

/// What stands between backticks.
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

/// How many letters must be added, taken away, changed or swapped with the next to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<_>, Vec<_>) = (one.chars().collect(), other.chars().collect());
    // What it takes to make the beginning of the one, row by row, that of the other, column by column.
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for at in 1..=one.len() {
        let mut row = vec![at];
        for to in 1..=other.len() {
            let before = &rows[at - 1];
            let changed = before[to - 1] + usize::from(one[at - 1] != other[to - 1]);
            let mut least = changed.min(before[to] + 1).min(row[to - 1] + 1);
            if at > 1 && to > 1 && one[at - 1] == other[to - 2] && one[at - 2] == other[to - 1] {
                least = least.min(rows[at - 2][to - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
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

    #[test]
    fn words_are_as_far_apart_as_their_letters() {
        assert_eq!(distance("max_paralel", "max_parallel"), 1);
        assert_eq!(distance("fiel", "file"), 1);
        assert_eq!((distance("", "abc"), distance("abc", ""), distance("kitten", "sitting")), (3, 3, 3));
    }
}
