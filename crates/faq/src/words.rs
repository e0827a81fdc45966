//! Words as the index knows them: lower case, without common endings, without those that say nothing.
//!
//! Sections and questions go through the same functions, so what is lost here is lost on both sides. A name that is made of
//! parts (`WIDGET_TOKEN`, `simulation.yaml`, `maxRetries`) counts as a whole and in its parts.

use std::ops::Range;

/// Longer words are cut: no question contains a word of a thousand letters, and encoded data should not fill the index.
const LONGEST: usize = 40;

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The word as it is indexed.
    pub(crate) stem: String,
    /// It is one part of a name whose whole comes right before its parts.
    pub(crate) part: bool,
    /// Its position in the text.
    pub(crate) place: Range<usize>,
}

/// The words of `text`, in order.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::with_capacity(text.len() / 6);
    for name in names(text) {
        if is_simple(&text[name.clone()]) {
            let word = clip(text[name.clone()].to_ascii_lowercase());
            if !is_stop(&word) {
                found.push(Word { stem: stem(word), part: false, place: name });
            }
            continue;
        }
        let parts = parts(text, name.clone());
        let part = parts.len() > 1;
        if part {
            let whole = parts.iter().map(|part| lower(&text[part.clone()])).collect();
            found.push(Word { stem: clip(whole), part: false, place: name });
        }
        for place in parts {
            let written = &text[place.clone()];
            if written.contains(unspaced) {
                pairs(written, &place, &mut found);
                continue;
            }
            let word = clip(lower(written));
            if !is_stop(&word) {
                found.push(Word { stem: stem(word), part, place });
            }
        }
    }
    found
}

/// The words of `text` with blanks between them: the form in which the index stores them. Targets of links are left out.
pub(crate) fn stems(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut targets = text.match_indices("](").map(|(at, _)| at..at + text[at..].find(')').unwrap_or(0)).peekable();
    for word in words(text) {
        while targets.next_if(|target| target.end <= word.place.start).is_some() {}
        if targets.peek().is_some_and(|target| target.contains(&word.place.start)) {
            continue;
        }
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(&word.stem);
    }
    joined
}

/// Runs of letters and digits, with single joints between them where both sides go on: `a.b`, `a-b`, `a_b`, `a::b`, `a's`.
fn names(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(char::is_alphanumeric)?;
        let mut end = start;
        loop {
            let rest = &text[end..];
            let run = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            end += run;
            let joint = text[end..].bytes().take_while(|byte| b"._-:'".contains(byte)).count();
            let single = joint == 1 && !text[end..].starts_with(':') || joint == 2 && text[end..].starts_with("::");
            if !single || !text[end + joint..].starts_with(char::is_alphanumeric) {
                break;
            }
            end += joint;
        }
        at = end;
        Some(start..end)
    })
}

/// The parts of a name: between its joints, and where lower case goes over to upper case.
fn parts(text: &str, name: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = name.start;
    let mut before = ' ';
    for (offset, c) in text[name.clone()].char_indices() {
        let at = name.start + offset;
        if !c.is_alphanumeric() {
            if at > start {
                parts.push(start..at);
            }
            start = at + c.len_utf8();
        } else if before.is_lowercase() && c.is_uppercase() {
            parts.push(start..at);
            start = at;
        }
        before = c;
    }
    if name.end > start {
        parts.push(start..name.end);
    }
    // Text after an apostrophe is grammar and not a separate word: `don't`, `server's`.
    parts.retain(|part| part.start == name.start || !(text[..part.start].ends_with('\'') && part.len() <= 2));
    parts
}

/// Scripts that put no blanks between words are indexed by pairs of characters.
fn unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{e00}'..='\u{e7f}' | '\u{20000}'..='\u{3ffff}')
}

fn pairs(run: &str, place: &Range<usize>, found: &mut Vec<Word>) {
    let chars: Vec<char> = run.chars().collect();
    for pair in chars.windows(2.min(chars.len())) {
        let stem = pair.iter().flat_map(|c| c.to_lowercase()).collect();
        found.push(Word { stem, part: false, place: place.clone() });
    }
}

/// Most words are ASCII letters of which only the first may be large: they have no parts.
fn is_simple(name: &str) -> bool {
    name.as_bytes()[0].is_ascii_alphanumeric()
        && name.bytes().skip(1).all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn is_stop(word: &str) -> bool {
    word.len() <= LONGEST_STOP && STOP.binary_search(&word).is_ok()
}

fn lower(written: &str) -> String {
    if written.is_ascii() { written.to_ascii_lowercase() } else { written.to_lowercase() }
}

fn clip(mut word: String) -> String {
    if let Some((at, _)) = word.char_indices().nth(LONGEST) {
        word.truncate(at);
    }
    word
}

/// A word without its ending. It is no linguist: it only has to do the same to the forms of a word that a question and its
/// answer are likely to use.
fn stem(mut word: String) -> String {
    if word.len() < 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word;
    }
    if word.ends_with('s') && !["ss", "us", "is"].iter().any(|kept| word.ends_with(kept)) {
        word.pop();
    }
    // `decision` and `decide`, `extension` and `extend`; but `version` and `session` are no verbs.
    if let Some(rest) = word.strip_suffix("sion").filter(|rest| rest.len() >= 4 && !rest.ends_with(['r', 's'])) {
        word.truncate(rest.len());
        word.push('d');
    }
    // `need` and `speed` end in nothing that could be taken off.
    if !["eed", "quest", "ggest"].iter().any(|kept| word.ends_with(kept)) {
        let ending = ENDINGS.iter().find(|(ending, least)| {
            word.strip_suffix(ending)
                .is_some_and(|rest| rest.len() >= *least && rest.bytes().any(|byte| b"aeiouy".contains(&byte)))
        });
        word.truncate(word.len() - ending.map_or(0, |(ending, _)| ending.len()));
    }
    match word.as_bytes() {
        [_, .., b'o', b'u', b'r'] => word.replace_range(word.len() - 2.., "r"),
        [.., before, b'y'] if !b"aeiou".contains(before) => word.replace_range(word.len() - 1.., "i"),
        [_, .., a, b] if a == b && !b"aeiou".contains(a) => word.truncate(word.len() - 1),
        _ => {}
    }
    word
}

/// Endings, the longest first, with the least number of letters that must be left.
const ENDINGS: [(&str, usize); 25] = [
    ("ization", 3),
    ("isation", 3),
    ("ation", 4),
    ("ature", 4),
    ("ating", 4),
    ("izing", 3),
    ("ising", 3),
    ("ally", 4),
    ("ator", 4),
    ("ated", 4),
    ("ized", 3),
    ("ised", 3),
    ("able", 4),
    ("ment", 4),
    ("ness", 4),
    ("ize", 3),
    ("ise", 3),
    ("ate", 4),
    ("est", 3),
    ("ful", 4),
    ("ing", 2),
    ("ion", 4),
    ("ed", 2),
    ("ly", 4),
    ("e", 2),
];

/// The longest of [`STOP`].
const LONGEST_STOP: usize = 9;

/// Words that are in every question and every section, sorted.
#[rustfmt::skip]
const STOP: [&str; 154] = [
    "a", "about", "actually", "all", "already", "also", "am", "an", "and", "another", "any", "anyway", "are", "as",
    "at", "be", "because", "been", "being", "between", "both", "but", "by", "can", "could", "currently", "did", "do",
    "does", "doing", "don", "each", "else", "etc", "even", "ever", "explain", "few", "for", "from", "get", "gets",
    "give", "got", "had", "happen", "happens", "has", "have", "having", "he", "her", "here", "his", "how", "i", "if",
    "in", "into", "is", "it", "its", "itself", "just", "know", "let", "like", "ll", "many", "may", "me", "mean",
    "means", "might", "more", "most", "much", "must", "my", "nor", "now", "of", "often", "on", "only", "onto", "or",
    "other", "our", "ours", "out", "please", "re", "really", "s", "say", "says", "shall", "she", "should", "so",
    "some", "something", "still", "such", "t", "tell", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "thing", "things", "this", "those", "through", "to", "too", "until", "up", "upon", "us", "ve",
    "very", "via", "want", "was", "way", "we", "well", "were", "what", "when", "where", "whether", "which", "while",
    "who", "whom", "whose", "why", "will", "with", "would", "yes", "yet", "you", "your", "yours",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["integrate", "integrates", "integrated", "integrating", "integration", "integrations"][..],
            &["configure", "configured", "configures", "configuring", "configuration"],
            &["install", "installs", "installed", "installing", "installation"],
            &["retry", "retries", "retried", "retrying"],
            &["policy", "policies"],
            &["call", "calls", "called", "calling"],
            &["use", "uses", "used", "using"],
            &["run", "runs", "running"],
            &["process", "processes", "processed", "processing"],
            &["update", "updates", "updated", "updating"],
            &["authorize", "authorized", "authorizing", "authorization"],
            &["need", "needs", "needed"],
            &["error", "errors"],
            &["colour", "colors", "color"],
            &["initialise", "initialize", "initialized", "initialisation"],
            &["delete", "deleted", "deleting", "deletion"],
            &["decide", "decided", "decision", "decisions"],
            &["sign", "signed", "signing", "signature"],
            &["long", "longest"],
            &["large", "largest"],
            &["request", "requests", "requested", "requesting"],
            &["deploy", "deployment", "deployments"],
            &["automatic", "automatically"],
            &["success", "successful"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem((*form).to_owned())).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{forms:?} became {stems:?}");
        }
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP.is_sorted());
        assert_eq!(STOP.iter().map(|word| word.len()).max(), Some(LONGEST_STOP));
    }

    #[test]
    fn a_name_counts_as_a_whole_and_in_its_parts() {
        assert_eq!(
            stems("Set WIDGET_TOKEN, maxRetries and simulation.yaml."),
            "set widgettoken widget token maxretries max retri simulationyaml simul yaml"
        );
        assert_eq!(stems("W200 is the server's code; don't retry"), "w200 server cod retri");
    }

    #[test]
    fn link_targets_are_not_indexed() {
        assert_eq!(stems("see the [store](#secrets) of [a](b.md"), "se stor bmd b md");
    }

    #[test]
    fn stop_words_are_not_indexed() {
        assert_eq!(stems("How do I find out what this is?"), stems("find"));
        assert_eq!(stems("?!? -- \0 ... ' _"), "");
    }

    #[test]
    fn scripts_without_blanks_are_pairs_of_characters() {
        assert_eq!(stems("設定方法 and 字"), "設定 定方 方法 字");
    }
}
