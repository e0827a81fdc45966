//! Manages the token of one server: adds it to requests, and answers challenges.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use gladhand_core::Secret;
use gladhand_redaction::{Life, learn};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::challenge::Challenge;
use super::discovery::Place;
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
const STEPS: u8 = 3;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Authorizes the requests to one server.
pub struct Authorizer {
    pub(super) options: Options,
    pub(super) web: Web,
    /// Held while a token is obtained, so that two challenged requests do not both ask the user.
    pub(super) turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the token store was read.
    looked: bool,
    held: Option<Arc<Held>>,
    /// Why the last token could not be renewed.
    refused: Option<AuthError>,
    /// How many tokens have been used so far.
    count: u64,
}

/// The token in use.
struct Held {
    number: u64,
    issuer: String,
    grant: Grant,
    /// Set if the token is bound to a key.
    prover: Option<Prover>,
}

impl Held {
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
        Ok(Self { options, web, turn: tokio::sync::Mutex::default(), state: Mutex::default() })
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
        let held = self.usable().await?;
        attempt.sent = held.as_ref().map(|held| held.number);
        let Some(held) = held else { return Ok(()) };
        let token = &held.grant.access_token;
        let scheme = match &held.prover {
            Some(prover) => {
                let proof = prover.prove_possession(method, url, token)?;
                headers.insert(dpop::PROOF, proof);
                "DPoP"
            }
            None => "Bearer",
        };
        let mut value = HeaderValue::try_from(format!("{scheme} {}", token.expose()))
            .map_err(|_| self.nonsense(&held.issuer, "a token with characters that are not allowed in a header"))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
        Ok(())
    }

    /// Reads the headers of a response: they can contain the nonce for the next proof.
    pub fn answered(&self, headers: &HeaderMap) {
        if let Some(prover) = self.held().as_ref().and_then(|held| held.prover.as_ref()) {
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
        let _turn = self.turn.lock().await;
        let held = self.held();
        if held.as_ref().map(|held| held.number) != attempt.sent {
            // Another challenged request has obtained a new token meanwhile.
            return Ok(());
        }
        if status == StatusCode::FORBIDDEN {
            return self.step_up(attempt, held.as_deref(), &challenge).await;
        }
        self.renew(attempt, held.as_deref(), &challenge).await
    }

    /// Handles a 401: refreshes the token, or obtains a new one.
    async fn renew(&self, attempt: &mut Attempt, held: Option<&Held>, challenge: &Challenge) -> Result<(), AuthError> {
        if attempt.obtained {
            let (server, complaint) = (shown(&self.options.server), challenge.complaint(held.map(Held::secret)));
            return Err(AuthError::TokenRejected { server, complaint });
        }
        let place = Place::discover(&self.web, &self.options.server, challenge).await?;
        // A token of another issuer is useless here, and must not be sent to this one.
        let held = held.filter(|held| held.issuer == place.server.issuer);
        if let Some(held) = held
            && !std::mem::replace(&mut attempt.refreshed, true)
            && self.refresh(&place.server, held).await?
        {
            return Ok(());
        }
        attempt.obtained = true;
        let mut scopes = if challenge.scopes.is_empty() { place.scopes.clone() } else { challenge.scopes.clone() };
        if let Some(held) = held {
            let mut earlier = held.grant.scopes.clone();
            earlier.add(&scopes);
            scopes = earlier;
        }
        let obtained = self.obtain(&place, scopes).await;
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
        held: Option<&Held>,
        challenge: &Challenge,
    ) -> Result<(), AuthError> {
        let server = || shown(&self.options.server);
        let Some(wanting) = held.filter(|_| challenge.error.as_deref() == Some("insufficient_scope")) else {
            return Err(AuthError::Forbidden {
                server: server(),
                complaint: challenge.complaint(held.map(Held::secret)),
            });
        };
        // Requesting the same scopes again would only ask the user again.
        if wanting.grant.scopes.cover(&challenge.scopes) || attempt.steps == STEPS {
            return Err(AuthError::ScopeNotGranted { server: server(), scopes: challenge.scopes.clone() });
        }
        attempt.steps += 1;
        let place = Place::discover(&self.web, &self.options.server, challenge).await?;
        let mut scopes =
            if wanting.issuer == place.server.issuer { wanting.grant.scopes.clone() } else { Scopes::default() };
        scopes.add(&challenge.scopes);
        self.obtain(&place, scopes).await
    }

    /// Obtains a token with the flow in the options.
    async fn obtain(&self, place: &Place, mut scopes: Scopes) -> Result<(), AuthError> {
        let stored = self.registration(&place.server.issuer)?;
        let redirect_uri = match &self.options.flow {
            Flow::Code(browser) => {
                // On its own this scope would replace the default scopes, so it is only added to others.
                if !scopes.is_empty() && place.server.scopes_supported.has(OFFLINE) {
                    scopes.add(&Scopes::parse(OFFLINE));
                }
                Some(browser.redirect_uri())
            }
            _ => None,
        };
        let client = Client::identify(&self.web, &self.options, &place.server, stored.as_ref(), redirect_uri).await?;
        if let Some(registration) = &client.registration
            && stored.is_none_or(|stored| stored.client_id != registration.client_id)
        {
            // Stored before the user is asked: if consent fails, the registration is still valid.
            self.keep(&place.server.issuer, Some(registration.clone()), None)?;
        }
        let prover = if place.dpop { Some(Prover::generate()?) } else { None };
        let endpoint = endpoint(&self.web, &place.server, &client, prover.as_ref())?;
        let issued = match &self.options.flow {
            Flow::Code(browser) => code::ask(browser.as_ref(), place, &endpoint, &scopes).await?,
            Flow::ClientCredentials => ask(&endpoint, place, &scopes, &[("grant_type", "client_credentials")]).await?,
            Flow::Workload(assertion) => {
                let assertion = assertion.current()?;
                ask(&endpoint, place, &scopes, &[("grant_type", JWT_BEARER), ("assertion", assertion.expose())]).await?
            }
            Flow::Enterprise(provider) => {
                let assertion = self.exchange_identity(provider, place, &scopes).await?;
                ask(&endpoint, place, &scopes, &[("grant_type", JWT_BEARER), ("assertion", assertion.expose())]).await?
            }
        };
        let issued = issued.presentable(&endpoint)?;
        let grant = Grant {
            renew_at: issued.renew_at(),
            client_id: client.id.clone(),
            resource: place.resource.clone(),
            scopes,
            key: prover.as_ref().filter(|_| issued.is_bound()).map(|prover| prover.stored().clone()),
            access_token: issued.access_token,
            refresh_token: issued.refresh_token,
        };
        self.hold(&place.server.issuer, client.registration, grant)
    }

    /// Exchanges the user's identity token for a grant that the authorization server accepts (ID-JAG).
    async fn exchange_identity(
        &self,
        provider: &IdentityProvider,
        place: &Place,
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
            ("audience", &place.server.issuer),
            ("subject_token", provider.id_token.expose()),
            ("subject_token_type", ID_TOKEN),
        ];
        let issued = ask(&endpoint, place, scopes, &form).await?;
        if issued.issued_token_type.as_deref() != Some(ID_JAG) {
            return Err(self.nonsense(&server.issuer, "a token of another type than the requested grant"));
        }
        Ok(issued.access_token)
    }

    /// The token to use, renewed if it is about to expire.
    async fn usable(&self) -> Result<Option<Arc<Held>>, AuthError> {
        let ready = |state: &State| match &state.held {
            Some(held) if held.grant.renew_at.is_some_and(|time| time < unix_now()) => None,
            Some(held) => Some(Some(held.clone())),
            None => state.looked.then_some(None),
        };
        if let Some(ready) = ready(&self.state()) {
            return Ok(ready);
        }
        let _turn = self.turn.lock().await;
        if let Err(error) = self.look() {
            // A server that requires no token must not fail because of the store. One that requires a token
            // reports the error later.
            tracing::debug!(%error, "could not read the token store, sending the request without a token");
        }
        if let Some(ready) = ready(&self.state()) {
            return Ok(ready);
        }
        let Some(held) = self.held() else { return Ok(None) };
        let server = self.authorization_server(&held.issuer).await?;
        if server.issuer != held.issuer || !self.refresh(&server, &held).await? {
            self.state().held = None;
        }
        Ok(self.held())
    }

    /// Exchanges the refresh token for a new token. Returns false if there is no refresh token or it is not
    /// accepted any more.
    async fn refresh(&self, server: &AuthorizationServer, held: &Held) -> Result<bool, AuthError> {
        let Some(refresh_token) = &held.grant.refresh_token else { return Ok(false) };
        let stored = self.registration(&held.issuer)?;
        let client = match Client::identify(&self.web, &self.options, server, stored.as_ref(), None).await {
            Ok(client) if client.id == held.grant.client_id => client,
            // The client id has changed, and the token was issued to the old one.
            Ok(_) | Err(AuthError::NoClient { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let endpoint = endpoint(&self.web, server, &client, held.prover.as_ref())?;
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose()),
            ("resource", &held.grant.resource),
        ];
        let issued = match endpoint.request(&form).await {
            Ok(issued) => issued.presentable(&endpoint)?,
            Err(refused @ AuthError::Refused { .. }) => {
                tracing::debug!(%refused, "the refresh token was rejected");
                if matches!(&refused, AuthError::Refused { code, .. } if code == "invalid_client") {
                    // The authorization server has deleted our registration. The next flow creates a new one.
                    self.keep(&held.issuer, None, None)?;
                }
                self.state().refused = Some(refused);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let grant = Grant {
            renew_at: issued.renew_at(),
            key: held.grant.key.clone().filter(|_| issued.is_bound()),
            access_token: issued.access_token,
            // A refresh token that is not replaced stays valid (RFC 6749 section 6).
            refresh_token: issued.refresh_token.or_else(|| Some(refresh_token.clone())),
            ..held.grant.clone()
        };
        self.hold(&held.issuer, client.registration, grant)?;
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
    fn hold(&self, issuer: &str, registration: Option<Registration>, grant: Grant) -> Result<(), AuthError> {
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
        (state.looked, state.refused) = (true, None);
        state.held = Some(Arc::new(Held { number: state.count, issuer: issuer.to_owned(), grant, prover }));
        Ok(())
    }

    /// Reads the token store, once.
    fn look(&self) -> Result<(), AuthError> {
        if std::mem::replace(&mut self.state().looked, true) {
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
    pub(super) fn let_go(&self) {
        self.state().held = None;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> Option<Arc<Held>> {
        self.state().held.clone()
    }

    fn nonsense(&self, address: &str, what: &str) -> AuthError {
        AuthError::Nonsense { address: address.to_owned(), what: what.to_owned() }
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
    let lacks = || AuthError::Lacks { issuer: server.issuer.clone(), what: "token endpoint" };
    let url = web.admit(server.token_endpoint.as_deref().ok_or_else(lacks)?)?;
    Ok(TokenEndpoint { web, url, issuer: &server.issuer, client, prover })
}

/// Requests a token for a resource, with these scopes.
async fn ask(
    endpoint: &TokenEndpoint<'_>,
    place: &Place,
    scopes: &Scopes,
    form: &[(&str, &str)],
) -> Result<Issued, AuthError> {
    let scopes = scopes.to_string();
    let mut form = form.to_vec();
    form.push(("resource", &place.resource));
    if !scopes.is_empty() {
        form.push(("scope", &scopes));
    }
    endpoint.request(&form).await
}
