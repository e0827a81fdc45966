//! Tests of the guard of our own endpoint: valid and invalid tokens, and the text of each refusal.

mod dpop;

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gladhand_auth::resource::{Dpop, Guard, Issuer, KeySource, KnownToken, Policy};
use gladhand_auth::{Scopes, install_signatures};
use gladhand_core::Secret;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs1KeyDer, PrivatePkcs8KeyDer};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

const ISSUER: &str = "https://as.example";
const RESOURCE: &str = "https://mcp.example/mcp";
const METADATA: &str = "https://mcp.example/.well-known/oauth-protected-resource/mcp";

/// An issuer whose keys are in a file.
struct Fixture {
    guard: Guard,
    keys: Vec<(Algorithm, EncodingKey)>,
    _folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Dpop::default())
    }

    fn with(dpop: Dpop) -> Self {
        install_signatures();
        let random = SystemRandom::new();
        let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key is made");
        let ed = PrivatePkcs8KeyDer::from_pem_slice(include_bytes!("../keys/ed25519.pem")).expect("a key");
        let rsa = PrivatePkcs1KeyDer::from_pem_slice(include_bytes!("../keys/rsa-pkcs1.pem")).expect("a key");
        let keys = vec![
            (Algorithm::ES256, EncodingKey::from_ec_der(ec.as_ref())),
            (Algorithm::EdDSA, EncodingKey::from_ed_der(ed.secret_pkcs8_der())),
            (Algorithm::RS256, EncodingKey::from_rsa_der(rsa.secret_pkcs1_der())),
        ];
        let public = keys.iter().map(|(algorithm, key)| {
            let mut jwk = Jwk::from_encoding_key(key, *algorithm).expect("a key has a public half");
            jwk.common.key_id = Some(format!("{algorithm:?}"));
            // One RSA key serves more than one algorithm.
            jwk.common.key_algorithm = None;
            jwk
        });
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let path = folder.path().join("keys.json");
        fs_err::write(&path, json!({"keys": public.collect::<Vec<_>>()}).to_string()).expect("a file can be written");
        let policy = Policy {
            resource: Some(Url::parse(RESOURCE).expect("an address")),
            issuers: vec![Issuer { issuer: ISSUER.to_owned(), keys: KeySource::File(path) }],
            tokens: vec![KnownToken {
                name: "robot".to_owned(),
                token: Secret::new("known-token"),
                scopes: Scopes::parse("use"),
            }],
            scopes: Scopes::parse("use"),
            tools: [("erase", Scopes::parse("admin"))].into_iter().collect(),
            dpop,
            endpoint: "/behind-a-proxy".to_owned(),
            ..Policy::default()
        };
        Self { guard: Guard::new(policy).expect("a valid policy"), keys, _folder: folder }
    }

    fn sign(&self, algorithm: Algorithm, claims: &Value) -> String {
        let key = match algorithm {
            Algorithm::PS256 => &self.keys[2].1,
            _ => &self.keys.iter().find(|(one, _)| *one == algorithm).expect("a key of this kind").1,
        };
        let mut header = Header::new(algorithm);
        header.kid = Some(format!("{:?}", if algorithm == Algorithm::PS256 { Algorithm::RS256 } else { algorithm }));
        encode(&header, claims, key).expect("a valid key")
    }

    /// The principal's name, or status and challenge.
    async fn check(&self, authorization: &str, tool: Option<&str>) -> Result<String, (u16, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(authorization).expect("a valid header"));
        self.check_headers(&headers, tool).await
    }

    async fn check_headers(&self, headers: &HeaderMap, tool: Option<&str>) -> Result<String, (u16, String)> {
        self.check_head(&head("POST", "/mcp", headers), tool).await
    }

    async fn check_head(&self, head: &Parts, tool: Option<&str>) -> Result<String, (u16, String)> {
        let told = |response: Box<Response<String>>| {
            let challenge = response.headers().get(header::WWW_AUTHENTICATE);
            (response.status().as_u16(), challenge.and_then(|text| text.to_str().ok()).unwrap_or_default().to_owned())
        };
        let principal = self.guard.check(head).await.map_err(told)?;
        let tools: Vec<_> = tool.into_iter().collect();
        self.guard.permits(&principal, &tools).map_err(told)?;
        Ok(principal.name.to_string())
    }
}

fn head(method: &str, path: &str, headers: &HeaderMap) -> Parts {
    let mut request = Request::builder().method(method).uri(path).body(()).expect("a request");
    *request.headers_mut() = headers.clone();
    request.into_parts().0
}

/// A token that is signed with a shared secret. Gladhand itself cannot make one.
fn sign_symmetrically(header: &Header, claims: &impl Serialize) -> String {
    let encoded = |json: serde_json::Result<Vec<u8>>| URL_SAFE_NO_PAD.encode(json.expect("JSON"));
    let message = format!("{}.{}", encoded(serde_json::to_vec(header)), encoded(serde_json::to_vec(claims)));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"public"), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": [RESOURCE, "x"], "sub": "ann", "exp": now() + 60, "scope": "use more"})
}

fn but(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

#[tokio::test]
async fn tokens_of_the_issuer_are_accepted_with_every_kind_of_key() {
    let fixture = Fixture::new();
    for algorithm in [Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS256, Algorithm::PS256] {
        let token = fixture.sign(algorithm, &claims());
        let name = fixture.check(&format!("Bearer {token}"), None).await;
        assert_eq!(name.as_deref(), Ok("https://as.example ann"), "{algorithm:?}");
    }
}

#[tokio::test]
async fn scopes_are_read_in_both_spellings() {
    let fixture = Fixture::new();
    for scp in [json!("use x"), json!(["x", "use"])] {
        let mut claims = but("scp", scp);
        claims.as_object_mut().unwrap().remove("scope");
        let token = fixture.sign(Algorithm::ES256, &claims);
        assert!(fixture.check(&format!("bearer {token}"), None).await.is_ok());
    }
}

#[tokio::test]
async fn bad_tokens_are_refused_with_the_reason() {
    let fixture = Fixture::new();
    let cases = [
        (but("exp", json!(now() - 120)), "the token has expired"),
        (but("nbf", json!(now() + 120)), "the token is not valid yet"),
        (but("aud", json!("https://other.example")), "the token is made for another audience"),
        (but("aud", Value::Null), "the token lacks a claim"),
        (but("exp", Value::Null), "the token lacks a claim"),
        (but("iss", json!("https://as.example/")), "the issuer of the token is not trusted"),
        (but("sub", Value::Null), "the token has no subject"),
        (but("sub", json!("")), "the token has no subject"),
        (but("sub", json!(" ")), "the token has no subject"),
        (but("cnf", json!({"jkt": "x"})), "the token is bound to a key: it needs a proof of possession"),
        (but("cnf", json!({"x5t#S256": "x"})), "the token has an unsupported kind of binding"),
        (but("cnf", json!({"jkt": "x", "x5t#S256": "x"})), "the token has an unsupported kind of binding"),
    ];
    for (claims, why) in cases {
        let token = fixture.sign(Algorithm::ES256, &claims);
        let challenge = format!(
            r#"Bearer error="invalid_token", error_description="{why}", scope="use", resource_metadata="{METADATA}""#
        );
        assert_eq!(fixture.check(&format!("Bearer {token}"), None).await, Err((401, challenge)));
    }
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let fixture = Fixture::new();
    let good = fixture.sign(Algorithm::ES256, &claims());
    let (head, signature) = good.rsplit_once('.').unwrap();
    let stranger = Fixture::new().sign(Algorithm::ES256, &claims());
    // Attack: the public key is used as the secret of a symmetric algorithm.
    let mut symmetric = Header::new(Algorithm::HS256);
    symmetric.kid = Some("ES256".to_owned());
    let symmetric = sign_symmetrically(&symmetric, &claims());
    let mut proof = Header::new(Algorithm::ES256);
    (proof.typ, proof.kid) = (Some("dpop+jwt".to_owned()), Some("ES256".to_owned()));
    let proof = encode(&proof, &claims(), &fixture.keys[0].1).unwrap();
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", head.split_once('.').unwrap().1);
    let broken = [format!("{head}.{}A", &signature[1..]), format!("{head}."), head.to_owned(), "x.y.z".to_owned()];
    for token in broken.into_iter().chain([stranger, symmetric, proof, unsigned]) {
        let (status, challenge) = fixture.check(&format!("Bearer {token}"), None).await.unwrap_err();
        assert!(status == 401 && challenge.contains("invalid_token"), "{token}: {status} {challenge}");
    }
}

#[tokio::test]
async fn known_tokens_name_their_principal() {
    let fixture = Fixture::new();
    assert_eq!(fixture.check("Bearer known-token", None).await, Ok("robot".to_owned()));
    assert_eq!(fixture.check("Bearer known-toke", None).await.unwrap_err().0, 401);
}

#[tokio::test]
async fn a_tool_may_need_more_scope() {
    let fixture = Fixture::new();
    let challenge = format!(
        r#"Bearer error="insufficient_scope", error_description="the token lacks scope", scope="use admin", resource_metadata="{METADATA}""#
    );
    assert_eq!(fixture.check("Bearer known-token", Some("erase")).await, Err((403, challenge)));
    let token = fixture.sign(Algorithm::ES256, &but("scope", json!("admin use")));
    assert!(fixture.check(&format!("Bearer {token}"), Some("erase")).await.is_ok());
}

#[tokio::test]
async fn without_a_token_the_challenge_names_the_metadata() {
    let fixture = Fixture::new();
    let challenge = format!(r#"Bearer scope="use", resource_metadata="{METADATA}""#);
    assert_eq!(fixture.check_headers(&HeaderMap::new(), None).await, Err((401, challenge.clone())));
    assert_eq!(fixture.check("Basic cm9ib3Q6eA==", None).await, Err((401, challenge)));
}

#[tokio::test]
async fn malformed_headers_are_bad_requests() {
    let fixture = Fixture::new();
    for malformed in ["Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearer \"a\""] {
        let (status, challenge) = fixture.check(malformed, None).await.unwrap_err();
        assert!(status == 400 && challenge.contains("invalid_request"), "{malformed}");
    }
    let mut twice = HeaderMap::new();
    for token in ["known-token", "other"] {
        twice.append(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap());
    }
    assert_eq!(fixture.check_headers(&twice, None).await.unwrap_err().0, 400);
}

#[tokio::test]
async fn if_keys_cannot_be_fetched_the_client_is_not_blamed() {
    let policy = Policy {
        resource: Some(Url::parse(RESOURCE).unwrap()),
        issuers: vec![Issuer { issuer: ISSUER.to_owned(), keys: KeySource::File("/nowhere/keys.json".into()) }],
        ..Policy::default()
    };
    let guard = Guard::new(policy).unwrap();
    let mut headers = HeaderMap::new();
    let token = Fixture::new().sign(Algorithm::ES256, &claims());
    headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap());
    let response = guard.check(&head("POST", "/mcp", &headers)).await.unwrap_err();
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
}

#[tokio::test]
async fn the_metadata_is_at_both_well_known_locations() {
    let fixture = Fixture::new();
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let document: Value = serde_json::from_str(fixture.guard.metadata(path).unwrap().body()).unwrap();
        assert_eq!(
            document,
            json!({
                "resource": RESOURCE,
                "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["use", "admin"],
                "dpop_signing_alg_values_supported": ["ES256", "ES384", "EdDSA", "RS256", "PS256"],
            })
        );
    }
    assert!(fixture.guard.metadata("/mcp").is_none());
}

#[test]
fn a_guard_does_not_print_tokens() {
    assert!(!format!("{:?}", Fixture::new().guard).contains("known-token"));
}
