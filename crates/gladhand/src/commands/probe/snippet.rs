//! The configuration that uses a probed server: a section of `gladhand.toml`.

use std::fmt::Write as _;

use gladhand_core::negotiation::Refusal;
use gladhand_dialects::mcp;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_redaction::{redact, redact_words};

use crate::commands::open::exchange::{Record, Verdict};
use crate::config::{BUILT_IN, text};
use gladhand_client::upstream::{OpenError, Target};

/// The section for a server that opened as `best`. Secrets in the command line are masked.
pub(super) fn section(target: &Target, best: &Record, records: &[Record]) -> String {
    let mut section = format!("[upstreams.{}]\n", name(best));
    // Writing to a String cannot fail.
    let mut put = |key: &str, value: serde_json::Value| {
        let _ = writeln!(section, "{key} = {}", text::value(&value));
    };
    match target {
        Target::Command(words) => put("command", redact_words(words).into()),
        Target::Url(url) => put("url", redact(url.as_str()).into()),
    }
    if let Some(speak) = speak(best, records) {
        put("speak", speak.into());
    }
    section
}

/// A name for the upstream, from what the server calls itself.
fn name(best: &Record) -> String {
    let Verdict::Opened(agreement) = &best.verdict else { return "server".to_owned() };
    let last = agreement.server.name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let name: String = plain.trim_matches('-').chars().take(40).collect();
    if name.is_empty() || BUILT_IN.contains(&name.as_str()) { "server".to_owned() } else { name }
}

/// The value for `speak`, if detection would waste time: a server of another dialect, or one that does not answer the
/// detection of the era.
fn speak(best: &Record, records: &[Record]) -> Option<String> {
    if best.dialect.name != mcp::DIALECT.name {
        return Some(best.dialect.name.to_owned());
    }
    let is_stateless = |version: &str| Revision::named(version).is_some_and(Revision::is_stateless);
    let stalls = |record: &&Record| {
        let refusal = match &record.verdict {
            Verdict::Failed(OpenError::Refused { refusal, .. }) => refusal,
            _ => return false,
        };
        record.dialect.name == mcp::DIALECT.name
            && is_stateless(&record.version)
            && matches!(refusal, Refusal::TimedOut { .. } | Refusal::PeerGone)
    };
    let has_stall = records.iter().any(|record| stalls(&record));
    (!is_stateless(&best.version) && has_stall).then(|| format!("{}@{}", best.dialect.name, best.version))
}
