//! Compares ids by value, independent of their notation.
//!
//! We echo ids exactly, but some peers do not: they return `1.0` for `1`, or `"\u0061"` for `"a"`.

use std::borrow::Cow;

/// Whether two raw ids are equal as JSON values.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (one.starts_with('"'), other.starts_with('"')) {
        (true, true) => {
            let text = |raw| serde_json::from_str::<String>(raw).ok();
            (one.contains('\\') || other.contains('\\')) && text(one).is_some_and(|one| Some(one) == text(other))
        }
        (false, false) => integer(one).is_some_and(|one| Some(one) == integer(other)),
        _ => false,
    }
}

/// The digits of an integer, independent of its notation. `None` for any other value.
fn integer(raw: &str) -> Option<Cow<'_, str>> {
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Cow::Borrowed(if digits == "0" { digits } else { raw }));
    }
    // Beyond 2^53, a float does not identify a single integer, and peers do not rewrite such ids.
    let float: f64 = raw.parse().ok()?;
    (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then(|| Cow::Owned((float as i64).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_if_they_are_equal_as_json() {
        let same = [("1", "1"), ("1", "1.0"), ("1e3", "1000"), ("-0", "0"), (r#""ab""#, r#""a\u0062""#)];
        let different = [
            ("1", "2"),
            ("1", r#""1""#),
            ("1.5", "1"),
            (r#""a""#, r#""A""#),
            ("9007199254740993", "9007199254740992"),
            ("null", "null "),
            ("1e999", "2e999"),
        ];
        for (one, other) in same {
            assert!(is_same(one, other) && is_same(other, one), "{one} {other}");
        }
        for (one, other) in different {
            assert!(!is_same(one, other) && !is_same(other, one), "{one} {other}");
        }
    }
}
