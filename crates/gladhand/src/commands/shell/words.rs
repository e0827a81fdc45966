//! Splits a line into words, as shells do: blanks separate, quotes and backslashes keep blanks.

/// A quote that does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the quote {0} does not end")]
pub(super) struct OpenQuote(char);

/// The words of a line. Nothing is expanded. Within single quotes all is literal; within double quotes, a backslash keeps
/// only a quote and a backslash from their meaning, so that JSON can be typed.
pub(super) fn words(line: &str) -> Result<Vec<String>, OpenQuote> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => return Err(OpenQuote(c)),
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' => match chars.next_if(|next| matches!(next, '"' | '\\')) {
                            Some(kept) => word.push(kept),
                            None => word.push('\\'),
                        },
                        Some(other) => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_blanks_within_words() {
        for (line, expected) in [
            ("", vec![]),
            ("  tools  ", vec!["tools"]),
            ("call echo message='a b'", vec!["call", "echo", "message=a b"]),
            (r#"call x a:='{"b": [1]}' c="say \"hi\" \n""#, vec!["call", "x", r#"a:={"b": [1]}"#, r#"c=say "hi" \n"#]),
            (r"a\ b \'c ''", vec!["a b", "'c", ""]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        assert_eq!(words("call echo message='a").unwrap_err().to_string(), "the quote ' does not end");
    }
}
