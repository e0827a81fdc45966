//! Outlines of languages that have a grammar.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use gladhand_core::Order as _;
use tree_sitter::{
    Node, ParseOptions, ParseState, Parser, Query, QueryCursor, QueryCursorOptions, QueryCursorState,
    StreamingIterator, Tree,
};

use super::budget::Budget;
use super::leading_types::without_leading_types;
use super::{Call, Import, Outline};
use crate::language::Language;

/// A grammar, and the queries on its syntax trees.
struct Grammar {
    language: tree_sitter::Language,
    outline: Query,
}

impl Grammar {
    fn new(language: impl Into<tree_sitter::Language>, queries: &str) -> Self {
        let language = language.into();
        let outline = Query::new(&language, queries).expect("the queries are part of the program and are tested");
        Self { language, outline }
    }

    /// The syntax tree of a text, if it is ready in time.
    fn parse(&self, text: &[u8], budget: Budget) -> Option<Tree> {
        let mut parser = Parser::new();
        parser.set_language(&self.language).ok()?;
        let mut progress = |_: &ParseState| budget.next_step();
        let options = ParseOptions::new().progress_callback(&mut progress);
        let mut rest = |at: usize, _| text.get(at..).unwrap_or_default();
        parser.parse_with_options(&mut rest, None, Some(options))
    }
}

static PYTHON: LazyLock<Grammar> =
    LazyLock::new(|| Grammar::new(tree_sitter_python::LANGUAGE, include_str!("../../queries/python.scm")));
/// JavaScript and TypeScript with elements. For TypeScript without elements, see [`without_leading_types`].
static ECMASCRIPT: LazyLock<Grammar> = LazyLock::new(|| {
    let queries = concat!(include_str!("../../queries/javascript.scm"), include_str!("../../queries/typescript.scm"));
    Grammar::new(tree_sitter_typescript::LANGUAGE_TSX, queries)
});
static GO: LazyLock<Grammar> =
    LazyLock::new(|| Grammar::new(tree_sitter_go::LANGUAGE, include_str!("../../queries/go.scm")));
static RUST: LazyLock<Grammar> =
    LazyLock::new(|| Grammar::new(tree_sitter_rust::LANGUAGE, include_str!("../../queries/rust.scm")));
static PYTHON_SETUP: LazyLock<Grammar> =
    LazyLock::new(|| Grammar::new(tree_sitter_python::LANGUAGE, include_str!("../../queries/python-setup.scm")));

fn grammar(language: Language) -> Option<&'static Grammar> {
    match language {
        Language::Python => Some(&PYTHON),
        Language::Javascript | Language::Typescript => Some(&ECMASCRIPT),
        Language::Go => Some(&GO),
        Language::Rust => Some(&RUST),
        _ => None,
    }
}

/// The syntax tree of a file, if there is a grammar for it.
pub(super) fn tree(language: Language, path: &str, text: &str) -> Option<Tree> {
    parse(grammar(language)?, language, path, text, Budget::new())
}

fn parse(grammar: &Grammar, language: Language, path: &str, text: &str, budget: Budget) -> Option<Tree> {
    if language == Language::Typescript && !path.ends_with(".tsx") {
        grammar.parse(&without_leading_types(text.as_bytes()), budget)
    } else {
        grammar.parse(text.as_bytes(), budget)
    }
}

pub(super) fn first_mistake(language: Language, path: &str, text: &str) -> Option<usize> {
    let tree = tree(language, path, text)?;
    let mut node = tree.root_node();
    if !node.has_error() {
        return None;
    }
    // Down to the deepest node that still has the mistake in it.
    while !node.is_error() && !node.is_missing() {
        let mut cursor = node.walk();
        let Some(child) = node.children(&mut cursor).find(|child| child.has_error() || child.is_missing()) else {
            break;
        };
        node = child;
    }
    Some(node.start_byte())
}

/// The literal keywords of calls of a function: keyword, string, and where the string is.
pub(crate) fn python_keywords(text: &str, function: &str) -> Vec<(String, String, usize)> {
    let grammar = &*PYTHON_SETUP;
    let budget = Budget::new();
    let Some(tree) = grammar.parse(text.as_bytes(), budget) else { return Vec::new() };
    let mut found = Vec::new();
    matches(grammar, &tree, text, budget, |captures| {
        if let (Some(callee), Some(keyword), Some(value)) =
            (captures.get("callee"), captures.get("keyword"), captures.get("value"))
            && &text[callee.byte_range()] == function
        {
            found.push((
                text[keyword.byte_range()].to_owned(),
                text[value.byte_range()].to_owned(),
                value.start_byte(),
            ));
        }
    });
    found
}

/// How many matches may be open at once; real programs have a few dozen.
const MOST_OPEN: u32 = 256;

fn matches<'t>(
    grammar: &'static Grammar,
    tree: &'t Tree,
    text: &str,
    budget: Budget,
    mut take: impl FnMut(&HashMap<&'static str, Node<'t>>),
) {
    let names = grammar.outline.capture_names();
    let mut cursor = QueryCursor::new();
    // Every level of nesting keeps a match open, and every step looks at all that are open.
    cursor.set_match_limit(MOST_OPEN);
    let mut progress = |_: &QueryCursorState| budget.next_step();
    let options = QueryCursorOptions::new().progress_callback(&mut progress);
    let mut matches = cursor.matches_with_options(&grammar.outline, tree.root_node(), text.as_bytes(), options);
    while let Some(found) = matches.next() {
        let captures = found.captures().iter().map(|capture| (names[capture.index as usize], capture.node)).collect();
        take(&captures);
    }
}

pub(super) fn outline(language: Language, path: &str, text: &str) -> Outline {
    let Some(grammar) = grammar(language) else { return Outline::default() };
    let budget = Budget::new();
    let Some(tree) = parse(grammar, language, path, text, budget) else { return Outline::default() };
    let mut imports: Vec<(String, Node<'_>)> = Vec::new();
    let mut bindings: HashMap<String, String> = HashMap::new();
    let mut calls: Vec<(String, Node<'_>)> = Vec::new();
    matches(grammar, &tree, text, budget, |captures| {
        let of = |name: &str| captures.get(name).map(|node| &text[node.byte_range()]);
        if let Some(node) = captures.get("import") {
            if let Some(tree) = of("use") {
                for (path, local) in used(tree) {
                    imports.push((path.clone(), *node));
                    bindings.insert(local, path);
                }
            } else {
                let module = of("module").unwrap_or_default().trim_matches(['"', '`']).to_owned();
                if let Some((local, path)) = binding(language, &module, of("default"), of("member"), of("local")) {
                    bindings.insert(local, path);
                }
                imports.push((module, *node));
            }
        } else if let Some(node) = captures.get("call") {
            match (of("required"), of("callee").filter(|callee| callee.len() <= LONGEST_CALLEE)) {
                (Some(module), _) => calls.push((format!("\0{module}"), *node)),
                (None, Some(callee)) => calls.push((callee.replace("::", ".").replace("?.", "."), *node)),
                (None, None) => {}
            }
        }
    });
    let calls = calls.into_iter().filter_map(|(callee, node)| match callee.strip_prefix('\0') {
        Some(required) => Some((required.to_owned(), node)),
        None => Some((resolved(language, &callee, &bindings)?, node)),
    });
    let calls: Vec<(String, Node<'_>)> = calls.collect();
    let mut node_contexts =
        node_contexts(&tree, text, imports.iter().chain(&calls).map(|(_, node)| node.id()).collect(), budget);
    let imports = imports.into_iter().filter_map(|(module, node)| {
        let context = node_contexts.get(&node.id())?;
        Some(Import { module, at: node.start_byte(), statement: context.statement.clone() })
    });
    let mut imports: Vec<Import> = imports.collect();
    let calls = calls.into_iter().filter_map(|(path, node)| {
        let context = node_contexts.remove(&node.id())?;
        Some(Call { path, bound: context.bound, statement: context.statement })
    });
    let mut calls: Vec<Call> = calls.collect();
    calls.order_by_key(|call| (call.statement.start, call.statement.end));
    imports.order_by_key(|import| (import.at, import.statement.end));
    imports.dedup();
    Outline { imports, calls }
}

/// The maximum length of the name of a called function; longer names are chains of calls.
const LONGEST_CALLEE: usize = 200;

/// The surroundings of a node.
struct NodeContext {
    /// The statement around it.
    statement: Range<usize>,
    /// The variable that takes its value.
    bound: Option<String>,
}

/// The contexts of nodes, found in one walk. `Node::parent` walks down from the root every time, which would take hours
/// for a chain of a hundred thousand calls.
fn node_contexts(tree: &Tree, text: &str, wanted: HashSet<usize>, budget: Budget) -> HashMap<usize, NodeContext> {
    let mut found = HashMap::new();
    let mut above: Vec<Node<'_>> = Vec::new();
    let mut cursor = tree.walk();
    while found.len() < wanted.len() {
        let node = cursor.node();
        if wanted.contains(&node.id()) {
            // Each of many nested calls has as many nodes above it.
            if budget.is_spent() {
                return found;
            }
            found.insert(node.id(), NodeContext { statement: statement(node, &above), bound: bound(&above, text) });
        }
        if cursor.goto_first_child() {
            above.push(node);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return found;
            }
            above.pop();
        }
    }
    found
}

/// The module path that a local name refers to after an import.
fn binding(
    language: Language,
    module: &str,
    default: Option<&str>,
    member: Option<&str>,
    local: Option<&str>,
) -> Option<(String, String)> {
    match (default, member, local) {
        (Some(default), ..) => Some((default.to_owned(), module.to_owned())),
        // `import { default as express }` is another way to import the default export.
        (_, Some("default"), Some(local)) => Some((local.to_owned(), module.to_owned())),
        (_, Some(member), local) => Some((local.unwrap_or(member).to_owned(), format!("{module}.{member}"))),
        (_, None, Some(local)) => Some((local.to_owned(), module.to_owned())),
        (None, None, None) => match language {
            Language::Python => {
                let first = module.split('.').next()?;
                Some((first.to_owned(), first.to_owned()))
            }
            Language::Go => Some((go_package(module).to_owned(), module.to_owned())),
            _ => None,
        },
    }
}

/// The usual name of a Go package: the last part of its path that is not a version.
fn go_package(path: &str) -> &str {
    let is_version =
        |part: &str| part.strip_prefix('v').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    path.rsplit('/').find(|part| !is_version(part)).unwrap_or(path)
}

/// The full path of a called function, if it was imported.
fn resolved(language: Language, callee: &str, bindings: &HashMap<String, String>) -> Option<String> {
    let (first, rest) = callee.split_once('.').map_or((callee, None), |(first, rest)| (first, Some(rest)));
    match (bindings.get(first), rest) {
        (Some(path), Some(rest)) => Some(format!("{path}.{rest}")),
        (Some(path), None) => Some(path.clone()),
        // Rust may name a crate in full without importing anything.
        (None, Some(_)) if language == Language::Rust => Some(callee.to_owned()),
        _ => None,
    }
}

/// The paths that a `use` names, with the names that they get.
fn used(tree: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    expand("", tree.trim(), &mut found, 0);
    found
}

fn expand(prefix: &str, tree: &str, found: &mut Vec<(String, String)>, depth: usize) {
    let joined = |rest: &str| match (prefix, rest) {
        ("", rest) => rest.to_owned(),
        (prefix, "self") => prefix.to_owned(),
        (prefix, rest) => format!("{prefix}.{rest}"),
    };
    let Some((head, list)) = tree.split_once('{').filter(|_| depth < 8) else {
        let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
        let path = joined(&path.trim().replace("::", "."));
        let local = alias.unwrap_or_else(|| path.rsplit('.').next().unwrap_or(&path)).to_owned();
        found.push((path, local));
        return;
    };
    let prefix = joined(head.trim().trim_end_matches("::").replace("::", ".").as_str());
    let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
    let (mut depth_inside, mut start) = (0_usize, 0);
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '{' => depth_inside += 1,
            '}' => depth_inside = depth_inside.saturating_sub(1),
            ',' if depth_inside == 0 => {
                let part = list[start..at].trim();
                if !part.is_empty() {
                    expand(&prefix, part, found, depth + 1);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The statement that a node is in: the nearest node around it that is directly in a block.
fn statement(node: Node<'_>, above: &[Node<'_>]) -> Range<usize> {
    let is_block = |node: &Node<'_>| {
        matches!(
            node.kind(),
            "module"
                | "program"
                | "source_file"
                | "block"
                | "statement_block"
                | "statement_list"
                | "class_body"
                | "declaration_list"
                | "switch_body"
                | "case_clause"
        )
    };
    let within = above.iter().rposition(is_block).map_or(0, |at| at + 1);
    above.get(within).map_or_else(|| node.byte_range(), Node::byte_range)
}

/// The variable that takes what a call gives, also when more calls follow on it.
fn bound(above: &[Node<'_>], text: &str) -> Option<String> {
    for parent in above.iter().rev() {
        let name = match parent.kind() {
            "assignment" | "assignment_expression" | "short_var_declaration" | "assignment_statement" => {
                parent.child_by_field_name("left")
            }
            "variable_declarator" | "var_spec" | "const_spec" | "static_item" => parent.child_by_field_name("name"),
            "let_declaration" => parent.child_by_field_name("pattern"),
            "await"
            | "await_expression"
            | "member_expression"
            | "call_expression"
            | "call"
            | "attribute"
            | "field_expression"
            | "try_expression"
            | "parenthesized_expression"
            | "expression_list"
            | "as_expression"
            | "satisfies_expression"
            | "non_null_expression"
            | "selector_expression" => None,
            _ => return None,
        };
        if let Some(name) = name {
            let name = text[name.byte_range()].trim_start_matches("mut ").trim();
            let plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '$'));
            return plain.then(|| name.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(language: Language, path: &str, text: &str) -> Vec<(String, Option<String>, String)> {
        let outline = outline(language, path, text);
        outline.calls.into_iter().map(|call| (call.path, call.bound, text[call.statement].to_owned())).collect()
    }

    fn call(path: &str, bound: Option<&str>, statement: &str) -> (String, Option<String>, String) {
        (path.to_owned(), bound.map(str::to_owned), statement.to_owned())
    }

    #[test]
    fn python_names_are_followed_to_their_modules() {
        let text = "import fastapi as fa\nfrom flask import Flask as F\nimport a.b\n# F()\nx = 'F()'\napp: fa.FastAPI = fa.FastAPI(\n    title='t',\n)\ndef make():\n    web = F(__name__)\n    return web\nunknown()\na.b.c()\n";
        assert_eq!(
            calls(Language::Python, "x.py", text),
            [
                call("fastapi.FastAPI", Some("app"), "app: fa.FastAPI = fa.FastAPI(\n    title='t',\n)"),
                call("flask.Flask", Some("web"), "web = F(__name__)"),
                call("a.b.c", None, "a.b.c()"),
            ]
        );
    }

    #[test]
    fn every_way_to_import_javascript_is_followed() {
        let text = "import express from 'express';\nimport * as koa from 'koa';\nimport { Hono as H, cors } from 'hono';\nconst fastify = require('fastify')({ logger: true });\nconst { NestFactory } = require('@nestjs/core');\nexport const app = express();\nlet h = new H().basePath('/x');\nasync function main() { const nest = await NestFactory.create(Module); }\nuse(express());\n";
        assert_eq!(
            calls(Language::Javascript, "x.js", text),
            [
                call("fastify", Some("fastify"), "const fastify = require('fastify')({ logger: true });"),
                call("express", Some("app"), "export const app = express();"),
                call("hono.Hono", Some("h"), "let h = new H().basePath('/x');"),
                call("@nestjs/core.NestFactory.create", Some("nest"), "const nest = await NestFactory.create(Module);"),
                call("express", None, "use(express());"),
            ]
        );
        let modules: Vec<_> = outline(
            Language::Typescript,
            "x.ts",
            "import e = require('express');\nimport type { X } from 'next';\nconst a = await import('koa');",
        )
        .imports;
        assert_eq!(modules.iter().map(|import| import.module.as_str()).collect::<Vec<_>>(), ["express", "next", "koa"]);
    }

    #[test]
    fn calls_after_a_type_assertion_are_found_where_they_are() {
        let text = "import express from 'express';\nconst g = (<any>window).g;\nconst id = <T>(x: T) => x;\nexport const app = <express.Express>express();\n";
        let expected = call("express", Some("app"), "export const app = <express.Express>express();");
        assert_eq!(calls(Language::Typescript, "x.ts", text), [expected]);
    }

    #[test]
    fn go_and_rust_paths_are_followed() {
        let go = "package main\nimport (\n\t\"github.com/labstack/echo/v4\"\n\tg \"github.com/gin-gonic/gin\"\n)\nfunc main() {\n\te := echo.New()\n\tr := g.Default()\n}\n";
        assert_eq!(
            calls(Language::Go, "main.go", go),
            [
                call("github.com/labstack/echo/v4.New", Some("e"), "e := echo.New()"),
                call("github.com/gin-gonic/gin.Default", Some("r"), "r := g.Default()"),
            ]
        );
        let rust = "use axum::{routing::{get, post}, Router as R};\nfn main() {\n    let mut app = R::new().route(\"/\", get(x));\n    let other = actix_web::HttpServer::new(f);\n}\n";
        let found = calls(Language::Rust, "main.rs", rust);
        assert_eq!(found[0], call("axum.Router.new", Some("app"), "let mut app = R::new().route(\"/\", get(x));"));
        assert!(found.contains(&call(
            "actix_web.HttpServer.new",
            Some("other"),
            "let other = actix_web::HttpServer::new(f);"
        )));
    }

    #[test]
    fn a_chain_without_end_takes_no_time() {
        let text = format!("import e from 'express';\nconst app = e(){};\n", ".use(e)\n".repeat(20_000));
        let found = calls(Language::Javascript, "x.js", &text);
        assert_eq!((found[0].0.as_str(), found[0].1.as_deref()), ("express", Some("app")));
    }

    #[test]
    fn a_file_that_is_costly_to_parse_takes_bounded_time() {
        let begun = std::time::Instant::now();
        let brackets = "(".repeat(500_000);
        assert!(python_keywords(&brackets, "setup").is_empty());
        outline(Language::Python, "x.py", &brackets);
        let nested = format!("import e from 'express';\n{}1{}", "e(".repeat(100_000), ")".repeat(100_000));
        outline(Language::Javascript, "x.js", &nested);
        outline(Language::Typescript, "x.tsx", &"<a>{".repeat(100_000));
        outline(Language::Go, "x.go", &format!("package x\nvar x = {}", "[]".repeat(200_000)));
        outline(Language::Rust, "x.rs", &format!("use {}a;", "a::{".repeat(100_000)));
        // Two seconds each, and some time to give the trees back.
        assert!(begun.elapsed() < std::time::Duration::from_secs(40), "{:?}", begun.elapsed());
    }

    #[test]
    fn mistakes_are_found_where_they_are() {
        assert_eq!(first_mistake(Language::Python, "x.py", "a = 1\n"), None);
        assert!(first_mistake(Language::Python, "x.py", "a = 1\ndef (:\n").is_some_and(|at| at >= 6));
        assert!(first_mistake(Language::Typescript, "x.ts", "const a = (;\n").is_some());
        assert_eq!(first_mistake(Language::Typescript, "x.tsx", "export const A = () => <div>{1}</div>;\n"), None);
        let typed = "const id = <T>(x: T) => x;\nconst w = <any>window;\nlet a = b < c && d > (<number>e);\n";
        assert_eq!(first_mistake(Language::Typescript, "x.ts", typed), None);
        let element = "export default () => <a.b c={d < e}>{...f}</a.b>;\nclass G { #h = 1; static { this.i?.j; } }\n";
        assert_eq!(first_mistake(Language::Javascript, "x.js", element), None);
    }
}
