//! go.mod and go.work.

use super::{Manifest, Usage};
use crate::tokens::{Kind, Lexis, Token, tokens};

/// The direct dependencies of a module. Indirect ones are marked `// indirect` and left out.
pub(super) fn go_mod(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["go"], ..Manifest::default() };
    for (verb, line) in directives(text) {
        match (verb, line.as_slice()) {
            ("module", [name, ..]) => manifest.name = Some(name.text.to_owned()),
            ("require", [name, version, ..]) => {
                let rest = text[version.at.end..].lines().next().unwrap_or_default();
                if !rest.contains("// indirect") {
                    manifest.depends(text, name.at.start, name.text, Some(version.text), Usage::Runtime);
                }
            }
            _ => {}
        }
    }
    Ok(manifest)
}

pub(super) fn go_work(text: &str) -> Result<Manifest, String> {
    let used = directives(text).into_iter().filter(|(verb, _)| *verb == "use");
    let folders = used.filter_map(|(_, line)| Some(line.first()?.text.trim_start_matches("./").to_owned()));
    Ok(Manifest { managers: vec!["go"], workspace: folders.collect(), ..Manifest::default() })
}

/// Each line with its directive, which is on the line itself or before a block of lines.
fn directives(text: &str) -> Vec<(&str, Vec<Token<'_>>)> {
    let mut found = Vec::new();
    let mut block: Option<&str> = None;
    for line in tokens(text, Lexis::GoMod).split(|token| token.kind == Kind::End) {
        match (line, block) {
            ([], _) => {}
            ([close, ..], Some(_)) if close.is(")") => block = None,
            ([verb, open, ..], None) if open.is("(") => block = Some(verb.text),
            (rest, Some(verb)) => found.push((verb, rest.to_vec())),
            ([verb, rest @ ..], None) => found.push((verb.text, rest.to_vec())),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_requirements_are_read_without_indirect_ones() {
        let text = "module example.com/shop\n\ngo 1.22\n\nrequire github.com/labstack/echo/v4 v4.12.0\n\nrequire (\n\tgithub.com/gin-gonic/gin v1.10.0 // indirect\n\tgolang.org/x/net v0.24.0\n)\n// require github.com/no/no v1.0.0\n";
        let manifest = go_mod(text).unwrap();
        assert_eq!(manifest.name.as_deref(), Some("example.com/shop"));
        let found: Vec<_> = manifest.dependencies.iter().map(|d| (d.name.as_str(), d.line)).collect();
        assert_eq!(found, [("github.com/labstack/echo/v4", 5), ("golang.org/x/net", 9)]);
        assert_eq!(go_work("go 1.22\nuse (\n\t./api\n\t./cli\n)\n").unwrap().workspace, ["api", "cli"]);
    }
}
