//! Bounds that many peers have in common, where one of us serves them all.

use gladhand_operations::Party;

/// A bound, and how much of it is taken by everybody together.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// How much there is.
    pub most: usize,
    /// How much of it is taken.
    pub taken: usize,
}

impl Bound {
    /// Whether somebody who has `own` of it may have `more`.
    ///
    /// Who is alone may have everything. Of what is shared nobody gets more than half of what the others leave, so that
    /// there is always some left for the next one who comes.
    pub fn admits(self, more: usize, party: Option<Party>, own: impl FnOnce(Party) -> usize) -> bool {
        let left = self.most.saturating_sub(self.taken);
        // At half of it stops who would then have more than is left.
        let is_fair = |own| own + 2 * more <= left + 1;
        match party {
            _ if more == 0 => true,
            None => more <= left,
            // Counted only where it matters: nobody has more than what is taken.
            Some(party) => is_fair(self.taken) || is_fair(own(party)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_what_others_may_want() {
        let (mut taken, mut shares) = (0, Vec::new());
        for party in 0..6 {
            let mut own = 0;
            while (Bound { most: 256, taken }).admits(1, Some(Party(party)), |_| own) {
                (taken, own) = (taken + 1, own + 1);
            }
            shares.push(own);
        }
        assert_eq!(shares[..4], [128, 64, 32, 16]);
        assert!(taken < 256, "something is left for whoever comes next");
        assert!((Bound { most: 1, taken: 0 }).admits(1, Some(Party(0)), |_| 0), "one is for whoever comes first");
        assert!(!(Bound { most: 256, taken: 0 }).admits(129, Some(Party(0)), |_| 0), "not even all at once");
        assert!((Bound { most: 256, taken: 255 }).admits(1, None, |_| 255), "who is alone may have all of it");
        assert!(!(Bound { most: 256, taken: 256 }).admits(1, None, |_| 0));
    }
}
