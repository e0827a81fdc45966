//! Every command has an example that can be read, one meaning of `--as`, and a manual page that leads further.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Command, CommandFactory as _, Parser as _};
use gladhand::cli::Cli;

use crate::shell;
use crate::support::gladhand;

/// Commands that report nothing of their own: stdout belongs to peers, or is the document that was asked for.
const WITHOUT_REPORT: [&str; 8] = [
    "gladhand serve",
    "gladhand bridge",
    "gladhand record",
    "gladhand console",
    "gladhand completions",
    "gladhand man",
    "gladhand config schema",
    "gladhand top",
];

/// Every command with its whole name, `gladhand config check`, groups included.
fn commands() -> Vec<(String, Command)> {
    fn collect(command: &Command, above: &str, all: &mut Vec<(String, Command)>) {
        let name = format!("{above}{}", command.get_name());
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            collect(below, &format!("{name} "), all);
        }
        all.push((name, command.clone()));
    }
    let (mut cli, mut all) = (Cli::command().disable_help_subcommand(true), Vec::new());
    cli.build();
    collect(&cli, "", &mut all);
    assert!(all.len() > 30, "{}", all.len());
    all
}

/// The examples of a help, each as the command lines of ours in it. The text after two blanks describes the example.
fn examples(help: &str) -> Vec<Vec<String>> {
    let Some((_, rest)) = help.split_once("Examples:\n") else { return Vec::new() };
    let part = rest.split("\n\n").next().unwrap_or_default().replace("\\\n", " ");
    let line = |line: &str| {
        let line = line.trim_start();
        let described = line.split("  ").map(str::trim).collect::<Vec<_>>();
        // A line that was continued has blanks in its middle.
        let is_continued = described.iter().skip(1).any(|word| word.starts_with(['-', '>']));
        shell::ours(if is_continued { line } else { described[0] })
    };
    part.lines().flat_map(line).collect()
}

#[test]
fn every_help_has_examples_and_each_can_be_read() {
    for (name, command) in commands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = examples(&help);
        let own = |example: &&Vec<String>| format!("{} ", example.join(" ")).starts_with(&format!("{name} "));
        assert!(examples.iter().any(|example| own(&example)), "`{name} --help` has no example of its own:\n{help}");
        for example in examples {
            let read = Cli::try_parse_from(&example);
            // `call TOOL --help` is answered by the command itself, any other `--help` by the parser.
            assert!(read.is_ok(), "`{name} --help` shows {example:?}: {}", read.unwrap_err());
        }
    }
}

#[test]
fn every_command_with_a_report_has_a_json_flag() {
    for (name, command) in commands().into_iter().filter(|(_, command)| !command.has_subcommands()) {
        let json = command.get_arguments().find(|argument| argument.get_long() == Some("json"));
        assert!(json.is_some() || WITHOUT_REPORT.contains(&name.as_str()), "{name}");
        // Failures are told in JSON because the flag has this id.
        assert!(json.is_none_or(|json| json.get_id() == "json"), "{name}");
    }
}

#[test]
fn as_means_the_same_in_every_command() {
    let (mut flags, mut names) = (BTreeSet::new(), Vec::new());
    for (name, command) in commands() {
        for argument in command.get_arguments().filter(|argument| argument.get_long() == Some("as")) {
            // `replay --as server` names a side of a recording, whose dialect is known.
            if !argument.is_hide_set() && name != "gladhand replay" {
                let value = argument.get_value_names().unwrap_or_default().join(" ");
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                flags.insert((value, argument.get_default_values().to_vec(), help));
                names.push(name.clone());
            }
        }
    }
    // A command may add to what the flag means everywhere, and change nothing of it.
    let (value, default, help) = flags.first().expect("there is such a flag");
    for (own_value, own_default, own_help) in &flags {
        assert_eq!((own_value, own_default), (value, default));
        assert!(own_help.starts_with(help), "{own_help:?} is not {help:?}");
    }
    for name in ["open", "bridge", "call", "tools", "resources", "prompts"] {
        assert!(names.contains(&format!("gladhand {name}")), "{names:?}");
    }
}

#[test]
fn the_caller_of_policy_test_has_a_flag_of_its_own() {
    let output = gladhand().args(["policy", "test", "x", "--as", "ann"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("the caller is named with --principal"), "{told}");
}

/// The pages that a page names under SEE ALSO.
fn see_also(page: &str) -> Vec<String> {
    let (_, section) = page.split_once(".SH \"SEE ALSO\"").expect("the section is there");
    let plain = section.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-");
    plain.split_whitespace().map(|name| name.trim_end_matches(',').to_owned()).collect()
}

#[test]
fn every_command_has_a_manual_page_that_leads_to_others() {
    let folder = tempfile::tempdir().unwrap();
    assert!(gladhand().args(["man", "--out"]).arg(folder.path()).status().unwrap().success());
    let read = |name: &str| {
        let file = Path::new(folder.path()).join(format!("{name}.1"));
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    for (name, command) in commands() {
        let page = read(&name.replace(' ', "-"));
        assert!(page.contains(".SH EXAMPLES") && page.contains(".SH \"EXIT STATUS\""), "{name}");
        let others = see_also(&page);
        for other in &others {
            read(other.strip_suffix("(1)").unwrap_or_else(|| panic!("{name}: {other}")));
        }
        if let Some((above, _)) = name.rsplit_once(' ') {
            assert!(others.contains(&format!("{}(1)", above.replace(' ', "-"))), "{name}: {others:?}");
        }
        for below in command.get_subcommands() {
            assert!(others.contains(&format!("{}-{}(1)", name.replace(' ', "-"), below.get_name())), "{name}");
        }
    }
    let printed = gladhand().arg("man").output().unwrap().stdout;
    assert_eq!(String::from_utf8(printed).unwrap(), read("gladhand"));
}
