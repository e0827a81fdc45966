//! A protected server and its authorization server at one loopback address, with switches for their behaviour.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use gladhand_auth::AuthError;
use gladhand_auth::client::{Attempt, Authorizer, Browser, Flow, Options, Pending, TokenStore};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::{Url, form_urlencoded};

/// The recorded requests and the state of the servers.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// Every request to the authorization server: its path, and its query or form.
    pub(crate) log: Vec<(String, Vec<(String, String)>)>,
    /// Changes to the metadata of the authorization server.
    pub(crate) metadata: Vec<(&'static str, Value)>,
    /// The token that the server accepts.
    pub(crate) accepted: Option<String>,
    /// The scope that the server requires in token requests.
    pub(crate) scope: Option<&'static str>,
    /// The error code with which refresh tokens are rejected, if they are.
    pub(crate) no_refresh: Option<&'static str>,
    /// Whether tokens are bound to keys.
    pub(crate) dpop: bool,
    /// Whether the server requires no token.
    pub(crate) open: bool,
    /// Whether the server rejects every token.
    pub(crate) deaf: bool,
    asked_scope: String,
    tokens: u32,
}

impl World {
    /// How often a path was requested.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.log.iter().filter(|(asked, _)| asked == path).count()
    }

    /// A parameter of the last request to a path.
    pub(crate) fn last(&self, path: &str, name: &str) -> Option<&str> {
        let (_, parameters) = self.log.iter().rev().find(|(asked, _)| asked == path)?;
        parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The two servers.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) url: Url,
    pub(crate) world: Arc<Mutex<World>>,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let origin = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let world = Arc::<Mutex<World>>::default();
        let (served, base) = (Arc::clone(&world), origin.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (world, origin) = (Arc::clone(&served), base.clone());
                let service = service_fn(move |request| answer(Arc::clone(&world), origin.clone(), request));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { url: Url::parse(&format!("{origin}/mcp")).expect("an address"), world }
    }

    pub(crate) fn authorizer(&self, store: Arc<dyn TokenStore>) -> Authorizer {
        let options = Options {
            server: self.url.clone(),
            flow: Flow::Code(Arc::new(Willing(reqwest()))),
            client: None,
            client_metadata_url: None,
            client_name: "test".to_owned(),
            roots: gladhand_auth::Roots::default(),
            store,
        };
        Authorizer::new(options).expect("valid options")
    }

    /// Sends a request to the protected server, and answers all challenges.
    pub(crate) async fn call(&self, authorizer: &Authorizer) -> Result<StatusCode, AuthError> {
        let mut attempt = Attempt::default();
        loop {
            let mut headers = HeaderMap::new();
            authorizer.authorize(&mut attempt, &Method::POST, &self.url, &mut headers).await?;
            let answer = reqwest().post(self.url.clone()).headers(headers).send().await.expect("the fake answers");
            match answer.status() {
                status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    authorizer.challenged(&mut attempt, status, answer.headers()).await?;
                }
                status => return Ok(status),
            }
        }
    }
}

/// A browser whose user always gives consent.
struct Willing(reqwest::Client);

impl Browser for Willing {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:1/callback"
    }

    fn visit<'a>(&'a self, address: &'a Url, _state: &'a str) -> Pending<'a, Result<String, AuthError>> {
        Box::pin(async move {
            let answer = self.0.get(address.clone()).send().await.expect("the fake answers");
            let location = answer.headers()["location"].to_str().expect("addresses are text");
            Ok(Url::parse(location).expect("an address").query().unwrap_or_default().to_owned())
        })
    }
}

fn reqwest() -> reqwest::Client {
    let builder = gladhand_tls::client_builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.build().expect("plain options")
}

async fn answer(
    world: Arc<Mutex<World>>,
    origin: String,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = if head.method == Method::GET { head.uri.query().unwrap_or_default().as_bytes() } else { &body };
    let parameters: Vec<(String, String)> = form_urlencoded::parse(text).into_owned().collect();
    let mut world = world.lock().expect("no test panics while it holds the world");
    let path = head.uri.path().to_owned();
    world.log.push((path.clone(), parameters));
    Ok(match path.as_str() {
        "/mcp" if world.open => reply(200, &json!({})),
        "/revoke" => reply(200, &json!({})),
        "/mcp" => protected(&world, &origin, &head.headers),
        "/.well-known/oauth-protected-resource/mcp" => {
            reply(200, &json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]}))
        }
        "/.well-known/oauth-authorization-server" => {
            let mut metadata = json!({
                "issuer": origin,
                "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"),
                "registration_endpoint": format!("{origin}/register"),
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            });
            for (name, value) in &world.metadata {
                metadata[*name] = value.clone();
            }
            reply(200, &metadata)
        }
        "/register" => reply(201, &json!({"client_id": format!("client-{}", world.count("/register"))})),
        "/authorize" => authorize(&mut world),
        "/token" => token(&mut world),
        _ => reply(404, &json!({})),
    })
}

fn protected(world: &World, origin: &str, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let scheme = if world.dpop { "DPoP" } else { "Bearer" };
    let presented = headers.get("authorization").and_then(|value| value.to_str().ok());
    let good =
        !world.deaf && world.accepted.as_ref().is_some_and(|token| presented == Some(&format!("{scheme} {token}")));
    let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
    let scope = world.scope.unwrap_or("basic");
    let (status, error) = match good {
        true if world.asked_scope.split(' ').any(|asked| asked == scope) => return reply(200, &json!({})),
        true => (403, r#"error="insufficient_scope", "#),
        false => (401, ""),
    };
    let mut response = reply(status, &json!({}));
    let challenge = format!(r#"{scheme} {error}scope="{scope}", resource_metadata="{metadata}""#);
    response.headers_mut().insert("www-authenticate", challenge.parse().expect("a valid header"));
    response
}

fn authorize(world: &mut World) -> Response<Full<Bytes>> {
    world.asked_scope = world.last("/authorize", "scope").unwrap_or_default().to_owned();
    let value = |name| world.last("/authorize", name).unwrap_or_default();
    let location = format!("{}?code=c&state={}", value("redirect_uri"), value("state"));
    let mut response = reply(302, &json!({}));
    response.headers_mut().insert("location", location.parse().expect("a valid header"));
    response
}

fn token(world: &mut World) -> Response<Full<Bytes>> {
    if let Some(code) = world.no_refresh
        && world.last("/token", "grant_type") == Some("refresh_token")
    {
        return reply(400, &json!({"error": code}));
    }
    world.tokens += 1;
    let token = format!("token-{}", world.tokens);
    world.accepted = Some(token.clone());
    let kind = if world.dpop { "DPoP" } else { "Bearer" };
    reply(
        200,
        &json!({
            "access_token": token, "token_type": kind, "expires_in": 3600, "refresh_token": format!("more-{token}"),
        }),
    )
}

fn reply(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}
