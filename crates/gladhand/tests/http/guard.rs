//! Names and pages that are let in.

use rustix::process::Signal;

use crate::client::{ACCEPT, Connection};
use crate::server::Program;
use crate::support::{gladhand, mcp_initialize};

fn initialize(connection: &mut Connection, headers: &[(&str, &str)]) -> crate::client::Response {
    connection.post(headers, &mcp_initialize("2025-11-25"))
}

#[test]
fn unexpected_hosts_and_origins_get_403() {
    let program = Program::start(&["--allow-host", "mcp.example.com", "--allow-origin", "https://app.example"]);
    let mut connection = program.connect();
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.example:80", ""] {
        let response = initialize(&mut connection, &[("Host", host)]);
        assert_eq!((response.status, response.header("mcp-session-id")), (403, None), "{host}");
        assert!(response.json()["id"].is_null());
    }
    for origin in ["http://evil.example", "null", "https://app.example.evil"] {
        let response = initialize(&mut connection, &[("Origin", origin)]);
        assert_eq!((response.status, response.header("access-control-allow-origin")), (403, None), "{origin}");
    }
    for headers in [
        &[("Host", "localhost:1234")][..],
        &[("Host", "[::1]")],
        &[("Host", "MCP.example.com")],
        &[("Origin", "http://localhost:5173")],
        &[("Origin", "https://app.example")],
    ] {
        assert_eq!(initialize(&mut connection, headers).status, 200, "{headers:?}");
    }
    assert_eq!(
        connection.ask("GET", "/healthz", &[("Host", "10.0.0.7")], "").status,
        200,
        "probes have no name for us"
    );
}

#[test]
fn client_and_log_suggest_the_option_for_a_refused_host() {
    let mut program = Program::start(&[]);
    for command in ["tools", "open"] {
        let output = gladhand().args([command, "--header", "Host: mcp.internal", &program.url]).output().unwrap();
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).replace('\n', " ");
        assert_eq!(output.status.code(), Some(3), "{told}");
        assert!(told.contains("--allow-host HOST") && !told.contains("sign in"), "{told}");
    }
    program.signal(Signal::TERM);
    let log = program.rest_of_stderr();
    let line = log.lines().find(|line| line.contains("request refused")).expect("it is logged");
    assert!(["WARN", "--allow-host", "host=\"mcp.internal\""].iter().all(|part| line.contains(part)), "{line}");
}

#[test]
fn an_allowed_origin_gets_its_cors_headers() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let origin = ("Origin", "http://localhost:5173");
    let wanted = "content-type, mcp-session-id, mcp-param-region";
    let preflight = connection.ask(
        "OPTIONS",
        "/mcp",
        &[origin, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", wanted)],
        "",
    );
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some(origin.1));
    assert_eq!(preflight.header("access-control-allow-headers"), Some(wanted));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
    let opened = initialize(&mut connection, &[origin]);
    assert_eq!(opened.header("access-control-allow-origin"), Some(origin.1));
    assert!(opened.header("access-control-expose-headers").is_some_and(|names| names.contains("Mcp-Session-Id")));
    assert_eq!(opened.header("vary"), Some("origin"));
    let refused = connection.ask("POST", "/mcp", &[origin, ("Accept", ACCEPT)], "{}");
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (415, Some(origin.1)));
    let strange = connection.ask("OPTIONS", "/mcp", &[("Origin", "http://evil.example")], "");
    assert_eq!(strange.status, 403);
}
