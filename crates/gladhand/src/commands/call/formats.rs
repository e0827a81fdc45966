//! The formats of text that `elicitation/create` knows: `email`, `uri`, `date` and `date-time`.
//!
//! A check finds typing mistakes before the server does. The server remains the judge of what it accepts.

use url::Url;

/// A format that text is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Email,
    Uri,
    Date,
    DateTime,
}

impl Format {
    /// The format of a name in a schema; none for one that is not checked.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "email" => Self::Email,
            "uri" => Self::Uri,
            "date" => Self::Date,
            "date-time" => Self::DateTime,
            _ => return None,
        })
    }

    /// An example of the format, for users.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Email => "an email address",
            Self::Uri => "a URI such as https://example.org/",
            Self::Date => "a date such as 2026-01-31",
            Self::DateTime => "a time such as 2026-01-31T12:00:00Z",
        }
    }

    /// Whether a text has this format.
    pub(super) fn fits(self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Uri => Url::parse(text).is_ok(),
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text),
        }
    }
}

fn is_email(text: &str) -> bool {
    let is_fine = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
    text.rsplit_once('@').is_some_and(|(name, host)| is_fine(name) && is_fine(host) && !name.contains('@'))
}

/// `2026-01-31`, a day that the month has.
fn is_date(text: &str) -> bool {
    let Some([year, month, day]) = numbers(text, '-', [4, 2, 2]) else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// A date and a time with its offset, as RFC 3339 has it.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let (time, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, "00:00"),
        None => match time.rfind(['+', '-']) {
            Some(at) => (&time[..at], &time[at + 1..]),
            None => return false,
        },
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let is_time = numbers(time, ':', [2, 2, 2]).is_some_and(|[h, m, s]| h < 24 && m < 60 && s <= 60);
    let is_offset = numbers(offset, ':', [2, 2]).is_some_and(|[h, m]| h < 24 && m < 60);
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    is_date(date) && is_time && is_fraction && is_offset
}

/// Numbers with these counts of digits, and a character between them.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u32; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(between);
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_formats_accept_valid_values_and_refuse_similar_ones() {
        for (format, good, bad) in [
            ("email", &["a@b", "ann.b+c@example.org"][..], &["ann", "@b", "a@", "a b@c", "a@b@c"][..]),
            ("uri", &["https://example.org/x", "mailto:a@b", "urn:x:y"], &["example.org", "/x", ""]),
            (
                "date",
                &["2024-02-29", "2026-12-31"],
                &["2026-02-29", "2026-13-01", "31.12.2026", "2026-1-1", "2026-01-00"],
            ),
            (
                "date-time",
                &["2026-01-31T12:00:00Z", "2026-01-31t23:59:60.5+01:00"],
                &[
                    "2026-01-31",
                    "2026-01-31T12:00Z",
                    "2026-01-31T12:00:00",
                    "2026-01-31T24:00:00Z",
                    "2026-01-31T12:00:00.Z",
                ],
            ),
        ] {
            let format = Format::named(format).unwrap();
            good.iter().for_each(|text| assert!(format.fits(text), "{format:?} {text}"));
            bad.iter().for_each(|text| assert!(!format.fits(text), "{format:?} {text}"));
        }
        assert_eq!(Format::named("hostname"), None);
    }
}
