//! Tests of keys from a file, from an address and from an issuer's metadata; with real sockets for addresses.

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonwebtoken::EncodingKey;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::signatures::install_signatures;

fn public(id: &str) -> Value {
    install_signatures();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let mut jwk = Jwk::from_encoding_key(&EncodingKey::from_ec_der(document.as_ref()), Algorithm::ES256).unwrap();
    jwk.common.key_id = Some(id.to_owned());
    serde_json::to_value(jwk).unwrap()
}

async fn knows(keys: &Keys, id: &str) -> bool {
    let suits = |key: &Key| key.suits(Some(id), Algorithm::ES256);
    keys.get(suits).await.is_some_and(|set| set.iter().any(suits))
}

/// Whether the result is undecided because the keys are unknown.
async fn is_undecided(keys: &Keys, id: &str) -> bool {
    keys.get(|key| key.suits(Some(id), Algorithm::ES256)).await.is_none()
}

/// Lets time pass, so that the keys may be fetched again.
fn a_pause_passes(keys: &Keys) {
    keys.state().tried = Instant::now().checked_sub(PAUSE);
}

/// An issuer that publishes its metadata and its keys.
struct Server {
    issuer: String,
    published: Arc<Mutex<Published>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Published {
    keys: Vec<Value>,
    /// The requested paths.
    log: Vec<String>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let issuer = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let published = Arc::<Mutex<Published>>::default();
        let (served, base) = (Arc::clone(&published), issuer.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service_fn(|request: Request<Incoming>| {
                    let answer =
                        answer(&mut served.lock().expect("no holder of this lock panics"), &base, request.uri().path());
                    std::future::ready(Ok::<_, Infallible>(answer))
                });
                // One request per connection, so that no connection is left when the server stops.
                let mut connection = hyper::server::conn::http1::Builder::new();
                let _ = connection.keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
            }
        });
        Self { issuer, published, task }
    }

    fn publish(&self, ids: &[&str]) {
        self.published.lock().expect("no holder of this lock panics").keys = ids.iter().map(|id| public(id)).collect();
    }

    /// How often the keys were requested.
    fn count(&self) -> usize {
        self.published.lock().expect("no holder of this lock panics").log.iter().filter(|path| *path == "/keys").count()
    }

    /// Stops the server.
    async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// The keys from both sources on this server.
    fn both(&self) -> [Keys; 2] {
        let url = Url::parse(&format!("{}/keys", self.issuer)).expect("an address");
        [KeySource::Url(url), KeySource::Metadata]
            .map(|source| Keys::new(&self.issuer, source).expect("valid addresses"))
    }
}

fn answer(published: &mut Published, issuer: &str, path: &str) -> Response<Full<Bytes>> {
    published.log.push(path.to_owned());
    let document = match path {
        "/.well-known/oauth-authorization-server" => json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}),
        "/keys" => json!({"keys": published.keys}),
        _ => return Response::builder().status(404).body(Full::default()).expect("a response"),
    };
    Response::new(Full::from(document.to_string()))
}

#[tokio::test]
async fn a_new_key_is_fetched_once_and_made_up_key_ids_cause_no_fetch() {
    let server = Server::start().await;
    for keys in server.both() {
        let before = server.count();
        server.publish(&["one"]);
        assert!(knows(&keys, "one").await && knows(&keys, "one").await);
        assert_eq!(server.count(), before + 1, "a known key is not fetched");
        server.publish(&["one", "two"]);
        a_pause_passes(&keys);
        let at_once = tokio::join!(knows(&keys, "two"), knows(&keys, "two"), knows(&keys, "two"));
        assert_eq!((at_once, server.count()), ((true, true, true), before + 2));
        for number in 0..20 {
            let made_up = format!("made-up-{number}");
            assert!(!knows(&keys, &made_up).await && !is_undecided(&keys, &made_up).await);
        }
        assert_eq!(server.count(), before + 2, "no fetch right after another");
    }
}

#[tokio::test]
async fn known_keys_stay_valid_while_the_issuer_is_unavailable() {
    let server = Server::start().await;
    server.publish(&["one"]);
    let [by_url, by_metadata] = server.both();
    assert!(knows(&by_url, "one").await && knows(&by_metadata, "one").await);
    server.stop().await;
    for keys in [by_url, by_metadata] {
        a_pause_passes(&keys);
        keys.state().fetched = Instant::now().checked_sub(FRESH);
        assert!(knows(&keys, "one").await);
        assert!(is_undecided(&keys, "two").await, "an unknown key may be new, and the issuer is unavailable");
        assert!(knows(&keys, "one").await);
    }
}

#[tokio::test]
async fn without_keys_no_token_is_accepted() {
    let server = Server::start().await;
    let both = server.both();
    server.stop().await;
    for keys in both {
        assert!(is_undecided(&keys, "one").await && is_undecided(&keys, "one").await);
    }
}

#[tokio::test]
async fn a_new_key_is_fetched_at_most_once_per_pause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let keys = Keys::new("https://as.example", KeySource::File(path.clone())).unwrap();
    assert!(!knows(&keys, "one").await, "the file does not exist yet");
    fs_err::write(&path, json!({"keys": [public("one")]}).to_string()).unwrap();
    assert!(!knows(&keys, "one").await, "no fetch right after another");

    a_pause_passes(&keys);
    assert!(knows(&keys, "one").await);
    fs_err::write(&path, json!({"keys": [public("two")]}).to_string()).unwrap();
    assert!(!knows(&keys, "two").await && knows(&keys, "one").await, "no fetch right after another");
    a_pause_passes(&keys);
    assert!(knows(&keys, "one").await, "a known key needs no fetch");
    assert!(knows(&keys, "two").await && !knows(&keys, "one").await);

    fs_err::remove_file(&path).unwrap();
    a_pause_passes(&keys);
    keys.state().fetched = Instant::now().checked_sub(FRESH);
    assert!(knows(&keys, "two").await, "old keys stay while the issuer is unavailable");
}

#[test]
fn unusable_keys_of_a_set_are_skipped() {
    let secret = json!({"kty": "oct", "k": "aGVsbG8", "kid": "secret", "alg": "HS256"});
    let mut sealing = public("sealing");
    sealing["use"] = json!("enc");
    let mut other = public("other");
    other["alg"] = json!("ES384");
    let read = readable(vec![json!(7), json!({"kty": "new"}), secret, sealing, other, public("good")]);
    let ids: Vec<_> = read.iter().map(|key| (key.id.as_deref(), key.algorithms.as_slice())).collect();
    assert_eq!(ids, [(Some("good"), &[Algorithm::ES256][..])]);
}
