//! Signing in to a server with the built program, against a server and an authorization server of this test's own.
#![cfg(unix)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::gladhand;
use tempfile::TempDir;
use url::Url;

/// The requests to the fake server, and its behaviour.
#[derive(Debug, Default)]
struct World {
    /// Paths with their bodies.
    log: Vec<(String, String)>,
    /// The heads of the requests to the server itself.
    heads: Vec<String>,
    /// Whether nothing is published, and nobody issues tokens.
    is_bare: bool,
    /// Where requests to the server are sent instead.
    elsewhere: Option<String>,
    /// Whether the token is not accepted any more, and the answer to that.
    refusal: Option<(u16, &'static str)>,
    /// The answer of the token endpoint to a refresh request.
    no_refresh: Option<&'static str>,
}

/// A server that wants a token, and who issues it, at one address.
struct Fake {
    origin: String,
    world: Arc<Mutex<World>>,
}

impl Fake {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let world = Arc::<Mutex<World>>::default();
        let (served, base) = (Arc::clone(&world), origin.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (world, origin) = (Arc::clone(&served), base.clone());
                // A client that hangs up during a request wants no answer.
                std::thread::spawn(move || drop(serve(stream, &origin, &world)));
            }
        });
        Self { origin, world }
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    fn count(&self, path: &str) -> usize {
        self.world.lock().expect("no panics").log.iter().filter(|(asked, _)| asked == path).count()
    }
}

/// Answers one request.
fn serve(mut stream: TcpStream, origin: &str, world: &Mutex<World>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        reader.read_line(&mut head)?;
        let line = head[start..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let mut world = world.lock().expect("no panics");
    world.log.push((path.to_owned(), body.clone()));
    if path == "/mcp" {
        world.heads.push(head.clone());
    }
    let location = world.elsewhere.iter().map(|url| format!("location: {url}\r\n")).collect::<String>();
    let (status, challenge, answer) = answer(&world, origin, method, path, &head, &body);
    drop(world);
    let text = if answer.is_null() { String::new() } else { answer.to_string() };
    let challenge = challenge.map(|challenge| format!("www-authenticate: {challenge}\r\n")).unwrap_or_default();
    write!(
        stream,
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\n{location}{challenge}content-length: {}\r\n\
         connection: close\r\n\r\n{text}",
        text.len()
    )
}

fn answer(
    world: &World,
    origin: &str,
    method: &str,
    path: &str,
    head: &str,
    body: &str,
) -> (u16, Option<String>, Value) {
    match path {
        _ if world.elsewhere.is_some() => (307, None, Value::Null),
        "/mcp" if world.is_bare && !head.to_ascii_lowercase().contains("authorization: bearer issued-") => {
            (401, None, Value::Null)
        }
        path if world.is_bare && path != "/mcp" => (404, None, Value::Null),
        "/mcp" if !head.to_ascii_lowercase().contains("authorization: bearer issued-") => {
            let challenge = format!(r#"Bearer resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp""#);
            (401, Some(challenge), Value::Null)
        }
        "/mcp" if world.refusal.is_some() => {
            let (status, challenge) = world.refusal.unwrap_or_default();
            (status, Some(challenge.to_owned()), Value::Null)
        }
        "/mcp" if method == "POST" => {
            let message: Value = serde_json::from_str(body).unwrap_or_default();
            let id = &message["id"];
            match message["method"].as_str() {
                Some("initialize") => {
                    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "fake", "version": "1"}});
                    (200, None, json!({"jsonrpc": "2.0", "id": id, "result": result}))
                }
                Some("tools/list") => (200, None, json!({"jsonrpc": "2.0", "id": id, "result": {"tools": []}})),
                _ if id.is_null() => (202, None, Value::Null),
                _ => {
                    let error = json!({"code": -32601, "message": "no such method"});
                    (200, None, json!({"jsonrpc": "2.0", "id": id, "error": error}))
                }
            }
        }
        "/.well-known/oauth-protected-resource/mcp" => {
            (200, None, json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]}))
        }
        "/.well-known/oauth-authorization-server" => {
            let metadata = json!({
                "issuer": origin,
                "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"),
                "registration_endpoint": format!("{origin}/register"),
                "revocation_endpoint": format!("{origin}/revoke"),
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            });
            (200, None, metadata)
        }
        "/register" => (201, None, json!({"client_id": "client"})),
        "/token" if body.contains("grant_type=refresh_token") && world.no_refresh.is_some() => {
            (400, None, json!({"error": "invalid_grant", "error_description": world.no_refresh}))
        }
        "/token" => {
            let token = json!({"access_token": "issued-1", "token_type": "Bearer", "expires_in": 3600,
                "refresh_token": "refresh-1"});
            (200, None, token)
        }
        "/revoke" => (200, None, Value::Null),
        _ => (405, None, Value::Null),
    }
}

/// The program with folders of its own.
fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = gladhand();
    command.args(arguments).env("XDG_CONFIG_HOME", home.join("config")).env("XDG_DATA_HOME", home.join("data"));
    command.env_remove("GLADHAND_MCP_TOKEN").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    command(home, arguments).output().expect("it starts")
}

/// Signs in, playing the browser and the person.
fn login(home: &Path, fake: &Fake) -> Output {
    let mut child = command(home, &["login", "--json", "--no-browser", &fake.url()]).spawn().expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    let address = loop {
        let start = said.len();
        assert_ne!(stderr.read_line(&mut said).expect("text"), 0, "{said}");
        if let Ok(address) = Url::parse(said[start..].trim()) {
            break address;
        }
    };
    assert_eq!(address.path(), "/authorize");
    let value = |name: &str| address.query_pairs().find(|(key, _)| key == name).expect(name).1.into_owned();
    let redirect = Url::parse(&value("redirect_uri")).expect("an address");
    let mut browser = TcpStream::connect(("127.0.0.1", redirect.port().expect("a port"))).expect("it listens");
    write!(browser, "GET {}?code=the-code&state={} HTTP/1.1\r\n\r\n", redirect.path(), value("state")).expect("sent");
    let output = child.wait_with_output().expect("it ends");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    assert!(output.status.success(), "{said}{rest}");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn home() -> TempDir {
    tempfile::tempdir().expect("there is room for a folder")
}

#[test]
fn a_stored_login_is_used_until_it_is_deleted() {
    let (home, fake) = (home(), Fake::start());
    let report: Value = serde_json::from_slice(&login(home.path(), &fake).stdout).unwrap();
    assert_eq!(
        (&report["signed_in"], &report["issuer"], &report["renewable"]),
        (&json!(true), &json!(fake.origin), &json!(true))
    );
    assert!(!report.to_string().contains("issued-1") && !report.to_string().contains("refresh-1"), "{report}");
    let tools = run(home.path(), &["tools", &fake.url()]);
    assert_eq!(tools.status.code(), Some(0), "{}", text(&tools.stderr));
    assert_eq!(fake.count("/token"), 1);

    // Nothing of it lies open on the disk.
    let data = home.path().join("data/gladhand");
    for entry in std::fs::read_dir(&data).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(8).any(|part| part == b"issued-1"));
    }
    let names = run(home.path(), &["secret", "list"]);
    assert_eq!(text(&names.stdout), format!("oauth:{}\n", fake.url()));

    let out: Value = serde_json::from_slice(&run(home.path(), &["logout", "--json", &fake.url()]).stdout).unwrap();
    assert_eq!(out, json!({"server": fake.url(), "forgotten": [{"issuer": fake.origin, "revoked": true}]}));
    assert_eq!(fake.count("/revoke"), 2);
    assert_eq!(text(&run(home.path(), &["secret", "list"]).stdout), "");
    let again = text(&run(home.path(), &["logout", &fake.url()]).stdout);
    assert_eq!(again, format!("we are not signed in to {}\n", fake.url()));
    let tools = run(home.path(), &["tools", &fake.url()]);
    assert_eq!(tools.status.code(), Some(3), "{}", text(&tools.stderr));
}

#[test]
fn only_servers_with_an_address_can_be_signed_in_to() {
    let output = run(home().path(), &["login", "server"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`server` is no URL of a server"));
}

#[test]
fn a_refused_login_is_reported_without_the_credentials() {
    let (home, fake) = (home(), Fake::start());
    login(home.path(), &fake);
    let failure = |world: World| {
        *fake.world.lock().expect("no panics") = world;
        let output = run(home.path(), &["tools", &fake.url()]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(!said.contains("issued-1") && !said.contains("refresh-1"), "{said}");
        said
    };
    let refusal = Some((403, r#"Bearer error="access_denied", error_description="issued-1 is not of this team""#));
    let said = failure(World { refusal, ..World::default() });
    let expected = "forbids this request (access_denied, *** is not of this team)";
    assert!(said.contains("the server does not let us in: ") && said.contains(expected), "{said}");

    let refusal = Some((401, r#"Bearer error="invalid_token", error_description="too old""#));
    let no_refresh = Some("refresh-1 was revoked");
    let said = failure(World { refusal, no_refresh, ..World::default() });
    let expected = format!(
        "{} refused: invalid_grant (*** was revoked); could not ask for consent: cannot sign in without a terminal",
        fake.origin
    );
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn an_unreachable_token_issuer_is_reported() {
    let (home, fake) = (home(), Fake::start());
    login(home.path(), &fake);
    let refusal = Some((401, r#"Bearer resource_metadata="http://127.0.0.1:1/gone""#));
    fake.world.lock().unwrap().refusal = refusal;
    let said = text(&run(home.path(), &["tools", &fake.url()]).stderr);
    assert!(said.contains("does not let us in: HTTP status 401; signing in failed: could not reach http://127.0.0.1:1/gone: no connection"), "{said}");
}

#[test]
fn a_token_from_the_environment_is_not_repeated_either() {
    let fake = Fake::start();
    let refusal = Some((403, r#"Bearer error="insufficient_scope", error_description="issued-by-hand lacks admin""#));
    fake.world.lock().unwrap().refusal = refusal;
    let mut command = command(home().path(), &["tools", &fake.url()]);
    let said = text(&command.env("GLADHAND_MCP_TOKEN", "issued-by-hand").output().unwrap().stderr);
    let expected = "the server does not let us in: HTTP status 403 (insufficient_scope, *** lacks admin)";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_header_takes_the_place_of_a_token_and_of_signing_in() {
    let (home, fake) = (home(), Fake::start());
    let given = "Authorization: Bearer issued-by-header";
    for words in ["tools --header", "open --as mcp@2025-11-25 --header", "call nothing --header"] {
        fake.world.lock().unwrap().heads.clear();
        let words: Vec<_> = words.split(' ').chain([given, "--header", "X-Foo: bar"]).collect();
        let mut command = command(home.path(), &[&words[..], &[&fake.url()]].concat());
        let output = command.env("GLADHAND_MCP_TOKEN", "issued-by-environment").output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        let expected = if words[0] == "call" { 2 } else { 0 };
        assert_eq!(output.status.code(), Some(expected), "{words:?}: {said}");
        let heads = fake.world.lock().unwrap().heads.join("").to_ascii_lowercase();
        let count = |header: &str| heads.matches(header).count();
        assert!(count("authorization: bearer issued-by-header") > 0, "{words:?}: {heads}");
        assert_eq!(count("authorization:"), count("authorization: bearer issued-by-header"), "{words:?}: {heads}");
        assert_eq!(count("authorization:"), count("x-foo: bar"), "{words:?}: {heads}");
    }
    assert_eq!((fake.count("/register"), fake.count("/token")), (0, 0));
}

#[test]
fn a_bridge_sends_the_header_as_well() {
    let (home, fake) = (home(), Fake::start());
    let header = ["--header", "Authorization: Bearer issued-by-header"];
    let mut command = command(home.path(), &["tools", "--as", "mcp@2025-11-25", "--", env!("CARGO_BIN_EXE_gladhand")]);
    let output = command.arg("bridge").args(header).arg(fake.url()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!((fake.count("/register"), fake.count("/token")), (0, 0));
}

#[test]
fn a_header_that_the_server_refuses_is_named() {
    let (home, fake) = (home(), Fake::start());
    let header = ["--header", "Authorization: Bearer unknown-1"];
    let output = run(home.path(), &["tools", header[0], header[1], &fake.url()]);
    let expected = "error: the server refused the Authorization header that was given: HTTP status 401\n\
                    hint: is its token valid, and meant for this server?\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(3), expected));
    let output = run(home.path(), &["open", "--json", "--as", "mcp", header[0], header[1], &fake.url()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("it refused the Authorization header that was given: HTTP status 401"), "{report:#}");
    assert_eq!(report["error"]["hint"], "is its token valid, and meant for this server?");
    assert_eq!(fake.count("/register"), 0, "nobody is asked to sign in");
}

#[test]
fn a_header_is_not_sent_to_another_origin() {
    let (home, fake, other) = (home(), Fake::start(), Fake::start());
    fake.world.lock().unwrap().elsewhere = Some(other.url());
    let header = ["--header", "Authorization: Bearer issued-by-header"];
    let output = run(home.path(), &["tools", header[0], header[1], &fake.url()]);
    assert_ne!(output.status.code(), Some(0));
    assert!(fake.count("/mcp") > 0);
    assert_eq!(other.world.lock().unwrap().log, []);
}

#[test]
fn a_server_without_sign_in_has_its_own_error() {
    let (home, fake) = (home(), Fake::start());
    fake.world.lock().unwrap().is_bare = true;
    let output = run(home.path(), &["tools", &fake.url()]);
    let expected = format!(
        "error: the server requires a token, and offers no sign-in ({}/register answered status 404)\n\
         hint: set GLADHAND_MCP_TOKEN, or give --header 'Authorization: Bearer …'\n",
        fake.origin
    );
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(3), expected));
    // `login` has no such option and presents no token.
    let output = run(home.path(), &["login", &fake.url()]);
    let told = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    let hint =
        "hint: if you have a token, other commands present it: set GLADHAND_MCP_TOKEN, or give `gladhand open URL`";
    assert!(output.status.code() == Some(3) && told.contains(hint), "{told}");
}
