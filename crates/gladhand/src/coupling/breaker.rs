//! When to try again with an upstream that failed.

use std::time::{Duration, Instant};

/// The pause after the first failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a session must have lasted for what came before it to be forgotten.
const STABLE: Duration = Duration::from_secs(60);

/// Counts failures in a row, and says when the next attempt may be made.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    /// No attempt before this moment, and why.
    closed_until: Option<(Instant, String)>,
}

impl Breaker {
    /// Why no attempt may be made now, if it may not.
    pub(super) fn objection(&self, now: Instant) -> Option<String> {
        let (until, why) = self.closed_until.as_ref().filter(|(until, _)| *until > now)?;
        let pause = (*until - now).as_millis();
        let times = if self.failures == 1 { "once".to_owned() } else { format!("{} times in a row", self.failures) };
        Some(format!("{why} (it failed {times}; the next attempt may be made in {pause} ms)"))
    }

    /// An attempt failed, or a session broke soon after it began. Returns how long nobody may try.
    pub(super) fn failed(&mut self, why: &str, now: Instant) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let pause = FIRST_PAUSE.saturating_mul(1 << (self.failures - 1).min(10)).min(LONGEST_PAUSE);
        self.closed_until = Some((now + pause, why.to_owned()));
        pause
    }

    /// A session ended that had begun at this moment. What lasted may be opened again at once.
    pub(super) fn ended(&mut self, why: &str, begun: Instant, now: Instant) {
        if now.duration_since(begun) >= STABLE {
            self.failures = 0;
        }
        // The first loss is made good at once; only what keeps breaking has to wait.
        if self.failures == 0 {
            (self.failures, self.closed_until) = (1, None);
        } else {
            self.failed(why, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_told_and_end() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        assert_eq!(breaker.objection(start), None);
        assert_eq!(breaker.failed("no such file", start), Duration::from_millis(250));
        let objection = breaker.objection(start).unwrap();
        assert!(objection.starts_with("no such file (it failed once; "), "{objection}");
        assert_eq!(breaker.objection(start + Duration::from_millis(250)), None);
        let pauses: Vec<_> = (0..12).map(|_| breaker.failed("again", start).as_millis()).collect();
        assert_eq!(pauses[..3], [500, 1000, 2000]);
        assert_eq!(pauses[11], 30_000);
    }

    #[test]
    fn a_session_that_lasted_is_opened_again_at_once_and_one_that_keeps_breaking_is_not() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        breaker.ended("it died", start, start + Duration::from_secs(1));
        assert_eq!(breaker.objection(start + Duration::from_secs(1)), None);
        breaker.ended("it died", start, start + Duration::from_secs(2));
        assert!(breaker.objection(start + Duration::from_secs(2)).is_some());
        breaker.ended("it died", start, start + Duration::from_secs(120));
        assert_eq!(breaker.objection(start + Duration::from_secs(120)), None);
    }
}
