//! The language of a file: by its name, or by its content if the name is missing or misleading.

use serde::{Deserialize, Serialize};

/// A programming language. Markup, data and prose are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Language {
    C,
    Clojure,
    Cpp,
    Csharp,
    Dart,
    Elixir,
    Fsharp,
    Go,
    Haskell,
    Java,
    Javascript,
    Julia,
    Kotlin,
    Lua,
    Perl,
    Php,
    Powershell,
    Python,
    R,
    Ruby,
    Rust,
    Scala,
    Shell,
    Svelte,
    Swift,
    Typescript,
    Vue,
    Zig,
}

/// Names of files and what they are written in: extensions first, then whole names that have none.
const EXTENSIONS: [(&str, Language); 53] = [
    ("py", Language::Python),
    ("pyi", Language::Python),
    ("pyw", Language::Python),
    ("ts", Language::Typescript),
    ("tsx", Language::Typescript),
    ("mts", Language::Typescript),
    ("cts", Language::Typescript),
    ("js", Language::Javascript),
    ("jsx", Language::Javascript),
    ("mjs", Language::Javascript),
    ("cjs", Language::Javascript),
    ("rs", Language::Rust),
    ("go", Language::Go),
    ("rb", Language::Ruby),
    ("rake", Language::Ruby),
    ("java", Language::Java),
    ("cs", Language::Csharp),
    ("php", Language::Php),
    ("inc", Language::Php),
    ("kt", Language::Kotlin),
    ("kts", Language::Kotlin),
    ("scala", Language::Scala),
    ("swift", Language::Swift),
    ("c", Language::C),
    ("h", Language::C),
    ("cc", Language::Cpp),
    ("cpp", Language::Cpp),
    ("cxx", Language::Cpp),
    ("hh", Language::Cpp),
    ("hpp", Language::Cpp),
    ("ex", Language::Elixir),
    ("exs", Language::Elixir),
    ("fs", Language::Fsharp),
    ("fsx", Language::Fsharp),
    ("hs", Language::Haskell),
    ("dart", Language::Dart),
    ("clj", Language::Clojure),
    ("cljs", Language::Clojure),
    ("jl", Language::Julia),
    ("lua", Language::Lua),
    ("pl", Language::Perl),
    ("pm", Language::Perl),
    ("ps1", Language::Powershell),
    ("r", Language::R),
    ("sh", Language::Shell),
    ("bash", Language::Shell),
    ("zsh", Language::Shell),
    ("svelte", Language::Svelte),
    ("vue", Language::Vue),
    ("zig", Language::Zig),
    ("gemspec", Language::Ruby),
    ("ru", Language::Ruby),
    ("jsm", Language::Javascript),
];

/// Programs that scripts name in their first line.
const INTERPRETERS: [(&str, Language); 15] = [
    ("python", Language::Python),
    ("pypy", Language::Python),
    ("uv", Language::Python),
    ("node", Language::Javascript),
    ("bun", Language::Typescript),
    ("deno", Language::Typescript),
    ("tsx", Language::Typescript),
    ("ts-node", Language::Typescript),
    ("ruby", Language::Ruby),
    ("php", Language::Php),
    ("perl", Language::Perl),
    ("lua", Language::Lua),
    ("bash", Language::Shell),
    ("zsh", Language::Shell),
    ("sh", Language::Shell),
];

impl Language {
    /// The name in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Clojure => "clojure",
            Self::Cpp => "cpp",
            Self::Csharp => "csharp",
            Self::Dart => "dart",
            Self::Elixir => "elixir",
            Self::Fsharp => "fsharp",
            Self::Go => "go",
            Self::Haskell => "haskell",
            Self::Java => "java",
            Self::Javascript => "javascript",
            Self::Julia => "julia",
            Self::Kotlin => "kotlin",
            Self::Lua => "lua",
            Self::Perl => "perl",
            Self::Php => "php",
            Self::Powershell => "powershell",
            Self::Python => "python",
            Self::R => "r",
            Self::Ruby => "ruby",
            Self::Rust => "rust",
            Self::Scala => "scala",
            Self::Shell => "shell",
            Self::Svelte => "svelte",
            Self::Swift => "swift",
            Self::Typescript => "typescript",
            Self::Vue => "vue",
            Self::Zig => "zig",
        }
    }

    /// The language according to the file name alone.
    pub(crate) fn by_name(path: &str) -> Option<Self> {
        let extension = extension(path)?;
        EXTENSIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension)).map(|&(_, language)| language)
    }

    /// Whether the content could say more than the name: it has no extension, so that it may be a script.
    pub(crate) fn may_be_script(path: &str) -> bool {
        extension(path).is_none()
    }

    /// The language of a file, by its name and its content.
    pub(crate) fn of(path: &str, bytes: &[u8]) -> Option<Self> {
        if crate::text::is_binary(bytes) {
            return None;
        }
        let head = &bytes[..bytes.len().min(2048)];
        let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
        let contains = |needle: &str| memchr::memmem::find(head, needle.as_bytes()).is_some();
        let Some(named) = Self::by_name(path) else {
            return if Self::may_be_script(path) { by_first_line(head) } else { None };
        };
        let extension = extension(path).unwrap_or_default();
        match named {
            // Qt Linguist and MPEG transport streams use `.ts` too.
            Self::Typescript if head.trim_ascii_start().starts_with(b"<?xml") || contains("<!DOCTYPE TS") => None,
            Self::C if extension.eq_ignore_ascii_case("h") && is_cpp(head) => Some(Self::Cpp),
            Self::Php if extension.eq_ignore_ascii_case("inc") && !contains("<?php") => None,
            // Prolog has `.pl`, and so do scripts that say what they are.
            Self::Perl if contains(":- ") => None,
            Self::Perl | Self::R | Self::Shell => by_first_line(head).or(Some(named)),
            _ => Some(named),
        }
    }
}

/// The extension: the text after the last dot of the file name. A name whose only dot is its first character has none.
fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension)
}

/// The language according to `#!` or an editor's mode line in the first line.
fn by_first_line(head: &[u8]) -> Option<Language> {
    let first = head.split(|&byte| byte == b'\n').next()?;
    let first = std::str::from_utf8(first).ok()?;
    if let Some(command) = first.strip_prefix("#!") {
        let mut words = command.split_whitespace();
        let program = words.next()?.rsplit('/').next()?;
        let program =
            if program == "env" { words.find(|word| !word.starts_with('-') && !word.contains('='))? } else { program };
        let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        return INTERPRETERS.iter().find(|(known, _)| *known == program).map(|&(_, language)| language);
    }
    if first.starts_with("<?php") {
        return Some(Language::Php);
    }
    let mode = first.split("-*-").nth(1)?.trim().trim_start_matches("mode:").trim();
    let mode = mode.split([';', ' ']).next()?;
    INTERPRETERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(mode)).map(|&(_, language)| language)
}

/// Whether a header can only be C++.
fn is_cpp(head: &[u8]) -> bool {
    ["\nclass ", "\nnamespace ", "\ntemplate ", "\ntemplate<", "\nusing ", "std::", "public:"]
        .iter()
        .any(|sign| memchr::memmem::find(head, sign.as_bytes()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_where_the_name_does_not() {
        let of = |path: &str, text: &str| Language::of(path, text.as_bytes()).map(Language::name);
        assert_eq!(of("a/b.PY", "x"), Some("python"));
        assert_eq!(of("bin/tool", "#!/usr/bin/env -S python3.12 -u\n"), Some("python"));
        assert_eq!(of("bin/rails", "#!/usr/bin/env ruby\n"), Some("ruby"));
        assert_eq!(of("bin/x", "#!/bin/sh\n"), Some("shell"));
        assert_eq!(of("artisan", "<?php\n"), Some("php"));
        assert_eq!(of("script", "# -*- mode: Python; coding: utf-8 -*-\n"), Some("python"));
        assert_eq!(of("de.ts", "<?xml version=\"1.0\"?>\n<!DOCTYPE TS>"), None);
        assert_eq!(of("a.h", "#pragma once\nnamespace a {}"), Some("cpp"));
        assert_eq!(of("a.h", "int a(void);\n"), Some("c"));
        assert_eq!(of("rules.pl", ":- module(rules, []).\n"), None);
        assert_eq!(of("README", "# Title\n"), None);
        assert_eq!(of(".gitignore", "#!x\n"), None);
        assert_eq!(of("model.py", "\0\0\0"), None);
        assert_eq!(of("page.html", "<script>"), None);
    }

    #[test]
    fn every_name_is_the_name_on_the_wire() {
        for (_, language) in EXTENSIONS {
            assert_eq!(serde_json::to_value(language).unwrap(), language.name());
        }
    }
}
