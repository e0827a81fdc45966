//! Checks an upstream for values that have the right type and are still invalid.

use gladhand_dialects::{Speak, a2e};
use http::HeaderValue;
use url::Url;

use super::{BUILT_IN, Inherit, UpstreamConfig};
use crate::{Hidden, Lookup};

impl UpstreamConfig {
    /// Returns the mistakes as key (none: the whole upstream) and message. If keys were left out because of other mistakes
    /// (`is_whole` is false), the upstream lacks nothing.
    pub(crate) fn mistakes(
        &self,
        name: &str,
        lookup: &Lookup<'_>,
        is_whole: bool,
    ) -> Vec<(Option<&'static str>, String)> {
        let mut mistakes = Vec::new();
        let mut mistake = |key: Option<&'static str>, message: &str| mistakes.push((key, message.to_owned()));
        if !is_name(name) {
            mistake(None, "a name is made of letters, digits, `_` and `-`");
        }
        if BUILT_IN.contains(&name) {
            mistake(None, "the name is reserved for tools of Gladhand itself: choose another");
        }
        match (&self.url, self.command.first().map(String::as_str)) {
            (None, None) if is_whole => mistake(None, "it needs a `command` or a `url`"),
            (Some(_), Some(_)) => mistake(Some("url"), "`command` and `url` exclude each other: keep one"),
            (None, Some("")) => mistake(Some("command"), "the program must not be empty"),
            _ => {}
        }
        let is_address = |url: Url| ["http", "https"].contains(&url.scheme()) && url.has_host();
        if self.url.as_ref().is_some_and(|url| !Url::parse(url).is_ok_and(is_address)) {
            mistake(Some("url"), "expected an address that begins with http:// or https://");
        }
        let (of_command, of_url) = (self.url.is_some(), self.url.is_none());
        for (key, is_there, is_misplaced, belongs_to) in [
            ("args", !self.args.is_empty(), of_command, "command"),
            ("cwd", self.cwd.is_some(), of_command, "command"),
            ("env", !self.env.is_empty(), of_command, "command"),
            ("inherit_env", self.inherit_env != Inherit::default(), of_command, "command"),
            ("headers", !self.headers.is_empty(), of_url, "url"),
            ("bearer", self.bearer.is_some(), of_url, "url"),
            ("auth", self.auth.is_some(), of_url, "url"),
            ("ca", self.ca.is_some(), of_url, "url"),
        ] {
            if is_there && is_misplaced && is_whole {
                mistake(Some(key), &format!("the key needs a `{belongs_to}`"));
            }
        }
        if let Err(header) = self.headers() {
            mistake(Some("headers"), &format!("`{header}` cannot be sent as a header"));
        }
        if self.bearer.as_ref().is_some_and(|Hidden(token)| HeaderValue::from_str(token.expose()).is_err()) {
            mistake(Some("bearer"), "the token contains characters that a header cannot have");
        }
        let authorization = self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        if usize::from(authorization) + usize::from(self.bearer.is_some()) + usize::from(self.auth.is_some()) > 1 {
            mistake(None, "`bearer`, `auth` and an `Authorization` header exclude each other: keep one");
        }
        if self.auth.as_deref().is_some_and(|auth| auth != "oauth") {
            mistake(Some("auth"), "expected \"oauth\"");
        }
        if let Some(Err(problem)) = self.ca.as_deref().map(lookup.authorities) {
            mistake(Some("ca"), &problem);
        }
        match self.speak() {
            None => mistake(Some("speak"), "expected a dialect, as in \"mcp\", \"mcp@2025-06-18\" or \"a2e\""),
            Some(Speak::As(dialect, _)) if !dialect.has_http && self.url.is_some() => {
                mistake(Some("speak"), &format!("{} is not spoken over HTTP", dialect.name));
            }
            Some(_) => {}
        }
        match (&self.agent_id, self.speak()) {
            (Some(id), _) if id.is_empty() => mistake(Some("agent_id"), "an id must not be empty"),
            (Some(_), Some(Speak::Mcp)) => mistake(Some("agent_id"), "`agent_id` is sent only to A2E hosts"),
            (Some(_), Some(Speak::As(dialect, _))) if dialect.name != a2e::DIALECT.name => {
                mistake(Some("agent_id"), "`agent_id` is sent only to A2E hosts");
            }
            _ => {}
        }
        if self.env.keys().any(|name| name.is_empty() || name.contains(['=', '\0'])) {
            mistake(Some("env"), "the name of a variable is not empty and has no `=`");
        }
        if self.rename.values().any(String::is_empty) {
            mistake(Some("rename"), "a name must not be empty");
        }
        mistakes
    }
}

/// Whether a name is valid for an upstream.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
