//! The faults that are counted: vague subjects, archaic phrases, sentences that begin with a what-clause, and long
//! sentences.

use std::ops::AddAssign;

/// A sentence with more words is long.
const MAX_WORDS: usize = 38;

/// Words that stand where a noun belongs.
const PRONOUNS: &[&str] =
    &["whoever", "whomever", "somebody", "someone", "nobody", "anybody", "everybody", "whatever", "whichever"];

/// Phrases that have a usual equivalent. Each is a sequence of words in lower case.
const PHRASES: &[&str] = &[
    "anew",
    "nought",
    "mend",
    "mended",
    "mends",
    "mending",
    "thereof",
    "therein",
    "hereby",
    "upon which",
    "in its own words",
    "is said",
    "is told of",
    "are told of",
    "tell of",
    "tells of",
    "told of",
    "worth it is",
    "of which there",
    "those that there",
    "as one likes",
    "likes it",
    "goes on with",
    "went on with",
    "in the middle of which",
    "is otherwise",
    "otherwise than",
    "left away",
    "looked at them",
    "come into being",
    "comes into being",
    "as it were",
    "carried on",
    "carries on",
    "carry on",
    "kept to",
    "held to",
    "beside it",
    "beside them",
    "beside others",
    "beside us",
    "beside that",
    "has words for",
    "have words for",
    "in the words of",
    "a word for",
    "cannot be said",
    "may not be said",
    "who it is",
    "whose it is",
    "what it is that",
    "what there is",
    "what is not",
    "that there are",
];

/// Words after "What" that begin a question.
const QUESTION: &[&str] = &["is", "are", "does", "do", "happens"];

/// One kind of obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Pronoun,
    Phrase,
    WhatClause,
    LongSentence,
}

impl Rule {
    pub(super) const ALL: [Self; 4] = [Self::Pronoun, Self::Phrase, Self::WhatClause, Self::LongSentence];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pronoun => "pronouns",
            Self::Phrase => "phrases",
            Self::WhatClause => "what-clauses",
            Self::LongSentence => "long sentences",
        }
    }
}

/// How often each rule is broken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts([usize; Rule::ALL.len()]);

impl Counts {
    /// Counts in a text from [`flat`].
    pub(super) fn of(text: &str) -> Self {
        let mut counts = Self::default();
        for sentence in sentences(text) {
            let words: Vec<String> = sentence.split(' ').map(bare).collect();
            let pronouns = words.iter().filter(|word| PRONOUNS.contains(&word.as_str())).count();
            counts.add(Rule::Pronoun, pronouns);
            counts.add(Rule::Phrase, PHRASES.iter().map(|phrase| occurrences(&words, phrase)).sum());
            let is_clause = sentence.starts_with("What ") && sentence.ends_with('.');
            let is_question = words.get(1).is_some_and(|word| QUESTION.contains(&word.as_str()));
            counts.add(Rule::WhatClause, usize::from(is_clause && !is_question));
            counts.add(Rule::LongSentence, usize::from(words.len() > MAX_WORDS));
        }
        counts
    }

    pub(super) fn total(&self) -> usize {
        self.0.iter().sum()
    }

    pub(super) fn of_rule(&self, rule: Rule) -> usize {
        self.0[rule as usize]
    }

    fn add(&mut self, rule: Rule, count: usize) {
        self.0[rule as usize] += count;
    }
}

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        Rule::ALL.into_iter().for_each(|rule| self.add(rule, other.of_rule(rule)));
    }
}

/// A text on one line with single spaces, where each piece of code is one word.
pub(super) fn flat(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts: Vec<&str> = joined.split('`').collect();
    // Between an odd and an even backtick is code. A last part without its closing backtick is text.
    let is_code = |index: usize| index % 2 == 1 && index + 1 < parts.len();
    parts.iter().enumerate().map(|(index, part)| if is_code(index) { "x" } else { part }).collect()
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.match_indices(' ').map(|(at, _)| at).find(|at| rest[..*at].ends_with(['.', '!', '?']));
        let (sentence, after) = end.map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
        rest = after;
        Some(sentence)
    })
}

/// A word in lower case without the marks around it.
fn bare(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

fn occurrences(words: &[String], phrase: &str) -> usize {
    let wanted: Vec<&str> = phrase.split(' ').collect();
    let is_here = |from: &usize| {
        let is_same = words[*from..].iter().zip(&wanted).all(|(word, wanted)| word == wanted);
        // "That there are no calls" is a statement like any other.
        is_same && words.get(from + wanted.len()).is_none_or(|next| next != "no")
    };
    (0..(words.len() + 1).saturating_sub(wanted.len())).filter(is_here).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> [usize; 4] {
        let counts = Counts::of(&flat(text));
        Rule::ALL.map(|rule| counts.of_rule(rule))
    }

    #[test]
    fn plain_sentences_break_no_rule() {
        assert_eq!(counts("A client sends a request. The server answers it.\nWhat is a lane? See `whoever`."), [0; 4]);
    }

    #[test]
    fn each_rule_is_counted() {
        assert_eq!(counts("Whoever asks, somebody answers."), [2, 0, 0, 0]);
        assert_eq!(counts("It is opened anew, otherwise than before."), [0, 2, 0, 0]);
        assert_eq!(counts("Of the calls that there are, it sees that there are no others."), [0, 1, 0, 0]);
        assert_eq!(counts("What came first wins. What happens then?"), [0, 0, 1, 0]);
        assert_eq!(counts(&"word ".repeat(39)), [0, 0, 0, 1]);
        assert_eq!(counts(&"word ".repeat(38)), [0; 4]);
    }

    #[test]
    fn code_is_one_word_and_an_unpaired_backtick_is_text() {
        assert_eq!(flat("a `b c`\n d"), "a x d");
        assert_eq!(flat("a `b nobody"), "a b nobody");
    }
}
