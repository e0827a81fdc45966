//! The step that says who a request comes from.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gladhand::auth::Scopes;
use gladhand::auth::resource::Principal;
use gladhand::providers::Toolbox;
use gladhand_server::http::{Authorize, Authorized, Http};

use crate::client::{STATELESS, open_session_with, stateless};
use crate::server::{Embedded, Program};

/// Accepts every claimed identity.
#[derive(Debug)]
pub(crate) struct Credulous;

impl Authorize for Credulous {
    fn authorize<'a>(
        &'a self,
        head: &'a http::request::Parts,
    ) -> Pin<Box<dyn Future<Output = Authorized> + Send + 'a>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let name = head.headers.get("x-name").and_then(|name| name.to_str().ok());
            let expires = head.headers.get("x-expires").and_then(|at| at.to_str().ok()?.parse().ok());
            let name = name.map(|name| {
                let mut principal = Principal::named(name, Scopes::default());
                principal.expires = expires;
                principal
            });
            let denied = http::Response::builder().status(401).header("WWW-Authenticate", "Bearer");
            name.map(Some).ok_or_else(|| Box::new(denied.body("who?".into()).expect("a response")))
        })
    }
}

#[test]
fn a_session_is_usable_only_by_the_client_that_opened_it() {
    let http = Http { authorize: Some(Arc::new(Credulous)), ..Http::default() };
    let server = Embedded::with(Toolbox, http);
    let mut connection = server.connect();
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let nobody = connection.post(&[], ping);
    assert_eq!((nobody.status, nobody.header("www-authenticate"), &*nobody.body), (401, Some("Bearer"), "who?"));
    let session = open_session_with(&mut connection, "2025-11-25", &[("X-Name", "ada")]);
    let mut status = |name| connection.post(&[("X-Name", name), ("Mcp-Session-Id", &session)], ping).status;
    assert_eq!((status("ada"), status("eve")), (200, 404));
    assert_eq!(connection.ask("GET", "/healthz", &[], "").status, 200, "whether we are well is no secret");
}

#[test]
fn a_stream_ends_with_the_token_of_its_reader() {
    let http = Http { authorize: Some(Arc::new(Credulous)), ..Http::default() };
    let server = Embedded::with(Toolbox, http);
    let ada = ("X-Name", "ada");
    let session = open_session_with(&mut server.connect(), "2025-11-25", &[ada]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let (soon, long) = ((now.as_secs() + 2).to_string(), u64::MAX.to_string());
    for (path, expires, ends) in [("/mcp", &soon, true), ("/sse", &soon, true), ("/mcp", &long, false)] {
        let mut stream = server.connect();
        let mut headers = vec![ada, ("X-Expires", expires), ("Accept", "text/event-stream")];
        headers.extend((path == "/mcp").then_some(("Mcp-Session-Id", session.as_str())));
        stream.send("GET", path, &headers, "");
        assert_eq!(stream.head().status, 200);
        if ends {
            while stream.event().is_some() {}
        }
    }
    // The header may be written in base64, as headers of any text may.
    for method in ["subscriptions/listen", "=?base64?c3Vic2NyaXB0aW9ucy9saXN0ZW4=?="] {
        let mut stream = server.connect();
        let soon = (now.as_secs() + 4).to_string();
        let headers = [ada, ("X-Expires", soon.as_str()), ("MCP-Protocol-Version", STATELESS), ("Mcp-Method", method)];
        let body = stateless(1, "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#);
        stream.send_post(&headers, &body);
        assert_eq!(stream.head().status, 200);
        while stream.event().is_some() {}
    }
}

#[test]
fn a_configured_token_is_accepted_and_metadata_needs_no_token() {
    let (server, _folder) = Program::configured(
        r#"
        [authorization]
        resource = "https://gladhand.example/mcp"
        issuers = [{ issuer = "https://login.example", jwks_file = "/nowhere" }]
        tokens = [{ name = "ann", token = "open-sesame" }]
        "#,
    );
    let mut connection = server.connect();
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let nobody = connection.post(&[], ping);
    let place = "/.well-known/oauth-protected-resource/mcp";
    let challenge = format!(r#"Bearer resource_metadata="https://gladhand.example{place}""#);
    assert_eq!((nobody.status, nobody.header("www-authenticate")), (401, Some(&*challenge)));
    let metadata = connection.ask("GET", place, &[], "");
    assert_eq!(
        (metadata.status, metadata.json()["authorization_servers"][0].as_str()),
        (200, Some("https://login.example"))
    );

    let ann = ("Authorization", "Bearer open-sesame");
    let session = open_session_with(&mut connection, "2025-11-25", &[ann]);
    assert_eq!(connection.post(&[ann, ("Mcp-Session-Id", &session)], ping).status, 200);
    assert_eq!(connection.post(&[("Mcp-Session-Id", &session)], ping).status, 401);
    let query = connection.ask("POST", "/mcp?access_token=open-sesame", &[], ping);
    assert_eq!(query.status, 401, "a token in the address is no token");
}

#[test]
fn a_tool_that_needs_a_scope_is_refused_before_it_runs_in_every_revision() {
    let (server, _folder) = Program::configured(
        r#"
        [authorization]
        scopes = ["use"]
        tool_scopes = { "ec*" = ["talk"], "wait" = ["wait"] }
        tokens = [
            { name = "ann", token = "everything" },
            { name = "bob", token = "little", scopes = ["use", "wait"] },
        ]
        "#,
    );
    let mut connection = server.connect();
    let (ann, bob) = (("Authorization", "Bearer everything"), ("Authorization", "Bearer little"));
    let call = |tool: &str| {
        let arguments = if tool == "wait" { r#"{"ms":1}"# } else { r#"{"message":"hi"}"# };
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        )
    };
    let challenge = r#"Bearer error="insufficient_scope", error_description="the token lacks scope", scope="use talk""#;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = open_session_with(&mut connection, version, &[bob]);
        let headers = [bob, ("Mcp-Session-Id", session.as_str())];
        let refused = connection.post(&headers, &call("echo"));
        assert_eq!((refused.status, refused.header("www-authenticate")), (403, Some(challenge)), "{version}");
        assert_eq!(connection.post(&headers, &call("wait")).status, 200, "{version}");
        // One of several is enough, and so is a name that is written in another way.
        let batch = format!("[{},{}]", call("wait"), call("echo"));
        assert_eq!(connection.post(&headers, &batch).status, 403, "{version}");
        for disguised in [
            call("\\u0065cho"),
            call("wait").replace(r#""name""#, r#""name":"echo","name""#).replace(r#""wait","arg"#, r#""echo","arg"#),
            format!("\u{feff}{}", call("echo")),
        ] {
            let answer = connection.post(&headers, &disguised);
            assert!(answer.status == 403 || !answer.body.contains("hi"), "{disguised}: {}", answer.body);
        }
        let session = open_session_with(&mut connection, version, &[ann]);
        let answer = connection.post(&[ann, ("Mcp-Session-Id", &session)], &call("echo"));
        assert!(answer.status == 200 && answer.body.contains("hi"), "{version}: {}", answer.body);
    }
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"#;
    let stateless = call("echo").replace(r#""params":{"#, &format!(r#""params":{{{meta}"#));
    let mirrored = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];
    let mut post = |who: (&'static str, &'static str)| {
        let headers: Vec<_> = mirrored.into_iter().chain([who]).collect();
        connection.post(&headers, &stateless)
    };
    assert_eq!(post(bob).status, 403);
    let answer = post(ann);
    assert!(answer.status == 200 && answer.body.contains("hi"), "{}", answer.body);
}
