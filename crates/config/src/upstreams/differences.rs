//! In what two descriptions of one server differ.

use gladhand_redaction as redaction;

use super::UpstreamConfig;

impl UpstreamConfig {
    /// In what another description of this server differs from this one, as far as it says something: where the server is,
    /// and what it is given. `sides` name the origins of both descriptions. Values that may be secrets are not shown.
    pub fn differences(&self, other: &Self, sides: [&str; 2]) -> Vec<String> {
        let [here, there] = sides;
        let words = |one: &Self| one.command.iter().chain(&one.args).cloned().collect::<Vec<_>>();
        let shown = |words: &[String]| redaction::redact_words(words).join(" ");
        let told = |key: &str, own: &str, other: &str| match (own, other) {
            ("", other) => format!("{key} is missing in {here} and `{other}` in {there}"),
            (own, "") => format!("{key} is `{own}` in {here} and missing in {there}"),
            (own, other) => format!("{key} is `{own}` in {here} and `{other}` in {there}"),
        };
        let mut all = Vec::new();
        if words(self) != words(other) {
            all.push(told("command", &shown(&words(self)), &shown(&words(other))));
        }
        if self.url != other.url {
            let url = |one: &Self| redaction::redact(one.url.as_deref().unwrap_or_default()).into_owned();
            all.push(told("url", &url(self), &url(other)));
        }
        if other.cwd.is_some() && self.cwd != other.cwd {
            let cwd = |one: &Self| one.cwd.iter().map(|cwd| cwd.display().to_string()).collect::<String>();
            all.push(told("cwd", &cwd(self), &cwd(other)));
        }
        for (key, own, others) in [("env", &self.env, &other.env), ("headers", &self.headers, &other.headers)] {
            for name in own.keys().chain(others.keys().filter(|name| !own.contains_key(*name))) {
                match (own.get(name), others.get(name)) {
                    (Some(own), Some(other)) if own == other => {}
                    (Some(_), Some(_)) => all.push(format!("{key}.{name} differs")),
                    (Some(_), None) => all.push(format!("{key}.{name} is missing in {there}")),
                    (None, _) => all.push(format!("{key}.{name} is missing in {here}")),
                }
            }
        }
        for (key, own, others) in [("only", &self.only, &other.only), ("hide", &self.hide, &other.hide)] {
            if !others.is_empty() && own != others {
                all.push(told(key, &own.join(", "), &others.join(", ")));
            }
        }
        if other.bearer.is_some() && self.bearer != other.bearer {
            all.push("bearer differs".to_owned());
        }
        all
    }
}
