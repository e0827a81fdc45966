//! The paths that a server may derive from a text: the path as written, the path of a `file:` URL, and both with
//! percent escapes decoded. A rule that allows a path must hold for all of them, because the hub does not know which
//! one the server uses.

/// How many levels of nested escapes are decoded. Deeper nesting is treated as an attempt to deceive.
const ROUNDS: usize = 4;

/// All paths that a text may refer to; empty if it contains something that no honest path contains.
pub(super) fn readings(text: &str) -> Vec<String> {
    let mut readings = match after_scheme(text) {
        None => vec![text.to_owned()],
        // A server that does not know queries and fragments treats them as a part of the path.
        Some(url) => match path_of(url) {
            Some(path) => vec![path.to_owned(), path.split(['?', '#']).next().unwrap_or_default().to_owned()],
            None => return Vec::new(),
        },
    };
    let mut newest = 0;
    for round in 0.. {
        let undone: Option<Vec<_>> = readings[newest..].iter().map(|path| unescaped(path)).collect();
        // An escape that is not valid text.
        let Some(undone) = undone else { return Vec::new() };
        let undone: Vec<_> = undone.into_iter().flatten().collect();
        if undone.is_empty() {
            break;
        }
        if round == ROUNDS {
            return Vec::new();
        }
        newest = readings.len();
        readings.extend(undone);
    }
    if readings.iter().any(|path| path.contains('\0')) { Vec::new() } else { readings }
}

/// The rest after `file:`, in upper or lower case.
fn after_scheme(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let (scheme, rest) = text.split_at_checked(5)?;
    scheme.eq_ignore_ascii_case("file:").then_some(rest)
}

/// The path of a `file:` URL; `None` if it is on another machine.
fn path_of(url: &str) -> Option<&str> {
    match url.strip_prefix("//") {
        None => Some(url),
        Some(rest) => {
            let (host, path) = rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()));
            (host.is_empty() || host.eq_ignore_ascii_case("localhost")).then_some(path)
        }
    }
}

/// The path with its percent escapes decoded once: `Some(None)` if it has none, `None` if they are not valid text.
fn unescaped(path: &str) -> Option<Option<String>> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = rest.get(1..3).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    if bytes.len() == path.len() {
        return Some(None);
    }
    String::from_utf8(bytes).ok().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_every_reading_that_a_server_may_use() {
        for (text, all) in [
            ("/a", vec!["/a"]),
            ("100%", vec!["100%"]),
            ("/a%20b", vec!["/a%20b", "/a b"]),
            ("/%252e", vec!["/%252e", "/%2e", "/."]),
            ("File:///a", vec!["/a", "/a"]),
            (" file://localhost/a?b#c", vec!["/a?b#c", "/a"]),
            ("file:a", vec!["a", "a"]),
            ("file://elsewhere/a", vec![]),
            ("/a%00", vec![]),
            ("/%c0%ae", vec![]),
            ("/%2525252525252e", vec![]),
        ] {
            assert_eq!(readings(text), all, "{text}");
        }
    }
}
