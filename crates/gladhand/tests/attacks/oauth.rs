//! OAuth: discovery does not reach private addresses, and the browser gets an encoded URL.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::project_files::Clone;
use crate::support::{PATIENCE, gladhand};

/// An HTTP server of this test. It writes down the first line of each request with its authorization, and answers as it is
/// told.
struct Web {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A status, the value of `WWW-Authenticate`, and a body.
type Answer = (u16, String, Value);

impl Web {
    fn start(answer: impl Fn(&str, SocketAddr) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                // A client that hangs up in the middle wants no answer.
                std::thread::spawn(move || drop(serve(stream, &log, |line| answer(line, address))));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panics").clone()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<String>>, answer: impl Fn(&str) -> Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.to_ascii_lowercase().starts_with("authorization:") {
            first = format!("{} {}", first.trim(), line.trim());
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    log.lock().expect("no panics").push(first.trim().to_owned());
    let (status, challenge, body) = answer(first.trim());
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nwww-authenticate: {challenge}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The program with a home of its own.
fn command(home: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = gladhand();
    command.args(arguments).env("XDG_CONFIG_HOME", home.path().join("config"));
    command.env("XDG_DATA_HOME", home.path().join("data")).env_remove("GLADHAND_MCP_TOKEN");
    command
}

#[test]
fn metadata_on_a_private_address_is_not_asked_for_on_the_word_of_a_server_on_the_internet() {
    let trap = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    trap.set_nonblocking(true).expect("a socket");
    let port = trap.local_addr().expect("an address").port();
    for place in [
        format!("https://127.0.0.1:{port}/metadata"),
        format!("https://localhost:{port}/metadata"),
        format!("https://[::ffff:7f00:1]:{port}/metadata"),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://10.0.0.1/metadata".to_owned(),
        "https://100.64.0.1/metadata".to_owned(),
    ] {
        let home = tempfile::tempdir().expect("a folder for tests");
        // A proxy stands for the internet: no request leaves this machine.
        let challenge = format!(r#"Bearer resource_metadata="{place}""#);
        let internet = Web::start(move |_, _| (401, challenge.clone(), Value::Null));
        let proxy = format!("http://{}", internet.address);
        let mut command = command(&home, &["tools", "--timeout", "10", "http://1.1.1.1/mcp"]);
        command.env("http_proxy", &proxy).env("https_proxy", &proxy).env_remove("NO_PROXY").env_remove("no_proxy");
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("is on a private address"), "{place}: {said}");
        let asked = internet.asked();
        assert!(!asked.is_empty() && asked.iter().all(|line| line.contains(" http://1.1.1.1/mcp")), "{asked:?}");
    }
    assert!(trap.accept().is_err(), "a private address was connected to");
}

#[test]
fn the_browser_always_gets_an_encoded_url_from_server_metadata() {
    let home = tempfile::tempdir().expect("a folder for tests");
    let path = |name: &str| home.path().join(name);
    let browser = path("xdg-open");
    let script = format!(
        "#!/bin/sh\nenv > {0}.env; printf '%s\\n' \"$#\" \"$@\" > {0}.new && mv {0}.new {0}\n",
        path("opened").display()
    );
    std::fs::write(&browser, script).expect("it can be written to");
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let server = Web::start(|line, address| {
        let origin = format!("http://{address}");
        let place = line.split(' ').nth(1).unwrap_or_default().to_owned();
        match place.as_str() {
            "/mcp" => (401, format!(r#"Bearer resource_metadata="{origin}/resource""#), Value::Null),
            "/resource" => {
                (200, String::new(), json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]}))
            }
            "/register" => (201, String::new(), json!({"client_id": "a client's `id` $(id)"})),
            place if place.starts_with("/.well-known/") => {
                let metadata = json!({
                    "issuer": origin,
                    "authorization_endpoint": format!("{origin}/a'b\"c`d$(touch x);e|f&g h?q='\"`$(id)\u{1}"),
                    "token_endpoint": format!("{origin}/token"),
                    "registration_endpoint": format!("{origin}/register"),
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"],
                });
                (200, String::new(), metadata)
            }
            _ => (404, String::new(), Value::Null),
        }
    });
    let mut command = command(&home, &["login", &format!("http://{}/mcp", server.address)]);
    let folders = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{folders}", home.path().display()));
    command.env("GLADHAND_SECRET_GITHUB", "correct-horse-battery").env("GLADHAND_PASSPHRASE", "correct-horse-battery");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let begun = Instant::now();
    while !path("opened").exists() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    let opened = std::fs::read_to_string(path("opened")).unwrap_or_else(|_| panic!("asked: {:?}", server.asked()));
    let (count, address) = opened.trim_end().split_once('\n').expect("two lines");
    let is_harmless = |letter: char| letter.is_ascii_alphanumeric() || "-._~:/?#[]@&+,=%".contains(letter);
    assert!(count == "1" && address.chars().all(is_harmless), "{opened}");
    assert!(address.starts_with(&format!("http://{}/a%27b%22c%60d%24%28touch%20x%29%3Be%7Cf&g%20h?", server.address)));
    let variables = std::fs::read_to_string(path("opened.env")).expect("it was written first");
    assert!(variables.contains("PATH=") && !variables.contains("correct-horse-battery"), "{variables}");
}

#[test]
fn a_project_does_not_use_the_login_of_the_user_until_that_is_granted() {
    let web = Web::start(|_, _| (401, "Bearer".to_owned(), Value::Null));
    let url = format!("http://{}/mcp", web.address);
    let clone = Clone::with(&format!("[upstreams.a]\nurl = '{url}'\nauth = 'oauth'\n"));
    let grant = json!({"access_token": "token-of-the-user", "client_id": "me", "resource": url});
    let issuer = format!("http://{}", web.address);
    let logins = json!([{"server": url, "issuer": issuer, "grant": grant}]).to_string();
    clone.write("data/gladhand/tokens.json", &logins);
    let tools = || {
        let output = clone.gladhand(&["tools", "--timeout", "5"]).stdin(Stdio::null()).output().expect("it starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let is_told = || web.asked().iter().any(|request| request.contains("token-of-the-user"));
    let screen = clone.trust(&["y", "n"]);
    assert!(screen.contains(&format!("Let it read your login token for {url}?")), "{screen}");
    let said = tools();
    assert!(said.contains(&format!("it may not read your login token for {url}")), "{said}");
    assert!(web.asked().is_empty(), "{:?}", web.asked());
    // Trust in an earlier version did not ask about logins: its record grants none.
    let records = std::fs::read_dir(clone.path("data/gladhand/trust")).expect("there is a record");
    let record = records.flatten().next().expect("there is a record").path();
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&record).expect("a record")).expect("JSON");
    kept["grants"].as_object_mut().expect("grants").remove("logins").expect("it is a kind of grant");
    std::fs::write(&record, kept.to_string()).expect("it can be written");
    tools();
    assert!(web.asked().is_empty(), "{:?}", web.asked());
    clone.trust(&["y"]);
    tools();
    assert!(is_told(), "the user granted it: {:?}", web.asked());
}
