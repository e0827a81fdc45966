//! Manages the token of one server: adds it to requests, and answers challenges.

use std::fmt;
use std::sync::{Arc, Mutex};

use gladhand_core::Secret;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_redaction::{Life, learn};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::challenge::Challenge;
use super::discovery::TokenSource;
use super::dpop::{self, Prover};
use super::identity::{Client, Registration};
use super::store::{Grant, Record};
use super::token::{Issued, TokenEndpoint};
use super::{Flow, IdentityProvider, OFFLINE, Options, code, unix_now};
use crate::error::AuthError;
use crate::metadata::AuthorizationServer;
use crate::scopes::Scopes;
use crate::web::{Web, shown};

/// How often one request may lead to a request for wider scopes. Without a limit, a server could ask the user for
/// consent for ever.
const MAX_STEP_UPS: u8 = 3;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Authorizes the requests to one server.
pub struct Authorizer {
    pub(super) options: Options,
    pub(super) web: Web,
    /// Held while a token is obtained, so that two challenged requests do not both ask the user.
    pub(super) token_lock: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the token store was read.
    store_was_read: bool,
    current: Option<Arc<CurrentToken>>,
    /// Why the last token could not be renewed.
    refused: Option<AuthError>,
    /// How many tokens have been used so far.
    count: u64,
}

/// The token in use.
struct CurrentToken {
    number: u64,
    issuer: String,
    grant: Grant,
    /// Set if the token is bound to a key.
    prover: Option<Prover>,
}

impl CurrentToken {
    fn secret(&self) -> &str {
        self.grant.access_token.expose()
    }
}

/// The authorization state of one request. It starts empty and stays with the request through all its attempts.
#[derive(Debug, Default)]
pub struct Attempt {
    /// The number of the token that was sent.
    sent: Option<u64>,
    refreshed: bool,
    obtained: bool,
    nonce: bool,
    steps: u8,
}

impl Authorizer {
    /// Creates an authorizer that has not read the token store yet.
    pub fn new(options: Options) -> Result<Self, AuthError> {
        let web = Web::for_server(&options.server, &options.roots)?;
        Ok(Self { options, web, token_lock: tokio::sync::Mutex::default(), state: Mutex::default() })
    }

    /// Adds the token to a request to the server. Without a token the request is unchanged: the challenge of the
    /// server tells what it requires.
    pub async fn authorize(
        &self,
        attempt: &mut Attempt,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
    ) -> Result<(), AuthError> {
        headers.remove(header::AUTHORIZATION);
        headers.remove(dpop::PROOF);
        let current = self.usable().await?;
        attempt.sent = current.as_ref().map(|current| current.number);
        let Some(current) = current else { return Ok(()) };
        let token = &current.grant.access_token;
        let scheme = match &current.prover {
            Some(prover) => {
                let proof = prover.prove_possession(method, url, token)?;
                headers.insert(dpop::PROOF, proof);
                "DPoP"
            }
            None => "Bearer",
        };
        let mut value = HeaderValue::try_from(format!("{scheme} {}", token.expose())).map_err(|_| {
            self.invalid_response(&current.issuer, "a token with characters that are not allowed in a header")
        })?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
        Ok(())
    }

    /// Reads the headers of a response: they can contain the nonce for the next proof.
    pub fn answered(&self, headers: &HeaderMap) {
        if let Some(prover) = self.current().as_ref().and_then(|current| current.prover.as_ref()) {
            prover.take_nonce(headers);
        }
    }

    /// Handles a response with status 401 or 403. `Ok` means that the request should be repeated, an error that it
    /// failed.
    ///
    /// This can take as long as the user takes to give consent.
    pub async fn challenged(
        &self,
        attempt: &mut Attempt,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<(), AuthError> {
        let challenge = Challenge::read(headers);
        self.answered(headers);
        if challenge.error.as_deref() == Some("use_dpop_nonce") && !std::mem::replace(&mut attempt.nonce, true) {
            return Ok(());
        }
        let _guard = self.token_lock.lock().await;
        let current = self.current();
        if current.as_ref().map(|current| current.number) != attempt.sent {
            // Another challenged request has obtained a new token meanwhile.
            return Ok(());
        }
        if status == StatusCode::FORBIDDEN {
            return self.step_up(attempt, current.as_deref(), &challenge).await;
        }
        self.renew(attempt, current.as_deref(), &challenge).await
    }

    /// Handles a 401: refreshes the token, or obtains a new one.
    async fn renew(
        &self,
        attempt: &mut Attempt,
        current: Option<&CurrentToken>,
        challenge: &Challenge,
    ) -> Result<(), AuthError> {
        if attempt.obtained {
            let (server, error_text) =
                (shown(&self.options.server), challenge.error_text(current.map(CurrentToken::secret)));
            return Err(AuthError::TokenRejected { server, error_text });
        }
        let source = TokenSource::discover(&self.web, &self.options.server, challenge).await?;
        // A token of another issuer is useless here, and must not be sent to this one.
        let current = current.filter(|current| current.issuer == source.server.issuer);
        if let Some(current) = current
            && !std::mem::replace(&mut attempt.refreshed, true)
            && self.refresh(&source.server, current).await?
        {
            return Ok(());
        }
        attempt.obtained = true;
        let mut scopes = if challenge.scopes.is_empty() { source.scopes.clone() } else { challenge.scopes.clone() };
        if let Some(current) = current {
            let mut earlier = current.grant.scopes.clone();
            earlier.add(&scopes);
            scopes = earlier;
        }
        let obtained = self.obtain(&source, scopes).await;
        // If no new token was obtained, the error also says why the old one could not be renewed.
        obtained.map_err(|error| match self.state().refused.take() {
            Some(refused) => AuthError::NotRenewed { refused: Box::new(refused), error: Box::new(error) },
            None => error,
        })
    }

    /// Handles a 403: requests the missing scopes in addition to the current ones.
    async fn step_up(
        &self,
        attempt: &mut Attempt,
        current: Option<&CurrentToken>,
        challenge: &Challenge,
    ) -> Result<(), AuthError> {
        let server = || shown(&self.options.server);
        let Some(token) = current.filter(|_| challenge.error.as_deref() == Some("insufficient_scope")) else {
            return Err(AuthError::Forbidden {
                server: server(),
                error_text: challenge.error_text(current.map(CurrentToken::secret)),
            });
        };
        // Requesting the same scopes again would only ask the user again.
        if token.grant.scopes.cover(&challenge.scopes) || attempt.steps == MAX_STEP_UPS {
            return Err(AuthError::ScopeNotGranted { server: server(), scopes: challenge.scopes.clone() });
        }
        attempt.steps += 1;
        let source = TokenSource::discover(&self.web, &self.options.server, challenge).await?;
        let mut scopes =
            if token.issuer == source.server.issuer { token.grant.scopes.clone() } else { Scopes::default() };
        scopes.add(&challenge.scopes);
        self.obtain(&source, scopes).await
    }

    /// Obtains a token with the flow in the options.
    async fn obtain(&self, source: &TokenSource, mut scopes: Scopes) -> Result<(), AuthError> {
        let stored = self.registration(&source.server.issuer)?;
        let redirect_uri = match &self.options.flow {
            Flow::Code(browser) => {
                // On its own this scope would replace the default scopes, so it is only added to others.
                if !scopes.is_empty() && source.server.scopes_supported.has(OFFLINE) {
                    scopes.add(&Scopes::parse(OFFLINE));
                }
                Some(browser.redirect_uri())
            }
            _ => None,
        };
        let client = Client::identify(&self.web, &self.options, &source.server, stored.as_ref(), redirect_uri).await?;
        if let Some(registration) = &client.registration
            && stored.is_none_or(|stored| stored.client_id != registration.client_id)
        {
            // Stored before the user is asked: if consent fails, the registration is still valid.
            self.keep(&source.server.issuer, Some(registration.clone()), None)?;
        }
        let prover = if source.dpop { Some(Prover::generate()?) } else { None };
        let endpoint = endpoint(&self.web, &source.server, &client, prover.as_ref())?;
        let issued = match &self.options.flow {
            Flow::Code(browser) => code::ask(browser.as_ref(), source, &endpoint, &scopes).await?,
            Flow::ClientCredentials => ask(&endpoint, source, &scopes, &[("grant_type", "client_credentials")]).await?,
            Flow::Workload(assertion) => {
                let assertion = assertion.current()?;
                ask(&endpoint, source, &scopes, &[("grant_type", JWT_BEARER), ("assertion", assertion.expose())])
                    .await?
            }
            Flow::Enterprise(provider) => {
                let assertion = self.exchange_identity(provider, source, &scopes).await?;
                ask(&endpoint, source, &scopes, &[("grant_type", JWT_BEARER), ("assertion", assertion.expose())])
                    .await?
            }
        };
        let issued = issued.presentable(&endpoint)?;
        let grant = Grant {
            renew_at: issued.renew_at(),
            client_id: client.id.clone(),
            resource: source.resource.clone(),
            scopes,
            key: prover.as_ref().filter(|_| issued.is_bound()).map(|prover| prover.stored().clone()),
            access_token: issued.access_token,
            refresh_token: issued.refresh_token,
        };
        self.store_and_use(&source.server.issuer, client.registration, grant)
    }

    /// Exchanges the user's identity token for a grant that the authorization server accepts (ID-JAG).
    async fn exchange_identity(
        &self,
        provider: &IdentityProvider,
        source: &TokenSource,
        scopes: &Scopes,
    ) -> Result<Secret, AuthError> {
        // The user configured the identity provider, not the server. So it may be on a private address even if the
        // server is not.
        let address = provider.token_endpoint.as_ref().unwrap_or(&provider.issuer);
        let unsafe_address = |_| AuthError::UnsafeAddress { address: address.clone() };
        let web = Web::for_server(&Url::parse(address).map_err(unsafe_address)?, &self.options.roots)?;
        let mut server = match &provider.token_endpoint {
            Some(_) => AuthorizationServer { issuer: provider.issuer.clone(), ..AuthorizationServer::default() },
            None => AuthorizationServer::discover(&web, &provider.issuer).await?,
        };
        if provider.token_endpoint.is_some() {
            server.token_endpoint.clone_from(&provider.token_endpoint);
        }
        let options = Options { client: Some(provider.client.clone()), ..self.options.clone() };
        let client = Client::identify(&web, &options, &server, None, None).await?;
        let endpoint = endpoint(&web, &server, &client, None)?;
        let form = [
            ("grant_type", TOKEN_EXCHANGE),
            ("requested_token_type", ID_JAG),
            ("audience", &source.server.issuer),
            ("subject_token", provider.id_token.expose()),
            ("subject_token_type", ID_TOKEN),
        ];
        let issued = ask(&endpoint, source, scopes, &form).await?;
        if issued.issued_token_type.as_deref() != Some(ID_JAG) {
            return Err(self.invalid_response(&server.issuer, "a token of another type than the requested grant"));
        }
        Ok(issued.access_token)
    }

    /// The token to use, renewed if it is about to expire.
    async fn usable(&self) -> Result<Option<Arc<CurrentToken>>, AuthError> {
        let ready = |state: &State| match &state.current {
            Some(current) if current.grant.renew_at.is_some_and(|time| time < unix_now()) => None,
            Some(current) => Some(Some(current.clone())),
            None => state.store_was_read.then_some(None),
        };
        if let Some(ready) = ready(&self.state()) {
            return Ok(ready);
        }
        let _guard = self.token_lock.lock().await;
        if let Err(error) = self.read_store() {
            // A server that requires no token must not fail because of the store. One that requires a token
            // reports the error later.
            tracing::debug!(%error, "could not read the token store, sending the request without a token");
        }
        if let Some(ready) = ready(&self.state()) {
            return Ok(ready);
        }
        let Some(current) = self.current() else { return Ok(None) };
        let server = self.authorization_server(&current.issuer).await?;
        if server.issuer != current.issuer || !self.refresh(&server, &current).await? {
            self.state().current = None;
        }
        Ok(self.current())
    }

    /// Exchanges the refresh token for a new token. Returns false if there is no refresh token or it is not
    /// accepted any more.
    async fn refresh(&self, server: &AuthorizationServer, current: &CurrentToken) -> Result<bool, AuthError> {
        let Some(refresh_token) = &current.grant.refresh_token else { return Ok(false) };
        let stored = self.registration(&current.issuer)?;
        let client = match Client::identify(&self.web, &self.options, server, stored.as_ref(), None).await {
            Ok(client) if client.id == current.grant.client_id => client,
            // The client id has changed, and the token was issued to the old one.
            Ok(_) | Err(AuthError::NoClient { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let endpoint = endpoint(&self.web, server, &client, current.prover.as_ref())?;
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose()),
            ("resource", &current.grant.resource),
        ];
        let issued = match endpoint.request(&form).await {
            Ok(issued) => issued.presentable(&endpoint)?,
            Err(refused @ AuthError::Refused { .. }) => {
                tracing::debug!(%refused, "the refresh token was rejected");
                if matches!(&refused, AuthError::Refused { code, .. } if code == "invalid_client") {
                    // The authorization server has deleted our registration. The next flow creates a new one.
                    self.keep(&current.issuer, None, None)?;
                }
                self.state().refused = Some(refused);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let grant = Grant {
            renew_at: issued.renew_at(),
            key: current.grant.key.clone().filter(|_| issued.is_bound()),
            access_token: issued.access_token,
            // A refresh token that is not replaced stays valid (RFC 6749 section 6).
            refresh_token: issued.refresh_token.or_else(|| Some(refresh_token.clone())),
            ..current.grant.clone()
        };
        self.store_and_use(&current.issuer, client.registration, grant)?;
        Ok(true)
    }

    /// The authorization server that issued a token or a registration to us before.
    pub(super) async fn authorization_server(&self, issuer: &str) -> Result<AuthorizationServer, AuthError> {
        match AuthorizationServer::discover(&self.web, issuer).await {
            Err(AuthError::NoMetadata { .. }) => {
                AuthorizationServer::discover_at_root(&self.web, &self.options.server).await
            }
            found => found,
        }
    }

    /// Stores a token and uses it from now on.
    fn store_and_use(&self, issuer: &str, registration: Option<Registration>, grant: Grant) -> Result<(), AuthError> {
        self.keep(issuer, registration, Some(grant.clone()))?;
        self.take(issuer, grant)
    }

    fn take(&self, issuer: &str, grant: Grant) -> Result<(), AuthError> {
        let prover = grant.key.as_ref().map(Prover::restore).transpose()?;
        for token in [Some(&grant.access_token), grant.refresh_token.as_ref()].into_iter().flatten() {
            learn(token.expose(), Life::Recent);
        }
        let mut state = self.state();
        state.count += 1;
        (state.store_was_read, state.refused) = (true, None);
        state.current = Some(Arc::new(CurrentToken { number: state.count, issuer: issuer.to_owned(), grant, prover }));
        Ok(())
    }

    /// Reads the token store, once.
    fn read_store(&self) -> Result<(), AuthError> {
        if std::mem::replace(&mut self.state().store_was_read, true) {
            return Ok(());
        }
        let records = self.options.store.records(self.options.server.as_str())?;
        match records.into_iter().find_map(|record| Some((record.issuer, record.grant?))) {
            Some((issuer, grant)) => self.take(&issuer, grant),
            None => Ok(()),
        }
    }

    fn keep(&self, issuer: &str, registration: Option<Registration>, grant: Option<Grant>) -> Result<(), AuthError> {
        let record = Record { server: self.options.server.to_string(), issuer: issuer.to_owned(), registration, grant };
        Ok(self.options.store.keep(&record)?)
    }

    fn registration(&self, issuer: &str) -> Result<Option<Registration>, AuthError> {
        let records = self.options.store.records(self.options.server.as_str())?;
        Ok(records.into_iter().find(|record| record.issuer == issuer).and_then(|record| record.registration))
    }

    /// Stops using the token.
    pub(super) fn drop_token(&self) {
        self.state().current = None;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }

    fn current(&self) -> Option<Arc<CurrentToken>> {
        self.state().current.clone()
    }

    fn invalid_response(&self, address: &str, problem: &str) -> AuthError {
        AuthError::InvalidResponse { address: address.to_owned(), problem: problem.to_owned() }
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The token endpoint of an authorization server, for a client.
fn endpoint<'a>(
    web: &'a Web,
    server: &'a AuthorizationServer,
    client: &'a Client,
    prover: Option<&'a Prover>,
) -> Result<TokenEndpoint<'a>, AuthError> {
    let lacks = || AuthError::MissingFeature { issuer: server.issuer.clone(), feature: "token endpoint" };
    let url = web.admit(server.token_endpoint.as_deref().ok_or_else(lacks)?)?;
    Ok(TokenEndpoint { web, url, issuer: &server.issuer, client, prover })
}

/// Requests a token for a resource, with these scopes.
async fn ask(
    endpoint: &TokenEndpoint<'_>,
    source: &TokenSource,
    scopes: &Scopes,
    form: &[(&str, &str)],
) -> Result<Issued, AuthError> {
    let scopes = scopes.to_string();
    let mut form = form.to_vec();
    form.push(("resource", &source.resource));
    if !scopes.is_empty() {
        form.push(("scope", &scopes));
    }
    endpoint.request(&form).await
}
