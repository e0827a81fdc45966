//! The order in which the author of an object wrote its members.
//!
//! The neutral model keeps some members in fields of their own. Without this order, a dialect would write them before
//! all others, and a client would see another order than the server's. JSON gives the order no meaning, but people who
//! compare two texts, and caches of a model's input, do.

use serde::{Deserialize, Serialize};

/// The order of the members of one object. Holds at most 16 members. Default: the order of the dialect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberOrder(u64);

/// A member of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// One that the dialect keeps in a field and writes first, by its place among these: at most 13.
    Known(usize),
    /// Any other one. The extra members have an order of their own.
    Extra,
    /// The one that the dialect writes last.
    Last,
}

/// The digits of an order. A known member has its place plus one, and 0 ends the order.
const EXTRA: u64 = 14;
const LAST: u64 = 15;

/// The size of a digit, and the number of digits.
const BITS: u32 = 4;
const DIGITS: u32 = u64::BITS / BITS;

impl MemberOrder {
    /// The order of these members. If it is the order in which the dialect writes them, it is the default.
    pub fn of(members: impl Iterator<Item = Member>) -> Self {
        let (mut order, mut last, mut is_usual) = (0, 0, true);
        for (at, member) in (0..DIGITS).zip(members) {
            let digit = match member {
                Member::Known(place) => (place as u64 + 1).min(EXTRA),
                Member::Extra => EXTRA,
                Member::Last => LAST,
            };
            is_usual &= digit >= last;
            last = digit;
            order |= digit << (at * BITS);
        }
        if is_usual { Self::default() } else { Self(order) }
    }

    /// Whether the members are in the order of the dialect.
    pub fn is_usual(self) -> bool {
        self.0 == 0
    }

    /// The members in order.
    pub fn iter(self) -> impl Iterator<Item = Member> {
        let digits = (0..DIGITS).map(move |at| self.0 >> (at * BITS) & LAST).take_while(|digit| *digit > 0);
        digits.map(|digit| match digit {
            EXTRA => Member::Extra,
            LAST => Member::Last,
            place => Member::Known(place as usize - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Member::{Extra, Known, Last};
    use super::*;

    #[test]
    fn an_order_is_kept_unless_it_is_the_usual_one() {
        let order = |members: &[Member]| MemberOrder::of(members.iter().copied());
        for usual in [&[][..], &[Known(0)], &[Known(0), Known(2), Extra, Extra, Last], &[Extra], &[Known(12), Last]] {
            assert!(order(usual).is_usual(), "{usual:?}");
        }
        for other in [&[Extra, Known(0)][..], &[Known(1), Known(0), Extra], &[Last, Known(3), Extra, Extra, Known(12)]]
        {
            assert_eq!(order(other).iter().collect::<Vec<_>>(), other);
        }
        let long = [Known(1), Known(0)].into_iter().chain([Extra; 40]);
        assert_eq!(MemberOrder::of(long).iter().count(), 16);
    }
}
