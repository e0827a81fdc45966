//! Servers that a client keeps for single projects in the user's own file, as Claude Code does under `projects`.

use std::path::Path;

use gladhand_core::wire::Members;

use super::jsonc;

/// How many servers a file keeps for projects other than this folder, and for how many projects. A file that cannot be read
/// has none.
pub(crate) fn servers_elsewhere(text: &str, here: Option<&Path>) -> (usize, usize) {
    let cleaned = jsonc::clean(text);
    let Some(projects) = Members::parse(&cleaned.text).ok().and_then(|root| root.object("projects")) else {
        return (0, 0);
    };
    let elsewhere = projects.iter().filter(|(folder, _)| here.is_none_or(|here| here != Path::new(folder)));
    let counts = elsewhere.filter_map(|(folder, _)| {
        let servers = projects.object(folder)?.object("mcpServers")?;
        Some(servers.iter().count()).filter(|count| *count > 0)
    });
    counts.fold((0, 0), |(servers, projects), count| (servers + count, projects + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_other_projects_are_counted() {
        let text = r#"{ "mcpServers": { "a": {} }, // mine
            "projects": { "/here": { "mcpServers": { "b": {} } }, "/one": { "mcpServers": { "c": {}, "d": {} } },
            "/two": { "mcpServers": { "e": {} } }, "/none": { "mcpServers": {} }, "/odd": 5 } }"#;
        assert_eq!(servers_elsewhere(text, Some(Path::new("/here"))), (3, 2));
        assert_eq!(servers_elsewhere(text, None), (4, 3));
        assert_eq!(servers_elsewhere("{", None), (0, 0));
    }
}
