//! Reads the body of a response, up to a size limit.

use std::fmt;

use reqwest::Response;

/// Why a body could not be read.
#[derive(Debug)]
pub enum BodyError {
    /// The body has more bytes than the limit.
    TooLarge,
    /// The connection failed.
    Failed(reqwest::Error),
}

/// Reads a body of at most `max_bytes`.
pub async fn read_body(response: &mut Response, max_bytes: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(BodyError::Failed)? {
        if body.len() + chunk.len() > max_bytes {
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("the response is too large"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BodyError {}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// Serves one response of ten bytes in two chunks, and reads it with this limit.
    async fn read(max_bytes: usize) -> Result<Vec<u8>, BodyError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
            stream.write_all(format!("{head}5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n").as_bytes()).unwrap();
        });
        let client = crate::client_builder().no_proxy().build().unwrap();
        let mut response = client.get(format!("http://{address}/")).send().await.unwrap();
        let body = read_body(&mut response, max_bytes).await;
        server.join().unwrap();
        body
    }

    #[tokio::test]
    async fn a_body_beyond_the_limit_is_refused() {
        assert_eq!(read(10).await.unwrap(), b"helloworld");
        assert!(matches!(read(9).await, Err(BodyError::TooLarge)));
    }
}
