//! reStructuredText: headings are underlined, or under- and overlined, with any punctuation; which one stands for which level
//! is shown by the order in which they appear.

use super::{Cutter, LineKind};

pub(super) fn read(text: &str, cutter: &mut Cutter) {
    let lines: Vec<&str> = text.lines().collect();
    let mut levels: Vec<(char, bool)> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let overlined = adornment(line).is_some();
        let title = if overlined { lines.get(at + 1) } else { Some(line) };
        let under = lines.get(at + 1 + usize::from(overlined)).and_then(|under| adornment(under));
        if let (Some(title), Some(under)) = (title, under)
            && is_title(title, under, overlined)
            && (!overlined || adornment(line) == Some(under))
        {
            let kind = (under.0, overlined);
            let level = levels.iter().position(|known| *known == kind).unwrap_or_else(|| {
                levels.push(kind);
                levels.len() - 1
            });
            cutter.heading(level + 1, &title.replace("``", ""), at + 1);
            at += 2 + usize::from(overlined);
        } else {
            cutter.text(line, at + 1, LineKind::Text);
            at += 1;
        }
    }
}

/// The character and the length of a line that is made of one kind of punctuation.
fn adornment(line: &str) -> Option<(char, usize)> {
    let line = line.trim_end();
    let mark = line.chars().next().filter(char::is_ascii_punctuation)?;
    (line.len() >= 2 && line.chars().all(|c| c == mark)).then_some((mark, line.len()))
}

/// A title is not indented (unless it is overlined), and its underline is about as long as itself.
fn is_title(title: &str, (_, length): (char, usize), overlined: bool) -> bool {
    let text = title.trim();
    let indented = title.starts_with([' ', '\t']) && !overlined;
    !text.is_empty()
        && !indented
        && adornment(title).is_none()
        && !text.starts_with("..")
        && length + 2 >= text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::super::tests::outline;
    use crate::sections::Format;

    #[test]
    fn levels_are_learned_from_their_order() {
        let text = "=====\nGuide\n=====\n\nintro\n\nSetup\n=====\n\n.. code-block:: sh\n\n   make\n\nFast\n----\nf\n\nUse\n===\nu\n";
        assert_eq!(
            outline(Format::Rst, text),
            [
                "1  > Guide: intro",
                "7 Guide > Setup: .. code-block:: sh make",
                "14 Guide Setup > Fast: f",
                "18 Guide > Use: u"
            ]
        );
    }

    #[test]
    fn tables_and_transitions_are_text() {
        let text = "Title\n=====\n\n==  ==\na   b\n==  ==\n1   2\n==  ==\n\nbefore\n\n----\n\nafter\n";
        assert_eq!(outline(Format::Rst, text), ["1  > Title: == == a b"]);
    }
}
