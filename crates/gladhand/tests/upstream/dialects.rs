//! Finding out which dialect a process speaks.

use std::path::Path;

use gladhand::negotiation::Refusal;
use gladhand::operations::Reply;
use gladhand::upstream::{Eras, OpenError, Options};

use crate::*;

const OTHERS: [&str; 3] = ["a2e", "loaf", "fluxloop"];

/// A server of one dialect that records each of its processes in a file, and runs a command for clients that open in
/// another dialect.
fn server(dialect: &str, to_strangers: &str, started: &Path) -> Vec<String> {
    let opening = match dialect {
        "a2e" => "handshake/req",
        "loaf" => "rpc.handshake",
        _ => r#""type":"handshake""#,
    };
    let serve = format!("{GLADHAND} serve --dialect {dialect}");
    let started = started.display();
    let script = match to_strangers {
        "" => format!("echo >> {started}; exec {serve}"),
        _ => format!(
            r#"echo >> {started}; read -r line; case "$line" in *'{opening}'*) (echo "$line"; cat) | {serve};; *) {to_strangers};; esac"#
        ),
    };
    ["sh", "-c", &script].map(str::to_owned).to_vec()
}

async fn open_command(command: &[String], eras: &Eras) -> Result<Upstream, OpenError> {
    let words: Vec<_> = command.iter().map(String::as_str).collect();
    open(&words, Options { eras: eras.clone(), ..Options::default() }).await
}

fn processes(started: &Path) -> usize {
    std::fs::read_to_string(started).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn the_dialect_of_a_server_is_detected_and_remembered() {
    for dialect in OTHERS {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        let server = server(dialect, "", &started);
        for expected in [2, 3] {
            // As in another run.
            let eras = Eras::kept_in(folder.path().join("eras.json"));
            let upstream = open_command(&server, &eras).await.unwrap();
            assert_eq!(upstream.agreement().dialect, dialect);
            let Ok(Reply::Tools(tools)) = soon(upstream.call(Operation::ListTools)).await else { panic!() };
            assert!(tools.iter().any(|tool| tool.name == "echo"));
            soon(upstream.close()).await;
            assert_eq!(processes(&started), expected, "one to ask, and then one for each session");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_silent_to_strangers_or_leaves_them_is_found_out_too() {
    let mut servers = tokio::task::JoinSet::new();
    for dialect in OTHERS {
        for to_strangers in ["exit 1", "exec sleep 60"] {
            servers.spawn(async move {
                let folder = tempfile::tempdir().unwrap();
                let started = folder.path().join("started");
                let server = server(dialect, to_strangers, &started);
                let upstream = open_command(&server, &Eras::default()).await.unwrap();
                assert_eq!(upstream.agreement().dialect, dialect, "{to_strangers}");
                soon(upstream.close()).await;
                assert!(processes(&started) <= 5, "{dialect}, {to_strangers}");
            });
        }
    }
    servers.join_all().await;
}

#[tokio::test]
async fn a_server_that_resembles_another_dialect_is_opened_in_its_own() {
    let strange = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":{"reason":"method_not_found","method":"m"}}}"#;
    let result = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
    let script = format!(
        r#"while read -r line; do case "$line" in *initialized*) ;; *initialize*) echo '{{"jsonrpc":"2.0","id":1,"result":{result}}}';; *) echo '{strange}';; esac; done"#
    );
    let upstream = open(&["sh", "-c", &script], Options::default()).await.unwrap();
    assert_eq!((upstream.agreement().dialect, upstream.agreement().version.as_str()), ("mcp", "2025-11-25"));
    soon(upstream.close()).await;
}

#[tokio::test]
async fn a_changed_dialect_of_a_server_is_detected_again() {
    let folder = tempfile::tempdir().unwrap();
    let (started, script) = (folder.path().join("started"), folder.path().join("script"));
    let command = ["sh", "-c", &format!(". {}", script.display())].map(str::to_owned);
    let eras = Eras::default();
    for dialect in ["loaf", "a2e", "mcp", "fluxloop"] {
        std::fs::write(&script, &server(dialect, "", &started)[2]).unwrap();
        // A server that speaks another dialect than before may be refused once, and its dialect is stored again
        // afterwards.
        let opened = match open_command(&command, &eras).await {
            Ok(opened) => opened,
            Err(_) => open_command(&command, &eras).await.unwrap(),
        };
        assert_eq!(opened.agreement().dialect, dialect);
        soon(opened.close()).await;
    }
}

#[tokio::test]
async fn a_server_of_no_known_dialect_is_tried_a_bounded_number_of_times() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("echo >> {}; read -r line; echo alas >&2; exit 1", started.display());
    let refused = open(&["sh", "-c", &script], Options::default()).await.unwrap_err();
    assert!(
        matches!(&refused, OpenError::Refused { refusal: Refusal::PeerGone, process: Some(end) } if end.stderr_tail == ["alas"])
    );
    assert_eq!(processes(&started), 5, "both eras and three dialects");
}

#[tokio::test]
async fn a_refusal_in_the_dialect_of_the_server_ends_the_detection() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    std::fs::write(&config, "[a2e]\ntokens = ['right']\n").unwrap();
    let config = config.to_str().unwrap();
    let refused = open(&[GLADHAND, "serve", "--config", config, "--dialect", "a2e"], Options::default()).await;
    assert!(matches!(&refused, Err(OpenError::Refused { refusal: Refusal::AuthFailed, .. })), "{refused:?}");
}
