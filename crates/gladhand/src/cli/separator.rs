//! A command line whose server command lacks the `--` before it.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use gladhand_redaction::redact_words;

use crate::commands::shared::suggest;
use crate::config::spelling::nearest;
use crate::terminal::text::plain;

/// The hint for a command line that could not be read, if its words end with the command of a server.
pub(crate) fn explain(error: &clap::Error, cli: &Command, words: &[String]) -> Option<String> {
    let is_about_a_word = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidValue);
    if !is_about_a_word || words.iter().any(|word| word == "--") {
        return None;
    }
    let (at, command) =
        words.iter().enumerate().skip(1).find_map(|(at, word)| Some((at, cli.find_subcommand(word)?)))?;
    if !command.get_arguments().any(Arg::is_last_set) {
        return None;
    }
    // The first word of `call` is the tool.
    let named = usize::from(command.get_name() == "call");
    let start = positionals(cli, command, words, at + 1).into_iter().skip(named);
    let start = start.into_iter().find(|at| !words[*at].contains('=') && !words[*at].contains("://"))?;
    let before = words[1..start].iter().map(|word| suggest::shell_word(word)).collect::<Vec<_>>().join(" ");
    Some(suggest::separated(&format!("gladhand {before}"), &words[start..]))
}

/// The hint for an argument of a tool that is written as an option: `call get-sum --a 1`. None for what looks like an option
/// of ours.
pub(crate) fn explain_argument(error: &clap::Error, cli: &Command, words: &[String]) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    let at = words.iter().position(|word| word == "call")?;
    let command = cli.find_subcommand("call").filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let name = unknown.strip_prefix("--")?;
    let options = || command.get_arguments().chain(cli.get_arguments()).filter_map(Arg::get_long);
    if nearest(name, options()).is_some() {
        return None;
    }
    let written = |word: &String| word == unknown || word.starts_with(&format!("{unknown}="));
    let at = at + words[at..].iter().position(written)?;
    let value = match words[at].split_once('=') {
        Some((_, value)) => value,
        None => words.get(at + 1).map(String::as_str).filter(|word| !word.starts_with('-')).unwrap_or("VALUE"),
    };
    let argument = redact_words(&[unknown.clone(), value.to_owned()]);
    let argument = suggest::shell_word(&format!("{name}={}", argument[1]));
    Some(plain(&format!("arguments of a tool are written as key=value: write {argument}")))
}

/// The places of words that are neither options nor values of options, up to the first unknown option: the word after
/// such an option may be its value.
fn positionals(cli: &Command, command: &Command, words: &[String], from: usize) -> Vec<usize> {
    let mut places = Vec::new();
    let mut is_value = false;
    for (at, word) in words.iter().enumerate().skip(from) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        match word.strip_prefix('-').map(|option| takes_value(cli, command, option)) {
            None => places.push(at),
            Some(Some(takes_value)) => is_value = takes_value,
            Some(None) => break,
        }
    }
    places
}

/// Whether the word after an option, which is here without its first dash, is the option's value; none for an unknown
/// option.
fn takes_value(cli: &Command, command: &Command, option: &str) -> Option<bool> {
    let (name, has_value) = option.split_once('=').map_or((option, false), |(name, _)| (name, true));
    let is_it = |arg: &&Arg| match name.strip_prefix('-') {
        Some(long) => arg.get_long() == Some(long),
        // Several flags can stand in one word, as in `-vv`.
        None => arg.get_short().is_some_and(|short| name.starts_with(short)),
    };
    let known = command.get_arguments().chain(cli.get_arguments()).find(is_it);
    known.map(|arg| !has_value && arg.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_separator_is_put_where_the_command_begins() {
        for (line, expected) in [
            ("gladhand tools npx server", Some("gladhand tools -- npx server")),
            ("gladhand open --as mcp --json npx -y server", Some("gladhand open --as mcp --json -- npx -y server")),
            ("gladhand call echo a=1 --timeout 5 npx -y x", Some("gladhand call echo a=1 --timeout 5 -- npx -y x")),
            ("gladhand -v bridge npx -y server", Some("gladhand -v bridge -- npx -y server")),
            ("gladhand -vv tools --as=mcp npx server", Some("gladhand -vv tools --as=mcp -- npx server")),
            ("gladhand tools --nonsense", None),
            ("gladhand call echo message=hi --policy file.toml", None),
            ("gladhand tools --nonsense -- npx", None),
            ("gladhand doctor npx server", None),
            ("gladhand tools http://localhost:1/mcp --nonsense", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = Cli::try_parse_from(&words).unwrap_err();
            let told = explain(&error, &Cli::command(), &words);
            let expected = expected.map(|line| format!("the command of a server goes behind `--`: {line}"));
            assert_eq!(told, expected, "{line}");
        }
    }

    #[test]
    fn an_argument_that_is_written_as_an_option_is_shown_as_it_is_meant() {
        for (line, expected) in [
            ("gladhand call get-sum --a 1", Some("a=1")),
            ("gladhand call get-sum b=2 --a=1 -- server", Some("a=1")),
            ("gladhand call say --message hi --json", Some("message=hi")),
            ("gladhand call say --loud --json", Some("loud=VALUE")),
            ("gladhand call sign-in --password hush", Some("'password=***'")),
            ("gladhand call say --jsn", None),
            ("gladhand tools --message hi", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = Cli::try_parse_from(&words).unwrap_err();
            let expected = expected.map(|word| format!("arguments of a tool are written as key=value: write {word}"));
            assert_eq!(explain_argument(&error, &Cli::command(), &words), expected, "{line}");
        }
    }
}
