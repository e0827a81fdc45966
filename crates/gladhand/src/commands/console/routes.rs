//! The routes of a console: the page, its data as JSON, and one stream of events.
//!
//! ```text
//! GET  /console                     the page
//! GET  /console/FILE                its files
//! GET  /console/events              what happens, as events
//! GET  /console/data/overview       sessions, calls, upstreams
//! GET  /console/data/session?id=ID  the messages of a session
//! GET  /console/data/agreement?id=  what its two sides agreed
//! GET  /console/data/call?id=ID     the path of a call
//! GET  /console/data/dialects       dialects, versions and capabilities
//! GET  /console/data/pins           definitions that wait to be approved
//! POST /console/data/open           the opening that two offers lead to
//! POST /console/data/approve        approves a definition, only behind the token
//! GET  /console/export?id=&as=      a session as a file
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gladhand_server::http::{RouteAccess, SideBody, SideOrigin, SideResponse, SideRoutes};
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, SET_COOKIE,
    WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Console;
use super::access::ConsoleRefusal;
use super::files::PageFile;

/// How long events are collected before they are sent.
const BATCH_TIME: Duration = Duration::from_millis(100);

/// How often the status of the upstreams is compared with the one that was sent last.
const STATUS_TIME: Duration = Duration::from_secs(1);

/// Longest body of a request, in bytes.
const MAX_BODY: usize = 64 * 1024;

/// The headers of every response. The page may load and reach only its own server, and no page may contain it.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        HeaderName::from_static("content-security-policy"),
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             media-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'; trusted-types 'none'",
        ),
    ),
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// The message for a request without the token.
const NO_TOKEN: &str = "this page needs its token: open the address that gladhand printed when it started\n";

/// The message for a request of a page of another origin.
const OTHER_ORIGIN: &str = "a page of another origin may not use the console\n";

impl SideRoutes for Console {
    fn access(&self, path: &str) -> Option<RouteAccess> {
        (path == "/console" || path.starts_with("/console/")).then_some(RouteAccess::Own)
    }

    fn respond<'a>(&'a self, request: Request<Bytes>, _: SideOrigin) -> SideResponse<'a> {
        Box::pin(async move {
            let mut response = match self.answer(&request) {
                RouteAnswer::Now(response) => response,
                // The disk may be slow, and this thread serves sessions.
                RouteAnswer::FromDisk(work) => tokio::task::spawn_blocking(work)
                    .await
                    .unwrap_or_else(|_| refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal failure")),
            };
            for (name, value) in HEADERS {
                response.headers_mut().insert(name, value);
            }
            response
        })
    }
}

/// An answer to a request.
enum RouteAnswer {
    Now(Response<SideBody>),
    /// Work that reads or writes files.
    FromDisk(Box<dyn FnOnce() -> Response<SideBody> + Send>),
}

impl Console {
    fn answer(&self, request: &Request<Bytes>) -> RouteAnswer {
        match self.admit(request) {
            Ok((path, cookie)) => match path {
                "data/pins" => self.list_pins(),
                "data/approve" => self.approve(request.body()),
                path => RouteAnswer::Now(self.answer_at_once(path, request, cookie)),
            },
            Err(refusal) => RouteAnswer::Now(*refusal),
        }
    }

    /// Checks the token and the method. Returns the path below `/console/`, and the cookie for later requests.
    fn admit<'r>(
        &self,
        request: &'r Request<Bytes>,
    ) -> Result<(&'r str, Option<HeaderValue>), Box<Response<SideBody>>> {
        let admitted = match self.access.admit(request.headers(), request.uri()) {
            Ok(admitted) => admitted,
            Err(ConsoleRefusal::Origin) => return Err(Box::new(text(StatusCode::FORBIDDEN, OTHER_ORIGIN))),
            Err(ConsoleRefusal::Token) => {
                self.tell_token();
                let mut response = text(StatusCode::UNAUTHORIZED, NO_TOKEN);
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                return Err(Box::new(response));
            }
        };
        let path = request.uri().path();
        let path = path.strip_prefix("/console").unwrap_or(path);
        let path = path.strip_prefix('/').unwrap_or(path);
        let method = if ["data/open", "data/approve"].contains(&path) { Method::POST } else { Method::GET };
        if *request.method() != method {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "the method is not allowed here\n");
            let allowed = if method == Method::GET { "GET" } else { "POST" };
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return Err(Box::new(response));
        }
        Ok((path, admitted.cookie))
    }

    fn answer_at_once(&self, path: &str, request: &Request<Bytes>, cookie: Option<HeaderValue>) -> Response<SideBody> {
        let query = |name| parameter(request.uri().query(), name);
        let found = match path {
            "events" => return self.events(),
            "export" => return self.export(&query("id"), &query("as")),
            "data/overview" => Some(self.overview()),
            "data/dialects" => Some(super::dialects::all()),
            "data/session" => self.session(&query("id")),
            "data/agreement" => self.agreement(&query("id")),
            "data/call" => self.call(&query("id")),
            "data/open" => return open(request.body()),
            _ => return file(path, cookie),
        };
        match found {
            Some(value) => respond(StatusCode::OK, JSON, value.to_string().into()),
            None => refuse(StatusCode::NOT_FOUND, "it is not kept any more"),
        }
    }

    fn list_pins(&self) -> RouteAnswer {
        let Some(pins) = self.live.as_ref().and_then(|live| live.pins.clone()) else {
            return RouteAnswer::Now(respond(StatusCode::OK, JSON, "[]".into()));
        };
        RouteAnswer::FromDisk(Box::new(move || match pins.waiting() {
            Ok(waiting) => respond(StatusCode::OK, JSON, waiting.to_string().into()),
            Err(why) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &why),
        }))
    }

    fn approve(&self, body: &Bytes) -> RouteAnswer {
        if !self.access.needs_token() {
            let why = "a console without a token approves nothing: use `gladhand policy approve`";
            return RouteAnswer::Now(refuse(StatusCode::FORBIDDEN, why));
        }
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let pins = self.live.as_ref().and_then(|live| live.pins.clone());
        let (Some(key), Some(sha256), Some(pins)) = (request["key"].as_str(), request["sha256"].as_str(), pins) else {
            return RouteAnswer::Now(refuse(StatusCode::BAD_REQUEST, "the request names no definition"));
        };
        let (key, sha256) = (key.to_owned(), sha256.to_owned());
        RouteAnswer::FromDisk(Box::new(move || match pins.approve(&key, &sha256) {
            Ok(()) => respond(StatusCode::OK, JSON, "{}".into()),
            Err(why) => refuse(StatusCode::CONFLICT, &why),
        }))
    }

    /// The stream of events. It has a task of its own, which ends with its reader.
    fn events(&self) -> Response<SideBody> {
        let Some(mut reader) = self.events.reader() else {
            let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, "too many pages of this console are open");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
            return response;
        };
        let (sender, receiver) = mpsc::channel(1);
        let (live, access) = (self.live.clone(), Arc::clone(&self.access));
        let had_token = access.needs_token();
        tokio::spawn(async move {
            let mut sent = String::new();
            let mut status_due = tokio::time::interval(STATUS_TIME);
            // The first event tells the page that the stream is open.
            let mut out = String::from("retry: 2000\n\ndata: []\n\n");
            loop {
                if !out.is_empty() && sender.send(std::mem::take(&mut out).into()).await.is_err() {
                    return;
                }
                tokio::select! {
                    () = sender.closed() => return,
                    () = reader.ready() => tokio::time::sleep(BATCH_TIME).await,
                    _ = status_due.tick() => {
                        // An authorization that was added meanwhile closes pages that have no token.
                        if access.needs_token() != had_token {
                            return;
                        }
                        let status = live.as_ref().map(|live| live.status().to_string()).unwrap_or_default();
                        if status != sent {
                            out.push_str(&format!("data: [{{\"t\":\"status\",\"status\":{status}}}]\n\n"));
                            sent = status;
                        }
                    }
                }
                let batch = reader.read();
                if batch.lost > 0 {
                    out.push_str(&format!("data: [{{\"t\":\"lost\",\"events\":{}}}]\n\n", batch.lost));
                }
                if !batch.is_empty {
                    out.push_str(&format!("data: {}\n\n", batch.json));
                }
            }
        });
        let mut response = Response::new(SideBody::Stream(receiver));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response
    }

    fn export(&self, id: &str, form: &str) -> Response<SideBody> {
        let (body, media_type, extension) = match form {
            "recording" => (self.exported(id, super::export::recording), "application/jsonl", "jsonl"),
            "html" => (self.exported(id, super::export::page), "text/html; charset=utf-8", "html"),
            _ => return refuse(StatusCode::BAD_REQUEST, "`as` is `recording` or `html`"),
        };
        let Some(body) = body else { return refuse(StatusCode::NOT_FOUND, "the session is not kept any more") };
        let mut response = respond(StatusCode::OK, media_type, body.into());
        let name: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
        if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}.{extension}\"")) {
            response.headers_mut().insert(CONTENT_DISPOSITION, value);
        }
        response
    }
}

/// The opening that two offers lead to.
fn open(body: &Bytes) -> Response<SideBody> {
    if body.len() > MAX_BODY {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the offers are too large");
    }
    let Ok(request) = serde_json::from_slice::<Value>(body) else {
        return refuse(StatusCode::BAD_REQUEST, "the offers are no JSON");
    };
    match super::reenact::OfferPair::of_request(&request) {
        Ok(scene) => respond(StatusCode::OK, JSON, scene.run().to_json().to_string().into()),
        Err(why) => refuse(StatusCode::BAD_REQUEST, why),
    }
}

fn file(path: &str, cookie: Option<HeaderValue>) -> Response<SideBody> {
    let Some(file) = PageFile::find(path) else {
        return text(StatusCode::NOT_FOUND, "nothing is served at this path\n");
    };
    let mut response = respond(StatusCode::OK, file.media_type, file.body());
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    response
}

fn text(status: StatusCode, body: &'static str) -> Response<SideBody> {
    respond(status, TEXT, Bytes::from_static(body.as_bytes()))
}

fn refuse(status: StatusCode, why: &str) -> Response<SideBody> {
    respond(status, JSON, json!({"error": why}).to_string().into())
}

fn respond(status: StatusCode, media_type: &'static str, body: Bytes) -> Response<SideBody> {
    let mut response = Response::new(SideBody::Whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// A parameter in the query of an address, decoded.
fn parameter(query: Option<&str>, name: &str) -> String {
    let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// A console, as the HTTP server takes it.
pub(super) fn shared(console: &Arc<Console>) -> Arc<dyn SideRoutes> {
    Arc::clone(console) as _
}
