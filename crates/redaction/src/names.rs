//! Names that indicate that their value is a secret.

/// Words that make a name sensitive at any position.
const WORDS: [&str; 17] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "jwt",
    "otp",
    "pass",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "pwd",
    "sig",
    "signature",
];

/// The same, also at the end of a word, as in `accesstoken`.
const ENDINGS: [&str; 6] = ["token", "secret", "password", "apikey", "accesskey", "privatekey"];

/// The length in bytes of the shortest word above.
const SHORTEST_WORD: usize = 3;

/// A name that ends with one of these describes something about a secret, not the secret itself.
const ABOUT: [&str; 12] =
    ["count", "dir", "endpoint", "expires", "file", "limit", "name", "path", "ttl", "type", "uri", "url"];

/// Names whose number is a count or an id: of tests, of a key on a keyboard, of a signal, of a request in MCP.
const NUMBERED: [&str; 4] = ["key", "pass", "progress token", "sig"];

/// A container whose name ends with one of these describes secrets and contains none.
const DESCRIBING: [&str; 9] =
    ["details", "help", "methods", "schemes", "servers", "stats", "supported", "types", "usage"];

/// Whether a name (of a header, a variable, a flag, a query parameter or a member) indicates a secret value.
pub fn is_sensitive(name: &str) -> bool {
    if name.len() < SHORTEST_WORD {
        return false;
    }
    let lower = in_words(name);
    let words = || lower.split(' ').filter(|word| !word.is_empty());
    let Some(last) = words().next_back() else { return false };
    if ABOUT.contains(&last) || words().next() == Some("public") {
        return false;
    }
    last == "key" || words().any(is_secret)
}

/// Whether a number with this sensitive name is secret. It is not if the name ends with another word, as `auth_time`.
pub(crate) fn is_sensitive_number(name: &str) -> bool {
    let lower = in_words(name);
    let last = lower.split(' ').rfind(|word| !word.is_empty()).unwrap_or_default();
    (last == "key" || is_secret(last)) && !NUMBERED.contains(&lower.trim())
}

/// Whether everything in an array or an object with this sensitive name is secret.
pub(crate) fn is_sensitive_container(name: &str) -> bool {
    let lower = in_words(name);
    !lower.split(' ').rfind(|word| !word.is_empty()).is_some_and(|last| DESCRIBING.contains(&last))
}

/// Whether a word makes a name sensitive.
fn is_secret(word: &str) -> bool {
    WORDS.contains(&word) || ENDINGS.iter().any(|ending| word.ends_with(ending))
}

/// The words of a name in lower case, with blanks between them: `apiKey`, `API_KEY` and `api-key` have two.
fn in_words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for letter in name.chars() {
        let is_upper = letter.is_ascii_uppercase();
        if !letter.is_alphanumeric() || (was_lower && is_upper) {
            words.push(' ');
        }
        if letter.is_alphanumeric() {
            words.push(letter.to_ascii_lowercase());
        }
        was_lower = letter.is_alphanumeric() && !is_upper;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognised() {
        for name in [
            "token",
            "api_key",
            "apiKey",
            "APIKey",
            "X-Api-Key",
            "key",
            "access_token",
            "accesstoken",
            "clientSecret",
            "DB_PASSWORD",
            "--password",
            "pwd",
            "Authorization",
            "auth",
            "sig",
            "Set-Cookie",
            "GITHUB_PAT",
            "aws_secret_access_key",
        ] {
            assert!(is_sensitive(name), "{name}");
        }
        for name in [
            "",
            "tokens",
            "max_tokens",
            "token_type",
            "token-file",
            "publicKey",
            "monkey",
            "keyboard",
            "path",
            "author",
            "key_id",
            "session",
            "compass",
            "HOME",
        ] {
            assert!(!is_sensitive(name), "{name}");
        }
    }
}
