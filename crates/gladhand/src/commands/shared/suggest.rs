//! Suggestions for a name that a server does not have, and for a command line that lacks its `--`.

use std::path::Path;

use anyhow::anyhow;
use gladhand_core::operations::FailureKind;
use gladhand_redaction::redact_words;

use crate::commands::CommandError;
use crate::commands::shared::opened_server::AskedServer;
use crate::config::spelling::alike;
use crate::terminal::text::plain;

/// How many names are listed beside an error.
const MOST: usize = 20;

/// There is no tool or prompt of this name; `kind` says which of the two it is.
pub(in crate::commands) fn unknown(kind: &str, name: &str, known: &[&str], asked: &AskedServer) -> CommandError {
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{}`", plain(name))).collect::<Vec<_>>();
    let has = match asked {
        AskedServer::Named => "it has",
        AskedServer::Ours(_) => "they have",
    };
    let hint = match (alike(name, known).as_slice(), known) {
        (_, []) => format!("{has} no {kind}s"),
        ([], known) => {
            let names = quoted(&known[..known.len().min(MOST)]).join(", ");
            match known.len().saturating_sub(MOST) {
                0 => format!("{has} {names}"),
                more => format!("{has} {names} and {more} more; `gladhand {kind}s` lists all"),
            }
        }
        (alike, _) => format!("did you mean {}?", quoted(alike).join(" or ")),
    };
    let code = if kind == "prompt" { FailureKind::UnknownPrompt } else { FailureKind::UnknownTool };
    let name = plain(name);
    match asked {
        AskedServer::Named => {
            let error =
                anyhow!("the server lists no {kind} `{name}`: the server does not have it, or its policy hides it");
            CommandError::usage(error).hint(hint)
        }
        AskedServer::Ours(_) => {
            let error = anyhow!(
                "no server was named, so gladhand's own {kind}s and the configured upstreams were asked: they have no \
                 {kind} `{name}`"
            );
            let server = "name the server: a URL, or a command behind `--`";
            CommandError::usage(error).hint(match hint.strip_prefix("did you mean ") {
                Some(_) => format!("{hint} For a tool of another server, {server}"),
                None => format!("{server}; {hint}"),
            })
        }
    }
    .code(code.word())
}

/// A word that is neither `key=value` nor a URL. `before` is the command line up to it, `words` begins with it, and
/// `has_command` says whether a command follows behind `--` already.
pub(in crate::commands) fn misplaced(before: &str, words: &[String], has_command: bool) -> CommandError {
    let word = words.first().map(|word| plain(word)).unwrap_or_default();
    let error = CommandError::usage(anyhow!("`{word}` is neither `key=value` nor a URL"));
    match has_command {
        false if words.first().is_some_and(|word| is_program(word)) => error.hint(separated(before, words)),
        _ => error.hint("arguments are written as key=value, or all of them as JSON behind --args"),
    }
}

/// Whether a word names a program: a path to a file, or a file in a folder of `PATH`.
fn is_program(word: &str) -> bool {
    if word.contains(std::path::MAIN_SEPARATOR) {
        return Path::new(word).is_file();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    !word.contains(char::is_whitespace) && std::env::split_paths(&folders).any(|folder| folder.join(word).is_file())
}

/// Says where the `--` belongs.
pub(crate) fn separated(before: &str, command: &[String]) -> String {
    let command = redact_words(command).iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
    plain(&format!("the command of a server goes behind `--`: {before} -- {command}"))
}

/// A word as it is typed in a shell.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_suggested_or_listed() {
        let hint = |name: &str, known: &[&str]| unknown("tool", name, known, &AskedServer::Named).hint.unwrap();
        assert_eq!(hint("ecko", &["echo", "add"]), "did you mean `echo`?");
        assert_eq!(hint("zzz", &["echo", "add"]), "it has `echo`, `add`");
        assert_eq!(hint("zzz", &[]), "it has no tools");
        let many: Vec<String> = (0..25).map(|number| format!("tool{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(hint("zzz", &many).ends_with("`tool19` and 5 more; `gladhand tools` lists all"));
    }

    #[test]
    fn without_a_server_a_similar_name_is_suggested_first() {
        let hint = |name: &str| unknown("tool", name, &["echo"], &AskedServer::Ours(Box::default())).hint.unwrap();
        assert!(hint("ecko").starts_with("did you mean `echo`? For a tool of another server, name the server: "));
        assert!(hint("zzz").starts_with("name the server: ") && hint("zzz").ends_with("; they have `echo`"));
    }

    #[test]
    fn a_separator_is_suggested_only_before_a_program() {
        let hint = |word: &str| misplaced("gladhand call echo", &[word.to_owned()], false).hint.unwrap();
        assert_eq!(hint("sh"), "the command of a server goes behind `--`: gladhand call echo -- sh");
        for word in ["no-such-program-anywhere", "hello world", "/no/such/server"] {
            assert!(hint(word).starts_with("arguments are written as key=value"), "{word}");
        }
    }

    #[test]
    fn a_command_without_its_separator_is_shown_with_it() {
        let words = ["npx", "my server", "it's"].map(str::to_owned);
        assert_eq!(
            separated("gladhand call echo", &words),
            r"the command of a server goes behind `--`: gladhand call echo -- npx 'my server' 'it'\''s'"
        );
    }
}
