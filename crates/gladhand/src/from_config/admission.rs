//! Whom `[authorization]` and `[a2e]` let in.

use gladhand_auth::Scopes;
use gladhand_auth::resource::{Dpop, Issuer, KeySource, KnownToken, Policy, ToolScopes};
use gladhand_core::Secret;
use gladhand_core::negotiation::NAMED;
use gladhand_dialects::Pass;
use url::Url;

use crate::authorization::{Admission, FollowedAccess, unnamed_pass};
use crate::config::{A2eConfig, AgentPass, AuthorizationConfig, Config, DpopConfig, IssuerConfig, TokenConfig};
use gladhand_server::http::ENDPOINT;

/// Why `[authorization]` cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadAuthorization {
    /// Mistakes in the section.
    #[error("{}", lines(.0))]
    Mistakes(Vec<Mistake>),
    /// The guard does not accept it.
    #[error("authorization: {0}")]
    Unusable(#[from] gladhand_auth::AuthError),
}

/// A key, as in `authorization.issuers#2.jwks_url`, and the message about it.
pub(crate) type Mistake = (String, String);

fn lines(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(|(key, message)| format!("{key}: {message}")).collect::<Vec<_>>().join("\n")
}

/// Lets in whom `[authorization]` and `[a2e]` name, with one more token for agents. Returns whether that changed something.
pub(crate) fn follow(
    access: &FollowedAccess,
    config: &Config,
    token: Option<Secret>,
) -> Result<bool, BadAuthorization> {
    let admission = admission(&config.authorization).map_err(BadAuthorization::Mistakes)?;
    Ok(access.follow(&admission, passes(&config.a2e, token))?)
}

/// Everything in `[authorization]` that keeps a server from starting.
pub(crate) fn mistakes(section: &AuthorizationConfig) -> Vec<Mistake> {
    admission(section).err().unwrap_or_default()
}

/// Files with keys of issuers that are missing or cannot be used, as key and message. A server starts without them, and
/// accepts no token of the issuer until they are there.
pub(crate) fn unusable_key_files(section: &AuthorizationConfig) -> Vec<Mistake> {
    let issuers = section.issuers.iter().enumerate();
    let unusable = issuers.filter_map(|(at, issuer)| {
        let error = issuer_of(issuer, at).ok()?.check_file().err()?;
        Some((format!("authorization.issuers#{}.jwks_file", at + 1), error.to_string()))
    });
    unusable.collect()
}

/// An issuer as the guard knows it. `at` is its index in the list.
fn issuer_of(IssuerConfig { issuer, jwks_url, jwks_file }: &IssuerConfig, at: usize) -> Result<Issuer, Mistake> {
    let mistake = |key: &str, message: &str| (format!("authorization.issuers#{}.{key}", at + 1), message.to_owned());
    let keys = match (jwks_url, jwks_file) {
        (None, None) => KeySource::Metadata,
        (Some(address), None) => KeySource::Url(Url::parse(address).map_err(|_| mistake("jwks_url", NOT_URL))?),
        (None, Some(file)) => KeySource::File(file.clone()),
        (Some(_), Some(_)) => {
            return Err(mistake(
                "jwks_file",
                "the keys are either at `jwks_url` or in `jwks_file`: remove one of them",
            ));
        }
    };
    let key = if jwks_url.is_some() { "jwks_url" } else { "issuer" };
    let issuer = Issuer { issuer: issuer.clone(), keys };
    issuer.check().map_err(|error| mistake(key, &error.to_string()))?;
    Ok(issuer)
}

const NOT_URL: &str = "expected a URL";

/// Whom `[authorization]` lets in, or all mistakes in it.
fn admission(section: &AuthorizationConfig) -> Result<Admission, Vec<Mistake>> {
    if !section.is_required() {
        return Ok(if section.is_closed { Admission::NoOne } else { Admission::Everyone });
    }
    let mut mistakes = Vec::new();
    let mut wrong_resource = |message: &str| mistakes.push(("authorization.resource".to_owned(), message.to_owned()));
    let resource = section.resource.as_ref().map(|text| Url::parse(text));
    match &resource {
        None if !section.issuers.is_empty() => wrong_resource("must be set if there are issuers"),
        Some(Err(_)) => wrong_resource(NOT_URL),
        _ => {}
    }
    let resource = resource.and_then(Result::ok);
    let mut issuers = Vec::new();
    for (at, issuer) in section.issuers.iter().enumerate() {
        match issuer_of(issuer, at) {
            Ok(issuer) => issuers.push(issuer),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let list = |scopes: &Vec<String>| -> Scopes { scopes.iter().map(String::as_str).collect() };
    let (scopes, audiences) = (list(&section.scopes), section.audiences.clone());
    let tools: ToolScopes = section.tool_scopes.iter().map(|(name, scopes)| (name, list(scopes))).collect();
    // A token in this file grants every scope, unless its own scopes are listed.
    let mut everything = scopes.clone();
    everything.add(&tools.all());
    let known = |TokenConfig { name, token, scopes }: &TokenConfig| KnownToken {
        name: name.clone(),
        token: token.clone(),
        scopes: scopes.as_ref().map_or_else(|| everything.clone(), list),
    };
    let tokens = section.tokens.iter().map(known).collect();
    let dpop = match section.dpop {
        DpopConfig::Off => Dpop::Off,
        DpopConfig::Accepted => Dpop::Accepted,
        DpopConfig::Required => Dpop::Required,
    };
    let endpoint = ENDPOINT.to_owned();
    let policy = Policy { resource, endpoint, audiences, issuers, tokens, scopes, tools, dpop };
    Ok(Admission::Policy(Box::new(policy)))
}

/// The passes of `[a2e]`, and one for a further token that any agent may use.
pub(crate) fn passes(section: &A2eConfig, also: Option<Secret>) -> Vec<Pass> {
    let anybody = section.tokens.iter().cloned().chain(also).map(unnamed_pass);
    let mut passes: Vec<_> = anybody.chain(section.agents.iter().map(pass)).collect();
    if passes.is_empty() {
        passes.extend(section.lock.clone().map(unnamed_pass));
    }
    passes
}

fn pass(agent: &AgentPass) -> Pass {
    let names = agent.capabilities.as_ref();
    Pass {
        token: agent.token.0.clone(),
        client: Some(agent.id.clone()),
        capabilities: names.map(|names| names.iter().map(|name| name.word().to_owned()).collect()),
        principal: Some(format!("{NAMED}{}", agent.principal.as_ref().unwrap_or(&agent.id)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Reading};

    fn guard(text: &str) -> Result<bool, String> {
        let config = config::parse(&format!("[authorization]\n{text}"), Reading::AsWritten);
        let config = config.map_err(|problems| problems[0].message.clone())?.authorization;
        let admission = admission(&config).map_err(|mistakes| lines(&mistakes))?;
        FollowedAccess::default().follow(&admission, Vec::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_become_a_guard_or_a_complaint() {
        assert_eq!(guard(""), Ok(false));
        assert_eq!(guard("tokens = [{name = 'ann', token = 'a-b'}]"), Ok(true));
        let resource = "resource = 'https://me.example/mcp'";
        assert_eq!(guard(&format!("{resource}\nissuers = [{{issuer = 'https://as.example'}}]")), Ok(true));
        assert_eq!(
            guard("tool_scopes = {'a*' = ['x']}\ntokens = [{name = 'ann', token = 'a', scopes = []}]"),
            Ok(true)
        );
        let wrong = [
            (
                "dpop = 'perhaps'",
                "invalid value `perhaps` for `authorization.dpop`: expected `off`, `accepted` or `required`",
            ),
            (
                "issuers = [{issuer = 'https://as.example'}, {issuer = 'as'}]",
                "authorization.resource: must be set if there are issuers\n\
                 authorization.issuers#2.issuer: as is not an address to send credentials to: it must be https, or \
                 loopback for a loopback server",
            ),
            ("resource = 'me'\ntokens = [{name = 'ann', token = 'x'}]", "authorization.resource: expected a URL"),
            (
                "resource = 'https://me.example'\nissuers = [{issuer = 'http://as.example'}]",
                "authorization.issuers#1.issuer: http://as.example/ is not an address to send credentials to: it must \
                 be https, or loopback for a loopback server",
            ),
            (
                "resource = 'https://me.example'\nissuers = [{issuer = 'https://a', jwks_url = 'b'}, \
                 {issuer = 'https://a', jwks_url = 'ftp://b'}, {issuer = 'https://a', jwks_url = 'https://b', jwks_file = 'c'}]",
                "authorization.issuers#1.jwks_url: expected a URL\n\
                 authorization.issuers#2.jwks_url: ftp://b/ is not an address to send credentials to: it must be https, \
                 or loopback for a loopback server\n\
                 authorization.issuers#3.jwks_file: the keys are either at `jwks_url` or in `jwks_file`: remove one of them",
            ),
            (
                "tokens = [{name = 'ann', token = 'two words'}]",
                "a token is a string of letters, digits and - . _ ~ + / =",
            ),
        ];
        for (text, complaint) in wrong {
            assert_eq!(guard(text), Err(complaint.to_owned()));
        }
    }

    fn read(text: &str) -> Config {
        config::parse(text, Reading::AsWritten).unwrap()
    }

    #[cfg(unix)]
    #[test]
    fn unusable_key_set_files_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("no-set.json", "[]");
        write("no-key.json", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"aGk\"}]}");
        write(
            "set.json",
            "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}",
        );
        let issuer = |name: &str| {
            let file = folder.path().join(name);
            format!("[[authorization.issuers]]\nissuer = 'https://as.example'\njwks_file = '{}'\n", file.display())
        };
        // A reader of this pipe would wait without end.
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
        assert!(made.success());
        let text = ["set.json", "none.json", "no-set.json", "no-key.json", "pipe"].map(issuer).concat();
        let told = unusable_key_files(&read(&text).authorization);
        let keys: Vec<_> = told.iter().map(|(key, _)| key.as_str()).collect();
        let expected = [2, 3, 4, 5].map(|number| format!("authorization.issuers#{number}.jwks_file"));
        assert_eq!(keys, expected, "{told:?}");
    }

    #[test]
    fn passes_of_agents_have_capabilities_and_principals_of_their_tokens() {
        let config = read(
            "[a2e]\ntokens = ['everything']\n[[a2e.agents]]\nid = 'ann'\ntoken = 'hush'\n\
             capabilities = ['tools', 'multi_agent']\n[[a2e.agents]]\nid = 'bob'\ntoken = 'hist'\n",
        );
        let passes = passes(&config.a2e, Some(Secret::new("variable")));
        let seen: Vec<_> = passes
            .iter()
            .map(|pass| (pass.token.expose(), pass.client.as_deref(), pass.capabilities.clone()))
            .collect();
        let opened = Some(vec!["tools".to_owned(), "multi_agent".to_owned()]);
        assert_eq!(
            seen,
            [
                ("everything", None, None),
                ("variable", None, None),
                ("hush", Some("ann"), opened),
                ("hist", Some("bob"), None)
            ]
        );
        let principals: Vec<_> = passes.iter().filter_map(|pass| pass.principal.as_deref()).collect();
        assert_eq!(principals.len(), 4);
        assert_eq!(principals[2..], ["named:ann", "named:bob"]);
        assert!(principals[0].starts_with("token:") && principals[0] != principals[1], "{principals:?}");
    }

    #[test]
    fn a_first_token_that_is_not_trusted_closes_its_endpoint_alone() {
        let token = "[[authorization.tokens]]\nname = 'ann'\ntoken = 'ann'\n";
        let held = Config::default().narrowed_by(&read(token));
        assert_eq!(admission(&held.authorization).unwrap(), Admission::NoOne);
        assert!(passes(&held.a2e, None).is_empty(), "that section is as it was");
        let held = Config::default().narrowed_by(&read("[a2e]\ntokens = ['t']\n"));
        let [lock] = &passes(&held.a2e, None)[..] else { panic!("{held:?}") };
        assert!(!lock.token.expose().is_empty() && !lock.token.matches(&Secret::new("t")));
        // Where the environment has a token, the endpoint was never open.
        let open = passes(&held.a2e, Some(Secret::new("also")));
        assert!(matches!(&open[..], [pass] if pass.token.expose() == "also"));
        assert_eq!(admission(&held.authorization).unwrap(), Admission::Everyone);
    }
}
