//! The text of an upstream's start failure: why there is no session with an upstream, and a hint what to do.
//!
//! Every command, log line and failed call takes the text from here. [`OpenError`] displays the message; the hint depends
//! on what its reader can change ([`HintFor`]). [`ProcessEnd`] words the end of a process, and
//! `http_client/connect_error.rs` the cause if no connection is possible. A [`Refusal`] has its own text, which both
//! directions share.

use std::fmt;
use std::time::Duration;

use gladhand_auth::NO_SIGN_IN;
use gladhand_core::negotiation::Refusal;

use super::process_end::ProcessEnd;
use super::target::Target;
use crate::http_client::HEADER_REFUSED;

/// When a process ended that ended too early.
const BEFORE_SESSION: &str = "before the session was open";

/// The code of JSON-RPC for a failure inside a server.
const INTERNAL_ERROR: &str = "-32603";

/// Why there is no session.
#[derive(Debug)]
pub enum OpenError {
    /// The command could not be started.
    NotStarted {
        /// The program.
        program: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The server cannot be reached, or is out of order.
    Unreachable(Outage),
    /// The server requires credentials that it was not given.
    Unauthorized {
        /// The explanation of the server or of its authorization server.
        why: Box<str>,
    },
    /// The server refuses our requests, and credentials would not help.
    Forbidden {
        /// The reason that it gives.
        why: Box<str>,
    },
    /// The requested dialect cannot be used over HTTP.
    NotOverHttp(&'static str),
    /// The server answered the opening, or was silent, and there is no session.
    Refused {
        /// Why.
        refusal: Refusal,
        /// How the process ended, if the upstream is a process that closed its output.
        process: Option<ProcessEnd>,
    },
}

/// Why a server over HTTP is unusable as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outage {
    /// It answered with this status of 500 or above.
    Status(u16),
    /// No request was sent, for this reason.
    NotSent(Box<str>),
    /// The connection broke.
    Broken,
}

impl OpenError {
    /// A refusal of a server that is no process, or whose process did not end.
    pub fn refused(refusal: Refusal) -> Self {
        Self::Refused { refusal, process: None }
    }

    /// A stable identifier of the reason.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotStarted { .. } => "not_started",
            Self::Unreachable(_) => "unreachable",
            Self::NotOverHttp(_) => "usage",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Forbidden { .. } => "peer_refused",
            Self::Refused { refusal, .. } => refusal.word(),
        }
    }

    /// The message without the quoted stderr of a process, where stderr is shown separately.
    pub fn without_stderr(&self) -> String {
        match self {
            Self::Refused { process: Some(end), .. } => end.describe_status("the server", BEFORE_SESSION),
            _ => self.to_string(),
        }
    }

    /// A hint what to do about the failure.
    pub fn hint(&self, target: &Target, reader: HintFor<'_>) -> String {
        match (self, reader) {
            (Self::NotStarted { program, .. }, _) => not_started_hint(program),
            (Self::Unreachable(Outage::NotSent(_)), _) => "is it running, and are host and port right?".to_owned(),
            (Self::Unreachable(_), _) => "is it running, and is the path right (often /mcp)?".to_owned(),
            (Self::Unauthorized { why }, HintFor::CommandLine { credentials, .. }) => unauthorized_hint(why, credentials),
            (Self::Unauthorized { .. }, HintFor::Configuration) => {
                "`gladhand login URL` signs in, for an upstream with `auth = \"oauth\"`; `bearer` and `headers` present a token".to_owned()
            }
            (Self::Forbidden { .. }, HintFor::CommandLine { server, .. }) => {
                format!("`gladhand open {server}` shows what it answers")
            }
            (Self::Forbidden { .. }, HintFor::Configuration) => "its operator decides which requests it takes".to_owned(),
            (Self::NotOverHttp(_), HintFor::CommandLine { .. }) => "start the server behind `--` instead".to_owned(),
            (Self::NotOverHttp(_), HintFor::Configuration) => {
                "name a `command`, or another dialect in `speak`".to_owned()
            }
            (Self::Refused { refusal, .. }, HintFor::CommandLine { server, .. }) => refused_hint(refusal, target, server),
            (Self::Refused { refusal: Refusal::TimedOut { .. }, .. }, HintFor::Configuration) => {
                "if it only needs longer: `timeout_ms` of the upstream, and --timeout here".to_owned()
            }
            (Self::Refused { .. }, HintFor::Configuration) => match target {
                Target::Command(_) => format!("`gladhand open -- {target}` shows what it answers"),
                Target::Url(_) => {
                    format!("is this the URL of an MCP endpoint? `gladhand open {target}` shows what it answers")
                }
            },
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { program, source } => write!(f, "could not start `{program}`: {source}"),
            Self::Unreachable(outage) => outage.fmt(f),
            // Some explanations continue the sentence.
            Self::Unauthorized { why } => match why.strip_prefix("it ") {
                Some(what) => write!(f, "the server {what}"),
                None => write!(f, "the server does not let us in: {why}"),
            },
            Self::Forbidden { why } => write!(f, "the server refused the request with HTTP status 403: {why}"),
            Self::NotOverHttp(dialect) => write!(f, "{dialect} is not spoken over HTTP"),
            Self::Refused { process: Some(end), .. } => f.write_str(&end.describe("the server", BEFORE_SESSION)),
            Self::Refused { refusal, process: None } => refusal.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotStarted { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the server answered with HTTP status {status}"),
            Self::NotSent(why) => write!(f, "could not reach the server: {why}"),
            Self::Broken => f.write_str("could not reach the server: the connection broke"),
        }
    }
}

/// The reader of a hint, who decides what the hint can suggest.
#[derive(Debug, Clone, Copy)]
pub enum HintFor<'a> {
    /// The user of a command that names the server.
    CommandLine {
        /// The server, as it is typed behind a command.
        server: &'a str,
        /// How to present credentials.
        credentials: Credentials<'a>,
    },
    /// The operator of a configuration file.
    Configuration,
}

/// How a user can present credentials.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'a> {
    /// How to give a token.
    pub token: &'a str,
    /// Whether the user could have signed in, because the command runs on a terminal.
    pub is_interactive: bool,
}

/// A hint for a server that requires authorization for this reason.
pub fn unauthorized_hint(why: &str, credentials: Credentials<'_>) -> String {
    let Credentials { token, is_interactive } = credentials;
    match why {
        why if why.contains(HEADER_REFUSED) => "is its token valid, and meant for this server?".to_owned(),
        why if why.contains(NO_SIGN_IN) || is_interactive => token.to_owned(),
        _ => format!("sign in from a terminal, {token}"),
    }
}

/// Whether a server that refuses one client in this way may open for another. One that failed inside understood the
/// opening.
pub fn may_open_for_another(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::VersionMismatch { .. } | Refusal::PeerMisbehaved { .. } => true,
        Refusal::PeerRefused { code, .. } => code != INTERNAL_ERROR,
        _ => false,
    }
}

/// The reason why an upstream that failed before is not opened now.
pub fn not_retried_yet(why: &str, failures: u32, rest: Duration) -> String {
    let times = if failures == 1 { "once".to_owned() } else { format!("{failures} times in a row") };
    let rest = rest.as_millis();
    format!("{why} (it failed {times}; the next attempt may be made in {rest} ms)")
}

fn refused_hint(refusal: &Refusal, target: &Target, server: &str) -> String {
    match target {
        Target::Command(_) => {
            let (open, what) = match may_open_for_another(refusal) {
                // `auto` does not try every dialect with a server that refused one.
                true => ("gladhand open --as all", "which dialects and revisions it speaks"),
                false => ("gladhand open", "what it was sent and what it answered"),
            };
            format!("`{}` shows {what}", format!("{open} {server}").trim_end())
        }
        Target::Url(url) => {
            let handshake = format!("`gladhand open --as mcp {target}` shows the handshake");
            let is_missing = matches!(refusal, Refusal::PeerRefused { code, .. } if code == "404");
            match url.path().strip_suffix("/mcp").filter(|_| is_missing) {
                Some(base) => {
                    let mut host = url.clone();
                    host.set_path(base);
                    let host = Target::Url(host);
                    format!("an A2E host has its base URL instead: {host}. For an MCP endpoint, {handshake}")
                }
                None => format!("is this the URL of an MCP endpoint? {handshake}"),
            }
        }
    }
}

fn not_started_hint(program: &str) -> String {
    let is_port = |text: &str| {
        let port = text.split('/').next().unwrap_or_default();
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    };
    match program.rsplit_once(':') {
        Some((host, rest)) if !host.is_empty() && !host.contains(['/', '\\']) && is_port(rest) => {
            let path = if rest.contains('/') { "" } else { "/mcp" };
            format!("for a server that is reached over HTTP, name its URL: http://{program}{path}")
        }
        _ => "is the program installed and on the path?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_its_scheme_is_recognized() {
        for (program, url) in [
            ("localhost:8080", Some("http://localhost:8080/mcp")),
            ("127.0.0.1:80/sse", Some("http://127.0.0.1:80/sse")),
            ("C:\\server.exe", None),
            ("./a:1", None),
            ("server", None),
        ] {
            let hint = not_started_hint(program);
            assert_eq!(hint.strip_prefix("for a server that is reached over HTTP, name its URL: "), url, "{hint}");
        }
    }

    #[test]
    fn a_process_that_ended_is_worded_once() {
        let end = ProcessEnd { status: Some("exit status: 3".to_owned()), stderr_tail: vec!["no key".to_owned()] };
        let error = OpenError::Refused { refusal: Refusal::PeerGone, process: Some(end) };
        let status = "the server ended before the session was open (exit status: 3)";
        assert_eq!(error.to_string(), format!("{status}; its stderr ends with: no key"));
        assert_eq!(error.without_stderr(), status);
        let gone = OpenError::refused(Refusal::PeerGone);
        assert_eq!(gone.to_string(), "the peer closed the channel before the session was open");
    }

    #[test]
    fn a_server_that_refuses_may_speak_another_dialect() {
        let target = Target::Command(["my-server", "--token", "x"].map(str::to_owned).into());
        let refused = OpenError::refused(Refusal::PeerRefused { code: "-32601".into(), message: "no".into() });
        let credentials = Credentials { token: "", is_interactive: false };
        let reader = HintFor::CommandLine { server: "-- my-server", credentials };
        let all = "`gladhand open --as all -- my-server` shows which dialects and revisions it speaks";
        assert_eq!(refused.hint(&target, reader), all);
        let late = OpenError::refused(Refusal::PeerGone);
        let hint = late.hint(&target, HintFor::Configuration);
        assert!(hint.starts_with("`gladhand open -- my-server ") && !hint.contains("COMMAND"), "{hint}");
    }

    #[test]
    fn an_explanation_may_continue_the_sentence() {
        let text = |why: &str| OpenError::Unauthorized { why: why.into() }.to_string();
        assert_eq!(text("it requires a token"), "the server requires a token");
        assert_eq!(text("HTTP status 401"), "the server does not let us in: HTTP status 401");
    }
}
