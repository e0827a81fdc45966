//! The metrics of this program, and the observer of calls that records most of them.

use std::sync::Arc;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::Operation;
use gladhand_hub::{CallObserver, CallOrigin, EndedCall, EndedUpstreamCall, Hub};
use gladhand_session::tap::{Attached, Direction, Tap, TapListener};

use crate::series::{Gauge, Histogram, MetricCounter, MetricDescription, SeriesFamily};
use crate::sessions::OpenSessions;
use crate::snapshot::{Labels, MetricSnapshot, Points};

/// How clients reach this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationTransport {
    /// One client on standard input and output.
    Stdio,
    /// Any number of clients over HTTP.
    Http,
}

impl OperationTransport {
    /// The value of `network.transport`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stdio => "pipe",
            Self::Http => "tcp",
        }
    }
}

const METHOD: &str = "mcp.method.name";
const OTHER_OPERATION: &str = "gladhand.operation";
const GEN_AI_OPERATION: &str = "gen_ai.operation.name";
const TOOL: &str = "gen_ai.tool.name";
const PROMPT: &str = "gen_ai.prompt.name";
const ERROR: &str = "error.type";
const DIALECT: &str = "gladhand.dialect";
const VERSION: &str = "mcp.protocol.version";
const UPSTREAM: &str = "gladhand.upstream";
const TRANSPORT: &str = "network.transport";
const DIRECTION: &str = "network.io.direction";
/// The side that this process is in a session: `server` or `client`.
const ROLE: &str = "gladhand.role";

const SERVER_OPERATIONS: MetricDescription = MetricDescription {
    name: "mcp.server.operation.duration",
    unit: "s",
    help: "Duration of operations that clients ask for, from the request to the result.",
    labels: &[METHOD, OTHER_OPERATION, GEN_AI_OPERATION, TOOL, PROMPT, ERROR, DIALECT, VERSION, UPSTREAM, TRANSPORT],
    chosen: &[TOOL, PROMPT],
    group: Some(UPSTREAM),
};

const CLIENT_OPERATIONS: MetricDescription = MetricDescription {
    name: "mcp.client.operation.duration",
    unit: "s",
    help: "Duration of calls to upstreams, from the request to the result.",
    labels: &[
        METHOD,
        OTHER_OPERATION,
        GEN_AI_OPERATION,
        TOOL,
        PROMPT,
        ERROR,
        DIALECT,
        VERSION,
        UPSTREAM,
        TRANSPORT,
        "server.address",
        "server.port",
    ],
    chosen: &[TOOL, PROMPT],
    group: Some(UPSTREAM),
};

const SERVER_SESSIONS: MetricDescription = MetricDescription {
    name: "mcp.server.session.duration",
    unit: "s",
    help: "Duration of sessions with clients that have ended.",
    labels: &[DIALECT, VERSION, TRANSPORT],
    chosen: &[VERSION],
    group: None,
};

const CLIENT_SESSIONS: MetricDescription = MetricDescription {
    name: "mcp.client.session.duration",
    unit: "s",
    help: "Duration of sessions with upstreams that have ended.",
    labels: &[DIALECT, VERSION, TRANSPORT, UPSTREAM],
    chosen: &[VERSION],
    group: Some(UPSTREAM),
};

const OPEN_SESSIONS: MetricDescription = MetricDescription {
    name: "gladhand.sessions",
    unit: "{session}",
    help: "Open sessions with clients (role server) and with upstreams (role client).",
    labels: &[ROLE, DIALECT, VERSION, UPSTREAM],
    chosen: &[VERSION],
    group: None,
};

const OPENINGS: MetricDescription = MetricDescription {
    name: "gladhand.openings",
    unit: "{opening}",
    help: "Openings by their outcome: opened, or the reason of the refusal.",
    labels: &[ROLE, DIALECT, "gladhand.dialect.version", UPSTREAM, "gladhand.outcome"],
    chosen: &["gladhand.dialect.version"],
    group: None,
};

const HTTP_REFUSALS: MetricDescription = MetricDescription {
    name: "gladhand.http.refusals",
    unit: "{response}",
    help: "HTTP responses with an error status.",
    labels: &["http.response.status_code"],
    chosen: &[],
    group: None,
};

const ARGUMENTS: MetricDescription = MetricDescription {
    name: "gladhand.operation.arguments",
    unit: "By",
    help: "Size of the arguments of operations.",
    labels: &[],
    chosen: &[],
    group: None,
};

const RESULTS: MetricDescription = MetricDescription {
    name: "gladhand.operation.results",
    unit: "By",
    help: "Size of the results of operations.",
    labels: &[],
    chosen: &[],
    group: None,
};

const DECISIONS: MetricDescription = MetricDescription {
    name: "gladhand.policy.decisions",
    unit: "{decision}",
    help: "Decisions of policy: allow, ask or deny, and the rule that denied.",
    labels: &["gladhand.policy.decision", "gladhand.policy.rule"],
    chosen: &[],
    group: None,
};

/// The metrics of a process. Recording takes no lock that a slow reader could hold.
#[derive(Debug)]
pub struct ServiceMetrics {
    pub(crate) transport: OperationTransport,
    server_operations: SeriesFamily<Histogram>,
    client_operations: SeriesFamily<Histogram>,
    pub(crate) server_sessions: SeriesFamily<Histogram>,
    pub(crate) client_sessions: SeriesFamily<Histogram>,
    pub(crate) sessions: SeriesFamily<Gauge>,
    pub(crate) openings: SeriesFamily<MetricCounter>,
    pub(crate) http_refusals: SeriesFamily<MetricCounter>,
    arguments: MetricCounter,
    results: MetricCounter,
    decisions: SeriesFamily<MetricCounter>,
    pub(crate) open: OpenSessions,
}

impl ServiceMetrics {
    /// Observes the calls of a hub and the sessions of a tap from now on, until the second value is dropped. From then on
    /// sessions are not observed any more.
    pub fn start(transport: OperationTransport, hub: &Hub, tap: &Arc<Tap>) -> (Arc<Self>, Attached) {
        let metrics = Arc::new(Self {
            transport,
            server_operations: SeriesFamily::new(SERVER_OPERATIONS),
            client_operations: SeriesFamily::new(CLIENT_OPERATIONS),
            server_sessions: SeriesFamily::new(SERVER_SESSIONS),
            client_sessions: SeriesFamily::new(CLIENT_SESSIONS),
            sessions: SeriesFamily::new(OPEN_SESSIONS),
            openings: SeriesFamily::new(OPENINGS),
            http_refusals: SeriesFamily::new(HTTP_REFUSALS),
            arguments: MetricCounter::default(),
            results: MetricCounter::default(),
            decisions: SeriesFamily::new(DECISIONS),
            open: OpenSessions::default(),
        });
        hub.observe_calls(Arc::clone(&metrics) as _);
        tap.count_traffic();
        let attached = tap.attach(Arc::clone(&metrics) as Arc<dyn TapListener>);
        (metrics, attached)
    }

    /// The values now, with the state of the hub and its upstreams.
    pub fn snapshot(&self, hub: &Hub, tap: &Tap) -> Vec<MetricSnapshot> {
        let mut all = vec![
            self.server_operations.snapshot(),
            self.client_operations.snapshot(),
            self.server_sessions.snapshot(),
            self.client_sessions.snapshot(),
            self.sessions.snapshot(),
            self.openings.snapshot(),
            self.http_refusals.snapshot(),
            self.arguments.snapshot(ARGUMENTS),
            self.results.snapshot(RESULTS),
            self.decisions.snapshot(),
        ];
        all.extend(of_traffic(tap));
        all.extend(of_upstreams(hub));
        let running: usize = hub.sessions().iter().map(|session| session.under_way).sum();
        all.push(MetricSnapshot {
            name: "gladhand.operations.running",
            unit: "{operation}",
            help: "Operations of clients that have not ended.",
            points: Points::Gauge(vec![(Vec::new(), i64::try_from(running).unwrap_or(i64::MAX))]),
        });
        all.push(MetricSnapshot {
            name: "gladhand.build_info",
            unit: "",
            help: "Version of this program.",
            points: Points::Gauge(vec![(vec![("service.version", env!("CARGO_PKG_VERSION").to_owned())], 1)]),
        });
        all
    }
}

impl CallObserver for ServiceMetrics {
    fn observes(&self, _: &Operation<'_>, origin: CallOrigin) -> bool {
        origin == CallOrigin::Client
    }

    fn observes_upstreams(&self) -> bool {
        true
    }

    fn ended(&self, ended: &EndedCall<'_>) {
        let call = ended.call;
        let upstream = call.target().map_or("", |target| &target.upstream);
        // A name that belongs to no provider is the invention of a client.
        let name = if call.target().is_some() || call.is_stand_in() { &*call.name } else { "" };
        let version = version_of(call.dialect, &call.dialect_version);
        let [method, other, gen_ai, tool, prompt] = operation(call.kind, name, &call.name);
        let error = error_type(ended.word());
        self.server_operations.with(
            &[method, other, gen_ai, tool, prompt, error, call.dialect, version, upstream, self.transport.word()],
            |histogram| histogram.record(ended.duration),
        );
        self.arguments.add(call.bytes_in as u64);
        self.results.add(ended.bytes_out() as u64);
        if let Some(decision) = call.decision() {
            self.decisions.with(&[decision.word(), call.rule().unwrap_or_default()], |counter| counter.add(1));
        }
    }

    fn upstream_ended(&self, ended: &EndedUpstreamCall<'_>) {
        let call = ended.call;
        let Agreement { dialect, version, .. } = call.agreement;
        let version = version_of(dialect, version);
        let [method, other, gen_ai, tool, prompt] = operation(call.kind, call.name, call.name);
        let port = call.address.map(|(_, port)| port.to_string()).unwrap_or_default();
        let (transport, host) = call.address.map_or(("pipe", ""), |(host, _)| ("tcp", host));
        let error = error_type(ended.word());
        self.client_operations.with(
            &[method, other, gen_ai, tool, prompt, error, dialect, version, call.upstream, transport, host, &port],
            |histogram| histogram.record(ended.duration),
        );
    }
}

/// The name of the dialect that has revisions with dates.
pub(crate) const MCP: &str = "mcp";

/// The value of `error.type`. An operation that succeeded has none.
pub(crate) fn error_type(word: &str) -> &str {
    if word == "ok" { "" } else { word }
}

/// The method of MCP for a kind of operation; empty for operations that MCP does not have. `list`: the name of a list.
pub(crate) fn method(kind: &str, list: &str) -> &'static str {
    match (kind, list) {
        ("tool", _) => "tools/call",
        ("resource", _) => "resources/read",
        ("subscription", _) => "resources/subscribe",
        ("prompt", _) => "prompts/get",
        ("completion", _) => "completion/complete",
        ("list", "tools") => "tools/list",
        ("list", "resources") => "resources/list",
        ("list", "resource templates") => "resources/templates/list",
        ("list", "prompts") => "prompts/list",
        _ => "",
    }
}

/// The first five labels of an operation. `known`: the name, unless no provider has it.
fn operation<'n>(kind: &'static str, known: &'n str, name: &'n str) -> [&'n str; 5] {
    let method = method(kind, name);
    let other = match kind {
        // The types of messages of capabilities are those that this program knows.
        "capability" => name,
        "agent" => "agent",
        _ => "",
    };
    let (tool, prompt) = match kind {
        "tool" => (known, ""),
        "prompt" => ("", known),
        _ => ("", ""),
    };
    [method, other, if kind == "tool" { "execute_tool" } else { "" }, tool, prompt]
}

/// The messages that passed the tap.
fn of_traffic(tap: &Tap) -> [MetricSnapshot; 2] {
    let labels = |upstream: bool, direction: Direction| -> Labels {
        let direction = if direction == Direction::Received { "receive" } else { "transmit" };
        vec![(ROLE, if upstream { "client" } else { "server" }.to_owned()), (DIRECTION, direction.to_owned())]
    };
    let traffic = tap.traffic();
    let points = |number: fn(&gladhand_session::tap::Traffic) -> u64| {
        let points = traffic.iter().map(|one| (labels(one.is_with_upstream, one.direction), number(one)));
        Points::Sum(points.collect())
    };
    [
        MetricSnapshot {
            name: "gladhand.messages",
            unit: "{message}",
            help: "Protocol messages in sessions with clients (role server) and with upstreams (role client).",
            points: points(|one| one.messages),
        },
        MetricSnapshot {
            name: "gladhand.messages.io",
            unit: "By",
            help: "Size of these messages, without the headers of HTTP.",
            points: points(|one| one.bytes),
        },
    ]
}

/// The state of each upstream, as `gladhand ps` shows it.
fn of_upstreams(hub: &Hub) -> [MetricSnapshot; 6] {
    let status = hub.status();
    let not_open = hub.not_open();
    let gauge = |name, unit, help, value: &dyn Fn(&gladhand_hub::UpstreamStatus) -> i64| {
        let points = status.upstreams.iter().map(|one| (vec![(UPSTREAM, one.name.clone())], value(one)));
        MetricSnapshot { name, unit, help, points: Points::Gauge(points.collect()) }
    };
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    [
        gauge("gladhand.upstream.open", "", "Whether an upstream is open (1) or not (0).", &|one| {
            i64::from(one.state == "open")
        }),
        gauge("gladhand.upstream.connections", "{connection}", "Open sessions with an upstream.", &|one| {
            count(one.connections)
        }),
        gauge("gladhand.upstream.calls", "{call}", "Calls to an upstream that have not ended.", &|one| {
            count(one.calls)
        }),
        gauge("gladhand.upstream.tools", "{tool}", "Tools of an upstream.", &|one| count(one.tools)),
        gauge("gladhand.upstream.restarts", "{restart}", "Restarts of the open connections of an upstream.", &|one| {
            i64::try_from(one.restarts).unwrap_or(i64::MAX)
        }),
        MetricSnapshot {
            name: "gladhand.ready",
            unit: "",
            help: "Whether all required upstreams are open (1) or not (0).",
            points: Points::Gauge(vec![(Vec::new(), i64::from(not_open.is_empty()))]),
        },
    ]
}

/// The revision of MCP; empty for other dialects.
pub(crate) fn version_of<'v>(dialect: &str, version: &'v str) -> &'v str {
    if dialect == MCP { version } else { "" }
}
