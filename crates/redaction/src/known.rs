//! The secret values that this process uses, and the search for all of them at once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use gladhand_core::sync::Unpoisoned as _;
use zeroize::Zeroizing;

use crate::forms;

/// Minimum length of a value that is searched for, in bytes.
pub const SHORTEST: usize = 8;

/// Maximum length of a value that is searched for, in bytes.
pub(crate) const MAX_BYTES: usize = 16 * 1024;

/// Minimum length in bytes of a line that is searched for, in a value with several lines such as a private key.
const MIN_LINE_BYTES: usize = 16;

/// Maximum number of known values of each lifetime.
const MAX_VALUES: usize = 1024;

/// Maximum size of the known values of each lifetime, in bytes.
const MAX_TOTAL_BYTES: usize = 256 * 1024;

/// Marks the end of a text that was cut.
const CUT_MARK: &str = "…";

/// Minimum length in bytes of the beginning of a value that is searched for before a cut. A shorter one may be ordinary
/// text, and says little about the value.
const MIN_CUT_BYTES: usize = 6;

/// Maximum length in bytes of such a beginning. Longer texts are masked before they are cut.
const MAX_CUT_BYTES: usize = 1024;

/// How long a value stays known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// As long as the process: the operator configured it.
    Process,
    /// Until 1024 newer values are known: it is issued repeatedly, or a peer chose it.
    Recent,
}

/// Makes a value known. Ignores a value that is too short to distinguish it from ordinary text.
pub fn learn(value: &str, life: Life) {
    let mut state = STATE.lock().unpoisoned();
    state.learn(value.trim(), life);
    for line in value.lines().map(str::trim).filter(|line| value.contains('\n') && line.len() >= MIN_LINE_BYTES) {
        state.learn(line, life);
    }
}

/// The search for the known values of this moment. A message with many texts takes it once.
pub(crate) fn search() -> Search {
    STATE.lock().unpoisoned().search()
}

static STATE: Mutex<State> =
    Mutex::new(State { lasting: Values::NONE, recent: Values::NONE, search: Some(Search::Nothing) });

struct State {
    lasting: Values,
    recent: Values,
    /// Built on first use after a change.
    search: Option<Search>,
}

/// Finds the known values in texts.
#[derive(Clone)]
pub(crate) enum Search {
    Nothing,
    Values(Arc<Forms>),
    Impossible,
}

/// All forms of the known values.
pub(crate) struct Forms {
    /// Sorted.
    all: Vec<Zeroizing<String>>,
    search: AhoCorasick,
}

impl Search {
    /// The places of known values in a text.
    pub(crate) fn spans(&self, text: &str) -> Vec<Range<usize>> {
        match self {
            Self::Nothing => Vec::new(),
            // No form is shorter, not even one that a cut has left with its mark.
            Self::Values(_) if text.len() < SHORTEST => Vec::new(),
            Self::Values(forms) => {
                let mut found: Vec<_> = forms.search.find_iter(text).map(|found| found.range()).collect();
                found.extend(forms.cut(text));
                found
            }
            // A text that cannot be searched may contain any secret.
            Self::Impossible => std::iter::once(0..text.len()).collect(),
        }
    }
}

impl Forms {
    /// The beginnings of known values that a cut has left: those that stand before a `…`. Each place of the text is
    /// compared once, so the search takes linear time.
    fn cut(&self, text: &str) -> Vec<Range<usize>> {
        let (mut found, mut begin) = (Vec::new(), 0);
        for (end, mark) in text.match_indices(CUT_MARK) {
            let part = &text[begin..end];
            let from = part.len().saturating_sub(MAX_CUT_BYTES);
            let mut starts = part.char_indices().map(|(at, _)| at).filter(|at| *at >= from);
            found.extend(starts.find(|at| self.has_beginning(&part[*at..])).map(|at| begin + at..end));
            begin = end + mark.len();
        }
        found
    }

    /// Whether a text is the beginning of a form.
    fn has_beginning(&self, text: &str) -> bool {
        let next = self.all.partition_point(|form| form.as_str() < text);
        text.len() >= MIN_CUT_BYTES && self.all.get(next).is_some_and(|form| form.starts_with(text))
    }
}

impl State {
    fn learn(&mut self, value: &str, life: Life) {
        if !(SHORTEST..=MAX_BYTES).contains(&value.len()) || self.lasting.has(value) {
            return;
        }
        let values = match life {
            Life::Process => &mut self.lasting,
            Life::Recent => &mut self.recent,
        };
        if values.add(value) {
            self.search = None;
        }
    }

    fn search(&mut self) -> Search {
        self.search.get_or_insert_with(|| search_for(self.lasting.all.iter().chain(&self.recent.all))).clone()
    }
}

fn search_for<'v>(values: impl Iterator<Item = &'v Zeroizing<String>>) -> Search {
    let mut all = Vec::new();
    values.for_each(|value| forms::add(value, &mut all));
    all.retain(|form| form.len() >= SHORTEST);
    all.sort_unstable();
    all.dedup();
    let mut builder = AhoCorasick::builder();
    // The longest match, so that no value is replaced only in part; and the automaton that needs little memory.
    builder.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::ContiguousNFA));
    let Ok(search) = builder.build(&all) else { return Search::Impossible };
    Search::Values(Arc::new(Forms { all: all.into_iter().map(Zeroizing::new).collect(), search }))
}

/// Values, the newest last.
struct Values {
    all: VecDeque<Zeroizing<String>>,
    bytes: usize,
}

impl Values {
    const NONE: Self = Self { all: VecDeque::new(), bytes: 0 };

    fn has(&self, value: &str) -> bool {
        self.all.iter().any(|known| known.as_str() == value)
    }

    /// Adds a value, and removes the oldest if there are too many. Returns false if it is already known.
    fn add(&mut self, value: &str) -> bool {
        if let Some(at) = self.all.iter().position(|known| known.as_str() == value) {
            let known = self.all.remove(at);
            self.all.extend(known);
            return false;
        }
        self.bytes += value.len();
        self.all.push_back(Zeroizing::new(value.to_owned()));
        while self.all.len() > MAX_VALUES || self.bytes > MAX_TOTAL_BYTES {
            self.bytes -= self.all.pop_front().map_or(0, |oldest| oldest.len());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use proptest::prelude::*;

    use super::*;
    use crate::rules::masked;
    use crate::{MASK, redact};

    /// A separate state, so that tests do not see each other's values.
    fn knowing(values: &[&str]) -> impl Fn(&str) -> String + use<> {
        let mut state = State { lasting: Values::NONE, recent: Values::NONE, search: None };
        values.iter().for_each(|value| state.learn(value, Life::Recent));
        let search = state.search();
        move |text| masked(text, search.spans(text)).into_owned()
    }

    #[test]
    fn a_value_is_found_in_every_form() {
        let value = "pä\"ss w/rd+=9";
        let hidden = knowing(&[value]);
        for text in [
            value.to_owned(),
            r#"pä\"ss w/rd+=9"#.to_owned(),
            r#"pä\"ss w\/rd+=9"#.to_owned(),
            r#"p\u00e4\"ss w/rd+=9"#.to_owned(),
            r#"pä\\\"ss w/rd+=9"#.to_owned(),
            "p%C3%A4%22ss%20w%2Frd%2B%3D9".to_owned(),
            "p%c3%a4%22ss%20w%2frd%2b%3d9".to_owned(),
            "p%C3%A4%22ss+w%2Frd%2B%3D9".to_owned(),
            "p%C3%A4%22ss%20w/rd+=9".to_owned(),
        ] {
            assert_eq!(hidden(&format!("x {text} y")), "x *** y", "{text}");
        }
        for before in ["", "u", "us", "user:"] {
            for encoded in [STANDARD.encode(format!("{before}{value}!")), URL_SAFE.encode(format!("{before}{value}!"))]
            {
                assert!(hidden(&format!("Basic {encoded}")).contains(MASK), "{before} {encoded}");
            }
        }
    }

    #[test]
    fn the_beginning_of_a_value_is_masked_before_a_cut() {
        let hidden = knowing(&["sesame-open-sesame", "sesame-open-barley"]);
        assert_eq!(hidden("a sesame-open-sesa… b"), "a ***… b");
        assert_eq!(hidden("x…sesame-open-b…, sesame…"), "x…***…, ***…");
        for text in ["sesame-open-sesa b…", "a sesa…", "sesame-closed…", "…", ""] {
            assert_eq!(hidden(text), text);
        }
        let begun = std::time::Instant::now();
        hidden(&"sesame-open-…".repeat(100_000));
        hidden(&"sesame-open-".repeat(100_000));
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    #[test]
    fn short_values_are_not_masked() {
        let hidden = knowing(&["a", "true", "secret", ""]);
        assert_eq!(hidden("a secret is true"), "a secret is true");
    }

    #[test]
    fn the_longer_of_two_values_is_masked_completely() {
        assert_eq!(knowing(&["abcdefgh", "abcdefghijkl"])("xabcdefghijkl abcdefghi"), "x*** ***i");
    }

    #[test]
    fn the_number_of_values_is_limited_and_configured_ones_stay() {
        let mut state = State { lasting: Values::NONE, recent: Values::NONE, search: None };
        state.learn("configured-value", Life::Process);
        for number in 0..3 * MAX_VALUES {
            state.learn(&format!("issued-value-{number}"), Life::Recent);
        }
        state.learn("configured-value", Life::Recent);
        assert!(state.lasting.has("configured-value") && !state.recent.has("configured-value"));
        assert_eq!(state.recent.all.len(), MAX_VALUES);
        assert!(
            state.recent.has(&format!("issued-value-{}", 3 * MAX_VALUES - 1)) && !state.recent.has("issued-value-0")
        );
        let long = "x".repeat(MAX_BYTES);
        (0..100).for_each(|number| state.learn(&format!("{number}{}", &long[8..]), Life::Recent));
        assert!(state.recent.bytes <= MAX_TOTAL_BYTES);
        state.learn(&"y".repeat(MAX_BYTES + 1), Life::Process);
        assert_eq!(state.lasting.all.len(), 1);
    }

    #[test]
    fn the_lines_of_a_key_are_known() {
        learn("-----BEGIN KEY-----\nMIIBVgIBADANBgkqhkiG9w0B\nend\n", Life::Recent);
        assert_eq!(redact("log: MIIBVgIBADANBgkqhkiG9w0B"), "log: ***");
        assert_eq!(redact("the end"), "the end");
    }

    proptest! {
        #[test]
        fn no_known_value_stays_in_any_text(value in "\\PC{8,40}", before in "\\PC{0,20}", after in "\\PC{0,20}") {
            prop_assume!(value.trim() == value && value.len() >= SHORTEST && !MASK.contains(&value));
            let shown = knowing(&[&value])(&format!("{before}{value}{after}"));
            prop_assume!(!format!("{before}{MASK}{after}").contains(&value));
            prop_assert!(!shown.contains(&value), "{shown}");
        }

        #[test]
        fn redacting_twice_changes_nothing(text in "[ -~\"\\\\=:?&@/$\\{\\}ä…]{0,80}") {
            let once = redact(&text).into_owned();
            prop_assert_eq!(redact(&once), once.as_str());
        }
    }
}
