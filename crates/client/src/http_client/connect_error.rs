//! Describes why a server could not be reached.

use std::error::Error;
use std::io::ErrorKind;

use url::Url;

/// Names the address and the cause: connection refused, timeout, name resolution or TLS.
pub(super) fn connect_error(url: &Url, error: &reqwest::Error) -> Box<str> {
    let host = url.host_str().unwrap_or_default();
    let place = match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let mut causes: Vec<&(dyn Error + 'static)> = vec![error];
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause);
        next = cause.source();
    }
    let kind = causes.iter().find_map(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    let deepest = causes.last().map(ToString::to_string).unwrap_or_default();
    let why = match kind {
        _ if causes.iter().any(|cause| cause.to_string() == "dns error") => {
            format!("the name {host} could not be looked up ({deepest})")
        }
        Some(ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        _ if error.is_timeout() => "timed out".to_owned(),
        Some(ErrorKind::TimedOut) => "timed out".to_owned(),
        // TCP succeeded, so the TLS handshake failed.
        _ if url.scheme() == "https" && !causes.iter().any(|cause| cause.to_string() == "tcp connect error") => {
            format!("TLS: {deepest}")
        }
        _ => deepest,
    };
    format!("no connection to {place}: {why}").into()
}
