//! Values that follow a flag: `--token x`, `--header 'Name: x'`, and `-px` of MySQL.
//!
//! In a command line, the word after such a flag is its value. In free text, the flag may be part of a sentence
//! (`--token is missing`), and then the next word is not a value.

use std::ops::Range;

use crate::names::is_sensitive;
use crate::rules::{self, SCHEMES, quoted, value_end};

/// Words that follow the name of a flag in a sentence, or stand for its value in a description. They are not values.
const NOT_VALUES: [&str; 52] = [
    "a",
    "again",
    "and",
    "argument",
    "arguments",
    "as",
    "at",
    "by",
    "can",
    "cannot",
    "does",
    "expects",
    "file",
    "first",
    "flag",
    "flags",
    "for",
    "from",
    "given",
    "has",
    "header",
    "if",
    "in",
    "instead",
    "is",
    "key",
    "must",
    "name",
    "needs",
    "not",
    "of",
    "on",
    "once",
    "option",
    "options",
    "or",
    "password",
    "requires",
    "secret",
    "should",
    "text",
    "the",
    "to",
    "token",
    "twice",
    "value",
    "was",
    "were",
    "when",
    "with",
    "without",
    "yourself",
];

/// Programs whose `-pVALUE` is a password.
const MYSQL: [&str; 14] = [
    "mysql",
    "mysqladmin",
    "mysqlcheck",
    "mysqldump",
    "mysqlimport",
    "mysqlpump",
    "mysqlshow",
    "mysqlslap",
    "mariadb",
    "mariadb-admin",
    "mariadb-check",
    "mariadb-dump",
    "mariadb-import",
    "mariadb-show",
];

/// The flags of curl whose value is a user and a password.
const CURL_USER: [&str; 4] = ["-u", "--user", "-U", "--proxy-user"];

/// Finds values of flags in free text.
pub(crate) fn in_text(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if !text.contains('-') {
        return found;
    }
    let (mut covered, mut is_mysql, mut is_curl) = (0, false, false);
    for (at, word) in words_of(text) {
        is_mysql |= is_mysql_program(word);
        // The next command of a shell is another program.
        is_curl = (is_curl || is_curl_program(word)) && !word.ends_with([';', '|', '&']);
        if at < covered {
            continue;
        }
        if let Some(value) = mysql_password(word).filter(|_| is_mysql) {
            found.push(at + value.start..at + value.end);
        }
        let flag = word.trim_start_matches(['"', '\'', '`', '(', '[']);
        let behind = at + word.len();
        // The value of a flag is on the same line.
        let begin = text.len() - text[behind..].trim_start_matches(' ').len();
        let is_user = is_curl && CURL_USER.contains(&flag);
        if !(announces(flag) || is_user) || begin == behind || text[begin..].starts_with(['-', '\n', '\r']) {
            continue;
        }
        let mut value = quoted(text, begin).unwrap_or_else(|| begin..value_end(text, begin));
        covered = value.end;
        if is_user {
            let Some(colon) = text[value.clone()].find(':') else { continue };
            value.start += colon + 1;
        }
        if is_value(&text[value.clone()]) {
            found.push(value);
        }
    }
    found
}

/// Finds values of flags in each word of a command line.
pub(crate) fn in_words(words: &[String]) -> Vec<Vec<Range<usize>>> {
    let mut line = CommandLine::default();
    words.iter().map(|word| line.secrets_in(word)).collect()
}

/// A command line, read word by word.
#[derive(Default)]
pub(crate) struct CommandLine {
    before: Before,
    is_mysql: bool,
    is_curl: bool,
}

/// What the previous word says about the next one.
#[derive(Default)]
enum Before {
    #[default]
    Nothing,
    /// The next word is a header.
    Header,
    /// The next word is a user and a password.
    User,
    /// The next word is a secret.
    Secret,
}

impl CommandLine {
    /// Finds the secrets in the next word.
    pub(crate) fn secrets_in(&mut self, word: &str) -> Vec<Range<usize>> {
        let next = match word {
            "-H" | "--header" => Before::Header,
            word if self.is_curl && CURL_USER.contains(&word) => Before::User,
            word if announces(word) => Before::Secret,
            _ => Before::Nothing,
        };
        let before = std::mem::replace(&mut self.before, next);
        let attached = mysql_password(word).filter(|_| self.is_mysql);
        self.is_mysql |= is_mysql_program(word);
        self.is_curl |= is_curl_program(word);
        let begin = match before {
            Before::Header => word.find(':').map(|colon| word.len() - word[colon + 1..].trim_start().len()),
            Before::User => word.find(':').map(|colon| colon + 1),
            Before::Secret if !word.starts_with('-') => Some(0),
            _ => attached.map(|value| value.start),
        };
        let Some(begin) = begin else { return Vec::new() };
        let scheme = word[begin..].split_once(' ').map(|(scheme, _)| scheme);
        let scheme = scheme.filter(|scheme| SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)));
        rules::literals(word, begin + scheme.map_or(0, |scheme| scheme.len() + 1)..word.len())
    }
}

/// Whether a word is a flag whose value, a secret, is the next word.
fn announces(word: &str) -> bool {
    let is_flag =
        word.starts_with('-') && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    is_flag && !word.ends_with('.') && is_sensitive(word)
}

/// Whether the text after a flag is its value, and not a word of a sentence or a placeholder.
pub(crate) fn is_value(text: &str) -> bool {
    let is_placeholder = text.starts_with(['<', '[', '(', '…']) || !text.contains(char::is_alphanumeric);
    let word = text.trim_end_matches(['.', ':', '?', '!']);
    !is_placeholder && !NOT_VALUES.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// The password in `-pPASSWORD`.
fn mysql_password(word: &str) -> Option<Range<usize>> {
    let value = word.strip_prefix("-p").filter(|value| !value.is_empty())?;
    Some(word.len() - value.len()..word.len())
}

/// Whether a word is the name of one of these programs, or a path to it.
fn is_mysql_program(word: &str) -> bool {
    word.len() >= MYSQL[0].len() && MYSQL.contains(&program(word))
}

fn is_curl_program(word: &str) -> bool {
    word.len() >= CURL.len() && program(word) == CURL
}

const CURL: &str = "curl";

/// The name of a program without its path. A quote may precede it, as in JSON in a text.
fn program(word: &str) -> &str {
    let quotes = ['"', '\'', '`', '('];
    word.trim_matches(quotes).rsplit(|c| c == '/' || quotes.contains(&c)).next().unwrap_or_default()
}

/// The words between whitespace, with their byte offsets.
fn words_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(|word| (word.as_ptr().addr() - text.as_ptr().addr(), word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact;

    #[test]
    fn values_of_flags_are_masked_in_free_text() {
        for (text, shown) in [
            ("server --password hush -x", "server --password *** -x"),
            ("could not start `srv --token hush`", "could not start `srv --token ***`"),
            ("srv --api-key 'hu sh' --verbose", "srv --api-key '***' --verbose"),
            ("srv -token hunter2", "srv -token ***"),
            ("srv --token ${secret:t} x", "srv --token ${secret:t} x"),
            ("sh -c 'mysql -uroot -phush db'", "sh -c 'mysql -uroot -p*** db'"),
            ("/usr/bin/mysqldump -phush", "/usr/bin/mysqldump -p***"),
            (r#"{"run":"mysql -phush db"}"#, r#"{"run":"mysql -p*** db"}"#),
            (r#"{"sent":"DPoP hush1234567890"}"#, r#"{"sent":"DPoP ***"}"#),
            ("curl -u ann:hush https://x", "curl -u ann:*** https://x"),
            ("sh -c '/usr/bin/curl --user \"ann:hu:sh\" x'", "sh -c '/usr/bin/curl --user \"ann:***\" x'"),
            ("srv --token=hush --secret hush2", "srv --token=*** --secret ***"),
        ] {
            assert_eq!(redact(text), shown);
            assert_eq!(redact(shown), shown);
        }
    }

    #[test]
    fn sentences_about_flags_and_other_flags_stay_as_they_are() {
        for text in [
            "the argument --token is missing",
            "give --password or --token-file FILE",
            "--token <TOKEN>  present this token",
            "--api-key KEY",
            "--token … is not needed",
            "use --token. Then try again",
            "a --token\nnext line",
            "docker run -p8080:80 -p 3306:3306 mysql:8",
            "ssh -p2222 host; psql -p5432 -d db",
            "mkdir -pv build",
            "docker run -u 1000:1000 x; curl -u ann x; id -u a:b",
            "mysql-mcp-server -port 3306",
            "npx -y --package typescript tsc --max-tokens 100 --author ann --keyboard us",
            "--header 'Accept: text/plain' --path /srv --token-file /run/x",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn the_search_time_is_linear_in_the_length_of_the_text() {
        for piece in ["--token ", "--token", "-", "- ", "--token '", "mysql -p ", "-p"] {
            let text = piece.repeat(1 << 15);
            assert!(in_text(&text).len() <= text.len());
        }
    }
}
