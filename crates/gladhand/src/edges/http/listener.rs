//! Sockets: bound, accepted from, and served connection by connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::address::Address;
use super::crew::{Crew, Seat};
use super::endpoint::Endpoint;
use super::patience::{Patience, Patient, Untimed};
use super::served::Line;
use super::who::Visitor;

/// How large the head of a request may be, and how much of a response waits to be written.
const HEAD_BYTES: usize = 64 * 1024;

/// How long a client may take to agree on encryption.
const TLS_GRACE: Duration = Duration::from_secs(10);

/// How long a client may take nothing of what it is sent.
const WRITE_GRACE: Duration = Duration::from_secs(30);

/// How long to wait when there is no room for another socket.
const OUT_OF_SOCKETS: Duration = Duration::from_millis(100);

/// A bound socket.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, SocketFile),
}

/// A socket in the file system. It goes when we go.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody else may have tidied up.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    pub(super) async fn bind(address: &Address) -> io::Result<Self> {
        let with_address = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        match address {
            Address::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp).map_err(with_address),
            #[cfg(unix)]
            Address::Unix(path) => {
                use std::os::unix::fs::{FileTypeExt, PermissionsExt};
                // What a server that was killed left behind is in the way; what a living one listens on is not ours.
                let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
                if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
                    fs_err::remove_file(path)?;
                }
                let listener = UnixListener::bind(path).map_err(with_address)?;
                let file = SocketFile(path.clone());
                fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                Ok(Self::Unix(listener, file))
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(with_address(io::ErrorKind::Unsupported.into())),
        }
    }

    /// The address that it is really bound to.
    pub(super) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Some),
            #[cfg(unix)]
            Self::Unix(..) => Ok(None),
        }
    }

    /// Where clients find what is at a path.
    pub(super) fn url(&self, tls: bool, path: &str) -> io::Result<String> {
        let scheme = if tls { "https" } else { "http" };
        match self {
            Self::Tcp(listener) => Ok(format!("{scheme}://{}{path}", listener.local_addr()?)),
            #[cfg(unix)]
            Self::Unix(_, SocketFile(path)) => Ok(format!("unix:{}", path.display())),
        }
    }

    /// Accepts and serves connections until it is told to stop.
    pub(super) async fn serve(self, floor: Floor) {
        loop {
            let Ok(seat) = Arc::clone(&floor.seats).acquire_owned().await else { return };
            let accepted = tokio::select! {
                biased;
                () = floor.stopping.cancelled() => return,
                accepted = self.accept() => accepted,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(OUT_OF_SOCKETS).await;
                    continue;
                }
            };
            let (floor_of_one, place) = (floor.clone(), floor.crew.seat());
            let runtime = place.runtime().cloned();
            let connection = async move {
                if let Err(error) = floor_of_one.greet(stream, place).await {
                    tracing::debug!(%error, "a connection could not be served");
                }
                drop(seat);
            };
            match runtime {
                Some(runtime) => floor.connections.spawn_on(connection, &runtime),
                None => floor.connections.spawn(connection),
            };
        }
    }

    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // An answer must not wait for the acknowledgement of what went before it.
                stream.set_nodelay(true)?;
                Ok(Accepted::Tcp(stream.into_std()?, address.ip()))
            }
            #[cfg(unix)]
            Self::Unix(listener, _) => Ok(Accepted::Unix(listener.accept().await?.0.into_std()?)),
        }
    }
}

/// A new connection, which belongs to no thread yet.
enum Accepted {
    Tcp(std::net::TcpStream, IpAddr),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

/// What connections need.
#[derive(Debug, Clone)]
pub(super) struct Floor {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// One for each connection that may be open.
    pub(super) seats: Arc<Semaphore>,
    pub(super) crew: Arc<Crew>,
    pub(super) connections: TaskTracker,
    pub(super) stopping: CancellationToken,
}

impl Floor {
    async fn greet(&self, stream: Accepted, place: Seat) -> io::Result<()> {
        let visitor = |address| Visitor::new(address, &self.endpoint.secret);
        match (stream, &self.tls) {
            (Accepted::Tcp(stream, address), None) => {
                self.serve(TcpStream::from_std(stream)?, visitor(Some(address)), place).await;
            }
            (Accepted::Tcp(stream, address), Some(tls)) => {
                let agreed = TlsAcceptor::from(Arc::clone(tls)).accept(TcpStream::from_std(stream)?);
                match tokio::time::timeout(TLS_GRACE, agreed).await {
                    Ok(Ok(stream)) => Box::pin(self.serve(stream, visitor(Some(address)), place)).await,
                    Ok(Err(error)) => tracing::debug!(%error, "no encrypted connection"),
                    Err(_) => tracing::debug!("a client took too long to agree on encryption"),
                }
            }
            // Only who may open the file gets here, so there is nothing that encryption would add.
            #[cfg(unix)]
            (Accepted::Unix(stream), _) => {
                self.serve(UnixStream::from_std(stream)?, visitor(None), place).await;
            }
        }
        Ok(())
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, visitor: Visitor, place: Seat) {
        let line = Arc::<Line>::default();
        let service = service_fn(|request| self.endpoint.answer(request, visitor, Arc::clone(&line)));
        let head = Duration::from_millis(self.endpoint.shared.config.head_ms);
        let stream = Patient::new(stream, Patience { head, write: WRITE_GRACE }, Arc::clone(&line), place);
        let connection = http1::Builder::new()
            .timer(Untimed)
            .header_read_timeout(head)
            .max_buf_size(HEAD_BYTES)
            // The stream itself looks whether somebody is there: see `Patient`.
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = self.stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended");
        }
    }
}
