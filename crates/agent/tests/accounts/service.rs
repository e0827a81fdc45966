//! A scripted service on loopback that records its requests.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The service. It stops when it is dropped.
pub(crate) struct Service {
    base: String,
    script: Arc<Mutex<Script>>,
    _server: JoinSet<()>,
}

#[derive(Default)]
struct Script {
    answers: HashMap<String, VecDeque<(u16, String)>>,
    seen: Vec<Seen>,
    gates: HashMap<String, Gate>,
}

/// Holds responses back.
#[derive(Clone)]
pub(crate) struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    /// Waits until a request has arrived.
    pub(crate) async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Releases one response.
    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }
}

/// A recorded request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    /// A value of the form in the request.
    pub(crate) fn form(&self, name: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(self.body.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// A request header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::<Mutex<Script>>::default();
        let mut server = JoinSet::new();
        let shared = script.clone();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let script = shared.clone();
                let answer = hyper::service::service_fn(move |request| answer(script.clone(), request));
                connections.spawn(async move {
                    let _ =
                        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { base, script, _server: server }
    }

    /// An address of the service.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Adds a response for a path. Responses are used in order, and the last one is repeated.
    pub(crate) fn says(&self, path: &str, status: u16, body: impl ToString) -> &Self {
        let mut script = self.script.lock().unwrap();
        script.answers.entry(path.to_owned()).or_default().push_back((status, body.to_string()));
        drop(script);
        self
    }

    /// Adds a JSON response for a path.
    pub(crate) fn has(&self, path: &str, document: Value) -> &Self {
        self.says(path, 200, document)
    }

    /// Removes the responses of a path.
    pub(crate) fn drops(&self, path: &str) -> &Self {
        self.script.lock().unwrap().answers.remove(path);
        self
    }

    /// Holds back the responses of a path.
    pub(crate) fn holds(&self, path: &str) -> Gate {
        let closed = || Arc::new(Semaphore::new(0));
        let gate = Gate { reached: closed(), open: closed() };
        self.script.lock().unwrap().gates.insert(path.to_owned(), gate.clone());
        gate
    }

    /// The requests to a path, in order.
    pub(crate) fn seen(&self, path: &str) -> Vec<Seen> {
        self.script.lock().unwrap().seen.iter().filter(|seen| seen.path == path).cloned().collect()
    }
}

async fn answer(script: Arc<Mutex<Script>>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let path = head.uri.path().to_owned();
    let gate = script.lock().unwrap().gates.get(&path).cloned();
    if let Some(gate) = gate {
        gate.reached.add_permits(1);
        gate.open.acquire().await.unwrap().forget();
    }
    let mut script = script.lock().unwrap();
    let (status, text) = match script.answers.get_mut(&path) {
        Some(answers) if answers.len() > 1 => answers.pop_front().unwrap_or_default(),
        Some(answers) => answers.front().cloned().unwrap_or_default(),
        None => (404, "nobody told me".to_owned()),
    };
    let body = String::from_utf8_lossy(&body).into_owned();
    script.seen.push(Seen { path, headers: head.headers, body });
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    Ok(response)
}
