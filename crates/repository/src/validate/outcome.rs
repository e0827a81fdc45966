//! The result of the edits of a plan for one file.

use crate::edit::{Change, Document, Overlap, apply, overlap};
use crate::language::Language;
use crate::{source, text};

/// The result of the edits of a plan for one file.
#[derive(Debug)]
pub(super) struct Outcome {
    document: Document,
    language: Option<Language>,
    /// The changes, each with the number of its edit.
    pub(super) changes: Vec<(usize, Change)>,
    is_new: bool,
}

impl Outcome {
    pub(super) fn changed(document: Document, language: Option<Language>) -> Self {
        Self { document, language, changes: Vec::new(), is_new: false }
    }

    pub(super) fn created(edit: usize, code: &str) -> Self {
        let change = Change { range: 0..0, text: code.to_owned() };
        Self { document: Document::new(""), language: None, changes: vec![(edit, change)], is_new: true }
    }

    fn all(&self) -> Vec<&Change> {
        self.changes.iter().map(|(_, change)| change).collect()
    }

    fn after(&self) -> String {
        apply(&self.document.text, &self.all())
    }

    /// The numbers of two edits that overlap, and the line where.
    pub(super) fn overlap(&self) -> Option<(usize, usize, usize)> {
        let Overlap(earlier, later) = overlap(&self.all())?;
        let line = text::line_at(&self.document.text, self.changes[later].1.range.start);
        Some((self.changes[earlier].0, self.changes[later].0, line))
    }

    /// The edit after which the file is no longer well formed, the line in the result, and the message of the parser. A
    /// file that was not well formed before is not reported.
    pub(super) fn mistake(&self, path: &str) -> Option<(Option<usize>, usize, String)> {
        if self.changes.is_empty() {
            return None;
        }
        let after = self.after();
        let language = self.language.or_else(|| Language::of(path, after.as_bytes()));
        if !self.is_new && malformed(language, path, &self.document.text).is_some() {
            return None;
        }
        let (line, why) = malformed(language, path, &after)?;
        let edit = match self.changes.as_slice() {
            [(edit, _)] => Some(*edit),
            [(first, _), rest @ ..] if rest.iter().all(|(edit, _)| edit == first) => Some(*first),
            _ => None,
        };
        Some((edit, line, why))
    }

    /// How a patch differs from what the edits do.
    pub(super) fn differs_from(&self, diff: &str) -> Option<&'static str> {
        // Patches are compared with plain line ends: only some files have others, and the edits keep them.
        let diff = diff.replace("\r\n", "\n");
        let Ok(patch) = diffy::Patch::from_str(&diff) else { return Some("cannot be read") };
        match diffy::apply(&self.document.text, &patch) {
            Err(_) => Some("does not apply"),
            Ok(patched) if patched != self.after() => Some("does not match the edits"),
            Ok(_) => None,
        }
    }
}

/// The line at which a file stops being well formed, and the reason where there is one.
fn malformed(language: Option<Language>, path: &str, content: &str) -> Option<(usize, String)> {
    if let Some(language) = language {
        let at = source::first_mistake(language, path, content)?;
        return Some((text::line_at(content, at), String::new()));
    }
    let told = |why: String| format!(": {}", text::shortened(why.lines().next().unwrap_or_default(), 120));
    match path.rsplit('.').next()? {
        "json" => {
            serde_json::from_str::<serde::de::IgnoredAny>(content).err().map(|why| (why.line(), told(why.to_string())))
        }
        "toml" => content.parse::<toml::Table>().err().map(|why| {
            (text::line_at(content, why.span().map_or(0, |span| span.start)), told(why.message().to_owned()))
        }),
        "yaml" | "yml" => serde_saphyr::from_str::<serde_json::Value>(content).err().map(|why| {
            (why.location().map_or(1, |location| usize::try_from(location.line()).unwrap_or(1)), told(why.to_string()))
        }),
        _ => None,
    }
}
