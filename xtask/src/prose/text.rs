//! Takes the prose out of files: comments and longer messages of Rust, paragraphs and tables of Markdown.

use std::path::Path;

/// A string literal with at least this many spaces is a message; a shorter one is a name or a value.
const MESSAGE_SPACES: usize = 4;

/// The pieces of prose in a file, each with the number of its first line.
pub(super) fn prose_of(path: &Path, text: &str) -> Vec<(usize, String)> {
    let mut pieces = Pieces::default();
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        if is_rust {
            match trimmed.strip_prefix("//") {
                Some(comment) => pieces.extend(number, comment.trim_start_matches(['/', '!'])),
                None => {
                    pieces.end();
                    messages_of(line).for_each(|message| pieces.whole(number, message));
                }
            }
        } else if trimmed.starts_with("```") {
            is_code = !is_code;
            pieces.end();
        } else if is_code {
            // A comment in a configuration or shell example is prose.
            line.split_once("# ").into_iter().for_each(|(_, comment)| pieces.whole(number, comment));
        } else if trimmed.is_empty() || trimmed.starts_with('#') {
            pieces.end();
        } else if trimmed.starts_with('|') {
            pieces.end();
            trimmed.split('|').for_each(|cell| pieces.whole(number, cell));
        } else {
            pieces.extend(number, line);
        }
    }
    pieces.end();
    pieces.done
}

/// The commands that a help text lists.
pub(super) fn commands_of(help: &str) -> impl Iterator<Item = &str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let named = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help")
}

/// The paragraphs of a help text, and each item of its lists: a command, an option, a value or an example.
pub(super) fn pieces_of_help(help: &str) -> Vec<String> {
    let mut pieces = Pieces::default();
    for (number, line) in (1..).zip(help.lines()) {
        let is_item = line.starts_with("  ") && !line.starts_with("   ") || line.trim_start().starts_with('-');
        if line.is_empty() || is_item {
            pieces.end();
        }
        pieces.extend(number, line);
    }
    pieces.end();
    pieces.done.into_iter().map(|(_, text)| text).collect()
}

/// Pieces of prose that are put together line by line.
#[derive(Default)]
struct Pieces {
    done: Vec<(usize, String)>,
    open: Option<(usize, String)>,
}

impl Pieces {
    fn extend(&mut self, number: usize, line: &str) {
        let (_, text) = self.open.get_or_insert_with(|| (number, String::new()));
        text.push_str(line);
        text.push('\n');
    }

    fn end(&mut self) {
        self.done.extend(self.open.take());
    }

    fn whole(&mut self, number: usize, text: &str) {
        if !text.trim().is_empty() {
            self.done.push((number, text.to_owned()));
        }
    }
}

/// The string literals of a line that are long enough to be messages.
fn messages_of(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    let literals = std::iter::from_fn(move || {
        let begin = rest.find('"')? + 1;
        let mut is_escaped = false;
        let length = rest[begin..].find(|c| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        })?;
        let literal = &rest[begin..begin + length];
        rest = &rest[begin + length + 1..];
        Some(literal)
    });
    literals.filter(|literal| literal.matches(' ').count() >= MESSAGE_SPACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_messages_of_rust_are_prose() {
        let text = "//! One.\n//! Two.\nfn f() { log(\"a b c d \\\"e\\\"\"); let x = \"short\"; }\n    // Three.\n";
        let found = prose_of(Path::new("a.rs"), text);
        let expected = [(1, " One.\n Two.\n"), (3, "a b c d \\\"e\\\""), (4, " Three.\n")]
            .map(|(line, text)| (line, text.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn paragraphs_cells_and_comments_of_examples_are_prose() {
        let text = "# Title\n\nOne\ntwo.\n\n| a | b |\n```toml\nx = 1  # Sets x.\n```\n";
        let found = prose_of(Path::new("a.md"), text);
        let expected =
            [(3, "One\ntwo.\n"), (6, " a "), (6, " b "), (8, "Sets x.")].map(|(line, text)| (line, text.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn items_of_a_help_text_are_separate_pieces() {
        let help = "Does this\nand that.\n\nCommands:\n  one   First\n          more of it\n  two   Second\n      --all  All\n";
        let expected = ["Does this\nand that.\n", "\nCommands:\n", "  one   First\n          more of it\n"];
        let pieces = pieces_of_help(help);
        assert_eq!(pieces[..3], expected.map(str::to_owned));
        assert_eq!(pieces[3..], ["  two   Second\n", "      --all  All\n"].map(str::to_owned));
    }

    #[test]
    fn commands_are_read_from_a_help_text() {
        let help = "Usage: x\n\nCommands:\n  one   First\n          more of it\n  two   Second\n  help  Print this\n\nOptions:\n  -v\n";
        assert_eq!(commands_of(help).collect::<Vec<_>>(), ["one", "two"]);
    }
}
