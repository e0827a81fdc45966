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

/// Mistakes in the section as a whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadAuthorization {
    /// Tokens of issuers name their audience, and the configuration does not say which audience is this server.
    #[error("authorization.resource must be set when there are issuers")]
    NoResource,
    /// Something that should be an address.
    #[error("authorization: `{0}` is not a URL")]
    NotUrl(String),
    /// Two places for one thing.
    #[error("authorization: the keys of {0} are either at jwks_url or in jwks_file")]
    TwoPlaces(String),
    /// The guard does not accept it.
    #[error("authorization: {0}")]
    Unusable(#[from] gladhand_auth::AuthError),
}

/// Lets in whom `[authorization]` and `[a2e]` name, with one more token for agents. Returns whether that changed something.
pub(crate) fn follow(
    access: &FollowedAccess,
    config: &Config,
    token: Option<Secret>,
) -> Result<bool, BadAuthorization> {
    let admission = admission(&config.authorization)?;
    Ok(access.follow(&admission, passes(&config.a2e, token))?)
}

/// Whom `[authorization]` lets in.
fn admission(section: &AuthorizationConfig) -> Result<Admission, BadAuthorization> {
    if !section.is_required() {
        return Ok(if section.is_closed { Admission::NoOne } else { Admission::Everyone });
    }
    let url = |text: &String| Url::parse(text).map_err(|_| BadAuthorization::NotUrl(text.clone()));
    let resource = section.resource.as_ref().map(url).transpose()?;
    if resource.is_none() && !section.issuers.is_empty() {
        return Err(BadAuthorization::NoResource);
    }
    let mut issuers = Vec::new();
    for IssuerConfig { issuer, jwks_url, jwks_file } in &section.issuers {
        let keys = match (jwks_url, jwks_file) {
            (None, None) => KeySource::Metadata,
            (Some(address), None) => KeySource::Url(url(address)?),
            (None, Some(file)) => KeySource::File(file.clone()),
            (Some(_), Some(_)) => return Err(BadAuthorization::TwoPlaces(issuer.clone())),
        };
        issuers.push(Issuer { issuer: issuer.clone(), keys });
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
        let followed =
            |admission: Admission| FollowedAccess::default().follow(&admission, Vec::new()).map_err(Into::into);
        admission(&config).and_then(followed).map_err(|error: BadAuthorization| error.to_string())
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
            ("dpop = 'perhaps'", "`perhaps` cannot be said here: expected `off`, `accepted` or `required`"),
            (
                "issuers = [{issuer = 'https://as.example'}]",
                "authorization.resource must be set when there are issuers",
            ),
            ("resource = 'me'\ntokens = [{name = 'ann', token = 'x'}]", "authorization: `me` is not a URL"),
            (
                "resource = 'https://me.example'\nissuers = [{issuer = 'http://as.example'}]",
                "authorization: http://as.example/ is not an address to send credentials to: it must be https, or \
                 loopback for a loopback server",
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

    #[test]
    fn agents_get_what_their_tokens_open() {
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
        let held = Config::default().held(&read(token));
        assert_eq!(admission(&held.authorization).unwrap(), Admission::NoOne);
        assert!(passes(&held.a2e, None).is_empty(), "that section is as it was");
        let held = Config::default().held(&read("[a2e]\ntokens = ['t']\n"));
        let [lock] = &passes(&held.a2e, None)[..] else { panic!("{held:?}") };
        assert!(!lock.token.expose().is_empty() && !lock.token.matches(&Secret::new("t")));
        // Where the environment has a token, the endpoint was never open.
        let open = passes(&held.a2e, Some(Secret::new("also")));
        assert!(matches!(&open[..], [pass] if pass.token.expose() == "also"));
        assert_eq!(admission(&held.authorization).unwrap(), Admission::Everyone);
    }
}
