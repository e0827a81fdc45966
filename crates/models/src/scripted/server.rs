//! The scripted HTTP server on the loopback address. It runs as long as its handle exists.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::stream;
use gladhand_core::sync::Unpoisoned as _;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::script::{Content, Reply, Script, Step, has};

/// The path prefix under which other processes open gates and read the recorded requests.
const CONTROL: &str = "/_scripted/";

/// A running provider. It stops when this value is dropped.
#[derive(Debug)]
pub struct ScriptedProvider {
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
    _end: DropGuard,
}

/// A request that the provider received.
#[derive(Debug, Clone, Serialize)]
pub struct RecordedRequest {
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body: JSON if it parses, otherwise text; null if there is none.
    pub body: Value,
}

type Body = UnsyncBoxBody<Bytes, io::Error>;

#[derive(Debug)]
struct Shared {
    origin: String,
    routes: Mutex<HashMap<String, Vec<Queue>>>,
    requests: watch::Sender<Vec<RecordedRequest>>,
    open: watch::Sender<HashSet<String>>,
    /// How many replies the client dropped before their end.
    abandoned: watch::Sender<usize>,
}

/// The replies of a route.
#[derive(Debug)]
struct Queue {
    method: Option<String>,
    replies: VecDeque<Reply>,
    otherwise: Option<Reply>,
}

impl ScriptedProvider {
    /// Starts a provider on a free port.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), script).await
    }

    /// Starts a provider at an address.
    pub async fn start_at(address: SocketAddr, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let mut routes: HashMap<String, Vec<Queue>> = HashMap::new();
        for route in script.routes {
            let queue = Queue { method: route.method, replies: route.replies.into(), otherwise: route.otherwise };
            routes.entry(route.path).or_default().push(queue);
        }
        let shared = Arc::new(Shared {
            origin: format!("http://{}", listener.local_addr()?),
            routes: Mutex::new(routes),
            requests: watch::Sender::default(),
            open: watch::Sender::default(),
            abandoned: watch::Sender::default(),
        });
        let end = CancellationToken::new();
        let (served, ended) = (Arc::clone(&shared), end.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = Arc::clone(&served);
                let connection = ended.clone().run_until_cancelled_owned(serve(stream, served));
                tokio::spawn(connection);
            }
        });
        Ok(Self { shared, accepting, _end: end.drop_guard() })
    }

    /// The address of the provider, without a path: `http://127.0.0.1:…`.
    pub fn origin(&self) -> &str {
        &self.shared.origin
    }

    /// Appends a reply to the queue of a path.
    pub fn push(&self, path: &str, reply: Reply) {
        let mut routes = self.shared.routes();
        let queues = routes.entry(path.to_owned()).or_default();
        match queues.last_mut() {
            Some(queue) => queue.replies.push_back(reply),
            None => queues.push(Queue { method: None, replies: VecDeque::from([reply]), otherwise: None }),
        }
    }

    /// Opens a gate. It stays open.
    pub fn release(&self, gate: &str) {
        self.shared.release(gate);
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.borrow().clone()
    }

    /// The requests to a path so far.
    pub fn requests_of(&self, path: &str) -> Vec<RecordedRequest> {
        self.shared.requests.borrow().iter().filter(|request| request.path == path).cloned().collect()
    }

    /// Waits until a path has received this many requests.
    pub async fn wait_for_requests(&self, path: &str, count: usize) {
        let is_enough =
            |requests: &Vec<RecordedRequest>| requests.iter().filter(|request| request.path == path).count() >= count;
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.shared.requests.subscribe().wait_for(is_enough).await;
    }

    /// Waits until the client has dropped this many replies before their end.
    pub async fn abandoned(&self, count: usize) {
        let _ = self.shared.abandoned.subscribe().wait_for(|abandoned| *abandoned >= count).await;
    }
}

impl Drop for ScriptedProvider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn routes(&self) -> MutexGuard<'_, HashMap<String, Vec<Queue>>> {
        self.routes.lock().unpoisoned()
    }

    fn release(&self, gate: &str) {
        self.open.send_if_modified(|open| open.insert(gate.to_owned()));
    }

    async fn wait_at(&self, gate: &str) {
        let _ = self.open.subscribe().wait_for(|open| open.contains(gate)).await;
    }

    /// The next reply to a request.
    fn next(&self, request: &RecordedRequest) -> Reply {
        let mut routes = self.routes();
        let queues = routes.get_mut(&request.path).into_iter().flatten();
        let mut queues = queues.filter(|queue| queue.method.as_ref().is_none_or(|method| *method == request.method));
        let reply = queues.next().and_then(|queue| queue.replies.pop_front().or_else(|| queue.otherwise.clone()));
        match reply {
            None => Reply::text(format!("no scripted response for {}", request.path)).with_status(500),
            Some(reply) => match &reply.expect {
                Some(wanted) if !has(&request.body, wanted) => {
                    Reply::text(format!("the request does not have {wanted}")).with_status(500)
                }
                _ => reply,
            },
        }
    }

    /// Answers a control request from another process.
    fn control(&self, path: &str) -> Response<Body> {
        let (status, text) = match path.split_once('/') {
            Some(("release", gate)) => {
                self.release(gate);
                (StatusCode::OK, String::new())
            }
            None if path == "requests" => {
                let requests = serde_json::to_string(&*self.requests.borrow()).expect("a request can be serialized");
                (StatusCode::OK, requests)
            }
            _ => (StatusCode::NOT_FOUND, String::new()),
        };
        let mut response = Response::new(whole(text));
        *response.status_mut() = status;
        response
    }
}

/// Counts a reply that is dropped before its end.
struct Unfinished(Option<Arc<Shared>>);

impl Unfinished {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.abandoned.send_modify(|abandoned| *abandoned += 1);
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    // Each event must be sent immediately.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
    // Scripts break connections on purpose, so errors are ignored.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    if let Some(path) = head.uri.path().strip_prefix(CONTROL) {
        return Ok(shared.control(path));
    }
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let request = RecordedRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        headers: head.headers.iter().map(header).collect(),
        body: match serde_json::from_slice(&body) {
            Ok(document) => document,
            Err(_) if body.is_empty() => Value::Null,
            Err(_) => Value::String(String::from_utf8_lossy(&body).into_owned()),
        },
    };
    let reply = shared.next(&request);
    shared.requests.send_modify(|all| all.push(request));
    let unfinished = Unfinished(Some(Arc::clone(&shared)));
    if let Some(gate) = &reply.gate {
        shared.wait_at(gate).await;
    }
    if reply.stall {
        std::future::pending::<()>().await;
    }
    if reply.cut {
        unfinished.finish();
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    let (kind, body) = match reply.content(&shared.origin) {
        Content::Whole { kind, text } => {
            unfinished.finish();
            (kind, whole(text))
        }
        Content::Steps(steps) => ("text/event-stream", in_steps(shared, unfinished, steps)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.status.unwrap_or(200)).map_err(io::Error::other)?;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in &reply.headers {
        let name = HeaderName::try_from(name).map_err(io::Error::other)?;
        response.headers_mut().insert(name, HeaderValue::from_str(value).map_err(io::Error::other)?);
    }
    Ok(response)
}

fn whole(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

fn in_steps(shared: Arc<Shared>, unfinished: Unfinished, steps: Vec<Step>) -> Body {
    let state = Some((shared, unfinished, VecDeque::from(steps)));
    let frames = stream::unfold(state, async |state| {
        let (shared, unfinished, mut steps) = state?;
        loop {
            match steps.pop_front() {
                Some(Step::Send(text)) => {
                    return Some((Ok(Frame::data(Bytes::from(text))), Some((shared, unfinished, steps))));
                }
                Some(Step::Gate(gate)) => shared.wait_at(&gate).await,
                Some(Step::Pause(time)) => tokio::time::sleep(time).await,
                Some(Step::Stall) => std::future::pending().await,
                Some(Step::Cut) => {
                    // Yields once, so that the events before the break are sent.
                    tokio::task::yield_now().await;
                    unfinished.finish();
                    return Some((Err(io::ErrorKind::ConnectionAborted.into()), None));
                }
                None => {
                    unfinished.finish();
                    return None;
                }
            }
        }
    });
    StreamBody::new(frames).boxed_unsync()
}
