//! Evidence for frameworks in single source files.

use super::table::{FindingKind, TABLE};
use crate::language::Language;
use crate::source::{self, Family};
use crate::text;

/// The longest text that is used as an anchor.
const LONGEST_ANCHOR: usize = 4000;

/// Maximum number of imports, and of calls, of one framework that are reported for a file.
const MOST: usize = 50;

/// One piece of evidence for a framework in a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Which framework, as an index into the table.
    pub(crate) framework: usize,
    pub(crate) found: FindingKind,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The first part of the module's name.
    pub(crate) module: String,
    /// The variable that holds the application object.
    pub(crate) bound: Option<String>,
    /// The whole statement, if it is found exactly once in the file.
    pub(crate) anchor: Option<String>,
    /// Whether it is inside a function or a condition. Such an import often only tests whether a package exists.
    pub(crate) inside: bool,
}

/// The evidence for frameworks in a source file, in the order of the file.
pub(crate) fn findings(language: Language, family: Family, path: &str, text: &str) -> Vec<Finding> {
    let text = with_plain_line_ends(text);
    let table = &*TABLE;
    let text = table.telling_part(family, &text);
    let outline = source::outline(language, path, text, &table.marks(family));
    let end = if family == Family::Rust { tests_begin(text) } else { text.len() };
    let mut found = Vec::new();
    for (framework, known) in table.frameworks.iter().enumerate() {
        let imports = outline
            .imports
            .iter()
            .filter(|import| known.is_import(family, &import.module))
            .take(MOST)
            .map(|import| (FindingKind::Import, &import.module, import.at, &import.statement, None));
        let calls = outline.calls.iter().filter(|call| known.is_constructor(family, &call.path)).map(|call| {
            (FindingKind::Constructor, &call.path, call.statement.start, &call.statement, call.bound.clone())
        });
        for (kind, path, at, statement, bound) in imports.chain(calls) {
            let written = &text[statement.clone()];
            // Types are gone when the program runs, and so are tests.
            if written.starts_with("import type ") || statement.start >= end {
                continue;
            }
            let column = statement.start - text[..statement.start].rfind('\n').map_or(0, |end| end + 1);
            found.push(Finding {
                framework,
                found: kind,
                line: text::line_at(text, at),
                text: text::line_text(text, at),
                module: path.split(['.', '/']).next().unwrap_or_default().to_owned(),
                bound,
                anchor: (kind == FindingKind::Constructor).then(|| anchor(text, statement)).flatten(),
                inside: column > 0,
            });
        }
    }
    found.dedup();
    found
}

/// Where the tests at the end of a Rust file begin.
fn tests_begin(text: &str) -> usize {
    let attribute = "#[cfg(test)]";
    let is_module = |at: &usize| text[at + attribute.len()..].trim_start().starts_with("mod ");
    text.match_indices(attribute).map(|(at, _)| at).find(is_module).unwrap_or(text.len())
}

/// The text of a statement, made longer by lines before it until it is found only once.
pub(crate) fn anchor(text: &str, statement: &std::ops::Range<usize>) -> Option<String> {
    let mut start = statement.start;
    for _ in 0..4 {
        let pattern = &text[start..statement.end];
        if pattern.len() > LONGEST_ANCHOR || pattern.trim().is_empty() {
            return None;
        }
        if memchr::memmem::find_iter(text.as_bytes(), pattern).count() == 1 {
            return Some(pattern.to_owned());
        }
        let before = text[..start].trim_end_matches([' ', '\t']).strip_suffix('\n')?;
        start = before.rfind('\n').map_or(0, |end| end + 1);
    }
    None
}

/// The text with every CRLF as LF. Positions and anchors refer to this form.
pub(crate) fn with_plain_line_ends(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_is_made_longer_until_it_is_found_once() {
        let text = "def a():\n    app = F()\ndef b():\n    app = F()\n";
        let at = text.rfind("app").unwrap();
        assert_eq!(anchor(text, &(at..at + 9)).as_deref(), Some("def b():\n    app = F()"));
        assert_eq!(anchor("x\nx\n", &(0..1)), None);
    }

    #[test]
    fn only_imports_that_run_are_evidence() {
        let text = "import type { NextConfig } from 'next';\nimport express from 'express';\r\nfunction f() {\n  const e = require('express');\n}\nconst app = express();\n";
        let found = findings(Language::Typescript, Family::Javascript, "a.ts", text);
        let told: Vec<_> = found
            .iter()
            .map(|one| (TABLE.frameworks[one.framework].name.as_str(), one.found, one.line, one.inside))
            .collect();
        assert_eq!(
            told,
            [
                ("express", FindingKind::Import, 2, false),
                ("express", FindingKind::Import, 4, true),
                ("express", FindingKind::Constructor, 6, false)
            ]
        );
        assert_eq!(found[2].bound.as_deref(), Some("app"));
        assert_eq!(found[2].anchor.as_deref(), Some("const app = express();"));
    }
}
