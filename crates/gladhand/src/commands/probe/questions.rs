//! Questions that a correct client never sends: a version that does not exist, and requests before the session is open.
//!
//! Only dialects in which a session opened are asked. Each question goes to a process or connection of its own.

use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use gladhand_core::operations::Feature;
use gladhand_core::wire::FrameKind;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{ClientSetup, Dialect, Lane, Posting, mcp};
use serde::Serialize;
use serde_json::Value;

use crate::commands::open::draw::millis;
use crate::commands::open::exchange::{Record, Verdict};
use crate::commands::shared::opened_server::Access;
use crate::commands::shared::raw_exchange::{RawExchange, Waited, first_line};
use gladhand_client::http_client::Style;
use gladhand_client::upstream::Target;

/// How long a server may take to answer at least.
const SHORTEST: Duration = Duration::from_secs(3);

/// The answers of the server.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) unknown_versions: Vec<UnknownVersion>,
    pub(super) early: Option<Early>,
}

/// The answer to an opening that asks for a version which does not exist.
#[derive(Debug, Serialize)]
pub(super) struct UnknownVersion {
    pub(super) dialect: &'static str,
    /// The version whose opening was sent with another version in it.
    pub(super) like: String,
    /// The version that was asked for.
    pub(super) asked: &'static str,
    #[serde(flatten)]
    pub(super) answer: Answer,
    pub(super) ms: f64,
}

/// The answers to requests of an MCP client that does not wait for the session to open.
#[derive(Debug, Serialize)]
pub(super) struct Early {
    /// The revision.
    pub(super) version: String,
    /// The answer to a request that comes before `initialize`.
    pub(super) before_initialize: Answer,
    /// The answer to the `initialize` that follows. `None`: the server was gone.
    pub(super) initialize: Option<Answer>,
    /// The answer to a request between `initialize` and `notifications/initialized`.
    pub(super) before_initialized: Option<Answer>,
}

/// How a server answers one request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(super) enum Answer {
    /// With a result, or as if the version were known.
    Accepts,
    /// With a version of its own choice.
    Offers { version: String },
    /// With an error.
    Refuses { code: Option<i32>, message: String },
    /// Not at all.
    Silent,
    /// By ending the process or the connection.
    Ends,
}

/// A version that a dialect does not have; `None` if its opening names no version.
fn unknown_version(dialect: &Dialect) -> Option<&'static str> {
    match dialect.name {
        "mcp" => Some("2099-12-31"),
        "loaf" => Some("99.0.0"),
        "a2e" => Some("99.0"),
        _ => None,
    }
}

/// Asks the questions.
pub(super) async fn ask(
    target: &Target,
    access: &Access,
    setup: &ClientSetup,
    records: &[Record],
    timeout: Duration,
) -> Answers {
    let opened = || records.iter().filter(|record| matches!(record.verdict, Verdict::Opened(_)));
    let limit = |record: &Record| SHORTEST.max(record.took * 2).min(timeout);
    // One opening of each form: MCP has one with and one without a handshake.
    let mut asked: Vec<(&'static str, bool)> = Vec::new();
    let openings = opened().filter(|record| {
        let form = (record.dialect.name, has_initialize(record));
        let is_new = !asked.contains(&form);
        asked.push(form);
        is_new
    });
    let openings: Vec<_> = openings.collect();
    let unknown = openings.iter().map(|record| ask_for_unknown(target, access, setup, record, limit(record)));
    let handshake = opened().find(|record| record.dialect.name == mcp::DIALECT.name && has_initialize(record));
    let early = async {
        let record = handshake?;
        let has_tools = record.lists.iter().any(|list| list.feature == Feature::Tools && list.names.is_ok());
        if has_tools { ask_early(target, access, setup, record, limit(record)).await } else { None }
    };
    let (unknown_versions, early) = join(join_all(unknown), early).await;
    Answers { unknown_versions: unknown_versions.into_iter().flatten().collect(), early }
}

fn has_initialize(record: &Record) -> bool {
    Revision::named(&record.version).is_some_and(Revision::has_initialize)
}

async fn ask_for_unknown(
    target: &Target,
    access: &Access,
    setup: &ClientSetup,
    record: &Record,
    limit: Duration,
) -> Option<UnknownVersion> {
    let (dialect, like) = (record.dialect, record.version.as_str());
    let asked = unknown_version(dialect)?;
    let (line, posting) = opening(target, setup, dialect, like)?;
    let replaced = |text: &str| if text == like { asked.to_owned() } else { text.to_owned() };
    let line = line.replace(&format!("\"{like}\""), &format!("\"{asked}\""));
    let headers = posting.headers.into_iter().map(|(name, value)| (name, replaced(&value))).collect();
    let posting = Posting { headers, ..posting };
    let mut exchange = RawExchange::start(dialect, like, target, access).await.ok()?;
    let begun = Instant::now();
    let answer = request(&mut exchange, dialect, &line, &posting, limit, Some(asked)).await;
    let ms = millis(begun.elapsed());
    exchange.close().await;
    Some(UnknownVersion { dialect: dialect.name, like: like.to_owned(), asked, answer, ms })
}

async fn ask_early(
    target: &Target,
    access: &Access,
    setup: &ClientSetup,
    record: &Record,
    limit: Duration,
) -> Option<Early> {
    let (dialect, version) = (record.dialect, record.version.as_str());
    let (initialize, opens) = opening(target, setup, dialect, version)?;
    let mut exchange = RawExchange::start(dialect, version, target, access).await.ok()?;
    let list = |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{}}}}"#);
    let lane = |id: u64| Posting { exchange: Some(Lane(id)), ..Posting::default() };
    let before_initialize = request(&mut exchange, dialect, &list(101), &lane(101), limit, None).await;
    let mut early =
        Early { version: version.to_owned(), before_initialize, initialize: None, before_initialized: None };
    if !exchange.is_gone {
        early.initialize = Some(request(&mut exchange, dialect, &initialize, &opens, limit, None).await);
    }
    if early.initialize == Some(Answer::Accepts) {
        let version_header = Revision::named(version).is_some_and(Revision::has_version_header);
        let headers = version_header.then(|| ("mcp-protocol-version".to_owned(), version.to_owned()));
        let posting = Posting { headers: headers.into_iter().collect(), ..lane(102) };
        early.before_initialized = Some(request(&mut exchange, dialect, &list(102), &posting, limit, None).await);
    }
    exchange.close().await;
    Some(early)
}

/// The first line of a client in a version.
fn opening(
    target: &Target,
    setup: &ClientSetup,
    dialect: &'static Dialect,
    version: &str,
) -> Option<(String, Posting)> {
    let exchanges = matches!(target, Target::Url(_)) && Style::first(dialect, version).has_exchanges();
    first_line(dialect, ClientSetup { version: version.to_owned(), exchanges, ..setup.clone() })
}

/// Sends a request and reads the answer to it: the next line that answers any request.
async fn request(
    exchange: &mut RawExchange,
    dialect: &Dialect,
    line: &str,
    posting: &Posting,
    limit: Duration,
    asked: Option<&str>,
) -> Answer {
    exchange.send(line, posting);
    let is_answer =
        |text: &str| (dialect.describe)(text).is_some_and(|summary| summary.kind.is_answer() || is_response(text));
    match exchange.wait(limit, |line| is_answer(&line.text)).await {
        Waited::Came => exchange.lines.last().map_or(Answer::Silent, |line| read_answer(dialect, &line.text, asked)),
        Waited::Silence => Answer::Silent,
        Waited::Ended => match &exchange.loss {
            Some(loss) if !exchange.is_gone => Answer::Refuses { code: None, message: lost(loss) },
            _ => Answer::Ends,
        },
    }
}

/// Whether a message of A2E or Fluxloop is a response by its type.
fn is_response(text: &str) -> bool {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let kind = value.as_ref().and_then(|value| value.get("type")).and_then(Value::as_str);
    kind.is_some_and(|kind| kind.ends_with("/resp") || kind == "response" || kind == "error")
}

fn lost(loss: &gladhand_dialects::Loss) -> String {
    use gladhand_dialects::Loss;
    match loss {
        Loss::Status(status) | Loss::WebPage(status) => format!("HTTP status {status}"),
        Loss::Denied(why) | Loss::Forbidden(why) | Loss::Unsent(why) => why.to_string(),
        Loss::Session => "HTTP status 404".to_owned(),
        _ => "the exchange ended without an answer".to_owned(),
    }
}

fn read_answer(dialect: &Dialect, text: &str, asked: Option<&str>) -> Answer {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let text_at = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let code = match (dialect.describe)(text).map(|summary| summary.kind) {
        Some(FrameKind::Error { code, .. }) => Some(code),
        _ => None,
    };
    if code.is_some() || value.get("ok") == Some(&Value::Bool(false)) || value.get("error").is_some() {
        let message = ["/error/message", "/error", "/reason", "/message"].into_iter().find_map(text_at);
        return Answer::Refuses {
            code: code.filter(|code| *code != 0),
            message: message.unwrap_or_default().to_owned(),
        };
    }
    let version = ["/result/protocolVersion", "/result/protocol_version", "/a2e"].into_iter().find_map(text_at);
    match (asked, version) {
        (Some(asked), Some(version)) if version != asked => Answer::Offers { version: version.to_owned() },
        _ => Answer::Accepts,
    }
}

#[cfg(test)]
mod tests {
    use gladhand_dialects::{a2e, loaf};

    use super::*;

    #[test]
    fn the_answer_to_an_unknown_version_is_an_offer_a_refusal_or_an_acceptance() {
        let read = |dialect: &Dialect, text: &str| read_answer(dialect, text, unknown_version(dialect));
        let offer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#;
        assert_eq!(read(&mcp::DIALECT, offer), Answer::Offers { version: "2025-11-25".to_owned() });
        let echo = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2099-12-31"}}"#;
        assert_eq!(read(&mcp::DIALECT, echo), Answer::Accepts);
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no"}}"#;
        assert_eq!(read(&mcp::DIALECT, error), Answer::Refuses { code: Some(-32022), message: "no".to_owned() });
        let loaf_offer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocol_version":"1.0.0"}}"#;
        assert_eq!(read(&loaf::DIALECT, loaf_offer), Answer::Offers { version: "1.0.0".to_owned() });
        let refused = r#"{"type":"handshake/resp","id":"2","version":"1.0","a2e":"1.0","ts":0,"req_id":"1","ok":false,"reason":"version"}"#;
        assert_eq!(read(&a2e::DIALECT, refused), Answer::Refuses { code: None, message: "version".to_owned() });
    }
}
