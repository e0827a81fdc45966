//! Finds test names without a clear subject. A test name is a sentence, so its subject is a noun of the glossary or the
//! wire: `a_lost_upstream_fails_every_call_once`, not `who_waits_is_told`.

/// Words that stand where a noun belongs, and verbs that hide what the program does.
const VAGUE: &[&str] = &[
    "anew",
    "anybody",
    "anyone",
    "beside",
    "carried",
    "carries",
    "everybody",
    "everyone",
    "goes",
    "hear",
    "heard",
    "hears",
    "mended",
    "minded",
    "nobody",
    "nought",
    "otherwise",
    "said",
    "say",
    "says",
    "somebody",
    "someone",
    "tell",
    "tells",
    "told",
    "what",
    "whatever",
    "whichever",
    "who",
    "whoever",
    "whom",
    "whomever",
];

/// The vague test names in a Rust file, each with its line.
pub(super) fn vague_names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_test = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let line = line.trim_start();
        if is_attribute_of_test(line) {
            is_test = true;
        }
        let name = name_of_function(line)?;
        (std::mem::take(&mut is_test) && is_vague(name)).then_some((number, name))
    })
}

fn is_attribute_of_test(line: &str) -> bool {
    let attribute = line.strip_prefix("#[").and_then(|rest| rest.split([']', '(']).next());
    attribute.is_some_and(|path| path.rsplit("::").next() == Some("test"))
}

fn name_of_function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

fn is_vague(name: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    let is_existence = words.windows(2).any(|pair| matches!(pair, ["there", "is" | "are"]));
    is_existence || words.iter().any(|word| VAGUE.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_tests_count() {
        let text = "#[test]\n#[ignore]\nfn what_is_lost() {}\nfn who() {}\n#[tokio::test(start_paused = true)]\n\
                    async fn there_is_none() {}\n#[test]\nfn a_lost_call_fails() {}\n#[cfg(test)]\nfn told() {}\n";
        assert_eq!(vague_names(text).collect::<Vec<_>>(), [(3, "what_is_lost"), (6, "there_is_none")]);
    }
}
