//! Mistakes of whole files.

use super::error::lines;
use super::reading::MOST_UPSTREAMS;
use super::*;

fn parse(text: &str) -> Result<Config, Vec<Problem>> {
    let variable = |name: &str| (name == "HOME").then(|| "/home/ann".to_owned());
    let secret = |_: &str| Err("make one".to_owned());
    super::parse(text, Reading::Whole(&Lookup { variable: &variable, secret: &secret, authorities: &|_| Ok(()) }))
}

fn problem(text: &str) -> String {
    lines(&parse(text).unwrap_err())
}

#[test]
fn addresses_of_the_agent_are_addresses() {
    assert!(parse("[agent]\nexa_base = \"http://127.0.0.1:1/x\"\n").is_ok());
    let text = "[agent]\nopenai_base = \"hush.example\"\nexa_base = \"file:///hush\"\n";
    assert_eq!(
        problem(text),
        "line 2, column 1: agent.openai_base: must be an address that begins with http:// or https://\n\
             line 3, column 1: agent.exa_base: must be an address that begins with http:// or https://"
    );
}

#[test]
fn an_empty_file_is_the_defaults() {
    let config = parse("").unwrap();
    assert_eq!((config.a2e.max_parallel, config.limits.in_flight), (4, 1024));
    assert!(!config.policy.validate_arguments);
    assert_eq!(config.limits.line_bytes, 16 * 1024 * 1024);
}

#[test]
fn configuration_mistakes_have_their_place_without_the_text_of_the_line() {
    let text = "[a2e]\ntokens = [\"hush\"]\nmax_paralel = 2\n";
    let problem = problem(text);
    assert!(problem.contains("line 3, column 1"), "{problem}");
    assert!(problem.contains("max_paralel"), "{problem}");
    assert!(!problem.contains("hush"), "{problem}");
    assert!(!self::problem("[a2e]\ntokens = [\"hush\", 5]\n").contains("hush"));
    assert!(!self::problem("[a2e]\ntokens = \"hush\"\n").contains("hush"));
}

#[test]
fn values_out_of_range_are_reported_with_key_and_range() {
    assert_eq!(problem("[a2e]\nmax_parallel = 0"), "line 2, column 1: a2e.max_parallel: must be from 1 to 100000");
    assert_eq!(problem("[limits]\nin_flight = 0"), "line 2, column 1: limits.in_flight: must be from 1 to 100000");
    for (setting, expected) in [
        ("sessions = 0", "http.sessions: must be from 1 to 1000000"),
        ("body_ms = 9", "http.body_ms: must be from 10 to 3600000"),
        ("idle_s = 0", "http.idle_s: must be from 1 to 604800"),
        ("replay_bytes = 1", "http.replay_bytes: must be from 4096 to 1073741824"),
        ("kept_bytes = 1", "http.kept_bytes: must be from 1048576 to 1073741824"),
    ] {
        assert_eq!(problem(&format!("[http]\n{setting}")), format!("line 2, column 1: {expected}"));
    }
}

/// Without the bound, the second file takes minutes.
#[test]
fn a_file_has_at_most_a_thousand_upstreams() {
    let text = |count| (0..count).map(|n| format!("[upstreams.u{n}]\ncommand = 'a'\n")).collect::<String>();
    let config = parse(&text(MOST_UPSTREAMS)).unwrap();
    let names = (0..MOST_UPSTREAMS).map(|n| format!("u{n}"));
    assert!(config.upstreams.0.iter().map(|(name, _)| name).eq(&names.collect::<Vec<_>>()), "in the order of the file");
    let told = "line 2001, column 12: upstreams.u1000: there are more than 1000 upstreams in this file";
    assert_eq!(problem(&text(30_000)), told);
    let reading = Reading::WithoutUpstreams;
    assert!(super::parse(&text(30_000), reading).is_ok(), "a command without upstreams does not need them");
}

#[test]
fn mistakes_in_policy_rules_have_their_place() {
    for (text, place, told) in [
        ("[[policy.rules]]\neffect = \"deny\"\nwhen = 'a = 1'", "line 3, column 8", "at character 3: expected one of"),
        (
            "[[policy.rules]]\neffect = \"forbid\"",
            "line 2, column 10",
            "invalid value `forbid` for `policy.rules#1.effect`: expected `allow`, `deny` or `ask`",
        ),
        (
            "[[policy.rules]]\ntools = [\"a\", \"@x\"]\neffect = \"deny\"",
            "line 2, column 15",
            "there is no class of tools `@x`",
        ),
        (
            "[[policy.rules]]\neffect = \"deny\"\nschema = { type = 7 }",
            "line 3, column 10",
            "this schema cannot be used",
        ),
        ("[[policy.limits]]\ntools = [\"a\"]", "line 1, column 1", "a limit needs one of"),
        (
            "[policy]\npin = \"maybe\"",
            "line 2, column 7",
            ": invalid value `maybe` for `policy.pin`: expected `off`, `warn` or `stop`",
        ),
        ("[audit]\nfiel = \"x\"", "line 2, column 1", "there is no key `fiel`: did you mean `file`?"),
        ("[profiles.x]\nonli = []", "line 2, column 1", "did you mean `only`?"),
    ] {
        let problem = problem(text);
        assert!(problem.contains(place) && problem.contains(told), "{text}\n{problem}");
    }
}

#[test]
fn all_mistakes_in_list_items_are_reported_with_the_number_of_the_item() {
    let text = "[[policy.rules]]\neffect = 'allow'\n[[policy.rules]]\neffcet = 'deny'\ntools = 'x'\n\
                    [[policy.rules]]\neffect = 'forbid'\nwhen = 5\n[[policy.limits]]\n[http]\nsessions = 'many'\n";
    let expected = "\
line 3, column 1: policy.rules#2: `effect` is missing
line 4, column 1: policy.rules#2.effcet: there is no key `effcet`: did you mean `effect`?
line 5, column 9: policy.rules#2.tools: expected a list of strings
line 7, column 10: invalid value `forbid` for `policy.rules#3.effect`: expected `allow`, `deny` or `ask`
line 8, column 8: policy.rules#3.when: expected a string
line 9, column 1: policy.limits#1: a limit needs one of `calls`, `concurrent`, `timeout_ms` and `result_bytes`
line 11, column 12: http.sessions: expected a whole number";
    assert_eq!(problem(text), expected);
}

#[test]
fn control_characters_in_a_key_are_escaped_in_messages() {
    let problem = problem("[upstreams.a]\ncommand = 'x'\n\"en\\u001b[31m\\nv\" = 1\n");
    assert!(problem.contains("`en\\u{1b}[31m\\nv`") && !problem.contains('\n'), "{problem}");
}

#[test]
fn tokens_do_not_print() {
    let config = parse("[a2e]\ntokens = [\"hush\"]").unwrap();
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn upstreams_keep_the_order_of_the_file_and_their_references_are_resolved() {
    let text = "[upstreams.zed]\ncommand = ['${HOME}/bin/z', '-v']\nargs = ['x']\nprefix = ''\n\
                    [upstreams.a]\nurl = 'https://example.org/mcp'\nheaders = { X-Key = 'k' }\ntimeout_ms = 5\n";
    let config = parse(text).unwrap();
    let names: Vec<_> = config.upstreams.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["zed", "a"]);
    let (zed, a) = (&config.upstreams.0[0].1, &config.upstreams.0[1].1);
    assert_eq!(
        (&zed.command[..], &zed.args[..]),
        (&["/home/ann/bin/z".to_owned(), "-v".to_owned()][..], &["x".to_owned()][..])
    );
    assert_eq!((zed.naming("zed").prefix, a.naming("a").prefix), (None, Some("a".to_owned())));
    assert_eq!((a.timeout_ms, a.headers().unwrap()["x-key"].to_str().unwrap()), (5, "k"));
}

#[test]
fn all_mistakes_in_upstreams_are_reported_together() {
    let text = "[upstreams.a]\ncommand = 'x'\nurl = 'y'\n[upstreams.b]\nenv = { T = 'hush ${NOPE}' }\n\
                    [upstreams.c]\nurl = 'ftp://x'\nargs = ['hush']\nspeak = 'hush'\n[upstreams.'d d']\n\
                    [upstreams.e]\nenabled = false\ncommand = '${NOPE}'\n[http]\nsessions = 0\nstreams = 'hush'\n";
    let problem = problem(text);
    assert!(!problem.contains("hush"), "{problem}");
    let expected = "\
line 3, column 1: upstreams.a.url: `command` and `url` exclude each other: keep one
line 3, column 1: upstreams.a.url: expected an address that begins with http:// or https://
line 5, column 13: upstreams.b.env.T: the variable NOPE is not set
line 7, column 1: upstreams.c.url: expected an address that begins with http:// or https://
line 8, column 1: upstreams.c.args: the key needs a `command`
line 9, column 1: upstreams.c.speak: expected a dialect, as in \"mcp\", \"mcp@2025-06-18\" or \"a2e\"
line 10, column 12: upstreams.d d: a name is made of letters, digits, `_` and `-`
line 10, column 12: upstreams.d d: it needs a `command` or a `url`
line 15, column 1: http.sessions: must be from 1 to 1000000
line 16, column 11: http.streams: expected a whole number";
    assert_eq!(problem, expected);
}

#[test]
fn commands_without_upstreams_ignore_mistakes_in_them() {
    let text = "[upstreams.a]\ncommand = '${NOPE}'\n";
    assert!(super::parse(text, Reading::WithoutUpstreams).unwrap().upstreams.0.is_empty());
}

/// Every value of another kind is found by the schema, so that no text of the parser, which may quote it, is shown.
#[test]
fn no_value_that_fits_the_schema_is_unreadable() {
    fn keys(schema: &serde_json::Value, path: &str, all: &mut Vec<String>) {
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}{name}");
            keys(inner, &format!("{path}."), all);
            keys(&inner["additionalProperties"], &format!("{path}.x."), all);
            // An item of a list.
            keys(&inner["items"], &format!("{path}#."), all);
            all.push(path);
        }
    }
    let mut all = Vec::new();
    keys(&schema::RULES, "", &mut all);
    assert!(all.len() > 120 && all.iter().any(|key| key == "upstreams.x.bearer"), "{all:?}");
    let values = ["'hush'", "-7", "7", "99999999999", "9223372036854775807", "7.5", "nan", "true", "['hush']", "[7]"];
    let values = values.into_iter().chain([
        "{ hush = 7 }",
        "{ hush = 'hush' }",
        "{ x = ['hush'] }",
        "[{ hush = 1 }]",
        "2026-07-28",
    ]);
    let (mut read, mut refused) = (0, 0);
    for value in values {
        for key in &all {
            let text = match key.split_once("#.") {
                Some((list, key)) => format!("[[{list}]]\n{key} = {value}\n"),
                None => format!("{key} = {value}\n"),
            };
            let (source, _) = Source::read(&text);
            let (config, problems) = source.parse();
            assert!(
                config.is_some() && !problems.iter().any(|problem| problem.message == source::UNREADABLE),
                "{text}"
            );
            read += usize::from(problems.is_empty());
            refused += usize::from(!problems.is_empty());
        }
    }
    assert!(read > 100 && refused > 1000, "{read} {refused}");
}

#[test]
fn keys_of_the_agent_are_no_references() {
    let text = "[agent]\ncompatible_key = '${secret:hush}'\ngoogle_client_secret = 'plain'\n";
    let expected = "line 2, column 1: agent.compatible_key: references are not expanded here: set the variable \
                    GLADHAND_COMPATIBLE_KEY instead";
    assert_eq!(problem(text), expected);
}

#[test]
fn a_server_is_the_same_however_its_names_are_shown() {
    let one = |text: &str| parse(&format!("[upstreams.a]\n{text}")).unwrap().upstreams.0.remove(0).1;
    let before = one("command = 'x'\nenv = { A = '1' }");
    assert!(before.is_same_server(&one("command = ['x']\nenv = { A = '1' }\nprefix = 'b'\nhide = ['*']")));
    assert!(!before.is_same_server(&one("command = 'x'\nenv = { A = '2' }")));
    let same = one("command = 'x'\nenv = { A = '1' }\ncwd = '/x'\nspeak = 'mcp'");
    assert_eq!(same.differences(&before, ["a", "b"]), Vec::<String>::new(), "what only we say is no difference");
    let other = one("command = ['x', '--token', 'hush']\nenv = { A = '2', B = '' }");
    let expected = ["command is `x` in a and `x --token ***` in b", "env.A differs", "env.B is missing in a"];
    assert_eq!(before.differences(&other, ["a", "b"]), expected);
    let far = one("url = 'https://x.example/'");
    assert_eq!(
        far.differences(&before, ["a", "b"])[..2],
        [
            "command is missing in a and `x` in b".to_owned(),
            "url is `https://x.example/` in a and missing in b".to_owned()
        ]
    );
}

/// A file near its bound takes at most about a second in a release build. Quadratic work takes minutes.
#[test]
fn a_file_full_of_mistakes_is_read_in_the_time_of_its_length() {
    const LENGTH: usize = 1024 * 1024;
    let of = |begin: &str, part: &dyn Fn(usize) -> String| {
        let mut text = begin.to_owned();
        let mut number = 0;
        while text.len() < LENGTH - 64 {
            text.push_str(&part(number));
            number += 1;
        }
        text
    };
    let on_one_line = of("[upstreams.a]\nenv = { x = 1", &|number| format!(", k{number} = 1")) + " }\n";
    let files = [
        ("unknown keys", of("", &|number| format!("k{number} = 1\n")), None),
        ("no TOML", of("", &|_| "a b\n".to_owned()), None),
        ("one line", on_one_line, None),
        ("unknown words", of("[a2e]\ncapabilities = [", &|_| "'x',".to_owned()) + "]\n", None),
        ("rules", of("", &|_| "[[policy.rules]]\neffect = 'x'\n".to_owned()), None),
        ("repeated tools", of("[[a2e.toolkits]]\nname = 'k'\ntools = [", &|_| "'x',".to_owned()) + "]\n", None),
        ("agents", of("", &|_| "[[a2e.agents]]\nid = 'a'\ntoken = 't'\n".to_owned()), None),
        ("toolkits", of("", &|number| format!("[[a2e.toolkits]]\nname = 'k{number}'\ntools = []\n")), None),
        ("tokens", of("", &|number| format!("[[authorization.tokens]]\nname = 'a'\ntoken = '{number}'\n")), Some(())),
        ("limits", of("", &|number| format!("[[policy.limits]]\ncalls = {}\n", number + 1)), Some(())),
        ("names", of("[agent]\ndeny = [", &|number| format!("'{number}',")) + "]\n", Some(())),
        ("references", many_references(), None),
    ];
    for (name, text, is_valid) in files {
        assert!(text.len() <= LENGTH, "{name}: {}", text.len());
        let begun = std::time::Instant::now();
        let read = parse(&text);
        assert_eq!(read.is_ok(), is_valid.is_some(), "{name}");
        match read {
            Ok(config) => {
                let narrowed = config.narrowed_by(&config);
                assert!(narrowed.changed_tokens(&config).is_empty());
                let _ = Config::default().narrowed_by(&config);
            }
            Err(problems) => {
                let shown = lines(&problems);
                assert!(shown.lines().count() <= 21 && shown.contains("\n… and "), "{name}: {shown}");
            }
        }
        let taken = begun.elapsed();
        // A debug build is about ten times slower.
        assert!(taken.as_secs() < 15, "{name}: {taken:?}");
    }
}

fn many_references() -> String {
    let arguments = "'${A}',".repeat(120);
    (0..1000).map(|number| format!("[upstreams.u{number}]\ncommand = 'a'\nargs = [{arguments}]\n")).collect()
}

#[test]
fn a_message_shows_some_mistakes_and_counts_the_rest() {
    let text: String = (0..3000).map(|number| format!("k{number} = 1\n")).collect();
    let shown = problem(&text);
    assert_eq!(shown.lines().count(), 21);
    assert!(shown.ends_with("\n… and 2,980 more"), "{shown}");
    assert!(!problem("a = 1\n").contains("more"));
    // Beyond a bound, no more mistakes are looked for.
    let text: String = (0..20_000).map(|number| format!("k{number} = 1\n")).collect();
    let problems = parse(&text).unwrap_err();
    assert_eq!(problems.len(), 10_001);
    let last = problems.last().unwrap().to_string();
    assert!(last.ends_with(": there are more than 10000 mistakes in this file: the search ends here"), "{last}");
}
