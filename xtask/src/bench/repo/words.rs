//! Words and folders for what the bench generates: the same ones every time.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const SYLLABLES: [&str; 20] = [
    "ba", "cor", "de", "fil", "ga", "hen", "io", "jun", "ka", "lem", "mi", "nor", "op", "pra", "qui", "ros", "su",
    "tel", "ur", "vin",
];
/// How many words prose is made of.
const VOCABULARY: usize = 400;

/// The word with this number; words of different numbers below 8,000 differ.
pub(super) fn name(number: usize) -> String {
    let [first, second, third] = [number / VOCABULARY, number / 20, number].map(|place| SYLLABLES[place % 20]);
    format!("{first}{second}{third}")
}

/// Prose of so many words, which differs with the seed.
pub(super) fn prose(seed: usize, words: usize) -> String {
    // A linear congruential generator is as random as prose needs to be.
    let next =
        |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    let states = std::iter::successors(Some(seed as u64), next).skip(2);
    states.take(words).map(|state| name((state >> 33) as usize % VOCABULARY)).collect::<Vec<_>>().join(" ")
}

/// A folder filled by `fill`, rebuilt unless a complete one of the same version exists.
pub(super) fn folder(path: PathBuf, version: &str, fill: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<PathBuf> {
    // Beside the folder, so that it is no part of what is measured, and written last.
    let mark = path.with_extension("made");
    if fs::read_to_string(&mark).is_ok_and(|made| made == version) {
        return Ok(path);
    }
    eprintln!("bench: making {}", path.display());
    let made = || {
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        fill(&path)?;
        fs::write(&mark, version)
    };
    made().with_context(|| format!("could not make {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ_and_prose_stays_the_same() {
        assert_eq!((0..8000).map(name).collect::<BTreeSet<_>>().len(), 8000);
        assert_eq!(prose(7, 50), prose(7, 50));
        assert_ne!(prose(7, 50), prose(8, 50));
    }
}
