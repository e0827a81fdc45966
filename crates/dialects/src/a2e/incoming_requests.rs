//! Accepted calls without an answer: at most `max_parallel` are delivered, the others wait in a bounded queue, each
//! with its deadline (a2e §§4, 6.6).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, CallId, CapabilityEvent, Operation, Terms};
use gladhand_core::wire::Id;

use super::capabilities::TOOLS;
use super::registry::MessageType;
use super::requests::Request;
use super::tools::Filter;
use crate::ambient::Ambient;
use crate::side::{Action, ServerSetup};

/// Maximum length of the queue, regardless of the setup.
const MAX_QUEUE: usize = 1000;

/// Maximum size of the queued names and arguments, in bytes.
const MAX_QUEUE_BYTES: usize = 32 * 1024 * 1024;

/// Maximum size of the events that wait for the response to one request, in bytes.
const MAX_HELD_BACK: usize = 256 * 1024;

/// Approximate number of bytes that an event uses in addition to its text.
const EVENT_OVERHEAD: usize = 128;

/// The data of a request that its answer needs.
#[derive(Debug)]
pub(super) struct IncomingRequest {
    /// The id of the request.
    pub(super) request: Option<Id>,
    /// The kind of request.
    pub(super) request_kind: RequestKind,
    /// The caller's timeout.
    pub(super) timeout: Option<Duration>,
    /// The time of delivery. `None` while it is queued.
    pub(super) delivered: Option<Duration>,
    is_urgent: bool,
    deadline: Option<Duration>,
    /// Number of bytes kept for it, including its arguments.
    held: usize,
}

/// The kind of a request.
#[derive(Debug)]
pub(super) enum RequestKind {
    /// `tool/list/req`
    List(Filter),
    /// `tool/call/req`
    Tool {
        /// The name of the tool, for the result.
        name: String,
        /// Whether the caller wants events.
        streaming: bool,
        /// The number of events sent so far.
        events: u64,
    },
    /// A request that is passed to the provider of its capability.
    Capability {
        /// The message type.
        message: &'static MessageType,
        /// Events that must follow the response.
        held_back: HeldBack,
    },
}

/// Events that wait for the response to their request.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    events: Vec<CapabilityEvent>,
    bytes: usize,
}

impl HeldBack {
    /// Adds an event. If that exceeds the limit, returns all events in order: they no longer wait.
    fn add(&mut self, event: CapabilityEvent) -> Vec<CapabilityEvent> {
        self.bytes += EVENT_OVERHEAD + event.fields.get().len();
        self.events.push(event);
        if self.bytes <= MAX_HELD_BACK { Vec::new() } else { std::mem::take(self).events }
    }
}

impl RequestKind {
    fn held_bytes(&self) -> usize {
        match self {
            Self::List(filter) => filter.held_bytes(),
            Self::Tool { name, .. } => name.len(),
            Self::Capability { .. } => 0,
        }
    }

    /// The capability of the request.
    pub(super) fn capability(&self) -> &'static str {
        match self {
            Self::List(_) | Self::Tool { .. } => TOOLS,
            Self::Capability { message, .. } => message.capability,
        }
    }

    /// Events that must follow the response.
    pub(super) fn held_back(&self) -> &[CapabilityEvent] {
        match self {
            Self::Capability { held_back, .. } => &held_back.events,
            Self::List(_) | Self::Tool { .. } => &[],
        }
    }
}

/// The queue is full.
#[derive(Debug)]
pub(super) struct Full;

/// All accepted calls.
#[derive(Debug)]
pub(super) struct IncomingRequests {
    max_parallel: usize,
    max_waiting: usize,
    last_call: u64,
    delivered: usize,
    held: usize,
    /// Number of bytes of queued names and arguments.
    waiting: usize,
    all: BTreeMap<CallId, IncomingRequest>,
    queue: VecDeque<(Call<'static>, Arc<Agreement>)>,
    deadlines: BTreeSet<(Duration, CallId)>,
}

impl IncomingRequests {
    /// Creates an empty set.
    pub(super) fn new(setup: &ServerSetup) -> Self {
        Self {
            max_parallel: usize::try_from(setup.max_parallel).unwrap_or(usize::MAX),
            max_waiting: setup.max_in_flight.min(MAX_QUEUE),
            last_call: 0,
            delivered: 0,
            held: 0,
            waiting: 0,
            all: BTreeMap::new(),
            queue: VecDeque::new(),
            deadlines: BTreeSet::new(),
        }
    }

    /// Accepts a call: delivers it now, or queues it.
    pub(super) fn accept<'a>(
        &mut self,
        id: Option<Id>,
        request: Request<'a>,
        is_urgent: bool,
        agreement: &Arc<Agreement>,
        ambient: &Ambient<'_>,
    ) -> Result<Option<Action<'a>>, Full> {
        let now = ambient.now.elapsed;
        let Request { request_kind, operation, timeout, .. } = request;
        let request = id;
        let must_wait = !is_urgent && (self.delivered >= self.max_parallel || !self.queue.is_empty());
        let arguments = match &operation {
            Operation::CallTool(tool) => tool.arguments.get().len(),
            Operation::Capability(call) => call.message.get().len(),
            _ => 0,
        };
        let held = arguments + request_kind.held_bytes() + request.as_ref().map_or(0, |id| id.as_bytes().len());
        // Urgent requests skip the queue, but their number is limited as well.
        let has_too_many_urgent = is_urgent && self.all.len() >= self.max_waiting + self.max_parallel;
        if has_too_many_urgent
            || must_wait && (self.queue.len() >= self.max_waiting || self.waiting + held > MAX_QUEUE_BYTES)
        {
            return Err(Full);
        }
        self.held += held;
        self.waiting += if must_wait { held } else { 0 };
        self.last_call += 1;
        let id = CallId(self.last_call);
        let wants_progress = matches!(request_kind, RequestKind::Tool { streaming: true, .. });
        // A queued call keeps the scopes of its request.
        let terms = Terms { wants_progress, timeout, scopes: ambient.scopes.clone(), ..Terms::default() };
        let call = Call { id, operation, terms };
        let deadline = timeout.map(|timeout| now.saturating_add(timeout));
        self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
        let delivered = (!must_wait).then_some(now);
        self.all.insert(id, IncomingRequest { request, request_kind, timeout, delivered, is_urgent, deadline, held });
        if must_wait {
            self.queue.push_back((call.into_owned(), Arc::clone(agreement)));
            return Ok(None);
        }
        self.delivered += usize::from(!is_urgent);
        Ok(Some(Action::Deliver(call, Arc::clone(agreement))))
    }

    /// The next queued call, if it may be delivered now.
    pub(super) fn deliver_next(&mut self, now: Duration) -> Option<Action<'static>> {
        if self.delivered >= self.max_parallel {
            return None;
        }
        let (mut call, agreement) = self.queue.pop_front()?;
        if let Some(incoming) = self.all.get_mut(&call.id) {
            incoming.delivered = Some(now);
            self.waiting -= incoming.held;
            // The queue time counts towards the caller's timeout.
            call.terms.timeout = incoming.deadline.map(|deadline| deadline.saturating_sub(now));
        }
        self.delivered += 1;
        Some(Action::Deliver(call, agreement))
    }

    /// Removes a call, delivered or queued.
    pub(super) fn end(&mut self, call: CallId) -> Option<IncomingRequest> {
        let incoming = self.all.remove(&call)?;
        self.held -= incoming.held;
        if let Some(deadline) = incoming.deadline {
            self.deadlines.remove(&(deadline, call));
        }
        if incoming.delivered.is_some() {
            self.delivered -= usize::from(!incoming.is_urgent);
        } else {
            self.waiting -= incoming.held;
            self.queue.retain(|(waiting, _)| waiting.id != call);
        }
        Some(incoming)
    }

    /// The state of a call.
    pub(super) fn get_mut(&mut self, call: CallId) -> Option<&mut IncomingRequest> {
        self.all.get_mut(&call)
    }

    /// The events to write now, given a new event. An event that must follow the response to its request is held back
    /// until then.
    pub(super) fn release_events(&mut self, event: CapabilityEvent) -> Vec<CapabilityEvent> {
        if event.kind != "proc/read/event" {
            return vec![event];
        }
        let waits = self.all.values_mut().find_map(|incoming| match &mut incoming.request_kind {
            RequestKind::Capability { message, held_back } if message.name == "proc/spawn/req" => {
                (incoming.request == event.request).then_some(held_back)
            }
            _ => None,
        });
        match waits {
            Some(held_back) => held_back.add(event),
            None => vec![event],
        }
    }

    /// A call whose deadline has passed.
    pub(super) fn overdue(&self, now: Duration) -> Option<CallId> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|(_, call)| *call)
    }

    /// The next deadline.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The number of kept bytes that the peer controls. Arguments count until their call ends, because the provider
    /// keeps them.
    pub(super) fn held_bytes(&self) -> usize {
        self.held
    }

    /// All calls, oldest first.
    pub(super) fn calls(&self) -> Vec<CallId> {
        self.all.keys().copied().collect()
    }
}
