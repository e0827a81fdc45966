//! Where an import would be written in a file.

use super::{Family, grammar, marks, outline};
use crate::language::Language;

/// The byte before which a new import goes: the start of a line behind the imports that the file begins with, or behind
/// what must come before any import.
pub(crate) fn import_place(language: Language, path: &str, text: &str) -> usize {
    let end = match grammar::tree(language, path, text) {
        Some(tree) => by_tree(tree.root_node(), language, path, text),
        None => by_lines(language, text),
    };
    match text[end..].find('\n') {
        _ if end == 0 => 0,
        Some(length) => end + length + 1,
        None => text.len(),
    }
}

/// The end of the last statement before which nothing may be put.
fn by_tree(root: tree_sitter::Node<'_>, language: Language, path: &str, text: &str) -> usize {
    let imports = outline(language, path, text, &[]).imports;
    let is_import = |node: &tree_sitter::Node<'_>| {
        imports.iter().any(|import| import.statement == node.byte_range()) || node.kind() == "import_declaration"
    };
    let mut end = 0;
    let mut cursor = root.walk();
    let statements: Vec<_> = root.children(&mut cursor).collect();
    for (at, node) in statements.iter().enumerate() {
        match node.kind() {
            "hash_bang_line" | "package_clause" | "inner_attribute_item" | "shebang" => end = node.end_byte(),
            "mod_item" if node.child_by_field_name("body").is_none() => end = node.end_byte(),
            "comment" | "line_comment" | "block_comment" => {
                // A comment before a blank line belongs to the file, any other comment to the code after it.
                let apart =
                    statements.get(at + 1).is_some_and(|next| next.start_position().row > node.end_position().row + 1);
                if apart || text[node.byte_range()].starts_with("#!") {
                    end = node.end_byte();
                }
            }
            // Docstrings, and `"use strict"`.
            "expression_statement" if node.named_child(0).is_some_and(|child| child.kind() == "string") => {
                end = node.end_byte()
            }
            "\n" | ";" => {}
            _ if is_import(node) => end = node.end_byte(),
            _ => break,
        }
    }
    end
}

fn by_lines(language: Language, text: &str) -> usize {
    let Some(family) = Family::of(language) else { return 0 };
    let Some(lexis) = family.lexis() else { return 0 };
    let imports = marks::outline(family, lexis, text, &[]).imports;
    if let Some(last) = imports.last() {
        return last.statement.end;
    }
    let first = match family {
        Family::Java => text.find("package "),
        Family::Php => text.find("<?php"),
        _ => None,
    };
    first.map_or(0, |at| at + text[at..].find('\n').unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(path: &str, text: &str) -> usize {
        let language = Language::by_name(path).unwrap();
        crate::text::line_at(text, import_place(language, path, text))
    }

    #[test]
    fn imports_are_placed_after_existing_imports_and_headers() {
        assert_eq!(
            split("a.py", "\"\"\"Doc.\"\"\"\nfrom __future__ import annotations\nimport os\n\nx = 1\nimport late\n"),
            4
        );
        assert_eq!(split("a.py", "#!/usr/bin/env python\n# Licence.\n\nx = 1\n"), 3);
        assert_eq!(split("a.py", "x = 1\n"), 1);
        assert_eq!(split("a.js", "'use strict';\nconst a = require('a');\n\nconst app = a();\n"), 3);
        assert_eq!(split("a.ts", "// About app.\nconst app = 1;\n"), 1);
        assert_eq!(split("a.go", "package main\n\nimport \"fmt\"\n\nfunc main() {}\n"), 4);
        assert_eq!(split("a.rs", "#![deny(x)]\nmod a;\nuse a::B;\nfn main() {}\n"), 4);
        assert_eq!(split("A.java", "package a;\nclass A {}\n"), 2);
        assert_eq!(split("A.cs", "using System;\n\nvar a = 1;\n"), 2);
    }
}
