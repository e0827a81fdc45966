//! Stable sorting with one copy of the algorithm.
//!
//! The methods of slices compile the algorithm again for every type and every comparison, 5 KB each time. That was 2 % of
//! the code. These methods sort positions, and move the items at the end. They suit lists that are short, or sorted once.

use std::cmp::Ordering;

/// Sorts in a way that adds little code.
pub trait Order<T> {
    /// Sorts items by a comparison. Equal items keep their order.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts items. Equal items keep their order.
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }

    /// Sorts items by a key. Equal items keep their order.
    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|one, other| key(one).cmp(&key(other)));
    }
}

impl<T> Order<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut positions = ordered(self.len(), &mut |one, other| compare(&self[one], &self[other]));
        for start in 0..positions.len() {
            let mut at = start;
            while positions[at] != start {
                let next = positions[at];
                self.swap(at, next);
                positions[at] = at;
                at = next;
            }
            positions[at] = at;
        }
    }
}

/// The positions of items before sorting, in the order after sorting.
fn ordered(length: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..length).collect();
    positions.sort_by(|one, other| compare(*one, *other));
    positions
}

#[cfg(test)]
mod tests {
    use super::Order as _;

    #[test]
    fn items_are_sorted_and_equal_ones_keep_their_order() {
        let mut state = 1_u64;
        for length in [0, 1, 2, 3, 20, 21, 500] {
            let mut items: Vec<(u64, usize)> = (0..length)
                .map(|number| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((state >> 33) % 17, number)
                })
                .collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            items.order_by_key(|(key, _)| *key);
            assert_eq!(items, expected);
            items.order_by(|one, other| other.cmp(one));
            expected.sort();
            expected.reverse();
            assert_eq!(items, expected);
            items.order();
            expected.reverse();
            assert_eq!(items, expected);
        }
    }
}
