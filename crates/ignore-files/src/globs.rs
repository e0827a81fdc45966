//! Globs of peers, models and clones. Their complexity is limited before `globset` parses them, because its parser uses a
//! stack frame for each nested brace: a deeply nested glob would end the process.
//!
//! This is the only place that makes globs. `clippy.toml` forbids the constructors elsewhere.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::overrides::{Override, OverrideBuilder};

/// Maximum length of a glob, in bytes.
const MAX_BYTES: usize = 4 << 10;

/// Maximum depth of nested braces.
const MAX_DEPTH: usize = 16;

/// Maximum number of commas in a glob with braces, which separate alternatives.
const MAX_COMMAS: usize = 512;

/// Why a glob is not used.
#[derive(Debug, thiserror::Error)]
pub enum GlobError {
    /// It is too long.
    #[error("the glob is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// Its braces are nested too deeply.
    #[error("the braces of the glob are nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// Its braces contain too many alternatives.
    #[error("the glob has more than {MAX_COMMAS} alternatives")]
    TooManyAlternatives,
    /// It is not a glob, or it is too large when it is compiled.
    #[error("{0}")]
    Syntax(#[from] globset::Error),
    /// The same, for an override.
    #[error("{0}")]
    Override(#[from] ignore::Error),
}

/// A glob for paths, in which only `**` matches a slash.
#[expect(clippy::disallowed_methods, reason = "the complexity is limited here")]
pub fn glob(text: &str) -> Result<Glob, GlobError> {
    limit(text.as_bytes())?;
    Ok(GlobBuilder::new(text).literal_separator(true).build()?)
}

/// A set of globs. Unlike the matcher of one glob, it reports a failed compilation instead of a panic.
pub fn glob_set(globs: impl IntoIterator<Item = Glob>) -> Result<GlobSet, GlobError> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob);
    }
    Ok(set.build()?)
}

/// A glob that the files of a walk below `root` must match. A leading `!` excludes files.
#[expect(clippy::disallowed_methods, reason = "the complexity is limited here")]
pub fn override_glob(root: &Path, text: &str) -> Result<Override, GlobError> {
    limit(text.as_bytes())?;
    Ok(OverrideBuilder::new(root).add(text)?.build()?)
}

/// Fails if a glob, or a line of an ignore file, is too complex to be parsed.
pub(crate) fn limit(text: &[u8]) -> Result<(), GlobError> {
    let count = |wanted| text.iter().filter(|byte| **byte == wanted).count();
    if text.len() > MAX_BYTES {
        Err(GlobError::TooLong)
    } else if depth(text) > MAX_DEPTH {
        Err(GlobError::TooDeep)
    } else if count(b'{') > 0 && count(b',') > MAX_COMMAS {
        Err(GlobError::TooManyAlternatives)
    } else {
        Ok(())
    }
}

/// The depth of nested braces, or a larger number. A closing brace in a class or after a backslash closes nothing, so with
/// either in the glob, no closing brace counts.
fn depth(text: &[u8]) -> usize {
    let has_literals = text.iter().any(|byte| matches!(byte, b'[' | b'\\'));
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text {
        match byte {
            b'{' => depth += 1,
            b'}' if !has_literals => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}a{}", "{".repeat(levels), "}".repeat(levels))
    }

    #[test]
    fn a_glob_that_is_too_complex_is_refused_before_it_is_parsed() {
        for levels in [MAX_DEPTH + 1, 500, 2000] {
            assert!(matches!(glob(&nested(levels)), Err(GlobError::TooDeep)), "{levels}");
            assert!(matches!(override_glob(Path::new("/"), &nested(levels)), Err(GlobError::TooDeep)), "{levels}");
        }
        assert!(matches!(glob(&nested(100_000)), Err(GlobError::TooLong)));
        // Closing braces that close nothing do not hide the depth.
        for open in ["{[}]", "{\\}"] {
            assert!(matches!(glob(&open.repeat(200)), Err(GlobError::TooDeep)), "{open}");
        }
        let many = format!("{{{}}}", "a,".repeat(MAX_COMMAS + 1));
        assert!(matches!(glob(&many), Err(GlobError::TooManyAlternatives)));
        assert!(matches!(glob("{a"), Err(GlobError::Syntax(_))));
    }

    #[test]
    fn a_usual_glob_matches() {
        let set = glob_set([glob(&nested(MAX_DEPTH)).unwrap(), glob("**/*.{rs,[ch]}").unwrap()]).unwrap();
        for (path, is_match) in [("a", true), ("x/y.rs", true), ("z.h", true), ("x/y.py", false)] {
            assert_eq!(set.is_match(path), is_match, "{path}");
        }
        let many = vec!["*.{a,b}"; 40].join("");
        assert!(glob(&many).is_ok(), "braces side by side are not nested");
    }
}
