//! The door detects the dialect of a downstream from its first lines, and then is that dialect's server side.
//!
//! Detection ends with the first line that a dialect claims with certainty. Until then, invalid input gets JSON-RPC's
//! parse error. A plausible line is answered by the dialect that claims it. Neither fixes the dialect of the session. A
//! pinned dialect claims every line.

use std::borrow::Cow;
use std::time::Duration;

use gladhand_core::negotiation::{Offer, Peer};
use gladhand_core::operations::{CallId, Notice, Outcome, Question, QuestionId};
use gladhand_core::wire::Frames;
use gladhand_core::wire::json::{Kind, RawValue};
use gladhand_core::wire::{Fault, Line, Members, TextPolicy, rpc};

use crate::ambient::Ambient;
use crate::side::{Claim, Dialect, FirstLine, Lane, Menu, Output, Pass, Server, ServerSetup, Stop};

/// One downstream, whose dialect may still be undetected.
#[derive(Debug)]
pub struct Door {
    registry: &'static [&'static Dialect],
    setup: ServerSetup,
    settled: Option<(&'static Dialect, Box<dyn Server>)>,
    /// The dialect that the first line decided. Its server side is created when that line is received, with the offer of
    /// that time.
    decided: Option<&'static Dialect>,
    /// What the line that [`Self::settle`] read says, if it did not decide the dialect. It is the next line to process.
    undecided: Option<Detection>,
    /// Whether the next line may begin with a byte-order mark: it may decide the dialect, or has done so.
    may_have_mark: bool,
}

/// The facts that a client's first line states.
#[derive(Debug)]
pub struct Opening {
    /// The dialect that the client speaks.
    pub dialect: &'static Dialect,
    /// The offer of the client, as far as the line contains it.
    pub offer: Offer,
}

/// The dialect with the strongest claim to a first line.
#[derive(Debug)]
struct Detected {
    dialect: &'static Dialect,
    claim: Claim,
    offer: Offer,
}

/// The dialect that a line belongs to: `None` for a blank line, or the error response if no dialect claims it.
type Detection = Result<Option<Detected>, rpc::Error<'static>>;

/// Removes the byte-order mark that some programs write before the first line.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

impl Door {
    /// A door that detects the dialect, out of a registry.
    pub fn detecting(registry: &'static [&'static Dialect], setup: ServerSetup) -> Self {
        Self { registry, setup, settled: None, decided: None, undecided: None, may_have_mark: true }
    }

    /// A door for one dialect.
    pub fn pinned(dialect: &'static Dialect, setup: ServerSetup) -> Self {
        let server = (dialect.server)(setup.clone());
        let settled = Some((dialect, server));
        Self { registry: &[], setup, settled, decided: None, undecided: None, may_have_mark: false }
    }

    /// Processes a line from the downstream.
    pub fn handle_frame<'a>(&mut self, line: Line<'a>, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        let line = match line {
            // A byte-order mark before the first line is ignored in every dialect.
            Line::Bytes(bytes) if self.may_have_mark => Line::Bytes(without_mark(bytes)),
            line => line,
        };
        if let Some(dialect) = self.decided.take() {
            self.settled = Some((dialect, (dialect.server)(self.setup.clone())));
        }
        if self.settled.is_none() {
            match self.undecided.take().unwrap_or_else(|| self.detect(line)) {
                Ok(None) => return,
                Ok(Some(Detected { dialect, claim: Claim::Certain, .. })) => {
                    self.settled = Some((dialect, (dialect.server)(self.setup.clone())))
                }
                Ok(Some(Detected { dialect, .. })) => {
                    let mut passing = (dialect.server)(self.setup.clone());
                    feed(dialect.text, &mut *passing, line, ambient, out);
                    return;
                }
                Err(answer) => {
                    rpc::error(&mut out.wire, None, &answer);
                    return;
                }
            }
        }
        if let Some((dialect, server)) = &mut self.settled {
            self.may_have_mark = false;
            feed(dialect.text, &mut **server, line, ambient, out);
        }
    }

    /// Answers a first line with the reason why no session can be served. Writes nothing if the line expects no answer.
    pub fn refuse(&self, line: Line<'_>, why: &str, ambient: &mut Ambient<'_>, wire: &mut Frames) {
        let dialect = match (&self.settled, self.detect(line)) {
            (Some((dialect, _)), _) => *dialect,
            (None, Ok(Some(detected))) => detected.dialect,
            (None, Ok(None)) => return,
            (None, Err(error)) => return rpc::error(wire, None, &rpc::Error { message: why.into(), ..error }),
        };
        let Ok(Some(text)) = TextPolicy::UNDECIDED.read(line) else { return };
        if let Ok(raw) = serde_json::from_str::<&RawValue>(&text) {
            (dialect.refusal_line)(&FirstLine { text: &text, members: Members::of(raw) }, why, ambient, wire);
        }
    }

    /// Reads a first line. If the line decides the dialect, that is the dialect of the session from now on. `None` if the
    /// line decides nothing: [`Self::handle_frame`] answers it, and must get this line next.
    pub fn settle(&mut self, line: &[u8]) -> Option<Opening> {
        let line = without_mark(line);
        let detection = match self.dialect() {
            Some(dialect) => {
                let text = std::str::from_utf8(line).ok()?;
                let raw: &RawValue = serde_json::from_str(text).ok()?;
                let offer = (dialect.offer)(&FirstLine { text, members: Members::of(raw) });
                return Some(Opening { dialect, offer });
            }
            None => self.undecided.take().unwrap_or_else(|| self.detect(Line::Bytes(line))),
        };
        match detection {
            Ok(Some(Detected { dialect, claim: Claim::Certain, offer })) => {
                self.decided = Some(dialect);
                Some(Opening { dialect, offer })
            }
            undecided => {
                self.undecided = Some(undecided);
                None
            }
        }
    }

    /// The detected dialect.
    pub fn dialect(&self) -> Option<&'static Dialect> {
        self.settled.as_ref().map(|(dialect, _)| *dialect).or(self.decided)
    }

    /// Whether the dialect carries a token and no token is configured, so that any is accepted.
    pub fn accepts_any_token(&self) -> bool {
        self.dialect().is_some_and(|dialect| dialect.has_tokens) && self.setup.passes.is_empty()
    }

    /// The current rules for text.
    pub fn text(&self) -> TextPolicy {
        self.dialect().map_or(TextPolicy::UNDECIDED, |dialect| dialect.text)
    }

    /// Finds the dialect with the strongest claim to a line.
    fn detect(&self, line: Line<'_>) -> Detection {
        detect(self.registry, line)
    }
}

/// The dialect of a client, if this line of it decides that.
pub fn dialect_of_line(registry: &[&'static Dialect], line: &[u8]) -> Option<&'static Dialect> {
    let detected = detect(registry, Line::Bytes(without_mark(line))).ok()??;
    (detected.claim == Claim::Certain).then_some(detected.dialect)
}

/// Finds the dialect with the strongest claim to a line.
fn detect(registry: &[&'static Dialect], line: Line<'_>) -> Detection {
    let Some(text) = TextPolicy::UNDECIDED.read(line).map_err(|fault| parse_error(&fault))? else {
        return Ok(None);
    };
    let value: &RawValue = serde_json::from_str(&text).map_err(|error| parse_error(&error.into()))?;
    let members = match Kind::of(value) {
        Kind::Object => Some(Members::parse(&text).map_err(|error| parse_error(&error.into()))?),
        _ => None,
    };
    let first = FirstLine { text: &text, members };
    let mut best = None;
    for dialect in registry {
        let claim = (dialect.claim)(&first);
        if claim > best.map_or(Claim::No, |(_, claim)| claim) {
            best = Some((*dialect, claim));
        }
    }
    let (dialect, claim) = best.ok_or_else(|| unknown_dialect(registry))?;
    Ok(Some(Detected { dialect, claim, offer: (dialect.offer)(&first) }))
}

fn unknown_dialect(registry: &[&'static Dialect]) -> rpc::Error<'static> {
    let names: Vec<_> = registry.iter().map(|dialect| dialect.name).collect();
    let message = format!("this line opens no dialect spoken here ({})", names.join(", "));
    rpc::Error::new(rpc::code::INVALID_REQUEST, message)
        .with(&serde_json::json!({"reason": "unknown_dialect", "dialects": names}))
}

/// The detected dialect, or none: until a dialect is detected, only lines are answered.
impl Server for Door {
    fn handle_line<'a>(&mut self, text: &'a str, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        self.handle_frame(Line::Bytes(text.as_bytes()), ambient, out);
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        match &mut self.settled {
            Some((_, server)) => server.handle_unreadable_line(fault, ambient, out),
            None => rpc::error(&mut out.wire, None, &parse_error(fault)),
        }
    }

    fn handle_outcome(&mut self, call: CallId, outcome: Outcome, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Some((_, server)) = &mut self.settled {
            server.handle_outcome(call, outcome, ambient, out);
        }
    }

    fn notify(&mut self, notice: Notice, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Some((_, server)) = &mut self.settled {
            server.notify(notice, ambient, out);
        }
    }

    fn ask(
        &mut self,
        call: Option<CallId>,
        questions: Vec<(QuestionId, Question)>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        if let Some((_, server)) = &mut self.settled {
            server.ask(call, questions, ambient, out);
        }
    }

    fn continue_as_task(&mut self, call: CallId, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Some((_, server)) = &mut self.settled {
            server.continue_as_task(call, ambient, out);
        }
    }

    /// Also applies to a session that is not open yet.
    fn set_offer(&mut self, identity: Peer, menu: Menu) {
        if let Some((_, server)) = &mut self.settled {
            server.set_offer(identity.clone(), menu.clone());
        }
        (self.setup.identity, self.setup.menu) = (identity, menu);
    }

    /// Also applies to a session that is not open yet.
    fn set_passes(&mut self, passes: &[Pass], ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Some((_, server)) = &mut self.settled {
            server.set_passes(passes, ambient, out);
        }
        self.setup.passes = passes.to_vec();
    }

    fn handle_lane_closed(&mut self, lane: Lane, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Some((_, server)) = &mut self.settled {
            server.handle_lane_closed(lane, ambient, out);
        }
    }

    fn stop(&mut self, stop: Stop, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Some((_, server)) = &mut self.settled {
            server.stop(stop, ambient, out);
        }
    }

    fn handle_timeout(&mut self, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Some((_, server)) = &mut self.settled {
            server.handle_timeout(ambient, out);
        }
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.settled.as_ref().and_then(|(_, server)| server.poll_timeout())
    }

    fn in_flight(&self) -> Vec<CallId> {
        self.settled.as_ref().map_or_else(Vec::new, |(_, server)| server.in_flight())
    }

    fn held_bytes(&self) -> usize {
        self.settled.as_ref().map_or(0, |(_, server)| server.held_bytes())
    }
}

fn parse_error(fault: &Fault) -> rpc::Error<'static> {
    rpc::Error::new(rpc::code::PARSE_ERROR, format!("parse error: {fault}"))
        .with(&serde_json::json!({"reason": "parse_error"}))
}

/// Converts a line to text by the dialect's policy and passes it to the server side.
fn feed<'a>(
    text: TextPolicy,
    server: &mut dyn Server,
    line: Line<'a>,
    ambient: &mut Ambient<'_>,
    out: &mut Output<'a>,
) {
    match text.read(line) {
        Ok(None) => {}
        Ok(Some(Cow::Borrowed(text))) => server.handle_line(text, ambient, out),
        Ok(Some(Cow::Owned(text))) => {
            // The repaired text is local to this block, so the actions must not borrow from it.
            let mut repaired = Output::onto(std::mem::take(&mut out.wire));
            server.handle_line(&text, ambient, &mut repaired);
            out.wire = repaired.wire;
            out.actions.extend(repaired.actions.into_iter().map(|action| action.into_owned()));
        }
        Err(fault) => server.handle_unreadable_line(&fault, ambient, out),
    }
}
