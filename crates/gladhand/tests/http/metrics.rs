//! `/metrics`: the numbers that calls, sessions and refusals leave.

use crate::client::{Connection, open_session};
use crate::server::Program;
use crate::support::mcp_call;

const GLADHAND: &str = env!("CARGO_BIN_EXE_gladhand");

/// The metrics now.
struct Scraped(String);

impl Scraped {
    fn of(program: &Program) -> Self {
        let answer = program.connect().ask("GET", "/metrics", &[], "");
        let kind = answer.header("content-type").map(str::to_owned);
        assert_eq!((answer.status, kind.as_deref()), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
        Self(answer.body)
    }

    /// The value of the one series of a metric that has all these labels.
    fn value(&self, metric: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |line: &str| {
            labels.iter().all(|(name, value)| {
                let label = format!("{name}=\"{value}\"");
                line.contains(&format!("{{{label}")) || line.contains(&format!(",{label}"))
            })
        };
        let of_metric = |line: &&str| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let mut lines = self.0.lines().filter(of_metric).filter(|line| has(line));
        let line = lines.next()?;
        assert_eq!(lines.next(), None, "{metric} {labels:?}");
        line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok())
    }
}

fn call(connection: &mut Connection, session: &str, id: u64, tool: &str, arguments: &str) {
    let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
    assert_eq!(connection.post(&headers, &mcp_call(id, tool, arguments)).status, 200);
}

#[test]
fn metrics_are_served_only_if_they_are_enabled() {
    assert_eq!(Program::start(&[]).connect().ask("GET", "/metrics", &[], "").status, 404);
    let (program, _folder) = Program::configured("[metrics]\nenabled = true\n");
    assert!(Scraped::of(&program).0.contains("gladhand_build_info{service_version="));
    assert_eq!(program.connect().ask("POST", "/metrics", &[], "").status, 405);
    assert_eq!(program.connect().ask("GET", "/metrics", &[("Origin", "https://evil.example")], "").status, 403);
}

#[test]
fn the_authorization_of_the_endpoint_applies_to_metrics() {
    let (program, _folder) = Program::configured(
        "[metrics]\nenabled = true\n[[authorization.tokens]]\ntoken = 'the-token-of-the-scraper'\nname = 'prometheus'\n",
    );
    let get = |headers: &[(&str, &str)]| program.connect().ask("GET", "/metrics", headers, "").status;
    assert_eq!(get(&[]), 401);
    assert_eq!(get(&[("Authorization", "Bearer the-token-of-the-scraper")]), 200);
}

#[test]
fn calls_sessions_and_refusals_are_counted() {
    let program = Program::start(&["--metrics"]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    for id in 1..=3 {
        call(&mut connection, &session, id, "echo", r#"{"message":"hello"}"#);
    }
    call(&mut connection, &session, 4, "echo", r#"{"message":1}"#);
    for id in 5..25 {
        call(&mut connection, &session, id, &format!("invented{id}"), "{}");
    }
    assert_eq!(connection.ask("GET", "/mcp", &[("Mcp-Session-Id", "none")], "").status, 404);

    let scraped = Scraped::of(&program);
    let operations = "mcp_server_operation_duration_seconds_count";
    let echo = [
        ("mcp_method_name", "tools/call"),
        ("gen_ai_operation_name", "execute_tool"),
        ("gen_ai_tool_name", "echo"),
        ("gladhand_dialect", "mcp"),
        ("mcp_protocol_version", "2025-11-25"),
        ("gladhand_upstream", "toolbox"),
        ("network_transport", "tcp"),
    ];
    let failed = ("error_type", "invalid_arguments");
    assert_eq!(scraped.value(operations, &[&echo[..], &[failed]].concat()), Some(1.0));
    let succeeded = scraped.0.lines().find(|line| line.starts_with(operations) && line.ends_with(" 3"));
    let has_error = succeeded.map(|line| line.contains("gen_ai_tool_name=\"echo\"") && line.contains("error_type"));
    assert_eq!(has_error, Some(false), "{}", scraped.0);
    assert_eq!(scraped.value(operations, &[("error_type", "unknown_tool")]), Some(20.0));
    assert!(!scraped.0.contains("invented"), "a client cannot add labels: {}", scraped.0);
    let one_bucket = scraped.0.lines().find(|line| line.contains("le=\"+Inf\"") && line.contains("unknown_tool"));
    assert!(one_bucket.is_some_and(|line| line.ends_with(" 20")), "{one_bucket:?}");

    let server = ("gladhand_role", "server");
    assert_eq!(scraped.value("gladhand_sessions", &[server]), Some(1.0));
    let opened = [server, ("gladhand_outcome", "opened"), ("gladhand_dialect_version", "2025-11-25")];
    assert_eq!(scraped.value("gladhand_openings_total", &opened), Some(1.0));
    assert_eq!(scraped.value("gladhand_http_refusals_total", &[("http_response_status_code", "404")]), Some(1.0));
    assert_eq!(scraped.value("gladhand_operations_running", &[]), Some(0.0));
    let received = [server, ("network_io_direction", "receive")];
    assert!(scraped.value("gladhand_messages_total", &received) >= Some(26.0), "{}", scraped.0);
    assert!(scraped.value("gladhand_messages_io_bytes_total", &received) > Some(2000.0), "{}", scraped.0);
    assert_eq!(scraped.value("gladhand_ready", &[]), Some(1.0));
    assert_eq!(scraped.value("mcp_server_session_duration_seconds_count", &[]), None);

    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    assert_eq!(connection.ask("DELETE", "/mcp", &headers, "").status, 204);
    let scraped = Scraped::of(&program);
    assert_eq!(scraped.value("gladhand_sessions", &[server]), Some(0.0));
    assert_eq!(scraped.value("mcp_server_session_duration_seconds_count", &[("gladhand_dialect", "mcp")]), Some(1.0));
}

#[test]
fn calls_to_upstreams_openings_of_upstreams_and_policy_are_counted() {
    let (program, _folder) = Program::configured(&format!(
        "[metrics]\nenabled = true\n[toolbox]\nenabled = false\n\
         [upstreams.far]\ncommand = '{GLADHAND}'\nargs = ['serve', '--config', '/dev/null']\nspeak = 'mcp@2025-06-18'\n\
         [upstreams.broken]\ncommand = '/does/not/exist'\n\
         [[policy.rules]]\nname = 'no-waiting'\ntools = ['far__wait']\neffect = 'deny'\n"
    ));
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    call(&mut connection, &session, 1, "far__echo", r#"{"message":"hello"}"#);
    call(&mut connection, &session, 2, "far__wait", r#"{"ms":1}"#);
    let scraped = Scraped::of(&program);
    let far = ("gladhand_upstream", "far");
    let echo = [
        ("mcp_method_name", "tools/call"),
        ("gen_ai_tool_name", "echo"),
        ("mcp_protocol_version", "2025-06-18"),
        far,
        ("network_transport", "pipe"),
    ];
    assert_eq!(scraped.value("mcp_client_operation_duration_seconds_count", &echo), Some(1.0), "{}", scraped.0);
    let shown = [("gen_ai_tool_name", "far__echo"), far];
    assert_eq!(scraped.value("mcp_server_operation_duration_seconds_count", &shown), Some(1.0));
    let denied = [("gladhand_policy_decision", "deny"), ("gladhand_policy_rule", "no-waiting")];
    assert_eq!(scraped.value("gladhand_policy_decisions_total", &denied), Some(1.0));
    let allowed = [("gladhand_policy_decision", "allow")];
    assert_eq!(scraped.value("gladhand_policy_decisions_total", &allowed), Some(1.0));
    let client = ("gladhand_role", "client");
    assert_eq!(scraped.value("gladhand_openings_total", &[client, far, ("gladhand_outcome", "opened")]), Some(1.0));
    let broken = [client, ("gladhand_upstream", "broken"), ("gladhand_outcome", "not_started")];
    assert!(scraped.value("gladhand_openings_total", &broken) >= Some(1.0), "{}", scraped.0);
    assert_eq!(scraped.value("gladhand_upstream_open", &[far]), Some(1.0));
    assert_eq!(scraped.value("gladhand_upstream_open", &[("gladhand_upstream", "broken")]), Some(0.0));
    let sent = [client, ("network_io_direction", "transmit")];
    assert!(scraped.value("gladhand_messages_total", &sent) >= Some(3.0), "{}", scraped.0);
}
