//! The size of a regular expression, estimated from its text.

use std::str::Chars;

/// About how many states a pattern has once its repetitions are written out. Where no automaton of bounded size can be
/// built, a match takes as many steps for each character.
pub(super) fn states(pattern: &str) -> u64 {
    let mut characters = pattern.chars();
    // The weight before each open group, the finished weight of the innermost group, and the atom that a repetition repeats.
    let (mut before, mut finished, mut atom) = (Vec::new(), 0u64, 0u64);
    while let Some(character) = characters.next() {
        match character {
            '(' => {
                before.push(finished.saturating_add(atom));
                (finished, atom) = (0, 0);
            }
            ')' => {
                atom = finished.saturating_add(atom);
                finished = before.pop().unwrap_or_default();
            }
            '{' => {
                let (bounds, rest) = characters.as_str().split_once('}').unwrap_or_default();
                let most = bounds.split(',').filter_map(|bound| bound.parse::<u64>().ok()).max();
                atom = atom.saturating_mul(most.unwrap_or(1).max(1));
                characters = rest.chars();
            }
            '*' | '+' | '?' | '|' => {}
            _ => {
                match character {
                    '\\' => drop(characters.next()),
                    '[' => skip_class(&mut characters),
                    _ => {}
                }
                finished = finished.saturating_add(atom);
                atom = 1;
            }
        }
    }
    before.into_iter().fold(finished.saturating_add(atom), u64::saturating_add)
}

/// Skips the rest of a class such as `[^]a-z\]]`: all of it is one state.
fn skip_class(characters: &mut Chars<'_>) {
    let mut is_first = true;
    while let Some(character) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            ']' if !is_first => return,
            '^' if is_first => continue,
            _ => {}
        }
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::states;

    #[test]
    fn repetitions_count_as_often_as_they_repeat() {
        for (pattern, expected) in [
            ("", 0),
            ("abc", 3),
            ("^a+$", 3),
            (r"\{2\}", 3),
            ("[{9}a-z]{5}", 5),
            (r"[^]\]{9}]{5}", 5),
            (r"\p{L}x", 2),
            ("a{10}b", 11),
            ("(ab{2,3}){1000}c", 4001),
            ("((a{100}){100}){100}", 1_000_000),
            ("(a", 1),
            ("a{", 1),
        ] {
            assert_eq!(states(pattern), expected, "{pattern}");
        }
        assert_eq!(states("(a{4000000000}){4000000000}{4000000000}"), u64::MAX);
    }
}
