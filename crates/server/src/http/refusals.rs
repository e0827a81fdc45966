//! Logs requests that the guard refused, at a bounded rate.
//!
//! A refusal is a response with [`Refused`] among its extensions, or any 401 or 403. Its reason is one of ours: neither a token nor a path of the
//! client, which could hold one, reaches the log. In each period an address gets a few lines and all addresses together get
//! some more. Only addresses with a line in this period are remembered, so the memory is bounded too.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gladhand_auth::resource::Refused;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::Party;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};

use super::guard::{Guard, HOST_REFUSED};
use super::request_origin::Visitor;
use super::respond::Content;

const PERIOD: Duration = Duration::from_secs(60);

/// Lines for one address in a period.
const LINES_OF_PARTY: u32 = 5;

/// Lines for all addresses together in a period.
const LINES: u32 = 100;

/// A response that is logged as a refusal.
pub(super) fn refused(mut response: Response<Content>, why: &'static str) -> Response<Content> {
    response.extensions_mut().insert(Refused(why));
    response
}

/// Logs refusals.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<Period>);

impl RefusalLog {
    /// Logs a response if it is a refusal and the rate allows it.
    pub(super) fn note(&self, response: &Response<Content>, head: &Parts, visitor: &Visitor) {
        let status = response.status();
        let reason = match response.extensions().get() {
            Some(Refused(reason)) => *reason,
            // An authorizer that is not ours gives no reason.
            None if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN => "not authorized",
            None => return,
        };
        // A wrong Host is a setting that the operator has to make, so that is a warning.
        let is_host = reason == HOST_REFUSED;
        if !is_host && !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let mut period = self.0.lock().unpoisoned();
        let Some(unlogged) = period.admit(visitor.party, Instant::now()) else { return };
        drop(period);
        let (from, method, status) = (visitor.address, &head.method, status.as_u16());
        let host = if is_host { host(&head.headers) } else { None };
        let unlogged = Some(unlogged).filter(|unlogged| *unlogged > 0);
        match is_host {
            true => tracing::warn!(%from, %method, status, reason, host, unlogged, "request refused"),
            false => tracing::info!(%from, %method, status, reason, unlogged, "request refused"),
        }
    }
}

/// The host that a request names, if it has the form of one.
fn host(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(HOST)?.to_str().ok()?;
    (host.len() <= 255 && Guard::is_host(host)).then_some(host)
}

/// The lines of one period.
#[derive(Debug, Default)]
struct Period {
    begun: Option<Instant>,
    lines: u32,
    by_party: HashMap<Party, u32>,
    /// Refusals without a line since the last line.
    unlogged: u64,
}

impl Period {
    /// Whether a party gets a line now, and how many refusals got none since the last line.
    fn admit(&mut self, party: Party, now: Instant) -> Option<u64> {
        if self.begun.is_none_or(|begun| now.saturating_duration_since(begun) >= PERIOD) {
            (self.begun, self.lines) = (Some(now), 0);
            self.by_party.clear();
        }
        let own = self.by_party.get(&party).copied().unwrap_or_default();
        if own >= LINES_OF_PARTY || self.lines >= LINES {
            self.unlogged += 1;
            return None;
        }
        self.lines += 1;
        self.by_party.insert(party, own + 1);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_few_lines_and_leaves_some_to_other_addresses() {
        let (mut period, now) = (Period::default(), Instant::now());
        let lines = (0..10_000).filter(|_| period.admit(Party(1), now).is_some()).count();
        assert_eq!(lines, LINES_OF_PARTY as usize);
        assert_eq!(period.admit(Party(2), now), Some(10_000 - 5), "with the number of those that got none");
        assert_eq!(period.admit(Party(2), now), Some(0));
        assert_eq!(period.admit(Party(1), now + PERIOD), Some(0), "another period");
    }

    #[test]
    fn many_addresses_fill_neither_the_log_nor_the_memory() {
        let (mut period, now) = (Period::default(), Instant::now());
        let lines = (0..10_000).filter(|party| period.admit(Party(*party), now).is_some()).count();
        assert_eq!((lines, period.by_party.len()), (LINES as usize, LINES as usize));
        assert_eq!(period.admit(Party(7), now + PERIOD), Some(10_000 - 100));
        assert_eq!(period.by_party.len(), 1);
    }
}
