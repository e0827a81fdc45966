//! Other sockets than plain TCP, and more than one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::Connection;
use crate::server::Program;
use crate::support::{gladhand, mcp_initialize};

#[test]
fn a_unix_socket_is_private_to_its_owner_and_removed_with_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.sock");
    // The leftover socket of a killed server does not disturb a new one.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut program = Program::start_at(&format!("unix:{}", path.display()), &[]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut connection = Connection::open_unix(&path);
    let opened = connection.post(&[("Host", "whatever")], &mcp_initialize("2025-11-25"));
    assert_eq!(opened.status, 200);
    let page = connection.post(&[("Origin", "http://evil.example")], &mcp_initialize("2025-11-25"));
    assert_eq!(page.status, 403, "a page cannot get here, so one that says it is one is not let in");
    // A living server keeps its socket.
    let second = gladhand().args(["serve", "--http", &format!("unix:{}", path.display())]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("g.sock"), "{second:?}");
    program.signal(Signal::TERM);
    assert_eq!(program.wait().code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn several_addresses_serve_the_same_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.sock");
    let program = Program::start(&["--listen", &format!("unix:{}", path.display())]);
    let session = crate::client::open_session(&mut program.connect(), "2025-11-25");
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let pong = Connection::open_unix(&path).post(&[("Mcp-Session-Id", &session)], ping);
    assert_eq!(pong.status, 200);
}

/// A certificate for `localhost` that signs itself, and its key: good for this test and nothing else.
fn certificate() -> (&'static str, &'static str) {
    (
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/tls/cert.pem"),
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/tls/key.pem"),
    )
}

#[test]
fn encrypted_connections_are_served() {
    let (certificate, key) = certificate();
    let program = Program::start(&["--tls-cert", certificate, "--tls-key", key]);
    assert!(program.url.starts_with("https://"), "{}", program.url);
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(trusted).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut client = StreamOwned::new(session, TcpStream::connect(program.address()).unwrap());
    let body = mcp_initialize("2025-11-25");
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""protocolVersion":"2025-11-25""#), "{answer}");
    // A client without TLS is not served, and does not disturb others.
    let mut plain = program.connect();
    plain.send_bytes(b"GET /healthz HTTP/1.1\r\n\r\n");
    // An alert, and then the end.
    while !plain.ends() {
        plain.discard();
    }
}

#[test]
fn invalid_files_and_addresses_of_serve_are_named() {
    let (certificate, key) = certificate();
    let complaint = |arguments: &[&str]| {
        let output = gladhand().arg("serve").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let http = ["--http", "127.0.0.1:0"];
    for (arguments, status, word) in [
        (vec!["--http", "8080"], 2, "HOST:PORT"),
        (vec!["--allow-host", "x"], 2, "--http"),
        (vec![http[0], http[1], "--tls-cert", certificate], 2, "--tls-key"),
        (vec![http[0], http[1], "--tls-cert", "/no/such", "--tls-key", key], 1, "/no/such"),
        (vec![http[0], http[1], "--tls-cert", key, "--tls-key", key], 1, "no certificate"),
        (vec![http[0], http[1], "--tls-cert", certificate, "--tls-key", certificate], 1, "no private key"),
        (vec![http[0], http[1], "--dialect", "loaf"], 2, "loaf"),
        (vec!["--http", "203.0.113.1:1"], 1, "203.0.113.1:1"),
    ] {
        let (code, stderr) = complaint(&arguments);
        assert!(code == Some(status) && stderr.contains(word), "{arguments:?}: {code:?} {stderr}");
    }
}
