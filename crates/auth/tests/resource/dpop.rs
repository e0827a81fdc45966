//! Tokens that are bound to a key: valid proofs, and all kinds of invalid ones.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gladhand_auth::resource::Dpop;
use http::{HeaderMap, HeaderValue, header};
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use ring::digest;
use serde_json::{Value, json};

use crate::{Fixture, METADATA, RESOURCE, but, claims, head, now, sign_symmetrically};

/// The owner of a token, with the key that the token is bound to.
struct Owner {
    algorithm: Algorithm,
    key: EncodingKey,
    public: Jwk,
    token: String,
}

impl Owner {
    /// An owner with a token from the issuer of the fixture.
    fn of(fixture: &Fixture, algorithm: Algorithm) -> Self {
        // Another fixture provides a key that the issuer does not know.
        let (_, key) = Fixture::new().keys.into_iter().find(|(one, _)| *one == algorithm).expect("a key of this kind");
        let mut public = Jwk::from_encoding_key(&key, algorithm).expect("a public half");
        public.common.key_algorithm = None;
        let thumbprint = public.thumbprint(ThumbprintHash::SHA256).expect("a thumbprint");
        let token = fixture.sign(Algorithm::ES256, &but("cnf", json!({"jkt": thumbprint})));
        Self { algorithm, key, public, token }
    }

    fn claims(&self, id: &str) -> Value {
        let hash = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, self.token.as_bytes()));
        json!({"jti": id, "htm": "POST", "htu": RESOURCE, "iat": now(), "ath": hash})
    }

    fn header(&self) -> Header {
        let mut header = Header::new(self.algorithm);
        (header.typ, header.jwk) = (Some("dpop+jwt".to_owned()), Some(self.public.clone()));
        header
    }

    fn prove(&self, claims: &Value) -> String {
        encode(&self.header(), claims, &self.key).expect("a valid key")
    }

    /// The headers of a request with a proof.
    fn headers(&self, proof: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value(&format!("DPoP {}", self.token)));
        headers.insert("dpop", value(proof));
        headers
    }
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("a valid header")
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

#[tokio::test]
async fn a_bound_token_is_accepted_with_a_proof_of_every_kind() {
    let fixture = Fixture::new();
    for algorithm in [Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS256] {
        let owner = Owner::of(&fixture, algorithm);
        let headers = owner.headers(&owner.prove(&owner.claims("one")));
        let name = fixture.check_headers(&headers, None).await;
        assert_eq!(name.as_deref(), Ok("https://as.example ann"), "{algorithm:?}");
    }
}

#[tokio::test]
async fn a_proof_is_valid_for_one_request() {
    let fixture = Fixture::new();
    let owner = Owner::of(&fixture, Algorithm::ES256);
    let headers = owner.headers(&owner.prove(&owner.claims("one")));
    assert!(fixture.check_headers(&headers, None).await.is_ok());
    let (status, challenge) = fixture.check_headers(&headers, None).await.unwrap_err();
    assert_eq!(status, 401);
    let expected = format!(
        r#"DPoP error="invalid_dpop_proof", error_description="the proof was already used", scope="use", resource_metadata="{METADATA}", algs="ES256 ES384 EdDSA RS256 PS256""#
    );
    assert_eq!(challenge, expected);
    // The paths of the older transport are ours too, and a query is ignored.
    let get = with(with(owner.claims("two"), "htm", json!("GET")), "htu", json!("https://mcp.example/sse"));
    let request = head("GET", "/sse?x=1", &owner.headers(&owner.prove(&get)));
    assert!(fixture.check_head(&request, None).await.is_ok());
}

#[tokio::test]
async fn a_proof_for_one_address_is_not_valid_at_another() {
    let fixture = Fixture::new();
    let owner = Owner::of(&fixture, Algorithm::ES256);
    for (number, path) in ["/session", "/send", "/messages", "/mcp/", "/"].into_iter().enumerate() {
        let headers = owner.headers(&owner.prove(&owner.claims(&number.to_string())));
        let (status, challenge) = fixture.check_head(&head("POST", path, &headers), None).await.unwrap_err();
        assert!(status == 401 && challenge.contains("the proof is made for another address"), "{path}: {challenge}");
    }
}

#[tokio::test]
async fn a_proof_for_the_published_address_is_valid_at_the_endpoint_behind_a_proxy() {
    let fixture = Fixture::new();
    let owner = Owner::of(&fixture, Algorithm::ES256);
    let headers = owner.headers(&owner.prove(&owner.claims("one")));
    assert!(fixture.check_head(&head("POST", "/behind-a-proxy", &headers), None).await.is_ok());
}

#[tokio::test]
async fn proofs_for_something_else_are_refused_with_the_reason() {
    let fixture = Fixture::new();
    let owner = Owner::of(&fixture, Algorithm::ES256);
    let other = Owner::of(&fixture, Algorithm::ES256);
    let good = || owner.claims("x");
    let kind = |change: &dyn Fn(&mut Header)| {
        let mut header = owner.header();
        change(&mut header);
        encode(&header, &good(), &owner.key).expect("a valid key")
    };
    let symmetric = || {
        let mut header = Header::new(Algorithm::HS256);
        (header.typ, header.jwk) = (Some("dpop+jwt".to_owned()), Some(owner.public.clone()));
        sign_symmetrically(&header, &good())
    };
    let forged = || encode(&owner.header(), &good(), &other.key).expect("a valid key");
    let generous = || {
        let mut header = serde_json::to_value(owner.header()).expect("a header");
        header["jwk"]["d"] = json!("private");
        let proof = owner.prove(&good());
        let (_, rest) = proof.split_once('.').expect("three parts");
        format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header.to_string()))
    };
    let cases = [
        (owner.prove(&with(good(), "htm", json!("GET"))), "the proof is made for another method"),
        (owner.prove(&with(good(), "htu", json!("https://evil.example/mcp"))), "the proof is made for another address"),
        (
            owner.prove(&with(good(), "htu", json!("https://mcp.example/other"))),
            "the proof is made for another address",
        ),
        (owner.prove(&with(good(), "ath", json!("x"))), "the proof is made for another token"),
        (owner.prove(&with(good(), "iat", json!(now() - 120))), "the proof is too old or dated in the future"),
        (owner.prove(&with(good(), "iat", json!(now() + 120))), "the proof is too old or dated in the future"),
        (owner.prove(&with(good(), "iat", json!(u64::MAX))), "the proof is too old or dated in the future"),
        (owner.prove(&with(good(), "jti", json!(""))), "the proof has no usable identifier"),
        (owner.prove(&with(good(), "jti", Value::Null)), "the proof lacks a claim, or its signature is wrong"),
        (forged(), "the proof lacks a claim, or its signature is wrong"),
        (other.prove(&good()), "the token is bound to another key"),
        (kind(&|header| header.typ = Some("JWT".to_owned())), "the proof has an unsupported type or algorithm"),
        (kind(&|header| header.jwk = None), "the proof does not name its key"),
        (generous(), "the proof contains its private key"),
        (symmetric(), "the proof has an unsupported type or algorithm"),
        ("garbage".to_owned(), "the proof cannot be read"),
    ];
    for (proof, why) in cases {
        let (status, challenge) = fixture.check_headers(&owner.headers(&proof), None).await.unwrap_err();
        assert!(
            status == 401 && challenge.contains("invalid_dpop_proof") && challenge.contains(why),
            "{why}: {challenge}"
        );
    }
    let mut without = owner.headers("x");
    without.remove("dpop");
    let mut twice = owner.headers(&owner.prove(&good()));
    twice.append("dpop", value(&owner.prove(&good())));
    for (headers, why) in [(without, "there is no proof of possession"), (twice, "there is more than one proof")] {
        let (_, challenge) = fixture.check_headers(&headers, None).await.unwrap_err();
        assert!(challenge.contains(why), "{challenge}");
    }
    assert!(
        fixture.check_headers(&owner.headers(&owner.prove(&good())), None).await.is_ok(),
        "rejected proofs are not remembered"
    );
}

#[tokio::test]
async fn token_and_scheme_must_match() {
    for (mode, bearer_of_unbound, why_not) in [
        (Dpop::Accepted, true, "it needs a proof of possession"),
        (Dpop::Required, false, "it needs a proof of possession"),
        (Dpop::Off, true, "which is not supported here"),
    ] {
        let fixture = Fixture::with(mode);
        let owner = Owner::of(&fixture, Algorithm::ES256);
        let unbound = fixture.sign(Algorithm::ES256, &claims());
        assert_eq!(fixture.check(&format!("Bearer {unbound}"), None).await.is_ok(), bearer_of_unbound, "{mode:?}");
        // A bound token without a proof could be stolen.
        let (status, challenge) = fixture.check(&format!("Bearer {}", owner.token), None).await.unwrap_err();
        assert!(status == 401 && challenge.contains(why_not), "{mode:?}: {challenge}");
        let with_proof = owner.headers(&owner.prove(&owner.claims("one")));
        assert_eq!(fixture.check_headers(&with_proof, None).await.is_ok(), mode != Dpop::Off, "{mode:?}");
        let mut of_unbound = owner.headers(&owner.prove(&owner.claims("two")));
        of_unbound.insert(header::AUTHORIZATION, value(&format!("DPoP {unbound}")));
        assert!(fixture.check_headers(&of_unbound, None).await.is_err(), "{mode:?}");
        assert!(fixture.check("Bearer known-token", None).await.is_ok(), "{mode:?}");
        assert!(fixture.check("DPoP known-token", None).await.is_err(), "{mode:?}");
        let nobody = fixture.check_headers(&HeaderMap::new(), None).await.unwrap_err().1;
        let scheme = if mode == Dpop::Required { "DPoP " } else { "Bearer " };
        assert!(nobody.starts_with(scheme), "{mode:?}: {nobody}");
        let place = "/.well-known/oauth-protected-resource";
        let document: Value = serde_json::from_str(fixture.guard.metadata(place).unwrap().body()).unwrap();
        assert_eq!(document.get("dpop_signing_alg_values_supported").is_some(), mode != Dpop::Off);
        assert_eq!(document.get("dpop_bound_access_tokens_required").is_some(), mode == Dpop::Required);
    }
}

#[tokio::test]
async fn a_tool_that_needs_more_scope_is_challenged_in_the_same_scheme() {
    let fixture = Fixture::new();
    let owner = Owner::of(&fixture, Algorithm::ES256);
    let headers = owner.headers(&owner.prove(&owner.claims("one")));
    let (status, challenge) = fixture.check_headers(&headers, Some("erase")).await.unwrap_err();
    assert!(status == 403 && challenge.starts_with(r#"DPoP error="insufficient_scope""#), "{challenge}");
    assert!(challenge.contains(r#"scope="use admin""#), "{challenge}");
}
