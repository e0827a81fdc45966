//! The project's own documentation, as it was when the program was built.

use crate::sections::Format;

/// How all of it is written.
pub(crate) const FORMAT: Format = Format::Markdown;

/// Each document with its path in the repository, by path.
pub(crate) const DOCUMENTS: [(&str, &str); 22] = [
    ("ARCHITECTURE.md", include_str!("../../../ARCHITECTURE.md")),
    ("README.md", include_str!("../../../README.md")),
    ("docs/a2e.md", include_str!("../../../docs/a2e.md")),
    ("docs/agent.md", include_str!("../../../docs/agent.md")),
    ("docs/chat.md", include_str!("../../../docs/chat.md")),
    ("docs/check.md", include_str!("../../../docs/check.md")),
    ("docs/commands.md", include_str!("../../../docs/commands.md")),
    ("docs/configuration.md", include_str!("../../../docs/configuration.md")),
    ("docs/conformance.md", include_str!("../../../docs/conformance.md")),
    ("docs/console.md", include_str!("../../../docs/console.md")),
    ("docs/coupling.md", include_str!("../../../docs/coupling.md")),
    ("docs/dialects.md", include_str!("../../../docs/dialects.md")),
    ("docs/embedding.md", include_str!("../../../docs/embedding.md")),
    ("docs/mcp.md", include_str!("../../../docs/mcp.md")),
    ("docs/metrics.md", include_str!("../../../docs/metrics.md")),
    ("docs/peers.md", include_str!("../../../docs/peers.md")),
    ("docs/performance.md", include_str!("../../../docs/performance.md")),
    ("docs/policy.md", include_str!("../../../docs/policy.md")),
    ("docs/recording.md", include_str!("../../../docs/recording.md")),
    ("docs/replay.md", include_str!("../../../docs/replay.md")),
    ("docs/security.md", include_str!("../../../docs/security.md")),
    ("docs/stability.md", include_str!("../../../docs/stability.md")),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn no_page_of_the_documentation_is_missing() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = vec!["ARCHITECTURE.md".to_owned(), "README.md".to_owned()];
        for entry in fs_err::read_dir(root.join("docs")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.push(format!("docs/{name}"));
            }
        }
        pages.sort();
        let ours: Vec<&str> = DOCUMENTS.iter().map(|(path, _)| *path).collect();
        assert_eq!(ours, pages, "every page of docs/ is listed here, by path");
    }
}
