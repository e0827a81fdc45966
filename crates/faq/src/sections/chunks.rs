//! The index of Fluxloop's own server (`fluxloop` §19.1): documents in pieces, one JSON object a line.
//!
//! The pieces of a document are put together again and cut like any document, so that headings and lines are right.

use std::path::Path;

use serde::Deserialize;

use super::{Format, Section, cut};

#[derive(Deserialize)]
struct Chunk {
    content: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    source: String,
}

/// The sections of all documents of an index. A line that is no chunk is left out.
pub(super) fn read(text: &str) -> Vec<Section> {
    let mut documents: Vec<(String, String)> = Vec::new();
    for Chunk { content, metadata } in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        let source = metadata.source.trim_start_matches(['.', '/']);
        match documents.last_mut() {
            Some((path, document)) if path == source => {
                document.push('\n');
                document.push_str(&content);
            }
            _ => documents.push((source.to_owned(), content)),
        }
    }
    documents.into_iter().flat_map(|(path, document)| sections(&path, &document)).collect()
}

fn sections(path: &str, document: &str) -> Vec<Section> {
    // An index within an index would go on without end.
    let format = Format::of(Path::new(path)).filter(|format| *format != Format::Chunks).unwrap_or(Format::Markdown);
    let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    let mut sections = cut(format, &name, document);
    sections.iter_mut().for_each(|section| section.source = Some(path.to_owned()));
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_a_document_are_one_document_again() {
        let chunk = |source: &str, content: &str| {
            serde_json::json!({"id": "x", "content": content, "metadata": {"source": source, "chunk_index": 0}})
                .to_string()
        };
        let lines = [
            chunk("./docs/a.md", "# A\n\nFirst.\n\n```sh\n# a comment"),
            chunk("./docs/a.md", "run it\n```\n\n## Deeper\n\nSecond."),
            "not a chunk".to_owned(),
            "{\"content\":5}".to_owned(),
            chunk("b/chunks.jsonl", "no heading"),
        ];
        let found = read(&lines.join("\n"));
        let shown = |section: &Section| {
            let Section { source, heading, line, body, .. } = section;
            format!("{}:{line} {heading}: {body}", source.as_deref().unwrap())
        };
        assert_eq!(
            found.iter().map(shown).collect::<Vec<_>>(),
            [
                "docs/a.md:1 A: First.\n\n```sh\n# a comment\nrun it\n```",
                "docs/a.md:10 Deeper: Second.",
                "b/chunks.jsonl:1 chunks: no heading"
            ]
        );
    }
}
