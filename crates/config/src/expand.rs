//! Expands `${NAME}` in the values of upstreams.
//!
//! `${VAR}` is an environment variable, `${VAR:-default}` an environment variable with a default, `${secret:NAME}` a
//! secret. `$${` stands for a literal `${`. Error messages contain neither the expanded values nor the text around
//! them.
//!
//! Expanded values are registered for redaction, since a server may repeat them. The exceptions are the usual variables
//! (`HOME`, `PATH` …) and paths that exist: they are not secrets, and messages should name them.

use std::cell::RefCell;
use std::path::Path;

use gladhand_core::Pattern;
use gladhand_core::Secret;
use gladhand_redaction::{self as redaction, Life};
use toml::Spanned;
use toml::de::DeValue;

use super::program_environment::{PLAIN, usual};
use super::source::{Problem, Source};
use super::trust::Grants;

/// The grant for every variable, which `inherit_env = "all"` needs.
pub(super) const EVERY_VARIABLE: &str = "*";

/// Looks up variables and secrets, and looks at files that only this machine can judge.
#[derive(Clone, Copy)]
pub struct Lookup<'l> {
    /// The variable of a name.
    pub variable: &'l dyn Fn(&str) -> Option<String>,
    /// The secret of a name. If the secret does not exist, the error says how to add it.
    pub secret: &'l dyn Fn(&str) -> Result<Secret, String>,
    /// Whether a file has certificate authorities. The error says what is wrong with it.
    pub authorities: &'l dyn Fn(&Path) -> Result<(), String>,
}

impl std::fmt::Debug for Lookup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookup")
    }
}

const UNCLOSED: &str = "`${` is never closed with `}` (`$${` stands for `${` itself)";
const NO_NAME: &str = "between `${` and `}` is a NAME, NAME:-default or secret:NAME";

/// Whether an unresolved reference has invalid syntax, so that adding a variable or secret could not help.
pub fn is_malformed(problem: &Problem) -> bool {
    [UNCLOSED, NO_NAME].contains(&problem.message.as_str())
}

/// Expands all references in a text. On failure, returns one message per reference.
pub fn expand(text: &str, lookup: &Lookup<'_>) -> Result<String, Vec<String>> {
    let (mut expanded, mut mistakes, mut rest) = (String::new(), Vec::new(), text);
    while let Some(at) = rest.find("${") {
        let (before, reference) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = reference;
            continue;
        }
        expanded.push_str(before);
        let Some((reference, after)) = reference.split_once('}') else {
            mistakes.push(UNCLOSED.to_owned());
            rest = "";
            break;
        };
        match resolve(reference, lookup) {
            Ok(value) => expanded.push_str(&value),
            Err(mistake) => mistakes.push(mistake),
        }
        rest = after;
    }
    expanded.push_str(rest);
    if mistakes.is_empty() { Ok(expanded) } else { Err(mistakes) }
}

fn resolve(reference: &str, lookup: &Lookup<'_>) -> Result<String, String> {
    let is_name = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        !name.is_empty() && name.bytes().all(fits)
    };
    let no_name = || NO_NAME.to_owned();
    if let Some(name) = reference.strip_prefix("secret:") {
        let name = Some(name).filter(|name| is_name(name)).ok_or_else(no_name)?;
        let missing = |advice| format!("there is no secret `{name}`: {advice}");
        let secret = (lookup.secret)(name).map_err(missing)?;
        redaction::learn(secret.expose(), Life::Process);
        return Ok(secret.expose().to_owned());
    }
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let name = Some(name).filter(|name| is_name(name)).ok_or_else(no_name)?;
    // As in a shell, `:-` also replaces an empty value.
    let value = (lookup.variable)(name).filter(|value| default.is_none() || !value.is_empty());
    if let Some(value) = &value {
        learn_variable(name, value);
    }
    let unset = || format!("the variable {name} is not set");
    value.or_else(|| default.map(str::to_owned)).ok_or_else(unset)
}

/// Registers the value of a variable for redaction.
fn learn_variable(name: &str, value: &str) {
    let is_usual = || usual().any(|usual| Pattern(usual.to_owned()).fits(name));
    let is_path = || Path::new(value).is_absolute() && Path::new(value).exists();
    // A proxy may have a password.
    redaction::learn_text(value, Life::Process);
    if !is_usual() && !is_path() {
        redaction::learn(value, Life::Process);
    }
}

/// Expands all strings of an upstream in place. A string that cannot be expanded stays unchanged and is reported.
pub(super) fn expand_all(source: &mut Source<'_>, lookup: &Lookup<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    let upstreams = source.root.iter_mut().find(|(key, _)| key.get_ref().as_ref() == "upstreams");
    if let Some(DeValue::Table(upstreams)) = upstreams.map(|(_, value)| value.get_mut()) {
        for (name, upstream) in upstreams.iter_mut() {
            // A disabled upstream may refer to variables and secrets that do not exist.
            let is_enabled = upstream.get_ref().get("enabled").and_then(|value| value.get_ref().as_bool());
            if is_enabled != Some(false) {
                walk(upstream, &mut vec!["upstreams".to_owned(), name.get_ref().to_string()], lookup, &mut found);
            }
        }
    }
    found.into_iter().map(|(span, key, message)| source.at(Some(span), &key, &message)).collect()
}

type FoundReference = (std::ops::Range<usize>, String, String);

fn walk(
    value: &mut Spanned<DeValue<'_>>,
    path: &mut Vec<String>,
    lookup: &Lookup<'_>,
    found: &mut Vec<FoundReference>,
) {
    let span = value.span();
    match value.get_mut() {
        DeValue::String(text) if text.contains("${") => match expand(text, lookup) {
            Ok(expanded) => *text = expanded.into(),
            Err(mistakes) => {
                found.extend(mistakes.into_iter().map(|mistake| (span.clone(), path.join("."), mistake)));
            }
        },
        DeValue::Array(items) => items.iter_mut().for_each(|item| walk(item, path, lookup, found)),
        DeValue::Table(members) => {
            for (name, member) in members.iter_mut() {
                path.push(name.get_ref().to_string());
                walk(member, path, lookup, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Whether a project file may read a variable.
pub(super) fn may_read(grants: &Grants, variable: &str) -> bool {
    let is_plain = |name: &str| Pattern(name.to_owned()).fits(variable);
    let granted = &grants.variables;
    let is_plain = PLAIN.iter().chain(&["PWD"]).any(|name| is_plain(name));
    is_plain || granted.contains(variable) || granted.contains(EVERY_VARIABLE)
}

/// The references of each enabled upstream that need a grant.
pub(super) fn references(source: &Source<'_>) -> Vec<(String, Grants)> {
    let mut all = Vec::new();
    let upstreams = source.root.iter().find(|(key, _)| key.get_ref().as_ref() == "upstreams");
    let Some(DeValue::Table(upstreams)) = upstreams.map(|(_, value)| value.get_ref()) else { return all };
    for (name, upstream) in upstreams.iter() {
        if upstream.get_ref().get("enabled").and_then(|value| value.get_ref().as_bool()) == Some(false) {
            continue;
        }
        let needed = RefCell::new(Grants::default());
        let variable = |name: &str| {
            needed.borrow_mut().variables.insert(name.to_owned());
            Some(String::new())
        };
        let secret = |name: &str| {
            needed.borrow_mut().secrets.insert(name.to_owned());
            Ok(Secret::new(""))
        };
        let lookup = Lookup { variable: &variable, secret: &secret, authorities: &|_| Ok(()) };
        walk(&mut upstream.clone(), &mut Vec::new(), &lookup, &mut Vec::new());
        inherited(upstream.get_ref(), &mut needed.borrow_mut());
        login(upstream.get_ref(), &mut needed.borrow_mut());
        let mut needed = needed.into_inner();
        needed.variables.retain(|variable| !may_read(&Grants::default(), variable));
        all.push((name.get_ref().to_string(), needed));
    }
    all
}

/// Variables that an upstream inherits on top of the usual ones.
fn inherited(upstream: &DeValue<'_>, needed: &mut Grants) {
    let Some(inherits) = upstream.get("inherit_env") else { return };
    match inherits.get_ref() {
        DeValue::Array(names) => {
            needed.variables.extend(names.iter().filter_map(|name| name.get_ref().as_str().map(str::to_owned)));
        }
        _ => drop(needed.variables.insert(EVERY_VARIABLE.to_owned())),
    }
}

/// The login of an upstream that presents tokens from `gladhand login`. The store keeps tokens by address, so without a
/// grant every file that names the address would get them.
fn login(upstream: &DeValue<'_>, needed: &mut Grants) {
    let url = upstream.get("url").filter(|_| upstream.get("auth").is_some());
    needed.logins.extend(url.and_then(|url| url.get_ref().as_str()).map(str::to_owned));
}

/// Removes the upstreams with references that were not granted, and reports them.
pub(super) fn take_ungranted(source: &mut Source<'_>, grants: &Grants) -> Vec<Problem> {
    let mut refused = Vec::new();
    for (name, needed) in references(source) {
        let missing: Vec<_> =
            needed.each().filter(|(_, one)| !is_granted(grants, one)).map(|(words, _)| words).collect();
        if missing.is_empty() {
            continue;
        }
        let message = format!("not used: it may not read {}; `gladhand config trust` asks", missing.join(", "));
        refused.push(source.problem(&["upstreams", &name], message));
        remove(source, &name);
    }
    refused
}

fn is_granted(grants: &Grants, one: &Grants) -> bool {
    one.secrets.is_subset(&grants.secrets)
        && one.variables.iter().all(|name| may_read(grants, name))
        && one.logins.is_subset(&grants.logins)
}

fn remove(source: &mut Source<'_>, upstream: &str) {
    let upstreams = source.root.iter_mut().find(|(key, _)| key.get_ref().as_ref() == "upstreams");
    if let Some(DeValue::Table(upstreams)) = upstreams.map(|(_, value)| value.get_mut()) {
        upstreams.remove(upstream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, Vec<String>> {
        let variable = |name: &str| match name {
            "HOME" => Some("/home/ann".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let secret = |name: &str| match name {
            "github" => Ok(Secret::new("hush")),
            _ => Err("make one".to_owned()),
        };
        expand(text, &Lookup { variable: &variable, secret: &secret, authorities: &|_| Ok(()) })
    }

    #[test]
    fn references_are_replaced_by_their_values() {
        for (text, expected) in [
            ("plain $HOME {x}", "plain $HOME {x}"),
            ("${HOME}/bin:${HOME}", "/home/ann/bin:/home/ann"),
            ("${NOPE:-fall-back}", "fall-back"),
            ("${EMPTY}|${EMPTY:-x}|${NOPE:-}", "|x|"),
            ("Bearer ${secret:github}", "Bearer hush"),
            ("$${HOME} costs $$5", "${HOME} costs $$5"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn secrets_variables_and_logins_of_an_upstream_need_a_grant() {
        let text = "[upstreams.a]\nurl = 'https://x/mcp'\nauth = 'oauth'\n[upstreams.b]\nurl = 'https://x/mcp'\n\
                    bearer = '${secret:s}'\n[upstreams.c]\ncommand = ['x', '${HOME}', '${V}']\n\
                    [upstreams.d]\nenabled = false\nurl = 'https://y/mcp'\nauth = 'oauth'\n";
        let all: Vec<_> = references(&Source::read(text).0)
            .into_iter()
            .flat_map(|(name, grants)| grants.each().map(|(words, _)| format!("{name}: {words}")).collect::<Vec<_>>())
            .collect();
        assert_eq!(all, ["a: your login token for https://x/mcp", "b: the secret s", "c: the variable V"]);
        let (mut source, none) = (Source::read(text).0, Grants::default());
        let refused: Vec<_> = take_ungranted(&mut source, &none).into_iter().map(|problem| problem.key).collect();
        assert_eq!(refused, ["upstreams.a", "upstreams.b", "upstreams.c"]);
        let grants = Grants { logins: ["https://x/mcp".to_owned()].into(), ..Grants::default() };
        assert_eq!(take_ungranted(&mut Source::read(text).0, &grants).len(), 2);
    }

    #[test]
    fn each_reference_without_a_value_is_reported_by_name() {
        let mistakes = expanded("${A} hush ${secret:b} ${HOME}").unwrap_err();
        assert_eq!(mistakes, ["the variable A is not set", "there is no secret `b`: make one"]);
        for text in ["${", "${HOME", "${}", "${a b}", "${secret:}"] {
            assert_eq!(expanded(text).unwrap_err().len(), 1, "{text}");
        }
    }
}
