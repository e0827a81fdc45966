//! Keeps secrets off the screen: the tokens that we present, wherever a server repeats them, and the values
//! of members that are secret by their name.

use gladhand_accord::Secret;
use gladhand_wire::{Members, json};

const HIDDEN: &str = "[redacted]";

/// Members whose value is never shown, in lower case.
const SECRETS: [&str; 6] = ["auth_token", "token", "api_key", "password", "secret", "authorization"];

/// Replaces secrets in whatever is about to be shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Redactor {
    /// The spellings of our tokens: plain, and as JSON writes them.
    spellings: Vec<Secret>,
}

impl Redactor {
    /// A redactor that knows our tokens.
    pub(super) fn of<'s>(tokens: impl IntoIterator<Item = &'s Secret>) -> Self {
        let mut spellings = Vec::new();
        for token in tokens {
            let mut ascii = Vec::new();
            json::write_ascii(&mut ascii, token.expose());
            let written = [json::to_raw(token.expose()).get().to_owned(), String::from_utf8_lossy(&ascii).into_owned()];
            let inner = written.into_iter().map(|text| text.trim_matches('"').to_owned());
            // The longer spelling first, so that none is left half replaced.
            let mut all: Vec<_> = inner.chain([token.expose().to_owned()]).collect();
            all.sort_by_key(|text| std::cmp::Reverse(text.len()));
            all.dedup();
            spellings.extend(all.into_iter().map(Secret::new));
        }
        Self { spellings }
    }

    /// The text without our tokens.
    pub(super) fn hide(&self, text: &str) -> String {
        self.spellings.iter().fold(text.to_owned(), |text, spelling| text.replace(spelling.expose(), HIDDEN))
    }

    /// A message without our tokens and without what its names say is secret.
    pub(super) fn hide_in_message(&self, text: &str) -> String {
        self.hide(&without_secret_members(text))
    }
}

fn is_secret(name: &str) -> bool {
    SECRETS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}

fn without_secret_members(text: &str) -> String {
    let Ok(members) = Members::parse(text) else { return text.to_owned() };
    if !members.iter().any(|(name, _)| is_secret(name)) {
        return text.to_owned();
    }
    let shown = members.iter().map(|(name, raw)| {
        let hidden = json::to_raw(HIDDEN);
        let value = if is_secret(name) && raw.get() != r#""""# { hidden.get() } else { raw.get() };
        format!("{}:{value}", json::to_raw(name).get())
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_hidden_however_it_is_spelled() {
        let redactor = Redactor::of(Some(&Secret::new("pä\"ss")));
        for text in ["x pä\"ss y", r#"x pä\"ss y"#, r#"x p\u00e4\"ss y"#] {
            assert_eq!(redactor.hide(text), "x [redacted] y", "{text}");
        }
        assert_eq!(Redactor::of(None).hide("anything"), "anything");
    }

    #[test]
    fn members_that_are_secret_by_name_are_hidden() {
        let message = r#"{"a":1,"Auth_Token":"x","token":""}"#;
        assert_eq!(Redactor::default().hide_in_message(message), r#"{"a":1,"Auth_Token":"[redacted]","token":""}"#);
    }
}
