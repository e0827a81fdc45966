//! Outlines of languages that have no grammar here: imports by their keywords, calls by the marks that are looked for.

use std::ops::Range;

use super::{Call, Family, Import, Outline};
use crate::tokens::{Kind, Lexis, Token, tokens};
use gladhand_core::Order as _;

pub(super) fn outline(family: Family, lexis: Lexis, text: &str, marks: &[&str]) -> Outline {
    let tokens = tokens(text, lexis);
    let mut outline = Outline::default();
    for at in 0..tokens.len() {
        if let Some(module) = imported(family, &tokens, at) {
            let named = tokens[at].at.start;
            outline.imports.push(Import { module, at: named, statement: statement(text, &tokens, at, at) });
        }
    }
    for mark in marks {
        let wanted: Vec<&str> = crate::tokens::tokens(mark, Lexis::Braces).iter().map(|token| token.text).collect();
        for (at, found) in tokens.windows(wanted.len().max(1)).enumerate() {
            let same = found.iter().zip(&wanted).all(|(token, wanted)| token.is(wanted));
            // `Rails::Application` is not in `MyRails::Application`, nor in `My::Rails::Application`.
            let part_of_more =
                at > 0 && matches!(tokens[at - 1].text, "." | ":" | "\\") && tokens[at - 1].kind == Kind::Sign;
            if same && !part_of_more {
                let statement = statement(text, &tokens, at, at + wanted.len() - 1);
                outline.calls.push(Call { path: (*mark).to_owned(), bound: bound(&tokens[..at]), statement });
            }
        }
    }
    outline.calls.order_by_key(|call| call.statement.start);
    outline
}

/// The module that an import names whose keyword is at a place.
fn imported(family: Family, tokens: &[Token<'_>], at: usize) -> Option<String> {
    let begins = at == 0 || !matches!(tokens[at - 1].text, "." | ":" | "$" | ">" | "(");
    let keyword = &tokens[at];
    if keyword.kind != Kind::Word || !begins {
        return None;
    }
    let rest = tokens.get(at + 1..)?;
    match (family, keyword.text) {
        (Family::Java, "import") => {
            let rest = rest.strip_prefix(&rest[..usize::from(rest.first()?.is("static"))])?;
            path(rest, ".")
        }
        (Family::Csharp, "using") => {
            let rest = rest.strip_prefix(&rest[..usize::from(rest.first()?.is("static"))])?;
            let declared = path(rest, ".")?;
            // `using var x = …` and `using Alias = Some.Type` import nothing by their first word.
            let words = rest.iter().take_while(|token| token.kind == Kind::Word || token.is(".")).count();
            rest.get(words).filter(|end| end.is(";")).map(|_| declared)
        }
        (Family::Php, "use") => path(rest, "\\"),
        (Family::Ruby, "require") => {
            let name = rest.iter().find(|token| !token.is("("))?;
            (name.kind == Kind::Text).then(|| name.text.to_owned())
        }
        _ => None,
    }
}

/// Words with a separator between them, up to where that ends.
fn path(tokens: &[Token<'_>], separator: &str) -> Option<String> {
    let parts: String = tokens
        .iter()
        .take_while(|token| token.kind == Kind::Word || token.is(separator))
        .map(|token| token.text)
        .collect();
    let parts = parts.trim_matches(|c| separator.contains(c));
    (!parts.is_empty()).then(|| parts.to_owned())
}

/// From the first letter of the line to the end of the statement, or of the line where nothing else ends it.
fn statement(text: &str, tokens: &[Token<'_>], first: usize, last: usize) -> Range<usize> {
    let at = tokens[first].at.start;
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let start = line + (text[line..at].len() - text[line..at].trim_start().len());
    let line_end = |from: usize| text[from..].find('\n').map_or(text.len(), |length| from + length);
    let mut depth = 0_usize;
    for token in tokens[last..].iter() {
        match token.text {
            "(" | "[" if token.kind == Kind::Sign => depth += 1,
            ")" | "]" if token.kind == Kind::Sign => depth = depth.saturating_sub(1),
            ";" if token.kind == Kind::Sign && depth == 0 => return start..token.at.end,
            _ => {}
        }
        // A block begins, or the line ends with every bracket closed.
        if depth == 0
            && (token.is("{")
                || text[token.at.end.min(text.len())..]
                    .trim_start_matches([' ', '\t', '\r', '"', '\''])
                    .starts_with('\n'))
        {
            break;
        }
    }
    let end = line_end(tokens[last].at.end);
    start..start + text[start..end].trim_end().len()
}

/// `name = MARK`.
fn bound(before: &[Token<'_>]) -> Option<String> {
    match before {
        [.., name, equals] if equals.is("=") && name.kind == Kind::Word => Some(name.text.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type FoundCall = (String, Option<String>, String);

    fn read(family: Family, text: &str, marks: &[&str]) -> (Vec<String>, Vec<FoundCall>) {
        let outline = outline(family, family.lexis().unwrap(), text, marks);
        let calls = outline.calls.into_iter().map(|call| (call.path, call.bound, text[call.statement].to_owned()));
        (outline.imports.into_iter().map(|import| import.module).collect(), calls.collect())
    }

    #[test]
    fn imports_are_read_as_each_language_writes_them() {
        let java =
            "package a;\nimport org.springframework.boot.SpringApplication; // import no.No;\nimport static a.b.C.*;\n";
        assert_eq!(read(Family::Java, java, &[]).0, ["org.springframework.boot.SpringApplication", "a.b.C"]);
        let csharp =
            "global using System;\nusing Microsoft.AspNetCore.Mvc;\nusing var stream = Open();\nusing (var a = b) {}\n";
        assert_eq!(read(Family::Csharp, csharp, &[]).0, ["System", "Microsoft.AspNetCore.Mvc"]);
        assert_eq!(
            read(Family::Php, "<?php\nuse Illuminate\\Support\\Facades\\Route;\n$f = function () use ($x) {};\n", &[])
                .0,
            ["Illuminate\\Support\\Facades\\Route"]
        );
        assert_eq!(read(Family::Ruby, "require 'sinatra'\nrequire_relative 'x'\n", &[]).0, ["sinatra"]);
    }

    #[test]
    fn marks_are_found_in_code_only() {
        let csharp = "// WebApplication.CreateBuilder(args);\nvar builder = WebApplication.CreateBuilder(args);\nvar text = \"WebApplication.CreateBuilder(\";\n";
        let found = read(Family::Csharp, csharp, &["WebApplication.CreateBuilder"]).1;
        let statement = "var builder = WebApplication.CreateBuilder(args);".to_owned();
        assert_eq!(found, [("WebApplication.CreateBuilder".to_owned(), Some("builder".to_owned()), statement)]);
        let ruby = "module Shop\n  class Application < Rails::Application\n  end\nend\n";
        let found = read(Family::Ruby, ruby, &["Rails::Application"]).1;
        assert_eq!(
            found,
            [("Rails::Application".to_owned(), None, "class Application < Rails::Application".to_owned())]
        );
        let java =
            "@SpringBootApplication\npublic class App {\n  void main() { SpringApplication.run(App.class); }\n}\n";
        let found = read(Family::Java, java, &["@SpringBootApplication", "SpringApplication.run"]).1;
        assert_eq!(found[0].2, "@SpringBootApplication");
    }
}
