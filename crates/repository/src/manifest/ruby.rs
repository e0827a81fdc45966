//! Gemfile, Gemfile.lock and gem specifications.

use super::{Manifest, Usage};
use crate::tokens::{Kind, Lexis, Token, tokens};

pub(super) fn gemfile(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["bundler"], ..Manifest::default() };
    // The open blocks, and whether their contents are for developers only.
    let mut blocks: Vec<bool> = Vec::new();
    let tokens = tokens(text, Lexis::Ruby);
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Word) {
        match token.text {
            "do" => {
                let opener = tokens[..at].iter().rev().take(12).take_while(|token| !token.is("end") && !token.is("do"));
                let words: Vec<&str> = opener.map(|token| token.text).collect();
                let grouped = words.contains(&"group");
                blocks.push(grouped && words.iter().any(|word| matches!(*word, "development" | "test")));
            }
            "end" => {
                blocks.pop();
            }
            "gem" => {
                let found = literals(&tokens[at + 1..]);
                let [name, rest @ ..] = found.as_slice() else { continue };
                let usage = if blocks.contains(&true) { Usage::Development } else { Usage::Runtime };
                manifest.depends(text, name.at.start, name.text, rest.first().map(|version| version.text), usage);
            }
            _ => {}
        }
    }
    Ok(manifest)
}

pub(super) fn gemspec(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["bundler"], ..Manifest::default() };
    let tokens = tokens(text, Lexis::Ruby);
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Word) {
        let usage = match token.text {
            "add_dependency" | "add_runtime_dependency" => Usage::Runtime,
            "add_development_dependency" => Usage::Development,
            _ => continue,
        };
        if let [name, rest @ ..] = literals(&tokens[at + 1..]).as_slice() {
            manifest.depends(text, name.at.start, name.text, rest.first().map(|version| version.text), usage);
        }
    }
    Ok(manifest)
}

/// The literals that a call begins with, in brackets or not.
fn literals<'t, 'a>(rest: &'t [Token<'a>]) -> Vec<&'t Token<'a>> {
    let bracket = usize::from(rest.first().is_some_and(|token| token.is("(")));
    let list = rest[bracket..].iter().take_while(|token| token.kind == Kind::Text || token.is(","));
    list.filter(|token| token.kind == Kind::Text).collect()
}

/// Lines such as `    rails (7.1.2)` under `specs:`; deeper ones are what those need.
pub(super) fn gemfile_lock(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["bundler"], ..Manifest::default() };
    for line in text.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     ")) {
        if let Some((name, version)) = line.trim().strip_suffix(')').and_then(|line| line.split_once(" (")) {
            manifest.locked.insert(name.to_owned(), version.to_owned());
        }
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gems_are_read_with_their_groups() {
        let text = "source \"https://rubygems.example\"\n# gem 'sinatra'\ngem \"rails\", \"~> 7.1\"\ngroup :development, :test do\n  gem 'rspec'\nend\ngem('puma')\n";
        let found: Vec<_> =
            gemfile(text).unwrap().dependencies.into_iter().map(|d| (d.name, d.requirement, d.usage, d.line)).collect();
        assert_eq!(
            found,
            [
                ("rails".to_owned(), Some("~> 7.1".to_owned()), Usage::Runtime, 3),
                ("rspec".to_owned(), None, Usage::Development, 5),
                ("puma".to_owned(), None, Usage::Runtime, 7),
            ]
        );
        let lock = gemfile_lock("GEM\n  specs:\n    rails (7.1.2)\n      actionpack (= 7.1.2)\n").unwrap();
        assert_eq!(lock.locked.into_iter().collect::<Vec<_>>(), [("rails".to_owned(), "7.1.2".to_owned())]);
    }
}
