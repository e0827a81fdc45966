//! Limits: rate, concurrency, duration and result size.
//!
//! A token bucket holds as many tokens as calls may be made in a period, and refills evenly. Each call takes one token.
//! All limits that match a call apply to it. A call takes tokens from all of them or from none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gladhand_core::operations::{Failure, FailureKind, Outcome};
use gladhand_core::sync::Unpoisoned as _;

use super::parties::{CallTarget, Callers, Subjects, Who, any_fits};
use crate::call_observers::reply_bytes;
use crate::provider::SessionId;

/// Beyond this many meters, unused ones are removed.
const MANY: usize = 4096;

/// One limit. A dimension that it does not limit is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limit {
    /// The name that identifies the limit in messages and records.
    pub name: String,
    /// The callers that it applies to; all if empty.
    pub who: Vec<Callers>,
    /// The things that it applies to, which are all counted together.
    pub about: Subjects,
    /// Whether all callers are counted together. Otherwise each is counted separately: by principal, else by session.
    /// Callers that have neither are counted together.
    pub together: bool,
    /// The maximum rate of calls.
    pub rate: Option<Rate>,
    /// The maximum number of concurrent calls.
    pub concurrent: Option<usize>,
    /// The maximum duration of a call.
    pub timeout: Option<Duration>,
    /// The maximum size of a result in bytes.
    pub result_bytes: Option<usize>,
}

/// A number of calls in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number of calls.
    pub calls: u32,
    /// The period.
    pub per: Duration,
}

/// The usage so far.
#[derive(Debug, Default)]
pub(super) struct Meters {
    /// The id of each limit, in the order of the limits.
    ids: Vec<u64>,
    last_id: u64,
    /// Shared with the meters of earlier and later policies.
    all: Arc<Mutex<HashMap<Key, Meter>>>,
    /// Number of meters that the last cleanup left. A cleanup takes long, so the next one waits until the number has
    /// doubled.
    left: AtomicUsize,
}

/// The id of the limit, and the caller that is counted.
type Key = (u64, Counted);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Counted {
    Everybody,
    Principal(String),
    Session(SessionId),
}

#[derive(Debug, Clone, Copy)]
struct Meter {
    tokens: f64,
    at: Instant,
    running: usize,
}

impl Meter {
    /// Adds the tokens for the time since the last refill.
    fn refill(&mut self, rate: Rate, now: Instant) {
        let full = f64::from(rate.calls);
        let came = now.saturating_duration_since(self.at).as_secs_f64() * full / rate.per.as_secs_f64();
        self.tokens = (self.tokens + came).min(full);
        self.at = now;
    }
}

impl Meters {
    /// The meters for other limits. Usage carries over for limits that stay the same.
    pub(super) fn succeeded(&self, before: &[Limit], limits: &[Limit]) -> Self {
        let mut known: Vec<_> = before.iter().zip(&self.ids).collect();
        let mut last_id = self.last_id;
        let id_of = |limit: &Limit| match known.iter().position(|(old, _)| *old == limit) {
            Some(at) => *known.remove(at).1,
            None => {
                last_id += 1;
                last_id
            }
        };
        let ids: Vec<_> = limits.iter().map(id_of).collect();
        self.all().retain(|(id, _), meter| meter.running > 0 || ids.contains(id));
        Self { ids, last_id, all: Arc::clone(&self.all), left: AtomicUsize::new(0) }
    }

    /// Takes what a call needs from all limits that match it, or names the limit that is exhausted.
    pub(super) fn admit(
        self: &Arc<Self>,
        limits: &[Limit],
        who: &Who<'_>,
        what: &CallTarget<'_>,
        now: Instant,
    ) -> Result<Permit, Failure> {
        let fits = |limit: &Limit| {
            what.is_within(|what| limit.about.fit(what)) && any_fits(&limit.who, |callers| callers.fits(who))
        };
        let fitting: Vec<_> = limits.iter().zip(&self.ids).filter(|(limit, _)| fits(limit)).collect();
        let smallest = |bound: Option<usize>, one: Option<usize>| bound.into_iter().chain(one).min();
        let mut permit = Permit::default();
        for (limit, _) in &fitting {
            permit.timeout = permit.timeout.into_iter().chain(limit.timeout).min();
            permit.result_bytes = smallest(permit.result_bytes, limit.result_bytes);
        }
        let counting: Vec<_> = fitting
            .into_iter()
            .filter(|(limit, _)| limit.rate.is_some() || limit.concurrent.is_some())
            .map(|(limit, id)| ((*id, counted(limit, who)), limit))
            .collect();
        if counting.is_empty() {
            return Ok(permit);
        }
        let mut meters = self.all();
        if meters.len() > MANY.max(2 * self.left.load(Ordering::Relaxed)) {
            self.forget(&mut meters, limits, now);
            self.left.store(meters.len(), Ordering::Relaxed);
        }
        for (key, limit) in &counting {
            let full = limit.rate.map_or(0.0, |rate| f64::from(rate.calls));
            let meter = meters.entry(key.clone()).or_insert(Meter { tokens: full, at: now, running: 0 });
            if let Some(rate) = limit.rate {
                meter.refill(rate, now);
                if meter.tokens < 1.0 {
                    return Err(too_often(limit, rate, meter.tokens, what));
                }
            }
            if limit.concurrent.is_some_and(|most| meter.running >= most) {
                return Err(too_many(limit, meter.running, what));
            }
        }
        for (key, limit) in counting {
            if let Some(meter) = meters.get_mut(&key) {
                meter.tokens -= if limit.rate.is_some() { 1.0 } else { 0.0 };
                meter.running += 1;
                permit.taken.push(key);
            }
        }
        permit.meters = Some(Arc::clone(self));
        Ok(permit)
    }

    /// Removes the meters of a session that has ended. Its id is not used again.
    pub(super) fn left(&self, session: SessionId) {
        let mut meters = self.all();
        for id in &self.ids {
            let key = (*id, Counted::Session(session));
            if meters.get(&key).is_some_and(|meter| meter.running == 0) {
                meters.remove(&key);
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Meter>> {
        self.all.lock().unpoisoned()
    }

    /// Removes meters without information: no call is running, and the bucket is full again.
    fn forget(&self, meters: &mut HashMap<Key, Meter>, limits: &[Limit], now: Instant) {
        meters.retain(|(id, _), meter| {
            let limit = self.ids.iter().position(|own| own == id).and_then(|at| limits.get(at));
            let Some(rate) = limit.and_then(|limit| limit.rate) else { return meter.running > 0 };
            meter.refill(rate, now);
            meter.running > 0 || meter.tokens < f64::from(rate.calls)
        });
    }
}

fn counted(limit: &Limit, who: &Who<'_>) -> Counted {
    match (limit.together, who.principal, who.session) {
        (false, Some(principal), _) => Counted::Principal(principal.to_owned()),
        (false, None, session) if session != SessionId::NONE => Counted::Session(session),
        _ => Counted::Everybody,
    }
}

fn too_often(limit: &Limit, rate: Rate, tokens: f64, what: &CallTarget<'_>) -> Failure {
    let wait = (1.0 - tokens) * rate.per.as_secs_f64() / f64::from(rate.calls);
    let message = format!(
        "{} is limited to {} calls in {} s (limit `{}`): try again in {} ms",
        what.name,
        rate.calls,
        rate.per.as_secs_f64(),
        limit.name,
        (wait * 1000.0).ceil(),
    );
    Failure::new(FailureKind::Busy, message)
}

fn too_many(limit: &Limit, running: usize, what: &CallTarget<'_>) -> Failure {
    let message = format!(
        "{running} calls are running, and no more may at once (limit `{}` on {}): try again when one has ended",
        limit.name, what.name,
    );
    Failure::new(FailureKind::Busy, message)
}

/// Permission to make one call, with its limits. Dropping it releases the slot of a concurrent call.
#[derive(Debug, Default)]
pub(super) struct Permit {
    pub(super) timeout: Option<Duration>,
    result_bytes: Option<usize>,
    meters: Option<Arc<Meters>>,
    taken: Vec<Key>,
}

impl Permit {
    /// Whether there is no limit to enforce and nothing to release.
    pub(super) fn is_unbounded(&self) -> bool {
        self.timeout.is_none() && self.result_bytes.is_none() && self.taken.is_empty()
    }

    /// The outcome, or a failure if it is too large.
    pub(super) fn capped(&self, outcome: Outcome) -> Outcome {
        let reply = outcome?;
        let (Some(most), size) = (self.result_bytes, reply_bytes(&reply)) else { return Ok(reply) };
        if size > most {
            let message = format!("the result has {size} bytes, and {most} are allowed");
            return Err(Failure::new(FailureKind::ToolFailed, message));
        }
        Ok(reply)
    }

    /// The failure of a call that exceeds its timeout.
    pub(super) fn timed_out(timeout: Duration) -> Failure {
        Failure::new(FailureKind::TimedOut, format!("it took longer than the {} ms allowed", timeout.as_millis()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(meters) = &self.meters else { return };
        let mut meters = meters.all();
        for key in &self.taken {
            if let Some(meter) = meters.get_mut(key) {
                meter.running = meter.running.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Tools;
    use gladhand_core::operations::{Reply, Tool, ToolResult};

    fn limits(limit: Limit) -> Vec<Limit> {
        vec![Limit { name: "l".to_owned(), ..limit }]
    }

    fn meters(limits: &[Limit]) -> Arc<Meters> {
        Arc::new(Meters::default().succeeded(&[], limits))
    }

    fn who(session: u64) -> Who<'static> {
        Who { principal: None, client: "c", session: SessionId(session), scopes: None }
    }

    fn tools(pattern: &str) -> Subjects {
        Subjects { tools: vec![Tools::parse(pattern).unwrap()], ..Subjects::default() }
    }

    #[test]
    fn a_bucket_is_emptied_and_fills_evenly() {
        let limits = limits(Limit { rate: Some(Rate { calls: 2, per: Duration::from_secs(1) }), ..Limit::default() });
        let (meters, tool, start) = (meters(&limits), Tool::plain("t", ""), Instant::now());
        let what = CallTarget::tool("", "t", &tool);
        let at = |session, ms| {
            let now = start + Duration::from_millis(ms);
            meters.admit(&limits, &who(session), &what, now).map(drop).map_err(|failure| failure.message)
        };
        assert_eq!((at(1, 0), at(1, 0)), (Ok(()), Ok(())));
        let busy = at(1, 100).unwrap_err();
        assert_eq!(busy, "t is limited to 2 calls in 1 s (limit `l`): try again in 400 ms");
        assert_eq!(at(2, 100), Ok(()), "each caller is counted separately");
        assert_eq!(at(1, 500), Ok(()), "one token was refilled");
        assert!(at(1, 500).is_err());
        assert_eq!((at(1, 9000), at(1, 9000)), (Ok(()), Ok(())));
        assert!(at(1, 9000).is_err(), "the bucket does not exceed its size");
    }

    #[test]
    fn anonymous_callers_and_shared_limits_are_counted_together() {
        let mut limits = limits(Limit { concurrent: Some(1), ..Limit::default() });
        let (meters, tool, now) = (meters(&limits), Tool::plain("t", ""), Instant::now());
        let what = CallTarget::tool("", "t", &tool);
        let held = meters.admit(&limits, &who(0), &what, now).unwrap();
        let other = Who { client: "another name", ..who(0) };
        let busy = meters.admit(&limits, &other, &what, now).unwrap_err();
        assert_eq!((busy.kind, busy.kind.is_retryable()), (FailureKind::Busy, true));
        assert!(busy.message.starts_with("1 calls are running"), "{busy}");
        let named = Who { principal: Some("p"), ..who(0) };
        assert!(meters.admit(&limits, &named, &what, now).is_ok());
        drop(held);
        assert!(meters.admit(&limits, &other, &what, now).is_ok(), "the permit was released");
        limits[0].together = true;
        let _held = meters.admit(&limits, &who(1), &what, now).unwrap();
        assert!(meters.admit(&limits, &who(2), &what, now).is_err());
    }

    #[test]
    fn a_call_that_one_limit_refuses_takes_nothing_of_the_others() {
        let rate = Rate { calls: 1, per: Duration::from_secs(1) };
        let limits = [
            Limit { rate: Some(rate), together: true, ..Limit::default() },
            Limit { concurrent: Some(0), about: tools("b"), ..Limit::default() },
        ];
        let (meters, a, b, now) = (meters(&limits), Tool::plain("a", ""), Tool::plain("b", ""), Instant::now());
        let what = |tool| CallTarget::tool("", "", tool);
        assert!(meters.admit(&limits, &who(1), &what(&b), now).is_err());
        assert!(meters.admit(&limits, &who(1), &what(&a), now).is_ok());
    }

    #[test]
    fn a_session_that_ends_leaves_no_meter() {
        let limits =
            limits(Limit { rate: Some(Rate { calls: 1, per: Duration::from_secs(86_400) }), ..Limit::default() });
        let (meters, tool, now) = (meters(&limits), Tool::plain("t", ""), Instant::now());
        let what = CallTarget::tool("", "t", &tool);
        let admit = |session| meters.admit(&limits, &who(session), &what, now);
        drop(admit(1).unwrap());
        let running = admit(2).unwrap();
        [1, 2].into_iter().for_each(|session| meters.left(SessionId(session)));
        assert_eq!(meters.all().len(), 1, "a call of the second session is running");
        drop(running);
        meters.left(SessionId(2));
        assert!(meters.all().is_empty());
    }

    #[test]
    fn usage_is_kept_for_unchanged_limits() {
        let rate = Some(Rate { calls: 1, per: Duration::from_secs(3600) });
        let limit = |name: &str| Limit { name: name.to_owned(), rate, about: tools(name), ..Limit::default() };
        let (before, after) = ([limit("a"), limit("b")], [limit("c"), limit("b")]);
        let (b, c, now) = (Tool::plain("b", ""), Tool::plain("c", ""), Instant::now());
        let first = meters(&before);
        let running = first.admit(&before, &who(1), &CallTarget::tool("", "b", &b), now).unwrap();
        let second = Arc::new(first.succeeded(&before, &after));
        assert!(second.admit(&after, &who(1), &CallTarget::tool("", "b", &b), now).is_err());
        assert!(second.admit(&after, &who(1), &CallTarget::tool("", "c", &c), now).is_ok());
        drop(running);
        assert!(second.all().values().all(|meter| meter.running == 0), "a call that ends later is released");
        let none = second.succeeded(&after, &[]);
        assert!(none.all().is_empty(), "meters without a limit are removed");
    }

    #[test]
    fn results_are_bounded_by_the_smallest_limit() {
        let limits = [100, 10].map(|most| Limit { result_bytes: Some(most), ..Limit::default() });
        let tool = Tool::plain("t", "");
        let what = CallTarget::tool("", "t", &tool);
        let permit = meters(&limits).admit(&limits, &who(1), &what, Instant::now()).unwrap();
        let capped = |text: &str| permit.capped(Ok(Reply::Tool(ToolResult::text(text)))).map_err(|error| error.message);
        assert!(capped("12345678").is_ok());
        assert_eq!(capped("123456789").unwrap_err(), "the result has 11 bytes, and 10 are allowed");
    }

    #[test]
    fn meters_without_information_are_removed() {
        let limits = limits(Limit { rate: Some(Rate { calls: 1, per: Duration::from_secs(1) }), ..Limit::default() });
        let (meters, tool, start) = (meters(&limits), Tool::plain("t", ""), Instant::now());
        let what = CallTarget::tool("", "t", &tool);
        for session in 1..=10_000 {
            let now = start + Duration::from_millis(session);
            drop(meters.admit(&limits, &who(session), &what, now));
        }
        assert!(meters.all().len() <= MANY + 1, "{}", meters.all().len());
    }
}
