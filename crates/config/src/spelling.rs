//! Which of several known names a mistyped one may stand for.

/// How many names are suggested at most.
const MOST: usize = 3;

/// The known name that a mistyped one is nearest to, if at most a third of the letters of the longer one is wrong. A name
/// of one letter is near to no other.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let name = folded(name);
    let nearest = known.into_iter().map(|known| (distance(&name, &folded(known)), known)).min()?;
    let longest = name.chars().count().max(nearest.1.chars().count());
    (nearest.0 * 3 <= longest).then_some(nearest.1)
}

/// Known names that a mistyped one may stand for: the nearest, or else some that contain it.
pub fn alike<'n>(name: &str, known: &[&'n str]) -> Vec<&'n str> {
    if let Some(nearest) = nearest(name, known.iter().copied()) {
        return vec![nearest];
    }
    let name = folded(name);
    let holds = |known: &&&str| !name.is_empty() && folded(known).contains(&name);
    known.iter().filter(holds).take(MOST).copied().collect()
}

/// A name without what people do not remember: capital letters, and whether words are joined by `-` or `_`.
fn folded(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// How many letters must be added, taken away, changed or swapped with the next to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<_>, Vec<_>) = (one.chars().collect(), other.chars().collect());
    // The cost of turning each prefix of one word (rows) into each prefix of the other (columns).
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for at in 1..=one.len() {
        let mut row = vec![at];
        for to in 1..=other.len() {
            let before = &rows[at - 1];
            let changed = before[to - 1] + usize::from(one[at - 1] != other[to - 1]);
            let mut least = changed.min(before[to] + 1).min(row[to - 1] + 1);
            if at > 1 && to > 1 && one[at - 1] == other[to - 2] && one[at - 2] == other[to - 1] {
                least = least.min(rows[at - 2][to - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_far_apart_as_their_letters() {
        assert_eq!(distance("max_paralel", "max_parallel"), 1);
        assert_eq!(distance("fiel", "file"), 1);
        assert_eq!((distance("", "abc"), distance("abc", ""), distance("kitten", "sitting")), (3, 3, 3));
    }

    #[test]
    fn a_mistyped_name_is_known_by_most_of_its_letters_or_by_a_part() {
        let known = ["echo", "get-sum", "get-env", "server__read_file"];
        assert_eq!(alike("ecko", &known), ["echo"]);
        assert_eq!(alike("Get_Sum", &known), ["get-sum"]);
        assert_eq!(alike("get", &known), ["get-sum", "get-env"]);
        assert_eq!(alike("read-file", &known), ["server__read_file"]);
        assert!(alike("nothing-like-it", &known).is_empty() && alike("", &known).is_empty());
        assert_eq!(nearest("c", ["a", "b"]), None, "one letter is not like another");
        assert_eq!((nearest("a", ["as"]), nearest("id", ["ids"])), (None, Some("ids")));
    }
}
