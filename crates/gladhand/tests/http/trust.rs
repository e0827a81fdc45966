//! Whom we trust as a client over HTTPS, and by which way we go.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpListener;
use std::process::{Command, Output};

use crate::server::Program;
use crate::support::gladhand;

/// A certificate of the authority in `ca.pem`, for this machine, and its key: good for these tests and nothing else.
const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/tls/ca.pem");
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/tls/issued.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/tls/issued-key.pem");

fn server(more: &[&str]) -> Program {
    let program = Program::start(&[&["--tls-cert", CERTIFICATE, "--tls-key", KEY], more].concat());
    assert!(program.url.starts_with("https://127.0.0.1:"), "{}", program.url);
    program
}

/// `gladhand` with a separate home folder, and without proxies and certificates from the environment.
fn command(arguments: &[&str]) -> (Command, tempfile::TempDir) {
    let (mut command, home) = (gladhand(), tempfile::tempdir().expect("a folder"));
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    command.args(arguments).env("GLADHAND_DATA_DIR", home.path());
    (command, home)
}

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let (mut command, _home) = command(arguments);
    command.envs(variables.iter().copied()).output().expect("the program is built")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_server_is_trusted_on_the_word_of_the_authority_that_is_named() {
    let server = server(&[]);
    let url = server.url.as_str();
    let stranger = run(&["tools", url], &[]);
    assert_eq!(stranger.status.code(), Some(4), "{stranger:?}");
    let complaint = stderr(&stranger);
    assert!(complaint.contains("not trusted") && complaint.contains("UnknownIssuer"), "{complaint}");
    let program = env!("CARGO_BIN_EXE_gladhand");
    for (arguments, variables) in [
        (&["tools", "--ca", CA, url][..], &[][..]),
        (&["tools", url], &[("SSL_CERT_FILE", CA)]),
        (&["call", "echo", "message=echo", "--ca", CA, "--as", "mcp@2025-06-18", url], &[]),
        (&["open", "--ca", CA, "--want", "tools", url], &[]),
        (&["tools", "--", program, "bridge", "--ca", CA, url], &[]),
    ] {
        let known = run(arguments, variables);
        assert!(known.status.success(), "{arguments:?}: {known:?}");
        let word = if arguments[0] == "open" { "tools" } else { "echo" };
        assert!(String::from_utf8_lossy(&known.stdout).contains(word), "{arguments:?}: {known:?}");
    }
}

#[test]
fn an_upstream_has_an_authority_of_its_own() {
    let server = server(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gladhand.toml");
    let file = file.to_str().unwrap();
    let configure = |ca: &str| {
        let text = format!("[upstreams.far]\nurl = {:?}\nca = {ca:?}\n", server.url);
        std::fs::write(file, text).unwrap();
    };
    configure(CA);
    let served = run(&["tools", "--", env!("CARGO_BIN_EXE_gladhand"), "serve", "--config", file], &[]);
    assert!(String::from_utf8_lossy(&served.stdout).contains("far__echo"), "{served:?}");
    configure(KEY);
    let checked = run(&["config", "check", file], &[]);
    assert!(!checked.status.success());
    let complaint = stderr(&checked) + &String::from_utf8_lossy(&checked.stdout);
    assert!(complaint.contains("issued-key.pem: no certificate in it") && complaint.contains(":3:"), "{complaint}");
}

#[test]
fn a_custom_ca_also_applies_to_the_token_issuer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gladhand.toml");
    let text = "[authorization]\nresource = 'https://127.0.0.1/mcp'\nissuers = [{issuer = 'https://127.0.0.1:9/'}]\n";
    std::fs::write(&file, text).unwrap();
    let server = server(&["--config", file.to_str().unwrap()]);
    let refused = run(&["tools", "--ca", CA, server.url.as_str()], &[]);
    let complaint = stderr(&refused);
    assert!(!refused.status.success() && complaint.contains("HTTP status 401"), "{complaint}");
    assert!(!complaint.contains("not trusted"), "{complaint}");
}

#[test]
fn a_ca_file_without_certificates_is_named() {
    let url = "https://127.0.0.1:9/mcp";
    for (arguments, variables, word) in [
        (&["tools", "--ca", "/no/such.pem", url][..], &[][..], "/no/such.pem: No such file"),
        (&["bridge", "--ca", KEY, url], &[], "issued-key.pem: no certificate in it"),
        (&["open", "--ca", KEY, url], &[], "issued-key.pem: no certificate in it"),
        (&["tools", url], &[("SSL_CERT_FILE", "/no/such.pem")], "/no/such.pem: No such file"),
        (&["tools", "--ca", CA, "--", "server"], &[], "--ca is for servers at a URL"),
    ] {
        let output = run(arguments, variables);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(word), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_proxy_is_used_except_where_it_is_not_to_be() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    for (variable, url, request) in [
        ("HTTP_PROXY", "http://server.example/mcp", "POST http://server.example/mcp HTTP/1.1"),
        ("HTTPS_PROXY", "https://server.example/mcp", "CONNECT server.example:443 HTTP/1.1"),
    ] {
        let (mut command, _home) = command(&["tools", "--timeout", "20", url]);
        let child = command.env(variable, &address).stdout(std::process::Stdio::null()).spawn().unwrap();
        let (stream, _) = proxy.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), request);
        // It has seen enough.
        drop(stream);
        let pid = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let _ = child.wait_with_output();
    }
    proxy.set_nonblocking(true).unwrap();
    // Drops the connections of the killed processes.
    while proxy.accept().is_ok() {}
    let server = Program::start(&[]);
    for (url, is_found) in [("http://server.invalid/mcp", false), (server.url.as_str(), true)] {
        let variables = [("HTTP_PROXY", address.as_str()), ("NO_PROXY", "server.invalid")];
        let output = run(&["tools", url], &variables);
        assert_eq!(output.status.success(), is_found, "{url}: {output:?}");
        assert_eq!(proxy.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "{url}");
    }
}
