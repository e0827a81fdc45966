//! Decides when an upstream that failed may be opened again.
//!
//! Two kinds of failure are told apart. An upstream that cannot be opened, or that dies before any call is made, is
//! broken itself: the pauses between attempts grow, and calls are refused meanwhile. An upstream that dies after a call
//! was made may have been crashed by one caller, and other callers must not suffer for it. It is opened again
//! immediately, at most once per [`FIRST_PAUSE`], and calls wait for that.
//!
//! The breaker never reads a clock: the time is a parameter.

use std::time::{Duration, Instant};

use crate::upstream::open_error::not_retried_yet;

/// The pause after the first failure, and the shortest time between two openings; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A session that lasted this long makes up for the failures before it, even without a call.
const STABLE: Duration = Duration::from_secs(60);

/// Counts failures in a row, and says when the next attempt may be made.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    /// The last failure, if calls are refused until then. Without one they wait.
    refusal: Option<String>,
}

/// Whether an upstream may be opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// It may be opened now.
    Now,
    /// It may be opened after this short time, which is worth waiting for.
    After(Duration),
    /// It may not be opened, for this reason.
    Refused(String),
}

impl Breaker {
    /// Whether an attempt may be made at this moment.
    pub(super) fn permission(&self, now: Instant) -> Permission {
        let Some(pause) = self.pause.as_ref().filter(|pause| pause.until > now) else { return Permission::Now };
        let rest = pause.until - now;
        let Some(why) = &pause.refusal else { return Permission::After(rest) };
        Permission::Refused(not_retried_yet(why, self.failures, rest))
    }

    /// An attempt to open it failed. Returns how long no further attempt is made.
    pub(super) fn failed(&mut self, why: &str, now: Instant) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let pause = FIRST_PAUSE.saturating_mul(1 << (self.failures - 1).min(10)).min(LONGEST_PAUSE);
        self.pause = Some(Pause { until: now + pause, refusal: Some(why.to_owned()) });
        pause
    }

    /// A session ended by itself that had begun at this moment. `was_called` says whether a call was made in it.
    pub(super) fn ended(&mut self, why: &str, was_called: bool, begun: Instant, now: Instant) {
        if was_called || now.duration_since(begun) >= STABLE {
            self.failures = 0;
            self.pause = Some(Pause { until: begun + FIRST_PAUSE, refusal: None });
        } else if self.failures == 0 {
            // The first loss costs nothing; only repeated losses do.
            (self.failures, self.pause) = (1, None);
        } else {
            self.failed(why, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn pauses_of_the_breaker_grow_up_to_a_limit_and_are_reported() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        assert_eq!(breaker.permission(start), Permission::Now);
        assert_eq!(breaker.failed("no such file", start), Duration::from_millis(250));
        let Permission::Refused(objection) = breaker.permission(start) else { panic!("it must be refused") };
        assert!(objection.starts_with("no such file (it failed once; "), "{objection}");
        assert_eq!(breaker.permission(after(start, 250)), Permission::Now);
        let pauses: Vec<_> = (0..12).map(|_| breaker.failed("again", start).as_millis()).collect();
        assert_eq!(pauses[..3], [500, 1000, 2000]);
        assert_eq!(pauses[11], 30_000);
    }

    #[test]
    fn a_session_that_dies_uncalled_again_and_again_has_to_pause_and_one_that_lasted_does_not() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        breaker.ended("it died", false, start, after(start, 1000));
        assert_eq!(breaker.permission(after(start, 1000)), Permission::Now, "the first loss costs nothing");
        breaker.ended("it died", false, start, after(start, 2000));
        assert!(matches!(breaker.permission(after(start, 2000)), Permission::Refused(_)));
        breaker.ended("it died", false, start, after(start, 120_000));
        assert_eq!(breaker.permission(after(start, 120_000)), Permission::Now);
    }

    #[test]
    fn crashes_during_calls_only_cause_short_pauses() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for at in (0..100_000).step_by(100) {
            // Each session is crashed 50 ms after it began.
            breaker.ended("it died", true, after(start, at), after(start, at + 50));
            let expected = Permission::After(Duration::from_millis(200));
            assert_eq!(breaker.permission(after(start, at + 50)), expected, "the pause is short and does not grow");
        }
        breaker.ended("it died", true, start, after(start, 2000));
        assert_eq!(breaker.permission(after(start, 2000)), Permission::Now, "one that served a while is back at once");
    }

    #[test]
    fn a_session_with_calls_makes_up_for_failed_openings() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..5 {
            breaker.failed("no such file", start);
        }
        breaker.ended("it died", true, start, after(start, 1000));
        assert_eq!(breaker.failed("no such file", after(start, 1000)), FIRST_PAUSE);
    }
}
