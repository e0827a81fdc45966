//! Command lines as a page or a help shows them, taken apart as a shell does.

/// The words of one command line. Quotes and backslashes are resolved, a comment is left out, and operators such as `|` and
/// `>` are words of their own.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\'' => word.get_or_insert_default().extend(rest.by_ref().take_while(|c| *c != '\'')),
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(c) = rest.next().filter(|c| *c != '"') {
                    word.push(if c == '\\' { rest.next().unwrap_or(c) } else { c });
                }
            }
            '\\' if rest.peek() == Some(&'\n') => drop(rest.next()),
            '\\' => word.get_or_insert_default().extend(rest.next()),
            '#' if word.is_none() => break,
            '|' | '>' | '<' => {
                words.extend(word.take());
                words.push(c.to_string());
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The command lines of ours in a pipeline: programs and their arguments, without redirections.
pub(crate) fn ours(line: &str) -> Vec<Vec<String>> {
    let words = words(line);
    let parts = words.split(|word| word == "|").map(|part| {
        let end = part.iter().position(|word| word == ">" || word == "<").unwrap_or(part.len());
        part[..end].to_vec()
    });
    parts.filter(|part| part.first().is_some_and(|program| program == "gladhand")).collect()
}

#[test]
fn a_command_line_is_taken_apart_as_a_shell_does() {
    let line = "printf '%s\\n' \"a \\\"b\\\"\" | gladhand call x y=it\\ is --args '{\"q\": 1}' > out.json # why";
    assert_eq!(ours(line), [["gladhand", "call", "x", "y=it is", "--args", "{\"q\": 1}"]]);
    assert_eq!(words(line)[..3], ["printf", "%s\\n", "a \"b\""]);
    assert_eq!(words("a \\\n  b"), ["a", "b"]);
}
