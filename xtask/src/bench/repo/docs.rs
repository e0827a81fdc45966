//! Documentation of 3,000 sections, and questions that it answers.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::words::{folder, name, prose};

const PAGES: usize = 100;
const SECTIONS_OF_EACH: usize = 30;
const SECTIONS: usize = PAGES * SECTIONS_OF_EACH;
/// Names from here on are of subjects: they are not among the words of prose.
const FIRST_SUBJECT: usize = 1000;
const QUESTIONS: usize = 250;

/// The folder of documentation, made if it is not there.
pub(super) fn make(scratch: &Path) -> Result<PathBuf> {
    folder(scratch.join("docs"), "1", |root| {
        (0..PAGES).try_for_each(|page| fs::write(root.join(format!("{}.md", name(page))), text(page)))
    })
}

/// Questions about sections everywhere in it.
pub(super) fn questions() -> impl Iterator<Item = String> {
    let sections = (0..SECTIONS).step_by(SECTIONS / QUESTIONS);
    sections.map(|section| format!("How do I configure {} for {}?", subject(section), prose(section, 2)))
}

/// The subject of a section, which no other section has.
fn subject(section: usize) -> String {
    name(FIRST_SUBJECT + section)
}

fn text(page: usize) -> String {
    let mut text = String::new();
    for section in page * SECTIONS_OF_EACH..(page + 1) * SECTIONS_OF_EACH {
        let (level, subject) = (if section.is_multiple_of(SECTIONS_OF_EACH) { "#" } else { "##" }, subject(section));
        // Writing to a String cannot fail.
        let _ = write!(text, "{level} Using {subject}\n\nTo configure {subject}, {}.\n\n", prose(section, 80));
    }
    text
}
