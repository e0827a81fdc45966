//! The imports and calls of source files, with exact places.
//!
//! Python, JavaScript, TypeScript, Go and Rust are parsed by their grammars and searched with the queries in
//! `queries/`. Java, Kotlin, C#, Ruby and PHP are cut into tokens, see [`crate::tokens`]: enough for imports and for
//! marks such as `SpringApplication.run`. Comments and strings never count as code.

mod budget;
mod grammar;
mod leading_types;
mod marks;
mod placement;

use std::ops::Range;

use serde::Deserialize;

pub(crate) use self::grammar::python_keywords;
pub(crate) use self::placement::import_place;
use crate::language::Language;
use crate::tokens::{Lexis, unbalanced};

/// Languages that name their packages alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Family {
    Csharp,
    Go,
    Java,
    Javascript,
    Php,
    Python,
    Ruby,
    Rust,
}

impl Family {
    pub(crate) fn of(language: Language) -> Option<Self> {
        match language {
            Language::Csharp => Some(Self::Csharp),
            Language::Go => Some(Self::Go),
            Language::Java | Language::Kotlin => Some(Self::Java),
            Language::Javascript | Language::Typescript => Some(Self::Javascript),
            Language::Php => Some(Self::Php),
            Language::Python => Some(Self::Python),
            Language::Ruby => Some(Self::Ruby),
            Language::Rust => Some(Self::Rust),
            _ => None,
        }
    }

    /// How those without a grammar here are cut into tokens.
    pub(crate) fn lexis(self) -> Option<Lexis> {
        match self {
            Self::Csharp | Self::Java => Some(Lexis::Braces),
            Self::Php => Some(Lexis::Php),
            Self::Ruby => Some(Lexis::Ruby),
            Self::Go | Self::Javascript | Self::Python | Self::Rust => None,
        }
    }
}

/// The imports and calls of a file, in the order of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) imports: Vec<Import>,
    pub(crate) calls: Vec<Call>,
}

/// One import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    /// The module as the file names it.
    pub(crate) module: String,
    /// Where it is named.
    pub(crate) at: usize,
    /// The statement that imports it, maybe with others.
    pub(crate) statement: Range<usize>,
}

/// A call of something that was imported, or a mark in a language without a grammar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The path of the called item: the module, then the name in it, separated by dots.
    pub(crate) path: String,
    /// The variable that takes the result.
    pub(crate) bound: Option<String>,
    /// The whole statement.
    pub(crate) statement: Range<usize>,
}

/// The imports and calls of a file. In languages without a grammar, calls are found by `marks`.
pub(crate) fn outline(language: Language, path: &str, text: &str, marks: &[&str]) -> Outline {
    let Some(family) = Family::of(language) else { return Outline::default() };
    match family.lexis() {
        Some(lexis) => marks::outline(family, lexis, text, marks),
        None => grammar::outline(language, path, text),
    }
}

/// Where a file stops being well formed: the byte of the first mistake. Languages that nothing is known of are taken as they are.
pub(crate) fn first_mistake(language: Language, path: &str, text: &str) -> Option<usize> {
    let family = Family::of(language)?;
    match family.lexis() {
        Some(lexis) => unbalanced(text, lexis),
        None => grammar::first_mistake(language, path, text),
    }
}
